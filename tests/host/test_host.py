"""The host's class on a simulated device: results, bad input, mismatched design, and that the device survives."""

from __future__ import annotations

import copy
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import Function, build, robots
from dynagate.design.design import Field, Stream, StreamPort
from dynagate.design.files import load as load_design
from dynagate.fixedpoint.models.evaluate import evaluate
from dynagate.host import DesignError, DeviceError, Results
from dynagate.hw.designs import Design

from tests.designs import resealed
from tests.samples import State

FUNCTION = "forward_dynamics_gradient"


@pytest.fixture(scope="module")
def arm(designs: Path) -> Design:
    return build(robots.load("two_joint_arm"), FUNCTION, ii=3, folder=designs)


@pytest.fixture
def accelerator(arm: Design):
    with dynagate.open(arm, pauses=(0.2, 0.3), seed=4) as opened:
        yield opened


@pytest.fixture(scope="module")
def inputs(arm: Design) -> State:
    return arm.region.sample(FUNCTION, 200, seed=11)


def check(accelerator: Function, arm: Design, inputs: State) -> None:
    results = accelerator(**inputs)
    expected = evaluate(arm.formatted, inputs)
    for name, value in expected.outputs.items():
        np.testing.assert_array_equal(getattr(results, name), value)
    np.testing.assert_array_equal(results.overflow, expected.overflow)


def test_results_equal_the_integer_executor(accelerator: Function, arm: Design, inputs: State) -> None:
    check(accelerator, arm, inputs)
    results = accelerator(**inputs)
    assert results.qdd.shape == (200, 2)
    assert results.minv.shape == (200, 2, 2)
    assert "two_joint_arm forward_dynamics_gradient, ii 3" in repr(accelerator)


def test_full_speed_is_one_result_per_interval(arm: Design, inputs: State) -> None:
    with dynagate.open(arm.folder) as accelerator:  # by folder, as a user without the build object does
        check(accelerator, arm, inputs)
        assert accelerator.transfer.per_sample == 3.0
        # the output FIFO's two, and what the overflow bits are behind
        assert 2 <= accelerator.transfer.latency - arm.hardware.plan.latency <= 5


def test_lists_and_float32_are_accepted(accelerator: Function, inputs: State) -> None:
    short = {key: value[:3] for key, value in inputs.items()}
    from_lists = accelerator(**{key: value.tolist() for key, value in short.items()})
    np.testing.assert_array_equal(from_lists.qdd, accelerator(**short).qdd)
    single = accelerator(**{key: value.astype(np.float32) for key, value in short.items()})
    np.testing.assert_allclose(single.qdd, from_lists.qdd, rtol=1e-2, atol=1e-2)


def test_empty_batch_gives_empty_results(accelerator: Function) -> None:
    results = accelerator(q=np.zeros((0, 2)), qd=np.zeros((0, 2)), tau=np.zeros((0, 2)))
    assert results.dqdd_dq.shape == (0, 2, 2)


def with_entry(inputs: State, name: str, value: float) -> State:
    array = inputs[name].copy()
    array[7, 1] = value
    return {**inputs, name: array}


DEVICES = ["cpu", "numpy", "fixed", "sim"]


@pytest.fixture(params=DEVICES)
def each(request: pytest.FixtureRequest, arm: Design):
    """The same function on each device."""
    with opened(request.param, arm) as accelerator:
        yield accelerator


def opened(device: str, arm: Design) -> Function:
    if device == "sim":
        return dynagate.open(arm)
    return dynagate.compile(arm.robot, FUNCTION, device=device, **({"threads": 2} if device == "cpu" else {}))


def test_threads_that_share_an_accelerator_get_their_own_results(each: Function, arm: Design) -> None:
    batch, calls = (600, 100) if each.device.text.startswith("C,") else (20, 10)
    samples = [arm.region.sample(FUNCTION, batch, seed) for seed in range(4)]
    expected = [each(**sample).dqdd_dq for sample in samples]

    def wrong(k: int) -> int:
        out = each(**samples[k])
        kept = samples[k]
        return sum(
            not np.array_equal(each(out=out if call % 3 else None, **kept).dqdd_dq, expected[k])
            for call in range(calls)
        )

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(wrong, range(4))) == [0, 0, 0, 0]


def test_a_repeated_call_and_those_of_other_threads_do_not_mix(arm: Design) -> None:
    samples = [arm.region.sample(FUNCTION, 5000, seed) for seed in range(3)]  # long in C
    with opened("cpu", arm) as accelerator:
        out = accelerator(**samples[0])
        expected = [accelerator(**sample).dqdd_dq for sample in samples]

        def wrong(k: int) -> int:
            given = {"out": out} if k == 0 else {}
            return sum(not np.array_equal(accelerator(**given, **samples[k]).dqdd_dq, expected[k]) for _ in range(400))

        with ThreadPoolExecutor(3) as threads:
            for _ in range(4):
                accelerator(out=out, **samples[0])
            assert list(threads.map(wrong, range(3))) == [0, 0, 0]


def test_closing_waits_for_the_calls_of_other_threads(each: Function, arm: Design) -> None:
    inputs = arm.region.sample(FUNCTION, 600, seed=1)
    expected = each(**inputs).dqdd_dq

    def until_closed(_: int) -> None:
        while True:
            try:
                results = each(**inputs)
            except DeviceError:
                return
            assert np.array_equal(results.dqdd_dq, expected)

    with ThreadPoolExecutor(3) as threads:
        under_way = [threads.submit(until_closed, k) for k in range(3)]
        time.sleep(0.1)
        each.close()
        for future in under_way:
            future.result(timeout=600)


def grown(array: np.ndarray) -> None:
    array.resize((2000, 2), refcheck=False)


def reshaped(array: np.ndarray) -> None:
    array.shape = (4, 4)


def of_other_type(array: np.ndarray) -> None:
    array.dtype = np.dtype(np.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (grown, r"input 'qd' has leading axes \(8,\) and input 'q' \(2000,\): they do not broadcast"),
        (reshaped, r"input 'q' has shape \(4, 4\)"),
        (of_other_type, r"input 'q' has shape \(8, 4\)"),
    ],
)
@pytest.mark.parametrize("calls", [0, 1, 4])
def test_inputs_that_are_resized_in_place_are_noticed(
    calls: int, change: Callable[[np.ndarray], None], message: str, each: Function, arm: Design
) -> None:
    inputs = {name: array.copy() for name, array in arm.region.sample(FUNCTION, 8, seed=1).items()}
    out = each(**inputs)
    expected = out.dqdd_dq.copy()
    for _ in range(calls):
        each(out=out, **inputs)
    with pytest.raises(ValueError, match=message):  # noqa: PT012 - numpy's, or ours
        change(inputs["q"])
        each(out=out, **inputs)
    again = arm.region.sample(FUNCTION, 8, seed=1)
    for _ in range(4):
        assert np.array_equal(each(out=out, **again).dqdd_dq, expected)


def test_results_that_are_resized_in_place_are_noticed(each: Function, arm: Design) -> None:
    inputs = arm.region.sample(FUNCTION, 100, seed=1)
    out = Results(**{**each(**inputs), "qdd": np.zeros((100, 2))})  # which owns its memory
    each(out=out, **inputs)
    out.qdd.resize((1, 2), refcheck=False)
    with pytest.raises(ValueError, match=r"out.qdd is float64 \(1, 2\); expected float64 \(100, 2\)"):
        each(out=out, **inputs)


def test_a_closed_accelerator_says_so(each: Function, arm: Design) -> None:
    inputs = arm.region.sample(FUNCTION, 700, seed=1)
    out = each(**inputs)
    for _ in range(4):
        each(out=out, **inputs)
    each.close()
    each.close()
    for results in (None, out):
        with pytest.raises(DeviceError, match="<(Function|Device) two_joint_arm .*> is closed; open it again"):
            each(out=results, **inputs)


def test_threads_go_with_the_accelerator(arm: Design) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before = threads()
    accelerators = [dynagate.compile(arm.robot, FUNCTION, threads=4) for _ in range(3)]
    inputs = arm.region.sample(FUNCTION, 700, seed=1)
    for accelerator in accelerators:
        out = accelerator(**inputs)
        for _ in range(4):
            accelerator(out=out, **inputs)
    assert threads() >= before + 9
    del accelerators, accelerator
    assert threads() <= before


def test_a_simulated_device_goes_with_its_accelerator(arm: Design) -> None:
    accelerator = dynagate.open(arm)
    accelerator(**arm.region.sample(FUNCTION, 3, seed=1))
    end = accelerator.device.driver.link._end
    assert end.alive
    del accelerator
    assert not end.alive


def test_results_name_what_there_is(each: Function, arm: Design) -> None:
    results = each(**arm.region.sample(FUNCTION, 3, seed=1))
    listed = "expected one of qdd, dqdd_dq, dqdd_dqd, minv, overflow"
    with pytest.raises(AttributeError, match=rf"no result 'qd' \(did you mean 'qdd'\?\); {listed}"):
        results.qd  # noqa: B018
    copied = copy.deepcopy(results)
    assert np.array_equal(copied.qdd, results.qdd)
    each(out=copied, **arm.region.sample(FUNCTION, 3, seed=1))
    with pytest.raises(TypeError, match="out is a dict; expected results of an earlier call"):
        each(out=dict(results), **arm.region.sample(FUNCTION, 3, seed=1))


STREAMING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background takes away
import sys, time
import dynagate, numpy as np

accelerator = dynagate.open(sys.argv[1], pauses=(0.99, 0.0))
inputs = {name: np.zeros((1000, 2)) for name in ("q", "qd", "tau")}
many = {name: np.zeros((3_000_000, 2)) for name in inputs}  # minutes
expected = accelerator(**inputs).qdd
link = accelerator.device.driver.link
write, link.write = link.write, lambda samples: (write(samples), print("streaming", flush=True))
try:
    accelerator(**many)
except KeyboardInterrupt:
    print("interrupted", flush=True)
link.write = write
assert np.array_equal(accelerator(**inputs).qdd, expected)
print("right")
"""


def test_ctrl_c_is_heard_while_a_device_streams(arm: Design) -> None:
    command = [sys.executable, "-c", STREAMING, str(arm.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "streaming\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        said, fault = process.communicate(timeout=600)
    assert said == "interrupted\nright\n", fault


def test_a_signal_handler_may_close_a_device_that_streams(arm: Design) -> None:
    accelerator = dynagate.open(arm, pauses=(0.99, 0.0))
    before = signal.signal(signal.SIGALRM, lambda *_: accelerator.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(DeviceError, match="libdatapath.so was closed while it streamed"):
            accelerator(**{name: np.zeros((200_000, 2)) for name in ("q", "qd", "tau")})
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(DeviceError, match="is closed; open it again"):
        accelerator(q=np.zeros((1, 2)), qd=np.zeros((1, 2)), tau=np.zeros((1, 2)))


def test_slices_of_a_stream_change_nothing(arm: Design, inputs: State, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for milliseconds in (0, 100_000):
        monkeypatch.setattr("dynagate.host.sim_links.SLICE_MS", milliseconds)
        with dynagate.open(arm, pauses=(0.2, 0.3), seed=4) as accelerator:
            for _ in range(2):
                results = accelerator(**inputs)
                seen.append((accelerator.transfer, results.dqdd_dq.tobytes(), results.overflow.tobytes()))
    assert seen[:2] == seen[2:]


BAD = {
    "missing": (
        lambda x: {k: v for k, v in x.items() if k != "tau"},
        ValueError,
        "input 'tau' is missing; expected shape",
    ),
    "unknown": (
        lambda x: {**x, "qdd": x["q"]},
        ValueError,
        r"forward_dynamics_gradient has no input 'qdd' \(did you mean 'qd'\?\); expected q, qd",
    ),
    "shape": (
        lambda x: {**x, "q": x["q"][:, :1]},
        ValueError,
        r"input 'q' has shape \(200, 1\); expected \(batch, 2\)",
    ),
    "no axes": (
        lambda x: {**x, "q": 0.0},
        ValueError,
        r"input 'q' has shape \(\); expected \(batch, 2\), or \(2,\) for a single state",
    ),
    "batches": (
        lambda x: {**x, "qd": x["qd"][:9]},
        ValueError,
        r"input 'qd' has leading axes \(9,\) and input 'q' \(200,\): they do not broadcast; expected the same",
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
    "masked": (
        lambda x: {**x, "q": np.ma.masked_greater(x["q"], 0.0)},
        TypeError,
        r"input 'q' is a masked array; expected one without a mask, such as \.filled\(\)",
    ),
    "range": (
        lambda x: with_entry(x, "q", 3.5),
        ValueError,
        r"input 'q' is 3.5 at \(7, 1\); the formats were chosen for -2.6 to 2.6",
    ),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_named_and_the_device_stays_usable(
    case: str, accelerator: Function, arm: Design, inputs: State
) -> None:
    change, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        accelerator(**change(inputs))
    check(accelerator, arm, inputs)


@pytest.mark.parametrize("name", ["q", "tau"])
def test_integers_refuse_what_their_formats_are_not_for(name: str, inputs: State) -> None:
    """As the simulated device does, instead of clamping it."""
    with dynagate.compile(robots.load("two_joint_arm"), FUNCTION, device="fixed") as accelerator:
        bounds = [
            accelerator.device.model.formatted.bounds[i] for i in accelerator.device.model.formatted.graph.input_nodes
        ]
        low, high = bounds[{"q": 1, "tau": 5}[name]]
        message = rf"input '{name}' is 1e\+06 at \(7, 1\); the formats were chosen for {low!r} to {high!r}"
        with pytest.raises(ValueError, match=message.replace("-", r"\-")):
            accelerator(**with_entry(inputs, name, 1e6))
        accelerator(**with_entry(inputs, name, high))
        accelerator(**with_entry(inputs, name, low))


def test_library_of_another_design_is_refused(arm: Design, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(arm.folder, folder)
    design = json.loads((folder / "design.json").read_text())
    other = resealed({**design, "ii": 4})
    (folder / "design.json").write_text(json.dumps(other))
    shown, described = arm.design.hash[:16], other["hash"][:16]
    with pytest.raises(DesignError, match=f"holds design {shown}; design.json describes {described}: build it again"):
        dynagate.open(folder)


def test_damaged_designs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DesignError, match="no design at .*; expected the folder that dynagate.build returned"):
        dynagate.open(tmp_path / "nothing")
    (tmp_path / "design.json").write_text("{")
    with pytest.raises(DesignError, match="design.json is not a design file: Expecting .*; expected the folder"):
        load_design(tmp_path)
    (tmp_path / "design.json").write_text("{}")
    with pytest.raises(DesignError, match="design.json has format None; expected 12: build the design again"):
        load_design(tmp_path)


def test_truncated_library_is_refused(arm: Design, tmp_path: Path) -> None:
    from dynagate.host.sim_links import SimLink

    library = tmp_path / "libdatapath.so"
    library.write_bytes(b"\x7fELF")
    with pytest.raises(DesignError, match="libdatapath.so is not a simulated datapath"):
        SimLink(library, load_design(arm.folder))


def test_unknown_device_is_refused(arm: Design) -> None:
    with pytest.raises(ValueError, match="device 'gpu'; expected one of numpy, fixed, sim, board"):
        dynagate.open(arm, device="gpu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"device 'gpu' \(write cuda\); expected one of numpy, fixed, cpu, cuda"):
        dynagate.compile(robots.load("two_joint_arm"), "forward_dynamics_gradient", device="gpu")  # type: ignore[arg-type]


def test_stuck_device_is_an_error_and_recovers(arm: Design, inputs: State, monkeypatch: pytest.MonkeyPatch) -> None:
    with dynagate.open(arm) as accelerator:
        with monkeypatch.context() as patch:
            patch.setattr("dynagate.host.sim_links.IDLE_CYCLES", 2)  # less than the interval
            with pytest.raises(DeviceError, match="0 results for 200 samples: no beat moved for 2 cycles"):
                accelerator(**inputs)
        check(accelerator, arm, inputs)


def test_payload_bits_survive_any_alignment() -> None:
    random = np.random.default_rng(0)
    widths = [2, 31, 32, 24, 1 + 32 - 2, 18, 27, 5]
    fields, lsb = [], 0
    for k, width in enumerate(widths):
        fields.append(Field(f"f{k}", lsb, max(width, 2), 0))
        lsb += width
    stream = Stream(lsb, tuple(fields), (StreamPort("all", (len(fields),), tuple(range(len(fields)))),))
    columns = [random.integers(f.format.lowest, f.format.highest + 1, 100) for f in fields]
    words = stream.codec.from_columns(columns)
    np.testing.assert_array_equal(stream.codec.integers(words), np.stack(columns, axis=1))
    by_hand = sum(int(x[7]) % (1 << f.width) << f.lsb for f, x in zip(fields, columns, strict=True))
    assert int.from_bytes(words[7].astype("<u4").tobytes(), "little") == by_hand
