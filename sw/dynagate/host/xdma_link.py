"""A PCIe card behind AMD's XDMA: the character devices in /dev of the Linux driver `xdma` (dma_ip_drivers).

What that driver does (cdev_sgdma.c, libxdma.c), and what follows from it:

1. A write sets TLAST on its last beat. So a packet is a write, and a sample is never cut between two.
2. A page of the reader's buffer is a descriptor, and TLAST from the device ends one before it is full. So TLAST must
   not end every sample: their results would lie a page apart. TLAST ends a packet, and the reader's buffer is as long.
3. Opened with O_TRUNC, a read returns with TLAST and says how much came; without, it waits for the whole buffer. Beats
   of a next packet may run into the pages behind meanwhile. So a longer buffer is read only after a reset.
4. A second process that opens a C2H device is refused, but not one that opens the others. A lock on the registers'
   device keeps it away.
5. A read or write that waits longer than the parameters c2h_timeout or h2c_timeout (10 s) is given up.
6. With the parameter poll_mode=1 the driver waits by polling, which costs a core and saves the interrupt's latency.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import struct
from pathlib import Path

from dynagate.design.design import DesignRecord
from dynagate.host.dma import DmaLink, TimedOut
from dynagate.host.links import DeviceError

AGAIN = (errno.EAGAIN, errno.EINTR)
PACKET_BYTES = 1 << 20
"""At most in a transfer: the kernel's driver begins one when the one before has ended, and the card waits meanwhile."""
LATE = (errno.ETIMEDOUT, 512)  # the kernel's ERESTARTSYS
UNPLUGGED = (errno.ENODEV, errno.ENXIO)


class System:
    """The calls of the system that the link makes. A file is known by its number."""

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC)

    def close(self, file: int) -> None:
        os.close(file)

    def read(self, file: int, data: memoryview) -> int:
        """Read into memory, as read(2) does.

        Args:
            file: Number of the open file.
            data: Memory that is overwritten.

        Returns:
            Number of bytes that were read.
        """
        with io.FileIO(file, "rb", closefd=False) as raw:
            return raw.readinto(data) or 0  # None: EAGAIN

    def write(self, file: int, data: memoryview) -> int:
        return os.write(file, data)

    def pread(self, file: int, count: int, place: int) -> bytes:
        return os.pread(file, count, place)

    def pwrite(self, file: int, data: bytes, place: int) -> int:
        return os.pwrite(file, data, place)

    def lock(self, file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class XdmaLink(DmaLink):
    """Link to an accelerator on a PCIe card, through the driver of Xilinx's XDMA.

    Args:
        path: Path of the card, such as "/dev/xdma0".
        design: Record of the design.
        channel: Number of the H2C and C2H channels that the design's streams are connected to.
        registers: Address of the design's registers in the user BAR, in bytes.
        timeout: As of `DmaLink`.

    Raises:
        DeviceError: There is no such card, it may not be opened, or another process has it. The message names the file,
            and the process if possible.
        DesignError, ArgumentError: As `DmaLink` raises them.
    """

    def __init__(
        self,
        path: str,
        design: DesignRecord,
        *,
        channel: int = 0,
        registers: int = 0,
        timeout: float = 10.0,
        system: System | None = None,
    ) -> None:
        super().__init__(path, design, timeout=timeout, packet_bytes=PACKET_BYTES)
        self._system, self._base = system or System(), registers
        self._files: list[int] = []
        try:
            self._user = self._open(f"{path}_user", os.O_RDWR)
            self._lock(f"{path}_user")
            self._out = self._open(f"{path}_h2c_{channel}", os.O_WRONLY)
            self._in = self._open(f"{path}_c2h_{channel}", os.O_RDONLY | os.O_TRUNC)
        except BaseException:
            self.close()
            raise

    def _open(self, path: str, flags: int) -> int:
        try:
            self._files.append(self._system.open(path, flags))
        except OSError as error:
            raise DeviceError(f"{path}: {_why_not(error)}", code="DG-LINK-088") from None
        return self._files[-1]

    def _lock(self, path: str) -> None:
        try:
            self._system.lock(self._user)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise DeviceError(f"{path} cannot be locked: {error.strerror}", code="DG-LINK-089") from None
            raise DeviceError(
                f"{path} is busy: {_holder(path)} has it open; expected one process for a card", code="DG-LINK-090"
            ) from None

    def _send(self, data: memoryview) -> int:
        return self._transfer("write", self._out, data)

    def _receive(self, data: memoryview) -> int:
        return self._transfer("read", self._in, data)

    def _transfer(self, which: str, file: int, data: memoryview) -> int:
        try:
            return self._system.read(file, data) if which == "read" else self._system.write(file, data)
        except OSError as error:
            if error.errno in AGAIN:
                return 0
            if error.errno in LATE:
                raise TimedOut(
                    f"the {which} of {len(data)} bytes was given up by the driver xdma", code="DG-LINK-091"
                ) from None
            raise self._broken(which, error) from None

    def _register(self, address: int, value: int | None) -> int:
        try:
            if value is not None:
                return self._system.pwrite(self._user, struct.pack("<I", value), self._base + address)
            data = self._system.pread(self._user, 4, self._base + address)
        except OSError as error:
            raise self._broken("register access", error) from None
        if len(data) != 4:
            raise DeviceError(f"{self.text} gave {len(data)} bytes of a register; expected 4", code="DG-LINK-092")
        return int(struct.unpack("<I", data)[0])

    def _broken(self, what: str, error: OSError) -> DeviceError:
        if error.errno in UNPLUGGED:
            return DeviceError(
                f"{self.text} is gone ({error.strerror}): it was unplugged, or its driver removed", code="DG-LINK-093"
            )
        return DeviceError(
            f"{self.text}: a {what} failed ({error.strerror}); dmesg has what the driver xdma says", code="DG-LINK-094"
        )

    def _close(self) -> None:
        for file in reversed(self._files):
            with contextlib.suppress(OSError):
                self._system.close(file)
        self._files.clear()


def _why_not(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return (
            "there is no such device; expected a card with a dynagate design and the driver xdma loaded (lspci, dmesg)"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return "it may not be opened; expected rights to read and write it, by a udev rule or a group"
    if error.errno == errno.EBUSY:
        return "it is busy: another process has it open; expected one process for a card"
    return f"it cannot be opened: {error.strerror}"


def _holder(path: str) -> str:
    """The process that has locked a file, by number and name, as far as the system shows it."""
    with contextlib.suppress(OSError, ValueError):
        inode = os.stat(path).st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.replace("->", "").split()
            if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}") and int(fields[4]) > 0:
                name = Path(f"/proc/{fields[4]}/comm").read_text().strip()
                return f"process {fields[4]} ({name})"
    return "another process"
