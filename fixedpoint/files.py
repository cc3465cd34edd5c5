"""Formats as a file that people can read and change, and that the hardware build takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from dynagate.fixedpoint.assign import LARGEST_WORD, FormattedGraph
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.graph import Graph

VERSION = 2
PARTS = ("formats", "constants", "bounds", "dropped")
LARGEST_FRAC = 1000
"""Beyond it the value of a step is no float."""


class FormatsError(ValueError):
    """A formats file that is missing, damaged, or of another graph; the text names the file and the fault."""


def write_formats(formatted: FormattedGraph, path: str | PathLike[str]) -> None:
    """One line per node, by its name: [width, frac]; of a constant [integer, width, frac]; of an input [low, high]; of
    what reads operands without their lowest bits [operand, bits] for each."""
    graph = formatted.graph

    def listed(entries: dict[str, Any]) -> str:
        lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items()]
        return "{\n" + ",\n".join(lines) + "\n }"

    name = [node.name for node in graph.nodes]
    dropped: dict[str, list[list[int]]] = {}
    for (i, k), bits in sorted(formatted.dropped.items()):
        dropped.setdefault(name[i], []).append([k, bits])
    parts: dict[str, dict[str, Any]] = {
        "formats": {name[i]: [f.width, f.frac] for i, f in enumerate(formatted.formats)},
        "constants": {name[i]: [value, f.width, f.frac] for i, (value, f) in formatted.constants.items()},
        "bounds": {name[i]: list(bounds) for i, bounds in formatted.bounds.items()},
        "dropped": dropped,
    }
    arithmetic = asdict(formatted.arithmetic)
    head = {"version": VERSION, "robot": graph.robot, "function": graph.name, "arithmetic": arithmetic}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    lines += [f" {json.dumps(key)}: {listed(entries)}" for key, entries in parts.items()]
    Path(path).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read_formats(graph: Graph, path: str | PathLike[str]) -> FormattedGraph:
    """The formats of a graph. Raises FormatsError where the file is damaged or not one of this graph, GraphError where
    a format cannot hold what it must."""
    path = Path(path)
    try:
        content = json.loads(path.read_text())
        if content["version"] != VERSION:
            raise FormatsError(f"{path} has version {content['version']}; expected {VERSION}")
        parts = {key: dict(content[key]) for key in PARTS}
        robot, function, arithmetic = content["robot"], content["function"], Arithmetic(**content["arithmetic"])
    except FormatsError:
        raise
    except FileNotFoundError:
        raise FormatsError(f"no formats at {path}; expected a file that write_formats made") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FormatsError(f"{path} is not a formats file: {error!r}") from None
    if (robot, function) != (graph.robot, graph.name):
        raise FormatsError(f"{path} is for {robot} {function}; expected {graph.robot} {graph.name}")
    place = {node.name: i for i, node in enumerate(graph.nodes)}
    for part in parts.values():
        for name in part:
            if name not in place:
                raise FormatsError(f"{path} has a format for '{name}', which the graph does not have: trace it alike")
    missing = [node.name for node in graph.nodes if node.name not in parts["formats"]]
    if missing:
        raise FormatsError(f"{path} has no format for node '{missing[0]}': trace the graph alike")

    def read(part: str, entry: Callable[[Any], Any]) -> dict[int, Any]:
        entries = {}
        for name, value in parts[part].items():
            try:
                entries[place[name]] = entry(value)
            except (ValueError, TypeError) as error:
                raise FormatsError(f"{path}: {part} of '{name}' are {json.dumps(value)} ({error})") from None
        return dict(sorted(entries.items()))

    formats, dropped = read("formats", _format), read("dropped", _dropped)
    return FormattedGraph(
        graph,
        tuple(formats.values()),
        read("constants", _constant),
        read("bounds", _bounds),
        arithmetic,
        {(i, k): bits for i, reads in dropped.items() for k, bits in reads},
    ).check()


def _format(entry: Any) -> Format:
    width, frac = _whole(entry, 2)
    if not 2 <= width <= LARGEST_WORD or abs(frac) > LARGEST_FRAC:
        raise ValueError(f"expected 2 to {LARGEST_WORD} bits, and at most {LARGEST_FRAC} after the binary point")
    return Format(width, frac)


def _constant(entry: Any) -> tuple[int, Format]:
    value, width, frac = _whole(entry, 3)
    return value, _format([width, frac])


def _bounds(entry: Any) -> tuple[float, float]:
    low, high = (float(value) for value in entry)
    return low, high


def _dropped(entry: Any) -> list[list[int]]:
    reads = [_whole(read, 2) for read in entry]
    if any(operand < 0 for operand, _ in reads):
        raise ValueError("expected operands from 0")
    return reads


def _whole(entry: Any, count: int) -> list[int]:
    if not isinstance(entry, list) or len(entry) != count or any(type(value) is not int for value in entry):
        raise ValueError(f"expected {count} whole numbers")
    return entry
