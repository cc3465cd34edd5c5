"""When a sample begins, and which program word is next."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.shape import Core


class Sequencer(wiring.Component):
    """Starts samples, counts through their program, as often as a sample has turns, and copies their inputs.

    ===========  ===  ========================================================
    full         in   which halves of the buffer hold a sample
    taken        out  which half was copied
    sent         in   all results of a sample have left
    words        in   of the program
    period       in   cycles from a turn to the next
    inputs       in   of a turn
    ahead        in   samples under way at a time
    fixed        in   of a turn's inputs, those that all turns have
    turns        in   of a sample
    idle         out  none is under way
    under_way    out  samples whose results have not all left
    address      out  of a program word
    running      out  the program has that word
    sample       out  which of two samples runs
    turn         out  of both samples, the one that runs or ran last
    copying      out  an input is to be written
    copied       out  its number
    copies_from  out  where it is in the buffer, the half and the place there
    is_zero      out  it is 0: the first of all, in a turn that is not the first
    stalls       in   it is not written: a function's result is
    ===========  ===  ========================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "full": In(2),
                "taken": Out(2),
                "sent": In(1),
                "words": In(core.program_bits + 1),
                "period": In(core.program_bits + 2),
                "inputs": In(core.input_bits + 1),
                "ahead": In(2),
                "fixed": In(core.input_bits + 1),
                "turns": In(core.input_bits + 1),
                "idle": Out(1),
                "under_way": Out(2),
                "address": Out(core.program_bits),
                "running": Out(1),
                "sample": Out(1),
                "turn": Out(core.input_bits + 1).array(2),
                "copying": Out(1),
                "copied": Out(core.input_bits),
                "copies_from": Out(core.input_bits + 1),
                "is_zero": Out(1),
                "stalls": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        counter = Signal(self.core.program_bits + 2)
        busy, next_one, sample = Signal(), Signal(), Signal()
        under_way = Signal(2)
        turn, is_last = Signal(self.core.input_bits + 1), Signal()
        ends, again, go, at_end = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            ends.eq(busy & at_end),
            again.eq(ends & ~is_last),
            go.eq((~busy | (ends & is_last)) & self.full.bit_select(next_one, 1) & (under_way < self.ahead)),
            self.idle.eq(~busy & (under_way == 0)),
            self.under_way.eq(under_way),
            self.address.eq(counter),
            self.running.eq(busy & (counter < self.words)),
            self.sample.eq(sample),
        ]
        m.d.sync += [
            counter.eq(counter + 1),
            under_way.eq(under_way + go - self.sent),
            is_last.eq(turn + 1 == self.turns),
            at_end.eq(counter + 2 == self.period),
        ]
        with m.If(go):
            m.d.sync += [busy.eq(1), counter.eq(0), sample.eq(next_one), next_one.eq(~next_one), turn.eq(0)]
            m.d.sync += is_last.eq(self.turns == 1)
            with m.Switch(next_one):
                for k in range(2):
                    with m.Case(k):
                        m.d.sync += self.turn[k].eq(0)
        with m.Elif(again):
            m.d.sync += [counter.eq(0), turn.eq(turn + 1)]
            with m.Switch(sample):
                for k in range(2):
                    with m.Case(k):
                        m.d.sync += self.turn[k].eq(turn + 1)
        with m.Elif(ends):
            m.d.sync += busy.eq(0)
        self._copies(m, go, again, sample, turn, is_last)
        return m

    def _copies(self, m: Module, go: Signal, again: Signal, sample: Signal, turn: Signal, is_last: Signal) -> None:
        """The inputs of a turn, those of each turn from behind those of the turns before."""
        copied, place = Signal(self.core.input_bits + 1), Signal(self.core.input_bits)
        behind = Signal(self.core.input_bits)  # where this turn's own inputs begin
        copying, started = Signal(), Signal()
        m.d.comb += [
            self.copying.eq(copying),
            self.copied.eq(copied),
            self.copies_from.eq(Cat(place, sample)),
            self.is_zero.eq((copied == 0) & (turn != 0)),
        ]
        m.d.sync += started.eq(go | again)
        with m.If(go):
            m.d.sync += behind.eq(self.fixed)
        with m.If(started):
            m.d.sync += [copying.eq(1), copied.eq(0), place.eq(0)]
        with m.If(copying & ~self.stalls):
            m.d.sync += [copied.eq(copied + 1), place.eq(place + 1)]
            with m.If(copied + 1 == self.fixed):
                m.d.sync += place.eq(behind)
            with m.If(copied + 1 == self.inputs):
                m.d.sync += [copying.eq(0), behind.eq(behind + (self.inputs - self.fixed))]
                with m.If(is_last):
                    m.d.comb += self.taken.eq(1 << sample)
