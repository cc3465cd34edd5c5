"""A datapath behind a link: a ring of buffers for batches under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from dynagate.base.errors import Error
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import Design
from dynagate.host.devices.face import Executor, Overflow
from dynagate.host.devices.parts import FunctionsDevice, PartDevice
from dynagate.host.drivers import DatapathDriver, Driver, ShellDriver
from dynagate.host.inputs import Arrays
from dynagate.host.links import Link, closed_on_failure
from dynagate.host.transfers import Batch

SLOTS = 8
"""Batches under way, or waiting for somebody to take their results, in a device's ring of buffers."""


class UnderWay:
    """A batch in a slot of a device's ring. `collect` gives the slot back, `result` is what it found there."""

    def __init__(self, device: StreamDevice, batch: Batch, slot: _Slot) -> None:
        self.batch = batch
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

    def batch(self, count: int) -> Batch:
        if count > self._rows or not self._rows:
            self._rows = count
            link = self._driver.link
            self._samples = link.buffer((count, *self._driver.sample))
            self._results = link.buffer((count, *self._driver.result))
        return Batch(self._samples[:count], self._results[:count])


class StreamDevice(Executor):
    """A datapath behind a link, with a ring of buffers for batches under way."""

    exclusive = True

    def __init__(self, driver: Driver) -> None:
        self.driver, design = driver, driver.design
        self.robot, self.function = design.robot_name, design.function
        self.inputs, self.outputs, self.dtype = design.input.ports, design.output.ports, driver.dtype
        self.saturates = design.saturates
        self.text = f"ii {design.interval}, latency {design.latency}, {type(driver.link).__name__}"
        self._free: list[_Slot] = []
        self._used: deque[UnderWay] = deque()

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
        self.driver.wait_for_others()
        slot = self._free.pop() if self._free else _Slot(self.driver)
        try:
            under_way = slot.batch(batch)
            self.driver.pack(arrays, batch, under_way.samples)
            self.driver.queue.put(under_way)
        except BaseException:
            self._free.append(slot)
            raise
        self._used.append(UnderWay(self, under_way, slot))
        return self._used[-1]

    def collect(self) -> None:
        """Waits for the batches under way, and takes their results out of the ring."""
        for under_way in list(self._used):
            under_way.collect()

    def free(self, under_way: UnderWay, slot: _Slot) -> None:
        """The batch has left its slot."""
        self._used.remove(under_way)
        self._free.append(slot)
        self.transfer = self.driver.transfer

    def close(self) -> None:
        self.driver.close()


def stream_device(
    driver: type[DatapathDriver | ShellDriver], design: Design[DatapathBody], link: Link, *, shows_progress: bool
) -> Executor:
    """A design behind a link, or each of its functions. The link is closed if one of them cannot be opened."""
    with closed_on_failure(link):
        if not design.functions:
            return StreamDevice(driver(design, link, shows_progress=shows_progress))
        drivers = {
            function.name: driver(design, link, function=function, shows_progress=shows_progress)
            for function in design.functions
        }
    first = next(iter(drivers.values()))
    for each in drivers.values():
        first.group.add(each)
        each.held, each.group = first.held, first.group
    devices = {
        function.name: PartDevice(function, StreamDevice(drivers[function.name]), dict(function.inputs))
        for function in design.body.functions
    }
    return FunctionsDevice(design.function, devices)
