"""Objects as text: a design's file and the command line name a force or an integrator as `Limits(stiffness=100.0)`.

The text is an expression of names and literals only. It is parsed, not run.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from dynagate.base.errors import ArgumentError


def object_of(text: str, known: Mapping[str, type[Any]]) -> Any:
    """Return the object of a text: a call with numbers, quoted names, sequences of them and other known objects.

    The name of a class stands for an object with its defaults, in any case: "friction" is "Friction()".

    Args:
        text: The text.
        known: Classes by name.

    Raises:
        ValueError: The text is no such call, or the class refuses the arguments.
        TypeError: The class has no such argument, or it refuses the type of one.
        SyntaxError: The text is no expression.
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if isinstance(node, ast.Name):
            by_lower = {name.lower(): name for name in known}
            node = ast.Call(ast.Name(by_lower.get(node.id.lower(), node.id), ast.Load()), [], [])
        return _value(node, known)
    except (RecursionError, MemoryError):
        raise ArgumentError("too many brackets", code="DG-ARG-041") from None


def _value(node: ast.expr, known: Mapping[str, type[Any]]) -> Any:
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in known:
            raise ArgumentError(
                f"'{ast.unparse(node.func)}' is not known; expected one of {', '.join(known)}", code="DG-ARG-042"
            )
        if any(keyword.arg is None for keyword in node.keywords):
            raise ArgumentError("** is not known", code="DG-ARG-043")
        return known[name](
            *(_value(argument, known) for argument in node.args),
            **{str(keyword.arg): _value(keyword.value, known) for keyword in node.keywords},
        )
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_value(item, known) for item in node.elts)
    return ast.literal_eval(node)
