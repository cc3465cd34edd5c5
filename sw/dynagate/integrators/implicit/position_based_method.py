"""Position-based steps as an integrator of rollouts.

They solve Equations 5 and 7 of Pan & Manocha (2018), or Equation 13 of 2019 if forces act.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from dynagate.base.arguments import ABOVE_ZERO, store_plain_numbers
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.dynamics.configuration import advance, directions_of
from dynagate.dynamics.spatial import Array, chosen
from dynagate.forces import Contact, Force, Forces, Servo
from dynagate.forces.checks import check_numbers
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.derivatives import output_values
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.integrators.adjoint import AFTER, FIRST, RESIDUAL, StepEquations, before
from dynagate.integrators.implicit.collocation import collocation
from dynagate.integrators.implicit.position_based import PositionBasedModel, begin, evaluation, search, weighted
from dynagate.integrators.implicit.position_based_inputs import PositionBasedError, check_whole
from dynagate.integrators.implicit.position_based_links import check_robot, sizes
from dynagate.integrators.implicit.root_finders import converged, scalar
from dynagate.integrators.linearized import linearized
from dynagate.integrators.motion import Integrator, Motion
from dynagate.integrators.step import StepRecording
from dynagate.robot import Robot
from dynagate.robot.variable import check_constant

SEARCHES = ("lm", "lm-full")
ORDERS = (2, 3)

FULL_ABOVE = 0.02
"""s: larger steps take fewer iterations and less time by the whole Hessian."""


AWAY = "away"
"""The field of `Trajectories` that a step of order 3 solves for."""

ITERATIONS_OF_INTEGERS = 60
"""Iterations of a step in integers: rounding hides lower energies from further ones."""


@explained
@dataclass(frozen=True)
class PositionBasedIntegrator(Integrator):
    """Step by minimizing an energy, or by a root of all forces at the end of the step: stable at large steps.

    A step is a root if there are forces other than a servo, or joints with quaternions. Both are solved by
    Levenberg-Marquardt iterations. Joints that mimic others are refused.

    Args:
        tolerance: Largest remaining force, relative to the weight of the robot.
        iterations: Largest number of iterations in a step.
        search: Hessian of the energy: "lm" has M/dt² in its place, "lm-full" has all of it. Unless given, "lm" for
            small steps and "lm-full" for large ones.
        order: 2, or 3 for roots of the forces at the middle and the end of a step, which lose little energy. Order 3 is
            for small steps: some steps of 10 ms of long chains do not converge.
        resolution: Resolution of energies relative to their size, for integers; None for floating point.

    Raises:
        ValueError: A number is out of range, there is no such search, or order 3 has a search.
    """

    tolerance: float = 1e-7
    iterations: int = 1000
    search: Literal["lm", "lm-full"] | None = None
    order: int = 2
    resolution: float | None = None

    name: ClassVar[str] = "position_based"
    largest_tolerance: ClassVar[float] = 1e-2

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        check_numbers(self, "integrator 'position_based'", tolerance=ABOVE_ZERO)
        check_whole("iterations", self.iterations)
        if self.search not in (None, *SEARCHES):
            raise ArgumentError(
                f"search {self.search!r}; expected one of {', '.join(SEARCHES)}, or None", code="DG-ROLLOUT-054"
            )
        if self.order not in ORDERS:
            raise ArgumentError(
                f"order {self.order!r:.60}; expected 2 or 3 (higher ones are unstable)", code="DG-ROLLOUT-055"
            )
        if self.order > 2 and self.search is not None:
            raise ArgumentError(
                f"search '{self.search}' at order {self.order}, which has no energy; expected None",
                code="DG-ROLLOUT-056",
            )

    def in_words(self, word: int | None) -> PositionBasedIntegrator:
        """Return the integrator for integers of a word length in bits."""
        if word is None:
            return self
        return replace(self, iterations=min(self.iterations, ITERATIONS_OF_INTEGERS), resolution=2.0 ** (5 - word))

    def least_residual(self, robot: Robot, dt: float, word: int) -> float:
        """Return the force that rounding leaves, relative to the weight.

        An acceleration is a weighted sum of positions divided by dt², and a position is rounded to 2^(1 - word) or more
        of the robot's reach.

        Args:
            robot: The robot.
            dt: Time step, s.
            word: Bits of a word.
        """
        nodes = collocation(self.order)
        weights = float(np.abs(nodes.combined @ nodes.second).sum(axis=1).max())
        return weights * 2.0**-word / (_gravity(robot) * dt**2)

    def motion(self, robot: Robot, options: StepOptions, *, linearize: bool = False, every: int = 1) -> Motion:
        self.check(options, linearize=linearize)
        check_constant(robot, "the position-based integrator")
        assert options.dt is not None
        scale = self._scale(robot)
        model = _model(robot, options.dt, self.order, tuple(options.forces), self.resolution)
        second = self.order > 2
        loop = Loop(
            f"position_based{f'_{self.order}' if second else ''}{f'_every_{every}' if every > 1 else ''}",
            robot.name,
            (
                begin(model),
                search(model, scale, self.iterations, full=self._takes_hessian(options.dt)),
                _report(model),
            ),
            {
                "q_next": "q",
                "before_next" if second else "start": "before",
                "failed_next": "failed",
                **({"first_next": "first"} if second else {}),
            },
            Count(),
            ("tau", *model.given),
            ("q_next", "qd_next", "failed_next", "counted", "rest", *(("best",) if second else ())),
            every=every,
        )
        extras: dict[str, tuple[str, tuple[int, ...]]] = {"iterations": ("counted", ()), "residual": ("rest", ())}
        solved = (AWAY,) if second else ()
        extras |= {AWAY: ("best", (model.unknown, robot.nv))} if second else {}
        reach = {"damping": 1.0, "count": float(self.iterations + 1)}
        motion = Motion(loop, begin=_before(model), failed="failed_next", extras=extras, solved=solved, reach=reach)
        return linearized(motion, robot, options, self.equations(robot, options)) if linearize else motion

    def equations(self, robot: Robot, options: StepOptions) -> StepEquations:
        assert options.dt is not None
        model = _model(robot, options.dt, self.order, tuple(options.forces), self.resolution)
        step = StepRecording(robot, options, "position_based_step", far=True)
        if self.order > 2:
            return _equations_of_nodes(model, step)
        recording, after = step.recording, step.velocities(AFTER, "qd")
        inputs = {**recording.inputs, "before": advance(robot, step.q, step.qd * -step.dt), "trial": after * step.dt}
        for graph in (begin(model), evaluation(model, "trial", "slope")):
            inputs = {**output_values(graph.outputs, recording.replay(graph, inputs)), **inputs}
        return StepEquations(step.graph({RESIDUAL: inputs["slope"], "q_next": advance(robot, step.q, inputs["trial"])}))

    def _takes_hessian(self, dt: float) -> bool:
        return dt > FULL_ABOVE if self.search is None else self.search == "lm-full"

    def _scale(self, robot: Robot) -> list[float]:
        """Return the forces (nv,) below which a step has converged."""
        check_robot(robot)
        weight = _gravity(robot) * sum(link.mass for link in robot.links)
        if weight == 0.0:
            raise PositionBasedError(f"robot '{robot.name}' has no mass; expected some", code="DG-ROLLOUT-058")
        return [float(size) * self.tolerance * weight for size in sizes(robot)]


def _gravity(robot: Robot) -> float:
    """Return the acceleration that relates forces to masses, m/s²: that of gravity, or 9.81 without gravity."""
    return float(np.linalg.norm(robot.gravity)) or 9.81


def _model(
    robot: Robot, dt: float, order: int, forces: tuple[Force, ...], resolution: float | None
) -> PositionBasedModel:
    """The first contact of displacements, at points without radii, and the first servo as the papers have them at order
    2, other forces as they are."""
    contact = servo = None
    if order == 2:
        sharp = [f for f in forces if isinstance(f, Contact) and not any(point.radius for point in f.points)]
        contact = next(iter(sharp), None)
        servo = next((force for force in forces if isinstance(force, Servo) and force.inputs), None)
    others = Forces(robot, [force for force in forces if force is not contact and force is not servo])
    model = PositionBasedModel(robot, dt, order, contact, servo, others if others.forces else None, resolution)
    for joint, _, _ in robot.moving():
        if order > 2 and joint.nv > 3 and joint.armature:
            raise ArgumentError(
                f"joint '{joint.name}' of robot '{robot.name}' is {joint.type} and has armature {joint.armature:g}; "
                "position-based steps of order 3 take it at other joints, or order=2",
                code="DG-ROLLOUT-059",
            )
    return model


def _equations_of_nodes(model: PositionBasedModel, step: StepRecording) -> StepEquations:
    """Return the residual of a step with more than one unknown node. It begins with the nodes of the previous step, and
    its velocity is that of the polynomial at its end.

    The end's pivots come first, because their block is positive definite: that of the middle is not.
    """
    robot, recording, q = model.robot, step.recording, step.q
    first, away, gone = recording.input(FIRST, ()), model.away(recording, AWAY), model.away(recording, before(AWAY))
    *_, past_middle, past_end = gone.reshape(model.unknown, -1)
    earlier = chosen(
        first[()],
        advance(robot, q, step.qd * (float(model.nodes.times[0]) * step.dt)),
        advance(robot, advance(robot, q, -past_end), past_middle),
    )
    inputs = {**recording.inputs, "before": earlier, "trial": away}
    for graph in (begin(model), evaluation(model, "trial", "slope")):
        inputs = {**inputs, **output_values(graph.outputs, recording.replay(graph, inputs)), "trial": away}
    places = model.reached(q, away)
    return StepEquations(
        step.graph(
            {RESIDUAL: inputs["slope"], "q_next": places[-1], "qd_next": _rate(model, [inputs["earlier"], q, *places])}
        ),
        (AWAY,),
        [*reversed(range(len(away)))],
    )


def _rate(model: PositionBasedModel, nodes_q: list[Array]) -> Array:
    """Return the velocity (nv,) at the end of the step of the polynomial through the configurations of all nodes."""
    return directions_of(model.robot, nodes_q[-1], weighted(model.nodes.first[-1] / model.dt, nodes_q))


def _before(model: PositionBasedModel) -> Loop:
    """q and qd to before, the configuration at the collocation's node before the start, failed, 0, and at order 3
    first, 1."""
    recording, sizes = Recording("before", model.robot.name), typical_sizes(model.tree)
    q, qd = model.configuration(recording, "q"), recording.input("qd", (model.robot.nv,), sizes["qd"])
    values = {"before": advance(model.robot, q, qd * (float(model.nodes.times[0]) * model.dt)), "failed": scalar(0.0)}
    values |= {"first": scalar(1.0)} if model.order > 2 else {}
    return Loop("position_based_begin", model.robot.name, (recording.graph(values),), {}, Count(1), last=tuple(values))


def _report(model: PositionBasedModel) -> Graph:
    """best and start, rest and failed () to q_next (nq,), qd_next (nv,), the mean velocity of the step, at order 3 that
    at its end, failed_next (), and at order 3 before_next (nq,) and first_next, 0."""
    recording = Recording("report", model.robot.name)
    best, start = model.away(recording, "best"), model.configuration(recording, "start")
    rest, failed = (recording.input(name, ())[()] for name in ("rest", "failed"))
    places = model.reached(start, best)
    values = {"q_next": places[-1], "failed_next": scalar(failed + (1.0 - converged(rest)))}
    if model.order == 2:
        return recording.graph(values | {"qd_next": best * (1.0 / model.dt)})
    every = [model.configuration(recording, "earlier"), start, *places]
    after = {"qd_next": _rate(model, every), "before_next": places[-2], "first_next": scalar(0.0)}
    return recording.graph(values | after)
