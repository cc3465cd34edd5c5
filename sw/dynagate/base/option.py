"""Describe options as dataclass fields, each with its help text, unit and limits.

A dataclass of options lists what a function accepts. The command line makes its options from the same fields
(`cli/fields.py`).
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field
from typing import Any

OPTION = "option"
"""Key of the `Option` in the metadata of a field."""


@dataclass(frozen=True)
class Option:
    """Description of an option."""

    help: str
    """Sentence that states the effect of the option, beginning with a verb."""
    unit: str | None = None
    """Unit or kind of the value, as help shows it, such as "CYCLES"."""
    name: str | None = None
    """Name on the command line, such as "--json"; None for the name of the field."""
    least: int = 1
    """Smallest whole number."""
    most: int | None = None
    """Largest whole number."""
    choices: tuple[str, ...] = ()
    """Accepted texts; () for any text."""
    type: Any = None
    """Type to which the command line converts the value; None for the type of the field."""
    callback: Any = None
    """Function that converts all values of a repeatable option on the command line."""


def option(help: str, default: Any = MISSING, **description: Any) -> Any:
    """Return a field of a dataclass that is an option.

    Args:
        help: What the option does.
        default: Value unless another one is given.
        description: Further fields of `Option`.
    """
    return field(default=default, metadata={OPTION: Option(help, **description)})


def option_of(each: Field[Any]) -> Option | None:
    """Return the description of a field, or None if the field is no option."""
    described: Option | None = each.metadata.get(OPTION)
    return described
