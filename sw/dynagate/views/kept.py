"""A design's folder -> its `Build`, planned again from design.json."""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress, quiet
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import Design
from dynagate.design.files import REBUILD, DesignError, load_datapath
from dynagate.design.rebuilt import formatted_design, robot_of
from dynagate.graph.region import Region
from dynagate.hw.build import Build
from dynagate.hw.plan import Plan, Stages, plan
from dynagate.integrators.turn import graph_of


def kept_build(path: str | PathLike[str], progress: Progress | None = None) -> Build:
    """The build of a folder that holds design.json. The schedule is computed again and compared with the one in
    design.json.

    path: of the folder, or of design.json in it. progress: called with what is about to happen. Raises DesignError: as
    `design.rebuilt.formatted_design`, or the schedule is not the one in design.json.
    """
    progress = progress or quiet
    place = Path(path)
    progress(f"reading {place}")
    design = load_datapath(place)
    formatted = formatted_design(place, graph_of=graph_of)
    robot = robot_of(design)
    progress("scheduling and binding")
    planned = plan(formatted, design.body.ii, _stages(place, design))
    if [_ready(planned, i) for i in range(len(design.body.nodes))] != [node.ready for node in design.body.nodes]:
        raise DesignError(f"{place} has a schedule that its robot and function do not give again; {REBUILD}")
    folder = place if place.is_dir() else place.parent
    bounds: dict[str, Any] = {
        name: tuple(row) if isinstance(row, list | tuple) else row for name, row in design.region.items()
    }
    return Build(folder, robot, Region(robot, **bounds), formatted, planned, design)


def _stages(place: Path, design: Design[DatapathBody]) -> Stages:
    try:
        return Stages(**asdict(design.body.stages))
    except ArgumentError as error:
        raise DesignError(f"{place} is not a design: {error}; {REBUILD}") from None


def _ready(planned: Plan, node: int) -> int | None:
    """The cycle from which a node can be read, as design.json has it."""
    return planned.ready(node) if node in planned.position else None
