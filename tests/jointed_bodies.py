"""Robots of a few bodies on floating, spherical and revolute joints."""

from __future__ import annotations

from functools import cache

import numpy as np
from dynagate import Robot, integrate, neutral
from dynagate.dynamics import Tree
from dynagate.forces import CompliantContact, Damping, Force, ForceContext, Friction, Plane, Point, Servo
from dynagate.robot import Joint, Link

TRUNK = ((0.02, 0.0, 0.0), (0.0, 0.03, 0.0), (0.0, 0.0, 0.04))
ROD = ((2e-3, 0.0, 0.0), (0.0, 2e-3, 0.0), (0.0, 0.0, 1e-3))
ACROSS = (0.0, 1.0, 0.0)
HIP = Joint("hip", "revolute", axis=ACROSS, translation=(0.0, 0.0, -0.05), lower=-1.5, upper=1.5, damping=0.1)
KNEE = Joint("knee", "revolute", axis=ACROSS, translation=(0.0, 0.0, -0.2), lower=-2.5, upper=-0.1, damping=0.3)
LEG = Robot(
    "leg",
    (
        Link("trunk", -1, Joint("free", "floating"), 2.0, (0.01, 0.0, 0.02), TRUNK),
        Link("thigh", 0, HIP, 0.5, (0.0, 0.0, -0.1), ROD),
        Link("shank", 1, KNEE, 0.3, (0.0, 0.0, -0.1), ROD),
    ),
)


def body(name: str, parent: int, kind: str, axis: tuple[float, float, float] = (0.0, 0.0, 1.0)) -> Link:
    place = (0.0, 0.0, 0.0) if parent < 0 else (0.2, -0.1, 0.3)
    joint = Joint(f"to_{name}", kind, axis=axis, translation=place)
    inertia = ((0.06, 0.002, 0.001), (0.002, 0.05, -0.003), (0.001, -0.003, 0.04))
    return Link(name, parent, joint, 1.5, (0.05, 0.1, -0.15), inertia)


@cache
def tumbler(*, gravity: bool = True, satellite: bool = False) -> Robot:
    """A body that floats, a ball joint on it, and a joint that turns about an oblique axis. satellite: and a body that
    moves freely beside the ball."""
    links = (
        body("trunk", -1, "floating"),
        body("upper", 0, "spherical"),
        body("lower", 1, "revolute", (0.6, 0.0, 0.8)),
    )
    links += (body("satellite", 1, "floating"),) if satellite else ()
    return Robot("tumbler", links, gravity=(0.3, -0.2, -9.0) if gravity else (0.0, 0.0, 0.0))


def start(of: Robot, seed: int = 0, speed: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return integrate(of, neutral(of), 0.5 * random.normal(size=of.nv)), speed * random.normal(size=of.nv)


def logarithm(rotation: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The twist (ω, v) of a displacement, by the series of V⁻¹ = log(R) / (R - 1)."""
    angle = np.arccos(np.clip(0.5 * (np.trace(rotation) - 1.0), -1.0, 1.0))
    skew = (rotation - rotation.T) * (0.5 * angle / np.sin(angle) if angle > 1e-9 else 0.5)
    half = 0.5 * angle
    curved = (1.0 - half / np.tan(half)) / angle**2 if angle > 1e-4 else 1.0 / 12.0 + angle**2 / 720.0
    inverse = np.eye(3) - 0.5 * skew + curved * (skew @ skew)
    return np.array([skew[2, 1], skew[0, 2], skew[1, 0], *(inverse @ shift)])


def action(of: Robot, q0: np.ndarray, q1: np.ndarray, dt: float) -> float:
    """L_d of Equation 9 from the poses of the links at both ends."""
    tree, total = Tree(of).unreduced, 0.0
    ends = [ForceContext(of, q.tolist(), [0.0] * of.nv, dt).poses for q in (q0, q1)]
    for inertia, (r0, p0), (r1, p1) in zip(tree.inertias, *ends, strict=True):
        r0, p0, r1, p1 = (np.array(x, dtype=float) for x in (r0, p0, r1, p1))
        first, second = (np.array(x, dtype=float) for x in (inertia.first, inertia.second))
        w, v = np.split(logarithm(r0.T @ r1, r0.T @ (p1 - p0)), 2)
        about = np.trace(second) * np.eye(3) - second
        total += (0.5 * w @ about @ w + v @ np.cross(w, first) + 0.5 * inertia.mass * (v @ v)) / dt
        fallen = inertia.mass * (p0 + p1) + (r0 + r1) @ first
        total += 0.5 * dt * np.array(of.gravity) @ fallen
    return total


def forces_on(of: Robot) -> list[Force]:
    return [
        Damping(0.3),
        Friction(0.2, 0.3),
        Servo(20.0, 0.5, joints=("to_lower",), target=tuple([0.2] * of.nv)),
        CompliantContact([Point("upper", (0.0, 0.0, 0.2))], [Plane((0.0, 0.0, 1.0), 3.0)], 5.0, speed=1.0),
    ]


def pendulum(armature: float = 0.0) -> Robot:
    """A ball joint, with a joint on it that turns about an oblique axis."""
    joint = Joint("to_upper", "spherical", axis=(0.0, 0.0, 1.0), damping=0.2, armature=armature)
    lower = body("lower", 0, "revolute", (0.6, 0.0, 0.8))
    return Robot("pendulum", (with_joint(body("upper", -1, "spherical"), joint), lower))


def with_joint(link: Link, joint: Joint) -> Link:
    return Link(link.name, link.parent, joint, link.mass, link.com, link.inertia)


def ball() -> Robot:
    """A ball joint and a joint that turns about an oblique axis."""
    links = (body("upper", -1, "spherical"), body("lower", 0, "revolute", (0.6, 0.0, 0.8)))
    return Robot("ball", links, gravity=(0.3, -0.2, -9.0))
