"""Messages into a core: programs and samples."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.crc import Algorithm
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.shape import LANE, Core
from dynagate.hw.processor.words import KIND_SHIFT, REGION_SHIFT, REGISTERS, Kind, Region

CRC = {"polynomial": 0x04C11DB7, "initial_crc": 0xFFFFFFFF, "xor_output": 0xFFFFFFFF}
"""CRC-32 of IEEE 802.3, as `words.checksum` takes it."""


class Loader(wiring.Component):
    """Messages: the program to its memories, inputs of samples to a buffer of two samples.

    =============  ===  =====================================================================================
    i_valid        in   there is a beat
    i_ready        out  it is taken
    i_payload      in   a head, an input or a number
    idle           in   no sample is under way
    full           out  which halves of the buffer hold a sample
    taken          in   which half was copied
    input_address  in   of the buffer: input and half
    input_value    out  what is there, at once
    inputs_from    out  the place of the first input in the shared memory
    part           out  a part of a program is here, a bit for each region
    address        out  its address
    value          out  its number
    answer         out  a program has ended, and its answer is to be sent
    right          out  its checksum is right
    answered       in   the answer is taken
    words          out  of the program
    period         out  cycles from a sample to the next
    inputs         out  of a sample
    ahead          out  samples under way at a time
    results        out  of each unit
    =============  ===  =====================================================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "i_valid": In(1),
                "i_ready": Out(1),
                "i_payload": In(LANE),
                "idle": In(1),
                "full": Out(2),
                "taken": In(2),
                "input_address": In(core.input_bits + 1),
                "input_value": Out(signed(core.word)),
                "inputs_from": Out(core.place_bits),
                "part": Out(len(Region)),
                "address": Out(REGION_SHIFT),
                "value": Out(LANE),
                "answer": Out(1),
                "right": Out(1),
                "answered": In(1),
                "words": Out(core.program_bits + 1),
                "period": Out(core.program_bits + 2),
                "inputs": Out(core.input_bits + 1),
                "ahead": Out(2),
                "results": Out(core.output_bits + 1).array(core.units),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        head = Signal(LANE)
        kind, region = self.i_payload[KIND_SHIFT:], head[REGION_SHIFT:KIND_SHIFT]
        count = Signal(self.core.input_bits + 1)
        half = Signal()
        loaded = Signal(reset_less=True)
        full, written = Signal(2), Signal()
        self._buffer(m, Cat(count[: self.core.input_bits], half), written)
        self._registers(m)
        m.submodules.crc = crc = Algorithm(crc_width=LANE, reflect_input=True, reflect_output=True, **CRC)(
            LANE
        ).create()
        m.d.comb += [
            self.full.eq(full),
            crc.data.eq(self.i_payload),
            self.address.eq(head[:REGION_SHIFT]),
            self.value.eq(self.i_payload),
        ]
        m.d.sync += full.eq(full & ~self.taken)
        with m.FSM(name="message"):
            with m.State("head"):
                begins = self.i_valid & (kind == Kind.BEGIN)
                # a program waits until the last sample's results are sent, samples until there is a program
                m.d.comb += self.i_ready.eq(
                    Mux(begins, self.idle & ~full.any(), (kind != Kind.SAMPLE) | (loaded & ~full.bit_select(half, 1)))
                )
                with m.If(self.i_valid & self.i_ready):
                    m.d.sync += [head.eq(self.i_payload), count.eq(0)]
                    m.d.comb += [crc.start.eq(kind == Kind.BEGIN), crc.valid.eq(kind == Kind.PART)]
                    with m.If(kind == Kind.SAMPLE):
                        m.next = "sample"
                    with m.Else():
                        m.next = "number"
            with m.State("sample"):
                m.d.comb += [self.i_ready.eq(1), written.eq(self.i_valid)]
                with m.If(self.i_valid):
                    m.d.sync += count.eq(count + 1)
                    with m.If(count + 1 == self.inputs):
                        m.d.sync += [full.eq((full & ~self.taken) | (1 << half)), half.eq(~half)]
                        m.next = "head"
            with m.State("number"):
                m.d.comb += [self.i_ready.eq(1), crc.valid.eq(self.i_valid & (head[KIND_SHIFT:] == Kind.PART))]
                with m.If(self.i_valid):
                    m.next = "head"
                    with m.Switch(head[KIND_SHIFT:]):
                        with m.Case(Kind.BEGIN):
                            m.d.sync += loaded.eq(0)
                        with m.Case(Kind.PART):
                            m.d.comb += self.part.eq((1 << region) & ~loaded.replicate(len(Region)))
                        with m.Case(Kind.END):
                            m.d.sync += loaded.eq(loaded | (crc.crc == self.i_payload))
                            m.next = "answer"
            with m.State("answer"):
                m.d.comb += [self.answer.eq(1), self.right.eq(loaded)]
                with m.If(self.answered):
                    m.next = "head"
        return m

    def _buffer(self, m: Module, address: Value, written: Signal) -> None:
        """Two samples' inputs. address, written: of the input that comes."""
        core = self.core
        memory = Memory(shape=signed(core.word), depth=2 << core.input_bits, init=[])
        m.submodules.inputs_memory = memory
        into, out = memory.write_port(), memory.read_port(domain="comb")
        m.d.comb += [
            into.addr.eq(address),
            into.data.eq(self.i_payload[: core.word]),
            into.en.eq(written),
            out.addr.eq(self.input_address),
            self.input_value.eq(out.data),
        ]

    def _registers(self, m: Module) -> None:
        names = [getattr(self, name) for name in REGISTERS]
        for k, port in enumerate([*names, *(self.results[u] for u in range(self.core.units))]):
            register = Signal(len(port), name=f"register{k}", reset_less=True)
            m.d.comb += port.eq(register)
            with m.If(self.part[Region.REGISTERS] & (self.address == k)):
                m.d.sync += register.eq(self.value)
        first = Signal(self.core.place_bits, name="inputs_from_register", reset_less=True)
        m.d.comb += self.inputs_from.eq(first)
        with m.If(self.part[Region.CONSTANTS]):  # inputs lie behind the last constant
            m.d.sync += first.eq(self.address + 1)
