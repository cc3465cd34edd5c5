"""Run other programs' parsers of robot files in a separate process with limited time and memory.

A parser is a function of this package whose arguments are JSON values and whose result is bytes.
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
"""Processor time in seconds that a parser may use after its imports."""

PATIENCE = 60.0
"""Longest wall-clock time in seconds for a parser that waits."""

MEMORY = 3 * 2**30
"""Largest address space of a parser, in bytes."""

RESULT, REFUSED = b"+", b"-"

TOO_LARGE = f"needs more than {MEMORY / 2**30:g} GiB of memory; expected a smaller file, with fewer copies"
"""Text of the error when a parser runs out of memory."""


def read_apart(program: str, function: Callable[..., bytes], *arguments: object, seconds: int | None = None) -> bytes:
    """Call a function of a module in another process and return its result.

    The process runs in an empty folder, and imports nothing from the working directory or from the file's folder.

    Args:
        program: Name of the parser, for errors.
        function: A function of a module that returns bytes.
        arguments: JSON values; paths must be absolute.
        seconds: Limit of processor time in seconds after imports; SECONDS by default.

    Raises:
        RobotError: The function raises it, exceeds the limit of time or memory, or ends without a result.
    """
    seconds = SECONDS if seconds is None else seconds
    call = [function.__module__, function.__name__, str(seconds), json.dumps(arguments)]
    command = python_command("from dynagate.robot import sandbox\nsandbox.answer(*sys.argv[1:])", *call)
    try:
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run(
                command,
                cwd=empty,
                env=python_environment(OPENBLAS_NUM_THREADS="1"),  # each thread reserves address space
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
        raise RobotError(f"{program} takes more than {seconds} s; {expected}", code="DG-ROBOT-062")
    kind, content = output[:1], output[1:]
    if kind == REFUSED:
        text, code = json.loads(content)
        raise RobotError(text, code=code)
    if kind != RESULT or status:
        raise RobotError(f"{program} {ending(status)}", code="DG-ROBOT-063")
    return content


def answer(module: str, function: str, seconds: str, arguments: str) -> None:
    """In the other process: call the function, and write its result or the text of its RobotError."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # text that a parser prints must not mix with the answer
    reader = getattr(importlib.import_module(module), function)
    _limit(int(seconds))
    try:
        result = RESULT + reader(*json.loads(arguments))
    except RobotError as error:
        result = _refusal(error)
    except MemoryError:
        result = _refusal(RobotError(TOO_LARGE, code="DG-ROBOT-064"))
    with output:
        output.write(result)


def _refusal(error: RobotError) -> bytes:
    """Return an error as the other process writes it: its text and its code."""
    return REFUSED + json.dumps([error.text, error.code]).encode()


def _limit(seconds: int) -> None:
    """Limit processor time, and memory to MEMORY, if the operating system supports it."""
    with suppress(ImportError):
        import resource

        for kind, limit in (
            (resource.RLIMIT_CPU, math.ceil(time.process_time()) + seconds),
            (resource.RLIMIT_AS, MEMORY),
        ):
            _, most = resource.getrlimit(kind)
            with suppress(ValueError, OSError):
                resource.setrlimit(kind, (limit if most < 0 else min(limit, most), most))
