"""program.json: what a host knows of a program for a processor, and the program beside it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.base.storage import read_file
from dynagate.base.structure import structured
from dynagate.design import files
from dynagate.design.codec import Codec, Slot, Words
from dynagate.design.consistent import repeated, stream_faults
from dynagate.design.design import AxiStreams, ChosenFormats, Field, Named, Sides, Stream, Versions
from dynagate.design.files import EXPECTED, MOST_FAULTS, REBUILD, DesignError, content_hash, read_hashed
from dynagate.design.words import FIXED, FLOAT32, FLOAT64, LASTS, WIDTHS, WORD, number_of
from dynagate.dynamics import CODE
from dynagate.fixedpoint.format import Format
from dynagate.graph.packing import ZERO

FORMAT = 3
FILE, PROGRAM = "program.json", "program.bin"
LARGEST_SHAPE = 64
"""Above any number in a core's shape."""
MOST_CYCLES = 1 << 31
"""Above those of any sample that a bench streams."""


@dataclass(frozen=True)
class ProgramLoop:
    """A step whose state stays in the core. carry: value -> input of the next turn; outputs are values. turns: of a
    sample. start: the word of a sample that is 1 where its first turn has the state of the inputs, 0 where it goes on.
    inputs: words from a turn's own inputs to those of the next turn. outputs: words from a field to the same one of the
    next turn, by field. `stream` has the fields of the first turn."""

    carry: tuple[tuple[str, str], ...]
    turns: int
    start: int
    inputs: int
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class ProgramFunction:
    """One of several functions of a program. code: of its samples, the block that it begins with. latency, period: as
    of the design. stream: of its samples, as long as those of others."""

    name: str
    code: int
    latency: int
    period: int
    stream: Sides[Stream]


@dataclass(frozen=True)
class ProgramShell:
    """The shell in which a program's bench runs it. width: bits of a beat. last: what TLAST ends. cores: that take
    samples in turn. spans: of each function, the least and the most cycles of a sample that is alone, from the first
    beat in to the first beat out."""

    width: int
    last: str
    cores: int
    spans: tuple[tuple[int, int], ...]

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.cores} core{'s' * (self.cores > 1)} behind streams of {self.width} bits"


@dataclass(frozen=True)
class ProgramDesign(Named):
    """A program for a core. hash: sha256 of all but itself and `files`. files: sha256 of the Verilog and the bench.

    robot, region, options: as the dataclasses of these names have them. core: the fields of
    `hw.processor.isa.shape.Core`; core_hash: of the core. period: cycles from a sample to the next. latency: from the
    first program word of a sample to its last result. instructions, functions_used: all, and those of the elementary
    unit. places: that each memory
    needs. stream: of 32-bit words, a beat each; the first of a sample is its head, the last of a result its flag.
    program: sha256 of program.bin, whose 32-bit words load the program, and of what its streams hold (`digest`).
    """

    format: int
    versions: Versions
    robot: dict[str, Any]
    region: dict[str, Any]
    function: str
    options: dict[str, Any]
    formats: ChosenFormats
    core: dict[str, int]
    core_hash: str
    period: int
    latency: int
    words: int
    instructions: int
    functions_used: int
    places: tuple[int, ...]
    stream: Sides[Stream]
    program: str
    hash: str = ""

    functions: tuple[ProgramFunction, ...] = ()
    """Where there are several. `stream` is that of the first."""

    loop: ProgramLoop | None = None

    abreast: int = 1
    """Samples that a packet holds, the first of the ports' shape."""

    axi: AxiStreams | None = None
    """Of the shell that the program's core is in, while it is open; program.json has none."""

    shell: ProgramShell | None = None
    """Of its bench; None where it has none."""

    files: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules with benches in its folder."""
        return () if self.shell is None else ("accelerator",)

    @property
    def device_hash(self) -> int:
        """The 64 bits that the core shows."""
        return int(self.core_hash[:16], 16)

    @property
    def ii(self) -> int:
        return self.period

    @property
    def input(self) -> Stream:
        return self.stream.input

    @property
    def output(self) -> Stream:
        return self.stream.output

    def of_function(self, function: ProgramFunction) -> ProgramDesign:
        """For the samples of one of several functions."""
        own = {"function": function.name, "latency": function.latency, "period": function.period}
        return replace(self, **own, stream=function.stream, functions=())  # type: ignore[arg-type]

    @property
    def stream_words(self) -> str:
        """What the core's streams carry, one of `design.words.WORDS`."""
        return FLOAT32 if self.core.get("floats") else FIXED

    @property
    def numbers(self) -> dict[str, str]:
        """The type that they round numbers to, by input and output; nothing where they carry integers."""
        number = number_of(self.stream_words)
        return {} if number is None else {port.name: number for port in (*self.input.ports, *self.output.ports)}

    @property
    def saturates(self) -> bool:
        """Whether results that overflow are the nearest numbers that fit."""
        return bool(self.core.get("saturates"))

    @property
    def results(self) -> str:
        return number_of(self.stream_words) or FLOAT64

    @cached_property
    def wire(self) -> Sides[Codec]:
        """The codecs of the streams: a word for each number, the sign of an integer in all bits above it.

        Of a loop, they have the first step. The slot after those of the input fields says where the loop starts. The
        head of a sample, its first word, is an integer whatever the streams carry.
        """
        number = number_of(self.stream_words)

        def slot(field: Field, number: str | None = number) -> Slot:
            return Slot(field.lsb, field.format, number, WORD)

        inputs = [slot(field, number if field.lsb else None) for field in self.input.fields]
        if self.loop is not None:
            inputs.append(Slot(WORD * self.loop.start, Format(WORD, 0), number, WORD))
        outputs = tuple(slot(field) for field in self.output.fields)
        flag = Slot(self.output.overflow, Format(WORD, 0), None, WORD)
        return Sides(Codec(tuple(inputs), self.input.words), Codec(outputs, self.output.words, flag))

    def to_json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return content

    def sealed(self) -> ProgramDesign:
        """With its hash, as it is read from program.json."""
        content = self.to_json()
        return structured({**content, "hash": content_hash(content)}, ProgramDesign, "program")


def text_of(design: ProgramDesign) -> str:
    """What program.json holds."""
    return json.dumps(design.to_json(), indent=1) + "\n"


def digest(words: Words, design: ProgramDesign) -> str:
    """Return the checksum of a program: of its words, and of the streams that tell the host how to read its results."""
    return _digest(to_bytes(words), design)


def _digest(content: bytes, design: ProgramDesign) -> str:
    read_with = {name: asdict(each) for name, each in (("stream", design.stream), ("loop", design.loop)) if each}
    functions = [asdict(each) for each in design.functions]
    faces = json.dumps([read_with, functions, design.abreast], sort_keys=True).encode()
    return hashlib.sha256(hashlib.sha256(faces).digest() + content).hexdigest()


def to_bytes(words: Words) -> bytes:
    """What program.bin holds."""
    return np.ascontiguousarray(words, dtype="<u4").tobytes()


def load(path: str | PathLike[str], *, bench: bool = True) -> ProgramDesign:
    """Read the design of a program and check it.

    Args:
        path: Path of program.json, or of its folder.
        bench: Whether to check the files of the bench too.

    Returns:
        The design. Its hash is right, its parts fit each other, and each file listed in it that lies next to it has
        the right checksum.

    Raises:
        DesignError: A file is missing, damaged or inconsistent.
    """
    path = Path(path) / FILE if os.path.isdir(path) else Path(path)
    content = read_hashed(path, "program", EXPECTED, FORMAT)
    try:
        design = structured(content, ProgramDesign, "program")
    except ArgumentError as error:
        raise DesignError(f"{path} is not a program: {error}; {REBUILD}") from None
    if faults := list(islice(_faults(design), MOST_FAULTS)):
        raise DesignError(f"{path} is not a program: {'; '.join(faults)}; {REBUILD}")
    files.check_files(path, design, bench=bench)
    return design


def load_words(folder: Path, design: ProgramDesign) -> Words:
    """Read program.bin, whose words load the program: (messages, 2).

    Raises:
        DesignError: The file is missing or empty, or its checksum is not the one in program.json.
    """
    path = folder / PROGRAM
    try:
        content = read_file(path)
    except OSError as error:
        raise DesignError(f"cannot read {path} ({error.strerror}); {REBUILD}") from error
    actual = _digest(content, design)
    if actual != design.program or len(content) % 8 or not content:
        raise DesignError(
            f"{path} was changed or damaged: its sha256 is {actual:.16} with the streams that {FILE} describes, "
            f"expected {design.program:.16}; {REBUILD}"
        )
    return np.frombuffer(content, dtype="<u4").astype(np.uint32).reshape(-1, 2)


def _faults(design: ProgramDesign) -> Iterator[str]:
    """What does not fit: host and simulation reserve and index memory by these numbers."""
    if not isinstance(design.robot.get("name"), str):
        yield f"robot.name is {design.robot.get('name')!r:.40}; expected a text"
    if not (len(design.core_hash) == 64 and set(design.core_hash) <= set("0123456789abcdef")):
        yield "core_hash is no sha256"
    if any(not 0 <= value < LARGEST_SHAPE for value in design.core.values()):
        yield f"core has numbers out of 0 to {LARGEST_SHAPE - 1}"
    yield from _of_cycles("program", design.latency, design.period)
    streams = [("stream", design.stream), *((f"functions, {each.name!r}", each.stream) for each in design.functions)]
    for where, stream in streams:
        for side, first in (("input", 0 if design.functions else 1), ("output", 0)):
            own = getattr(stream, side)
            yield from _of_stream(f"{where}.{side}", side, own, first)
            if own.bits != getattr(design.stream, side).bits:
                yield f"{where}.{side} has {own.bits} bits; expected those of all, {getattr(design.stream, side).bits}"
    yield from _of_functions(design)
    ports = (*design.input.ports, *design.output.ports)
    if design.abreast != 1 and (
        design.abreast < 1 or design.functions or any(port.shape[:1] != (design.abreast,) for port in ports)
    ):
        yield f"abreast is {design.abreast}; expected the first of the shape of each port, of one function"
    if design.loop is not None:
        yield from _of_loop(design, design.loop)
    if design.shell is not None:
        yield from _of_shell(design, design.shell)
    sink = design.output
    if sink.overflow != sink.bits - WORD or len(sink.scopes) != 1:
        yield f"stream.output has its flag at bit {sink.overflow}; expected {sink.bits - WORD}, of one scope"


def _of_shell(design: ProgramDesign, shell: ProgramShell) -> Iterator[str]:
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


def _of_stream(where: str, side: str, stream: Stream, first: int) -> Iterator[str]:
    """first: word of the first field."""
    yield from stream_faults(where, stream, 0 if side == "input" else ZERO)
    if not 2 * WORD <= stream.bits <= WORD << 16 or stream.bits % WORD:
        yield f"{where} has {stream.bits} bits; expected words of {WORD}"
    end = stream.bits if side == "input" else stream.bits - WORD
    for k, each in enumerate(stream.fields):
        if not (first * WORD <= each.lsb < end and each.lsb % WORD == 0):
            yield f"{where}.fields[{k}] has bits {each.lsb} to {each.lsb + each.width}; expected a word below {end}"
    yield from repeated(f"{where}, words of fields", [each.lsb for each in stream.fields])


def _of_functions(design: ProgramDesign) -> Iterator[str]:
    """Check what several functions share, and the code by which a sample selects its function."""
    yield from repeated("functions", [each.name for each in design.functions])
    yield from repeated("codes of functions", [each.code for each in design.functions])
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


def shape_text(core: Mapping[str, int]) -> str:
    """A core's shape for errors."""
    return ", ".join(f"{name}={value}" for name, value in core.items())
