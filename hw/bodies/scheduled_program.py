"""The program of a design: scheduled by a build, or rebuilt from the design's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dynagate.base import untrusted
from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress
from dynagate.design.design import FILE, REBUILD, DesignError, DesignRecord
from dynagate.design.program import ProgramBody, load_words
from dynagate.design.rebuilt import check_generator, region_of
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import Arithmetic
from dynagate.fixedpoint.formatted import Formatted
from dynagate.fixedpoint.models.files import FormatsFile
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import Graph
from dynagate.hw.designs import Design, Hardware, Resources
from dynagate.hw.processor.compiled import compiled_program
from dynagate.hw.processor.compiler.schedule import ProgramSchedule
from dynagate.hw.processor.compiler.stream_layout import streams_of
from dynagate.hw.processor.compiler.words import messages
from dynagate.hw.processor.core_spec import CoreSpec
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.streams import with_bench_streams
from dynagate.hw.request import DesignRequest
from dynagate.hw.units.latencies import dsp_blocks

if TYPE_CHECKING:
    from dynagate.hw.vectors.drawn import Vectors
    from dynagate.hw.vectors.subject import Subject

SOLVER_OPTIONS = {"knots", "targets"}
"""Options in the record of a solver, one for each kind of problem."""


@dataclass(frozen=True)
class ScheduledProgram(Hardware):
    """The instructions of a program with their cycles and units."""

    schedule: ProgramSchedule

    @property
    def formatted(self) -> Formatted:
        """Return the formatted steps of the first function."""
        return self.schedule.instructions.formatted

    @property
    def functions(self) -> tuple[Formatted, ...]:
        """Return, for each function, the graph or the loop whose integers the program computes."""
        return self.schedule.instructions.functions

    @property
    def graph(self) -> Graph:
        """Return the graph that the program computes.

        Raises:
            ArgumentError: The program computes a loop.
        """
        if (formatted := self.formatted.as_graph) is None:
            raise ArgumentError(
                f"the graph of {self.title}; expected a program of one graph: it is a loop", code="DG-CORE-004"
            )
        return formatted.graph

    @property
    def title(self) -> str:
        """Return the robot and the functions, as plain text."""
        return untrusted.plain_text(self.schedule.instructions.title)

    @property
    def core(self) -> Core:
        """Return the core that the program is for."""
        return self.schedule.core

    def resources(self, record: DesignRecord[ProgramBody]) -> Resources:
        """Return the multiplier blocks of the core and the program's bits."""
        core = self.core
        blocks = core.units * dsp_blocks(core.word, core.word)
        return Resources(blocks, None, None, record.body.words * core.program_word)

    def vectors(self, design: Design[Any], seed: int) -> dict[str, Vectors]:
        """Return random samples and their results for the bench, by module."""
        from dynagate.hw.vectors.programs import program_vectors

        record = design.design
        streamed = program_vectors(record, messages(self.schedule), self.functions, design.region, seed=seed)
        return dict.fromkeys(record.modules, streamed)

    @classmethod
    def in_bench(cls, record: DesignRecord[ProgramBody]) -> DesignRecord[ProgramBody]:
        """Return the record with the streams of the shell that the bench simulates."""
        return with_bench_streams(record)

    @classmethod
    def subject(cls, record: DesignRecord[ProgramBody], module: str, late: Sequence[int]) -> Subject:
        """Return what the bench streams, and in how many cycles."""
        from dynagate.hw.vectors.subject import cores_subject

        return cores_subject(record, module, late)

    @classmethod
    def rebuild(cls, record: DesignRecord[ProgramBody], folder: Path, progress: Progress) -> ScheduledProgram:
        """Schedule the program again and compare it with the record and the stored words."""
        check_generator(record, folder)
        words = load_words(folder, record)
        if SOLVER_OPTIONS & record.options.keys():
            raise DesignError(
                f"the program of {record.title} cannot be made again: its folder does not hold the solver's problem; "
                "expected what build_solver returned, or the vectors that are in the folder",
                code="DG-CORE-005",
            )
        region = region_of(record)
        try:
            policy, file = Policy(), None
            if record.formats.file is not None:
                file = FormatsFile.of(record.formats.file, FILE)
            else:
                content: dict[str, Any] = dict(record.formats.policy or {})
                policy = Policy(**{**content, "arithmetic": Arithmetic(**content["arithmetic"])})
            options = AlgorithmOptions.of_record(record.options)
            certificate = record.formats.certificate is not None
            request = DesignRequest(
                region.robot,
                record.function,
                policy=policy,
                region=region,
                algorithm=options,
                certificate=certificate,
                samples_per_run=record.body.samples_per_run,
            )
            scheduled = compiled_program(
                request, CoreSpec(Core(**record.body.core)), region, policy, progress, file
            ).schedule
        except (KeyError, TypeError, ValueError) as error:
            raise DesignError(
                f"the program of {record.title} cannot be made again: {error!r}; {REBUILD}", code="DG-CORE-006"
            ) from None
        same = streams_of(scheduled) == (record.stream, record.functions, record.body.loop)
        if not (same and np.array_equal(messages(scheduled), words)):
            raise DesignError(
                f"the program of {record.title} is not the one of its robot and region; {REBUILD}", code="DG-CORE-007"
            )
        return cls(scheduled)
