"""Verilog to compile: read once, and nothing in it that would run on the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from dynagate.base.errors import Error

REBUILD = "expected Verilog that dynagate wrote: build the design again"

_ATTRIBUTE = '(* ram_style = "block" *)'
"""The one place where dynagate writes a string."""
_SKIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|\\\S+", flags=re.S)
"""Comments and escaped names."""
_FOREIGN = re.compile(r"""\$(?!(?:un)?signed\b)\w*|[`"]""")
"""System tasks that dynagate does not use, directives and strings."""
_UNUSUAL = re.compile(r"[^\t\n -~]")


class SimulationError(Error, RuntimeError):
    """Verilator or the C++ compiler is missing or failed, or the Verilog is missing or not ours; the text says which
    and holds the end of a tool's output."""


def read_sources(paths: Sequence[Path]) -> dict[str, str]:
    """Text by file name. Raises SimulationError: a file is missing, or dynagate did not write it."""
    texts = {}
    for path in paths:
        try:
            texts[path.name] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SimulationError(f"cannot read {path} ({error}); {REBUILD}") from error
        _check(path, texts[path.name])
    return texts


def _check(path: Path, text: str) -> None:
    """A design may come from anybody, and Verilator runs what `$c` and `$system` say on the host."""
    plain = _SKIPPED.sub(" ", text.replace(_ATTRIBUTE, ""))
    foreign = _UNUSUAL.search(text) or _FOREIGN.search(plain)
    if foreign is not None:
        raise SimulationError(f"{path} holds {foreign[0]!r}; {REBUILD}")
