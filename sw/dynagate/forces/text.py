"""Forces as text in a design's file and on the command line, such as `Limits(stiffness=100.0)` or `Friction(0.3)`.

The text is an expression of names and literals only. It is parsed, not executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynagate.base.arguments import shown
from dynagate.base.object_text import object_of
from dynagate.forces.checks import ForceError
from dynagate.forces.force import Force


def text_of(force: Force, known: Mapping[str, type[Any]]) -> str:
    """Return a force as text that `force_of` accepts. Raise ForceError if its class is not in `known`."""
    text = repr(force)
    if type(force) not in known.values() or force_of(text, known) != force:
        raise ForceError(
            f"force {shown(force)} is none of {', '.join(known)}, the forces that a design can name",
            code="DG-FORCE-018",
        )
    return text


def force_of(text: str, known: Mapping[str, type[Any]]) -> Force:
    """Return the force of a text, as `object_of` does.

    Raises:
        ForceError: The text is no force, or the force refuses its parameters.
    """
    try:
        force = object_of(text, known)
    except (SyntaxError, TypeError, ValueError) as error:
        raise ForceError(
            f"force {shown(text)}: {error}; expected a force such as 'Limits(stiffness=100.0)'", code="DG-FORCE-019"
        ) from None
    if not isinstance(force, Force):
        raise ForceError(
            f"force {shown(text)} is none; expected a force such as 'Limits(stiffness=100.0)'", code="DG-FORCE-020"
        )
    return force
