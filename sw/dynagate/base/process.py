"""How a program that was run ended, in words."""

from __future__ import annotations

import signal

STOPPED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGXCPU")
"""Signals that people, time limits and systems that go down send."""


def ending(status: int) -> str:
    """How a program ended, to stand behind its name. status: as `subprocess` has it, negative for a signal."""
    if status >= 0:
        return f"failed with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # real-time signals have no names
        name = str(-status)
    if name == "SIGKILL":
        advice = "the system does that where memory runs out: run it again with fewer programs beside it"
    elif name in STOPPED:
        advice = "a time limit or another program stopped it: run it again"
    else:
        advice = "a fault of its own: run it again, or with another version of it"
    return f"was ended by signal {name}; {advice}"
