"""A graph of multiply-adds as instructions: r = round((± a b ± (c << up)) >> down), and functions of one operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dynagate.base.errors import Error
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.fuse import MOST_SHIFT
from dynagate.graph.graph import Node
from dynagate.hw.processor.shape import ELEMENTARY
from dynagate.hw.units.reciprocal import shift_of

SUM = "multiply_add"
"""The kind of all that units compute."""


class ProgramError(Error, ValueError):
    """A graph that no program computes, or a program that a core does not hold; the text says by how much."""


class Source(NamedTuple):
    """Where an operand comes from: the node that has its bits, or an integer."""

    node: int | None
    integer: int = 0


ZERO, ONE = Source(None, 0), Source(None, 1)


@dataclass(frozen=True)
class Instruction:
    """result: the node whose bits it makes; numbers above the graph's are copies, of what units do not make.

    kind: SUM, or one of ELEMENTARY, of operand a. select: b where a is positive (product_negative: where it is not),
    else c. shift: of a reciprocal, how far the binary points are apart. out: whether it is a result.
    """

    result: int
    kind: str
    a: Source
    b: Source = ZERO
    c: Source = ZERO
    product_negative: bool = False
    addend_negative: bool = False
    select: bool = False
    up: int = 0
    down: int = 0
    shift: int = 0
    out: bool = False

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.a,) if self.kind in ELEMENTARY else (self.a, self.b, self.c)

    @property
    def reads(self) -> tuple[int, ...]:
        """The nodes among its operands."""
        return tuple(source.node for source in self.sources if source.node is not None)


@dataclass(frozen=True)
class Instructions:
    """formatted: the graph. listed: operands before readers. inputs: nodes. outputs: node of the graph -> the result
    of an instruction that has its bits."""

    formatted: FormattedGraph
    listed: tuple[Instruction, ...]
    inputs: tuple[int, ...]
    outputs: Mapping[int, int]

    def integers(self) -> list[int]:
        """The constants, each once."""
        integers = {source.integer for each in self.listed for source in each.sources if source.node is None}
        return sorted(integers | {0})


def instructions(formatted: FormattedGraph) -> Instructions:
    """Of a graph that `fixedpoint.fuse` made. Raises ProgramError naming a node that the units do not compute."""
    graph = formatted.graph
    sources: list[Source] = []
    listed: list[Instruction] = []
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            sources.append(Source(i))
        elif node.op == "const":
            sources.append(Source(None, formatted.constants[i][0]))
        elif node.op == "shift":
            sources.append(sources[node.args[0]])
        else:
            listed.append(_instruction(formatted, i, node, [sources[a] for a in node.args]))
            sources.append(Source(i))
    places = {each.result: k for k, each in enumerate(listed)}
    outputs: dict[int, int] = {}
    copies: dict[Source, int] = {}
    for i in graph.result_nodes:
        source = sources[i]
        if source.node in places and listed[places[source.node]].kind == SUM:
            outputs[i] = source.node
            continue
        if source not in copies:  # only units bring results out
            copies[source] = len(graph) + len(copies)
            listed.append(Instruction(copies[source], SUM, source, ONE))
        outputs[i] = copies[source]
    results = set(outputs.values())
    listed = [replace(each, out=each.result in results) for each in listed]
    return Instructions(formatted, tuple(listed), graph.input_nodes, outputs)


def _instruction(formatted: FormattedGraph, i: int, node: Node, args: Sequence[Source]) -> Instruction:
    formats = [formatted.formats[a] for a in node.args]
    to, fracs = formatted.formats[i], [fmt.frac for fmt in formats]
    if node.op in ELEMENTARY:
        shift = shift_of(formats[0], to) if node.op == "normalised_reciprocal" else 0
        return Instruction(i, node.op, args[0], shift=shift)
    match node.op:
        case "multiply_add" | "multiply_sub" | "sub_multiply" | "mul":
            frac = fracs[0] + fracs[1]
            one = Instruction(i, SUM, args[0], args[1], product_negative=node.op == "sub_multiply")
            one = replace(one, addend_negative=node.op == "multiply_sub", down=frac - to.frac)
            if len(args) == 3:
                one = replace(one, c=args[2], up=frac - fracs[2])
        case "add" | "sub":
            fine = 0 if fracs[0] >= fracs[1] else 1
            negative = [False, node.op == "sub"]
            more = max(to.frac - fracs[fine], 0)
            one = Instruction(i, SUM, args[fine], Source(None, 1 << more), args[1 - fine], negative[fine])
            one = replace(one, addend_negative=negative[1 - fine], down=fracs[fine] + more - to.frac)
            one = replace(one, up=fracs[fine] + more - fracs[1 - fine])
        case "neg":
            one = Instruction(i, SUM, args[0], ONE, product_negative=True, down=fracs[0] - to.frac)
        case "select":
            fine = 1 if fracs[1] >= fracs[2] else 2
            one = Instruction(i, SUM, args[0], args[fine], args[3 - fine], fine == 2, select=True)
            one = replace(one, up=fracs[fine] - fracs[3 - fine], down=fracs[fine] - to.frac)
        case _:
            raise ProgramError(f"node {i} '{node.name}' is a {node.op}; expected a graph that `fused` made")
    if not (0 <= one.up <= MOST_SHIFT and 0 <= one.down <= MOST_SHIFT):
        raise ProgramError(
            f"node {i} '{node.name}': its binary points lie {one.up} and {one.down} places apart; expected 0 to "
            f"{MOST_SHIFT}"
        )
    return one
