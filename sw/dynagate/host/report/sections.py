"""A report of a checked design: a title, sections of lines, and the rules by which it passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dynagate.host.report.rules import BUG, Rule, at_most, passed, verdict

Kind = TypeVar("Kind")


class Section(Protocol):
    """Interface of a section of a report: lines on what was counted or measured, and rules on it."""

    @property
    def lines(self) -> Sequence[str]:
        """Lines of the report, without its title and verdict."""

    @property
    def rules(self) -> Sequence[Rule]:
        """Rules of the report that concern this section."""


@dataclass(frozen=True)
class TextSection:
    """A section of lines without rules."""

    lines: Sequence[str]
    """Lines of text."""
    rules: Sequence[Rule] = ()
    """Rules of the section: an empty sequence."""


@dataclass(frozen=True)
class Pace:
    """A section on cycles: the measured ones, and those that the schedule states."""

    what: str
    """Name of the rate, such as "cycles per result"."""
    cycles: float
    """Cycles measured."""
    limit: float
    """Cycles of the schedule."""
    lines: Sequence[str] = ()
    """More lines of text."""

    @property
    def rules(self) -> list[Rule]:
        """Return the rule that results came at full speed."""
        return [at_most(self.what, self.cycles, self.limit, BUG, "{:.6g}")]


@dataclass(frozen=True)
class Report:
    """A report of a design that was built, run and compared with the other ways to compute it."""

    title: str
    """First line."""
    sections: tuple[Section, ...]
    """Sections in the order in which they are printed."""

    def section(self, kind: type[Kind]) -> Kind:
        """Return the section of one class. The report must have one.

        Args:
            kind: The class, such as `FunctionMeasurement`.

        Returns:
            The section.
        """
        return next(section for section in self.sections if isinstance(section, kind))

    @property
    def rules(self) -> list[Rule]:
        """Return the rules of all sections."""
        return [rule for section in self.sections for rule in section.rules]

    @property
    def passed(self) -> bool:
        """Return whether all rules hold."""
        return passed(self.rules)

    def text(self) -> str:
        """Return the report for a terminal. Its last lines are PASS, or FAIL and the rules that do not hold."""
        lines = [line for section in self.sections for line in section.lines]
        return "\n".join([self.title, *lines, verdict(self.rules)])


def labeled(rows: Mapping[str, str]) -> list[str]:
    """Return lines of a report, each with a label and a text. All texts begin in the same column.

    Args:
        rows: Texts by label.

    Returns:
        The lines.
    """
    return [f"  {label:<16}{text}" for label, text in rows.items()]
