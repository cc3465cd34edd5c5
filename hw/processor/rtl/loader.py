"""Packets into a core: programs and samples."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.crc import Algorithm
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.packets import KIND_SHIFT, REGION_SHIFT, REGISTERS, MemoryRegion, PacketKind
from dynagate.hw.processor.isa.shape import BLOCK_BITS, INPUT_CONVERSION, LANE, Core
from dynagate.hw.units.rescale import delayed

CRC = {"polynomial": 0x04C11DB7, "initial_crc": 0xFFFFFFFF, "xor_output": 0xFFFFFFFF}
"""CRC-32 of IEEE 802.3, as `words.checksum` takes it."""


class Loader(wiring.Component):
    """Packets: the program to its memories, inputs of samples to a buffer of two samples.

    ==============  ===  =====================================================================================
    i_valid         in   a word is here
    i_payload       in   the word
    i_messages      in   of a head: messages follow
    i_cut           in   the packet has ended with the word
    i_number        in   of streams of float32: the input that was taken INPUT_CONVERSION cycles ago, in its format
    i_bad           in   that input is NaN, infinite or does not fit
    takes_sample    out  a head may come, with the words of a sample behind it as they come
    takes_messages  out  a head may come, with messages behind it as they come
    ends            out  the word is a packet's last, its tag
    idle            in   no sample is under way
    full            out  which halves of the buffer hold a sample
    taken           in   which half was copied
    entered         out  for a cycle: a sample is whole, and its tag was the last word
    bad             out  of that sample: an input is NaN, infinite or does not fit
    input_address   in   of the buffer: input and half
    input_value     out  what is there, at once
    inputs_from     out  the place of the first input in the shared memory
    part            out  a part of a program is here, a bit for each region
    address         out  its address
    value           out  its number
    answer          out  messages have come, and the answer is to be sent
    right           out  which is 1: there is a program, whose checksum was right
    tag             out  of the messages
    answered        in   the answer is taken
    checksum        out  of the program; 0 where there is none
    entry           out  of each half: the block that its sample begins with
    block           out  the first block of the last sample that came, if streams carry float32
    period          out  cycles from a sample to the next, the fewest
    inputs          out  of an iteration
    ahead           out  samples under way at a time
    length          out  inputs of a sample
    fixed           out  of an iteration, those that all iterations have
    turns           out  of a sample
    results         out  of each unit
    ==============  ===  =====================================================================================
    """

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
                "turns": Out(core.input_bits + 1),
                "results": Out(core.output_bits + 1).array(core.units),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count, half = Signal(self.core.input_bits + 1), Signal()
        self._loaded = loaded = Signal(reset_less=True)
        left = Signal(REGION_SHIFT)
        full, written, is_sample = Signal(2), Signal(), Signal()
        whole = Signal()
        self._buffer(m, Cat(count[: self.core.input_bits], half), written)
        self._registers(m)
        # a program waits until the last sample's results are sent, samples until there is a program. All this is a
        # cycle late or two: a packet is followed by a pause; a sample's half is full until it is copied
        idle, room, waits = Signal(), Signal(), Signal()
        m.d.sync += [idle.eq(self.idle & ~full.any()), room.eq(loaded & ~full.bit_select(half, 1))]
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
        self._messages(m, begins, number)
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

    def _messages(self, m: Module, begins: Signal, number: Signal) -> None:
        """begins, number: the word that is there is a message's head, or its number."""
        head = Signal(LANE)
        kind, region = head[KIND_SHIFT:], head[REGION_SHIFT:KIND_SHIFT]
        m.submodules.crc = crc = Algorithm(crc_width=LANE, reflect_input=True, reflect_output=True, **CRC)(
            LANE
        ).create()
        own = self.i_payload[KIND_SHIFT:]
        kept, own_program = Signal(LANE, reset_less=True), Signal()
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
                m.d.sync += [self._loaded.eq(0), own_program.eq(self.i_payload == self.core.device_hash % (1 << LANE))]
            with m.Case(PacketKind.PART):
                m.d.sync += self.part.eq((1 << region) & ~self._loaded.replicate(len(MemoryRegion)))
            with m.Case(PacketKind.END):
                right = own_program & (crc.crc == self.i_payload)
                m.d.sync += [self._loaded.eq(self._loaded | right), kept.eq(self.i_payload)]

    def _buffer(self, m: Module, address: Value, written: Signal) -> None:
        """Two samples' inputs. address, written: of the input that comes, a word, from which a converter may make a
        number."""
        core = self.core
        memory = Memory(shape=signed(core.word), depth=2 << core.input_bits, init=[])
        m.submodules.inputs_memory = memory
        into, out = memory.write_port(), memory.read_port(domain="comb")
        value: Value = self.i_payload[: core.word]
        if core.floats:
            first = delayed(m, address[: core.input_bits] == 0, INPUT_CONVERSION, "is_first")
            address, value = delayed(m, address, INPUT_CONVERSION, "input_address"), self.i_number
            written = delayed(m, written, INPUT_CONVERSION, "written", reset=True)
            with m.If(written):
                m.d.sync += self.bad.eq(self.i_bad | (self.bad & ~first))
        m.d.comb += [
            into.addr.eq(address),
            into.data.eq(value),
            into.en.eq(written),
            out.addr.eq(self.input_address),
            self.input_value.eq(out.data),
        ]

    def _registers(self, m: Module) -> None:
        names = [getattr(self, name) for name in REGISTERS]
        for k, port in enumerate([*names, *(self.results[u] for u in range(self.core.units))]):
            register = Signal(len(port), name=f"register{k}", reset_less=True)
            m.d.comb += port.eq(register)
            with m.If(self.part[MemoryRegion.REGISTERS] & (self.address == k)):
                m.d.sync += register.eq(self.value)
        first = Signal(self.core.place_bits, name="inputs_from_register", reset_less=True)
        m.d.comb += self.inputs_from.eq(first)
        with m.If(self.part[MemoryRegion.CONSTANTS]):  # inputs lie behind the last constant
            m.d.sync += first.eq(self.address + 1)
