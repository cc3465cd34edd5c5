"""Collect the entries of tables that no input reads, for proofs of equivalence.

Interval arithmetic over the graph bounds the operands of each table for all inputs that the formats hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dynagate.base.progress import quiet

FILE = "datapath.v"
"""Verilog file of a datapath."""
_ENTRY = re.compile(r"^\s*table_value\[(\d+)\] = ")


@dataclass(frozen=True)
class RangeFacts:
    """Entries of tables that no input reads."""

    unread: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Entries that no input reads, by the name of the unit with the table."""

    def is_unread(self, module: str, line: str) -> bool:
        """Return whether a line of a module is an entry of a table that no input reads."""
        entry = _ENTRY.match(line)
        unit = module.rpartition("__units__")[2]
        return entry is not None and int(entry[1]) in self.unread.get(unit, ())


def range_facts(folder: Path) -> RangeFacts:
    """Return the facts on the datapath of a folder; none for other designs.

    Raises:
        DesignError: The design is damaged, or another version of dynagate built it.
    """
    if not (folder / FILE).is_file():  # a program: to schedule it again takes long
        return RangeFacts()
    from dynagate.hw.bodies.pipeline import Pipeline
    from dynagate.hw.rebuild import rebuild
    from dynagate.hw.vectors.directed import never_read

    hardware = rebuild(folder, quiet).hardware
    if not isinstance(hardware, Pipeline):
        return RangeFacts()
    plan = hardware.plan
    return RangeFacts(
        {
            name.replace(" ", "_").replace(".", "_").replace("-", "m"): frozenset(map(int, entries))
            for name, entries in never_read(plan.formatted, plan.bounds).items()
        }
    )
