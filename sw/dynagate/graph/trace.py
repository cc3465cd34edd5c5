"""From a robot and the name of a function to the checked graph: the algorithm is run on recorded expressions."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.dynamics import SYMMETRIC, AlgorithmOptions, Function, Tree, function
from dynagate.dynamics.frames import Frame
from dynagate.graph.choose import FRAME_SEARCHES, FRAMES
from dynagate.graph.derived import derived
from dynagate.graph.graph import Graph
from dynagate.graph.recorder import Recording, Step
from dynagate.graph.sizes import input_sizes
from dynagate.robot import Robot


def trace(
    robot: Robot,
    name: str | Function,
    *,
    form: str | None = None,
    frame: Frame | None = None,
    mass: str | None = None,
    prefix: bool = False,
    external_forces: bool = False,
    dt: float | None = None,
    integrator: str | None = None,
    step: Step | None = None,
) -> Graph:
    """The checked graph of one function of one robot: a listed one by its name, or one of your own.

    form, frame, mass, prefix, external_forces, dt, integrator: as in `dynamics.AlgorithmOptions`. Besides the frames of
    `dynamics.frames`, "fewest" finds the one of each chain that takes the fewest operations and "accurate" the one that
    errs least in float32.
    step: called with what is about to happen, where that takes seconds: a chain of a hundred joints has 350,000
    operations in its forward dynamics (and 25,000 in its form "aba").
    Raises ValueError for a name that the function table does not list or an option that the function does not take,
    RobotError where M is needed and has no inverse.
    """
    algorithm = name if isinstance(name, Function) else function(name)
    options = AlgorithmOptions(form, frame, mass, prefix, dt=dt, integrator=integrator).as_dict()
    if isinstance(frame, str):
        if frame not in FRAMES:
            raise ArgumentError(f"frame '{frame}'; expected {', '.join(FRAMES)}, a link index, or a map of them")
        if frame in FRAME_SEARCHES:
            options["frame"] = FRAME_SEARCHES[frame](robot, trace)
    with _without_collection():
        return _traced(robot, algorithm, external_forces, step or (lambda text: None), options)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Nothing that is recorded is garbage; looking for some takes a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _traced(robot: Robot, algorithm: Function, external_forces: bool, step: Step, options: dict[str, Any]) -> Graph:
    recording = Recording(algorithm.name, robot.name, step)
    tree = Tree(robot)
    arguments = algorithm.inputs_with(external_forces)
    inputs: list[Any] = [recording.input(a.name, a.shape(robot), symmetric=a.kind == SYMMETRIC) for a in arguments]
    if algorithm.derivative_of:
        algorithm.check_options(options.get("form"), options.keys() - {"form"})

        def traced(of: str) -> Graph:
            same = of == algorithm.derivative_of or function(of).derivative_of == algorithm.derivative_of
            return _traced(robot, function(of), external_forces, step, options if same else {})

        results: Sequence[Any] = derived(recording, robot, algorithm.name, traced)
    else:
        results = algorithm(tree, *(values[()] for values in inputs), **options)
    outputs = {
        argument.name: np.asarray(result, dtype=object).reshape(argument.shape(robot))
        for argument, result in zip(algorithm.outputs, results, strict=True)
    }
    unit_vectors = {argument.name: argument.unit_vectors(robot) for argument in arguments}
    sizes = dict(zip(recording.inputs, input_sizes(tree, arguments), strict=True))
    return recording.graph(outputs, unit_vectors, sizes)
