"""iLQR of a robot: a batch of problems in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_positive, is_number, is_whole, of_shape, real
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.nearest import nearest
from dynagate.base.progress import showing
from dynagate.control.cost import Cost, Input
from dynagate.control.ilqr import IlqrOptions, begin, ilqr_loop
from dynagate.dynamics import ROLLOUT
from dynagate.dynamics.friction import SPEED
from dynagate.dynamics.step import DEFAULT_INTEGRATOR
from dynagate.forces import Force
from dynagate.forces.force import check_forces
from dynagate.graph import trace
from dynagate.graph.evaluate import check_unit_vectors, evaluate
from dynagate.graph.loop import TURNS
from dynagate.host.devices import Cpu, DeviceOptions
from dynagate.host.devices.registry import chosen_device
from dynagate.host.links import DeviceError, Transfer
from dynagate.host.opened import Opened
from dynagate.host.solution import Solution
from dynagate.integrators.explicit_method import step_inputs
from dynagate.integrators.step import StepOptions
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of

Array = npt.NDArray[Any]
ILQR = "ilqr"


class Ilqr(Opened):
    """A solver of optimal control problems of a robot, by iLQR. Call it; use it as a context.

    robot: also the path of a URDF file, or the name of a robot that ships. knots: how many torques. dt: seconds of
    each. cost: `dynagate.control.Cost`. iterations: at most. tolerance: of what a step can still gain, in the cost's
    unit. regularisation: the smallest and largest number that is added to curvatures.
    bounds: of torques, N m or N: True for the robot's effort limits, one number or (nv,) for both directions, or a pair
    of lowest and highest. The rollouts cut torques, and the gains leave those alone that are at a bound and would leave
    it. Joints that nothing drives (`Robot.with_passive`, and floating ones) have no torque.
    integrator: an explicit one; form, friction, friction_speed, forces, constrained: as of a `Rollout`.
    device: "cpu", all iterations in one call of compiled C, problems side by side in vectors; "cuda"; or "numpy".
    options: of the device, by name.

    Raises ValueError or TypeError naming an option that is not right, before any work.
    """

    def __init__(
        self,
        robot: RobotOrName,
        *,
        knots: int,
        dt: float,
        cost: Cost,
        iterations: int = 100,
        tolerance: float = 1e-9,
        regularisation: tuple[float, float] = (1e-9, 1e9),
        bounds: Any = None,
        integrator: str = DEFAULT_INTEGRATOR,
        form: str | None = None,
        friction: bool | float | tuple[float, ...] = 0.0,
        friction_speed: float = SPEED,
        forces: Sequence[Force] = (),
        constrained: bool = False,
        device: str | DeviceOptions = Cpu.name,
        **options: Any,
    ) -> None:
        _check(knots, dt, cost, iterations, tolerance, regularisation)
        chosen = chosen_device(device, ROLLOUT, options)
        if chosen.keeps_states:
            raise ArgumentError(f"device '{chosen.name}' of {ILQR}; expected 'cpu', 'cuda' or 'numpy'")
        self.robot, self.device, self.knots = robot_of(robot), chosen.name, int(knots)
        own_forces = check_forces(forces)
        step = StepOptions(dt, integrator, form, friction, friction_speed, forces=own_forces, constrained=constrained)
        step.friction_of(self.robot)
        bounded = _bounds(self.robot, bounds)
        smallest, largest = (float(x) for x in regularisation)
        self.options = IlqrOptions(int(knots), step, int(iterations), float(tolerance), smallest, largest, bounded)
        self.inputs: dict[str, Input] = cost.inputs_of(self.robot)
        self.step_inputs = step_inputs(self.robot, step)
        self.function, self.functions, self._closed = ILQR, {}, False
        with showing() as say:
            if say:
                say(f"tracing {self.robot.name} {ILQR}")
            self.loop = ilqr_loop(self.robot, cost, self.options)
            if say:
                say(f"compiling {self.robot.name} {ILQR} for {self.device}")
            self._compute = chosen.of_loop(self.loop, None)
        self.dtype = self._compute.dtype

    def __repr__(self) -> str:
        return f"<Ilqr {self.robot.name}, {self.knots} knots of {self.options.step.dt:g} s, on {self.device}>"

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(Solution.__dataclass_fields__)

    @property
    def transfer(self) -> Transfer:
        return Transfer(0, 0.0)

    def __call__(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike,
        tau: npt.ArrayLike | None = None,
        *,
        warm: Solution | None = None,
        **inputs: npt.ArrayLike,
    ) -> Solution:
        """q0 (..., nq), rad, m and unit quaternions, qd0 (..., nv), rad/s or m/s, and the guess tau (..., knots, nv),
        N m or N, or its last axes; None for torques that hold the robot where it starts.
        warm: a solution to begin with instead: its torques, and its gains about its motion.
        inputs: those of the cost, and of forces and constraints in each knot, with axes that may be left out in front.

        Raises ValueError or TypeError: an input is missing, unknown, of another shape or not finite. A problem of
        several whose start is not finite is flagged in `failed`, and harms no other.
        """
        if self._closed:
            raise DeviceError(f"{self!r} is closed; open it again")
        arrays, leading = self._checked(q0, qd0, tau, warm, inputs)
        batch = len(arrays["q0"])
        outputs = {port.name: np.empty((batch, *port.shape), self.dtype) for port in self.loop.outputs}
        if batch:
            with np.errstate(all="ignore"):
                self._compute({port.name: arrays[port.name] for port in self.loop.inputs}, outputs)
        return _solution(outputs, arrays, leading)

    def bind(self, *args: Any, **options: Any) -> Callable[[], Solution]:
        """A call on the same arrays again and again, as `Opened.bind` says. args, options: as of a call."""
        solution = self(*args, **options)

        def run() -> Solution:
            solution.write(self(*args, **options))
            return solution

        return run

    def close(self) -> None:
        """Gives back what the device holds. Calls raise DeviceError afterwards."""
        self._closed = True
        self._compute.close()

    def _checked(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike,
        tau: npt.ArrayLike | None,
        warm: Solution | None,
        inputs: Mapping[str, npt.ArrayLike],
    ) -> tuple[dict[str, Array], tuple[int, ...]]:
        """The inputs of the loop, (batch, ...), or (1, ...) for all problems, and the axes that they had."""
        robot, n, knots = self.robot, self.robot.nv, self.knots
        leading = real("q0", q0).shape[:-1]
        start = {
            "q0": of_shape("q0", q0, (*leading, robot.nq), self.dtype, finite=not leading),
            "qd0": of_shape("qd0", qd0, (*leading, n), self.dtype, finite=not leading),
        }
        if leading and not np.isfinite(start["q0"]).all(axis=-1).any():
            raise ArgumentError("q0 is not finite in any problem")
        units = [(part.start, part.stop) for part in robot.quaternions()]
        arrays = {name: x.reshape(-1, x.shape[-1]) for name, x in start.items()}
        finite = np.isfinite(arrays["q0"]).all(axis=1)
        check_unit_vectors("q0", units, arrays["q0"][finite])
        shapes = {"us": (knots, n), "qs": (knots, robot.nq), "qds": (knots, n), "gains": (knots, n, 2 * n)}
        arrays |= {name: np.zeros((1, *shape), self.dtype) for name, shape in shapes.items()}
        arrays |= {"feeds": arrays["us"], "q_last": arrays["qs"][:, 0], "qd_last": arrays["qds"][:, 0]}
        if warm is not None and tau is not None:
            raise ArgumentError("tau beside warm; expected one guess")
        if warm is not None:
            parts = {"us": warm.tau, "qs": warm.q[..., :-1, :], "qds": warm.qd[..., :-1, :], "gains": warm.gains}
            arrays |= {name: self._spread(f"warm's {name}", x, leading, shapes[name]) for name, x in parts.items()}
        elif tau is not None:
            arrays["us"] = self._spread("tau", tau, leading, (knots, n))
        else:
            arrays["us"] = self._holding(arrays["q0"])
        arrays |= self._inputs(inputs, leading)
        for name, value in begin(self.options).items():
            arrays[name] = np.asarray(value, self.dtype)[None]
        return arrays, leading

    def _holding(self, q: Array) -> Array:
        """The torques (batch, knots, nv) that hold a robot at rest, within the bounds."""
        zero = np.zeros((len(q), self.robot.nv))
        with np.errstate(all="ignore"):
            still = {"q": q.astype(np.float64), "qd": zero, "qdd": zero}
            torque = np.nan_to_num(evaluate(trace(self.robot, "inverse_dynamics"), still)["tau"])
        if self.options.bounds is not None:
            torque = np.clip(torque, *self.options.bounds)
        return np.repeat(torque[:, None].astype(self.dtype), self.knots, axis=1)

    def _inputs(self, inputs: Mapping[str, npt.ArrayLike], leading: tuple[int, ...]) -> dict[str, Array]:
        """Inputs of the cost, of forces and of constraints."""
        defaults: dict[str, tuple[tuple[int, ...], Any]] = {n: (e.shape, e.default) for n, e in self.inputs.items()}
        for name in self.step_inputs:
            size = len(self.robot.constraints) if name == "active" else self.robot.nv
            defaults[name] = ((self.knots, size), 1.0 if name == "active" else 0.0)
        for name in inputs:
            if name not in defaults:
                expected = ", ".join(defaults) or "none"
                raise ArgumentError(f"{ILQR} has no input '{name}'{nearest(name, defaults)}; expected {expected}")
        arrays = {}
        for name, (shape, default) in defaults.items():
            value = inputs.get(name, default)
            if value is None:
                raise ArgumentError(f"input '{name}' is missing; expected shape (..., {', '.join(map(str, shape))})")
            arrays[name] = self._spread(name, value, leading, shape)
        return arrays

    def _spread(self, name: str, value: npt.ArrayLike, leading: tuple[int, ...], shape: tuple[int, ...]) -> Array:
        """An input (batch, *shape), or (1, *shape) where it is the same for all problems."""
        array = real(name, value)
        if array.ndim <= len(shape):
            whole: tuple[int, ...] = shape
        else:
            whole = (*leading, *shape)
        try:
            array = np.broadcast_to(array, whole)
        except ValueError:
            raise ArgumentError(
                f"{name} has shape {array.shape}; expected {(*leading, *shape)}, or its last axes"
            ) from None
        return of_shape(name, array, whole, self.dtype).reshape(-1, *shape)


def _solution(outputs: Mapping[str, Array], arrays: Mapping[str, Array], leading: tuple[int, ...]) -> Solution:
    taken = outputs[TURNS].astype(int) - 1
    good, costs = outputs["good"] > 0.0, outputs["costs_new"]
    size = costs.shape[1]
    place = np.arange(size)[None] + (size - 1 - taken)[:, None]
    shifted = np.where(place < size, np.take_along_axis(costs, np.minimum(place, size - 1), axis=1), np.nan)
    started = good | (taken > 0)
    shifted[~started] = np.nan
    results = {
        "q": np.concatenate([outputs["qs_new"], outputs["q_last_new"][:, None]], axis=1),
        "qd": np.concatenate([outputs["qds_new"], outputs["qd_last_new"][:, None]], axis=1),
        "tau": outputs["us_new"],
        "gains": outputs["gains_new"],
        "cost": np.where(started, outputs["cost_new"], np.nan),
        "costs": shifted,
        "iterations": taken,
        "converged": outputs["converged"] > 0.0,
        "failed": ~good,
        "regularisation": outputs["reg_used"],
    }
    results["converged"] &= good
    for name in ("q", "qd", "gains"):
        results[name][~started] = np.nan
    return Solution(**{name: array.reshape((*leading, *array.shape[1:])) for name, array in results.items()})


def _check(knots: object, dt: object, cost: object, iterations: object, tolerance: object, regularisation: Any) -> None:
    """Raises ValueError or TypeError naming an option of another type, or out of its range."""
    for name, value in (("knots", knots), ("iterations", iterations)):
        if not is_whole(value) or value < 1:
            raise ArgumentError(f"{name}={value!r}; expected a whole number, 1 or more")
    if dt is None:
        raise ArgumentError(f"dt=None of {ILQR}; expected the seconds of a knot")
    if not isinstance(cost, Cost):
        raise ArgumentTypeError(f"cost is {type(cost).__name__}; expected a dynagate.control.Cost")
    check_positive("tolerance", tolerance, "a fall of the cost")
    pair = tuple(regularisation) if isinstance(regularisation, tuple | list) else ()
    if not (len(pair) == 2 and all(is_number(x) for x in pair) and 0.0 < pair[0] < pair[1] < float("inf")):
        raise ArgumentError(f"regularisation={regularisation!r}; expected the smallest and the largest, more than 0")


def _bounds(robot: Robot, bounds: Any) -> tuple[Array, Array] | None:
    """Lowest and highest torques (nv,) each. Raises ValueError: they have another shape or order."""
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
    return None if np.isinf(low).all() and np.isinf(high).all() else (low, high)
