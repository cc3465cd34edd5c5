"""Whole-body torque of a robot: a batch of problems in one call of compiled code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import (
    ABOVE_ZERO,
    AT_LEAST_ZERO,
    check_count,
    check_unit_vectors,
    common_axes,
    names_of,
    number,
    of_type,
    one_or_several,
    real,
    shown,
)
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.nearest import nearest
from dynagate.control.whole_body import (
    PYRAMID,
    WholeBodyOptions,
    WholeBodyProblem,
    inputs_of,
    prepared,
    weight_of,
    whole_body_loop,
)
from dynagate.control.whole_body_derivative import MOVING, gradient_product, moved_unknowns
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.host.compiling import check_robot
from dynagate.host.devices import DeviceOptions
from dynagate.host.loop_solver import LoopSolver
from dynagate.host.solver import bounds_of
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of

FUNCTION = "whole_body_torque"
SHAPES = ("cone", PYRAMID)
MAX_ITERATIONS = 1000
CLOSED, LEVEL = 1e-7, 1e-3
"""Largest complementarity and largest gradient left of a problem that converged, as parts of the curvature of the cost
of forces. The gradient is that of stiff directions, in which unknowns hardly move.
"""
USUAL_FORCE, LEAST_CURVATURE, LEAST_WEIGHT = 1e-5, 0.4, 1e-3
"""Usual weight of forces, 1/N²; its least product with the robot's squared weight, m²/s⁴, below which forces lose
digits; and the smallest weight of a robot that counts, N.
"""
STRICT = 1e-4
"""Smallest distance from a limit or its multiplier, in the units of `strictness`, of a smooth problem."""
WEIGHT = ABOVE_ZERO.called("a weight of more than 0")


@explained
@dataclass(frozen=True)
class WholeBodySolution:
    """Torques, forces and accelerations of each problem. The leading axes are those of the call."""

    tau: Array
    """Torques (..., nv) within their limits, N m or N; 0 for degrees of freedom without a motor."""
    qdd: Array
    """Accelerations (..., nv) that follow, rad/s² or m/s²."""
    force: Array
    """Forces (..., contacts, 3) on the contacts in their friction cones, base axes, N."""
    slip: Array
    """Accelerations (..., contacts, 3) of active contacts that remain, base axes, m/s²; 0 for inactive contacts."""
    kept: Array
    """Whether all active contacts stay, (...): no acceleration is larger than `tolerance`."""
    converged: Array
    """Whether the gradient, and the products of bounds and their multipliers, are small, (...)."""

    def __repr__(self) -> str:
        shape = self.converged.shape
        counts = f"{int(self.converged.sum())} converged, {int(self.kept.sum())} keep their contacts"
        return f"<WholeBodySolution of {shape or 'one'}, {counts}>"


@explained
@dataclass(frozen=True)
class WholeBodySensitivity:
    """Derivatives of torques (..., nv) by the inputs of a call. The leading axes are those of the call."""

    q: Array
    """Derivatives by the configuration, along velocities, (..., nv, nv)."""
    qd: Array
    """Derivatives by the velocity, (..., nv, nv)."""
    qdd: Array
    """Derivatives by the requested acceleration, (..., nv, nv)."""
    smooth: Array
    """Whether each limit and each cone is clearly active or clearly inactive, (...). If not, the torques have a kink
    near this problem, and the derivative holds on one side of it only.
    """


class _Input(NamedTuple):
    """An input of a call."""

    name: str
    """Name of the input."""
    shape: tuple[int, ...]
    """Shape for one problem."""


@explained
class WholeBodyTorque(LoopSolver):
    """A solver of inverse dynamics with contacts. Call it with states and requested accelerations.

    It finds torques within their limits and contact forces in friction cones that minimize the weighted squares of four
    terms: the differences from the requested accelerations, the accelerations of active contacts, forces, and torques.
    Every problem has a solution. If torques or friction cannot hold a contact, its acceleration is the smallest
    possible one, and `kept` is False.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        contacts: Names of frames or links whose origin may touch the ground.
        shape: "cone" for round friction cones; "pyramid" for pyramids, in which each of two sides of a force is at most
            the friction coefficient times its normal part.
        friction: Friction coefficient of all contacts, 0 or more, unless a call passes others.
        bounds: Bounds of torques, N m or N, as of `dynagate.ilqr`: True for the robot's effort limits, None for no
            bounds, one number or (nv,) for both signs, or a pair (lowest, highest).
        acceleration: Weights of differences from requested accelerations, one or (nv,), s⁴/rad² or s⁴/m².
        contact: Weight of accelerations of contacts, s⁴/m².
        force: Weight of forces, 1/N². Unless given, 1e-5, or more for a light robot: 0.4 divided by its squared weight.
        torque: Weight of torques, 1/(N m)² or 1/N²; that of forces unless given.
        tolerance: Largest acceleration of a contact that stays, m/s².
        iterations: Largest number of iterations of the interior-point method.
        device: "cpu", C compiled for this processor with problems in the lanes of vectors; "cuda"; or "numpy".

    Raises:
        ArgumentError: An option is not right, the robot has constraints or variable parameters, or the device computes
            in float32. Nothing is computed then.
        ArgumentTypeError: An option has another type.
        RobotError: The robot has no such frame.
        CompileError: There is no compiler, or it fails.

    Example:
        >>> dog = dynagate.Robot.from_file(dynagate.robots.path("hyq"), floating_base=True)
        >>> feet = ["lf_foot", "rf_foot", "lh_foot", "rh_foot"]
        >>> with dynagate.whole_body_torque(dog, feet, device="numpy") as solver:
        ...     pushed = solver(dynagate.neutral(dog)).force[:, 2].sum()
        >>> bool(abs(pushed - 9.81 * sum(link.mass for link in dog.links)) < 2.0)
        True
    """

    results = WholeBodySolution

    def __init__(
        self,
        robot: RobotOrName,
        contacts: Sequence[str] = (),
        *,
        shape: Literal["cone", "pyramid"] = "cone",
        friction: float = 0.7,
        bounds: Any = True,
        acceleration: npt.ArrayLike = 1.0,
        contact: float = 100.0,
        force: float | None = None,
        torque: float | None = None,
        tolerance: float = 0.1,
        iterations: int = 40,
        device: Literal["cpu", "cuda", "numpy"] | DeviceOptions = "cpu",
    ) -> None:
        self._keep_maker(type(self), (), locals())
        check_count("iterations", iterations, MAX_ITERATIONS)
        names = _contacts(contacts)
        if shape not in SHAPES:
            raise ArgumentError(f"shape={shown(shape)}; expected {' or '.join(SHAPES)}", code="DG-DEVICE-072")
        self.friction = number("friction=", friction, AT_LEAST_ZERO)
        self.tolerance = number("tolerance=", tolerance, ABOVE_ZERO)
        check_robot(robot)
        self.choose(FUNCTION, device, {})
        self.robot = _checked(robot_of(robot), names)
        if np.dtype(getattr(self._chosen.options, "dtype", None) or np.float64) != np.float64:
            raise ArgumentError(
                "whole_body_torque in float32, which leaves no digits of forces; expected float64", code="DG-DEVICE-073"
            )
        own = one_or_several("acceleration=", acceleration, (self.robot.nv,), WEIGHT)
        tracking = tuple(np.broadcast_to(own, (self.robot.nv,)).tolist())
        low, high = _limits(self.robot, bounds)
        usual = max(USUAL_FORCE, LEAST_CURVATURE / max(weight_of(self.robot), LEAST_WEIGHT) ** 2)
        force = usual if force is None else force
        weights = {"contact": contact, "force": force, "torque": force if torque is None else torque}
        values = {name: number(f"{name}=", value, WEIGHT) for name, value in weights.items()}
        self.options = WholeBodyOptions(names, shape, low, high, tracking, iterations=int(iterations), **values)
        self.problem = WholeBodyProblem(self.robot, self.options)
        if not self.problem.rows:
            raise ArgumentError(
                "whole_body_torque without contacts and bounds; expected one of them, or the function inverse_dynamics",
                code="DG-DEVICE-074",
            )
        self.compile(lambda: whole_body_loop(self.problem))
        self._fixed = {"slack": self.problem.start_slack[None]}

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs of a call."""
        return tuple(self.input_shapes)

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each input of a call for one problem, by name."""
        return inputs_of(self.problem)

    def __repr__(self) -> str:
        contacts = ", ".join(self.options.contacts) or "no contacts"
        return f"<WholeBodyTorque {self.robot.name}, {contacts}, on {self.device}>"

    def __call__(
        self,
        q: npt.ArrayLike,
        qd: npt.ArrayLike | None = None,
        qdd: npt.ArrayLike | None = None,
        *,
        active: npt.ArrayLike | None = None,
        friction: npt.ArrayLike | None = None,
        normal: npt.ArrayLike | None = None,
    ) -> WholeBodySolution:
        """Find torques and contact forces.

        Args:
            q: Configurations (..., nq), rad, m and unit quaternions.
            qd: Velocities (..., nv), rad/s or m/s; 0 unless given.
            qdd: Requested accelerations (..., nv), rad/s² or m/s²; 0 unless given.
            active: 1 for each contact that touches the ground, else 0, (..., contacts), or one; 1 unless
                given.
            friction: Friction coefficients (..., contacts), or one; those of the solver unless given.
            normal: Unit normals (..., contacts, 3) of the ground in base axes, or one (3,); z unless given.

        Returns:
            The optimum of each problem. All leading axes are broadcast.

        Raises:
            ArgumentError: An input has another shape, is not finite, is out of its range, or a vector has not length 1.
            ArgumentTypeError: An input does not hold real numbers.
            DeviceError: The solver is closed, or the device fails.
        """
        problems, leading = self._read(q, qd, qdd, {"active": active, "friction": friction, "normal": normal})
        outputs = self._solved(problems)
        return WholeBodySolution(**{name: x.reshape((*leading, *x.shape[1:])) for name, x in outputs.items()})

    def sensitivity(
        self,
        q: npt.ArrayLike,
        qd: npt.ArrayLike | None = None,
        qdd: npt.ArrayLike | None = None,
        *,
        active: npt.ArrayLike | None = None,
        friction: npt.ArrayLike | None = None,
        normal: npt.ArrayLike | None = None,
    ) -> WholeBodySensitivity:
        """Solve problems, and return the derivatives of their torques by the implicit function theorem.

        The first call traces the derivative. It is computed by numpy.

        Args:
            q: Configurations (..., nq), rad, m and unit quaternions.
            qd: Velocities (..., nv), rad/s or m/s; 0 unless given.
            qdd: Requested accelerations (..., nv), rad/s² or m/s²; 0 unless given.
            active: 1 for each contact that touches the ground, else 0, (..., contacts), or one.
            friction: Friction coefficients (..., contacts), or one.
            normal: Unit normals (..., contacts, 3) of the ground in base axes, or one (3,).

        Returns:
            The derivatives, with the leading axes of the call.

        Raises:
            ArgumentError: An input has another shape, is not finite, is out of its range, or a vector has not length 1.
            ArgumentTypeError: An input does not hold real numbers.
            DeviceError: The solver is closed, or the device fails.
        """
        problems, leading = self._read(q, qd, qdd, {"active": active, "friction": friction, "normal": normal})
        problem, nv, batch = self.problem, self.robot.nv, len(problems["q"])
        optimum = self.iterates(problems)
        slack, dual = optimum["slack_new"], optimum["dual_new"]
        results = {name: np.zeros((batch, nv, nv)) for name in MOVING}
        rows = {"hessian": evaluate(self._prepared, problems)["hessian"], "slack": slack, "dual": dual}
        still = {**problems, "x": optimum["x_new"]}
        for k, (i, unit) in enumerate(zip(problem.driven, problem.units, strict=True)):
            weights = np.zeros((batch, problem.size))
            weights[:, k] = unit
            moved = evaluate(self._moved, {**rows, "weights": weights})["moved"]
            products = evaluate(self._product, {**still, "lam_slope": moved})
            for name, result in results.items():
                result[:, i] = products[f"vjp_{name}"]
        held = problems.get("active", np.ones((batch, 0))) > 0.0
        smooth = problem.strictness(slack, dual, held) > STRICT
        return WholeBodySensitivity(
            **{name: x.reshape((*leading, nv, nv)) for name, x in results.items()}, smooth=smooth.reshape(leading)
        )

    @cached_property
    def _prepared(self) -> Graph:
        return prepared(self.problem)

    @cached_property
    def _moved(self) -> Graph:
        return moved_unknowns(self.problem)

    @cached_property
    def _product(self) -> Graph:
        return gradient_product(self.problem)

    def _read(
        self, q: npt.ArrayLike, qd: npt.ArrayLike | None, qdd: npt.ArrayLike | None, ground: Mapping[str, Any]
    ) -> tuple[dict[str, Array], tuple[int, ...]]:
        """Return the checked inputs of a call, (batch, *shape) by name, and the leading axes."""
        self.check_open()
        still = np.zeros(self.robot.nv)
        values = {"q": q, "qd": still if qd is None else qd, "qdd": still if qdd is None else qdd}
        own = self.usual({name: value for name, value in ground.items() if value is not None})
        shapes = self.input_shapes
        return self._problems(values | {name: _of_contacts(name, x, shapes[name]) for name, x in own.items()})

    def usual(self, ground: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of contacts by name, with usual values for those that a call leaves out.

        Args:
            ground: Inputs of a call by name: `active`, `friction` and `normal`.

        Raises:
            ArgumentError: There is another input, or the solver has no contacts.
        """
        count = len(self.options.contacts)
        values = {"active": np.ones(count), "friction": np.full(count, self.friction)}
        values["normal"] = np.tile([0.0, 0.0, 1.0], (count, 1))
        for name in ground:
            if name not in values:
                raise ArgumentError(
                    f"whole_body_torque has no input '{name}'{nearest(name, values)}; expected {', '.join(values)}",
                    code="DG-DEVICE-081",
                )
            if not count:
                raise ArgumentError(
                    f"{name} of a solver without contacts; expected whole_body_torque(robot, contacts=[...])",
                    code="DG-DEVICE-075",
                )
        return {**values, **ground} if count else {}

    def _problems(self, values: Mapping[str, Any]) -> tuple[dict[str, Array], tuple[int, ...]]:
        """Return the checked inputs of a call, (batch, *shape) by name, and the leading axes."""
        shapes = inputs_of(self.problem)
        ports = [_Input(name, shape) for name, shape in shapes.items()]
        arrays, leading = common_axes(ports, {k: real(k, x) for k, x in values.items()}, np.broadcast_to)
        batch = math.prod(leading)
        flat = {k: arrays[k].reshape(batch, *shape).astype(np.float64) for k, shape in shapes.items()}
        for name, array in flat.items():
            right, expected = np.isfinite(array), "finite numbers"
            if name == "active":
                right, expected = (array == 0.0) | (array == 1.0), "1 for a contact that touches the ground, else 0"
            elif name == "friction":
                right, expected = right & (array >= 0.0), "finite coefficients, 0 or more"
            if not right.all():
                at = np.argwhere(~right)[0].tolist()
                raise ArgumentError(
                    f"{name} is {array[tuple(at)]} in problem {at[0]}; expected {expected}", code="DG-DEVICE-076"
                )
        check_unit_vectors("q", [(part.start, part.stop) for part in self.robot.quaternions()], flat["q"])
        if "normal" in flat:
            size = np.linalg.norm(flat["normal"], axis=2, keepdims=True)
            if (np.abs(size - 1.0) > 1e-5).any():
                at = np.argwhere(np.abs(size - 1.0) > 1e-5)[0].tolist()
                raise ArgumentError(
                    f"normal has length {size[tuple(at)]:g} in problem {at[0]}; expected 1", code="DG-DEVICE-077"
                )
            flat["normal"] = flat["normal"] / size
        return flat, leading

    def iterates(self, problems: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of the loop, (batch, ...) by name.

        Args:
            problems: Inputs of a call, (batch, *shape) by name.
        """
        batch = len(problems["q"])
        inputs = {**self._fixed, **{name: of_type(x, self.dtype) for name, x in problems.items()}}
        outputs = self.new_outputs(batch)
        self.bound(inputs, outputs, batch)()
        return outputs

    def _solved(self, problems: Mapping[str, Array]) -> dict[str, Array]:
        """Return the fields of the solution, (batch, ...)."""
        outputs, batch = self.iterates(problems), len(problems["q"])
        none = np.zeros((batch, 0, 3))
        slip = outputs.get("slip", none)
        return {
            "tau": outputs["tau"],
            "qdd": outputs["qdd_found"],
            "force": outputs.get("force", none),
            "slip": slip,
            "kept": (np.linalg.norm(slip, axis=2) <= self.tolerance).all(axis=1),
            "converged": (outputs["gap"] <= CLOSED) & (outputs["slope_left"] <= LEVEL),
        }


def _contacts(contacts: Sequence[str]) -> tuple[str, ...]:
    """Return the names of contacts. Raise ArgumentError if two are equal."""
    names = names_of("contacts", contacts)
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"contact '{name}' is there twice; expected different frames", code="DG-DEVICE-078")
    return names


def _of_contacts(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    """Return an input of contacts, of this shape for one problem; one value for all contacts is repeated."""
    array = real(name, value)
    return np.broadcast_to(array, shape) if array.shape == shape[1:] else array


def _checked(robot: Robot, contacts: Sequence[str]) -> Robot:
    """Return the robot. Raise ArgumentError if it has constraints or variable parameters, RobotError if it has no such
    frame.
    """
    if robot.constraints:
        raise ArgumentError(
            f"whole_body_torque of {robot.name} with constraints ({robot.constraints[0].text}); expected a robot "
            "without, and names of frames in contacts=",
            code="DG-DEVICE-079",
        )
    if robot.variable:
        raise ArgumentError(
            f"whole_body_torque of {robot.name} with variable parameters; expected a robot without them",
            code="DG-DEVICE-080",
        )
    for name in contacts:
        robot.frame(name)
    return robot


def _limits(robot: Robot, bounds: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the lowest and highest torques (nv,), 0 for degrees of freedom without a motor."""
    limits = bounds_of(robot, bounds)
    low, high = (np.full(robot.nv, -np.inf), np.full(robot.nv, np.inf)) if limits is None else limits
    low[robot.undriven] = high[robot.undriven] = 0.0
    return tuple(low.tolist()), tuple(high.tolist())
