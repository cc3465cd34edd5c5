"""Latency of a single sample through the shell around a datapath."""

from __future__ import annotations

from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord


def around(design: DesignRecord[DatapathBody]) -> tuple[int, int]:
    """Return the cycles of a single sample in the shell before the datapath and after it."""
    axi = design.axi
    assert axi is not None
    return axi.beats.input + axi.conversion.input + 3, axi.conversion.output + 8


def stream_cycles(design: DesignRecord[DatapathBody], inside: int) -> tuple[int, int]:
    """Return the smallest and the largest latency of a single sample, from the first beat in to the first beat out of a
    shell. inside: those in the datapath, overflow bits included. A sample waits for the next slot, and where there are
    several functions a result may wait a cycle for its step."""
    least = inside + sum(around(design))
    return least, least + design.body.ii - 1 + (len(design.functions) > 1)
