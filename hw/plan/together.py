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
"""Bits of the stream on which the beats of a result are counted."""


@dataclass(frozen=True)
class DesignCost:
    """Cost of one datapath."""

    name: str
    multipliers: int
    dsp_blocks: int
    lookup_tables: int
    """Estimated 6-input lookup tables."""
    register_bits: int
    """Bits of all delay lines."""
    cycles: int
    """Cycles from acceptance until the results are delivered."""
    words: int
    """32-bit words of a result on an AXI stream, with its tag."""

    @property
    def beats(self) -> int:
        """Return the beats of a result on a stream of STREAM bits."""
        return beats(self.words, STREAM)

    @classmethod
    def of(cls, name: str, planned: Plan) -> DesignCost:
        """Return the cost of a plan under a name."""
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
    """Costs of separate datapaths and of a shared one."""

    alone: tuple[DesignCost, ...]
    """Cost of each function in a separate datapath."""
    together: DesignCost
    """Cost of one datapath for all functions."""
    delivered: dict[str, int]
    """Cycles until the results of each function are delivered by the shared datapath."""

    def text(self) -> str:
        """Return a Markdown table of the costs."""
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
    """Plan each of several functions in a separate datapath, and all of them in one.

    Args:
        robot: Robot whose functions are planned.
        name: Names of the functions, separated by commas.
        ii: Initiation interval in cycles.
        region: Operating region that formats are for; inside the robot's limits unless given.
        policy: Word length and binary points.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        ArgumentError: A function or an option does not exist.
    """
    region = region or Region.of(robot)

    def planned(function: str) -> Plan:
        progress(f"planning {robot.name} {function}")
        return plan(assign(trace(robot, function), region, policy), ii)

    alone = tuple(DesignCost.of(part.name, planned(part.name)) for part in parts_of(name))
    whole = planned(name)
    return Comparison(alone, DesignCost.of(name, whole), {each.name: each.cycle for each in whole.deliveries})
