"""Bound calls, results, and states with any leading axes: the same on each device."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import dynagate
import numpy as np
import pytest
from dynagate import Function, Region, build, robots
from dynagate.dynamics import FUNCTIONS
from dynagate.host import DeviceError, Results

from tests.played_card import play_card

ARM = robots.load("two_joint_arm")
FUNCTION = "forward_dynamics_gradient"
DEVICES = ["cpu", "cpu, planes", "cpu, float32", "numpy", "fixed", "cuda", "sim"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpu")


@pytest.fixture(params=DEVICES)
def accelerator(
    request: pytest.FixtureRequest, designs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Function]:
    play_card(monkeypatch, cache)
    options: dict[str, Any] = {
        "cpu, planes": {"device": "cpu", "layout": "planes", "threads": 2},
        "cpu, float32": {"device": "cpu", "dtype": np.float32},
    }.get(request.param, {"device": request.param})
    if request.param == "sim":
        with dynagate.open(build(ARM, FUNCTION, ii=3, folder=designs)) as device:
            assert isinstance(device, Function)
            yield device
    else:
        with dynagate.compile(ARM, FUNCTION, **options) as opened:
            yield opened


def sample(batch: int, seed: int = 1) -> dict[str, np.ndarray]:
    return Region.of(ARM).sample(FUNCTION, batch, seed)


def filled(accelerator: Function, batch: int | tuple[int, ...], seed: int = 1) -> dict[str, np.ndarray]:
    inputs = accelerator.new_inputs(batch)
    count = int(np.prod(batch))
    for name, value in sample(max(count, 1), seed).items():
        inputs[name][...] = value[:count].reshape(inputs[name].shape)
    return inputs


@pytest.mark.parametrize("batch", [1, 40, 600])
def test_a_bound_call_computes_what_a_call_does(accelerator: Function, batch: int) -> None:
    inputs = filled(accelerator, batch)
    run = accelerator.bind(**inputs)
    out = accelerator(**inputs)
    again = accelerator.bind(out=out, **inputs)
    for seed in range(3):
        for name, value in sample(batch, seed).items():
            inputs[name][...] = value
        expected = accelerator(**inputs)
        for bound in (run, again):
            bound.results.overflow.fill(True)
            results = bound()
            assert results is bound.results
            for name in expected:
                assert np.array_equal(results[name], expected[name]), name
            assert np.array_equal(results.overflow, expected.overflow)
    assert again.results is out
    assert repr(run).startswith(("<BoundCall of <Function two_joint_arm", "<BoundCall of <Device two_joint_arm"))


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: np.array(x, np.float32),
        lambda x: np.array(x, np.float64),
        lambda x: np.array(x, order="F"),
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: x.astype(np.int32),
    ],
)
@pytest.mark.parametrize("batch", [1, 40])
def test_bound_arrays_of_any_dtype_and_layout_are_read_in_each_call(
    accelerator: Function, batch: int, convert: Callable[[np.ndarray], np.ndarray]
) -> None:
    inputs = {name: convert(value) for name, value in sample(batch).items()}
    run = accelerator.bind(**inputs)
    for seed in range(3):
        for name, value in sample(batch, seed).items():
            inputs[name][...] = convert(value)
        assert np.array_equal(run().dqdd_dq, accelerator(**inputs).dqdd_dq, equal_nan=True)


@pytest.mark.parametrize("leading", [(), (1,), (2, 3), (2, 0), (2, 1, 3)])
def test_leading_axes_of_inputs_are_those_of_results(accelerator: Function, leading: tuple[int, ...]) -> None:
    inputs = filled(accelerator, leading)
    flat = {name: value.reshape(-1, 2) for name, value in inputs.items()}
    expected = accelerator(**flat)
    out = accelerator(**inputs)
    run = accelerator.bind(**inputs)
    for results in (out, accelerator(out=out, **inputs), run(), accelerator.bind(out=out, **inputs)()):
        assert results.overflow.shape == leading
        for name in expected:
            assert results[name].shape == (*leading, *expected[name].shape[1:])
            assert np.array_equal(results[name].reshape(expected[name].shape), expected[name]), name


def test_lists_of_one_state_and_packed_results_have_no_batch_axis() -> None:
    with dynagate.compile(ARM, FUNCTION, pack=True) as accelerator:
        results = accelerator(q=[0.1, 0.2], qd=[0.0, 0.0], tau=[1.0, 0])
        full = accelerator.unpack(results)
        batch = accelerator.unpack(accelerator(q=[[0.1, 0.2]], qd=[[0.0, 0.0]], tau=[[1.0, 0]]))
    assert results.minv.shape == (3,)
    assert full.minv.shape == (2, 2)
    assert np.array_equal(full.minv, batch.minv[0])
    with dynagate.compile(ARM, "kinetic_energy") as accelerator:
        energy = accelerator(q=[0.1, 0.2], qd=[1.0, 0.0]).kinetic_energy
        assert energy.shape == ()
        assert accelerator(q=np.zeros((4, 5, 2)), qd=np.zeros((4, 5, 2))).kinetic_energy.shape == (4, 5)


@pytest.mark.parametrize(
    ("leading", "name", "value", "message"),
    [
        ((), "qd", np.nan, r"input 'qd' is nan at \(1,\); expected finite numbers"),
        ((3, 4), "qd", np.nan, r"input 'qd' is nan at \(2, 1, 1\); expected finite numbers"),
        ((3, 4), "q", 1e30, r"input 'q' is 1e\+30 at \(2, 1, 1\)"),
        ((), "q", 1e30, r"input 'q' is 1e\+30 at \(1,\)"),
    ],
)
def test_errors_tell_the_place_in_the_users_array(
    accelerator: Function, leading: tuple[int, ...], name: str, value: float, message: str
) -> None:
    inputs = filled(accelerator, leading)
    run = accelerator.bind(**inputs)
    expected = run().qdd.copy()
    kept = inputs[name].copy()
    inputs[name][(*(2, 1)[: len(leading)], 1)] = value
    for call in (run, partial(accelerator, **inputs)):
        with pytest.raises(ValueError, match=message):
            call()
    inputs[name][...] = kept
    assert np.array_equal(run().qdd, expected)


def test_results_that_are_too_large_are_told_by_their_place() -> None:
    for device in ("cpu", "numpy"):
        with dynagate.compile(ARM, FUNCTION, device=device) as accelerator:
            inputs = filled(accelerator, (2, 3))
            run = accelerator.bind(**inputs)
            inputs["qd"][1, 0, 1] = 1e160
            for call in (run, partial(accelerator, **inputs)):
                with pytest.raises(ValueError, match=r"output 'qdd' is \S+ at \(1, 0, 0\): values became too large"):
                    call()


def test_lengths_of_quaternions_are_checked_in_each_bound_call() -> None:
    hyq = robots.load("hyq", floating_base=True)
    for device in ("cpu", "numpy"):
        with dynagate.compile(hyq, "mass_matrix", device=device) as accelerator:
            for leading, where in (((), ""), ((4,), " of sample 3"), ((2, 2), r" of sample \(1, 1\)")):
                q = np.zeros((*leading, 19))
                q[...] = dynagate.neutral(hyq)
                run = accelerator.bind(q=q)
                expected = run().m.copy()
                last = (-1,) * len(leading)
                q[(*last, 6)] = 1.2
                for call in (run, partial(accelerator, q=q)):
                    with pytest.raises(
                        ValueError, match=rf"input 'q'{where} has at \[3:7\] a quaternion of length 1.2"
                    ):
                        call()
                q[(*last, 6)] = 1.0
                assert np.array_equal(run().m, expected)


def test_what_cannot_be_bound_is_named(accelerator: Function) -> None:
    inputs = filled(accelerator, 6)
    shaped = filled(accelerator, (2, 3))
    gaps = np.zeros((2, 4, 2))[:, :3]
    for bad, kind, message in (
        ({**inputs, "q": inputs["q"].tolist()}, TypeError, "input 'q' is a list, which cannot be read in place"),
        ({**shaped, "q": gaps}, ValueError, r"input 'q' has gaps between its leading axes \(2, 3\)"),
        ({**inputs, "q": inputs["q"][:5]}, ValueError, r"input 'qd' has leading axes \(6,\)"),
        ({**inputs, "q": inputs["q"] > 0}, TypeError, "input 'q' has dtype bool"),
        ({"q": inputs["q"]}, ValueError, "inputs 'qd' and 'tau' are missing"),
    ):
        with pytest.raises(kind, match=message):
            accelerator.bind(**bad)
    with pytest.raises(ValueError, match=r"out.qdd is \w+ \(6, 2\); expected \w+ \(2, 3, 2\)"):
        accelerator.bind(out=accelerator(**inputs), **shaped)
    with pytest.raises(TypeError, match="out is a dict; expected results of an earlier call"):
        accelerator.bind(out={}, **inputs)  # type: ignore[arg-type]


def test_bound_arrays_keep_their_memory(accelerator: Function) -> None:
    inputs = {name: value.copy() for name, value in sample(8).items()}
    outputs = {name: value.copy(order="K") for name, value in accelerator(**inputs).items()}
    run = accelerator.bind(out=Results(**outputs), **inputs)
    expected = run().qdd.copy()
    for array in [*inputs.values(), *outputs.values()]:  # which own their memory
        with pytest.raises(ValueError, match="cannot resize an array|resize only works on single-segment arrays"):
            array.resize((2000, 2), refcheck=False)
    seen = inputs["q"].view()
    inputs["q"].shape = (4, 4)
    assert np.array_equal(run().qdd, expected)  # of the memory as it was bound
    seen[...] += 0.1
    assert not np.array_equal(run().qdd, expected)
    del inputs, outputs, seen
    assert np.isfinite(run().qdd).all()


def test_a_bound_call_of_a_closed_accelerator_says_so(accelerator: Function) -> None:
    run = accelerator.bind(**filled(accelerator, 30))
    run()
    accelerator.close()
    for call in (run, partial(accelerator.bind, **sample(3))):
        with pytest.raises(DeviceError, match="is closed; open it again"):
            call()


def test_results_over_inputs_are_written_anew_in_each_call() -> None:
    """Entries that are always zero lie where the input is written."""
    hyq = robots.load("hyq")
    with dynagate.compile(hyq, "mass_matrix_inverse") as plain, dynagate.compile(hyq, "mass_matrix") as accelerator:
        memory = np.zeros((12, 12))
        q = memory[0]
        run = accelerator.bind(q=q, out=Results(m=memory))
        for seed in range(3):
            state = Region.of(hyq).sample("mass_matrix", 1, seed)["q"][0]
            expected = accelerator(q=state).m
            q[...] = state
            assert np.array_equal(run().m, expected)
        assert not plain(q=state).minv[0, 3:].any()


def test_threads_may_make_bound_calls_of_one_accelerator(accelerator: Function) -> None:
    samples = [filled(accelerator, 50, seed) for seed in range(3)]
    expected = [accelerator(**inputs).dqdd_dq for inputs in samples]
    runs = [accelerator.bind(**inputs) for inputs in samples]

    def wrong(k: int) -> int:
        return sum(not np.array_equal(runs[k]().dqdd_dq, expected[k]) for _ in range(10))

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(wrong, range(3))) == [0, 0, 0]


def test_results_are_a_mapping_of_outputs(accelerator: Function) -> None:
    inputs = sample(5)
    results = accelerator(**inputs)
    assert list(results) == list(results.keys()) == ["qdd", "dqdd_dq", "dqdd_dqd", "minv"]
    assert results["qdd"] is results.qdd
    assert len(results) == 4
    assert "qdd" in results
    assert "overflow" not in results
    dtype = accelerator.device.dtype
    assert repr(results) == (f"<Results qdd (5, 2), dqdd_dq (5, 2, 2), dqdd_dqd (5, 2, 2), minv (5, 2, 2); {dtype}>")
    assert results == results
    assert results != accelerator(**inputs)
    assert len({results, accelerator(**inputs)}) == 2
    with pytest.raises(
        KeyError, match=r"no output 'qd' \(did you mean 'qdd'\?\); expected one of qdd, dqdd_dq, dqdd_dqd, minv"
    ):
        results["qd"]
    with pytest.raises(
        AttributeError, match=re.escape("write into it with results.qdd[...] = values, or make results")
    ):
        results.qdd = np.zeros((5, 2))
    for other in (copy.deepcopy(results), pickle.loads(pickle.dumps(results)), Results(**results)):
        assert np.array_equal(other.minv, results.minv)
    assert np.array_equal(copy.deepcopy(results).overflow, results.overflow)


def test_every_output_is_documented() -> None:
    outputs = {output.name for function in FUNCTIONS.values() for output in function.outputs}
    assert outputs | {"overflow"} <= set(get_type_hints(Results))


def test_the_arrays_of_a_built_design_bind_too(designs: Path) -> None:
    design = build(ARM, FUNCTION, ii=3, folder=designs)
    with dynagate.open(design) as accelerator:
        inputs = filled(accelerator, (2, 2))
        assert np.array_equal(accelerator.bind(**inputs)().qdd, accelerator(**inputs).qdd)


def calls_of(function: Callable[[], Any]) -> int:
    """Calls of Python and C that a function makes."""
    events: list[str] = []
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        function()
    finally:
        sys.setprofile(None)
    return sum(event.endswith("call") for event in events)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_call_of_one_state_is_short_and_computes_what_a_batch_does(dtype: type) -> None:
    with dynagate.compile(ARM, FUNCTION, dtype=dtype) as accelerator:
        batch = {name: value.astype(dtype) for name, value in sample(20).items()}
        expected, last = accelerator(**batch), accelerator(**{name: value[0] for name, value in batch.items()})
        kept = {name: last[name].copy() for name in last}
        for k in range(20):
            one = {name: value[k] for name, value in batch.items()}
            results = accelerator(**one)
            for name in expected:
                assert results[name].dtype == dtype
                assert np.allclose(results[name], expected[name][k], rtol=1e-3 if dtype == np.float32 else 1e-11)
            assert results.overflow.shape == ()
            assert not results.overflow
        for name, value in kept.items():
            assert np.array_equal(last[name], value), f"{name} was written over by a later call"
        assert calls_of(lambda: accelerator(**one)) < 40
        message = r"^forward_dynamics_gradient has no input 'torque' \(write tau\); expected q, qd, tau \[DG-"
        with pytest.raises(ValueError, match=message):
            accelerator(q=one["q"], qd=one["qd"], torque=one["tau"])
        with pytest.raises(ValueError, match=r"^input 'q' has shape \(3,\); expected \(batch, 2\), or \(2,\) for a"):
            accelerator(**one | {"q": np.zeros(3, dtype)})
        with pytest.raises(
            ValueError,
            match=r"^input 'qd' is nan at \(1,\); expected finite numbers; results of samples that",
        ):
            accelerator(**one | {"qd": np.array([0.0, np.nan], dtype)})
        with pytest.raises(ValueError, match=r"^input 'q' is .* at \(0,\); expected angles below \d+ rad for float"):
            accelerator(**one | {"q": np.array([1e15, 0.0], dtype)})
        with pytest.raises(ValueError, match="values became too large"):
            accelerator(**one | {"qd": np.full(2, np.finfo(dtype).max / 4, dtype)})
        assert np.array_equal(accelerator(**one).qdd, results.qdd)
    with pytest.raises(DeviceError, match="is closed"):
        accelerator(**one)


def test_a_call_of_one_state_refuses_a_quaternion_of_another_length() -> None:
    floating = robots.load("hyq", floating_base=True)
    with dynagate.compile(floating, "center_of_mass") as accelerator:
        q = dynagate.neutral(floating)
        assert accelerator(q=q).center_of_mass.shape == (3,)
        stretched = q.copy()
        stretched[3:7] *= 1.1
        with pytest.raises(ValueError, match=r"input 'q' has at \[3:7\] a quaternion of length 1\.1; expected 1"):
            accelerator(q=stretched)


class Exported:
    """An array of a framework that offers its memory by DLPack only."""

    def __init__(self, array: np.ndarray, device: int = 1) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        if self.device != 1:
            raise BufferError("no memory of the CPU")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


def test_arrays_of_other_frameworks_are_read_and_written_by_dlpack() -> None:
    q = sample(5)["q"]
    with dynagate.compile(ARM, "mass_matrix") as function:
        expected = function(q).m
        assert np.array_equal(np.from_dlpack(function(Exported(q)).m), expected)
        memory = np.zeros_like(expected)
        out = Results(m=Exported(memory))
        assert function(Exported(q), out=out) is out
        assert np.array_equal(memory, expected)
        memory[...] = 0.0
        function.bind(q=q, out=out)()
        assert np.array_equal(memory, expected)
        with pytest.raises(TypeError, match="input 'q' has dtype object"):
            function(Exported(q, device=4))
        memory.flags.writeable = False
        with pytest.raises(ValueError, match=r"out\.m cannot be written"):
            function(q, out=out)
        with pytest.raises(ValueError, match=r"out\.m is nothing"):
            function(q, out=Results(m=Exported(memory, device=4)))
