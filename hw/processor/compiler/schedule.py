"""Schedule a program: a cycle and a unit for each instruction, and an address for each value that is read.

Reads never conflict, because every unit has a copy of all results. The remaining constraints are: a unit issues one
instruction per cycle; functions issue in the slot of unit 0; the shared memory accepts one write per cycle; a value is
read only after it is written. List scheduling places critical paths first. A block ends when all results that others
read are written, so each block is scheduled on its own, the innermost loops first.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dynagate.hw.processor.compiler.check import checked_schedule
from dynagate.hw.processor.compiler.instructions import (
    MOST_REPEATS,
    ONE,
    SUM,
    ZERO,
    Block,
    Instruction,
    Instructions,
    OperandSource,
    ProgramError,
)
from dynagate.hw.processor.compiler.scheduled import PlacedBlock, ProgramSchedule, ScheduledInstruction
from dynagate.hw.processor.isa.shape import BLOCK_BITS, LEVELS, LOAD, NOISE, STORE, Core
from dynagate.hw.units.latencies import ROUND_STARTS

FEWEST_WORDS, FEWEST_CYCLES = 2, 6
"""Smallest number of words, and of cycles, of a block."""
TESTING = 7
"""Cycles from a multiply-add's result until the sequencer has tested it and chosen the next block."""


class BlockTimings:
    """Cache of block schedules, shared by several schedules of one program and core.

    A block keeps its timing as long as its instructions, and the units that other blocks chose for it, stay the same.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def of(
        self, block: Block, program: Instructions, core: Core, units: dict[int, int]
    ) -> tuple[list[ScheduledInstruction], dict[int, int]]:
        """Schedule a block, or return its earlier schedule.

        Args:
            block: The block.
            program: Program that contains it.
            core: Core to schedule for.
            units: Unit of each result that several instructions write; -1 if no block has chosen it. Choices are added.

        Returns:
            Slots of the block from cycle 0 on, and the cycle in which each of its inputs arrives.
        """
        shared = tuple((each.result, units[each.result]) for each in block.listed if each.result in units)
        key = id(block.listed), block.inputs, shared
        if key not in self._known:
            slots, arrivals = _timed(block, program, core, units, block.inputs)
            chosen = {result: units[result] for result, _ in shared}
            self._known[key] = block.listed, slots, arrivals, chosen  # the instructions stay alive, and so their id
        _, slots, arrivals, chosen = self._known[key]
        units |= chosen
        return list(slots), arrivals


def schedule(program: Instructions, core: Core) -> ProgramSchedule:
    """Schedule a program and verify the result. Equal programs have equal schedules.

    Raises:
        ProgramError: The program has too many blocks, or loops nested too deeply.
    """
    return checked_schedule(unverified(program, core, BlockTimings()))


def unverified(program: Instructions, core: Core, timings: BlockTimings) -> ProgramSchedule:
    """Schedule a program without verifying the result.

    Args:
        program: The program.
        core: Core to schedule for.
        timings: Schedules of blocks; new ones are added.

    Raises:
        ProgramError: The program has too many blocks, or loops nested too deeply.
    """
    _check_blocks(program)
    writers = Counter(each.result for each in program.listed)
    units = {result: -1 for result, count in writers.items() if count > 1}  # where all writers of a place are
    slots: list[list[ScheduledInstruction]] = [[] for _ in program.blocks]
    blocks: list[PlacedBlock] = []
    arrivals: dict[int, int] = {}
    for k in _deepest_first(program):  # these choose units
        slots[k], comes = timings.of(program.blocks[k], program, core, units)
        arrivals |= comes
    program = _padded(program, core, slots)
    start = 0
    for block, own in zip(program.blocks, slots, strict=True):
        words = max(max((slot.cycle for slot in own), default=0) + 1, FEWEST_WORDS)
        comes = {node: arrivals[node] for node in block.inputs}
        blocks.append(PlacedBlock(start, words, _period(own, words, comes, program.pinned, core)))
        own[:] = [replace(slot, cycle=slot.cycle + start) for slot in own]
        start += words
    constants = program.integers()
    fixed = {OperandSource(None, integer): k for k, integer in enumerate(constants)}
    for block in program.blocks:  # inputs of all functions lie in the same places
        for k, node in enumerate(sorted(block.inputs, key=lambda node: arrivals[node])):
            fixed[OperandSource(node)] = len(constants) + k
    placed, depths = _placed(program, core, slots, len(constants) + len(program.inputs))
    return ProgramSchedule(core, program, placed, arrivals, fixed, depths, tuple(blocks))


def _padded(program: Instructions, core: Core, slots: list[list[ScheduledInstruction]]) -> Instructions:
    """Add unused results at the end of functions, so that a unit sends the same number of results for each function."""
    functions = [program.of_function(k) for k in range(len(program.interfaces))]
    counts = [
        [sum(slot.unit == u and slot.instruction.out for k in function for slot in slots[k]) for u in range(core.units)]
        for function in functions
    ]
    most = [max(column) for column in zip(*counts, strict=True)]
    blocks, fresh = list(program.blocks), itertools.count(program.next_number)
    for function, own in zip(functions, counts, strict=True):
        last = function[-1]
        end = max((slot.cycle for slot in slots[last]), default=-1) + 1
        for u, (count, all_of_it) in enumerate(zip(own, most, strict=True)):
            more = [Instruction(next(fresh), SUM, ZERO, ONE, out=True) for _ in range(all_of_it - count)]
            slots[last] += [ScheduledInstruction(end + k, u, u, each) for k, each in enumerate(more)]
            if more:
                blocks[last] = replace(blocks[last], listed=(*blocks[last].listed, *more))
    return replace(program, blocks=tuple(blocks))


def _deepest_first(program: Instructions) -> list[int]:
    """Return the blocks, the most deeply nested first."""
    ends = [(block.repeat.target, end) for end, block in enumerate(program.blocks) if block.repeat is not None]
    depths = [sum(first <= k <= end for first, end in ends) for k in range(len(program.blocks))]
    return sorted(range(len(depths)), key=lambda k: -depths[k])


def _check_blocks(program: Instructions) -> None:
    """Raise ProgramError if the program has too many blocks or loops nested too deeply."""
    title = program.title
    if (over := len(program.blocks) - (1 << BLOCK_BITS)) > 0:
        raise ProgramError(
            f"{title} takes {len(program.blocks)} blocks, {over} more than a core's {1 << BLOCK_BITS}; expected fewer "
            "loops, one after the other",
            code="DG-CORE-013",
        )
    levels = 1 + max((block.repeat.level for block in program.blocks if block.repeat), default=-1)
    if levels > LEVELS:
        raise ProgramError(f"{title} has loops {levels} deep; expected {LEVELS} at most", code="DG-CORE-014")
    for block in program.blocks:
        if block.repeat is not None and block.repeat.most > MOST_REPEATS:
            raise ProgramError(
                f"{title} has a loop of {block.repeat.most} iterations; expected {MOST_REPEATS} at most",
                code="DG-CORE-015",
            )


def _period(
    slots: list[ScheduledInstruction], words: int, arrivals: Mapping[int, int], pinned: frozenset[int], core: Core
) -> int:
    """Return the cycles from a block's first word to the first word of the next block."""
    ends = [words, FEWEST_CYCLES, max(arrivals.values(), default=0) + 1]
    for slot in slots:
        done = slot.cycle + core.latency_of(slot.instruction.kind)
        if slot.instruction.result in pinned:
            ends.append(done)
        if slot.instruction.test:
            ends.append(done + TESTING)
    return max(ends)


class _Timing:
    """Schedule of one block while it is built, cycle by cycle.

    units: unit of results that several instructions write, -1 if not chosen. inputs: inputs that arrive during the
    block.
    """

    def __init__(self, block: Block, core: Core, units: dict[int, int], inputs: Collection[int]) -> None:
        self.core, self.listed, self.units = core, block.listed, units
        self.at = {each.result: k for k, each in enumerate(self.listed)}
        self.latency = [core.latency_of(each.kind) for each in self.listed]
        here = self.at.keys() | set(inputs)
        reads = [set(each.reads) & here for each in self.listed]
        self.users: dict[int, list[int]] = defaultdict(list)
        for k, nodes in enumerate(reads):
            for node in dict.fromkeys(n for n in self.listed[k].reads if n in nodes):
                self.users[node].append(k)
        self.writers = self._writers()
        self.length = [0] * len(self.listed)
        numbers = 0  # random ones behind this one, which wait for each other
        for k in reversed(range(len(self.listed))):
            follow = (self.length[u] for u in self.users[self.listed[k].result])
            self.length[k] = self.latency[k] + max(follow, default=0)
            if self.listed[k].kind == NOISE:
                self.length[k] += len(ROUND_STARTS) * numbers
                numbers += 1
        self.waits = [len(nodes) for nodes in reads]
        for writer in (writer for writers in self.writers.values() for writer in writers):
            self.waits[writer] += 1
        self.readers = {each.result: len(self.users[each.result]) for each in self.listed}
        self.ready = [0] * len(self.listed)
        self.events = [(0, k) for k, count in enumerate(self.waits) if not count]
        self.sums: list[tuple[int, int]] = []
        self.functions: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.rounds: set[int] = set()  # cycles in which a random number begins one
        self.alive = [0] * (core.units + 1)
        self.slots: list[ScheduledInstruction] = []
        self.bank: dict[int, int] = {}

    def _writers(self) -> dict[int, list[int]]:
        """Return, for each instruction that reads an address before it is overwritten, the instructions that overwrite
        it.
        """
        writers: dict[int, list[int]] = defaultdict(list)
        loads = {each.address: k for k, each in enumerate(self.listed) if each.kind == LOAD}
        for k, each in enumerate(self.listed):
            if each.kind == STORE and each.address in loads:
                writers[loads[each.address]].append(k)
        for k, each in enumerate(self.listed):
            for node in {s.node for s in each.sources if s.previous and s.node in self.at}:
                if self.at[node] != k:
                    writers[k].append(self.at[node])
        return writers

    def have(self, node: int, cycle: int) -> None:
        """Make a value readable from a cycle on."""
        for user in self.users[node]:
            self._waits_less(user, cycle)

    def _waits_less(self, k: int, cycle: int) -> None:
        self.waits[k] -= 1
        self.ready[k] = max(self.ready[k], cycle)
        if not self.waits[k]:
            heapq.heappush(self.events, (self.ready[k], k))

    def issue(self, k: int, cycle: int, unit: int) -> None:
        """Issue an instruction on a unit."""
        each = self.listed[k]
        bank = unit if each.kind == SUM else self.core.shared
        if each.result in self.units:
            self.units[each.result] = unit
        self.slots.append(ScheduledInstruction(cycle, unit, bank, each))
        self.bank[each.result] = bank
        self.alive[bank] += 1
        for node in set(each.reads) & self.readers.keys():
            self.readers[node] -= 1
            self.alive[self.bank[node]] -= not self.readers[node]
        self.have(each.result, cycle + self.latency[k])
        for writer in self.writers[k]:
            self._waits_less(writer, cycle)

    def step(self, cycle: int, taken: set[int]) -> None:
        """Fill a program word. taken: cycles in which the shared memory is written."""
        self._come(cycle)
        free = set(range(self.core.units))
        if self._issued_function(cycle, taken):
            free.discard(0)
        wait = []
        while self.sums and free:
            entry = heapq.heappop(self.sums)
            unit = self._unit(self.listed[entry[1]], free)
            if unit is None:
                wait.append(entry)
                continue
            free.discard(unit)
            self.issue(entry[1], cycle, unit)
        for entry in wait:
            heapq.heappush(self.sums, entry)

    def _issued_function(self, cycle: int, taken: set[int]) -> bool:
        """Issue the first waiting function that may issue in this cycle, and return whether there was one.

        Functions of one kind may issue in the same cycles, so the first of each kind stands for the others.
        """
        for (_, k), kind in sorted((queue[0], kind) for kind, queue in self.functions.items() if queue):
            done = cycle + self.latency[k] - 1
            stores, rounds = kind == STORE, {cycle + n for n in ROUND_STARTS} if kind == NOISE else set()
            if (stores or done not in taken) and not rounds & self.rounds:
                self.rounds |= rounds
                taken |= set() if stores else {done}
                heapq.heappop(self.functions[kind])
                self.issue(k, cycle, 0)
                return True
        return False

    def _come(self, cycle: int) -> None:
        while self.events and self.events[0][0] <= cycle:
            _, k = heapq.heappop(self.events)
            kind = self.listed[k].kind
            heapq.heappush(self.sums if kind == SUM else self.functions[kind], (-self.length[k], k))

    def _unit(self, each: Instruction, free: set[int]) -> int | None:
        """Return a free unit for an instruction; None if it has to wait for a fixed unit."""
        own = 0 if each.test else self.units.get(each.result, -1)
        if own >= 0:
            return own if own in free else None
        return min(free, key=lambda u: (self.alive[u], u))


def _timed(
    block: Block, program: Instructions, core: Core, units: dict[int, int], inputs: Sequence[int]
) -> tuple[list[ScheduledInstruction], dict[int, int]]:
    """Return the slots of a block from cycle 0 on, and the cycles in which its inputs arrive."""
    timing = _Timing(block, core, units, inputs)
    longest = {node: max((timing.length[k] for k in timing.users[node]), default=0) for node in inputs}
    waiting = sorted(inputs, key=lambda node: (program.rank(node), -longest[node]))[::-1]
    arrivals: dict[int, int] = {}
    taken: set[int] = set()
    cycle = 0
    while len(timing.slots) < len(block.listed) or waiting:
        if waiting and cycle not in taken:  # a function's result goes first
            arrivals[waiting[-1]] = cycle
            timing.have(waiting.pop(), cycle + 1)
        timing.step(cycle, taken)
        cycle += 1
    return timing.slots, arrivals


def _placed(
    program: Instructions, core: Core, blocks: list[list[ScheduledInstruction]], fixed: int
) -> tuple[tuple[ScheduledInstruction, ...], tuple[int, ...]]:
    """Assign addresses. Pinned results have an address of their own; other addresses are reused.

    An address is written again in a cycle after its last read, because a block RAM returns no value if both coincide.
    fixed: number of addresses of constants and inputs in the shared memory.
    """
    pinned: dict[int, int] = {}
    depths = [0] * core.units + [fixed]
    for slot in (slot for slots in blocks for slot in slots):
        result = slot.instruction.result
        if result in program.pinned and result not in pinned:
            pinned[result] = depths[slot.bank]
            depths[slot.bank] += 1
    placed: list[ScheduledInstruction] = []
    deepest = list(depths)
    for slots in blocks:
        placed += [replace(slot, place=pinned[r]) for slot in slots if (r := slot.instruction.result) in pinned]
        last: dict[int, int] = {}
        for slot in slots:
            for node in slot.instruction.reads:
                last[node] = max(last.get(node, 0), slot.cycle)
        for bank in range(core.units + 1):
            own = [s for s in slots if s.bank == bank and s.instruction.result not in pinned]
            ends, depth = _local(own, last, depths[bank], core)
            placed += ends
            deepest[bank] = max(deepest[bank], depth)
    return tuple(sorted(placed, key=lambda slot: (slot.cycle, slot.unit))), tuple(deepest)


def _local(
    slots: list[ScheduledInstruction], last: Mapping[int, int], depth: int, core: Core
) -> tuple[list[ScheduledInstruction], int]:
    """Assign addresses from `depth` on to results that only their own block reads; return the first free address, too.

    last: cycle of the last read, by result.
    """
    placed: list[ScheduledInstruction] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    written = [(slot.cycle + core.latency_of(slot.instruction.kind) - 1, slot) for slot in slots]
    for done, slot in sorted(written, key=lambda pair: pair[0]):
        if slot.instruction.kind == STORE:
            placed.append(slot)
            continue
        until = last.get(slot.instruction.result, done if slot.bank == core.shared else None)
        if until is None:
            placed.append(slot)
            continue
        while busy and busy[0][0] < done:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, depth)
            depth += 1
        place = heapq.heappop(free)
        heapq.heappush(busy, (until, place))
        placed.append(replace(slot, place=place))
    return placed, depth


def check_program_fits(scheduled: ProgramSchedule) -> None:
    """Check that the core holds a program.

    Raises:
        ProgramError: It does not; the text says by how much, and which core would hold it.
    """
    core = scheduled.core
    faults, asked = [], []
    for name, (what, need) in scheduled.required_capacity.items():
        if need > (have := 1 << getattr(core, name)):
            faults.append(f"{need} {what}, {need - have} more than the core's {have}")
            asked.append(f"{name}={(need - 1).bit_length()}")
    if faults:
        title = scheduled.instructions.title
        raise ProgramError(
            f"{title} takes {' and '.join(faults)}; expected a core with {', '.join(asked)}", code="DG-CORE-016"
        )
