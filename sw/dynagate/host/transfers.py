"""Batches under way: a thread moves them through the link while the host converts the next ones and the last ones."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Protocol

from dynagate.design.codec import Words
from dynagate.design.design import DesignRecord
from dynagate.host.links import DeviceError, DeviceLink, SilenceError

LINGER_S = 0.5
"""A thread without batches ends after so long; the next batch starts another."""


class BatchDriver(Protocol):
    """The driver of a batch, as the queue uses it."""

    whole: DesignRecord
    """Record of the session's design."""

    def verify(self, samples: Words, results: Words) -> None: ...


class QueuedSession(Protocol):
    """The session of a queue, as the queue uses it."""

    link: DeviceLink
    """The link of the session."""

    def check_current(self, design: DesignRecord) -> None: ...
    def recover_from(self, error: BaseException) -> None: ...
    def state(self) -> str: ...


class TransferBatch:
    """A batch of a driver: its samples, and rows for their results. `done` is set when there are results, or an
    `error`.
    """

    def __init__(self, driver: BatchDriver, samples: Words, results: Words) -> None:
        self.driver, self.samples, self.results = driver, samples, results
        self.received = 0
        self.error: BaseException | None = None
        self.done = threading.Event()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.done.set()


class TransferQueue:
    """The batches of a session, in order. The link takes as many as it can, the others wait.

    Batches that are under way at the same time have the same driver: see `wait_for_others`.
    """

    def __init__(self, session: QueuedSession) -> None:
        self._weak = weakref.ref(session)  # the session owns the queue and is freed without the collector's help
        self._changed = threading.Condition()
        self._waiting, self._under_way = deque[TransferBatch](), deque[TransferBatch]()
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def _session(self) -> QueuedSession:
        session = self._weak()
        assert session is not None, "a queue outlived its session"
        return session

    def put(self, batch: TransferBatch) -> None:
        """Append a batch.

        Args:
            batch: The batch.

        Raises:
            DeviceError: The device is closed, or has loaded another program.
        """
        with self._changed:
            if self._closed:
                raise DeviceError(f"{self._session.link.text} is closed; open it again", code="DG-LINK-065")
            self._session.check_current(batch.driver.whole)
            self._waiting.append(batch)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, args=(self._session,), name="dynagate transfers", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def wait(self) -> None:
        """Until no batch is under way."""
        if self._thread is None:
            return
        with self._changed:
            while (self._waiting or self._under_way) and not self._closed:
                self._changed.wait(0.1)

    def wait_for_others(self, driver: BatchDriver) -> None:
        """Wait until no batch of another driver is under way.

        Args:
            driver: Driver of the next batch.
        """
        if self._thread is None:
            return
        with self._changed:
            while not self._closed and any(batch.driver is not driver for batch in (*self._waiting, *self._under_way)):
                self._changed.wait(0.1)

    def close(self) -> None:
        """Fails the batches that have no results yet."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self, session: QueuedSession) -> None:
        """Move batches until none is left. The argument keeps the session alive that long."""
        while self._admit():
            try:
                self._move()
            except BaseException as error:
                self._fail(error)

    def _admit(self) -> bool:
        """Waits for batches and moves them into the link. False: the thread ends."""
        with self._changed:
            if not self._waiting and not self._under_way:
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._closed, LINGER_S)
            if self._closed:
                error = DeviceError(f"{self._session.link.text} was closed while it streamed", code="DG-LINK-066")
                self._drop(error)
            if not self._waiting and not self._under_way:
                self._thread = None
                return False
        return True

    def _move(self) -> None:
        """Gives the link what waits, as far as it takes it, and takes results of the oldest batch."""
        link = self._session.link
        while (entering := self._entering(link.depth)) is not None:
            link.expect(entering.results.shape[1])
            link.write(entering.samples)
        batch = self._under_way[0]
        try:
            batch.received += link.read(batch.results[batch.received :])
        except SilenceError as error:
            raise DeviceError(
                f"{batch.received} results for {len(batch.samples)} samples: {error}{self._session.state()}",
                code="DG-LINK-067",
            ) from None
        if batch.received == len(batch.samples):
            batch.driver.verify(batch.samples, batch.results)
            with self._changed:
                self._under_way.popleft()
            batch.done.set()

    def _entering(self, depth: int) -> TransferBatch | None:
        """The next batch, which is under way from now on; None where none waits, or this many are under way."""
        with self._changed:
            if not self._waiting or len(self._under_way) >= depth:
                return None
            self._under_way.append(self._waiting.popleft())
            return self._under_way[-1]

    def _fail(self, error: BaseException) -> None:
        """The oldest batch fails with the error, or with what recovery raises; those behind it because of it. The
        device begins anew."""
        try:
            if not self._session.link.closed:
                self._session.recover_from(error)
        except BaseException as fault:
            error = fault
        with self._changed:
            self._under_way.popleft().fail(error)
            self._drop(
                DeviceError(
                    f"{self._session.link.text} dropped a batch behind one that failed: {error}", code="DG-LINK-068"
                )
            )

    def _drop(self, error: DeviceError) -> None:
        for batch in (*self._under_way, *self._waiting):
            batch.fail(error)
        self._under_way.clear()
        self._waiting.clear()
