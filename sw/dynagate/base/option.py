"""Options in the fields of dataclasses: the help, the unit and the limits of each, in one place.

A dataclass of options lists what a function accepts. `option` makes a field of it that carries its help, so that the
command line makes its option from the field (`cli/fields.py`).
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
    """Sentence on the effect of the option. It begins with a verb."""
    unit: str | None = None
    """Unit or kind of the value, as help shows it, such as "CYCLES"."""
    name: str | None = None
    """Name on the command line, such as "--json". Unless given, it is the name of the field."""
    least: int = 1
    """Smallest whole number."""
    most: int | None = None
    """Largest whole number."""
    choices: tuple[str, ...] = ()
    """Texts that are accepted; none stands for all."""
    type: Any = None
    """Type of the value as the command line converts it. Unless given, it follows from the type of the field."""
    callback: Any = None
    """Function that the command line converts all values of a repeatable option with."""


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
