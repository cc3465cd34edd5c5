"""Collect which overflow bits no input sets, and which entries of tables no input reads, for proofs of equivalence.

Interval arithmetic over the graph shows which operations fit their formats for all inputs that the formats hold. In the
Verilog of a datapath, the overflow bits of such operations are zero for every sample. The same ranges show which
entries of a table are never read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dynagate.base.progress import quiet
from dynagate.sim.mutants import Mutant

if TYPE_CHECKING:
    from dynagate.hw.plan.plan import Plan

FILE = "datapath.v"
"""Verilog file in which overflow bits are collected."""
ZERO = "1'b0"
_COLLECTED = re.compile(r"^    ((overflow(?:_of_\w+?)?_\d+)_(late|\d+)(?:_\d+)?|any_\d+) <?= (.*);$")
_DIFFER = r"\(\|{name}(_guard)\) & \(!\(&{name}_guard\)\)"
_ENTRY = re.compile(r"^\s*table_value\[(\d+)\] = ")
_GUARD = re.compile(r"\b(\w+)_guard <= ")


@dataclass(frozen=True)
class RangeFacts:
    """Overflow bits that are zero for all inputs, and entries that no input reads."""

    silent: Mapping[str, str] = field(default_factory=dict)
    """Signal of the compared bits of an operation that always fits, and its pattern in the Verilog."""
    quiet: frozenset[tuple[str, int]] = frozenset()
    """Cycles in which no operation of a pass overflows, each with the name of the pass in registers."""
    units: Mapping[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    """Multipliers whose results in a cycle always fit, by pass and cycle."""
    unread: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Entries that no input reads, by the name of the unit with the table."""

    def is_unread(self, module: str, line: str) -> bool:
        """Return whether a line of a module is an entry of a table that no input reads."""
        entry = _ENTRY.match(line)
        unit = module.rpartition("__units__")[2]
        return entry is not None and int(entry[1]) in self.unread.get(unit, ())

    def applied(self, text: str, changed: int = 0, excluded: str = "") -> str:
        """Return the text of the file with constant zeros for the overflow bits of operations.

        Registers are kept, so that a mutant that sets one of them is not hidden.

        Args:
            text: Text of `FILE`.
            changed: Number of the mutant's line, in which only bits of operations are replaced.
            excluded: Operation whose bits stay.
        """
        lines = text.split("\n")
        silent = [pattern for name, pattern in self.silent.items() if name != excluded]
        whole = re.compile("|".join(silent)) if silent else None
        for at, line in enumerate(lines):
            match = _COLLECTED.match(line)
            if match is None:
                continue
            owner = match if match[2] else _COLLECTED.match(lines[at + 1])
            if whole:
                line = whole.sub(ZERO, line)
            if owner is not None and owner[2] and owner[3] != "late":
                key = owner[2], int(owner[3]) - 1
                for unit in self.units.get(key, ()):
                    line = re.sub(rf"\b{unit}_guard_\d+\b", ZERO, line)
                if key in self.quiet and at + 1 != changed and not (excluded and f"{excluded}_guard" in line):
                    before = re.findall(rf"\b{owner[2]}_\d+(?:_\d+)?\b|\bany_\d+\b", match[4])
                    line = line[: match.start(4)] + f"|{{{', '.join([*before, ZERO])}}};"
            lines[at] = line
        return "\n".join(lines)

    def texts(self, texts: Mapping[str, str], mutant: Mutant) -> tuple[dict[str, str], dict[str, str]] | None:
        """Return the Verilog of the design and of the mutant with these facts; None if the mutant may change them."""
        changed = mutant.applied(texts[mutant.file])
        if mutant.file == FILE and _COLLECTED.match(mutant.old) and _COLLECTED.match(mutant.new):
            return {**texts, FILE: self.applied(texts[FILE])}, {**texts, FILE: self.applied(changed, mutant.line)}
        guard = _GUARD.search(mutant.old)
        if guard is None or guard[1] not in self.silent:
            return None
        design = self.applied(texts[FILE])
        own = self.applied(texts[FILE], excluded=guard[1])
        return {**texts, FILE: design}, {**texts, FILE: own, mutant.file: changed}


def range_facts(folder: Path) -> RangeFacts:
    """Return the facts on the datapath of a folder; none for other designs.

    Raises:
        DesignError: The design is damaged, or another version of dynagate built it.
    """
    if not (folder / FILE).is_file():  # a program: to schedule it again takes long
        return RangeFacts()
    from dynagate.hw.bodies.pipeline import Pipeline
    from dynagate.hw.rebuild import rebuild

    hardware = rebuild(folder, quiet).hardware
    if not isinstance(hardware, Pipeline):
        return RangeFacts()
    return _facts(hardware.plan)


def _facts(plan: Plan) -> RangeFacts:
    """Return the facts on a plan."""
    from dynagate.hw.rtl.datapath import overflow_cycles
    from dynagate.hw.vectors.directed import never_read, reachable

    graph, bounds = plan.formatted.graph, reachable(plan.formatted)
    possible = bounds.overflows
    unit_of = dict(_units(plan))
    silent: dict[str, str] = {}
    loud: set[tuple[str, int]] = set()
    groups: set[tuple[str, int]] = set()
    at: dict[tuple[str, int, str], bool] = defaultdict(bool)
    cycles = overflow_cycles(plan)
    for delivery in plan.deliveries:
        prefix = "overflow" if len(plan.deliveries) == 1 else f"overflow_of_{delivery.name}"
        for i, cycle in cycles:
            if i not in delivery.needed:
                continue
            name = f"{prefix}_{graph.scope_of[i]}"
            groups.add((name, cycle))
            if possible[i]:
                loud.add((name, cycle))
            if i in unit_of:
                at[name, cycle, unit_of[i]] |= possible[i]
    for i, _ in cycles:
        if not possible[i]:
            signal = plan.signal_names[i]
            silent[signal] = _DIFFER.format(name=signal)
    unread = {
        name.replace(" ", "_").replace(".", "_").replace("-", "m"): frozenset(map(int, entries))
        for name, entries in never_read(plan.formatted, bounds).items()
    }
    units: dict[tuple[str, int], set[str]] = defaultdict(set)
    for (name, cycle, unit), may in at.items():
        if not may:
            units[name, cycle].add(unit)
    return RangeFacts(silent, frozenset(groups - loud), {key: frozenset(names) for key, names in units.items()}, unread)


def _units(plan: Plan) -> Iterator[tuple[int, str]]:
    """Yield the operations of shared multipliers, each with the name of its unit in the Verilog."""
    node_at = {p: i for i, p in plan.position.items()}
    for (name, instance), by_slot in plan.binding.operations_of(plan.schedule).items():
        if plan.classes[name].kind == "multiply":
            for p in by_slot.values():
                yield node_at[p], f"{name.lower().replace('.', '_').replace('-', 'm')}_{instance}"
