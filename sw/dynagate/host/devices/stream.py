"""A datapath behind a link: a ring of buffers for batches under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

from dynagate.base.errors import Error
from dynagate.design.datapath import DesignFunction
from dynagate.host.devices.face import Executor, Overflow, UnderWay
from dynagate.host.devices.parts import FunctionsDevice, PartDevice
from dynagate.host.drivers import DatapathSession, Driver, ShellSession
from dynagate.host.inputs import Arrays
from dynagate.host.links import closed_on_failure
from dynagate.host.transfers import TransferBatch

SLOTS = 8
"""Batches under way, or waiting until their results are taken, in a device's ring of buffers."""


class StreamedBatch(UnderWay):
    """A batch in a slot of a device's ring. `collect` gives the slot back, `result` is what it found there."""

    def __init__(self, device: StreamDevice, batch: TransferBatch, slot: _Slot) -> None:
        self.batch, self.done = batch, batch.done
        self._device, self._slot = device, slot
        self._values: tuple[Arrays, Overflow] | None = None
        self._collected = False

    def collect(self) -> None:
        """Waits for the batch and takes its results out of the slot."""
        if self._collected:
            return
        batch = self.batch
        batch.done.wait()
        try:
            if batch.error is None:
                self._values = self._device.driver.unpack(batch.samples, batch.results)
        except Error as error:
            batch.error = error
        self._collected = True
        self._device.free(self, self._slot)

    def result(self) -> tuple[Arrays, Overflow]:
        """Results by name, (batch, *shape), and which samples overflowed. Raises as `run` does."""
        self.collect()
        if self._values is None:
            assert self.batch.error is not None
            raise self.batch.error
        return self._values


class _Slot:
    """Buffers for a batch, grown as batches need."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._rows = 0

    def batch(self, count: int) -> TransferBatch:
        if count > self._rows or not self._rows:
            self._rows = count
            link = self._driver.link
            self._samples = link.buffer((count, *self._driver.sample))
            self._results = link.buffer((count, *self._driver.result))
        return TransferBatch(self._driver, self._samples[:count], self._results[:count])


class StreamDevice(Executor):
    """A datapath behind a link, with a ring of buffers for batches under way."""

    exclusive = True

    def __init__(self, driver: Driver) -> None:
        self.share_lock(driver.session.lock)
        self.driver, design = driver, driver.design
        self.robot, self.function = design.robot_name, design.function
        self.inputs, self.outputs, self.dtype = design.input.ports, design.output.ports, driver.dtype
        self.saturates = design.saturates
        self.text = f"ii {design.interval}, latency {design.latency}, {type(driver.link).__name__}"
        self._free: list[_Slot] = []
        self._used: deque[StreamedBatch] = deque()

    def choosing(self, outputs: Sequence[str]) -> Executor:
        driver = self.driver.choosing(outputs)
        return super().choosing(outputs) if driver is None else StreamDevice(driver)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        values, overflow = self.driver.run(arrays, batch)
        for name, value in values.items():
            outputs[name][...] = value
        self.transfer = self.driver.transfer
        return overflow

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        return self.driver.bound(arrays, outputs, batch)

    def submit(self, arrays: Arrays, batch: int) -> UnderWay | None:
        if not batch:
            return None
        if len(self._used) == SLOTS:
            self._used[0].collect()
        self.driver.session.queue.wait_for_others(self.driver)
        slot = self._free.pop() if self._free else _Slot(self.driver)
        try:
            under_way = slot.batch(batch)
            self.driver.pack(arrays, batch, under_way.samples)
            self.driver.session.queue.put(under_way)
        except BaseException:
            self._free.append(slot)
            raise
        self._used.append(StreamedBatch(self, under_way, slot))
        return self._used[-1]

    def free(self, under_way: StreamedBatch, slot: _Slot) -> None:
        """Release the memory of a batch that is done.

        Args:
            under_way: The batch.
            slot: Its memory.
        """
        self._used.remove(under_way)
        self._free.append(slot)
        self.transfer = self.driver.transfer

    def close(self) -> None:
        self.driver.session.close()


def stream_device(session: DatapathSession | ShellSession) -> Executor:
    """Return the device of a session, with each of its functions by name if there are several.

    Args:
        session: The session.

    Returns:
        The device.
    """
    design = session.design
    with closed_on_failure(session.link):
        if not design.functions:
            return StreamDevice(session.driver())
        devices = {
            function.name: PartDevice(function, StreamDevice(session.driver(function)), dict(function.inputs))
            for function in cast(Sequence[DesignFunction], design.functions)
        }
        return FunctionsDevice(design.function, devices)
