"""Operating systems and processors for which shared libraries are compiled."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass

from dynagate.base.errors import ArgumentError


@dataclass(frozen=True)
class Platform:
    """An operating system on a processor."""

    name: str
    """Name in FMI 3.0, such as "x86_64-linux"."""
    target: str
    """Name of the target for Clang."""
    suffix: str
    """Suffix of shared libraries."""
    flags: tuple[str, ...] = ("-fPIC",)
    """Flags of this platform only."""


PLATFORMS = {
    each.name: each
    for each in (
        Platform("x86_64-linux", "x86_64-linux-gnu.2.17", ".so"),
        Platform("aarch64-linux", "aarch64-linux-gnu.2.17", ".so"),
        Platform("x86_64-windows", "x86_64-windows-gnu", ".dll", ()),
        Platform("x86_64-darwin", "x86_64-macos", ".dylib"),
        Platform("aarch64-darwin", "aarch64-macos", ".dylib"),
    )
}
"""Platforms by name. Libraries for Linux need glibc 2.17 or newer, of 2012."""

PROCESSORS = {"AMD64": "x86_64", "arm64": "aarch64"}
"""Processor as Python reports it on Windows and macOS -> its name in FMI."""


def this_name() -> str:
    """Return the name of the platform of this process, which need not be one of PLATFORMS."""
    processor = platform.machine()
    return f"{PROCESSORS.get(processor, processor)}-{platform.system().lower()}"


def chosen_platforms(names: Sequence[str]) -> list[Platform]:
    """Return the platforms of these names, each once; that of this process if there are no names.

    Raises:
        ArgumentError: A name is unknown, or there are no names and this process runs on none of PLATFORMS.
    """
    chosen = list(dict.fromkeys(names)) or [this_name()]
    for name in chosen:
        if name not in PLATFORMS:
            raise ArgumentError(f"platform '{name}' is unknown; expected {', '.join(PLATFORMS)}", code="DG-COMPILE-024")
    return [PLATFORMS[name] for name in chosen]
