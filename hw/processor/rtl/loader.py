"""Receive packets in a core: programs into their memories, samples into the input buffer."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.crc import Algorithm
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.hw.export.style import lasting_register
from dynagate.hw.processor.isa.packets import KIND_SHIFT, REGION_SHIFT, REGISTERS, MemoryRegion, PacketKind
from dynagate.hw.processor.isa.shape import BLOCK_BITS, INPUT_CONVERSION, LANE, Core
from dynagate.hw.units.rescale import delayed

CRC = {"polynomial": 0x04C11DB7, "initial_crc": 0xFFFFFFFF, "xor_output": 0xFFFFFFFF}
"""Parameters of CRC-32 (IEEE 802.3), which `packets.checksum` computes on the host."""


class Loader(wiring.Component):
    """Receives packets: writes a program to its memories, and inputs to a buffer of two samples.

    ==============  ===  ================================================================================
    i_valid         in   1: a word arrives
    i_payload       in   32 bits: the word
    i_messages      in   1: the word, as a head, announces messages
    i_cut           in   1: the packet ends with this word although it is incomplete
    i_number        in   float32 only, signed: the word of INPUT_CONVERSION cycles ago as an integer
    i_bad           in   float32 only, 1: that word was NaN, infinite or too large
    takes_sample    out  1: accepts a head and the words of a sample in consecutive cycles
    takes_messages  out  1: accepts a head and messages in consecutive cycles
    ends            out  1: the word is the last of its packet, the tag
    idle            in   1: no sample is under way
    full            out  2 bits: which halves of the buffer hold a sample
    taken           in   2 bits: which half has been copied
    entered         out  1 for one cycle: a sample is complete; the last word was its tag
    bad             out  1: an input of that sample was bad
    input_address   in   half and index of an input in the buffer
    input_value     out  signed: that input, in the same cycle
    inputs_from     out  address of the first input in the shared memory
    part            out  one bit per region: a part of a program is written there
    address         out  address of the part
    value           out  32 bits: the part
    answer          out  1: messages are complete; their answer is due
    right           out  the answer: 1 if the core now has a program with a correct checksum
    tag             out  32 bits: tag of the messages
    answered        in   1: the answer is sent
    checksum        out  32 bits: checksum of the program; 0 without a program
    entry           out  first block of the sample in each half of the buffer
    block           out  float32 only: first block of the sample that came last
    period          out  register: smallest number of cycles from a sample to the next
    inputs          out  register: number of inputs of a step
    ahead           out  register: number of samples that may be under way
    length          out  register: number of inputs of a sample
    fixed           out  register: number of inputs that all steps of a sample share
    steps           out  register: number of steps of a sample
    results         out  register: number of results of each unit
    ==============  ===  ================================================================================
    """

    clears: Signal | None = None
    """1 while the memory of iterations is cleared after a reset, and samples wait; None if nothing clears it."""

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "i_valid": In(1),
                "i_payload": In(LANE),
                "i_messages": In(1),
                "i_cut": In(1),
                "takes_sample": Out(1),
                "takes_messages": Out(1),
                **({"i_number": In(signed(core.word)), "i_bad": In(1)} if core.floats else {}),
                "ends": Out(1),
                "idle": In(1),
                "full": Out(2),
                "taken": In(2),
                "entered": Out(1),
                "input_address": In(core.input_bits + 1),
                "input_value": Out(signed(core.word)),
                "inputs_from": Out(core.place_bits),
                "part": Out(len(MemoryRegion)),
                "address": Out(REGION_SHIFT),
                "value": Out(LANE),
                "answer": Out(1),
                "right": Out(1),
                "tag": Out(LANE),
                "answered": In(1),
                "checksum": Out(LANE),
                "entry": Out(BLOCK_BITS).array(2),
                **({"block": Out(BLOCK_BITS), "bad": Out(1)} if core.floats else {}),
                "period": Out(core.program_bits + 2),
                "inputs": Out(core.input_bits + 1),
                "ahead": Out(2),
                "length": Out(core.input_bits + 1),
                "fixed": Out(core.input_bits + 1),
                "steps": Out(core.input_bits + 1),
                "results": Out(core.output_bits + 1).array(core.units),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count, half = Signal(self.core.input_bits + 1, reset_less=True), Signal()
        self._loaded = loaded = lasting_register(1, "loaded", platform)[0]
        left, is_sample = Signal(REGION_SHIFT, reset_less=True), Signal(reset_less=True)
        full, written = Signal(2), Signal()
        whole = Signal()
        self._buffer(m, Cat(count[: self.core.input_bits], half), written)
        self._registers(m, platform)
        # a program waits until the last sample's results are sent, and samples wait for a program. All this is a
        # cycle late or two: a packet is followed by a pause; a sample's half is full until it is copied
        idle, room, waits = Signal(reset_less=True), Signal(reset_less=True), Signal()
        ready = loaded if self.clears is None else loaded & ~self.clears
        m.d.sync += [idle.eq(self.idle & ~full.any()), room.eq(ready & ~full.bit_select(half, 1))]
        m.d.sync += [self.takes_sample.eq(waits & room), self.takes_messages.eq(waits & idle)]
        m.d.comb += [self.full.eq(full), self.right.eq(loaded)]
        m.d.sync += full.eq(full & ~self.taken)
        with m.If(self.entered):
            m.d.sync += [full.eq((full & ~self.taken) | (1 << half)), half.eq(~half)]
        if self.core.floats:
            m.d.comb += self.block.eq(Mux(half, self.entry[0], self.entry[1]))
        else:
            m.d.comb += self.entered.eq(whole)
        begins, number = Signal(), Signal()
        self._messages(m, begins, number, platform)
        with m.FSM(name="packet"):
            with m.State("head"):
                m.d.comb += waits.eq(1)
                m.d.sync += [count.eq(0), is_sample.eq(~self.i_messages), left.eq(self.i_payload)]
                with m.If(self.i_valid):
                    with m.If(~self.i_messages):
                        for k in range(2):
                            with m.If(half == k):
                                m.d.sync += self.entry[k].eq(self.i_payload)
                    m.next = "sample"
                    with m.If(self.i_messages):
                        m.next = "message"
                with m.If(self.i_cut):
                    m.next = "head"
            with m.State("sample"):
                m.d.comb += written.eq(self.i_valid)
                with m.If(self.i_valid):
                    m.d.sync += count.eq(count + 1)
                    with m.If(count + 1 == self.length):
                        m.next = "tag"
                with m.If(self.i_cut):
                    m.next = "head"
            with m.State("message"):
                m.d.comb += begins.eq(self.i_valid)
                with m.If(self.i_valid):
                    m.next = "number"
                with m.If(self.i_cut):
                    m.next = "head"
            with m.State("number"):
                m.d.comb += number.eq(self.i_valid)
                with m.If(self.i_valid):
                    m.d.sync += left.eq(left - 2)
                    m.next = "message"
                    with m.If(left <= 2):
                        m.next = "tag"
                with m.If(self.i_cut):
                    m.next = "head"
            with m.State("tag"):
                m.d.comb += [self.ends.eq(1), whole.eq(self.i_valid & is_sample & ~self.i_cut)]
                m.d.sync += self.tag.eq(self.i_payload)
                with m.If(self.i_valid):
                    m.next = "answer"
                with m.If(whole):
                    m.next = "settle" if self.core.floats else "pause"
                with m.If(self.i_cut):
                    m.next = "head"
            if self.core.floats:
                with m.State("settle"):  # the last inputs are on their way through the converter
                    settled = Signal(range(INPUT_CONVERSION))
                    m.d.sync += settled.eq(Mux(settled == INPUT_CONVERSION - 1, 0, settled + 1))
                    with m.If(settled == INPUT_CONVERSION - 1):
                        m.d.comb += self.entered.eq(1)
                        m.next = "pause"
            with m.State("pause"):
                m.next = "head"
            with m.State("answer"):
                m.d.comb += self.answer.eq(1)
                with m.If(self.answered):
                    m.next = "head"
        return m

    def _messages(self, m: Module, begins: Signal, number: Signal, platform: object) -> None:
        """Execute messages. begins, number: the current word is the head, or the number, of a message."""
        head = Signal(LANE, reset_less=True)
        kind, region = head[KIND_SHIFT:], head[REGION_SHIFT:KIND_SHIFT]
        m.submodules.crc = crc = Algorithm(crc_width=LANE, reflect_input=True, reflect_output=True, **CRC)(
            LANE
        ).create()
        own = self.i_payload[KIND_SHIFT:]
        kept, domain = lasting_register(LANE, "kept", platform)
        own_program = Signal()
        m.d.comb += [
            crc.data.eq(self.i_payload),
            crc.start.eq(begins & (own == PacketKind.BEGIN)),
            crc.valid.eq((begins & (own == PacketKind.PART)) | (number & (kind == PacketKind.PART))),
            self.checksum.eq(Mux(self._loaded, kept, 0)),
        ]
        with m.If(begins):
            m.d.sync += head.eq(self.i_payload)
        m.d.sync += [self.part.eq(0), self.address.eq(head[:REGION_SHIFT]), self.value.eq(self.i_payload)]
        with m.If(number), m.Switch(kind):
            with m.Case(PacketKind.BEGIN):
                m.d[domain] += self._loaded.eq(0)
                m.d.sync += own_program.eq(self.i_payload == self.core.device_hash % (1 << LANE))
            with m.Case(PacketKind.PART):
                m.d.sync += self.part.eq((1 << region) & ~self._loaded.replicate(len(MemoryRegion)))
            with m.Case(PacketKind.END):
                right = own_program & (crc.crc == self.i_payload)
                m.d[domain] += [self._loaded.eq(self._loaded | right), kept.eq(self.i_payload)]

    def _buffer(self, m: Module, address: Value, written: Signal) -> None:
        """Write inputs to the buffer of two samples.

        Args:
            m: Module to add to.
            address: Address of the input that arrives.
            written: 1 if an input arrives in this cycle; a float32 converter delays it.
        """
        core = self.core
        memory = Memory(shape=signed(core.word), depth=2 << core.input_bits, init=[])
        m.submodules.inputs_memory = memory
        into, out = memory.write_port(), memory.read_port(domain="comb")
        value: Value = self.i_payload[: core.word]
        if core.floats:
            first = delayed(m, address[: core.input_bits] == 0, INPUT_CONVERSION, "is_first")
            address, value = delayed(m, address, INPUT_CONVERSION, "input_address"), self.i_number
            written = delayed(m, written, INPUT_CONVERSION, "written")
            with m.If(written):
                m.d.sync += self.bad.eq(self.i_bad | (self.bad & ~first))
        m.d.comb += [
            into.addr.eq(address),
            into.data.eq(value),
            into.en.eq(written),
            out.addr.eq(self.input_address),
            self.input_value.eq(out.data),
        ]

    def _registers(self, m: Module, platform: object) -> None:
        """Write the registers that describe the program."""
        names = [getattr(self, name) for name in REGISTERS]
        for k, port in enumerate([*names, *(self.results[u] for u in range(self.core.units))]):
            register, domain = lasting_register(len(port), f"register{k}", platform)
            m.d.comb += port.eq(register)
            with m.If(self.part[MemoryRegion.REGISTERS] & (self.address == k)):
                m.d[domain] += register.eq(self.value)
        first, domain = lasting_register(self.core.place_bits, "inputs_from_register", platform)
        m.d.comb += self.inputs_from.eq(first)
        with m.If(self.part[MemoryRegion.CONSTANTS]):  # inputs lie behind the last constant
            m.d[domain] += first.eq(self.address + 1)
