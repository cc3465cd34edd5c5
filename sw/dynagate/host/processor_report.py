"""A program on a simulated processor, end to end: build, load, stream random states, compare with the other ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.dynamics.options import AlgorithmOptions
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.confidence import OVERFLOWS, WHICH
from dynagate.graph.region import Kind, Region
from dynagate.host.opening import open
from dynagate.host.report import Block, blocks_of, error_lines
from dynagate.hw.processor.build import ProcessorBuild, build_program
from dynagate.hw.processor.shape import Core
from dynagate.hw.request import DesignRequest
from dynagate.robot import Robot


@dataclass(frozen=True)
class ProcessorReport:
    """states, overflows: by kind of states. cycles_per_sample: measured, streams included."""

    built: ProcessorBuild
    states: dict[Kind, int]
    overflows: dict[Kind, int]
    cycles_per_sample: float
    blocks: tuple[Block, ...]

    @property
    def passed(self) -> bool:
        """Every integer is equal, results came at full speed, errors are within what is allowed, and no more states of
        each kind overflowed than designs for an accuracy may have."""
        return (
            all(b.exact and b.at_quantile <= b.allowed for b in self.blocks)
            and all(
                count <= OVERFLOWS[kind] * self.states[kind] + 1.0 * (kind == "limits")
                for kind, count in self.overflows.items()
            )
            and self.cycles_per_sample <= self.built.schedule.cycles_per_sample
        )

    def text(self) -> str:
        design, scheduled = self.built.design, self.built.schedule
        core = scheduled.core
        lines = [
            f"{self.built.robot.name} {design.function}, {core.word}-bit words, {core.units} units",
            f"  instructions    {design.instructions}, {design.functions_used} of them functions (sin, cos, 1/x, root)",
            f"  cycles          {scheduled.cycles} from the first program word to the last result; "
            f"{scheduled.use:.0%} of the slots used",
            f"  program         {design.words} of {1 << core.program_bits} words of {core.program_word} bits",
            f"  values          {max(scheduled.depths)} of {1 << core.place_bits} places at most",
            f"  throughput      {self.cycles_per_sample:.4g} cycles per result measured over "
            f"{sum(self.states.values())} states",
            "  overflows       "
            + ", ".join(f"{count} of {self.states[kind]} {WHICH[kind]}" for kind, count in self.overflows.items()),
            *error_lines(self.blocks),
            "PASS" if self.passed else "FAIL",
        ]
        return "\n".join(lines)


def processor_report(
    robot: Robot,
    function: str,
    *,
    units: int | Core,
    word: int | None = None,
    certificate: bool = False,
    region: Region | None = None,
    folder: str | PathLike[str],
    states: int = 1024,
    seed: int = 1,
    step: Callable[[str], Any] | None = None,
    **algorithm: Any,
) -> ProcessorReport:
    """Build a program, load it into a simulated core, stream `states` uniform states, a quarter as many at the region's
    limits and as many near rest, and compare. algorithm: as `AlgorithmOptions` has it. The errors are those of `build`
    and `open`."""
    say = step or (lambda text: None)
    policy = None if word is None else Policy(word=word)
    options = AlgorithmOptions(**algorithm)
    request = DesignRequest(robot, function, policy=policy, region=region, algorithm=options, certificate=certificate)
    built = build_program(request, units, folder=Path(folder), step=say)
    counts: dict[Kind, int] = {"uniform": states, "limits": max(states // 4, 1), "rest": max(states // 4, 1)}
    samples = [built.region.states(built.graph, count, seed, kind) for kind, count in counts.items()]
    inputs: dict[str, Any] = {key: np.concatenate([sample[key] for sample in samples]) for key in samples[0]}
    with open(built, step=say) as accelerator:
        say(f"streaming {sum(counts.values())} states of {function}")
        results = accelerator(**inputs)
        cycles = accelerator.transfer.per_sample
    say("comparing")
    ends = np.cumsum(list(counts.values()))
    places = {kind: slice(end - count, end) for (kind, count), end in zip(counts.items(), ends, strict=True)}
    return ProcessorReport(
        built,
        counts,
        {kind: int(results.overflow[place].sum()) for kind, place in places.items()},
        cycles,
        blocks_of(built, built.formatted, inputs, results, places, None),
    )
