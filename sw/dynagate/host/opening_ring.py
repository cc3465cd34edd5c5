"""From a rollout design, or a robot, to what computes a `ChipRollout`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.design.files import load
from dynagate.design.rebuilt import formatted_design
from dynagate.dynamics import ROLLOUT, AlgorithmOptions
from dynagate.graph.region import Region
from dynagate.host.board_links import LinkText
from dynagate.host.devices import Step
from dynagate.host.ring import DatapathRing, IntegerRing, RingDevice, ShellRing
from dynagate.host.sim_links import SimLink, SimShellLink
from dynagate.integrators.turn import graph_of
from dynagate.robot import Robot


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
    design = load(folder)
    assert design.ring is not None
    return IntegerRing(formatted_design(folder, graph_of=graph_of), dict(design.ring.carry), design)


def ring_of_robot(robot: Robot, algorithm: AlgorithmOptions, device: str, options: Mapping[str, Any]) -> RingDevice:
    """A robot's rollout in integers, "fixed", or built and simulated, "sim". options: those of the device in
    `rollouts.DEVICES`."""
    from dynagate.fixedpoint.assign import assign
    from dynagate.hw.build import DEFAULT_FOLDER, build_request
    from dynagate.hw.request import DesignRequest

    own = dict(options)
    region = own.pop("region", None) or Region.of(robot)
    if device == "fixed":
        return IntegerRing(assign(graph_of(robot, ROLLOUT, **algorithm.as_dict()), region, own.get("policy")))
    simulation = {name: own.pop(name) for name in ("pauses", "seed") if name in own}
    folder = own.pop("folder", DEFAULT_FOLDER)
    built = build_request(DesignRequest(robot, ROLLOUT, region=region, algorithm=algorithm, **own), folder=folder)
    return sim_ring(built.folder, **simulation)


RING_DEVICES = {"sim": sim_ring, "fixed": fixed_ring, "board": board_ring}
