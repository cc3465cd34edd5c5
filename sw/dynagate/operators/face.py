"""The part that the functions of all frameworks share: a call with inputs by name or in order, and its checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynagate.base.named_arrays import fields_in_words, without_arithmetic
from dynagate.base.nearest import nearest
from dynagate.base.pickling import SharedFunction
from dynagate.dynamics.functions.aliases import held
from dynagate.operators.choose import operator
from dynagate.operators.inputs import HasInputs, by_name
from dynagate.robot.checked import RobotOrName


class FunctionFace(SharedFunction, ABC):
    """A listed function of a robot on a framework's arrays. choices: as `operators.choose.operator` takes them.

    inputs, outputs: names. operator: what computes it.
    """

    def __init__(self, robot: RobotOrName, function: str | Sequence[str], **choices: Any) -> None:
        self.operator = operator(robot, function, **choices)
        self.inputs = tuple(port.name for port in self.operator.graph.inputs)
        self.outputs = tuple(port.name for port in self.operator.graph.outputs)
        self._results = _results(self.operator.graph.name, self.outputs)

    @abstractmethod
    def _prepared(self, inputs: dict[str, Any]) -> list[Any]:
        """The inputs in order, checked, their quaternions of length 1."""

    @abstractmethod
    def _computed(self, *inputs: Any) -> Any:
        """The outputs in order."""

    def __call__(self, *positional: Any, **named: Any) -> Any:
        return self._results(*self._computed(*self._prepared(by_name(self.operator.graph, positional, named))))

    def __repr__(self) -> str:
        framework = type(self).__module__.rpartition(".")[0]
        return f"<{framework}.Function {self.operator.graph.robot} {self.operator.graph.name}>"


def _results(function: str, outputs: tuple[str, ...]) -> type:
    """Return the named tuple of a function's outputs, whose attributes answer to names elsewhere (`Results`)."""
    kind = namedtuple(f"{function}_results", outputs)  # type: ignore[misc]

    def attribute(own: Any, name: str) -> Any:
        output, hint = ("", "") if name.startswith("_") else held(name, outputs)
        if output:
            return getattr(own, output)
        raise AttributeError(f"no result '{name}'{hint or nearest(name, outputs)}; write {fields_in_words(outputs)}")

    kind.__getattr__ = attribute  # type: ignore[attr-defined]
    without_arithmetic(kind, lambda own: outputs)
    return kind


def with_unit_quaternions(
    named: HasInputs, inputs: Mapping[str, Any], length: Callable[[Any], Any], joined: Callable[[list[Any]], Any]
) -> list[Any]:
    """The inputs in order, their quaternions of length 1. length: of vectors along the last axis, which it keeps.
    joined: arrays along the last axis."""
    results = []
    for port in named.inputs:
        x = inputs[port.name]
        if port.unit_vectors:
            parts, at = [], 0
            for start, stop in port.unit_vectors:
                turn = x[..., start:stop]
                parts += [x[..., at:start], turn / length(turn)]
                at = stop
            x = joined([*parts, x[..., at:]])
        results.append(x)
    return results
