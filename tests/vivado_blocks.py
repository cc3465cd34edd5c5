"""What Vivado's blocks are called and have, as far as our block designs use them.

Names of parameters, interfaces and pins come from public designs: XDMA, util_ds_buf, clk_wiz and smartconnect from
platforms/xilinx_alveo_u250 and xilinx_vcu118 of github.com/firesim/firesim, fpga/tcl/ips/xdma.tcl of
github.com/datenlord/blue-udp, and AMD's PG195; axi_dma and the processors from boards/Pynq-Z2/base/base.tcl of
github.com/Xilinx/PYNQ and AMD's PG021, PG082 and PG201; axis_clock_converter from PG085; proc_sys_reset from PG164.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.tcl import TclError

AXIS, MEMORY_MAPPED, PCIE, DIFFERENTIAL = "axis", "aximm", "pcie_7x_mgt", "diff_clock"

Settings = Mapping[str, str]


@dataclass(frozen=True)
class Interface:
    """kind: AXIS, MEMORY_MAPPED, PCIE or DIFFERENTIAL. master: whether it drives. clocks: pins, one of which it is
    synchronous to. width: bits of a stream, None if it follows what it is connected to. optional: may stay open."""

    kind: str
    master: bool
    clocks: tuple[str, ...] = ()
    width: int | None = None
    optional: bool = False


@dataclass(frozen=True)
class Pin:
    """kind: clk, rst or data. output: whether it drives. optional: may stay open."""

    kind: str
    output: bool
    optional: bool = False


@dataclass(frozen=True)
class Segment:
    """Addresses behind a slave interface. interface, and name. offset: fixed, or None where it is assigned. range:
    bytes that an assigned one must have at least."""

    interface: str
    name: str
    offset: int | None = None
    range: int = 4096


@dataclass(frozen=True)
class Space:
    """Addresses that a master interface reaches. first, last: those that it can drive."""

    interface: str
    name: str
    first: int = 0
    last: int = 2**64 - 1


@dataclass(frozen=True)
class Block:
    """parameters: their allowed values by name, None for any. The others by the settings of the parameters."""

    parameters: Mapping[str, tuple[str, ...] | None]
    interfaces: Callable[[Settings], dict[str, Interface]]
    pins: Callable[[Settings], dict[str, Pin]]
    segments: tuple[Segment, ...] = ()
    spaces: tuple[Space, ...] = ()
    passes_on: bool = False
    """Whether every master interface reaches what the slave interfaces are given: an interconnect."""
    rule: str | None = None
    """The only automation rule that may be applied."""
    preset: Mapping[str, str] = field(default_factory=dict)
    """Parameters that are in the hardware description without having been set."""


CLOCK_IN, RESET_IN = Pin("clk", False), Pin("rst", False)
CLOCK_OUT, RESET_OUT = Pin("clk", True, optional=True), Pin("rst", True, optional=True)


def _xdma_interfaces(settings: Settings) -> dict[str, Interface]:
    clock = ("axi_aclk",)
    interfaces = {"pcie_mgt": Interface(PCIE, True)}
    if settings.get("xdma_axi_intf_mm") == "AXI_Stream":
        width = int(settings.get("axi_data_width", "64_bit").removesuffix("_bit"))
        for channel in range(int(settings.get("xdma_rnum_chnl", "1"))):
            interfaces[f"M_AXIS_H2C_{channel}"] = Interface(AXIS, True, clock, width)
        for channel in range(int(settings.get("xdma_wnum_chnl", "1"))):
            interfaces[f"S_AXIS_C2H_{channel}"] = Interface(AXIS, False, clock, width)
    if settings.get("axilite_master_en") == "true":
        interfaces["M_AXI_LITE"] = Interface(MEMORY_MAPPED, True, clock)
    return interfaces


def _smartconnect_interfaces(settings: Settings) -> dict[str, Interface]:
    clocks = tuple(_smartconnect_clocks(settings))
    interfaces = {}
    for letter, name, master in (("S", "NUM_SI", False), ("M", "NUM_MI", True)):
        for k in range(int(settings.get(name, "1" if letter == "M" else "2"))):
            interfaces[f"{letter}{k:02}_AXI"] = Interface(MEMORY_MAPPED, master, clocks)
    return interfaces


def _smartconnect_clocks(settings: Settings) -> list[str]:
    return ["aclk", *(f"aclk{k}" for k in range(1, int(settings.get("NUM_CLKS", "1"))))]


def _dma_interfaces(settings: Settings) -> dict[str, Interface]:
    if settings.get("c_include_sg", "1") != "0":
        raise TclError("axi_dma with scatter gather: its M_AXI_SG is not described here")
    return {
        "S_AXI_LITE": Interface(MEMORY_MAPPED, False, ("s_axi_lite_aclk",)),
        "M_AXI_MM2S": Interface(MEMORY_MAPPED, True, ("m_axi_mm2s_aclk",)),
        "M_AXI_S2MM": Interface(MEMORY_MAPPED, True, ("m_axi_s2mm_aclk",)),
        "M_AXIS_MM2S": Interface(
            AXIS, True, ("m_axi_mm2s_aclk",), int(settings.get("c_m_axis_mm2s_tdata_width", "32"))
        ),
        "S_AXIS_S2MM": Interface(
            AXIS, False, ("m_axi_s2mm_aclk",), int(settings.get("c_s_axis_s2mm_tdata_width", "32"))
        ),
    }


def _zynq7_interfaces(settings: Settings) -> dict[str, Interface]:
    interfaces = {}
    if settings.get("PCW_USE_M_AXI_GP0", "1") == "1":
        interfaces["M_AXI_GP0"] = Interface(MEMORY_MAPPED, True, ("M_AXI_GP0_ACLK",))
    if settings.get("PCW_USE_S_AXI_HP0", "0") == "1":
        interfaces["S_AXI_HP0"] = Interface(MEMORY_MAPPED, False, ("S_AXI_HP0_ACLK",))
    return interfaces


def _zynq7_pins(settings: Settings) -> dict[str, Pin]:
    clocks = {f"{name}_ACLK": CLOCK_IN for name in _zynq7_interfaces(settings)}
    return {**clocks, "FCLK_CLK0": CLOCK_OUT, "FCLK_RESET0_N": RESET_OUT}


_MPSOC_PORTS = {
    "PSU__USE__M_AXI_GP0": ("M_AXI_HPM0_FPD", "maxihpm0_fpd_aclk", True),
    "PSU__USE__M_AXI_GP1": ("M_AXI_HPM1_FPD", "maxihpm1_fpd_aclk", True),
    "PSU__USE__M_AXI_GP2": ("M_AXI_HPM0_LPD", "maxihpm0_lpd_aclk", True),
    "PSU__USE__S_AXI_GP2": ("S_AXI_HP0_FPD", "saxihp0_fpd_aclk", False),
}
_MPSOC_PRESET = {"PSU__USE__M_AXI_GP0": "1", "PSU__USE__M_AXI_GP1": "1"}
"""What the KV260's preset turns on."""


def _mpsoc_ports(settings: Settings) -> list[tuple[str, str, bool]]:
    used = {**_MPSOC_PRESET, **settings}
    return [row for name, row in _MPSOC_PORTS.items() if used.get(name, "0") == "1"]


def _mpsoc_interfaces(settings: Settings) -> dict[str, Interface]:
    return {name: Interface(MEMORY_MAPPED, master, (clock,)) for name, clock, master in _mpsoc_ports(settings)}


def _mpsoc_pins(settings: Settings) -> dict[str, Pin]:
    clocks = {clock: CLOCK_IN for _, clock, _ in _mpsoc_ports(settings)}
    return {**clocks, "pl_clk0": CLOCK_OUT, "pl_resetn0": RESET_OUT}


def _clocks(enable: str, divisor: str, source: str) -> dict[str, str]:
    """Parameters of the processor's four clocks, of which the first runs. Names: with the clock's number in braces."""
    return {
        name: value
        for k in range(4)
        for name, value in (
            (enable.format(k), "1" if k == 0 else "0"),
            (f"{divisor.format(k)}0", "10"),
            (f"{divisor.format(k)}1", "1"),
            (source.format(k), "IOPLL"),
        )
    }


BURSTS = ("2", "4", "8", "16", "32", "64", "128", "256")
STREAMS = ("8", "16", "32", "64", "128", "256", "512", "1024")
BOOLEAN = ("true", "false")
BIT = ("0", "1")

BLOCKS = {
    "xilinx.com:ip:util_ds_buf": Block(
        {
            "C_BUF_TYPE": ("IBUFDS", "OBUFDS", "IBUFDSGTE", "BUFG"),
            "USE_BOARD_FLOW": BOOLEAN,
            "DIFF_CLK_IN_BOARD_INTERFACE": None,
        },
        lambda settings: {"CLK_IN_D": Interface(DIFFERENTIAL, False)},
        lambda settings: {"IBUF_OUT": CLOCK_OUT, "IBUF_DS_ODIV2": CLOCK_OUT},
    ),
    "xilinx.com:ip:xdma": Block(
        {
            "PCIE_BOARD_INTERFACE": None,
            "SYS_RST_N_BOARD_INTERFACE": None,
            "pl_link_cap_max_link_speed": ("2.5_GT/s", "5.0_GT/s", "8.0_GT/s", "16.0_GT/s"),
            "pl_link_cap_max_link_width": ("X1", "X2", "X4", "X8", "X16"),
            "xdma_axi_intf_mm": ("AXI_Memory_Mapped", "AXI_Stream"),
            "axi_data_width": ("64_bit", "128_bit", "256_bit", "512_bit"),
            "axisten_freq": ("62.5", "125", "250"),
            "xdma_rnum_chnl": ("1", "2", "3", "4"),
            "xdma_wnum_chnl": ("1", "2", "3", "4"),
            "axilite_master_en": BOOLEAN,
            "axilite_master_size": ("4", "8", "16", "32", "64", "128", "256", "512"),
            "axilite_master_scale": ("Kilobytes", "Megabytes", "Gigabytes"),
            "pciebar2axibar_axil_master": None,
        },
        _xdma_interfaces,
        lambda settings: {
            "sys_clk": CLOCK_IN,
            "sys_clk_gt": CLOCK_IN,
            "sys_rst_n": RESET_IN,
            "usr_irq_req": Pin("data", False),
            "axi_aclk": CLOCK_OUT,
            "axi_aresetn": RESET_OUT,
            "user_lnk_up": Pin("data", True, optional=True),
        },
        spaces=(Space("M_AXI_LITE", "M_AXI_LITE", 0, 0xFFFF),),
    ),
    "xilinx.com:ip:xlconstant": Block(
        {"CONST_VAL": None, "CONST_WIDTH": None},
        lambda settings: {},
        lambda settings: {"dout": Pin("data", True, optional=True)},
    ),
    "xilinx.com:ip:clk_wiz": Block(
        {
            "PRIM_SOURCE": (
                "Single_ended_clock_capable_pin",
                "Differential_clock_capable_pin",
                "Global_buffer",
                "No_buffer",
            ),
            "PRIM_IN_FREQ": None,
            "CLKOUT1_REQUESTED_OUT_FREQ": None,
            "USE_LOCKED": BOOLEAN,
            "USE_RESET": BOOLEAN,
            "RESET_TYPE": ("ACTIVE_HIGH", "ACTIVE_LOW"),
        },
        lambda settings: {},
        lambda settings: {
            "clk_in1": CLOCK_IN,
            "resetn" if settings.get("RESET_TYPE") == "ACTIVE_LOW" else "reset": RESET_IN,
            "clk_out1": CLOCK_OUT,
            "locked": Pin("data", True, optional=True),
        },
    ),
    "xilinx.com:ip:proc_sys_reset": Block(
        {"C_EXT_RESET_HIGH": BIT},
        lambda settings: {},
        lambda settings: {
            "slowest_sync_clk": CLOCK_IN,
            "ext_reset_in": RESET_IN,
            "aux_reset_in": Pin("rst", False, optional=True),
            "dcm_locked": Pin("data", False, optional=True),
            "peripheral_aresetn": RESET_OUT,
            "interconnect_aresetn": RESET_OUT,
        },
    ),
    "xilinx.com:ip:axis_clock_converter": Block(
        {"SYNCHRONIZATION_STAGES": None},
        lambda settings: {
            "S_AXIS": Interface(AXIS, False, ("s_axis_aclk",)),
            "M_AXIS": Interface(AXIS, True, ("m_axis_aclk",)),
        },
        lambda settings: {
            "s_axis_aclk": CLOCK_IN,
            "s_axis_aresetn": RESET_IN,
            "m_axis_aclk": CLOCK_IN,
            "m_axis_aresetn": RESET_IN,
        },
    ),
    "xilinx.com:ip:smartconnect": Block(
        {
            "NUM_SI": tuple(map(str, range(1, 17))),
            "NUM_MI": tuple(map(str, range(1, 17))),
            "NUM_CLKS": tuple(map(str, range(1, 9))),
        },
        _smartconnect_interfaces,
        lambda settings: {**dict.fromkeys(_smartconnect_clocks(settings), CLOCK_IN), "aresetn": RESET_IN},
        passes_on=True,
    ),
    "xilinx.com:ip:axi_dma": Block(
        {
            "c_include_sg": BIT,
            "c_sg_include_stscntrl_strm": BIT,
            "c_sg_length_width": tuple(map(str, range(8, 27))),
            "c_addr_width": tuple(map(str, range(32, 65))),
            "c_include_mm2s_dre": BIT,
            "c_include_s2mm_dre": BIT,
            "c_m_axi_mm2s_data_width": STREAMS[2:],
            "c_m_axis_mm2s_tdata_width": STREAMS,
            "c_m_axi_s2mm_data_width": STREAMS[2:],
            "c_s_axis_s2mm_tdata_width": STREAMS,
            "c_mm2s_burst_size": BURSTS,
            "c_s2mm_burst_size": BURSTS,
        },
        _dma_interfaces,
        lambda settings: {
            "s_axi_lite_aclk": CLOCK_IN,
            "m_axi_mm2s_aclk": CLOCK_IN,
            "m_axi_s2mm_aclk": CLOCK_IN,
            "axi_resetn": RESET_IN,
            "mm2s_introut": Pin("data", True, optional=True),
            "s2mm_introut": Pin("data", True, optional=True),
        },
        segments=(Segment("S_AXI_LITE", "Reg"),),
        spaces=(Space("M_AXI_MM2S", "Data_MM2S"), Space("M_AXI_S2MM", "Data_S2MM")),
        preset={
            "c_include_mm2s": "1",
            "c_include_s2mm": "1",
            **dict.fromkeys(("c_m_axi_mm2s_data_width", "c_m_axi_s2mm_data_width"), "32"),
        },
    ),
    "xilinx.com:ip:processing_system7": Block(
        {
            "PCW_USE_M_AXI_GP0": BIT,
            "PCW_USE_S_AXI_HP0": BIT,
            "PCW_S_AXI_HP0_DATA_WIDTH": ("32", "64"),
            "PCW_FPGA0_PERIPHERAL_FREQMHZ": None,
        },
        _zynq7_interfaces,
        _zynq7_pins,
        segments=(Segment("S_AXI_HP0", "HP0_DDR_LOWOCM", 0, 512 << 20),),
        spaces=(Space("M_AXI_GP0", "Data", 0x40000000, 0x7FFFFFFF),),
        rule="xilinx.com:bd_rule:processing_system7",
        preset=_clocks("PCW_FPGA_FCLK{}_ENABLE", "PCW_FCLK{}_PERIPHERAL_DIVISOR", "PCW_FCLK{}_PERIPHERAL_CLKSRC"),
    ),
    "xilinx.com:ip:zynq_ultra_ps_e": Block(
        {
            **dict.fromkeys(_MPSOC_PORTS, BIT),
            "PSU__SAXIGP2__DATA_WIDTH": ("32", "64", "128"),
            "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ": None,
        },
        _mpsoc_interfaces,
        _mpsoc_pins,
        segments=(
            Segment("SAXIGP2", "HP0_DDR_LOW", 0, 2 << 30),
            Segment("SAXIGP2", "HP0_DDR_HIGH", 0x800000000, 2 << 30),
        ),
        spaces=(Space("M_AXI_HPM0_FPD", "Data", 0xA0000000, 0xAFFFFFFF),),
        rule="xilinx.com:bd_rule:zynq_ultra_ps_e",
        preset={
            **_clocks(
                "PSU__FPGA_PL{}_ENABLE", "PSU__CRL_APB__PL{}_REF_CTRL__DIVISOR", "PSU__CRL_APB__PL{}_REF_CTRL__SRCSEL"
            ),
            "PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ": "199.998001",
        },
    ),
}
SEGMENT_INTERFACES = {"SAXIGP2": "S_AXI_HP0_FPD"}
"""Where a segment is not named after its interface."""
