"""Sections of a report that depend on the body of a design: a datapath, or a program for a core."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.progress import Progress
from dynagate.design.bodies import body_row
from dynagate.graph.parts import parts_of
from dynagate.host.report.functions import FunctionMeasurement, MeasuredFunction
from dynagate.host.report.motions import run_steps
from dynagate.host.report.rules import Rule
from dynagate.host.report.sections import Pace, Section, TextSection, labeled
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.bodies.scheduled_program import ScheduledProgram
from dynagate.hw.designs import Design
from dynagate.hw.processor.compiler.instructions import SUM

if TYPE_CHECKING:
    from dynagate.host.devices import Executor

FULL_RING = 20
"""Steps of each trajectory while the slots of a pipeline are counted."""


class BodySection(ABC):
    """Base class of the sections that describe the body of a design. Its methods are where reports of bodies differ."""

    built: Design[Any]
    """The built design."""
    rules: Sequence[Rule] = ()
    """Rules of the section: an empty sequence."""

    @property
    @abstractmethod
    def words(self) -> str:
        """Return the word lengths and the speed or size that the design was requested with."""

    @property
    @abstractmethod
    def lines(self) -> list[str]:
        """Return what the body consists of."""

    @property
    @abstractmethod
    def functions(self) -> Sequence[MeasuredFunction]:
        """Return the functions that the design computes."""

    @abstractmethod
    def pace_of_functions(self, measured: FunctionMeasurement) -> Section:
        """Return the section on the cycles that the functions took.

        Args:
            measured: What was measured.

        Returns:
            The section.
        """

    @abstractmethod
    def pace_of_motion(self, chip: Executor, starts: Mapping[str, Array], progress: Progress) -> Section:
        """Return the section on the cycles of the trajectories that the chip has just computed.

        Args:
            chip: The open design.
            starts: Inputs of the trajectories, for more runs.
            progress: Function that receives a line of text before each slow stage.

        Returns:
            The section.
        """


# ---- a pipelined datapath --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DatapathSection(BodySection):
    """A pipelined datapath: its operations, units and registers."""

    built: Design[Pipeline]

    @property
    def words(self) -> str:
        word = self.built.design.formats.word
        widths = [f.width for f in self.built.formatted.formats]
        text = f"{word}-bit words" if isinstance(word, int) else f"words of {min(widths)} to {max(widths)} bits"
        return f"{text}, II = {self.built.hardware.plan.ii}"

    @property
    def lines(self) -> list[str]:
        design = self.built.design
        counts, units, registers = design.body.counts, design.body.units, design.body.registers
        return labeled(
            {
                "operations": f"{counts['mul']} products, {counts['mul_const']} constant products, "
                f"{counts['add']} additions, {counts['neg']} negations, {counts['reciprocal']} reciprocals, "
                f"{counts['trig']} sin/cos, depth {counts['depth']}",
                "units": f"{units.get('multiply', 0)} multipliers, {units.get('sincos', 0)} sin/cos, "
                f"{units.get('reciprocal', 0)} reciprocal; {design.body.dsp_blocks} DSP48E2 blocks (counted)",
                "registers": f"{registers.words} words, {registers.bits} bits (datapath values)",
            }
        )

    @property
    def functions(self) -> Sequence[MeasuredFunction]:
        formatted, graph = self.built.formatted, self.built.graph
        parts = [formatted.of_part(part) for part in parts_of(graph.name)]
        return [MeasuredFunction(each, graph) for each in parts or [formatted]]

    def pace_of_functions(self, measured: FunctionMeasurement) -> Pace:
        plan, names = self.built.hardware.plan, {function.name for function in measured.functions}
        cycles = max(delivery.cycle for delivery in plan.deliveries if delivery.name in names)
        path = plan.schedule.problem.critical_path()
        text = f"{measured.latency} cycles measured; {cycles} in the datapath, {path} on its longest path"
        return Pace("cycles per result", measured.cycles_per_sample, plan.ii, labeled({"latency": text}))

    def pace_of_motion(self, chip: Executor, starts: Mapping[str, Array], progress: Progress) -> TextSection:
        ring = self.built.design.body.ring
        assert ring is not None
        latency = chip.transfer.latency
        progress("counting slots and cycles of a step")
        run_steps(chip, _first(starts, ring.capacity, FULL_RING))
        slots = self.built.hardware.plan.ii / chip.transfer.per_sample
        run_steps(chip, _first(starts, 1, FULL_RING))
        step = chip.transfer.per_sample
        rows = {
            "ring": f"up to {ring.capacity} trajectories; latency {latency} cycles measured, "
            f"a step of one alone {step:g}",
            "slots": f"{slots:.1%} hold a step with {ring.capacity} trajectories",
        }
        return TextSection(labeled(rows))


def _first(starts: Mapping[str, Array], count: int, steps: int) -> dict[str, Array]:
    """Return the inputs of the first trajectory, repeated for a number of trajectories and steps."""
    return {
        name: np.repeat(x[:1], count, axis=0)
        if name in ("q", "qd")
        else np.broadcast_to(x[:1, :1], (count, steps, *x.shape[2:]))
        for name, x in starts.items()
    }


# ---- a program for a core --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProgramSection(BodySection):
    """A program: its instructions and cycles, and what it occupies in the memories of its core."""

    built: Design[ScheduledProgram]

    @property
    def words(self) -> str:
        return f"{self.built.hardware.core.word}-bit words, {self.built.hardware.core.units} units"

    @property
    def lines(self) -> list[str]:
        design, scheduled, core = self.built.design, self.built.hardware.schedule, self.built.hardware.core
        kinds = ", ".join(sorted({each.kind for each in scheduled.instructions.listed if each.kind != SUM}))
        functions = f"{design.body.functions_used} of them functions ({kinds or 'none'})"
        return labeled(
            {
                "instructions": f"{design.body.instructions}, {functions}",
                "cycles": f"{scheduled.cycles} from the first program word to the last result; "
                f"{scheduled.use:.0%} of the slots used",
                "program": f"{design.body.words} of {1 << core.program_bits} words of {core.program_word} bits",
                "values": f"{max(scheduled.depths)} of {1 << core.place_bits} places at most",
            }
        )

    @property
    def functions(self) -> Sequence[MeasuredFunction]:
        functions = self.built.hardware.schedule.instructions.functions
        return [MeasuredFunction(graph, graph.graph) for each in functions for graph in each.graphs()]

    def pace_of_functions(self, measured: FunctionMeasurement) -> Pace:
        cycles = measured.cycles_per_sample * self.built.design.body.samples_per_run
        return Pace("cycles from a packet to the next", cycles, self.built.hardware.schedule.cycles_per_sample)

    def pace_of_motion(self, chip: Executor, starts: Mapping[str, Array], progress: Progress) -> Pace:
        scheduled, cycles = self.built.hardware.schedule, chip.transfer.per_sample
        text = f"{scheduled.steps} steps in a sample; {cycles / scheduled.steps:.4g} cycles a step measured"
        limit = scheduled.cycles_per_sample
        return Pace("cycles from a sample to the next", cycles, limit, labeled({"loop": text}))


def body_of(built: Design[Any]) -> BodySection:
    """Return the section on the body of a design.

    Args:
        built: The built design.

    Returns:
        The section.
    """
    section: BodySection = body_row(built.design.body.kind).section()(built)
    return section
