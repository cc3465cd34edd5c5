"""What commands need besides the package itself, and the extra (`pip install 'dynagate[...]'`) that holds it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import click

EXTRAS = {
    "build": "hw",
    "bitstream": "hw",
    "report": "hw",
    "schedule": "hw",
    "wave": "hw",
    "run": "sim",
    "synth": "synth",
    "sweep": "sweep",
    "closed-loop": "mpc",
    "bench": "bench",
}
"""The extra with all that a command needs."""


def install(extra: str) -> str:
    """What to type."""
    return f"pip install 'dynagate[{extra}]'"


def is_there(module: str) -> bool:
    """Whether a module is installed."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def require(what: str, extra: str, *modules: str) -> None:
    """Ends the command, before any work, where a module is missing. what: needs them, a command or an option."""
    missing = [module for module in modules if not is_there(module)]
    if missing:
        raise click.ClickException(f"{what} needs the module '{missing[0]}'; {install(extra)}")


def needs(extra: str, *modules: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A command that needs these modules of its extra."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def checked(**options: Any) -> Any:
            require(f"'dynagate {click.get_current_context().info_name}'", extra, *modules)
            return command(**options)

        return checked

    return decorated
