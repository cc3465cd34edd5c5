"""Formats files that are damaged, or ask for what no format can be, are refused by file, node and what was expected."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dynagate import Region, robots, trace
from dynagate.fixedpoint.assign import assign
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate
from dynagate.fixedpoint.models.files import WIDEST, FormatsError, read_formats, write_formats
from dynagate.graph.critical_path import late_terms_last

GRAPH = late_terms_last(trace(robots.load("two_joint_arm"), "forward_dynamics"))
SINE = next(node.name for node in GRAPH.nodes if node.op == "sin")
SUM = next(n.name for i, n in enumerate(GRAPH.nodes) if n.op == "add" and i not in GRAPH.output_nodes)
OUTPUT = GRAPH.nodes[GRAPH.output_nodes[0]].name


@pytest.fixture(scope="module")
def formatted() -> FormattedGraph:
    return assign(GRAPH, Region.of(robots.load("two_joint_arm")))


CONSTANT = next(node.name for node in GRAPH.nodes if node.constant is not None and node.op == "mul_const")


@pytest.fixture
def path(formatted: FormattedGraph, tmp_path: Path) -> Path:
    write_formats(formatted, tmp_path / "formats.json")
    return tmp_path / "formats.json"


def entry(part: str, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        entries = content[part] if part in content else graph_in(content)[part]
        assert name in entries
        entries[name] = value

    return change


def graph_in(content: dict[str, Any]) -> dict[str, Any]:
    (graph,) = content["functions"]["forward_dynamics"]["graphs"]
    return graph


TWO_INTEGERS = r"expected \[width, frac\], two integers"
CONTENT = {
    "null": (entry("formats", SUM, None), f"node '{SUM}' has None; {TWO_INTEGERS}"),
    "number": (entry("formats", SUM, 24), f"node '{SUM}' has 24; {TWO_INTEGERS}"),
    "text": (entry("formats", SUM, "24"), f"node '{SUM}' has '24'; {TWO_INTEGERS}"),
    "short list": (entry("formats", SUM, [24]), rf"node '{SUM}' has \[24\]; {TWO_INTEGERS}"),
    "long list": (entry("formats", SUM, [24, 3, 4]), rf"node '{SUM}' has \[24, 3, 4\]; {TWO_INTEGERS}"),
    "half a bit": (entry("formats", SUM, [24.5, 3]), rf"node '{SUM}' has \[24.5, 3\]; {TWO_INTEGERS}"),
    "bool": (entry("formats", SUM, [24, True]), rf"node '{SUM}' has \[24, True\]; {TWO_INTEGERS}"),
    "1 bit": (entry("formats", SUM, [1, 0]), f"node '{SUM}' has 1 bits; expected 2 to 48"),
    "200 bits": (entry("formats", SUM, [200, 3]), f"node '{SUM}' has 200 bits; expected 2 to 48"),
    "billions of bits": (entry("formats", SUM, [10**9, 3]), f"node '{SUM}' has 1000000000 bits; expected 2 to 48"),
    "wide output": (entry("formats", OUTPUT, [33, 3]), f"node '{OUTPUT}' has 33 bits; expected 2 to 32"),
    "fine": (entry("formats", SUM, [24, 10**9]), "has 1000000000 bits right of the binary point; expected -128 to 128"),
    "coarse": (entry("formats", SUM, [24, -(10**9)]), "has -1000000000 bits right of the binary point; expected -128"),
    "fine sine": (entry("formats", SINE, [24, 49]), f"node '{SINE}' has 49 bits right of the .* expected -128 to 48"),
    "constant null": (entry("constants", CONSTANT, None), rf"'{CONSTANT}' has None; expected \[integer, width, frac\]"),
    "constant half": (
        entry("constants", CONSTANT, [1.5, 8, 3]),
        r"has \[1.5, 8, 3\]; expected \[integer, width, frac\]",
    ),
    "constant wide": (entry("constants", CONSTANT, [1, 80, 3]), f"node '{CONSTANT}' has 80 bits; expected 2 to 48"),
    "constant too large": (entry("constants", CONSTANT, [128, 8, 3]), rf"'{CONSTANT}': constant 128 does not fit s8.3"),
    "no constant": (lambda c: graph_in(c)["constants"].pop(CONSTANT), f"'{CONSTANT}' lacks a fixed-point constant"),
    "bounds null": (entry("bounds", "q_0", None), r"input 'q_0' has None; expected \[low, high\], two numbers"),
    "bounds text": (entry("bounds", "q_0", ["a", "b"]), r"input 'q_0' has \['a', 'b'\]; expected \[low, high\]"),
    "bounds exchanged": (entry("bounds", "q_0", [1, -1]), r"input 'q_0': bounds \[1, -1\] do not fit"),
    "bounds NaN": (entry("bounds", "q_0", [float("nan"), 1]), r"input 'q_0': bounds \[nan, 1\] do not fit"),
    "bounds huge": (entry("bounds", "q_0", [0, 10**400]), "formats.json: int too large to convert to float"),
    "rounding": (entry("arithmetic", "rounding", "up"), "formats.json: rounding 'up'; expected 'half_up' or 'floor'"),
    "more arithmetic": (lambda c: c["arithmetic"].update(more=1), "formats.json: .*unexpected keyword argument 'more'"),
    "a list of formats": (lambda c: graph_in(c).update(formats=[]), r"'formats' is \[\]; expected an object"),
    "no constants": (lambda c: graph_in(c).pop("constants"), "'constants' is None; expected an object"),
    "a name with a line break": (
        lambda c: graph_in(c)["formats"].update({"a\nb": [8, 4]}),
        r"has a format for 'a\\nb', which the",
    ),
    "another robot": (
        lambda c: c.update(robot="r\n*/"),
        "is for r___ forward_dynamics; expected two_joint_arm forward",
    ),
    "version": (lambda c: c.update(version="2"), "has version '2'; expected 4"),
    "a node without": (
        lambda c: graph_in(c)["formats"].pop(SINE),
        f"has no format for node '{SINE}': trace the graph alike",
    ),
    "a node too many": (
        lambda c: graph_in(c)["formats"].update(other=[8, 4]),
        "has a format for 'other', which the graph does not have",
    ),
    "no functions": (lambda c: c.pop("functions"), "'functions' is None; expected an object"),
    "no graphs": (
        entry("functions", "forward_dynamics", {"graphs": []}),
        "is not a formats file: functions, 'forward_dynamics' has no list of graphs, each an object",
    ),
    "more graphs": (
        lambda c: c["functions"]["forward_dynamics"]["graphs"].append(graph_in(c)),
        "has formats of 2 graphs for forward_dynamics; expected 1: trace it alike",
    ),
    "another function": (
        lambda c: c.update(functions={"a\n": c["functions"]["forward_dynamics"]}),
        "is for two_joint_arm a_; expected two_joint_arm forward_dynamics",
    ),
    "the constant of another robot": (
        lambda c: graph_in(c)["constants"][CONSTANT].__setitem__(0, graph_in(c)["constants"][CONSTANT][0] + 3),
        f"node '{CONSTANT}' has the constant .*; the graph has .*: trace it alike",
    ),
}


@pytest.mark.parametrize("case", list(CONTENT))
def test_content_that_cannot_be_is_named(case: str, path: Path) -> None:
    change, message = CONTENT[case]
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(FormatsError, match=message) as error:
        read_formats(GRAPH, path)
    assert str(error.value).startswith(str(path))
    assert str(error.value).isprintable()


def test_a_file_of_one_graph_is_read_as_before(formatted: FormattedGraph, path: Path) -> None:
    """Version 3, which had no functions and no options."""
    content = json.loads(path.read_text())
    old = {**content, "version": 3, "function": "forward_dynamics", **graph_in(content)}
    del old["functions"]
    path.write_text(json.dumps(old))
    assert read_formats(GRAPH, path) == formatted


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: path.write_bytes(b"\x7fELF\xff\0"), "is not a formats file: 'utf-8' codec can't decode"),
        (lambda path: path.write_text(""), "is not a formats file: Expecting value"),
        (
            lambda path: path.write_text("null"),
            "is not a formats file: it holds None; expected a file that write_formats",
        ),
        (lambda path: path.write_text("[" * 10**5), "is not a formats file: maximum recursion"),
        (lambda path: path.write_text(f'{{"version": {"9" * 5000}}}'), "is not a formats file: Exceeds the limit"),
        (
            lambda path: path.mkdir(),
            r"cannot read .*formats.json \(Is a directory\); expected a file that write_formats",
        ),
        (lambda path: None, "no formats at .*formats.json; expected a file that write_formats made"),
    ],
    ids=["binary", "empty", "null", "deep", "long number", "folder", "missing"],
)
def test_what_is_no_formats_file_is_named(write: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "formats.json"
    write(path)
    with pytest.raises(FormatsError, match=message):
        read_formats(GRAPH, path)


def test_a_file_is_written_whole_or_not_at_all(formatted: FormattedGraph, path: Path) -> None:
    before, limit = path.read_text(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        with pytest.raises(
            FormatsError, match=r"cannot keep formats.json in .* \(File too large\); expected a folder that"
        ):
            write_formats(formatted, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert path.read_text() == before
    assert list(path.parent.iterdir()) == [path]
    write_formats(formatted, path.parent / "new" / "formats.json")
    assert (path.parent / "new" / "formats.json").read_text() == before
    with pytest.raises(FormatsError, match=r"cannot keep formats.json in .*formats.json \(File exists\)"):
        write_formats(formatted, path / "formats.json")


def test_the_widest_formats_compute(path: Path) -> None:
    content = json.loads(path.read_text())
    formats = graph_in(content)["formats"]
    ports = {GRAPH.nodes[i].name for i in (*GRAPH.input_nodes, *GRAPH.output_nodes)}
    more = WIDEST - max(width for width, _ in formats.values())
    for name, (width, frac) in formats.items():
        if name not in ports:
            formats[name] = [width + more, frac + more]
    path.write_text(json.dumps(content))
    inputs = Region.of(robots.load("two_joint_arm")).sample("forward_dynamics", 10, seed=1)
    assert not evaluate(read_formats(GRAPH, path), inputs).overflow.any()
