"""PynqLink under the real pynq: its DMA driver, MMIO and buffers on a device that is a model. Run by its own Python.

Arguments: a design's folder, its compiled accelerator, and an .npz with inputs and the results they should have.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pynq
from dynagate.design.files import load
from dynagate.host import Function
from dynagate.host.devices import StreamDevice
from dynagate.host.drivers import ShellSession
from dynagate.host.pynq_link import PynqLink
from dynagate.host.sim_links import SimShellLink
from pynq.buffer import PynqBuffer
from pynq.lib.dma import DMA
from pynq.pl_server import Device

from tests.standins import pynq_api
from tests.standins.axi_dma import AxiDma
from tests.standins.board import Board

DMA_BASE = 0x40400000
PARAMETERS = {
    "c_include_sg": "0", "c_sg_length_width": "14", "c_include_mm2s": "1", "c_include_s2mm": "1",
    "c_include_mm2s_dre": "0", "c_include_s2mm_dre": "0", "c_m_axi_mm2s_data_width": "64",
    "c_m_axi_s2mm_data_width": "64", "c_m_axis_mm2s_tdata_width": "64", "c_s_axis_s2mm_tdata_width": "64",
}  # fmt: skip


class Modeled(Device):
    """A device whose registers are those of the DMA engine's model and of the accelerator."""

    _probe_priority_ = 1

    @classmethod
    def _probe_(cls) -> list[Device]:
        return []

    def __init__(self, board: Board) -> None:
        super().__init__("modeled")
        self._board, self._card = board, {}
        self._dma = AxiDma(board, lambda address: self._card[address])
        self.capabilities = {"REGISTER_RW": True}

    def has_capability(self, name: str) -> bool:
        return self.capabilities.get(name, False)

    def allocate(self, shape: tuple[int, ...], dtype: str, **options: Any) -> PynqBuffer:
        address = 0x10000000 * (len(self._card) + 1)
        buffer = PynqBuffer(shape, dtype, device=self, device_address=address, coherent=False)
        self._card[address] = np.zeros(buffer.nbytes, np.uint8)
        return buffer

    def flush(self, bo: object, offset: int, virtual: int, count: int) -> None:
        self._copy(virtual, to_card=True)

    def invalidate(self, bo: object, offset: int, virtual: int, count: int) -> None:
        self._copy(virtual, to_card=False)

    def _copy(self, virtual: int, *, to_card: bool) -> None:
        buffer = next(each for each in buffers if each.virtual_address == virtual)
        card = self._card[buffer.physical_address]
        if to_card:
            card[:] = buffer
        else:
            buffer[:] = card

    def read_registers(self, address: int, length: int) -> bytes:
        inside = DMA_BASE <= address < DMA_BASE + 0x10000
        value = (
            self._dma.read(address - DMA_BASE) if inside else self._board.read_register(address - pynq_api.ACCELERATOR)
        )
        return value.to_bytes(4, "little")

    def write_registers(self, address: int, data: bytes) -> None:
        value = int.from_bytes(bytes(data), "little")
        if DMA_BASE <= address < DMA_BASE + 0x10000:
            self._dma.write(address - DMA_BASE, value)
        else:
            self._board.write_register(address - pynq_api.ACCELERATOR, value)


buffers: list[PynqBuffer] = []


def face_is_real() -> None:
    """What the quick stand-in has of pynq's classes is there in the real ones, with the same arguments."""
    import inspect

    from pynq.lib.dma import _SDMAChannel

    for name, member in vars(pynq_api.Channel).items():
        if not name.startswith("_"):
            real = getattr(_SDMAChannel, name)
            if inspect.isfunction(member):
                assert list(inspect.signature(member).parameters) == list(inspect.signature(real).parameters), name
    for name in ("flush", "invalidate", "freebuffer", "physical_address"):
        assert hasattr(PynqBuffer, name), name
    assert {"base_addr", "length", "device"} <= set(inspect.signature(pynq.MMIO).parameters)
    assert list(inspect.signature(pynq.allocate).parameters)[:3] == ["shape", "dtype", "target"]
    assert hasattr(pynq.Overlay, "download")


def main(folder: str, library: str, states: str) -> None:
    face_is_real()
    design = load(folder)
    device = Modeled(Board(SimShellLink(Path(library), design, pauses=(0.2, 0.1))))
    real = pynq.allocate

    def allocate(*arguments: Any, **options: Any) -> PynqBuffer:
        buffers.append(real(*arguments, **options))
        return buffers[-1]

    pynq.allocate = allocate
    row = {"phys_addr": DMA_BASE, "addr_range": 0x10000, "device": device, "parameters": PARAMETERS, "interrupts": {},
           "gpio": {}, "fullpath": "axi_dma_0", "type": "xilinx.com:ip:axi_dma:7.1", "registers": {}}  # fmt: skip
    overlay = SimpleNamespace(
        device=device,
        ip_dict={"axi_dma_0": row, "accelerator_0": {"phys_addr": pynq_api.ACCELERATOR}},
        axi_dma_0=DMA(row),
    )
    link = PynqLink("accelerator.bit", design, overlay=overlay)
    data = dict(np.load(states))
    expected = data.pop("expected")
    with Function(StreamDevice(ShellSession(design, link).driver())) as accelerator:
        for count in (1, 7, len(expected)):
            part = {name: value[:count] for name, value in data.items()}
            np.testing.assert_array_equal(accelerator(**part).qdd, expected[:count])
        with accelerator.stream() as stream:
            for results in stream([data] * 5):
                np.testing.assert_array_equal(results.qdd, expected)
        link.reset()
        np.testing.assert_array_equal(accelerator(**data).qdd, expected)
    print("right", pynq.__version__, np.__version__)


if __name__ == "__main__":
    main(*sys.argv[1:])
