"""The turn of a rollout on chip as a graph, and the graph of any function that a design may compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress, quiet
from dynagate.dynamics import ROLLOUT, AlgorithmOptions
from dynagate.dynamics.functions.options import OF_ROLLOUTS
from dynagate.dynamics.steps.step import DEFAULT_INTEGRATOR, DEFAULT_STEP
from dynagate.forces.listed import warn_of_forces
from dynagate.graph import Graph, trace
from dynagate.integrators.chip_motion import constant_forces, solves
from dynagate.integrators.linearized import linearized_step_graph
from dynagate.integrators.step import StepOptions, step_graph
from dynagate.robot import Robot
from dynagate.robot.variable import check_constant


def graph_of(robot: Robot, name: str, *, progress: Progress = quiet, **options: Any) -> Graph:
    """The graph of a function, a rollout among them.

    options: those of `dynamics.AlgorithmOptions` that are not defaults. Raises as `trace` does, and ValueError: an
    option of the others' functions.
    """
    others: tuple[str, ...] = OF_ROLLOUTS
    if name == ROLLOUT:
        others = ("frame", "mass", "prefix", "external_forces", "outputs")
    for option in others:
        if option in options:
            raise ArgumentError(f"{name} has no option '{option}'; expected it left out, or another function")
    return turn_graph(robot, **options) if name == ROLLOUT else trace(robot, name, progress=progress, **options)


def turn_graph(
    robot: Robot,
    *,
    form: str | None = None,
    dt: float | None = None,
    integrator: str = DEFAULT_INTEGRATOR,
    implicit_damping: bool = False,
    linearize: bool = False,
    variable_dt: bool = False,
    forces: Sequence[str] = (),
    tolerance: float | None = None,
) -> Graph:
    """q (nq,), qd, tau (nv,) and, with variable_dt, dt () to q_next, qd_next and, with linearize, a and b, as
    `step_graph` and `linearized_step_graph` have them. Angles of joints that turn for ever
    (`Robot.is_periodic`) are between -π and π.

    forces: as `forces.as_text` writes them. dt: seconds; 1e-3 for None. With variable_dt the largest. Raises
    ValueError: an option is none of these.
    """
    if solves(AlgorithmOptions(integrator=integrator, tolerance=tolerance)):
        raise ArgumentError(
            f"integrator {integrator!r} of a datapath; expected a program, with units=...: its steps end by a tolerance"
        )
    if variable_dt and dt is None:
        raise ArgumentError("variable_dt without dt; expected the largest time step as dt (s)")
    own = constant_forces(forces)
    warn_of_forces(robot, own)
    check_constant(robot, "a rollout on a chip")
    time = DEFAULT_STEP if dt is None else dt
    options = StepOptions(time, integrator, form, wrap=True, forces=own, implicit_damping=implicit_damping)
    options = replace(options, dt=None) if variable_dt else options
    graph = linearized_step_graph(robot, options) if linearize else step_graph(robot, options)
    return replace(graph, name=ROLLOUT)
