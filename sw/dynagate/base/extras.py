"""Packages that an extra brings (`pip install 'dynagate[...]'`), and what to type where one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dynagate.base.errors import MissingExtraError


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'dynagate[{extra}]'"


@contextmanager
def brought_by(extra: str, what: str) -> Iterator[None]:
    """Imports of packages that an extra brings. what: needs them, for the text. Raises MissingExtraError naming the
    module that is not installed."""
    try:
        yield
    except ModuleNotFoundError as missing:
        module = (missing.name or "dynagate").partition(".")[0]
        if module == "dynagate":
            raise
        raise MissingExtraError(f"{what} needs the module '{module}'; {install(extra)}") from None
