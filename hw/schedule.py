"""When every operation of a folded pipeline starts: the problem, a solver, and the check of its answer.

After CIRCT's lib/Scheduling: `Problem.check` validates the question, any solver fills in start cycles,
`Schedule.verify` validates the answer and always runs. A sample enters every `ii` cycles; operation i of a sample that
enters at cycle c starts at c + start[i]. Two operations on one unit collide when their starts are equal modulo ii.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property


class ScheduleError(ValueError):
    """A scheduling problem or answer that breaks a rule; the text names the operation."""


@dataclass(frozen=True)
class Operation:
    """operands: positions of the operations it reads, all smaller than its own. latency: cycles from start until the
    result can be read. resource: the class of shared unit it occupies for one cycle at its start, or None.
    holds: its result stays readable for ii cycles in the unit's own register; otherwise for one cycle. width: bits of
    the result."""

    name: str
    operands: tuple[int, ...]
    latency: int
    resource: str | None = None
    holds: bool = True
    width: int = 1


def registers_held(holds: bool, lifetime: int, ii: int) -> int:
    """Registers, each of ii cycles, between a result's readiness and its use `lifetime` cycles later. The first is the
    unit's own where it holds its result; otherwise a use as the result appears needs none."""
    return lifetime // ii + 1 if holds else math.ceil(lifetime / ii)


@dataclass(frozen=True)
class Problem:
    """limits: units per resource class. outputs: operations whose results must all be readable at the last cycle."""

    operations: tuple[Operation, ...]
    ii: int
    limits: Mapping[str, int]
    outputs: tuple[int, ...]

    def check(self) -> Problem:
        """Returns itself. Raises ScheduleError where the problem is not well posed."""
        for fault in self._faults():
            raise ScheduleError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        if self.ii < 1:
            yield f"initiation interval {self.ii}; expected 1 or more"
        wanted = Counter(o.resource for o in self.operations if o.resource is not None)
        for i, operation in enumerate(self.operations):
            if any(not 0 <= a < i for a in operation.operands):
                yield f"operation '{operation.name}' reads {operation.operands}; operands must come before it"
            if operation.latency < 1:
                yield f"operation '{operation.name}' has latency {operation.latency}; expected 1 or more"
        for resource, count in wanted.items():
            limit = self.limits.get(resource, 0)
            if count > limit * self.ii:
                yield f"{count} operations on {limit} × '{resource}' do not fit in {self.ii} slots"
        for i in self.outputs:
            if not 0 <= i < len(self.operations):
                yield f"output {i} is no operation"

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.operations]
        for i, operation in enumerate(self.operations):
            for a in dict.fromkeys(operation.operands):
                found[a].append(i)
        return tuple(map(tuple, found))

    def critical_path(self) -> int:
        """Cycles from the first start to the last result with unlimited units: the least possible latency."""
        ready: list[int] = []
        for operation in self.operations:
            ready.append(max((ready[a] for a in operation.operands), default=0) + operation.latency)
        return max((ready[i] for i in self.outputs), default=0)


@dataclass(frozen=True)
class Schedule:
    """start: per operation. length: cycle at which all outputs are read, the latency of a sample."""

    problem: Problem
    start: tuple[int, ...]
    length: int

    def ready(self, i: int) -> int:
        return self.start[i] + self.problem.operations[i].latency

    def last_use(self, i: int) -> int:
        """The last cycle in which the result of operation i is read."""
        last = max((self.start[u] for u in self.problem.users[i]), default=self.ready(i))
        return max(last, self.length) if i in self._outputs else last

    @cached_property
    def _outputs(self) -> frozenset[int]:
        return frozenset(self.problem.outputs)

    def registers(self, i: int) -> int:
        """Registers that hold the result of operation i, each for ii cycles."""
        lifetime = self.last_use(i) - self.ready(i)
        return registers_held(self.problem.operations[i].holds, lifetime, self.problem.ii)

    def total_registers(self) -> int:
        return sum(self.registers(i) for i in range(len(self.start)))

    def verify(self) -> Schedule:
        """Returns itself. Raises ScheduleError where an operand is not ready or a unit is used twice in a cycle."""
        for fault in self._faults():
            raise ScheduleError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        operations = self.problem.operations
        if len(self.start) != len(operations):
            yield f"{len(self.start)} start cycles for {len(operations)} operations"
            return
        used: Counter[tuple[str, int]] = Counter()
        for i, operation in enumerate(operations):
            for a in operation.operands:
                if self.start[i] < self.ready(a):
                    yield (
                        f"operation '{operation.name}' starts at {self.start[i]}, before its operand "
                        f"'{operations[a].name}' is ready at {self.ready(a)}"
                    )
            if self.start[i] < 0:
                yield f"operation '{operation.name}' starts at {self.start[i]}"
            if operation.resource is not None:
                slot = operation.resource, self.start[i] % self.problem.ii
                used[slot] += 1
                if used[slot] > self.problem.limits[operation.resource]:
                    yield (
                        f"operation '{operation.name}' is number {used[slot]} on '{operation.resource}' in slot "
                        f"{slot[1]}; there are {self.problem.limits[operation.resource]}"
                    )
        for i in self.problem.outputs:
            if self.ready(i) > self.length:
                yield f"output '{operations[i].name}' is ready at {self.ready(i)}, after the last cycle {self.length}"


def modulo_schedule(problem: Problem) -> Schedule:
    """A verified schedule: those operations first that have least room to move (Huff 1993), the shortest latency that
    this reaches, then registers saved.

    An operation's room is the cycles between the readiness of its operands and the last start that keeps the latency.
    The one with least is given its first cycle with a free unit, and the room of the others shrinks. Where a room has
    no free cycle, others that were placed there move within theirs; where none can, the latency is too short.
    """
    problem.check()
    length = critical = problem.critical_path()
    while (start := _Placement(problem, length).starts()) is None:
        length += max(critical // 100, 1)
    return _save_registers(Schedule(problem, tuple(start), length)).verify()


class _Placement:
    """Operations given their cycles one by one. first, last: of each operation's start, as those placed leave room."""

    def __init__(self, problem: Problem, length: int) -> None:
        self.problem, self.length = problem, length
        operations, count = problem.operations, len(problem.operations)
        self.first, self.last = [0] * count, [0] * count
        for i in range(count):
            self.first[i] = self._room(i)[0]
        for i in reversed(range(count)):
            self.last[i] = self._room(i)[1]
        self.busy: dict[tuple[str, int], list[int]] = defaultdict(list)  # (class, slot) -> operations placed there
        self.placed = [o.resource is None for o in operations]

    def starts(self) -> list[int] | None:
        """Of all operations, or None where one finds no free unit in its room."""
        operations = self.problem.operations
        queue = [self._entry(i) for i, placed in enumerate(self.placed) if not placed]
        heapq.heapify(queue)
        while queue:
            entry = heapq.heappop(queue)
            i = entry[-1]
            if self.placed[i] or entry != self._entry(i):
                continue  # an entry for this operation with its present room is still to come
            shrunk: set[int] = set()
            cycle = self._free(i, self.first[i], self.last[i])
            if cycle is None:
                cycle = self._make_room(i, shrunk)
            if cycle is None:
                return None
            self.placed[i] = True
            self._put(i, cycle, shrunk)
            for u in shrunk:
                if not self.placed[u] and operations[u].resource is not None:
                    heapq.heappush(queue, self._entry(u))
        return self.first

    def _entry(self, i: int) -> tuple[int, int, int]:
        """Those with a room of a whole interval or more find a unit wherever they are, so it need not order them."""
        return min(self.last[i] - self.first[i], self.problem.ii), self.first[i], i

    def _room(self, i: int) -> tuple[int, int]:
        """First and last start between what operation i reads and what reads it."""
        operations = self.problem.operations
        low = max((self.first[a] + operations[a].latency for a in operations[i].operands), default=0)
        high = min((self.last[u] for u in self.problem.users[i]), default=self.length)
        return low, high - operations[i].latency

    def _at(self, i: int, cycle: int) -> list[int]:
        """What is placed in this cycle's slot on the units that operation i needs."""
        resource = self.problem.operations[i].resource
        assert resource is not None
        return self.busy[resource, cycle % self.problem.ii]

    def _free(self, i: int, low: int, high: int) -> int | None:
        limit = self.problem.limits[self.problem.operations[i].resource or ""]
        cycles = range(low, min(high, low + self.problem.ii - 1) + 1)
        return next((c for c in cycles if len(self._at(i, c)) < limit), None)

    def _put(self, i: int, cycle: int, shrunk: set[int]) -> None:
        """Operation i starts in this cycle: what reads it no sooner, and what it reads no later, than that allows.
        Adds the operations whose room shrank."""
        operations, users = self.problem.operations, self.problem.users
        self._at(i, cycle).append(i)
        waiting = [(i, cycle)]
        while waiting:
            k, c = waiting.pop()
            if c > self.first[k]:
                self.first[k] = c
                waiting += [(u, c + operations[k].latency) for u in users[k]]
                shrunk.add(k)
        waiting = [(i, cycle)]
        while waiting:
            k, c = waiting.pop()
            if c < self.last[k]:
                self.last[k] = c
                waiting += [(a, c - operations[a].latency) for a in operations[k].operands]
                shrunk.add(k)

    def _make_room(self, i: int, shrunk: set[int]) -> int | None:
        """A cycle for operation i, where one that was placed there can move to another slot."""
        for cycle in range(self.first[i], min(self.last[i], self.first[i] + self.problem.ii - 1) + 1):
            for j in self._at(i, cycle):
                low, high = self._room(j)
                to = self._free(j, low, high)
                if to is not None:
                    self._at(i, cycle).remove(j)
                    self.first[j], self.last[j] = low, high
                    self._put(j, to, shrunk)
                    return cycle if self.first[i] <= cycle <= self.last[i] else None
        return None


def _save_registers(schedule: Schedule, sweeps: int = 3) -> Schedule:
    """Move operations between the readiness of their operands and their first use, where the registers that hold their
    operands and their result have the fewest bits. The latency stays."""
    problem = schedule.problem
    operations, users, ii = problem.operations, problem.users, problem.ii
    start = list(schedule.start)
    outputs = set(problem.outputs)
    used: Counter[tuple[str, int]] = Counter(
        (o.resource, start[i] % ii) for i, o in enumerate(operations) if o.resource is not None
    )

    def held(i: int, ready: int, last: int) -> int:
        return registers_held(operations[i].holds, last - ready, ii) * operations[i].width

    def last_use(i: int) -> int:
        last = max((start[u] for u in users[i]), default=0)
        return max(last, schedule.length) if i in outputs else last

    for sweep in range(sweeps):
        moved = False
        order = range(len(operations)) if sweep % 2 else reversed(range(len(operations)))
        for i in order:
            operation = operations[i]
            if not operation.operands or not (users[i] or i in outputs):
                continue
            operands = tuple(dict.fromkeys(operation.operands))
            earliest = max(start[a] + operations[a].latency for a in operands)
            latest = min([start[u] for u in users[i]] + ([schedule.length] if i in outputs else [])) - operation.latency
            if earliest >= latest:
                continue
            own_last = last_use(i)
            others = []
            for a in operands:
                last = max((start[u] for u in users[a] if u != i), default=0)
                if a in outputs:
                    last = max(last, schedule.length)
                others.append((a, start[a] + operations[a].latency, last))

            def cost(
                cycle: int,
                others: list[tuple[int, int, int]] = others,
                i: int = i,
                latency: int = operation.latency,
                own_last: int = own_last,
            ) -> int:
                total = held(i, cycle + latency, own_last)
                return total + sum(held(a, ready, max(last, cycle)) for a, ready, last in others)

            resource = operation.resource
            best, best_cost = start[i], cost(start[i])
            for cycle in range(earliest, latest + 1):
                if (
                    resource is not None
                    and cycle % ii != start[i] % ii
                    and used[resource, cycle % ii] >= problem.limits[resource]
                ):
                    continue
                here = cost(cycle)
                if here < best_cost:
                    best, best_cost = cycle, here
            if best != start[i]:
                if resource is not None:
                    used[resource, start[i] % ii] -= 1
                    used[resource, best % ii] += 1
                start[i] = best
                moved = True
        if not moved:
            break
    return replace(schedule, start=tuple(start))
