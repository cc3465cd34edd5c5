"""A LiteX module that instantiates the accelerator."""

from __future__ import annotations

from dynagate.hw.targets.ip.core import IpCore

TEMPLATE = '''{head}"""{title}: a LiteX module.

In a SoC's `__init__`:

    self.accelerator = {class_name}(platform)
    region = SoCRegion(origin=0x9000_0000, size=0x{size:x}, cached=False)
    self.bus.add_slave("accelerator", self.accelerator.registers, region)
    self.comb += source.connect(self.accelerator.sink), self.accelerator.source.connect(sink)
"""

from pathlib import Path

from litex.gen import ClockSignal, Constant, Instance, LiteXModule, ResetSignal
from litex.soc.interconnect import axi, stream

WIDTH = {width}
"""Bits of both streams."""
FILES = {files}
"""Verilog files next to this module."""
ADDRESS_BITS = {address_bits}
"""Bits of a register's address; higher bits of an address are those of the region."""


class {class_name}(LiteXModule):
    """The accelerator: samples enter at `sink`, results leave at `source`, registers are behind `registers`.

    A sample is its words and a tag; `last` ends it. All bytes of a beat count unless something drives `sink.keep`.
    registers.rdl describes the registers.

    Args:
        platform: LiteX platform that the Verilog files are added to.
        registers: AXI4-Lite interface to use instead of a new one, with 32 data bits and at least ADDRESS_BITS
            address bits.
    """

    def __init__(self, platform=None, registers=None):
        self.sink = stream.Endpoint([("data", WIDTH), ("keep", WIDTH // 8)])
        self.sink.keep.reset = Constant((1 << WIDTH // 8) - 1)
        self.source = stream.Endpoint([("data", WIDTH)])
        if registers is None:
            registers = axi.AXILiteInterface(data_width=32, address_width=32)
        bits = registers.data_width, registers.address_width
        if bits[0] != 32 or bits[1] < ADDRESS_BITS:
            raise ValueError(
                f"registers has {{bits[0]}} data bits and {{bits[1]}} address bits; expected 32, and at least "
                f"{{ADDRESS_BITS}}"
            )
        self.registers = bus = registers
        self.specials += Instance(
            "{top}",
            i_aclk=ClockSignal(),
            i_aresetn=~ResetSignal(),
            i_s_axis_tdata=self.sink.data,
            i_s_axis_tkeep=self.sink.keep,
            i_s_axis_tvalid=self.sink.valid,
            o_s_axis_tready=self.sink.ready,
            i_s_axis_tlast=self.sink.last,
            o_m_axis_tdata=self.source.data,
            o_m_axis_tvalid=self.source.valid,
            i_m_axis_tready=self.source.ready,
            o_m_axis_tlast=self.source.last,
            i_s_axil_awaddr=bus.aw.addr[:ADDRESS_BITS],
            i_s_axil_awprot=Constant(0, 3),
            i_s_axil_awvalid=bus.aw.valid,
            o_s_axil_awready=bus.aw.ready,
            i_s_axil_wdata=bus.w.data,
            i_s_axil_wstrb=bus.w.strb,
            i_s_axil_wvalid=bus.w.valid,
            o_s_axil_wready=bus.w.ready,
            o_s_axil_bresp=bus.b.resp,
            o_s_axil_bvalid=bus.b.valid,
            i_s_axil_bready=bus.b.ready,
            i_s_axil_araddr=bus.ar.addr[:ADDRESS_BITS],
            i_s_axil_arprot=Constant(0, 3),
            i_s_axil_arvalid=bus.ar.valid,
            o_s_axil_arready=bus.ar.ready,
            o_s_axil_rdata=bus.r.data,
            o_s_axil_rresp=bus.r.resp,
            o_s_axil_rvalid=bus.r.valid,
            i_s_axil_rready=bus.r.ready,
        )
        if platform is not None:
            for name in FILES:
                platform.add_source(str(Path(__file__).parent / name))
'''


def litex_module(core: IpCore) -> str:
    """Return the text of the module."""
    return core.filled(TEMPLATE)
