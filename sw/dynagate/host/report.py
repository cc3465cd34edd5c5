"""The main job, end to end: build, simulate, stream random states, compare with the other ways to compute it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from dynagate.base.progress import Progress
from dynagate.dynamics import Part
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.confidence import WHICH, block_floors
from dynagate.fixedpoint.evaluate import evaluate as evaluate_fixed
from dynagate.fixedpoint.goal import FLOOR, Goal
from dynagate.graph import truth
from dynagate.graph.certificate import CERTIFICATE
from dynagate.graph.evaluate import evaluate
from dynagate.graph.parts import parts_of, with_code
from dynagate.graph.region import Kind
from dynagate.host.devices.abreast import flagged_together
from dynagate.host.function import Function
from dynagate.host.opening import open
from dynagate.host.results import Results
from dynagate.host.verdict import BUG, Rule, of_blocks, of_overflows, passed, verdict
from dynagate.hw.build import Build, build_request
from dynagate.hw.request import DesignRequest

if TYPE_CHECKING:
    from dynagate.hw.processor.build import ProcessorBuild

ERROR_LIMIT = 1e-3
"""Relative L2 error of a block that a result may have: what the published accelerators reach."""


@dataclass(frozen=True)
class Block:
    """Errors of one output against the float64 graph. median, at_quantile, largest: of uniform states; limits, rest:
    the largest at the region's limits and near rest; truth: the largest against the truth computed another way, None
    where there is none. exact: every integer equals the integer executor's. allowed: what `at_quantile` may be.
    An error is |e| / max(|x|, floor) over the block. Of a certificate it is the one that it allows q̈, and `exact` also
    says that none is less than q̈'s error."""

    name: str
    exact: bool
    median: float
    at_quantile: float
    largest: float
    limits: float
    rest: float
    truth: float | None
    allowed: float


@dataclass(frozen=True)
class Report:
    """function: the one that the build computes, or one of several. states, overflows: by kind of states. quantile: of
    uniform states that must keep the allowed error (1: all)."""

    built: Build
    function: str
    states: dict[Kind, int]
    overflows: dict[Kind, int]
    latency: int
    cycles_per_sample: float
    blocks: tuple[Block, ...]
    quantile: float

    @property
    def rules(self) -> list[Rule]:
        """Every integer is equal, results came at full speed, errors are within what is allowed, and no more states of
        each kind overflowed than designs for an accuracy may have."""
        ii, several = self.built.plan.ii, sum(self.states.values()) > 1
        speed = f"{self.cycles_per_sample:g}"
        return [
            *of_blocks(self.blocks, self.quantile),
            *of_overflows(self.overflows, self.states),
            Rule("cycles per result", speed, f"{ii}, its II", not several or self.cycles_per_sample == ii, BUG),
        ]

    @property
    def passed(self) -> bool:
        """Whether all rules hold."""
        return passed(self.rules)

    def _words(self) -> str:
        word = self.built.design.formats.word
        widths = [f.width for f in self.built.formatted.formats]
        return f"{word}-bit words" if isinstance(word, int) else f"words of {min(widths)} to {max(widths)} bits"

    def _cycles(self) -> int:
        """From a sample's entry until its results are delivered."""
        return next(delivery.cycle for delivery in self.built.plan.deliveries if delivery.name == self.function)

    def text(self) -> str:
        design, plan = self.built.design, self.built.plan
        c = design.counts
        units = design.units
        lines = [
            f"{self.built.robot.name} {self.function}, {self._words()}, II = {plan.ii}",
            f"  operations      {c['mul']} products, {c['mul_const']} constant products, {c['add']} additions, "
            f"{c['neg']} negations, {c['reciprocal']} reciprocals, {c['trig']} sin/cos, depth {c['depth']}",
            f"  units           {units.get('multiply', 0)} multipliers, {units.get('sincos', 0)} sin/cos, "
            f"{units.get('reciprocal', 0)} reciprocal; {design.dsp_blocks} DSP48E2 blocks (counted)",
            f"  registers       {design.registers.words} words, {design.registers.bits} bits (datapath values)",
            f"  latency         {self.latency} cycles measured; {self._cycles()} in the datapath, "
            f"{plan.schedule.problem.critical_path()} on its longest path",
            f"  throughput      {self.cycles_per_sample:g} cycles per result measured over "
            f"{sum(self.states.values())} states",
            "  overflows       "
            + ", ".join(f"{count} of {self.states[kind]} {WHICH[kind]}" for kind, count in self.overflows.items()),
            *error_lines(self.blocks),
        ]
        lines.append(verdict(self.rules))
        return "\n".join(lines)


def reports_on_simulator(
    request: DesignRequest,
    *,
    folder: str | PathLike[str],
    states: int = 1024,
    seed: int = 1,
    progress: Progress | None = None,
) -> list[Report]:
    """Build, compile, stream `states` uniform states, a quarter as many at the region's limits and as many near rest,
    and compare. Of several functions a report for each. The errors are those of `build` and `open`."""
    progress, goal = progress or (lambda text: None), request.goal
    built = build_request(request, folder=folder, progress=progress)
    counts: dict[Kind, int] = {"uniform": states, "limits": max(states // 4, 1), "rest": max(states // 4, 1)}
    with open(built, progress=progress) as accelerator:
        assert isinstance(accelerator, Function)
        parts = parts_of(built.graph.name)
        if not parts:
            return [_checked(built, None, accelerator, counts, seed, goal, progress)]
        each = accelerator.functions
        return [_checked(built, part, each[part.name], counts, seed, goal, progress) for part in parts]


def _checked(
    built: Build,
    part: Part | None,
    accelerator: Function,
    counts: dict[Kind, int],
    seed: int,
    goal: Goal | None,
    progress: Progress,
) -> Report:
    """What the accelerator of a build, or of one of its functions, makes of random states."""
    formatted = built.formatted if part is None else built.formatted.of_part(part)
    samples = [built.region.states(formatted.graph, count, seed, kind) for kind, count in counts.items()]
    inputs: dict[str, Any] = {key: np.concatenate([sample[key] for sample in samples]) for key in samples[0]}
    progress(f"streaming {sum(counts.values())} states of {formatted.graph.name}")
    results = accelerator(**inputs)
    transfer = accelerator.transfer
    progress("comparing")
    if part is not None:
        coded = with_code(part, inputs, len(results.overflow))
        inputs = {port.name: coded[port.name] for port in formatted.graph.inputs}
    ends = np.cumsum(list(counts.values()))
    places = {kind: slice(end - count, end) for (kind, count), end in zip(counts.items(), ends, strict=True)}
    return Report(
        built,
        formatted.graph.name,
        counts,
        {kind: int(results.overflow[place].sum()) for kind, place in places.items()},
        transfer.latency,
        transfer.per_sample,
        blocks_of(built, formatted, inputs, results, places, goal),
        goal.quantile if goal else 1.0,
    )


def error_lines(blocks: Sequence[Block]) -> list[str]:
    """A table of the blocks' errors, and what they are."""
    lines = [
        f"  {'error':<14}{'in the region':>20}{'at its limits':>16}{'near rest':>12}{'truth*':>10}   integers",
        f"  {'':<14}{'median':>10}{'largest':>10}{'largest':>16}{'largest':>12}{'largest':>10}",
    ]
    for b in blocks:
        truth = "-" if b.truth is None else f"{b.truth:.1e}"
        lines.append(
            f"    {b.name:<12}{b.median:>10.1e}{b.largest:>10.1e}{b.limits:>16.1e}{b.rest:>12.1e}{truth:>10}   "
            f"{'equal' if b.exact else 'DIFFER'}"
        )
    return [
        *lines,
        f"  errors are |e| / max(|x|, floor) per state, the floor {FLOOR:.0%} of the block's size in the region",
        "  * Newton-Euler by complex step, M from unit accelerations, LU; inputs not quantized",
    ]


def blocks_of(
    built: Build | ProcessorBuild,
    formatted: FormattedGraph,
    inputs: dict[str, Any],
    results: Results,
    places: dict[Kind, slice],
    goal: Goal | None,
) -> tuple[Block, ...]:
    """The errors of the results of each output. built: of which robot, region and graph."""
    graph = formatted.graph
    reference = evaluate(graph, inputs)
    numbers = built.design.numbers if built.design.is_loaded else {}  # a bare datapath is simulated
    fixed = evaluate_fixed(formatted, inputs, numbers)
    other: dict[str, Any] = {}
    if graph.name in ("forward_dynamics", "forward_dynamics_gradient") and {*inputs} <= {"q", "qd", "tau", "function"}:
        other = truth.forward_dynamics_gradient(built.robot, inputs, graph.forces)
    whole = graph if built.design.is_loaded else built.graph
    floors = block_floors(whole, built.region, goal or Goal(ERROR_LIMIT, floor=FLOOR))
    flags = flagged_together(fixed.overflow, built.design.samples_per_packet)
    flags_equal = bool(np.array_equal(results.overflow, flags))
    good = ~results.overflow  # the others have no result
    blocks = []
    for name, expected in reference.items():
        integers = getattr(results, name)
        errors = truth.relative_errors(integers, expected, floors[name])
        holds = True
        if name == CERTIFICATE:  # of how large an error, and whether it is never less
            holds = bool(
                np.all((integers >= np.linalg.norm(results.qdd - reference["qdd"], axis=1)) | results.overflow)
            )
            errors = integers / np.maximum(np.linalg.norm(reference["qdd"], axis=1), floors["qdd"])
        errors = np.where(good, errors, 0.0)  # overflows are counted apart
        uniform = errors[places["uniform"]]
        beside_truth = None
        if name in other:
            apart = np.where(good, truth.relative_errors(integers, other[name], floors[name]), 0.0)
            beside_truth = apart[places["uniform"]]
        blocks.append(
            Block(
                name,
                flags_equal and holds and bool(np.array_equal(integers[good], fixed.outputs[name][good])),
                float(np.median(uniform)),
                float(np.quantile(uniform, goal.quantile if goal else 1.0)),
                float(uniform.max()),
                float(errors[places["limits"]].max()),
                float(errors[places["rest"]].max()),
                None if beside_truth is None else float(beside_truth.max()),
                np.inf if name == CERTIFICATE else goal.of(name) if goal else ERROR_LIMIT,
            )
        )
    return tuple(blocks)
