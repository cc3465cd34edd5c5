"""The host's class on a simulated device: results, bad input, mismatched design, and that the device survives."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import Accelerator, build, robots
from dynagate.fixedpoint.evaluate import evaluate
from dynagate.fixedpoint.format import Format
from dynagate.host import DesignError, DeviceError, read_design
from dynagate.hw.build import Build
from dynagate.hw.design import sealed
from dynagate.payload import Field, Port, Stream, pack_integers, unpack_integers

from tests.samples import State

FUNCTION = "forward_dynamics_gradient"


@pytest.fixture(scope="module")
def arm(designs: Path) -> Build:
    return build(robots.load("two_joint_arm"), FUNCTION, ii=3, folder=designs)


@pytest.fixture
def accelerator(arm: Build):
    with dynagate.open(arm, pauses=(0.2, 0.3), seed=4) as opened:
        yield opened


@pytest.fixture(scope="module")
def inputs(arm: Build) -> State:
    return arm.region.sample(FUNCTION, 200, seed=11)


def check(accelerator: Accelerator, arm: Build, inputs: State) -> None:
    results = accelerator(**inputs)
    expected = evaluate(arm.formatted, inputs)
    for name, value in expected.outputs.items():
        np.testing.assert_array_equal(getattr(results, name), value)
    np.testing.assert_array_equal(results.overflow, expected.overflow)


def test_results_equal_the_integer_executor(accelerator: Accelerator, arm: Build, inputs: State) -> None:
    check(accelerator, arm, inputs)
    results = accelerator(**inputs)
    assert results.qdd.shape == (200, 2)
    assert results.minv.shape == (200, 2, 2)
    assert "two_joint_arm forward_dynamics_gradient, ii 3" in repr(accelerator)


def test_full_speed_is_one_result_per_interval(arm: Build, inputs: State) -> None:
    with dynagate.open(arm.folder) as accelerator:  # by folder, as a user without the build object does
        check(accelerator, arm, inputs)
        assert accelerator.transfer.per_sample == 3.0
        # the output FIFO's two, and what the overflow bits are behind
        assert 2 <= accelerator.transfer.latency - arm.plan.latency <= 5


def test_lists_and_float32_are_accepted(accelerator: Accelerator, inputs: State) -> None:
    short = {key: value[:3] for key, value in inputs.items()}
    from_lists = accelerator(**{key: value.tolist() for key, value in short.items()})
    np.testing.assert_array_equal(from_lists.qdd, accelerator(**short).qdd)
    single = accelerator(**{key: value.astype(np.float32) for key, value in short.items()})
    np.testing.assert_allclose(single.qdd, from_lists.qdd, rtol=1e-2, atol=1e-2)


def test_empty_batch_gives_empty_results(accelerator: Accelerator) -> None:
    results = accelerator(q=np.zeros((0, 2)), qd=np.zeros((0, 2)), tau=np.zeros((0, 2)))
    assert results.dqdd_dq.shape == (0, 2, 2)


def with_entry(inputs: State, name: str, value: float) -> State:
    array = inputs[name].copy()
    array[7, 1] = value
    return {**inputs, name: array}


BAD = {
    "missing": (
        lambda x: {k: v for k, v in x.items() if k != "tau"},
        ValueError,
        "input 'tau' is missing; expected shape",
    ),
    "unknown": (
        lambda x: {**x, "qdd": x["q"]},
        ValueError,
        "forward_dynamics_gradient has no input 'qdd'; expected q, qd",
    ),
    "shape": (
        lambda x: {**x, "q": x["q"][:, :1]},
        ValueError,
        r"input 'q' has shape \(200, 1\); expected \(batch, 2\)",
    ),
    "no batch": (lambda x: {**x, "q": x["q"][0]}, ValueError, r"input 'q' has shape \(2,\); expected \(batch, 2\)"),
    "batches": (
        lambda x: {**x, "qd": x["qd"][:9]},
        ValueError,
        "input 'qd' holds 9 states; the inputs before it hold 200",
    ),
    "complex": (lambda x: {**x, "q": x["q"] + 0j}, TypeError, "input 'q' has dtype complex128; expected real numbers"),
    "text": (lambda x: {**x, "q": np.full((200, 2), "a")}, TypeError, "input 'q' has dtype <U1"),
    "bool": (lambda x: {**x, "q": x["q"] > 0}, TypeError, "input 'q' has dtype bool"),
    "nan": (
        lambda x: with_entry(x, "qd", np.nan),
        ValueError,
        r"input 'qd' is nan at \(7, 1\); expected finite numbers",
    ),
    "infinity": (lambda x: with_entry(x, "tau", -np.inf), ValueError, r"input 'tau' is -inf at \(7, 1\)"),
    "range": (
        lambda x: with_entry(x, "q", 3.5),
        ValueError,
        r"input 'q' is 3.5 at \(7, 1\); the formats were chosen for -2.6 to 2.6",
    ),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_named_and_the_device_stays_usable(
    case: str, accelerator: Accelerator, arm: Build, inputs: State
) -> None:
    change, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        accelerator(**change(inputs))
    check(accelerator, arm, inputs)


def test_library_of_another_design_is_refused(arm: Build, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(arm.folder, folder)
    design = json.loads((folder / "design.json").read_text())
    other = sealed({**design, "ii": 4})
    (folder / "design.json").write_text(json.dumps(other))
    shown, described = arm.design["hash"][:16], other["hash"][:16]
    with pytest.raises(DesignError, match=f"holds design {shown}; design.json describes {described}: build it again"):
        dynagate.open(folder)


def test_damaged_designs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DesignError, match="no design at .*; expected the folder that dynagate.build returned"):
        dynagate.open(tmp_path / "nothing")
    (tmp_path / "design.json").write_text("{")
    with pytest.raises(DesignError, match="design.json is not a design file: Expecting .*; expected the folder"):
        read_design(tmp_path)
    (tmp_path / "design.json").write_text("{}")
    with pytest.raises(DesignError, match="design.json has format None; expected 2: build the design again"):
        read_design(tmp_path)


def test_truncated_library_is_refused(arm: Build, tmp_path: Path) -> None:
    from dynagate.host.links import SimLink

    library = tmp_path / "libdatapath.so"
    library.write_bytes(b"\x7fELF")
    with pytest.raises(DesignError, match="libdatapath.so is not a simulated datapath"):
        SimLink(library, read_design(arm.folder))


def test_unknown_device_is_refused(arm: Build) -> None:
    with pytest.raises(ValueError, match="device 'gpu'; expected one of numpy, fixed, cpu, cuda, sim"):
        dynagate.open(arm, device="gpu")


def test_closed_device_says_so(arm: Build, inputs: State) -> None:
    accelerator = dynagate.open(arm)
    accelerator.close()
    accelerator.close()
    with pytest.raises(DeviceError, match="the simulated device is closed"):
        accelerator(**inputs)


def test_stuck_device_is_an_error_and_recovers(arm: Build, inputs: State, monkeypatch: pytest.MonkeyPatch) -> None:
    with dynagate.open(arm) as accelerator:
        with monkeypatch.context() as patch:
            patch.setattr("dynagate.host.links.IDLE_CYCLES", 2)  # less than the interval
            with pytest.raises(DeviceError, match="0 results for 200 samples after 2 idle cycles"):
                accelerator(**inputs)
        check(accelerator, arm, inputs)


def test_payload_bits_survive_any_alignment() -> None:
    random = np.random.default_rng(0)
    widths = [2, 31, 32, 24, 1 + 32 - 2, 18, 27, 5]
    fields, lsb = [], 0
    for k, width in enumerate(widths):
        fields.append(Field(f"f{k}", lsb, Format(max(width, 2), 0)))
        lsb += width
    stream = Stream(lsb, tuple(fields), (Port("all", (len(fields),), tuple(range(len(fields)))),))
    columns = {k: random.integers(f.format.lowest, f.format.highest + 1, 100) for k, f in enumerate(fields)}
    for k, values in enumerate(unpack_integers(stream, pack_integers(stream, columns, 100))):
        np.testing.assert_array_equal(values, columns[k])
