"""A start for every operation of a folded pipeline: the shortest latency for which all find a unit, then the fewest
registers.

What has fewest places is placed first (after Huff, "Lifetime-sensitive modulo scheduling", 1993), as near as can be to
where a linear program without units wants it (`hw.lifetimes`); sums, which need no unit, then go to their best places.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace

from dynagate.hw.lifetimes import least_lifetimes, save_registers
from dynagate.hw.schedule import Problem, Schedule

TIGHT = 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 4.0, 8.0
"""Operations with less room than so many intervals are placed as early as can be instead: the first that works."""

ORDERS = "places", "room", "time"
"""What is placed first: what has fewest slots in its room times units; what has least room, though one of an interval
finds a unit anywhere; or what needs scarce units (all but the most frequent), as time goes, the earliest deadline of
equals first, and the others by room."""


def modulo_schedule(problem: Problem) -> Schedule:
    """A verified schedule of the shortest latency that placing all as early as can be reaches, its registers saved. Its
    problem has the limits that it needs, where those were more."""
    problem.check()
    length = critical = problem.critical_path()
    earliest = [0] * len(problem.operations)
    while (placed := _placed(problem, length, earliest)) is None:
        length += max(critical // 100, 1)
    wish, room = least_lifetimes(problem, length, {}), Placement(problem, length, earliest).room()
    mixed = ([w if r >= tight * problem.ii else 0 for w, r in zip(wish, room, strict=True)] for tight in TIGHT)
    better = (_placed(problem, length, wishes) for wishes in mixed)
    placed = next((found for found in better if found is not None), placed)
    start = least_lifetimes(problem, length, placed)
    found = save_registers(Schedule(problem, tuple(start), length))
    return replace(found, problem=replace(problem, limits=found.units())).verify()


def _placed(problem: Problem, length: int, wish: Sequence[int]) -> dict[int, int] | None:
    """Starts of what needs a unit, in the order that finds them."""
    found = (Placement(problem, length, wish, order).starts() for order in ORDERS)
    return next((starts for starts in found if starts is not None), None)


class Placement:
    """Operations that need a unit are given their cycles one by one. wish: the cycle that each would like.

    An operation's room is the cycles between the readiness of its operands and the last start that keeps the latency.
    One after the other (`ORDERS`) takes the free cycle nearest to its wish, and the room of the others shrinks. Where a
    room has no free cycle, others that were placed there move within theirs; where none can, the latency is too short.
    """

    def __init__(self, problem: Problem, length: int, wish: Sequence[int], order: str = "places") -> None:
        self.problem, self.length, self.wish, self.order = problem, length, wish, order
        operations, count = problem.operations, len(problem.operations)
        self.most = max(problem.limits.values(), default=0)
        # of each operation's start, as those placed leave room
        self.first, self.last = [0] * count, [0] * count
        for i in range(count):
            self.first[i] = self._room(i)[0]
        for i in reversed(range(count)):
            self.last[i] = self._room(i)[1]
        self.busy: dict[tuple[str, int], list[int]] = defaultdict(list)  # (class, slot) -> operations placed there
        self.placed = [o.resource is None for o in operations]

    def room(self) -> list[int]:
        """Cycles that each operation can still move."""
        return [last - first for first, last in zip(self.first, self.last, strict=True)]

    def starts(self) -> dict[int, int] | None:
        """Of the operations that need a unit, or None where one finds none free in its room."""
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
                if not self.placed[u]:
                    heapq.heappush(queue, self._entry(u))
        return {i: self.first[i] for i, o in enumerate(operations) if o.resource is not None}

    def _entry(self, i: int) -> tuple[int, int, int, int]:
        """What comes first is placed first."""
        units = self.problem.limits[self.problem.operations[i].resource or ""]
        slots = min(self.last[i] - self.first[i] + 1, self.problem.ii)
        rank = {"places": slots * units, "room": slots, "time": slots if units == self.most else 0}[self.order]
        return rank, self.first[i], self.last[i], i

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

    def _has_unit(self, i: int, cycle: int) -> bool:
        return len(self._at(i, cycle)) < self.problem.limits[self.problem.operations[i].resource or ""]

    def _near(self, i: int, low: int, high: int) -> list[int]:
        """The cycles of a room, one for each slot at least, those nearest to the wish first."""
        wish, ii = min(max(self.wish[i], low), high), self.problem.ii
        return sorted(range(max(low, wish - ii), min(high, wish + ii) + 1), key=lambda cycle: abs(cycle - wish))

    def _free(self, i: int, low: int, high: int) -> int | None:
        return next((cycle for cycle in self._near(i, low, high) if self._has_unit(i, cycle)), None)

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
        """A cycle for operation i, where one that was placed there can move to another slot, or could if a third one
        moved, and so on: a shortest chain of moves."""
        ii = self.problem.ii
        ahead: dict[int, tuple[int, int] | None] = {}  # slot -> who can move into it, and from which
        waiting: deque[int] = deque()
        for cycle in self._near(i, self.first[i], self.last[i]):
            if cycle % ii not in ahead:
                ahead[cycle % ii] = None
                waiting.append(cycle % ii)
        while waiting and not self._has_unit(i, waiting[0]):
            slot = waiting.popleft()
            for j in self._at(i, slot):
                for cycle in self._near(j, *self._room(j)):
                    if cycle % ii not in ahead:
                        ahead[cycle % ii] = j, slot
                        waiting.append(cycle % ii)
        if not waiting:
            return None
        slot = waiting[0]
        while (step := ahead[slot]) is not None:
            j, left = step
            low, high = self._room(j)  # those moved before may have changed it
            to = next((cycle for cycle in self._near(j, low, high) if cycle % ii == slot), None)
            if to is None:
                return None
            self._at(j, left).remove(j)
            self.first[j], self.last[j] = low, high
            self._put(j, to, shrunk)
            slot = left
        return self._free(i, self.first[i], self.last[i]) if self.first[i] <= self.last[i] else None
