"""Errors of the command line with a stable code, which ends their text."""

from __future__ import annotations

from typing import Any, NoReturn

import click

from dynagate.base.errors import quoted_code, with_code

NO_ARGUMENTS: type[Exception] | tuple[()] = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""Error by which click shows the help of a command without arguments. Versions before 8.2 have no such class."""


class CommandError(click.ClickException):
    """A command cannot do what was requested."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = quoted_code(message) or code

    def format_message(self) -> str:
        """Return the text with the code at its end."""
        return with_code(super().format_message(), self.code)


class UsageError(click.UsageError):
    """Options that cannot be used together, or not with this command."""

    def __init__(self, message: str, ctx: click.Context | None = None, *, code: str = "") -> None:
        super().__init__(message, ctx)
        self.code = quoted_code(message) or code

    def format_message(self) -> str:
        """Return the text with the code at its end."""
        return with_code(super().format_message(), self.code)


class BadParameter(click.BadParameter):
    """An option or argument with a value that cannot be used."""

    def __init__(self, message: str, *, code: str = "", **settings: Any) -> None:
        super().__init__(message, **settings)
        self.code = quoted_code(message) or code

    def format_message(self) -> str:
        """Return the text with the code at its end."""
        return with_code(super().format_message(), self.code)


class Interrupted(click.ClickException):
    """The user stopped a command. This is no error, so it has no code."""


class ParamType(click.ParamType):
    """A type of options whose errors have a code."""

    def fail(
        self, message: str, param: click.Parameter | None = None, ctx: click.Context | None = None, *, code: str = ""
    ) -> NoReturn:
        """Raise BadParameter.

        Raises:
            BadParameter: Always.
        """
        raise BadParameter(message, ctx=ctx, param=param, code=code)


def coded(error: click.UsageError) -> click.UsageError:
    """Return an error with a code in place of one that click raised while it read a command line."""
    if getattr(error, "code", "") or isinstance(error, NO_ARGUMENTS):
        return error
    text = error.format_message()
    match error:
        case click.MissingParameter():
            return UsageError(text, error.ctx, code="DG-CLI-060")
        case click.BadParameter():
            return UsageError(text, error.ctx, code="DG-CLI-061")
        case click.NoSuchOption():
            return UsageError(text, error.ctx, code="DG-CLI-062")
    return UsageError(text, error.ctx, code="DG-CLI-063")
