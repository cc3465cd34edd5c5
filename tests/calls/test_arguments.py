"""Arrays and numbers that methods and compiled code take: what is refused, by which words, before any of it is read."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Rollout, robots
from dynagate.forces import Friction
from dynagate.graph.loop import evaluate_loop
from dynagate.host.rollouts import SHAPES, Trajectories
from dynagate.hw.build import build_request
from dynagate.native.gpu_loop import GpuLoop
from dynagate.native.loop import LoopKernel

from tests.played_card import ON_HOST
from tests.small_loops import square_root, swapping

ARM = robots.load("two_joint_arm")
ZEROS = np.zeros((2, 2))
WRONG: dict[str, tuple[Any, str]] = {
    "masked": (np.ma.array(ZEROS, mask=[[True, False]] * 2), "is a masked array; expected one without a mask"),
    "complex": (ZEROS + 5j, "has dtype complex128; expected real numbers such as float64"),
    "truth values": (ZEROS > 0, "has dtype bool; expected real numbers"),
    "texts": (ZEROS.astype(str), "has dtype <U32; expected real numbers"),
    "dates": (ZEROS.astype("i8").astype("M8[s]"), r"has dtype datetime64\[s\]; expected real numbers"),
    "objects": (ZEROS.astype(object), "has dtype object; expected real numbers"),
    "ragged": ([[0.0, 0.0], [0.0]], "is no array: "),
}


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """Numpy would warn of a lost imaginary part, and go on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def calls() -> dict[str, Callable[[Any, Any], object]]:
    """What takes the first and the second of two states (2, 2) and computes from them."""
    tau, rollout, stepped = np.zeros((2, 3, 2)), Rollout(ARM, steps=3, dt=0.01), Rollout(ARM, steps=3, dt=None)
    motion, weights = rollout(ZEROS, ZEROS, tau), np.zeros((2, 4, 2))

    def wide(x: Any) -> Any:
        """(2, 4, 2), of the same kind."""
        stack = np.ma.stack if isinstance(x, np.ma.MaskedArray) else np.stack
        return stack([x] * 4, axis=1) if isinstance(x, np.ndarray) else x

    def moved(q: Any, qd: Any) -> object:
        return rollout.vjp(Trajectories(wide(q), wide(qd), None, None, motion.diverged), tau, weights, weights)

    solving = {
        method: Rollout(ARM, steps=3, dt=1e-3, integrator=method, device="numpy")
        for method in ("variational", "position_based")
    }
    return {
        "rollout": lambda q, qd: rollout(q, qd, tau),
        "rollout with dt": lambda q, qd: stepped(q, qd, tau, dt=0.01),
        "rollout in numpy": lambda q, qd: Rollout(ARM, steps=3, dt=0.01, device="numpy")(q, qd, tau),
        "costs of a sweep": lambda q, qd: rollout.vjp(motion, tau, wide(q), wide(qd)),
        "states of a sweep": moved,
        "variational": lambda q, qd: solving["variational"](q, qd, tau),
        "position-based": lambda q, qd: solving["position_based"](q, qd, tau),
        "loop": lambda q, qd: evaluate_loop(swapping(), {"a": q, "b": qd, "more": tau}),
    }


@pytest.fixture(scope="module")
def takers() -> dict[str, Callable[[Any, Any], object]]:
    return calls()


@pytest.mark.parametrize("kind", WRONG)
def test_arrays_that_are_no_real_numbers(kind: str, takers: dict[str, Callable[[Any, Any], object]]) -> None:
    value, message = WRONG[kind]
    for name, take in takers.items():
        with pytest.raises((ValueError, TypeError), match=message):
            take(value, ZEROS)
        if name != "torques of a variational run":
            with pytest.raises((ValueError, TypeError), match=message):
                take(ZEROS, value)


@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_a_sweep_over_trajectories_of_others(device: str) -> None:
    """Of fewer steps, of another robot, or of another batch: the sweep in C would read beyond them."""
    short, long = (Rollout(ARM, steps=steps, dt=0.01, device=device) for steps in (4, 12))  # type: ignore[arg-type]
    motion = short(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 4, 2)))
    weights = np.ones((1, 13, 2))
    with pytest.raises(ValueError, match=r"trajectories.q has shape \(1, 5, 2\); expected \(1, 13, 2\)"):
        long.vjp(motion, np.ones((1, 12, 2)), weights, weights)
    whole = long(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 12, 2)))
    wrong = Trajectories(whole.q, whole.qd[:, :5], None, None, whole.diverged)
    with pytest.raises(ValueError, match=r"trajectories.qd has shape \(1, 5, 2\); expected \(1, 13, 2\)"):
        long.vjp(wrong, np.ones((1, 12, 2)), weights, weights)
    with pytest.raises(ValueError, match=r"trajectories.q has shape \(1, 13, 2\); expected \(3, 13, 2\)"):
        long.vjp(whole, np.ones((3, 12, 2)), np.ones((3, 13, 2)), np.ones((3, 13, 2)))
    expected = long.vjp(whole, np.ones((1, 12, 2)), weights, weights)
    single = Trajectories(whole.q.astype(np.float32), whole.qd.astype(np.float32), None, None, whole.diverged)
    got = long.vjp(single, np.ones((1, 12, 2)), weights, weights)  # another dtype is converted
    np.testing.assert_allclose(got["tau"], expected["tau"], rtol=1e-5)


def test_numbers_of_numpy_are_numbers() -> None:
    options = {"steps": np.int64(6), "every": np.int32(2), "forces": [Friction(np.float32(0.25))], "device": "numpy"}
    motion = Rollout(ARM, dt=0.01, **options)(ZEROS, ZEROS + 1.0, np.zeros((2, 6, 2)))  # type: ignore[arg-type]
    same = Rollout(ARM, dt=0.01, steps=6, every=2, forces=[Friction(0.25)], device="numpy")
    assert np.array_equal(motion.q, same(ZEROS, ZEROS + 1.0, np.zeros((2, 6, 2))).q)
    steps: Any = np.int64(3)
    track = Rollout(ARM, steps=steps, dt=1e-3, integrator="variational", device="numpy")(
        ZEROS[0], ZEROS[0], np.zeros((3, 2))
    )
    assert track.q.shape == (4, 2)
    for steps in (True, 2.0, np.float64(2.0), "2"):
        with pytest.raises(ValueError, match="expected a whole number of 1 or more"):
            Rollout(ARM, steps=steps, dt=0.01)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="friction has force .*; expected True, or numbers of 0 or more"):
        Friction((True, 0.1))


def loops(cache: Path) -> dict[str, Callable[[dict[str, Any], dict[str, Any]], object]]:
    kernel = LoopKernel(swapping(), np.float64, folder=cache)
    card = GpuLoop(swapping(), np.float64, 5, folder=cache, toolchain=ON_HOST)
    return {"C": lambda inputs, outputs: kernel(inputs, outputs, 2, 5), "CUDA": card}


@pytest.mark.parametrize("language", ["C", "CUDA"])
def test_arrays_that_a_compiled_loop_would_leave(language: str, cache: Path) -> None:
    call = loops(cache)[language]
    inputs = {"a": np.ones((2, 3)), "b": np.ones((2, 3)), "more": np.ones((2, 5, 3))}
    outputs = {"both": np.empty((2, 5, 3)), "next_a": np.empty((2, 3))}
    call(inputs, outputs)
    expected = evaluate_loop(swapping(), inputs)
    assert all(np.array_equal(outputs[name], value) for name, value in expected.items())
    read_only = np.empty((2, 3))
    read_only.flags.writeable = False
    for wrong, message in [
        ({"more": np.ones((2, 4, 3))}, r"input 'more' is float64 \(2, 4, 3\); expected float64 \(2, 5, 3\)"),
        ({"b": np.ones((2, 2))}, r"input 'b' is float64 \(2, 2\); expected float64 \(2, 3\)"),
        ({"b": np.ones((3, 3))}, r"input 'b' is float64 \(3, 3\); expected float64 \(2, 3\)"),
        ({"b": np.ones((2, 3)) * 1j}, "input 'b' has dtype complex128"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            call({**inputs, **wrong}, outputs)
    for wrong, message in [
        ({"both": np.empty((2, 4, 3))}, r"both'? is float64 \(2, 4, 3\); expected float64 \(2, 5, 3\)"),
        ({"next_a": np.empty((2, 3), np.float32)}, r"next_a'? is float32 \(2, 3\); expected float64 \(2, 3\)"),
        ({"next_a": np.empty((1, 3))}, r"next_a'? is float64 \(1, 3\); expected float64 \(2, 3\)"),
        ({"next_a": read_only}, "next_a'? is read-only; expected an array to write to"),
        ({"next_a": [[0.0] * 3] * 2}, "next_a'? is a list; expected an array to write to"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            call(inputs, {**outputs, **wrong})


def test_iterations_that_are_not_the_loops_in_c(cache: Path) -> None:
    kernel = LoopKernel(replace(swapping(), stop=replace(swapping().stop, iterations=5)), np.float64, folder=cache)
    with pytest.raises(ValueError, match="swap: iterations=4; expected 5"):
        kernel.bound({}, {}, 2, 4)
    LoopKernel(square_root(), np.float64, folder=cache)({"a": np.ones(2), "x": np.ones(2)}, _root_outputs(), 2, 0)


def _root_outputs() -> dict[str, np.ndarray]:
    return {port.name: np.empty(2) for port in square_root().outputs}


def test_a_rollout_keeps_few_shapes() -> None:
    """Calls of ever other shapes are right, and their arrays do not stay."""
    rollout, slow = (Rollout(ARM, steps=2, dt=0.01, device=device) for device in ("cpu", "numpy"))  # type: ignore[arg-type]
    for batch in [*range(1, SHAPES + 5), 1]:
        start, tau = np.full((batch, 2), 0.3), np.ones((batch, 2, 2))
        np.testing.assert_allclose(rollout(start, start, tau).q, slow(start, start, tau).q, rtol=1e-13)
        assert len(rollout._small) <= SHAPES


# wrong arguments of public entries

HOSTILE: list[Any] = [
    None,
    True,
    -1,
    10**30,
    float("nan"),
    1j,
    "",
    "\0",
    "x" * 5000,
    b"q",
    [],
    ["q"],
    {"q": 1},
    object(),
]
HOSTILE += [np.zeros(3), np.zeros((0, 2)), np.array("q"), np.array([None, 1]), np.ma.masked_array([1.0, 2.0], [0, 1])]
HOSTILE += [len, Path("/proc/nowhere"), slice(3), "uart:", "pcie,generation=x", "xdma:/dev/null"]
HOSTILE += ["uart:/dev/null,baud=-1", ",,,"]
OPTIONS = (
    "device",
    "algorithm",
    "overflow",
    "progress",
    "dtype",
    "threads",
    "layout",
    "pack",
    "link",
    "shell",
    "pauses",
)
OPTIONS += ("pauses", "seed", "folder", "axi", "units", "region", "policy", "function", "form")


@pytest.fixture(scope="module")
def wrongly_used(designs: Path) -> tuple[Any, ...]:
    """A robot, a design, a program, and what computes each."""
    arm = robots.load("two_joint_arm")
    design = dynagate.build(arm, "inverse_dynamics", ii=32, folder=designs)
    program = dynagate.build(arm, "inverse_dynamics", units=2, folder=designs)
    opened = (
        dynagate.compile(arm, "inverse_dynamics", device="numpy"),
        dynagate.open(design, device="fixed"),
        dynagate.open(program, device="fixed"),
    )
    return (arm, design, program, *opened)


def refused(entry: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Check that an entry accepts the arguments or refuses them by an error of dynagate."""
    with contextlib.suppress(dynagate.Error):
        entry(*arguments, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(4))
def test_no_foreign_exception_leaves_a_public_entry(
    seed: int, wrongly_used: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "false")  # options that are right would compile for a minute: this error is ours too
    random = np.random.default_rng(seed)
    arm, design, program, *opened = wrongly_used
    states = {name: np.zeros((2, 2)) for name in ("q", "qd", "qdd")}

    def wrong() -> Any:
        return HOSTILE[random.integers(len(HOSTILE))]

    for _ in range(40):
        option, value = OPTIONS[random.integers(len(OPTIONS))], wrong()
        what = (arm, design, design.folder, program.folder)[random.integers(4)]
        refused(dynagate.open, what, **{option: value})
        refused(dynagate.open, wrong())
        compiled = {"device": "numpy", option: value}
        refused(dynagate.compile, arm, compiled.pop("function", "inverse_dynamics"), **compiled)
        refused(dynagate.compile, wrong(), wrong())
        own = {"folder": tmp_path, "ii": 32, option: value}
        if option not in ("folder", "function"):
            refused(dynagate.build, arm, "inverse_dynamics", **own)
        refused(dynagate.build, wrong(), wrong(), folder=tmp_path)
        refused(build_request, wrong())
        accelerator = opened[random.integers(len(opened))]
        name = ("q", "qd", "qdd", "out", "more")[random.integers(5)]
        for call in (accelerator, accelerator.bind, accelerator.submit):
            refused(call, **{**states, name: value})
        refused(accelerator.new_inputs, value)
        if isinstance(accelerator, dynagate.Device):
            refused(accelerator.load, value)
