"""Device "sim": a design in simulation, compiled by Verilator on first use."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.extras import brought_by
from dynagate.base.progress import Progress
from dynagate.dynamics import ROLLOUT
from dynagate.dynamics.options import AlgorithmOptions
from dynagate.host.devices.face import Device
from dynagate.host.devices.options import DESIGN, FUNCTION, ROLLOUT_DESIGN, DesignSource, DeviceOptions, taken_for
from dynagate.host.devices.stream import stream_device
from dynagate.host.devices.turns import StreamTurns, TurnDevice
from dynagate.host.drivers import DatapathDriver, ShellDriver
from dynagate.host.ring_drivers import DatapathRingDriver, ShellRingDriver
from dynagate.host.sim_links import SimLink, SimShellLink, checked_pauses
from dynagate.hw.options import DEFAULT_FOLDER, DesignOptions
from dynagate.robot import Robot

if TYPE_CHECKING:
    from dynagate.hw.processor.shape import Core

WITH_SHELL = "expected a design built with axi=Axi(...), or --axi WIDTH on the command line"


@explained
@dataclass(frozen=True)
class Sim(DesignOptions, DeviceOptions):
    """A design in simulation: its bare datapath or ring, or the whole accelerator. A robot is built first.

    units: a program on a processor of so many multiply-add units, or on this core, instead of a datapath.
    folder: where the design is kept. pauses, seed: chances per cycle, 0 to 1, that the source has nothing and that the
    sink is not ready, and what decides when. shell: simulate the accelerator with its AXI streams and registers.
    """

    name: ClassVar[str] = "sim"
    opens: ClassVar[tuple[str, ...]] = (FUNCTION, ROLLOUT, DESIGN, ROLLOUT_DESIGN)
    together: ClassVar[bool] = True
    keeps_states: ClassVar[bool] = True

    units: int | Core | None = field(default=None, metadata=taken_for(FUNCTION))
    folder: str | PathLike[str] = DEFAULT_FOLDER
    pauses: tuple[float, float] = field(default=(0.0, 0.0), metadata=taken_for(FUNCTION, ROLLOUT, DESIGN))
    seed: int = field(default=1, metadata=taken_for(FUNCTION, ROLLOUT, DESIGN))
    shell: bool = field(default=False, metadata=taken_for(FUNCTION, ROLLOUT, DESIGN))

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pauses", checked_pauses(self.pauses, self.seed))

    def of_function(
        self, robot: Robot, function: str, algorithm: AlgorithmOptions, progress: Progress | None
    ) -> Device:
        if self.shell and self.axi is None:
            raise ArgumentError(f"shell=True without axi; {WITH_SHELL}")
        with brought_by("hw", "device 'sim'"):
            from dynagate.hw.build import build_request
            from dynagate.hw.request import DesignRequest

        own = {each.name: getattr(self, each.name) for each in fields(DesignOptions)}
        request = DesignRequest(robot, function, **own, algorithm=algorithm)
        if self.units is not None:
            from dynagate.host.processor import open_sim
            from dynagate.hw.processor.build import build_program

            programmed = build_program(request, self.units, folder=Path(self.folder), progress=progress)
            return open_sim(programmed, axi=self.axi, pauses=self.pauses, seed=self.seed, progress=progress)
        return self.of_design(DesignSource(build_request(request, folder=self.folder, progress=progress)), progress)

    def of_rollout(self, robot: Robot, algorithm: AlgorithmOptions, progress: Progress | None = None) -> TurnDevice:
        turns = self.of_function(robot, ROLLOUT, algorithm, progress)
        assert isinstance(turns, TurnDevice)
        return turns

    def of_design(self, source: DesignSource, progress: Progress | None = None) -> Device:
        design, folder, shows = source.kept, source.folder, progress is not None
        from dynagate.sim.verilate import library, rollout_library, shell_library

        if self.shell:
            if design.axi is None:
                raise ArgumentError(f"shell=True, but {folder} has no AXI shell; {WITH_SHELL}")
            shell = shell_library(folder / "accelerator.v", folder / "datapath.v", progress=progress)
            whole = SimShellLink(shell, design, pauses=self.pauses, seed=self.seed)
            if design.ring is None:
                return stream_device(ShellDriver, design, whole, shows_progress=shows)
            return StreamTurns(design, ShellRingDriver(design, whole, shows_progress=shows))
        if design.ring is None:
            bare = SimLink(
                library(folder / "datapath.v", progress=progress), design, pauses=self.pauses, seed=self.seed
            )
            return stream_device(DatapathDriver, design, bare, shows_progress=shows)
        ring = rollout_library(folder / "rollout.v", folder / "datapath.v", progress=progress)
        bare = SimLink(ring, design, pauses=self.pauses, seed=self.seed)
        return StreamTurns(design, DatapathRingDriver(design, bare, shows_progress=shows))
