"""Random serial chains, for measurements and comparisons."""

from __future__ import annotations

import math

import numpy as np

from dynagate.base.arguments import is_whole, shown
from dynagate.base.errors import ArgumentError
from dynagate.base.upper_limits import MAX_LINKS
from dynagate.robot.model import Robot
from dynagate.robot.parts import Joint, Link
from dynagate.robot.vectors import matrix3, vector3

SPEED = 1.0
"""Velocity limit of the joints, rad/s or m/s."""


def random_chain(count: int, seed: int, *, prismatic: float = 0.0, armature: float = 0.0) -> Robot:
    """Return a random serial chain with general joint frames.

    Axes and rotations are random, offsets are up to 0.3 m along each axis, masses are from 0.5 to 1.5 kg, and centers
    of mass are up to 0.15 m from the joint along each axis.

    Args:
        count: Number of links.
        seed: Seed of the random numbers.
        prismatic: Fraction of the joints that slide.
        armature: Largest rotor inertia, kg m².

    Raises:
        ArgumentError: The number of links is not between 1 and the largest number that a robot may have.
    """
    if not (is_whole(count) and 1 <= count <= MAX_LINKS):
        raise ArgumentError(
            f"a chain of {shown(count)} links; expected 1 or more, at most {MAX_LINKS}", code="DG-ROBOT-060"
        )
    random = np.random.default_rng((seed, count))
    links = []
    for i in range(count):
        axis = random.normal(size=3)
        joint = Joint(
            f"joint_{i}",
            "prismatic" if random.random() < prismatic else "revolute",
            matrix3(_rotation(random)),
            vector3(random.uniform(-0.3, 0.3, 3)),
            vector3(axis / np.linalg.norm(axis)),
            lower=-math.pi,
            upper=math.pi,
            velocity=SPEED,
            armature=float(random.uniform(0.0, armature)),
        )
        mass = float(random.uniform(0.5, 1.5))
        second = 0.01 * mass * random.uniform(0.5, 1.0, 3)  # moments of inertia are sums of two
        turn = _rotation(random)
        inertia = turn @ np.diag(second.sum() - second) @ turn.T
        com = vector3(random.uniform(-0.15, 0.15, 3))
        links.append(Link(f"link_{i}", i - 1, joint, mass, com, matrix3(0.5 * (inertia + inertia.T))))
    return Robot(f"chain_{count}", tuple(links))


def _rotation(random: np.random.Generator) -> np.ndarray:
    q, r = np.linalg.qr(random.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    return q * np.linalg.det(q)
