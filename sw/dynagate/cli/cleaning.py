"""Remove files for `dynagate clean`: compiled code in the user's cache, and old designs on request."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dynagate.base.errors import Error
from dynagate.base.progress import Progress
from dynagate.base.storage import DAY, read_json
from dynagate.design.files import FILE
from dynagate.design.program import PROGRAM
from dynagate.design.verilog_list import LIST, TOPS, is_verilog
from dynagate.fixedpoint.models.files import FORMATS
from dynagate.hw.boards.scripts import OUT_OF_CONTEXT
from dynagate.native.cache import entries, size_of

DESIGN_FILES = (*(f"{top}.v" for top in TOPS), LIST, FORMATS, "datasheet.md", *OUT_OF_CONTEXT, PROGRAM, FILE)
"""The files of a design besides its benches and its modules' parts; all else in its folder is not ours to remove. The
last one makes it a design."""
BENCH = re.compile(r"tests/(?:\w+/)?\w[\w.]*")
"""A file of a design's benches, as design.json lists it."""


@dataclass(frozen=True)
class Item:
    """Something to remove. files: which of a folder, or None for the folder with all that it holds."""

    folder: Path
    files: tuple[Path, ...] | None = None

    def bytes(self) -> int:
        if self.files is None:
            return size_of(self.folder)
        return sum(file.stat().st_size for file in self.files if file.is_file())

    def remove(self) -> None:
        """Raises OSError."""
        if self.files is None:
            shutil.rmtree(self.folder)
            return
        for file in self.files:
            file.unlink(missing_ok=True)
        inner = {file.parent for file in self.files} - {self.folder}
        for folder in (*sorted(inner, key=lambda path: -len(path.parts)), self.folder):
            with suppress(OSError):  # another file lies there
                folder.rmdir()


@dataclass(frozen=True)
class Freed:
    """Items and bytes removed from a place, and errors for items that could not be removed."""

    place: Path
    what: str
    items: int
    bytes: int
    faults: tuple[str, ...] = ()

    def text(self) -> str:
        return f"  {self.place}: {self.items} {self.what}, {megabytes(self.bytes)}"


def in_cache(cache: Path) -> list[Item]:
    """Return the items that the package put into a cache; none if the cache does not exist."""
    return [Item(path) for path in entries(cache)]


def old_designs(folder: Path, days: float) -> list[Item]:
    """The designs right below a folder that were built this many days ago or earlier."""
    before = time.time() - days * DAY
    folders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    return [
        Item(path, tuple(path / name for name in names))
        for path in folders
        if (names := _files(path)) and (path / FILE).stat().st_mtime <= before
    ]


def _files(folder: Path) -> list[str]:
    """The files of a design in a folder that is named after the hash in its design.json, as `dynagate build` names it;
    none in another folder."""
    try:
        content = read_json(folder / FILE, Error, "design", "one")
    except Error:
        return []
    digest = re.fullmatch(r"([0-9a-f]{12})[0-9a-f]{52}", str(content.get("hash")))
    if digest is None or not folder.name.endswith(f"-{digest[1]}"):
        return []
    listed = content.get("files")
    known = listed if isinstance(listed, dict) else {}
    others = [name for name in known if BENCH.fullmatch(name) or (is_verilog(name) and name not in DESIGN_FILES)]
    return [*others, *DESIGN_FILES]


def cleaned(place: Path, what: str, items: Sequence[Item], *, dry_run: bool, progress: Progress) -> Freed:
    """Remove the items, or with `dry_run` only count them."""
    size, faults = 0, []
    progress(f"{len(items)} {what} in {place}")
    for item in items:
        before = item.bytes()
        try:
            if not dry_run:
                item.remove()
        except OSError as error:
            faults.append(f"{error.filename or item.folder}: {error.strerror or error}")
            before -= item.bytes()
        size += before
    return Freed(place, what, len(items) - len(faults), size, tuple(faults))


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
