"""iLQR of a robot: a batch of problems in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_positive, is_number, is_whole, spread
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.warned import warn
from dynagate.control.cost import Cost
from dynagate.control.ilqr import RETRIES, IlqrOptions, begin, ilqr_loop
from dynagate.control.known import check_solved
from dynagate.dynamics.friction import SPEED
from dynagate.dynamics.step import DEFAULT_INTEGRATOR
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import SATURATE, Arithmetic
from dynagate.forces import Force
from dynagate.forces.force import check_forces
from dynagate.graph.loop import TURNS
from dynagate.host.devices import Cpu, DeviceOptions, Fixed
from dynagate.host.devices.integer_loop import IntegerLoop
from dynagate.host.solution import Solution
from dynagate.host.solver import Solver, check_counts
from dynagate.integrators.step import StepOptions
from dynagate.robot import RobotWarning
from dynagate.robot.checked import RobotOrName

Array = npt.NDArray[Any]
ILQR = "ilqr"
SHORTEST, LONGEST = 12, 32
"""Bits of a word in fixed point."""


@explained
class Ilqr(Solver):
    """A solver of optimal control problems of a robot, by iLQR. Call it; use it as a context.

    robot: also the path of a URDF file, or the name of a robot that ships. knots: how many torques. dt: seconds of
    each. cost: `dynagate.control.Cost`. iterations: at most. tolerance: of what a step can still gain, in the cost's
    unit. regularisation: the smallest and largest number that is added to curvatures.
    bounds: of torques, N m or N: True for the robot's effort limits, one number or (nv,) for both directions, or a pair
    of lowest and highest. The rollouts cut torques, and the gains leave those alone that are at a bound and would leave
    it. Joints that nothing drives (`Robot.with_passive`, and floating ones) have no torque.
    integrator: an explicit one; form, friction, friction_speed, forces, constrained: as of a `Rollout`.
    device: "cpu", all iterations in one call of compiled C, problems side by side in vectors; "cuda"; or "numpy".
    options: of the device, by name. overflows: of a solver `on_integers`, by graph, how many of its states in the last
    call had a result that did not fit.

    Raises ValueError or TypeError naming an option that is not right, before any work.
    """

    results = Solution

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
        check_counts(knots=knots, iterations=iterations)
        _check(tolerance, regularisation)
        step = StepOptions(
            dt, integrator, form, friction, friction_speed, forces=check_forces(forces), constrained=constrained
        )
        super().__init__(ILQR, robot, cost, device, options, knots=knots, bounds=bounds, step=step)
        smallest, largest = (float(x) for x in regularisation)
        self.options = IlqrOptions(
            self.knots, self.step, int(iterations), float(tolerance), smallest, largest, self.bounds
        )
        self.overflows: Mapping[str, int] = {}
        self.compile(lambda: ilqr_loop(self.robot, cost, self.options))

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
        several whose start is not finite is flagged in `failed`, and harms no other. Gives a RobotWarning, once, where
        a start is beyond the limits of joints; once where a motion passes them, which the force `Limits`, or a cost,
        keeps; and one where all problems fail in fixed point.
        """
        self.check_open()
        arrays, leading = self._checked(q0, qd0, tau, warm, inputs)
        solution = _solution(self.computed(arrays, len(arrays["q0"])), leading)
        self.limits.look_at_positions(solution.q)
        if self.overflows and solution.failed.all():
            where = max(self.overflows, key=lambda name: self.overflows[name])
            warn(
                f"all problems of {self.robot.name} fail in fixed point: results of '{where}' left their formats; "
                "expected on_integers with a longer word, or a smaller weight of the last state",
                RobotWarning,
            )
        return solution

    def on_integers(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike,
        tau: npt.ArrayLike | None = None,
        *,
        word: int = 27,
        guard_bits: float = 1.0,
        **inputs: npt.ArrayLike,
    ) -> Ilqr:
        """The same solver in fixed point, of words of so many bits, with ranges from these problems, which it solves in
        float64: what is met on the way, with `guard_bits` of room above. Results that do not fit become the nearest
        that do; `overflows` counts them by graph.

        word: 12 to 32 bits. Other arguments: as of a call. Raises ValueError: one is not right, a problem is not
        finite, or fewer than half of them have a solution in float64; ranges come from those that have.
        """
        self.check_open()
        if not is_whole(word) or not SHORTEST <= word <= LONGEST:
            raise ArgumentError(f"word={word!r}; expected {SHORTEST} to {LONGEST} bits")
        policy = Policy(int(word), guard_bits, arithmetic=Arithmetic(overflow=SATURATE))
        arrays, _ = self._checked(q0, qd0, tau, None, inputs)
        batch = len(arrays["q0"])
        if not all(np.isfinite(x).all() for x in arrays.values()):
            raise ArgumentError("a problem is not finite; expected problems from which ranges can be found")
        double = {name: x.astype(np.float64) for name, x in arrays.items()}
        whole = {name: np.repeat(x, batch, axis=0) if len(x) == 1 != batch else x for name, x in double.items()}
        solved = self.computed(arrays, batch)["good"] > 0.0
        check_solved(solved, arrays["q0"], self.robot, self.step.dt or 0.0)
        whole = {name: x[solved] for name, x in whole.items()}
        solver = copy(self)
        solver._compute = compute = IntegerLoop(self.loop, whole, policy, ("costs",), RETRIES)
        solver.device, solver.dtype, solver.overflows = Fixed.name, compute.dtype, compute.integers.overflows
        return solver

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
        arrays, leading = self.start(q0, qd0)
        shapes = {"us": (knots, n), "qs": (knots, robot.nq), "qds": (knots, n), "gains": (knots, n, 2 * n)}
        arrays |= {name: np.zeros((1, *shape), self.dtype) for name, shape in shapes.items()}
        arrays["qs"] = np.repeat(
            arrays["q0"][:, None], knots, axis=1
        )  # where quaternions have no length, ⊖ has no value
        arrays |= {"feeds": arrays["us"], "q_last": arrays["q0"], "qd_last": arrays["qds"][:, 0]}
        if warm is not None and tau is not None:
            raise ArgumentError("tau beside warm; expected one guess")
        if warm is not None:
            parts = {"us": warm.tau, "qs": warm.q[..., :-1, :], "qds": warm.qd[..., :-1, :], "gains": warm.gains}
            arrays |= {
                name: spread(f"warm's {name}", x, leading, shapes[name], self.dtype, shared=True)
                for name, x in parts.items()
            }
        elif tau is not None:
            arrays["us"] = spread("tau", tau, leading, (knots, n), self.dtype, shared=True)
        else:
            arrays["us"] = self.holding(arrays["q0"])
        arrays |= self.inputs_by_name(inputs, leading)
        for name, value in begin(self.options).items():
            arrays[name] = np.asarray(value, self.dtype)[None]
        return arrays, leading


def _solution(outputs: Mapping[str, Array], leading: tuple[int, ...]) -> Solution:
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


def _check(tolerance: object, regularisation: Any) -> None:
    """Raises ValueError naming an option of another type, or out of its range."""
    check_positive("tolerance", tolerance, "a fall of the cost")
    pair = tuple(regularisation) if isinstance(regularisation, tuple | list) else ()
    if not (len(pair) == 2 and all(is_number(x) for x in pair) and 0.0 < pair[0] < pair[1] < float("inf")):
        raise ArgumentError(f"regularisation={regularisation!r}; expected the smallest and the largest, more than 0")
