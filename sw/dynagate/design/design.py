"""The record of a design, which simulation, host, datasheet and report read. design.json is its text.

A record has one form for every kind of hardware. The differences are in its `body`: a pipelined datapath
(`design.datapath`) or a program for a small processor (`design.program`). `design.bodies` lists the kinds.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from dynagate.base.errors import ArgumentError, Error
from dynagate.base.ownership import build_command, head_lines
from dynagate.base.structure import structured
from dynagate.design.bodies import body_row
from dynagate.design.codec import Codec, NumberSlot
from dynagate.design.words import FIXED, FLOAT32, WORD, beats, number_of, words_of
from dynagate.fixedpoint.format import Format

Row = TypeVar("Row")
AnyBody = TypeVar("AnyBody", bound="Body", covariant=True)

FILE = "design.json"
REBUILD = "build the design again"


class DesignError(Error, ValueError):
    """A design that is missing, damaged, of another format version, or not the device's; the text names the file and
    what was expected."""


@dataclass(frozen=True)
class Sides(Generic[Row]):
    """One of something for each stream."""

    input: Row
    output: Row


@dataclass(frozen=True)
class Field:
    """One number of a payload."""

    signal: str
    """Name of the signal."""
    lsb: int
    """Position of its lowest bit."""
    width: int
    """Width in bits."""
    frac: int
    """Number of fraction bits."""
    low: float | None = None
    """Smallest value for which an input's format is made."""
    high: float | None = None
    """Largest value for which an input's format is made."""

    @cached_property
    def format(self) -> Format:
        return Format(self.width, self.frac)

    @property
    def range(self) -> tuple[float, float]:
        return (-math.inf if self.low is None else self.low, math.inf if self.high is None else self.high)


@dataclass(frozen=True)
class StreamPort:
    """A named array of fields."""

    name: str
    shape: tuple[int, ...]
    """Shape for one sample."""
    fields: tuple[int, ...]
    """Field of each entry in row-major order; ZERO for an entry that is always zero and has no field."""
    unit_vectors: tuple[tuple[int, int], ...] = ()
    """(start, stop) of entries that form a unit vector."""
    switches: bool = False
    """Whether the entries are 0 or 1."""
    parameter: str = ""
    """Kind of a variable parameter, as in `graph.Port`."""


@dataclass(frozen=True)
class Stream:
    """The payload of one direction."""

    bits: int
    """Number of bits."""
    fields: tuple[Field, ...]
    ports: tuple[StreamPort, ...]
    overflow: int = 0
    """Position of the overflow bits in an output payload."""
    scopes: tuple[str, ...] = ()
    """The passes of the algorithm that have an overflow bit each."""

    @property
    def words(self) -> int:
        """32-bit words that a payload takes."""
        return -(-self.bits // WORD)

    @property
    def overflow_bits(self) -> range:
        return range(self.overflow, self.overflow + len(self.scopes))

    @cached_property
    def codec(self) -> Codec:
        """The codec of payloads, with an integer at the bits of each field."""
        return Codec(tuple(NumberSlot(field.lsb, field.format) for field in self.fields), self.words)


FLAG = Format(2, 0)
"""Format of a result's flag on a stream of packed integers: -1 if the result cannot be used."""


def result_codec(fields: Sequence[Field], word: str) -> Codec:
    """Return the codec of results with these fields on an AXI stream of these words."""
    widths = [field.width for field in fields]
    codec = slots(fields, word, words_of(widths, word, flag=True))
    if word != FIXED:
        return codec
    end = sum(widths)
    return replace(codec, flag=NumberSlot(end, FLAG, fill=WORD - end % WORD))


def slots(fields: Sequence[Field], word: str, words: int) -> Codec:
    """Return the codec of fields that follow one another on an AXI stream."""
    number = number_of(word)
    slots, bit = [], 0
    for each in fields:
        slots.append(NumberSlot(bit, each.format, number))
        bit += slots[-1].bits
    return Codec(tuple(slots), words)


@dataclass(frozen=True)
class Register:
    """A register of the AXI4-Lite interface."""

    name: str
    address: int
    """Address in bytes; each register has 32 bits."""
    access: str
    """"read" or "write"."""
    meaning: str
    bits: tuple[str, ...] = ()
    """Names of single bits, from bit 0."""


@dataclass(frozen=True)
class AxiStreams:
    """The AXI shell of a design."""

    width: int
    """Bits of a beat."""
    last: str
    """Unit that TLAST ends: a sample or a batch."""
    words: Sides[int]
    """Number of 32-bit words of a sample; the word after them is its tag."""
    beats: Sides[int]
    """Number of beats of a sample and its tag."""
    conversion: Sides[int]
    """Cycles of the conversion from and to the number format of the streams."""
    identity: int
    """Value of the register `identity`."""
    version: int
    """Value of the register `version`."""
    registers: dict[str, Register]
    parameters: tuple[str, ...] = ()
    """Inputs that registers hold instead of the stream. Each entry has a register, named by the input and its position,
    with a float32.
    """
    choice: bool = False
    """Whether register OUTPUTS selects which outputs of each function the results contain."""
    word: str = FLOAT32
    """"float32": one word for each number. "fixed": the datapath's integers, packed, and a bit after a result that is
    set if it cannot be used.
    """

    @property
    def lanes(self) -> int:
        """32-bit words of a beat."""
        return self.width // WORD

    def with_results(self, widths: Sequence[int]) -> AxiStreams:
        """Return the streams of a function whose results have numbers of these widths in bits."""
        words = words_of(widths, self.word, flag=True)
        return replace(
            self,
            words=replace(self.words, output=words),
            beats=replace(self.beats, output=beats(words, self.width)),
        )


@dataclass(frozen=True)
class Versions:
    """The versions that generated the design."""

    dynagate: str
    source: str
    """Hash of the generator's source."""
    amaranth: str


@dataclass(frozen=True)
class ChosenFormats:
    """How the number formats were chosen."""

    word: int | str
    """Word length in bits, "mixed", or "given" by a file."""
    policy: dict[str, Any] | None = None
    """Policy for one word length, or for the samples of an accuracy goal."""
    goal: dict[str, Any] | None = None
    """The accuracy goal."""
    statement: dict[str, Any] | None = None
    """Measured errors on fresh states (`fixedpoint.wordlength.confidence.Statement`)."""
    proved: dict[str, Any] | None = None
    """For proved ranges, bounds that no state exceeds, next to sampled errors (`fixedpoint.proof.error_bounds`)."""
    certificate: dict[str, Any] | None = None
    """Certificate of the results (`fixedpoint.proof.certificate.Certificate`)."""
    file: dict[str, Any] | None = None
    """For a program, the content of the file of formats (`fixedpoint.models.files.described`)."""


class OneFunction(Protocol):
    """One of several functions of a design."""

    @property
    def name(self) -> str: ...

    @property
    def code(self) -> int: ...

    @property
    def latency(self) -> int: ...


class Body(ABC):
    """The part of a design's record that depends on the kind of hardware.

    A subclass is a frozen dataclass with the fields that only its kind has. Methods that need the rest of the record
    receive the design whose body this is. `design.bodies.BODIES` has a row for each subclass.
    """

    kind: ClassVar[str]
    """Name of the kind, which is `body` in design.json."""

    @property
    @abstractmethod
    def functions(self) -> Sequence[OneFunction]:
        """The functions, if there are several."""

    @property
    @abstractmethod
    def interval(self) -> int:
        """Cycles from a sample to the next."""

    @property
    @abstractmethod
    def pace(self) -> str:
        """Option of `dynagate build` that chooses this kind of hardware and its size."""

    @property
    @abstractmethod
    def keeps_states(self) -> bool:
        """Whether the design is a step of a motion whose results are the inputs of the next step."""

    @property
    def is_loaded(self) -> bool:
        """Whether a program is loaded into the hardware before the first sample."""
        return False

    @property
    def saturates(self) -> bool:
        """Whether results that overflow are the nearest numbers that fit."""
        return False

    @property
    def samples_per_packet(self) -> int:
        """Samples that share a packet, and its flag."""
        return 1

    @abstractmethod
    def wire(self, design: DesignRecord[Any]) -> Sides[Codec]:
        """Return the codecs of the AXI streams."""

    @abstractmethod
    def numbers(self, design: DesignRecord[Any]) -> dict[str, str]:
        """Return the type that AXI streams round numbers to, by input and output; nothing for packed integers."""

    @abstractmethod
    def results(self, design: DesignRecord[Any]) -> str:
        """Return the type of result arrays."""

    @abstractmethod
    def modules(self, design: DesignRecord[Any]) -> tuple[str, ...]:
        """Return the modules with benches in the folder, the innermost first."""

    @abstractmethod
    def of_function(self, design: DesignRecord[Any], function: Any) -> DesignRecord[Any]:
        """Return the record for samples of one of several functions."""

    def with_outputs(self, design: DesignRecord[Any], names: Sequence[str]) -> DesignRecord[Any]:
        """Return the record for results that have only these outputs of a function, in their order.

        Raises:
            ArgumentError: The results of this body are the same in every sample.
        """
        raise ArgumentError(f"{design.title} has no outputs to choose; expected all of them", code="DG-DESIGN-002")

    def device_hash(self, design: DesignRecord[Any]) -> int:
        """Return the 64 bits that the hardware shows."""
        return int(design.hash[:16], 16)

    @abstractmethod
    def faults(self, design: DesignRecord[Any]) -> Iterator[str]:
        """Yield what does not fit in the record, as `design.consistent.faults`, for the fields of this body."""

    def check_folder(self, folder: Path, design: DesignRecord[Any]) -> None:  # noqa: B027  # most bodies have no such file
        """Check the files that only this body has and whose checksums are not in `files`.

        Raises:
            DesignError: A file is missing or damaged.
        """


@dataclass(frozen=True, kw_only=True)
class DesignRecord(Generic[AnyBody]):
    """The record of a design, as in design.json. Hosts, links, simulations and benches know a design only by it."""

    format: int
    """Version of the record's format."""
    versions: Versions
    robot: dict[str, Any]
    """Fields of the `Robot`."""
    region: dict[str, Any]
    """Fields of the `Region`, without its robot."""
    function: str
    """Name of the function; several names are separated by commas."""
    options: dict[str, Any]
    """Options of the algorithm that differ from their defaults."""
    formats: ChosenFormats
    latency: int
    """Cycles from a sample, or its first program word, to its last result."""
    stream: Sides[Stream]
    """Fields of a sample and of a result; for a program with several functions, those of the first."""
    body: AnyBody
    """The hardware that computes the functions."""
    axi: AxiStreams | None = None
    """Streams of the shell; None for a bare datapath, and for a program that is not opened."""
    hash: str = ""
    """sha256 of all fields except `hash` and `files`; empty until the record is sealed."""
    files: dict[str, str] = field(default_factory=dict, compare=False)
    """sha256 of the Verilog, the formats and the benches, by path in the folder."""

    # names

    @property
    def robot_name(self) -> str:
        return str(self.robot["name"])

    @property
    def title(self) -> str:
        return f"{self.robot_name} {self.function}"

    @property
    def head(self) -> tuple[str, ...]:
        """The first lines of the files of the design."""
        command = build_command(self.robot_name, self.function, self.body.pace)
        return head_lines(command and f"{command}, with the robot and the options in design.json")

    @property
    def functions(self) -> Sequence[OneFunction]:
        """The functions, if there are several."""
        return self.body.functions

    # streams

    @property
    def input(self) -> Stream:
        return self.stream.input

    @property
    def output(self) -> Stream:
        return self.stream.output

    @cached_property
    def wire(self) -> Sides[Codec]:
        """The codecs of the AXI streams."""
        return self.body.wire(self)

    @property
    def numbers(self) -> dict[str, str]:
        """The type that AXI streams round numbers to, by input and output."""
        return self.body.numbers(self)

    @property
    def results(self) -> str:
        """The type of result arrays."""
        return self.body.results(self)

    @property
    def saturates(self) -> bool:
        """Whether results that overflow are the nearest numbers that fit."""
        return self.body.saturates

    @property
    def samples_per_packet(self) -> int:
        """Samples that share a packet, and its flag."""
        return self.body.samples_per_packet

    def of_function(self, function: Any) -> DesignRecord[AnyBody]:
        """Return the record for samples of one of several functions."""
        return self.body.of_function(self, function)

    def with_outputs(self, names: Sequence[str]) -> DesignRecord[AnyBody]:
        """Return the record for results that have only these outputs of a function, in their order.

        Raises:
            ArgumentError: The results of this body are the same in every sample.
        """
        return self.body.with_outputs(self, names)

    # hardware

    @property
    def interval(self) -> int:
        """Cycles from a sample to the next."""
        return self.body.interval

    @property
    def keeps_states(self) -> bool:
        """Whether the design is a step of a motion whose results are the inputs of the next step."""
        return self.body.keeps_states

    @property
    def is_loaded(self) -> bool:
        """Whether a program is loaded into the hardware before the first sample."""
        return self.body.is_loaded

    @property
    def device_hash(self) -> int:
        """The 64 bits that the hardware shows."""
        return self.body.device_hash(self)

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules with benches in the folder, the innermost first."""
        return self.body.modules(self)

    # text

    def to_json(self) -> dict[str, Any]:
        """Return the content of design.json: lists instead of tuples, texts as keys.

        The fields of the body are next to those of every design, and `body` is its kind.
        """
        content = asdict(self)
        body = content.pop("body")
        flat: dict[str, Any] = json.loads(
            json.dumps({"format": self.format, "body": self.body.kind, **content, **body})
        )
        return flat

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> DesignRecord[Any]:
        """Return the record with this content.

        Raises:
            ArgumentError: There is no such body, or fields are missing, unknown or of another type; the text names
                them.
        """
        generic: Any = cls
        kind = generic[body_row(content.get("body")).record()]
        shared = {each.name for each in fields(cls)}
        nested = {name: value for name, value in content.items() if name in shared}
        nested["body"] = {name: value for name, value in content.items() if name not in shared}
        try:
            design: DesignRecord[Any] = structured(nested, kind, "design")
        except ArgumentError as error:
            raise ArgumentError(re.sub(r"\bdesign\.body\b", "design", str(error)), code="DG-DESIGN-003") from None
        return design
