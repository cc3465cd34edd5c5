"""Sections of a report that depend on the body of a design: a datapath, or a program for a core."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dynagate.base.progress import Progress
from dynagate.design.bodies import body_row
from dynagate.graph.parts import parts_of
from dynagate.host.report.functions import FunctionMeasurement, Subject
from dynagate.host.report.motions import run_steps
from dynagate.host.report.rules import BUG, Rule, most
from dynagate.host.report.sections import Section, labeled
from dynagate.hw.designs import Design
from dynagate.hw.pipeline import Pipeline
from dynagate.hw.processor.compiler.instructions import SUM
from dynagate.hw.processor.scheduled import ScheduledProgram

if TYPE_CHECKING:
    from dynagate.host.devices import Executor

Array = npt.NDArray[Any]
FULL_RING = 20
"""Steps of each trajectory while the slots of a pipeline are counted."""


class BodySection(ABC):
    """Section of a report: what the body of a design consists of. Its methods are what differs between bodies."""

    built: Design[Any]
    rules: Sequence[Rule] = ()

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
    def functions(self) -> Sequence[Subject]:
        """Return the functions that the design computes."""

    @abstractmethod
    def pace_of_functions(self, measured: FunctionMeasurement) -> Section:
        """Return the cycles that the functions took."""

    @abstractmethod
    def pace_of_motion(self, chip: Executor, starts: Mapping[str, Array], progress: Progress) -> Section:
        """Return the cycles that the trajectories took which the chip has just computed.

        Args:
            chip: The open design.
            starts: Inputs of the trajectories, for more runs.
            progress: Function that receives a line of text before each slow stage.
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
        return [
            labeled(
                "operations",
                f"{counts['mul']} products, {counts['mul_const']} constant products, {counts['add']} additions, "
                f"{counts['neg']} negations, {counts['reciprocal']} reciprocals, {counts['trig']} sin/cos, "
                f"depth {counts['depth']}",
            ),
            labeled(
                "units",
                f"{units.get('multiply', 0)} multipliers, {units.get('sincos', 0)} sin/cos, "
                f"{units.get('reciprocal', 0)} reciprocal; {design.body.dsp_blocks} DSP48E2 blocks (counted)",
            ),
            labeled("registers", f"{registers.words} words, {registers.bits} bits (datapath values)"),
        ]

    @property
    def functions(self) -> Sequence[Subject]:
        formatted, graph = self.built.formatted, self.built.graph
        parts = [formatted.of_part(part) for part in parts_of(graph.name)]
        return [Subject(each, graph) for each in parts or [formatted]]

    def pace_of_functions(self, measured: FunctionMeasurement) -> DatapathPace:
        names = {function.name for function in measured.functions}
        return DatapathPace(
            self.built.hardware.plan.ii,
            max(function.latency for function in measured.functions),
            max(delivery.cycle for delivery in self.built.hardware.plan.deliveries if delivery.name in names),
            self.built.hardware.plan.schedule.problem.critical_path(),
            max(function.cycles_per_sample for function in measured.functions),
            measured.states.total(),
        )

    def pace_of_motion(self, chip: Executor, starts: Mapping[str, Array], progress: Progress) -> RingPace:
        ring = self.built.design.body.ring
        assert ring is not None
        latency = chip.transfer.latency
        progress("counting slots and cycles of a turn")
        run_steps(chip, _first(starts, ring.capacity, FULL_RING))
        slots = self.built.hardware.plan.ii / chip.transfer.per_sample
        run_steps(chip, _first(starts, 1, FULL_RING))
        return RingPace(ring.capacity, latency, chip.transfer.per_sample, slots)


@dataclass(frozen=True)
class DatapathPace:
    """Section of a report: the cycles of a pipeline that computes functions of a state."""

    interval: int
    """Initiation interval in cycles."""
    latency: int
    """Cycles from the first beat in to the first beat out, measured."""
    cycles: int
    """Cycles from the entry of a sample to its results in the datapath."""
    longest_path: int
    """Latency in cycles of the longest path of the datapath."""
    cycles_per_sample: float
    """Cycles from a result to the next, measured."""
    states: int
    """Number of states that the rate is measured over."""

    @property
    def lines(self) -> list[str]:
        return [
            labeled(
                "latency",
                f"{self.latency} cycles measured; {self.cycles} in the datapath, "
                f"{self.longest_path} on its longest path",
            ),
            _throughput(self.cycles_per_sample, self.states),
        ]

    @property
    def rules(self) -> list[Rule]:
        """Return the rule that results came at full speed."""
        speed, full = f"{self.cycles_per_sample:g}", self.states <= 1 or self.cycles_per_sample == self.interval
        return [Rule("cycles per result", speed, f"{self.interval}, its II", full, BUG)]


@dataclass(frozen=True)
class RingPace:
    """Section of a report: the cycles of a pipeline whose results return as the next states."""

    capacity: int
    """Number of trajectories that the ring holds."""
    latency: int
    """Cycles from the first beat in to the first beat out, measured."""
    step: float
    """Cycles from one step of a trajectory to its next one while the ring holds one trajectory, measured."""
    slots: float
    """Share of the pipeline's slots that hold a step while the ring is full, measured."""
    rules: Sequence[Rule] = ()

    @property
    def lines(self) -> list[str]:
        return [
            labeled(
                "ring",
                f"up to {self.capacity} trajectories; latency {self.latency} cycles measured, "
                f"a turn of one alone {self.step:g}",
            ),
            labeled("slots", f"{self.slots:.1%} hold a step with {self.capacity} trajectories"),
        ]


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
        return [
            labeled(
                "instructions",
                f"{design.body.instructions}, {design.body.functions_used} of them functions ({kinds or 'none'})",
            ),
            labeled(
                "cycles",
                f"{scheduled.cycles} from the first program word to the last result; "
                f"{scheduled.use:.0%} of the slots used",
            ),
            labeled("program", f"{design.body.words} of {1 << core.program_bits} words of {core.program_word} bits"),
            labeled("values", f"{max(scheduled.depths)} of {1 << core.place_bits} places at most"),
        ]

    @property
    def functions(self) -> Sequence[Subject]:
        functions = self.built.hardware.schedule.instructions.functions
        return [Subject(graph, graph.graph) for each in functions for graph in each.graphs()]

    def pace_of_functions(self, measured: FunctionMeasurement) -> ProgramPace:
        return ProgramPace(
            self.built.design.body.abreast,
            self.built.hardware.schedule.cycles_per_sample,
            max(function.cycles_per_sample for function in measured.functions),
            measured.states.total(),
        )

    def pace_of_motion(self, chip: Executor, starts: Mapping[str, Array], progress: Progress) -> LoopPace:
        scheduled = self.built.hardware.schedule
        return LoopPace(scheduled.turns, scheduled.cycles_per_sample, chip.transfer.per_sample / scheduled.turns)


@dataclass(frozen=True)
class ProgramPace:
    """Section of a report: the cycles of a program that computes functions of a state."""

    samples_per_packet: int
    """Number of states that the program computes in lanes."""
    limit: int
    """Cycles from a packet to the next that the schedule states."""
    cycles_per_sample: float
    """Cycles from a result to the next, measured with the streams."""
    states: int
    """Number of states that the rate is measured over."""

    @property
    def lines(self) -> list[str]:
        return [_throughput(self.cycles_per_sample, self.states)]

    @property
    def rules(self) -> list[Rule]:
        """Return the rule that results came at full speed."""
        cycles = self.cycles_per_sample * self.samples_per_packet
        return [most("cycles from a packet to the next", cycles, self.limit, BUG, "{:.6g}")]


@dataclass(frozen=True)
class LoopPace:
    """Section of a report: the cycles of a program that steps trajectories."""

    steps_per_sample: int
    """Number of steps that a sample carries."""
    limit: int
    """Cycles from a sample to the next that the schedule states."""
    cycles_per_step: float
    """Cycles of a step, measured with the streams."""

    @property
    def lines(self) -> list[str]:
        text = f"{self.steps_per_sample} turns in a sample; {self.cycles_per_step:.4g} cycles a turn measured"
        return [labeled("loop", text)]

    @property
    def rules(self) -> list[Rule]:
        """Return the rule that steps came at full speed."""
        cycles = self.cycles_per_step * self.steps_per_sample
        return [most("cycles from a sample to the next", cycles, self.limit, BUG, "{:.6g}")]


def _throughput(cycles_per_sample: float, states: int) -> str:
    return labeled("throughput", f"{cycles_per_sample:.4g} cycles per result measured over {states} states")


def body_of(built: Design[Any]) -> BodySection:
    """Return the section of a built design."""
    section: BodySection = body_row(built.design.body.kind).section()(built)
    return section
