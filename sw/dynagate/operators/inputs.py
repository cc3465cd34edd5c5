"""Check the names, shapes and dtypes of an operator's inputs, with attributes that arrays of all frameworks have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dynagate.base.arguments import leading_axes
from dynagate.base.errors import ArgumentTypeError
from dynagate.base.nearest import nearest
from dynagate.graph import Port

FLOATS = ("float32", "float64")


class HasInputs(Protocol):
    """A graph, as far as its inputs go."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> Sequence[Port]: ...


def by_name(graph: HasInputs, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs by name in the graph's order.

    Args:
        graph: The graph.
        positional: Inputs in order.
        named: Inputs by name.

    Raises:
        ArgumentTypeError: An input is missing, repeated, unknown or superfluous.
    """
    names = [port.name for port in graph.inputs]
    inputs = {**dict(zip(names, positional, strict=False)), **named}
    if len(inputs) == len(names) == len(positional) + len(named) and all(name in inputs for name in names):
        return {name: inputs[name] for name in names}
    raise ArgumentTypeError(_fault(graph.name, names, len(positional), list(named)), code="DG-ARG-055")


def _fault(function: str, names: Sequence[str], count: int, named: Sequence[str]) -> str:
    """Return the error text for this many inputs in order and these by name."""
    expected = f"expected {', '.join(names)}"
    if count > len(names):
        return f"{function} takes {len(names)} inputs, not {count}; {expected}"
    for name in named:
        if name not in names:
            return f"{function} has no input '{name}'{nearest(name, names)}; {expected}"
        if name in names[:count]:
            return f"{function} has input '{name}' twice; {expected}"
    missing = [f"'{name}'" for name in names[count:] if name not in named]
    return f"{function} lacks input{'s' if len(missing) > 1 else ''} {' and '.join(missing)}; {expected}"


def check_dtypes(inputs: Mapping[str, Any]) -> None:
    """Raise ArgumentTypeError for the first input that is not float32 or float64, or differs from the first input's
    dtype.
    """
    (first, one), *_ = inputs.items()
    for name, array in inputs.items():
        if name != first and array.dtype == one.dtype:
            continue
        dtype, expected = (str(x.dtype).removeprefix("torch.") for x in (array, one))
        if dtype not in FLOATS:
            raise ArgumentTypeError(f"input '{name}' is {dtype}; expected {' or '.join(FLOATS)}", code="DG-ARG-056")
        if dtype != expected:
            raise ArgumentTypeError(
                f"input '{name}' is {dtype} and '{first}' {expected}; expected one dtype", code="DG-ARG-057"
            )


def axes_of(ports: Sequence[Port], arrays: Sequence[Any]) -> tuple[int, ...]:
    """Return the leading axes of arrays. Raise ArgumentError if they differ."""
    return leading_axes(ports, {port.name: array for port, array in zip(ports, arrays, strict=True)})
