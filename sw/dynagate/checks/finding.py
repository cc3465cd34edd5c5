"""One finding of `dynagate.check`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

LEVELS = ("error", "warning", "note")
"""Severity of a finding: "error" is impossible, "warning" is probably a mistake, "note" is information."""


@dataclass(frozen=True)
class Finding:
    """One finding of `dynagate.check`."""

    level: str
    """"error" if no body or joint can be like this, "warning" for a probable mistake, or "note"."""
    check: str
    """Name of the check, such as "inertia" or "gravity"."""
    place: str
    """The link or joint, such as "link 'forearm'", or "robot"."""
    text: str
    """Description of the problem, with the number and its unit."""
    value: float | None = None
    """The number; None if there is no number."""
    line: int | None = None
    """Line of the file; None if it is unknown."""
    advice: str = ""
    """Suggested correction; "" if there is no guess."""

    def __str__(self) -> str:
        """Return one line for a terminal, and a second line with the advice."""
        place = self.place if self.line is None else f"line {self.line}, {self.place}"
        advice = f"\n         {self.advice}" if self.advice else ""
        return f"{self.level:<8} {place}: {self.text}{advice}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, for JSON."""
        return asdict(self)


def ordered(findings: list[Finding]) -> list[Finding]:
    """Return findings sorted by severity, otherwise in the same order."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))
