"""Rigid-body algorithms as plain mathematics over any scalar, and the functions of one robot that they make.

`FUNCTIONS` is the one list of what can be traced, evaluated and built: names, inputs and outputs with their shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dynagate.algorithms.forward_dynamics import forward_dynamics
from dynagate.algorithms.gradients import (
    forward_dynamics_gradient,
    forward_dynamics_gradient_given_minv,
    inverse_dynamics_gradient,
)
from dynagate.algorithms.inverse_dynamics import inverse_dynamics
from dynagate.algorithms.mass_matrix import mass_matrix, mass_matrix_inverse
from dynagate.algorithms.tree import Tree
from dynagate.robot import Robot

VECTOR, MATRIX, SYMMETRIC = "vector", "matrix", "symmetric"


@dataclass(frozen=True)
class Argument:
    """An input or output of a function. kind: vector (n,), matrix (n, n), or symmetric (n, n)."""

    name: str
    kind: str

    def shape(self, n: int) -> tuple[int, ...]:
        return (n,) if self.kind == VECTOR else (n, n)


@dataclass(frozen=True)
class Function:
    """One row of the function table. call(tree, *inputs, **options) returns the outputs as a tuple, in order."""

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    call: Callable[..., tuple[Any, ...]]
    options: tuple[str, ...] = ()

    def __call__(self, robot: Robot | Tree, *inputs: Sequence[Any], **options: Any) -> tuple[Any, ...]:
        tree = robot if isinstance(robot, Tree) else Tree(robot)
        return self.call(tree, *inputs, **options)


def _arguments(names: str) -> tuple[Argument, ...]:
    kinds = {"minv": SYMMETRIC, "m": SYMMETRIC}
    return tuple(Argument(name, kinds.get(name, MATRIX if "_" in name else VECTOR)) for name in names.split())


def _single(algorithm: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    def call(*args: Any, **options: Any) -> tuple[Any, ...]:
        return (algorithm(*args, **options),)

    return call


_ROWS: list[tuple[str, str, str, Callable[..., tuple[Any, ...]], str]] = [
    # name, inputs, outputs, algorithm, options
    ("inverse_dynamics", "q qd qdd", "tau", _single(inverse_dynamics), ""),
    ("mass_matrix", "q", "m", _single(mass_matrix), ""),
    ("mass_matrix_inverse", "q", "minv", _single(mass_matrix_inverse), ""),
    ("forward_dynamics", "q qd tau", "qdd", _single(forward_dynamics), ""),
    ("inverse_dynamics_gradient", "q qd qdd", "dtau_dq dtau_dqd", inverse_dynamics_gradient, "frame"),
    (
        "forward_dynamics_gradient",
        "q qd tau",
        "qdd dqdd_dq dqdd_dqd minv",
        forward_dynamics_gradient,
        "frame mass",
    ),
    (
        "forward_dynamics_gradient_given_minv",
        "q qd qdd minv",
        "dqdd_dq dqdd_dqd",
        forward_dynamics_gradient_given_minv,
        "frame",
    ),
]
FUNCTIONS: dict[str, Function] = {
    name: Function(name, _arguments(inputs), _arguments(outputs), call, tuple(options.split()))
    for name, inputs, outputs, call, options in _ROWS
}


def function(name: str) -> Function:
    """The function with this name. Raises ValueError that lists the names."""
    if name not in FUNCTIONS:
        raise ValueError(f"no function '{name}'; expected one of {', '.join(FUNCTIONS)}")
    return FUNCTIONS[name]


__all__ = ["FUNCTIONS", "Argument", "Function", "Tree", "function"]
