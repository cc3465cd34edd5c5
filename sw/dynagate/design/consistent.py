"""Check that the parts of a design record are consistent.

Every size and position is compared with the values that determine it. This module has the checks that all kinds of
hardware share; each `Body` adds its own.

A design may come from anybody, with a correct hash for any content. Host and simulation allocate memory by some of its
numbers and index it by others, also in C.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from dynagate.design.design import DesignRecord, Field, Stream, StreamPort
from dynagate.fixedpoint.assign import LARGEST_WORD
from dynagate.graph.packing import ZERO

WIDEST, FINEST = 64, 1000
"""Upper bounds of a node's width in bits and of the magnitude of its fraction bits, beyond any design that
is built.
"""


def faults(design: DesignRecord[Any]) -> Iterator[str]:
    """Return the inconsistencies of a record, each in a few words that name the field. Later ones may follow from
    earlier ones.
    """
    if not isinstance(design.robot.get("name"), str):
        yield f"robot.name is {design.robot.get('name')!r:.40}; expected a text"
    yield from repeated("functions", [function.name for function in design.functions])
    yield from repeated("codes of functions", [function.code for function in design.functions])
    yield from design.body.faults(design)


def stream_faults(where: str, stream: Stream, lowest: int) -> Iterator[str]:
    """Check the fields and ports of a stream of any record: a design's or a program's.

    Args:
        where: Name of the stream for the texts.
        stream: The stream.
        lowest: Smallest field index that a port may list: ZERO if entries may be always zero, else 0.

    Yields:
        A text for each inconsistency. The position of each field depends on the record, so its caller checks it.
    """
    if not stream.fields or not stream.ports:
        yield f"{where} is empty; expected a field and a port or more"
    for k, field in enumerate(stream.fields):
        yield from (f"{where}.fields[{k}] {fault}" for fault in _of_field(field))
    for port in stream.ports:
        yield from (f"{where}.ports, {port.name!r}: {fault}" for fault in port_faults(port, lowest, len(stream.fields)))
    yield from repeated(f"{where}.ports", [port.name for port in stream.ports])
    listed = [index for port in stream.ports for index in port.fields if index != ZERO]
    if set(listed) != set(range(len(stream.fields))):
        yield f"{where}.ports have {len(set(listed))} fields; expected each of {len(stream.fields)}"
    elif lowest == 0 and len(listed) != len(stream.fields):
        yield f"{where}.ports list a field twice; expected each of {len(stream.fields)} once"


def _of_field(field: Field) -> Iterator[str]:
    yield from format_faults(field.width, field.frac, LARGEST_WORD)
    low, high = field.range
    if not low <= high:
        yield f"is from {field.low} to {field.high}; expected an interval"
    elif 2 <= field.width <= LARGEST_WORD and abs(field.frac) <= FINEST:
        largest = math.ldexp(1.0, field.width - 1 - field.frac)
        for value in (field.low, field.high):
            if value is not None and abs(value) > largest + math.ldexp(1.0, -field.frac):
                yield f"is from {field.low} to {field.high}, of which its format holds -{largest:g} to {largest:g}"
                break


def format_faults(width: int, frac: int, widest: int = WIDEST) -> Iterator[str]:
    """Yield what is wrong with the format of a number, whose width is at most `widest` bits."""
    if not 2 <= width <= widest:
        yield f"has width {width}; expected 2 to {widest}"
    if abs(frac) > FINEST:
        yield f"has frac {frac}; expected {-FINEST} to {FINEST}"


def port_faults(port: StreamPort, lowest: int, count: int) -> Iterator[str]:
    """Yield what is wrong with a port.

    Args:
        port: The port.
        lowest: Smallest field index that it may list.
        count: Number of fields in the stream.
    """
    if any(size < 1 for size in port.shape) or math.prod(port.shape) != len(port.fields):
        yield f"{len(port.fields)} fields for shape {port.shape}"
    for index in port.fields:
        if not lowest <= index < count:
            yield f"field {index}; expected {lowest} to {count - 1}"
    for start, stop in port.unit_vectors:
        if not 0 <= start < stop <= len(port.fields):
            yield f"unit vector from {start} to {stop} of {len(port.fields)} entries"


def repeated(what: str, names: Sequence[object]) -> Iterator[str]:
    """Yield a text if names occur twice."""
    if len(set(names)) != len(names):
        yield f"{what} hold one of them twice"
