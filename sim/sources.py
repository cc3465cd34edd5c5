"""Read Verilog that is to be compiled, and refuse text that would run on the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from dynagate.base.errors import Error
from dynagate.base.storage import read_file
from dynagate.design.verilog_list import ListError, files_of

REBUILD = "expected Verilog that dynagate wrote: build the design again"
"""Advice at the end of errors."""

_TOKEN = re.compile(
    r"""[\t\n ]+
    | //[^\n]*
    | /\*(?:(?!/\*|\*/).)*\*/
    # the only strings that dynagate writes: values of attributes
    | \(\*\ (?:ram_style\ =\ "(?:block|distributed)"|keep\ =\ "true"|shreg_extract\ =\ "no")\ \*\)
    | [A-Za-z0-9_]+
    | \$(?:un)?signed\b(?!\$)
    | [][(){}<>=!&|^~?:;,.@\#'*%+-] | /(?![/*])""",
    flags=re.VERBOSE | re.DOTALL,
)
"""Pattern of the Verilog that dynagate writes, read from left to right like a simulator does.

It has no system task but $signed, no directive, no string and no escaped name.
"""
_SHOWN = re.compile(r"\\\S+|\$\w*|/\*|.", flags=re.DOTALL)
"""Pattern for the excerpt that an error shows of unknown text."""
_UNUSUAL = re.compile(r"[^\t\n -~]")


class SimulationError(Error, RuntimeError):
    """Verilator or the C++ compiler is missing or failed, or the Verilog is missing or not dynagate's.

    The text says which, and has the end of a tool's output.
    """


def read_sources(paths: Sequence[Path]) -> dict[str, str]:
    """Return the text of modules and of their parts, by file name.

    Args:
        paths: Files of the modules.

    Raises:
        SimulationError: A file is missing, or dynagate did not write it.
    """
    texts = {}
    try:
        files = [file for top in paths for file in files_of(top)]
    except ListError as error:
        raise SimulationError(str(error), code="DG-SIM-007") from None
    for path in files:
        try:
            texts[path.name] = read_file(path).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise SimulationError(f"cannot read {path} ({error}); {REBUILD}", code="DG-SIM-008") from error
        _check(path, texts[path.name])
    return texts


def _check(path: Path, text: str) -> None:
    """Refuse text that dynagate does not write: a design may come from a stranger, and Verilator runs `$c` and
    `$system`.
    """
    if foreign := _UNUSUAL.search(text):
        raise SimulationError(f"{path} holds {foreign[0]!r}; {REBUILD}", code="DG-SIM-009")
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            foreign = _SHOWN.match(text, place)
            assert foreign is not None
            raise SimulationError(f"{path} holds {foreign[0][:40]!r}; {REBUILD}", code="DG-SIM-010")
        place = token.end()
