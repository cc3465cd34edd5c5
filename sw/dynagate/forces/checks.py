"""Check the parameters of forces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

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
    "GroundBox": "GroundBox((0.3, 1.0, 0.1))",
}
"""Examples of how to create the objects in parameters of forces, for errors."""


def check_items(force: object, what: str, error: type[Error], **kinds: Any) -> None:
    """Check parameters of a frozen dataclass that are sequences of objects, and store them as tuples.

    Args:
        force: The force.
        what: The force in the words of an error.
        error: Class of the error.
        kinds: Class of the objects, or a union of classes, by the name of the parameter.

    Raises:
        Error: A parameter is not a sequence, is empty, or holds an object of another class.
    """
    for name, kind in kinds.items():
        items: Any = getattr(force, name)
        if not (isinstance(items, Sequence) and items and all(isinstance(item, kind) for item in items)):
            names = [each.__name__ for each in get_args(kind) or (kind,)]
            raise error(
                f"{what} has {name} {shown(items)}; expected a sequence of one {' or '.join(names)} or more, such as "
                f"{MAKING[names[0]]}",
                code="DG-FORCE-001",
            )
        object.__setattr__(force, name, tuple(items))
