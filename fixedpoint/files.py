"""Formats as a file that people can read and change, and that the hardware build takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from dynagate.base.errors import Error
from dynagate.base.storage import read_json, write
from dynagate.base.untrusted import plain_text
from dynagate.fixedpoint.assign import LARGEST_WORD, FormattedGraph
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.graph import Graph
from dynagate.graph.late import late_terms_last
from dynagate.graph.ops import TRIG

VERSION = 3
PARTS = ("arithmetic", "formats", "constants", "bounds")

WIDEST = 48
"""Bits of a node; an input or output has at most LARGEST_WORD, of which a field of a stream holds no more."""
FINEST = 128
"""Bits right of the binary point, or zeros left of it: more than any quantity of a robot needs."""
FINEST_SINE = 48
"""The same of a sine or cosine, whose table doubles with every three bits."""


class FormatsError(Error, ValueError):
    """A formats file that is missing, damaged, or of another graph; the text names the file and the fault."""


def write_formats(formatted: FormattedGraph, path: str | PathLike[str]) -> None:
    """One line per node, by its name: [width, frac]; of a constant [integer, width, frac]; of an input [low, high].
    Raises FormatsError where the file cannot be written."""

    def listed(entries: dict[str, Any]) -> str:
        lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items()]
        return "{\n" + ",\n".join(lines) + "\n }"

    content = described(formatted)
    parts = {key: content.pop(key) for key in ("formats", "constants", "bounds")}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()]
    lines += [f" {json.dumps(key)}: {listed(entries)}" for key, entries in parts.items()]
    write(Path(path), "{\n" + ",\n".join(lines) + "\n}\n", FormatsError)


def described(formatted: FormattedGraph) -> dict[str, Any]:
    """What `write_formats` writes, as `formats_of` reads it."""
    graph = formatted.graph
    name = [node.name for node in graph.nodes]
    return {
        "version": VERSION,
        "robot": graph.robot,
        "function": graph.name,
        "arithmetic": asdict(formatted.arithmetic),
        "formats": {name[i]: [f.width, f.frac] for i, f in enumerate(formatted.formats)},
        "constants": {name[i]: [value, f.width, f.frac] for i, (value, f) in formatted.constants.items()},
        "bounds": {name[i]: list(bounds) for i, bounds in formatted.bounds.items()},
    }


def read_formats(graph: Graph, path: str | PathLike[str]) -> FormattedGraph:
    """The formats of a graph, whose late terms become last as in `assign`.

    Raises FormatsError: the file cannot be read, is not one of this graph, or has a format that its node cannot have.
    """
    return formats_of(graph, read_json(Path(path), FormatsError, "formats", "a file that write_formats made"), path)


def formats_of(graph: Graph, content: Mapping[str, Any], path: str | PathLike[str]) -> FormattedGraph:
    """`read_formats` of what such a file holds. path: where from, for errors."""
    path = Path(path)
    graph = late_terms_last(graph)
    if content.get("version") != VERSION:
        raise FormatsError(f"{path} has version {content.get('version')!r}; expected {VERSION}")
    for part in PARTS:
        if not isinstance(content.get(part), dict):
            raise FormatsError(
                f"{path} is not a formats file: '{part}' is {content.get(part)!r:.40}; expected an object"
            )
    if (content.get("robot"), content.get("function")) != (graph.robot, graph.name):
        other = plain_text(f"{content.get('robot')} {content.get('function')}")
        raise FormatsError(f"{path} is for {other}; expected {plain_text(graph.robot)} {graph.name}")
    place = {node.name: i for i, node in enumerate(graph.nodes)}
    _check_names(path, content, place)
    constants = {
        place[name]: _constant(entry, f"{path}: node '{name}'") for name, entry in content["constants"].items()
    }
    try:
        return FormattedGraph(
            graph,
            _formats(path, content["formats"], graph),
            dict(sorted(constants.items())),
            {place[name]: _bounds(entry, f"{path}: input '{name}'") for name, entry in content["bounds"].items()},
            Arithmetic(**content["arithmetic"]),
        ).check()
    except FormatsError:
        raise
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:  # of the arithmetic, and of the check
        raise FormatsError(f"{path}: {error}") from None


def _check_names(path: Path, content: Mapping[str, Any], place: Mapping[str, int]) -> None:
    """Every node has a format, and what has anything is a node."""
    for part in PARTS[1:]:
        for name in content[part]:
            if name not in place:
                raise FormatsError(f"{path} has a format for {name!r}, which the graph does not have: trace it alike")
    for name in place:
        if name not in content["formats"]:
            raise FormatsError(f"{path} has no format for node '{name}': trace the graph alike")


def _formats(path: Path, entries: Mapping[str, Any], graph: Graph) -> tuple[Format, ...]:
    on_streams = {*graph.input_nodes, *graph.output_nodes}
    formats = []
    for i, node in enumerate(graph.nodes):
        widest = LARGEST_WORD if i in on_streams else WIDEST
        finest = FINEST_SINE if node.op in TRIG else FINEST
        formats.append(_format(entries[node.name], f"{path}: node '{node.name}'", widest, finest))
    return tuple(formats)


def _format(entry: Any, where: str, widest: int = WIDEST, finest: int = FINEST) -> Format:
    width, frac = _numbers(entry, (int,), where, "[width, frac], two integers", 2)
    if not 2 <= width <= widest:
        raise FormatsError(f"{where} has {width} bits; expected 2 to {widest}")
    if not -FINEST <= frac <= finest:
        raise FormatsError(f"{where} has {frac} bits right of the binary point; expected {-FINEST} to {finest}")
    return Format(width, frac)


def _constant(entry: Any, where: str) -> tuple[int, Format]:
    value, *rest = _numbers(entry, (int,), where, "[integer, width, frac], three integers", 3)
    return value, _format(rest, where)


def _bounds(entry: Any, where: str) -> tuple[float, float]:
    low, high = _numbers(entry, (int, float), where, "[low, high], two numbers", 2)
    return float(low), float(high)


def _numbers(entry: Any, kinds: tuple[type, ...], where: str, expected: str, count: int) -> list[Any]:
    """A list of so many numbers of these types; `True`, which Python counts as a number, is none."""
    if not isinstance(entry, list) or len(entry) != count or any(type(number) not in kinds for number in entry):
        raise FormatsError(f"{where} has {entry!r:.60}; expected {expected}")
    return entry
