"""Sources: what a device opens."""

from __future__ import annotations

import os
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dynagate.base.errors import ArgumentTypeError
from dynagate.design.bodies import BODIES
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord
from dynagate.design.files import FILE, body_of, load
from dynagate.design.rebuilt import formatted_of
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.loop import Loop
from dynagate.host.devices.options import DESIGN, ROLLOUT_DESIGN, Kind
from dynagate.integrators.design_graph import graph_of
from dynagate.robot import Robot

if TYPE_CHECKING:
    from dynagate.fixedpoint.formatted import Formatted, FormattedGraph


class FunctionSource(NamedTuple):
    """A function of a robot, or several with commas between their names."""

    robot: Robot
    function: str
    algorithm: AlgorithmOptions


class LoopSource(NamedTuple):
    """A loop of graphs and its number of iterations; None for a loop that has its own."""

    loop: Loop
    iterations: int | None


class MotionSource(NamedTuple):
    """A robot's rollout, as the algorithm of its step."""

    robot: Robot
    algorithm: AlgorithmOptions


class DesignSource:
    """A design: what `dynagate.build` returned, or the path of its folder, which is read once.

    Raises:
        ArgumentTypeError: The argument is neither.
    """

    def __init__(self, design: Any) -> None:
        is_path = isinstance(design, str | PathLike)
        self.built: Any = None if is_path else design
        """The result of `dynagate.build`; None for a path."""
        if is_path:
            path = Path(design)
            self.folder = path.parent if path.name == FILE else path
        elif hasattr(design, "design"):
            self.folder = design.folder
        else:
            raise ArgumentTypeError(
                f"open() got {design!r:.60}; expected what dynagate.build returned, or the path of its folder"
            )

    @cached_property
    def kind(self) -> Kind:
        """The kind of design: its body, but for pipelines, of which there are two kinds.

        A folder without a record, or with one of an unknown body, counts as a pipeline: reading it then raises the
        error.
        """
        body = self.built.design.body.kind if self.built is not None else body_of(self.folder)
        if body in BODIES and body != DatapathBody.kind:
            return body
        there = self.built is not None or os.path.isfile(self.folder / FILE)
        return ROLLOUT_DESIGN if there and self.record.keeps_states else DESIGN

    @cached_property
    def stored(self) -> DesignRecord[Any]:
        """The record in the folder, whose files are checked. Raises DesignError."""
        return load(self.folder)

    @property
    def record(self) -> DesignRecord[Any]:
        """The record of the design. Raises DesignError, if the design is a path."""
        return self.stored if self.built is None else self.built.design

    @property
    def has_shell(self) -> bool:
        """Whether the design can run behind AXI streams and registers."""
        return self.record.is_loaded or self.record.axi is not None

    @cached_property
    def formatted(self) -> FormattedGraph:
        """The graph of a pipeline and its formats. Raises DesignError: another version wrote the design."""
        if self.built is not None:
            return self.built.formatted
        return formatted_of(self.stored, self.folder, graph_of)

    @cached_property
    def functions(self) -> tuple[Formatted, ...]:
        """The graphs or loops of a program's functions. Raises DesignError: another version wrote the program."""
        from dynagate.hw.rebuild import rebuild

        built = rebuild(self.folder, record=self.stored) if self.built is None else self.built
        functions: tuple[Formatted, ...] = built.hardware.functions
        return functions
