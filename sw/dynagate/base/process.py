"""Run programs, and describe in words how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dynagate.base.errors import Error
from dynagate.base.storage import full_disk

STOPPED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGXCPU")
"""Signals by which people, time limits and system shutdowns stop a program."""


def ending(status: int) -> str:
    """Return how a program ended, in words that follow its name, and for a signal advice.

    Args:
        status: Exit status as in `subprocess`, negative for a signal.
    """
    if status >= 0:
        return f"failed with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # real-time signals have no names
        name = str(-status)
    if name == "SIGKILL":
        advice = "the system does that where memory runs out: run it again with fewer other programs"
    elif name in STOPPED:
        advice = "a time limit or another program stopped it: run it again"
    else:
        advice = "a bug of its own: run it again, or with another version of it"
    return f"was ended by signal {name}; {advice}"


def safe_path() -> list[str]:
    """Return the folders from which child processes import modules.

    These are the absolute entries of `sys.path` without the working directory, which may hold a stranger's files. The
    folder of this package comes last, in case that only the working directory provides it.
    """
    here = os.path.realpath(os.getcwd())
    known = [place for place in sys.path if os.path.isabs(place) and os.path.realpath(place) != here]
    own = str(Path(__file__).resolve().parents[2])
    return list(dict.fromkeys([*known, own]))


def python_command(program: str, *arguments: str) -> list[str]:
    """Return the command that runs a Python program in isolation.

    Python ignores PYTHON* variables and the working directory (`-I`), and imports modules from `safe_path` only.

    Args:
        program: The text of the program; `sys` is imported.
        arguments: The entries of `sys.argv` from 1 on.
    """
    return [sys.executable, "-I", "-c", f"import sys\nsys.path[:] = {safe_path()!r}\n{program}", *arguments]


def python_environment(**variables: str) -> dict[str, str]:
    """Return the environment for an isolated Python process and the programs that it starts.

    PYTHON* variables are removed; PYTHONSAFEPATH keeps the working directory off the path (from Python 3.11 on).
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONSAFEPATH": "1", **variables}


def limited(command: Sequence[str], seconds: int) -> list[str]:
    """Return the command that runs a program until it has used this much processor time, in s."""
    return ["sh", "-c", 'ulimit -t "$1"; shift; exec "$@"', "sh", str(seconds), *command]


def completed(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return its status and what it printed.

    An exception during the wait, such as Ctrl-C, first kills the program and all processes that it has started. Bytes
    that are no text, which Verilator prints in names of cells, are returned as `\\x96`.

    Args:
        command: The program and its arguments.
        options: Options of `subprocess.Popen`.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with subprocess.Popen(command, errors="backslashreplace", start_new_session=True, **pipes) as process:
        try:
            output, messages = process.communicate()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, messages)


def run(
    command: Sequence[str],
    failure: type[Error],
    *,
    name: str | None = None,
    place: Path | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    lines: int = 20,
) -> str:
    """Run a program and return its output.

    Args:
        command: Program and arguments.
        failure: Class of the error.
        name: Name in errors; None for the name of the program's file.
        place: Working folder.
        folder: Output folder.
        environment: Environment variables.
        lines: Number of last lines of its messages that an error shows.

    Raises:
        failure: The program fails or does not start.
    """
    try:
        done = completed(command, cwd=place, env=environment)
    except OSError as error:
        raise failure(
            f"{command[0]} does not start ({error.strerror}); expected a program that this machine runs, with all that "
            "its first line names: install it again",
            code="DG-SYSTEM-005",
        ) from None
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-lines:])
        full = full_disk(folder) if folder else ""
        raise failure(f"{name or Path(command[0]).name} {ending(done.returncode)}:\n{tail}{full}", code="DG-SYSTEM-006")
    return done.stdout
