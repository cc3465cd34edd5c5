"""Check that the problems used to choose fixed-point ranges have a solution in float64."""

from __future__ import annotations

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.forces.options import StepOptions
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.robot import Robot

ENOUGH = 0.5
"""Fraction of the problems that must have a solution."""
DAMPED = 2.0
"""An explicit Euler step amplifies a speed that damping reduces by a factor of e in less than dt / DAMPED."""


def check_reached(solved: Array) -> None:
    """Check that enough problems of inverse kinematics converge from their start.

    Args:
        solved: Whether each problem does in float64, (batch,).

    Raises:
        ArgumentError: Fewer than ENOUGH of them do.
    """
    if not len(solved) or solved.mean() < ENOUGH:
        raise ArgumentError(
            f"{int((~solved).sum())} of {len(solved)} problems do not converge from their start in float64; "
            f"expected {ENOUGH:.0%} that do, from which ranges can be found: starts nearer to the solutions",
            code="DG-SOLVER-041",
        )


def check_solved(solved: Array, q: Array, robot: Robot, step: StepOptions) -> None:
    """Check that enough problems have a solution.

    Args:
        solved: Whether each problem has a solution in float64, (batch,).
        q: Initial configurations (batch, nq), in rad and m.
        robot: The robot.
        step: Options of the step from knot to knot.

    Raises:
        ArgumentError: Fewer than ENOUGH of them have one. The text suggests a smaller dt or implicit damping.
    """
    if solved.mean() >= ENOUGH:
        return
    dt, expected = step.dt or 0.0, "a smaller dt"
    if not step.implicit_damping and (longest := stable_step(robot, q)) < dt:
        expected = (
            f"implicit_damping=True, a dt below {longest:.2g} s, which explicit damping of joints asks for, the robot "
            "read with damping=False,"
        )
    raise ArgumentError(
        f"{int((~solved).sum())} of {len(solved)} problems of {robot.name} have no solution in float64 with dt={dt:g}; "
        f"expected {ENOUGH:.0%} with one, from which ranges can be found: {expected} or other problems",
        code="DG-SOLVER-032",
    )


def stable_step(robot: Robot, q: Array) -> float:
    """Return the longest step in s for which explicit joint damping amplifies no speed, at configurations q (batch,
    nq).
    """
    damping = np.zeros(robot.nv)
    for joint, _, at in robot.moving():
        damping[at] = joint.damping
    q = q[np.isfinite(q).all(axis=1)]
    mass = evaluate(trace(robot, "mass_matrix"), {"q": q})["m"]
    fastest = np.abs(np.linalg.eigvals(np.linalg.solve(mass, np.diag(damping)[None]))).max(initial=0.0)
    return DAMPED / float(fastest) if fastest else np.inf
