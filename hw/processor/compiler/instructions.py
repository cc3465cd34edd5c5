"""A graph of multiply-adds as instructions: r = round((± a b ± (c << up)) >> down), and functions of one operand."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from dynagate.base.errors import Error
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.formatted import Formatted, FormattedGraph
from dynagate.fixedpoint.fuse import MOST_SHIFT
from dynagate.graph.graph import Node, Port
from dynagate.hw.processor.isa.shape import ELEMENTARY, LOAD, NOISE
from dynagate.hw.units.latencies import shift_of

MOST_REPEATS = (1 << 16) - 1
"""Iterations of a loop in a program."""
SUM = "multiply_add"
"""The kind of all that units compute."""


class ProgramError(Error, ValueError):
    """A graph that no program computes, or a program that a core does not hold; the text says by how much."""


class OperandSource(NamedTuple):
    """Source of an operand: the node that has its bits, or an integer. previous: its bits of the previous iteration."""

    node: int | None
    integer: int = 0
    previous: bool = False


ZERO, ONE = OperandSource(None, 0), OperandSource(None, 1)


@dataclass(frozen=True)
class Instruction:
    """result: the node whose bits it makes; numbers above the graph's are copies, of what units do not make.

    kind: SUM; one of ELEMENTARY, of operand a; or NOISE, of a number, a draw and a seed. select: b where a is positive
    (product_negative: where it is not), else c. shift: of a reciprocal, how far the binary points are apart. out:
    whether it is a result. test: whether a loop goes on where the result is positive. LOAD makes, and STORE keeps, the
    value of the loop's iteration in the memory of iterations. address: of the first iteration's value. backwards: those
    of later iterations lie below it.
    """

    result: int
    kind: str
    a: OperandSource
    b: OperandSource = ZERO
    c: OperandSource = ZERO
    product_negative: bool = False
    addend_negative: bool = False
    select: bool = False
    up: int = 0
    down: int = 0
    shift: int = 0
    out: bool = False
    test: bool = False
    address: int = 0
    backwards: bool = False

    @property
    def sources(self) -> tuple[OperandSource, ...]:
        if self.kind == LOAD:
            return ()
        return (self.a, self.b, self.c) if self.kind in (SUM, NOISE) else (self.a,)

    @property
    def reads(self) -> tuple[int, ...]:
        """The nodes among its operands."""
        return tuple(source.node for source in self.sources if source.node is not None and not source.previous)


@dataclass(frozen=True)
class Repeat:
    """A loop that ends with a block. target: its first block. most: iterations at most. until: it ends after the
    iteration in which no test was positive. level: how many loops are around it."""

    target: int
    most: int
    until: bool = False
    level: int = 0


@dataclass(frozen=True)
class Block:
    """Instructions that run together, operands before readers. last: an iteration of a sample ends with it. inputs: all
    that a sample has, if a function begins with the block. level: how many loops are around the one that it is in,
    whose iteration loads and stores count."""

    listed: tuple[Instruction, ...]
    repeat: Repeat | None = None
    last: bool = True
    inputs: tuple[int, ...] = ()
    level: int = 0


@dataclass(frozen=True)
class ProgramInterface:
    """The interface of a program: inputs, outputs, formats.

    Numbers of `inputs` and `outputs` are those of instructions or of a graph; formats, bounds and names are by number.
    """

    robot: str
    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    formats: Mapping[int, Format]
    bounds: Mapping[int, tuple[float, float]]
    names: Mapping[int, str]
    result_nodes: tuple[int, ...]

    @property
    def title(self) -> str:
        return f"{self.robot} {self.name}"

    @property
    def input_nodes(self) -> tuple[int, ...]:
        """The numbers of all inputs, each once, in the order of the ports."""
        return tuple(dict.fromkeys(i for port in self.inputs for i in port.nodes))

    def shifted(self, base: int) -> ProgramInterface:
        """With numbers that begin at `base`."""

        def ports(old: tuple[Port, ...]) -> tuple[Port, ...]:
            return tuple(replace(port, nodes=tuple(i + base for i in port.nodes)) for port in old)

        return replace(
            self,
            inputs=ports(self.inputs),
            outputs=ports(self.outputs),
            formats={i + base: fmt for i, fmt in self.formats.items()},
            bounds={i + base: bounds for i, bounds in self.bounds.items()},
            names={i + base: name for i, name in self.names.items()},
            result_nodes=tuple(i + base for i in self.result_nodes),
        )

    @classmethod
    def of(cls, formatted: FormattedGraph) -> ProgramInterface:
        graph = formatted.graph
        formats, names = dict(enumerate(formatted.formats)), {i: node.name for i, node in enumerate(graph.nodes)}
        ports = graph.inputs, graph.outputs
        return cls(graph.robot, graph.name, *ports, formats, formatted.bounds, names, graph.result_nodes)


@dataclass(frozen=True)
class Instructions:
    """interfaces: inputs and outputs of each function. blocks: in order, those of the functions one after the other.
    outputs: number of a result of an interface -> the result of an instruction that has its bits. functions: whose
    integers the program computes. Of a loop: start is the input that is 1 in the first iteration, else 0; per_turn
    are the inputs that each iteration has.

    Several instructions may have one result: places that loops write again, which their readers read as `previous`.
    kept: values in the memory of iterations."""

    interfaces: tuple[ProgramInterface, ...]
    blocks: tuple[Block, ...]
    outputs: Mapping[int, int]
    functions: tuple[Formatted, ...]
    start: int | None = None
    per_turn: frozenset[int] = frozenset()
    kept: int = 0

    @property
    def interface(self) -> ProgramInterface:
        """The interface of the first function."""
        return self.interfaces[0]

    @property
    def formatted(self) -> Formatted:
        """The formatted steps of the first function."""
        return self.functions[0]

    @property
    def title(self) -> str:
        return f"{self.interface.robot} {','.join(interface.name for interface in self.interfaces)}"

    @property
    def entries(self) -> tuple[int, ...]:
        """The first block of each function."""
        return tuple(k for k in range(len(self.blocks)) if not k or self.blocks[k - 1].last)

    def of_function(self, function: int) -> range:
        """The blocks of one of several functions."""
        ends = (*self.entries, len(self.blocks))
        return range(ends[function], ends[function + 1])

    @property
    def inputs(self) -> tuple[int, ...]:
        """All that a sample has; of several functions each has as many."""
        return self.blocks[0].inputs

    @property
    def listed(self) -> tuple[Instruction, ...]:
        """All instructions."""
        return tuple(each for block in self.blocks for each in block.listed)

    @property
    def next_number(self) -> int:
        """Return the number for the next result that is added."""
        results = max((each.result for each in self.listed), default=0)
        return 1 + max([results, *(node for block in self.blocks for node in block.inputs)])

    @cached_property
    def pinned(self) -> frozenset[int]:
        """Results that are read in another block or iteration: their places are nobody else's."""
        results, read = {each.result for each in self.listed}, set[int]()
        for block in self.blocks:
            own = {each.result for each in block.listed}
            for each in block.listed:
                sources = {s.node for s in each.sources if s.node is not None and (s.previous or s.node not in own)}
                read |= sources & results
        return frozenset(read)

    def rank(self, node: int) -> int:
        """In which order kinds of inputs come: the start, those of all iterations, those of each iteration."""
        return 0 if node == self.start else 1 + (node in self.per_turn)

    def integers(self) -> list[int]:
        """The constants, each once."""
        integers = {source.integer for each in self.listed for source in each.sources if source.node is None}
        return sorted(integers | {0})


def instructions(formatted: FormattedGraph, carry: Mapping[int, int] | None = None) -> Instructions:
    """Compile a graph that `fixedpoint.fuse` made.

    carry: for a step of a loop, node of a result -> node of the input that the result becomes in the next step. Raises
    ProgramError: the units do not compute a node; the message names it.
    """
    graph, carried = formatted.graph, {target: source for source, target in (carry or {}).items()}
    fresh = itertools.count(len(graph))
    start = next(fresh) if carried else None
    sources: list[OperandSource] = []
    listed: list[Instruction] = []
    states: dict[int, int] = {}  # node of an input -> the instruction that has the state
    for i, node in enumerate(graph.nodes):
        if node.op == "input" and i in carried:
            states[i] = next(fresh)
            listed.append(_state(formatted, states[i], OperandSource(start), i, carried[i]))
            sources.append(OperandSource(states[i]))
        elif node.op == "input":
            sources.append(OperandSource(i))
        elif node.op == "const":
            sources.append(OperandSource(None, formatted.constants[i][0]))
        elif node.op == "shift":
            sources.append(sources[node.args[0]])
        else:
            listed.append(instruction(formatted, i, node, [sources[a] for a in node.args]))
            sources.append(OperandSource(i))
    results = [(i, sources[i], formatted.formats[i].frac) for i in graph.result_nodes]
    outputs = _results(results, listed, states.values(), fresh)
    own = {state: outputs[carried[target]] for target, state in states.items()}
    out = set(outputs.values())
    listed = [replace(_linked(each, own), out=each.result in out) for each in listed]
    inputs = (*([] if start is None else [start]), *graph.input_nodes)
    per_turn = frozenset(set(graph.input_nodes) - carried.keys()) if carried else frozenset()
    return Instructions(
        (ProgramInterface.of(formatted),),
        (Block(tuple(listed), inputs=inputs),),
        outputs,
        (formatted,),
        start,
        per_turn,
    )


def together(programs: Sequence[Instructions]) -> Instructions:
    """Several functions in one program: none of them a loop of a sample's iterations. Each has as many inputs as the
    one with most, the others' last ones being zero."""
    base, most = 0, max(len(program.inputs) for program in programs)
    interfaces: list[ProgramInterface] = []
    blocks: list[Block] = []
    outputs: dict[int, int] = {}
    for program in programs:
        assert program.start is None
        first, own = len(blocks), _shifted(program, base)
        base += 1 + max(max(each.result for each in program.listed), *program.inputs)
        more = tuple(range(base, base + most - len(program.inputs)))
        base += len(more)
        interfaces += own.interfaces
        outputs |= own.outputs
        for block in own.blocks:
            repeat = block.repeat and replace(block.repeat, target=block.repeat.target + first)
            inputs = (*block.inputs, *more) if block.inputs else ()
            blocks.append(replace(block, repeat=repeat, inputs=inputs))
    functions = tuple(program.formatted for program in programs)
    return Instructions(tuple(interfaces), tuple(blocks), outputs, functions)


def _shifted(program: Instructions, base: int) -> Instructions:
    """With numbers that begin at `base`."""

    def source(old: OperandSource) -> OperandSource:
        return old if old.node is None else old._replace(node=old.node + base)

    def instruction(old: Instruction) -> Instruction:
        return replace(old, result=old.result + base, a=source(old.a), b=source(old.b), c=source(old.c))

    blocks = tuple(
        replace(block, listed=tuple(map(instruction, block.listed)), inputs=tuple(i + base for i in block.inputs))
        for block in program.blocks
    )
    outputs = {a + base: b + base for a, b in program.outputs.items()}
    return replace(
        program,
        interfaces=tuple(interface.shifted(base) for interface in program.interfaces),
        blocks=blocks,
        outputs=outputs,
    )


def _results(
    results: Sequence[tuple[int, OperandSource, int]],
    listed: list[Instruction],
    states: Collection[int],
    fresh: Iterator[int],
) -> dict[int, int]:
    """Node of a result -> the instruction that brings it out; copies are added where none does, and where one would
    bring out results with several binary points. results: nodes, what has their bits, and fraction bits. states:
    instructions that bring nothing out."""
    places = {each.result: k for k, each in enumerate(listed)}
    outputs: dict[int, int] = {}
    known: dict[tuple[OperandSource, int], int] = {}
    for i, source, frac in results:
        if (source, frac) not in known:
            node = source.node
            own = node in places and node not in states and listed[places[node]].kind == SUM
            if own and node is not None and node not in known.values():
                known[source, frac] = node
            else:  # only units bring results out
                known[source, frac] = next(fresh)
                listed.append(Instruction(known[source, frac], SUM, source, ONE))
        outputs[i] = known[source, frac]
    return outputs


def _state(formatted: FormattedGraph, result: int, start: OperandSource, target: int, source: int) -> Instruction:
    """A state of an iteration: the input in the first one, else the result of the iteration before, rounded to the
    input's format. That operand is the node's, which `_linked` replaces by what brings it out."""
    own, previous = formatted.formats[target].frac, formatted.formats[source].frac
    values = OperandSource(target), OperandSource(source, 0, True)
    fine = previous > own
    one = Instruction(result, SUM, start, values[fine], values[not fine], fine, select=True)
    return replace(one, up=abs(previous - own), down=max(previous - own, 0))


def _linked(each: Instruction, states: Mapping[int, int]) -> Instruction:
    """With what it reads of the iteration before. states: instruction of a state -> the result that it then was."""
    if each.result not in states:
        return each
    previous = OperandSource(states[each.result], 0, True)
    return replace(each, b=previous if each.b.previous else each.b, c=previous if each.c.previous else each.c)


def instruction(formatted: FormattedGraph, i: int, node: Node, args: Sequence[OperandSource]) -> Instruction:
    """Compile a node of a graph. args: its operands. Raises ProgramError: the units do not compute it."""
    formats = [formatted.formats[a] for a in node.args]
    to, fracs = formatted.formats[i], [fmt.frac for fmt in formats]
    if node.op in ELEMENTARY:
        shift = shift_of(formats[0], to) if node.op == "normalized_reciprocal" else 0
        return Instruction(i, node.op, args[0], shift=shift)
    if node.op == NOISE:
        number, draw, seed = args
        return Instruction(i, NOISE, number, draw, seed)
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
            one = Instruction(i, SUM, args[fine], OperandSource(None, 1 << more), args[1 - fine], negative[fine])
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
