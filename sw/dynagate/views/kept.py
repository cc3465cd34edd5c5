"""A design's folder -> its `Build`, planned again from design.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from dynagate.design.design import Design
from dynagate.design.files import REBUILD, DesignError, load
from dynagate.design.rebuilt import formatted_design, robot_of
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.graph.region import Region
from dynagate.hw.build import Build
from dynagate.hw.plan import Plan, Stages, plan
from dynagate.hw.schedule import MOST_STAGES
from dynagate.hw.units.table import HARDWARE, Own
from dynagate.integrators.turn import graph_of

Step = Callable[[str], Any]


def kept_build(path: str | PathLike[str], step: Step | None = None) -> Build:
    """The build of a folder that holds design.json. The schedule is computed again and compared with the one in
    design.json.

    path: of the folder, or of design.json in it. step: called with what is about to happen. Raises DesignError: as
    `design.rebuilt.formatted_design`, or the schedule is not the one in design.json.
    """
    say = step or (lambda text: None)
    place = Path(path)
    say(f"reading {place}")
    design = load(place)
    formatted = formatted_design(place, graph_of=graph_of)
    robot = robot_of(design)
    for planned in _plans(formatted, design, say):
        if _ready(planned) == [node.ready for node in design.nodes]:
            folder = place if place.is_dir() else place.parent
            bounds: dict[str, Any] = {name: None if row is None else tuple(row) for name, row in design.region.items()}
            return Build(folder, robot, Region(robot, **bounds), formatted, planned, design)
    raise DesignError(f"{place} has a schedule that its robot and function do not give again; {REBUILD}")


def _plans(formatted: FormattedGraph, design: Design, say: Step) -> Iterator[Plan]:
    """Plans without extra register stages, and with those that the design's cycles show."""
    say("scheduling and binding")
    planned = plan(formatted, design.ii)
    yield planned
    multiply = next(
        (design.cycles[name] - unit.latency for name, unit in planned.classes.items() if unit.kind == "multiply"), 0
    )
    most = min((gap - 1 for gap in _sums(formatted, design)), default=0)
    if not 0 <= multiply <= MOST_STAGES:
        return
    for add in range(min(most, MOST_STAGES), -1, -1):
        if multiply or add:
            say(f"scheduling with {multiply} and {add} more register stages")
            yield plan(formatted, design.ii, Stages(multiply, add))


def _sums(formatted: FormattedGraph, design: Design) -> Iterator[int]:
    """Per sum, the cycles from its last operand to its result: its latency at least."""
    for i, node in enumerate(formatted.graph.nodes):
        operands = [ready for a in node.args if (ready := design.nodes[a].ready) is not None]
        result = design.nodes[i].ready
        if isinstance(HARDWARE[node.op], Own) and operands and result is not None:
            yield result - max(operands)


def _ready(planned: Plan) -> list[int | None]:
    """Per node, the cycle from which it can be read, as design.json has it."""
    return [planned.ready(i) if i in planned.position else None for i in range(len(planned.formatted.graph))]
