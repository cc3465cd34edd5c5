"""Rules by which a report of a design passes: each has a measured value, a limit, and what helps where it fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynagate.fixedpoint.confidence import OVERFLOWS, WHICH
from dynagate.graph.region import Kind

if TYPE_CHECKING:
    from dynagate.host.report import Block

LONGER = "use a longer --word"
BUG = "report this as a bug: the hardware does not do what its design says"


@dataclass(frozen=True)
class Rule:
    """A rule of a report. what: what was measured. value, limit: as texts with their units. helps: what the user can do
    if the rule does not hold."""

    what: str
    value: str
    limit: str
    holds: bool
    helps: str

    @property
    def text(self) -> str:
        return f"{self.what} is {self.value}; expected {self.limit}. To pass, {self.helps}."


def most(what: str, value: float, limit: float, helps: str, form: str = "{:.3g}") -> Rule:
    """Return the rule that a number is at most a limit. A NaN fails."""
    return Rule(what, form.format(value), f"at most {form.format(limit)}", bool(value <= limit), helps)


def equal(what: str, exact: bool) -> Rule:
    """Return the rule that the simulated hardware computes the integers of the executor."""
    return Rule(what, "equal" if exact else "not equal", "equal", exact, BUG)


def verdict(rules: Iterable[Rule]) -> str:
    """Return PASS, or FAIL with a line for each rule that does not hold."""
    failed = [rule.text for rule in rules if not rule.holds]
    return "\n".join(["FAIL", *(f"  {text}" for text in failed)]) if failed else "PASS"


def passed(rules: Iterable[Rule]) -> bool:
    """Return whether all rules hold."""
    return all(rule.holds for rule in rules)


def of_blocks(blocks: Sequence[Block], quantile: float = 1.0) -> list[Rule]:
    """Return the rules on the errors of results. quantile: share of the states that must keep the limit."""
    rules = []
    share = "the largest error" if quantile == 1.0 else f"the error that {quantile:.4g} of the states keep"
    helps = f"{LONGER}, a larger --error, or a smaller operating region"
    for b in blocks:
        rules.append(equal(f"{b.name}: the comparison of the hardware with its integers", b.exact))
        rules.append(most(f"{b.name}: {share} in the region", b.at_quantile, b.allowed, helps, "{:.2e}"))
        if quantile < 1.0 and b.truth is not None:
            rules.append(most(f"{b.name}: the largest error against the truth", b.truth, b.allowed, helps, "{:.2e}"))
    return rules


def of_overflows(overflows: Mapping[Kind, int], states: Mapping[Kind, int]) -> list[Rule]:
    """Return the rules on how many states of each kind may overflow."""
    return [
        most(
            f"the number of overflows among {states[kind]} states {WHICH[kind]}",
            count,
            int(OVERFLOWS[kind] * states[kind] + 1.0 * (kind == "limits")),
            f"{LONGER}, or give ranges more room: guard_bits=1",
        )
        for kind, count in overflows.items()
    ]
