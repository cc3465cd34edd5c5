"""Write a C file that computes a formatted graph on integers for one state: no floats, no heap, no libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from dynagate.base.untrusted import plain_text
from dynagate.fixedpoint.emit_steps import RolloutInC
from dynagate.fixedpoint.entering import TYPES, entering, literal, rounded_in_c, without_low_bits
from dynagate.fixedpoint.format import INT64_BITS, Format
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate_integers, quantize_inputs
from dynagate.fixedpoint.models.in_c import word_of
from dynagate.fixedpoint.operations import FIXED, ExactResult, Formula, Unit
from dynagate.graph import OPS, Port
from dynagate.graph.region import Region
from dynagate.graph.slots import slots_of
from dynagate.native.headers import in_one_text
from dynagate.native.interpreter import ELEMENTARY
from dynagate.native.one_state import OneState
from dynagate.native.source import kernel_name, wrapped

WITHIN, OUTSIDE = 5, 3
"""States of the test vector in the region, and at the limits of the input formats."""

NOTHING: Mapping[str, str] = MappingProxyType({})


def emit_integers(
    formatted: FormattedGraph,
    region: Region,
    known: Mapping[str, str] = NOTHING,
    carry: Mapping[str, str] = NOTHING,
) -> dict[str, str]:
    """Return the C file by its name.

    Args:
        formatted: Graph with formats.
        region: Operating region from which the states of the test vector are drawn.
        known: Texts on proved errors by output, for the comment at the head.
        carry: For a step through time, the input that each output becomes in the next step, by output: the file has a
            function of many steps, too.

    Raises:
        NotInCError: The formats need wider types than C has.
    """
    writer = _Writer(formatted)
    name = f"{kernel_name(formatted.graph)}_integers"
    file = OneState(formatted.graph, name, "word", "int", writer.slot, writer.slots)
    rollout = RolloutInC(file, formatted, carry) if carry else None
    segments = file.segments(writer.statements, ["    int bad = 0;"], ["    return bad;"])
    return file.file(
        [
            *_interface(file, formatted, known, writer.wide, rollout),
            in_one_text(ELEMENTARY),
            f"typedef dg_{writer.word} word;",
            f"{file.head};\n",
            *writer.tables(),
            *segments,
            *_function(file, formatted, len(segments)),
            *(rollout.lines() if rollout else ()),
            *_check(file, formatted, region, rollout),
        ]
    )


WIDEST_IS_64 = " * No integer has more than 64 bits.\n */\n"
"""Comment in a file whose integers have at most 64 bits."""
NEEDS_128 = """ * It needs a compiler with integers of 128 bits (__int128): {} of {} values have over 62 bits.
 * Formats of up to 31 bits seldom need them.
 */
#ifndef __SIZEOF_INT128__
#error "{} needs a compiler with integers of 128 bits; choose formats of up to 31 bits for this target"
#endif
"""
"""Comment in a file that needs 128-bit integers."""


def _interface(
    file: OneState, formatted: FormattedGraph, known: Mapping[str, str], wide: int, rollout: RolloutInC | None
) -> Iterator[str]:
    """Yield the comment for callers: entries, formats, proved errors, and the integer types that the file needs.

    Args:
        file: The file.
        formatted: Graph with formats.
        known: Texts on proved errors, by output.
        wide: Number of operations that need 128 bits.
        rollout: The function of many steps, if there is one.
    """

    def formats(port: Port) -> Iterator[str]:
        return wrapped(" ".join(str(formatted.formats[i]) for i in port.nodes), " *   ", " *   ")

    yield "/* A number is integer / 2^frac, and sWIDTH.FRAC its format: a two's complement integer of so many bits."
    yield from file.described(formats, ", row by row:")
    for output, text in known.items():
        yield from wrapped(text, f" * {plain_text(output)}: ", " *   ")
    yield f" * The function {file.name}"
    yield " * returns 0; 1 if a value overflowed, and the results are not usable; 2 if an input does not fit its"
    yield " * format, and nothing is computed. It has no state. Its integers are those of the datapath. The macro"
    yield f" * {file.name.upper()}_CHECK"
    yield " * adds a main, which returns in how many states of a test vector the results are wrong."
    if rollout:
        yield from rollout.described()
    operations = len(formatted.graph) - len(file.inputs)
    yield NEEDS_128.format(wide, operations, file.name) if wide else WIDEST_IS_64


class _Writer:
    """Statements of the function, and the tables that they read."""

    def __init__(self, formatted: FormattedGraph) -> None:
        self.formatted = formatted
        self.word = word_of(formatted)
        self.slot, self.slots = slots_of(formatted.graph, formatted.graph.output_nodes)
        self._tables: dict[tuple[Any, tuple[Format, ...], Format], tuple[int, ExactResult]] = {}
        self.wide = 0
        """Number of operations that need integers of 128 bits."""
        nodes = enumerate(formatted.graph.nodes)
        self.statements = [self._statement(i) for i, node in nodes if node.op != "input"]

    def tables(self) -> Iterator[str]:
        """Yield the declarations of tables."""
        for k, exact in self._tables.values():
            text = ", ".join(map(str, exact.plan))
            yield from wrapped(f"static const dg_64 plan_{k}[] = {{{text}}};")
            yield ""

    def _statement(self, i: int) -> str:
        """Return the statement of a node."""
        formatted = self.formatted
        node, to = formatted.graph.nodes[i], formatted.formats[i]
        meaning = FIXED[node.op].meaning
        sources = formatted.operand_formats(i)
        plan = ""
        if isinstance(meaning, Unit):
            place, exact = self._plan(meaning, sources, to)
            plan = f"const dg_64 *p = plan_{place}; {'int wrong = 0; ' if 'wrong' in meaning.text else ''}"
        else:
            exact = meaning.in_c(sources, to)
            if exact.bits > INT64_BITS:
                exact = without_low_bits(meaning, exact, sources, to)
        enter = entering(meaning, exact, to, formatted.arithmetic)
        self.wide += enter.type == TYPES[-1]
        T, text = f"dg_{enter.type}", meaning.text.format(bits=enter.type)
        operands = ""
        for k, x in enumerate("xyz"):
            if re.search(rf"\b{x}\b", text):
                is_node = k < OPS[node.op].arity
                value = f"m[{self.slot[node.args[k]]}]" if is_node else literal(formatted.constants[i][0])
                sign = meaning.signs[k] if isinstance(meaning, Formula) and meaning.signs else 1
                operands += f"const {T} {x} = {_moved(f'({T}){value}', enter.type, exact.up[k], sign)}; "
        wrong = "v != kept || wrong" if "wrong" in text else "v != kept"
        name = f"/* {plain_text(node.name)} {to} */"
        # a flag that were a sum of bits would have compilers keep all of them in registers
        return (
            f"    {{ {plan}{operands}{rounded_in_c(f'({text})', enter, to)}\n"
            f"      m[{self.slot[i]}] = (word)kept;\n"
            f"      if ({wrong}) bad = 1; }} {name}"
        )

    def _plan(self, unit: Unit, sources: Sequence[Format], to: Format) -> tuple[int, ExactResult]:
        """Return the number of a unit's plan, and its exact result."""
        key = unit.plan, tuple(sources), to
        if key not in self._tables:
            self._tables[key] = len(self._tables), unit.plan(*sources, to)
        return self._tables[key]


def _moved(value: str, bits: int, up: int, sign: int) -> str:
    """Return C that shifts a value left, or drops its low bits, towards minus infinity in a result with this sign.

    bits: bits of the type of the value.
    """
    if up >= 0:
        return f"{value} * ((dg_{bits})1 << {up})" if up else value
    down = min(-up, bits - 1)
    return f"{value} >> {down}" if sign > 0 else f"-(-{value} >> {down})"


def _function(file: OneState, formatted: FormattedGraph, segments: int) -> Iterator[str]:
    """Yield the function with its check of inputs."""
    count = len(file.inputs)
    limits = ", ".join(f"{{{formatted.formats[i].lowest}, {formatted.formats[i].highest}}}" for i in file.inputs)
    table = f"static const word limits[{count}][2] = {{{limits}}};"
    checked = [
        "    int bad = 0;",
        f"    for (int k = 0; k < {count}; k++)",
        "        if (input[k] < limits[k][0] || input[k] > limits[k][1])",
        "            return 2;",
    ]
    begin = wrapped(table, "    ", "        ")
    return file.function(segments, "bad |= segment_{}(m)", begin, checked, ["    return bad;"])


def _check(file: OneState, formatted: FormattedGraph, region: Region, rollout: RolloutInC | None) -> Iterator[str]:
    """Yield the test vector, and a `main` that compares with it."""
    graph, random, count = file.graph, np.random.default_rng(1), WITHIN + OUTSIDE
    values = quantize_inputs(formatted, region.states(graph, WITHIN, seed=1))
    for i, fmt in ((i, formatted.formats[i]) for i in graph.input_nodes):
        values[i] = np.concatenate([values[i], random.choice([fmt.lowest, fmt.highest, 0, -1], OUTSIDE)])
    expected = evaluate_integers(formatted, values)
    inputs, outputs = (
        [[str(integers[i][k]) for i in nodes] for k in range(count)]
        for nodes, integers in ((file.inputs, values), (file.outputs, expected.value))
    )
    flags = ", ".join(str(int(flag)) for flag in expected.overflow)
    overflow = f"static const int check_overflow[{count}] = {{{flags}}};"
    same = f"int same = {file.name}(check_in[k], output) == check_overflow[k];"
    vector, statements = (list(rollout.vector(region)), rollout.check()) if rollout else ([], ())
    each = "\n            same &= output[j] == check_out[k][j];"
    yield from file.check(inputs, outputs, same, each, [overflow, *vector], statements)
