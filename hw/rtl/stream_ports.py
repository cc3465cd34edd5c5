"""Ports of an AXI4-Stream, for every component that has one."""

from __future__ import annotations

from typing import Any

from amaranth.lib.wiring import In, Out


def stream_ports(width: int, *, into: bool, prefix: str = "") -> dict[str, Any]:
    """Return the ports of a stream, by name.

    Args:
        width: Bits of TDATA.
        into: Whether the component receives the beats. If so, TKEEP marks the bytes that are present.
        prefix: Prefix of the names.
    """
    forth, back = (In, Out) if into else (Out, In)
    ports = {"tdata": forth(width), "tvalid": forth(1), "tready": back(1), "tlast": forth(1)}
    if into:
        ports["tkeep"] = forth(width // 8)
    return {f"{prefix}{name}": port for name, port in ports.items()}
