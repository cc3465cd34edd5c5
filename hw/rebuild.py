"""A built design again from its folder."""

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
    """Return the design of a folder, as `dynagate.build` returned it. It is scheduled again.

    Args:
        path: Path of the folder, or of design.json in it.
        progress: Function that receives a line of text before each slow stage.
        record: The record of the folder, if it is read already.

    Raises:
        DesignError: The design is damaged, another version of dynagate built it, or its record does not hold all that
            the design was built with: its schedule differs, or it is a solver's program.
    """
    place = Path(path)
    progress(f"reading {place}")
    record = record or load(place)
    folder = place if place.is_dir() else place.parent
    hardware = body_row(record.body.kind).hardware().rebuild(record, folder, progress)
    return Design(folder, robot_of(record), region_of(record), record, hardware)
