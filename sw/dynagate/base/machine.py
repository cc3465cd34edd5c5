"""Describe the computer on which measurements were made."""

from __future__ import annotations

import platform
from pathlib import Path


def processor() -> tuple[str, str]:
    """Name and flags of the processor; no flags where the system does not list them."""
    model, flags = platform.processor(), ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        fields = dict(line.split(":", 1) for line in cpuinfo.read_text().splitlines() if ":" in line)
        fields = {key.strip(): value.strip() for key, value in fields.items()}
        model, flags = fields.get("model name", model), fields.get("flags", "")
    return model, flags
