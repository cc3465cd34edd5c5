"""Verilog to compile: read once, and nothing in it that would run on the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from dynagate.base.errors import Error
from dynagate.base.storage import read_file
from dynagate.design.verilog_list import ListError, files_of

REBUILD = "expected Verilog that dynagate wrote: build the design again"

_TOKEN = re.compile(
    r"""[\t\n ]+
    | //[^\n]*
    | /\*(?:(?!/\*|\*/).)*\*/
    | \(\*\ ram_style\ =\ "(?:block|distributed)"\ \*\)  # the one place where dynagate writes a string
    | \\[A-Za-z0-9_$.:]+(?=[\t\n ])  # an escaped name, which nothing else can hide in
    | [A-Za-z0-9_]+
    | \$(?:un)?signed\b(?!\$)
    | [][(){}<>=!&|^~?:;,.@\#'*%+-] | /(?![/*])""",
    flags=re.VERBOSE | re.DOTALL,
)
"""Verilog as dynagate writes it, read from left to right as a simulator reads it: no system task but $signed, no
directive, no string, and escaped names of plain characters."""
_SHOWN = re.compile(r"\\\S+|\$\w*|/\*|.", flags=re.DOTALL)
"""Pattern for the excerpt that an error shows of text that is no known token."""
_UNUSUAL = re.compile(r"[^\t\n -~]")


class SimulationError(Error, RuntimeError):
    """Verilator or the C++ compiler is missing or failed, or the Verilog is missing or not ours; the text says which
    and holds the end of a tool's output."""


def read_sources(paths: Sequence[Path]) -> dict[str, str]:
    """Text by file name, of the files of these modules and of their parts. Raises SimulationError: a file is missing,
    or dynagate did not write it."""
    texts = {}
    try:
        files = [file for top in paths for file in files_of(top)]
    except ListError as error:
        raise SimulationError(str(error)) from None
    for path in files:
        try:
            texts[path.name] = read_file(path).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise SimulationError(f"cannot read {path} ({error}); {REBUILD}") from error
        _check(path, texts[path.name])
    return texts


def _check(path: Path, text: str) -> None:
    """A design may come from anybody, and Verilator runs what `$c` and `$system` say on the host."""
    if foreign := _UNUSUAL.search(text):
        raise SimulationError(f"{path} holds {foreign[0]!r}; {REBUILD}")
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            foreign = _SHOWN.match(text, place)
            assert foreign is not None
            raise SimulationError(f"{path} holds {foreign[0][:40]!r}; {REBUILD}")
        place = token.end()
