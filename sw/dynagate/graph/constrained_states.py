"""Move sampled states to states that a robot's constraints allow: loops closed, and held frames nearly at rest.

A robot that stands or closes loops does not visit the rest of its joints' ranges. Formats that hold the full ranges
would waste bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Floats
from dynagate.dynamics.configuration import integrated, normalized
from dynagate.graph.evaluate import evaluate
from dynagate.graph.trace import trace
from dynagate.robot import Robot, RobotError

LEFT = 0.05
"""Part of the velocity against constraints that states keep, for the drift that time steps leave."""

CLOSING = 20
"""Number of Newton steps towards closed loops."""
LONGEST = 0.3
"""Largest change of a coordinate in a Newton step, in rad or m."""
OPEN = 1e-9
"""A loop counts as closed within this distance, in m or rad."""

NEARLY_SINGULAR = 1e-2
"""Smallest accepted eigenvalue of the Delassus matrix of active constraints, with its diagonal scaled to 1.

Below this value a format has too few bits to determine the forces.
"""

SHARE = 1e-2
"""A frame that reaches this part of the squares of the widest stance carries half of the full load."""

NOTHING = 1e-9
"""A joint counts as not loaded if frames reach less than this part of the squares of any joint, such as loops that are
closed within rounding.
"""

DRAWS = 8
"""Number of times that states are drawn again if they do not close or are nearly singular."""


def _rows(robot: Robot, name: str, **state: Floats) -> Floats:
    return evaluate(trace(robot, name), state)[name]


def near(robot: Robot, q: Floats, active: Floats, drawn: Callable[[], Floats], ends: tuple[Floats, Floats]) -> Floats:
    """Return configurations near q at which loops are closed and the active constraints determine their forces.

    Args:
        robot: The robot.
        q: Configurations (count, nq), rad or m.
        active: Whether each constraint is active, (count, constraints).
        drawn: Returns other configurations (count, nq), from which to start where q leads to none.
        ends: Lower and upper limits (nq,), rad or m.

    Returns:
        Configurations (count, nq).

    Raises:
        RobotError: No configuration closes the loops.
    """
    result = _closed(robot, q, ends)
    bad = np.flatnonzero(~_is_good(robot, result, active))
    for _ in range(DRAWS):
        if not len(bad):
            return result
        result[bad] = _closed(robot, drawn()[bad], ends)
        bad = bad[~_is_good(robot, result[bad], active[bad])]
    if not _are_closed(robot, result).any():
        loops = ", ".join(own.text for own in robot.constraints if not own.is_contact)
        raise RobotError(
            f"{loops} of robot '{robot.name}' closes at none of {len(q) * (DRAWS + 1)} configurations within its "
            "limits; expected frames that the joints bring together",
            code="DG-GRAPH-003",
        )
    good = np.flatnonzero(_is_good(robot, result, active))
    source = good if len(good) else np.flatnonzero(_are_closed(robot, result))
    result[bad] = result[np.resize(source, len(bad))]
    return result


def still(robot: Robot, q: Floats, qd: Floats, active: Floats, limits: Floats) -> Floats:
    """Return velocities near qd that keep only LEFT of their part against the active constraints.

    Args:
        robot: The robot.
        q: Configurations (count, nq), rad or m.
        qd: Velocities (count, nv), rad/s or m/s.
        active: Whether each constraint is active, (count, constraints).
        limits: Largest velocities (nv,).

    Returns:
        Velocities (count, nv) within the limits.
    """
    columns = _held(robot, q, active) * limits
    part = np.einsum("bri,bi->br", columns, qd / limits)
    against = np.einsum("bir,br->bi", np.linalg.pinv(columns, rcond=NEARLY_SINGULAR), part) * limits
    moved = qd - (1.0 - LEFT) * against
    excess = np.max(np.abs(moved) / limits, axis=1, keepdims=True)
    return moved / np.maximum(1.0, excess)


def carried(robot: Robot, q: Floats, tau: Floats, active: Floats) -> Floats:
    """Return torques with which constraint forces carry the load of joints without a drive.

    The constraint forces are the smallest possible, and bounded if frames are nearly in line.

    Args:
        robot: The robot.
        q: Configurations (count, nq), rad or m.
        tau: Torques (count, nv), N m or N.
        active: Whether each constraint is active, (count, constraints).

    Returns:
        Torques (count, nv).
    """
    undriven = robot.undriven
    if not undriven:
        return tau
    jacobian = _held(robot, q, active)
    across = jacobian[:, :, undriven]
    squares = np.einsum("bri,brj->bij", across, across)
    widest = np.einsum("bii->bi", squares).max(axis=0)
    pushes_it = widest > NOTHING * np.square(jacobian).sum(axis=1).max()
    squares += np.diag(np.where(pushes_it, SHARE * widest, 1.0))
    part = np.linalg.solve(squares, tau[:, undriven, None])
    pushes: Floats = np.einsum("brd,bri,bi->bd", jacobian, across, part[:, :, 0])
    return tau - pushes


def _held(robot: Robot, q: Floats, active: Floats) -> Floats:
    """Return the constraint Jacobian J (count, rows, nv), with zero rows for inactive constraints."""
    rows = [own.rows for own in robot.constraints]
    return _rows(robot, "contact_jacobian", q=q) * np.repeat(active, rows, axis=1)[:, :, None]


def _loops(robot: Robot) -> Robot:
    """Return the robot with only its loops; its drift at rest is their opening."""
    loops = (replace(own, stiffness=1.0, damping=0.0) for own in robot.constraints if not own.is_contact)
    return replace(robot, constraints=tuple(loops))


def _closed(robot: Robot, q: Floats, ends: tuple[Floats, Floats]) -> Floats:
    """Return configurations near q at which loops are closed, by Newton steps within the limits."""
    loops, q = _loops(robot), q.copy()
    if not loops.constraints:
        return q
    single = np.concatenate([np.full(link.joint.nq, not link.joint.has_quaternion) for link in robot.links])
    for _ in range(CLOSING):
        opening = _opening(loops, q)
        if not (np.abs(opening) > OPEN).any():
            break
        inverse = np.linalg.pinv(_rows(loops, "contact_jacobian", q=q), rcond=NEARLY_SINGULAR)
        step = -np.einsum("bir,br->bi", inverse, opening)
        step *= np.minimum(1.0, LONGEST / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
        q = normalized(robot, integrated(robot, q, step))
        q[:, single] = np.clip(q[:, single], ends[0][single], ends[1][single])
    return q


def _opening(loops: Robot, q: Floats) -> Floats:
    return _rows(loops, "constraint_drift", q=q, qd=np.zeros((len(q), loops.nv)))


def _are_closed(robot: Robot, q: Floats) -> npt.NDArray[np.bool_]:
    """Return which configurations close all loops."""
    loops = _loops(robot)
    if not loops.constraints:
        return np.ones(len(q), dtype=bool)
    closed: npt.NDArray[np.bool_] = np.abs(_opening(loops, q)).max(axis=1) <= 1e3 * OPEN
    return closed


def _is_good(robot: Robot, q: Floats, active: Floats) -> npt.NDArray[np.bool_]:
    """Return whether loops are closed and forces are determined; a compliant constraint always determines
    its force.
    """
    good = _are_closed(robot, q)
    if any(soft for own in robot.constraints for soft in own.compliances) or not len(q):
        return good
    on = np.repeat(active, [own.rows for own in robot.constraints], axis=1)
    matrix = _rows(robot, "delassus", q=q) * on[:, :, None] * on[:, None, :]
    diagonal = np.arange(robot.constraint_rows)
    matrix[:, diagonal, diagonal] += 1.0 - on
    size = matrix[:, diagonal, diagonal]
    regular = (size > 0.0).all(axis=1)
    scale = 1.0 / np.sqrt(np.where(size > 0.0, size, 1.0))
    smallest = np.linalg.eigvalsh(matrix * scale[:, :, None] * scale[:, None, :])[:, 0]
    return good & regular & (smallest > NEARLY_SINGULAR)
