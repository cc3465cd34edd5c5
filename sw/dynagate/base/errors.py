"""The base class of the package's errors, and the errors that several parts share.

Every error that the user can fix is an `Error`. It names the thing, says what was expected and what to do. All other
exceptions are bugs of the program, except those of the system: files, memory, missing modules, Ctrl-C.
"""

from __future__ import annotations

import sys


class Error(Exception):
    """Base class of all errors that dynagate raises on purpose. Each derives from a built-in exception as well:
    ValueError, TypeError or RuntimeError."""


class ArgumentError(Error, ValueError):
    """An argument with a value that cannot be used; the text names it and says what was expected."""


class OptionError(ArgumentError):
    """An option with a value that cannot be used, or not together with the others.

    The text begins with the name of the option, and the command line writes its own name there. A text such as
    "units=4 (--units 4)" is "--units 4" on the command line.

    Args:
        option: Name of the field that has the option.
        text: The rest of the text.
    """

    def __init__(self, option: str, text: str) -> None:
        super().__init__(option, text)

    def __str__(self) -> str:
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

    template: the text, with {at} for the entry's whole index and {sample} for the index of its sample. index: that of
    the entry, its sample first.
    """

    def __init__(self, template: str, index: tuple[int, ...], leading_axes: int = 1) -> None:
        super().__init__(template, index, leading_axes)

    def __str__(self) -> str:
        template, index, axes = self.args
        sample = index[0] if axes == 1 else index[:axes]
        if not axes:  # a single state
            template = template.replace(" of sample {sample}", "")
        if not index:
            template = template.replace(" at {at}", "")
        return template.replace("{at}", str(index)).replace("{sample}", str(sample))

    def within(self, leading: tuple[int, ...]) -> EntryError:
        """The same error with the sample's index in arrays (*leading, ...)."""
        template, (sample, *entry), _ = self.args
        index: list[int] = []
        for size in reversed(leading):
            sample, k = divmod(sample, size)
            index.insert(0, k)
        return EntryError(template, (*index, *entry), len(leading))
