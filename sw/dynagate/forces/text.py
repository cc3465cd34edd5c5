"""Forces as text: what a design's file and the command line say of them, `Limits(stiffness=100.0)` or `Friction(0.3)`.

The text is an expression of names and literals only. It is read, not run.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from dynagate.base.arguments import shown
from dynagate.forces.checks import ForceError
from dynagate.forces.force import Force


def text_of(force: Force, known: Mapping[str, type[Any]]) -> str:
    """A force as text that `force_of` takes. Raises ForceError: it is none of the known ones."""
    text = repr(force)
    if type(force) not in known.values() or force_of(text, known) != force:
        raise ForceError(f"force {shown(force)} is none of {', '.join(known)}, the forces that a design can name")
    return text


def force_of(text: str, known: Mapping[str, type[Any]]) -> Force:
    """Return the force of a text: a call with numbers, quoted names, sequences of them and other known objects.

    The name of a force stands for the force with its defaults, in any case: "friction" is "Friction()".

    Raises:
        ForceError: The text is none of these, or the force refuses its parameters.
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if isinstance(node, ast.Name):
            by_lower = {name.lower(): name for name in known}
            node = ast.Call(ast.Name(by_lower.get(node.id.lower(), node.id), ast.Load()), [], [])
        force = _value(node, known)
    except (SyntaxError, TypeError, ValueError, RecursionError) as error:
        raise ForceError(f"force {shown(text)}: {error}; expected a force such as 'Limits(stiffness=100.0)'") from None
    if not isinstance(force, Force):
        raise ForceError(f"force {shown(text)} is none; expected a force such as 'Limits(stiffness=100.0)'")
    return force


def _value(node: ast.expr, known: Mapping[str, type[Any]]) -> Any:
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in known:
            raise ForceError(f"'{ast.unparse(node.func)}' is not known; expected one of {', '.join(known)}")
        if any(keyword.arg is None for keyword in node.keywords):
            raise ForceError("** is not known")
        return known[name](
            *(_value(argument, known) for argument in node.args),
            **{str(keyword.arg): _value(keyword.value, known) for keyword in node.keywords},
        )
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_value(item, known) for item in node.elts)
    return ast.literal_eval(node)
