"""The interpreter of blocks computes what compiled C computes, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Graph, Robot, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.graph.graph import new_node
from dynagate.native import instructions as listed
from dynagate.native.interpreted import interpreted_code
from dynagate.native.kernel import TANGLED, Kernel

from tests.all_operations import ALL_OPERATIONS, function
from tests.expressions import traced as formula_of
from tests.mimic_hand import hand
from tests.robots import random_urdf

__all__ = ["function"]


def graphs(folder: Path) -> dict[str, Graph]:
    """Small functions with fixed and floating bases, quaternions, mimic joints, and frames."""
    arm, hyq = robots.load("two_joint_arm"), robots.load("hyq")
    for name, text in (("mimic", hand()), ("random", random_urdf(7))):
        (folder / f"{name}.urdf").write_text(text)
    floating = Robot.from_urdf(robots.path("hyq"), floating_base=True)
    return {
        "arm": trace(arm, "forward_dynamics_gradient"),
        "iiwa14": trace("iiwa14", "inverse_dynamics_gradient"),
        "legs": trace(hyq, "mass_matrix_inverse"),
        "floating": trace(floating, "forward_dynamics"),
        "mimic": trace(Robot.from_urdf(folder / "mimic.urdf"), "forward_dynamics"),
        "random": trace(Robot.from_urdf(folder / "random.urdf"), "inverse_dynamics_gradient"),
        "scan": trace(arm, ["inverse_dynamics", "mass_matrix"]),
    }


NAMES = ("arm", "iiwa14", "legs", "floating", "mimic", "random", "scan")


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    return graphs(tmp_path_factory.mktemp("robots"))


def inputs_for(kernel: Kernel, batch: int, seed: int = 1) -> dict[str, Any]:
    """Random inputs in the kernel's layout, with unit vectors where the graph has them."""
    random, arrays = np.random.default_rng(seed), kernel.new_inputs(batch)
    for port in kernel.graph.inputs:
        array = arrays[port.name]
        array[...] = random.uniform(-2.0, 2.0, array.shape)
        for start, stop in port.unit_vectors:
            array[:, start:stop] /= np.linalg.norm(array[:, start:stop], axis=1)[:, None]
    return arrays


def check_same(graph: Graph, dtype: str, layout: str, batches: tuple[int, ...], threads: int = 1) -> None:
    """Both tiers return the same bits and the same status."""
    compiled = Kernel(graph, dtype, layout=layout, threads=threads)
    blocks = Kernel(graph, dtype, layout=layout, threads=threads, code=interpreted_code)
    for batch in batches:
        inputs = inputs_for(compiled, batch)
        results = []
        for kernel in (compiled, blocks):
            outputs = kernel.new_outputs(batch)
            assert kernel.status(inputs, kernel.written(outputs), batch) == 0
            results.append(outputs)
        for name, value in results[0].items():
            assert np.isfinite(value).all()
            assert value.any()
            np.testing.assert_array_equal(results[1][name], value, err_msg=f"{name}, batch of {batch}")
    for kernel in (compiled, blocks):
        kernel.close()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NAMES)
def test_the_interpreter_has_the_bits_of_compiled_c(traced: dict[str, Graph], name: str, dtype: str) -> None:
    check_same(traced[name], dtype, "rows", (1, 2, 3, 9, 64, 300))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_planes_and_threads_have_the_same_bits(traced: dict[str, Graph], dtype: str) -> None:
    check_same(traced["arm"], dtype, "planes", (1, 5, 257, 1111))
    check_same(traced["floating"], dtype, "planes", (37,))
    check_same(traced["arm"], dtype, "rows", (2000,), threads=2)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_operation_has_the_same_bits(function: Any, dtype: str) -> None:
    graph = trace("two_joint_arm", ALL_OPERATIONS)
    assert {"sqrt", "exp", "select", "reciprocal"} <= {node.op for node in graph.nodes}
    check_same(graph, dtype, "rows", (1, 3, 100))
    others = formula_of(
        lambda a, b, c, d, *more: [
            a.operation("noise", a, b, 3.0) + 0.5 * c.sin(),
            (a * b).cos() - 2.5 * (c * d),
            (0.3 * a) + 0.7,
            -(a * c) - (b * d) * 4.0,
            sum((x * a for x in more), 0.0) - b * 0.1,
        ]
    )
    check_same(others, dtype, "rows", (1, 3, 100))


def test_wrong_inputs_have_the_status_of_compiled_c(traced: dict[str, Graph]) -> None:
    kernel = Kernel(traced["arm"], "float64", code=interpreted_code)
    for batch, row in ((1, 0), (7, 6), (200, 130)):
        for value in (np.nan, np.inf, -np.inf, 1e200):
            inputs, outputs = inputs_for(kernel, batch), kernel.new_outputs(batch)
            inputs["tau"][row, 1] = value
            inputs["qd"][row, 0] = value if value == 1e200 else 0.5
            assert kernel.status(inputs, kernel.written(outputs), batch) == 1
    inputs = inputs_for(kernel, 8)
    assert kernel.status(inputs, kernel.written(kernel.new_outputs(8)), 8) == 0


def test_results_over_inputs_of_other_samples_are_refused(traced: dict[str, Graph]) -> None:
    kernel = Kernel(traced["random"], "float64", code=interpreted_code)
    inputs, outputs = inputs_for(kernel, 40), kernel.new_outputs(40)
    name = next(iter(outputs))
    store = np.zeros(40 * outputs[name][0].size + 40 * inputs["q"][0].size)
    inputs["q"] = store[3 : 3 + inputs["q"].size].reshape(inputs["q"].shape)
    outputs[name] = store[: outputs[name].size].reshape(outputs[name].shape)
    assert kernel.status(inputs, kernel.written(outputs), 40) == TANGLED


def test_graphs_that_the_interpreter_lacks_are_refused(
    traced: dict[str, Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = traced["arm"]
    unknown = graph.nodes[-1]
    other = replace(graph, nodes=(*graph.nodes[:-1], new_node("multiply_add", unknown.args, None, unknown.name)))
    with pytest.raises(ArgumentError, match="the operation 'multiply_add', which the interpreter lacks"):
        listed.instructions(other)
    monkeypatch.setattr(listed, "LARGEST", 9)
    with pytest.raises(ArgumentError, match=r"keeps \d+ values and has \d+ constants; the interpreter takes at most 9"):
        listed.instructions(graph)
