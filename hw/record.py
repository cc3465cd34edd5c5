"""Make the record of a new design: the fields that all bodies share, around those of one body."""

from __future__ import annotations

from dataclasses import asdict, fields
from importlib.metadata import version
from typing import Any, TypeVar

import dynagate
from dynagate.design.design import AxiStreams, Body, ChosenFormats, DesignRecord, Sides, Stream, Versions
from dynagate.design.files import FORMAT_VERSION, sealed
from dynagate.design.source import source_digest
from dynagate.graph.region import Region

KnownBody = TypeVar("KnownBody", bound=Body)


def record_of(
    body: KnownBody,
    region: Region,
    function: str,
    options: dict[str, Any],
    formats: ChosenFormats,
    *,
    latency: int,
    stream: Sides[Stream],
    axi: AxiStreams | None = None,
) -> DesignRecord[KnownBody]:
    """Return the record of a design with its hash, which covers the generator's source too.

    Args:
        body: Description of its hardware.
        region: Robot, and the states that the formats are for.
        function: Full name of the function; for several functions, their names separated by commas.
        options: Options of the algorithm that differ from their defaults.
        formats: How the formats were chosen.
        latency: Cycles from a sample to its results.
        stream: Fields of samples and results.
        axi: Streams of the shell, if the design has one.
    """
    return sealed(
        DesignRecord(
            format=FORMAT_VERSION,
            versions=Versions(dynagate.__version__, source_digest(), version("amaranth")),
            robot=asdict(region.robot),
            region={each.name: getattr(region, each.name) for each in fields(region) if each.name != "robot"},
            function=function,
            options={key: options[key] for key in sorted(options)},
            formats=formats,
            latency=latency,
            stream=stream,
            axi=axi,
            body=body,
        )
    )
