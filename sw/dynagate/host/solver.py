"""The part that optimal control solvers share: a robot's problem, its options, and the inputs of a call."""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import (
    Accepted,
    all_finite,
    check_count,
    check_unit_vectors,
    missing_inputs,
    of_type,
    one_or_several,
    real,
    shown,
    spread,
)
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.explained import PUBLIC_NAMES, explained
from dynagate.base.foreign_names import CALLED, answering
from dynagate.base.nearest import nearest
from dynagate.base.upper_limits import MAX_ITERATIONS, MAX_KNOTS, MAX_SAMPLES
from dynagate.control.cost import DT, Cost, Input
from dynagate.control.forward import holding_loop
from dynagate.control.knot_step import KnotStep
from dynagate.graph.single_precision import check_step_form
from dynagate.host.bound import ShapeCache
from dynagate.host.compiling import check_robot
from dynagate.host.devices import DeviceOptions
from dynagate.host.devices.integer_loop import IntegerLoop
from dynagate.host.devices.loops import LoopExecutor
from dynagate.host.inputs import check_values, own_parameters, parameter_ports
from dynagate.host.joint_limits import joint_bounds_of
from dynagate.host.loop_solver import LoopSolver
from dynagate.host.problems import SHAPES, ProblemInput, Problems, Values
from dynagate.host.starts import broadcast_starts
from dynagate.integrators.feedback import largest_of
from dynagate.integrators.limits import LimitWatch
from dynagate.integrators.motion_options import MotionOptions
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of
from dynagate.robot.variable import check_inputs

SolverT = TypeVar("SolverT", bound="Solver")


@explained
class Solver(LoopSolver):
    """Base class of solvers with torques at the knots of a horizon.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        knots: Number of torques of the horizon.
        step: Options of the step from a knot to the next.
        cost: The cost of a motion, `dynagate.control.Cost`.
        bounds: Bounds of torques, as of `dynagate.ilqr`.
        joint_bounds: Bounds of positions and speeds, as of `dynagate.ilqr`.

    Raises:
        ArgumentError, ArgumentTypeError: An option is not right. The message names it.
    """

    def __init__(
        self,
        function: str,
        robot: RobotOrName,
        cost: Cost,
        device: str | DeviceOptions,
        options: Mapping[str, Any],
        *,
        knots: int,
        bounds: Any,
        joint_bounds: Any,
        step: MotionOptions,
    ) -> None:
        if not isinstance(cost, Cost):
            raise ArgumentTypeError(
                f"cost is {type(cost).__name__}; expected a dynagate.control.Cost, such as "
                "dynagate.control.Cost.quadratic(q=10.0, qd=0.1, tau=1e-3)",
                code="DG-SOLVER-052",
            )
        check_robot(robot)
        self.choose(function, device, options)
        self.robot, self.knots = robot_of(robot), int(knots)
        self.step = step
        check_step_form(self.robot, step.form, self._chosen.loop_dtype)
        self.bounds = bounds_of(self.robot, bounds)
        self.joints = joint_bounds_of(self.robot, joint_bounds)
        self.limits = LimitWatch(self.robot, step.forces, kept=self.joints is not None)
        self.inputs: dict[str, Input] = cost.inputs_of(self.robot)
        self.knot_step = KnotStep(self.robot, step)
        if step.feedback:
            largest_of(self.robot, step.feedback)
        self.step_inputs = self.knot_step.inputs
        self.parameters = parameter_ports(self.robot)
        self.states = self.knot_step.states
        check_inputs(self.robot, (*_parameters(type(self)), *self.inputs, *self.step_inputs, *self.states))
        for name in (*self.step_inputs, *self.states):
            if name in self.inputs:
                raise ArgumentError(
                    f"the cost and the steps both take an input '{name}'; expected different names: give the force a "
                    f"constant, such as Servo(..., target=(...)), or write a Cost with inputs={{'goal_{name}': ...}}",
                    code="DG-SOLVER-053",
                )
        for name in _parameters(type(self)):
            if name in self.inputs:
                raise ArgumentError(
                    f"the cost has an input '{name}', which a call of {function} takes already; expected another name",
                    code="DG-SOLVER-054",
                )
        self._kept: ShapeCache[Problems] = ShapeCache(SHAPES)

    def __repr__(self) -> str:
        dt = "dt of each call" if self.step.dt is None else f"dt={self.step.dt:g}"
        step = f"knots={self.knots}, {dt}, integrator={self.step.chosen_method.name!r}"
        return f"<{PUBLIC_NAMES[type(self).__name__]}({self.robot.name}, {step}, device={self.device!r})>"

    def close(self) -> None:
        """Release what the device holds. Later calls raise DeviceError."""
        super().close()
        self._kept.clear()
        if (holding := self.__dict__.get("_holding")) is not None:
            holding.close()

    def in_fixed_point(self: SolverT, compute: IntegerLoop) -> SolverT:
        solver = super().in_fixed_point(compute)
        solver._kept = ShapeCache(SHAPES)
        return solver

    @property
    @abstractmethod
    def own_asked(self) -> dict[str, ProblemInput]:
        """Return the inputs of each problem besides `of_call`. The start of a problem may be further inputs of the
        loop.
        """

    @property
    @abstractmethod
    def fixed(self) -> dict[str, Array]:
        """Inputs of the loop that all problems have alike, (1, ...)."""

    @cached_property
    def of_call(self) -> dict[str, ProblemInput]:
        """The inputs of costs, of forces and of constraints, by their names in the loop."""
        asked: dict[str, ProblemInput] = {}
        for name, known in self.inputs.items():
            default, key = None if known.default is None else np.asarray(known.default), known.at(name, False)
            if known.each:
                parts = {key: (slice(None), slice(-1)), known.at(name, True): (slice(None), -1)}
                asked[key] = ProblemInput((self.knots + 1, *known.shape), default, parts)
            else:
                asked[key] = ProblemInput(known.shape, default, {key: ...})
        for name, shape in self.step_inputs.items():
            default = np.array(1.0) if name == "active" else None
            asked[name] = ProblemInput((self.knots, *shape), default, {name: ...})
        for name, size in self.states.values():
            asked[name] = ProblemInput((size,), np.array(0.0), {name: ...})
        if self.step.dt is None:
            asked[DT] = loop_input(DT, ())
        return asked

    @cached_property
    def asked(self) -> dict[str, ProblemInput]:
        """All that each problem gives."""
        start = {"q0": loop_input("q0", (self.robot.nq,)), "qd0": loop_input("qd0", (self.robot.nv,))}
        parameters = {name: loop_input(name, port.shape) for name, port in self.parameters.items()}
        own = self.own_asked
        if taken := [name for name in parameters if name in own or name in self.fixed]:
            check_inputs(self.robot, taken)
        return {**start, **parameters, **own, **self.of_call}

    @cached_property
    def begun_knots(self) -> dict[str, Array]:
        """Return the values of a step that the first knot begins with, (1, ...), such as impulses of contacts."""
        of_calls, begin = {name for name, _ in self.states.values()}, self.knot_step.begin
        return {name: np.asarray(value, self.dtype)[None] for name, value in begin.items() if name not in of_calls}

    def begun(self, q0: npt.ArrayLike, qd0: npt.ArrayLike, inputs: Mapping[str, npt.ArrayLike]) -> Problems:
        """Return problems with these start states. No other call uses them until they are passed to `keep`.

        Args:
            q0: Start positions (..., nq), rad, m and unit quaternions.
            qd0: Start velocities (..., nv), rad/s or m/s.
            inputs: Inputs of the call by name, with the robot's variable parameters (..., *shape).

        Returns:
            The problems.

        Raises:
            ArgumentError, ArgumentTypeError: A start state has another shape or type.
        """
        shapes: dict[str, tuple[int, ...]] = {"q0": (self.robot.nq,), "qd0": (self.robot.nv,)}
        shapes |= {name: port.shape for name, port in self.parameters.items()}
        values = own_parameters(self.parameters, inputs)
        q0, qd0, *others = broadcast_starts(shapes, {"q0": q0, "qd0": qd0, **values})
        leading = np.shape(q0)[:-1]
        problems = self._kept.take(leading)
        if problems is None:
            problems = Problems(self, leading)
        problems.begin({"q0": q0, "qd0": qd0})
        for (name, port), value in zip(self.parameters.items(), others, strict=True):
            array = spread(name, value, leading, port.shape, self.dtype)
            check_values(port, array, leading)
            problems.fill(name, array)
        return problems

    def put(self, problems: Problems, values: Values) -> None:
        """Write the inputs other than start states. Warns once (RobotWarning) if a start is outside the limits of the
        joints.

        Args:
            problems: The problems.
            values: Inputs by name.

        Raises:
            ArgumentError, ArgumentTypeError: As `Problems.put` raises them, or the start of a single problem is not
                finite.
        """
        q = known = problems.arrays["q0"]
        if not problems.put(values):
            for name in ("q0", "qd0"):
                if not problems.leading and not all_finite(problems.arrays[name]):
                    raise ArgumentError(f"{name} is not finite", code="DG-SOLVER-055")
            known = q[np.isfinite(q).all(axis=1)]
        if self._units:
            check_unit_vectors("q0", self._units, known)
        self.limits.look_at_starts(q)

    def keep(self, problems: Problems) -> None:
        """Keep the arrays of problems for a later call, if they are small.

        Args:
            problems: The problems.
        """
        if problems.few and not self._closed:
            self._kept.put(problems.leading, problems)

    @cached_property
    def _units(self) -> list[tuple[int, int]]:
        return [(part.start, part.stop) for part in self.robot.quaternions()]

    @cached_property
    def _holding(self) -> LoopExecutor:
        return self.opened(holding_loop(self.robot))

    def held(self, q: Array, parameters: Mapping[str, Array] | None = None) -> Array:
        """Return the torques that hold a robot at rest, within the bounds; 0 for a robot whose torques are not finite.

        Args:
            q: Positions (batch, nq), rad, m and unit quaternions.
            parameters: The robot's variable parameters (batch, *shape).

        Returns:
            Torques (batch, nv), N m or N.
        """
        torque = np.empty((len(q), self.robot.nv), self._holding.dtype)
        if len(q):
            values = {"q0": q, **(parameters or {})}
            inputs = {port.name: of_type(values[port.name], torque.dtype) for port in self._holding.loop.inputs}
            self._holding(inputs, {"tau": torque})
        if not all_finite(torque):
            torque[~np.isfinite(torque)] = 0.0
        return torque if self.bounds is None else np.clip(torque, *self.bounds)

    def holding(self, q: Array) -> Array:
        """Return the torques that hold a robot at rest at all knots, within the bounds.

        Args:
            q: Positions (batch, nq), rad, m and unit quaternions.

        Returns:
            Torques (batch, knots, nv), N m or N.
        """
        return np.repeat(self.held(q)[:, None].astype(self.dtype), self.knots, axis=1)

    def guess(self, tau: npt.ArrayLike | None, problems: Problems) -> npt.ArrayLike:
        """Return the first guess of the torques.

        Args:
            tau: Guess of a call; None for the torques that hold each robot.
            problems: The problems.

        Returns:
            The guess, or torques (*leading, 1, nv), N m or N.
        """
        if tau is not None:
            return tau
        held = self.held(problems.arrays["q0"], problems.arrays)
        return held.reshape(*problems.leading, 1, self.robot.nv)

    def inputs_by_name(self, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, tuple[str, Any]]:
        """Return inputs of the cost, of forces and of constraints.

        Args:
            inputs: Inputs of a call by name.

        Returns:
            For each input of the problems its name for errors, and its value.

        Raises:
            ArgumentError, ArgumentTypeError: An input is unknown, or missing.
        """
        keys = {name: known.at(name, False) for name, known in self.inputs.items()}
        keys |= {name: name for name in self.step_inputs}
        keys |= {name: key for name, (key, _) in self.states.items()}
        keys |= {DT: DT} if self.step.dt is None else {}
        for name in inputs:
            if name not in keys and name not in self.parameters:
                expected = ", ".join(keys) or "none"
                raise ArgumentError(
                    f"{self.function} has no input '{name}'{nearest(name, keys)}; expected {expected}",
                    code="DG-SOLVER-056",
                )
        values = {key: (name, inputs.get(name, self.of_call[key].default)) for name, key in keys.items()}
        if self.step.dt is None and inputs.get(DT) is not None and (real(DT, inputs[DT]) <= 0.0).any():
            raise ArgumentError(f"dt={shown(inputs[DT])}; expected time steps of more than 0 s", code="DG-SOLVER-062")
        missing = {name: self.of_call[key].shape for key, (name, value) in values.items() if value is None}
        if missing:
            shapes = {name: f"(..., {', '.join(map(str, shape))})" for name, shape in missing.items()}
            raise ArgumentError(missing_inputs(shapes), code="DG-SOLVER-057")
        return values


def _parameters(solver: type[Solver]) -> list[str]:
    """Return the names of the arguments of a solver's calls, besides inputs of the cost."""
    calls = (getattr(solver, name) for name in ("__call__", "on_integers") if hasattr(solver, name))
    arguments = (each for call in calls for each in inspect.signature(call).parameters.values())
    return [each.name for each in arguments if each.kind is not inspect.Parameter.VAR_KEYWORD]


def loop_input(name: str, shape: tuple[int, ...]) -> ProblemInput:
    """Return an input of problems that is one input of the loop, with the same name.

    Args:
        name: Name of the input.
        shape: Shape for one problem.

    Returns:
        The input.
    """
    return ProblemInput(shape, None, {name: ...})


MAX_COUNTS = {"knots": MAX_KNOTS, "nodes": MAX_KNOTS, "samples": MAX_SAMPLES, "iterations": MAX_ITERATIONS}


def check_counts(**counts: object) -> None:
    """Check numbers of knots, iterations and the like.

    Args:
        counts: Numbers by name.

    Raises:
        ArgumentError: One is not a whole number from 1 to its largest value.
    """
    for name, value in counts.items():
        check_count(name, value, MAX_COUNTS[name])


answering(Solver, dict.fromkeys(CALLED, "solver(q0, qd0, ...): a solver is called"))
TORQUES = Accepted("torques, infinite for none", "torques, infinite for none", -math.inf, math.inf)


def bounds_of(robot: Robot, bounds: Any) -> tuple[Array, Array] | None:
    """Return bounds of torques from the argument of a solver. They are 0 for joints that have no motor.

    Args:
        robot: The robot.
        bounds: As of `dynagate.ilqr`, N m or N.

    Returns:
        Lowest and highest torques (nv,); None if no joint has any.

    Raises:
        ArgumentError: They have another shape or order.
    """
    n = robot.nv
    if bounds is None:
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
    elif bounds is True:
        high = np.array(robot.effort, dtype=float)
        low = -high
    elif isinstance(bounds, tuple) and len(bounds) == 2:
        low, high = (np.broadcast_to(one_or_several("bounds=", x, (n,), TORQUES), (n,)) for x in bounds)
    else:
        high = np.broadcast_to(one_or_several("bounds=", bounds, (n,), TORQUES), (n,))
        low = -high
    if not ((low <= high) & (low < np.inf) & (high > -np.inf)).all():
        raise ArgumentError(
            f"bounds of {low.tolist()} to {high.tolist()}; expected lowest and highest torques", code="DG-SOLVER-058"
        )
    low, high = np.array(low), np.array(high)
    low[robot.undriven] = high[robot.undriven] = 0.0
    if (low == high).all():
        raise ArgumentError(
            f"bounds={shown(bounds)} leave no torque to choose; expected room at one joint or more",
            code="DG-SOLVER-059",
        )
    return None if np.isinf(low).all() and np.isinf(high).all() else (low, high)
