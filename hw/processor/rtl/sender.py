"""Send results of a core."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.shape import FLAG_CYCLES, LANE, Core
from dynagate.hw.processor.rtl.machine import PHASES


class Sender(wiring.Component):
    """Sends answers: results of samples with flag and tag, or the answer to messages with its tag.

    The results of unit 0 come first. The flag word has the first step that overflowed. Every step of a sample with a
    bad input is flagged.

    ==========  ===  ==========================================================================
    value       in   results of the units
    out         in   one bit per unit: the result is to be sent
    overflows   in   a value does not fit: one bit for each of two samples in even, then in odd steps
    step        in   step of each of the two samples that runs, or ran last
    results     in   number of results of each unit in a sample
    under_way   in   number of samples whose results have not all been sent
    sent        out  1: all results of a sample have been sent
    answer      in   1: the answer to messages is due
    right       in   the answer to messages: 1 if there is a program
    answer_tag  in   32 bits: tag of the messages
    answered    out  1: the answer to messages is sent
    tag         in   32 bits: tag of the sample whose results are sent
    bad         in   1: an input of that sample was NaN, infinite or too large
    flagged     out  1: a value of that sample did not fit
    is_number   out  1: the word is a result
    ends        out  1: the word is the last of its answer
    o_valid     out  1: a word is offered
    o_ready     in   1: the word is accepted
    o_payload   out  32 bits: the word
    ==========  ===  ==========================================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "value": In(signed(core.word)).array(core.units),
                "out": In(core.units),
                "overflows": In(PHASES),
                "step": In(core.input_bits + 1).array(2),
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
        unit = Signal(range(core.units + 1), reset_less=True)
        count = Signal(core.output_bits + 1, reset_less=True)
        sample = Signal()
        flags = Signal(2)
        m.d.comb += self.flagged.eq(flags.bit_select(sample, 1))
        first = [Signal(core.input_bits + 1, name=f"first{k}", reset_less=True) for k in range(2)]
        overflows = Signal(2)
        m.d.comb += overflows.eq(self.overflows[:2] | self.overflows[2:])
        m.d.sync += flags.eq(flags | overflows)
        for k, own in enumerate(first):  # an overflow is reported when the next iteration may have begun
            late = Signal(name=f"late{k}")
            m.d.comb += late.eq(Mux(self.step[k][0], self.overflows[k], self.overflows[2 + k]))
            with m.If(overflows[k] & ~flags[k]):
                m.d.sync += own.eq(self.step[k] - late)
        taken = Signal(core.units)
        results, there = self._results(m, taken)
        wait = Signal(range(FLAG_CYCLES + 1), reset_less=True)
        step = Array(first)[sample] & (self.flagged & ~self.bad).replicate(len(first[0]))
        flag = Cat(self.flagged | self.bad, step)
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
        """Return the next result of each unit, and whether there is one. taken: 1 if that result is accepted.

        A register follows each buffer, because block RAMs answer late in the cycle.
        """
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
