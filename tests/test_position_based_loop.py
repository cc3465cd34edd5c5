"""Position-based steps as a loop of graphs: in numpy and in C they are those of the loops over links."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynagate import evaluate, robots
from dynagate.base.errors import ArgumentError
from dynagate.graph import Graph
from dynagate.graph.loop import Loop, evaluate_loop
from dynagate.integrators import PositionBased
from dynagate.integrators.position_based_loop import trajectory_loop
from dynagate.integrators.position_based_robots import swimmer
from dynagate.native.loop import LoopKernel
from dynagate.robot import Robot

from tests.cuda_text import as_host_code

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


def test_an_iteration_in_cuda(tmp_path: Path) -> None:
    """The graphs of an iteration as CUDA text, compiled as host code: the decision has zeros among what it selects."""
    search = trajectory_loop(robots.load("two_joint_arm"), 0.1, np.ones(2), 100).steps[1]
    assert isinstance(search, Loop)
    random = np.random.default_rng(0)
    for graph in search.steps:
        assert isinstance(graph, Graph)
        inputs = {port.name: random.uniform(-2.0, 2.0, (64, *port.shape)) for port in graph.inputs}
        if "relaxed" in inputs:
            inputs["relaxed"] = np.abs(inputs["relaxed"])
        folder = tmp_path / graph.name
        folder.mkdir()
        results = as_host_code(graph, inputs, folder)
        for name, value in evaluate(graph, inputs).items():
            np.testing.assert_allclose(results[name], value, rtol=1e-9, atol=1e-9)


def test_joints_with_quaternions_are_refused() -> None:
    with pytest.raises(ArgumentError, match="joint 'free' of robot '4-link hinge chain' is floating; a loop of pos"):
        trajectory_loop(swimmer(), 0.05, np.ones(9), 100)
