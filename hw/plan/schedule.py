"""The modulo scheduling problem, and the check of its solution.

A sample enters every `ii` cycles. Operation i of a sample that enters in cycle c starts in cycle c + start[i]. Two
operations on one unit collide if their starts are equal modulo ii. As in CIRCT's lib/Scheduling, `Problem.check`
validates the problem, a solver (`hw.plan.modulo`) computes the starts, and `Schedule.verify` always checks them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dynagate.base.arguments import is_whole
from dynagate.base.errors import Error

LONGEST_INTERVAL = 65535
"""Largest initiation interval, in cycles: the slot counter is one-hot, and Amaranth accepts no wider signal."""

MOST_STAGES = 64
"""Largest number of additional register stages behind a product or a sum. No FPGA needs as many."""


MOST_WAITING = 4
"""Largest number of operations of the critical path that share a slot of a unit; each one but the first waits."""


class ScheduleError(Error, ValueError):
    """A scheduling problem or a schedule breaks a rule; the text names the operation."""


def check_interval(ii: int) -> None:
    """Check an initiation interval.

    Raises:
        ScheduleError: It is no whole number from 1 to LONGEST_INTERVAL.
    """
    if not is_whole(ii) or not 1 <= ii <= LONGEST_INTERVAL:
        raise ScheduleError(
            f"initiation interval {ii}; expected a whole number from 1 to {LONGEST_INTERVAL} cycles", code="DG-HW-018"
        )


@dataclass(frozen=True)
class Operation:
    """An operation to schedule."""

    name: str
    operands: tuple[int, ...]
    """Indices of the operations whose results it reads, all smaller than its own index."""
    latency: int
    """Cycles from its start until the result can be read."""
    resource: str | None = None
    """Class of the shared unit that it occupies for one cycle, at its start; None if it has hardware of its own."""
    holds: bool = True
    """Whether the unit's own register holds the result for ii cycles; otherwise it is readable for one cycle."""
    width: int = 1
    """Bits of the result."""


def registers_held(holds: bool, lifetime: int, ii: int) -> int:
    """Return the registers of a delay line, each of which holds a result for ii cycles.

    Args:
        holds: Whether the first register is the unit's own. If not, a use in the cycle of readiness needs no register.
        lifetime: Cycles from readiness to the last use.
        ii: Initiation interval in cycles.
    """
    return lifetime // ii + 1 if holds else math.ceil(lifetime / ii)


@dataclass(frozen=True)
class Early:
    """Operations whose results must all be readable in a cycle before the last one."""

    outputs: tuple[int, ...]
    cycle: int


@dataclass(frozen=True)
class Problem:
    """A modulo scheduling problem."""

    operations: tuple[Operation, ...]
    ii: int
    """Initiation interval in cycles."""
    limits: Mapping[str, int]
    """Number of units, by resource class."""
    outputs: tuple[int, ...]
    """Operations whose results must all be readable in the last cycle."""
    early: tuple[Early, ...] = ()
    """Operations whose results must be readable earlier."""

    def check(self) -> Problem:
        """Return the problem if it is well posed.

        Raises:
            ScheduleError: An operation, a limit or an output breaks a rule.
        """
        for fault in self._faults():
            raise ScheduleError(fault, code="DG-HW-019")
        return self

    def _faults(self) -> Iterator[str]:
        if self.ii < 1:
            yield f"initiation interval {self.ii}; expected 1 or more"
        demand = Counter(o.resource for o in self.operations if o.resource is not None)
        for i, operation in enumerate(self.operations):
            if any(not 0 <= a < i for a in operation.operands):
                yield f"operation '{operation.name}' reads {operation.operands}; operands must come before it"
            if operation.latency < 1:
                yield f"operation '{operation.name}' has latency {operation.latency}; expected 1 or more"
        for resource, count in demand.items():
            limit = self.limits.get(resource, 0)
            if count > limit * self.ii:
                yield f"{count} operations on {limit} × '{resource}' do not fit in {self.ii} slots"
        for i in (*self.outputs, *(i for early in self.early for i in early.outputs)):
            if not 0 <= i < len(self.operations):
                yield f"output {i} is no operation"

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """Return, for each operation, the operations that read its result, each once."""
        readers: list[list[int]] = [[] for _ in self.operations]
        for i, operation in enumerate(self.operations):
            for a in dict.fromkeys(operation.operands):
                readers[a].append(i)
        return tuple(map(tuple, readers))

    @cached_property
    def earliest(self) -> tuple[int, ...]:
        """Return, for each operation, the earliest cycle in which its result can be read with unlimited units."""
        ready: list[int] = []
        for operation in self.operations:
            ready.append(max((ready[a] for a in operation.operands), default=0) + operation.latency)
        return tuple(ready)

    def critical_path(self) -> int:
        """Return the cycles from the first start to the last result with unlimited units."""
        return max(self.earliest, default=0)

    def latest(self, length: int) -> list[int]:
        """Return, for each operation, its latest start in a schedule of this latency with unlimited units."""
        starts = [0] * len(self.operations)
        for i in reversed(range(len(self.operations))):
            end = min((starts[u] for u in self.users[i]), default=length)
            starts[i] = min(end, self.deadlines.get(i, length)) - self.operations[i].latency
        return starts

    def units_at_once(self) -> dict[str, int]:
        """Return the units of each class with which at most MOST_WAITING operations of the critical path share a slot.

        Otherwise they lengthen the latency, like the sines of all legs, which start together when a sample enters.
        """
        starts = zip(self.operations, self.earliest, self.latest(self.critical_path()), strict=True)
        counts = Counter((o.resource, late % self.ii) for o, ready, late in starts if late + o.latency == ready)
        return {
            name: math.ceil(max((n for (other, _), n in counts.items() if other == name), default=0) / MOST_WAITING)
            for name in self.limits
        }

    @cached_property
    def deadlines(self) -> dict[int, int]:
        """Return the first cycle in which a result is read as an early output, by operation."""
        cycles: dict[int, int] = {}
        for early in self.early:
            cycles |= {i: min(early.cycle, cycles.get(i, early.cycle)) for i in early.outputs}
        return cycles

    @cached_property
    def held(self) -> dict[int, int]:
        """Return the last cycle in which a result is read as an early output, by operation."""
        cycles: dict[int, int] = {}
        for early in self.early:
            cycles |= {i: max(early.cycle, cycles.get(i, 0)) for i in early.outputs}
        return cycles

    def later(self, cycles: int, length: int) -> Problem:
        """Return the problem with early outputs delayed.

        Args:
            cycles: Delay of the early outputs.
            length: Latency of the schedule. Outputs that would be read later are read in this cycle.
        """
        early = tuple(Early(e.outputs, e.cycle + cycles) for e in self.early)
        late = (i for e in early if e.cycle >= length for i in e.outputs)
        outputs = tuple(dict.fromkeys((*self.outputs, *late)))
        return replace(self, outputs=outputs, early=tuple(e for e in early if e.cycle < length))


@dataclass(frozen=True)
class Schedule:
    """A solution of a scheduling problem."""

    problem: Problem
    start: tuple[int, ...]
    """Start cycle of each operation."""
    length: int
    """Cycle in which all outputs are read: the latency of a sample."""

    def ready(self, i: int) -> int:
        """Return the first cycle in which the result of operation i can be read."""
        return self.start[i] + self.problem.operations[i].latency

    def last_use(self, i: int) -> int:
        """Return the last cycle in which the result of operation i is read."""
        last = max((self.start[u] for u in self.problem.users[i]), default=self.ready(i))
        last = max(last, self.problem.held.get(i, 0))
        return max(last, self.length) if i in self._outputs else last

    @cached_property
    def _outputs(self) -> frozenset[int]:
        return frozenset(self.problem.outputs)

    def registers(self, i: int) -> int:
        """Return the length of the delay line that holds the result of operation i, in registers."""
        lifetime = self.last_use(i) - self.ready(i)
        return registers_held(self.problem.operations[i].holds, lifetime, self.problem.ii)

    def units(self) -> dict[str, int]:
        """Return the largest number of units of each class that are in use in the same slot."""
        operations, ii = self.problem.operations, self.problem.ii
        used = Counter((o.resource, cycle % ii) for o, cycle in zip(operations, self.start, strict=True))
        return {
            name: max((count for (other, _), count in used.items() if other == name), default=0)
            for name in self.problem.limits
        }

    def total_registers(self) -> int:
        """Return the number of registers in all delay lines."""
        return sum(self.registers(i) for i in range(len(self.start)))

    def register_bits(self) -> int:
        """Return the number of bits in all delay lines."""
        return sum(self.registers(i) * operation.width for i, operation in enumerate(self.problem.operations))

    def verify(self) -> Schedule:
        """Return the schedule if it is valid.

        Raises:
            ScheduleError: An operand is not ready, or more operations share a slot than there are units.
        """
        for fault in self._faults():
            raise ScheduleError(fault, code="DG-HW-020")
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
        for i, cycle in self.problem.deadlines.items():
            if self.ready(i) > cycle:
                yield f"output '{operations[i].name}' is ready at {self.ready(i)}, after cycle {cycle}, which reads it"
