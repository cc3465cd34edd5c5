"""The record of a program for the small processor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dynagate.base.storage import read_file
from dynagate.design.codec import Codec, NumberSlot, Words
from dynagate.design.consistent import repeated, stream_faults
from dynagate.design.design import FILE, REBUILD, Body, DesignError, DesignRecord, Field, Sides, Stream
from dynagate.design.verilog_list import PLAIN, STYLES
from dynagate.design.words import FIXED, FLOAT32, FLOAT64, LASTS, WIDTHS, WORD, number_of
from dynagate.dynamics import CODE
from dynagate.fixedpoint.format import Format
from dynagate.graph.packing import ZERO

PROGRAM = "program.bin"
"""Name of the file with the words that load a program."""


@dataclass(frozen=True)
class ProgramLoop:
    """A rollout step whose state stays in the core. `stream` has the fields of the first step of a sample."""

    carry: tuple[tuple[str, str], ...]
    """Pairs of an output and the input of the next step that it becomes."""
    steps: int
    """Number of steps in a sample."""
    start: int
    """Word of a sample that is 1 if its first step starts from the state in the inputs, 0 if it continues a
    trajectory.
    """
    inputs: int
    """Number of words between the inputs of one step and those of the next."""
    outputs: tuple[int, ...]
    """For each output field, the number of words between one step and the next."""


@dataclass(frozen=True)
class ProgramFunction:
    """One of several functions of a program."""

    name: str
    code: int
    """Number in a sample that selects the function: the block with which it begins."""
    latency: int
    """Cycles from a sample to its last result."""
    period: int
    """Cycles between samples."""
    stream: Sides[Stream]
    """Fields of its samples and results, whose lengths are the same for all functions."""


@dataclass(frozen=True)
class ProgramShell:
    """The shell in which a program's bench runs it."""

    width: int
    """Bits of a beat."""
    last: str
    """Unit that TLAST ends: a sample or a batch."""
    cores: int
    """Number of cores, among which samples are distributed in rotation."""
    spans: tuple[tuple[int, int], ...]
    """For each function, the smallest and largest latency of a single sample, from the first beat in to the first beat
    out.
    """
    style: str = PLAIN
    """Style of its Verilog, "plain" or "strict"."""

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.cores} core{'s' * (self.cores > 1)} behind streams of {self.width} bits"


@dataclass(frozen=True, kw_only=True)
class ProgramBody(Body):
    """Fields that only the record of a program for a core has.

    Streams have words of 32 bits. The first word of a sample is its head, the last one of a result its flag.
    """

    kind: ClassVar[str] = "program"
    core: dict[str, int]
    """Fields of `hw.processor.isa.shape.Core`."""
    core_hash: str
    """Hash of the core."""
    period: int
    """Cycles between samples."""
    words: int
    """Number of words of the program."""
    instructions: int
    functions_used: int
    """Number of instructions for the elementary unit."""
    places: tuple[int, ...]
    """Number of addresses that each memory needs."""
    program: str
    """sha256 of program.bin and of the layout of its streams (`program_digest`)."""
    functions: tuple[ProgramFunction, ...] = ()
    loop: ProgramLoop | None = None
    samples_per_run: int = 1
    """Samples in a packet, which is the first axis of the ports' shapes."""
    shell: ProgramShell | None = None
    """The shell of its bench; None if it has no bench."""

    @property
    def interval(self) -> int:
        return self.period

    @property
    def pace(self) -> str:
        return f"--units {self.core['units']}"

    @property
    def keeps_states(self) -> bool:
        return self.loop is not None

    @property
    def samples_per_packet(self) -> int:
        return self.samples_per_run

    @property
    def is_loaded(self) -> bool:
        return True

    @property
    def saturates(self) -> bool:
        """Whether results that overflow are the nearest numbers that fit."""
        return bool(self.core.get("saturates"))

    @property
    def stream_words(self) -> str:
        """Number format of the core's streams, one of `design.words.WORDS`."""
        return FLOAT32 if self.core.get("floats") else FIXED

    def modules(self, design: DesignRecord[Any]) -> tuple[str, ...]:
        """Return the names of the top modules."""
        return () if self.shell is None else ("accelerator",)

    def device_hash(self, design: DesignRecord[Any]) -> int:
        """Return the 64 bits that the core shows."""
        return int(self.core_hash[:16], 16)

    def of_function(self, design: DesignRecord[ProgramBody], function: ProgramFunction) -> DesignRecord[ProgramBody]:
        """Return the record for samples of one of several functions."""
        body = replace(self, period=function.period, functions=())
        return replace(design, function=function.name, latency=function.latency, stream=function.stream, body=body)

    def numbers(self, design: DesignRecord[Any]) -> dict[str, str]:
        """Return the number type of each port, if the streams round numbers."""
        number = number_of(self.stream_words)
        return {} if number is None else {port.name: number for port in (*design.input.ports, *design.output.ports)}

    def results(self, design: DesignRecord[Any]) -> str:
        """Return the number type of results."""
        return number_of(self.stream_words) or FLOAT64

    def wire(self, design: DesignRecord[Any]) -> Sides[Codec]:
        """Return the codecs of the streams: one word for each number, with an integer's sign in all bits above it.

        For a loop, they describe the first step; the slot after the input fields marks the start of a trajectory. The
        first word of a sample is an integer, whatever the number format of the streams.
        """
        number = number_of(self.stream_words)

        def slot(field: Field, number: str | None = number) -> NumberSlot:
            return NumberSlot(field.lsb, field.format, number, WORD)

        inputs = [slot(field, number if field.lsb else None) for field in design.input.fields]
        if self.loop is not None:
            inputs.append(NumberSlot(WORD * self.loop.start, Format(WORD, 0), number, WORD))
        outputs = tuple(slot(field) for field in design.output.fields)
        flag = NumberSlot(design.output.overflow, Format(WORD, 0), None, WORD)
        return Sides(Codec(tuple(inputs), design.input.words), Codec(outputs, design.output.words, flag))

    def faults(self, design: DesignRecord[ProgramBody]) -> Iterator[str]:
        """Yield what is wrong with the record."""
        return _faults(design)

    def check_folder(self, folder: Path, design: DesignRecord[ProgramBody]) -> None:
        """Raise DesignError if the program in a folder is missing or changed."""
        load_words(folder, design)


def load_words(folder: Path, design: DesignRecord[ProgramBody]) -> Words:
    """Read program.bin, whose words load the program: (messages, 2).

    Raises:
        DesignError: The file is missing or empty, or its checksum is not the one in design.json.
    """
    path = folder / PROGRAM
    try:
        content = read_file(path)
    except OSError as error:
        raise DesignError(f"cannot read {path} ({error.strerror}); {REBUILD}", code="DG-DESIGN-017") from error
    actual, expected = program_digest(content, design), design.body.program
    if actual != expected or len(content) % 8 or not content:
        raise DesignError(
            f"{path} was changed or damaged: its sha256 is {actual:.16} with the streams that {FILE} describes, "
            f"expected {expected:.16}; {REBUILD}",
            code="DG-DESIGN-018",
        )
    return np.frombuffer(content, dtype="<u4").astype(np.uint32).reshape(-1, 2)


def words_bytes(words: Words) -> bytes:
    """Return the content of program.bin for the words of a program."""
    return np.ascontiguousarray(words, dtype="<u4").tobytes()


def program_digest(content: bytes, design: DesignRecord[ProgramBody]) -> str:
    """Return the checksum of a program, which covers program.bin and the layout of its streams."""
    read_with = {name: asdict(each) for name, each in (("stream", design.stream), ("loop", design.body.loop)) if each}
    functions = [asdict(each) for each in design.body.functions]
    faces = json.dumps([read_with, functions, design.body.samples_per_run], sort_keys=True).encode()
    return hashlib.sha256(hashlib.sha256(faces).digest() + content).hexdigest()


def shape_text(core: Mapping[str, int]) -> str:
    """Return a core's shape for errors."""
    return ", ".join(f"{name}={value}" for name, value in core.items())


# ---- checks ----------------------------------------------------------------------------------------------------------

LARGEST_SHAPE = 64
"""Upper bound of the numbers in a core's shape."""
MOST_CYCLES = 1 << 31
"""Upper bound of the cycles of a sample in a bench."""


def _faults(design: DesignRecord[ProgramBody]) -> Iterator[str]:
    """Yield the inconsistencies of the record of a program."""
    body = design.body
    if design.axi is not None:
        yield "axi describes a shell; expected none: a device says which streams it has"
    if not (len(body.core_hash) == 64 and set(body.core_hash) <= set("0123456789abcdef")):
        yield "core_hash is no sha256"
    if any(not 0 <= value < LARGEST_SHAPE for value in body.core.values()):
        yield f"core has numbers out of 0 to {LARGEST_SHAPE - 1}"
    yield from _of_cycles("program", design.latency, body.period)
    streams = [
        ("stream", design.stream),
        *((f"functions, {each.name!r}", each.stream) for each in body.functions),
    ]
    for where, stream in streams:
        for side, first in (("input", 0 if body.functions else 1), ("output", 0)):
            own = getattr(stream, side)
            yield from _of_word_stream(f"{where}.{side}", side, own, first)
            if own.bits != getattr(design.stream, side).bits:
                yield f"{where}.{side} has {own.bits} bits; expected those of all, {getattr(design.stream, side).bits}"
    yield from _of_program_functions(design)
    ports = (*design.input.ports, *design.output.ports)
    if body.samples_per_run != 1 and (
        body.samples_per_run < 1 or body.functions or any(port.shape[:1] != (body.samples_per_run,) for port in ports)
    ):
        text = "expected the first of the shape of each port, of one function"
        yield f"samples_per_run is {body.samples_per_run}; {text}"
    if body.loop is not None:
        yield from _of_loop(design, body.loop)
    if body.shell is not None:
        yield from _of_bench_shell(design, body.shell)
    sink = design.output
    if sink.overflow != sink.bits - WORD or len(sink.scopes) != 1:
        yield f"stream.output has its flag at bit {sink.overflow}; expected {sink.bits - WORD}, of one scope"


def _of_bench_shell(design: DesignRecord[ProgramBody], shell: ProgramShell) -> Iterator[str]:
    if shell.width not in WIDTHS or shell.last not in LASTS or not 1 <= shell.cores < LARGEST_SHAPE:
        yield f"shell has {shell.cores} cores behind {shell.width} bits, TLAST per {shell.last!r:.20}"
    if shell.style not in STYLES:
        yield f"shell has style {shell.style!r:.20}; expected {' or '.join(STYLES)}"
    if len(shell.spans) != max(len(design.body.functions), 1) or any(
        not 0 < a <= b < MOST_CYCLES for a, b in shell.spans
    ):
        yield f"shell has spans {shell.spans!r:.60}; expected the least and the most cycles of each function"


def _of_loop(design: DesignRecord[ProgramBody], loop: ProgramLoop) -> Iterator[str]:
    """Yield the inconsistencies of a loop."""
    inputs, outputs = ({port.name: port for port in side.ports} for side in (design.input, design.output))
    for source, target in loop.carry:
        if target not in inputs or (source in outputs and outputs[source].shape != inputs[target].shape):
            yield f"loop carries '{source}' to '{target}'; expected an output and an input of one shape"
    if not (1 <= loop.steps <= 1 << 12 and loop.inputs >= 0 and 1 <= loop.start < design.input.words):
        yield f"loop has {loop.steps} steps of {loop.inputs} inputs, its start at word {loop.start}"
        return
    carried = {k for port in design.input.ports if port.name in dict(loop.carry).values() for k in port.fields}
    strides = [None if k in carried else loop.inputs for k in range(len(design.input.fields))]
    if _repeats(design.input, strides, loop.steps, design.input.words, {loop.start}):
        yield "loop has inputs beyond its stream, or two in one word"
    if len(loop.outputs) != len(design.output.fields) or _repeats(
        design.output, loop.outputs, loop.steps, design.output.overflow // WORD, set()
    ):
        yield "loop has results beyond its stream, or two in one word"


def _repeats(stream: Stream, strides: Sequence[int | None], steps: int, end: int, used: set[int]) -> bool:
    """Return whether a word of any step's field is outside 0 to `end`, or is used twice.

    Args:
        stream: The fields of the first step.
        strides: For each field, the number of words to the same field of the next step; None if only the first step
            has it.
        steps: Number of steps.
        end: Number of words.
        used: Words that are in use.
    """
    for each, stride in zip(stream.fields, strides, strict=True):
        words = [each.lsb // WORD + (stride or 0) * step for step in range(1 if stride is None else steps)]
        if min(words) < 0 or max(words) >= end or len(used) + len(words) != len(used | set(words)):
            return True
        used = used | set(words)
    return False


def _of_word_stream(where: str, side: str, stream: Stream, first: int) -> Iterator[str]:
    """Yield what is wrong with a stream of words, whose first field is at word `first`."""
    yield from stream_faults(where, stream, 0 if side == "input" else ZERO)
    if not 2 * WORD <= stream.bits <= WORD << 16 or stream.bits % WORD:
        yield f"{where} has {stream.bits} bits; expected words of {WORD}"
    end = stream.bits if side == "input" else stream.bits - WORD
    for k, each in enumerate(stream.fields):
        if not (first * WORD <= each.lsb < end and each.lsb % WORD == 0):
            yield f"{where}.fields[{k}] has bits {each.lsb} to {each.lsb + each.width}; expected a word below {end}"
    yield from repeated(f"{where}, words of fields", [each.lsb for each in stream.fields])


def _of_program_functions(design: DesignRecord[ProgramBody]) -> Iterator[str]:
    """Yield the inconsistencies among several functions, and of the code that selects a function."""
    if design.body.functions and design.body.functions[0].stream != design.stream:
        yield "stream is not that of the first function"
    for each in design.body.functions:
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
