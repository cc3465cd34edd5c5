"""Calls under way: `Function.submit` and `Function.stream`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol

import numpy.typing as npt

from dynagate.host.results import Results

AHEAD = 4
"""Batches that a stream submits before it waits for the first."""


class Submits(Protocol):
    """Something whose calls can be submitted, as `Opened`."""

    def submit(self, *args: Any, **options: Any) -> Pending: ...


class Pending:
    """A batch that `Function.submit` gave to the device. Its results are kept until they are requested."""

    def __init__(self, accelerator: Submits, finish: Callable[[], Results], done: Callable[[], bool]) -> None:
        self._accelerator, self._finish, self._done = accelerator, finish, done
        self._results: Results | None = None

    def done(self) -> bool:
        """Whether `result` would return, or raise, without waiting for the device."""
        return self._results is not None or self._done()

    def result(self) -> Results:
        """Waits for the results; the same ones each time. Raises what a call of the accelerator raises once the device
        has begun: DeviceError, ValueError for an input that the device refused, OverflowedError; or, where the device
        did not recover from an error, what its recovery raised. The batches behind one that raises DeviceError raise it
        too."""
        if self._results is None:
            self._results = self._finish()
        return self._results

    def __repr__(self) -> str:
        return f"<Pending of {self._accelerator!r}, {'done' if self.done() else 'under way'}>"


class BatchStream:
    """Many batches through one accelerator, which computes while the host converts others. Use it as a context:

    with accelerator.stream() as stream:
        for results in stream({"q": q, "qd": qd, "tau": tau} for q, qd, tau in batches):
            ...

    The end of the context waits for what is under way and drops it.
    """

    def __init__(self, accelerator: Submits, ahead: int) -> None:
        self._accelerator, self._ahead = accelerator, ahead
        self._pending: deque[Pending] = deque()

    def __call__(self, batches: Iterable[Mapping[str, npt.ArrayLike]]) -> Iterator[Results]:
        """Results of each batch, in order. Batches are taken from the iterable a few ahead. Raises as a call does, when
        the batch is taken or its turn comes; the stream can go on with other batches afterwards."""
        pending = self._pending
        for inputs in batches:
            pending.append(self._accelerator.submit(**inputs))
            if len(pending) > self._ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    def __enter__(self) -> BatchStream:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._pending:
            try:
                self._pending.popleft().result()
            except Exception:
                if kind is None:
                    self._pending.clear()
                    raise
