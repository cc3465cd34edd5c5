"""Convert between beats of an AXI4-Stream and samples or results of the datapath.

A sample begins with a new beat: number k is in beat k // lanes, lane k % lanes. The word after the last number is the
sample's tag, which the result returns unchanged; the rest of the last beat is 0. Each lane has one converter. The
converters never stall: credit guarantees space for what they produce.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from dynagate.design.words import FIXED, FLOAT32, WORD, beats, words_of
from dynagate.fixedpoint.format import Format
from dynagate.hw.plan.layouts import Layouts
from dynagate.hw.rtl.axi import PER_SAMPLE
from dynagate.hw.rtl.stream_ports import stream_ports
from dynagate.hw.units.float32 import FromFloat, ToFloat
from dynagate.hw.units.floating import BINARY32
from dynagate.hw.units.raw import WHOLE, FromWord, ToWord
from dynagate.hw.units.rescale import by_beat, delayed


class Converters(NamedTuple):
    """Converters between a stream's words and the datapath's integers."""

    into: type[FromFloat | FromWord]
    """Component that converts a word to an integer."""
    out: type[ToFloat | ToWord]
    """Component that converts an integer to a word."""
    nan: int | None
    """Word that replaces the numbers of an unusable result; None if a bit marks such results."""


CONVERTERS = {
    FLOAT32: Converters(FromFloat, ToFloat, BINARY32.nan),
    FIXED: Converters(FromWord, ToWord, None),
}
"""Converters by number format of the stream."""


def _lanes(formats: Sequence[Format], lanes: int) -> list[list[Format]]:
    """Return the formats of the fields in each lane, beat by beat. Lanes without fields are left out."""
    return [list(formats[lane::lanes]) for lane in range(min(lanes, len(formats)))]


class _Credit:
    """Counter of free space behind a pipeline: taken by an entry, returned when the FIFO behind the pipeline is read.

    `some` is a register that is 1 if there is space. It keeps one entry in reserve, which may be taken while it is 1.
    """

    def __init__(self, m: Module, depth: int, taken: Value, returned: Value, name: str) -> None:
        self.left = Signal(range(depth + 1), init=depth, name=name)
        self.some = Signal(name=f"{name}_is_there")
        m.d.sync += [self.left.eq(self.left - taken + returned), self.some.eq(self.left > 1)]


class StreamRegisters(NamedTuple):
    """Registers of a stream that a formal proof observes."""

    credit: Signal
    some: Signal
    under_way: Signal
    """One bit for each stage of the converter pipeline."""
    fifo: SyncFIFOBuffered


class InputStream(wiring.Component):
    """Converts beats of an AXI4-Stream to samples, with one converter per lane.

    If TLAST ends a batch, a sample that TLAST cuts short is delivered as broken, to keep the end of the batch. If TLAST
    ends each sample, such a sample is dropped.

    ==========  ===  ===========================================================================================
    tdata       in   words of a beat; a sample begins with a new beat
    tvalid      in   1: the beat is offered
    tready      out  1: the beat is accepted
    tlast       in   1: the beat ends a sample or a batch, depending on `last`
    tkeep       in   one bit per byte: the byte is present; only bytes after a sample's tag may be missing
    o_payload   out  fields of a sample, from bit 0 up
    o_bad       out  1: a field is NaN, infinite or outside its format
    o_broken    out  1: TLAST cut the sample short, it has a hole, or the words after its tag are not 0
    o_last      out  1: the batch ends with this sample
    o_tag       out  32 bits: the sample's tag, inverted if the sample is broken
    o_valid     out  1: a sample is offered
    o_ready     in   1: the sample is accepted
    idle        out  1: no sample, or part of one, is under way
    misaligned  out  1 for one cycle per sample: it is broken, or TLAST is missing
    hole        out  1 for one cycle per beat: a byte of a sample or of its tag is missing
    ==========  ===  ===========================================================================================

    Args:
        formats: Format of each field of a sample.
        width: Bits of a beat.
        ii: Initiation interval of the datapath in cycles.
        last: What TLAST ends.
        words: Number format of the stream. With FIXED, words hold the packed bits of the sample.
    """

    def __init__(
        self, formats: Sequence[Format], width: int, ii: int, last: str = PER_SAMPLE, words: str = FLOAT32
    ) -> None:
        self.width, self.last = width, last
        self.words, self.lane = words_of([fmt.width for fmt in formats], words), WORD
        self.formats = (WHOLE,) * self.words if words == FIXED else tuple(formats)
        self.converter = CONVERTERS[words].into
        self.beats = beats(self.words, width)
        self.depth = math.ceil((self.converter.latency + 7 + ii + self.beats) / max(ii, self.beats)) + 2
        self.bits = sum(fmt.width for fmt in formats)
        super().__init__(
            {
                **stream_ports(width, into=True),
                "o_payload": Out(self.bits),
                "o_bad": Out(1),
                "o_broken": Out(1),
                "o_last": Out(1),
                "o_tag": Out(WORD),
                "o_valid": Out(1),
                "o_ready": In(1),
                "idle": Out(1),
                "misaligned": Out(1),
                "hole": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beat = Signal(range(max(self.beats, 2)))
        first, final = beat == 0, beat == self.beats - 1
        accept = Signal()
        whole = Signal()
        cut = Signal()
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=self.bits + 3 + WORD, depth=self.depth)
        taken = fifo.r_rdy & fifo.r_en
        dropped = cut if self.last == PER_SAMPLE else Const(0)
        credit = _Credit(m, self.depth, accept & first, taken + dropped, "credit")
        m.d.comb += [
            self.tready.eq(~first | credit.some),
            self.idle.eq(credit.left == self.depth),
            accept.eq(self.tvalid & self.tready),
            whole.eq(accept & final),
            cut.eq(accept & self.tlast & ~final),
        ]
        with m.If(accept):
            m.d.sync += beat.eq(Mux(final | self.tlast, 0, beat + 1))

        # conversion, a register, and the fields come to rest beat by beat
        later = self.converter.latency + 1
        under_way = Signal(later + 1)
        m.d.sync += under_way.eq(Cat(whole | (cut & ~dropped), under_way)[: later + 1])
        self.state = StreamRegisters(credit.left, credit.some, under_way, fifo)
        self.beat = beat
        fields, bad = self._converted(m, accept, beat)
        place = self.words % (self.width // WORD)  # of the tag in the last beat
        tag = self.tdata.word_select(place, WORD)
        strange = self._strange(m, whole, place + 1) | self._holed(m, accept, beat, place + 1)
        missing = whole & ~self.tlast if self.last == PER_SAMPLE else Const(0)
        m.d.sync += self.misaligned.eq(strange | delayed(m, cut | missing, 2, "unaligned", reset=True))
        broken = delayed(m, strange | delayed(m, cut, 2, "cut"), later - 1, "broken")
        m.d.comb += [
            fifo.w_data.eq(
                Cat(
                    Cat(*fields)[: self.bits],
                    bad,
                    broken,
                    delayed(m, self.tlast, later + 1, "last"),
                    delayed(m, tag, later + 1, "tag") ^ broken.replicate(WORD),
                )
            ),
            fifo.w_en.eq(under_way[-1]),
            fifo.r_en.eq(self.o_ready),
            self.o_valid.eq(fifo.r_rdy),
            Cat(self.o_payload, self.o_bad, self.o_broken, self.o_last, self.o_tag).eq(fifo.r_data),
        ]
        return m

    def _strange(self, m: Module, whole: Value, first: int) -> Signal:
        """Return, two cycles after the last beat of a sample, whether the words from `first` on are not all 0."""
        bytes_of = [self.tdata[8 * k : 8 * k + 8] & self.tkeep[k].replicate(8) for k in range(self.width // 8)]
        words = [Cat(bytes_of[low : low + WORD // 8]) for low in range(first * WORD // 8, self.width // 8, WORD // 8)]
        filled = [delayed(m, word.any(), 1, f"filled_{k}") for k, word in enumerate(words)]
        strange = Signal(name="strange")
        m.d.sync += strange.eq(delayed(m, whole, 1, "whole", reset=True) & Cat(*filled).any())
        return strange

    def _holed(self, m: Module, accept: Value, beat: Signal, first: int) -> Value:
        """Return, two cycles after the last beat of a sample, whether a byte before word `first` of its last beat is
        missing.

        It also drives `hole`, which reports each beat.
        """
        words = [self.tkeep[low : low + WORD // 8].all() for low in range(0, self.width // 8, WORD // 8)]
        kept = [delayed(m, word, 1, f"kept_{k}") for k, word in enumerate(words)]
        here = delayed(m, accept, 1, "beat_is_here", reset=True)
        at, final = delayed(m, beat == 0, 1, "first_is_here"), delayed(m, beat == self.beats - 1, 1, "final_is_here")
        missing = ~Cat(*(word | final if k >= first else word for k, word in enumerate(kept))).all()
        before, ended = Signal(name="hole_before", reset_less=True), Signal(name="sample_is_over")
        m.d.sync += [self.hole.eq(here & missing), ended.eq(here & final)]
        with m.If(here):
            m.d.sync += before.eq(missing | (before & ~at))
        return ended & before

    def _converted(self, m: Module, accept: Value, beat: Signal) -> tuple[list[Signal], Signal]:
        """Return the fields of a sample, which arrive beat by beat, and whether one of them is bad."""
        later = self.converter.latency + 1
        arrived = delayed(m, accept, later, "arrived")
        arrived_beat = delayed(m, beat, later, "arrived_beat")
        fields = [Signal(fmt.width, name=f"field_{k}", reset_less=True) for k, fmt in enumerate(self.formats)]
        bad_here = []
        count = self.width // self.lane
        for lane, formats in enumerate(_lanes(self.formats, count)):
            m.submodules[f"lane_{lane}"] = unit = self.converter(formats)
            m.d.comb += [unit.x.eq(self.tdata.word_select(lane, self.lane)), unit.beat.eq(beat)]
            value = delayed(m, unit.o, 1, f"value_{lane}")
            here = Signal(name=f"bad_{lane}", reset_less=True)
            m.d.sync += here.eq(unit.bad & (delayed(m, beat, unit.latency, f"beat_{lane}") < len(formats)))
            bad_here.append(here)
            for k, fmt in enumerate(formats):
                with m.If(arrived & (arrived_beat == k)):
                    m.d.sync += fields[lane + k * count].eq(value[: fmt.width])
        bad = Signal(reset_less=True)
        with m.If(arrived):
            m.d.sync += bad.eq(((arrived_beat != 0) & bad) | Cat(*bad_here).any())
        return fields, bad


def _packed(fields: Sequence[Value], bad: Value) -> list[Value]:
    """Return the words of a result's packed bits. The last bit marks an unusable result."""
    bits = Cat(*fields, bad)
    return [bits[low : low + WORD].as_signed() for low in range(0, len(bits), WORD)]


def _is_one_of(beat: Signal, beats: Collection[int]) -> Value:
    """Return whether a beat is one of these beats, which are consecutive for a single layout."""
    if len(beats) == max(beats) + 1:
        return beat < len(beats)
    return Cat(beat == k for k in sorted(beats)).any()


class _Moves(NamedTuple):
    """Steps from beat to beat of a result, and to the first beat of the next result."""

    beat: Signal
    """The present beat."""
    issue: Signal
    """1: the beat is issued in this cycle."""
    load: Signal
    """1: the next result begins."""
    first_beats: list[list[int]]
    """First beats of the layouts of each function."""
    function: Value
    """Index of the function of the next result."""
    choices: list[Value]
    """Number of the layout that each function uses, from 1 up."""

    def follow(self, m: Module, register: Signal, entries: Sequence[int]) -> None:
        """Let a register hold the entry of the present beat. The entries of first beats wait in registers of their
        own.
        """
        firsts: list[Value] = []
        for k, (beats_of_layouts, choice) in enumerate(zip(self.first_beats, self.choices, strict=True)):
            by_layout = [Const(entries[b], register.shape()) for b in beats_of_layouts]
            first: Value = by_layout[-1]
            if len(by_layout) > 1:
                first = Signal(register.shape(), name=f"{register.name}_first_{k}", init=by_layout[-1].value)
                m.d.sync += first.eq(Array([by_layout[-1], *by_layout])[choice])
            firsts.append(first)
        following = [Const(entry, register.shape()) for entry in (*entries[1:], entries[0])]
        with m.If(self.issue | self.load):
            m.d.sync += register.eq(Mux(self.load, by_beat(firsts, self.function), by_beat(following, self.beat)))


class OutputStream(wiring.Component):
    """Converts results to beats of an AXI4-Stream, with one converter per lane.

    =========  ===  =====================================================================================
    i_payload  in   fields of a result, from bit 0 up
    i_bad      in   1: the result is unusable: all its numbers become NaN
    i_last     in   1: the batch ends with this result
    i_tag      in   32 bits: tag of the result's sample
    i_layout   in   index of the result's function
    i_choice   in   number of each function's layout, from 1 up, if it has several; constant while results
                    are under way
    i_valid    in   1: a result is offered
    i_ready    out  1: the result is accepted
    idle       out  1: no result is under way
    tdata      out  words of a beat
    tvalid     out  1: the beat is offered
    tready     in   1: the beat is accepted
    tlast      out  1: the beat ends a sample or a batch, depending on `last`
    =========  ===  =====================================================================================

    Args:
        formats: Format of each field of a result.
        width: Bits of a beat.
        last: What TLAST ends.
        layouts: For each function and each layout that `i_choice` selects, its fields in the order of the words; all
            fields in one layout unless given.
        words: Number format of the stream. With FIXED, words hold the packed bits, and a last bit marks unusable
            results.
    """

    def __init__(
        self,
        formats: Sequence[Format],
        width: int,
        last: str = PER_SAMPLE,
        layouts: Sequence[Sequence[Sequence[int]]] | None = None,
        words: str = FLOAT32,
    ) -> None:
        self.width, self.last, self.lane = width, last, WORD
        self._converter, self._nan = CONVERTERS[words].out, CONVERTERS[words].nan
        self.fields = tuple(formats)
        of_fields = tuple(tuple(map(tuple, each)) for each in layouts or [[range(len(formats))]])
        self._packs = [fields for each in of_fields for fields in each] if words == FIXED else []
        self.formats: Sequence[Format] = self.fields
        if self._packs:
            counts = [words_of([formats[k].width for k in fields], words, flag=True) for fields in self._packs]
            self.formats = (WHOLE,) * sum(counts)
            starts = iter([range(sum(counts[:k]), sum(counts[: k + 1])) for k in range(len(counts))])
            of_fields = tuple(tuple(tuple(next(starts)) for _ in each) for each in of_fields)
        self.layouts = Layouts(of_fields, width, self.lane)
        self.bits = sum(fmt.width for fmt in formats)
        self._choice_bits = [len(each).bit_length() for each in of_fields]
        chosen = {"i_choice": In(sum(self._choice_bits))} if max(map(len, of_fields)) > 1 else {}
        super().__init__(
            {
                "i_payload": In(self.bits),
                "i_bad": In(1),
                "i_last": In(1),
                "i_tag": In(WORD),
                "i_layout": In(range(len(of_fields))),
                **chosen,
                "i_valid": In(1),
                "i_ready": Out(1),
                "idle": Out(1),
                **stream_ports(width, into=False),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held = Signal(self.bits, reset_less=True)
        bad = Signal(reset_less=True)
        ends = Signal(reset_less=True)
        tag = Signal(WORD, reset_less=True)
        busy = Signal()
        beat = Signal(range(max(self.layouts.beats, 2)))
        issue = Signal()
        load = Signal()
        taken = Signal()
        units = {
            lane: self._converter([self.formats[k] for k in column.numbers])
            for lane, column in self.layouts.columns.items()
        }
        slowest = max(unit.latency for unit in units.values())
        later = slowest + 2  # a multiplexer before, another after
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=self.width + 1, depth=later + 6)
        credit = _Credit(m, fifo.depth, issue, taken, "credit")
        moves = _Moves(beat, issue, load, self.layouts.first_beats, self.i_layout, self._choices())
        moves.follow(m, beat, range(self.layouts.beats))
        final = Signal(reset_less=True)
        moves.follow(m, final, [k in self.layouts.last_beats for k in range(self.layouts.beats)])
        m.d.comb += [
            issue.eq(busy & credit.some),
            self.i_ready.eq(~busy | (issue & final)),
            load.eq(self.i_valid & self.i_ready),
            taken.eq(self.tvalid & self.tready),
            self.idle.eq(~busy & (credit.left == fifo.depth)),
        ]
        with m.If(issue):
            m.d.sync += busy.eq(~final)
        with m.If(load):
            m.d.sync += [
                held.eq(self.i_payload),
                bad.eq(self.i_bad),
                ends.eq(self.i_last),
                tag.eq(self.i_tag),
                busy.eq(1),
            ]
        under_way = Signal(later)
        m.d.sync += under_way.eq(Cat(issue, under_way)[:later])
        self.state = StreamRegisters(credit.left, credit.some, under_way, fifo)

        data = self._data(m, moves, units, held, bad, tag)
        at_end = final & (1 if self.last == PER_SAMPLE else ends)
        m.d.comb += [
            fifo.w_data.eq(Cat(data, delayed(m, at_end, later, "last"))),
            fifo.w_en.eq(under_way[-1]),
            Cat(self.tdata, self.tlast).eq(fifo.r_data),
            self.tvalid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.tready),
        ]
        return m

    def _data(
        self,
        m: Module,
        moves: _Moves,
        units: Mapping[int, Any],
        held: Signal,
        bad: Signal,
        tag: Signal,
    ) -> Signal:
        """Return the words of a beat, `later` cycles after it is issued. units: converter of each lane."""
        beat, slowest = moves.beat, max(unit.latency for unit in units.values())
        later = slowest + 2
        numbers = self._numbers(held, bad)
        poison = delayed(m, bad, later - 1, "poison")
        data = Signal(self.width, reset_less=True)
        m.d.sync += data.eq(0)
        held_tag = delayed(m, tag, later - 1, "tag_held")
        for word, beats_with_tag in self.layouts.tags.items():
            with m.If(delayed(m, _is_one_of(beat, beats_with_tag), later - 1, f"tagged_{word}")):
                m.d.sync += data.word_select(word, WORD).eq(held_tag)
        for lane, column in self.layouts.columns.items():
            m.submodules[f"lane_{lane}"] = unit = units[lane]
            place = beat
            if not column.place_is_beat:  # so that the multiplexer has one input for each number, not for each beat
                place = Signal(range(max(len(column.numbers), 2)), name=f"place_{lane}", reset_less=True)
                moves.follow(m, place, [k or 0 for k in column.places])
            x = Signal(unit.x.shape(), name=f"x_{lane}", reset_less=True)
            m.d.sync += x.eq(by_beat([numbers[k] for k in column.numbers], place))
            m.d.comb += [unit.x.eq(x), unit.beat.eq(delayed(m, place, 1, f"place_{lane}"))]
            converted = delayed(m, unit.o, slowest - unit.latency, f"converted_{lane}")
            with m.If(delayed(m, _is_one_of(beat, column.filled), later - 1, f"there_{lane}")):
                number = converted if self._nan is None else Mux(poison, self._nan, converted)
                m.d.sync += data.word_select(lane, self.lane).eq(number)
        return data

    def _choices(self) -> list[Value]:
        """Return, by function, the number of the layout that its results have."""
        if "i_choice" not in self.signature.members:
            return [Const(1) for _ in self._choice_bits]
        starts = [sum(self._choice_bits[:k]) for k in range(len(self._choice_bits))]
        return [self.i_choice[low : low + bits] for low, bits in zip(starts, self._choice_bits, strict=True)]

    def _numbers(self, held: Signal, bad: Signal) -> list[Value]:
        """Return the fields of the result that is held, or the words of its layouts."""
        fields: list[Value] = []
        low = 0
        for fmt in self.fields:
            fields.append(held[low : low + fmt.width].as_signed())
            low += fmt.width
        if not self._packs:
            return fields
        return [word for each in self._packs for word in _packed([fields[k] for k in each], bad)]
