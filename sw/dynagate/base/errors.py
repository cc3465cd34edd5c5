"""The base class of the package's errors, and the errors that belong to no part of it alone.

Every error that the user can mend is an `Error`. It names the thing, says what was expected and what to do. All other
exceptions are faults of the program, except those of the system: files, memory, missing modules, Ctrl-C.
"""

from __future__ import annotations


class Error(Exception):
    """Base class of all errors that dynagate raises on purpose. Each derives from a built-in exception as well:
    ValueError, TypeError or RuntimeError."""


class ArgumentError(Error, ValueError):
    """An argument with a value that cannot be used; the text names it and says what was expected."""


class ArgumentTypeError(Error, TypeError):
    """An argument of a type that cannot be used; the text names it and says what was expected."""


class MissingExtraError(Error, RuntimeError):
    """A package is not installed; the text names the extra that brings it."""
