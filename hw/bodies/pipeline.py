"""The pipelined datapath of a design: scheduled by a build, or rebuilt from the design's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynagate.base import untrusted
from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import REBUILD, DesignError, DesignRecord
from dynagate.design.rebuilt import formatted_of
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.graph import Graph
from dynagate.hw.designs import Design, Hardware, Resources
from dynagate.hw.plan.plan import Plan, Stages, plan
from dynagate.integrators.design_graph import graph_of

if TYPE_CHECKING:
    from dynagate.hw.vectors.drawn import Vectors
    from dynagate.hw.vectors.subject import Subject


@dataclass(frozen=True)
class Pipeline(Hardware):
    """Schedule and units of a datapath."""

    plan: Plan

    @property
    def formatted(self) -> FormattedGraph:
        """Return the graph with its formats."""
        return self.plan.formatted

    @property
    def graph(self) -> Graph:
        """Return the graph that the datapath computes."""
        return self.formatted.graph

    @property
    def title(self) -> str:
        """Return the robot and the function, as plain text."""
        return f"{untrusted.plain_text(self.graph.robot)} {self.graph.name}"

    def resources(self, record: DesignRecord[DatapathBody]) -> Resources:
        """Return the resources in the record, estimated before synthesis."""
        body = record.body
        return Resources(body.dsp_blocks, sum(body.lookup_tables_estimated.values()), body.registers.bits, None)

    def summary(self, design: Design[Any]) -> str:
        """Return the head of the datasheet."""
        from dynagate.hw.bodies.pipeline_datasheet import summary

        return summary(design)

    def vectors(self, design: Design[Any], seed: int) -> dict[str, Vectors]:
        """Return random samples and their results for the bench of each module, by module."""
        from dynagate.hw.vectors.drawn import SAMPLES
        from dynagate.hw.vectors.vectors import vectors

        return vectors(design, SAMPLES, seed)

    @classmethod
    def subject(cls, record: DesignRecord[DatapathBody], module: str, late: Sequence[int]) -> Subject:
        """Return what a bench of a module streams, and in how many cycles."""
        from dynagate.hw.vectors.subject import datapath_subject

        return datapath_subject(record, module, late)

    @classmethod
    def rebuild(cls, record: DesignRecord[DatapathBody], folder: Path, progress: Progress) -> Pipeline:
        """Schedule the design again and compare the schedule with its record."""
        formatted = formatted_of(record, folder, graph_of)
        progress("scheduling and binding")
        try:
            stages = Stages(**asdict(record.body.stages))
        except ArgumentError as error:
            raise DesignError(f"{folder} is not a design: {error}; {REBUILD}", code="DG-HW-001") from None
        planned = plan(formatted, record.body.ii, stages)
        ready = [planned.ready(i) if i in planned.position else None for i in range(len(record.body.nodes))]
        if ready != [node.ready for node in record.body.nodes]:
            raise DesignError(
                f"{folder} has a schedule that its robot and function do not give again; {REBUILD}", code="DG-HW-002"
            )
        return cls(planned)
