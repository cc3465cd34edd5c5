"""Compile graphs to instructions: multiply-adds r = round((± a b ± (c << up)) >> down), and functions of one
operand.
"""

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
"""Largest number of iterations of a loop in a program."""
SUM = "multiply_add"
"""Kind of the instructions that multiply-add units execute."""


class ProgramError(Error, ValueError):
    """No program computes the graph, or the core does not hold the program; the text says by how much it is too
    large.
    """


class OperandSource(NamedTuple):
    """Source of an operand: the result of an instruction, or a constant."""

    node: int | None
    """Number of the result; None for a constant."""
    integer: int = 0
    """The constant."""
    previous: bool = False
    """Whether the result of the previous iteration is read."""


ZERO, ONE = OperandSource(None, 0), OperandSource(None, 1)


@dataclass(frozen=True)
class Instruction:
    """One instruction of a unit."""

    result: int
    """Number of the result. Numbers above the graph's nodes are copies that units make."""
    kind: str
    """SUM; one of ELEMENTARY with operand a; LOAD or STORE; or NOISE with operands number, draw and seed."""
    a: OperandSource
    b: OperandSource = ZERO
    c: OperandSource = ZERO
    product_negative: bool = False
    """Whether the product is subtracted. For a select: whether b is the result if a is not positive."""
    addend_negative: bool = False
    """Whether the addend is subtracted."""
    select: bool = False
    """Whether the result is b if a is positive, else c << up, instead of the sum."""
    up: int = 0
    """Bits by which the addend is shifted left."""
    down: int = 0
    """Bits by which the sum is shifted right, rounded half up."""
    shift: int = 0
    """Difference of the binary points of a reciprocal's operand and result, in bits."""
    out: bool = False
    """Whether the result leaves the core."""
    test: bool = False
    """Whether a positive result continues the loop."""
    address: int = 0
    """Address, in the memory of iterations, of the first iteration's value of a LOAD or STORE."""
    backwards: bool = False
    """Whether later iterations use lower addresses."""

    @property
    def sources(self) -> tuple[OperandSource, ...]:
        """Return the operands of this kind of instruction."""
        if self.kind == LOAD:
            return ()
        return (self.a, self.b, self.c) if self.kind in (SUM, NOISE) else (self.a,)

    @property
    def reads(self) -> tuple[int, ...]:
        """Return the results among its operands, of this iteration."""
        return tuple(source.node for source in self.sources if source.node is not None and not source.previous)


@dataclass(frozen=True)
class Repeat:
    """End of a loop, at the end of a block."""

    target: int
    """Index of the loop's first block."""
    most: int
    """Largest number of iterations."""
    until: bool = False
    """Whether the loop ends after the iteration in which no test was positive."""
    level: int = 0
    """Number of loops around this loop."""


@dataclass(frozen=True)
class Block:
    """Instructions that run once per pass through a stretch of program words, operands before readers."""

    listed: tuple[Instruction, ...]
    """The instructions."""
    repeat: Repeat | None = None
    """Loop that ends with the block, if one does."""
    last: bool = True
    """Whether an iteration of a sample ends with the block."""
    inputs: tuple[int, ...] = ()
    """All inputs of a sample, if a function begins with the block."""
    level: int = 0
    """Number of loops around the loop whose iterations count for loads and stores in the block."""


@dataclass(frozen=True)
class ProgramInterface:
    """Interface of one function of a program: inputs, outputs and formats.

    Numbers of `inputs` and `outputs` are those of instructions, or of a graph's nodes.
    """

    robot: str
    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    formats: Mapping[int, Format]
    """Format of each number."""
    bounds: Mapping[int, tuple[float, float]]
    """Smallest and largest value of each input number."""
    names: Mapping[int, str]
    """Name of each number, for listings."""
    result_nodes: tuple[int, ...]
    """Numbers of a result, each once, in the order of the stream."""

    @property
    def title(self) -> str:
        """Return the robot and the function."""
        return f"{self.robot} {self.name}"

    @property
    def input_nodes(self) -> tuple[int, ...]:
        """Return the numbers of all inputs, each once, in the order of the ports."""
        return tuple(dict.fromkeys(i for port in self.inputs for i in port.nodes))

    def shifted(self, base: int) -> ProgramInterface:
        """Return the interface with `base` added to all numbers."""

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
        """Return the interface of a graph."""
        graph = formatted.graph
        formats, names = dict(enumerate(formatted.formats)), {i: node.name for i, node in enumerate(graph.nodes)}
        ports = graph.inputs, graph.outputs
        return cls(graph.robot, graph.name, *ports, formats, formatted.bounds, names, graph.result_nodes)


@dataclass(frozen=True)
class Instructions:
    """A program before it is scheduled.

    Several instructions may have one result: a loop writes it again, and its readers read it as `previous`.
    """

    interfaces: tuple[ProgramInterface, ...]
    """Inputs and outputs of each function."""
    blocks: tuple[Block, ...]
    """Blocks in order. The blocks of one function follow those of the other."""
    outputs: Mapping[int, int]
    """Result of an instruction, by number of a result of an interface."""
    functions: tuple[Formatted, ...]
    """Formatted steps whose integers the program computes."""
    start: int | None = None
    """Input that is 1 in a sample's first step and 0 in the others; None for a program that keeps no states."""
    per_iteration: frozenset[int] = frozenset()
    """Inputs that each step of a rollout has."""
    kept: int = 0
    """Number of values in the memory of iterations."""

    @property
    def interface(self) -> ProgramInterface:
        """Return the interface of the first function."""
        return self.interfaces[0]

    @property
    def formatted(self) -> Formatted:
        """Return the formatted steps of the first function."""
        return self.functions[0]

    @property
    def title(self) -> str:
        """Return the robot and the functions."""
        return f"{self.interface.robot} {','.join(interface.name for interface in self.interfaces)}"

    @property
    def entries(self) -> tuple[int, ...]:
        """Return the first block of each function."""
        return tuple(k for k in range(len(self.blocks)) if not k or self.blocks[k - 1].last)

    def of_function(self, function: int) -> range:
        """Return the blocks of one function."""
        ends = (*self.entries, len(self.blocks))
        return range(ends[function], ends[function + 1])

    @property
    def inputs(self) -> tuple[int, ...]:
        """Return the inputs of a sample. All functions of a program have the same number of inputs."""
        return self.blocks[0].inputs

    @property
    def listed(self) -> tuple[Instruction, ...]:
        """Return all instructions."""
        return tuple(each for block in self.blocks for each in block.listed)

    @property
    def next_number(self) -> int:
        """Return the number for the next result that is added."""
        results = max((each.result for each in self.listed), default=0)
        return 1 + max([results, *(node for block in self.blocks for node in block.inputs)])

    @cached_property
    def pinned(self) -> frozenset[int]:
        """Return the results that another block or iteration reads, whose addresses no other result may use."""
        results, read = {each.result for each in self.listed}, set[int]()
        for block in self.blocks:
            own = {each.result for each in block.listed}
            for each in block.listed:
                sources = {s.node for s in each.sources if s.node is not None and (s.previous or s.node not in own)}
                read |= sources & results
        return frozenset(read)

    def rank(self, node: int) -> int:
        """Return the order of an input: 0 for the start, 1 for inputs that all steps share, 2 for inputs of each
        step.
        """
        return 0 if node == self.start else 1 + (node in self.per_iteration)

    def integers(self) -> list[int]:
        """Return the constants, each once."""
        integers = {source.integer for each in self.listed for source in each.sources if source.node is None}
        return sorted(integers | {0})


def instructions(formatted: FormattedGraph, carry: Mapping[int, int] | None = None) -> Instructions:
    """Compile a graph that `fixedpoint.fuse` made.

    Args:
        formatted: Graph of multiply-adds and functions, with formats.
        carry: For a step of a rollout, the input node of the next step for each carried result node.

    Raises:
        ProgramError: The units do not compute a node; the text names it.
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
    per_iteration = frozenset(set(graph.input_nodes) - carried.keys()) if carried else frozenset()
    return Instructions(
        (ProgramInterface.of(formatted),),
        (Block(tuple(listed), inputs=inputs),),
        outputs,
        (formatted,),
        start,
        per_iteration,
    )


def together(programs: Sequence[Instructions]) -> Instructions:
    """Join several functions into one program. None of them may keep states.

    Each function gets as many inputs as the function with the most; the added inputs are zero.
    """
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
    """Return the program with `base` added to all numbers."""

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
    """Return the instruction that sends each result. Copies are added for results without an own instruction and
    format.

    Args:
        results: Node, source and fraction bits of each result.
        listed: Instructions, to which copies are added.
        states: Instructions that send nothing.
        fresh: Unused numbers.
    """
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
    """Return the instruction of a state: the input in the first step, else the rounded result of the step before.

    Its operand is the node of the result, which `_linked` replaces by the instruction that sends it.
    """
    own, previous = formatted.formats[target].frac, formatted.formats[source].frac
    values = OperandSource(target), OperandSource(source, 0, True)
    fine = previous > own
    one = Instruction(result, SUM, start, values[fine], values[not fine], fine, select=True)
    return replace(one, up=abs(previous - own), down=max(previous - own, 0))


def _linked(each: Instruction, states: Mapping[int, int]) -> Instruction:
    """Return an instruction of a state that reads the result of the step before. states: result by instruction."""
    if each.result not in states:
        return each
    previous = OperandSource(states[each.result], 0, True)
    return replace(each, b=previous if each.b.previous else each.b, c=previous if each.c.previous else each.c)


def instruction(formatted: FormattedGraph, i: int, node: Node, args: Sequence[OperandSource]) -> Instruction:
    """Compile one node of a graph.

    Args:
        formatted: The graph.
        i: Number of the result.
        node: The node.
        args: Its operands.

    Raises:
        ProgramError: The units do not compute the node.
    """
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
            raise ProgramError(
                f"node {i} '{node.name}' is a {node.op}; expected a graph that `fused` made", code="DG-CORE-008"
            )
    if not (0 <= one.up <= MOST_SHIFT and 0 <= one.down <= MOST_SHIFT):
        raise ProgramError(
            f"node {i} '{node.name}': its binary points lie {one.up} and {one.down} places apart; expected 0 to "
            f"{MOST_SHIFT}",
            code="DG-CORE-009",
        )
    return one
