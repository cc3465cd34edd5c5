"""A Zynq board that pynq.remote reaches: its server's three services over gRPC, in front of a Verilated accelerator.

The messages and their classes are pynq's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt
from dynagate.hw import boards
from pynq.remote import (
    buffer_pb2,
    buffer_pb2_grpc,
    mmio_pb2,
    mmio_pb2_grpc,
    remote_device_pb2,
    remote_device_pb2_grpc,
)

from tests.standins.axi_dma import AxiDma
from tests.standins.board import Board

SPAN = 0x10000
DATA = mmio_pb2.ReadResponse.DESCRIPTOR.fields_by_name["data"]
SIGNED = DATA.type == DATA.TYPE_INT32
"""Registers are signed 32 bits in the protocol of pynq 3.1, and unsigned in that of 4."""
KERNELS = {"pynq-z2": "Linux version 6.6.10-xilinx armv7l\n", "kv260": "Linux version 6.6.10-xilinx aarch64\n"}
"""What /proc/version has, in which pynq looks for the processor."""
CLOCKS = {"pynq-z2": 0x00128A00, "kv260": 0x00020A00}
"""A register of the processor's clocks: a PLL's factor, and dividers other than 0."""
FPGA_MANAGER = "/sys/class/fpga_manager/fpga0/"


class Server:
    """The board of this name at an address such as "127.0.0.1:7967", while in a `with`. files: its file system."""

    def __init__(self, name: str, board: Board, address: str) -> None:
        self.files = {
            "/proc/version": KERNELS[name].encode(),
            FPGA_MANAGER + "state": b"unknown",
            FPGA_MANAGER + "flags": b"0",
        }
        buffers = Buffers()
        self._server = grpc.server(ThreadPoolExecutor(4))
        remote_device_pb2_grpc.add_RemoteDeviceServicer_to_server(Files(self.files), self._server)
        mmio_pb2_grpc.add_MmioServicer_to_server(Registers(name, board, buffers), self._server)
        buffer_pb2_grpc.add_RemoteBufferServicer_to_server(buffers, self._server)
        assert self._server.add_insecure_port(address)
        self._server.start()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.stop(None).wait()


class Files(remote_device_pb2_grpc.RemoteDeviceServicer):
    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files

    def existsfile(self, request: Any, context: Any) -> Any:
        return remote_device_pb2.ExistsFileResponse(exists=request.file_path in self._files)

    def readfile(self, request: Any, context: Any) -> Iterator[Any]:
        yield remote_device_pb2.ReadFileResponse(data=self._files[request.file_path])

    def writefile(self, requests: Iterator[Any], context: Any) -> Any:
        parts = list(requests)
        self._files[parts[0].file_path] = b"".join(part.data for part in parts)
        return remote_device_pb2.WriteFileResponse()

    def set_bitstream_attrs(self, request: Any, context: Any) -> Any:
        return remote_device_pb2.SetBitstreamAttrsResponse(status=True)


class Buffers(buffer_pb2_grpc.RemoteBufferServicer):
    """The processor's memory. What it wrote reaches the DMA engine when it is flushed, and the other way round."""

    def __init__(self) -> None:
        self._seen: dict[str, npt.NDArray[np.uint8]] = {}
        self._memory: dict[str, npt.NDArray[np.uint8]] = {}

    def at(self, address: int) -> npt.NDArray[np.uint8]:
        return self._memory[str(address)]

    def allocate(self, request: Any, context: Any) -> Any:
        name = str(0x10000000 + 0x1000000 * len(self._memory))
        self._seen[name], self._memory[name] = (np.zeros(request.size, np.uint8) for _ in range(2))
        return buffer_pb2.AllocateResponse(buffer_id=name)

    def write(self, requests: Iterator[Any], context: Any) -> Any:
        parts = list(requests)
        self._seen[parts[0].buffer_id][:] = np.frombuffer(b"".join(part.data for part in parts), np.uint8)
        return buffer_pb2.BufferWriteResponse()

    def read(self, request: Any, context: Any) -> Iterator[Any]:
        data = self._seen[request.buffer_id].tobytes()
        for start in range(0, len(data), 1 << 16):
            yield buffer_pb2.BufferReadResponse(data=data[start : start + (1 << 16)])

    def flush(self, request: Any, context: Any) -> Any:
        self._memory[request.buffer_id][:] = self._seen[request.buffer_id]
        return buffer_pb2.FlushResponse()

    def invalidate(self, request: Any, context: Any) -> Any:
        self._seen[request.buffer_id][:] = self._memory[request.buffer_id]
        return buffer_pb2.InvalidateResponse()

    def physical_address(self, request: Any, context: Any) -> Any:
        return buffer_pb2.AddressResponse(address=int(request.buffer_id))

    def freebuffer(self, request: Any, context: Any) -> Any:
        return buffer_pb2.FreeBufferResponse()


class Registers(mmio_pb2_grpc.MmioServicer):
    """Those of the DMA engine, of the accelerator, and of the processor, which keep what is written."""

    def __init__(self, name: str, board: Board, buffers: Buffers) -> None:
        self._board, self._dma = board, AxiDma(board, buffers.at)
        addresses, self._clocks = boards.load(name).addresses, CLOCKS[name]
        self._engine, self._accelerator = addresses["axi_dma_0"], addresses["accelerator_0"]
        self._others: dict[int, int] = {}

    def get_mmio(self, request: Any, context: Any) -> Any:
        return mmio_pb2.GetMmioResponse(status=True, mmio_id=str(request.base_addr))

    def read(self, request: Any, context: Any) -> Any:
        address = int(request.mmio_id) + request.offset
        if 0 <= address - self._engine < SPAN:
            value = self._dma.read(address - self._engine)
        elif 0 <= address - self._accelerator < SPAN:
            value = self._board.read_register(address - self._accelerator)
        else:
            value = self._others.get(address, self._clocks)
        return mmio_pb2.ReadResponse(status=True, data=value - (value >> 31 << 32 if SIGNED else 0))

    def write(self, request: Any, context: Any) -> Any:
        address, value = int(request.mmio_id) + request.offset, int.from_bytes(request.data, "little")
        if 0 <= address - self._engine < SPAN:
            self._dma.write(address - self._engine, value)
        elif 0 <= address - self._accelerator < SPAN:
            self._board.write_register(address - self._accelerator, value)
        else:
            self._others[address] = value
        return mmio_pb2.WriteResponse(status=True)
