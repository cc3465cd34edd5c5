"""Overlap the iterations of a loop: compute a part of each iteration during the one before it.

An iteration with long chains leaves units idle. Its early part, which reads nothing from late parts, runs during the
late part of the iteration before. This is software pipelining, with parts as in Ottoni et al., "Automatic thread
extraction with decoupled software pipelining", 2005. A block before the loop computes the early part of the first
iteration, and a block after it the late part of the last one. The loop between them has one iteration fewer.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dynagate.hw.processor.compiler.check import checked_schedule
from dynagate.hw.processor.compiler.instructions import ONE, SUM, Block, Instruction, Instructions, OperandSource
from dynagate.hw.processor.compiler.schedule import BlockTimings, unverified
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule
from dynagate.hw.processor.isa.shape import BLOCK_BITS, LOAD, STORE, Core

GAIN = 0.05
"""Smallest share of a loop's cycles that overlapping must save, since the program becomes longer."""
CUTS = 16
"""Number of cycles of an iteration that are tried as the end of its early part."""


def pipelined(scheduled: ProgramSchedule) -> ProgramSchedule:
    """Overlap the iterations of loops if this takes fewer cycles and the core holds the longer program.

    Returns:
        A verified schedule.
    """
    timings = BlockTimings()  # of the blocks that stay the same from one loop to the next
    for number in reversed(range(len(scheduled.instructions.blocks))):
        scheduled = _tried(scheduled, number, timings) or scheduled
    return checked_schedule(scheduled)


def _tried(scheduled: ProgramSchedule, number: int, timings: BlockTimings) -> ProgramSchedule | None:
    """Return the schedule with overlapping iterations of the loop that consists of one block.

    Returns None if the block is no such loop, saves too few cycles, or does not fit. timings: blocks of earlier
    schedules.
    """
    program, core = scheduled.instructions, scheduled.core
    block, now = program.blocks[number], scheduled.blocks[number].period
    if not _is_counted(block, number) or len(program.blocks) + 2 > 1 << BLOCK_BITS:
        return None
    assert block.repeat is not None
    iterations = block.repeat.most
    most = (1.0 - GAIN) * iterations * now
    parts = min(_parts(block, core, [now * k // CUTS for k in range(1, CUTS)]), key=lambda parts: parts.cycles)
    if not parts.early or parts.of_loop(iterations) > most:
        return None
    split = unverified(_split(program, number, parts.early), core, timings)
    before, each, behind = (placed.period for placed in split.blocks[number : number + 3])
    fits = all(need <= 1 << getattr(core, name) for name, (_, need) in split.required_capacity.items())
    return split if fits and before + (iterations - 1) * each + behind <= most else None


def _is_counted(block: Block, number: int) -> bool:
    """Return whether a block is the body of a loop with a fixed number of iterations, at least two."""
    repeat = block.repeat
    if repeat is None or repeat.target != number or repeat.until or repeat.most < 2 or block.inputs:
        return False
    return not any(each.out or each.test for each in block.listed)


class _Parts(NamedTuple):
    """Early and late part of an iteration."""

    early: frozenset[int]
    """Indices of the instructions in the early part."""
    chains: tuple[int, int]
    """Cycles of the longest chain in the early part and in the late part."""
    slots: int
    """Cycles that the instructions of both parts fill."""

    @property
    def cycles(self) -> tuple[int, int]:
        """Return the fewest cycles of an overlapped iteration, and the longer chain to break ties."""
        return max(self.slots, *self.chains), max(self.chains)

    def of_loop(self, iterations: int) -> int:
        """Return the fewest cycles of the loop."""
        return sum(self.chains) + (iterations - 1) * self.cycles[0]


def _parts(block: Block, core: Core, cuts: Sequence[int]) -> Iterator[_Parts]:
    """Yield the largest early parts that may end in these cycles of an iteration."""
    everything = range(len(block.listed))
    ends, after = _ends(block, core, everything), _after(block)
    functions = sum(each.kind != SUM for each in block.listed)
    slots = max(functions, -(-len(everything) // core.units))
    for cut in cuts:
        late = [k for k in everything if ends[k] > cut]
        early = set(everything).difference(late)
        for k in late:  # which grows
            more = after[k] & early
            early -= more
            late += more
        chains = (max((ends[k] for k in early), default=0), max(_ends(block, core, sorted(late)).values(), default=0))
        yield _Parts(frozenset(early), chains, slots)


def _ends(block: Block, core: Core, places: Iterable[int]) -> dict[int, int]:
    """Return the cycle in which each result could be read with unlimited units, by instruction."""
    ends: dict[int, int] = {}
    there: dict[int, int] = {}
    for k in places:
        each = block.listed[k]
        begin = max((there.get(node, 0) for node in each.reads), default=0)
        ends[k] = there[each.result] = begin + core.latency_of(each.kind)
    return ends


def _after(block: Block) -> dict[int, set[int]]:
    """Return, for each instruction, those that may be in the early part only if it is.

    These read its result in the same or the next iteration, or store to the address that it loads.
    """
    at = {each.result: k for k, each in enumerate(block.listed)}
    loads = {each.address: k for k, each in enumerate(block.listed) if each.kind == LOAD}
    after: dict[int, set[int]] = defaultdict(set)
    for k, each in enumerate(block.listed):
        for source in each.sources:
            if source.node in at:
                after[at[source.node]].add(k)
        if each.kind == STORE and each.address in loads:
            after[loads[each.address]].add(k)
    return after


def _split(program: Instructions, number: int, early: Collection[int]) -> Instructions:
    """Return the program with a loop's iterations in two parts: three blocks in place of one."""
    block, fresh = program.blocks[number], itertools.count(program.next_number)
    repeat = block.repeat
    assert repeat is not None
    first, rest = _apart(block, early, fresh)
    once = replace(repeat, target=number + 1, most=repeat.most - 1)
    iteration = replace(block, listed=(*rest, *_of_iteration(first, 1)), repeat=once)
    blocks = [_shifted(each, number) for each in program.blocks]
    blocks[number] = iteration
    pinned = replace(program, blocks=tuple(blocks)).pinned
    alone = _of_iteration(first, 0), _of_iteration(rest, repeat.most - 1)  # before the loop, and behind it
    numbers = {each.result: next(fresh) for part in alone for each in part if each.result not in pinned}
    before, behind = (
        replace(block, listed=tuple(_renumbered(each, numbers) for each in part), repeat=None) for part in alone
    )
    blocks[number : number + 1] = before, iteration, behind
    names = [
        {numbers[i]: name for i, name in interface.names.items() if i in numbers} for interface in program.interfaces
    ]
    interfaces = [
        replace(interface, names={**interface.names, **more})
        for interface, more in zip(program.interfaces, names, strict=True)
    ]
    return replace(program, interfaces=tuple(interfaces), blocks=tuple(blocks))


def _apart(block: Block, early: Collection[int], fresh: Iterator[int]) -> tuple[list[Instruction], list[Instruction]]:
    """Return the early and the late part of an iteration. The late part reads copies of values that the next one
    overwrites.
    """
    first = [each for k, each in enumerate(block.listed) if k in early]
    rest = [each for k, each in enumerate(block.listed) if k not in early]
    results = {each.result for each in first}
    crossing = {
        source: OperandSource(source.node, 0, True)
        for each in rest
        for source in each.sources
        if source.node in results
    }
    for source in crossing:
        if source.previous:  # an iteration older than what its place holds then
            copy = Instruction(next(fresh), SUM, source, ONE)
            first.insert(0, copy)
            crossing[source] = OperandSource(copy.result, 0, True)
    return first, [_reading(each, crossing) for each in rest]


def _reading(each: Instruction, other: Mapping[OperandSource, OperandSource]) -> Instruction:
    """Return an instruction with other operands."""
    a, b, c = (other.get(source, source) for source in (each.a, each.b, each.c))
    return replace(each, a=a, b=b, c=c)


def _renumbered(each: Instruction, numbers: Mapping[int, int]) -> Instruction:
    """Return an instruction with other numbers of results."""
    own = {x: x._replace(node=numbers[x.node]) for x in each.sources if x.node is not None and x.node in numbers}
    return replace(_reading(each, own), result=numbers.get(each.result, each.result))


def _of_iteration(part: Iterable[Instruction], iterations: int) -> list[Instruction]:
    """Return a part that runs this many iterations ahead, with the addresses of its loads and stores."""
    moved = {each: -iterations if each.backwards else iterations for each in part if each.kind in (LOAD, STORE)}
    return [replace(each, address=each.address + moved.get(each, 0)) for each in part]


def _shifted(block: Block, number: int) -> Block:
    """Return a block whose loop target accounts for two more blocks around block `number`."""
    if block.repeat is None or block.repeat.target <= number:
        return block
    return replace(block, repeat=replace(block.repeat, target=block.repeat.target + 2))
