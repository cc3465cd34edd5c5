"""A program on a simulated processor, end to end: build, load, stream random states, compare with the other ways."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.base.progress import Progress
from dynagate.dynamics import ROLLOUT
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.confidence import WHICH
from dynagate.graph.region import KINDS, Kind
from dynagate.host.devices import TurnDevice
from dynagate.host.devices.motions import MotionIntegers
from dynagate.host.opening import open
from dynagate.host.processor import open_fixed, open_sim
from dynagate.host.report import Block, blocks_of, error_lines
from dynagate.host.rollout_report import CheckedTrajectories, Reference, Results, run_turns, start_inputs, step_text
from dynagate.host.verdict import BUG, Rule, equal, most, of_blocks, of_overflows, passed, verdict
from dynagate.hw.processor.build import ProcessorBuild, build_program
from dynagate.hw.processor.compiler.instructions import SUM
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.options import options_of
from dynagate.hw.request import DesignRequest
from dynagate.integrators.chip_motion import FAILURES, ChipMotion, extra


@dataclass(frozen=True)
class ProcessorReport:
    """states, overflows: by kind of states. cycles_per_sample: measured, streams included."""

    built: ProcessorBuild
    states: dict[Kind, int]
    overflows: dict[Kind, int]
    cycles_per_sample: float
    blocks: tuple[Block, ...]

    @property
    def rules(self) -> list[Rule]:
        """Every integer is equal, results came at full speed, errors are within what is allowed, and no more states of
        each kind overflowed than designs for an accuracy may have."""
        cycles, limit = self.cycles_per_sample * self.built.design.abreast, self.built.schedule.cycles_per_sample
        return [
            *of_blocks(self.blocks),
            *of_overflows(self.overflows, self.states),
            most("cycles from a packet to the next", cycles, limit, BUG, "{:.6g}"),
        ]

    @property
    def passed(self) -> bool:
        """Whether all rules hold."""
        return passed(self.rules)

    def text(self) -> str:
        design, scheduled = self.built.design, self.built.schedule
        core = scheduled.core
        lines = [
            f"{self.built.robot.name} {design.function}, {core.word}-bit words, {core.units} units",
            *of_program(self.built),
            f"  throughput      {self.cycles_per_sample:.4g} cycles per result measured over "
            f"{sum(self.states.values())} states",
            "  overflows       "
            + ", ".join(f"{count} of {self.states[kind]} {WHICH[kind]}" for kind, count in self.overflows.items()),
            *error_lines(self.blocks),
            verdict(self.rules),
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Solved:
    """Of the steps of motions that solve equations, on the chip. mean, most: iterations. failed: how many steps have
    not converged, of so many."""

    mean: float
    most: int
    failed: int
    steps: int

    @classmethod
    def of(cls, simulated: Results) -> Solved:
        good = ~simulated.flagged
        iterations = simulated.values[extra("iterations")][good]
        failures = np.diff(simulated.values[FAILURES], axis=1, prepend=0.0)[good]
        return cls(float(iterations.mean()), int(iterations.max()), int((failures > 0).sum()), int(good.sum()))

    def line(self, tolerance: float) -> str:
        """Of a report."""
        return (
            f"  equations       {self.mean:.3g} iterations a step, {self.most} at most; {self.failed} of {self.steps} "
            f"steps above the tolerance, {tolerance:.2g}"
        )


@dataclass(frozen=True)
class ProgramRolloutReport:
    """cycles_per_turn: measured, streams included. solved: where steps solve equations."""

    built: ProcessorBuild
    cycles_per_turn: float
    trajectories: CheckedTrajectories
    solved: Solved | None = None

    @property
    def rules(self) -> list[Rule]:
        """Every integer and flag is equal, and turns came at full speed."""
        scheduled = self.built.schedule
        cycles = self.cycles_per_turn * scheduled.turns
        return [
            equal("the comparison of the trajectories with the integers", self.trajectories.exact),
            most("cycles from a sample to the next", cycles, scheduled.cycles_per_sample, BUG, "{:.6g}"),
        ]

    @property
    def passed(self) -> bool:
        """Whether all rules hold."""
        return passed(self.rules)

    def text(self) -> str:
        design, scheduled = self.built.design, self.built.schedule
        return "\n".join(
            [
                f"{self.built.robot.name} {ROLLOUT}, {scheduled.core.word}-bit words, {scheduled.core.units} units, "
                f"{step_text(design.options)}",
                *of_program(self.built),
                f"  loop            {scheduled.turns} turns in a sample; {self.cycles_per_turn:.4g} cycles a turn "
                "measured",
                *([] if self.solved is None else [self.solved.line(design.options["tolerance"])]),
                *self.trajectories.lines(),
                verdict(self.rules),
            ]
        )


def of_program(built: ProcessorBuild) -> list[str]:
    """Lines of a report that say what a program takes."""
    design, scheduled = built.design, built.schedule
    core = scheduled.core
    kinds = ", ".join(sorted({each.kind for each in scheduled.instructions.listed if each.kind != SUM}))
    return [
        f"  instructions    {design.instructions}, {design.functions_used} of them functions ({kinds or 'none'})",
        f"  cycles          {scheduled.cycles} from the first program word to the last result; "
        f"{scheduled.use:.0%} of the slots used",
        f"  program         {design.words} of {1 << core.program_bits} words of {core.program_word} bits",
        f"  values          {max(scheduled.depths)} of {1 << core.place_bits} places at most",
    ]


def processor_report(
    request: DesignRequest,
    units: int | Core,
    *,
    folder: str | PathLike[str],
    states: int = 1024,
    seed: int = 1,
    progress: Progress | None = None,
) -> ProcessorReport:
    """Build a program, load it into a simulated core, stream `states` uniform states, a quarter as many at the region's
    limits and as many near rest, and compare. The errors are those of `build` and `open`."""
    progress = progress or (lambda text: None)
    built = build_program(request, units, folder=Path(folder), progress=progress)
    counts: dict[Kind, int] = {"uniform": states, "limits": max(states // 4, 1), "rest": max(states // 4, 1)}
    ends = np.cumsum(list(counts.values()))
    places = {kind: slice(end - count, end) for (kind, count), end in zip(counts.items(), ends, strict=True)}
    overflows, blocks, cycles = dict.fromkeys(counts, 0), list[Block](), 0.0
    functions = built.schedule.instructions.functions
    with open(built, progress=progress) as accelerator:
        for formatted in functions:
            assert isinstance(formatted, FormattedGraph)
            graph = formatted.graph
            samples = [built.region.states(graph, count, seed, kind) for kind, count in counts.items()]
            inputs: dict[str, Any] = {key: np.concatenate([each[key] for each in samples]) for key in samples[0]}
            progress(f"streaming {sum(counts.values())} states of {graph.name}")
            one = getattr(accelerator, graph.name) if len(functions) > 1 else accelerator
            results = one(**inputs)
            cycles = max(cycles, one.transfer.per_sample)
            progress("comparing")
            blocks += blocks_of(built, formatted, inputs, results, places, request.goal)
            for kind, place in places.items():
                overflows[kind] += int(results.overflow[place].sum())
    states_of_kinds = {kind: count * len(functions) for kind, count in counts.items()}
    return ProcessorReport(built, states_of_kinds, overflows, cycles, tuple(blocks))


def program_rollout_report(
    request: DesignRequest,
    units: int | Core,
    *,
    folder: str | PathLike[str],
    steps: int = 50,
    states: int = 1024,
    seed: int = 1,
    progress: Progress | None = None,
) -> ProgramRolloutReport:
    """Build a rollout's program, load it into a simulated core, and stream `states` trajectories of so many steps, a
    third each from states of each kind. The errors are those of `build` and `open`."""
    progress = progress or (lambda text: None)
    built = build_program(request, units, folder=Path(folder), progress=progress)
    counts: dict[Kind, int] = {kind: max(states // len(KINDS), 1) for kind in KINDS}
    arrays = start_inputs(built, counts, steps, seed)
    device = open_sim(built, progress=progress)
    assert isinstance(device, TurnDevice)
    try:
        progress(f"streaming {sum(counts.values())} trajectories of {steps} steps")
        simulated = run_turns(device, arrays)
        cycles = device.transfer.per_sample / built.schedule.turns
    finally:
        device.close()
    progress("comparing")
    checked = CheckedTrajectories.checked(_reference(built), counts, arrays, simulated)
    return ProgramRolloutReport(built, cycles, checked, Solved.of(simulated) if FAILURES in simulated.values else None)


def _reference(built: ProcessorBuild) -> Reference:
    integers = open_fixed(built)
    assert isinstance(integers, TurnDevice)
    if not isinstance(integers, MotionIntegers):
        return Reference.of(built.robot, built.graph, integers)
    motion = ChipMotion.of(built.robot, options_of(built.design), None)

    def exact(arrays: dict[str, Any]) -> tuple[Any, Any]:
        states = motion.exact(arrays["q"], arrays["qd"], arrays["tau"])
        return states["q_next"], states["qd_next"]

    return Reference(built.robot, integers, exact)
