"""Files that a command writes: all of them whole, or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def written_together(folder: Path) -> Iterator[Path]:
    """A scratch folder whose files are moved into the folder, made where it is missing, once all are there. Where that
    fails, the folder holds what it held."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _named(folder), TemporaryDirectory(dir=folder, prefix=".writing-") as scratch:
            yield Path(scratch)
            files = sorted(Path(scratch).iterdir())
            for file in files:
                if (folder / file.name).is_dir():
                    raise IsADirectoryError(f"{folder / file.name} is a folder; expected a file or a free name")
            for file in files:
                file.replace(folder / file.name)
    except BaseException:
        for path in missing:
            with suppress(OSError):  # another program's files may have come
                path.rmdir()
        raise


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """A full disk does not say which: errors without a name get this one."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def is_special(file: Path) -> bool:
    """Whether a file is a pipe, a terminal or another one that cannot be put in place at once."""
    return file.exists() and (not file.is_file() or file.is_relative_to("/dev"))


def write_text(file: Path, text: str) -> None:
    """A file whole or not at all; a special one as it comes."""
    if is_special(file):
        with _named(file):
            file.write_text(text)
        return
    target = file.resolve()
    with written_together(target.parent) as scratch:
        (scratch / target.name).write_text(text)
