"""When a sample begins, and which program word is next."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.shape import Core


class Sequencer(wiring.Component):
    """Starts samples, counts through their program and copies their inputs.

    ===========  ===  ========================================================
    full         in   which halves of the buffer hold a sample
    taken        out  which half was copied
    sent         in   all results of a sample have left
    words        in   of the program
    period       in   cycles from a sample to the next
    inputs       in   of a sample
    ahead        in   samples under way at a time
    idle         out  none is
    under_way    out  samples whose results have not all left
    address      out  of a program word
    running      out  the program has that word
    sample       out  which of two samples runs
    copying      out  an input is to be written
    copied       out  its number
    copies_from  out  the half of the buffer it is in
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
                "idle": Out(1),
                "under_way": Out(2),
                "address": Out(core.program_bits),
                "running": Out(1),
                "sample": Out(1),
                "copying": Out(1),
                "copied": Out(core.input_bits),
                "copies_from": Out(1),
                "stalls": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        counter = Signal(self.core.program_bits + 2)
        busy, next_one, sample = Signal(), Signal(), Signal()
        under_way = Signal(2)
        copied = Signal(self.core.input_bits + 1)
        copying, started = Signal(), Signal()
        last = counter + 1 == self.period
        go = Signal()
        m.d.comb += [
            go.eq((~busy | last) & self.full.bit_select(next_one, 1) & (under_way < self.ahead)),
            self.idle.eq(~busy & (under_way == 0)),
            self.under_way.eq(under_way),
            self.address.eq(counter),
            self.running.eq(busy & (counter < self.words)),
            self.sample.eq(sample),
            self.copying.eq(copying),
            self.copied.eq(copied),
            self.copies_from.eq(sample),
        ]
        m.d.sync += [counter.eq(counter + 1), under_way.eq(under_way + go - self.sent)]
        with m.If(go):
            m.d.sync += [busy.eq(1), counter.eq(0), sample.eq(next_one), next_one.eq(~next_one)]
        with m.Elif(last):
            m.d.sync += busy.eq(0)
        m.d.sync += started.eq(go)
        with m.If(started):
            m.d.sync += [copying.eq(1), copied.eq(0)]
        with m.If(copying & ~self.stalls):
            m.d.sync += copied.eq(copied + 1)
            with m.If(copied + 1 == self.inputs):
                m.d.sync += copying.eq(0)
                m.d.comb += self.taken.eq(1 << sample)
        return m
