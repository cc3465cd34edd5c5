"""From a rollout design to a `ChipRollout` on a device."""

from __future__ import annotations

from pathlib import Path

from dynagate.base.errors import ArgumentError
from dynagate.design.files import load
from dynagate.design.rebuilt import formatted_design
from dynagate.host.board_links import LinkText
from dynagate.host.devices import Step
from dynagate.host.ring import DatapathRing, IntegerRing, RingDevice, ShellRing
from dynagate.host.sim_links import SimLink, SimShellLink
from dynagate.integrators.turn import graph_of


def sim_ring(
    folder: Path,
    *,
    pauses: tuple[float, float] = (0.0, 0.0),
    seed: int = 1,
    shell: bool = False,
    step: Step | None = None,
) -> RingDevice:
    """A rollout design in simulation: its bare ring, or the whole accelerator. Raises ValueError: it has no shell."""
    from dynagate.sim.verilate import rollout_library, shell_library

    design, progress = load(folder), step is not None
    if not shell:
        library = rollout_library(folder / "rollout.v", folder / "datapath.v", step=step)
        return DatapathRing(design, SimLink(library, design, pauses=pauses, seed=seed), progress=progress)
    if design.axi is None:
        raise ArgumentError(f"shell=True, but {folder} has no AXI shell; expected a design built with axi=Axi(...)")
    library = shell_library(folder / "accelerator.v", folder / "datapath.v", step=step)
    return ShellRing(design, SimShellLink(library, design, pauses=pauses, seed=seed), progress=progress)


def board_ring(folder: Path, *, link: str | None = None, step: Step | None = None) -> RingDevice:
    """A rollout design on a board. Raises ValueError: no link has this text."""
    if link is None:
        raise ArgumentError("device 'board' without a link; expected link='xdma:/dev/xdma0' or another")
    text, design = LinkText.of(link), load(folder)
    if step:
        step(f"opening {link}")
    return ShellRing(design, text.opened(design), progress=step is not None)


def fixed_ring(folder: Path, *, step: Step | None = None) -> RingDevice:
    """The integers of a rollout design."""
    return IntegerRing(load(folder), formatted_design(folder, graph_of=graph_of))


RING_DEVICES = {"sim": sim_ring, "fixed": fixed_ring, "board": board_ring}
