"""Robots with legs, and what makes each a task of walking: feet, stance, and when it has fallen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from dynagate.forces.contact import Point
from dynagate.forces.servo import Servo
from dynagate.robot import Robot
from dynagate.robot.parts import Joint, Link
from dynagate.robot.vectors import Vector3, vector3

from examples.papers.position_based.links import Floats
from examples.papers.position_based.robots import NOTHING, Y, Z, bar

X: Vector3 = (1.0, 0.0, 0.0)


@dataclass(frozen=True)
class Legged:
    """A robot that walks along x on the ground z = 0.

    feet: points that touch. stance (nq,): where it stands, its feet on the ground. height: index in q of the base's
    height; least: m, below which it has fallen; tilt: rad, beyond which it has. swing: rad, how far an action moves a
    joint's target from the stance. stiffness: N m/rad, damping: N m s/rad of the servos.
    """

    robot: Robot
    feet: tuple[Point, ...]
    stance: Floats
    height: int
    least: float
    tilt: float
    swing: float
    stiffness: float
    damping: float

    @property
    def motors(self) -> slice:
        """The actuated dofs: all joints behind the base's."""
        free = self.robot.links[0].joint.kind.free
        return slice(6 if free else 3, self.robot.nv)

    @property
    def servo(self) -> Servo:
        """Of the actuated joints."""
        names = tuple(link.joint.name for link, _, iv in self.robot.slices() if iv.start >= self.motors.start)
        return Servo(self.stiffness, self.damping, names)


def hopper() -> Legged:
    """A torso on one leg in the plane of x and z: 6 degrees of freedom, hip, knee and ankle of them actuated."""
    links = [
        Link("x", -1, Joint("x", "prismatic", axis=X), 0.0, (0.0, 0.0, 0.0), NOTHING),
        Link("z", 0, Joint("z", "prismatic", axis=Z), 0.0, (0.0, 0.0, 0.0), NOTHING),
        bar("torso", 1, Joint("pitch", "revolute", axis=Y), (0.0, 0.0, 0.4), 3.5, 0.05),
        bar("thigh", 2, Joint("hip", "revolute", axis=Y), (0.0, 0.0, -0.45), 4.0, 0.05),
        bar("shin", 3, Joint("knee", "revolute", axis=Y, translation=(0.0, 0.0, -0.45)), (0.0, 0.0, -0.5), 2.7, 0.04),
        bar("foot", 4, Joint("ankle", "revolute", axis=Y, translation=(0.0, 0.0, -0.5)), (0.1, 0.0, 0.0), 2.0, 0.06),
    ]
    feet = (Point("foot", (-0.13, 0.0, -0.06)), Point("foot", (0.26, 0.0, -0.06)))
    stance = np.array([0.0, 1.01, 0.0, 0.0, 0.0, 0.0])
    return Legged(Robot("hopper", tuple(links)), feet, stance, 1, 0.7, 0.6, 0.6, 300.0, 10.0)


def walker() -> Legged:
    """A floating torso on two legs: 14 degrees of freedom, of each leg a hip that rolls and pitches, a knee and an
    ankle actuated."""
    links = [bar("torso", -1, Joint("free", "floating"), (0.0, 0.0, 0.4), 10.0, 0.1)]
    feet = []
    for side, y in (("left", 0.12), ("right", -0.12)):
        roll = Joint(f"{side} roll", "revolute", axis=X, translation=(0.0, y, 0.0))
        hip = Joint(f"{side} hip", "revolute", axis=Y)
        knee = Joint(f"{side} knee", "revolute", axis=Y, translation=(0.0, 0.0, -0.45))
        ankle = Joint(f"{side} ankle", "revolute", axis=Y, translation=(0.0, 0.0, -0.45))
        first = len(links)
        links += [
            Link(f"{side} hip", 0, roll, 0.0, (0.0, 0.0, 0.0), NOTHING),
            bar(f"{side} thigh", first, hip, (0.0, 0.0, -0.45), 3.0, 0.05),
            bar(f"{side} shin", first + 1, knee, (0.0, 0.0, -0.45), 2.0, 0.04),
            bar(f"{side} foot", first + 2, ankle, (0.1, 0.0, 0.0), 1.0, 0.05),
        ]
        feet += [Point(f"{side} foot", (a, b, -0.05)) for a in (-0.1, 0.2) for b in (-0.05, 0.05)]
    stance = np.zeros(15)
    stance[2], stance[6] = 0.95, 1.0
    return Legged(Robot("walker", tuple(links)), tuple(feet), stance, 2, 0.6, 0.8, 0.6, 200.0, 20.0)


def spider() -> Legged:
    """A floating body on four legs: 18 degrees of freedom, of each leg a hip that turns and lifts and a knee
    actuated."""
    links = [bar("body", -1, Joint("free", "floating"), (0.2, 0.0, 0.0), 3.0, 0.1, centered=True)]
    feet = []
    stance = np.zeros(19)
    stance[6] = 1.0
    lift, bend = -0.4, 1.6
    for leg, angle in enumerate(np.radians([45.0, 135.0, -135.0, -45.0])):
        out = np.array([np.cos(angle), np.sin(angle), 0.0])
        side = vector3((-out[1], out[0], 0.0))  # the axis about which the leg goes down
        turn = Joint(f"turn{leg}", "revolute", axis=Z, translation=vector3(0.12 * out))
        raised = Joint(f"lift{leg}", "revolute", axis=side)
        knee = Joint(f"knee{leg}", "revolute", axis=side, translation=vector3(0.25 * out))
        first = len(links)
        links += [
            Link(f"hip{leg}", 0, turn, 0.0, (0.0, 0.0, 0.0), NOTHING),
            bar(f"thigh{leg}", first, raised, vector3(0.25 * out), 0.4, 0.02),
            bar(f"shin{leg}", first + 1, knee, vector3(0.3 * out), 0.3, 0.02),
        ]
        feet.append(Point(f"shin{leg}", vector3(0.3 * out)))
        stance[7 + 3 * leg : 10 + 3 * leg] = 0.0, lift, bend
    stance[2] = 0.3 * np.sin(lift + bend) + 0.25 * np.sin(lift)
    return Legged(Robot("spider", tuple(links)), tuple(feet), stance, 2, 0.06, 0.8, 0.5, 40.0, 3.0)


LEGGED = {"hopper": hopper, "walker": walker, "spider": spider}
"""Robot with legs -> what builds it."""
