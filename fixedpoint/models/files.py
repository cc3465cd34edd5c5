"""Read and write formats as a JSON file that people can edit: formats of a robot's functions, graphs or loops of
graphs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from dynagate.base.errors import Error
from dynagate.base.storage import read_json, write
from dynagate.base.untrusted import plain_text
from dynagate.fixedpoint.assign import LARGEST_WORD
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.fixedpoint.formatted import Formatted, FormattedGraph
from dynagate.fixedpoint.models.loops import FormattedLoop, formatted_loop
from dynagate.graph import Graph
from dynagate.graph.blocks import Blocks
from dynagate.graph.critical_path import late_terms_last
from dynagate.graph.ops import OPS, TRIG

FORMATS = "formats.json"
"""Name of the file with a design's formats, in the design's folder."""
VERSION = 4
"""Version of the files that are written."""
OF_ONE_GRAPH = 3
"""Version of files that hold one graph without options, which can still be read."""
PARTS = ("formats", "constants", "bounds")
"""Sections of a graph."""
TOLERANCE = "tolerance"
"""Option that a build may find and that a file then holds; a request may omit it."""

WIDEST = 48
"""Largest word length of a node in bits; inputs and outputs have at most LARGEST_WORD, the limit of a stream's
field.
"""
FINEST = 128
"""Largest number of bits right of the binary point, or of zeros left of it; no quantity of a robot needs more."""
OFF = 2.0
"""Units in the last place by which a constant may differ from the graph's."""
FINEST_SINE = 48
"""Largest number of fraction bits of a sine or cosine, whose table doubles with every three bits."""


class FormatsError(Error, ValueError):
    """A formats file is missing, damaged, or of another graph; the text names the file and the error."""


def write_formats(
    formatted: Formatted | Collection[FormattedGraph],
    path: str | PathLike[str],
    options: Mapping[str, Any] | None = None,
) -> None:
    """Write formats: a line per node with its name and [width, frac]; [integer, width, frac] of a constant; [low, high]
    of an input.

    Args:
        formatted: Formats of a function, or of several functions of one robot.
        path: Path of the file.
        options: Options that the functions were traced with. Options of a file without them are not checked.

    Raises:
        FormatsError: The file cannot be written.
    """
    functions = formatted if isinstance(formatted, Collection) else (formatted,)
    write(Path(path), text_of(described(functions, options)), FormatsError)


def described(
    functions: Collection[Formatted],
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the content that `write_formats` writes and `FormatsFile` reads.

    Args:
        functions: Formats of each function.
        options: Options that the functions were traced with.
    """
    first = next(iter(functions))
    return {
        "version": VERSION,
        "robot": _name_of(first)[0],
        "arithmetic": asdict(first.arithmetic),
        "functions": {
            _name_of(each)[1]: {
                "options": None if options is None else _as_json(options),
                "graphs": [_described(graph) for graph in each.graphs()],
            }
            for each in functions
        },
    }


def text_of(content: Mapping[str, Any]) -> str:
    """Return the text of a file with this content."""
    return _lines(content, "\n") + "\n"


def _lines(value: Any, end: str) -> str:
    """Return JSON with a line for each entry of objects and lists that hold objects or lists."""
    entries = list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else []
    if not any(isinstance(entry, Mapping | list) for entry in entries):
        return json.dumps(value)
    inner = [_lines(entry, f"{end} ") for entry in entries]
    if isinstance(value, Mapping):
        inner = [f"{json.dumps(name)}: {entry}" for name, entry in zip(value, inner, strict=True)]
    first, last = "{}" if isinstance(value, Mapping) else "[]"
    return first + ",".join(f"{end} {entry}" for entry in inner) + end + last


def _name_of(formatted: Formatted) -> tuple[str, str]:
    """Return the robot and the function."""
    return formatted.step.robot, formatted.step.name


def _described(formatted: FormattedGraph) -> dict[str, Any]:
    """Return the section of a graph."""
    name = [node.name for node in formatted.graph.nodes]
    return {
        "formats": {name[i]: [f.width, f.frac] for i, f in enumerate(formatted.formats)},
        "constants": {name[i]: [value, f.width, f.frac] for i, (value, f) in formatted.constants.items()},
        "bounds": {name[i]: list(bounds) for i, bounds in formatted.bounds.items()},
    }


def _as_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as JSON stores them."""
    content: dict[str, Any] = json.loads(json.dumps(dict(options)))
    return content


def read_formats(graph: Graph, path: str | PathLike[str]) -> FormattedGraph:
    """Read the formats of a graph.

    Args:
        graph: The graph.
        path: Path of the file.

    Returns:
        The graph with late terms last, as in `assign`, and its formats.

    Raises:
        FormatsError: The file cannot be read, is for another graph, or has a format that its node cannot have.
    """
    return FormatsFile.read(path).graph(graph)


@dataclass(frozen=True)
class FormatsFile:
    """Content of a formats file."""

    path: Path
    """Path of the file, for errors."""
    robot: str
    arithmetic: Arithmetic
    """Rounding and overflow."""
    functions: Mapping[str, Mapping[str, Any]]
    """Options (or None) and the sections of all graphs, by function."""

    @classmethod
    def read(cls, path: str | PathLike[str]) -> FormatsFile:
        """Read a file.

        Raises:
            FormatsError: The file cannot be read, or holds no formats.
        """
        return cls.of(read_json(Path(path), FormatsError, "formats", "a file that write_formats made"), path)

    @classmethod
    def of(cls, content: Mapping[str, Any], path: str | PathLike[str]) -> FormatsFile:
        """Check the content of a file.

        Args:
            content: Content of the file.
            path: Path of the file, for errors.

        Raises:
            FormatsError: It holds no formats.
        """
        path = Path(path)
        if content.get("version") not in (OF_ONE_GRAPH, VERSION):
            raise FormatsError(
                f"{path} has version {content.get('version')!r}; expected {VERSION}", code="DG-FORMAT-018"
            )
        arithmetic = _object(path, content, "arithmetic")
        if content["version"] == OF_ONE_GRAPH:
            content = {**content, "functions": {str(content.get("function")): {"graphs": [content]}}}
        functions = {
            name: _section(path, f"functions, '{plain_text(name)}'", section)
            for name, section in _object(path, content, "functions").items()
        }
        try:
            return cls(path, str(content.get("robot")), Arithmetic(**arithmetic), functions)
        except (TypeError, ValueError) as error:
            raise FormatsError(f"{path}: {error}", code="DG-FORMAT-019") from None

    def word(self, function: str) -> int:
        """Return the largest word length of a function's nodes in bits; 0 if the file lists no formats for it."""
        entries = [entry for graph in self._of(function)["graphs"] for entry in graph["formats"].values()]
        widths = [entry[0] for entry in entries if isinstance(entry, list) and entry and type(entry[0]) is int]
        return max(widths, default=0)

    def options_of(self, robot: str, function: str, requested: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a function, with those that a search found.

        Args:
            robot: Name of the robot.
            function: Name of the function.
            requested: Requested options, which must equal those of the file.

        Raises:
            FormatsError: The file is for another function, or for other options.
        """
        held = self._of(function, robot)["options"]
        if held is None:
            return dict(requested)
        own, options = _as_json(requested), dict(requested)
        if TOLERANCE in held and TOLERANCE not in own:
            own[TOLERANCE] = options[TOLERANCE] = held[TOLERANCE]
        for name in (*own, *held):
            if own.get(name) != held.get(name):
                there, here = (f"{name}={each[name]!r:.40}" if name in each else f"no {name}" for each in (held, own))
                raise FormatsError(f"{self.path} is for {function} with {there}; expected {here}", code="DG-FORMAT-020")
        return options

    def graph(self, graph: Graph) -> FormattedGraph:
        """Return a graph with the formats of the file.

        Raises:
            FormatsError: The file is for another graph, or has a format that its node cannot have.
        """
        sections = self._of(graph.name, graph.robot)["graphs"]
        self._check_count(graph.name, sections, 1)
        return self._formatted(graph, sections[0])

    def loop(self, blocks: Blocks) -> FormattedLoop:
        """Return a loop with the formats of the file.

        Raises:
            FormatsError: The file is for another loop, or has a format that its node cannot have.
        """
        loop = blocks.loop
        sections = self._of(loop.name, loop.robot)["graphs"]
        self._check_count(loop.name, sections, sum(1 for _ in loop.graphs()))
        rest = iter(sections)
        return formatted_loop(blocks, lambda graph: self._formatted(graph, next(rest)))

    def _of(self, function: str, robot: str | None = None) -> Mapping[str, Any]:
        """Return the section of a function. Raise FormatsError if the file is for another robot or lacks the
        function.
        """
        if function not in self.functions or self.robot != (robot or self.robot):
            others = f"{plain_text(self.robot)} {','.join(map(plain_text, self.functions))}"
            expected = plain_text(f"{robot or self.robot} {function}")
            raise FormatsError(f"{self.path} is for {others}; expected {expected}", code="DG-FORMAT-021")
        return self.functions[function]

    def _check_count(self, function: str, sections: list[Any], count: int) -> None:
        if len(sections) != count:
            raise FormatsError(
                f"{self.path} has formats of {len(sections)} graphs for {function}; expected {count}: trace it alike",
                code="DG-FORMAT-022",
            )

    def _formatted(self, graph: Graph, content: Mapping[str, Any]) -> FormattedGraph:
        """Return a graph with the formats of a section."""
        path, graph = self.path, late_terms_last(graph)
        place = {node.name: i for i, node in enumerate(graph.nodes)}
        _check_names(path, content, place)
        constants = {
            place[name]: _constant(entry, f"{path}: node '{name}'") for name, entry in content["constants"].items()
        }
        try:
            formatted = FormattedGraph(
                graph,
                _formats(path, content["formats"], graph),
                dict(sorted(constants.items())),
                {place[name]: _bounds(entry, f"{path}: input '{name}'") for name, entry in content["bounds"].items()},
                self.arithmetic,
            ).check()
        except FormatsError:
            raise
        except (ArithmeticError, IndexError, TypeError, ValueError) as error:  # of the check
            raise FormatsError(f"{path}: {error}", code="DG-FORMAT-023") from None
        _check_constants(path, formatted)
        return formatted


def _object(path: Path, content: Mapping[str, Any], part: str, where: str = "") -> dict[str, Any]:
    """Return an object in the file. Raise FormatsError if the entry is no object."""
    value = content.get(part)
    if not isinstance(value, dict):
        raise FormatsError(
            f"{path} is not a formats file: {where}'{part}' is {value!r:.40}; expected an object", code="DG-FORMAT-024"
        )
    return value


def _section(path: Path, where: str, section: Any) -> dict[str, Any]:
    """Return the options and graphs of a function, checked."""
    graphs = section.get("graphs") if isinstance(section, dict) else None
    if not isinstance(graphs, list) or not graphs or not all(isinstance(graph, dict) for graph in graphs):
        raise FormatsError(
            f"{path} is not a formats file: {where} has no list of graphs, each an object", code="DG-FORMAT-025"
        )
    options = section.get("options")
    if options is not None:
        _object(path, section, "options")
    parts = [{part: _object(path, graph, part) for part in PARTS} for graph in graphs]
    return {"options": options, "graphs": parts}


def _check_names(path: Path, content: Mapping[str, Any], place: Mapping[str, int]) -> None:
    """Check that every node has a format, and that every name belongs to a node."""
    for part in PARTS:
        for name in content[part]:
            if name not in place:
                raise FormatsError(
                    f"{path} has a format for {name!r}, which the graph does not have: trace it alike",
                    code="DG-FORMAT-026",
                )
    for name in place:
        if name not in content["formats"]:
            raise FormatsError(f"{path} has no format for node '{name}': trace the graph alike", code="DG-FORMAT-027")


def _check_constants(path: Path, formatted: FormattedGraph) -> None:
    """Check that constants equal the graph's to OFF units: others belong to another robot of this name, or to other
    options.
    """
    for i, (integer, fmt) in formatted.constants.items():
        node, held = formatted.graph.nodes[i], integer * fmt.step
        own, off = float(node.constant or 0.0), OFF * fmt.step
        if OPS[node.op].constant == "exponent":
            held, off = float(integer), 0.0
        if not abs(held - own) <= off:
            raise FormatsError(
                f"{path}: node '{node.name}' has the constant {held:.9g}; the graph has {own:.9g}: trace it alike",
                code="DG-FORMAT-028",
            )


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
        raise FormatsError(f"{where} has {width} bits; expected 2 to {widest}", code="DG-FORMAT-029")
    if not -FINEST <= frac <= finest:
        raise FormatsError(
            f"{where} has {frac} bits right of the binary point; expected {-FINEST} to {finest}", code="DG-FORMAT-030"
        )
    return Format(width, frac)


def _constant(entry: Any, where: str) -> tuple[int, Format]:
    value, *rest = _numbers(entry, (int,), where, "[integer, width, frac], three integers", 3)
    return value, _format(rest, where)


def _bounds(entry: Any, where: str) -> tuple[float, float]:
    low, high = _numbers(entry, (int, float), where, "[low, high], two numbers", 2)
    return float(low), float(high)


def _numbers(entry: Any, kinds: tuple[type, ...], where: str, expected: str, count: int) -> list[Any]:
    """Return a list of this many numbers of these types; `True`, which Python counts as a number, is refused."""
    if not isinstance(entry, list) or len(entry) != count or any(type(number) not in kinds for number in entry):
        raise FormatsError(f"{where} has {entry!r:.60}; expected {expected}", code="DG-FORMAT-031")
    return entry
