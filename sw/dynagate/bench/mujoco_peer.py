"""A robot as a MuJoCo model, on rigid ground and with position gains if requested, and MuJoCo's rollouts of it."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as xml

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.forces.contact import Plane, Point
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.robot import Link, Robot

TYPES = {"revolute": "hinge", "prismatic": "slide"}
"""Type of a joint -> its type in MuJoCo."""


BALL = 1e-3
"""Radius of a ball at each point of contact, m. Planes are lowered by it."""

Gains = tuple[Array, Array]
"""Stiffness and damping (joints,) of the joints of one degree of freedom, N m/rad, N m s/rad, N/m or N s/m."""


def model_text(
    robot: Robot,
    dt: float,
    implicit_damping: bool = False,
    *,
    contacts: RigidContact | None = None,
    gains: Gains | None = None,
) -> str:
    """Return the robot in MuJoCo's format, with steps of semi-implicit Euler.

    Args:
        robot: The robot. Its first joint may be a floating base.
        dt: Time step, s.
        implicit_damping: Whether damping acts at the velocity after the step, as in `Rollout`.
        contacts: Points and planes of rigid ground.
        gains: Gains of actuators that pull joints to targets, within the limits of effort.

    Raises:
        ArgumentError: A joint other than a floating base is not revolute, continuous or prismatic, or contacts have
            surfaces other than planes or capsules.
    """
    root = xml.Element("mujoco", model="robot")
    xml.SubElement(root, "compiler", angle="radian", autolimits="false", inertiafromgeom="false")
    option = xml.SubElement(root, "option", timestep=repr(dt), gravity=_numbers(robot.gravity), integrator="Euler")
    implicit = "enable" if implicit_damping else "disable"
    forces = "disable" if contacts is None else "enable"
    xml.SubElement(option, "flag", contact=forces, constraint=forces, eulerdamp=implicit)
    bodies = [xml.SubElement(root, "worldbody")]
    for link in robot.links:
        if link.joint.kind.file_name not in TYPES and not (link.joint.kind.free and link is robot.links[0]):
            raise ArgumentError(
                f"joint '{link.joint.name}' is {link.joint.type}; expected one of revolute, continuous, prismatic",
                code="DG-BENCH-005",
            )
        bodies.append(_body(bodies[link.parent + 1], link))
    if contacts is not None:
        option.set("cone", "elliptic")
        _add_contacts(robot, bodies, contacts)
    if gains is not None:
        _add_actuators(robot, root, gains)
    return xml.tostring(root, encoding="unicode")


def _body(parent: xml.Element, link: Link) -> xml.Element:
    """Add a link and its joint to its parent's body."""
    joint, inertia = link.joint, np.array(link.inertia)
    axes = np.array(joint.rotation).T[:2]
    body = xml.SubElement(parent, "body", pos=_numbers(joint.translation), xyaxes=_numbers(axes.ravel()))
    about = [inertia[a, b] for a, b in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    xml.SubElement(body, "inertial", pos=_numbers(link.com), mass=repr(link.mass), fullinertia=_numbers(about))
    if joint.kind.free:
        xml.SubElement(body, "freejoint")
        return body
    xml.SubElement(
        body,
        "joint",
        name=joint.name,
        type=TYPES[joint.kind.file_name],
        axis=_numbers(joint.axis),
        damping=repr(joint.damping),
        armature=repr(joint.armature),
    )
    return body


def _add_contacts(robot: Robot, bodies: list[xml.Element], contacts: RigidContact) -> None:
    """Add a ball at each point, and the planes below them."""
    friction = {"friction": f"{contacts.friction!r} 0 0", "condim": "3"}
    for surface in contacts.ground:
        if not isinstance(surface, Plane):
            raise ArgumentError(f"{surface!r} in MuJoCo; expected a Plane", code="DG-BENCH-013")
        axis, place = _numbers(surface.normal), _numbers((surface.offset - BALL) * np.array(surface.normal))
        own = {"type": "plane", "size": "0 0 1", "pos": place, "zaxis": axis, "contype": "1", "conaffinity": "2"}
        xml.SubElement(bodies[0], "geom", {**own, **friction})
    names = [link.name for link in robot.links]
    for point in contacts.points:
        if not isinstance(point, Point):
            raise ArgumentError(f"{point!r} in MuJoCo; expected a Point", code="DG-BENCH-014")
        own = {"type": "sphere", "size": repr(point.radius + BALL), "pos": _numbers(point.position)}
        own |= {"contype": "2", "conaffinity": "1"}
        xml.SubElement(bodies[names.index(point.link) + 1], "geom", {**own, **friction})


def _add_actuators(robot: Robot, root: xml.Element, gains: Gains) -> None:
    """Add an actuator with a position gain for each joint of one degree of freedom, in their order."""
    actuators = xml.SubElement(root, "actuator")
    joints = [(joint.name, iv.start) for joint, _, iv in robot.moving() if joint.nv == 1]
    for (name, at), stiffness, damping in zip(joints, *gains, strict=True):
        law = {
            "biastype": "affine",
            "gainprm": repr(float(stiffness)),
            "biasprm": _numbers((0.0, -stiffness, -damping)),
        }
        if np.isfinite(robot.effort[at]):
            law |= {"forcelimited": "true", "forcerange": _numbers((-robot.effort[at], robot.effort[at]))}
        xml.SubElement(actuators, "general", {"joint": name, **law})


def _numbers(values: Any) -> str:
    return " ".join(repr(float(x)) for x in values)


class MujocoRollout:
    """`mujoco.rollout` of a robot on one thread.

    Args:
        robot: The robot.
        dt: Time step, s.
        implicit_damping: Whether damping acts at the velocity after the step, as in `Rollout`.
        contacts: Rigid ground, as of `model_text`.
        gains: Gains of actuators, as of `model_text`; torques act on the joints if None.

    Raises:
        ArgumentError: MuJoCo does not support the robot.
    """

    def __init__(
        self,
        robot: Robot,
        dt: float,
        implicit_damping: bool = False,
        *,
        contacts: RigidContact | None = None,
        gains: Gains | None = None,
    ) -> None:
        import mujoco

        self.robot, self.floats = robot, robot.links[0].joint.kind.free
        try:
            text = model_text(robot, dt, implicit_damping, contacts=contacts, gains=gains)
            self.model = mujoco.MjModel.from_xml_string(text)
        except ValueError as error:
            text = " ".join(str(error).split())
            raise ArgumentError(f"MuJoCo does not take the robot '{robot.name}': {text}", code="DG-BENCH-006") from None
        self.data = mujoco.MjData(self.model)
        self._size = mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        kind = mujoco.mjtState.mjSTATE_QFRC_APPLIED if gains is None else mujoco.mjtState.mjSTATE_CTRL
        self._torques = int(kind)

    def __call__(self, q0: Array, qd0: Array, tau: Array) -> tuple[Array, Array]:
        """Return q (batch, steps, nq) and qd (batch, steps, nv) after each step.

        Quaternions are (x, y, z, w), as everywhere here. The velocities of a floating base are MuJoCo's: the linear
        ones are in the axes of the world.

        Args:
            q0: Configurations (batch, nq).
            qd0: Velocities (batch, nv).
            tau: Torques (batch, steps, nv), or targets (batch, steps, joints) if there are gains.
        """
        from mujoco.rollout import rollout

        nq, nv = self.robot.nq, self.robot.nv
        order = np.arange(nq)
        if self.floats:
            order[3:7] = 6, 3, 4, 5
        start = np.zeros((len(q0), self._size))
        start[:, 1 : nq + nv + 1] = np.concatenate([q0[:, order], qd0], axis=1)  # a state begins with the time
        states, _ = rollout(self.model, self.data, start, tau, control_spec=self._torques)
        return states[..., 1 : nq + 1][..., np.argsort(order)], states[..., nq + 1 : nq + nv + 1]
