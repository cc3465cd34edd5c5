"""Check that the parts of a design, or of a program, fit each other.

Whatever has a size or a place is compared with what it follows from.

A design may come from anybody, and its hash is right for any content. Host and simulation reserve memory by some of its
numbers and index it by others, in C too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from dynagate.design.design import AxiStreams, DatapathDesign, Design, DesignFunction, Field, Port, Stream
from dynagate.design.program import ProgramDesign, ProgramLoop, ProgramShell
from dynagate.design.ring import COMMAND
from dynagate.design.words import LASTS, WIDTHS, WORD, WORDS, beats, words_of
from dynagate.dynamics import CODE
from dynagate.fixedpoint.assign import LARGEST_WORD
from dynagate.graph.packing import ZERO

WIDEST, FINEST = 64, 1000
"""Bits of a node, and on either side of its binary point: more than any that is built."""
LARGEST_II, LARGEST_LATENCY = 1 << 16, 1 << 24
LARGEST_SHAPE = 64
"""Above any number in a core's shape."""
MOST_CYCLES = 1 << 31
"""Above those of any sample that a bench streams."""
READ_OR_WRITE = "read", "write"


def faults(design: Design) -> Iterator[str]:
    """Return what does not fit, each in a few words that name the field. Later faults may follow from earlier ones."""
    if not isinstance(design.robot.get("name"), str):
        yield f"robot.name is {design.robot.get('name')!r:.40}; expected a text"
    yield from repeated("functions", [function.name for function in design.functions])
    yield from repeated("codes of functions", [function.code for function in design.functions])
    for check in CHECKS[design.body]:
        yield from check(design)


def _datapath_faults(design: DatapathDesign) -> Iterator[str]:
    for name, value, most in (("ii", design.ii, LARGEST_II), ("latency", design.latency, LARGEST_LATENCY)):
        if not 1 <= value <= most:
            yield f"{name} is {value}; expected 1 to {most}"
    source, sink = design.input, design.output
    yield from _of_stream("input", source, sum(field.width for field in source.fields), 0, lowest=0)
    end = (len(design.functions) - 1).bit_length() if design.functions else 0
    payload = sum(field.width for field in sink.fields)
    yield from _of_stream("output", sink, payload + len(sink.scopes) + end, payload, lowest=ZERO)
    for function in design.functions:
        yield from _of_function(design, function)
    for k, node in enumerate(design.nodes):
        formats = [(node.width, node.frac), *([node.constant[1:]] if node.constant else [])]
        yield from (f"nodes[{k}] {fault}" for each in formats for fault in _of_format(*each))
    yield from _of_ring(design)
    if design.axi is not None:
        yield from _of_shell(design, design.axi)


def _of_stream(side: str, stream: Stream, bits: int, overflow: int, lowest: int) -> Iterator[str]:
    """bits, overflow: as the widths of the fields have them. lowest: of the fields of a port."""
    where = f"stream.{side}"
    yield from stream_faults(where, stream, lowest)
    low = accumulate((field.width for field in stream.fields), initial=0)
    for k, (field, lsb) in enumerate(zip(stream.fields, low, strict=False)):
        if field.lsb != lsb:
            yield f"{where}.fields[{k}] has lsb {field.lsb}; expected {lsb}"
    if (stream.bits, stream.overflow) != (bits, overflow):
        yield f"{where} has {stream.bits} bits, overflow {stream.overflow}; its fields have {bits} and {overflow}"


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
        yield from (f"{where}.ports, {port.name!r}: {fault}" for fault in _of_port(port, lowest, len(stream.fields)))
    yield from repeated(f"{where}.ports", [port.name for port in stream.ports])
    listed = [index for port in stream.ports for index in port.fields if index != ZERO]
    if set(listed) != set(range(len(stream.fields))):
        yield f"{where}.ports have {len(set(listed))} fields; expected each of {len(stream.fields)}"
    elif lowest == 0 and len(listed) != len(stream.fields):
        yield f"{where}.ports list a field twice; expected each of {len(stream.fields)} once"


def _of_field(field: Field) -> Iterator[str]:
    yield from _of_format(field.width, field.frac, LARGEST_WORD)
    low, high = field.range
    if not low <= high:
        yield f"is from {field.low} to {field.high}; expected an interval"
    elif 2 <= field.width <= LARGEST_WORD and abs(field.frac) <= FINEST:
        largest = math.ldexp(1.0, field.width - 1 - field.frac)
        for value in (field.low, field.high):
            if value is not None and abs(value) > largest + math.ldexp(1.0, -field.frac):
                yield f"is from {field.low} to {field.high}, of which its format holds -{largest:g} to {largest:g}"
                break


def _of_format(width: int, frac: int, widest: int = WIDEST) -> Iterator[str]:
    if not 2 <= width <= widest:
        yield f"has width {width}; expected 2 to {widest}"
    if abs(frac) > FINEST:
        yield f"has frac {frac}; expected {-FINEST} to {FINEST}"


def _of_port(port: Port, lowest: int, count: int) -> Iterator[str]:
    """count: of the fields that there are."""
    if any(size < 1 for size in port.shape) or math.prod(port.shape) != len(port.fields):
        yield f"{len(port.fields)} fields for shape {port.shape}"
    for index in port.fields:
        if not lowest <= index < count:
            yield f"field {index}; expected {lowest} to {count - 1}"
    for start, stop in port.unit_vectors:
        if not 0 <= start < stop <= len(port.fields):
            yield f"unit vector from {start} to {stop} of {len(port.fields)} entries"


def _of_function(design: DatapathDesign, function: DesignFunction) -> Iterator[str]:
    where = f"functions, {function.name!r}"
    inputs = {port.name: port for port in design.input.ports}
    whole = {port.name: port.shape for port in design.output.ports}
    for own, shared in function.inputs:
        if shared not in inputs:
            yield f"{where}: no input {shared!r}"
        elif len(function.limits.get(own, inputs[shared].fields)) != len(inputs[shared].fields):
            yield f"{where}: {len(function.limits[own])} limits of {own!r}"
    for own in (name for side in zip(*function.inputs, strict=True) for name in repeated("", list(side))):
        yield f"{where}: inputs {own}"
    count = len(design.output.fields)
    if not function.fields or not set(function.fields) <= set(range(count)):
        yield f"{where}: fields {function.fields!s:.40}; expected some of {count}"
    yield from repeated(f"{where}: fields", function.fields)
    for port in function.outputs:
        if whole.get(port.name) != port.shape:
            yield f"{where}: no output {port.name!r} of shape {port.shape}"
        yield from (f"{where}, {port.name!r}: {fault}" for fault in _of_port(port, ZERO, count))
        if not set(port.fields) <= {ZERO, *function.fields}:
            yield f"{where}, {port.name!r}: fields that are not the function's"
    if not 1 <= function.latency <= design.latency:
        yield f"{where}: latency {function.latency}; expected 1 to {design.latency}"


def _of_ring(design: DatapathDesign) -> Iterator[str]:
    if design.ring is None:
        return
    if not 1 <= design.ring.capacity <= LARGEST_LATENCY:
        yield f"ring.capacity is {design.ring.capacity}; expected 1 to {LARGEST_LATENCY}"
    inputs, outputs = ({port.name: port.shape for port in side.ports} for side in (design.input, design.output))
    if dict(design.ring.carry) != {"q_next": "q", "qd_next": "qd"} or len(design.ring.carry) != 2:
        yield f"ring.carry is {design.ring.carry}; expected q_next to q and qd_next to qd"
    shapes = [inputs.get("q"), inputs.get("qd"), inputs.get("tau"), outputs.get("q_next"), outputs.get("qd_next")]
    q, qd, tau, q_next, qd_next = shapes
    if not (q and qd and len(q) == len(qd) == 1 and q == q_next and qd == tau == qd_next):
        yield f"stream: q, qd, tau, q_next and qd_next have shapes {shapes}; expected vectors of a state"
    if {*inputs} - {"q", "qd", "tau", "dt"} or inputs.get("dt", ()) != ():
        yield f"stream.input.ports are {', '.join(inputs)}; expected q, qd, tau, and dt as a number"


def _of_shell(design: DatapathDesign, axi: AxiStreams) -> Iterator[str]:
    source, sink = design.input, design.output
    for name, value, allowed in (("width", axi.width, WIDTHS), ("last", axi.last, LASTS), ("word", axi.word, WORDS)):
        if value not in allowed:
            yield f"axi.{name} is {value!r:.40}; expected one of {', '.join(map(str, allowed))}"
            return
    held = {port.name: port for port in source.ports if port.name in axi.parameters}
    if [*held] != [*axi.parameters]:
        yield f"axi.parameters are {axi.parameters!s:.60}; expected inputs"
    registers = [f"{name}_{k}" for name, port in held.items() for k in range(len(port.fields))]
    yield from _of_registers(axi, registers)
    within = {index for port in held.values() for index in port.fields}
    streamed = [field.width for k, field in enumerate(source.fields) if k not in within]
    if within & set(range(len(streamed))):
        yield "axi.parameters are not the last fields of stream.input"
    streamed += [COMMAND.width] if design.ring is not None else []
    results = [function.fields for function in design.functions] or [tuple(range(len(sink.fields)))]
    widths = [[sink.fields[k].width for k in fields if 0 <= k < len(sink.fields)] for fields in results]
    expected = words_of(streamed, axi.word), max(words_of(each, axi.word, flag=True) for each in widths)
    for side, value, expects in zip(("input", "output"), (axi.words.input, axi.words.output), expected, strict=True):
        if value != expects:
            yield f"axi.words.{side} is {value}; expected {expects}"
    for side, value, words in zip(("input", "output"), (axi.beats.input, axi.beats.output), expected, strict=True):
        if value != beats(words, axi.width):
            yield f"axi.beats.{side} is {value}; expected {beats(words, axi.width)}"
    if axi.conversion.input < 0 or axi.conversion.output < 0:
        yield f"axi.conversion is {axi.conversion}; expected cycles"
    if axi.choice:
        several = [f"{function.name}.{port.name}" for function in design.functions for port in function.outputs]
        outputs = several or [port.name for port in sink.ports]
        bits = axi.registers["outputs"].bits if "outputs" in axi.registers else ()
        if sorted(bits) != sorted(outputs):
            yield f"axi.registers, 'outputs': bits {bits}; expected {', '.join(outputs)}"


def _of_registers(axi: AxiStreams, needed: Sequence[str]) -> Iterator[str]:
    if {row.address for row in axi.registers.values()} != set(range(0, 4 * len(axi.registers), 4)):
        yield f"axi.registers have addresses that are not each multiple of 4 below {4 * len(axi.registers)}"
    for name, row in axi.registers.items():
        if row.name != name or row.access not in READ_OR_WRITE:
            yield f"axi.registers, {name!r}: {row.name!r} at {row.address}, {row.access!r}"
        if len(row.bits) > WORD:
            yield f"axi.registers, {name!r}: {len(row.bits)} bits"
        yield from repeated(f"axi.registers, {name!r}: bits", row.bits)
    for name in needed:
        if name not in axi.registers:
            yield f"axi.registers have no {name!r}; expected it for axi.parameters"


def repeated(what: str, names: Sequence[object]) -> Iterator[str]:
    if len(set(names)) != len(names):
        yield f"{what} hold one of them twice"


def _program_faults(design: ProgramDesign) -> Iterator[str]:
    if design.axi is not None:
        yield "axi describes a shell; expected none: a device says which streams it has"
    if not (len(design.core_hash) == 64 and set(design.core_hash) <= set("0123456789abcdef")):
        yield "core_hash is no sha256"
    if any(not 0 <= value < LARGEST_SHAPE for value in design.core.values()):
        yield f"core has numbers out of 0 to {LARGEST_SHAPE - 1}"
    yield from _of_cycles("program", design.latency, design.period)
    streams = [("stream", design.stream), *((f"functions, {each.name!r}", each.stream) for each in design.functions)]
    for where, stream in streams:
        for side, first in (("input", 0 if design.functions else 1), ("output", 0)):
            own = getattr(stream, side)
            yield from _of_word_stream(f"{where}.{side}", side, own, first)
            if own.bits != getattr(design.stream, side).bits:
                yield f"{where}.{side} has {own.bits} bits; expected those of all, {getattr(design.stream, side).bits}"
    yield from _of_program_functions(design)
    ports = (*design.input.ports, *design.output.ports)
    if design.abreast != 1 and (
        design.abreast < 1 or design.functions or any(port.shape[:1] != (design.abreast,) for port in ports)
    ):
        yield f"abreast is {design.abreast}; expected the first of the shape of each port, of one function"
    if design.loop is not None:
        yield from _of_loop(design, design.loop)
    if design.shell is not None:
        yield from _of_bench_shell(design, design.shell)
    sink = design.output
    if sink.overflow != sink.bits - WORD or len(sink.scopes) != 1:
        yield f"stream.output has its flag at bit {sink.overflow}; expected {sink.bits - WORD}, of one scope"


def _of_bench_shell(design: ProgramDesign, shell: ProgramShell) -> Iterator[str]:
    if shell.width not in WIDTHS or shell.last not in LASTS or not 1 <= shell.cores < LARGEST_SHAPE:
        yield f"shell has {shell.cores} cores behind {shell.width} bits, TLAST per {shell.last!r:.20}"
    if len(shell.spans) != max(len(design.functions), 1) or any(not 0 < a <= b < MOST_CYCLES for a, b in shell.spans):
        yield f"shell has spans {shell.spans!r:.60}; expected the least and the most cycles of each function"


def _of_loop(design: ProgramDesign, loop: ProgramLoop) -> Iterator[str]:
    inputs, outputs = ({port.name: port for port in side.ports} for side in (design.input, design.output))
    for source, target in loop.carry:
        if target not in inputs or (source in outputs and outputs[source].shape != inputs[target].shape):
            yield f"loop carries '{source}' to '{target}'; expected an output and an input of one shape"
    if not (1 <= loop.turns <= 1 << 12 and loop.inputs >= 0 and 1 <= loop.start < design.input.words):
        yield f"loop has {loop.turns} turns of {loop.inputs} inputs, its start at word {loop.start}"
        return
    carried = {k for port in design.input.ports if port.name in dict(loop.carry).values() for k in port.fields}
    strides = [None if k in carried else loop.inputs for k in range(len(design.input.fields))]
    if _repeats(design.input, strides, loop.turns, design.input.words, {loop.start}):
        yield "loop has inputs beyond its stream, or two in one word"
    if len(loop.outputs) != len(design.output.fields) or _repeats(
        design.output, loop.outputs, loop.turns, design.output.overflow // WORD, set()
    ):
        yield "loop has results beyond its stream, or two in one word"


def _repeats(stream: Stream, strides: Sequence[int | None], turns: int, end: int, used: set[int]) -> bool:
    """Return whether a word for a field of any turn lies outside 0 to `end`, or holds two fields.

    strides: words from a field to the same field of the next turn; None for a field of the first turn only. used: words
    that hold something else.
    """
    for each, stride in zip(stream.fields, strides, strict=True):
        words = [each.lsb // WORD + (stride or 0) * turn for turn in range(1 if stride is None else turns)]
        if min(words) < 0 or max(words) >= end or len(used) + len(words) != len(used | set(words)):
            return True
        used = used | set(words)
    return False


def _of_word_stream(where: str, side: str, stream: Stream, first: int) -> Iterator[str]:
    """first: word of the first field."""
    yield from stream_faults(where, stream, 0 if side == "input" else ZERO)
    if not 2 * WORD <= stream.bits <= WORD << 16 or stream.bits % WORD:
        yield f"{where} has {stream.bits} bits; expected words of {WORD}"
    end = stream.bits if side == "input" else stream.bits - WORD
    for k, each in enumerate(stream.fields):
        if not (first * WORD <= each.lsb < end and each.lsb % WORD == 0):
            yield f"{where}.fields[{k}] has bits {each.lsb} to {each.lsb + each.width}; expected a word below {end}"
    yield from repeated(f"{where}, words of fields", [each.lsb for each in stream.fields])


def _of_program_functions(design: ProgramDesign) -> Iterator[str]:
    """Check what several functions share, and the code by which a sample selects its function."""
    if design.functions and design.functions[0].stream != design.stream:
        yield "stream is not that of the first function"
    for each in design.functions:
        yield from _of_cycles(f"functions, {each.name!r}", each.latency, each.period)
        codes = [port.fields for port in each.stream.input.ports if port.name == CODE.name]
        inputs = each.stream.input.fields
        heads = [inputs[k] for held in codes for k in held if 0 <= k < len(inputs)]
        if [(head.lsb, head.frac, head.low, head.high) for head in heads] != [(0, 0, each.code, each.code)]:
            yield f"functions, {each.name!r}: no field of its code {each.code} in the head of a sample"


def _of_cycles(where: str, latency: int, period: int) -> Iterator[str]:
    for name, value, most in (("latency", latency, MOST_CYCLES), ("period", period, MOST_CYCLES)):
        if not 1 <= value < most:
            yield f"{where} has {name} {value}; expected 1 to {most - 1}"


CHECKS: dict[str, tuple[Callable[[Any], Iterator[str]], ...]] = {
    "datapath": (_datapath_faults,),
    "program": (_program_faults,),
}
"""What is checked of each body."""
