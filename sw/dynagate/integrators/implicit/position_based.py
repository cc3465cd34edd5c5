"""Energy and forces of a position-based step, over any scalar, for the search loops.

The operations are unrolled, so this is for robots with few links. The unknown of a step of order K is `away` (K - 1,
nv): constant velocities that lead from the start of the step to each node in one second. Every joint therefore has as
many unknowns as degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from dynagate.base.naming import scope
from dynagate.dynamics.configuration import advance, between, directions_of
from dynagate.dynamics.recursions.crba import mass_matrix
from dynagate.dynamics.recursions.forward_dynamics import forward_dynamics
from dynagate.dynamics.recursions.poses import Places, places, transmit
from dynagate.dynamics.spatial import Array, Inertia, Scalar, array, chosen, zeros
from dynagate.dynamics.spatial import SpatialForce as SpatialForce
from dynagate.dynamics.tree import Tree, tree_of
from dynagate.forces import Forces
from dynagate.forces.contact import Contact, check_points
from dynagate.forces.servo import Servo
from dynagate.graph import Graph
from dynagate.graph.loop import Loop
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.integrators.implicit.collocation import Collocation, collocation
from dynagate.integrators.implicit.root_finders import (
    Hessian,
    Unknown,
    begin_of_least_squares,
    largest_over,
    least_energy,
    least_squares,
    scalar,
)
from dynagate.robot import Robot


@dataclass(frozen=True)
class PositionBasedModel:
    """A robot in steps of dt (s), with what acts on it: at order 2 contact and servo as the papers have them, and other
    forces at the step's end, with the mean velocity of the step; at order 3 forces at each node, with the velocity of
    the polynomial through the nodes. resolution: In fixed point, the smallest change of an energy that counts,
    relative to its size; None in floating point.

    Raises RobotError: joints that mimic others; ContactError: a point on no link, or a law with powers that are not
    whole; ServoError: a servo on no joint.
    """

    robot: Robot
    dt: float
    order: int = 2
    contact: Contact | None = None
    servo: Servo | None = None
    forces: Forces | None = None
    resolution: float | None = None
    links: list[int] = field(init=False)
    """Per contact point its link."""
    stiffness: list[float] = field(init=False)
    damping: list[float] = field(init=False)
    """(nv,): of servo and joints together."""

    def __post_init__(self) -> None:
        self.robot.check_uncoupled("a loop of position-based steps")
        held = self.servo.held(self.robot) if self.servo else set()
        stiffness, damping = [0.0] * self.robot.nv, list(self.tree.damping)
        for joint, _, iv in self.robot.moving():
            if self.servo and joint.name in held:
                stiffness[iv.start] = self.servo.stiffness
                damping[iv.start] += self.servo.damping
        object.__setattr__(self, "stiffness", stiffness)
        object.__setattr__(self, "damping", damping)
        if self.contact:
            self.contact.check(self.robot)
        object.__setattr__(self, "links", check_points(self.robot, self.contact.points) if self.contact else [])

    @property
    def by_root(self) -> bool:
        """Whether a step is a root of forces, as some have no energy; else it is the minimum of an energy."""
        return bool(self.contact or self.forces or self.order > 2 or self.robot.quaternions())

    @property
    def squares(self) -> bool:
        """Whether the search for the root uses its Jacobian's square, whose numbers are too large for integers."""
        return self.by_root and self.resolution is None

    @property
    def given(self) -> tuple[str, ...]:
        """Inputs (nv,) of each step besides torques."""
        own = ("target",) if self.servo else ()
        return tuple(dict.fromkeys((*own, *(self.forces.inputs if self.forces else ()))))

    @property
    def tree(self) -> Tree:
        return tree_of(self.robot).unreduced

    @property
    def nodes(self) -> Collocation:
        return collocation(self.order)

    @property
    def unknown(self) -> int:
        """Configurations that a step seeks."""
        return self.order - 1

    def spring(self, d: int) -> float:
        """Return the part of `square` that does not come from a rotor."""
        return self.stiffness[d] + self.damping[d] / self.dt

    def square(self, d: int) -> float:
        """Return the contribution of the forces at the joint of dof d to the diagonal of the Hessian at order 2."""
        return self.spring(d) + float(self.tree.armature[d]) / self.dt**2

    def configuration(self, recording: Recording, name: str) -> Array:
        """Add an input (nq,) with a configuration."""
        quaternions = tuple((part.start, part.stop) for part in self.robot.quaternions())
        size_of_q = typical_sizes(self.tree)["q"]
        return recording.input(name, (self.robot.nq,), size_of_q, unit_vectors=quaternions)

    def away(self, recording: Recording, name: str) -> Array:
        """Add an input ((K - 1) nv,) with velocities to the nodes."""
        return recording.input(name, (self.unknown * self.robot.nv,), np.tile(_angles(self.tree), self.unknown))

    def reached(self, start: Array, away: Array) -> list[Array]:
        """Return the configurations (nq,) of the unknown nodes."""
        return [advance(self.robot, start, own) for own in away.reshape(self.unknown, -1)]


def _angles(tree: Tree) -> Array:
    """Return typical magnitudes (nv,) of the velocity between two configurations."""
    return np.asarray(typical_sizes(tree)["delta_q"])


def begin(model: PositionBasedModel) -> Graph:
    """Record the values that stay constant in a step, and the start of its search.

    Inputs: q, before, tau, with a servo target (nv,), at order 3 first () and the inputs of forces. Outputs: trial,
    start, past (K - 1, links, 12), linear (nv,), with contact marks (points, 3), at order 3 earlier (nq,); and the
    values before any iteration.
    """
    robot, tree, nodes = model.robot, model.tree, model.nodes
    recording, sizes = Recording("begin", robot.name), typical_sizes(tree)
    q, before = (model.configuration(recording, name) for name in ("q", "before"))
    tau = recording.input("tau", (robot.nv,), sizes["tau"])
    names = model.given if model.order > 2 else ("target",) if model.servo else ()
    inputs = {name: recording.input(name, (robot.nv,), sizes["delta_q"]) for name in names}
    went = between(robot, before, q)
    outputs = {}
    if model.order > 2:
        before = _bent(model, q, before, went, tau, inputs, recording.input("first", ())[()])
        went = between(robot, before, q)
        outputs["earlier"] = before
    here, last = places(tree, q), places(tree, before)
    past = zeros(model.unknown, len(tree.links), 12)
    for a, (of_last, of_here) in enumerate(nodes.second[:, :2]):
        for i, ((r, p), (r0, p0)) in enumerate(zip(here, last, strict=True)):
            past[a, i, :9], past[a, i, 9:] = np.ravel(of_last * r0 + of_here * r), of_last * p0 + of_here * p
    linear = zeros(robot.nv) - tau
    if model.order == 2:
        place = _places_in_q(model)
        for d in range(robot.nv):
            linear[d] = linear[d] - (float(tree.armature[d]) / model.dt**2) * went[d]
            if model.servo and model.stiffness[d]:
                linear[d] = linear[d] + model.stiffness[d] * (q[place[d]] - inputs["target"][d])
    nothing = zeros(model.unknown * robot.nv)
    outputs |= {
        "trial": np.concatenate([went * float(time / -nodes.times[0]) for time in nodes.times[2:]]),
        "start": array(list(q)),
        "past": past,
        "linear": linear,
        "held": nothing,
        "gradient": nothing.copy(),
        "lowest": scalar(0.0),
        "damping": scalar(0.0),
        "count": scalar(-1.0),  # the guess is none
    }
    if model.contact:
        outputs |= {"marks": np.stack(_places(model, here))}
    if model.squares:
        outputs |= begin_of_least_squares(len(nothing))
    return recording.graph(outputs)


def _places_in_q(model: PositionBasedModel) -> dict[int, int]:
    """Return, for each joint with one number, the index of that number in q."""
    return {iv.start: iq.start for joint, iq, iv in model.robot.moving() if joint.nv == 1}


def _bent(
    model: PositionBasedModel,
    q: Array,
    before: Array,
    went: Array,
    tau: Array,
    inputs: Mapping[str, Array],
    first: Scalar,
) -> Array:
    """Return the configuration before the start (nq,), corrected in the first step by the acceleration at the start.

    The first step is therefore of second order too.
    """
    time = float(-model.nodes.times[0]) * model.dt
    rate = went * (1.0 / time)
    pushed = model.forces.torque(q, rate, model.dt, inputs) if model.forces else zeros(model.robot.nv)
    qdd = array(forward_dynamics(tree_of(model.robot), list(q), list(rate), list(tau + pushed)))
    return chosen(first, advance(model.robot, q, qdd * (0.5 * time**2) - went), before)


def evaluation(model: PositionBasedModel, at: str, slope: str) -> Graph:
    """away at a point `at` ((K - 1) nv,), start, past, linear, with contact marks, with other forces their inputs, at
    order 3 earlier to `slope` ((K - 1) nv,) and, where the step has one, energy."""
    robot, order = model.robot, model.order
    recording, sizes = Recording("evaluation", robot.name), typical_sizes(model.tree)
    away, start = model.away(recording, at), model.configuration(recording, "start")
    linear = recording.input("linear", (robot.nv,), sizes["tau"])
    past = _past(recording, model)
    marks = recording.input("marks", (len(model.contact.points), 3), sizes["place"]) if model.contact else None
    reached = model.reached(start, away)
    names = model.forces.inputs if model.forces else ()
    inputs = {name: recording.input(name, (robot.nv,), sizes["delta_q"]) for name in names}
    if order == 2:
        energy, slopes = energy_and_slope(model, reached[0], away, past[0], linear, marks)
        if model.forces:
            slopes = slopes - model.forces.torque(reached[0], away * (1.0 / model.dt), model.dt, inputs)
        if model.squares:
            return recording.graph({slope: slopes})
        merit = _merit(model, slopes) if model.by_root else energy
        return recording.graph({"energy": scalar(merit), slope: slopes})
    earlier = model.configuration(recording, "earlier")
    forces = _at_nodes(model, [earlier, start, *reached], past, linear, inputs)
    if model.squares:
        return recording.graph({slope: np.concatenate(forces)})
    slopes = np.concatenate([weighted(row, forces) for row in model.nodes.combined])
    return recording.graph({"energy": scalar(_merit(model, slopes)), slope: slopes})


def _merit(model: PositionBasedModel, slopes: Array) -> Scalar:
    """Return the largest remaining force relative to its size, which a search in integers lowers like an energy."""
    return largest_over(slopes, list(np.tile(typical_sizes(model.tree)["tau"], model.unknown)), numbers=True)


def _at_nodes(
    model: PositionBasedModel, nodes_q: Sequence[Array], past: Array, linear: Array, inputs: Mapping[str, Array]
) -> list[Array]:
    """Return the remaining forces (nv,) at each unknown node, for the configurations of all nodes."""
    tree, nodes, dt = model.tree, model.nodes, model.dt
    poses, slopes = [places(tree, q) for q in nodes_q[2:]], []
    for a, q in enumerate(nodes_q[2:]):
        rotations = [weighted(nodes.second[a, 2:], [of[i][0] for of in poses]) for i in tree.links]
        shifts = [weighted(nodes.second[a, 2:], [of[i][1] for of in poses]) for i in tree.links]
        _, slope = _inertial(model, poses[a], rotations, shifts, past[a], None)
        rate = directions_of(model.robot, q, weighted(nodes.first[a] / dt, nodes_q))
        rotor = array(tree.armature) * directions_of(model.robot, q, weighted(nodes.second[a] / dt**2, nodes_q))
        slope = slope + linear + array(tree.damping) * rate + rotor
        if model.forces:
            slope = slope - model.forces.torque(q, rate, dt, inputs)
        slopes.append(slope)
    return slopes


def weighted(weights: Sequence[float] | Array, terms: Sequence[Array]) -> Array:
    """Return the weighted sum of terms; terms with weight 0 are omitted."""
    return np.asarray(sum(t * float(w) for w, t in zip(weights, terms, strict=True) if w))


def _past(recording: Recording, model: PositionBasedModel) -> Array:
    """Add the input `past` (K - 1, links, 12): what the poses before and at the start add to the accelerations, times
    dt².
    """
    sizes = np.repeat([1.0, float(typical_sizes(model.tree)["place"])], [9, 3])
    return recording.input("past", (model.unknown, len(model.tree.links), 12), sizes)


def energy_and_slope(
    model: PositionBasedModel, q: Array, away: Array, past: Array, linear: Array, marks: Array | None
) -> tuple[Scalar, Array]:
    """Return the energy (Equation 5) in J, and the forces (nv,) that a solution of the step brings to 0.

    The energy has no part for contact, since contact with friction has no energy. The forces have one: they are the
    gradient of the energy, less the contact forces.

    Args:
        model: The robot and the forces on it.
        q: Configuration at the end of the step, (nq,).
        away: Velocity to it from the start, (nv,).
        past: T_{k-1} - 2 T_k of each link, (links, 12).
        linear: Linear term of the energy, (nv,), as `begin` computes it.
        marks: Contact points at the start of the step, (points, 3).
    """
    poses = places(model.tree, q)
    total, slope = _inertial(model, poses, [r for r, _ in poses], [p for _, p in poses], past, marks)
    for d in range(model.robot.nv):
        square = model.square(d)
        slope[d] = slope[d] + square * away[d] + linear[d]
        total = total + (0.5 * square * away[d] + linear[d]) * away[d]
    return total, slope


def _inertial(
    model: PositionBasedModel,
    poses: Places,
    rotations: Sequence[Array],
    shifts: Sequence[Array],
    past: Array,
    marks: Array | None,
) -> tuple[Scalar, Array]:
    """Return the energy of inertia and gravity, and their forces (nv,) at poses.

    Args:
        rotations: Rotation of each link in the acceleration, to which the past is added.
        shifts: Position of each link in the acceleration.
    """
    tree, dt = model.tree, model.dt
    gravity = array([-a for a in tree.base_acceleration])
    moments, forces = [], []
    total: Scalar = 0.0
    for i, (r, p) in enumerate(poses):
        with scope("energy", f"link{i}"):
            inertia = tree.inertias[i]
            # (rotation | shift) is the acceleration of the link.
            rotation = (rotations[i] + past[i, :9].reshape(3, 3)) * (1.0 / dt**2)
            shift = (shifts[i] + past[i, 9:]) * (1.0 / dt**2)
            left, pushed, inertial = _weighted(inertia, rotation, shift)
            total = total + (0.5 * dt**2) * inertial - gravity @ (r @ inertia.first + p * inertia.mass)
            force = pushed - gravity * inertia.mass
            n = (left - np.outer(gravity, inertia.first)) @ r.T + np.outer(force, p)
            moments.append(array([n[2, 1] - n[1, 2], n[0, 2] - n[2, 0], n[1, 0] - n[0, 1]]))
            forces.append(force)
    if model.contact is not None and marks is not None:
        _subtract_contact(model, model.contact, poses, marks, moments, forces)
    wrenches = [SpatialForce(moment, force) for moment, force in zip(moments, forces, strict=True)]
    return total, transmit(tree, poses, wrenches, "slope")


def _weighted(inertia: Inertia, rotation: Array, shift: Array) -> tuple[Array, Array, Scalar]:
    """Return (R | p) M̃ of a link with homogeneous inertia M̃, as (3, 3) and (3,), and its product with (R | p)."""
    weighted = rotation @ inertia.second + np.outer(shift, inertia.first)
    pushed = rotation @ inertia.first + shift * inertia.mass
    return weighted, pushed, sum(np.ravel(weighted * rotation)) + sum(pushed * shift)


def _places(model: PositionBasedModel, poses: Places) -> list[Array]:
    """Return the contact points in the base frame."""
    points = model.contact.points if model.contact else ()
    rotations = model.tree.to_file_axes
    return [
        poses[i][1] + poses[i][0] @ (rotations[i].T @ array(list(point.position)))
        for i, point in zip(model.links, points, strict=True)
    ]


def _subtract_contact(
    model: PositionBasedModel, contact: Contact, poses: Places, marks: Array, moments: list[Array], forces: list[Array]
) -> None:
    """Subtract the forces on contact points, and their moments about the base's origin, from those of
    their links.
    """
    for k, p in enumerate(_places(model, poses)):
        with scope("contact", f"point{k}"):
            force = sum((contact.force(plane, p, p - marks[k]) for plane in contact.planes), zeros(3))
            i = model.links[k]
            forces[i] = forces[i] - force
            moments[i] = moments[i] - np.cross(p, force)


def search(model: PositionBasedModel, scale: Sequence[float], iterations: int, *, full: bool = False) -> Loop:
    """Return the loop from the values of `begin` to best ((K - 1) nv,), the motion from the step's begin to its nodes,
    counted (), the number of iterations, and rest (), the largest force left relative to its scale.

    full: of an energy, use its complete Hessian in place of M/dt², that of the part which is a square's. A root of
    forces has the complete Jacobian in any case.
    """
    tree, sizes = tree_of(model.robot), typical_sizes(model.tree)
    angles, torques = (np.tile(sizes[name], model.unknown) for name in ("delta_q", "tau"))
    unknown = Unknown(model.robot, angles, torques, [*scale] * model.unknown, iterations)
    evaluated = partial(evaluation, model)
    if model.squares:
        return least_squares(unknown, evaluated)

    def square(recording: Recording, best: Array) -> Array:
        (q,) = model.reached(model.configuration(recording, "start"), best)
        hessian = mass_matrix(tree, list(q)) * (1.0 / model.dt**2)
        for d in range(tree.nv):
            hessian[d, d] = hessian[d, d] + model.spring(d)
        return hessian

    hessian = Hessian(tree if model.order == 2 else None, square)
    return least_energy(unknown, evaluated, hessian, full=full or model.by_root, resolution=model.resolution)
