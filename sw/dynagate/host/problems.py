"""The arrays of a solver's problems. Those of few numbers stay, bound to what computes them, for calls of the same
shape: to copy to and from them takes less time than to make, check and bind new ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from dynagate.base.arguments import all_finite, of_shape, of_type, real, spread
from dynagate.base.arrays import Array

Leading = tuple[int, ...]

FEW = 1 << 16
"""Numbers of the inputs of a call up to which its arrays stay."""
SHAPES = 4
"""Number of call shapes whose arrays a solver keeps; the oldest is dropped first."""


class ProblemInput(NamedTuple):
    """An input of each problem."""

    shape: tuple[int, ...]
    """Shape for one problem."""
    default: Array | None
    """Value if a call does not pass the input; None if it must."""
    parts: Mapping[str, Any]
    """The inputs of the loop that it consists of, each with its index into an array (batch, *shape)."""


class Solves(Protocol):
    """Interface of a solver, as its problems use it."""

    dtype: np.dtype[Any]
    """Type of the numbers."""

    @property
    def asked(self) -> Mapping[str, ProblemInput]: ...
    @property
    def fixed(self) -> Mapping[str, Array]: ...
    def new_outputs(self, batch: int) -> dict[str, Array]: ...
    def bound(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], batch: int) -> Callable[..., Any]: ...


Values = Mapping[str, tuple[str, Any]]
"""Label in errors and value of each input; a value is an array (*leading, *shape) or its last axes."""


class Problems:
    """The problems of a call, with the arrays of the loop.

    Args:
        leading: Leading axes of the call.
    """

    run: Callable[..., Any]
    """Function that computes the outputs of the loop from its inputs."""

    def __init__(self, solver: Solves, leading: Leading) -> None:
        self.leading, self.batch, self._solver = leading, math.prod(leading), solver
        sizes = {name: self.batch * math.prod(each.shape) for name, each in solver.asked.items()}
        self.few = sum(sizes.values()) <= FEW
        self.outputs = solver.new_outputs(self.batch)
        self.arrays: dict[str, Array] = {}
        if not self.few:
            return
        self._flat = np.zeros(sum(sizes.values()), solver.dtype)
        pieces = np.split(self._flat, np.cumsum(list(sizes.values()))[:-1])
        for (name, each), piece in zip(solver.asked.items(), pieces, strict=True):
            self.arrays[name] = piece.reshape(self.batch, *each.shape)
        self._places = {name: self.shaped(x) for name, x in self.arrays.items()}
        self._results = {name: self.shaped(x) for name, x in self.outputs.items()}
        self._bind()

    def _bind(self) -> None:
        asked = self._solver.asked
        parts = {own: x[at] for name, x in self.arrays.items() for own, at in asked[name].parts.items()}
        self.inputs: dict[str, Array] = {**self._solver.fixed, **parts}
        self.run = self._solver.bound(self.inputs, self.outputs, self.batch)

    def begin(self, starts: Mapping[str, Any]) -> None:
        """Write the start states of a call.

        Args:
            starts: Arrays (*leading, ...) by name.

        Raises:
            ArgumentError, ArgumentTypeError: One has another shape or type.
        """
        for name, value in starts.items():
            array, shape = real(name, value), (*self.leading, *self._solver.asked[name].shape)
            if array.shape != shape:
                of_shape(name, array, shape)
            if self.few:
                self._places[name][...] = array
            else:
                self.fill(name, of_type(array, self._solver.dtype).reshape(self.batch, -1))

    def fill(self, name: str, array: Array) -> None:
        """Write an input without checking its numbers.

        Args:
            name: Name of the input.
            array: Values (batch, *shape), or an array that numpy broadcasts to this shape.
        """
        if self.few:
            self.arrays[name][...] = array
        else:
            shape = (self.batch, *self._solver.asked[name].shape)
            self.arrays[name] = np.ascontiguousarray(np.broadcast_to(array, shape))

    def put(self, values: Values) -> bool:
        """Write the inputs other than the start states, without which a call cannot run.

        Args:
            values: The inputs by name.

        Returns:
            True if all numbers are finite, including those of the start states. False if a start state is not finite,
            and for many problems, whose start states are not checked.

        Raises:
            ArgumentError, ArgumentTypeError: An input has another shape or type, or is not finite.
        """
        if not self.few:
            self.arrays |= {name: self._spread(name, *each) for name, each in values.items()}
            self._bind()
            return False
        for name, (label, value) in values.items():
            array, place = real(label, value), self._places[name]
            if array.shape == place.shape or not array.ndim:
                place[...] = array
            else:
                self.arrays[name][...] = self._spread(name, label, array)
        if all_finite(self._flat):
            return True
        for name, each in values.items():
            self._spread(name, *each)
        return False

    def _spread(self, name: str, label: str, value: Any) -> Array:
        shape, dtype = self._solver.asked[name].shape, self._solver.dtype
        return spread(label, value, self.leading, shape, dtype, shared=True)

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Return the shape of an input for one problem.

        Args:
            name: Name of the input.

        Returns:
            The shape.
        """
        return self._solver.asked[name].shape

    def start(self, name: str) -> Array:
        """Return a start state of the call.

        Args:
            name: Name of the input.

        Returns:
            Array (*leading, ...).
        """
        return self.shaped(self.arrays[name])

    def output(self, name: str) -> Array:
        """Return a copy of an output.

        Args:
            name: Name of the output of the loop.

        Returns:
            Array (*leading, ...).
        """
        return self._results[name].copy() if self.few else self.shaped(self.outputs[name])

    def shaped(self, array: Array) -> Array:
        """Give an array of results the leading axes of the call.

        Args:
            array: Array (batch, ...).

        Returns:
            Array (*leading, ...).
        """
        return array.reshape((*self.leading, *array.shape[1:]))
