"""Find start cycles with the fewest bits in delay lines: a linear program for all operations, then local moves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from dynagate.hw.plan.schedule import Problem, Schedule, registers_held

SWEEPS = 6
"""Largest number of passes of `save_registers` over all operations."""


def least_lifetimes(problem: Problem, length: int, fixed: Mapping[int, int]) -> list[int]:
    """Return start cycles that minimise the sum of width × lifetime over all results. Units are not limited.

    The linear program has a variable for the start of each operation and one for the end of each result. Every
    constraint is a difference of two variables, so the corners are whole numbers. A result that its unit's own register
    holds has a lifetime of at least one interval.

    Args:
        problem: Scheduling problem.
        length: Latency of the schedule in cycles.
        fixed: Start cycles of operations that do not move.

    Raises:
        ValueError: No starts satisfy the constraints.
    """
    from scipy.optimize import linprog  # a processor's program imports this module and solves nothing here
    from scipy.sparse import csr_array

    operations, count, ii = problem.operations, len(problem.operations), problem.ii
    outputs = set(problem.outputs)
    early: list[int] = []
    late: list[int] = []
    gap: list[int] = []  # value[early] + gap <= value[late]; variables: all starts, then all ends of results
    low, high = np.zeros(2 * count), np.full(2 * count, float(length + 2 * ii))
    for i, operation in enumerate(operations):
        own = ii if operation.holds else 0
        constraints = [(i, u, operation.latency) for u in problem.users[i]]
        constraints += [(u, count + i, int(operation.holds)) for u in problem.users[i]]
        constraints.append((i, count + i, operation.latency + own))
        for a, b, cycles in constraints:
            early.append(a)
            late.append(b)
            gap.append(cycles)
        high[i] = problem.deadlines.get(i, length) - operation.latency if operation.operands else 0
        if i in outputs or i in problem.held:
            low[count + i] = (length if i in outputs else problem.held[i]) + int(operation.holds)
        if i in fixed:
            low[i] = high[i] = fixed[i]
    rows = np.arange(len(gap))
    ones = np.ones(len(gap))
    differences = csr_array(
        (np.concatenate([ones, -ones]), (np.concatenate([rows, rows]), np.concatenate([early, late]))),
        shape=(len(gap), 2 * count),
    )
    width = np.array([operation.width for operation in operations], dtype=float)
    solution = linprog(
        np.concatenate([-width, width]),
        A_ub=differences,
        b_ub=-np.array(gap, dtype=float),
        bounds=np.stack([low, high], axis=1),
        method="highs-ds",
    )
    if solution.x is None:
        raise ValueError(f"no starts within {length} cycles: {solution.message}")
    return [int(cycle) for cycle in np.rint(solution.x[:count])]


def save_registers(schedule: Schedule) -> Schedule:
    """Move operations one by one to the start with the fewest register bits.

    An operation moves within its slack. Its cost counts the delay lines of its operands and of its result. Latency and
    the number of units do not change.
    """
    problem = schedule.problem
    operations, users, ii = problem.operations, problem.users, problem.ii
    start, outputs = list(schedule.start), set(problem.outputs)
    used = Counter((o.resource, start[i] % ii) for i, o in enumerate(operations))

    def last_use(i: int, but: int | None = None) -> int:
        """Return the last cycle in which an operation other than `but` reads the result of operation i."""
        last = max((start[u] for u in users[i] if u != but), default=0)
        last = max(last, problem.held.get(i, 0))
        return max(last, schedule.length) if i in outputs else last

    def bits(cycles: range, i: int) -> list[int]:
        """Return, for each start cycle, the bits in the delay lines of operation i's result and operands."""
        own, own_last = operations[i], last_use(i)
        total = [registers_held(own.holds, own_last - c - own.latency, ii) * own.width for c in cycles]
        for a in dict.fromkeys(own.operands):
            operand, ready, last = operations[a], start[a] + operations[a].latency, last_use(a, i)
            for k, c in enumerate(cycles):
                total[k] += registers_held(operand.holds, max(last, c) - ready, ii) * operand.width
        return total

    def best(i: int) -> int:
        """Return the start of operation i with the fewest bits; its present start if no other has fewer."""
        operation, now = operations[i], start[i]
        earliest = max(start[a] + operations[a].latency for a in operation.operands)
        read = [start[u] for u in users[i]] + [schedule.length] * (i in outputs)
        latest = min([*read, problem.deadlines.get(i, schedule.length)]) - operation.latency
        cycles = range(earliest, latest + 1)
        if len(cycles) == 1:
            return now
        total = bits(cycles, i)
        limit = math.inf if operation.resource is None else problem.limits[operation.resource]
        free = [c for c in cycles if (c - now) % ii == 0 or used[operation.resource, c % ii] < limit]
        return min(free, key=lambda c: (total[c - earliest], c != now, c))

    for sweep in range(SWEEPS):
        before = list(start)
        for i in range(len(operations)) if sweep % 2 else reversed(range(len(operations))):
            if operations[i].operands and (users[i] or i in outputs or i in problem.held):
                used[operations[i].resource, start[i] % ii] -= 1
                start[i] = best(i)
                used[operations[i].resource, start[i] % ii] += 1
        if start == before:
            break
    return replace(schedule, start=tuple(start))
