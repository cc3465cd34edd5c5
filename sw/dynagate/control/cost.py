"""Costs of a motion: functions of a state, torques and inputs of each call, over any scalar, and their derivatives.

A cost given by residuals r is ½ rᵀ r. Its second derivative is Jᵀ J (Gauss-Newton), which is never indefinite. The
second derivative of a cost given as one number is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.arguments import AT_LEAST_ZERO, check_texts, is_number, number, one_or_each
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.base.naming import scope
from dynagate.control.bounded_values import BoundedValues, MotionBounds
from dynagate.control.joint_bounds import WEIGHT
from dynagate.dynamics import tree_of
from dynagate.dynamics.configuration import directions_of
from dynagate.dynamics.spatial import array, select
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import Derivative, output_values
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.robot import Robot, RobotError

Weight = float | Sequence[float] | Array

SCOPE = "cost"
"""Prefix of the inputs of a cost in loops of solvers."""
OWN = ("q", "qd", "tau")
"""Inputs that every cost has."""
DT = "dt"
"""The input with the seconds of a knot, if a call passes them."""


NQ, NV = -1, -2
"""Placeholders in a shape: the robot's number of configuration entries, and of degrees of freedom."""


class Input(NamedTuple):
    """An input of a cost, which each call of a solver passes by name.

    Args:
        shape: Shape of the value for one problem.
        default: Value if a call leaves the input out; None if calls must pass it.
        configuration: Whether the value is a configuration.
        each: Whether each knot and the last state have their own value, (knots + 1, *shape).
    """

    shape: tuple[int, ...]
    default: Any = None
    configuration: bool = False
    each: bool = False

    def at(self, name: str, last: bool) -> str:
        """Return the name of the input in loops of solvers, at the last state or at others.

        The name has a prefix, so no value of a solver has it: a name that a user chose has no dot.
        """
        return f"{SCOPE}.last.{name}" if last and self.each else f"{SCOPE}.{name}"


class Knot:
    """A knot of a motion, which a cost is a function of.

    `knot["name"]` is the input of the call with this name.

    Attributes:
        q: Configuration (nq,).
        qd: Velocity (nv,).
        tau: Torque (nv,); zeros at the last knot.
        last: Whether it is the last knot, which has no torques.
    """

    def __init__(self, robot: Robot, recording: Recording, values: Mapping[str, Array], last: bool) -> None:
        self.robot, self._recording, self._values, self.last = robot, recording, values, last
        self.q, self.qd = values["q"], values["qd"]
        self.tau = values.get("tau", np.zeros(robot.nv).astype(object))

    def __getitem__(self, name: str) -> Array:
        """Return an input of the call. Raise ArgumentError if the cost has no input with this name."""
        if name not in self._values or name in OWN:
            known = ", ".join(each for each in self._values if each not in OWN) or "none"
            raise ArgumentError(
                f"the cost reads the input '{name}'; it has {known}: name it in inputs=", code="DG-SOLVER-015"
            )
        return self._values[name]

    def away(self, q: Array) -> Array:
        """Return the velocity (nv,) that leads from q (nq,) to the knot's configuration in one second, in rad or m.

        For a quaternion it is 2 sin of half the angle between both, along the axis.
        """
        return directions_of(self.robot, q, self.q - q)

    def position(self, frame: str) -> Array:
        """Return the origin (3,) of a frame in base axes, in m. Raise RobotError if the robot has no such frame."""
        return self._of_frame(f"frame_pose_{frame}", "frame_position", {"q": self.q})

    def rotation(self, frame: str) -> Array:
        """Return the axes (3, 3) of a frame in base axes."""
        return self._of_frame(f"frame_pose_{frame}", "frame_rotation", {"q": self.q})

    def velocity(self, frame: str) -> Array:
        """Return the [angular; linear] velocity (6,) of a frame's origin in base axes, in rad/s and m/s."""
        return self._of_frame(f"frame_velocity_{frame}", "frame_velocity", {"q": self.q, "qd": self.qd})

    def constraint_force(self, active: Array | None = None) -> Array:
        """Return the forces (rows,) of the robot's constraints, in N or N m, base axes for contacts.

        They follow from the state and the torques, as in `constrained_forward_dynamics`. The last knot has no torques.

        Args:
            active: 1 for each constraint that holds, else 0; all of them unless given.

        Raises:
            ArgumentError: The robot has no constraints, or the knot is the last one.
        """
        if not self.robot.constraints or self.last:
            why = "the last state, which has no torques" if self.robot.constraints else "a robot without constraints"
            raise ArgumentError(
                f"constraint_force of {why}; expected a robot.with_contact(frame), and a constraint at='knots'",
                code="DG-SOLVER-065",
            )
        held = np.ones(len(self.robot.constraints)).astype(object) if active is None else active
        inputs = {"q": self.q, "qd": self.qd, "tau": self.tau, "active": held}
        return self._of_frame("constrained_forward_dynamics", "force", inputs)

    def _of_frame(self, function: str, output: str, inputs: Mapping[str, Array]) -> Array:
        graph = trace(self.robot, function, outputs=[output])
        values = self._recording.replay(graph, {**inputs, **recorded_parameters(self._recording, graph)})
        return output_values(graph.outputs, values)[output]


def recorded_parameters(recording: Recording, graph: Graph) -> dict[str, Array]:
    """Return the robot's variable parameters that a graph depends on, as inputs of a recording."""
    ports = [port for port in graph.inputs if port.parameter]
    known = recording.inputs
    return {each.name: known[each.name] if each.name in known else recording.input_like(each) for each in ports}


Term = Callable[[Knot], Any]


@explained
@dataclass(frozen=True)
class Cost:
    """The cost of a motion: the integral of a running cost over its knots, and a final cost.

    Args:
        running: Function of a `Knot`, per second, or None. It returns residuals r (m,), which cost ½ rᵀ r, or the cost
            as a number.
        final: Function of the last `Knot`, which has no torques, or None.
        inputs: Shape or `Input` of each value that calls pass, by name.

    Raises:
        ArgumentTypeError: A term is no function.
        ArgumentError: There is no term, or an input has the name of a state or of torques, or no shape.

    Example:
        >>> cost = dynagate.control.Cost(lambda knot: [0.1 * rate for rate in knot.qd], inputs={"place": (3,)})
    """

    running: Term | None
    final: Term | None = None
    inputs: Mapping[str, tuple[int, ...] | Input] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, term in (("running", self.running), ("final", self.final)):
            if term is not None and not callable(term):
                raise ArgumentTypeError(
                    f"{name} is {type(term).__name__}; expected a function of a knot, or None", code="DG-SOLVER-016"
                )
        if self.running is None and self.final is None:
            raise ArgumentError("a cost without running and final; expected one of them", code="DG-SOLVER-017")
        check_inputs("cost", self.inputs)

    @classmethod
    def quadratic(
        cls,
        *,
        q: Weight = 0.0,
        qd: Weight = 0.0,
        tau: Weight = 0.0,
        frame: str | None = None,
        place: Weight = 0.0,
        final: float = 1.0,
        each: bool = False,
    ) -> Cost:
        """Return the cost ½ Σ w e² of the distance to values that a call names.

        The running cost counts per second. The last state has its weights times `final`.

        Args:
            q: Weights of q ⊖ goal, 1/rad² or 1/m², one or (nv,). A call passes `goal` (nq,).
            qd: Weights of speeds, one or (nv,).
            tau: Weights of tau - hold, one or (nv,). A call may pass `hold` (nv,), 0 unless given.
            frame: Name of the frame that `place` weighs.
            place: Weights of the distance of the frame's origin to `target`, 1/m², one or (3,). A call passes `target`
                (3,).
            final: Factor of the weights of the last state.
            each: Whether a call passes `goal`, `hold` and `target` for each knot and the last state, (knots + 1, ...).

        Raises:
            ArgumentError: A weight is negative or no number, no weight is positive, or the frame is missing.
        """
        terms = {name: _weights(name, value) for name, value in (("q", q), ("qd", qd), ("tau", tau), ("place", place))}
        if not any(np.any(value) for value in terms.values()):
            raise ArgumentError(
                "a quadratic cost without weights; expected a positive one of q, qd, tau or place", code="DG-SOLVER-018"
            )
        if frame is not None:
            check_texts(frame=frame)
        if (frame is None) == bool(np.any(terms["place"])):
            raise ArgumentError(
                f"frame={frame!r} with place={place!r}; expected a frame's name and weights of its place",
                code="DG-SOLVER-019",
            )
        final = number("final=", final, AT_LEAST_ZERO.called("a factor, 0 or more, of the last state's weights"))
        if not isinstance(each, bool):
            raise ArgumentTypeError(f"each={each!r}; expected True or False", code="DG-SOLVER-020")
        return _Quadratic(terms, frame, final, each).cost()

    def inputs_of(self, robot: Robot) -> dict[str, Input]:
        """Return the inputs by name, with their shapes for a robot."""
        return {name: _sized(_input(each), robot) for name, each in self.inputs.items()}


def check_inputs(what: str, inputs: Mapping[str, tuple[int, ...] | Input]) -> None:
    """Raise ArgumentError if an input of a cost or constraint has the name of a state or of torques, or no shape."""
    for name, each in inputs.items():
        if not name.isidentifier() or name in OWN or name.startswith("_"):
            raise ArgumentError(
                f"the {what} has an input '{name}'; expected a name other than {', '.join(OWN)}", code="DG-SOLVER-021"
            )
        if not all(isinstance(size, int) and (size > 0 or size in (NQ, NV)) for size in _input(each).shape):
            raise ArgumentError(
                f"input '{name}' of the {what} has shape {_input(each).shape}; expected sizes", code="DG-SOLVER-022"
            )


def _input(each: tuple[int, ...] | Input) -> Input:
    return each if isinstance(each, Input) else Input(tuple(each))


def _sized(each: Input, robot: Robot) -> Input:
    return each._replace(shape=tuple({NQ: robot.nq, NV: robot.nv}.get(size, size) for size in each.shape))


def _weights(name: str, value: Any) -> Array:
    return np.array(one_or_each(f"{name}=", value, WEIGHTS))


WEIGHTS = AT_LEAST_ZERO.called("a weight of 0 or more, or one for each entry")


@dataclass(frozen=True)
class _Quadratic:
    """Residuals by weights."""

    weights: Mapping[str, Array]
    frame: str | None
    last: float
    each: bool

    def cost(self) -> Cost:
        inputs: dict[str, tuple[int, ...] | Input] = {}
        if np.any(self.weights["q"]):
            inputs["goal"] = Input((NQ,), None, True, self.each)
        if np.any(self.weights["tau"]):
            inputs["hold"] = Input((NV,), 0.0, False, self.each)
        if self.frame is not None:
            inputs["target"] = Input((3,), None, False, self.each)
        return Cost(self.residuals, self.residuals if self.last else None, inputs)

    def residuals(self, knot: Knot) -> Array:
        factor = self.last if knot.last else 1.0
        parts = {
            "q": (knot.robot.nv, lambda: knot.away(knot["goal"])),
            "qd": (knot.robot.nv, lambda: knot.qd),
            "tau": (knot.robot.nv, lambda: knot.tau - knot["hold"]),
            "place": (3, lambda: knot.position(self.frame or "") - knot["target"]),
        }
        residuals = []
        for name, (size, error) in parts.items():
            weights = self.weights[name]
            if weights.ndim and weights.size != size:
                raise RobotError(
                    f"{name} has {weights.size} weights; "
                    f"robot '{knot.robot.name}' has {size}: expected as many, or one",
                    code="DG-SOLVER-023",
                )
            if np.any(weights) and not (knot.last and name == "tau"):
                roots = np.sqrt(factor * np.broadcast_to(weights, (size,)))
                residuals += [x * float(w) for x, w in zip(error(), roots, strict=True) if w]
        return array(residuals)


class Expansion(NamedTuple):
    """The quadratic expansion of a cost around a knot, with respect to x = (q, q̇), along velocities, and u."""

    value: Any
    """The cost, ()."""
    by_x: Array
    """Gradient with respect to x, (2 nv,)."""
    by_u: Array
    """Gradient with respect to u, (nv,)."""
    by_xx: Array
    """Second derivative with respect to x, (2 nv, 2 nv)."""
    by_ux: Array
    """Second derivative with respect to u and x, (nv, 2 nv)."""
    by_uu: Array
    """Second derivative with respect to u, (nv, nv)."""


class CostGraphs:
    """A robot's cost as graphs.

    Args:
        robot: The robot.
        cost: The cost.
        dt: Seconds that a knot of the running cost stands for; None for the input `dt` ().
        kept: Bounds and constraints that cost where a motion violates them, or None.
    """

    def __init__(self, robot: Robot, cost: Cost, dt: float | None, kept: MotionBounds | None = None) -> None:
        self.robot, self.inputs = robot, cost.inputs_of(robot)
        self.running = self._graph("running_cost", cost.running, kept, last=False, factor=dt)
        self.final = self._graph("final_cost", cost.final, kept, last=True, factor=1.0)
        self._of_bounds = kept.of_each if kept else ()

    @property
    def each(self) -> tuple[str, ...]:
        """Inputs that each knot has of its own."""
        return (*(known.at(name, False) for name, known in self.inputs.items() if known.each), *self._of_bounds)

    def record(self, recording: Recording, last: bool) -> dict[str, Array]:
        """Add the inputs of the cost to a recording: the state, the torques, and the inputs of calls."""
        return (self.final if last else self.running).record(recording)

    def _graph(
        self, name: str, term: Term | None, kept: MotionBounds | None, *, last: bool, factor: float | None
    ) -> _Term:
        graph = knot_graph(name, self.robot, self.inputs, term, last)
        if kept and kept.of(last).count:
            return _Bounded(graph, self.robot, factor, kept.of(last))
        return _Term(graph, self.robot, factor)


def knot_graph(
    name: str, robot: Robot, inputs: Mapping[str, Input], term: Term | None, last: bool, output: str = "result"
) -> Graph:
    """Return the graph of a function of a knot.

    Args:
        name: Name of the graph.
        robot: The robot.
        inputs: Inputs of the call by name.
        term: The function; None for no residuals.
        last: Whether the knot is the last one.
        output: Name of the graph's output.
    """
    sizes = typical_sizes(tree_of(robot))
    recording = Recording(name, robot.name)
    units = tuple((part.start, part.stop) for part in robot.quaternions())
    values = {"q": recording.input("q", (robot.nq,), sizes["q"], unit_vectors=units)}
    values["qd"] = recording.input("qd", (robot.nv,), sizes["qd"])
    if not last:
        values["tau"] = recording.input("tau", (robot.nv,), sizes["tau"])
    for each, known in inputs.items():
        at = known.at(each, last)
        values[each] = recording.input(at, known.shape, unit_vectors=units if known.configuration else ())
    with scope("cost"):
        result = (
            np.array([], dtype=object) if term is None else _result(name, term(Knot(robot, recording, values, last)))
        )
    return recording.graph({output: result})


def _result(name: str, result: Any) -> Array:
    """Return a term's result as residuals (m,) or a number ()."""
    values = np.asarray(result, dtype=object)
    if values.ndim > 1 or not all(hasattr(x, "operation") or is_number(x) for x in values.flat):
        raise ArgumentTypeError(
            f"the {name.replace('_', ' ')} returned {result!r:.60}; expected residuals (m,), or a number",
            code="DG-SOLVER-024",
        )
    return values


class _Term:
    """A running or final cost.

    Attributes:
        graph: The graph of its result, residuals (m,) or a number ().
        factor: Factor of the cost; None for the input `dt`.
    """

    def __init__(self, graph: Graph, robot: Robot, factor: float | None) -> None:
        self.graph, self.robot, self.factor = graph, robot, factor
        self.is_number = graph.outputs[0].shape == ()

    def record(self, recording: Recording) -> dict[str, Array]:
        """Add the inputs of the term to a recording."""
        dt = {DT: recording.input(DT, ())} if self.factor is None else {}
        return {**{port.name: recording.input_like(port) for port in self.graph.inputs}, **dt}

    def _factor(self, values: Mapping[str, Array]) -> Any:
        """Return the factor of the cost."""
        return values[DT][()] if self.factor is None else self.factor

    def value(self, recording: Recording, values: Mapping[str, Array]) -> Any:
        """Record the cost ()."""
        (result,) = output_values(self.graph.outputs, recording.replay(self.graph, values)).values()
        return self._cost(result, self._factor(values))

    def _cost(self, result: Array, factor: Any) -> Any:
        with scope("cost"):
            if self.is_number:
                return result[()] * factor
            return sum((r * r for r in result), 0.0) * (factor * 0.5)

    def expansion(self, recording: Recording, values: Mapping[str, Array]) -> Expansion:
        """Record the cost with its derivatives."""
        return self._exact(recording, values) if self.is_number else self._gauss_newton(recording, values)

    def _gauss_newton(self, recording: Recording, values: Mapping[str, Array]) -> Expansion:
        derivative, nodes = Derivative(self.graph, self.robot), recording.replay(self.graph, values)
        residuals = output_values(self.graph.outputs, nodes)["result"]
        nv, factor = self.robot.nv, self._factor(values)
        names = [name for name in OWN if name in values]
        by_input = derivative.columns(nodes, names)
        columns = [by_input[name]["result"].reshape(len(residuals), nv) for name in names]
        by_x, by_u = (
            np.concatenate(columns[:2], axis=1),
            columns[2] if len(columns) > 2 else np.zeros((len(residuals), 0)),
        )
        with scope("cost"):
            return Expansion(
                self._cost(residuals, factor),
                (by_x.T @ residuals) * factor if len(residuals) else np.zeros(2 * nv).astype(object),
                (by_u.T @ residuals) * factor,
                _gram(by_x, by_x, factor),
                _gram(by_u, by_x, factor),
                _gram(by_u, by_u, factor),
            )

    def _exact(self, recording: Recording, values: Mapping[str, Array]) -> Expansion:
        names, nv, factor = [name for name in OWN if name in values], self.robot.nv, self._factor(values)
        gradient = self._gradient(names)
        derivative, nodes = Derivative(gradient, self.robot), recording.replay(gradient, values)
        slopes = output_values(gradient.outputs, nodes)
        rows = derivative.columns(nodes, names, [f"by_{name}" for name in names])

        def block(a: str, b: str) -> Array:
            with scope("cost"):
                return (rows[b][f"by_{a}"].reshape(nv, nv) + rows[a][f"by_{b}"].reshape(nv, nv).T) * (factor * 0.5)

        none = np.zeros((0, nv)).astype(object)
        by_xx = np.block([[block(a, b) for b in names[:2]] for a in names[:2]])
        by_ux = np.concatenate([block("tau", b) if "tau" in names else none for b in names[:2]], axis=1)
        by_uu = block("tau", "tau") if "tau" in names else np.zeros((0, 0))
        slope = {name: slopes[f"by_{name}"] * factor for name in names}
        by_x = np.concatenate([slope["q"], slope["qd"]])
        value = self._cost(slopes["result"], factor)
        return Expansion(value, by_x, slope.get("tau", np.zeros(0).astype(object)), by_xx, by_ux, by_uu)

    def _gradient(self, names: Sequence[str]) -> Graph:
        """Return the graph of the cost and its gradient."""
        recording = Recording(f"{self.graph.name}_gradient", self.robot.name)
        inputs = {port.name: recording.input_like(port) for port in self.graph.inputs}
        nodes = recording.replay(self.graph, inputs)
        slopes = Derivative(self.graph, self.robot).reverse(nodes, {"result": np.array(1.0)}, names)
        result = output_values(self.graph.outputs, nodes)["result"]
        return recording.graph({"result": result, **{f"by_{name}": slopes[name] for name in names}})


class _Bounded(_Term):
    """A cost with that of the violation of bounds and constraints."""

    def __init__(self, graph: Graph, robot: Robot, factor: float | None, bounded: BoundedValues) -> None:
        super().__init__(graph, robot, factor)
        self.bounded = bounded

    def record(self, recording: Recording) -> dict[str, Array]:
        own = {name: recording.input(name, shape) for name, shape in self.bounded.shapes.items()}
        of_cost = super().record(recording)
        of_bounds = recorded_parameters(recording, self.bounded.graph) if self.bounded.graph else {}
        return {**of_cost, **own, **of_bounds}

    def value(self, recording: Recording, values: Mapping[str, Array]) -> Any:
        with scope("bounds"):
            more = self.bounded.cost(self.bounded.shifted(recording, values), values[WEIGHT][()])
        return super().value(recording, values) + more

    def expansion(self, recording: Recording, values: Mapping[str, Array]) -> Expansion:
        cost = super().expansion(recording, values)
        by_x, by_xx = cost.by_x.astype(object), cost.by_xx.astype(object)
        with scope("bounds"):
            bounded = self.bounded
            outside, n = bounded.shifted(recording, values), bounded.of_joints
            weights = (1.0 / bounded.widths**2) * values[WEIGHT][()]
            if bounded.joints:
                for k, d, w in zip(bounded.joints.places, outside[:n], weights[:n], strict=True):
                    by_x[k] = by_x[k] + d * w
                    by_xx[k, k] = by_xx[k, k] + select(d, w, select(-d, w, 0.0))
            more = bounded.cost(outside, values[WEIGHT][()])
            cost = cost._replace(value=cost.value + more, by_x=by_x, by_xx=by_xx)
            return self._constrained(recording, values, cost, outside[n:], weights[n:]) if bounded.graph else cost

    def _constrained(
        self, recording: Recording, values: Mapping[str, Array], cost: Expansion, outside: Array, weights: Array
    ) -> Expansion:
        """Return an expansion with the terms of constraints, after Gauss and Newton."""
        slopes, equal = self.bounded.slopes(recording, values), self.bounded.low == self.bounded.high
        pushed = outside * weights
        active = array([w if e else select(d, w, 0.0) for d, w, e in zip(outside, weights, equal, strict=True)])
        x, u = slopes.by_x * active[:, None], slopes.by_u * active[:, None]
        return cost._replace(
            by_x=cost.by_x + pushed @ slopes.by_x,
            by_u=cost.by_u + pushed @ slopes.by_u,
            by_xx=cost.by_xx + _gram(x, slopes.by_x, 1.0),
            by_ux=cost.by_ux + _gram(u, slopes.by_x, 1.0),
            by_uu=cost.by_uu + _gram(u, slopes.by_u, 1.0),
        )


def _gram(a: Array, b: Array, factor: Any) -> Array:
    """Return factor · aᵀ b."""
    if not len(a):
        return np.zeros((a.shape[1], b.shape[1])).astype(object)
    return (a.T @ b) * factor
