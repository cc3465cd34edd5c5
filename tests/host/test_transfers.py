"""Batches under way: nobody overtakes them, and each of them ends, whatever the link does."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Function, robots
from dynagate.design.files import DesignError
from dynagate.host.devices import PartDevice, StreamDevice
from dynagate.host.drivers import Driver
from dynagate.host.links import DeviceError
from dynagate.host.transfers import TransferBatch
from dynagate.hw.rtl.axi import Axi

ARM = robots.load("two_joint_arm")
STATE = {"q": np.full((5, 2), 0.1), "qd": np.full((5, 2), 0.2), "qdd": np.full((5, 2), 0.3)}
SOON = 600.0
"""Seconds within which a batch ends."""


@pytest.fixture
def simulated(designs: Path) -> Iterator[Function]:
    with dynagate.open(dynagate.build(ARM, "inverse_dynamics", ii=8, folder=designs)) as accelerator:
        yield accelerator


def driver_of(accelerator: Function) -> Driver:
    assert isinstance(accelerator.device, StreamDevice)
    return accelerator.device.driver


def test_a_batch_that_enters_the_link_is_waited_for(simulated: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it moves from those that wait to those that are under way, it is one of them."""
    leaves = threading.Event()

    class Slow(deque[TransferBatch]):
        def popleft(self) -> TransferBatch:
            batch = super().popleft()
            leaves.set()
            time.sleep(0.1)
            return batch

    queue = driver_of(simulated).session.queue
    monkeypatch.setattr(queue, "_waiting", Slow())
    pending = simulated.submit(**STATE)
    assert leaves.wait(SOON)
    queue.wait()
    assert pending.done()
    assert np.array_equal(pending.result().tau, simulated(**STATE).tau)


def test_a_batch_ends_with_the_error_of_the_recovery(simulated: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(results: Any) -> int:
        raise DeviceError("nothing comes")

    def other_version() -> None:
        raise DesignError("frames of another version")

    link = driver_of(simulated).link
    with monkeypatch.context() as broken:
        broken.setattr(link, "read", silent)
        broken.setattr(link, "reset", other_version)
        first, second = simulated.submit(**STATE), simulated.submit(**STATE)
        end = time.monotonic() + SOON
        while not (first.done() and second.done()) and time.monotonic() < end:
            time.sleep(0.01)
        assert first.done()
        with pytest.raises(DesignError, match="frames of another version") as error:
            first.result()
        assert "nothing comes" in str(error.value.__context__)
        with pytest.raises((DeviceError, DesignError), match="frames of another version"):
            second.result()
    link.reset()
    assert np.array_equal(simulated.submit(**STATE).result().tau, simulated(**STATE).tau)


def test_functions_take_turns_on_their_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of another function does not enter while one is under way."""
    built = dynagate.build(ARM, ["mass_matrix", "inverse_dynamics"], per_sample=True, ii=16, folder=tmp_path)
    with dynagate.open(built) as accelerator:
        first, second = accelerator.functions["inverse_dynamics"], accelerator.functions["mass_matrix"]
        assert isinstance(first.device, PartDevice)
        assert isinstance(first.device.device, StreamDevice)
        link = first.device.device.driver.link
        may_read, read, write = threading.Event(), link.read, link.write
        entered: list[int] = []

        def reading(results: Any) -> int:
            may_read.wait(SOON)
            return read(results)

        def writing(samples: Any, *fewer: int) -> None:
            entered.append(len(samples))
            write(samples, *fewer)

        monkeypatch.setattr(link, "read", reading)
        monkeypatch.setattr(link, "write", writing)
        torques = first.submit(**STATE)
        matrices: list[Any] = []
        other = threading.Thread(target=lambda: matrices.append(second.submit(q=STATE["q"][:3])))
        other.start()
        other.join(0.2)
        assert other.is_alive()
        assert entered == [5]
        may_read.set()
        other.join(SOON)
        results = torques.result().tau, matrices[0].result().m
        assert entered == [5, 3]
        assert np.array_equal(results[0], first(**STATE).tau)
        assert np.array_equal(results[1], second(q=STATE["q"][:3]).m)


def test_what_registers_held_is_forgotten_by_a_reset(tmp_path: Path) -> None:
    """The outputs that were chosen before are chosen again."""
    built = dynagate.build(ARM, "inverse_dynamics_gradient", ii=16, axi=Axi(32, choice=True), folder=tmp_path)
    with dynagate.open(built, shell=True) as accelerator:
        before = accelerator(**STATE, outputs="dtau_dqd")
        driver_of(accelerator).session.recover()
        again = accelerator(**STATE, outputs="dtau_dqd")
        assert list(again) == ["dtau_dqd"]
        assert np.array_equal(again.dtau_dqd, before.dtau_dqd)
