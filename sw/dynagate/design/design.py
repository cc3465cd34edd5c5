"""A design: all that simulation, host, datasheet and report read of what was built. design.json is its text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from dynagate.base.structure import structured
from dynagate.design.codec import Codec, Slot
from dynagate.design.words import FIXED, FLOAT32, FLOAT64, WORD, beats, number_of, words_of
from dynagate.fixedpoint.format import Format
from dynagate.graph.packing import ZERO, chosen_numbers

Row = TypeVar("Row")


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


class NamedFunction(Protocol):
    """One of several functions of a design or a program."""

    @property
    def name(self) -> str: ...

    @property
    def latency(self) -> int: ...


class Streamed(Protocol):
    """What hosts, links and benches know of a design or a program: what its streams carry, in which shell."""

    @property
    def robot_name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def function(self) -> str: ...

    @property
    def functions(self) -> Sequence[NamedFunction]: ...

    @property
    def stream(self) -> Sides[Stream]: ...

    @property
    def input(self) -> Stream: ...

    @property
    def output(self) -> Stream: ...

    @property
    def wire(self) -> Sides[Codec]: ...

    @property
    def ii(self) -> int: ...

    @property
    def latency(self) -> int: ...

    @property
    def axi(self) -> AxiStreams | None: ...

    @property
    def numbers(self) -> dict[str, str]: ...

    @property
    def results(self) -> str: ...

    @property
    def saturates(self) -> bool: ...

    @property
    def device_hash(self) -> int: ...

    @property
    def hash(self) -> str: ...

    @property
    def modules(self) -> tuple[str, ...]: ...

    @property
    def files(self) -> dict[str, str]: ...

    def of_function(self, function: Any) -> Streamed:
        """What the streams hold for the samples of one of its functions."""


class Named:
    """What designs and programs are called by."""

    robot: dict[str, Any]
    function: str

    @property
    def robot_name(self) -> str:
        return str(self.robot["name"])

    @property
    def title(self) -> str:
        return f"{self.robot_name} {self.function}"


@dataclass(frozen=True)
class Design(Named):
    """hash: sha256 of all but itself and `files`; empty until the design is sealed. files: sha256 of the Verilog.

    robot, region, options, arithmetic, counts: as the dataclasses of these names have them, the region without its
    robot, and of the options those that are not defaults. With `stages`, `ii` and the formats of the nodes they are all
    that the datapath was built with; what bounded it, a budget, only decided whether. cycles: latency of each
    class of units. units: their number by kind. axi: None for a bare datapath. functions: of several.
    ring: of a rollout; `stream` is then what its datapath has, and `design.ring` says what the ring's streams hold.
    """

    format: int
    versions: Versions
    robot: dict[str, Any]
    region: dict[str, Any]
    function: str
    options: dict[str, Any]
    formats: ChosenFormats
    arithmetic: dict[str, str]
    ii: int
    stages: ExtraStages
    latency: int
    cycles: dict[str, int]
    stream: Sides[Stream]
    counts: dict[str, int]
    units: dict[str, int]
    dsp_blocks: int
    lookup_tables_estimated: dict[str, int]
    registers: RegisterCount
    mux_inputs: int
    nodes: tuple[NodeRow, ...]
    axi: AxiStreams | None = None
    functions: tuple[DesignFunction, ...] = ()
    ring: Ring | None = None
    hash: str = ""
    files: dict[str, str] = field(default_factory=dict)

    @property
    def device_hash(self) -> int:
        """The 64 bits of the hash that the hardware shows."""
        return int(self.hash[:16], 16)

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules with benches in its folder (`hw.bench`), the innermost first."""
        return "datapath", *(("rollout",) if self.ring else ()), *(("accelerator",) if self.axi else ())

    def of_function(self, function: DesignFunction) -> Design:
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

    def with_outputs(self, names: Sequence[str]) -> Design:
        """What the streams hold where results have these outputs of a function alone. They keep their order."""
        ports = [port for port in self.output.ports if port.name in names]
        numbers = chosen_numbers((port.fields for port in ports), range(len(self.output.fields)))
        return self._with_results(numbers, ports)

    def _with_results(self, fields: Sequence[int], ports: Sequence[Port]) -> Design:
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
    def saturates(self) -> bool:
        """Whether results that overflow are the nearest numbers that fit."""
        return False

    @property
    def results(self) -> str:
        """The type of result arrays."""
        return FLOAT64 if self.axi is None or number_of(self.axi.word) is None else FLOAT32

    @property
    def input(self) -> Stream:
        return self.stream.input

    @property
    def output(self) -> Stream:
        return self.stream.output

    def to_json(self) -> dict[str, Any]:
        """The content of design.json: lists instead of tuples, texts as keys."""
        content: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Design:
        """The design of a content of design.json. Raises ValueError naming the fields that are none of one."""
        return structured(content, cls, "design")
