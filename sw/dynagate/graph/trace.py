"""Trace a function of a robot: run its algorithm on recorded expressions and return the checked graph."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, signature
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.arguments import equal
from dynagate.base.caching import Cache, Same
from dynagate.base.changed_options import of_call
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.progress import Progress, quiet
from dynagate.dynamics import EXTERNAL, FunctionRow, Tree, function, of_frame, tree_of
from dynagate.dynamics.friction import friction_in
from dynagate.dynamics.recursions.poses import FrameOption
from dynagate.forces import Force, Friction
from dynagate.forces.listed import acting_friction, joint_friction, warn_of_forces
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.derived import JVP, VJP, derived
from dynagate.graph.expression_frames import FRAME_SEARCHES, FRAMES
from dynagate.graph.graph import Graph
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import parameter_inputs, size_of, typical_sizes
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of
from dynagate.robot.variable import check_inputs


@explained
def trace(
    robot: RobotOrName,
    name: str | FunctionRow | Sequence[str],
    options: AlgorithmOptions | None = None,
    *,
    form: str | None = None,
    frame: FrameOption | None = None,
    mass: str | None = None,
    prefix: bool = False,
    external_forces: bool = False,
    dt: float | None = None,
    integrator: str | None = None,
    implicit_damping: bool = False,
    outputs: Sequence[str] | None = None,
    forces: Sequence[Force | str] = (),
    progress: Progress | None = None,
) -> Graph:
    """Return the checked graph of a function of a robot.

    Args:
        robot: The robot, the name of one in the package, or the path of its URDF file.
        name: Name of a listed function, a list of names that are computed together, or a row of your own.
        options: `AlgorithmOptions`, in place of the keywords of the same names.
        form: Algorithm of the function, as in `AlgorithmOptions`.
        frame: Name of the frame, for a function of a frame. For the gradients, a frame of
            `dynamics.recursions.poses`, "fewest" for the frame of each chain that takes the fewest operations, or
            "accurate" for the frame with the smallest error in float32.
        mass: As in `AlgorithmOptions`.
        prefix: As in `AlgorithmOptions`.
        external_forces: As in `AlgorithmOptions`.
        dt: As in `AlgorithmOptions`.
        integrator: As in `AlgorithmOptions`.
        implicit_damping: As in `AlgorithmOptions`.
        outputs: As in `AlgorithmOptions`.
        forces: `dynagate.forces.Friction`, or none.
        progress: Receives a line of text before each stage that takes seconds. The forward dynamics of a chain of a
            hundred joints has 350,000 operations, or 25,000 in its form "aba".

    Returns:
        The graph.

    Raises:
        TypeError: robot is not a robot.
        ArgumentError: The function is unknown, does not take an option, lacks an output, or has numbers that are
            too large for float64.
        RobotError: M is needed and is singular.

    Warns:
        RobotWarning: The robot's file lacks friction that `forces` requests.
    """
    name, chosen = _options(name, options, locals())
    robot = robot_of(robot)
    algorithm = name if isinstance(name, FunctionRow) else function(name)
    outputs = _chosen_outputs(algorithm, robot, chosen.outputs)
    check_inputs(robot, [*(argument.name for argument in algorithm.inputs), EXTERNAL.name, *CALLED])
    own = acting_friction(robot, chosen.forces, algorithm)
    warn_of_forces(robot, chosen.forces)
    of_form = {option: value for option, value in chosen.changed().items() if option not in COMMON}
    if isinstance(axes := chosen.frame, str):
        if axes not in FRAMES:
            raise ArgumentError(
                f"frame '{axes}'; expected {', '.join(FRAMES)}, a link index, or a map of them", code="DG-GRAPH-023"
            )
        if axes in FRAME_SEARCHES:
            of_form["frame"] = _found_frame(robot, axes)
    common = _Common(chosen.external_forces, own)
    return _traced(_Asked(robot, algorithm, outputs, of_form, common, progress or quiet))


COMMON = ("outputs", "external_forces", "forces")
"""Options that all functions have. Other options belong to a form."""


def _options(
    name: str | FunctionRow | Sequence[str], options: AlgorithmOptions | None, keywords: Mapping[str, Any]
) -> tuple[str | FunctionRow | Sequence[str], AlgorithmOptions]:
    """Return the name of a function, with its frame in it, and its options.

    Args:
        name: Function, or names, of a call.
        options: Options in one object.
        keywords: Arguments of the call by name.

    Raises:
        ArgumentError: There are options both in the object and by keyword.
    """
    frame = keywords["frame"] if options is None else options.frame
    name, axes = of_frame(name, frame)
    if options is None:
        return name, of_call(AlgorithmOptions, keywords, frame=axes)
    for option, default in _KEYWORDS.items():
        if not equal(keywords[option], default):
            raise ArgumentError(
                f"options and {option}={keywords[option]!r:.60}; expected one of them", code="DG-GRAPH-024"
            )
    return name, replace(options, frame=axes)


_KEYWORDS = {
    each.name: each.default for each in signature(trace).parameters.values() if each.kind is Parameter.KEYWORD_ONLY
}
"""Keyword options of `trace` and their defaults."""
_KEYWORDS.pop("progress")


def _products(algorithm: FunctionRow, robot: Robot) -> dict[str, tuple[int, ...]]:
    """Return the outputs by the robot's variable parameters of a function that is a VJP, with their shapes."""
    if not (algorithm.derivative_of and algorithm.name.endswith(VJP)):
        return {}
    return {f"vjp_{variable.input}": variable.shape for variable in robot.variables}


def _chosen_outputs(algorithm: FunctionRow, robot: Robot, names: Sequence[str] | None) -> list[str]:
    """Return the names of the requested outputs, all for None. Raise ArgumentError: there is no such one."""
    products = _products(algorithm, robot)
    own = None if names is None or not products else [name for name in names if name not in products]
    chosen = [] if own == [] and names else [each.name for each in algorithm.chosen_outputs(own if products else names)]
    return [*chosen, *(name for name in products if names is None or name in names)]


CALLED = ("out", "outputs")
"""Names of arguments of a function's call that are not inputs."""


_FRAMES: Cache[tuple[Robot, str], dict[int, int]] = Cache(most=16)


def _found_frame(robot: Robot, search: str) -> dict[int, int]:
    """Return the frames that a search finds. It traces once for each link of a chain."""
    return dict(_FRAMES.get((robot, search), lambda: FRAME_SEARCHES[search](robot, trace)))


class _Asked(NamedTuple):
    """A request to trace. common: external forces and forces, options of all functions of a robot."""

    robot: Robot
    algorithm: FunctionRow
    chosen: Sequence[str]
    options: dict[str, Any]
    common: _Common
    progress: Progress


class _Common(NamedTuple):
    external_forces: bool
    forces: tuple[Force, ...]


MOST_KEPT = 200_000
"""Largest number of operations in all cached graphs together, which take about 100 MB."""
GRAPHS: Cache[Hashable, Graph] = Cache(MOST_KEPT, len)


def _traced(asked: _Asked) -> Graph:
    """Return the graph, from the kept ones if it is among them."""
    options = tuple((name, _as_key(value)) for name, value in sorted(asked.options.items()))
    key = asked.robot, Same(asked.algorithm), tuple(asked.chosen), asked.common, options
    return GRAPHS.get(key, lambda: _recorded(asked))


def _as_key(value: Any) -> Hashable:
    """Return an option as part of a key."""
    return tuple(sorted(value.items())) if isinstance(value, Mapping) else value


def _recorded(asked: _Asked) -> Graph:
    robot, algorithm, chosen, options, common, progress = asked
    recording = Recording(algorithm.name, robot.name, progress)
    arguments = algorithm.inputs_with(common.external_forces)
    sizes = typical_sizes(tree_of(robot))
    inputs: list[Any] = [
        recording.input(
            a.name,
            a.shape(robot),
            size_of(a, sizes),
            unit_vectors=a.unit_vectors(robot),
            symmetric=a.values.is_symmetric,
            switches=a.values.is_switch,
        )
        for a in arguments
    ]
    parameters = parameter_inputs(recording, robot, sizes)
    tree = Tree(robot, values=parameters, friction=joint_friction(robot, common.forces))
    if algorithm.derivative_of:
        algorithm.check_options(options.get("form"), options.keys() - {"form"})
        if algorithm.name.endswith(JVP):
            for name, values in parameters.items():
                port = next(port for port in recording.ports if port.name == name)
                recording.input(f"delta_{name}", values.shape, np.reshape(port.sizes, values.shape))

        def traced(of: str | FunctionRow) -> Graph:
            other = of if isinstance(of, FunctionRow) else function(of)
            same = options.get("form") in other.forms
            names = _chosen_outputs(other, robot, None)
            return _traced(asked._replace(algorithm=other, chosen=names, options=options if same else {}))

        results: Sequence[Any] = derived(recording, robot, algorithm.name, traced)
    else:
        results = algorithm(tree, *(values[()] for values in inputs), **options)
    shapes = {argument.name: argument.shape(robot) for argument in algorithm.outputs} | _products(algorithm, robot)
    outputs = {
        name: np.asarray(result, dtype=object).reshape(shape)
        for (name, shape), result in zip(shapes.items(), results, strict=True)
        if name in chosen
    }
    rubs = robot.friction_speed and friction_in(robot.uncoupled())
    own = (Friction(speed=robot.friction_speed),) if rubs else ()
    return replace(recording.graph(outputs), forces=common.forces or own)
