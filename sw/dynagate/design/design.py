"""A design: all that simulation, host, datasheet and report read of what was built. design.json is its text."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Literal, Protocol, TypeVar

from dynagate.base.errors import ArgumentError
from dynagate.base.structure import structured
from dynagate.design.codec import Codec, Slot
from dynagate.design.words import FIXED, FLOAT32, FLOAT64, WORD, beats, number_of, words_of
from dynagate.fixedpoint.format import Format
from dynagate.graph.packing import ZERO, chosen_numbers

Row = TypeVar("Row")
OwnDesign = TypeVar("OwnDesign", bound="Design")


@dataclass(frozen=True)
class Sides(Generic[Row]):
    """One of something for each stream."""

    input: Row
    output: Row


@dataclass(frozen=True)
class Field:
    """One number of a payload: a signal's bits from `lsb` on. low, high: the values that an input's format is for."""

    signal: str
    lsb: int
    width: int
    frac: int
    low: float | None = None
    high: float | None = None

    @cached_property
    def format(self) -> Format:
        return Format(self.width, self.frac)

    @property
    def range(self) -> tuple[float, float]:
        return (-math.inf if self.low is None else self.low, math.inf if self.high is None else self.high)


@dataclass(frozen=True)
class Port:
    """A named array of fields, row-major; ZERO for an entry that is always zero and has no field. unit_vectors: (start,
    stop) of entries that have length 1 together. switches: whether its entries are 0 or 1.
    parameter: kind of a variable parameter, as in `graph.Port`."""

    name: str
    shape: tuple[int, ...]
    fields: tuple[int, ...]
    unit_vectors: tuple[tuple[int, int], ...] = ()
    switches: bool = False
    parameter: str = ""


@dataclass(frozen=True)
class Stream:
    """A payload of so many bits. scopes: the passes of the algorithm whose overflow bits, one each, begin at bit
    `overflow` of an output payload."""

    bits: int
    fields: tuple[Field, ...]
    ports: tuple[Port, ...]
    overflow: int = 0
    scopes: tuple[str, ...] = ()

    @property
    def words(self) -> int:
        """32-bit words that a payload takes."""
        return -(-self.bits // WORD)

    @property
    def overflow_bits(self) -> range:
        return range(self.overflow, self.overflow + len(self.scopes))

    @cached_property
    def codec(self) -> Codec:
        """The codec of payloads: an integer at the bits of each field."""
        return Codec(tuple(Slot(field.lsb, field.format) for field in self.fields), self.words)


FLAG = Format(2, 0)
"""Of the flag of a result on a stream of packed integers: -1 if the result cannot be used."""


def result_codec(fields: Sequence[Field], word: str) -> Codec:
    """Return the codec of results with these fields on an AXI stream of these words."""
    widths = [field.width for field in fields]
    codec = _slots(fields, word, words_of(widths, word, flag=True))
    if word != FIXED:
        return codec
    end = sum(widths)
    return replace(codec, flag=Slot(end, FLAG, fill=WORD - end % WORD))


def _slots(fields: Sequence[Field], word: str, words: int) -> Codec:
    """Return the codec of fields that follow each other on an AXI stream."""
    number = number_of(word)
    slots, bit = [], 0
    for each in fields:
        slots.append(Slot(bit, each.format, number))
        bit += slots[-1].bits
    return Codec(tuple(slots), words)


@dataclass(frozen=True)
class Register:
    """address: in bytes, 32 bits each. access: "read" or "write". bits: names of single bits, from bit 0 up."""

    name: str
    address: int
    access: str
    meaning: str
    bits: tuple[str, ...] = ()


@dataclass(frozen=True)
class AxiStreams:
    """The AXI shell. width: bits of a beat. last: what TLAST ends, a sample or a batch. words: 32-bit words of a
    sample; the word after them is its tag. beats: of a sample and its tag. conversion: cycles from and to what the
    streams carry. identity, version: what these registers show. parameters: inputs that registers hold instead of the
    stream, each entry in one called as the input and its place, as a float32. word: "float32", a word for each number;
    "float16", half a word; or "fixed", the datapath's integers packed and a bit more in results that says that they
    cannot be used. choice: register OUTPUTS chooses the outputs of each function that its results have."""

    width: int
    last: str
    words: Sides[int]
    beats: Sides[int]
    conversion: Sides[int]
    identity: int
    version: int
    registers: dict[str, Register]
    parameters: tuple[str, ...] = ()
    choice: bool = False
    word: str = FLOAT32

    @property
    def lanes(self) -> int:
        """32-bit words of a beat."""
        return self.width // WORD

    def with_results(self, widths: Sequence[int]) -> AxiStreams:
        """The streams of a function whose results have numbers of so many bits."""
        words = words_of(widths, self.word, flag=True)
        return replace(
            self,
            words=replace(self.words, output=words),
            beats=replace(self.beats, output=beats(words, self.width)),
        )


@dataclass(frozen=True)
class DesignFunction:
    """One of several functions of a design. code: of its samples. inputs: its own inputs by name -> those of the
    design. limits: (low, high) of each entry of those that several functions share under different names. latency: of
    its samples. outputs: fields of its results, as indices into the design's, in the order of their words."""

    name: str
    code: int
    inputs: tuple[tuple[str, str], ...]
    limits: dict[str, tuple[tuple[float, float], ...]]
    latency: int
    outputs: tuple[Port, ...]
    fields: tuple[int, ...]


@dataclass(frozen=True)
class Ring:
    """A step whose state stays on the chip. carry: output -> input of the next turn. capacity: trajectories under
    way."""

    carry: tuple[tuple[str, str], ...]
    capacity: int


@dataclass(frozen=True)
class Versions:
    """Of what generated the design. source: the digest of the generator's source."""

    dynagate: str
    source: str
    amaranth: str


@dataclass(frozen=True)
class ChosenFormats:
    """How the formats were chosen. word: bits, or "mixed", or "given" by a file. policy: for one word length; of a goal
    the policy of its samples, if one was given. goal, statement: for an accuracy, and what fresh states said of it
    (`fixedpoint.confidence.Statement`). proved: of proved ranges, what no state exceeds, and what a sample shows
    (`fixedpoint.beside.Beside`). certificate: what results are certified with
    (`fixedpoint.certificate.Certificate`). file: of a program, what that held (`fixedpoint.files.described`)."""

    word: int | str
    policy: dict[str, Any] | None = None
    goal: dict[str, Any] | None = None
    statement: dict[str, Any] | None = None
    proved: dict[str, Any] | None = None
    certificate: dict[str, Any] | None = None
    file: dict[str, Any] | None = None


@dataclass(frozen=True)
class NodeRow:
    """A node in the hardware. constant: its own, as integer, width and frac. ready: the cycle from which its signal has
    its value; None for a constant or a moved binary point."""

    name: str
    signal: str
    module: str
    width: int
    frac: int
    constant: tuple[int, int, int] | None
    ready: int | None


@dataclass(frozen=True)
class ExtraStages:
    """Register stages that the target wanted beyond the least, behind products and sums (`hw.plan.Stages`)."""

    multiply: int
    add: int


@dataclass(frozen=True)
class RegisterCount:
    """Registers between units."""

    words: int
    bits: int


class OneFunction(Protocol):
    """One of several functions of a design."""

    @property
    def name(self) -> str: ...

    @property
    def code(self) -> int: ...

    @property
    def latency(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class Design(ABC):
    """The record of a design, as design.json holds it: all that hosts, links, simulations and benches know of it.

    A subclass for each body adds what only that body has: `DatapathDesign`, `design.program.ProgramDesign`.
    """

    format: int
    """Version of the record's format."""
    body: str
    """Kind of hardware that computes the functions: "datapath" or "program"."""
    versions: Versions
    robot: dict[str, Any]
    """Fields of the `Robot`."""
    region: dict[str, Any]
    """Fields of the `Region`, without its robot."""
    function: str
    """Name of the function; of several functions, with commas between them."""
    options: dict[str, Any]
    """Options of the algorithm that differ from their defaults."""
    formats: ChosenFormats
    latency: int
    """Cycles from a sample, or from its first program word, to its last result."""
    stream: Sides[Stream]
    """What a sample and a result hold; of a program of several functions, those of the first."""
    functions: Sequence[OneFunction] = ()
    """The functions, if there are several."""
    axi: AxiStreams | None = None
    """Streams of the shell; None for a bare datapath, and for a program that is not open."""
    hash: str = ""
    """sha256 of all fields but itself and `files`; empty until the record is sealed."""
    files: dict[str, str] = field(default_factory=dict, compare=False)
    """sha256 of the Verilog, the formats and the benches, by place in the folder."""

    # names

    @property
    def robot_name(self) -> str:
        return str(self.robot["name"])

    @property
    def title(self) -> str:
        return f"{self.robot_name} {self.function}"

    # streams

    @property
    def input(self) -> Stream:
        return self.stream.input

    @property
    def output(self) -> Stream:
        return self.stream.output

    @property
    @abstractmethod
    def wire(self) -> Sides[Codec]:
        """The codecs of the AXI streams."""

    @property
    @abstractmethod
    def numbers(self) -> dict[str, str]:
        """The type that AXI streams round numbers to, by input and output."""

    @property
    @abstractmethod
    def results(self) -> str:
        """The type of result arrays."""

    @property
    def saturates(self) -> bool:
        """Whether results that overflow are the nearest numbers that fit."""
        return False

    @property
    def samples_per_packet(self) -> int:
        """Samples that share a packet, and its flag."""
        return 1

    @abstractmethod
    def of_function(self, function: Any) -> Design:
        """Return the record for samples of one of several functions."""

    def with_outputs(self, names: Sequence[str]) -> Design:
        """Return the record for results that have only these outputs of a function, in their order.

        Raises:
            ArgumentError: The results of this body are the same in every sample.
        """
        raise ArgumentError(f"{self.title} has no outputs to choose; expected all of them")

    # hardware

    @property
    @abstractmethod
    def interval(self) -> int:
        """Cycles from a sample to the next."""

    @property
    @abstractmethod
    def keeps_states(self) -> bool:
        """Whether the design is a step of a motion whose results are the inputs of the next step."""

    @property
    def is_loaded(self) -> bool:
        """Whether a program is loaded into the hardware before the first sample."""
        return False

    @property
    def device_hash(self) -> int:
        """The 64 bits that the hardware shows."""
        return int(self.hash[:16], 16)

    @property
    @abstractmethod
    def modules(self) -> tuple[str, ...]:
        """The modules with benches in the folder, the innermost first."""

    # text

    def to_json(self) -> dict[str, Any]:
        """Return the content of design.json: lists instead of tuples, texts as keys."""
        content: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return content

    @classmethod
    def from_json(cls: type[OwnDesign], content: Mapping[str, Any]) -> OwnDesign:
        """Return the record with this content.

        Raises:
            ArgumentError: Fields are missing, unknown or of another type; the text names them.
        """
        return structured(content, cls, "design")


@dataclass(frozen=True, kw_only=True)
class DatapathDesign(Design):
    """The record of a pipelined datapath.

    With `ii`, `stages` and the formats of the nodes, the fields of every design are all that the datapath was built
    with. What bounded it, a budget, only decided whether.
    """

    body: Literal["datapath"] = "datapath"
    arithmetic: dict[str, str]
    """Fields of the `Arithmetic`."""
    ii: int
    """Initiation interval, in cycles."""
    stages: ExtraStages
    cycles: dict[str, int]
    """Latency of each class of units."""
    counts: dict[str, int]
    """Operations by kind."""
    units: dict[str, int]
    """Units by kind."""
    dsp_blocks: int
    lookup_tables_estimated: dict[str, int]
    registers: RegisterCount
    mux_inputs: int
    nodes: tuple[NodeRow, ...]
    functions: tuple[DesignFunction, ...] = ()
    ring: Ring | None = None
    """The ring around a rollout's step. `stream` is what its datapath has; `design.ring` has the ring's own streams."""

    @property
    def interval(self) -> int:
        return self.ii

    @property
    def keeps_states(self) -> bool:
        return self.ring is not None

    @property
    def modules(self) -> tuple[str, ...]:
        return "datapath", *(("rollout",) if self.ring else ()), *(("accelerator",) if self.axi else ())

    def of_function(self, function: DesignFunction) -> DatapathDesign:
        """What the streams hold for the samples of one of several functions: the inputs have its own names, and the
        output stream its results alone."""
        own = {shared: name for name, shared in function.inputs}
        fields = list(self.input.fields)
        ports = []
        for port in self.input.ports:
            for k, (low, high) in zip(port.fields, function.limits.get(own.get(port.name, ""), ()), strict=False):
                fields[k] = replace(fields[k], low=low, high=high)
            ports.append(replace(port, name=own.get(port.name, port.name)))
        stream = Sides(replace(self.input, fields=tuple(fields), ports=tuple(ports)), self.output)
        own_part = replace(self, function=function.name, latency=function.latency, stream=stream, functions=())
        return own_part._with_results(function.fields, function.outputs)

    def with_outputs(self, names: Sequence[str]) -> DatapathDesign:
        """What the streams hold where results have these outputs of a function alone. They keep their order."""
        ports = [port for port in self.output.ports if port.name in names]
        numbers = chosen_numbers((port.fields for port in ports), range(len(self.output.fields)))
        return self._with_results(numbers, ports)

    def _with_results(self, fields: Sequence[int], ports: Sequence[Port]) -> DatapathDesign:
        """With some of the output fields in results, in this order."""
        place = {k: n for n, k in enumerate(fields)}
        outputs = tuple(replace(port, fields=tuple(place.get(k, ZERO) for k in port.fields)) for port in ports)
        kept = tuple(self.output.fields[k] for k in fields)
        stream = Sides(self.input, replace(self.output, fields=kept, ports=outputs))
        axi = None if self.axi is None else self.axi.with_results([field.width for field in kept])
        return replace(self, stream=stream, axi=axi)

    @property
    def numbers(self) -> dict[str, str]:
        """The type, "float32" or "float16", that an AXI shell rounds numbers to, by input and output. A bare datapath
        and its integers in numpy round to it too, so that all compute the same."""
        if self.axi is None:
            return {}
        streamed = number_of(self.axi.word)
        names = [port.name for port in (*self.input.ports, *self.output.ports)]
        types = {name: FLOAT32 if name in self.axi.parameters else streamed for name in names}
        return {name: number for name, number in types.items() if number is not None}

    @cached_property
    def wire(self) -> Sides[Codec]:
        """The codecs of the AXI streams, which leave out inputs that registers hold.

        Packed integers lie one after the other from bit 0 up. The bit after those of a result is 1 if the result cannot
        be used; the bits above it in its word have the same value.
        """
        axi = self.axi
        assert axi is not None, "a bare datapath has no AXI streams"
        held = {k for port in self.input.ports if port.name in axi.parameters for k in port.fields}
        streamed = [field for k, field in enumerate(self.input.fields) if k not in held]
        return Sides(_slots(streamed, axi.word, axi.words.input), result_codec(self.output.fields, axi.word))

    @property
    def results(self) -> str:
        """The type of result arrays."""
        return FLOAT64 if self.axi is None or number_of(self.axi.word) is None else FLOAT32
