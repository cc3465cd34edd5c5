"""Graph + ranges + policy -> FormattedGraph: a binary point for every node."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from dynagate.algorithms import EXTERNAL
from dynagate.fixedpoint.format import Arithmetic, Fixed, Format, read_format
from dynagate.fixedpoint.ranges import Ranges, sampled_ranges
from dynagate.graph import OPS, Graph, GraphError
from dynagate.region import Region

DEFAULT_SAMPLES = 4096
SMALLEST_WORD, LARGEST_WORD = 4, 32


@dataclass(frozen=True)
class Policy:
    """One word length for all nodes, the binary point of each from its range.

    guard_bits: integer bits beyond what the largest sample needs, so that states between the samples fit; may be a
    fraction (0.5 is a factor √2); None takes from the sample's tail how far each node may go. samples, seed: the states
    the ranges come from.
    """

    word: int = 24
    guard_bits: float | None = 1.0
    samples: int = DEFAULT_SAMPLES
    seed: int = 20
    arithmetic: Arithmetic = field(default=Arithmetic())

    def __post_init__(self) -> None:
        if not SMALLEST_WORD <= self.word <= LARGEST_WORD:
            raise ValueError(f"word {self.word}; expected {SMALLEST_WORD} to {LARGEST_WORD} bits")


@dataclass(frozen=True)
class FormattedGraph:
    """A graph whose every node has a format. What the integers mean is `fixedpoint.evaluate`; hardware equals it.

    constants: node id -> the integer and format of its constant. bounds: node id of an input -> the values (low,
    high) that the formats were chosen for. dropped: (node id, operand) -> the lowest bits of this operand that the node
    reads it without (`format.without`), where there are any.
    """

    graph: Graph
    formats: tuple[Format, ...]
    constants: Mapping[int, tuple[int, Format]]
    bounds: Mapping[int, tuple[float, float]]
    arithmetic: Arithmetic
    dropped: Mapping[tuple[int, int], int] = field(default_factory=dict)

    def read_format(self, node: int, operand: int) -> Format:
        """The format in which a node reads an operand."""
        return read_format(self.formats[self.graph.nodes[node].args[operand]], self.dropped.get((node, operand), 0))

    def check(self) -> FormattedGraph:
        """Returns itself. Raises GraphError where a format or a constant is missing or cannot hold what it must."""
        for fault in self._faults():
            raise GraphError(f"formats of '{self.graph.name}': {fault}")
        return self

    def _faults(self) -> Iterator[str]:
        if len(self.formats) != len(self.graph.nodes):
            yield f"{len(self.formats)} formats for {len(self.graph.nodes)} nodes"
            return
        for i, node in enumerate(self.graph.nodes):
            where = f"node {i} '{node.name}'"
            if (node.constant is not None) != (i in self.constants):
                yield f"{where} {'lacks' if node.constant is not None else 'has'} a fixed-point constant"
            elif i in self.constants and not self._fits(*self.constants[i]):
                yield f"{where}: constant {self.constants[i][0]} does not fit {self.constants[i][1]}"
            if node.op == "shift":
                source = self.formats[node.args[0]]
                if self.formats[i] != Format(source.width, source.frac - int(node.constant or 0)):
                    yield f"{where} moves the binary point but has format {self.formats[i]} after {source}"
        for (i, k), bits in self.dropped.items():
            node = self.graph.nodes[i]
            if not drops(node.op) or k >= len(node.args):
                yield f"node {i} '{node.name}' reads an operand {k} without its lowest bits; only sums and products can"
            elif not 0 < bits < self.formats[node.args[k]].width:
                yield f"node {i} '{node.name}' reads {self.formats[node.args[k]]} without {bits} bits"
        for i in self.graph.input_nodes:
            low, high = self.bounds.get(i, (math.nan, math.nan))
            least, most = self.formats[i].limits
            if not least <= low <= high <= most + self.formats[i].step:
                yield f"input '{self.graph.nodes[i].name}': bounds [{low:g}, {high:g}] do not fit {self.formats[i]}"

    @staticmethod
    def _fits(value: int, fmt: Format) -> bool:
        return fmt.lowest <= value <= fmt.highest


def drops(op: str) -> bool:
    """Whether an operation may read operands without their lowest bits: a shared sine or reciprocal unit may not."""
    return OPS[op].unit in ("add", "multiply")


def assign(
    graph: Graph,
    region: Region,
    policy: Policy | None = None,
    trajectories: Mapping[str, npt.ArrayLike] | None = None,
) -> FormattedGraph:
    """Formats for the states of a region: ranges sampled there, one word length, a binary point per node.

    trajectories: inputs by name, (states, ...) each, that the formats have to hold besides the sampled ones.
    """
    policy = policy or Policy()
    return assign_word(
        graph, region, sampled_ranges(graph, sampled_states(graph, region, policy, trajectories)), policy
    )


def sampled_states(
    graph: Graph, region: Region, policy: Policy, trajectories: Mapping[str, npt.ArrayLike] | None = None
) -> dict[str, npt.NDArray[np.float64]]:
    """The policy's samples of a region, the trajectories after them. Raises ValueError: these lack an input."""
    external_forces = any(port.name == EXTERNAL.name for port in graph.inputs)
    states = region.sample(graph.name, policy.samples, policy.seed, external_forces=external_forces)
    if trajectories is None:
        return states
    missing = set(states) - set(trajectories)
    if missing:
        raise ValueError(f"trajectories lack input '{min(missing)}'; expected {', '.join(states)}")
    given = {key: np.asarray(trajectories[key], dtype=np.float64) for key in states}
    return {key: np.concatenate([value, given[key]]) for key, value in states.items()}


def assign_global(
    graph: Graph, region: Region, policy: Policy, trajectories: Mapping[str, npt.ArrayLike] | None = None
) -> FormattedGraph:
    """One format for every node and constant, with the integer bits that the largest node needs: what accelerators
    without binary points of their own do. Kept to compare with; a shift still moves the point."""
    ranges = sampled_ranges(graph, sampled_states(graph, region, policy, trajectories))
    margin = 2.0 ** (policy.guard_bits or 0.0)
    everywhere = Format(policy.word, frac_for(float(ranges.largest.max()) * margin, policy.word))
    formats: list[Format] = []
    constants: dict[int, tuple[int, Format]] = {}
    for i, node in enumerate(graph.nodes):
        constant = float(node.constant or 0.0)
        if node.op == "shift":
            source = formats[node.args[0]]
            formats.append(Format(source.width, source.frac - int(constant)))
            constants[i] = (int(constant), Format(16, 0))
            continue
        formats.append(everywhere)
        if node.constant is not None:
            constants[i] = (math.floor(math.ldexp(constant, everywhere.frac) + 0.5), everywhere)
    bounds = _input_bounds(graph, region, ranges.largest * margin)
    return FormattedGraph(graph, tuple(formats), constants, bounds, policy.arithmetic).check()


def _input_bounds(graph: Graph, region: Region, reaches: npt.NDArray[np.float64]) -> dict[int, tuple[float, float]]:
    """Per input node the values that its format is for: the region's limits, or what it reaches where it has none."""
    found: dict[int, tuple[float, float]] = {}
    for port in graph.inputs:
        known = region.bounds(port.name)
        for k, i in enumerate(port.nodes):
            found[i] = known[k] if known is not None else (-float(reaches[i]), float(reaches[i]))
    return found


def assign_word(
    graph: Graph,
    region: Region,
    ranges: Ranges,
    policy: Policy,
    words: Sequence[int] | None = None,
    constant_words: Mapping[int, int] | None = None,
) -> FormattedGraph:
    """Formats from ranges: every node the policy's word, or its own of `words`, with as many integer bits as it needs.
    constant_words: of the factors of constant products, by node."""
    words = words or [policy.word] * len(graph.nodes)
    constant_words = constant_words or {}
    reaches = ranges.reach if policy.guard_bits is None else ranges.largest * 2.0**policy.guard_bits
    bounds = _input_bounds(graph, region, reaches)
    angles = _angles(graph)
    reach_of_angle = max((max(map(abs, bounds[i])) for i in angles), default=0.0)
    divisors = {a for node in graph.nodes if node.op == "reciprocal" for a in node.args}
    formats: list[Format] = []
    constants: dict[int, tuple[int, Format]] = {}
    for i, node in enumerate(graph.nodes):
        sources = [formats[a] for a in node.args]
        constant = node.constant if node.constant is not None else 0.0
        if node.op == "shift":
            formats.append(Format(sources[0].width, sources[0].frac - int(constant)))
            constants[i] = (int(constant), Format(16, 0))
            continue
        if node.op == "input":
            # angles share a format, so that one sin/cos unit serves them all
            reach = reach_of_angle if i in angles else max(map(abs, bounds[i]))
        elif node.op in ("sin", "cos", "const"):
            reach = float(ranges.largest[i])  # exact: no margin needed
            reach = max(reach, 1.0) if node.op != "const" else reach
        else:
            reach = float(reaches[i])
        word = words[i]
        wanted = frac_for(reach, word)
        if node.op == "mul_const":
            constants[i] = fixed_factor(constant, constant_words.get(i, word))
            wanted = min(wanted, sources[0].frac + constants[i][1].frac)
        elif node.op == "mul":
            wanted = min(wanted, sources[0].frac + sources[1].frac)
        elif node.op in ("add", "sub", "neg") and i not in divisors:
            wanted = min(wanted, max(source.frac for source in sources))
        # bits below what the operands have would always be zero; divisors keep them, to share a unit
        width = word - (frac_for(reach, word) - wanted)
        formats.append(Format(max(width, 2), wanted))
        if node.op in ("add_const", "const"):
            integer = math.floor(math.ldexp(constant, wanted) + 0.5)
            constants[i] = (integer, Format(max(integer.bit_length() + 1, 2), wanted))
    return FormattedGraph(graph, tuple(formats), constants, bounds, policy.arithmetic).check()


def _angles(graph: Graph) -> set[int]:
    """The inputs that a sine or cosine is taken of."""
    return {a for node in graph.nodes if node.op in ("sin", "cos") for a in node.args if graph.nodes[a].op == "input"}


def frac_for(reach: float, word: int) -> int:
    """Most fraction bits with which `word` bits still hold ±reach."""
    if reach <= 0.0:
        return word - 1
    frac = word - 1 - math.frexp(reach)[1]
    # reach just below a power of two may round up to it
    return frac if math.floor(math.ldexp(reach, frac) + 0.5) <= (1 << (word - 1)) - 1 else frac - 1


def fixed_factor(value: float, word: int) -> tuple[int, Format]:
    """The nearest constant of at most `word` bits, trailing zeros dropped."""
    frac = frac_for(abs(value), word)
    integer = math.floor(math.ldexp(value, frac) + 0.5)
    while integer % 2 == 0 and integer != 0:
        integer //= 2
        frac -= 1
    return integer, Format(max(integer.bit_length() + 1, 2), frac)


def fixed_constant(formatted: FormattedGraph, node: int) -> Fixed:
    value, fmt = formatted.constants[node]
    return Fixed(np.asarray(value, dtype=np.int64), fmt)


ONE_WORD = {"global": assign_global, "word": assign}
"""Policies of one word length: one format for everything, or a binary point per node."""
