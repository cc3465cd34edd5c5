"""The base class of the package's errors, and the errors that several parts share.

Every error that the user can fix is an `Error`. Its text names the object, its value, what was expected and what to do.
The first line ends with a stable code such as [DG-URDF-012], which `dynagate explain DG-URDF-012` explains. All other
exceptions are bugs of the program, except those of the system: files, memory, missing modules, Ctrl-C.
"""

from __future__ import annotations

import sys
from typing import Any


class Error(Exception):
    """Base class of all errors that dynagate raises on purpose.

    Each derives from a built-in exception as well: ValueError, TypeError or RuntimeError. An error that quotes the text
    of the error being handled keeps the code of that error, because it is the cause.

    Args:
        *args: The text.
        code: Stable code of this place in the package, DG-<AREA>-<number>. `docs/error_codes.py --assign` writes it.
    """

    code: str = ""
    """Stable code of the error, such as DG-URDF-012; "" for an error of a caller's own class that has none."""

    def __init__(self, *args: object, code: str = "") -> None:
        if quoted := quoted_code(*args):
            args = tuple(each.replace(_suffix(quoted), "") if isinstance(each, str) else each for each in args)
        super().__init__(*args)
        self.code = quoted or code

    @property
    def text(self) -> str:
        """Text of the error without its code."""
        return super().__str__()

    def __str__(self) -> str:
        return with_code(self.text, self.code)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error without its constructor, whose arguments may be other than the text."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[Error], args: tuple[object, ...], state: dict[str, Any]) -> Error:
    """Return a copy of an error from its class, its arguments and its attributes."""
    error = BaseException.__new__(kind, *args)
    error.__dict__.update(state)
    return error


def _suffix(code: str) -> str:
    """Return what an error's text ends with."""
    return f" [{code}]"


def with_code(text: str, code: str) -> str:
    """Return a text whose first line ends with a code in brackets. The text has the code nowhere else.

    Other lines are for the user to copy, or lines of a program's output. Without a code the text stays as it is.
    """
    if not code:
        return text
    first, newline, rest = text.replace(_suffix(code), "").partition("\n")
    return f"{first}{_suffix(code)}{newline}{rest}"


def quoted_code(*args: object) -> str:
    """Return the code of the error that is being handled if a text among the arguments quotes this error, else ""."""
    handled = sys.exc_info()[1]
    if not (isinstance(handled, Error) and handled.code):
        return ""
    text = str(handled)
    return handled.code if any(isinstance(each, str) and text in each for each in args) else ""


class ArgumentError(Error, ValueError):
    """An argument with a value that cannot be used; the text names it and says what was expected."""


class OptionError(ArgumentError):
    """An option with a value that cannot be used, or not together with the others.

    The text begins with the name of the option, and the command line writes its own name there. A text such as
    "units=4 (--units 4)" is "--units 4" on the command line.

    Args:
        option: Name of the field that has the option.
        text: The rest of the text.
        code: Stable code of the error.
    """

    def __init__(self, option: str, text: str, *, code: str = "") -> None:
        super().__init__(option, text, code=code)

    @property
    def text(self) -> str:
        """Text of the error without its code."""
        return " ".join(self.args)


class ArgumentTypeError(Error, TypeError):
    """An argument of a type that cannot be used; the text names it and says what was expected."""


class OutOfMemoryError(Error, MemoryError, RuntimeError):
    """A call needs more memory than the system gives; the text has the size."""


class MissingExtraError(Error, RuntimeError):
    """A package is not installed; the text names the extra that brings it."""


class MissingNameError(MissingExtraError, AttributeError):
    """A name of the package that needs an extra; an AttributeError, so that hasattr, help and inspect go on."""


def add_note(error: BaseException, text: str) -> None:
    """Adds a line below the error's text in its traceback. In Python 3.10 cattrs' exceptiongroup prints it."""
    if sys.version_info >= (3, 11):
        error.add_note(text)
    else:
        error.__dict__.setdefault("__notes__", []).append(text)


class EntryError(ArgumentError):
    """An entry of an array (batch, ...) with a value that cannot be used.

    Args:
        template: The text, with {at} for the complete index of the entry and {sample} for the index of its sample.
        index: Index of the entry. The index of its sample comes first.
        leading_axes: Number of axes that the index of a sample has; 0 for a single state.
        code: Stable code of the error.
    """

    def __init__(self, template: str, index: tuple[int, ...], leading_axes: int = 1, *, code: str = "") -> None:
        super().__init__(template, index, leading_axes, code=code)

    @property
    def text(self) -> str:
        """Text of the error without its code."""
        template, index, axes = self.args
        sample = index[0] if axes == 1 else index[:axes]
        if not axes:  # a single state
            template = template.replace(" of sample {sample}", "")
        if not index:
            template = template.replace(" at {at}", "")
        return template.replace("{at}", str(index)).replace("{sample}", str(sample))

    def within(self, leading: tuple[int, ...]) -> EntryError:
        """Return the same error with the index of its sample in arrays (*leading, ...)."""
        template, (sample, *entry), _ = self.args
        index: list[int] = []
        for size in reversed(leading):
            sample, k = divmod(sample, size)
            index.insert(0, k)
        return EntryError(template, (*index, *entry), len(leading), code=self.code)
