"""Compilers for other platforms than this one, and the programs that run what they compile."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from dynagate.native.platforms import PLATFORMS

WINE = shutil.which("wine64") or shutil.which("wine") or "/usr/lib/wine/wine64"
ARM_LIBRARIES = Path("/usr/aarch64-linux-gnu")
"""Folder of the C library for ARM64 in Debian's package libc6-arm64-cross."""

RUNNERS = {
    "x86_64-linux": [],
    "aarch64-linux": ["qemu-aarch64", "-L", str(ARM_LIBRARIES)],
    "x86_64-windows": [WINE],
}
"""Platform -> command that runs its programs on Linux on x86-64. Nothing here runs programs for macOS."""

MAGIC = {
    "x86_64-linux": (b"\x7fELF", 18, b"\x3e\x00"),
    "aarch64-linux": (b"\x7fELF", 18, b"\xb7\x00"),
    "x86_64-windows": (b"MZ", None, b""),
    "x86_64-darwin": (b"\xcf\xfa\xed\xfe", 4, b"\x07\x00\x00\x01"),
    "aarch64-darwin": (b"\xcf\xfa\xed\xfe", 4, b"\x0c\x00\x00\x01"),
}
"""Platform -> first bytes of its programs and libraries, and the offset and bytes of the processor in them."""


class CrossCompiler(NamedTuple):
    """command: the compiler. runner: what runs its programs; None if nothing does."""

    command: list[str]
    runner: list[str] | None


def cross_compiler(platform: str) -> CrossCompiler:
    """Return the compiler of the wheel for a platform, or skip the test if it is not installed."""
    if not importlib.util.find_spec("ziglang"):
        pytest.skip("needs a compiler for other platforms: pip install ziglang")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", PLATFORMS[platform].target, "-fno-sanitize=undefined"]
    runner = RUNNERS.get(platform)
    installed = runner is not None and all(shutil.which(part) for part in runner[:1])
    if platform == "aarch64-linux":
        installed &= ARM_LIBRARIES.exists()
    return CrossCompiler(command, runner if installed else None)


def is_for(platform: str, binary: bytes) -> bool:
    """Return whether a program or a library is one of a platform."""
    first, offset, processor = MAGIC[platform]
    return binary.startswith(first) and (offset is None or binary[offset : offset + len(processor)] == processor)
