"""Check that position gains are stable at a time step, by the eigenvalues of a step near a configuration."""

from __future__ import annotations

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.dynamics.recursions.crba import mass_matrix
from dynagate.dynamics.tree import tree_of
from dynagate.robot import Robot

MARGIN = 1e-6
"""Tolerance on the size of an eigenvalue above 1, for rounding. Joints without gains have eigenvalues of 1."""

HALVINGS = 40
"""Number of bisection steps in the search for the largest stable time step."""


MASSLESS = 1e-12
"""Fraction of the largest eigenvalue of the mass matrix below which a motion moves no mass."""


def check_masses(robot: Robot, q: Array) -> None:
    """Raise ArgumentError if a motion of the joints moves no mass, so that forces accelerate it without bound.

    Args:
        robot: The robot.
        q: Configuration (nq,), rad or m.
    """
    sizes, directions = np.linalg.eigh(mass_matrix(tree_of(robot), q.tolist()).astype(np.float64))
    if sizes[0] > MASSLESS * sizes[-1]:
        return
    place = int(np.argmax(np.abs(directions[:, 0])))
    name = next(joint.name for joint, _, iv in robot.moving() if iv.start <= place < iv.stop)
    raise ArgumentError(
        f"joint '{name}' of robot '{robot.name}' moves no mass; expected a mass and an inertia of the links that it "
        "moves, such as the foot, or armature of the joint",
        code="DG-ENV-025",
    )


def check_gains(robot: Robot, q: Array, stiffness: Array, damping: Array, dt: float) -> None:
    """Raise ArgumentError if the step is unstable near a configuration, without contact and gravity.

    Args:
        robot: The robot.
        q: Configuration (nq,), rad or m.
        stiffness: Stiffness (joints,) of the joints of one degree of freedom, N m/rad or N/m.
        damping: Damping (joints,) of the same joints, N m s/rad or N s/m.
        dt: Time step of the simulation, s.
    """
    joints = [(joint, iv.start) for joint, _, iv in robot.moving() if joint.nv == 1]
    places = [place for _, place in joints]
    minv = np.linalg.inv(mass_matrix(tree_of(robot), q.tolist()).astype(np.float64))[np.ix_(places, places)]
    pull = minv * stiffness
    brake = minv * (damping + np.array([joint.damping for joint, _ in joints]))
    if _radius(pull, brake, dt) <= 1.0 + MARGIN:
        return
    low, high = 0.0, dt
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _radius(pull, brake, middle) <= 1.0 + MARGIN else (low, middle)
    shares = [_radius(pull[k : k + 1, k : k + 1], brake[k : k + 1, k : k + 1], dt) for k in range(len(joints))]
    name = joints[int(np.argmax(shares))][0].name
    raise ArgumentError(
        f"the gains of robot '{robot.name}' make steps of {dt:g} s unstable, first at joint '{name}'; expected dt of "
        f"at most {low:.2g} s, less stiffness or damping, or more armature",
        code="DG-ENV-005",
    )


def _radius(pull: Array, brake: Array, dt: float) -> float:
    """Return the spectral radius of a semi-implicit step of q̈ = -pull q - brake q̇."""
    n = len(pull)
    slower, back = np.eye(n) - dt * brake, -dt * pull
    step = np.block([[np.eye(n) + dt * back, dt * slower], [back, slower]])
    return float(np.abs(np.linalg.eigvals(step)).max())
