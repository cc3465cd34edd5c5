"""What solvers of optimal control have in common: a robot's problem, its options, and what their calls take."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import LARGEST, is_whole, of_shape, real, shown, spread
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.base.nearest import nearest
from dynagate.base.progress import showing
from dynagate.control.cost import Cost, Input
from dynagate.dynamics import ROLLOUT
from dynagate.graph import Graph, trace
from dynagate.graph.evaluate import check_unit_vectors, evaluate
from dynagate.graph.loop import Loop
from dynagate.host.devices import DeviceOptions
from dynagate.host.devices.registry import chosen_device
from dynagate.host.links import DeviceError, Transfer
from dynagate.host.opened import Opened
from dynagate.integrators.explicit_method import step_inputs
from dynagate.integrators.limits import LimitWatch
from dynagate.integrators.step import StepOptions
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of

Array = npt.NDArray[Any]


@explained
class Solver(Opened):
    """A solver on a device that computes loops.

    robot: also the path of a URDF file, or the name of a robot that ships. knots: how many torques. step: from each to
    the next. cost: `dynagate.control.Cost`. bounds: of torques.
    Raises ValueError or TypeError naming an option that is not right.
    """

    results: type[Any]

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
        step: StepOptions,
    ) -> None:
        if step.dt is None:
            raise ArgumentError(f"dt=None of {function}; expected the seconds of a knot")
        if not isinstance(cost, Cost):
            raise ArgumentTypeError(f"cost is {type(cost).__name__}; expected a dynagate.control.Cost")
        self._chosen = chosen_device(device, ROLLOUT, options)
        if self._chosen.keeps_states:
            raise ArgumentError(f"device '{self._chosen.name}' of {function}; expected 'cpu', 'cuda' or 'numpy'")
        self.robot, self.device, self.knots = robot_of(robot), self._chosen.name, int(knots)
        self.step = step
        self.bounds = bounds_of(self.robot, bounds)
        self.limits = LimitWatch(self.robot, False, step.forces)
        self.inputs: dict[str, Input] = cost.inputs_of(self.robot)
        self.step_inputs = step_inputs(self.robot, self.step)
        self.function, self.functions, self._closed = function, {}, False

    def compile(self, loop: Callable[[], Loop]) -> None:
        """Traces a loop, and compiles it for the device."""
        with showing() as say:
            if say:
                say(f"tracing {self.robot.name} {self.function}")
            self.loop = loop()
            if say:
                say(f"compiling {self.robot.name} {self.function} for {self.device}")
            self._compute = self._chosen.of_loop(self.loop, None)
        self.dtype = self._compute.dtype

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.robot.name}, {self.knots} knots of {self.step.dt:g} s, on {self.device}>"

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(each.name for each in fields(self.results))

    @property
    def transfer(self) -> Transfer:
        return Transfer(0, 0.0)

    @abstractmethod
    def __call__(self, *args: Any, **options: Any) -> Any: ...

    def bind(self, *args: Any, **options: Any) -> Callable[[], Any]:
        """A call on the same arrays again and again, as `Opened.bind` says. args, options: as of a call."""
        solution = self(*args, **options)

        def run() -> Any:
            again = self(*args, **options)
            for each in fields(self.results):
                getattr(solution, each.name)[...] = getattr(again, each.name)
            return solution

        return run

    def close(self) -> None:
        """Gives back what the device holds. Calls raise DeviceError afterwards."""
        self._closed = True
        self._compute.close()

    def check_open(self) -> None:
        """Raises DeviceError: it is closed."""
        if self._closed:
            raise DeviceError(f"{self!r} is closed; open it again")

    def computed(self, arrays: Mapping[str, Array], batch: int) -> dict[str, Array]:
        """The outputs of the loop, (batch, ...)."""
        outputs = {port.name: np.empty((batch, *port.shape), self.dtype) for port in self.loop.outputs}
        if batch:
            with np.errstate(all="ignore"):
                self._compute({port.name: arrays[port.name] for port in self.loop.inputs}, outputs)
        return outputs

    def start(self, q0: npt.ArrayLike, qd0: npt.ArrayLike) -> tuple[dict[str, Array], tuple[int, ...]]:
        """q0 (batch, nq), qd0 (batch, nv), and the axes that they had. Raises ValueError or TypeError: they have
        another shape, or are not finite in any problem. Gives a RobotWarning, once, where a start is beyond the limits
        of joints."""
        robot = self.robot
        leading = real("q0", q0).shape[:-1]
        start = {
            "q0": of_shape("q0", q0, (*leading, robot.nq), self.dtype, finite=not leading),
            "qd0": of_shape("qd0", qd0, (*leading, robot.nv), self.dtype, finite=not leading),
        }
        arrays = {name: x.reshape(-1, x.shape[-1]) for name, x in start.items()}
        finite = np.isfinite(arrays["q0"].sum(axis=1))
        if finite.size and not finite.any():
            raise ArgumentError("q0 is not finite in any problem")
        units = [(part.start, part.stop) for part in robot.quaternions()]
        check_unit_vectors("q0", units, arrays["q0"][finite])
        self.limits.look_at_starts(arrays["q0"])
        return arrays, leading

    @cached_property
    def _inverse(self) -> Graph:
        return trace(self.robot, "inverse_dynamics")

    def holding(self, q: Array) -> Array:
        """The torques (batch, knots, nv) that hold a robot at rest, within the bounds."""
        zero = np.zeros((len(q), self.robot.nv))
        with np.errstate(all="ignore"):
            still = {"q": q.astype(np.float64), "qd": zero, "qdd": zero}
            torque = np.nan_to_num(evaluate(self._inverse, still)["tau"])
        if self.bounds is not None:
            torque = np.clip(torque, *self.bounds)
        return np.repeat(torque[:, None].astype(self.dtype), self.knots, axis=1)

    def inputs_by_name(self, inputs: Mapping[str, npt.ArrayLike], leading: tuple[int, ...]) -> dict[str, Array]:
        """Inputs of the cost, of forces and of constraints."""
        defaults: dict[str, tuple[tuple[int, ...], Any]] = {
            name: ((self.knots + 1, *known.shape) if known.each else known.shape, known.default)
            for name, known in self.inputs.items()
        }
        for name in self.step_inputs:
            size = len(self.robot.constraints) if name == "active" else self.robot.nv
            defaults[name] = ((self.knots, size), 1.0 if name == "active" else 0.0)
        for name in inputs:
            if name not in defaults:
                expected = ", ".join(defaults) or "none"
                raise ArgumentError(
                    f"{self.function} has no input '{name}'{nearest(name, defaults)}; expected {expected}"
                )
        arrays = {}
        for name, (shape, default) in defaults.items():
            value = inputs.get(name, default)
            if value is None:
                raise ArgumentError(f"input '{name}' is missing; expected shape (..., {', '.join(map(str, shape))})")
            arrays[name] = spread(name, value, leading, shape, self.dtype, shared=True)
        for name, known in self.inputs.items():
            if known.each:
                arrays[name], arrays[known.at(name, True)] = arrays[name][:, :-1], arrays[name][:, -1]
        return arrays


def check_counts(**counts: object) -> None:
    """Raises ValueError: one is no whole number from 1 to LARGEST."""
    for name, value in counts.items():
        if not is_whole(value) or not 1 <= value <= LARGEST:
            raise ArgumentError(f"{name}={shown(value)}; expected a whole number, 1 or more")


def bounds_of(robot: Robot, bounds: Any) -> tuple[Array, Array] | None:
    """Lowest and highest torques (nv,) each, 0 of joints that nothing drives; None where none has one.

    Raises ValueError: they have another shape or order."""
    n = robot.nv
    if bounds is None:
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
    elif bounds is True:
        high = np.array(robot.effort, dtype=float)
        low = -high
    elif isinstance(bounds, tuple) and len(bounds) == 2:
        low, high = (np.broadcast_to(real("bounds", x).astype(float), (n,)) for x in bounds)
    else:
        array = real("bounds", bounds).astype(float)
        if array.shape not in ((), (n,)):
            raise ArgumentError(f"bounds have shape {array.shape}; expected one torque, ({n},), or a pair of them")
        high = np.broadcast_to(array, (n,))
        low = -high
    if not (low <= high).all():
        raise ArgumentError(f"bounds of {low.tolist()} to {high.tolist()}; expected lowest and highest torques")
    low, high = np.array(low), np.array(high)
    low[robot.undriven] = high[robot.undriven] = 0.0
    if (low == high).all():
        raise ArgumentError(f"bounds={shown(bounds)} leave no torque to choose; expected room at one joint or more")
    return None if np.isinf(low).all() and np.isinf(high).all() else (low, high)
