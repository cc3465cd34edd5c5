"""Assign a fixed-point format to every node of a graph, from the ranges of the nodes and a policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from dynagate.base.arguments import check_kind, is_finite, is_number, is_whole, shown, store_plain_numbers
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import check_fields, explained
from dynagate.base.upper_limits import MAX_STATES
from dynagate.dynamics import CODE
from dynagate.fixedpoint.format import Arithmetic, Format, FormattedIntegers
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.operations import FIXED, Formula, Unit
from dynagate.fixedpoint.ranges.headroom import most_fractions
from dynagate.fixedpoint.ranges.proved import ProvedRanges, proved_ranges
from dynagate.fixedpoint.ranges.sampled import InputBounds, Ranges, input_bounds, sampled_ranges
from dynagate.graph import OPS, Graph
from dynagate.graph.critical_path import late_terms_last
from dynagate.graph.ops import PRODUCTS, TRIG
from dynagate.graph.region import Kind, Region

DEFAULT_SAMPLES = 4096
"""Default number of uniform states that ranges come from."""
SMALLEST_WORD, LARGEST_WORD = 4, 32
"""Shortest and longest word length in bits."""
SAMPLED, PROVED = "sampled", "proved"
"""Kinds of ranges."""
ACTIVE = "active"
"""Input that all functions of constraints have."""


@explained
@dataclass(frozen=True)
class Policy:
    """One word length for all nodes, with a binary point for each node from its range.

    Raises:
        ArgumentError: A number is out of range.
    """

    word: int = 24
    """Word length in bits, 4 to 32."""
    guard_bits: float | None = 1.0
    """Integer bits beyond those that the largest sample needs, so that states between the samples fit.

    It may be a fraction (0.5 is a factor √2). None derives the range of each node from the tail of its samples.
    """
    samples: int = DEFAULT_SAMPLES
    """Number of uniform states that ranges come from; half as many at the region's limits and a quarter near rest are
    added.
    """
    seed: int = 20
    """Seed of these states."""
    arithmetic: Arithmetic = field(default=Arithmetic())
    """Rounding of results, and what happens to those that do not fit."""
    ranges: str = SAMPLED
    """"sampled", or "proved" for ranges that no state of the region leaves.

    Proved ranges need divisors that are provably positive. They use no guard bits and no samples.
    """
    milliseconds: float = 1000.0
    """Effort for narrower proved ranges, in ms of one core at a fixed price per node; the region is split as far as it
    allows.
    """

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        if self.ranges not in (SAMPLED, PROVED):
            raise ArgumentError(f"ranges '{self.ranges}'; expected '{SAMPLED}' or '{PROVED}'", code="DG-FORMAT-001")
        if not (is_finite(self.milliseconds) and self.milliseconds >= 0.0):
            raise ArgumentError(
                f"milliseconds {shown(self.milliseconds)}; expected a number of 0 or more", code="DG-FORMAT-002"
            )
        if self.guard_bits is not None and not (is_number(self.guard_bits) and abs(self.guard_bits) <= LARGEST_WORD):
            raise ArgumentError(
                f"guard_bits={self.guard_bits!r}; expected at most {LARGEST_WORD} bits, or None", code="DG-FORMAT-003"
            )
        for name, least in (("samples", 1), ("seed", 0)):
            if not (is_whole(getattr(self, name)) and getattr(self, name) >= least):
                raise ArgumentError(
                    f"{name}={getattr(self, name)!r}; expected a whole number of {least} or more", code="DG-FORMAT-004"
                )
        if self.samples > MAX_STATES:
            raise ArgumentError(f"samples={self.samples}; expected at most {MAX_STATES}", code="DG-FORMAT-005")
        if not (is_whole(self.word) and SMALLEST_WORD <= self.word <= LARGEST_WORD):
            raise ArgumentError(
                f"word {self.word}; expected {SMALLEST_WORD} to {LARGEST_WORD} bits", code="DG-FORMAT-006"
            )
        check_fields(self)


def assign(
    graph: Graph,
    region: Region,
    policy: Policy | None = None,
    trajectories: Mapping[str, npt.ArrayLike] | None = None,
    *,
    numbers: Mapping[str, str] | None = None,
) -> FormattedGraph:
    """Choose formats for the states of a region: one word length, and a binary point per node by its range.

    Args:
        graph: The graph.
        region: Operating region.
        policy: Word length and ranges.
        trajectories: Inputs (states, ...) by name that the formats must hold, in addition to sampled states.
        numbers: Type that streams round each port to, by name; proved ranges include this rounding.

    Returns:
        The graph with late terms last (`graph.critical_path`), and its formats.

    Raises:
        ArgumentError: Trajectories lack an input, or are given with proved ranges.
        ProofError: A range cannot be proved.
        ArgumentTypeError: policy is no `Policy`.
    """
    check_kind("policy", policy, Policy)
    policy = policy or Policy()
    graph = late_terms_last(graph)
    if policy.ranges == SAMPLED:
        states = sampled_states(graph, region, policy, trajectories)
        return assign_word(graph, region, sampled_ranges(graph, states), policy)
    if trajectories is not None:
        raise ArgumentError(
            "trajectories with proved ranges; expected one of them: ranges are proved for a region",
            code="DG-FORMAT-007",
        )
    ranges = proved_ranges(graph, region, policy.milliseconds, numbers)
    return assign_word(graph, region, ranges, replace(policy, guard_bits=0.0))


def sampled_states(
    graph: Graph, region: Region, policy: Policy, trajectories: Mapping[str, npt.ArrayLike] | None = None
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the policy's samples of a region: uniform states first, trajectories last.

    Raises:
        ArgumentError: Trajectories lack an input.
    """
    counts: dict[Kind, int] = {"uniform": policy.samples, "limits": policy.samples // 2, "rest": policy.samples // 4}
    parts = [region.states(graph, count, policy.seed, kind) for kind, count in counts.items()]
    if trajectories is not None:
        missing = set(parts[0]) - set(trajectories)
        if missing:
            raise ArgumentError(
                f"trajectories lack input '{min(missing)}'; expected {', '.join(parts[0])}", code="DG-FORMAT-008"
            )
        parts.append({key: np.asarray(trajectories[key], dtype=np.float64) for key in parts[0]})
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def assign_global(
    graph: Graph, region: Region, policy: Policy, trajectories: Mapping[str, npt.ArrayLike] | None = None
) -> FormattedGraph:
    """Choose one format for all nodes and constants, with the integer bits that the largest node needs.

    Accelerators without individual binary points work this way; the function serves comparisons. Shifts still move the
    binary point.
    """
    graph = late_terms_last(graph)
    ranges = sampled_ranges(graph, sampled_states(graph, region, policy, trajectories))
    margin = 2.0 ** (policy.guard_bits or 0.0)
    everywhere = Format(policy.word, frac_for(float(ranges.largest.max()) * margin, policy.word))
    formats: list[Format] = []
    constants: dict[int, tuple[int, Format]] = {}
    for i, node in enumerate(graph.nodes):
        constant = float(node.constant or 0.0)
        if OPS[node.op].constant == "exponent":
            source = formats[node.args[0]]
            formats.append(Format(source.width, source.frac - int(constant)))
            constants[i] = (int(constant), Format(16, 0))
            continue
        formats.append(everywhere)
        if node.constant is not None:
            constants[i] = (math.floor(math.ldexp(constant, everywhere.frac) + 0.5), everywhere)
    bounds = input_bounds(graph, region, ranges.largest * margin)
    return FormattedGraph(graph, tuple(formats), constants, bounds, policy.arithmetic).check()


@dataclass(frozen=True)
class WordLengths:
    """Word lengths of individual nodes."""

    nodes: Sequence[int]
    """Word length of each node in bits."""
    longest: Sequence[int] | None = None
    """Longest word of each node if the rounding of its operands needs more bits than its values; by default `nodes`."""
    constants: Mapping[int, int] = field(default_factory=dict)
    """Word length of the constant factor of a product, by node; by default the node's word length."""
    fixed: Mapping[int, tuple[Format, tuple[int, Format] | None]] = field(default_factory=dict)
    """Format and constant of nodes that have a format already."""


@np.errstate(all="ignore")  # a divisor may round to zero; the integer executor flags that
def assign_word(
    graph: Graph, region: InputBounds, ranges: Ranges | ProvedRanges, policy: Policy, words: WordLengths | None = None
) -> FormattedGraph:
    """Choose formats from ranges: the integer bits that each node needs in the policy's word length, or in its own.

    A node's range covers its values and the effect of the rounding of its operands: as observed in the probes of
    sampled ranges, or bounded for proved ranges.

    Args:
        graph: The graph.
        region: Bounds of the inputs.
        ranges: Sampled or proved ranges of the nodes.
        policy: Word length and arithmetic.
        words: Word lengths of individual nodes.
    """
    words = words or WordLengths([policy.word] * len(graph))
    longest = words.longest or words.nodes
    reaches = ranges.reach if policy.guard_bits is None else ranges.largest * 2.0**policy.guard_bits
    bounds = input_bounds(graph, region, reaches)
    angles, codes = _angles(graph), {i for port in graph.inputs if port.name == CODE.name for i in port.nodes}
    reach_of_angle = max((max(map(abs, bounds[i])) for i in angles), default=0.0)
    shared = {a for node in graph.nodes if isinstance(FIXED[node.op].meaning, Unit) for a in node.args}
    rounded = ranges.rounded(graph, policy.arithmetic)
    room = _room(graph, reaches, words.nodes)
    formats: list[Format] = []
    constants: dict[int, tuple[int, Format]] = {}
    for i, node in enumerate(graph.nodes):
        sources = [formats[a] for a in node.args]
        kind, constant, word = OPS[node.op].constant, float(node.constant or 0.0), words.nodes[i]
        if i in words.fixed:
            fmt, held = words.fixed[i]
            if held is not None:
                constants[i] = held
            rounded.deviation(i, None if held is None else held[0] * held[1].step)
            formats.append(fmt)
            rounded.round(i, fmt)
            continue
        if kind == "factor":
            integer, fmt = constants[i] = fixed_factor(constant, words.constants.get(i, word))
            sources.append(fmt)
            constant = integer * fmt.step
        noise = rounded.deviation(i, constant if kind else None)
        if kind == "exponent":
            constants[i] = (int(constant), Format(16, 0))
            formats.append(Format(sources[0].width, sources[0].frac - int(constant)))
            rounded.round(i, formats[i])
            continue
        meaning, most_of_op = FIXED[node.op].meaning, FIXED[node.op].most
        if i in codes:
            formats.append(Format(max(int(abs(bound)).bit_length() for bound in bounds[i]) + 1, 0))
            rounded.round(i, formats[i])
            continue
        if node.op == "input":
            # angles share a format, so that one sin/cos unit serves them all
            reach = reach_of_angle if i in angles else max(map(abs, bounds[i]))
        elif most_of_op is not None:
            reach = max(float(ranges.largest[i]), most_of_op)
        else:
            reach = float(reaches[i]) + rounded.margin * noise
            more = frac_for(float(reaches[i]), word) - frac_for(reach, word)
            word = max(min(word + more, max(longest[i], word)), 2)
        fraction = frac_for(reach, word)
        frac = most = min(fraction, room[i]) if i in room else fraction
        # bits below those of the operands would always be zero; operands of a shared unit keep them, for one width
        is_short = i not in shared or node.op in PRODUCTS
        if isinstance(meaning, Formula) and node.args and kind != "term" and is_short:
            frac = min(most, meaning.exact(sources).frac)
        formats.append(Format(max(word - (most - frac), 2), frac))
        rounded.round(i, formats[i])
        if kind in ("term", "value"):
            integer = math.floor(math.ldexp(constant, frac) + 0.5)
            constants[i] = (integer, Format(max(integer.bit_length() + 1, 2), frac))
    return FormattedGraph(graph, tuple(formats), constants, bounds, policy.arithmetic).check()


def _room(graph: Graph, reaches: npt.NDArray[np.float64], words: Sequence[int]) -> dict[int, int]:
    """Return the largest number of fraction bits of nodes that profit from more integer bits (`ranges.headroom`).

    Only functions of constraints have such nodes: products in their matrices have long tails.
    """
    if not any(port.name == ACTIVE for port in graph.inputs):
        return {}
    most = most_fractions(graph, [frac_for(float(reach), word) for reach, word in zip(reaches, words, strict=True)])
    return {i: k for i, k in enumerate(most) if k is not None and graph.nodes[i].op != "input"}


def _angles(graph: Graph) -> set[int]:
    """Return the inputs of which a sine or cosine is computed."""
    return {a for node in graph.nodes if node.op in TRIG for a in node.args if graph.nodes[a].op == "input"}


def frac_for(reach: float, word: int) -> int:
    """Return the largest number of fraction bits with which a word of `word` bits holds ±reach."""
    if reach <= 0.0:
        return word - 1
    frac = word - 1 - math.frexp(reach)[1]
    # reach just below a power of two may round up to it
    return frac if math.floor(math.ldexp(reach, frac) + 0.5) <= (1 << (word - 1)) - 1 else frac - 1


def fixed_factor(value: float, word: int) -> tuple[int, Format]:
    """Return the nearest constant of at most `word` bits, without trailing zeros, and its format."""
    frac = frac_for(abs(value), word)
    integer = math.floor(math.ldexp(value, frac) + 0.5)
    while integer % 2 == 0 and integer != 0:
        integer //= 2
        frac -= 1
    return integer, Format(max(integer.bit_length() + 1, 2), frac)


def fixed_constant(formatted: FormattedGraph, node: int) -> FormattedIntegers:
    """Return the constant of a node as integers with a format."""
    value, fmt = formatted.constants[node]
    return FormattedIntegers(np.asarray(value, dtype=np.int64), fmt)


ONE_WORD = {"global": assign_global, "word": assign}
"""Policies of one word length, by name: one format for all nodes, or a binary point per node."""
