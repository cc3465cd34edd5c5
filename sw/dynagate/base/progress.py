"""Report progress of slow stages with a line of text and a clock, by tqdm, if there is a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm
    from typing_extensions import Self  # in `typing` from Python 3.11 on

Progress = Callable[[str], Any]
"""A function that receives a line of text before each slow stage."""


def quiet(text: str) -> None:
    """Ignore a line of progress: the default of functions that report it."""


QUIET = 1.0
"""Seconds after which a stage that leaves no line behind is shown."""


def shows() -> bool:
    """Return whether the output is a terminal or a notebook, which can show a line that changes."""
    if sys.stderr.isatty():
        return True
    notebook = sys.modules.get("ipykernel.zmqshell")
    return notebook is not None and bool(notebook.ZMQInteractiveShell.initialized())


class ProgressLine:
    """Report stages: each call receives the next stage, which ends the previous one.

    Args:
        lasting: Whether to keep a line with the seconds of each stage in a terminal or notebook, and to write a
            line at the start of each stage to a log. Otherwise a line is shown while a stage takes longer than QUIET
            seconds.

    Attributes:
        took: Completed stages and their seconds.
    """

    def __init__(self, *, lasting: bool = False) -> None:
        self.lasting = lasting
        self.took: list[tuple[str, float]] = []
        self._bar: tqdm | None = None
        self._running: tuple[str, float] | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._terminal = shows()

    def __enter__(self) -> Self:
        if self._terminal:
            self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._finish()

    def __call__(self, text: str) -> None:
        self._finish()
        with self._lock:
            self._running = text, time.monotonic()
            if self.lasting and self._terminal:
                self._show()
            elif self.lasting:
                print(f"  {text}", file=sys.stderr, flush=True)

    def _show(self) -> None:
        """Print the line of the running stage, with the time since it began."""
        from tqdm import tqdm

        assert self._running is not None
        text, began = self._running
        form = "  {desc:<48} {elapsed}"
        self._bar = tqdm(desc=text, bar_format=form, file=sys.stderr, leave=self.lasting)
        self._bar.start_t -= time.monotonic() - began

    def _finish(self) -> None:
        """End the running stage, if there is one: record its duration in `took`, and close its line."""
        with self._lock:
            if self._running is not None:
                text, began = self._running
                self.took.append((text, time.monotonic() - began))
            bar, self._bar, self._running = self._bar, None, None
            if bar is not None:
                bar.close()

    def _tick(self) -> None:
        while not self._stop.wait(QUIET):
            with self._lock:
                if self._bar is None and self._running is not None and time.monotonic() - self._running[1] >= QUIET:
                    self._show()
                if self._bar is not None:
                    self._bar.refresh()


@contextmanager
def showing(progress: Progress | None = None) -> Iterator[Progress]:
    """Yield the progress function of a call: the caller's, else a line in a terminal or notebook, else `quiet`."""
    if progress is not None or not shows():
        yield progress or quiet
        return
    with ProgressLine() as steps:
        yield steps
