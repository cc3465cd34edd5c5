"""Arrays of any framework for an operator: names, shapes and dtypes, checked by the attributes that all arrays have."""

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
    """The inputs in the graph's order. Raises TypeError: missing, twice, unknown or too many."""
    names = [port.name for port in graph.inputs]
    inputs = {**dict(zip(names, positional, strict=False)), **named}
    if len(inputs) == len(names) == len(positional) + len(named) and all(name in inputs for name in names):
        return {name: inputs[name] for name in names}
    raise ArgumentTypeError(_fault(graph.name, names, len(positional), list(named)))


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
    """Raises TypeError naming the first input that is neither float32 nor float64, or of another dtype than the
    first."""
    (first, one), *_ = inputs.items()
    for name, array in inputs.items():
        if name != first and array.dtype == one.dtype:
            continue
        dtype, expected = (str(x.dtype).removeprefix("torch.") for x in (array, one))
        if dtype not in FLOATS:
            raise ArgumentTypeError(f"input '{name}' is {dtype}; expected {' or '.join(FLOATS)}")
        if dtype != expected:
            raise ArgumentTypeError(f"input '{name}' is {dtype} and '{first}' {expected}; expected one dtype")


def axes_of(ports: Sequence[Port], arrays: Sequence[Any]) -> tuple[int, ...]:
    """The axes before those of the ports. Raises ValueError as `arguments.leading_axes`."""
    return leading_axes(ports, {port.name: array for port, array in zip(ports, arrays, strict=True)})
