"""Latency of a single sample through the shell around a datapath, in cycles."""

from __future__ import annotations

from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord


def around(design: DesignRecord[DatapathBody]) -> tuple[int, int]:
    """Return the cycles of a single sample in the shell before the datapath and after it."""
    axi = design.axi
    assert axi is not None
    return axi.beats.input + axi.conversion.input + 3, axi.conversion.output + 8


def stream_cycles(design: DesignRecord[DatapathBody], inside: int) -> tuple[int, int]:
    """Return the smallest and largest latency of a single sample, from the first beat in to the first beat out of a
    shell.

    A sample waits for the next slot. With several functions, a result may wait a cycle for its output.

    Args:
        design: The record.
        inside: Latency of the datapath in cycles, including overflow bits.
    """
    least = inside + sum(around(design))
    return least, least + design.body.ii - 1 + (len(design.functions) > 1)
