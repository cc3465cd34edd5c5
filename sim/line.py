"""A simulated board on a pseudo-terminal: a driver opens its path like a serial port and talks to the Verilated device.

A thread clocks the model and carries bytes between its pins and the terminal. A simulated clock is far slower than a
board's, so a line with few clock cycles per bit keeps simulation short.
"""

from __future__ import annotations

import ctypes
import os
import select
import threading
import tty
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from dynagate.base.progress import Progress, quiet
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord
from dynagate.design.words import WORD
from dynagate.hw.processor.isa.packets import longest_packet
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.streams import core_verilog
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.uart import LEAST_CLOCKS, TOP, Serial
from dynagate.sim.cells import netlist_texts
from dynagate.sim.verilate import line_library

SLICE = 64
"""Bits of the line that are simulated at once."""
PINS = ("clk", "rx", "tx")
"""Ports of the clock, of the line to the device, and of the line from it."""


def device_library(folder: Path, design: DesignRecord[DatapathBody], *, progress: Progress = quiet) -> Path:
    """Compile the library of a design's accelerator behind a serial line with LEAST_CLOCKS clock cycles per bit.

    Args:
        folder: Folder of the design.
        design: Record of the design.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed.
    """
    assert design.axi is not None
    files = [folder / "accelerator.v", folder / "datapath.v"]
    return _behind_line(Serial(design.axi.beats.input, LEAST_CLOCKS), files, progress)


def cores_library(core: Core, cores: int = 1, *, progress: Progress = quiet) -> Path:
    """Compile the library of processor cores behind a serial line.

    Args:
        core: Shape of the cores.
        cores: Number of cores.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed.
    """
    verilog = core_verilog(core, Axi(WORD, words=core.stream_words), cores, has_tlast=False, progress=progress)
    return _behind_line(Serial(None, LEAST_CLOCKS, longest_packet(core)), [verilog], progress)


def _behind_line(serial: Serial, files: Sequence[Path], progress: Progress) -> Path:
    from dynagate.hw.export.netlist import verilog_text

    return line_library(TOP, {f"{TOP}.v": verilog_text(serial, TOP)}, files, pins=PINS, progress=progress)


def netlist_library(netlist: Path, family: str = "ecp5", *, progress: Progress = quiet) -> Path:
    """Compile the netlist of a bitstream, as `hw.targets.routes.bitstream` writes it, with models of its cells.

    Args:
        netlist: Verilog of the netlist. Its serial line keeps the bitstream's clock cycles per bit.
        family: Flow of its board, a key of `hw.targets.families.FAMILIES`.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The shared library.

    Raises:
        SimulationError: Verilator, the C++ compiler or Yosys is missing or failed.
    """
    from dynagate.hw.targets.families import FAMILIES
    from dynagate.hw.targets.routes import TOP as BOARD

    return line_library(BOARD, netlist_texts(netlist, family), pins=FAMILIES[family].ports, progress=progress)


class SimulatedBoard:
    """A device's library behind a pseudo-terminal. Use it as a context manager.

    The attribute `path` is the path of the terminal. The attributes `damage` and `damage_back` are functions from bytes
    to bytes: they may change what reaches the device and what comes back.

    Args:
        library: Library of the device.
        clocks: Clock cycles per bit.
    """

    def __init__(self, library: Path, clocks: int = LEAST_CLOCKS) -> None:
        self._library = ctypes.CDLL(str(library))
        u64, pointer = ctypes.c_uint64, ctypes.c_void_p
        self._library.dynagate_open.restype, self._library.dynagate_open.argtypes = pointer, [u64]
        self._library.dynagate_close.restype, self._library.dynagate_close.argtypes = None, [pointer]
        line = self._library.dynagate_line
        line.restype, line.argtypes = u64, [pointer, ctypes.c_char_p, u64, ctypes.POINTER(u64), ctypes.c_char_p, u64]
        self._clocks = clocks
        self._device = self._library.dynagate_open(clocks)
        self._near, self._far = os.openpty()  # our end, and the end that a driver opens
        tty.setraw(self._far)
        self.path = os.ttyname(self._far)
        self.damage: Callable[[bytes], bytes] = lambda data: data
        self.damage_back: Callable[[bytes], bytes] = lambda data: data
        os.set_blocking(self._near, False)
        self._waiting = self._back = b""  # bytes to the device, and bytes from it
        self._ends = threading.Event()
        self._frozen = threading.Event()
        self._thread = threading.Thread(target=self._pump, daemon=True)
        self._thread.start()

    def __enter__(self) -> SimulatedBoard:
        return self

    def __exit__(self, *_: object) -> None:
        self.unplug()
        self._library.dynagate_close(self._device)

    def unplug(self) -> None:
        """Remove the terminal, like the port of a board that is unplugged."""
        if not self._ends.is_set():
            self._ends.set()
            self._thread.join()
            os.close(self._near)
            os.close(self._far)

    def freeze(self, frozen: bool = True) -> None:
        """Stop or resume the device. A frozen device neither receives nor sends."""
        (self._frozen.set if frozen else self._frozen.clear)()

    def _pump(self) -> None:
        """Clock the device and carry bytes until the board is unplugged."""
        quiet = 0
        while not self._ends.is_set():
            # an idle device is clocked too, with pauses
            ready, _, _ = select.select([self._near], [], [], 0.0 if quiet < 20 or self._waiting else 0.002)
            if ready:
                self._waiting += self.damage(os.read(self._near, 4096))
            if self._frozen.is_set():
                self._waiting, quiet = b"", 20
                continue
            self._back += self.damage_back(self._line())
            quiet = 0 if self._back or self._waiting else quiet + 1
            if self._back:
                with suppress(BlockingIOError):  # nobody reads
                    self._back = self._back[os.write(self._near, self._back) :]

    def _line(self) -> bytes:
        """Simulate a slice of time: send bytes to the device, and return the bytes that came from it."""
        taken = ctypes.c_uint64()
        out = ctypes.create_string_buffer(SLICE)
        count = self._library.dynagate_line(
            self._device, self._waiting, len(self._waiting), taken, out, SLICE * self._clocks
        )
        self._waiting = self._waiting[taken.value :]
        return out.raw[:count]
