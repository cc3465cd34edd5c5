"""Graphs that a design may compute: any function of a robot, or the step of a rollout on a chip."""

from __future__ import annotations

from dataclasses import replace

from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress, quiet
from dynagate.dynamics import ROLLOUT
from dynagate.dynamics.steps.step import ROLLOUT_OPTIONS
from dynagate.forces.listed import warn_of_forces
from dynagate.forces.options import DEFAULTS, AlgorithmOptions
from dynagate.graph import Graph, trace
from dynagate.graph.region import Region
from dynagate.integrators.chip_motion import check_on_chip, solves
from dynagate.integrators.linearized import linearized_step_graph
from dynagate.integrators.step import step_graph
from dynagate.robot import Robot
from dynagate.robot.variable import check_constant

OF_FUNCTIONS = ("frame", "mass", "prefix", "external_forces", "outputs")
"""Options that rollouts do not take."""


def graph_of(robot: Robot, name: str, options: AlgorithmOptions = DEFAULTS, *, progress: Progress = quiet) -> Graph:
    """Return the graph of a function, or of a rollout's step.

    Args:
        robot: The robot.
        name: Name of the function, or "rollout".
        options: Options of the algorithm.
        progress: Receives a line of text before each slow stage.

    Raises:
        ArgumentError: The function does not accept an option.
    """
    others = OF_FUNCTIONS if name == ROLLOUT else ROLLOUT_OPTIONS
    changed = options.changed()
    for option in others:
        if option in changed:
            raise ArgumentError(
                f"{name} has no option '{option}'; expected it left out, or another function", code="DG-ROLLOUT-046"
            )
    return chip_step_graph(robot, options) if name == ROLLOUT else trace(robot, name, options, progress=progress)


def chip_step_graph(robot: Robot, options: AlgorithmOptions) -> Graph:
    """Return the step of a rollout on a chip, from q (nq,), qd, tau (nv,) to q_next and qd_next.

    With variable_dt, dt () is an input too, and with linearize, a and b are outputs, as `step_graph` and
    `linearized_step_graph` have them. Angles of joints that rotate without limit (`Robot.is_periodic`) are between -π
    and π.

    Raises:
        ArgumentError: An option is not one of a chip.
    """
    if solves(options):
        raise ArgumentError(
            f"integrator {options.integrator!r} of a datapath; expected a program, with units=...: its steps end by a "
            "tolerance",
            code="DG-ROLLOUT-047",
        )
    if options.variable_dt and options.dt is None:
        raise ArgumentError("variable_dt without dt; expected the largest time step as dt (s)", code="DG-ROLLOUT-048")
    check_on_chip(options)
    warn_of_forces(robot, options.forces)
    check_constant(robot, "a rollout on a chip")
    step = options.step()
    graph = linearized_step_graph(robot, step, wrap=True) if options.linearize else step_graph(robot, step, wrap=True)
    return replace(graph, name=ROLLOUT)


def region_of_steps(region: Region, options: AlgorithmOptions) -> Region:
    """Return the region of a graph: with the largest time step of a rollout whose time step is an input.

    Args:
        region: The region without a time step.
        options: Options of the algorithm.
    """
    return replace(region, dt=options.dt) if options.variable_dt else region
