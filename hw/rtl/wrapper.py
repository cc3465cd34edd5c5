"""A Verilog wrapper around the shell for vendor tools, which declares the interfaces by attributes.

Vivado groups the ports of a module into interfaces by X_INTERFACE_INFO attributes (UG994, module references). The
wrapper adds a TKEEP of all ones to the results, which DMA engines expect, and a register page of 4 KiB, the smallest
that an interconnect can address: the registers repeat every 256 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.regmap import ADDRESS_BITS

MODULE = "dynagate"
"""Name of the wrapper's module."""
PAGE_BITS = 12
"""Bits of an address at the wrapper: 4 KiB."""
INTERFACES = {
    "s_axis": "xilinx.com:interface:axis:1.0",
    "m_axis": "xilinx.com:interface:axis:1.0",
    "s_axil": "xilinx.com:interface:aximm:1.0",
}
"""Vivado's interface type of each group of ports, by prefix."""


class _Port(NamedTuple):
    """A port of the shell."""

    name: str
    width: int
    into: bool

    @property
    def interface(self) -> str | None:
        prefix = self.name.rpartition("_")[0]
        return prefix if prefix in INTERFACES else None

    @property
    def signal(self) -> str:
        return self.name.rpartition("_")[2]


def wrapper(axi: Axi, *, clock: str = "aclk", reset: str = "aresetn", crossings: bool = False) -> str:
    """Return the Verilog of the module `dynagate` around `accelerator`.

    Args:
        axi: Options of the streams.
        crossings: Whether the module `crossings` of `hw.rtl.crossing` stands between the ports and the shell.
        clock: Name of the clock port; Vitis expects ap_clk.
        reset: Name of the reset port; Vitis expects ap_rst_n.
    """
    from dynagate.hw.rtl.accelerator import ports as shell_ports

    names = {"aclk": clock, "aresetn": reset}
    ports = [_Port(name, member.shape, str(member.flow) == "In") for name, member in shell_ports(axi).items()]
    declared: list[str] = []
    wires: list[str] = []
    for port in ports:
        name, width = names.get(port.name, port.name), port.width
        read = name
        if port.signal in ("awaddr", "araddr"):
            width, read = PAGE_BITS, f"{name}[{ADDRESS_BITS - 1}:0]"
        declared.append(_attributes(port, clock, reset) + _declaration(name, width, port.into))
        wires.append(f"    .{port.name}({read})")
        if port.name == "m_axis_tdata":
            declared.append(_keep(port))
    shell = ["  accelerator shell (", ",\n".join(wires), "  );"]
    if crossings:
        inner = [f"    .{port.name}({names.get(port.name, _inner_name(port))})" for port in ports]
        shell = [*_crossed(ports, wires), *shell[:1], ",\n".join(inner), "  );"]
    keep = [f"  assign m_axis_tkeep = {{{port.width // 8}{{1'b1}}}};" for port in ports if port.name == "m_axis_tdata"]
    return "\n".join(
        [
            f"module {MODULE} (",
            ",\n".join(declared),
            ");",
            *keep,
            *shell,
            "endmodule",
            "",
        ]
    )


def _inner_name(port: _Port) -> str:
    """Return the name of the wire between the crossings and a port of the shell."""
    return f"shell_{port.name}"


def _crossed(ports: Sequence[_Port], wires: Sequence[str]) -> list[str]:
    """Return the wires between the crossings and the shell, and the instance of the crossings.

    Args:
        ports: Ports of the shell.
        wires: Connection of each port without crossings.
    """
    crossing = [port for port in ports if port.interface is not None]
    lines = [f"  wire {f'[{port.width - 1}:0] ' if port.width > 1 else ''}{_inner_name(port)};" for port in crossing]
    inner = [f"    .{_inner_name(port)}({_inner_name(port)})" for port in crossing]
    return [*lines, "  crossings u_crossings (", ",\n".join([*wires, *inner]), "  );"]


def _keep(data: _Port) -> str:
    """Return the declaration of a TKEEP port."""
    port = _Port(data.name.replace("tdata", "tkeep"), data.width // 8, data.into)
    return _attributes(port, "", "") + _declaration(port.name, port.width, port.into)


def _declaration(name: str, width: int, into: bool) -> str:
    """Return the Verilog declaration of a port."""
    span = f" [{width - 1}:0]" if width > 1 else ""
    return f"  {'input' if into else 'output'} wire{span} {name}"


def _attributes(port: _Port, clock: str, reset: str) -> str:
    """Return the Verilog attributes of a port."""
    return "".join(f'  (* {name} = "{value}" *)\n' for name, value in _marks(port, clock, reset))


def _marks(port: _Port, clock: str, reset: str) -> Iterator[tuple[str, str]]:
    """Yield the attributes of a port: name and value."""
    if port.interface is not None:
        yield "X_INTERFACE_INFO", f"{INTERFACES[port.interface]} {port.interface} {port.signal.upper()}"
    elif port.name == "aclk":
        yield "X_INTERFACE_INFO", f"xilinx.com:signal:clock:1.0 {clock} CLK"
        yield "X_INTERFACE_PARAMETER", f"ASSOCIATED_BUSIF {':'.join(INTERFACES)}, ASSOCIATED_RESET {reset}"
    elif port.name == "aresetn":
        yield "X_INTERFACE_INFO", f"xilinx.com:signal:reset:1.0 {reset} RST"
        yield "X_INTERFACE_PARAMETER", "POLARITY ACTIVE_LOW"
