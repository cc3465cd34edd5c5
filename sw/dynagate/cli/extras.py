"""Packages and programs that commands need, and the extra (`pip install 'dynagate[...]'`) that brings them."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import click

from dynagate.base.extras import install
from dynagate.cli.refusals import CommandError

EXTRAS = {
    "build": "hw",
    "bitstream": "hw",
    "report": "hw",
    "run": "sim",
    "verify": "sim",
    "synth": "synth",
    "sweep": "sweep",
    "closed-loop": "mpc",
    "bench": "bench",
}
"""The extra with all that a command needs."""


MANAGERS = {
    "apt-get": ("apt-get install {}", {"c++": "g++", "cc": "gcc"}),
    "dnf": ("dnf install {}", {"c++": "gcc-c++", "g++": "gcc-c++", "cc": "gcc"}),
    "pacman": ("pacman -S {}", {"c++": "gcc", "g++": "gcc", "cc": "gcc"}),
    "brew": ("brew install {}", {"c++": "gcc", "g++": "gcc", "cc": "gcc"}),
    "conda": ("conda install -c conda-forge {}", {"c++": "gxx", "g++": "gxx", "cc": "gcc"}),
}
"""Command of each of the system's package managers, and the packages whose name differs from the program's."""


def system_install(program: str) -> str:
    """The command of this system's package manager that installs a program; only the program's name if no manager is
    known.
    """
    for manager, (command, names) in MANAGERS.items():
        if shutil.which(manager):
            return command.format(names.get(program, program))
    return f"the system's package with {program}"


def simulation_programs() -> list[str]:
    """Return the programs that compile a simulation and that pip does not install."""
    return ["make", "perl", os.environ.get("CXX", "g++")]


def require_programs(what: str, programs: Sequence[str]) -> None:
    """Ends the command, before any work, where a program is not on the path. what: needs it."""
    for program in programs:
        if shutil.which(program) is None:
            raise CommandError(
                f"{what} needs the program '{program}', which is not on the path; {system_install(program)} "
                "('dynagate doctor' lists all that is missing)",
                code="DG-CLI-006",
            )


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
        raise CommandError(f"{what} needs the module '{missing[0]}'; {install(extra)}", code="DG-CLI-007")


def needs(extra: str, *modules: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A command that needs these modules of its extra."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def checked(**options: Any) -> Any:
            require(f"'dynagate {click.get_current_context().info_name}'", extra, *modules)
            return command(**options)

        return checked

    return decorated
