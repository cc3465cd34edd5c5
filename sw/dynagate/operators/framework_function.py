"""The interface that functions of all frameworks share: a call with inputs by name or in order, and its checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynagate.base.named_arrays import fields_in_words, without_arithmetic
from dynagate.base.nearest import nearest
from dynagate.base.pickling import SharedFunction
from dynagate.dynamics.functions.aliases import held
from dynagate.operators.creation import operator
from dynagate.operators.inputs import HasInputs, by_name
from dynagate.robot.checked import RobotOrName


class FunctionFace(SharedFunction, ABC):
    """A function of a robot on a framework's arrays. The arguments are those of `operators.creation.operator`.

    Attributes:
        inputs: Names of the inputs.
        outputs: Names of the outputs.
        operator: The operator that computes it.
    """

    def __init__(self, robot: RobotOrName, function: str | Sequence[str], **choices: Any) -> None:
        self.operator = operator(robot, function, **choices)
        self.inputs = tuple(port.name for port in self.operator.graph.inputs)
        self.outputs = tuple(port.name for port in self.operator.graph.outputs)
        self._results = _results(self.operator.graph.name, self.outputs)

    @abstractmethod
    def _prepared(self, inputs: dict[str, Any]) -> list[Any]:
        """Return the inputs in order, checked, with quaternions of length 1."""

    @abstractmethod
    def _computed(self, *inputs: Any) -> Any:
        """Return the outputs in order."""

    def __call__(self, *positional: Any, **named: Any) -> Any:
        return self._results(*self._computed(*self._prepared(by_name(self.operator.graph, positional, named))))

    def __repr__(self) -> str:
        framework = type(self).__module__.rpartition(".")[0]
        return f"<{framework}.{type(self).__name__} {self.operator.graph.robot} {self.operator.graph.name}>"


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
    """Return the inputs in order, with quaternions scaled to length 1.

    Args:
        named: The graph.
        inputs: Inputs by name.
        length: Returns lengths of vectors along the last axis, which it keeps.
        joined: Joins arrays along the last axis.
    """
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
