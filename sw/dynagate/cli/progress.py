"""Progress of a command: a line per step that stays, with its running time."""

from __future__ import annotations

import sys
from types import TracebackType

from dynagate.base import progress

LONG = 2.0
"""Seconds from which on a log ends with what each step took."""


class Steps(progress.Steps):
    """Call with what is about to happen; the step before is then done.

    A terminal shows the running step with its elapsed seconds. A log gets one line when it starts, and one at the end
    with the seconds of all.
    """

    def __init__(self) -> None:
        super().__init__(lasting=True)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        if not self._terminal and sum(seconds for _, seconds in self.took) >= LONG:
            text = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in self.took if seconds >= 0.1)
            print(f"  took: {text}", file=sys.stderr, flush=True)
