"""Check that a schedule computes its instructions, by a replay on memories that record which value they hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from dynagate.hw.processor.compiler.instructions import SUM, OperandSource
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule, ScheduledInstruction
from dynagate.hw.processor.isa.shape import LOAD, NOISE, STORE
from dynagate.hw.units.latencies import ROUND_STARTS

ITERATIONS = 2
"""Number of iterations of each loop that the replay runs: the first, and one that follows another."""

Held = tuple[OperandSource, int]
"""A value, and how many values of the same source were made before it."""


def checked_schedule(scheduled: ProgramSchedule) -> ProgramSchedule:
    """Return the schedule if it computes its instructions.

    Raises:
        AssertionError: It does not; the text says what the core would do wrong. This is a bug of the scheduler.
    """
    check(scheduled)
    return scheduled


def check(scheduled: ProgramSchedule) -> None:
    """Check that every operand is in memory when it is read, and that no two results collide.

    Raises:
        AssertionError: An operand is missing or overwritten, or two results are written at once.
    """
    listed = [each for block in scheduled.instructions.blocks for each in block.listed]
    assert len(listed) == len(scheduled.slots), f"{len(scheduled.slots)} slots of {len(listed)} instructions"
    replay = _Replay(scheduled)
    lengths = {tuple(map(len, scheduled.outputs_of(k))) for k in range(len(scheduled.instructions.interfaces))}
    assert len(lengths) == 1, "functions bring out different numbers of results"
    for function in range(len(scheduled.instructions.interfaces)):
        for _ in range(ITERATIONS if scheduled.instructions.start is not None else 1):
            for block in _path(scheduled, function):
                replay.run(block)


def _path(scheduled: ProgramSchedule, function: int) -> Iterator[int]:
    """Yield the blocks of one run in order, each loop ITERATIONS times or its largest number of iterations."""
    iterations: dict[int, int] = defaultdict(int)
    blocks = scheduled.instructions.of_function(function)
    block = blocks[0]
    while block in blocks:
        yield block
        repeat = scheduled.instructions.blocks[block].repeat
        if repeat is not None:
            iterations[block] += 1
            if iterations[block] < min(repeat.most, ITERATIONS):
                block = repeat.target
                continue
            iterations[block] = 0
        block += 1


class _Replay:
    """State of the replay: which value each address holds, and how often each value was made."""

    def __init__(self, scheduled: ProgramSchedule) -> None:
        self.scheduled, self.core = scheduled, scheduled.core
        self.held: dict[tuple[int, int], Held] = {
            (self.core.shared, place): (source, 0) for source, place in scheduled.fixed.items() if source.node is None
        }
        self.read: set[tuple[int, int]] = set()
        self.versions: dict[int, int] = defaultdict(int)

    def run(self, block: int) -> None:
        """Run a block."""
        start, words, period = self.scheduled.blocks[block]
        slots: dict[int, list[ScheduledInstruction]] = defaultdict(list)
        for slot in self.scheduled.slots_of(block):
            slots[slot.cycle - start].append(slot)
        before = dict(self.versions)
        own = [slot.instruction.result for each in slots.values() for slot in each]
        assert len(own) == len(set(own)), f"block {block} makes a value twice"
        stored: set[int] = set()
        expected = {node: before.get(node, 0) + 1 for node in own}
        writes: dict[int, list[tuple[int, int | None, OperandSource]]] = defaultdict(list)
        for node in self.scheduled.instructions.blocks[block].inputs:
            writes[self.scheduled.arrivals[node]].append(
                (self.core.shared, self.scheduled.fixed[OperandSource(node)], OperandSource(node))
            )
            expected[node] = before.get(node, 0) + 1
        rounds = [
            slot.cycle + k
            for each in slots.values()
            for slot in each
            for k in ROUND_STARTS
            if slot.instruction.kind == NOISE
        ]
        assert len(rounds) == len(set(rounds)), f"block {block}: two random numbers begin a round at once"
        for cycle in range(max([words, *writes])):
            units = [slot.unit for slot in slots[cycle]]
            assert len(units) == len(set(units)), f"cycle {start + cycle}: a unit has two instructions"
            self.read.clear()
            for slot in slots[cycle]:
                self._read(slot, before, expected)
                if slot.instruction.kind == STORE:
                    stored.add(slot.instruction.address)
                    continue
                assert slot.instruction.kind != LOAD or slot.instruction.address not in stored, f"{slot} is too late"
                done = cycle + self.core.latency_of(slot.instruction.kind) - 1
                writes[done].append((slot.bank, slot.place, OperandSource(slot.instruction.result)))
            self._write(start + cycle, cycle < period, writes.pop(cycle, []))
        self.read.clear()
        for cycle in sorted(writes):
            self._write(start + cycle, cycle < period, writes[cycle])

    def _read(self, slot: ScheduledInstruction, before: dict[int, int], expected: dict[int, int]) -> None:
        """Check the operands of an instruction.

        Args:
            slot: The instruction.
            before: Number of times that each value was made before the block.
            expected: Number of times that the block makes each value.
        """
        kind = slot.instruction.kind
        assert slot.bank == (slot.unit if kind == SUM else self.core.shared), f"{slot} is misplaced"
        assert slot.unit == 0 or not (slot.instruction.test or kind != SUM), f"{slot} is not in the slot of unit 0"
        assert slot.place is not None or slot.bank != self.core.shared or kind == STORE, f"{slot} has no place"
        for source in slot.instruction.sources:
            bank, place = self.scheduled.location(source)
            self.read.add((bank, place))
            value, version = source._replace(previous=False), 0
            if source.node is not None:
                version = before.get(source.node, 0)
                if source.previous and not version:
                    continue  # in the first iteration
                version = version if source.previous else expected.get(source.node, version)
            holds = self.held.get((bank, place))
            assert holds == (value, version), (
                f"cycle {slot.cycle}: place {place} of {bank} holds {holds}, expected {value} of iteration {version}"
            )

    def _write(self, cycle: int, within: bool, writes: list[tuple[int, int | None, OperandSource]]) -> None:
        """Write the results of a cycle. within: whether the block still runs in this cycle."""
        banks = [bank for bank, _, _ in writes]
        assert len(banks) == len(set(banks)), f"cycle {cycle}: a memory is written twice"
        for bank, place, source in writes:
            assert source.node is not None
            self.versions[source.node] += 1
            if place is None:
                continue
            assert (bank, place) not in self.read, f"cycle {cycle}: place {place} of {bank} is read and written at once"
            assert within, f"cycle {cycle}: {source} is written when the next block runs"
            old, _ = self.held.get((bank, place), (None, 0))
            assert old is None or old.node is not None, f"cycle {cycle}: the constant {old} is overwritten"
            self.held[bank, place] = source, self.versions[source.node]
