"""Loops in CUDA: their numbers on a host that plays the GPU, that nvcc takes the text, and the error without a card."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from dynagate import Region, RigidContact, Rollout, robots
from dynagate.forces import Plane, Point
from dynagate.forces.options import StepOptions
from dynagate.graph.loop import ITERATIONS, RESIDUAL, Count, Loop, evaluate_loop
from dynagate.graph.recorder import Recording
from dynagate.host import DeviceError
from dynagate.integrators.explicit_method import rollout_loop
from dynagate.native import cuda
from dynagate.native.cuda_loop import emit_cuda_loop
from dynagate.native.gpu import GpuError
from dynagate.native.gpu_loop import GpuLoop
from dynagate.native.loop import LoopKernel
from dynagate.operators.on_card import Framework, backward, forward
from dynagate.operators.rollouts import RolloutOperator

from tests.played_card import ON_HOST, OnGpu, live, needs_nvcc, play_card
from tests.small_loops import accumulated_roots, robot_of, square_root, states_of, swapping


@pytest.fixture
def opened(cache: Path) -> Callable[..., GpuLoop]:
    return partial(GpuLoop, folder=cache, toolchain=ON_HOST)


def powers() -> Loop:
    """A loop of three iterations within a loop: each iteration multiplies x by y three times, and gives x² without
    carrying it. The second step gives x anew, from its old value."""
    recording = Recording("multiply", "none")
    x, y = (recording.input(n, (2,)) for n in ("x", "y"))
    inner = Loop("thrice", "none", (recording.graph({"xy": x * y}),), {"xy": "x"}, Count(3), last=("xy",))
    recording = Recording("half", "none")
    old = recording.input("xy", (2,))
    half = recording.graph({"xy": np.array([old[1] * 0.5, old[0] * 0.5]), "square": old * old})
    return Loop("powers", "none", (inner, half), {"xy": "x"}, Count(), ("y",), ("square",), ("xy",))


def every_other() -> Loop:
    """Five iterations, of which the second and the fourth are given."""
    return replace(swapping(), name="every_other", every=2)


CASES: dict[str, tuple[Callable[[], Loop], dict[str, tuple[int, ...]], int | None]] = {
    "scan": (swapping, {"a": (37, 3), "b": (37, 3), "more": (37, 5, 3)}, 5),
    "every other iteration": (every_other, {"a": (37, 3), "b": (37, 3), "more": (37, 5, 3)}, 5),
    "while": (square_root, {"a": (37,), "x": (37,)}, None),
    "while in scan": (accumulated_roots, {"total": (37,), "number": (37, 4)}, 4),
    "scan in scan": (powers, {"x": (37, 2), "y": (37, 4, 2)}, 4),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("language", ["C", "CUDA", "CUDA in segments"])
def test_loops_equal_the_reference(
    name: str, language: str, opened: Callable[..., GpuLoop], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if language == "CUDA in segments":
        monkeypatch.setattr(cuda, "MOST_OPERATIONS", 0)
    build, shapes, iterations = CASES[name]
    loop, random = build(), np.random.default_rng(5)
    inputs = {name: random.uniform(0.5, 1.5, shape) for name, shape in shapes.items()}
    if language == "C":
        kernel = LoopKernel(loop, np.float64, folder=cache)
        outputs = kernel.new_outputs(37, iterations or 0)
        kernel(inputs, outputs, 37, iterations or 0)
    else:
        card = opened(loop, np.float64, iterations)
        before = live(card)  # other loops of this process may have the same library
        outputs = {port: np.full_like(array, np.nan) for port, array in card.new_outputs(37).items()}
        card(inputs, outputs)
        card.close()
        assert live(card) <= before
    for port, value in evaluate_loop(loop, inputs).items():
        np.testing.assert_allclose(outputs[port], value, rtol=1e-12, atol=1e-12, err_msg=port)


def test_samples_end_by_themselves(opened: Callable[..., GpuLoop]) -> None:
    inputs = {"a": np.array([4.0, 1e12, np.nan, 2.0]), "x": np.array([2.0, 1.0, 1.0, 1.0])}
    card = opened(square_root(), np.float64)
    outputs = card.new_outputs(4)
    card(inputs, outputs)
    assert outputs[ITERATIONS].tolist() == [1.0, 20.0, 20.0, 5.0]
    assert np.isnan(outputs[RESIDUAL][2])
    np.testing.assert_allclose(outputs["better"], evaluate_loop(square_root(), inputs)["better"], rtol=1e-12)
    card.close()


def test_arrays_on_the_gpu_stay_there(opened: Callable[..., GpuLoop]) -> None:
    card = opened(swapping(), np.float64, 5)
    inputs = {name: np.random.default_rng(6).normal(size=shape) for name, shape in CASES["scan"][1].items()}
    there = {name: OnGpu(array) for name, array in inputs.items()}
    outputs = {"both": OnGpu(np.zeros((37, 5, 3))), "next_a": OnGpu(np.zeros((37, 3)))}
    card.launch(there, outputs)
    for name, value in evaluate_loop(swapping(), inputs).items():
        np.testing.assert_allclose(outputs[name].array, value, rtol=1e-12)
    with pytest.raises(ValueError, match=r"input 'more' is float64 \(37, 4, 3\); expected float64 \(37, 5, 3\)"):
        card.launch({**there, "more": OnGpu(inputs["more"][:, :4].copy())}, outputs)
    card.close()
    with pytest.raises(GpuError, match="the kernel of swap is closed"):
        card.launch(there, outputs)


@pytest.mark.parametrize("iterations", [None, 0])
def test_iterations_that_nothing_says(iterations: int | None, opened: Callable[..., GpuLoop]) -> None:
    with pytest.raises(ValueError, match=f"swap: iterations={iterations}; expected a number of iterations"):
        opened(swapping(), np.float64, iterations)


def test_iterations_that_are_not_the_loops(opened: Callable[..., GpuLoop]) -> None:
    with pytest.raises(ValueError, match="thrice: iterations=4; expected 3"):
        opened(powers().steps[0], np.float64, 4)


@pytest.mark.parametrize("name", ["two_joint_arm", "floating"])
def test_rollouts_equal_the_reference(name: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_card(monkeypatch, cache)
    robot = robot_of(name, tmp_path)
    q, qd, tau = states_of(robot, 21, 6)
    tau[3, 2:] = 1e200
    options = {"steps": 6, "dt": None, "linearize": name == "two_joint_arm"}
    card, slow = (Rollout(robot, device=device, **options) for device in ("cuda", "numpy"))
    fast, expected = card(q, qd, tau, dt=0.01), slow(q, qd, tau, dt=0.01)
    assert fast.diverged.tolist() == expected.diverged.tolist()
    assert (fast.diverged >= 0).tolist() == [k == 3 for k in range(21)]
    others = np.arange(21) != 3
    for field in ("q", "qd", "a", "b"):
        if (value := getattr(expected, field)) is not None:
            np.testing.assert_allclose(getattr(fast, field)[others], value[others], rtol=1e-9, atol=1e-9, err_msg=field)
    cost = np.random.default_rng(3).normal(size=(2, 21, 7, robot.nv))
    card, slow = (Rollout(robot, device=device, **{**options, "dt": 0.01}) for device in ("cuda", "numpy"))
    gradient = card.vjp(fast, tau, *cost)
    for part, value in slow.vjp(fast, tau, *cost).items():
        np.testing.assert_allclose(gradient[part][others], value[others], rtol=1e-9, atol=1e-9, err_msg=part)


def test_a_closed_rollout_gives_the_memory_of_the_card_back(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_card(monkeypatch, cache)
    rollout = Rollout("two_joint_arm", steps=3, dt=0.01, device="cuda")
    program = rollout._compute._program  # type: ignore[attr-defined]
    before = live(program)
    rollout.close()
    assert live(program) < before


ON_CARD = {
    "variable": {},
    "every": {"every": 3},
    "feedback": {"feedback": True},
    "variational": {"integrator": "variational"},
    "contacts": {"contacts": RigidContact([Point("forearm", (0.0, 0.0, 0.3))], [Plane(offset=-0.4)], friction=0.6)},
}


@pytest.mark.parametrize("name", ON_CARD)
def test_operators_of_rollouts_compute_on_a_card_as_on_the_host(name: str) -> None:
    """The arithmetic around the loops, by numpy's functions; a framework passes its own."""

    def run(loop: Loop, iterations: int | None, arrays: list[np.ndarray]) -> list[np.ndarray]:
        results = evaluate_loop(loop, {port.name: x for port, x in zip(loop.inputs, arrays, strict=True)})
        return [results[port.name] for port in loop.outputs]

    on = Framework(np.full, partial(np.concatenate, axis=1), np.where, run)
    arm = robots.load("two_joint_arm")
    robot = arm.with_variable("*.mass", "gravity") if name == "variable" else arm
    operator = RolloutOperator(robot, steps=6, dt=0.01, backend="compiled", dtype=np.dtype(np.float64), **ON_CARD[name])
    random = np.random.default_rng(4)
    state = [random.normal(size=shape) for shape in ((2, 5, 2), (2, 5, 2), (2, 5, 6, 2))]
    if name != "contacts":
        state[2][0, 1] = 1e200  # this trajectory diverges
    drawn = Region.of(robot).sample("forward_dynamics", 10, seed=1)
    parameters = [random.normal(size=(2, 5, 6, *shape)) for shape in operator.stepped.values()]
    parameters += [drawn[key].reshape(2, 5, *port.shape) for key, port in operator.parameters.items()]
    with np.errstate(all="ignore"):
        found, expected = forward(operator, [*state, *parameters], on), operator.forward(*state, *parameters)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a[1], b[1], rtol=1e-9, atol=1e-9)
    for a, b in zip(found[:2], expected[:2], strict=True):
        assert np.array_equal(np.isfinite(a), np.isfinite(b))
    if name == "every":
        return
    q, qd, *others = (x[1] for x in expected)
    solved = others[: len(operator.solved)]
    costs = [random.normal(size=x.shape) for x in (q, qd, *solved)]
    arrays = [q, qd, state[2][1], *(x[1] for x in parameters), *solved, *costs]
    for a, b in zip(backward(operator, arrays, on), operator.backward(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


def test_a_rollout_without_a_card(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_card(monkeypatch, cache)
    monkeypatch.setenv("CUDA_ON_HOST_CARDS", "0")
    with pytest.raises(DeviceError, match="GPU 0: cudaGetDeviceCount: no CUDA-capable device is detected"):
        Rollout("two_joint_arm", steps=3, dt=0.01, device="cuda")


@needs_nvcc
@pytest.mark.parametrize("linearize", [False, True])
def test_nvcc_keeps_the_state_in_registers(linearize: bool, tmp_path: Path) -> None:
    loop = rollout_loop(robots.load("two_joint_arm"), StepOptions(0.01), linearize=linearize)
    source = tmp_path / "loop.cu"
    source.write_text(emit_cuda_loop(loop))
    command = [shutil.which("nvcc") or "nvcc", "-cubin", "-arch=sm_90", "-Xptxas", "-v", source]
    done = subprocess.run([*command, "-o", tmp_path / "loop.cubin"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in done.stderr
