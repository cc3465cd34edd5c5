"""Progress of steps that take a while, by tqdm: a line per step with its running time."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

from tqdm import tqdm


class Steps:
    """Call with what is about to happen; the step before is then done.

    A terminal shows the running step with its elapsed seconds; a log gets one line when it starts.
    """

    def __init__(self) -> None:
        self._bar: tqdm | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._terminal = sys.stderr.isatty()

    def __enter__(self) -> Steps:
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
        if self._terminal:
            self._bar = tqdm(desc=text, bar_format="  {desc:<48} {elapsed}", file=sys.stderr)
        else:
            print(f"  {text}", file=sys.stderr, flush=True)

    def _finish(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()

    def _tick(self) -> None:
        while not self._stop.wait(1.0):
            bar = self._bar
            if bar is not None:
                bar.refresh()
