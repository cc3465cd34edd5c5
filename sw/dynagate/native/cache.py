"""The cache of compiled libraries in the user's home: private folders that are complete when they appear.

A library runs inside this process, so it is loaded only from such a folder. A checksum next to it reveals a file that a
full disk or a killed process cut short. Owner and mode reveal whether another user could have written it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from zipfile import BadZipFile

try:
    import fcntl
except ImportError:  # where the system has no such locks
    fcntl = None  # type: ignore[assignment]

from dynagate.base.errors import Error
from dynagate.base.storage import DAY, SCRATCH, is_left, is_marked, mark, read_file, scratch

Value = TypeVar("Value")

CACHE_VARIABLE = "DYNAGATE_CACHE"
UNREADABLE = (ValueError, KeyError, TypeError, EOFError, zlib.error, BadZipFile)
"""Errors of readers whose content has another format."""

CHECKSUM = "sha256"
"""Name of the file in a cached folder with the checksum of all other files."""

CONTENT = "content"
"""Name of the file in a cached folder of `keep`."""

MAKER = ".maker"
"""Suffix of a scratch folder's lock file, which the process that fills the folder holds."""

UNUSED_DAYS = 60
"""Days after which an unused entry is removed. The check runs when something else is compiled."""

SETTLED = 2_000_000_000
"""Nanoseconds after which a further change of a file has another time; file systems round times to up to 2 s."""

FileState = tuple[str, int, int, int, int, int]
_verified: dict[Path, frozenset[FileState]] = {}
"""The state of each kept folder when this process last compared it with its checksum."""

ADVICE = f"set {CACHE_VARIABLE} to a folder that can be written"
OWN = f"expected one that only you can write: remove it, or set {CACHE_VARIABLE} to a folder of your own"


def cache_folder() -> Path:
    """Return $DYNAGATE_CACHE, or dynagate in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get(CACHE_VARIABLE) or Path(base) / "dynagate").absolute()


def kept(target: Path, make: Callable[[Path, Path], None], failure: type[Error]) -> Path:
    """Return a folder of the cache, which is made unless it is there and complete.

    A second process that needs the same folder meanwhile waits for the first one.

    Args:
        target: The folder.
        make: Receives a scratch folder and the folder to fill.
        failure: Error to raise.

    Returns:
        `target`.

    Raises:
        failure: The cache cannot be written, belongs to another user, or others may write to it.
    """
    complete = _is_complete(target, failure)
    if not complete:
        _make_own(target, failure)
        _wait_for_makers(target)
        complete = _is_complete(target, failure)
    if complete:
        with suppress(OSError):  # a read-only cache works too
            os.utime(target)
        return target
    with scratch(target.parent, failure, target.name, ADVICE) as place, _as_maker(place, target):
        _remove_unused(target.parent)
        work, product = place / "work", place / "product"
        for folder in (work, product):
            folder.mkdir(mode=0o700)
        make(work, product)
        mark(product)
        (product / CHECKSUM).write_text(checksum_of(product, target.name))
        for path in product.rglob("*"):
            path.chmod(0o700)  # whatever the umask is
        if not _is_complete(target, failure):  # another process may have been faster
            _replace(target, product, place / "damaged")
    return target


def read_kept(name: str, folder: Path | None = None) -> bytes | None:
    """Return the content that `keep` wrote under a name.

    Args:
        name: Name of the entry.
        folder: Folder of the cache; None for the user's.

    Returns:
        The content; None if the entry is missing or damaged, or if other users may have written it.
    """
    target = (folder or cache_folder()) / name
    if not target.is_dir() or not _is_complete(target, Error):
        return None
    with suppress(OSError):
        os.utime(target)
    with suppress(OSError):
        return read_file(target / CONTENT)
    return None


def keep(name: str, content: bytes, folder: Path | None = None) -> None:
    """Write content to the cache, for `read_kept` of later processes. Without a cache that can be written, do nothing.

    Args:
        name: Name of the entry, which no other content has.
        content: The content.
        folder: Folder of the cache; None for the user's.
    """

    def make(work: Path, product: Path) -> None:
        (product / CONTENT).write_bytes(content)

    with suppress(Error, OSError):
        kept((folder or cache_folder()) / name, make, Error)


def remembered(
    name: str,
    make: Callable[[], Value],
    write: Callable[[Value], bytes],
    read: Callable[[bytes], Value],
    folder: Path | None = None,
) -> Value:
    """Return a value from the cache, or make it and keep it there.

    Args:
        name: Name of the entry, which no other value has.
        make: Computes the value.
        write: Returns the content that stands for a value.
        read: Returns the value of a content, or raises an error of `UNREADABLE` for a content of another format.
        folder: Folder of the cache; None for the user's.
    """
    if content := read_kept(name, folder):
        with suppress(*UNREADABLE):
            return read(content)
    value = make()
    keep(name, write(value), folder)
    return value


@contextmanager
def _as_maker(place: Path, target: Path) -> Iterator[None]:
    """Hold a lock on a file in the scratch folder `place`, whose name says which target is made there."""
    with (place / f"{target.name}{MAKER}").open("w") as file:
        if fcntl is None:
            yield
            return
        with suppress(OSError):  # some network file systems have no locks: two processes may then make the same
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with suppress(OSError):  # a process that was forked meanwhile holds the file open
                fcntl.flock(file, fcntl.LOCK_UN)


def _wait_for_makers(target: Path) -> None:
    """Wait until every process that makes the target has made it, failed or ended."""
    with suppress(OSError):
        for place in target.parent.glob(f"{SCRATCH}*"):
            with suppress(OSError), (place / f"{target.name}{MAKER}").open() as file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_SH)


def _make_own(target: Path, failure: type[Error]) -> None:
    """Create the cache that is to hold the target."""
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise failure(
            f"cannot keep {target.name} in {target.parent} ({error.strerror}); {ADVICE}", code="DG-SYSTEM-014"
        ) from error
    check_own(target.parent, failure)


def check_own(path: Path, failure: type[Error]) -> None:
    """Raise `failure` if a file or folder belongs to another user or others may write to it."""
    status = path.stat()
    if status.st_uid not in (os.geteuid(), 0):  # root can change anything anyway
        raise failure(f"{path} belongs to user {status.st_uid}; {OWN}", code="DG-SYSTEM-015")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise failure(
            f"{path} can be written by others (mode {stat.S_IMODE(status.st_mode):o}); {OWN}", code="DG-SYSTEM-016"
        )


def _is_complete(target: Path, failure: type[Error]) -> bool:
    """Return whether a kept folder holds the files that were made for its name, and no links, pipes or devices.

    A folder that did not change is read once per process.
    """
    try:
        check_own(target.parent, failure)
        for path in (target, *target.rglob("*")):
            if not (stat.S_ISDIR if path == target else _is_plain)(path.lstat().st_mode):
                return False
            check_own(path, failure)
        state = _state(target)
        if state and _verified.get(target) == state:
            return True
        complete = (target / CHECKSUM).read_bytes() == checksum_of(target, target.name).encode()
        if complete:
            _verified[target] = state
        return complete
    except OSError:
        return False


def _state(folder: Path) -> frozenset[FileState]:
    """Return the system's state of each file in a folder; an empty set while a file may still change unseen."""
    statuses = [(str(path), path.stat()) for path in folder.rglob("*")]
    if any(time.time_ns() - status.st_ctime_ns < SETTLED for _, status in statuses):
        return frozenset()
    return frozenset((name, s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in statuses)


def _is_plain(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def checksum_of(folder: Path, name: str) -> str:
    """Return the checksum of all files of a folder that is kept under a name."""
    digest = hashlib.sha256(f"{name}\n".encode())
    for path in sorted(folder.rglob("*")):
        if path.name != CHECKSUM and not path.is_dir():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _replace(target: Path, product: Path, aside: Path) -> None:
    with suppress(FileNotFoundError):
        target.rename(aside)
    product.rename(target)


def entries(cache: Path) -> list[Path]:
    """Return the entries of this package in a cache: marked folders, and scratch folders of killed processes.

    Links, other files and files of other users are not returned.
    """
    own = [path for path in cache.iterdir() if is_marked(path)] if cache.is_dir() else []
    return sorted(path for path in own if is_left(path) or not path.name.startswith(SCRATCH))


def size_of(folder: Path) -> int:
    """Return the number of bytes in a folder's files, without files that another process removes meanwhile."""
    size = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            size += path.lstat().st_size if path.is_file() else 0
    return size


def _remove_unused(cache: Path) -> None:
    for path in entries(cache):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > UNUSED_DAYS * DAY:
                shutil.rmtree(path, ignore_errors=True)
