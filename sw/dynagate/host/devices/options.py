"""What a user chooses of a device, in one object for each, and what a device opens."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dynagate.base.arguments import check_flags, check_kind, check_number_type, equal, store_plain_numbers
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.progress import Progress
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import Design
from dynagate.design.files import FILE, load_datapath
from dynagate.design.rebuilt import formatted_of
from dynagate.dynamics import ROLLOUT
from dynagate.dynamics import function as function_row
from dynagate.dynamics.options import AlgorithmOptions
from dynagate.graph import Graph, trace
from dynagate.graph.region import Region
from dynagate.host.devices.face import Executor
from dynagate.host.devices.parts import FunctionsDevice
from dynagate.host.devices.scan import SCAN, packing_of, scanned
from dynagate.integrators.turn import graph_of
from dynagate.robot import Robot

if TYPE_CHECKING:
    from dynagate.fixedpoint.assign import FormattedGraph
    from dynagate.graph.loop import Loop
    from dynagate.host.devices.loops import Compute
    from dynagate.host.devices.turns import TurnDevice
    from dynagate.hw.designs import Design as Built
    from dynagate.hw.pipeline import Pipeline

FUNCTION, DESIGN, ROLLOUT_DESIGN = "function", "design", "rollout design"
"""What a device may open: a robot's function, the design of one, and the design of a rollout; and a robot's ROLLOUT."""
TAKEN_FOR = "taken for"


def taken_for(*what: str) -> dict[str, tuple[str, ...]]:
    """Metadata of a field of a device's options: for which of what it opens the device takes it. A field without is
    taken for all that it opens from a robot."""
    return {TAKEN_FOR: what}


class DesignSource:
    """A design that is opened, by what `build` returned or by its folder, which is read once. Raises TypeError: it is
    none of them."""

    def __init__(self, what: Built[Pipeline] | str | PathLike[str]) -> None:
        self._built = None if isinstance(what, str | PathLike) else what
        if isinstance(what, str | PathLike):
            path = Path(what)
            self.folder = path.parent if path.name == FILE else path
        elif hasattr(what, "design"):
            self.folder = what.folder
        else:
            raise ArgumentTypeError(
                f"open() got {what!r:.60}; expected what dynagate.build returned, or the path of its folder"
            )

    @cached_property
    def kept(self) -> Design[DatapathBody]:
        """As the folder has it, its files checked. Raises DesignError."""
        return load_datapath(self.folder)

    @property
    def design(self) -> Design[DatapathBody]:
        return self.kept if self._built is None else self._built.design

    @cached_property
    def formatted(self) -> FormattedGraph:
        """Raises DesignError: as `formatted_of`."""
        return formatted_of(self.kept, self.folder, graph_of) if self._built is None else self._built.formatted

    @property
    def is_rollout(self) -> bool:
        """Of a path that holds no design the device says so."""
        there = self._built is not None or os.path.isfile(self.folder / FILE)
        return there and self.design.body.ring is not None


@dataclass(frozen=True)
class DeviceOptions:
    """A device and its options. A subclass for each device has a field for each option, and a method for each of what
    it opens.

    opens: some of FUNCTION, ROLLOUT, DESIGN and ROLLOUT_DESIGN. together: several functions of a robot are one graph.
    scans: it computes loops over links (`of_scan`).
    keeps_states: a robot's rollout is a device whose outputs are per turn (`of_rollout`), not a loop (`of_loop`).
    """

    name: ClassVar[str]
    opens: ClassVar[tuple[str, ...]]
    together: ClassVar[bool] = False
    scans: ClassVar[bool] = False
    keeps_states: ClassVar[bool] = False

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        flags = {each.name: getattr(self, each.name) for each in fields(self) if isinstance(each.default, bool)}
        check_flags(**flags)
        check_kind("region", getattr(self, "region", None), Region)
        if getattr(self, "dtype", None) is not None:
            check_number_type(self.dtype)  # type: ignore[attr-defined]

    @classmethod
    def taken(cls, what: str) -> list[str]:
        """The options that the device takes for one of what it opens."""
        kind = DESIGN if what == ROLLOUT_DESIGN else what
        return [each.name for each in fields(cls) if kind in each.metadata.get(TAKEN_FOR, (FUNCTION, ROLLOUT))]

    def changed(self) -> list[str]:
        """The options that differ from their defaults."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return [name for name, (value, default) in values.items() if not equal(value, default)]

    def of_robot(
        self, robot: Robot, name: str, algorithm: AlgorithmOptions, progress: Progress | None = None
    ) -> Executor:
        """A function of a robot, or several."""
        row = function_row(name)
        if not row.parts or self.together:
            return self.of_function(robot, row.name, algorithm, progress)
        devices = {part.name: self.of_function(robot, part.name, algorithm, progress) for part in row.parts}
        return FunctionsDevice(row.name, devices)

    def of_function(
        self, robot: Robot, function: str, algorithm: AlgorithmOptions, progress: Progress | None
    ) -> Executor:
        if self.scans and (loop := scanned(robot, function, algorithm, self.changed())):
            device = self.of_scan(loop, algorithm.external_forces, progress)
            device.packing = packing_of(loop) if getattr(self, "pack", False) else None
            return device
        return self.of_graph(self.traced(robot, function, algorithm, progress), progress)

    def traced(self, robot: Robot, function: str, algorithm: AlgorithmOptions, progress: Progress | None) -> Graph:
        """The graph of a function."""
        return trace(robot, function, progress=progress, **algorithm.as_dict())

    def check_form(self, form: str | None, scanning: Sequence[str]) -> None:
        """Raises ValueError: the form is a loop over links, which this device does not compute. scanning: those that
        do."""
        if form == SCAN and not self.scans:
            expected = ", ".join(scanning)
            raise ArgumentError(f"form '{SCAN}' on device '{self.name}'; expected one of {expected}, or another form")

    def of_scan(self, loop: Loop, external_forces: bool, progress: Progress | None = None) -> Executor:
        """A function as a loop over links."""
        raise NotImplementedError(f"device '{self.name}' opens no loop over links")

    def of_graph(self, graph: Graph, progress: Progress | None = None) -> Executor:
        raise NotImplementedError(f"device '{self.name}' opens no graph")

    def of_design(self, source: DesignSource, progress: Progress | None = None) -> Executor:
        raise NotImplementedError(f"device '{self.name}' opens no design")

    def of_loop(self, loop: Loop, turns: int | None) -> Compute:
        """What computes a loop of so many turns, or of those that it says itself. dtype: the arrays'."""
        raise NotImplementedError(f"device '{self.name}' opens no loop")

    def of_rollout(self, robot: Robot, algorithm: AlgorithmOptions, progress: Progress | None = None) -> TurnDevice:
        """A robot's rollout whose outputs are per turn, where the states stay on the chip."""
        raise NotImplementedError(f"device '{self.name}' keeps no states")
