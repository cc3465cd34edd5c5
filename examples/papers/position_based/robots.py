"""The robots of the papers: chains, a box in the plane, a swimmer."""

from __future__ import annotations

import numpy as np
from dynagate.robot import Robot
from dynagate.robot.parts import Joint, Link
from dynagate.robot.vectors import STANDARD_GRAVITY, Vector3, matrix3, vector3

Y: Vector3 = (0.0, 1.0, 0.0)
Z: Vector3 = (0.0, 0.0, 1.0)
NOTHING = ((0.0, 0.0, 0.0),) * 3


def bar(
    name: str, parent: int, joint: Joint, along: Vector3, mass: float, radius: float, *, centered: bool = False
) -> Link:
    """A solid cylinder from the link's origin to `along`, or around the origin if it is centered."""
    axis, length = np.array(along), float(np.linalg.norm(along))
    line = np.outer(axis, axis) / length**2
    across = mass * (3.0 * radius**2 + length**2) / 12.0
    inertia = matrix3(across * (np.eye(3) - line) + 0.5 * mass * radius**2 * line)
    return Link(name, parent, joint, mass, (0.0, 0.0, 0.0) if centered else vector3(0.5 * axis), inertia)


def rod(name: str, parent: int, joint: Joint, length: float, mass: float, radius: float) -> Link:
    """A solid cylinder along x from the link's origin."""
    return bar(name, parent, joint, (length, 0.0, 0.0), mass, radius)


def chain(
    count: int,
    *,
    length: float = 1.0,
    mass: float = 1.0,
    radius: float = 0.1,
    joint: str = "ball",
    floating: bool = False,
    gravity: Vector3 = STANDARD_GRAVITY,
) -> Robot:
    """Rods link0, link1, ... in a row, at q = 0 along x from the base's origin. length, radius: m. mass: kg.

    joint: "ball" turns about y and then z, two degrees of freedom; "hinge" about z. floating: the first joint has six.
    """
    links: list[Link] = []
    for i in range(count):
        parent, place = len(links) - 1, (length if links else 0.0, 0.0, 0.0)
        if floating and not links:
            links.append(rod("link0", -1, Joint("free", "floating"), length, mass, radius))
            continue
        if joint == "ball":
            above = Joint(f"y{i}", "revolute", translation=place, axis=Y)
            links.append(Link(f"turn{i}", parent, above, 0.0, (0.0, 0.0, 0.0), NOTHING))
            parent, place = parent + 1, (0.0, 0.0, 0.0)
        links.append(
            rod(f"link{i}", parent, Joint(f"z{i}", "revolute", translation=place, axis=Z), length, mass, radius)
        )
    return Robot(f"{count}-link {joint} chain", tuple(links), gravity)


def bent(robot: Robot, degrees: float = 3.0) -> np.ndarray:
    """q of a chain that lies flat and bends by this angle at each joint about z."""
    return np.array([np.radians(degrees) if link.joint.axis == Z else 0.0 for link in robot.links])


def planar_box(width: float = 1.0, height: float = 0.5, mass: float = 1.0) -> Robot:
    """A box in the plane of x and z: link `box`, moved by (x, z, angle about y). m, kg."""
    inertia = matrix3(np.diag([mass * height**2 / 12, mass * (width**2 + height**2) / 12, mass * width**2 / 12]))
    links = (
        Link("x", -1, Joint("x", "prismatic", axis=(1.0, 0.0, 0.0)), 0.0, (0.0, 0.0, 0.0), NOTHING),
        Link("z", 0, Joint("z", "prismatic", axis=Z), 0.0, (0.0, 0.0, 0.0), NOTHING),
        Link("box", 1, Joint("pitch", "revolute", axis=Y), mass, (0.0, 0.0, 0.0), inertia),
    )
    return Robot("planar box", links)


def swimmer(count: int = 4, *, length: float = 0.5, mass: float = 0.5, radius: float = 0.05) -> Robot:
    """A floating chain of rods with hinges, weightless in its fluid."""
    return chain(count, length=length, mass=mass, radius=radius, joint="hinge", floating=True, gravity=(0.0, 0.0, 0.0))
