"""Amaranth components that instantiate the accelerator: with AXI4-Lite, and with a Wishbone bus of Amaranth-SoC."""

from __future__ import annotations

from dynagate.hw.targets.ip.core import IpCore

TEMPLATE = '''{head}"""{title}: an Amaranth component.

In `elaborate` of the component around it, in the clock domain "sync":

    m.submodules.accelerator = accelerator = {class_name}()
    wiring.connect(m, source, accelerator.sink)
    wiring.connect(m, accelerator.source, sink)

In an Amaranth-SoC, use the component with a Wishbone bus, whose memory map lists the registers:

    m.submodules.accelerator = accelerator = Wishbone{class_name}()
    decoder.add(accelerator.bus, name="accelerator")
"""

from pathlib import Path

from amaranth.hdl import ClockSignal, Const, Instance, Module, ResetSignal, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

WIDTH = {width}
"""Bits of both streams."""
FILES = {files}
"""Verilog files next to this module."""
ADDRESS_BITS = {address_bits}
"""Bits of a register's address."""
REGISTERS = {registers}
"""Byte address, access and names of the bits of each register, by name."""
SAMPLES = stream.Signature(data.StructLayout({{"data": WIDTH, "keep": WIDTH // 8, "last": 1}}))
RESULTS = stream.Signature(data.StructLayout({{"data": WIDTH, "last": 1}}))


class Registers(wiring.Signature):
    """An AXI4-Lite bus of 32 bits, as the initiator drives it. The accelerator's addresses have ADDRESS_BITS bits."""

    def __init__(self, address_bits=ADDRESS_BITS):
        super().__init__(
            {{
                "aw": Out(stream.Signature(address_bits)),
                "w": Out(stream.Signature(data.StructLayout({{"data": 32, "strb": 4}}))),
                "b": In(stream.Signature(2)),
                "ar": Out(stream.Signature(address_bits)),
                "r": In(stream.Signature(data.StructLayout({{"data": 32, "resp": 2}}))),
            }}
        )


class {class_name}(wiring.Component):
    """The accelerator: samples enter at `sink`, results leave at `source`, registers are behind `registers`.

    A sample is its words and a tag; `last` ends it. registers.rdl describes the registers.
    """

    sink: In(SAMPLES)
    source: Out(RESULTS)
    registers: In(Registers())

    def elaborate(self, platform):
        m = Module()
        bus = self.registers
        m.submodules.core = Instance(
            "{top}",
            i_aclk=ClockSignal(),
            i_aresetn=~ResetSignal(),
            i_s_axis_tdata=self.sink.payload.data,
            i_s_axis_tkeep=self.sink.payload.keep,
            i_s_axis_tlast=self.sink.payload.last,
            i_s_axis_tvalid=self.sink.valid,
            o_s_axis_tready=self.sink.ready,
            o_m_axis_tdata=self.source.payload.data,
            o_m_axis_tlast=self.source.payload.last,
            o_m_axis_tvalid=self.source.valid,
            i_m_axis_tready=self.source.ready,
            i_s_axil_awaddr=bus.aw.payload,
            i_s_axil_awprot=Const(0, 3),
            i_s_axil_awvalid=bus.aw.valid,
            o_s_axil_awready=bus.aw.ready,
            i_s_axil_wdata=bus.w.payload.data,
            i_s_axil_wstrb=bus.w.payload.strb,
            i_s_axil_wvalid=bus.w.valid,
            o_s_axil_wready=bus.w.ready,
            o_s_axil_bresp=bus.b.payload,
            o_s_axil_bvalid=bus.b.valid,
            i_s_axil_bready=bus.b.ready,
            i_s_axil_araddr=bus.ar.payload,
            i_s_axil_arprot=Const(0, 3),
            i_s_axil_arvalid=bus.ar.valid,
            o_s_axil_arready=bus.ar.ready,
            o_s_axil_rdata=bus.r.payload.data,
            o_s_axil_rresp=bus.r.payload.resp,
            o_s_axil_rvalid=bus.r.valid,
            i_s_axil_rready=bus.r.ready,
        )
        if hasattr(platform, "add_file"):
            for name in FILES:
                platform.add_file(name, (Path(__file__).parent / name).read_text())
        return m


def memory_map():
    """Return a memory map of Amaranth-SoC: a `csr.Register` of 4 bytes for each register, by its name.

    The registers describe names, addresses, bits and access. The Verilog holds their values.
    """
    from amaranth_soc import csr
    from amaranth_soc.memory import MemoryMap

    class Field(csr.FieldAction):
        """A field without gates."""

        def elaborate(self, platform):
            return Module()

    registers = MemoryMap(addr_width=ADDRESS_BITS, data_width=8)
    for name, (address, access, bits) in REGISTERS.items():
        fields = {{bit: csr.Field(Field, 1, access) for bit in bits}} or csr.Field(Field, 32, access)
        registers.add_resource(csr.Register(fields, access), name=(name,), addr=address, size=4)
    registers.freeze()
    return registers


class Wishbone{class_name}(wiring.Component):
    """The accelerator with its registers behind `bus`, a Wishbone bus of Amaranth-SoC, and the same streams.

    `bus` has 32 bits, selects bytes, and ends a cycle by `err` where no register is, or where the register is
    read-only. A cycle that its initiator leaves early is completed inside and not acknowledged. Needs amaranth_soc.
    """

    def __init__(self):
        from amaranth_soc import wishbone

        bus = wishbone.Signature(addr_width=ADDRESS_BITS - 2, data_width=32, granularity=8, features={{"err"}})
        super().__init__({{"sink": In(SAMPLES), "source": Out(RESULTS), "bus": In(bus)}})
        self.bus.memory_map = memory_map()

    def elaborate(self, platform):
        m = Module()
        m.submodules.accelerator = accelerator = {class_name}()
        for register, name, _ in self.bus.memory_map.resources():
            m.submodules["_".join(name)] = register
        wiring.connect(m, wiring.flipped(self.sink), accelerator.sink)
        wiring.connect(m, wiring.flipped(self.source), accelerator.source)

        bus, axi = self.bus, accelerator.registers
        request = Signal(data.StructLayout({{"address": ADDRESS_BITS, "data": 32, "strb": 4}}))
        busy, abandoned = Signal(), Signal()
        requested, answered, refused = Signal(), Signal(), Signal()
        waiting = {{name: Signal(name=f"{{name}}_waiting") for name in ("aw", "w", "ar")}}
        m.d.comb += [
            requested.eq(bus.cyc & bus.stb),
            axi.aw.payload.eq(request.address),
            axi.ar.payload.eq(request.address),
            axi.w.payload.data.eq(request.data),
            axi.w.payload.strb.eq(request.strb),
            axi.b.ready.eq(1),
            axi.r.ready.eq(1),
            answered.eq(axi.b.valid | axi.r.valid),
            refused.eq(axi.b.valid & axi.b.payload[1] | axi.r.valid & axi.r.payload.resp[1]),
            bus.dat_r.eq(axi.r.payload.data),
            bus.ack.eq(requested & answered & ~abandoned & ~refused),
            bus.err.eq(requested & answered & ~abandoned & refused),
        ]
        for name, valid in waiting.items():
            channel = getattr(axi, name)
            m.d.comb += channel.valid.eq(valid)
            with m.If(channel.ready):
                m.d.sync += valid.eq(0)
        with m.If(~busy):
            m.d.sync += [
                request.address.eq(bus.adr << 2),
                request.data.eq(bus.dat_w),
                request.strb.eq(bus.sel),
                busy.eq(requested),
                abandoned.eq(0),
                waiting["aw"].eq(requested & bus.we),
                waiting["w"].eq(requested & bus.we),
                waiting["ar"].eq(requested & ~bus.we),
            ]
        with m.Elif(answered):
            m.d.sync += busy.eq(0)
        with m.Elif(~requested):
            m.d.sync += abandoned.eq(1)
        return m
'''


def amaranth_component(core: IpCore) -> str:
    """Return the text of the module with both components."""
    return core.filled(TEMPLATE)
