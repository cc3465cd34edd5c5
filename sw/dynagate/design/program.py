"""The record of a program for a processor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Literal

from dynagate.design.codec import Codec, Slot
from dynagate.design.design import Design, Field, Sides, Stream
from dynagate.design.words import FIXED, FLOAT32, FLOAT64, WORD, number_of
from dynagate.fixedpoint.format import Format


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


@dataclass(frozen=True, kw_only=True)
class ProgramDesign(Design):
    """The record of a program for a core.

    Streams have words of 32 bits. The first word of a sample is its head, the last one of a result its flag.
    """

    body: Literal["program"] = "program"
    core: dict[str, int]
    """Fields of `hw.processor.isa.shape.Core`."""
    core_hash: str
    """Hash of the core."""
    period: int
    """Cycles from a sample to the next."""
    words: int
    """Words of the program."""
    instructions: int
    functions_used: int
    """Instructions of the elementary unit."""
    places: tuple[int, ...]
    """Places that each memory needs."""
    program: str
    """sha256 of program.bin, whose 32-bit words load the program, and of what its streams hold (`program_digest`)."""
    functions: tuple[ProgramFunction, ...] = ()
    loop: ProgramLoop | None = None
    abreast: int = 1
    """Samples that a packet holds, the first of the ports' shape."""
    shell: ProgramShell | None = None
    """The shell of its bench; None where it has none."""

    @property
    def interval(self) -> int:
        return self.period

    @property
    def keeps_states(self) -> bool:
        return self.loop is not None

    @property
    def samples_per_packet(self) -> int:
        return self.abreast

    @property
    def is_loaded(self) -> bool:
        return True

    @property
    def modules(self) -> tuple[str, ...]:
        return () if self.shell is None else ("accelerator",)

    @property
    def device_hash(self) -> int:
        """The 64 bits that the core shows."""
        return int(self.core_hash[:16], 16)

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


def program_digest(content: bytes, design: ProgramDesign) -> str:
    """Return the checksum of a program: of what program.bin holds, and of the streams that tell how to read results."""
    read_with = {name: asdict(each) for name, each in (("stream", design.stream), ("loop", design.loop)) if each}
    functions = [asdict(each) for each in design.functions]
    faces = json.dumps([read_with, functions, design.abreast], sort_keys=True).encode()
    return hashlib.sha256(hashlib.sha256(faces).digest() + content).hexdigest()


def shape_text(core: Mapping[str, int]) -> str:
    """A core's shape for errors."""
    return ", ".join(f"{name}={value}" for name, value in core.items())
