"""Compare the cost of separate datapaths with that of one shared datapath, by plans and without writing Verilog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dynagate.base.progress import Progress, quiet
from dynagate.design.words import beats
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.graph import trace
from dynagate.graph.parts import parts_of
from dynagate.graph.region import Region
from dynagate.hw.plan.cost import lookup_tables
from dynagate.hw.plan.plan import Plan, plan
from dynagate.robot import Robot

STREAM = 512
"""Bits of the stream whose beats are counted."""


@dataclass(frozen=True)
class DesignCost:
    """Cost of a design.

    lookup_tables: estimated. cycles: until the results are delivered. words, beats: size of a result on an AXI stream
    of STREAM bits, with the tag counted among the words.
    """

    name: str
    multipliers: int
    dsp_blocks: int
    lookup_tables: int
    register_bits: int
    cycles: int
    words: int

    @property
    def beats(self) -> int:
        return beats(self.words, STREAM)

    @classmethod
    def of(cls, name: str, planned: Plan) -> DesignCost:
        return cls(
            name,
            planned.unit_counts()["multiply"],
            planned.dsp_blocks(),
            lookup_tables(planned).total(),
            planned.register_bits(),
            planned.latency,
            len(planned.formatted.graph.result_nodes),
        )


@dataclass(frozen=True)
class Comparison:
    """alone: the functions in separate datapaths. together: all in one. delivered: by function the cycles until its
    results are delivered there."""

    alone: tuple[DesignCost, ...]
    together: DesignCost
    delivered: dict[str, int]

    def text(self) -> str:
        """A table in Markdown."""
        head = ["", "multipliers", "DSP48E2", "LUT, estimated", "register bits", "cycles", "cycles together", "words"]
        head.append(f"beats of {STREAM}")
        rows: list[Sequence[Any]] = [head, ["---"] * len(head)]
        for cost in self.alone:
            rows.append((*_columns(cost), cost.cycles, self.delivered[cost.name], cost.words, cost.beats))
        most = max(self.alone, key=lambda cost: cost.multipliers)
        rows.append((*_columns(self.together), self.together.cycles, "", "", ""))
        added = [
            f"{(here - there) / there:+.1%}"
            for here, there in zip(_columns(self.together)[1:], _columns(most)[1:], strict=True)
        ]
        rows.append((f"more than {most.name}", *added, "", "", "", ""))
        return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def _columns(cost: DesignCost) -> tuple[Any, ...]:
    return f"`{cost.name}`", cost.multipliers, cost.dsp_blocks, cost.lookup_tables, cost.register_bits


def compare(
    robot: Robot,
    name: str,
    *,
    ii: int,
    region: Region | None = None,
    policy: Policy | None = None,
    progress: Progress = quiet,
) -> Comparison:
    """Plan each of several functions in a separate datapath, and all of them in one. Raises ValueError as `plan` and
    `trace` do.
    """
    region = region or Region.of(robot)

    def planned(function: str) -> Plan:
        progress(f"planning {robot.name} {function}")
        return plan(assign(trace(robot, function), region, policy), ii)

    alone = tuple(DesignCost.of(part.name, planned(part.name)) for part in parts_of(name))
    whole = planned(name)
    return Comparison(alone, DesignCost.of(name, whole), {each.name: each.cycle for each in whole.deliveries})
