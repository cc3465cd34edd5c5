"""Check the parameters of forces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynagate.base.arguments import Accepted, number, shown
from dynagate.base.errors import Error


class ForceError(Error, ValueError):
    """A force that has no meaning, or none for this robot or method. The text names the force and its parameter."""


def check_numbers(force: object, what: str, error: type[Error] = ForceError, **accepted: Accepted) -> None:
    """Check parameters of a frozen dataclass that are numbers, and store them as floats.

    Args:
        force: The object.
        what: What errors call the object.
        error: The class of the error.
        accepted: The range of each parameter.

    Raises:
        Error: A parameter is not one finite number in its range.
    """
    for name, each in accepted.items():
        object.__setattr__(force, name, number(f"{what} has {name} ", getattr(force, name), each, error))


MAKING = {
    "Point": "Point(link, position) with the name of a link, or those of dynagate.forces.contact_points(...)",
    "Plane": "Plane()",
}
"""How to make the objects that forces are made of, for errors."""


def check_items(force: object, what: str, error: type[Error], **kinds: type) -> None:
    """Check parameters of a frozen dataclass that are sequences of objects, and store them as tuples.

    Raises:
        Error: A parameter is not a sequence, it is empty, or it holds an object of another class.
    """
    for name, kind in kinds.items():
        items: Any = getattr(force, name)
        if not (isinstance(items, Sequence) and items and all(isinstance(item, kind) for item in items)):
            raise error(
                f"{what} has {name} {shown(items)}; expected a sequence of one {kind.__name__} or more, such as "
                f"{MAKING[kind.__name__]}"
            )
        object.__setattr__(force, name, tuple(items))
