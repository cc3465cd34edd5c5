"""The register map as a C header."""

from __future__ import annotations

from dynagate.hw.targets.ip.core import IpCore


def c_header(core: IpCore) -> str:
    """Return the text of registers.h: the byte offset of each register, and a mask for each named bit."""
    guard = f"{core.name.upper()}_REGISTERS_H"
    prefix = core.name.upper()
    lines = [
        *(f"/* {line} */" for line in core.notice),
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        f"#define {prefix}_IDENTITY_VALUE UINT32_C(0x{core.identity:08x})",
        f"#define {prefix}_VERSION_VALUE UINT32_C({core.version})",
        f"#define {prefix}_HASH_VALUE UINT64_C(0x{core.device_hash:016x})",
        "",
        "#include <stdint.h>",
    ]
    for row in core.registers:
        register = f"{prefix}_{row.name.upper()}"
        access = "read and write" if row.access == "write" else "read only"
        lines += ["", f"/* {_comment(row.meaning)} ({access}) */", f"#define {register}_OFFSET 0x{row.address:02x}u"]
        lines += [f"#define {register}_{bit.upper()} (UINT32_C(1) << {k})" for k, bit in enumerate(row.bits)]
    return "\n".join([*lines, "", "#endif", ""])


def _comment(text: str) -> str:
    """Return text that cannot end a comment."""
    return text.replace("*/", "* /")
