"""Position-based steps as a loop of graphs: in numpy, C and CUDA they are those of the loops over links."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynagate import robots
from dynagate.base.errors import ArgumentError
from dynagate.graph.loop import evaluate_loop
from dynagate.integrators import PositionBased
from dynagate.integrators.position_based_loop import trajectory_loop
from dynagate.integrators.position_based_robots import swimmer
from dynagate.native.cuda_loop import emit_cuda_loop
from dynagate.native.gpu_loop import GpuLoop
from dynagate.native.loop import LoopKernel
from dynagate.robot import Robot

from tests.test_gpu import ON_HOST, needs_nvcc

BATCH, STEPS = 12, 6


def robot_with(damping: float, armature: float) -> Robot:
    arm = robots.load("two_joint_arm")
    links = [replace(link, joint=replace(link.joint, damping=damping, armature=armature)) for link in arm.links]
    return replace(arm, links=tuple(links))


@pytest.mark.parametrize(
    ("dt", "speed", "damping", "equal"), [(0.02, 1.0, 0.0, 1.0), (0.1, 4.0, 0.3, 1.0), (0.1, 5.0, 0.0, 0.8)]
)
def test_a_trajectory_is_that_of_the_loops_over_links(dt: float, speed: float, damping: float, equal: float) -> None:
    """Configurations, and the share of steps with equal iterations. The last case has some that are rejected: up to 377
    iterations a step, whose number rounding changes."""
    robot = robot_with(damping, 0.1 * damping)
    sim = PositionBased(robot, dt)
    loop = trajectory_loop(robot, dt, sim._settings.scale, 1000)
    random = np.random.default_rng(0)
    q0, qd0 = random.uniform(-1.0, 1.0, (BATCH, 2)), random.uniform(-speed, speed, (BATCH, 2))
    tau = random.uniform(-1.0, 1.0, (BATCH, STEPS, 2))
    track = sim.run(q0, qd0, STEPS, tau=tau)
    assert track.converged.all()
    assert (track.iterations.max() > 100) == (equal < 1.0)
    inputs = {"q": q0, "before": q0 - dt * qd0, "tau": tau}
    kernel = LoopKernel(loop, np.float64)
    outputs = kernel.new_outputs(BATCH, STEPS)
    kernel(inputs, outputs, BATCH, STEPS)
    for results in (evaluate_loop(loop, inputs), outputs):
        assert np.abs(results["best"] - track.q[:, 1:]).max() < (1e-12 if equal == 1.0 else 1e-5)
        assert (np.abs(results["counted"] - track.iterations) <= 1).mean() >= equal
        assert results["left"].max() <= 1.0


def test_the_loop_in_cuda(tmp_path: Path) -> None:
    """As host code: each trajectory's search ends by itself, after other numbers of iterations than its neighbours'."""
    robot, dt = robot_with(0.3, 0.03), 0.1
    loop = trajectory_loop(robot, dt, PositionBased(robot, dt)._settings.scale, 1000)
    random = np.random.default_rng(0)
    q0, qd0 = random.uniform(-1.0, 1.0, (BATCH, 2)), random.uniform(-4.0, 4.0, (BATCH, 2))
    inputs = {"q": q0, "before": q0 - dt * qd0, "tau": random.uniform(-1.0, 1.0, (BATCH, STEPS, 2))}
    card = GpuLoop(loop, np.float64, STEPS, folder=tmp_path, toolchain=ON_HOST)
    outputs = card.new_outputs(BATCH)
    card(inputs, outputs)
    card.close()
    expected = evaluate_loop(loop, inputs)
    assert np.abs(outputs["best"] - expected["best"]).max() < 1e-12
    assert np.abs(outputs["counted"] - expected["counted"]).max() <= 1
    assert np.ptp(outputs["counted"], axis=0).min() >= 2
    assert outputs["left"].max() <= 1.0


@needs_nvcc
def test_nvcc_takes_the_loop(tmp_path: Path) -> None:
    loop = trajectory_loop(robots.load("two_joint_arm"), 0.1, np.ones(2), 100)
    (tmp_path / "loop.cu").write_text(emit_cuda_loop(loop, double=True))
    command = [shutil.which("nvcc") or "nvcc", "-cubin", "-arch=sm_90", "-Xptxas", "-v", tmp_path / "loop.cu"]
    done = subprocess.run([*command, "-o", tmp_path / "loop.cubin"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr


def test_joints_with_quaternions_are_refused() -> None:
    with pytest.raises(ArgumentError, match="joint 'free' of robot '4-link hinge chain' is floating; a loop of pos"):
        trajectory_loop(swimmer(), 0.05, np.ones(9), 100)
