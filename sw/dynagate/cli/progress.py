"""Progress of a command: a line per step that stays, with its running time."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from dynagate.base import progress

LONG = 2.0
"""Seconds from which on a log ends with what each step took."""


MOST = 8
"""Steps that the end names, those that took longest."""


class TerminalProgress(progress.ProgressLine):
    """Call with what is about to happen; the step before is then done.

    A terminal shows the running step with its elapsed seconds. A log gets one line when it starts, and one at the end
    with the seconds of those that took longest.
    """

    def __init__(self) -> None:
        super().__init__(lasting=True)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        if not self._terminal and sum(seconds for _, seconds in self.took) >= LONG:
            longest = sorted((k for k, (_, seconds) in enumerate(self.took) if seconds >= 0.1), key=self._seconds)[
                -MOST:
            ]
            steps = ["{} {:.1f} s".format(*self.took[k]) for k in sorted(longest)]
            others = sum(self._seconds(k) for k in range(len(self.took)) if k not in longest)
            steps += [f"others {others:.1f} s"] if others >= 0.1 else []
            print(f"  took: {', '.join(steps)}", file=sys.stderr, flush=True)

    def _seconds(self, k: int) -> float:
        return self.took[k][1]


LOGGED = 10.0
"""Seconds between two lines of a sweep in a log."""


class PointsProgress(progress.ProgressLine):
    """Report the points of a sweep: a terminal shows one line that changes, a log gets a line every LOGGED seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._logged = time.monotonic()

    def report(self, done: int, total: int, remaining: float | None) -> None:
        """Report the number of finished points and of all points, and the estimate of the remaining time, s."""
        if done == total:
            text = f"{done} of {total} points"
        elif remaining is None:
            text = f"{done} of {total} points, time left unknown"
        else:
            text = f"{done} of {total} points, about {duration(remaining)} left"
        self(text)
        if not self._terminal and time.monotonic() - self._logged >= LOGGED:
            self._logged = time.monotonic()
            print(f"  {text}", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Return a time with two digits of accuracy, in seconds, minutes or hours."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"
