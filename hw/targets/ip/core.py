"""Facts about an accelerator that all package descriptions share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dynagate.base.ownership import head_lines
from dynagate.base.untrusted import identifier, plain_text
from dynagate.design.design import DesignRecord, Register
from dynagate.hw.rtl.axi_lite import PORTS
from dynagate.hw.rtl.regmap import ADDRESS_BITS, WRITE

VENDOR, LIBRARY, VERSION = "dynagate", "accelerators", "1.0.0"
"""Vendor, library and version in the identifiers of packages."""
TOP = "accelerator"
"""Module at the top of the Verilog."""
BUSES = {"s_axis": True, "m_axis": False}
"""Streams of the accelerator, and whether each one is an input."""


@dataclass(frozen=True)
class IpPort:
    """A port of the module."""

    name: str
    width: int
    is_input: bool
    bus: str
    """The interface it belongs to: "s_axis", "m_axis", "s_axil", or "" for clock and reset."""

    @property
    def signal(self) -> str:
        """Return the name of the port in its interface, such as TDATA."""
        return self.name.removeprefix(f"{self.bus}_").upper()


@dataclass(frozen=True)
class IpCore:
    """An accelerator as package descriptions need it."""

    name: str
    """Identifier of the robot and function."""
    title: str
    """Robot, function and hash of the design, as plain text."""
    width: int
    """Bits of both streams."""
    registers: tuple[Register, ...]
    """Registers behind AXI4-Lite."""
    identity: int
    version: int
    device_hash: int
    files: tuple[str, ...]
    """Verilog files relative to the package, in the order in which tools read them."""

    @classmethod
    def of(cls, design: DesignRecord[Any], files: Sequence[str]) -> IpCore:
        """Return the facts about the accelerator of a design with an AXI shell."""
        axi = design.axi
        assert axi is not None
        return cls(
            identifier(f"{design.robot_name}_{design.function}".replace(",", "_").replace("-", "_")).lower(),
            plain_text(f"{design.robot_name} {design.function}") + f", design {design.hash[:16]}",
            axi.width,
            tuple(axi.registers.values()),
            axi.identity,
            axi.version,
            design.device_hash,
            tuple(files),
        )

    @property
    def notice(self) -> tuple[str, ...]:
        """Return the lines at the head of each generated file."""
        return (*head_lines("dynagate package FOLDER"), self.title)

    @property
    def class_name(self) -> str:
        """Return the name of a Python class for the accelerator."""
        name = "".join(part.capitalize() for part in self.name.split("_"))
        return name if name.isidentifier() else f"Accelerator{name}"  # a robot's name may begin with a digit

    def filled(self, template: str) -> str:
        """Return the text of a Python module for the accelerator.

        Args:
            template: Text with the fields head, title, class_name, width, files, registers, size, address_bits and top.
        """
        listed = "".join(f'    "{name}",\n' for name in self.files)
        rows = "".join(
            f"    {row.name!r}: (0x{row.address:02x}, {'rw' if row.access == WRITE else 'r'!r}, {list(row.bits)}),\n"
            for row in self.registers
        )
        return template.format(
            head="".join(f"# {line}\n" for line in self.notice),
            title=self.title,
            class_name=self.class_name,
            width=self.width,
            files=f"[\n{listed}]",
            registers=f"{{\n{rows}}}",
            size=1 << self.address_bits,
            address_bits=self.address_bits,
            top=TOP,
        )

    def reset_value(self, register: Register) -> int | None:
        """Return the value of a register after reset; None if it depends on the design's parameters or on time."""
        constants = {
            "identity": self.identity,
            "version": self.version,
            "hash_low": self.device_hash & 0xFFFFFFFF,
            "hash_high": self.device_hash >> 32,
        }
        return constants.get(register.name)

    def ports(self) -> Iterator[IpPort]:
        """Yield the ports of the module in the order of their interfaces."""
        yield IpPort("aclk", 1, True, "")
        yield IpPort("aresetn", 1, True, "")
        for bus, takes in BUSES.items():
            yield IpPort(f"{bus}_tdata", self.width, takes, bus)
            yield IpPort(f"{bus}_tvalid", 1, takes, bus)
            yield IpPort(f"{bus}_tready", 1, not takes, bus)
            yield IpPort(f"{bus}_tlast", 1, takes, bus)
            if takes:
                yield IpPort(f"{bus}_tkeep", self.width // 8, takes, bus)
        for name, member in PORTS.items():
            yield IpPort(f"s_axil_{name}", int(member.shape), member.flow.name == "In", "s_axil")

    @property
    def address_bits(self) -> int:
        """Return the bits of a register's address."""
        return ADDRESS_BITS
