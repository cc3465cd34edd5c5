"""Cores behind standard interfaces: AXI4-Stream of packets in and out, AXI4-Lite registers beside."""

from __future__ import annotations

from typing import NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from dynagate.base.errors import ArgumentError
from dynagate.hw.axi import PER_BATCH, Axi
from dynagate.hw.axi_lite import AxiLite
from dynagate.hw.processor.core import Processor
from dynagate.hw.processor.points import Into, OutOf
from dynagate.hw.processor.program import programmed
from dynagate.hw.processor.shape import LANE, Core
from dynagate.hw.processor.turns import KEPT
from dynagate.hw.processor.words import KIND_SHIFT, Kind, Region
from dynagate.hw.regmap import BITS
from dynagate.hw.shell import Accelerator, Events
from dynagate.hw.stream_ports import stream_ports

TOP = "accelerator"
MOST_CORES = 32
SLICE = 3
"""Beats that wait between a port and the cores. Two would let one pass every other cycle."""
BEHIND = 4
"""Words that wait between the cores and the port."""
BATCH_BIT = 16
"""Of register `stream`: TLAST ends a batch."""


class Words(wiring.Component):
    """Beats to words. A packet begins with a beat of its own, and what is left of its last beat is dropped. So is a
    packet with a hole, a word of which bytes are missing, and all until the next TLAST.

    ========  ===  =======================================================
    tdata     in   words of a beat
    tvalid    in   the beat is offered
    tready    out  it is taken
    tlast     in   it ends a packet or a batch
    tkeep     in   which of its bytes are there
    word      out  the next word
    valid     out  it is offered
    ready     in   it is taken
    ends      in   it is the packet's last
    last      out  TLAST of its beat
    cut       out  for a cycle: TLAST has ended a packet before its last word, or the word has a hole
    hole      out  for a cycle: the word has one
    ========  ===  =======================================================
    """

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(
            {
                **stream_ports(width, into=True),
                "word": Out(LANE),
                "valid": Out(1),
                "ready": In(1),
                "ends": In(1),
                "last": Out(1),
                "cut": Out(1),
                "hole": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.width // LANE
        lane = Signal(range(lanes))
        taken, finished, holed, skips = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            self.word.eq(self.tdata.word_select(lane, LANE)),
            holed.eq(~self.tkeep.word_select(lane, LANE // 8).all()),
            self.valid.eq(self.tvalid & ~skips),
            self.last.eq(self.tlast),
            taken.eq(self.valid & self.ready),
            finished.eq(self.ends | holed | (lane == lanes - 1)),
            self.tready.eq(skips | (self.ready & finished)),
            self.hole.eq(taken & holed),
            self.cut.eq(self.hole | (taken & finished & self.tlast & ~self.ends)),
        ]
        with m.If(self.tvalid & (skips | self.hole)):
            m.d.sync += skips.eq(~self.tlast)
        with m.If(taken):
            m.d.sync += lane.eq(lane + 1)
            with m.If(finished):
                m.d.sync += lane.eq(0)
        return m


class Beats(wiring.Component):
    """Words to beats. A packet begins with a beat of its own; what is left of its last beat is 0.

    ========  ===  ==========================
    word      in   a word
    valid     in   it is offered
    ready     out  it is taken
    ends      in   it is the packet's last
    last      in   TLAST goes with the packet
    tdata     out  words of a beat
    tvalid    out  the beat is offered
    tready    in   it is taken
    tlast     out  it ends a packet or a batch
    ========  ===  ==========================
    """

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(
            {
                "word": In(LANE),
                "valid": In(1),
                "ready": Out(1),
                "ends": In(1),
                "last": In(1),
                **stream_ports(width, into=False),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.width // LANE
        lane = Signal(range(lanes))
        m.d.comb += self.ready.eq(~self.tvalid | self.tready)
        with m.If(self.ready):
            m.d.sync += self.tvalid.eq(0)
        with m.If(self.ready & self.valid):
            fresh = [self.word if k == 0 else Const(0, LANE) for k in range(lanes)]
            with m.If(lane == 0):
                m.d.sync += self.tdata.eq(Cat(fresh))
            with m.Else():
                m.d.sync += self.tdata.word_select(lane, LANE).eq(self.word)
            m.d.sync += lane.eq(lane + 1)
            with m.If(self.ends | (lane == lanes - 1)):
                m.d.sync += [self.tvalid.eq(1), self.tlast.eq(self.ends & self.last), lane.eq(0)]
        return m


def is_messages(tdata: Signal) -> Value:
    """Whether a beat that begins a packet begins one of messages."""
    return tdata[KIND_SHIFT:LANE] != Kind.SAMPLE


class _Beat(NamedTuple):
    """The signals of a stream."""

    tdata: Signal
    tvalid: Signal
    tready: Signal
    tlast: Signal
    tkeep: Signal


class CoreShell(Accelerator):
    """Cores of one shape in the accelerator's interfaces. They take samples in turn, so that results keep their order;
    a program goes to all of them. Its Verilog depends on the shape, the streams and the number of cores alone."""

    def __init__(self, core: Core, axi: Axi, cores: int = 1) -> None:
        self.core, self.cores = core, cores
        super().__init__(axi)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        reset, clear = self._clocked(m)
        m.submodules.words = words = ResetInserter(reset)(Words(self.axi.width))
        m.submodules.beats = beats = ResetInserter(reset)(Beats(self.axi.width))
        source, messages = self._slice(m, words, reset)
        processors = [Processor(self.core) for _ in range(self.cores)]
        for k, processor in enumerate(processors):
            m.submodules[f"processor{k}"] = ResetInserter(reset)(processor)
        programmed(m, self.core, processors)
        events = self._dealt(m, processors, words, messages, beats, reset)
        self._offer(m, beats, reset)
        first = processors[0]
        values = {
            **self._identity(self.core.device_hash),
            "ii": first.period,
            **self._counters(m, reset | clear, events),
            "stream": Const(self.axi.width | (self.axi.last == PER_BATCH) << BATCH_BIT, BITS),
            "cores": Const(self.cores, BITS),
            "checksum": first.checksum,
        }
        self._controlled(m, reset, clear, AxiLite(values))
        m.d.comb += self._at_the_ports(source, reset)
        return m

    def _slice(self, m: Module, words: Words, reset: Signal) -> tuple[_Beat, Signal]:
        """The stream before `words`, and a few beats between, so that no path goes through both. Beside it whether a
        beat that begins a packet begins one of messages."""
        source = _Beat(Signal(self.axi.width), Signal(), Signal(), Signal(), Signal(self.axi.width // 8))
        width, messages = len(source.tdata) + len(source.tkeep) + 2, Signal()
        m.submodules.before = fifo = ResetInserter(reset)(SyncFIFOBuffered(width=width, depth=SLICE))
        m.d.comb += [
            fifo.w_data.eq(Cat(source.tdata, source.tlast, source.tkeep, is_messages(source.tdata))),
            fifo.w_en.eq(source.tvalid),
            source.tready.eq(fifo.w_rdy),
            Cat(words.tdata, words.tlast, words.tkeep, messages).eq(fifo.r_data),
            words.tvalid.eq(fifo.r_rdy),
            fifo.r_en.eq(words.tready),
        ]
        return source, messages

    def _dealt(
        self, m: Module, processors: list[Processor], words: Words, messages: Signal, beats: Beats, reset: Signal
    ) -> Events:
        """Samples to the cores in turn, results from them in turn; messages to all, of which the first answers. A core
        that has taken a packet's head takes the packet."""
        to, out_of = Signal(range(max(self.cores, 2))), Signal(range(max(self.cores, 2)))
        is_head, goes_on, to_all = Signal(init=1), Signal(), Signal()
        taken, room, dropped = Signal(), Signal(self.cores), Signal()
        drains, left, flagged = Signal(self.cores), Signal(self.cores), Signal(self.cores)
        depth = BEHIND + (self.core.output_conversion if self.core.floats else 0)
        m.submodules.behind = behind = ResetInserter(reset)(SyncFIFO(width=LANE + 2, depth=depth))
        for_all = Cat(each.takes_messages for each in processors).all()
        for_one = Cat(each.takes_sample for each in processors).bit_select(to, 1)
        m.d.comb += [
            to_all.eq(Mux(is_head, messages, goes_on)),
            words.ready.eq(~is_head | Mux(messages, for_all, for_one)),
            words.ends.eq(Array(each.i_ends for each in processors)[Mux(to_all, 0, to)]),
            taken.eq(words.valid & words.ready),
        ]
        with m.If(taken):
            m.d.sync += [is_head.eq(words.ends | words.cut), goes_on.eq(to_all)]
            with m.If(to_all):  # no sample is under way
                m.d.sync += [to.eq(0), out_of.eq(0)]
            with m.Elif(words.ends & ~words.cut):
                m.d.sync += to.eq(Mux(to == self.cores - 1, 0, to + 1))
        for k, each in enumerate(processors):
            chosen = to_all | (to == k)
            m.d.comb += [
                each.i_payload.eq(words.word),
                each.i_valid.eq(taken & chosen),
                each.i_messages.eq(messages),
                each.i_last.eq(words.last),
                each.i_cut.eq(words.cut & chosen),
                each.o.ready.eq(room[k] | drains[k]),
            ]
        answers = [(each.o_last, each.o_ends, each.o.payload) for each in processors]
        # a register before what chooses among words, and one for the room behind: three words may still come then
        held, held_valid = Signal(LANE + 2, reset_less=True), Signal()
        last, ends, word = (Array(ways)[out_of] for ways in zip(*answers, strict=True))
        valid = Cat(each.o.valid for each in processors)
        moves = (valid & room).any()
        came, came_valid = held, held_valid
        if self.core.floats:
            self._numbers_into(m, processors, words, taken, is_head, reset)
            came, came_valid = self._numbers_out(m, processors, out_of, held, held_valid, moves, ends, reset)
        m.d.comb += [
            behind.w_data.eq(came),
            behind.w_en.eq(came_valid),
            Cat(beats.word, beats.ends, beats.last).eq(behind.r_data),
            beats.valid.eq(behind.r_rdy),
            behind.r_en.eq(beats.ready),
        ]
        m.d.sync += [
            room.eq(Cat((behind.w_level <= BEHIND - 3) & (out_of == k) for k in range(self.cores))),
            held_valid.eq(moves),
            held.eq(Cat(word, ends, last | (self.axi.last != PER_BATCH))),
            dropped.eq(taken & words.cut),
            drains.eq(Cat(each.o_answers if k else Const(0) for k, each in enumerate(processors))),
            left.eq(Cat(each.sent for each in processors)),  # the counters are far from some cores
            flagged.eq(Cat(each.flagged for each in processors)),
        ]
        with m.If(Cat(each.sent for each in processors).any()):
            m.d.sync += out_of.eq(Mux(out_of == self.cores - 1, 0, out_of + 1))
        with m.If(reset):
            m.d.sync += [to.eq(0), out_of.eq(0), is_head.eq(1), goes_on.eq(0)]
            m.d.sync += [held_valid.eq(0), room.eq(0), dropped.eq(0), left.eq(0)]
        overflowed = (left & flagged).any()
        entered = Cat(each.entered for each in processors).any()
        bad = Cat(each.entered & each.bad for each in processors).any() if self.core.floats else Const(0)
        return Events(entered, left.any(), bad, overflowed, overflowed, dropped, words.hole)

    def _numbers_into(
        self, m: Module, processors: list[Processor], words: Words, taken: Value, is_head: Value, reset: Signal
    ) -> None:
        """The converter of inputs."""
        m.submodules.numbers_into = into = ResetInserter(reset)(Into(self.core))
        m.d.comb += [into.word.eq(words.word), into.taken.eq(taken), into.is_head.eq(is_head)]
        for each in processors:
            m.d.comb += [each.i_number.eq(into.o), each.i_bad.eq(into.bad)]
        self._program_to(m, processors, into, Region.INPUT_POINTS)

    def _numbers_out(
        self,
        m: Module,
        processors: list[Processor],
        out_of: Value,
        held: Value,
        held_valid: Value,
        moves: Value,
        ends: Value,
        reset: Signal,
    ) -> tuple[Value, Value]:
        """The converter of results. moves: a word is taken, which is in `held` in the next cycle; ends: it is the last
        of its packet. Returns what `held` becomes, and whether it is there."""
        m.submodules.numbers_out = out = ResetInserter(reset)(OutOf(self.core))
        within, is_number = Signal(), Signal(reset_less=True)
        with m.If(moves):
            m.d.sync += within.eq(~ends)
        with m.If(reset):
            m.d.sync += within.eq(0)
        m.d.sync += is_number.eq(Array(each.o_is_number for each in processors)[out_of])
        m.d.comb += [
            out.begins.eq(~within),
            out.block.eq(Array(each.o_block for each in processors)[out_of]),
            out.valid.eq(held_valid),
            out.is_number.eq(is_number),
            Cat(out.word, out.ends, out.last).eq(held),
        ]
        self._program_to(m, processors, out, Region.OUTPUT_POINTS)
        return Cat(out.o_word, out.o_ends, out.o_last), out.o_valid

    def _program_to(self, m: Module, processors: list[Processor], converter: Into | OutOf, region: Region) -> None:
        """Its binary points. All cores are loaded alike."""
        first = processors[0]
        m.d.comb += [
            converter.part.eq(first.part[region]),
            converter.address.eq(first.program.part_address),
            converter.value.eq(first.program.part_value),
        ]


def check_shell(core: Core, axi: Axi, cores: int) -> None:
    """Raises ValueError: the streams carry other words than the core's, or there are too many cores."""
    if axi.words != core.stream_words:
        raise ArgumentError(
            f"words '{axi.words}' of a processor; expected '{core.stream_words}': its core has floats={core.floats}"
        )
    if type(cores) is not int or not 1 <= cores <= MOST_CORES:
        raise ArgumentError(f"{cores} cores; expected 1 to {MOST_CORES}")


def shell_text(core: Core, axi: Axi, cores: int = 1, platform: object = None) -> str:
    """The Verilog of cores in their shell, module `accelerator`. Raises ValueError as `check_shell`."""
    check_shell(core, axi, cores)
    from dynagate.hw.netlist import verilog_text

    head = f"// {cores} of {core.units} units, {core.word} bits, generated by dynagate; {core.hash}\n"
    return head + verilog_text(CoreShell(core, axi, cores), TOP, platform, blank=True, zeroed=[KEPT])
