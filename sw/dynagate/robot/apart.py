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
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from dynagate.base.process import ending
from dynagate.robot.model import RobotError

SECONDS = 4
"""Processor time beyond that of imports; other programs on the machine make it take longer."""

PATIENCE = 60.0
"""Seconds, for a reader that waits."""

MEMORY = 3 * 2**30
"""Bytes of address space."""

RESULT, REFUSED = b"+", b"-"

TOO_LARGE = f"needs more than {MEMORY / 2**30:g} GiB of memory; expected a smaller file, with fewer copies"


def read_apart(program: str, function: Callable[..., bytes], *arguments: object) -> bytes:
    """What a function of a module returns, called in another process. program: whose reader it is, for errors.

    Raises RobotError: what the function raises, or it takes more than SECONDS or MEMORY, or ends otherwise.
    """
    start = f"import sys; sys.path[:] = {[str(place) for place in sys.path]!r}; from dynagate.robot import apart; "
    call = [function.__module__, function.__name__, str(SECONDS), json.dumps(arguments)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # each thread takes address space
    try:
        done = subprocess.run(
            [sys.executable, "-c", start + "apart.answer(*sys.argv[1:])", *call],
            env=environment,
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
        raise RobotError(f"{program} takes more than {SECONDS} s; {expected}")
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
