"""Executor "sim": a design in simulation, compiled by Verilator on first use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.progress import Progress, quiet
from dynagate.host.devices.face import Executor
from dynagate.host.devices.options import DeviceOptions
from dynagate.host.devices.sources import DesignSource
from dynagate.host.devices.stream import stream_device
from dynagate.host.devices.stream_steps import StreamSteps
from dynagate.host.drivers import DatapathSession, ShellSession
from dynagate.host.links import DeviceLink
from dynagate.host.ring_drivers import DatapathRingDriver, ShellRingDriver
from dynagate.host.sim_links import SimLink, SimShellLink, checked_pauses

WITH_SHELL = "expected a design built with axi=Axi(...), or --axi WIDTH on the command line"


@dataclass(frozen=True)
class Simulation(DeviceOptions):
    """Options of a simulation, which Verilator compiles on first use."""

    name: ClassVar[str] = "sim"

    pauses: tuple[float, float] = (0.0, 0.0)
    """Probability in each cycle, 0 to 1, that the source has no data, and that the sink is not ready."""
    seed: int = 1
    """Seed of the random numbers that choose these cycles."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pauses", checked_pauses(self.pauses, self.seed))


@explained
@dataclass(frozen=True)
class Sim(Simulation):
    """Options of a pipeline in simulation: without its shell, or the whole accelerator."""

    shell: bool = False
    """Whether the AXI streams and registers of the accelerator are simulated too."""


def open_design(source: DesignSource, options: Sim, progress: Progress = quiet) -> Executor:
    """Return the simulation of a pipeline.

    Args:
        source: The design.
        options: Options of the simulation.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The device.
    """
    from dynagate.sim.verilate import library, rollout_library, shell_library

    design, folder, shows = source.stored, source.folder, progress is not quiet
    datapath, pauses, seed = folder / "datapath.v", options.pauses, options.seed
    if options.shell:
        if design.axi is None:
            raise ArgumentError(f"shell=True, but {folder} has no AXI shell; {WITH_SHELL}", code="DG-DEVICE-032")
        shell = shell_library(folder / "accelerator.v", datapath, progress=progress)
        return shell_device(design, SimShellLink(shell, design, pauses=pauses, seed=seed), shows_progress=shows)
    if design.body.ring is None:
        bare = SimLink(library(datapath, progress=progress), design, pauses=pauses, seed=seed)
        return stream_device(DatapathSession(design, bare, shows_progress=shows))
    ring = SimLink(rollout_library(folder / "rollout.v", datapath, progress=progress), design, pauses=pauses, seed=seed)
    return StreamSteps(design, DatapathRingDriver.opened(design, ring, shows_progress=shows))


def shell_device(design: Any, link: DeviceLink, *, shows_progress: bool) -> Executor:
    """Return the device of a pipeline in its AXI shell.

    Args:
        design: Record of the design.
        link: Link to the accelerator, which the device closes.
        shows_progress: Show on a terminal how far a long batch is.

    Returns:
        The device.
    """
    if design.body.ring is None:
        return stream_device(ShellSession(design, link, shows_progress=shows_progress))
    return StreamSteps(design, ShellRingDriver.opened(design, link, shows_progress=shows_progress))
