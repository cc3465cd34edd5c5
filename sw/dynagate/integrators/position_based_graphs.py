"""Energy and forces of a position-based step of a small robot, over any scalar: what the loops of graphs search with.

One operation after the other, so for robots of few links: revolute and prismatic joints, with torques, servos, damping
and rotors, and points that touch planes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.base.naming import scope
from dynagate.dynamics.spatial import Array, Inertia, Scalar, array, select, zeros
from dynagate.dynamics.tree import Tree
from dynagate.forces import Forces
from dynagate.forces.contact import Contact, check_points
from dynagate.forces.servo import Servo
from dynagate.graph import Graph
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.integrators.position_based_joints import Joints, joints_of
from dynagate.integrators.position_based_search import MEMORY, Damping
from dynagate.robot import Robot

FAR = 1e30
"""Above any bound of a comparison: a force that is not a number; and what is minimised, before the first iteration,
which therefore accepts its guess."""

Poses = list[tuple[Array, Array]]
"""Per link R (3, 3) and p (3,), in the world or sums of such."""


@dataclass(frozen=True)
class Model:
    """A robot in steps of dt (s), with what acts on it: contact and servo as the papers have them, and other forces at
    the step's end, with the mean velocity of the step.

    Raises RobotError: joints that mimic others; ValueError: a joint with a quaternion; ContactError: a point on no
    link, or a law with powers that are not whole.
    """

    robot: Robot
    dt: float
    contact: Contact | None = None
    servo: Servo | None = None
    forces: Forces | None = None
    links: list[int] = field(init=False)
    """Per contact point its link."""
    joints: Joints = field(init=False)

    def __post_init__(self) -> None:
        self.robot.check_uncoupled("a loop of position-based steps")
        for link in self.robot.links:
            if link.joint.has_quaternion:
                raise ArgumentError(
                    f"joint '{link.joint.name}' of robot '{self.robot.name}' is {link.joint.type}; a loop of "
                    "position-based steps takes revolute and prismatic joints"
                )
        object.__setattr__(self, "joints", joints_of(self.robot, self.servo))
        if self.contact:
            self.contact.check(self.robot)
        object.__setattr__(self, "links", check_points(self.robot, self.contact.points) if self.contact else [])

    @property
    def by_root(self) -> bool:
        """Whether a step is a root of forces, as some have no energy; else it is the minimum of an energy."""
        return bool(self.contact or self.forces)

    @property
    def given(self) -> tuple[str, ...]:
        """Inputs (nv,) of each step besides torques."""
        own = ("target",) if self.servo else ()
        return tuple(dict.fromkeys((*own, *(self.forces.inputs if self.forces else ()))))

    @property
    def tree(self) -> Tree:
        return Tree(self.robot).as_given

    def spring(self, d: int) -> float:
        """The part of `square` that is not a rotor's."""
        return float(self.joints.stiffness[d] + self.joints.damping[d] / self.dt)

    def square(self, d: int) -> float:
        """What the forces at the joint of dof d add to the diagonal of the Hessian."""
        return self.spring(d) + float(self.joints.armature[d]) / self.dt**2

    def linear(self, d: int, q: Scalar, before: Scalar, tau: Scalar, target: Scalar) -> Scalar:
        """What they add to the gradient besides square × q, as `position_based_joints.joint_terms`."""
        damper, rotor = float(self.joints.damping[d]) / self.dt, float(self.joints.armature[d]) / self.dt**2
        return -damper * q - rotor * (2.0 * q - before) - tau - float(self.joints.stiffness[d]) * target


def begin(model: Model) -> Graph:
    """What stays the same in a step, and where its search begins.

    q, before, tau, with a servo target (nv,) to trial, start, past (links, 12), linear (nv,), with contact marks
    (points, 3); and the values of no iteration yet.
    """
    robot, tree = model.robot, model.tree
    recording, sizes = Recording("begin", robot.name), typical_sizes(tree)
    q, before = (recording.input(name, (robot.nq,), sizes["q"]) for name in ("q", "before"))
    tau = recording.input("tau", (robot.nv,), sizes["tau"])
    target = recording.input("target", (robot.nv,), sizes["q"]) if model.servo else zeros(robot.nv)
    here, last = poses_of(tree, q), poses_of(tree, before)
    past = zeros(len(tree.links), 12)
    for i, ((r, p), (r0, p0)) in enumerate(zip(here, last, strict=True)):
        past[i, :9], past[i, 9:] = np.ravel(r0 - 2.0 * r), p0 - 2.0 * p
    nothing = zeros(robot.nq)
    outputs = {
        "trial": 2.0 * q - before,
        "start": array(list(q)),
        "past": past,
        "linear": array([model.linear(d, q[d], before[d], tau[d], target[d]) for d in range(tree.nv)]),
        "held": nothing,
        "gradient": nothing.copy(),
        "lowest": scalar(FAR),
        "damping": scalar(0.0),
        "count": scalar(-1.0),  # the guess is none
    }
    if model.contact:
        outputs |= {"marks": np.stack(_places(model, here))}
    if model.by_root:
        memory = zeros(MEMORY)
        outputs |= {"least_q": nothing.copy(), "lowest_left": scalar(FAR)}
        outputs |= {"recent": memory + FAR, "slot": array([1.0, *memory[1:]])}
    return recording.graph(outputs)


def scalar(value: Scalar) -> Array:
    """A number as an output ()."""
    result = np.empty((), dtype=object)
    result[()] = value
    return result


def size(x: Scalar) -> Scalar:
    return select(x, x, -x)


def largest_over(slope: Array, scale: Sequence[float]) -> Scalar:
    """The largest force over its scale; FAR where one is not a number."""
    ratios = [size(g) * (1.0 / s) for g, s in zip(slope, scale, strict=True)]
    return select(sum(ratios, 1.0), largest(ratios), FAR)


def largest(values: Sequence[Scalar]) -> Scalar:
    result = values[0]
    for value in values[1:]:
        result = select(value - result, value, result)
    return result


def next_damping(rule: Damping, damping: Scalar, better: Scalar) -> Scalar:
    """The damping after an iteration that was accepted or rejected."""
    reduced = select(damping - rule.least, rule.shrink * damping, 0.0)
    raised = select(5.0 * damping - rule.first, 5.0 * damping, rule.first)
    return select(better, reduced, raised)


def damp(hessian: Array, relaxed: Scalar) -> None:
    """Adds λ to the diagonal, relaxed beside its mean."""
    n = len(hessian)
    damping = relaxed * (sum(hessian[d, d] for d in range(n)) * (1.0 / n))
    for d in range(n):
        hessian[d, d] = hessian[d, d] + damping


def evaluation(model: Model, at: str, slope: str) -> Graph:
    """The configuration `at` (nv,), past, linear, with contact marks, with other forces start and their inputs, to
    `slope` (nv,) and, where the step has one, energy."""
    robot, contact = model.robot, model.contact
    recording, sizes = Recording("evaluation", robot.name), typical_sizes(model.tree)
    q, linear = recording.input(at, (robot.nq,), sizes["q"]), recording.input("linear", (robot.nv,), sizes["tau"])
    past = _past(recording, model.tree)
    marks = recording.input("marks", (len(contact.points), 3), sizes["place"]) if contact else None
    energy, slopes = energy_and_slope(model, q, past, linear, marks)
    if model.forces:
        start = recording.input("start", (robot.nq,), sizes["q"])
        inputs = {name: recording.input(name, (robot.nv,), sizes["q"]) for name in model.forces.inputs}
        slopes = slopes - model.forces.torque(q, (q - start) * (1.0 / model.dt), model.dt, inputs)
    return recording.graph({slope: slopes} if model.by_root else {"energy": scalar(energy), slope: slopes})


def _past(recording: Recording, tree: Tree) -> Array:
    """The input of that name: T_{k-1} - 2 T_k of every link (links, 12)."""
    sizes = np.repeat([1.0, float(typical_sizes(tree)["place"])], [9, 3])
    return recording.input("past", (len(tree.links), 12), sizes)


def poses_of(tree: Tree, q: Array) -> Poses:
    """Every link in the world."""
    poses: Poses = []
    for i, joint in enumerate(tree.transforms(list(q))):
        with scope("place", f"link{i}"):
            parent = tree.parents[i]
            r, p = poses[parent] if parent >= 0 else (array(np.eye(3)), zeros(3))
            poses.append((joint.after(r), p + r @ joint.translation))
    return poses


def energy_and_slope(model: Model, q: Array, past: Array, linear: Array, marks: Array | None) -> tuple[Scalar, Array]:
    """E(q) of Equation 5 in J, without contact, and the forces left at q (nv,): its gradient less what contact adds.

    past (links, 12): T_{k-1} - 2 T_k of every link. linear (nv,): as `Model.linear`. marks (points, 3): where contact
    points are at the step's begin.
    """
    tree, dt = model.tree, model.dt
    poses = poses_of(tree, q)
    gravity = array([-a for a in tree.base_acceleration])
    moments, forces = [], []
    total: Scalar = 0.0
    for i, (r, p) in enumerate(poses):
        with scope("energy", f"link{i}"):
            inertia = tree.inertias[i]
            turn = (r + past[i, :9].reshape(3, 3)) * (1.0 / dt**2)  # (turn | shift): the link's acceleration
            shift = (p + past[i, 9:]) * (1.0 / dt**2)
            weighted, pushed, inertial = _weighted(inertia, turn, shift)
            total = total + (0.5 * dt**2) * inertial - gravity @ (r @ inertia.first + p * inertia.mass)
            force = pushed - gravity * inertia.mass
            n = (weighted - np.outer(gravity, inertia.first)) @ r.T + np.outer(force, p)
            moments.append(array([n[2, 1] - n[1, 2], n[0, 2] - n[2, 0], n[1, 0] - n[0, 1]]))
            forces.append(force)
    if model.contact is not None and marks is not None:
        _subtract_contact(model, model.contact, poses, marks, moments, forces)
    slope = zeros(tree.nv)
    for i in reversed(tree.links):
        with scope("slope", f"link{i}"):
            parent, (r, p) = tree.parents[i], poses[i]
            for d in tree.dofs[i]:
                motion = tree.axis_at(d, r, p)
                square = model.square(d)
                slope[d] = motion.angular @ moments[i] + motion.linear @ forces[i] + square * q[d] + linear[d]
                total = total + (0.5 * square * q[d] + linear[d]) * q[d]
            if parent >= 0:
                moments[parent] = moments[parent] + moments[i]
                forces[parent] = forces[parent] + forces[i]
    return total, slope


def _weighted(inertia: Inertia, turn: Array, shift: Array) -> tuple[Array, Array, Scalar]:
    """(turn | shift) M̃ of a link with homogeneous inertia M̃, as (3, 3) and (3,), and that times (turn | shift)."""
    weighted = turn @ inertia.second + np.outer(shift, inertia.first)
    pushed = turn @ inertia.first + shift * inertia.mass
    return weighted, pushed, sum(np.ravel(weighted * turn)) + sum(pushed * shift)


def _places(model: Model, poses: Poses) -> list[Array]:
    """The contact points in the world."""
    points = model.contact.points if model.contact else ()
    turns = model.tree.turns
    return [
        poses[i][1] + poses[i][0] @ (turns[i].T @ array(list(point.position)))
        for i, point in zip(model.links, points, strict=True)
    ]


def _subtract_contact(
    model: Model, contact: Contact, poses: Poses, marks: Array, moments: list[Array], forces: list[Array]
) -> None:
    """Takes the forces on contact points, and their moments about the world's origin, from those of their links."""
    for k, p in enumerate(_places(model, poses)):
        with scope("contact", f"point{k}"):
            force = sum((contact.force(plane, p, p - marks[k]) for plane in contact.planes), zeros(3))
            i = model.links[k]
            forces[i] = forces[i] - force
            moments[i] = moments[i] - np.cross(p, force)
