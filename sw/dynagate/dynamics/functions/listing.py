"""The table of all functions that users see as `dynagate.FUNCTIONS`."""

from __future__ import annotations

from collections import ChainMap
from typing import Any, NoReturn

from dynagate.base.errors import ArgumentError
from dynagate.dynamics.functions.constrained import CONSTRAINED
from dynagate.dynamics.functions.function_table import FUNCTIONS, QUANTITIES, REGRESSORS
from dynagate.dynamics.functions.lookup import FRAME_FUNCTIONS
from dynagate.dynamics.functions.record import FunctionRow
from dynagate.dynamics.functions.spaces import arguments


def _without_frame(*_: Any, **__: Any) -> NoReturn:
    raise ArgumentError(
        "a function of a frame without its name; expected dynagate.trace(robot, name, frame='NAME')",
        code="DG-FUNCTION-010",
    )


_OF_FRAMES = {
    name: FunctionRow(name, arguments(inputs), arguments(outputs), {"recursive": _without_frame}, {})
    for name, (inputs, outputs, _) in FRAME_FUNCTIONS.items()
}

_GROUPS = (
    (FUNCTIONS, "functions of every robot"),
    (QUANTITIES, "quantities for controllers"),
    (REGRESSORS, "regressors by the dynamic parameters of a robot"),
    (_OF_FRAMES, "functions of a frame or link, with frame='NAME'"),
    (CONSTRAINED, "functions of robots with constraints"),
)


class FunctionTable(ChainMap[str, FunctionRow]):
    """All functions of a robot by name. Print the table to see their inputs and outputs.

    A function that is added to the table reaches every backend.

    Example:
        >>> dynagate.FUNCTIONS["frame_jacobian"].outputs[0].name
        'frame_jacobian'
    """

    def __init__(self) -> None:
        super().__init__(*(rows for rows, _ in _GROUPS))

    def __repr__(self) -> str:
        width = max(map(len, self))
        lines = []
        for rows, title in _GROUPS:
            lines.append(f"{title}:")
            for name, row in rows.items():
                inputs, outputs = (", ".join(each.name for each in own) for own in (row.inputs, row.outputs))
                lines.append(f"  {name:<{width}}  {inputs} -> {outputs}")
        return "\n".join(lines)


TABLE = FunctionTable()
"""The table that users see as `dynagate.FUNCTIONS`."""
