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
    """A function of a robot, or several of them."""

    robot: Robot
    """The robot."""
    function: str
    """Name of the function, or names separated by commas."""
    algorithm: AlgorithmOptions
    """Options of the algorithm."""


class LoopSource(NamedTuple):
    """A loop of graphs."""

    loop: Loop
    """The loop."""
    iterations: int | None
    """Number of iterations; None for a loop that states its own."""


class MotionSource(NamedTuple):
    """A rollout of a robot."""

    robot: Robot
    """The robot."""
    algorithm: AlgorithmOptions
    """Options of the algorithm of a step."""


class DesignSource:
    """A design. Its folder is read once.

    Args:
        design: What `dynagate.build` returned, or the path of its folder.

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
                f"open() got {design!r:.60}; expected what dynagate.build returned, or the path of its folder",
                code="DG-DEVICE-033",
            )

    @cached_property
    def kind(self) -> Kind:
        """Kind of the design, from its record. There are two kinds of pipelines.

        A folder without a record, or with one of unknown kind, counts as a pipeline: the error is raised when it is
        read.
        """
        body = self.built.design.body.kind if self.built is not None else body_of(self.folder)
        if body in BODIES and body != DatapathBody.kind:
            return body
        there = self.built is not None or os.path.isfile(self.folder / FILE)
        return ROLLOUT_DESIGN if there and self.record.keeps_states else DESIGN

    @cached_property
    def stored(self) -> DesignRecord[Any]:
        """Record in the folder, after its files were checked. Raises DesignError if they are missing or changed."""
        return load(self.folder)

    @property
    def record(self) -> DesignRecord[Any]:
        """Record of the design. Raises DesignError if it is read from a folder and damaged."""
        return self.stored if self.built is None else self.built.design

    @property
    def has_shell(self) -> bool:
        """Whether the design can run behind AXI streams and registers."""
        return self.record.is_loaded or self.record.axi is not None

    @cached_property
    def formatted(self) -> FormattedGraph:
        """Graph of a pipeline with its number formats. Raises DesignError if another version wrote the design."""
        if self.built is not None:
            return self.built.formatted
        return formatted_of(self.stored, self.folder, graph_of)

    @cached_property
    def functions(self) -> tuple[Formatted, ...]:
        """Graphs or loops of a program's functions. Raises DesignError if another version wrote the program."""
        from dynagate.hw.rebuild import rebuild

        built = rebuild(self.folder, record=self.stored) if self.built is None else self.built
        functions: tuple[Formatted, ...] = built.hardware.functions
        return functions
