"""The table of devices: how each opens each kind of source, and the one check of options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.base.nearest import nearest
from dynagate.base.progress import Progress, quiet
from dynagate.host.devices import board, cpu, cuda, fixed, numpy, programs, sim, tiers
from dynagate.host.devices.options import (
    DESIGN,
    FUNCTION,
    LOOP,
    MOTION,
    PROGRAM,
    ROLLOUT_DESIGN,
    DeviceOptions,
    Kind,
    Opener,
)
from dynagate.host.devices.sources import DesignSource

OPENERS: dict[tuple[Kind, str], Opener] = {
    (FUNCTION, "numpy"): Opener(numpy.Numpy, numpy.open_function, scans=True),
    (FUNCTION, "fixed"): Opener(fixed.IntegerExecutor, fixed.open_function, scans=True),
    (FUNCTION, "cpu"): Opener(cpu.Cpu, tiers.open_function, scans=True),
    (FUNCTION, "cuda"): Opener(cuda.Cuda, cuda.open_function, scans=True),
    (LOOP, "numpy"): Opener(numpy.LoopInNumpy, numpy.open_loop),
    (MOTION, "fixed"): Opener(fixed.MotionInFixed, fixed.open_motion),
    (LOOP, "cpu"): Opener(cpu.LoopOnCpu, cpu.open_loop),
    (LOOP, "cuda"): Opener(cuda.LoopOnCuda, cuda.open_loop),
    (DESIGN, "numpy"): Opener(numpy.DesignInNumpy, numpy.open_design),
    (DESIGN, "fixed"): Opener(fixed.DesignInFixed, fixed.open_design),
    (DESIGN, "sim"): Opener(sim.Sim, sim.open_design),
    (DESIGN, "board"): Opener(board.BoardExecutor, board.open_design),
    (ROLLOUT_DESIGN, "fixed"): Opener(fixed.DesignInFixed, fixed.open_design),
    (ROLLOUT_DESIGN, "sim"): Opener(sim.Sim, sim.open_design),
    (ROLLOUT_DESIGN, "board"): Opener(board.BoardExecutor, board.open_design),
    (PROGRAM, "sim"): Opener(programs.ProgramOnSim, programs.open_sim),
    (PROGRAM, "board"): Opener(board.BoardExecutor, programs.open_board),
    (PROGRAM, "fixed"): Opener(fixed.DesignInFixed, programs.open_fixed),
    (PROGRAM, "numpy"): Opener(numpy.LoopInNumpy, programs.open_numpy),
}
"""How a device opens a source, by the kind of source and the device's name."""

LABELS: dict[Kind, str] = {
    FUNCTION: "device '{}'",
    LOOP: "device '{}' of a rollout",
    MOTION: "device '{}' of a rollout",
    DESIGN: "device '{}' of a design",
    ROLLOUT_DESIGN: "device '{}' of a rollout design",
    PROGRAM: "device '{}' of a program",
}
"""How errors call a device that opens a kind of source."""


def devices_of(*kinds: Kind) -> list[str]:
    """Return the names of the devices that open one of these kinds of source."""
    return list(dict.fromkeys(name for kind, name in OPENERS if kind in kinds))


def name_of(device: str | DeviceOptions) -> str:
    """Return the name of a device.

    Args:
        device: The name, or an object with the device's options.

    Returns:
        The name.
    """
    return device.name if isinstance(device, DeviceOptions) else device


@dataclass(frozen=True)
class ChosenDevice:
    """A device with its options for one kind of source."""

    kind: Kind
    """Kind of source that it opens."""
    name: str
    """Name of the device."""
    opener: Opener
    """How the device opens this kind of source."""
    options: DeviceOptions
    """Checked options."""

    @property
    def loop_dtype(self) -> np.dtype[Any]:
        """Return the type of the numbers of a loop: that of the options, or float64."""
        return np.dtype(getattr(self.options, "dtype", None) or np.float64)

    def open(self, source: Any, progress: Progress = quiet) -> Any:
        """Open a source.

        Args:
            source: The source, of the kind `kind`.
            progress: Function that receives a line of text before each slow stage.

        Returns:
            The executor.
        """
        return self.opener.open(source, self.options, progress)


def chosen_device(kind: Kind, device: str | DeviceOptions, options: Mapping[str, Any]) -> ChosenDevice:
    """Return the device for a kind of source.

    Args:
        kind: Kind of source, which the device opens.
        device: Name of the device, or an object with its options.
        options: Options by name, if the device is given by its name.

    Returns:
        The device with its checked options.

    Raises:
        ArgumentError: The device does not take an option for this kind of source.
    """
    name = name_of(device)
    opener, label = OPENERS[kind, name], LABELS.get(kind, LABELS[DESIGN]).format(name)
    if isinstance(device, DeviceOptions):
        _check_names(label, device.changed(), opener)
        if options:
            raise ArgumentError(
                f"{', '.join(options)} together with {device!r:.60}; expected all of its options in its object",
                code="DG-DEVICE-060",
            )
        options = device.changed()
    _check_names(label, options, opener)
    return ChosenDevice(kind, name, opener, opener.options(**options))


def executor_of(design: Any, device: str, progress: Progress = quiet, **options: Any) -> Any:
    """Open a design as an executor, without the checks of a user's call.

    Args:
        design: What `dynagate.build` returned, or the path of its folder.
        device: Name of the device.
        progress: Function that receives a line of text before each slow stage.
        options: Options of the device by name.

    Returns:
        The executor.
    """
    source = DesignSource(design)
    return chosen_device(source.kind, device, options).open(source, progress)


def _check_names(label: str, options: Mapping[str, Any], opener: Opener) -> None:
    """Raise ArgumentError if an option has no field in the class of the device's options."""
    known = [each.name for each in fields(opener.options)]
    for name in options:
        if name not in known:
            expected = f"expected one of {', '.join(known)}" if known else "it takes none"
            raise ArgumentError(
                f"{label} takes no option '{name}'{nearest(name, known)}; {expected}", code="DG-DEVICE-061"
            )
