"""Results out of a core."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.shape import FLAG_CYCLES, LANE, Core
from dynagate.hw.processor.rtl.machine import PHASES


class Sender(wiring.Component):
    """Results of samples, those of unit 0 first, the flag and the first iteration that has it, and the tag; the answer
    to messages, and its tag. All iterations of a sample with a bad input are flagged.

    ==========  ===  =========================================================
    value       in   results of the units
    out         in   which of them are to be sent
    overflows   in   a value does not fit, a bit for each of two samples in even iterations, then in odd ones
    turn        in   of both samples, the one that runs or ran last
    results     in   of each unit in a sample
    under_way   in   samples whose results have not all left
    sent        out  all of a sample's have
    answer      in   the answer to a program is to be sent
    right       in   which is 1
    answer_tag  in   its tag
    answered    out  it is taken
    tag         in   of the sample whose results leave
    bad         in   an input of that one is NaN, infinite or does not fit
    flagged     out  a value of that one does not fit
    is_number   out  the word is a result
    ends        out  the word is the last of its packet
    o_valid     out  there is a word
    o_ready     in   it is taken
    o_payload   out  the word
    ==========  ===  =========================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "value": In(signed(core.word)).array(core.units),
                "out": In(core.units),
                "overflows": In(PHASES),
                "turn": In(core.input_bits + 1).array(2),
                "results": In(core.output_bits + 1).array(core.units),
                "under_way": In(2),
                "sent": Out(1),
                "answer": In(1),
                "right": In(1),
                "answer_tag": In(LANE),
                "answered": Out(1),
                "tag": In(LANE),
                "bad": In(1),
                "flagged": Out(1),
                "is_number": Out(1),
                "ends": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
                "o_payload": Out(LANE),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core = self.core
        unit = Signal(range(core.units + 1))
        count = Signal(core.output_bits + 1)
        sample = Signal()
        flags = Signal(2)
        m.d.comb += self.flagged.eq(flags.bit_select(sample, 1))
        first = [Signal(core.input_bits + 1, name=f"first{k}", reset_less=True) for k in range(2)]
        overflows = Signal(2)
        m.d.comb += overflows.eq(self.overflows[:2] | self.overflows[2:])
        m.d.sync += flags.eq(flags | overflows)
        for k, own in enumerate(first):  # an overflow is reported when the next iteration may have begun
            with m.If(overflows[k] & ~flags[k]):
                late = Mux(self.turn[k][0], self.overflows[k], self.overflows[2 + k])
                m.d.sync += own.eq(self.turn[k] - late)
        taken = Signal(core.units)
        results, there = self._results(m, taken)
        wait = Signal(range(FLAG_CYCLES + 1))
        turn = Array(first)[sample] & (self.flagged & ~self.bad).replicate(len(first[0]))
        flag = Cat(self.flagged | self.bad, turn)
        here, ready = Signal(signed(core.word)), Signal()
        m.d.comb += [here.eq(Array(results)[unit]), ready.eq(there.bit_select(unit, 1))]
        with m.FSM(name="results"):
            with m.State("idle"):
                m.d.sync += [unit.eq(0), wait.eq(0)]
                with m.If(self.answer):
                    m.next = "answer"
                with m.Elif(self.under_way != 0):
                    m.next = "unit"
            with m.State("unit"):
                m.d.sync += count.eq(Array(self.results[u] for u in range(core.units))[unit])
                m.next = "values"
            with m.State("values"):
                with m.If(count == 0):
                    m.d.sync += unit.eq(unit + 1)
                    m.next = "unit"
                    with m.If(unit == core.units - 1):
                        m.next = "wait"
                with m.Else():
                    m.d.comb += [self.o_valid.eq(ready), self.o_payload.eq(here), self.is_number.eq(1)]
                    with m.If(self.o_ready & ready):
                        m.d.comb += taken.eq(1 << unit)
                        m.d.sync += count.eq(count - 1)
            with m.State("wait"):
                m.d.sync += wait.eq(wait + 1)
                with m.If(wait == FLAG_CYCLES):
                    m.next = "flag"
            with m.State("flag"):
                m.d.comb += [self.o_valid.eq(1), self.o_payload.eq(flag)]
                with m.If(self.o_ready):
                    m.next = "tag"
            with m.State("tag"):
                m.d.comb += [self.o_valid.eq(1), self.o_payload.eq(self.tag), self.ends.eq(1)]
                with m.If(self.o_ready):
                    m.d.comb += self.sent.eq(1)
                    m.d.sync += [flags.eq((flags | overflows) & ~(1 << sample)), sample.eq(~sample)]
                    m.next = "idle"
            with m.State("answer"):
                m.d.comb += [self.o_valid.eq(1), self.o_payload.eq(self.right)]
                with m.If(self.o_ready):
                    m.next = "answer_tag"
            with m.State("answer_tag"):
                m.d.comb += [self.o_valid.eq(1), self.o_payload.eq(self.answer_tag), self.ends.eq(1)]
                with m.If(self.o_ready):
                    m.d.comb += self.answered.eq(1)
                    m.next = "idle"
        return m

    def _results(self, m: Module, taken: Signal) -> tuple[list[Signal], Signal]:
        """The next result of each unit, and whether there is one. taken: which is.

        Blocks of memory answer late in the cycle, so there is a register behind each."""
        core = self.core
        results, there = [], Signal(core.units)
        for u in range(core.units):
            m.submodules[f"results{u}"] = fifo = SyncFIFOBuffered(width=core.word, depth=1 << core.output_bits)
            result = Signal(core.word, name=f"result{u}", reset_less=True)
            m.d.comb += [fifo.w_data.eq(self.value[u]), fifo.w_en.eq(self.out[u])]
            m.d.comb += fifo.r_en.eq(~there[u] | taken[u])
            with m.If(fifo.r_en):
                m.d.sync += [result.eq(fifo.r_data), there[u].eq(fifo.r_rdy)]
            results.append(result)
        return results, there
