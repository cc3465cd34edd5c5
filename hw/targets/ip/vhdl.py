"""A VHDL entity around the accelerator."""

from __future__ import annotations

from dynagate.hw.export.identifiers import plain
from dynagate.hw.targets.ip.core import TOP, IpCore, IpPort


def vhdl_entity(core: IpCore) -> str:
    """Return the text of the entity, VHDL-93: the ports of the Verilog module, which it instantiates as a component."""
    ports = list(core.ports())
    name = vhdl_name(core)
    declared = ";\n".join(f"    {port.name} : {_type(port)}" for port in ports)
    inside = ";\n".join(f"      {port.name} : {_type(port)}" for port in ports)
    mapped = ",\n".join(f"      {port.name} => {port.name}" for port in ports)
    head = "".join(f"-- {line.encode('ascii', 'replace').decode()}\n" for line in core.notice)
    return (
        f"{head}\nlibrary ieee;\nuse ieee.std_logic_1164.all;\n\n"
        f"entity {name} is\n  port (\n{declared}\n  );\nend entity {name};\n\n"
        f"architecture verilog of {name} is\n"
        f"  component {TOP} is\n    port (\n{inside}\n    );\n  end component {TOP};\n"
        f"begin\n  u_{TOP} : {TOP}\n    port map (\n{mapped}\n    );\nend architecture verilog;\n"
    )


def vhdl_name(core: IpCore) -> str:
    """Return the name of the entity, which differs from that of the Verilog module."""
    return plain(f"{core.name}_entity")


def _type(port: IpPort) -> str:
    """Return mode and type of a port."""
    mode = "in" if port.is_input else "out"
    return f"{mode} std_logic" + (f"_vector({port.width - 1} downto 0)" if port.width > 1 else "")
