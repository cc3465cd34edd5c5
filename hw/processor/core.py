"""The core: a loader, a sequencer, a machine and a sender, between two streams of words."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.loader import Loader
from dynagate.hw.processor.machine import Machine
from dynagate.hw.processor.program import asked, programmed
from dynagate.hw.processor.sender import Sender
from dynagate.hw.processor.sequencer import Sequencer
from dynagate.hw.processor.shape import BLOCK_BITS, LANE, Core
from dynagate.hw.processor.words import REGISTERS, Region

MOST_SAMPLES = 4
"""In a core: two that wait, two that are computed or leave."""


class Processor(wiring.Component):
    """A core of some shape, but for its program memory. Its stream carries packets (`words`); those of a program wait
    until no sample is under way.

    A sample's results are words of 32 bits, those of unit 0 first, turn by turn; after them a word whose bit 0 is 1
    where a value overflowed, and whose others say in which turn the first one did; and the sample's tag. A packet of
    messages is answered by a word and its tag. Every packet has an answer, in order.

    ==============  ===  ==================================================================
    i_valid         in   a word is here
    i_payload       in   the word
    i_messages      in   of a head: messages follow
    i_last          in   TLAST of the word's beat
    i_cut           in   the word was not a packet's last, but should be
    i_ends          out  the word is a packet's last
    takes_sample    out  a head may come, with the words of a sample behind it as they come
    takes_messages  out  likewise with messages
    o               out  stream of words
    o_last          out  TLAST of the packet that it answers
    o_ends          out  the word is an answer's last
    o_answers       out  it answers messages
    entered         out  for a cycle: a sample has come
    sent            out  for a cycle: its results have left
    flagged         out  a value of it did not fit
    period          out  cycles from a sample to the next, the fewest
    checksum        out  of the program; 0 where there is none
    program         out  what its program memory is asked (`program.asked`)
    word            in   the program word of the address there
    ==============  ===  ==================================================================

    Where its streams carry float32, the shell has the converters (`points`), and the core these ports too:

    ============  ===  ===================================================================
    i_number      in   the word that was taken `shape.INPUT_CONVERSION` cycles ago, in its format
    i_bad         in   it is NaN, infinite or does not fit
    bad           out  an input of the sample that has come was bad
    o_is_number   out  the word is a result, an integer
    o_block       out  the block that its function begins with
    part          out  what `program` has is a part of a program, a bit for each region
    ============  ===  ===================================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "i_valid": In(1),
                "i_payload": In(LANE),
                "i_messages": In(1),
                "i_last": In(1),
                "i_cut": In(1),
                "i_ends": Out(1),
                "takes_sample": Out(1),
                "takes_messages": Out(1),
                "o": Out(stream.Signature(unsigned(LANE))),
                "o_last": Out(1),
                "o_ends": Out(1),
                "o_answers": Out(1),
                **{name: Out(1) for name in ("entered", "sent", "flagged")},
                **(_float_ports(core) if core.floats else {}),
                "period": Out(core.program_bits + 2),
                "checksum": Out(LANE),
                "program": Out(asked(core)),
                "word": In(core.program_word),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.loader = loader = Loader(self.core)
        m.submodules.sequencer = sequencer = Sequencer(self.core)
        m.submodules.machine = machine = Machine(self.core)
        m.submodules.sender = sender = Sender(self.core)
        self._tags(m, loader, sender)
        registers = {name: getattr(loader, name) for name in REGISTERS}
        m.d.comb += [
            loader.i_valid.eq(self.i_valid),
            loader.i_payload.eq(self.i_payload),
            loader.i_messages.eq(self.i_messages),
            loader.i_cut.eq(self.i_cut),
            self.takes_sample.eq(loader.takes_sample),
            self.takes_messages.eq(loader.takes_messages),
            self.i_ends.eq(loader.ends),
            self.entered.eq(loader.entered),
            self.sent.eq(sender.sent),
            self.flagged.eq(sender.flagged),
            self.period.eq(loader.period),
            self.checksum.eq(loader.checksum),
            loader.idle.eq(sequencer.idle),
            loader.answered.eq(sender.answered),
            loader.taken.eq(sequencer.taken),
            sequencer.full.eq(loader.full),
            sequencer.sent.eq(sender.sent),
            *(getattr(sequencer, name).eq(registers[name]) for name in ("inputs", "ahead", "fixed", "turns")),
            *(sequencer.entry[k].eq(loader.entry[k]) for k in range(2)),
            sequencer.part.eq(loader.part[Region.BLOCKS]),
            sequencer.part_address.eq(loader.address),
            sequencer.part_value.eq(loader.value),
            sequencer.positive.eq(machine.positive),
            self.program.address.eq(sequencer.address),
            self.program.part.eq(loader.part[Region.PROGRAM]),
            self.program.part_address.eq(loader.address),
            self.program.part_value.eq(loader.value),
            machine.word.eq(self.word),
            machine.running.eq(sequencer.running),
            machine.turn.eq(sequencer.loop_turn),
            machine.phase.eq(Cat(sequencer.sample, Mux(sequencer.sample, sequencer.turn[1], sequencer.turn[0])[0])),
            *(sender.turn[k].eq(sequencer.turn[k]) for k in range(2)),
            machine.constant.eq(loader.part[Region.CONSTANTS]),
            machine.part_address.eq(loader.address),
            machine.part_value.eq(loader.value),
            machine.copying.eq(sequencer.copying),
            machine.copied.eq(sequencer.copied),
            machine.input_value.eq(Mux(sequencer.is_zero, 0, loader.input_value)),
            machine.inputs_from.eq(loader.inputs_from),
            sequencer.stalls.eq(machine.takes_port),
            loader.input_address.eq(sequencer.copies_from),
            sender.answer.eq(loader.answer),
            sender.right.eq(loader.right),
            sender.answer_tag.eq(loader.tag),
            sender.under_way.eq(sequencer.under_way),
            *(sender.results[u].eq(loader.results[u]) for u in range(self.core.units)),
            *(sender.value[u].eq(machine.value[u]) for u in range(self.core.units)),
            sender.out.eq(machine.out),
            sender.overflows.eq(machine.overflows),
            self.o.valid.eq(sender.o_valid),
            self.o.payload.eq(sender.o_payload),
            sender.o_ready.eq(self.o.ready),
            self.o_ends.eq(sender.ends),
            self.o_answers.eq(loader.answer),
        ]
        if self.core.floats:
            m.d.comb += [
                loader.i_number.eq(self.i_number),
                loader.i_bad.eq(self.i_bad),
                self.bad.eq(loader.bad),
                self.o_is_number.eq(sender.is_number),
                self.part.eq(loader.part),
            ]
        return m

    def _tags(self, m: Module, loader: Loader, sender: Sender) -> None:
        """Tag and TLAST of a packet wait for its answer, and what else is known of a sample of float32."""
        more = [loader.bad, loader.block] if self.core.floats else []
        m.submodules.tags = tags = SyncFIFO(width=LANE + 1 + sum(map(len, more)), depth=MOST_SAMPLES)
        last, entered = Signal(), Signal()
        with m.If(loader.ends & self.i_valid):
            m.d.sync += last.eq(self.i_last)
        m.d.sync += entered.eq(loader.entered)
        m.d.comb += [
            tags.w_data.eq(Cat(loader.tag, last, *more)),
            tags.w_en.eq(entered),
            tags.r_en.eq(sender.sent),
            sender.tag.eq(tags.r_data[:LANE]),
            self.o_last.eq(Mux(loader.answer, last, tags.r_data[LANE])),
        ]
        if more:
            m.d.comb += Cat(sender.bad, self.o_block).eq(tags.r_data[LANE + 1 :])


class Alone(wiring.Component):
    """A core and the program memory that it has to itself."""

    def __init__(self, core: Core) -> None:
        self.core, self.processor = core, Processor(core)
        members = self.processor.signature.members
        super().__init__({name: members[name] for name in members if name not in ("program", "word")})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.processor = self.processor
        programmed(m, self.core, [self.processor])
        for name, member in self.signature.members.items():
            outside, inside = getattr(self, name), getattr(self.processor, name)
            if member.is_signature:
                wiring.connect(m, wiring.flipped(outside), inside)
            else:
                m.d.comb += inside.eq(outside) if member.flow is In else outside.eq(inside)
        return m


def _float_ports(core: Core) -> dict[str, Any]:
    """Of a core whose streams carry float32."""
    return {
        "i_number": In(signed(core.word)),
        "i_bad": In(1),
        "bad": Out(1),
        "o_is_number": Out(1),
        "o_block": Out(BLOCK_BITS),
        "part": Out(len(Region)),
    }
