"""An Amaranth component that instantiates the accelerator."""

from __future__ import annotations

from dynagate.hw.targets.ip.core import IpCore

TEMPLATE = '''{head}"""{title}: an Amaranth component.

In `elaborate` of the component around it, in the clock domain "sync":

    m.submodules.accelerator = accelerator = {class_name}()
    wiring.connect(m, source, accelerator.sink)
    wiring.connect(m, accelerator.source, sink)
"""

from pathlib import Path

from amaranth.hdl import ClockSignal, Const, Instance, Module, ResetSignal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

WIDTH = {width}
"""Bits of both streams."""
FILES = {files}
"""Verilog files next to this module."""
ADDRESS_BITS = {address_bits}
"""Bits of a register's address."""


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

    sink: In(stream.Signature(data.StructLayout({{"data": WIDTH, "keep": WIDTH // 8, "last": 1}})))
    source: Out(stream.Signature(data.StructLayout({{"data": WIDTH, "last": 1}})))
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
'''


def amaranth_component(core: IpCore) -> str:
    """Return the text of the module."""
    return core.filled(TEMPLATE)
