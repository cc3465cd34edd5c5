"""Arrays of any framework for an operator: names, shapes and dtypes, checked by the attributes that all arrays have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.graph import Port

FLOATS = ("float32", "float64")


class Named(Protocol):
    """A graph, as far as its inputs go."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> Sequence[Port]: ...


def by_name(graph: Named, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs in the graph's order. Raises TypeError: missing, twice, unknown or too many."""
    names = [port.name for port in graph.inputs]
    expected = f"expected {', '.join(names)}"
    if len(positional) > len(names):
        raise ArgumentTypeError(f"{graph.name} takes {len(names)} inputs, not {len(positional)}; {expected}")
    inputs = dict(zip(names, positional, strict=False))
    for name, value in named.items():
        if name not in names:
            raise ArgumentTypeError(f"{graph.name} has no input '{name}'; {expected}")
        if name in inputs:
            raise ArgumentTypeError(f"{graph.name} has input '{name}' twice; {expected}")
        inputs[name] = value
    for name in names:
        if name not in inputs:
            raise ArgumentTypeError(f"{graph.name} lacks input '{name}'; {expected}")
    return {name: inputs[name] for name in names}


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


def leading_axes(ports: Sequence[Port], arrays: Sequence[Any]) -> tuple[int, ...]:
    """The axes before those of the ports. Raises ValueError naming an input of another shape, or with others."""
    leading: tuple[int, ...] | None = None
    for port, array in zip(ports, arrays, strict=True):
        shape = array.shape
        axes = len(shape) - len(port.shape)
        if axes < 0 or tuple(shape[axes:]) != port.shape:
            raise ArgumentError(f"input '{port.name}' has shape {tuple(shape)}; expected (..., *{port.shape})")
        if leading is not None and shape[:axes] != leading:
            raise ArgumentError(
                f"input '{port.name}' has leading axes {tuple(shape[:axes])}; the inputs before it have "
                f"{tuple(leading)}: expected the same for all"
            )
        leading = shape[:axes]
    return tuple(leading or ())
