"""Report the errors that a user can fix in one text; all others keep their traceback."""

from __future__ import annotations

import errno
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from dynagate.base.errors import Error, add_note
from dynagate.base.nearest import RENAMED
from dynagate.cli.extras import EXTRAS, install
from dynagate.cli.groups import FORMER, FORMER_OPTIONS, Overview, in_options
from dynagate.cli.refusals import CommandError, Interrupted, UsageError, coded

BUG = "this is a bug of dynagate, not of your command; please report it with the command and the robot"

ENDING = (signal.SIGTERM, signal.SIGHUP)

_OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in ("floating_base", "ignore_friction", "allow_unphysical", "round_rotations")
}
_KEYWORDS = re.compile(r"\b(lock|velocity|acceleration|effort|unlimited|lax|compliance)=(True)?(?=[\s,;.)]|$)")


class Commands(Overview):
    """A group whose commands end without a traceback if the user can fix what is wrong."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in FORMER:
            raise UsageError(f"No such command '{args[0]}'; write 'dynagate {FORMER[args[0]]}'", ctx, code="DG-CLI-001")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before the command."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise coded(error) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _stopped_in_order(), _warned_in_a_line():
                return super().invoke(ctx)
        except click.NoSuchOption as error:
            if option := _write_instead(error):
                raise UsageError(
                    f"No such option '{error.option_name}'; write {option}", error.ctx, code="DG-CLI-002"
                ) from error
            raise coded(error) from error
        except click.UsageError as error:
            raise coded(error) from error
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader of a pipe has gone: click ends in silence
            refusal = refusal_of(error, ctx.invoked_subcommand or "")
            if refusal is None:
                add_note(error, BUG)
                raise
            raise refusal from error


def _write_instead(error: click.NoSuchOption) -> str | None:
    """Return the new name of a former option, if the command has it."""
    if (now := FORMER_OPTIONS.get(error.option_name)) and _has(error, now.split()[0]):
        return now
    new = RENAMED.get(error.option_name.lstrip("-").replace("-", "_"), "").partition("=")[0]
    option = f"--{new.replace('_', '-')}"
    return option if new and _has(error, option) else None


def _has(error: click.NoSuchOption, option: str) -> bool:
    """Return whether the command of an error has an option."""
    return error.ctx is not None and any(option in each.opts for each in error.ctx.command.params)


@contextmanager
def _warned_in_a_line() -> Iterator[None]:
    """Warnings of the package are shown without a place: there is no line of the user's that called it."""
    usual = warnings.formatwarning

    def told(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        ours = category.__module__.partition(".")[0] == __name__.partition(".")[0]
        return f"{category.__name__}: {message}\n" if ours else usual(message, category, filename, lineno, line)

    warnings.formatwarning = told
    try:
        yield
    finally:
        warnings.formatwarning = usual


@contextmanager
def _stopped_in_order() -> Iterator[None]:
    """A signal that ends the program does so as Ctrl-C does: what is under way removes its folders and ends the
    programs that it has started. The status is 128 and the signal's number, as of a shell."""
    before = {}
    try:
        if threading.current_thread() is threading.main_thread():
            usual = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
            before = {number: signal.signal(number, _stop) for number in usual}
        yield
    except BaseException:
        if amaranth := sys.modules.get("amaranth.hdl"):  # which would list the hardware that nobody has made now
            warnings.simplefilter("ignore", amaranth.UnusedElaboratable)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    for each in ENDING:  # a second one would end the clearing up
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def refusal_of(error: BaseException, command: str) -> click.ClickException | None:
    """Return the error that a command shows in one line: for every `dynagate.Error` and for errors of the system.

    Return None for any other error, which is a bug of the program.
    """
    match error:
        case KeyboardInterrupt():
            return Interrupted("interrupted")
        case MemoryError():
            size = getattr(error, "text", str(error)) or "no size known"
            return CommandError(
                f"not enough memory ({size}); expected fewer states, or a smaller batch or robot",
                code=getattr(error, "code", ""),
            )
        case ImportError():
            return _missing(error, command)
        case OSError():
            names = [str(name) for name in (error.filename, error.filename2) if name is not None]
            return CommandError(
                ": ".join([*names[:1], error.strerror]) if error.strerror else str(error), code="DG-CLI-003"
            )
        case Error():
            return CommandError(as_options(error.text), code=error.code)
    return None


def as_options(text: str) -> str:
    """A text that names Python's options, with those of the command line."""
    text = re.sub(r"by Robot\.from_\w+ \((--trust-robot)\)", r"with \1", text)
    text = re.sub(r", add [^\n]*\non the command line (.*)", r", add \1", in_options(text))
    for name, option in _OPTIONS.items():
        text = re.sub(rf"\b{name}\b(=True)?", option, text)
    text = re.sub(r"\bimplicit_damping=True", "--implicit-damping", text)
    return _KEYWORDS.sub(r"--\1", text).replace(": lock names joint", ": --lock names joint")


def _missing(error: ImportError, command: str) -> CommandError | None:
    """Return the error for a module that an extra of a command brings, or None for other modules."""
    module = (error.name or "").partition(".")[0]
    if command not in EXTRAS or module in ("", "dynagate"):
        return None
    return CommandError(
        f"'dynagate {command}' needs the module '{module}' ({error}); {install(EXTRAS[command])}", code="DG-CLI-004"
    )
