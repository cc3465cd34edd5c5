"""Checks over a robot's range of motion: gravity torques against limits, and the condition of the mass matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynagate.base.arrays import Array, Floats
from dynagate.base.errors import Error
from dynagate.checks.finding import Finding
from dynagate.checks.source import RobotSource
from dynagate.dynamics import LISTED
from dynagate.dynamics.batch import batched
from dynagate.dynamics.configuration import integrate, neutral
from dynagate.robot.model import Robot

STATES = 256
"""Number of random configurations."""
SEED = 1
"""Seed of the random configurations."""
LARGEST_OFFSET = 20.0
"""Largest plausible offset between joints in m. A larger one is probably in millimetres."""
LARGEST_CONDITION = 1e10
"""Condition number of the mass matrix at which float64 loses ten digits."""


def check_motion(robot: Robot, source: RobotSource | None) -> Iterator[Finding]:
    """Yield findings on lengths, gravity torques and the mass matrix. `source` is the robot's file, if known."""
    yield from _lengths(robot, source)
    if not any(link.mass for link in robot.links):
        yield Finding("warning", "mass", "robot", "no link has a mass: the file is for kinematics only", 0.0)
        return
    q = configurations(robot)
    yield from _gravity(robot, q, source)
    yield from _condition(robot, q, source)


def configurations(robot: Robot) -> Floats:
    """Return random configurations (STATES, nq) within the position limits, or within π rad or m without limits."""
    random = np.random.default_rng(SEED)
    q = integrate(robot, np.tile(neutral(robot), (STATES, 1)), random.uniform(-np.pi, np.pi, (STATES, robot.nv)))
    quaternion = np.zeros(robot.nq, bool)
    for part in robot.quaternions():
        quaternion[part] = True
    limited = np.isfinite(robot.upper - robot.lower) & (robot.lower <= robot.upper) & ~quaternion
    within = random.uniform(np.where(limited, robot.lower, 0.0), np.where(limited, robot.upper, 0.0), q.shape)
    return np.where(limited, within, q)


def _evaluated(robot: Robot, name: str, q: Floats) -> Floats:
    """Return the only output of a function, flattened, for each configuration in q (batch, nq).

    The algorithm runs on numpy arrays. To record a graph for a few hundred states would take longer.
    """

    def flattened(scalars: Array) -> Array:
        (output,) = LISTED[name](robot, list(scalars))
        return np.ravel(output)

    results = batched(flattened, q)  # has no batch axis if no entry depends on q
    return np.broadcast_to(results, (len(q), results.shape[-1]))


def _lengths(robot: Robot, source: RobotSource | None) -> Iterator[Finding]:
    """Yield findings on offsets between joints that are probably in millimetres."""
    for link in robot.links:
        length = float(np.linalg.norm(link.joint.translation))
        if length > LARGEST_OFFSET:
            xyz = " ".join(f"{x / 1e3:g}" for x in link.joint.translation)
            name = link.joint.name
            text = f"{length:g} m from the joint before it"
            line = source.line(name) if source else None
            yield Finding(
                "warning", "lengths", f"joint '{name}'", text, length, line, f'if it is in millimetres: xyz="{xyz}"'
            )


def _gravity(robot: Robot, q: Floats, source: RobotSource | None) -> Iterator[Finding]:
    """Yield findings on joints that cannot hold the robot still everywhere in its range."""
    if robot.undriven or not any(robot.gravity):
        return
    torque = np.abs(_evaluated(robot, "gravity_torque", q))
    for joint, _, at in robot.moving():
        need, limit = float(torque[:, at].max(initial=0.0)), joint.effort
        if limit is not None and 0.0 < limit < need:
            _, unit = joint.kind.units
            count = int(np.sum(torque[:, at].max(1) > limit))
            text = f"gravity needs up to {need:.4g} {unit}, but the effort limit is {limit:g} {unit}"
            text += f": too little in {count} of {STATES} configurations"
            line = source.line(joint.name) if source else None
            yield Finding("warning", "gravity", f"joint '{joint.name}'", text, need, line)


def _condition(robot: Robot, q: Floats, source: RobotSource | None) -> Iterator[Finding]:
    """Yield the condition number of the mass matrix, and the joint that moves the least inertia."""
    try:
        matrices = _evaluated(robot, "mass_matrix", q).reshape(-1, robot.nv, robot.nv)
    except Error as error:
        yield Finding("error", "mass matrix", "robot", str(error))
        return
    values = np.linalg.eigvalsh(matrices)
    names = [joint.name for joint, _, at in robot.moving() for _ in range(at.start, at.stop)]
    worst = int(np.argmin(values[:, 0] / np.maximum(values[:, -1], np.finfo(float).tiny)))
    least, most = float(values[worst, 0]), float(values[worst, -1])
    _, vectors = np.linalg.eigh(matrices[worst])
    joint = names[int(np.argmax(np.abs(vectors[:, 0])))]
    line = source.line(joint) if source else None
    if least <= most * 1e-15:
        text = "the mass matrix has no inverse: nothing beyond this joint has inertia about its axis"
        advice = f"robot.with_armature(...), or lock={{'{joint}': 0.0}}"
        yield Finding("error", "mass matrix", f"joint '{joint}'", text, least, line, advice)
        return
    condition = most / least
    level = "warning" if condition > LARGEST_CONDITION else "note"
    text = f"condition of the mass matrix is up to {condition:.3g}; this joint moves the least inertia, {least:.3g}"
    advice = "robot.with_armature(...) adds the rotor's inertia" if condition > LARGEST_CONDITION else ""
    yield Finding(level, "mass matrix", f"joint '{joint}'", text, condition, line, advice)
