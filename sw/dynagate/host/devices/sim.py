"""Executor "sim": a design in simulation, compiled by Verilator on first use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.progress import Progress
from dynagate.host.devices.face import Executor
from dynagate.host.devices.options import DESIGN, ROLLOUT_DESIGN, DesignSource, DeviceOptions, taken_for
from dynagate.host.devices.stream import stream_device
from dynagate.host.devices.turns import StreamTurns
from dynagate.host.drivers import DatapathDriver, ShellDriver
from dynagate.host.ring_drivers import DatapathRingDriver, ShellRingDriver
from dynagate.host.sim_links import SimLink, SimShellLink, checked_pauses

if TYPE_CHECKING:
    pass

WITH_SHELL = "expected a design built with axi=Axi(...), or --axi WIDTH on the command line"


@explained
@dataclass(frozen=True)
class Sim(DeviceOptions):
    """A design in simulation: its bare datapath or ring, or the accelerator around it.

    pauses, seed: chances per cycle, 0 to 1, that the source has nothing and that the sink is not ready, and what
    decides when. shell: simulate the accelerator with its AXI streams and registers.
    """

    name: ClassVar[str] = "sim"
    opens: ClassVar[tuple[str, ...]] = (DESIGN, ROLLOUT_DESIGN)

    pauses: tuple[float, float] = field(default=(0.0, 0.0), metadata=taken_for(DESIGN))
    seed: int = field(default=1, metadata=taken_for(DESIGN))
    shell: bool = field(default=False, metadata=taken_for(DESIGN))

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pauses", checked_pauses(self.pauses, self.seed))

    def of_design(self, source: DesignSource, progress: Progress | None = None) -> Executor:
        design, folder, shows = source.kept, source.folder, progress is not None
        from dynagate.sim.verilate import library, rollout_library, shell_library

        if self.shell:
            if design.axi is None:
                raise ArgumentError(f"shell=True, but {folder} has no AXI shell; {WITH_SHELL}")
            shell = shell_library(folder / "accelerator.v", folder / "datapath.v", progress=progress)
            whole = SimShellLink(shell, design, pauses=self.pauses, seed=self.seed)
            if design.body.ring is None:
                return stream_device(ShellDriver, design, whole, shows_progress=shows)
            return StreamTurns(design, ShellRingDriver(design, whole, shows_progress=shows))
        if design.body.ring is None:
            bare = SimLink(
                library(folder / "datapath.v", progress=progress), design, pauses=self.pauses, seed=self.seed
            )
            return stream_device(DatapathDriver, design, bare, shows_progress=shows)
        ring = rollout_library(folder / "rollout.v", folder / "datapath.v", progress=progress)
        bare = SimLink(ring, design, pauses=self.pauses, seed=self.seed)
        return StreamTurns(design, DatapathRingDriver(design, bare, shows_progress=shows))
