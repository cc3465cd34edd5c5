"""One C file that computes a formatted graph on integers, for one state: no floats, no heap, no libraries."""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np
from dynagate.base.untrusted import plain_text
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.evaluate import evaluate_integers, quantise_inputs
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.in_c import word_of
from dynagate.fixedpoint.rows_in_c import IN_C, Exact, entering
from dynagate.graph import OPS, Port
from dynagate.graph.region import Region
from dynagate.graph.slots import slots_of
from dynagate.native.emit import head_comment, kernel_name
from dynagate.native.interpreter import ELEMENTARY

SEGMENT = 100
"""Operations in a C function: compilers take long over longer ones."""

WITHIN, OUTSIDE = 5, 3
"""States of the test vector in the region, and at the ends of the inputs' formats."""

WIDTH = 118

NOTHING: Mapping[str, str] = MappingProxyType({})


def emit_integers(formatted: FormattedGraph, region: Region, known: Mapping[str, str] = NOTHING) -> dict[str, str]:
    """The C file by its name. region: where the states of its test vector are. known: by output what is proved of its
    errors, for the comment at the head. Raises NotInCError: the formats need wider types than C has."""
    graph, name = formatted.graph, f"{kernel_name(formatted.graph)}_integers"
    writer = _Writer(formatted)
    segments = list(writer.segments())
    text = "\n".join(
        [
            *_interface(formatted, name, known),
            (files("dynagate.native") / ELEMENTARY).read_text(),
            f"typedef dg_{writer.word} word;",
            f"{_head(formatted, name)};\n",
            *writer.tables(),
            *segments,
            *_function(formatted, name, writer, len(segments)),
            *_check(formatted, region, name),
            "",
        ]
    )
    stamp = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {f"{name}.c": head_comment(graph, stamp) + text}


def _entries(ports: Iterable[Port]) -> list[int]:
    """The nodes of all entries of ports."""
    return [i for port in ports for i in port.nodes]


def _head(formatted: FormattedGraph, name: str) -> str:
    inputs, outputs = _entries(formatted.graph.inputs), _entries(formatted.graph.outputs)
    return f"int {name}(const word input[{len(inputs)}], word output[{len(outputs)}])"


def _interface(formatted: FormattedGraph, name: str, known: Mapping[str, str]) -> Iterator[str]:
    """The comment for callers: the entries and their formats, and what is known of errors."""
    yield "/* A number is integer / 2^frac, and sWIDTH.FRAC its format: a two's complement integer of so many bits."
    for kind, ports in (("input", formatted.graph.inputs), ("output", formatted.graph.outputs)):
        at = 0
        for port in ports:
            shape = "".join(f"[{n}]" for n in port.shape)
            yield f" * {kind}[{at}] to {kind}[{at + len(port.nodes) - 1}]: {plain_text(port.name)}{shape}, row by row:"
            text = " ".join(str(formatted.formats[i]) for i in port.nodes)
            yield from textwrap.wrap(text, WIDTH, initial_indent=" *   ", subsequent_indent=" *   ")
            at += len(port.nodes)
    for output, text in known.items():
        head = f" * {plain_text(output)}: "
        yield from textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" *   ")
    yield f" * The function {name}"
    yield " * returns 0; 1 if a value overflowed, and the results are not usable; 2 if an input does not fit its"
    yield " * format, and nothing is computed. It has no state. Its integers are those of the datapath. The macro"
    yield f" * {name.upper()}_CHECK"
    yield " * adds a main, which returns in how many states of a test vector the results are wrong. */\n"


class _Writer:
    """The segments and the tables that they read."""

    def __init__(self, formatted: FormattedGraph) -> None:
        self.formatted = formatted
        self.word = word_of(formatted)
        self.slot, self.slots = slots_of(formatted.graph, formatted.graph.output_nodes)
        self._tables: dict[tuple[Any, Format, Format], tuple[int, Exact]] = {}
        nodes = enumerate(formatted.graph.nodes)
        self._statements = [self._statement(i) for i, node in nodes if node.op != "input"]

    def tables(self) -> Iterator[str]:
        for k, exact in self._tables.values():
            text = ", ".join(map(str, exact.plan))
            yield from textwrap.wrap(f"static const dg_64 plan_{k}[] = {{{text}}};", WIDTH, subsequent_indent="    ")
            yield ""

    def segments(self) -> Iterator[str]:
        """Functions over the slots m. They return whether a value overflowed."""
        for s, start in enumerate(range(0, len(self._statements), SEGMENT)):
            lines = self._statements[start : start + SEGMENT]
            head = f"__attribute__((noinline)) static int segment_{s}(word *m) {{"
            yield "\n".join([head, "    int bad = 0;", *lines, "    return bad;", "}\n"])

    def _statement(self, i: int) -> str:
        formatted = self.formatted
        node, to = formatted.graph.nodes[i], formatted.formats[i]
        row = IN_C[node.op]
        sources = formatted.operand_formats(i)
        constant, fmt = formatted.constants.get(i, (0, None))
        sources += [] if fmt is None else [fmt]
        plan = ""
        if row.elementary:
            place, exact = self._plan(row.exact, sources, to)
            plan = f"const dg_64 *p = plan_{place}; {'int wrong = 0; ' if 'wrong' in row.text else ''}"
        else:
            exact = row.exact(sources, to, constant)
        enter = entering(row, exact, to, formatted.arithmetic)
        T, text = f"dg_{enter.type}", row.text.format(bits=enter.type)
        operands = ""
        for k, x in enumerate("xyz"):
            if re.search(rf"\b{x}\b", text):
                value = f"m[{self.slot[node.args[k]]}]" if k < OPS[node.op].arity else _literal(constant)
                moved = f" * (({T})1 << {exact.up[k]})" if exact.up[k] else ""
                operands += f"const {T} {x} = ({T}){value}{moved}; "
        cut = f"({text})"
        if enter.down:
            cut = f"DG_CUT({cut}, {f'(({T})1 << {enter.down - 1})' if enter.half else '0'}, {enter.down})"
        kept = (
            f"DG_CLIP(v, {_literal(to.lowest)}, {_literal(to.highest)})"
            if enter.saturate
            else f"DG_WRAP({enter.type}, v, {enter.type - to.width})"
        )
        wrong = "v != kept || wrong" if "wrong" in text else "v != kept"
        name = f"/* {plain_text(node.name)} {to} */"
        # a flag that were a sum of bits would have compilers keep all of them in registers
        return (
            f"    {{ {plan}{operands}const {T} v = {cut}, kept = {kept};\n"
            f"      m[{self.slot[i]}] = (word)kept;\n"
            f"      if ({wrong}) bad = 1; }} {name}"
        )

    def _plan(self, exact: Any, sources: Sequence[Format], to: Format) -> tuple[int, Exact]:
        """The plan of an elementary operation: its number, and the exact result."""
        (source,) = sources
        key = exact, source, to
        if key not in self._tables:
            self._tables[key] = len(self._tables), exact(sources, to, 0)
        return self._tables[key]


def _literal(value: int) -> str:
    return f"{value}LL" if value >= 0 else f"({value}LL)"


def _function(formatted: FormattedGraph, name: str, writer: _Writer, segments: int) -> Iterator[str]:
    graph = formatted.graph
    inputs, outputs = _entries(graph.inputs), _entries(graph.outputs)
    yield f"{_head(formatted, name)} {{"
    limits = ", ".join(f"{{{formatted.formats[i].lowest}, {formatted.formats[i].highest}}}" for i in inputs)
    text = f"static const word limits[{len(inputs)}][2] = {{{limits}}};"
    yield from textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="        ")
    yield f"    word m[{writer.slots}];"
    yield "    int bad = 0;"
    yield f"    for (int k = 0; k < {len(inputs)}; k++)"
    yield "        if (input[k] < limits[k][0] || input[k] > limits[k][1])"
    yield "            return 2;"
    for k, i in enumerate(inputs):
        yield f"    m[{writer.slot[i]}] = input[{k}];"
    for s in range(segments):
        yield f"    bad |= segment_{s}(m);"
    for k, i in enumerate(outputs):
        yield f"    output[{k}] = m[{writer.slot[i]}];"
    yield "    return bad;"
    yield "}\n"


def _check(formatted: FormattedGraph, region: Region, name: str) -> Iterator[str]:
    """The test vector and a main that compares with it."""
    graph, random = formatted.graph, np.random.default_rng(1)
    inputs, outputs, count = _entries(graph.inputs), _entries(graph.outputs), WITHIN + OUTSIDE
    values = quantise_inputs(formatted, region.states(graph, WITHIN, seed=1))
    for i, fmt in ((i, formatted.formats[i]) for i in graph.input_nodes):
        values[i] = np.concatenate([values[i], random.choice([fmt.lowest, fmt.highest, 0, -1], OUTSIDE)])
    expected = evaluate_integers(formatted, values)
    yield f"#ifdef {name.upper()}_CHECK"
    for what, nodes, integers in (("in", inputs, values), ("out", outputs, expected.value)):
        rows = ["{" + ", ".join(str(integers[i][k]) for i in nodes) + "}" for k in range(count)]
        text = f"static const word check_{what}[{count}][{len(nodes)}] = {{{', '.join(rows)}}};"
        yield from textwrap.wrap(text, WIDTH, subsequent_indent="    ")
    flags = ", ".join(str(int(flag)) for flag in expected.overflow)
    yield f"static const int check_overflow[{count}] = {{{flags}}};"
    yield f"""
int main(void) {{
    word output[{len(outputs)}];
    int wrong = 0;
    for (int k = 0; k < {count}; k++) {{
        int same = {name}(check_in[k], output) == check_overflow[k];
        for (int j = 0; j < {len(outputs)}; j++)
            same &= output[j] == check_out[k][j];
        wrong += !same;
    }}
    return wrong;
}}
#endif"""
