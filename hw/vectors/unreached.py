"""Name what the samples of a datapath's bench do not reach: overflows of passes and operations, and table entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dynagate.hw.vectors.built import BuiltDatapath
from dynagate.hw.vectors.directed import Uncovered, uncovered
from dynagate.hw.vectors.drawn import Vectors
from dynagate.hw.vectors.vectors import functions_of

TITLE = "## Not reached by the bench"
"""Title of the section of the datasheet with the lines of `unreached_lines`."""


class Unreached(NamedTuple):
    """Points of one function that the samples do not reach."""

    function: str
    """Name of the function; empty if the datapath has only one."""
    points: Uncovered


def unreached(built: BuiltDatapath, own: Vectors) -> list[Unreached]:
    """Return what the vectors of a bare datapath do not reach, by function."""
    codec, nodes = built.design.input.codec, built.graph.input_nodes
    words = own.inputs.reshape(len(own.ends), -1)
    integers = dict(zip(nodes, codec.integers(words, range(len(nodes))).T, strict=True))
    names = [function.name for function in built.design.functions]
    return [
        Unreached(names[own.ends[part.rows[0]]] if names else "", uncovered(part.formatted, part.inputs))
        for part in functions_of(built, integers, own.ends)
    ]


def unreached_lines(each: Unreached) -> Iterator[str]:
    """Yield a line of text for each kind of point that samples do not reach."""
    points, where = each.points, f" of {each.function}" if each.function else ""
    if points.scopes:
        yield f"passes{where} that may overflow, and overflow in no sample: {', '.join(points.scopes)}"
    if points.impossible_scopes:
        yield f"passes{where} that no input overflows: {', '.join(points.impossible_scopes)}"
    missed, operations = points.overflows
    if missed:
        yield f"operations{where} of which no sample shows the overflow alone: {missed} of {operations}"
    for name, (never, others) in points.unread.items():
        if len(others):
            yield f"entries of table {name}{where} that an input may read, and no sample does: {len(others)}"
        if len(never):
            yield f"entries of table {name}{where} that no input reads: {len(never)}"


def listed_unreached(datasheet: str) -> list[str]:
    """Return the lines of `unreached_lines` in a datasheet."""
    _, _, section = datasheet.partition(f"{TITLE}\n")
    return [line[2:] for line in section.partition("\n## ")[0].splitlines() if line.startswith("* ")]
