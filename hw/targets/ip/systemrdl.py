"""The register map in SystemRDL 2.0."""

from __future__ import annotations

from dynagate.design.design import Register
from dynagate.hw.rtl.regmap import BITS, WRITE
from dynagate.hw.targets.ip.core import IpCore


def systemrdl(core: IpCore) -> str:
    """Return the text of registers.rdl: one address map, a register for each row of the accelerator's table."""
    head = "".join(f"// {line}\n" for line in core.notice)
    body = "\n".join(_register(core, row) for row in core.registers)
    return (
        f"{head}addrmap {core.name} {{\n"
        f'  name = "{core.title}";\n'
        f"  default regwidth = {BITS};\n  default accesswidth = {BITS};\n  addressing = regalign;\n\n{body}}};\n"
    )


def _register(core: IpCore, row: Register) -> str:
    """Return one register with its fields."""
    software = "rw" if row.access == WRITE else "r"
    hardware = "r" if row.access == WRITE else "w"
    reset = core.reset_value(row)
    fields = [(name, bit, bit) for bit, name in enumerate(row.bits)] or [("value", BITS - 1, 0)]
    lines = [f"  reg {{\n    desc = {_quoted(row.meaning)};\n"]
    for name, high, low in fields:
        value = "" if reset is None else f" = 0x{reset:x}"
        lines.append(f"    field {{ sw = {software}; hw = {hardware}; }} {_field_name(name)}[{high}:{low}]{value};\n")
    return "".join(lines) + f"  }} {row.name} @ 0x{row.address:x};\n"


def _field_name(name: str) -> str:
    """Return the name of a field; a keyword of SystemRDL gets a backslash, which is no part of the name."""
    return f"\\{name}" if name in KEYWORDS else name


def _quoted(text: str) -> str:
    """Return a string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


KEYWORDS = frozenset({"reset", "clear", "field", "reg", "hw", "sw", "default", "enum", "name", "desc"})
"""Keywords of SystemRDL that a bit of a register might have as its name."""
