"""The linear-time variational integrator as an integrator of rollouts, with any forces.

A force acts at both ends of a step for half its time each, with the mean velocity of the step. At a configuration the
contributions of the previous and the next step add up, as in the trapezoidal rule of the discrete Lagrangian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

from dynagate.base.arguments import ABOVE_ZERO, check_count, is_whole, store_plain_numbers
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.upper_limits import MAX_ITERATIONS
from dynagate.dynamics import Argument, FunctionRow, Tree, tree_of
from dynagate.dynamics.configuration import advance
from dynagate.dynamics.links import TreeLink
from dynagate.dynamics.recursions.invertible import check_invertible
from dynagate.dynamics.spatial import ZERO_MOTION, Array, Scalar, array, chosen, select, sqrt
from dynagate.dynamics.spatial import SpatialMotion as Twist
from dynagate.dynamics.transforms import JointTransform
from dynagate.forces import Forces
from dynagate.forces.checks import check_numbers
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import jacobian
from dynagate.graph.loop import ITERATIONS, Count, Loop
from dynagate.integrators.adjoint import AFTER, FIRST, RESIDUAL, StepEquations
from dynagate.integrators.implicit.root_finders import quasi_newton
from dynagate.integrators.implicit.variational import (
    CARRIED,
    EXCESS,
    FINISH,
    INCREMENTS,
    ITERATION,
    MOMENTUM,
    START,
    finish,
    iteration,
    momenta_of_past,
    prepare,
    residual,
    start,
    turns,
)
from dynagate.integrators.linearized import linearized
from dynagate.integrators.motion import Integrator, Motion
from dynagate.integrators.step import StepRecording
from dynagate.robot import Robot
from dynagate.robot.variable import check_constant

FAILED = Argument("failed", "scalar")
SLOPE = Argument("dforce_dlast", "linear", like="minv")
"""How the forces change with the last increment."""

CLIPPED = 4.0
"""Powers of two above the tolerance, in which the largest entry of a residual is counted."""
ITERATIONS_OF_INTEGERS = 8
"""Iterations of a step in integers: further ones end when rounding happens to be small."""


@explained
@dataclass(frozen=True)
class VariationalIntegrator(Integrator):
    """Step a discrete Lagrangian by RIQN: an integrator of second order whose energy does not drift.

    It returns the constant velocity that leads from each configuration to the next one. Joints that mimic others are
    refused.

    Args:
        guess: Guess of the increments, 1 to 4. 4 needs the fewest iterations on smooth motion.
        tolerance: Largest norm of the residual impulse, N m s.
        iterations: Largest number of iterations in a step.
        clips: Whether large entries of the residual are clipped a little above the tolerance, for integers.

    Raises:
        ValueError: A number is out of range.

    Reference:
        Lee, Liu, Park & Srinivasa, "A Linear-Time Variational Integrator for Multibody Systems", 2020.
    """

    guess: int = 3
    tolerance: float = 1e-8
    iterations: int = 30
    clips: bool = False

    name: ClassVar[str] = "variational"
    largest_tolerance: ClassVar[float] = 1e-2

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        if not (is_whole(self.guess) and 1 <= self.guess <= 4):
            raise ArgumentError(f"guess {self.guess!r}; expected 1, 2, 3 or 4", code="DG-ROLLOUT-065")
        check_numbers(self, "integrator 'variational'", tolerance=ABOVE_ZERO)
        check_count("iterations", self.iterations, MAX_ITERATIONS)

    def in_words(self, word: int | None) -> VariationalIntegrator:
        """Return the integrator for integers of a word length in bits."""
        if word is None:
            return self
        return replace(self, iterations=min(self.iterations, ITERATIONS_OF_INTEGERS), clips=True)

    def motion(self, robot: Robot, options: StepOptions, *, linearize: bool = False, every: int = 1) -> Motion:
        self.check(options, linearize=linearize)
        check_constant(robot, "the variational integrator")
        assert options.dt is not None
        robot.check_uncoupled("the variational integrator")
        check_invertible(tree_of(robot))
        forces = Forces(robot, options.forces)
        carried = {**CARRIED, "failed_next": "failed"}
        loop = Loop(
            f"variational_{self.guess}{f'_every_{every}' if every > 1 else ''}",
            robot.name,
            (*_start(robot, forces, self.guess), self._solve(robot, forces, options.dt), trace(robot, _finish())),
            carried,
            Count(),
            ("tau", *forces.inputs),
            ("q_next", "qd_next", "failed_next", ITERATIONS, "left"),
            every=every,
        )
        extras: dict[str, tuple[str, tuple[int, ...]]] = {"iterations": (ITERATIONS, ()), "residual": ("left", ())}
        constants = {"dt": options.dt, "limit": (self.tolerance * options.dt) ** 2}
        reach = {EXCESS.name: robot.nv * CLIPPED**2} if self.clips else {}
        begin = _begin(robot)
        motion = Motion(
            loop, begin=begin, constants=constants, failed="failed_next", ends=True, extras=extras, reach=reach
        )
        return linearized(motion, robot, options, self.equations(robot, options)) if linearize else motion

    def equations(self, robot: Robot, options: StepOptions) -> StepEquations:
        assert options.dt is not None
        step = StepRecording(robot, options, "variational_step", far=True)
        first, after = step.recording.input(FIRST, ())[()], step.velocities(AFTER, "qd")
        left = _balance(Forces(robot, options.forces), step, first, after)
        return StepEquations(step.graph({RESIDUAL: left, "q_next": advance(robot, step.q, after * step.dt)}))

    def _solve(self, robot: Robot, forces: Forces, dt: float) -> Loop:
        """Return the loop over the iterations of a step."""
        extra = _arguments(forces)
        plain = _clipping(CLIPPED * 2.0 ** math.floor(math.log2(self.tolerance * dt))) if self.clips else ITERATION
        (form,) = plain.forms.values()
        pushed = replace(
            plain,
            inputs=(*plain.inputs, *extra),
            forms={"riqn": lambda tree, *values: _pushed_iteration(forces, form, tree, *values)},
        )
        graph = trace(robot, pushed if forces.forces else plain)
        outputs = tuple(replace(p, name="brought") if p.name == MOMENTUM.name else p for p in graph.outputs)
        return quasi_newton(replace(graph, outputs=outputs), EXCESS.name, self.iterations)


@lru_cache(maxsize=16)
def _clipping(within: float) -> FunctionRow:
    """Return `ITERATION` with this bound of the residual's entries."""
    return replace(ITERATION, forms={"riqn": partial(iteration, within=within)})


def _arguments(forces: Forces) -> tuple[Argument, ...]:
    return tuple(Argument(name, "tangent", like="qd") for name in forces.inputs)


def _start(robot: Robot, forces: Forces, guess: int) -> tuple[Graph, ...]:
    """Return `START` with the forces at the start of the step, and before it the derivative of forces by
    velocity.
    """
    if not forces.forces:
        return (trace(robot, START, form=f"guess_{guess}"),)

    def pushed(tree: Tree, q: Any, *values: Any) -> tuple[Any, ...]:
        last, second, third, fourth, momentum, tau, dt, share, slope = values[: len(START.inputs)]
        force = _force(forces, q, last, dt, values[len(START.inputs) :])
        less = (dt * dt) * 0.5  # of a whole step's impulse, the half that acts by the next velocity
        resisting = (slope + slope.T) * (less * -0.5)
        load_of = list(array(list(tau)) + force)
        past = (last, second, third, fourth)
        known = start(tree, q, *past, momentum, load_of, dt, share, guess=guess, resisting=resisting)
        increment, load, impulse, *others = known
        return (increment, load, list(array(impulse) - force * less), *others)

    extra = _arguments(forces)
    inputs = (*START.inputs, SLOPE, *extra)
    moving = (Argument("q", "configuration"), INCREMENTS[0], Argument("dt", "scalar"), *extra)
    acting = FunctionRow(
        "forces",
        moving,
        (Argument("force", "cotangent"),),
        {"": lambda tree, q, last, dt, *extra: (_force(forces, q, last, dt, extra),)},
        {},
    )
    return (
        jacobian(trace(robot, acting), robot=robot, inputs=[INCREMENTS[0].name]),
        trace(robot, FunctionRow(START.name, inputs, START.outputs, {"": pushed}, {})),
    )


def _force(forces: Forces, q: Any, increment: Any, dt: Any, extra: Sequence[Any]) -> Array:
    return forces.torque(q, [x * (1.0 / dt) for x in increment], dt, dict(zip(forces.inputs, extra, strict=True)))


def _pushed_iteration(
    forces: Forces, form: Callable[..., Any], tree: Tree, q: Any, turn: Any, increment: Any, *values: Any
) -> tuple[Any, ...]:
    """Evaluate `form`, the formula of `ITERATION`, with half of the impulse of forces added to `impulse`.

    The forces are those at the start of the step, at the mean velocity of the step.
    """
    load, impulse, factor, dt, limit = values[:5]
    force = _force(forces, q, increment, dt, values[5:])
    pushed = list(array(list(impulse)) + force * ((dt * dt) * 0.5))
    outputs: tuple[Any, ...] = form(tree, q, turn, increment, load, pushed, factor, dt, limit)
    return outputs


def _balance(forces: Forces, step: StepRecording, first: Scalar, after: Array) -> Array:
    """Return the residual (nv,) of a step from q, reached with qd, including the momenta of the previous step."""
    tree, q, dt, extra = tree_of(step.robot), list(step.q), step.dt, list(step.force_inputs.values())
    last, increment = (list(rates * dt) for rates in (step.qd, after))
    turn, share = turns(tree, q), 1.0 - 0.5 * first
    begun, past = _momenta(tree.unreduced, q, last), momenta_of_past(tree, q, turn, last)
    momentum = chosen(first, begun.ravel(), past.ravel()).reshape(past.shape)
    acting, next_acting = (_force(forces, q, each, dt, extra) for each in (last, increment))
    load, impulse = prepare(tree.unreduced, q, last, momentum, list(step.tau + acting), dt, share)
    impulse = list(array(impulse) + (next_acting - acting) * (0.5 * dt * dt))
    return array(residual(tree, q, turn, increment, load, impulse, dt)[0])


def _finish() -> FunctionRow:
    """Return `FINISH` with qd_next (nv,), the mean velocity, failed_next (), and left (), the residual over the
    tolerance.
    """

    def counted(tree: Tree, *values: Any) -> tuple[Any, ...]:
        *own, dt, failed = values
        *carried, good = finish(tree, *own)
        wrong = select(failed - 0.5, 1.0, 1.0 - good)
        return (*carried, array([x * (1.0 / dt) for x in carried[1]]), failed + wrong, sqrt(own[-2]))

    scalars = Argument("failed_next", "scalar"), Argument("left", "scalar")
    outputs = (*FINISH.outputs[:-1], Argument("qd_next", "tangent", like="qd"), *scalars)
    return FunctionRow(
        "variational_finish", (*FINISH.inputs, Argument("dt", "scalar"), FAILED), outputs, {"": counted}, {}
    )


def _begin(robot: Robot) -> Loop:
    """q, qd and dt to the increments before the first step, as if it had moved with qd, the momenta (the discrete
    Legendre transform), the share of the first impulses, and failed, 0."""

    def begin(tree: Tree, q: Any, qd: Any, dt: Any) -> tuple[Any, ...]:
        last = [x * dt for x in qd]
        return (*([last] * len(INCREMENTS)), _momenta(tree.unreduced, q, last), 0.5, 0.0)

    inputs = (Argument("q", "configuration"), Argument("qd", "tangent"), Argument("dt", "scalar"))
    outputs = (*INCREMENTS, MOMENTUM, Argument("share", "scalar"), FAILED)
    graph = trace(robot, FunctionRow("variational_begin", inputs, outputs, {"": begin}, {}))
    return Loop(
        "variational_begin", robot.name, (graph,), {}, Count(1), last=tuple(argument.name for argument in outputs)
    )


def _momenta(tree: Tree, q: Sequence[Scalar], rates: Sequence[Scalar]) -> Array:
    """Return the momentum of each link in its own frame, (links, 6), for these joint velocities."""

    def moving(
        link: TreeLink, above: Twist | None, joint: JointTransform, own: Sequence[Scalar]
    ) -> tuple[Twist, Array]:
        twist = (ZERO_MOTION if above is None else joint.motion_to_link(above)) + link.motion(own)
        momentum = link.inertia @ twist
        return twist, array([*momentum.angular, *momentum.linear])

    return array(tree.down("momenta", moving, tree.transforms(q), tree.velocities(rates)))
