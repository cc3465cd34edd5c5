"""AXI4-Stream of numbers on one side, payloads of the datapath on the other.

A sample begins with a beat of its own: number k is in beat k // lanes, lane k % lanes. The word after the last number
is the sample's tag, which is not converted and comes back with the result; what is left of the last beat is 0. Each
lane has one converter, and both pipelines run free: credit says whether what comes out will find room.
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
    """Converters between a stream's words and the datapath's integers.

    nan: the word that replaces a number of an unusable result; None if a bit of the word marks such results.
    """

    into: type[FromFloat | FromWord]
    out: type[ToFloat | ToWord]
    nan: int | None


CONVERTERS = {
    FLOAT32: Converters(FromFloat, ToFloat, BINARY32.nan),
    FIXED: Converters(FromWord, ToWord, None),
}


def _lanes(formats: Sequence[Format], lanes: int) -> list[list[Format]]:
    """Per lane that carries something, the formats of its fields, beat by beat."""
    return [list(formats[lane::lanes]) for lane in range(min(lanes, len(formats)))]


class _Credit:
    """Space behind a pipeline: taken where something enters it, given back where it leaves the FIFO at the end. some:
    there is space, as a register says; the last one is kept, since one may be taken while it is set."""

    def __init__(self, m: Module, depth: int, taken: Value, returned: Value, name: str) -> None:
        self.left = Signal(range(depth + 1), init=depth, name=name)
        self.some = Signal(name=f"{name}_is_there")
        m.d.sync += [self.left.eq(self.left - taken + returned), self.some.eq(self.left > 1)]


class StreamRegisters(NamedTuple):
    """Registers of a stream that a proof observes. under_way: one bit for each stage of the pipeline."""

    credit: Signal
    some: Signal
    under_way: Signal
    fifo: SyncFIFOBuffered


class InputStream(wiring.Component):
    """AXI4-Stream to samples: numbers are converted, a converter per lane.

    words: what the stream carries. With FIXED its words hold the samples' bits as they are.

    ==========  ===  ============================================================================
    tdata       in   words of a beat; a sample begins with a beat of its own
    tvalid      in   the beat is offered
    tready      out  the beat is taken
    tlast       in   the beat ends a sample or a batch, as `last` says
    tkeep       in   which bytes of the beat are there; only those after a sample's tag may be missing
    o_payload   out  fields of a sample, from bit 0 up
    o_bad       out  one of them is NaN, infinite or does not fit its format
    o_broken    out  the fields are not a sample's: TLAST cut it short, it has a hole, or what follows its tag is not 0
    o_last      out  the batch ends with this sample
    o_tag       out  the sample's tag; of a broken one each bit is inverted
    o_valid     out  there is a sample
    o_ready     in   it is taken
    idle        out  no sample is on its way, nor part of one
    misaligned  out  for a cycle, of each sample: it is broken, or TLAST is missing
    hole        out  for a cycle, of each beat: a byte of a sample or of its tag is missing

    Where TLAST ends a batch, a sample that it cuts short goes on, so that the batch's end does; else it is dropped.
    ==========  ===  ============================================================================
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
        """Two cycles after the last beat of a sample: its words from the first one on are not all 0."""
        bytes_of = [self.tdata[8 * k : 8 * k + 8] & self.tkeep[k].replicate(8) for k in range(self.width // 8)]
        words = [Cat(bytes_of[low : low + WORD // 8]) for low in range(first * WORD // 8, self.width // 8, WORD // 8)]
        filled = [delayed(m, word.any(), 1, f"filled_{k}") for k, word in enumerate(words)]
        strange = Signal(name="strange")
        m.d.sync += strange.eq(delayed(m, whole, 1, "whole", reset=True) & Cat(*filled).any())
        return strange

    def _holed(self, m: Module, accept: Value, beat: Signal, first: int) -> Value:
        """Two cycles after the last beat of a sample: a byte is missing in one of its beats, before word `first` in the
        last one. `hole` says the same of each beat."""
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
        """The fields of a sample, which come to rest beat by beat, and whether one of them is bad."""
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
    """The words of a result's bits, the last of which says that it cannot be used."""
    bits = Cat(*fields, bad)
    return [bits[low : low + WORD].as_signed() for low in range(0, len(bits), WORD)]


def _is_one_of(beat: Signal, beats: Collection[int]) -> Value:
    """Whether a beat is one of these: those of a single layout are neighbors."""
    if len(beats) == max(beats) + 1:
        return beat < len(beats)
    return Cat(beat == k for k in sorted(beats)).any()


class _Moves(NamedTuple):
    """From beat to beat of a result, and to the first one of the next result. first_beats: of each function's layouts.
    choices: the number of each function's layout, from 1 up."""

    beat: Signal
    issue: Signal
    load: Signal
    first_beats: list[list[int]]
    function: Value
    choices: list[Value]

    def follow(self, m: Module, register: Signal, entries: Sequence[int]) -> None:
        """The register has the entry of the beat. What the first beats have waits in registers where a function has
        several layouts."""
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
    """Results to AXI4-Stream: fields are converted to what the stream carries, a converter per lane.

    layouts: for each function, the fields of its results in the order of their words, in each of the layouts that
    `i_choice` chooses from; all fields in one layout unless given. words: what the stream carries. With FIXED its words
    hold the bits of these fields as they are, and a bit more says that the result cannot be used.

    =========  ===  ======================================================================================
    i_payload  in   fields of a result, from bit 0 up
    i_bad      in   the result cannot be used: all its numbers are NaN
    i_last     in   the batch ends with this result
    i_tag      in   the tag of the result's sample
    i_layout   in   which function it is of
    i_choice   in   for each function, the number of its layout, from 1 up; only where one has several.
                    To be changed only while no result is on its way
    i_valid    in   there is a result
    i_ready    out  it is taken
    idle       out  no result is on its way
    tdata      out  words of a beat
    tvalid     out  the beat is offered
    tready     in   the beat is taken
    tlast      out  the beat ends a sample or a batch, as `last` says
    =========  ===  ======================================================================================
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
        """The words of a beat, `later` cycles after it is issued. units: the converter of each lane."""
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
        """The fields of the result that is held, or the words of its layouts."""
        fields: list[Value] = []
        low = 0
        for fmt in self.fields:
            fields.append(held[low : low + fmt.width].as_signed())
            low += fmt.width
        if not self._packs:
            return fields
        return [word for each in self._packs for word in _packed([fields[k] for k in each], bad)]
