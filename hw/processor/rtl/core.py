"""The processor core: loader, sequencer, machine and sender between two streams of 32-bit words."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out
from dynagate.hw.export.style import AsynchronousReset
from dynagate.hw.processor.isa.packets import REGISTERS, MemoryRegion
from dynagate.hw.processor.isa.shape import BLOCK_BITS, LANE, Core
from dynagate.hw.processor.rtl.binary_points import table_rows
from dynagate.hw.processor.rtl.loader import Loader
from dynagate.hw.processor.rtl.machine import Machine
from dynagate.hw.processor.rtl.program_memory import memory_interface, programmed
from dynagate.hw.processor.rtl.sender import Sender
from dynagate.hw.processor.rtl.sequencer import Sequencer

MOST_SAMPLES = 4
"""Largest number of samples in a core: two that wait in the input buffer, and two that run or are sent."""


def packet_interface(core: Core) -> wiring.Signature:
    """Return the interface for packets to a core.

    ==============  ===  ==============================================================================
    valid           out  1: a word is offered
    payload         out  32 bits: the word
    messages        out  1: the word, as a head, announces messages
    last            out  TLAST of the word's beat
    cut             out  1: the packet ends with this word although it is incomplete
    ends            in   1: the word is the last of its packet
    takes_sample    in   1: the core accepts a head and the words of a sample in consecutive cycles
    takes_messages  in   1: the core accepts a head and messages in consecutive cycles
    number          out  float32 only, signed: the word of INPUT_CONVERSION cycles ago as an integer
    bad             out  float32 only, 1: that word was NaN, infinite or too large for its format
    ==============  ===  ==============================================================================
    """
    floats = {"number": Out(signed(core.word)), "bad": Out(1)} if core.floats else {}
    return wiring.Signature(
        {
            "valid": Out(1),
            "payload": Out(LANE),
            **{name: Out(1) for name in ("messages", "last", "cut")},
            **{name: In(1) for name in ("ends", "takes_sample", "takes_messages")},
            **floats,
        }
    )


def answers(core: Core) -> wiring.Signature:
    """Return the interface for answers from a core.

    =========  ===  ==================================================================
    valid      out  1: a word is offered
    payload    out  32 bits: the word
    ready      in   1: the word is accepted
    ends       out  1: the word is the last of its answer
    last       out  TLAST of the packet that is answered
    answers    out  1: the answer is to messages
    is_number  out  float32 only, 1: the word is a result, an integer
    block      out  float32 only: first block of the sample's function
    =========  ===  ==================================================================
    """
    floats = {"is_number": Out(1), "block": Out(BLOCK_BITS)} if core.floats else {}
    flags = {name: Out(1) for name in ("ends", "last", "answers")}
    return wiring.Signature({"valid": Out(1), "payload": Out(LANE), "ready": In(1), **flags, **floats})


def status(core: Core) -> wiring.Signature:
    """Return the interface for events of a core.

    =======  ===  ======================================================================
    entered  out  1 for one cycle: a sample is complete in the input buffer
    sent     out  1 for one cycle: the results of a sample have been sent
    flagged  out  1: a value of the sample that was sent did not fit
    bad      out  float32 only, 1: an input of the sample that entered was bad
    =======  ===  ======================================================================
    """
    names = ("entered", "sent", "flagged", *(("bad",) if core.floats else ()))
    return wiring.Signature({name: Out(1) for name in names})


class Processor(wiring.Component):
    """A processor core without its program memory. A program is loaded only while no sample is under way.

    The answer to a sample has 32-bit words: the results of unit 0, then of unit 1 and so on, step by step; a word with
    the overflow flag in bit 0 and the first step that overflowed in the others; and the sample's tag. The answer to a
    packet of messages is a word and the tag. Every packet has an answer, in order.

    =============  ===  ==========================================================================
    i              in   packets, see `packet_interface`
    o              out  answers, see `answers`
    status         out  events, see `status`
    period         out  smallest number of cycles from a sample to the next
    checksum       out  32 bits: checksum of the program; 0 without a program
    program        out  address and loading of the program memory, see `program_memory.memory_interface`
    word           in   program word, FETCH cycles after its address
    input_points   out  float32 only: writes to the table of binary points of inputs
    output_points  out  float32 only: writes to the table of binary points of results
    =============  ===  ==========================================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        floats = {f"{side}_points": Out(table_rows()) for side in ("input", "output")} if core.floats else {}
        super().__init__(
            {
                "i": In(packet_interface(core)),
                "o": Out(answers(core)),
                "status": Out(status(core)),
                **floats,
                "period": Out(core.program_bits + 2),
                "checksum": Out(LANE),
                "program": Out(memory_interface(core)),
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
        if isinstance(platform, AsynchronousReset) and self.core.iteration_bits:
            loader.clears = machine.clears
        registers = {name: getattr(loader, name) for name in REGISTERS}
        m.d.comb += [
            loader.i_valid.eq(self.i.valid),
            loader.i_payload.eq(self.i.payload),
            loader.i_messages.eq(self.i.messages),
            loader.i_cut.eq(self.i.cut),
            self.i.takes_sample.eq(loader.takes_sample),
            self.i.takes_messages.eq(loader.takes_messages),
            self.i.ends.eq(loader.ends),
            self.status.entered.eq(loader.entered),
            self.status.sent.eq(sender.sent),
            self.status.flagged.eq(sender.flagged),
            self.period.eq(loader.period),
            self.checksum.eq(loader.checksum),
            loader.idle.eq(sequencer.idle),
            loader.answered.eq(sender.answered),
            loader.taken.eq(sequencer.taken),
            sequencer.full.eq(loader.full),
            sequencer.sent.eq(sender.sent),
            *(getattr(sequencer, name).eq(registers[name]) for name in ("inputs", "ahead", "fixed", "steps")),
            *(sequencer.entry[k].eq(loader.entry[k]) for k in range(2)),
            sequencer.part.eq(loader.part[MemoryRegion.BLOCKS]),
            sequencer.part_address.eq(loader.address),
            sequencer.part_value.eq(loader.value),
            sequencer.positive.eq(machine.positive),
            self.program.address.eq(sequencer.address),
            self.program.part.eq(loader.part[MemoryRegion.PROGRAM]),
            self.program.part_address.eq(loader.address),
            self.program.part_value.eq(loader.value),
            machine.word.eq(self.word),
            machine.running.eq(sequencer.running),
            machine.iteration.eq(sequencer.loop_iteration),
            machine.phase.eq(Cat(sequencer.sample, Mux(sequencer.sample, sequencer.step[1], sequencer.step[0])[0])),
            *(sender.step[k].eq(sequencer.step[k]) for k in range(2)),
            machine.constant.eq(loader.part[MemoryRegion.CONSTANTS]),
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
            self.o.ends.eq(sender.ends),
            self.o.answers.eq(loader.answer),
        ]
        if self.core.floats:
            m.d.comb += [
                loader.i_number.eq(self.i.number),
                loader.i_bad.eq(self.i.bad),
                self.status.bad.eq(loader.bad),
                self.o.is_number.eq(sender.is_number),
                *self._points(self.input_points, loader, MemoryRegion.INPUT_POINTS),
                *self._points(self.output_points, loader, MemoryRegion.OUTPUT_POINTS),
            ]
        return m

    def _points(self, rows: Any, loader: Loader, region: MemoryRegion) -> list[Any]:
        """Return the assignments that write a row of a table of binary points."""
        return [rows.part.eq(loader.part[region]), rows.address.eq(loader.address), rows.value.eq(loader.value)]

    def _tags(self, m: Module, loader: Loader, sender: Sender) -> None:
        """Queue the tag and the TLAST of each packet until its answer; for float32, also the sample's block and bad
        flag.
        """
        more = [loader.bad, loader.block] if self.core.floats else []
        m.submodules.tags = tags = SyncFIFO(width=LANE + 1 + sum(map(len, more)), depth=MOST_SAMPLES)
        last, entered = Signal(reset_less=True), Signal(reset_less=True)
        with m.If(loader.ends & self.i.valid):
            m.d.sync += last.eq(self.i.last)
        m.d.sync += entered.eq(loader.entered)
        m.d.comb += [
            tags.w_data.eq(Cat(loader.tag, last, *more)),
            tags.w_en.eq(entered),
            tags.r_en.eq(sender.sent),
            sender.tag.eq(tags.r_data[:LANE]),
            self.o.last.eq(Mux(loader.answer, last, tags.r_data[LANE])),
        ]
        if more:
            m.d.comb += Cat(sender.bad, self.o.block).eq(tags.r_data[LANE + 1 :])


class CoreWithProgram(wiring.Component):
    """A core with its own program memory. Its ports are those of `Processor` without `program` and `word`."""

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
                m.d.comb += outside.eq(inside)
        return m
