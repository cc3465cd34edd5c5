"""Rules by which a report of a design passes: each has a measured value, a limit, and what helps where it fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LONGER = "use a longer --word"
BUG = "report this as a bug: the hardware does not do what its design says"


@dataclass(frozen=True)
class Rule:
    """A rule of a report, which holds or does not."""

    what: str
    """Name of the measured quantity."""
    value: str
    """Measured value with its unit."""
    limit: str
    """Limit with its unit."""
    holds: bool
    """Whether the value is within the limit."""
    helps: str
    """Advice for the user if the rule does not hold."""

    @property
    def text(self) -> str:
        return f"{self.what} is {self.value}; expected {self.limit}. To pass, {self.helps}."


def at_most(what: str, value: float, limit: float, helps: str, form: str = "{:.3g}") -> Rule:
    """Return the rule that a number is at most a limit. A NaN fails.

    Args:
        what: What was measured.
        value: Measured value.
        limit: Limit.
        helps: What the user can do if the rule does not hold.
        form: Format of both numbers, with their unit.

    Returns:
        The rule.
    """
    return Rule(what, form.format(value), f"at most {form.format(limit)}", bool(value <= limit), helps)


def equal_integers(what: str, exact: bool) -> Rule:
    """Return the rule that the simulated hardware computes the integers of the executor.

    Args:
        what: What was compared.
        exact: Whether all integers are equal.

    Returns:
        The rule.
    """
    return Rule(what, "equal" if exact else "not equal", "equal", exact, BUG)


def verdict(rules: Sequence[Rule]) -> str:
    """Return PASS and FAIL lines for a terminal.

    Args:
        rules: Rules of a report.

    Returns:
        "PASS: ..." with each kind of rule and its limit, or "FAIL: ..." with a line for each rule that does not hold.
    """
    failed = [rule for rule in rules if not rule.holds]
    if failed:
        count = f"{len(failed)} of {len(rules)} rules {'does' if len(failed) == 1 else 'do'} not hold"
        return "\n".join([f"FAIL: {count}", *(f"  {rule.text}" for rule in failed)])
    kinds = dict.fromkeys(f"{rule.what.rpartition(': ')[2]} is {rule.limit}" for rule in rules)
    return f"PASS: {'; '.join(kinds)}"


def passed(rules: Iterable[Rule]) -> bool:
    """Return whether all rules hold.

    Args:
        rules: The rules.

    Returns:
        True if they do.
    """
    return all(rule.holds for rule in rules)
