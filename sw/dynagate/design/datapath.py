"""The record of a pipelined datapath: its schedule, its units, and the hardware of each node of its graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, ClassVar

from dynagate.design.codec import Codec
from dynagate.design.consistent import format_faults, port_faults, repeated, stream_faults
from dynagate.design.design import AxiStreams, Body, DesignRecord, Sides, Stream, StreamPort, result_codec, slots
from dynagate.design.ring import COMMAND
from dynagate.design.verilog_list import PLAIN, STYLES
from dynagate.design.words import (
    FLOAT32,
    FLOAT64,
    LASTS,
    WIDTHS,
    WORD,
    WORDS,
    beats,
    number_of,
    words_of,
)
from dynagate.graph.packing import ZERO, chosen_numbers


@dataclass(frozen=True)
class DesignFunction:
    """One of several functions of a design."""

    name: str
    code: int
    """Number in a sample that selects the function."""
    inputs: tuple[tuple[str, str], ...]
    """Pairs of the function's input names and the design's."""
    limits: dict[str, tuple[tuple[float, float], ...]]
    """(low, high) of each entry of the inputs that functions share under different names."""
    latency: int
    """Latency of its samples in cycles."""
    outputs: tuple[StreamPort, ...]
    """Fields of its results, as indices into the design's, in the order of their words."""
    fields: tuple[int, ...]


@dataclass(frozen=True)
class Ring:
    """A rollout step whose state stays on the chip."""

    carry: tuple[tuple[str, str], ...]
    """Pairs of an output and the input of the next step that it becomes."""
    capacity: int
    """Number of trajectories in flight."""


@dataclass(frozen=True)
class NodeRow:
    """A node in the hardware."""

    name: str
    signal: str
    module: str
    width: int
    frac: int
    constant: tuple[int, int, int] | None
    """Integer, width and fraction bits of its constant."""
    ready: int | None
    """Cycle in which its signal becomes valid; None for a constant or a moved binary point."""


@dataclass(frozen=True)
class ExtraStages:
    """Register stages that the target wanted beyond the least, behind products and sums (`hw.plan.plan.Stages`)."""

    multiply: int
    add: int


@dataclass(frozen=True)
class RegisterCount:
    """Registers between units."""

    words: int
    bits: int


@dataclass(frozen=True, kw_only=True)
class DatapathBody(Body):
    """Fields that only the record of a pipelined datapath has.

    With `ii`, `stages` and the formats of the nodes, the fields of every design determine the datapath. A resource
    budget only decides whether it is built.
    """

    kind: ClassVar[str] = "datapath"
    arithmetic: dict[str, str]
    """Fields of the `Arithmetic`."""
    ii: int
    """Initiation interval, in cycles."""
    stages: ExtraStages
    cycles: dict[str, int]
    """Latency of each class of units, in cycles."""
    counts: dict[str, int]
    """Number of operations by kind."""
    units: dict[str, int]
    """Number of units by kind."""
    dsp_blocks: int
    lookup_tables_estimated: dict[str, int]
    registers: RegisterCount
    mux_inputs: int
    nodes: tuple[NodeRow, ...]
    functions: tuple[DesignFunction, ...] = ()
    style: str = PLAIN
    """Style of the Verilog, "plain" or "strict"."""
    ring: Ring | None = None
    """The ring around a rollout's step. `stream` describes the datapath inside; `design.ring` describes the ring's
    streams.
    """

    @property
    def interval(self) -> int:
        return self.ii

    @property
    def pace(self) -> str:
        return f"--ii {self.ii}"

    @property
    def keeps_states(self) -> bool:
        return self.ring is not None

    def modules(self, design: DesignRecord[Any]) -> tuple[str, ...]:
        """Return the names of the top modules, the innermost first."""
        return "datapath", *(("rollout",) if self.ring else ()), *(("accelerator",) if design.axi else ())

    def of_function(self, design: DesignRecord[DatapathBody], function: DesignFunction) -> DesignRecord[DatapathBody]:
        """Return the record for samples of one of several functions.

        Its inputs have the function's own names, and its output stream has only the function's results.
        """
        own = {shared: name for name, shared in function.inputs}
        fields = list(design.input.fields)
        ports = []
        for port in design.input.ports:
            for k, (low, high) in zip(port.fields, function.limits.get(own.get(port.name, ""), ()), strict=False):
                fields[k] = replace(fields[k], low=low, high=high)
            ports.append(replace(port, name=own.get(port.name, port.name)))
        stream = Sides(replace(design.input, fields=tuple(fields), ports=tuple(ports)), design.output)
        body = replace(self, functions=())
        part = replace(design, function=function.name, latency=function.latency, stream=stream, body=body)
        return _with_results(part, function.fields, function.outputs)

    def with_outputs(self, design: DesignRecord[DatapathBody], names: Sequence[str]) -> DesignRecord[DatapathBody]:
        """Return the record for results that have only these outputs of a function, in their order."""
        ports = [port for port in design.output.ports if port.name in names]
        numbers = chosen_numbers((port.fields for port in ports), range(len(design.output.fields)))
        return _with_results(design, numbers, ports)

    def numbers(self, design: DesignRecord[Any]) -> dict[str, str]:
        """Return the type, "float32", that an AXI shell rounds numbers to, by input and output. A bare
        datapath and its integers in numpy round to it too, so that all compute the same."""
        if design.axi is None:
            return {}
        streamed = number_of(design.axi.word)
        names = [port.name for port in (*design.input.ports, *design.output.ports)]
        types = {name: FLOAT32 if name in design.axi.parameters else streamed for name in names}
        return {name: number for name, number in types.items() if number is not None}

    def wire(self, design: DesignRecord[Any]) -> Sides[Codec]:
        """Return the codecs of the AXI streams, which leave out inputs that registers hold.

        Packed integers lie one after the other from bit 0 up. The bit after those of a result is 1 if the result cannot
        be used; the bits above it in its word have the same value.
        """
        axi = design.axi
        assert axi is not None, "a bare datapath has no AXI streams"
        held = {k for port in design.input.ports if port.name in axi.parameters for k in port.fields}
        streamed = [field for k, field in enumerate(design.input.fields) if k not in held]
        return Sides(slots(streamed, axi.word, axi.words.input), result_codec(design.output.fields, axi.word))

    def results(self, design: DesignRecord[Any]) -> str:
        """Return the number type of results."""
        return FLOAT64 if design.axi is None or number_of(design.axi.word) is None else FLOAT32

    def faults(self, design: DesignRecord[DatapathBody]) -> Iterator[str]:
        """Yield what is wrong with the record."""
        return _faults(design)


def _with_results(
    design: DesignRecord[DatapathBody], fields: Sequence[int], ports: Sequence[StreamPort]
) -> DesignRecord[DatapathBody]:
    """Return the record with some of the output fields in results, in this order."""
    place = {k: n for n, k in enumerate(fields)}
    outputs = tuple(replace(port, fields=tuple(place.get(k, ZERO) for k in port.fields)) for port in ports)
    kept = tuple(design.output.fields[k] for k in fields)
    stream = Sides(design.input, replace(design.output, fields=kept, ports=outputs))
    axi = None if design.axi is None else design.axi.with_results([field.width for field in kept])
    return replace(design, stream=stream, axi=axi)


# ---- checks ----------------------------------------------------------------------------------------------------------

LARGEST_II, LARGEST_LATENCY = 1 << 16, 1 << 24
READ_OR_WRITE = "read", "write"


def _faults(design: DesignRecord[DatapathBody]) -> Iterator[str]:
    """Yield the inconsistencies of the record of a datapath."""
    for name, value, most in (("ii", design.body.ii, LARGEST_II), ("latency", design.latency, LARGEST_LATENCY)):
        if not 1 <= value <= most:
            yield f"{name} is {value}; expected 1 to {most}"
    if design.body.style not in STYLES:
        yield f"style is {design.body.style!r:.20}; expected {' or '.join(STYLES)}"
    source, sink = design.input, design.output
    yield from _of_stream("input", source, sum(field.width for field in source.fields), 0, lowest=0)
    end = (len(design.body.functions) - 1).bit_length() if design.body.functions else 0
    payload = sum(field.width for field in sink.fields)
    yield from _of_stream("output", sink, payload + len(sink.scopes) + end, payload, lowest=ZERO)
    for function in design.body.functions:
        yield from _of_function(design, function)
    for k, node in enumerate(design.body.nodes):
        formats = [(node.width, node.frac), *([node.constant[1:]] if node.constant else [])]
        yield from (f"nodes[{k}] {fault}" for each in formats for fault in format_faults(*each))
    yield from _of_ring(design)
    if design.axi is not None:
        yield from _of_shell(design, design.axi)


def _of_stream(side: str, stream: Stream, bits: int, overflow: int, lowest: int) -> Iterator[str]:
    """Yield what is wrong with a stream.

    Args:
        side: "input" or "output".
        stream: The stream.
        bits: Number of bits that follows from the widths of the fields.
        overflow: Position of the overflow bits that follows from them.
        lowest: Smallest field index that a port may list.
    """
    where = f"stream.{side}"
    yield from stream_faults(where, stream, lowest)
    low = accumulate((field.width for field in stream.fields), initial=0)
    for k, (field, lsb) in enumerate(zip(stream.fields, low, strict=False)):
        if field.lsb != lsb:
            yield f"{where}.fields[{k}] has lsb {field.lsb}; expected {lsb}"
    if (stream.bits, stream.overflow) != (bits, overflow):
        yield f"{where} has {stream.bits} bits, overflow {stream.overflow}; its fields have {bits} and {overflow}"


def _of_function(design: DesignRecord[DatapathBody], function: DesignFunction) -> Iterator[str]:
    """Yield the inconsistencies of one of several functions."""
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
        yield from (f"{where}, {port.name!r}: {fault}" for fault in port_faults(port, ZERO, count))
        if not set(port.fields) <= {ZERO, *function.fields}:
            yield f"{where}, {port.name!r}: fields that are not the function's"
    if not 1 <= function.latency <= design.latency:
        yield f"{where}: latency {function.latency}; expected 1 to {design.latency}"


def _of_ring(design: DesignRecord[DatapathBody]) -> Iterator[str]:
    """Yield the inconsistencies of a ring."""
    if design.body.ring is None:
        return
    if not 1 <= design.body.ring.capacity <= LARGEST_LATENCY:
        yield f"ring.capacity is {design.body.ring.capacity}; expected 1 to {LARGEST_LATENCY}"
    inputs, outputs = ({port.name: port.shape for port in side.ports} for side in (design.input, design.output))
    if dict(design.body.ring.carry) != {"q_next": "q", "qd_next": "qd"} or len(design.body.ring.carry) != 2:
        yield f"ring.carry is {design.body.ring.carry}; expected q_next to q and qd_next to qd"
    shapes = [inputs.get("q"), inputs.get("qd"), inputs.get("tau"), outputs.get("q_next"), outputs.get("qd_next")]
    q, qd, tau, q_next, qd_next = shapes
    if not (q and qd and len(q) == len(qd) == 1 and q == q_next and qd == tau == qd_next):
        yield f"stream: q, qd, tau, q_next and qd_next have shapes {shapes}; expected vectors of a state"
    if {*inputs} - {"q", "qd", "tau", "dt"} or inputs.get("dt", ()) != ():
        yield f"stream.input.ports are {', '.join(inputs)}; expected q, qd, tau, and dt as a number"


def _of_shell(design: DesignRecord[DatapathBody], axi: AxiStreams) -> Iterator[str]:
    """Yield the inconsistencies of an AXI shell."""
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
    streamed += [COMMAND.width] if design.body.ring is not None else []
    results = [function.fields for function in design.body.functions] or [tuple(range(len(sink.fields)))]
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
        several = [f"{function.name}.{port.name}" for function in design.body.functions for port in function.outputs]
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
