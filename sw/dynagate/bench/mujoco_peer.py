"""A robot on a fixed base without contacts as a MuJoCo model, and MuJoCo's rollouts of it."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as xml

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.robot import Link, Robot

TYPES = {"revolute": "hinge", "prismatic": "slide"}
"""Type of a joint -> its type in MuJoCo."""


def model_text(robot: Robot, dt: float, implicit_damping: bool = False) -> str:
    """Return the robot in MuJoCo's format, with steps of semi-implicit Euler.

    Args:
        robot: The robot.
        dt: Time step, s.
        implicit_damping: Whether damping acts at the velocity after the step, as in `Rollout`.

    Raises:
        ArgumentError: A joint is not revolute, continuous or prismatic.
    """
    root = xml.Element("mujoco", model="robot")
    xml.SubElement(root, "compiler", angle="radian", autolimits="false", inertiafromgeom="false")
    option = xml.SubElement(root, "option", timestep=repr(dt), gravity=_numbers(robot.gravity), integrator="Euler")
    implicit = "enable" if implicit_damping else "disable"
    xml.SubElement(option, "flag", contact="disable", constraint="disable", eulerdamp=implicit)
    bodies = [xml.SubElement(root, "worldbody")]
    for link in robot.links:
        if link.joint.kind.file_name not in TYPES:
            raise ArgumentError(
                f"joint '{link.joint.name}' is {link.joint.type}; expected one of revolute, continuous, prismatic",
                code="DG-BENCH-005",
            )
        bodies.append(_body(bodies[link.parent + 1], link))
    return xml.tostring(root, encoding="unicode")


def _body(parent: xml.Element, link: Link) -> xml.Element:
    """Add a link and its joint to its parent's body."""
    joint, inertia = link.joint, np.array(link.inertia)
    axes = np.array(joint.rotation).T[:2]
    body = xml.SubElement(parent, "body", pos=_numbers(joint.translation), xyaxes=_numbers(axes.ravel()))
    about = [inertia[a, b] for a, b in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    xml.SubElement(body, "inertial", pos=_numbers(link.com), mass=repr(link.mass), fullinertia=_numbers(about))
    xml.SubElement(
        body,
        "joint",
        type=TYPES[joint.kind.file_name],
        axis=_numbers(joint.axis),
        damping=repr(joint.damping),
        armature=repr(joint.armature),
    )
    return body


def _numbers(values: Any) -> str:
    return " ".join(repr(float(x)) for x in values)


class MujocoRollout:
    """`mujoco.rollout` of a robot on one thread.

    Args:
        robot: The robot.
        dt: Time step, s.
        implicit_damping: Whether damping acts at the velocity after the step, as in `Rollout`.

    Raises:
        ArgumentError: MuJoCo does not support the robot.
    """

    def __init__(self, robot: Robot, dt: float, implicit_damping: bool = False) -> None:
        import mujoco

        self.robot = robot
        try:
            self.model = mujoco.MjModel.from_xml_string(model_text(robot, dt, implicit_damping))
        except ValueError as error:
            text = " ".join(str(error).split())
            raise ArgumentError(f"MuJoCo does not take the robot '{robot.name}': {text}", code="DG-BENCH-006") from None
        self.data = mujoco.MjData(self.model)
        self._size = mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        self._torques = int(mujoco.mjtState.mjSTATE_QFRC_APPLIED)

    def __call__(self, q0: Array, qd0: Array, tau: Array) -> tuple[Array, Array]:
        """Return q and qd (batch, steps, n) after each step, from q0 and qd0 (batch, n) and tau (batch, steps, n)."""
        from mujoco.rollout import rollout

        n = self.robot.nv
        start = np.zeros((len(q0), self._size))
        start[:, 1 : 2 * n + 1] = np.concatenate([q0, qd0], axis=1)  # the first entry of a state is the time
        states, _ = rollout(self.model, self.data, start, tau, control_spec=self._torques)
        return states[..., 1 : n + 1], states[..., n + 1 : 2 * n + 1]
