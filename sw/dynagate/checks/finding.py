"""One finding of a check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

LEVELS = ("error", "warning", "note")
"""How much a finding matters: no body or joint is like this; probably a slip; worth to know."""


@dataclass(frozen=True)
class Finding:
    """One finding of `dynagate.check`.

    Attributes:
        level: "error" if no body or joint is like this, "warning" for a probable slip, or "note".
        check: Name of the check, such as "inertia" or "gravity".
        place: The link or joint, such as "link 'forearm'", or "robot".
        text: What is wrong, with the number and its unit.
        value: The number; None without a number.
        line: Line of the file; None if it is unknown.
        advice: What to write instead; "" if there is no guess.
    """

    level: str
    check: str
    place: str
    text: str
    value: float | None = None
    line: int | None = None
    advice: str = ""

    def __str__(self) -> str:
        """One line for a terminal, and a second one with the advice."""
        place = self.place if self.line is None else f"line {self.line}, {self.place}"
        advice = f"\n         {self.advice}" if self.advice else ""
        return f"{self.level:<8} {place}: {self.text}{advice}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, for JSON."""
        return asdict(self)


def ordered(findings: list[Finding]) -> list[Finding]:
    """Return findings by their level, in the same order otherwise."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))
