"""Import packages that an extra installs (`pip install 'dynagate[...]'`), with an error that states what to
install.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dynagate.base.errors import MissingExtraError


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'dynagate[{extra}]'"


@contextmanager
def brought_by(extra: str, what: str) -> Iterator[None]:
    """Raise MissingExtraError with the extra to install if an import in the block fails; `what` needs the module."""
    try:
        yield
    except ModuleNotFoundError as missing:
        module = (missing.name or "dynagate").partition(".")[0]
        if module == "dynagate":
            raise
        raise MissingExtraError(f"{what} needs the module '{module}'; {install(extra)}", code="DG-SYSTEM-003") from None
