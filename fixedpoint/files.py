"""Formats as a file that people can read and change, and that the hardware build takes."""

from __future__ import annotations

import json
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.graph import Graph

VERSION = 3


class FormatsError(ValueError):
    """A formats file that is missing, damaged, or of another graph; the text names the file and the fault."""


def write_formats(formatted: FormattedGraph, path: str | PathLike[str]) -> None:
    """One line per node, by its name: [width, frac]; of a constant [integer, width, frac]; of an input [low, high]."""
    graph = formatted.graph

    def listed(entries: dict[str, Any]) -> str:
        lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items()]
        return "{\n" + ",\n".join(lines) + "\n }"

    name = [node.name for node in graph.nodes]
    parts: dict[str, dict[str, Any]] = {
        "formats": {name[i]: [f.width, f.frac] for i, f in enumerate(formatted.formats)},
        "constants": {name[i]: [value, f.width, f.frac] for i, (value, f) in formatted.constants.items()},
        "bounds": {name[i]: list(bounds) for i, bounds in formatted.bounds.items()},
    }
    arithmetic = asdict(formatted.arithmetic)
    head = {"version": VERSION, "robot": graph.robot, "function": graph.name, "arithmetic": arithmetic}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    lines += [f" {json.dumps(key)}: {listed(entries)}" for key, entries in parts.items()]
    Path(path).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read_formats(graph: Graph, path: str | PathLike[str]) -> FormattedGraph:
    """The formats of a graph. Raises FormatsError where the file is not one of this graph, GraphError where a format
    cannot hold what it must."""
    path = Path(path)
    try:
        content = json.loads(path.read_text())
        if content["version"] != VERSION:
            raise FormatsError(f"{path} has version {content['version']}; expected {VERSION}")
        found = {key: content[key] for key in ("robot", "function", "arithmetic", "formats", "constants")}
        bounds = content["bounds"]
    except FileNotFoundError:
        raise FormatsError(f"no formats at {path}; expected a file that write_formats made") from None
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise FormatsError(f"{path} is not a formats file: {error!r}") from None
    if (found["robot"], found["function"]) != (graph.robot, graph.name):
        raise FormatsError(f"{path} is for {found['robot']} {found['function']}; expected {graph.robot} {graph.name}")
    place = {node.name: i for i, node in enumerate(graph.nodes)}
    for part in (found["formats"], found["constants"], bounds):
        for name in part:
            if name not in place:
                raise FormatsError(f"{path} has a format for '{name}', which the graph does not have: trace it alike")
    missing = [node.name for node in graph.nodes if node.name not in found["formats"]]
    if missing:
        raise FormatsError(f"{path} has no format for node '{missing[0]}': trace the graph alike")
    formats = tuple(Format(*found["formats"][node.name]) for node in graph.nodes)
    constants = {place[name]: (int(value), Format(*fmt)) for name, (value, *fmt) in found["constants"].items()}
    return FormattedGraph(
        graph,
        formats,
        dict(sorted(constants.items())),
        {place[name]: (float(low), float(high)) for name, (low, high) in bounds.items()},
        Arithmetic(**found["arithmetic"]),
    ).check()
