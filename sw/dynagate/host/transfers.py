"""Batches under way: a thread moves them through the link while the host converts the next ones and the last ones."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING

from dynagate.design.codec import Words
from dynagate.host.links import DeviceError, SilenceError

if TYPE_CHECKING:
    from dynagate.host.drivers import Driver

LINGER_S = 0.5
"""A thread without batches ends after so long; the next batch starts another."""


class Batch:
    """Samples and rows for their results. error: why there are none. done: whether there are results or an error."""

    def __init__(self, samples: Words, results: Words) -> None:
        self.samples, self.results = samples, results
        self.received = 0
        self.error: BaseException | None = None
        self.done = threading.Event()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.done.set()


class TransferQueue:
    """The batches of one driver, in order. As many are in the link as it takes, the others wait."""

    def __init__(self, driver: Driver) -> None:
        self._weak = weakref.ref(driver)  # which has the queue and goes without the collector's help
        self._changed = threading.Condition()
        self._waiting, self._under_way = deque[Batch](), deque[Batch]()
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def _driver(self) -> Driver:
        driver = self._weak()
        assert driver is not None, "a queue outlived its driver"
        return driver

    def put(self, batch: Batch) -> None:
        """Raises DeviceError: the device is closed."""
        with self._changed:
            if self._closed:
                raise DeviceError(f"{self._driver.link.text} is closed; open it again")
            self._waiting.append(batch)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, args=(self._driver,), name="dynagate transfers", daemon=True
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

    def close(self) -> None:
        """Fails the batches that have no results yet."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self, driver: Driver) -> None:
        """driver: kept as long as batches are under way."""
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
                error = DeviceError(f"{self._driver.link.text} was closed while it streamed")
                self._drop(error)
            if not self._waiting and not self._under_way:
                self._thread = None
                return False
        return True

    def _move(self) -> None:
        """Gives the link what waits, as far as it takes it, and takes results of the oldest batch."""
        link = self._driver.link
        while (entering := self._entering(link.depth)) is not None:
            link.expect(entering.results.shape[1])
            link.write(entering.samples)
        batch = self._under_way[0]
        try:
            batch.received += link.read(batch.results[batch.received :])
        except SilenceError as error:
            raise DeviceError(
                f"{batch.received} results for {len(batch.samples)} samples: {error}{self._driver.state()}"
            ) from None
        if batch.received == len(batch.samples):
            self._driver.verify(batch.samples, batch.results)
            with self._changed:
                self._under_way.popleft()
            batch.done.set()

    def _entering(self, depth: int) -> Batch | None:
        """The next batch, which is under way from now on; None where none waits, or so many are under way."""
        with self._changed:
            if not self._waiting or len(self._under_way) >= depth:
                return None
            self._under_way.append(self._waiting.popleft())
            return self._under_way[-1]

    def _fail(self, error: BaseException) -> None:
        """The oldest batch fails with the error, or with what recovery raises; those behind it because of it. The
        device begins anew."""
        try:
            if not self._driver.link.closed:
                self._driver.recover_from(error)
        except BaseException as fault:
            error = fault
        with self._changed:
            self._under_way.popleft().fail(error)
            self._drop(DeviceError(f"{self._driver.link.text} dropped a batch behind one that failed: {error}"))

    def _drop(self, error: DeviceError) -> None:
        for batch in (*self._under_way, *self._waiting):
            batch.fail(error)
        self._under_way.clear()
        self._waiting.clear()
