"""Distribute packets to cores in round-robin order, collect their answers in the same order, and count events."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped
from dynagate.hw.processor.isa.shape import LANE, Core
from dynagate.hw.processor.rtl.binary_points import InputConverter, OutputConverter, table_rows
from dynagate.hw.processor.rtl.core import answers, packet_interface, status
from dynagate.hw.processor.shell.word_stream import packet_words, result_words

WORDS_AFTER = 4
"""Words that can wait between the cores and the output port."""


def _next(core: Value, count: int) -> Value:
    """Return the core after this one, in round-robin order."""
    return Mux(core == count - 1, 0, core + 1)


class Dispatch(wiring.Component):
    """Gives each sample to the next core in round-robin order, and messages to all cores.

    The core that accepts the head of a packet accepts the whole packet. A head that no core supports is refused.

    ========  ===  =================================================================================
    words     in   packets, see `word_stream.packet_words`
    cores     out  a packet for each core, see `core.packet_interface`
    restarts  out  1 for one cycle: a message of a program arrives; core 0 gets the next sample
    dropped   out  1 for one cycle: a packet was incomplete
    points    in   float32 only: writes to the table of binary points of inputs
    ========  ===  =================================================================================
    """

    def __init__(self, core: Core, count: int) -> None:
        self.core, self.count = core, count
        super().__init__(
            {
                "words": In(packet_words()),
                "cores": Out(packet_interface(core)).array(count),
                "restarts": Out(1),
                "dropped": Out(1),
                **({"points": In(table_rows())} if core.floats else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words, target = self.words, Signal(range(max(self.count, 2)))
        is_head, goes_on = Signal(init=1), Signal(reset_less=True)
        to_all, taken, accepted = Signal(), Signal(), Signal()
        all_take_messages = Cat(each.takes_messages for each in self.cores).all()
        target_takes_sample = Cat(each.takes_sample for each in self.cores).bit_select(target, 1)
        m.d.comb += [
            to_all.eq(Mux(is_head, words.messages, goes_on)),
            words.refused.eq(is_head & words.unknown),
            words.ready.eq(~is_head | words.unknown | Mux(words.messages, all_take_messages, target_takes_sample)),
            words.ends.eq(~words.refused & Array(each.ends for each in self.cores)[Mux(to_all, 0, target)]),
            taken.eq(words.valid & words.ready),
            accepted.eq(taken & ~words.refused),
            self.restarts.eq(accepted & to_all),
        ]
        with m.If(accepted):
            m.d.sync += [is_head.eq(words.ends | words.cut), goes_on.eq(to_all)]
            with m.If(to_all):  # no sample is under way
                m.d.sync += target.eq(0)
            with m.Elif(words.ends & ~words.cut):
                m.d.sync += target.eq(_next(target, self.count))
        for k, each in enumerate(self.cores):
            chosen = to_all | (target == k)
            m.d.comb += [
                each.payload.eq(words.word),
                each.valid.eq(accepted & chosen),
                each.messages.eq(words.messages),
                each.last.eq(words.last),
                each.cut.eq(words.cut & chosen),
            ]
        m.d.sync += self.dropped.eq(taken & words.cut)
        if self.core.floats:
            self._numbers(m, taken, is_head)
        return m

    def _numbers(self, m: Module, taken: Value, is_head: Value) -> None:
        """Convert the words of samples for all cores."""
        m.submodules.numbers_into = into = InputConverter(self.core)
        connect(m, flipped(self.points), into.rows)
        m.d.comb += [into.word.eq(self.words.word), into.taken.eq(taken), into.is_head.eq(is_head)]
        for each in self.cores:
            m.d.comb += [each.number.eq(into.o), each.bad.eq(into.bad)]


class Collect(wiring.Component):
    """Collects the answers of the cores in the order of their packets. Core 0 answers messages for all cores.

    ========  ===  =================================================================================
    cores     in   answers of each core, see `core.answers`
    sent      in   one bit per core, 1 for one cycle: all results of a sample have been sent
    restarts  in   1 for one cycle: a message of a program arrives; core 0 answers next
    words     out  answers, see `word_stream.result_words`
    points    in   float32 only: writes to the table of binary points of results
    ========  ===  =================================================================================

    Args:
        core: Shape of the cores.
        count: Number of cores.
        always_last: Whether TLAST ends every answer, and not only answers to packets with TLAST.
    """

    def __init__(self, core: Core, count: int, *, always_last: bool) -> None:
        self.core, self.count, self.always_last = core, count, always_last
        super().__init__(
            {
                "cores": In(answers(core)).array(count),
                "sent": In(count),
                "restarts": In(1),
                "words": Out(result_words()),
                **({"points": In(table_rows())} if core.floats else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core, words = self.core, self.words
        source = Signal(range(max(self.count, 2)))
        space, drains = Signal(self.count, reset_less=True), Signal(self.count, reset_less=True)
        moves = Signal()
        depth = WORDS_AFTER + (core.output_conversion if core.floats else 0)
        m.submodules.fifo = fifo = SyncFIFO(width=LANE + 2, depth=depth)
        # a register before the choice among words, and one for the space behind: three words may still come then
        held, held_valid = Signal(LANE + 2, reset_less=True), Signal(reset_less=True)
        rows = [(each.last, each.ends, each.payload) for each in self.cores]
        last, ends, word = (Array(column)[source] for column in zip(*rows, strict=True))
        came, came_valid = held, held_valid
        m.d.comb += moves.eq((Cat(each.valid for each in self.cores) & space).any())
        if core.floats:
            came, came_valid = self._numbers(m, source, held, held_valid, moves, ends)
        m.d.comb += [
            *(each.ready.eq(space[k] | drains[k]) for k, each in enumerate(self.cores)),
            fifo.w_data.eq(came),
            fifo.w_en.eq(came_valid),
            Cat(words.word, words.ends, words.last).eq(fifo.r_data),
            words.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(words.ready),
        ]
        m.d.sync += [
            space.eq(Cat((fifo.w_level <= WORDS_AFTER - 3) & (source == k) for k in range(self.count))),
            held_valid.eq(moves),
            held.eq(Cat(word, ends, last | self.always_last)),
            drains.eq(Cat(each.answers if k else Const(0) for k, each in enumerate(self.cores))),
        ]
        with m.If(self.restarts):
            m.d.sync += source.eq(0)
        with m.If(self.sent.any()):
            m.d.sync += source.eq(_next(source, self.count))
        return m

    def _numbers(
        self, m: Module, source: Value, held: Value, held_valid: Value, moves: Value, ends: Value
    ) -> tuple[Value, Value]:
        """Convert results to float32. Return the converted word with its flags, and whether it is valid.

        moves: a word is accepted, which is in `held` in the next cycle. ends: it is the last of its packet.
        """
        m.submodules.numbers_out = out = OutputConverter(self.core)
        connect(m, flipped(self.points), out.rows)
        within, is_number = Signal(), Signal(reset_less=True)
        with m.If(moves):
            m.d.sync += within.eq(~ends)
        m.d.sync += is_number.eq(Array(each.is_number for each in self.cores)[source])
        m.d.comb += [
            out.begins.eq(~within),
            out.block.eq(Array(each.block for each in self.cores)[source]),
            out.valid.eq(held_valid),
            out.is_number.eq(is_number),
            Cat(out.word, out.ends, out.last).eq(held),
        ]
        return Cat(out.o_word, out.o_ends, out.o_last), out.o_valid


class CoreEvents(wiring.Component):
    """Joins the events of all cores. Events of results come one cycle late, because the counters are far from some
    cores.

    ==========  ===  =====================================================================
    cores       in   events of each core, see `core.status`
    sent        out  one bit per core: all results of a sample have been sent
    entered     out  1: a sample has entered
    bad         out  1: an input of that sample was bad
    left        out  1: all results of a sample have been sent
    overflowed  out  1: a value of that sample did not fit
    ==========  ===  =====================================================================
    """

    def __init__(self, core: Core, count: int) -> None:
        self.core, self.count = core, count
        events = {name: Out(1) for name in ("entered", "bad", "left", "overflowed")}
        super().__init__({"cores": In(status(core)).array(count), "sent": Out(count), **events})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left, flagged = Signal(self.count, reset_less=True), Signal(self.count, reset_less=True)
        m.d.comb += self.sent.eq(Cat(each.sent for each in self.cores))
        m.d.sync += [left.eq(self.sent), flagged.eq(Cat(each.flagged for each in self.cores))]
        m.d.comb += [
            self.entered.eq(Cat(each.entered for each in self.cores).any()),
            self.left.eq(left.any()),
            self.overflowed.eq((left & flagged).any()),
        ]
        if self.core.floats:
            m.d.comb += self.bad.eq(Cat(each.entered & each.bad for each in self.cores).any())
        return m
