"""Whole-body torque as a loop: inverse dynamics with unilateral forces in friction cones and limits of torque.

The unknowns are the torques of the driven joints and the forces of contacts. The equations of motion give the
accelerations. Without forces, torques within their limits always exist, so every problem has a solution. A primal-dual
interior-point method minimizes weighted squares: of the differences from the requested accelerations, of the
accelerations of contacts, of forces and of torques.

References:
    Mehrotra, "On the implementation of a primal-dual interior point method", 1992, for the two directions of a step.
    Vandenberghe, "The CVXOPT linear and quadratic cone program solvers", 2010, for the quadratic program with cones.
    Duff et al., "Building an orthonormal basis, revisited", 2017, for the axes of a contact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dynagate.base.naming import scope
from dynagate.control.cones import Cone, HalfLine, SecondOrder
from dynagate.control.forward import recorded
from dynagate.dynamics.factor import Dense, factorize, solve
from dynagate.dynamics.spatial import Array, Scalar, array, chosen, largest, select, symmetric, zeros
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import output_values
from dynagate.graph.loop import Count, Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.robot import Robot

STEP = 0.99
"""Part of the largest step within the cones that an iteration takes."""
SETTLED = 1e-13
"""Complementarity, as a part of the curvature of the cost of forces, at which the iterations end."""
STALLED = 1e-8
"""Complementarity, in the same unit, below which the iterations end if an iteration does not lower it."""
LOWERED = 0.9
"""Largest part of the complementarity that an iteration leaves, for it to count as lowered."""
STIFFEST = 1e16
"""Largest stiffness of a linear constraint, as a part of the curvature of the cost of forces.

More would leave no digits of the cost in the sum.
"""
ENDLESS = 1e30
"""Squared length of a step above which an iterate stays: its matrix was not positive definite in float64."""
START = 1e-6
"""Initial complementarity, as a part of the largest slope of the cost at the start."""
LEAST_START = 1e-2
"""Smallest initial complementarity, as a part of the curvature of the cost of forces."""
LEAST_CENTERING, LEAST_TARGET = 0.1, 1e-3
"""Numbers that keep the target of an iteration away from 0, so that all products of a slack and a dual stay alike."""
LEAST_FRICTION = 1e-6
"""Friction coefficient below which the sides of a contact get a curvature: they change no force."""
EDGES = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))
"""Sides of a pyramid: height + a · side + b · other side is 0 or more."""
MOST_FORCE = 0.1
"""Unit of a torque without two limits, N m or N, as a part of the weight of the robot."""
CARRY = {"x_new": "x", "slack_new": "slack", "dual_new": "dual"}
PYRAMID = "pyramid"
Shape = Literal["cone", "pyramid"]


@dataclass(frozen=True)
class WholeBodyOptions:
    """Options of whole-body torque."""

    contacts: tuple[str, ...]
    """Names of the frames that may touch the ground."""
    shape: Shape
    """Shape of the friction cones: round cones, or pyramids inside of which each side is at most the friction."""
    low: tuple[float, ...]
    """Lowest torques (nv,), N m or N; 0 for degrees of freedom without a motor."""
    high: tuple[float, ...]
    """Highest torques (nv,), N m or N."""
    acceleration: tuple[float, ...]
    """Weights (nv,) of the differences from the requested accelerations."""
    contact: float
    """Weight of the accelerations of contacts."""
    force: float
    """Weight of forces, 1/N²."""
    torque: float
    """Weight of torques, 1/(N m)² or 1/N²."""
    iterations: int
    """Largest number of iterations."""


def weight_of(robot: Robot) -> float:
    """Return the weight of a robot, N; its mass in kg if there is less than 1 m/s² of gravity."""
    return float(sum(link.mass for link in robot.links) * max(math.hypot(*robot.gravity), 1.0))


class WholeBodyProblem:
    """The quadratic program with cones of a robot: the layout of its unknowns and of its slacks.

    The unknowns x are the torques of driven joints, each in its unit from the middle of its range, then the force of
    each contact (height, side, side) in the round cone of friction 1, as a part of the robot's weight. The slacks are
    those of torques, then those of contacts.

    Args:
        robot: The robot.
        options: Options of whole-body torque.
    """

    def __init__(self, robot: Robot, options: WholeBodyOptions) -> None:
        self.robot, self.options, self.count = robot, options, len(options.contacts)
        low, high = np.array(options.low), np.array(options.high)
        self.driven = np.flatnonzero(low < high).tolist()
        """Degrees of freedom whose torque is chosen."""
        self.weight = weight_of(robot)
        """Unit of forces, N."""
        half, unit = 0.5 * (high - low), self.weight * MOST_FORCE
        with np.errstate(invalid="ignore"):
            middle = np.where(np.isfinite(half), 0.5 * (low + high), np.clip(0.0, low + unit, high - unit))
        self.middle = middle.tolist()
        """Torques (nv,) at which the iterations start."""
        self.units = np.where(np.isfinite(half), half, unit)[self.driven].tolist()
        """Unit of the torque of each driven degree of freedom."""
        self.first = len(self.driven)
        """Position of the first force among the unknowns."""
        self.size = self.first + 3 * self.count
        """Number of unknowns."""
        self.curvature = options.force * self.weight**2
        """Curvature of the cost of forces by their unknowns."""
        self.stiffest = STIFFEST * self.curvature
        """Largest stiffness of a linear constraint."""
        self.settled = SETTLED * self.curvature
        """Complementarity at which the iterations end."""
        self.stalled = STALLED * self.curvature
        """Complementarity below which the iterations end if an iteration does not lower it."""

    @cached_property
    def limits(self) -> list[tuple[int, float, float]]:
        """For each finite limit of a torque: the driven joint, the sign, and the distance from the middle in units."""
        ends = []
        for k, (i, unit) in enumerate(zip(self.driven, self.units, strict=True)):
            for sign, end in ((1.0, self.options.low[i]), (-1.0, self.options.high[i])):
                if math.isfinite(end):
                    ends.append((k, sign, sign * (self.middle[i] - end) / unit))
        return ends

    @property
    def heights(self) -> range:
        """Positions of the heights of contact forces among the unknowns."""
        return range(self.first, self.size, 3)

    @property
    def flat(self) -> bool:
        """Whether the friction cones are pyramids."""
        return self.options.shape == PYRAMID

    @property
    def rows(self) -> int:
        """The number of slacks."""
        return len(self.limits) + (len(EDGES) if self.flat else 3) * self.count

    @property
    def degree(self) -> int:
        """The number of cones."""
        return len(self.limits) + (len(EDGES) if self.flat else 1) * self.count

    @property
    def start(self) -> list[float]:
        """The forces (3 contacts,) at which the iterations start, in units: the weight, along the normals."""
        return [1.0 / self.count, 0.0, 0.0] * self.count if self.count else []

    @property
    def start_slack(self) -> np.ndarray:
        """The slacks (rows,) at which the iterations start."""
        return np.array([away for _, _, away in self.limits] + list(self._contact_slacks(array(self.start))), float)

    @property
    def identity(self) -> np.ndarray:
        """The identity element (rows,) of all cones."""
        linear, contacts = len(self.limits), self.count
        return np.array([1.0] * linear + ([1.0] * len(EDGES) if self.flat else [1.0, 0.0, 0.0]) * contacts)

    def _contact_slacks(self, forces: Array) -> Array:
        """Return the slacks of contacts, from forces (3 contacts,) in units."""
        if not self.flat:
            return forces
        triples = [forces[k : k + 3] for k in range(0, len(forces), 3)]
        return array([x[0] + x[1] * a + x[2] * b for x in triples for a, b in EDGES])

    def slacks(self, x: Array) -> Array:
        """Return the change G x (rows,) of the slacks."""
        return array([*(x[k] * sign for k, sign, _ in self.limits), *self._contact_slacks(x[self.first :])])

    def gathered(self, duals: Array) -> Array:
        """Return Gᵀ z (size,)."""
        result, contacts = zeros(self.size), duals[len(self.limits) :]
        for (k, sign, _), dual in zip(self.limits, duals, strict=False):
            result[k] = result[k] + dual * sign
        for i, k in enumerate(self.heights):
            if self.flat:
                own = contacts[len(EDGES) * i : len(EDGES) * (i + 1)]
                own = array([own.sum(), own[0] - own[1], own[2] - own[3]])
            else:
                own = contacts[3 * i : 3 * i + 3]
            result[k : k + 3] = result[k : k + 3] + own
        return result

    def cones(self, slack: Array, dual: Array) -> list[tuple[slice, Cone]]:
        """Return the cones of an iterate, with their places among the slacks."""
        linear = self.rows if self.flat else len(self.limits)
        result: list[tuple[slice, Cone]] = []
        for k in range(linear):
            result.append((slice(k, k + 1), HalfLine(slack[k : k + 1], dual[k : k + 1], self.stiffest)))
        for k in range(linear, self.rows, 3):
            result.append((slice(k, k + 3), SecondOrder(slack[k : k + 3], dual[k : k + 3])))
        return result

    def strictness(self, slack: np.ndarray, dual: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Return how clearly each problem's limits and cones are active or inactive.

        Args:
            slack: Slacks (batch, rows) of solutions.
            dual: Their duals (batch, rows).
            held: Whether each contact is active, (batch, contacts).

        Returns:
            The smallest of all numbers max(slack, dual), (batch,). Slacks are parts of a torque's unit or of the
            robot's weight, duals parts of the curvature of the cost of forces.
        """
        linear, scaled = len(self.limits), dual / self.curvature
        clear = [np.maximum(slack[:, k], scaled[:, k]) for k in range(linear)]
        width = len(EDGES) if self.flat else 3
        for i in range(self.count):
            own, pull = (x[:, linear + i * width : linear + (i + 1) * width] for x in (slack, scaled))
            if not self.flat:  # the two eigenvalues of an entry of the cone, in opposite order
                own, pull = (
                    x[:, :1] + np.linalg.norm(x[:, 1:], axis=1, keepdims=True) * [sign, -sign]
                    for x, sign in ((own, -1.0), (pull, 1.0))
                )
            clear.append(np.where(held[:, i], np.maximum(own, pull).min(axis=1), np.inf))
        return np.min(clear, axis=0)

    def scaled_hessian(self, hessian: Array, scalings: Sequence[Array]) -> Array:
        """Return H + Gᵀ W⁻² G, from W⁻² of each cone."""
        result, contacts = hessian.copy(), scalings[len(self.limits) :]
        for (k, _, _), scaling in zip(self.limits, scalings, strict=False):
            result[k, k] = result[k, k] + scaling[0, 0]
        for i, k in enumerate(self.heights):
            own = _edges(contacts[len(EDGES) * i : len(EDGES) * (i + 1)]) if self.flat else contacts[i]
            result[k : k + 3, k : k + 3] = result[k : k + 3, k : k + 3] + own
        return result


def _edges(scalings: Sequence[Array]) -> Array:
    """Return the matrix (3, 3) of the scalings of a pyramid's edges."""
    a, b, c, d = (scaling[0, 0] for scaling in scalings)
    first, second = a + b, c + d
    return array([[first + second, a - b, c - d], [a - b, first, 0.0], [c - d, 0.0, second]])


def whole_body_loop(problem: WholeBodyProblem) -> Loop:
    """Return the loop of a batch of problems.

    Its inputs are those of `inputs_of`, and `slack`, the slacks (rows,) of the start. Its outputs are tau and qdd_found
    (nv,), force and slip (contacts, 3), the last iterate, and `gap` and `slope_left` (), relative to the curvature of
    the cost of forces.

    Args:
        problem: The program with cones.
    """
    robot, stop = problem.robot, Until("open", 0.5, problem.options.iterations)
    body = Loop("iterations", robot.name, (_iteration(problem),), CARRY, stop, last=tuple(CARRY))
    finish = _finished(problem)
    last = (*(port.name for port in finish.outputs), *CARRY)
    steps = (prepared(problem), body, finish)
    return Loop("whole_body_torque", robot.name, steps, {}, Count(1), last=last)


def inputs_of(problem: WholeBodyProblem) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs of a problem by name.

    These are q, qd and the requested qdd, and for each contact whether it is `active`, its coefficient of `friction`,
    and its unit `normal`.
    """
    robot, count = problem.robot, problem.count
    shapes: dict[str, tuple[int, ...]] = {"q": (robot.nq,), "qd": (robot.nv,), "qdd": (robot.nv,)}
    contacts: dict[str, tuple[int, ...]] = {"active": (count,), "friction": (count,), "normal": (count, 3)}
    return {**shapes, **contacts} if count else shapes


def prepared(problem: WholeBodyProblem) -> Graph:
    """Return the graph of the quadratic program of a problem.

    Its outputs are:
        * hessian (size, size) and slope (size,) of the cost at x = 0;
        * `x` (size,) and `dual` (rows,) of the start;
        * motion (nv, size) and still (nv,), for the accelerations motion x + still;
        * frames (contacts, 3, 3), the matrices to forces;
        * columns (3 contacts, nv) and drift (3 contacts,), for the accelerations of contacts.
    """
    recording = Recording("prepare", problem.robot.name)
    inputs = recorded_inputs(recording, problem)
    with scope("prepare"):
        system = RecordedSystem(recording, problem, inputs)
        hessian, slope = system.cost(inputs["qdd"])
        x = np.concatenate([zeros(problem.first), array(problem.start)])
        downhill = hessian @ x + slope
        size = largest([*downhill, *(-each for each in downhill)], 0.0)
        mean, least = size * START, LEAST_START * problem.curvature
        mean = select(mean - least, mean, least)
        identity = problem.identity
        inverse = identity / np.where(identity > 0.0, problem.start_slack, 1.0)
        outputs = {"hessian": hessian, "slope": slope, "x": x, "dual": array(inverse) * mean}
        outputs |= {name: getattr(system, name) for name in ("motion", "still")}
        if problem.count:
            outputs |= {name: getattr(system, name) for name in ("frames", "columns", "drift")}
    return recording.graph({name: np.asarray(value, dtype=object) for name, value in outputs.items()})


def recorded_inputs(recording: Recording, problem: WholeBodyProblem) -> dict[str, Array]:
    """Record the inputs of a problem, and return them by name."""
    units = tuple((part.start, part.stop) for part in problem.robot.quaternions())
    return {
        name: recording.input(name, shape, unit_vectors=units if name == "q" else (), switches=name == "active")
        for name, shape in inputs_of(problem).items()
    }


class RecordedSystem:
    """The accelerations that follow from the unknowns, recorded for one problem."""

    def __init__(self, recording: Recording, problem: WholeBodyProblem, inputs: Mapping[str, Array]) -> None:
        self.problem, robot, contacts = problem, problem.robot, problem.options.contacts
        self.active, self.friction = inputs.get("active", zeros(0)), inputs.get("friction", zeros(0))
        names = ["mass_matrix_inverse", "bias_torque"]
        names += [f"{kind}_{each}" for each in contacts for kind in ("frame_jacobian", "frame_bias_acceleration")]
        graph = trace(robot, names)
        values = output_values(graph.outputs, recording.replay(graph, {p.name: inputs[p.name] for p in graph.inputs}))
        jacobians = [values[f"frame_jacobian_{each}"][3:] for each in contacts]
        self.columns = np.concatenate([zeros(0, robot.nv), *jacobians])
        drifts = [values[f"frame_bias_acceleration_{each}"][3:] for each in contacts]
        self.drift = np.concatenate([zeros(0), *drifts])
        self.inverse, self.bias = values["minv"], values["bias_torque"]
        self.frames = zeros(problem.count, 3, 3)
        for k, normal in enumerate(inputs.get("normal", zeros(0, 3))):
            self.frames[k] = self._frame(k, normal)
        self._move()

    def _frame(self, k: int, normal: Array) -> Array:
        """Return the matrix (3, 3) from the unknowns of a contact to its force in base axes, N."""
        scale = self.active[k] * self.problem.weight
        sides = scale * self.friction[k]
        return _axes(normal) * array([scale, sides, sides])

    def _move(self) -> None:
        """Record the accelerations of unknowns."""
        problem, inverse = self.problem, self.inverse
        self.motion = zeros(problem.robot.nv, problem.size)
        for k, (i, unit) in enumerate(zip(problem.driven, problem.units, strict=True)):
            self.motion[:, k] = inverse[:, i] * unit
        for k, first in enumerate(problem.heights):
            pushed = self.columns[3 * k : 3 * k + 3].T @ self.frames[k]
            self.motion[:, first : first + 3] = inverse @ pushed
        self.still = inverse @ (array(problem.middle) - self.bias)

    def _diagonal(self) -> list[Scalar]:
        """Return the curvature of the cost of forces by each unknown. Inactive forces are 0."""
        square = self.problem.curvature
        result: list[Scalar] = [unit * unit * self.problem.options.torque for unit in self.problem.units]
        for active, friction in zip(self.active, self.friction, strict=True):
            slippery = select(friction - LEAST_FRICTION, 0.0, 1.0)
            sides = (active * (friction * friction + slippery) + (1.0 - active)) * square
            result += [square, sides, sides]
        return result

    def _held(self) -> Array:
        """Return the weight of each row of the contacts: 0 if the contact is inactive."""
        return array([active * self.problem.options.contact for active in self.active for _ in range(3)])

    def gradient(self, x: Array, accelerations: Array, requested: Array) -> Array:
        """Return the gradient (size,) of the cost at x, with its accelerations."""
        problem = self.problem
        away = (accelerations - requested) * array(list(problem.options.acceleration))
        if problem.count:
            away = away + ((self.columns @ accelerations + self.drift) * self._held()) @ self.columns
        at_zero = zeros(problem.size)
        for k, (i, unit) in enumerate(zip(problem.driven, problem.units, strict=True)):
            at_zero[k] = problem.middle[i] * unit * problem.options.torque
        for k, active, first in zip(problem.heights, self.active, problem.start[::3], strict=True):
            at_zero[k] = (active - 1.0) * (problem.curvature * first)  # an inactive force stays inside of its cone
        return away @ self.motion + array(self._diagonal()) * x + at_zero

    def cost(self, requested: Array) -> tuple[Array, Array]:
        """Return the Hessian (size, size) and the slope (size,) at x = 0 of the cost."""
        problem = self.problem
        moved, diagonal = self.motion * array(list(problem.options.acceleration))[:, None], self._diagonal()
        slips = self.columns @ self.motion if problem.count else zeros(0, problem.size)
        groups = [(moved, self.motion), (slips * self._held()[:, None], slips)]

        def entry(a: int, b: int) -> Scalar:
            value = sum((left[:, a] @ right[:, b] for left, right in groups if len(left)), 0.0)
            return value + diagonal[a] if a == b else value

        return symmetric(entry, problem.size), self.gradient(zeros(problem.size), self.still, requested)


def _axes(normal: Array) -> Array:
    """Return the rotation (3, 3) with the columns normal and two sides, for a unit vector (3,)."""
    x, y, z = normal
    sign = select(z, 1.0, -1.0)
    factor = -sign * (1.0 / (z * sign + 1.0))
    cross = x * y * factor
    first = [x * x * factor * sign + 1.0, cross * sign, -(x * sign)]
    second = [cross, y * y * factor + sign, -y]
    return array([list(normal), first, second]).T


def _forces(problem: WholeBodyProblem, frames: Array, x: Array) -> Array:
    """Return the forces (contacts, 3) of the unknowns, N."""
    return array([frame @ x[k : k + 3] for frame, k in zip(frames, problem.heights, strict=True)])


def _iteration(problem: WholeBodyProblem) -> Graph:
    """Return the graph of an iteration."""
    n, rows, recording = problem.size, problem.rows, Recording("iteration", problem.robot.name)
    hessian = recording.input("hessian", (n, n), symmetric=True)
    y = {name: recording.input(name, (n,)) for name in ("slope", "x")}
    y |= {name: recording.input(name, (rows,)) for name in ("slack", "dual")}
    with scope("iteration"):
        outputs = _stepped(problem, hessian, y)
    return recording.graph({name: np.asarray(value, dtype=object) for name, value in outputs.items()})


def _stepped(problem: WholeBodyProblem, hessian: Array, y: Mapping[str, Array]) -> dict[str, Any]:
    """Return the values after an iteration: an affine direction, then the corrected one."""
    slope, x, slack, dual = (y[name] for name in ("slope", "x", "slack", "dual"))
    cones, order = problem.cones(slack, dual), Dense(problem.size)
    scalings = [cone.inverse_scaling() for _, cone in cones]
    factor = factorize(order, problem.scaled_hessian(hessian, scalings))
    gradient = hessian @ x + slope
    mean = (slack @ dual) * (1.0 / problem.degree)

    def direction(targets: Array) -> tuple[Array, Array, Array]:
        """Return the steps of x, slacks and duals, for the duals `targets` at ds = 0."""
        dx = array(solve(order, factor, list(problem.gathered(targets) - gradient)))
        ds, dz = problem.slacks(dx), targets - dual
        for place, cone in cones:
            dz[place] = dz[place] - cone.scaled_back(ds[place])
        return dx, ds, dz

    def blocked(ds: Array, dz: Array) -> Scalar:
        """Return the reciprocal of the largest step within the cones, 0 without a limit."""
        return largest((x for at, cone in cones for x in cone.inverse_lengths(ds[at], dz[at])), 0.0)

    _, ds, dz = direction(zeros(len(slack)))
    rest = 1.0 - _step(blocked(ds, dz))
    target = mean * (((rest + LEAST_CENTERING) * rest * rest) + LEAST_TARGET)
    targets = dual.copy()
    for place, cone in cones:
        targets[place] = targets[place] + cone.centering(target, ds[place], dz[place])
    dx, ds, dz = direction(targets)
    step = _step(blocked(ds, dz) * (1.0 / STEP))
    values = {"x": (x, dx), "slack": (slack, ds), "dual": (dual, dz)}
    return _kept(problem, values, step, mean)


def _kept(
    problem: WholeBodyProblem, values: Mapping[str, tuple[Array, Array]], step: Scalar, mean: Scalar
) -> dict[str, Any]:
    """Return the better one of two iterates, and whether the iterations go on.

    Args:
        problem: The program with cones.
        values: Each value before the step, and its direction.
        step: Part of the direction to go.
        mean: Complementarity before the step.
    """
    moved = {name: old + change * step for name, (old, change) in values.items()}
    left = (moved["slack"] @ moved["dual"]) * (1.0 / problem.degree)
    lowered = select(mean * LOWERED - left, 1.0, select(left - problem.stalled, 1.0, 0.0))
    (_, dx), (_, dz) = values["x"], values["dual"]
    lowered = select(ENDLESS - (dx @ dx + dz @ dz), lowered, 0.0)
    results = {f"{name}_new": chosen(lowered, moved[name], old) for name, (old, _) in values.items()}
    return {**results, "open": select(left - problem.settled, lowered, 0.0)}


def _step(blocked: Scalar) -> Scalar:
    """Return a step of at most 1, from the reciprocal of the largest one."""
    return 1.0 / select(blocked - 1.0, blocked, 1.0)


def _finished(problem: WholeBodyProblem) -> Graph:
    """Return the graph of the results."""
    n, nv, rows, count = problem.size, problem.robot.nv, problem.rows, problem.count
    shapes: dict[str, tuple[int, ...]] = {"hessian": (n, n), "slope": (n,), "motion": (nv, n), "still": (nv,)}
    shapes |= {"x_new": (n,), "slack_new": (rows,), "dual_new": (rows,)}
    if count:
        shapes |= {"active": (count,), "frames": (count, 3, 3), "columns": (3 * count, nv), "drift": (3 * count,)}

    def record(y: Mapping[str, Array]) -> Mapping[str, Any]:
        x, scale = y["x_new"], 1.0 / problem.curvature
        accelerations, tau = y["motion"] @ x + y["still"], array(problem.middle)
        for k, i in enumerate(problem.driven):
            tau[i] = tau[i] + x[k] * problem.units[k]
        left = y["hessian"] @ x + y["slope"] - problem.gathered(y["dual_new"])
        results = {"tau": tau, "qdd_found": accelerations}
        results["gap"] = (y["slack_new"] @ y["dual_new"]) * (scale / problem.degree)
        results["slope_left"] = largest([*left, *(-each for each in left)], 0.0) * scale
        if count:
            held = array([each for each in y["active"] for _ in range(3)])
            results["slip"] = ((y["columns"] @ accelerations + y["drift"]) * held).reshape(count, 3)
            results["force"] = _forces(problem, y["frames"], x)
        return results

    return recorded("finish", problem.robot.name, shapes, record)
