"""Other programs' readers of robot files, in a process of their own: a file gets limited time and memory.

A reader is a function of this package that takes and returns what JSON has and bytes.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress

from dynagate.base.process import ending, python_command, python_environment
from dynagate.robot.errors import RobotError

SECONDS = 4
"""Processor time beyond that of imports; other programs on the machine make it take longer."""

PATIENCE = 60.0
"""Seconds, for a reader that waits."""

MEMORY = 3 * 2**30
"""Bytes of address space."""

RESULT, REFUSED = b"+", b"-"

TOO_LARGE = f"needs more than {MEMORY / 2**30:g} GiB of memory; expected a smaller file, with fewer copies"


def read_apart(program: str, function: Callable[..., bytes], *arguments: object, seconds: int | None = None) -> bytes:
    """Return what a function of a module returns, called in another process.

    The process runs in an empty folder, and imports nothing from the working directory or from the file's folder.

    Args:
        program: The name of the reader, for errors.
        function: A function of a module.
        arguments: What JSON has; paths are absolute.
        seconds: The processor time in s beyond that of imports; SECONDS by default.

    Raises:
        RobotError: The function raises it, takes more than this time or MEMORY, or ends otherwise.
    """
    seconds = SECONDS if seconds is None else seconds
    call = [function.__module__, function.__name__, str(seconds), json.dumps(arguments)]
    command = python_command("from dynagate.robot import apart\napart.answer(*sys.argv[1:])", *call)
    try:
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run(
                command,
                cwd=empty,
                env=python_environment(OPENBLAS_NUM_THREADS="1"),  # each thread takes address space
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=PATIENCE,
                check=False,
            )
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        status, output = -signal.SIGXCPU, b""
    if status == -signal.SIGXCPU:
        expected = "expected a smaller file, with fewer copies and smaller numbers"
        raise RobotError(f"{program} takes more than {seconds} s; {expected}")
    kind, content = output[:1], output[1:]
    if kind == REFUSED:
        raise RobotError(content.decode())
    if kind != RESULT or status:
        raise RobotError(f"{program} {ending(status)}")
    return content


def answer(module: str, function: str, seconds: str, arguments: str) -> None:
    """In the other process: calls the function and writes what it returns, or the text of its RobotError."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what readers print is no part of the answer
    reader = getattr(importlib.import_module(module), function)
    _limit(int(seconds))
    try:
        result = RESULT + reader(*json.loads(arguments))
    except RobotError as error:
        result = REFUSED + str(error).encode(errors="replace")
    except MemoryError:
        result = REFUSED + TOO_LARGE.encode()
    with output:
        output.write(result)


def _limit(seconds: int) -> None:
    """Processor time and MEMORY, where the system has such limits."""
    with suppress(ImportError):
        import resource

        for kind, limit in (
            (resource.RLIMIT_CPU, math.ceil(time.process_time()) + seconds),
            (resource.RLIMIT_AS, MEMORY),
        ):
            _, most = resource.getrlimit(kind)
            with suppress(ValueError, OSError):
                resource.setrlimit(kind, (limit if most < 0 else min(limit, most), most))
