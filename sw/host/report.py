"""The main job, end to end: build, simulate, stream random states, compare with the other ways to compute it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from dynagate import truth
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.evaluate import evaluate as evaluate_fixed
from dynagate.fixedpoint.goal import Goal
from dynagate.graph.evaluate import evaluate
from dynagate.host.accelerator import open
from dynagate.hw.build import Build, build
from dynagate.hw.plan import Stages
from dynagate.region import Region
from dynagate.robot import Robot

ERROR_LIMIT = 1e-3
"""Relative L2 error of a block that a result may have: what the published accelerators reach."""


@dataclass(frozen=True)
class Block:
    """Errors of one output over the states: relative L2, median, largest and at the report's quantile, against the
    float64 graph, and (where there is one) largest against the truth computed another way. exact: every integer equals
    the integer executor's. limit: of the errors."""

    name: str
    exact: bool
    median: float
    largest: float
    at_quantile: float
    truth_largest: float | None
    limit: float


@dataclass(frozen=True)
class Report:
    """Passed where every integer is equal, nothing overflowed, results came at full speed, and a quantile of the states
    (1: all) has errors of at most each block's limit."""

    built: Build
    states: int
    latency: int
    cycles_per_sample: float
    overflows: int
    blocks: tuple[Block, ...]
    quantile: float

    @property
    def passed(self) -> bool:
        return (
            all(b.exact and b.at_quantile <= b.limit for b in self.blocks)
            and (self.quantile < 1.0 or all((b.truth_largest or 0.0) <= b.limit for b in self.blocks))
            and self.overflows == 0
            and (self.states < 2 or self.cycles_per_sample == self.built.plan.ii)
        )

    def _words(self) -> str:
        word = self.built.design["formats"]["word"]
        widths = [f.width for f in self.built.formatted.formats]
        return f"{word}-bit words" if isinstance(word, int) else f"words of {min(widths)} to {max(widths)} bits"

    def text(self) -> str:
        design, plan = self.built.design, self.built.plan
        c = design["counts"]
        units = design["units"]
        lines = [
            f"{self.built.robot.name} {self.built.graph.name}, {self._words()}, II = {plan.ii}",
            f"  operations      {c['mul']} products, {c['mul_const']} constant products, {c['add']} additions, "
            f"{c['neg']} negations, {c['reciprocal']} reciprocals, {c['trig']} sin/cos, depth {c['depth']}",
            f"  units           {units.get('multiply', 0)} multipliers, {units.get('sincos', 0)} sin/cos, "
            f"{units.get('reciprocal', 0)} reciprocal; {design['dsp_blocks']} DSP48E2 blocks (counted)",
            f"  registers       {design['registers']['words']} words, {design['registers']['bits']} bits "
            "(datapath values)",
            f"  latency         {self.latency} cycles measured; {plan.latency} in the datapath, "
            f"{plan.schedule.problem.critical_path()} on its longest path",
            f"  throughput      {self.cycles_per_sample:g} cycles per result measured over {self.states} states",
            f"  overflows       {self.overflows} states",
            "  relative L2 error per state      against float64        against truth*   integers",
            "                                  median   largest              largest",
        ]
        for b in self.blocks:
            other = "      -" if b.truth_largest is None else f"{b.truth_largest:.1e}"
            lines.append(
                f"    {b.name:<26}   {b.median:.1e}   {b.largest:.1e}              {other}   "
                f"{'equal' if b.exact else 'DIFFER'}"
            )
        lines.append("  * Newton-Euler by complex step, M from unit accelerations, LU; inputs not quantised")
        lines.append("PASS" if self.passed else "FAIL")
        return "\n".join(lines)


def check_on_simulator(
    robot: Robot,
    function: str,
    *,
    ii: int,
    word: int = 24,
    region: Region | None = None,
    goal: Goal | None = None,
    formats: str | PathLike[str] | None = None,
    stages: Stages | None = None,
    folder: str | PathLike[str],
    states: int = 1024,
    seed: int = 1,
    step: Callable[[str], Any] | None = None,
    **options: Any,
) -> Report:
    """Build, compile, stream `states` random states and compare. The errors are those of `build` and `open`."""
    say = step or (lambda text: None)
    built = build(
        robot,
        function,
        ii=ii,
        policy=Policy(word=word) if goal is None else None,
        goal=goal,
        formats=formats,
        stages=stages,
        region=region,
        folder=folder,
        step=say,
        **options,
    )
    inputs: dict[str, Any] = {**built.region.sample(function, states, seed)}
    with open(built, step=say) as accelerator:
        say(f"streaming {states} states")
        results = accelerator(**inputs)
        transfer = accelerator.transfer
    say("comparing")
    reference = evaluate(built.graph, inputs)
    fixed = evaluate_fixed(built.formatted, inputs)
    other: dict[str, Any] = {}
    if function in ("forward_dynamics", "forward_dynamics_gradient"):
        other = truth.forward_dynamics_gradient(robot, inputs)
    quantile = goal.quantile if goal else 1.0
    blocks = []
    for name, expected in reference.items():
        got = getattr(results, name)
        errors = truth.relative_errors(got, expected)
        blocks.append(
            Block(
                name,
                bool(np.array_equal(got, fixed.outputs[name]) and np.array_equal(results.overflow, fixed.overflow)),
                float(np.median(errors)),
                float(errors.max()),
                float(np.quantile(errors, quantile)),
                float(truth.relative_errors(got, other[name]).max()) if name in other else None,
                goal.of(name) if goal else ERROR_LIMIT,
            )
        )
    overflows = int(results.overflow.sum())
    return Report(built, states, transfer.latency, transfer.per_sample, overflows, tuple(blocks), quantile)
