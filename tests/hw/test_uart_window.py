"""Samples on a serial line: never more under way than the device says that it keeps."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import robots
from dynagate.host.uart_link import UartLink
from dynagate.hw.designs import Design
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.frames import ANSWER, VERSION, Decoder, FrameKind, SerialFrame

KEPT = 3
"""Samples for which the device has space."""


class Device:
    """The other end of a line: it answers a reset and notes samples, whose results come when they are asked for."""

    def __init__(self, window: int) -> None:
        self._near, self._far = os.openpty()
        self.path, self.samples = os.ttyname(self._far), list[int]()
        self._window = window
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        decoder = Decoder()
        while True:
            try:
                received = os.read(self._near, 4096)
            except OSError:  # closed
                return
            for frame in decoder.feed(received):
                if frame.kind == FrameKind.RESET:
                    payload = VERSION.to_bytes(4, "little") + self._window.to_bytes(4, "little")
                    self._put(SerialFrame(frame.kind | ANSWER, 0, frame.number, payload))
                else:
                    self.samples.append(frame.number)

    def result(self, number: int, beats: int) -> None:
        self._put(SerialFrame(FrameKind.SAMPLE | ANSWER, 0, number, bytes(4 * beats)))

    def _put(self, frame: SerialFrame) -> None:
        os.write(self._near, frame.encoded())

    def close(self) -> None:
        os.close(self._far)
        os.close(self._near)


@pytest.fixture
def built(tmp_path: Path) -> Design:
    return dynagate.build(robots.load("two_joint_arm"), "mass_matrix", ii=16, axi=Axi(32), folder=tmp_path)


@pytest.fixture
def device(built: Design) -> Iterator[Device]:
    assert built.design.axi is not None
    device = Device(KEPT * built.design.axi.beats.input)
    yield device
    device.close()


def test_a_full_device_gets_no_sample_before_a_result(built: Design, device: Device) -> None:
    assert built.design.axi is not None
    beats = built.design.axi.beats
    link = UartLink(device.path, built.design, timeout=30.0)
    results = np.zeros((8, beats.output, 1), np.uint32)

    def read(expected: int) -> None:
        """Until so many results came, and nothing more goes out."""
        came, end = 0, time.monotonic() + 600.0  # which only ends a hang
        while came < expected and time.monotonic() < end:
            came += link.read(results)
        assert came == expected
        for _ in range(5):
            assert link.read(results) == 0

    link.write(np.zeros((8, beats.input, 1), np.uint32))
    read(0)
    assert device.samples == [0, 1, 2]
    device.result(0, beats.output)
    device.result(1, beats.output)
    read(2)
    assert device.samples == [0, 1, 2, 3, 4]
    link.close()
