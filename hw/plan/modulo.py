"""Modulo scheduling: a start cycle for every operation of a pipeline that takes a new sample every II cycles.

The first goal is the shortest latency, the second the fewest register bits. A linear program that ignores units gives
each operation a preferred start (`hw.plan.lifetimes`). The operations that need a shared unit are placed one by one,
each in the free cycle nearest to its preferred start; those with the fewest free slots come first (after Huff,
"Lifetime-sensitive modulo scheduling", 1993). The sums, which need no shared unit, then get the starts with the fewest
register bits.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace

from dynagate.hw.plan.lifetimes import least_lifetimes, save_registers
from dynagate.hw.plan.schedule import Problem, Schedule

TIGHT = 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 4.0, 8.0
"""Thresholds of slack, in initiation intervals, tried in order until a schedule exists.

Operations with less slack are placed as early as possible, and not where the linear program prefers them.
"""

ORDERS = "places", "slack", "time"
"""Priority rules for the next operation to place, tried in order until a schedule exists.

places: fewest free slots, counted over its slack and all units of its class.
slack: least slack. Slack of an interval or more counts as one interval, because any unit then has a slot for it.
time: operations on scarce units (all classes but the largest) first, in order of earliest start, ties broken by the
earliest deadline; the rest by slack.
"""


def modulo_schedule(problem: Problem) -> Schedule:
    """Schedule a problem and verify the result.

    The latency is the smallest at which placing all operations as early as possible succeeds. At this latency, register
    bits are saved. If it exceeds the critical path, early outputs come later by the same number of cycles.

    Returns:
        A verified schedule. The limits of its problem are reduced to the units that it uses.

    Raises:
        ScheduleError: The problem is not well posed.
    """
    problem.check()
    length = critical = problem.critical_path()
    asap = [0] * len(problem.operations)
    while (placed := _placed(problem, length, asap)) is None:
        step = max(critical // 100, 1)
        length += step
        problem = problem.later(step, length)
    preferred, slack = least_lifetimes(problem, length, {}), Placement(problem, length, asap).slack()
    mixed = ([p if s >= tight * problem.ii else 0 for p, s in zip(preferred, slack, strict=True)] for tight in TIGHT)
    attempts = (_placed(problem, length, targets) for targets in mixed)
    placed = next((starts for starts in attempts if starts is not None), placed)
    start = least_lifetimes(problem, length, placed)
    schedule = save_registers(Schedule(problem, tuple(start), length))
    return replace(schedule, problem=replace(problem, limits=schedule.units())).verify()


def _placed(problem: Problem, length: int, preferred: Sequence[int]) -> dict[int, int] | None:
    """Return the starts of the operations that need a unit, by the first priority rule that succeeds; None if none
    does.
    """
    attempts = (Placement(problem, length, preferred, order).starts() for order in ORDERS)
    return next((starts for starts in attempts if starts is not None), None)


class Placement:
    """Placement of the operations that need a unit, one by one.

    An operation's window goes from the cycle in which its operands are ready to the last start that keeps the latency;
    its slack is the window's length less one. The operation of highest priority takes the free cycle of its window that
    is nearest to its preferred start, which narrows the windows of the others. If its window has no free cycle,
    operations placed there before move within their windows. If none can move, there is no placement.

    Args:
        problem: Scheduling problem.
        length: Latency of the schedule in cycles.
        preferred: Preferred start cycle of each operation.
        order: Priority rule, one of ORDERS.
    """

    def __init__(self, problem: Problem, length: int, preferred: Sequence[int], order: str = "places") -> None:
        self.problem, self.length, self.preferred, self.order = problem, length, preferred, order
        operations, count = problem.operations, len(problem.operations)
        self.most = max(problem.limits.values(), default=0)
        # each operation's window: first and last start that the placed operations allow
        self.first, self.last = [0] * count, [0] * count
        for i in range(count):
            self.first[i] = self._window(i)[0]
        for i in reversed(range(count)):
            self.last[i] = self._window(i)[1]
        self.busy: dict[tuple[str, int], list[int]] = defaultdict(list)  # (class, slot) -> operations placed there
        self.placed = [o.resource is None for o in operations]

    def slack(self) -> list[int]:
        """Return the slack of each operation, in cycles."""
        return [last - first for first, last in zip(self.first, self.last, strict=True)]

    def starts(self) -> dict[int, int] | None:
        """Return the starts of the operations that need a unit, or None if one of them has no free cycle in its
        window.
        """
        operations = self.problem.operations
        queue = [self._entry(i) for i, placed in enumerate(self.placed) if not placed]
        heapq.heapify(queue)
        while queue:
            entry = heapq.heappop(queue)
            i = entry[-1]
            if self.placed[i] or entry != self._entry(i):
                continue  # outdated: the queue has an entry with the operation's present window
            narrowed: set[int] = set()
            cycle = self._free(i, self.first[i], self.last[i])
            if cycle is None:
                cycle = self._make_free(i, narrowed)
            if cycle is None:
                return None
            self.placed[i] = True
            self._put(i, cycle, narrowed)
            for u in narrowed:
                if not self.placed[u]:
                    heapq.heappush(queue, self._entry(u))
        return {i: self.first[i] for i, o in enumerate(operations) if o.resource is not None}

    def _entry(self, i: int) -> tuple[int, int, int, int]:
        """Return the operation's entry in the priority queue: the smallest entry is placed first."""
        units = self.problem.limits[self.problem.operations[i].resource or ""]
        slots = min(self.last[i] - self.first[i] + 1, self.problem.ii)
        rank = {"places": slots * units, "slack": slots, "time": slots if units == self.most else 0}[self.order]
        return rank, self.first[i], self.last[i], i

    def _window(self, i: int) -> tuple[int, int]:
        """Return the first start after the operands are ready, and the last start before a user needs the result."""
        operations = self.problem.operations
        low = max((self.first[a] + operations[a].latency for a in operations[i].operands), default=0)
        high = min((self.last[u] for u in self.problem.users[i]), default=self.length)
        high = min(high, self.problem.deadlines.get(i, self.length))
        return low, high - operations[i].latency

    def _at(self, i: int, cycle: int) -> list[int]:
        """Return the operations of the same class that occupy this cycle's slot."""
        resource = self.problem.operations[i].resource
        assert resource is not None
        return self.busy[resource, cycle % self.problem.ii]

    def _has_unit(self, i: int, cycle: int) -> bool:
        return len(self._at(i, cycle)) < self.problem.limits[self.problem.operations[i].resource or ""]

    def _near(self, i: int, low: int, high: int) -> list[int]:
        """Return the cycles of a window within one interval of the preferred start, the nearest first. Every slot
        occurs.
        """
        target, ii = min(max(self.preferred[i], low), high), self.problem.ii
        return sorted(range(max(low, target - ii), min(high, target + ii) + 1), key=lambda cycle: abs(cycle - target))

    def _free(self, i: int, low: int, high: int) -> int | None:
        return next((cycle for cycle in self._near(i, low, high) if self._has_unit(i, cycle)), None)

    def _put(self, i: int, cycle: int, narrowed: set[int]) -> None:
        """Place operation i in a cycle and narrow the windows of its operands and users.

        Operations whose windows become narrower are added to `narrowed`.
        """
        operations, users = self.problem.operations, self.problem.users
        self._at(i, cycle).append(i)
        stack = [(i, cycle)]
        while stack:
            k, c = stack.pop()
            if c > self.first[k]:
                self.first[k] = c
                stack += [(u, c + operations[k].latency) for u in users[k]]
                narrowed.add(k)
        stack = [(i, cycle)]
        while stack:
            k, c = stack.pop()
            if c < self.last[k]:
                self.last[k] = c
                stack += [(a, c - operations[a].latency) for a in operations[k].operands]
                narrowed.add(k)

    def _make_free(self, i: int, narrowed: set[int]) -> int | None:
        """Free a cycle for operation i by moving placed operations to other slots; return None if that fails.

        A breadth-first search over slots finds the shortest chain of moves. The last operation of the chain moves to a
        free slot, and each other operation to the slot that the next one has left.
        """
        ii = self.problem.ii
        move_into: dict[int, tuple[int, int] | None] = {}  # slot -> (operation that can move into it, from which slot)
        queue: deque[int] = deque()
        for cycle in self._near(i, self.first[i], self.last[i]):
            if cycle % ii not in move_into:
                move_into[cycle % ii] = None
                queue.append(cycle % ii)
        while queue and not self._has_unit(i, queue[0]):
            slot = queue.popleft()
            for j in self._at(i, slot):
                for cycle in self._near(j, *self._window(j)):
                    if cycle % ii not in move_into:
                        move_into[cycle % ii] = j, slot
                        queue.append(cycle % ii)
        if not queue:
            return None
        slot = queue[0]
        while (move := move_into[slot]) is not None:
            j, source = move
            low, high = self._window(j)  # earlier moves of the chain may have changed it
            target = next((cycle for cycle in self._near(j, low, high) if cycle % ii == slot), None)
            if target is None:
                return None
            self._at(j, source).remove(j)
            self.first[j], self.last[j] = low, high
            self._put(j, target, narrowed)
            slot = source
        return self._free(i, self.first[i], self.last[i]) if self.first[i] <= self.last[i] else None
