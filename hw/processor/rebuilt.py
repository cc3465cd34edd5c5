"""The graph of a program, made again from design.json."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dynagate.base.progress import quiet
from dynagate.design.design import Design
from dynagate.design.files import FILE, REBUILD, DesignError, load_program
from dynagate.design.program import ProgramBody, load_words
from dynagate.design.rebuilt import robot_of
from dynagate.fixedpoint.assign import FormattedGraph, Policy
from dynagate.fixedpoint.files import FormatsFile
from dynagate.fixedpoint.format import Arithmetic
from dynagate.fixedpoint.loops import FormattedLoop
from dynagate.graph.region import Region
from dynagate.hw.processor.compiled import compiled_program
from dynagate.hw.processor.compiler.stream_layout import streams_of
from dynagate.hw.processor.compiler.words import messages
from dynagate.hw.processor.core_spec import CoreSpec
from dynagate.hw.processor.isa.packets import Words
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.options import options_of, tuples
from dynagate.hw.request import DesignRequest

if TYPE_CHECKING:
    from dynagate.hw.bench.vectors import Vectors


def region_of(design: Design[ProgramBody]) -> Region:
    """The states that its formats are for. Raises TypeError, ValueError: the design has no region."""
    return Region(robot_of(design), **{name: tuples(value) for name, value in design.region.items()})


def program_vectors_of(folder: Path, seed: int) -> dict[str, Vectors]:
    """Samples of other states than those of the bench in a program's folder, by module. Raises DesignError as
    `formatted_program`."""
    from dynagate.hw.bench.programs import program_vectors

    design = load_program(folder)
    words = load_words(folder, design)
    streamed = program_vectors(design, words, formatted_program(design, words), region_of(design), seed=seed)
    return dict.fromkeys(design.modules, streamed)


def formatted_program(design: Design[ProgramBody], words: Words) -> tuple[FormattedGraph | FormattedLoop, ...]:
    """The graphs, or loops of graphs, whose integers a program computes, by function. Raises DesignError: it is not the
    program of its robot, or it is a solver's."""
    if "knots" in design.options:
        raise DesignError(
            f"the program of {design.title} cannot be made again: its folder does not hold the solver's cost; expected "
            "what build_solver returned, or the vectors that are in the folder"
        )
    try:
        policy, file = Policy(), None
        if design.formats.file is not None:
            file = FormatsFile.of(design.formats.file, FILE)
        else:
            content: dict[str, Any] = dict(design.formats.policy or {})
            policy = Policy(**{**content, "arithmetic": Arithmetic(**content["arithmetic"])})
        robot = robot_of(design)
        region = region_of(design)
        options = options_of(design)
        certificate = design.formats.certificate is not None
        request = DesignRequest(
            robot,
            design.function,
            policy=policy,
            region=region,
            algorithm=options,
            certificate=certificate,
            abreast=design.body.abreast,
        )
        scheduled = compiled_program(request, CoreSpec(Core(**design.body.core)), region, policy, quiet, file).schedule
    except (KeyError, TypeError, ValueError) as error:
        raise DesignError(f"the program of {design.title} cannot be made again: {error!r}; {REBUILD}") from None
    same = streams_of(scheduled) == (design.stream, design.functions, design.body.loop)
    if not (same and np.array_equal(messages(scheduled), words)):
        raise DesignError(f"the program of {design.title} is not the one of its robot and region; {REBUILD}")
    return scheduled.instructions.functions
