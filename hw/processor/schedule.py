"""When and where: a cycle and a unit for each instruction, a place for each value that is read.

Every unit has a copy of every producer's results, so reads never meet one another. What is left to respect: a unit
takes one instruction a cycle, a function takes the slot of unit 0, the memory that all share is written once a cycle,
and a value is read only after it is written. Critical paths go first (list scheduling).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from dynagate.hw.processor.instructions import SUM, Instruction, Instructions, ProgramError, Source
from dynagate.hw.processor.shape import Core

MOST_TURNS = 8
"""Of a loop in a sample."""
SENDING = 9
"""Cycles that the sender takes for a sample besides those for each result and each unit."""


@dataclass(frozen=True)
class Slot:
    """An instruction in a program word. bank: the memory its result goes to. place: there; None if nothing reads it."""

    cycle: int
    unit: int
    bank: int
    instruction: Instruction
    place: int | None = None


@dataclass(frozen=True)
class Schedule:
    """slots: by cycle and unit. arrivals: input node -> the cycle in which it is written to its place.
    fixed: places in the shared memory of constants and inputs. depths: places that each memory needs."""

    core: Core
    instructions: Instructions
    slots: tuple[Slot, ...]
    arrivals: dict[int, int]
    fixed: dict[Source, int]
    depths: tuple[int, ...]

    @property
    def words(self) -> int:
        """Of the program."""
        return max(slot.cycle for slot in self.slots) + 1

    @cached_property
    def period(self) -> int:
        """Cycles from a sample, or a turn of a loop, to the next."""
        kept = self.instructions.kept
        back = [slot.cycle + self.core.latency for slot in self.slots if slot.instruction.result in kept]
        return max(self.words, max(self.arrivals.values(), default=0) + 1, *back)

    @property
    def turns(self) -> int:
        """Of a sample, which has the inputs and results of so many: as many as the core holds, MOST_TURNS at most."""
        per_turn, out = len(self.instructions.per_turn), max(map(len, self.outputs))
        if not self.instructions.kept:
            return 1
        fixed = len(self.instructions.inputs) - per_turn
        room = ((1 << self.core.input_bits) - fixed) // max(per_turn, 1), (1 << self.core.output_bits) // max(out, 1)
        return max(min(MOST_TURNS, *room), 1)

    @property
    def inputs(self) -> int:
        """Words of a sample's inputs."""
        return len(self.instructions.inputs) + (self.turns - 1) * len(self.instructions.per_turn)

    @cached_property
    def cycles(self) -> int:
        """From the first program word to the last result."""
        return max(slot.cycle + self.core.latency_of(slot.instruction.kind) for slot in self.slots)

    @property
    def cycles_per_sample(self) -> int:
        """Cycles from a sample to the next where results are taken at once: the sender may be slower than the units."""
        return max(self.period * self.turns, self.turns * sum(map(len, self.outputs)) + 2 * self.core.units + SENDING)

    @property
    def use(self) -> float:
        """The share of slots that are used."""
        return len(self.slots) / (self.words * self.core.units)

    @cached_property
    def by_result(self) -> dict[int, Slot]:
        return {slot.instruction.result: slot for slot in self.slots}

    @cached_property
    def outputs(self) -> list[list[int]]:
        """The results that each unit brings out, in order."""
        out: list[list[int]] = [[] for _ in range(self.core.units)]
        for slot in sorted(self.slots, key=lambda slot: slot.cycle):
            if slot.instruction.out:
                out[slot.unit].append(slot.instruction.result)
        return out

    def location(self, source: Source) -> tuple[int, int]:
        """Memory and place of an operand."""
        if source in self.fixed and not source.previous:
            return self.core.shared, self.fixed[source]
        slot = self.by_result[source.node]  # type: ignore[index]
        assert slot.place is not None
        return slot.bank, slot.place

    def verify(self) -> Schedule:
        """Returns itself. Raises AssertionError naming what the core would do wrong, which is a fault of the
        scheduler: a word by word replay, in which each place knows what it holds."""
        core = self.core
        held: dict[tuple[int, int], Source] = {
            (core.shared, place): source for source, place in self.fixed.items() if source.node is None
        }
        kept = self.instructions.kept
        for turn in range(2 if kept else 1):
            self._verify(held, turn)
            held = {where: value for where, value in held.items() if value.node is None or value.node in kept}
        return self

    def _verify(self, held: dict[tuple[int, int], Source], turn: int) -> None:
        """One turn. held: what each memory's places hold."""
        core = self.core
        writes: dict[int, list[tuple[int, int, Source]]] = defaultdict(list)
        for node, cycle in self.arrivals.items():
            writes[cycle].append((core.shared, self.fixed[Source(node)], Source(node)))
        words: dict[int, list[Slot]] = defaultdict(list)
        readers: dict[Source, int] = defaultdict(int)
        previous: dict[Source, int] = defaultdict(int)
        for slot in self.slots:
            words[slot.cycle].append(slot)
            done = slot.cycle + core.latency_of(slot.instruction.kind) - 1
            assert slot.place is not None or slot.bank != core.shared, f"{slot} has no place"
            writes[done].append((slot.bank, -1 if slot.place is None else slot.place, Source(slot.instruction.result)))
            for source in slot.instruction.sources:
                (previous if source.previous else readers)[source._replace(previous=False)] += source.node is not None
        for cycle in range(max(writes) + 1):
            units = [slot.unit for slot in words[cycle]]
            assert len(units) == len(set(units)), f"cycle {cycle}: a unit has two instructions"
            for slot in words[cycle]:
                assert slot.bank == (slot.unit if slot.instruction.kind == SUM else core.shared), f"{slot} is misplaced"
                assert slot.instruction.kind == SUM or slot.unit == 0, f"{slot} is not in the slot of unit 0"
                for source in slot.instruction.sources:
                    bank, place = self.location(source)
                    holds, value = held.get((bank, place)), source._replace(previous=False)
                    if source.previous:
                        previous[value] -= 1
                        if turn == 0:
                            continue
                    assert holds == value, f"cycle {cycle}: place {place} of {bank} holds {holds}, expected {source}"
                    readers[value] -= source.node is not None and not source.previous
            banks = [bank for bank, _, _ in writes[cycle]]
            assert len(banks) == len(set(banks)), f"cycle {cycle}: a memory is written twice"
            for bank, place, source in writes[cycle]:
                if place < 0:
                    continue
                assert cycle < self.period, f"cycle {cycle}: {source} is written when the next sample runs"
                assert not previous[source], f"cycle {cycle}: {source} of the turn before is overwritten"
                old = held.get((bank, place))
                read = old not in (None, source) and readers[old]
                assert not read, f"cycle {cycle}: {old} is overwritten, {read} read it"
                assert old is None or old.node is not None, f"cycle {cycle}: the constant {old} is overwritten"
                held[bank, place] = source
        assert not any(readers.values()), "an operand is never read"


def schedule(program: Instructions, core: Core) -> Schedule:
    """A schedule for a core of this shape, verified. Equal programs have equal schedules."""
    slots, arrivals = _timed(program, core)
    placed, depths, fixed = _placed(program, core, slots, sorted(arrivals, key=lambda node: arrivals[node]))
    return Schedule(core, program, placed, arrivals, fixed, depths).verify()


class _Timing:
    """Cycles and units, in the order of time."""

    def __init__(self, program: Instructions, core: Core) -> None:
        self.core, self.listed = core, program.listed
        self.at = {each.result: k for k, each in enumerate(self.listed)}
        self.latency = [core.latency_of(each.kind) for each in self.listed]
        self.users: dict[int, list[int]] = defaultdict(list)
        for k, each in enumerate(self.listed):
            for node in dict.fromkeys((*each.reads, *each.after)):
                self.users[node].append(k)
        self.length = [0] * len(self.listed)
        for k in reversed(range(len(self.listed))):
            follow = (self.length[u] for u in self.users[self.listed[k].result])
            self.length[k] = self.latency[k] + max(follow, default=0)
        self.waits = [len({*each.reads, *each.after}) for each in self.listed]
        self.readers = {each.result: len(self.users[each.result]) for each in self.listed}
        self.ready = [0] * len(self.listed)
        self.events = [(0, k) for k, count in enumerate(self.waits) if not count]
        self.sums: list[tuple[int, int]] = []
        self.functions: list[tuple[int, int]] = []
        self.alive = [0] * (core.units + 1)
        self.slots: list[Slot] = []
        self.bank: dict[int, int] = {}

    def have(self, node: int, cycle: int) -> None:
        """A value can be read from a cycle on."""
        for user in self.users[node]:
            self.waits[user] -= 1
            self.ready[user] = max(self.ready[user], cycle)
            if not self.waits[user]:
                heapq.heappush(self.events, (self.ready[user], user))

    def issue(self, k: int, cycle: int, unit: int) -> None:
        each = self.listed[k]
        bank = unit if each.kind == SUM else self.core.shared
        self.slots.append(Slot(cycle, unit, bank, each))
        self.bank[each.result] = bank
        self.alive[bank] += 1
        for node in set(each.reads) & self.readers.keys():
            self.readers[node] -= 1
            self.alive[self.bank[node]] -= not self.readers[node]
        self.have(each.result, cycle + self.latency[k])

    def step(self, cycle: int, taken: set[int]) -> None:
        """Fills a program word. taken: cycles in which the shared memory is written."""
        while self.events and self.events[0][0] <= cycle:
            _, k = heapq.heappop(self.events)
            heapq.heappush(self.sums if self.listed[k].kind == SUM else self.functions, (-self.length[k], k))
        free = set(range(self.core.units))
        for entry in sorted(self.functions):
            done = cycle + self.latency[entry[1]] - 1
            if done not in taken:
                taken.add(done)
                self.functions.remove(entry)
                self.issue(entry[1], cycle, 0)
                free.discard(0)
                break
        while self.sums and free:
            _, k = heapq.heappop(self.sums)
            unit = min(free, key=lambda u: (self.alive[u], u))
            free.discard(unit)
            self.issue(k, cycle, unit)


def _timed(program: Instructions, core: Core) -> tuple[list[Slot], dict[int, int]]:
    timing = _Timing(program, core)
    longest = {node: max((timing.length[k] for k in timing.users[node]), default=0) for node in program.inputs}
    waiting = sorted(program.inputs, key=lambda node: (program.rank(node), -longest[node]))[::-1]
    arrivals: dict[int, int] = {}
    taken: set[int] = set()
    cycle = 0
    while len(timing.slots) < len(program.listed) or waiting:
        if waiting and cycle not in taken:  # a function's result goes first
            arrivals[waiting[-1]] = cycle
            timing.have(waiting.pop(), cycle + 1)
        timing.step(cycle, taken)
        cycle += 1
    return timing.slots, arrivals


def _placed(
    program: Instructions, core: Core, slots: list[Slot], inputs: list[int]
) -> tuple[tuple[Slot, ...], tuple[int, ...], dict[Source, int]]:
    """A place is free again in the cycle after its last reading. inputs: in the order in which they arrive."""
    last: dict[int, int] = {}
    for slot in slots:
        for node in slot.instruction.reads:
            last[node] = max(last.get(node, 0), slot.cycle)
    fixed = {Source(None, integer): k for k, integer in enumerate(program.integers())}
    for node in inputs:
        fixed[Source(node)] = len(fixed)
    placed: list[Slot] = []
    depths = []
    for bank in range(core.units + 1):
        depth = len(fixed) if bank == core.shared else 0
        free: list[int] = []
        busy: list[tuple[int, int]] = []
        for slot in slots:
            if slot.bank == bank and slot.instruction.result in program.kept:  # its place is nobody else's
                placed.append(Slot(slot.cycle, slot.unit, bank, slot.instruction, depth))
                depth += 1
        own = [(slot.cycle + core.latency_of(slot.instruction.kind) - 1, slot) for slot in slots if slot.bank == bank]
        for written, slot in sorted(own, key=lambda pair: pair[0]):
            until = last.get(slot.instruction.result)
            if slot.instruction.result in program.kept:
                continue
            if until is None:
                placed.append(slot)
                continue
            while busy and busy[0][0] <= written:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if not free:
                heapq.heappush(free, depth)
                depth += 1
            place = heapq.heappop(free)
            heapq.heappush(busy, (until, place))
            placed.append(Slot(slot.cycle, slot.unit, bank, slot.instruction, place))
        depths.append(depth)
    return tuple(sorted(placed, key=lambda slot: (slot.cycle, slot.unit))), tuple(depths), fixed


def check_fits(scheduled: Schedule) -> None:
    """Raises ProgramError saying by how much a program is too large for its core, and which core would hold it."""
    core = scheduled.core
    most = max(map(len, scheduled.outputs))
    needs = {
        "program_bits": ("words", scheduled.words),
        "place_bits": ("places", max(scheduled.depths)),
        "input_bits": ("inputs", len(scheduled.instructions.inputs)),
        "output_bits": ("results of a unit", most),
    }
    faults, asked = [], []
    for name, (what, need) in needs.items():
        if need > (have := 1 << getattr(core, name)):
            faults.append(f"{need} {what}, {need - have} more than the core's {have}")
            asked.append(f"{name}={(need - 1).bit_length()}")
    if faults:
        title = f"{scheduled.instructions.formatted.graph.robot} {scheduled.instructions.formatted.graph.name}"
        raise ProgramError(f"{title} takes {' and '.join(faults)}; expected a core with {', '.join(asked)}")
