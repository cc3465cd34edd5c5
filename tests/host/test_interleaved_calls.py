"""Accelerators one after another, as programs call them: none leaves anything to the next."""

from __future__ import annotations

import itertools
import random

import dynagate
import numpy as np
from dynagate import Region, evaluate, robots, trace
from dynagate.graph.reference_gradient import relative_errors
from dynagate.host import Results

from tests import tolerances

TURNS = [("two_joint_arm", "forward_dynamics_gradient"), ("hyq", "mass_matrix_inverse")]


def test_accelerators_called_in_turn_leave_nothing_to_each_other() -> None:
    """All layouts, packings, dtypes and numbers of threads, on new, repeated and rewritten arrays, with results others
    wrote last."""
    choose = random.Random(1)
    opened = []
    for (name, function), pack, dtype, layout, threads in itertools.product(
        TURNS, [False, True], [np.float32, np.float64], ["rows", "planes"], [1, 2]
    ):
        options = {"pack": pack, "dtype": dtype, "layout": layout, "threads": threads}
        opened.append((dynagate.compile(robots.load(name), function, **options), name, function, options))
    graphs = {turn: trace(robots.load(turn[0]), turn[1]) for turn in TURNS}
    kept: dict[tuple[object, ...], tuple[dict[str, np.ndarray], object]] = {}
    for turn in range(250):
        accelerator, name, function, options = choose.choice(opened)
        batch = choose.choice([0, 1, 1, 2, 3, 7, 8, 9, 15, 17, 31, 100, 511, 700])
        states = Region.of(robots.load(name)).sample(function, batch or 1, seed=turn)
        key = (name, function, options["pack"], options["dtype"], batch, *([] if batch == 1 else [options["layout"]]))
        inputs, out = kept.get(key, (None, None))
        if inputs is None or choose.random() < 0.3:
            inputs, out = accelerator.new_inputs(batch), None
        for port, value in states.items():
            inputs[port][...] = value[:batch]
        for _ in range(choose.choice([1, 1, 5])):
            out = accelerator(out=out, **inputs)
        kept[key] = inputs, out
        results = accelerator.unpack(out) if options["pack"] else out
        graph = graphs[name, function]
        expected = evaluate(graph, inputs) if batch else {}
        bound = tolerances.FLOAT32 if options["dtype"] is np.float32 else tolerances.SAME_FORMULA
        for port in graph.outputs if batch else ():
            got = getattr(results, port.name)
            assert relative_errors(got, expected[port.name]).max() <= bound, (turn, accelerator, batch, port.name)
            zeros = np.reshape([graph.nodes[i].is_zero for i in port.nodes], port.shape)
            assert not got[:, zeros].any(), (turn, accelerator, batch, port.name)
    for accelerator, *_ in opened:
        accelerator.close()


def test_results_of_another_accelerator_are_cleared_first() -> None:
    """Entries that are always zero are not written by each call, so they must not hold what another one wrote."""
    hyq, numbers = robots.load("hyq"), np.random.default_rng(1)
    with dynagate.compile(hyq, "mass_matrix_inverse") as accelerator:
        inputs = {"q": numbers.uniform(-1.0, 1.0, (20, 12))}
        expected = accelerator(**inputs).minv
        out = Results(minv=numbers.normal(size=(20, 12, 12)))
        for _ in range(5):
            assert np.array_equal(accelerator(out=out, **inputs).minv, expected)
        out = Results(minv=numbers.normal(size=(20, 12, 12)))
        assert np.array_equal(accelerator(out=out, **inputs).minv, expected)
        with dynagate.compile(hyq, "mass_matrix_inverse", device="numpy") as other:
            for _ in range(5):
                other(out=out, **inputs)
                out.minv[...] += 1.0
                assert np.array_equal(accelerator(out=out, **inputs).minv, expected)
