"""Binding: which unit of its class executes each operation, so that operand multiplexers have few inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from dynagate.hw.plan.schedule import Schedule, ScheduleError

Sources = Callable[[int], tuple[Hashable, ...]]
"""The registers or wires that an operation reads at its start, one per operand port."""


@dataclass(frozen=True)
class Binding:
    """unit: operation -> (resource class, instance). mux_inputs: different sources, summed over all operand ports."""

    unit: dict[int, tuple[str, int]]
    mux_inputs: int

    def operations_of(self, schedule: Schedule) -> dict[tuple[str, int], dict[int, int]]:
        """(resource class, instance) -> slot -> operation. Raises ScheduleError: two operations share unit and slot."""
        result: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        for i, unit in self.unit.items():
            slot = schedule.start[i] % schedule.problem.ii
            if slot in result[unit]:
                raise ScheduleError(f"operations {result[unit][slot]} and {i} are both bound to {unit} in slot {slot}")
            result[unit][slot] = i
        return dict(result)


def bind(schedule: Schedule, sources: Sources) -> Binding:
    """Bind operations in order of their starts: each to the free instance whose operand ports already read most of its
    sources, of equals to the first."""
    problem = schedule.problem
    unit: dict[int, tuple[str, int]] = {}
    taken: dict[tuple[str, int], set[int]] = defaultdict(set)  # (class, slot) -> instances in use
    seen: set[tuple[str, int, int, Hashable]] = set()  # (class, instance, port, source)
    fans: dict[tuple[str, int, Hashable], list[int]] = defaultdict(list)  # (class, port, source) -> instances
    order = sorted(
        (i for i, o in enumerate(problem.operations) if o.resource is not None),
        key=lambda i: (schedule.start[i], i),
    )
    for i in order:
        resource = problem.operations[i].resource
        assert resource is not None
        slot = schedule.start[i] % problem.ii
        operands = sources(i)
        busy = taken[resource, slot]
        score: dict[int, int] = defaultdict(int)
        for port, source in enumerate(operands):
            for instance in fans[resource, port, source]:
                if instance not in busy:
                    score[instance] += 1
        free = next(k for k in range(problem.limits[resource]) if k not in busy)
        best = max(score, key=lambda k: (score[k], -k), default=free)
        busy.add(best)
        unit[i] = resource, best
        for port, source in enumerate(operands):
            if (resource, best, port, source) not in seen:
                seen.add((resource, best, port, source))
                fans[resource, port, source].append(best)
    return Binding(unit, len(seen))
