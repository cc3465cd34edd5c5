"""An Alveo card with XRT: kernels of the .xclbin move batches between card memory and the streams.

pyxrt comes with XRT (source /opt/xilinx/xrt/setup.sh). XRT opens the registers of a kernel without a control protocol
by its class `ip`. Where pyxrt lacks that class, xrt_registers.cpp is compiled against XRT's headers and serves instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
from pathlib import Path
from typing import Any

from dynagate.base.errors import MissingExtraError
from dynagate.base.process import run
from dynagate.design.design import DesignRecord
from dynagate.host.dma import DmaLink, TimedOut
from dynagate.host.links import DeviceError
from dynagate.native.cache import cache_folder, kept

READER, WRITER = "read_samples:{read_samples_1}", "write_results:{write_results_1}"
"""Kernels that move card memory to the input stream, and the output stream to card memory: (memory, stream, beats)."""
MEMORY, BEATS = 0, 2


class XrtLink(DmaLink):
    """Link to an accelerator on an Alveo card, through XRT.

    Args:
        path: Path of the .xclbin file.
        design: Record of the design.
        card: Number of the card, as `xrt-smi examine` lists it.
        accelerator: Name of the kernel and its compute unit.
        timeout: As of `DmaLink`.

    Raises:
        MissingExtraError: The package pyxrt is not installed.
        DeviceError: There is no such card, .xclbin file or kernel, or another process has the card.
        DesignError, ArgumentError: As `DmaLink` raises them.
    """

    ends_with_tlast = False  # the mover counts beats

    def __init__(
        self,
        path: str,
        design: DesignRecord,
        *,
        card: int = 0,
        accelerator: str = "accelerator:{accelerator_1}",
        timeout: float = 10.0,
    ) -> None:
        self._xrt = xrt = _pyxrt()
        super().__init__(path, design, timeout=timeout)
        if not os.path.isfile(path):
            raise DeviceError(
                f"{path} is no file; expected an .xclbin, which `dynagate bitstream` makes", code="DG-LINK-095"
            )
        try:
            self._device = xrt.device(card)
            uuid = self._device.load_xclbin(xrt.xclbin(path))
            mode = xrt.kernel.cu_access_mode.exclusive
            self._movers = [xrt.kernel(self._device, uuid, name, mode) for name in (READER, WRITER)]
            self._ip = _registers(xrt, self._device, card, uuid, accelerator)
            size = self._largest * max(self._in_bytes, self._out_bytes)
            self._buffers = [
                xrt.bo(self._device, size, xrt.bo.flags.normal, kernel.group_id(MEMORY)) for kernel in self._movers
            ]
            self._runs: list[Any] = [None, None]
        except (RuntimeError, OSError, ValueError) as error:  # XRT's
            raise DeviceError(
                f"{path} cannot be opened on card {card}: {error}; expected a card that xrt-smi examine lists, and no "
                "other process that has it",
                code="DG-LINK-096",
            ) from None

    def _send(self, data: memoryview) -> int:
        buffer = self._buffers[0]
        buffer.write(data, 0)
        buffer.sync(self._xrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, len(data), 0)
        self._move(0, len(data))
        return len(data)

    def _receive(self, data: memoryview) -> int:
        count = len(data)
        self._move(1, count)
        buffer = self._buffers[1]
        buffer.sync(self._xrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE, count, 0)
        data[:] = memoryview(buffer.read(count, 0)).cast("B")
        return count

    def _move(self, which: int, count: int) -> None:
        """Raises TimedOut; the next transfer of the kernel waits for this one then."""
        xrt = self._xrt
        beats = count // (4 * self.axi.lanes)
        try:
            if self._runs[which] is None:
                run = xrt.run(self._movers[which])
                run.set_arg(MEMORY, self._buffers[which])
                run.set_arg(BEATS, beats)
                run.start()
                self._runs[which] = run
            state = self._runs[which].wait(max(int(1000 * self.timeout), 1))
        except (RuntimeError, OSError) as error:
            raise DeviceError(f"{self.text}: {(READER, WRITER)[which]} failed: {error}", code="DG-LINK-097") from None
        if state == xrt.ert_cmd_state.ERT_CMD_STATE_TIMEOUT:
            raise TimedOut(f"{(READER, WRITER)[which]} did not end in {self.timeout:g} s", code="DG-LINK-098")
        self._runs[which] = None
        if state != xrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED:
            raise DeviceError(f"{self.text}: {(READER, WRITER)[which]} ended with {state}", code="DG-LINK-099")

    def _register(self, address: int, value: int | None) -> int:
        try:
            if value is None:
                return int(self._ip.read_register(address))
            self._ip.write_register(address, value)
            return value
        except (RuntimeError, OSError) as error:
            raise DeviceError(f"{self.text}: a register access failed: {error}", code="DG-LINK-100") from None

    def _close(self) -> None:
        for name in ("_ip", "_runs", "_buffers", "_movers", "_device"):  # each needs the one behind it
            with contextlib.suppress(AttributeError):
                delattr(self, name)


def _pyxrt() -> Any:
    try:
        import pyxrt
    except ModuleNotFoundError:
        raise MissingExtraError(
            "a link to an Alveo card needs pyxrt, which is part of XRT; expected XRT installed and its environment: "
            "source /opt/xilinx/xrt/setup.sh",
            code="DG-LINK-101",
        ) from None
    return pyxrt


def _registers(xrt: Any, device: Any, card: int, uuid: Any, name: str) -> Any:
    """Return an object with `read_register` and `write_register` for the registers of a kernel."""
    return xrt.ip(device, uuid, name) if hasattr(xrt, "ip") else CompiledIp(card, uuid.to_string(), name)


class CompiledIp:
    """XRT's class `ip` by a library of a few lines, compiled against the headers in $XILINX_XRT. Raises OSError as
    XRT's messages say, MissingExtraError where the headers are not there."""

    def __init__(self, card: int, uuid: str, name: str) -> None:
        self._library = ctypes.CDLL(str(_compiled()))
        self._library.dynagate_ip_open.restype = ctypes.c_void_p
        self._library.dynagate_ip_error.restype = ctypes.c_char_p
        self._ip = self._library.dynagate_ip_open(card, uuid.encode(), name.encode())
        if not self._ip:
            raise OSError(self._library.dynagate_ip_error().decode())

    def read_register(self, address: int) -> int:
        value = ctypes.c_uint32()
        self._access(self._library.dynagate_ip_read(ctypes.c_void_p(self._ip), address, ctypes.byref(value)))
        return value.value

    def write_register(self, address: int, value: int) -> None:
        self._access(self._library.dynagate_ip_write(ctypes.c_void_p(self._ip), address, ctypes.c_uint32(value)))

    def _access(self, status: int) -> None:
        if status:
            raise OSError(self._library.dynagate_ip_error().decode())

    def __del__(self) -> None:
        if getattr(self, "_ip", None):
            self._library.dynagate_ip_close(ctypes.c_void_p(self._ip))


def _compiled() -> Path:
    root = Path(os.environ.get("XILINX_XRT", "/opt/xilinx/xrt"))
    if not (root / "include" / "xrt").is_dir():
        raise MissingExtraError(
            f"no headers of XRT in {root}/include; expected XRT's environment: source setup.sh", code="DG-LINK-102"
        )
    source = Path(__file__).parent / "xrt_registers.cpp"
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{root}/include"]

    def make(work: Path, result: Path) -> None:
        libraries = [f"-L{root}/lib", f"-Wl,-rpath,{root}/lib", "-lxrt_coreutil"]
        run([*command, str(source), "-o", str(result / "xrt_registers.so"), *libraries], DeviceError, folder=work)

    text = " ".join(command) + source.read_text()
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    return kept(cache_folder() / f"xrt-registers-{key}", make, DeviceError) / "xrt_registers.so"
