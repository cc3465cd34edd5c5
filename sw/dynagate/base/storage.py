"""Write files and folders completely or not at all, and read files that may be damaged.

Errors have the caller's class. They name the file or folder, the reason and what to do.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dynagate.base.errors import Error

SCRATCH = ".building-"
MARK, MARK_TEXT = "made-by-dynagate", "dynagate made this folder and may remove it with all that it holds.\n"
"""Name and content of a file in each folder that may be removed later. No other folder is ever removed."""

DAY = 24 * 3600.0
FULL = 2**20
"""Number of free bytes below which a disk counts as full."""

MAX_FILE_BYTES = 2**28
"""Largest size in bytes of a file that is read completely: designs, programs, benches, formats, JSON."""

WRITABLE = "expected a folder that can be written"


@contextmanager
def scratch(folder: Path, failure: type[Error], what: str, advice: str = WRITABLE) -> Iterator[Path]:
    """Yield a new folder inside `folder`, and so on the same disk, in which to make `what` before it is moved to its
    place.

    `folder` is created if it is missing, and scratch folders that killed processes left there are removed. The new
    folder is removed at the end.

    Args:
        folder: The parent folder.
        failure: Class of the error.
        what: What is made, for the error.
        advice: What to do, for the error.

    Raises:
        failure: An OSError occurs.
    """
    _check_name(folder, failure, what)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        with TemporaryDirectory(dir=folder, prefix=SCRATCH) as name:
            mark(Path(name))
            yield Path(name)
    except OSError as error:
        raise failure(
            f"cannot keep {what} in {folder} ({error.strerror or error}); {advice}", code="DG-SYSTEM-007"
        ) from error


def mark(folder: Path) -> None:
    """Mark a folder as one that dynagate may remove."""
    (folder / MARK).write_text(MARK_TEXT, encoding="utf-8")


def is_marked(path: Path) -> bool:
    """Return whether a path is the user's own folder with a mark, and not a link."""
    try:
        status = path.lstat()
        own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        return own and read_file(path / MARK, len(MARK_TEXT)) == MARK_TEXT.encode()
    except OSError:
        return False


def sweep(folder: Path) -> None:
    """Remove the user's own scratch folders that are a day old or older. What cannot be read or removed stays."""
    with suppress(OSError):
        for path in folder.iterdir():
            if is_left(path):
                shutil.rmtree(path, ignore_errors=True)


def is_left(path: Path) -> bool:
    """Return whether a path is the user's own scratch folder that is a day old or older."""
    return path.name.startswith(SCRATCH) and is_marked(path) and time.time() - path.lstat().st_mtime > DAY


def check_folder(folder: Path, failure: type[Error], what: str) -> None:
    """Raise `failure` if a file prevents that the folder is created. Call this before long work."""
    _check_name(folder, failure, what)
    existing = next(path for path in (folder, *folder.absolute().parents) if os.path.exists(path))
    if not os.path.isdir(existing):
        raise failure(f"cannot keep {what} in {folder}: {existing} is not a folder; {WRITABLE}", code="DG-SYSTEM-008")


def _check_name(folder: Path, failure: type[Error], what: str) -> None:
    """Raise `failure` if a path cannot be a file name: it holds a null character or half a surrogate pair."""
    try:
        is_name = b"\0" not in os.fsencode(folder)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise failure(
            f"cannot keep {what} in {str(folder)!r:.60}: no folder has such a name; {WRITABLE}", code="DG-SYSTEM-009"
        )


def put(draft: Path, target: Path, last: str) -> None:
    """Move a folder to its target. In an existing target, replace its files one by one and keep others.

    Args:
        draft: The folder.
        target: Where it goes.
        last: Name of the file that is replaced last.
    """
    try:
        draft.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        files = [path for path in draft.rglob("*") if not path.is_dir()]
        for path in sorted(files, key=lambda path: path == draft / last):
            place = target / path.relative_to(draft)
            place.parent.mkdir(parents=True, exist_ok=True)
            path.replace(place)


def write(path: Path, text: str, failure: type[Error]) -> None:
    """Write a text file completely or not at all. Raise `failure` if that is not possible."""
    with scratch(path.parent, failure, path.name) as place:
        draft = place / "file"
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)


def read_file(path: Path, largest: int = MAX_FILE_BYTES) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: The file cannot be read, is no regular file (a pipe would block, a device would not end), or is larger
            than `largest` bytes; `strerror` says which.
    """
    # without O_NONBLOCK a pipe would wait here for a writer
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        content = file.read(largest + 1)
    if len(content) > largest:
        raise OSError(errno.EFBIG, f"it is larger than {largest} bytes", str(path))
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a JSON object. Raise ValueError if it has one of them twice."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field '{next(name for name in names if names.count(name) > 1)}' is listed twice")
    return content


def read_json(path: Path, failure: type[Error], kind: str, expected: str) -> dict[str, Any]:
    """Return the object in a JSON file.

    Args:
        path: The file.
        failure: Class of the error.
        kind: Kind of the file in a word, for the error.
        expected: The file that should be there, for the error.

    Raises:
        failure: The file cannot be read, or holds something else.
    """
    try:
        content = json.loads(read_file(path).decode(), object_pairs_hook=_once)
    except FileNotFoundError:
        raise failure(f"no {kind} at {path}; expected {expected}", code="DG-SYSTEM-010") from None
    except OSError as error:
        raise failure(f"cannot read {path} ({error.strerror}); expected {expected}", code="DG-SYSTEM-011") from error
    except (ValueError, RecursionError) as error:
        raise failure(f"{path} is not a {kind} file: {error}; expected {expected}", code="DG-SYSTEM-012") from None
    if not isinstance(content, dict):
        raise failure(
            f"{path} is not a {kind} file: it holds {content!r:.40}; expected {expected}", code="DG-SYSTEM-013"
        )
    return content


def full_disk(folder: Path) -> str:
    """Return a line for an error if the folder's disk is full, else "": not every tool reports a full disk."""
    free = shutil.disk_usage(folder).free
    return f"\nthe disk of {folder} is full ({free} bytes are free)" if free < FULL else ""
