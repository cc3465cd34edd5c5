"""Choose the fixed-point policy of a program, from its request or from a file of formats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dynagate.base.errors import ArgumentError, OptionError
from dynagate.dynamics import ROLLOUT
from dynagate.fixedpoint.assign import PROVED, SAMPLED, Policy
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.files import FormatsFile
from dynagate.graph.parts import parts_of
from dynagate.hw.options import MOST_SAMPLES_PER_RUN
from dynagate.hw.processor.compiler.instructions import ProgramError
from dynagate.hw.processor.core_spec import CoreSpec
from dynagate.hw.processor.isa.shape import LARGEST_WORD, SMALLEST_WORD
from dynagate.hw.request import DesignRequest
from dynagate.robot.variable import check_constant


def request_policy(request: DesignRequest, spec: CoreSpec) -> Policy:
    """Return the policy of a request.

    Raises:
        OptionError: The request has an option that a processor does not have.
    """
    refused = {
        "axi": request.axi,
        "budget": request.budget,
        "stages": request.stages,
    }
    for name, value in refused.items():
        if value is not None:
            raise OptionError(
                name,
                "of a program; expected it left out: a processor has one word and its own core",
                code="DG-CORE-027",
            )
    if request.goal is not None and parts_of(request.function):
        raise ArgumentError(
            "a goal of several functions in a program; expected one function, or a word", code="DG-CORE-028"
        )
    spec.check_stream_format(request.words)
    if not 1 <= request.samples_per_run <= MOST_SAMPLES_PER_RUN:
        text = f"{request.samples_per_run}; expected 1 to {MOST_SAMPLES_PER_RUN} samples in one run"
        raise OptionError("samples_per_run", text, code="DG-CORE-029")
    one_function = request.function != ROLLOUT and not parts_of(request.function)
    if request.samples_per_run > 1 and not one_function:
        text = f"of {request.function}; expected 1: only one function of a state can have several samples in one run"
        raise OptionError("samples_per_run", f"{request.samples_per_run} {text}", code="DG-CORE-030")
    check_constant(request.robot, "a program")
    policy = request.policy or Policy(word=spec.core.word)
    if policy.ranges == PROVED and not one_function:
        raise ArgumentError(
            f"proved ranges of {request.function} in a program; "
            f"expected ranges='{SAMPLED}', or one function of a state",
            code="DG-CORE-031",
        )
    spec.check_word(policy.word)
    return policy


def file_policy(graphs: Iterable[FormattedGraph], spec: CoreSpec, policy: Policy, file: FormatsFile) -> Policy:
    """Return the policy with the word length and the arithmetic of formats from a file.

    Raises:
        ProgramError: A format is longer than the word.
    """
    nodes = [
        (fmt.width, node.name) for graph in graphs for fmt, node in zip(graph.formats, graph.graph.nodes, strict=True)
    ]
    width, name = max(nodes, key=lambda node: node[0])
    if (over := width - spec.longest_word) > 0:
        raise ProgramError(
            f"{file.path}: node '{name}' has {width} bits, {over} more than the core's words of {spec.longest_word}; "
            "expected shorter formats" + (f", or a core with word={width}" if width <= LARGEST_WORD else ""),
            code="DG-CORE-032",
        )
    word = max(width, SMALLEST_WORD) if spec.grows else spec.core.word
    return replace(policy, word=word, arithmetic=file.arithmetic)
