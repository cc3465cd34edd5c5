"""The graph of a program, made again from program.json."""

from __future__ import annotations

from typing import Any

import numpy as np
from dynagate.design import program
from dynagate.design.files import REBUILD, DesignError
from dynagate.design.program import ProgramDesign
from dynagate.design.rebuilt import robot_of
from dynagate.dynamics.options import AlgorithmOptions
from dynagate.fixedpoint.assign import FormattedGraph, Policy
from dynagate.fixedpoint.files import formats_of
from dynagate.fixedpoint.format import Arithmetic
from dynagate.fixedpoint.loops import FormattedLoop
from dynagate.graph.region import Region
from dynagate.hw.processor.build import scheduled_program
from dynagate.hw.processor.shape import Core
from dynagate.hw.processor.words import Words, messages
from dynagate.hw.request import DesignRequest
from dynagate.integrators.turn import graph_of


def formatted_program(design: ProgramDesign, words: Words) -> tuple[FormattedGraph | FormattedLoop, ...]:
    """The graphs, or loops of graphs, whose integers a program computes, by function. Raises DesignError: it is not the
    program of its robot."""
    try:
        policy, file_formats = Policy(), None
        if design.formats.file is None:
            content: dict[str, Any] = dict(design.formats.policy or {})
            policy = Policy(**{**content, "arithmetic": Arithmetic(**content["arithmetic"])})
        robot = robot_of(design)
        region = Region(robot, **{name: _tuples(value) for name, value in design.region.items()})
        options = options_of(design)
        certificate = design.formats.certificate is not None
        request = DesignRequest(
            robot,
            design.function,
            policy=policy,
            region=region,
            algorithm=options,
            certificate=certificate,
            abreast=design.abreast,
        )
        if design.formats.file is not None:
            graph = graph_of(robot, design.function, **options.as_dict())
            file_formats = formats_of(graph, design.formats.file, program.FILE)
        scheduled, *_ = scheduled_program(request, Core(**design.core), region, policy, lambda text: None, file_formats)
    except (KeyError, TypeError, ValueError) as error:
        raise DesignError(f"the program of {design.title} cannot be made again: {error!r}; {REBUILD}") from None
    if not np.array_equal(messages(scheduled), words):
        raise DesignError(f"the program of {design.title} is not the one of its robot and region; {REBUILD}")
    return scheduled.instructions.functions


def options_of(design: ProgramDesign) -> AlgorithmOptions:
    """Those of the algorithm. Raises TypeError, ValueError: the design has others."""
    return AlgorithmOptions(**{name: _tuples(value) for name, value in design.options.items()})


def _tuples(value: Any) -> Any:
    """JSON's lists as tuples; the keys of a map of frames as numbers."""
    if isinstance(value, dict):
        return {int(key): link for key, link in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
