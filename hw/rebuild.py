"""Rebuild a design from its folder."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from dynagate.base.progress import Progress, quiet
from dynagate.design.bodies import body_row
from dynagate.design.design import DesignRecord
from dynagate.design.files import load
from dynagate.design.rebuilt import region_of, robot_of
from dynagate.hw.designs import Design


def rebuild(
    path: str | PathLike[str], progress: Progress = quiet, *, record: DesignRecord[Any] | None = None
) -> Design[Any]:
    """Schedule the design of a folder again and return it, as `dynagate.build` returned it.

    Args:
        path: Path of the folder, or of design.json in it.
        progress: Function that receives a line of text before each slow stage.
        record: Record of the folder, if it was read before.

    Raises:
        DesignError: The design is damaged, another version of dynagate built it, its schedule differs, or it is a
            solver's program, whose record does not hold all inputs of the build.
    """
    place = Path(path)
    progress(f"reading {place}")
    record = record or load(place)
    folder = place if place.is_dir() else place.parent
    hardware = body_row(record.body.kind).hardware().rebuild(record, folder, progress)
    return Design(folder, robot_of(record), region_of(record), record, hardware)
