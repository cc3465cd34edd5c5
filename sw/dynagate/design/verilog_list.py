"""files.f, the list of a design's Verilog files, with one file for each group of modules.

A top module and its parts are in files that begin with the module's name: `datapath.v`, `datapath_units.v`. The path of
a top module's file therefore stands for all of them (`files_of`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from dynagate.base.errors import Error
from dynagate.base.storage import read_file

PLAIN, STRICT = "plain", "strict"
STYLES = (PLAIN, STRICT)
"""Styles of the Verilog; `hw.export.style` has their rules."""
LIST = "files.f"
TOPS = ("datapath", "rollout", "accelerator")
"""Top modules that a design's folder may hold, the innermost first."""


class ListError(Error, ValueError):
    """A list that cannot be read, or that names what no design has; the text names it."""


def file_of(top: str, part: str) -> str:
    """Return the file of a part of a module, or of the module itself for part ""."""
    plain = re.sub(r"[^a-z0-9]", "_", part.lower())
    return f"{top}_{plain}.v" if part else f"{top}.v"


def is_verilog(name: str, tops: Iterable[str] = TOPS) -> bool:
    """Return whether a design with these top modules may have a Verilog file with this name."""
    return re.fullmatch(names_of(tops), name) is not None


def names_of(tops: Iterable[str]) -> str:
    """Return a regular expression, for `grep -E`, of the names of these modules' files."""
    return rf"^({'|'.join(tops)})(_[a-z0-9_]+)?\.v$"


def list_text(texts: Iterable[str]) -> str:
    """Return the content of files.f, given file names in the order in which tools read them."""
    return "".join(f"{name}\n" for name in texts)


def read_list(folder: Path) -> list[str]:
    """Return the names of a design's Verilog files. Raise ListError if files.f is damaged."""
    path = folder / LIST
    try:
        names = read_file(path).decode("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ListError(f"cannot read {path} ({error}); build the design again", code="DG-DESIGN-023") from error
    if strange := [name for name in names if not is_verilog(name)]:
        raise ListError(
            f"{path} names {strange[0]!r:.60}, which no design has; build the design again", code="DG-DESIGN-024"
        )
    return names


def files_of(top: Path) -> list[Path]:
    """Return the files of a module and its parts, the module's own file first.

    Args:
        top: The module's own file. If there is no list next to it, it holds everything.

    Raises:
        ListError: The list is damaged.
    """
    if not (top.parent / LIST).is_file():
        return [top]
    parts = [name for name in read_list(top.parent) if name.startswith(f"{top.stem}_")]
    return [top, *(top.parent / name for name in parts)]


def module_meanings(names: Iterable[str], tops: Mapping[str, str]) -> dict[str, str]:
    """Return a description of each file, given descriptions of the top modules by name."""
    meanings = {}
    for name in names:
        top, _, part = name.removesuffix(".v").partition("_")
        meanings[name] = f"part `{part}` of {tops[top]}" if part else tops[top]
    return meanings
