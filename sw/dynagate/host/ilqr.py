"""iLQR of a robot: a batch of problems in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import (
    ABOVE_ZERO,
    check_positive,
    check_unit_vectors,
    is_whole,
    numbers,
    shown,
    spread,
)
from dynagate.base.arrays import Array
from dynagate.base.changed_options import changed_in_call, of_call
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.base.warned import warn
from dynagate.control.bounded_values import MotionBounds
from dynagate.control.constraints import Constraint, checked, motion_bounds, with_inputs
from dynagate.control.cost import Cost
from dynagate.control.ilqr import RETRIES, IlqrOptions, begin, ilqr_loop
from dynagate.control.joint_bounds import SHIFT, WEIGHT, WITHIN, of_last
from dynagate.control.shooting import GAPS, NEXT, shooting_class
from dynagate.control.state_bounds import FreeStates
from dynagate.control.training_problems import check_solved
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import SATURATE, Arithmetic
from dynagate.forces import Force
from dynagate.forces.force import check_forces
from dynagate.graph.loop import ITERATIONS
from dynagate.host.devices import DeviceOptions
from dynagate.host.devices.integer_loop import IntegerLoop
from dynagate.host.problems import ProblemInput, Problems
from dynagate.host.solution import Solution
from dynagate.host.solver import Solver, check_counts, loop_input
from dynagate.integrators.feedback import Feedback
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.motion_options import MotionOptions
from dynagate.native.package import loop_package
from dynagate.native.package_files import write_package
from dynagate.native.portable_loop import same_inputs
from dynagate.robot import RobotWarning
from dynagate.robot.checked import RobotOrName

ILQR = "ilqr"
SHORTEST, LONGEST = 12, 32
"""Bits of a word in fixed point."""


@explained
class Ilqr(Solver):
    """Plan motions of a robot by iLQR. Call the solver with start states; use it as a context.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        knots: Number of torques of the horizon.
        dt: Seconds of each torque, or None if each call passes `dt`.
        cost: The cost of a motion, `dynagate.control.Cost`.
        iterations: Largest number of iterations, at most 1,000.
        tolerance: A problem has converged if the next iteration can gain no more than this, in the unit of the cost.
        regularization: Smallest and largest number that is added to curvatures.
        bounds: Bounds of torques, N m or N: True for the robot's effort limits, one number or (nv,) for both
            directions, or a pair of lowest and highest. The rollouts cut torques. Gains leave a joint at a bound
            unchanged. Joints without a motor (`Robot.with_passive`, floating joints) have no torque.
        joint_bounds: Bounds of positions and speeds, rad or m and rad/s or m/s: True for the robot's limits, one number
            or (nv,) for positions in both directions, (2 nv,) for speeds too, or a pair of lowest and highest, infinite
            for none. An augmented Lagrangian keeps them. A start beyond them returns along a line that ends at the last
            knot.
        constraints: Functions of a knot that stay at 0 or below, or are 0, `dynagate.control.Constraint`. The same
            augmented Lagrangian keeps them.
        within: Tolerated violation of joint bounds and constraints, as a part of the range of the joint or of the scale
            of the constraint.
        shooting: "single", or "multiple" for calls with `states=`: the first guess has states of its own, and steps
            close the gaps between knots.
        integrator: An explicit integrator, as of `dynagate.Rollout`.
        form, forces, constrained, implicit_damping: Options of the steps, as of `dynagate.Rollout`.
        contacts: Rigid ground, as of `dynagate.Rollout`. A motion with a step that has not converged costs infinity.
        feedback: The robot's own feedback law, as of `dynagate.Rollout`. The planned torques are added to its torques.
            Costs and `bounds` are of the planned torques.
        device: "cpu", all iterations in one call of compiled C with problems in the lanes of vectors; "cuda"; or
            "numpy", the reference.
        dtype: "float64" or "float32" ("cpu", "cuda").
        threads: Threads that share the problems ("cpu").

    Attributes:
        overflows: Problems of the last call with a result that did not fit its format, by graph, of `on_integers`.

    Raises:
        ArgumentError: An option is not right. Nothing is computed then.
        ArgumentTypeError: An option has another type.
        RobotError: There is no such robot, or an option does not fit its joints.
        CompileError: There is no compiler, or it fails.

    Example:
        >>> cost = dynagate.control.Cost.quadratic(q=1.0, qd=0.1, tau=0.01, final=10.0)
        >>> solver = dynagate.ilqr("two_joint_arm", knots=5, dt=0.02, cost=cost, device="numpy")
        >>> plan = solver(np.zeros(2), np.zeros(2), goal=[0.1, 0.2])
        >>> plan.q.shape, plan.tau.shape, plan.gains.shape, bool(plan.converged)
        ((6, 2), (5, 2), (5, 2, 4), True)
    """

    results = Solution

    def __init__(
        self,
        robot: RobotOrName,
        *,
        knots: int,
        dt: float | None,
        cost: Cost,
        iterations: int = 100,
        tolerance: float = 1e-9,
        regularization: tuple[float, float] = (1e-9, 1e9),
        bounds: Any = None,
        joint_bounds: Any = None,
        constraints: Sequence[Constraint] = (),
        within: float = WITHIN,
        shooting: Literal["single", "multiple"] = "single",
        integrator: str | None = None,
        form: str | None = None,
        forces: Sequence[Force] = (),
        constrained: bool = False,
        contacts: RigidContact | None = None,
        feedback: Feedback = False,
        implicit_damping: bool = False,
        device: Literal["cpu", "cuda", "numpy"] | DeviceOptions = "cpu",
        dtype: npt.DTypeLike | None = None,
        threads: int = 1,
    ) -> None:
        call = locals()
        self._keep_maker(type(self), (), call)
        check_counts(knots=knots, iterations=iterations)
        _check(tolerance, regularization)
        check_positive("within", within, "a part of a joint's range")
        if shooting not in ("single", "multiple"):
            raise ArgumentError(f"shooting={shown(shooting)}; expected 'single' or 'multiple'", code="DG-SOLVER-067")
        self.constraints = checked(constraints)
        if self.constraints and isinstance(cost, Cost):
            cost = with_inputs(cost, self.constraints)
        step = of_call(MotionOptions, call, forces=check_forces(forces))
        super().__init__(
            ILQR,
            robot,
            cost,
            device,
            changed_in_call(Ilqr.__init__, call, ("dtype", "threads")),
            knots=knots,
            bounds=bounds,
            joint_bounds=joint_bounds,
            step=step,
        )
        smallest, largest = (float(x) for x in regularization)
        self.options = IlqrOptions(
            self.knots,
            self.step,
            int(iterations),
            float(tolerance),
            smallest,
            largest,
            self.bounds,
            kept=motion_bounds(self.robot, cost, self.joints, self.constraints),
            within=float(within),
            multiple=shooting == "multiple",
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
        states: npt.ArrayLike | None = None,
        **inputs: npt.ArrayLike,
    ) -> Solution:
        """Plan motions from start states.

        A RobotWarning is issued once if a start violates joint limits, and once if a motion does; the force `Limits` or
        a cost keeps them. Another one is issued if all problems fail in fixed point.

        Args:
            q0: Start configurations (..., nq), rad, m and unit quaternions.
            qd0: Start velocities (..., nv), rad/s or m/s.
            tau: First guess (..., knots, nv), N m or N, or its last axes. Torques that hold the robot where it starts
                unless given.
            warm: Solution to begin with instead: its torques, and its gains about its motion. A problem whose solution
                is not finite begins with torques that hold the robot, and is flagged in `cold`.
            states: First guess of the states [q, q̇], (..., knots + 1, nq + nv), with `shooting="multiple"`. They need
                not follow from the torques. The first is replaced by the start. Without them, and with `warm`, the
                motion of the torques is the guess. States of actuators have no guess: they follow from the torques.
            inputs: Inputs of the cost, and inputs of forces and constraints at each knot. Leading axes may be left out.
                States of actuators before the first knot, by name, are 0 unless given.

        Returns:
            The motions. A problem of several whose start is not finite is flagged in `failed`.

        Raises:
            ValueError: An input is missing, unknown, of another shape or not finite.
            TypeError: An input is no array of real numbers.
        """
        self.check_open()
        with np.errstate(all="ignore"):
            problems, cold = self._problems(q0, qd0, tau, warm, inputs, states)
            problems.run()
            solution = _solution(problems, self.options.states, cold)
            if self.options.kept:
                solution = self._judged(problems, solution, self.options.kept)
        self.keep(problems)
        self.limits.look_at_positions(solution.q)
        if self.overflows and solution.failed.all():
            where = max(self.overflows, key=lambda name: self.overflows[name])
            warn(
                f"all problems of {self.robot.name} fail in fixed point: results of '{where}' left their formats; "
                "expected on_integers with a longer word, or a smaller weight of the last state",
                RobotWarning,
                code="DG-SOLVER-033",
            )
        return solution

    def _judged(self, problems: Problems, solution: Solution, kept: MotionBounds) -> Solution:
        """Return a solution with its multipliers and the violation of constraints."""
        output, batch = problems.output, problems.batch
        weight = np.asarray(output("weight_new"))
        knots = output("shift_new") if kept.knot.count else np.zeros((*solution.tau.shape[:-1], 0))
        end = output("shift_last_new") if kept.end.count else np.zeros((*weight.shape, 0))
        knots = knots * (weight[..., None, None] / kept.knot.widths**2)
        end = end * (weight[..., None] / kept.end.widths**2)
        flat = {"q": solution.q, "qd": solution.qd, "tau": solution.tau}
        flat = {name: x.reshape(batch, *x.shape[-2:]) for name, x in flat.items()}
        violation = kept.violation(flat, problems.inputs, len(self.constraints))
        return replace(
            solution,
            multipliers=knots,
            end_multipliers=end,
            weight=np.array(weight),
            violation=problems.shaped(violation),
        )

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
        """Return the same solver in fixed point, with ranges from solving these problems in float64.

        Results that do not fit their format saturate; `overflows` counts them by graph.

        Args:
            q0: Start positions (..., nq), rad, m and unit quaternions.
            qd0: Start velocities (..., nv), rad/s or m/s.
            tau: First guess of the torques (..., knots, nv), N m or N; None for those that hold the robot.
            word: Word length, 12 to 32 bits.
            guard_bits: Bits above the largest value that the problems meet.
            inputs: Inputs of the cost and of forces, as in a call.

        Returns:
            The solver in fixed point.

        Raises:
            ArgumentError: An argument is not right, a problem is not finite, fewer than half of the problems have a
                solution in float64, or the solver has joint_bounds, contacts or actuators.
        """
        self.check_open()
        if not is_whole(word) or not SHORTEST <= word <= LONGEST:
            raise ArgumentError(f"word={word!r}; expected {SHORTEST} to {LONGEST} bits", code="DG-SOLVER-034")
        self.options.states.check_integers()
        shooting_class(self.options.multiple).check_integers()
        self.knot_step.check_on_chip()
        if self.step.contacts is not None:
            raise ArgumentError(
                "contacts= of a solver in fixed point; expected compliant contact, as a force", code="DG-SOLVER-061"
            )
        policy = Policy(int(word), guard_bits, arithmetic=Arithmetic(overflow=SATURATE))
        problems, _ = self._problems(q0, qd0, tau, None, inputs)
        batch, arrays = problems.batch, problems.inputs
        if batch == 1:
            warn(
                "ranges of fixed point come from one problem; others leave them, which takes all iterations of a call: "
                "expected eight problems or more, such as those of the calls to come",
                RobotWarning,
                code="DG-SOLVER-035",
            )
        if not all(np.isfinite(x).all() for x in arrays.values()):
            raise ArgumentError(
                "a problem is not finite; expected problems from which ranges can be found", code="DG-SOLVER-036"
            )
        whole = {name: np.repeat(x, batch if len(x) == 1 else 1, axis=0) for name, x in arrays.items()}
        problems.run()
        solved = problems.outputs["good"] > 0.0
        check_solved(solved, arrays["q0"], self.robot, self.step)
        whole = {name: x[solved].astype(np.float64) for name, x in whole.items()}
        return self.in_fixed_point(IntegerLoop(self.loop, whole, policy, ("costs",), RETRIES))

    def write_cmake(
        self,
        folder: str | os.PathLike[str],
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike,
        tau: npt.ArrayLike | None = None,
        **inputs: npt.ArrayLike,
    ) -> list[Path]:
        """Write the solver as a CMake project of C and C++17, as `dynagate emit --cmake` does for functions.

        The C solves one problem in a call, in a workspace that the caller passes.

        Args:
            folder: Folder to write the files into. It is made if it is missing.
            q0: Start positions (..., nq) of problems for the test, rad, m and unit quaternions.
            qd0: Start velocities (..., nv), rad/s or m/s.
            tau: First guess of the torques (..., knots, nv), N m or N; None for those that hold the robot.
            inputs: Inputs of the cost and of forces, as in a call.

        Returns:
            The files.

        Raises:
            ArgumentError: An argument is not right.
        """
        self.check_open()
        with np.errstate(all="ignore"):
            problems, _ = self._problems(q0, qd0, tau, None, inputs)
            same = same_inputs({name: each.parts for name, each in self.asked.items()})
            package = loop_package(self.loop, self.robot, problems.inputs, fixed=self.fixed, same=same)
        self.keep(problems)
        return write_package(package, folder)

    @property
    def own_asked(self) -> dict[str, ProblemInput]:
        robot, n, knots = self.robot, self.robot.nv, self.knots
        size = self.knot_step.size
        shapes = {"qs": (knots, robot.nq), "qds": (knots, n), "us": (knots, n), "gains": (knots, n, size)}
        shapes |= {"drives": (knots, size - 2 * n)} if self.states else {}
        start = ProblemInput((robot.nq,), None, {"q0": ..., "q_last": ...})
        asked = {"q0": start, **{name: loop_input(name, shape) for name, shape in shapes.items()}}
        for name, size in self.options.states.ease_sizes().items():
            parts = {name: (slice(None), slice(-1)), of_last(name, True): (slice(None), -1)}
            asked[name] = ProblemInput((knots + 1, size), None, parts)
        for name, shape in self.options.states.shift_shapes(knots).items():
            asked[name] = loop_input(name, shape)
        if self.options.kept:
            asked[WEIGHT] = loop_input(WEIGHT, ())
        if self.options.multiple:
            nexts = dict(zip(NEXT, ((knots, robot.nq), (knots, n)), strict=True))
            asked |= {name: loop_input(name, shape) for name, shape in {**nexts, "opened": ()}.items()}
        return asked

    @property
    def fixed(self) -> dict[str, Array]:
        n = self.robot.nv
        values = {"feeds": np.zeros((self.knots, n)), "qd_last": np.zeros(n), **begin(self.options)}
        values |= {GAPS: np.zeros((self.knots, 2 * n))} if self.options.multiple else {}
        return {**{name: np.asarray(value, self.dtype)[None] for name, value in values.items()}, **self.begun_knots}

    def new_outputs(self, batch: int) -> dict[str, Array]:
        """Return new arrays for results. Those of the loop are views into q and qd.

        Args:
            batch: Number of problems.

        Returns:
            Arrays (batch, *shape) by name.
        """
        outputs = super().new_outputs(batch)
        for name, size in (("q", self.robot.nq), ("qd", self.robot.nv)):
            states = np.empty((batch, self.knots + 1, size), self.dtype)
            outputs |= {name: states, f"{name}s_new": states[:, :-1], f"{name}_last_new": states[:, -1]}
        return outputs

    def _problems(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike,
        tau: npt.ArrayLike | None,
        warm: Solution | None,
        inputs: Mapping[str, npt.ArrayLike],
        states: npt.ArrayLike | None = None,
    ) -> tuple[Problems, Array]:
        """Return the problems of a call, and which of them had a warm start that is not finite (*leading).

        Raises:
            ArgumentError: An input is not right.
        """
        problems = self.begun(q0, qd0, inputs)
        cold = np.zeros(problems.leading, dtype=bool)
        if warm is not None and tau is not None:
            raise ArgumentError(
                "tau and warm are both given; expected one of them as the first guess", code="DG-SOLVER-037"
            )
        self._check_states(states, warm)
        if warm is not None:
            if not isinstance(warm, Solution):
                raise ArgumentTypeError(
                    f"warm is a {type(warm).__name__}; expected the solution of an earlier call", code="DG-SOLVER-038"
                )
            guess, cold = self._warmed(problems, warm)
            values: dict[str, tuple[str, Any]] = {name: (f"warm's {name}", x) for name, x in guess.items()}
        else:
            problems.fill("qs", problems.arrays["q0"][:, None])  # where quaternions have no length, ⊖ has no value
            values = {"us": ("tau", self.guess(tau, problems)), "qds": ("qds", 0.0), "gains": ("gains", 0.0)}
            values |= {"drives": ("drives", 0.0)} if self.states else {}
        eases = self.options.states.eases(problems.arrays["q0"], problems.arrays["qd0"], self.knots)
        values |= {name: (name, problems.shaped(array)) for name, array in eases.items()}
        values |= self._multipliers(warm, cold) | self._states(problems, states)
        self.put(problems, values | self.inputs_by_name(inputs))
        return problems, cold

    def _check_states(self, states: npt.ArrayLike | None, warm: Solution | None) -> None:
        """Raise ArgumentError if a call has a guess of states that the solver cannot use."""
        if states is None:
            return
        if not self.options.multiple:
            raise ArgumentError(
                "states= of a solver with shooting='single'; expected dynagate.ilqr(..., shooting='multiple'), or no "
                "states",
                code="DG-SOLVER-068",
            )
        if warm is not None:
            raise ArgumentError(
                "states and warm are both given; expected one of them as the first guess", code="DG-SOLVER-069"
            )

    def _states(self, problems: Problems, states: npt.ArrayLike | None) -> dict[str, tuple[str, Any]]:
        """Return the guess of the states after each knot, by the names of inputs."""
        if not self.options.multiple:
            return {}
        nq, nv = self.robot.nq, self.robot.nv
        if states is None:
            start = problems.start("q0")[..., None, :]
            values = {"qs_next": np.where(np.isfinite(start), start, self._somewhere), "qds_next": 0.0, "opened": 0.0}
            return {name: (name, x) for name, x in values.items()}
        every = spread("states", states, problems.leading, (self.knots + 1, nq + nv))
        check_unit_vectors("states", self._units, every[..., :nq].reshape(-1, nq))
        after = problems.shaped(every[:, 1:])
        return {
            "qs_next": ("states", after[..., :nq]),
            "qds_next": ("states", after[..., nq:]),
            "opened": ("opened", 1.0),
        }

    def _warmed(self, problems: Problems, warm: Solution) -> tuple[dict[str, Array], Array]:
        """Return torques, motion and gains to begin with, by name, and which problems have no warm start (*leading).

        Those problems begin as in a call without a guess: at rest in their start, with the torques that hold the robot.
        """
        guess = {"us": warm.tau, "qs": warm.q[..., :-1, :], "qds": warm.qd[..., :-1, :], "gains": warm.gains}
        guess |= {"drives": warm.actuators} if self.states else {}
        cold = np.zeros(problems.leading, dtype=bool)
        if all(np.isfinite(x).all() for x in guess.values()):
            return guess, cold
        shapes = {name: problems.shape_of(name) for name in guess}
        for name, x in guess.items():
            axes = tuple(range(-len(shapes[name]), 0))
            try:
                guess[name] = np.broadcast_to(x, (*problems.leading, *shapes[name]))
            except ValueError:
                return guess, cold  # of another shape, which `put` reports
            cold |= ~np.isfinite(guess[name]).all(axis=axes)
        q = np.where(np.isfinite(q := problems.start("q0")), q, self._somewhere)
        held = self.held(q.reshape(-1, self.robot.nq), problems.arrays).reshape(*problems.leading, self.robot.nv)
        begun = {"us": held[..., None, :], "qs": q[..., None, :], "qds": np.array(0.0), "gains": np.array(0.0)}
        begun["drives"] = np.array(0.0)
        return {
            name: np.where(cold.reshape(*cold.shape, *[1] * len(shapes[name])), begun[name], x)
            for name, x in guess.items()
        }, cold

    def _multipliers(self, warm: Solution | None, cold: Array) -> dict[str, tuple[str, Any]]:
        """Return the shifts and the weight to begin with, by the names of inputs. cold: problems without a warm start
        (*leading)."""
        kept = self.options.kept
        if kept is None:
            return {}
        names = (*self.options.states.shift_shapes(self.knots), WEIGHT)
        has = (kept.knot.count, kept.end.count)
        if warm is None or (warm.multipliers.shape[-1], warm.end_multipliers.shape[-1]) != has:
            return {name: (name, 0.0) for name in names}
        weight, finite = warm.weight, ~cold & (warm.weight > 0.0)
        factor = np.where(finite, 1.0 / np.where(finite, weight, 1.0), 0.0)
        shifts = {
            SHIFT: np.nan_to_num(warm.multipliers) * factor[..., None, None] * kept.knot.widths**2,
            of_last(SHIFT, True): np.nan_to_num(warm.end_multipliers) * factor[..., None] * kept.end.widths**2,
            WEIGHT: np.where(finite, weight, 0.0),
        }
        return {name: ("warm's multipliers", shifts[name]) for name in names}

    @cached_property
    def _somewhere(self) -> Array:
        """A finite q (nq,) with unit quaternions."""
        q = np.zeros(self.robot.nq)
        q[[stop - 1 for _, stop in self._units]] = 1.0
        return q


def _solution(problems: Problems, states: FreeStates, cold: Array) -> Solution:
    outputs, output, shaped = problems.outputs, problems.output, problems.shaped
    taken = outputs[ITERATIONS].astype(int) - 1
    good, costs = outputs["good"] > 0.0, outputs["costs_new"].copy()
    size = costs.shape[1]
    left = size - 1 - taken
    if np.count_nonzero(left):
        place = np.arange(size) + left[:, None]
        beyond = place >= size
        place[beyond] = 0
        costs = costs[np.arange(len(place))[:, None], place]
        costs[beyond] = np.nan
    started = good | (taken > 0)
    if np.count_nonzero(started) < len(started):
        costs[~started] = np.nan
        drives = [name for name in ("drives_new",) if name in outputs]
        for name in ("q", "qd", "gains_new", states.cost, *drives):
            outputs[name][~started] = np.nan
    q, qd = output("q"), output("qd")
    return Solution(
        q=q,
        qd=qd,
        tau=output("us_new"),
        gains=output("gains_new"),
        cost=output(states.cost),
        costs=shaped(costs),
        iterations=shaped(taken),
        converged=shaped((outputs["converged"] > 0.0) & good),
        failed=shaped(~good),
        regularization=output("reg_used"),
        beyond=states.beyond(q, qd),
        cold=cold,
        violation=np.zeros((*cold.shape, 0)),
        multipliers=np.zeros((*cold.shape, q.shape[-2] - 1, 0)),
        end_multipliers=np.zeros((*cold.shape, 0)),
        weight=np.zeros(cold.shape),
        gap=output("apart_new") if "apart_new" in outputs else np.zeros(cold.shape),
        actuators=output("drives_new") if "drives_new" in outputs else np.zeros((*q.shape[:-2], q.shape[-2] - 1, 0)),
    )


def _check(tolerance: object, regularization: Any) -> None:
    """Raise ArgumentError or ArgumentTypeError for an option of another type, or outside its range."""
    check_positive("tolerance", tolerance, "a fall of the cost")
    expected = "the smallest and the largest, more than 0"
    low, high = numbers("regularization=", regularization, (2,), replace(ABOVE_ZERO, one=expected, several=""))
    if not low < high:
        raise ArgumentError(f"regularization={regularization!r}; expected {expected}", code="DG-SOLVER-039")
