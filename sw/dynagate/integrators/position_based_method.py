"""Position-based steps as a method of rollouts: Equation 5 of Pan & Manocha (2018), or 13 of 2019 where forces act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.dynamics.spatial import select
from dynagate.dynamics.tree import Tree
from dynagate.forces import Contact, Force, Forces, Servo
from dynagate.forces.checks import check_above_zero
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.integrators.motion import Method, Motion, forces_of
from dynagate.integrators.position_based_graphs import Model, begin, scalar
from dynagate.integrators.position_based_inputs import PositionBasedError, check_whole
from dynagate.integrators.position_based_links import check_robot, sizes
from dynagate.integrators.position_based_loop import search
from dynagate.integrators.step import StepOptions
from dynagate.integrators.variational_graphs import ALMOST_ONE
from dynagate.robot import Robot

SEARCHES = ("lm", "lm-full")

FULL_ABOVE = 0.02
"""s: larger steps take fewer iterations and less time by the whole Hessian."""


@dataclass(frozen=True)
class PositionBasedMethod(Method):
    """Each step is the minimum of an energy or, where there are forces but a servo, a root of all forces at its end, by
    Levenberg-Marquardt: stable at large steps. tolerance: forces that are left, beside the robot's weight. iterations:
    most of them a step. search: for the energy, "lm" with M/dt² in place of its Hessian, "lm-full" with the whole
    Hessian; None for "lm" up to `FULL_ABOVE` and "lm-full" for larger steps, which "lm" does not always solve. Of
    revolute and prismatic joints. Raises ValueError: a number is out of range, or there is no such search."""

    tolerance: float = 1e-7
    iterations: int = 1000
    search: Literal["lm", "lm-full"] | None = None

    name: ClassVar[str] = "position_based"

    def __post_init__(self) -> None:
        check_above_zero("method 'position_based'", tolerance=self.tolerance)
        check_whole("iterations", self.iterations)
        if self.search not in (None, *SEARCHES):
            raise ArgumentError(f"search {self.search!r}; expected one of {', '.join(SEARCHES)}, or None")

    def motion(self, robot: Robot, options: StepOptions, *, linearise: bool = False, every: int = 1) -> Motion:
        self.check(options, linearise=linearise)
        assert options.dt is not None
        model = _model(robot, options.dt, forces_of(options))
        report = _report(model)
        loop = Loop(
            f"position_based{f'_every_{every}' if every > 1 else ''}",
            robot.name,
            (
                begin(model),
                search(model, self._scale(robot), self.iterations, full=self._takes_hessian(options.dt)),
                report,
            ),
            {"best": "q", "start": "before", "failed_next": "failed"},
            Count(),
            ("tau", *model.given),
            ("best", "qd_next", "failed_next", "counted", "rest"),
            every=every,
        )
        extras: dict[str, tuple[str, tuple[int, ...]]] = {"iterations": ("counted", ()), "residual": ("rest", ())}
        return Motion(loop, ("best", "qd_next"), _before(robot, options.dt), failed="failed_next", extras=extras)

    def _takes_hessian(self, dt: float) -> bool:
        return dt > FULL_ABOVE if self.search is None else self.search == "lm-full"

    def _scale(self, robot: Robot) -> list[float]:
        """The forces (nv,) below which a step has converged."""
        check_robot(robot)
        weight = (float(np.linalg.norm(robot.gravity)) or 9.81) * sum(link.mass for link in robot.links)
        if weight == 0.0:
            raise PositionBasedError(f"robot '{robot.name}' has no mass; expected some")
        return [float(size) * self.tolerance * weight for size in sizes(robot)]


def _model(robot: Robot, dt: float, forces: tuple[Force, ...]) -> Model:
    """The first contact of displacements, at points without radii, and the first servo as the papers have them, other
    forces as they are."""
    sharp = [f for f in forces if isinstance(f, Contact) and not any(point.radius for point in f.points)]
    contact = next(iter(sharp), None)
    servo = next((force for force in forces if isinstance(force, Servo) and force.inputs), None)
    others = Forces(robot, [force for force in forces if force is not contact and force is not servo])
    return Model(robot, dt, contact, servo, others if others.forces else None)


def _before(robot: Robot, dt: float) -> Loop:
    """q and qd to before, the configuration one step earlier, and failed, 0."""
    recording, sizes = Recording("before", robot.name), typical_sizes(Tree(robot))
    q, qd = (recording.input(name, (robot.nv,), sizes[name]) for name in ("q", "qd"))
    graph = recording.graph({"before": q - qd * dt, "failed": scalar(0.0)})
    return Loop("position_based_begin", robot.name, (graph,), {}, Count(1), last=("before", "failed"))


def _report(model: Model) -> Graph:
    """best and start (nv,), rest and failed () to qd_next (nv,), the mean velocity of the step, and failed_next ()."""
    robot = model.robot
    recording, sizes = Recording("report", robot.name), typical_sizes(Tree(robot))
    best, start = (recording.input(name, (robot.nq,), sizes["q"]) for name in ("best", "start"))
    rest, failed = (recording.input(name, ())[()] for name in ("rest", "failed"))
    right = select(ALMOST_ONE - rest, 1.0, 0.0)
    return recording.graph(
        {"qd_next": (best - start) * (1.0 / model.dt), "failed_next": scalar(failed + (1.0 - right))}
    )
