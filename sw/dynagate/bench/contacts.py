"""Benchmark of constrained forward dynamics with point contacts against Pinocchio, and of robots that land on rigid
ground.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.bench.measure import timing
from dynagate.bench.peers import FLAGS, compiled, described, installed
from dynagate.dynamics.configuration import neutral
from dynagate.forces.contact import Point
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.host import Function, compile
from dynagate.host.rollouts import Rollout
from dynagate.integrators import RigidContact
from dynagate.native.compile import CompileError
from dynagate.robot import Robot

FUNCTION = "constrained_forward_dynamics"
SEED = 1
STEPS, DT = 50, 2e-3
"""Steps of landing and their length in s: long enough that all feet meet the ground."""
GAP, DOWN = 0.01, 1.0
"""m between the lowest foot and the ground, and m/s towards it."""


def check_points(robot: Robot) -> None:
    """Raise ArgumentError if the robot has no constraints, or constraints other than point contacts."""
    others = [own.text for own in robot.constraints if own.to or own.kind != "point"]
    if others or not robot.constraints:
        raise ArgumentError(
            f"robot '{robot.name}' has {', '.join(others) or 'no contacts'}; expected only point contacts to compare "
            "with Pinocchio",
            code="DG-BENCH-002",
        )


def measured(robot: Robot, region: Region, batch: int = 4096, *, pinocchio: bool = True) -> dict[str, Any]:
    """Return times in ns per state or step.

    They are measured for a batch in float64 and float32 on one thread, for a single call of Pinocchio's
    `constraintDynamics` in C++ with all contacts (or the reason why it is not available), and for floating robots that
    land on their contacts.

    Args:
        robot: The robot, with point contacts only.
        region: The operating region.
        batch: Number of states.
        pinocchio: Whether to measure Pinocchio.

    Raises:
        ArgumentError: The robot has no constraints, or constraints other than point contacts.
    """
    check_points(robot)
    result: dict[str, Any] = {"batch": batch, "pinocchio": _pinocchio(robot) if pinocchio else "not requested"}
    state = region.sample(FUNCTION, batch, SEED)
    for dtype in ("float64", "float32"):
        with compile(robot, FUNCTION, dtype=dtype, threads=1) as accelerator:
            assert isinstance(accelerator, Function)
            inputs: dict[str, Any] = accelerator.new_inputs(batch)
            for name, value in state.items():
                inputs[name][...] = value
            result[dtype] = asdict(timing(accelerator.bind(**inputs)).per(batch))
    if robot.links[0].joint.kind.free:
        result["landing"] = landing(robot, batch)
    return result


def landing(robot: Robot, batch: int) -> dict[str, Any]:
    """Return ns per step of many robots that fall on their contacts, in float64 on all processors.

    The result also has the reduction of the downward speed, m/s, and the fraction of steps that needed all solver
    sweeps.
    """
    frames = [robot.frame(own.frame) for own in robot.constraints]
    points = [Point(robot.links[frame.link].name, frame.translation) for frame in frames]
    ground = RigidContact(points, tolerance=1e-5)
    rollout = Rollout(robot, steps=STEPS, dt=DT, contacts=ground)
    random = np.random.default_rng(SEED)
    q = np.tile(neutral(robot), (batch, 1))
    q[:, 7:] += random.uniform(-0.5, 0.5, (batch, robot.nq - 7))
    feet = [evaluate(trace(robot, f"frame_pose_{frame.name}"), {"q": q})["frame_position"][:, 2] for frame in frames]
    q[:, 2] += GAP - np.min(feet, axis=0)
    qd = np.zeros((batch, robot.nv))
    qd[:, 2] = -DOWN
    tau = np.zeros((batch, STEPS, robot.nv))
    trajectory = rollout(q, qd, tau)
    assert trajectory.iterations is not None
    slower = trajectory.qd[:, -1, 2] + DOWN + abs(robot.gravity[2]) * STEPS * DT
    return {
        **asdict(timing(lambda: rollout(q, qd, tau), 0.0).per(batch * STEPS)),
        "steps": STEPS,
        "slower": float(np.median(slower)),
        "failed": float(np.mean(trajectory.iterations >= ground.sweeps)),
    }


def text(result: Mapping[str, Any]) -> str:
    """Return the figures as lines, with the ratio to Pinocchio's."""
    peer = result["pinocchio"]
    lines = [f"{FUNCTION}, all contacts, ns a state, one thread, batches of {result['batch']}"]
    lines.append(f"{'Pinocchio constraintDynamics, C++':<36}{peer if isinstance(peer, str) else f'{peer[0]:>10.0f}'}")
    for dtype in ("float64", "float32"):
        own = result[dtype]["ns"]
        ratio = "" if isinstance(peer, str) else f"{peer[0] / own:>8.1f} x"
        lines.append(f"{dtype:<36}{own:>10.0f}{ratio}")
    if "landing" in result:
        land = result["landing"]
        lines.append(
            f"{result['batch']} robots that land on their contacts: {1e9 / land['ns']:.0f} steps a second, "
            f"{100.0 * land['failed']:.1f} % of them short of the tolerance"
        )
    return "\n".join(lines)


def _pinocchio(robot: Robot) -> tuple[float, float] | str:
    """Return the median and the interquartile range of Pinocchio's time, or the reason why it is not available."""
    libraries = installed()
    if isinstance(libraries, str):
        return libraries
    try:
        program = compiled("contacts_peer.cpp", FLAGS, libraries)
    except CompileError as error:
        return str(error)
    frames = [robot.frame(own.frame) for own in robot.constraints]
    rows = [f"{frame.link} {' '.join(map(repr, map(float, frame.translation)))}" for frame in frames]
    text = described(robot) + "\n".join([str(len(rows)), *rows]) + "\n"
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"the Pinocchio program ended with status {done.returncode}: {done.stderr.strip()}"
    median, spread = done.stdout.split()
    return float(median), float(spread)
