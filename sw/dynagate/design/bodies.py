"""The table of hardware kinds that a design may have, with the classes of each kind.

A host reads records without importing a hardware generator, so a row has the names of the classes, which are imported
on first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from dynagate.base.errors import ArgumentError


@dataclass(frozen=True)
class BodyRow:
    """A kind of hardware. Each part is named as "module:class"."""

    record_class: str
    """The subclass of `design.design.Body` with the fields in design.json."""
    hardware_class: str
    """The subclass of `hw.designs.Hardware` for a new build, and for a rebuild from a folder."""
    section_class: str = ""
    """The subclass of `host.report.bodies.BodySection` that a report prints; empty if no report covers the kind."""

    def record(self) -> type[Any]:
        """Return the class of the record."""
        return _imported(self.record_class)

    def hardware(self) -> type[Any]:
        """Return the class of the hardware."""
        return _imported(self.hardware_class)

    def section(self) -> type[Any]:
        """Return the class of the section of a report."""
        return _imported(self.section_class)


BODIES = {
    "datapath": BodyRow(
        "dynagate.design.datapath:DatapathBody",
        "dynagate.hw.bodies.pipeline:Pipeline",
        "dynagate.host.report.bodies:DatapathSection",
    ),
    "program": BodyRow(
        "dynagate.design.program:ProgramBody",
        "dynagate.hw.bodies.scheduled_program:ScheduledProgram",
        "dynagate.host.report.bodies:ProgramSection",
    ),
}
"""Kinds of hardware, by the value of `body` in design.json."""


def body_row(kind: object) -> BodyRow:
    """Return the row of a kind of hardware.

    Raises:
        ArgumentError: There is no such kind.
    """
    row = BODIES.get(kind) if isinstance(kind, str) else None
    if row is None:
        raise ArgumentError(f"body is {kind!r:.40}; expected one of {', '.join(BODIES)}", code="DG-DESIGN-001")
    return row


def _imported(name: str) -> type[Any]:
    module, _, attribute = name.partition(":")
    part: type[Any] = getattr(import_module(module), attribute)
    return part
