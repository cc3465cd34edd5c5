"""Learned actuators: a small neural network from the history of position errors and speeds to a joint's torque."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynagate.base.arguments import FINITE, numbers, shown
from dynagate.base.explained import explained
from dynagate.base.naming import scope
from dynagate.dynamics.spatial import Array, Scalar, absolute, array, exp, select
from dynagate.forces.actuator import Actuator, ActuatorState, Drive
from dynagate.forces.checks import ForceError, check_numbers
from dynagate.forces.force import ForceContext
from dynagate.robot import Robot


def _tanh(x: Scalar) -> Scalar:
    """Return tanh(x) by exp(-2 |x|), which stays between 0 and 1."""
    small = exp(absolute(x) * -2.0)
    return _signed(x, (1.0 - small) * (1.0 / (1.0 + small)))


def _softsign(x: Scalar) -> Scalar:
    return x * (1.0 / (1.0 + absolute(x)))


def _relu(x: Scalar) -> Scalar:
    return select(x, x, 0.0)


def _elu(x: Scalar) -> Scalar:
    return select(x, x, exp(select(x, 0.0, x)) - 1.0)


def _signed(x: Scalar, size: Scalar) -> Scalar:
    return select(x, size, -size)


ACTIVATIONS: dict[str, Callable[[Scalar], Scalar]] = {
    "softsign": _softsign,
    "tanh": _tanh,
    "relu": _relu,
    "elu": _elu,
}
"""Activations by name."""

MOST_ROWS = 256
"""Largest number of neurons of a layer."""


@explained
@dataclass(frozen=True)
class LearnedActuator(Actuator):
    """Add the torque of a small neural network, the same for each joint, to the commanded torque.

    The network reads, for one joint, the position errors target - q and then the speeds q̇, the newest first: 2 ×
    `history` numbers. Its one result times `scale` is the torque. All layers but the last have the activation. Each
    call has the input `target` (nv,) for each step. The states `errors` and `speeds`, ((history - 1) × joints), hold
    the earlier steps of each joint.

    Args:
        weights: Matrices (outputs, inputs) of the layers, as nested sequences or arrays.
        biases: Vectors (outputs,) of the layers.
        history: Number of steps that the network reads, the present one included.
        activation: "softsign", "tanh", "relu" or "elu".
        error_scale: Factor of position errors.
        speed_scale: Factor of speeds.
        scale: Factor of the result, N m or N.
        joints: Names of the joints; all joints of one degree of freedom unless given.

    Raises:
        ForceError: A shape or number is wrong, or the activation is unknown.

    Reference:
        Hwangbo et al., "Learning agile and dynamic motor skills for legged robots", 2019.
    """

    weights: Sequence[Any]
    biases: Sequence[Any]
    history: int = 1
    activation: str = "softsign"
    error_scale: float = 1.0
    speed_scale: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, "LearnedActuator", ForceError, error_scale=FINITE, speed_scale=FINITE, scale=FINITE)
        if isinstance(self.history, bool) or not isinstance(self.history, int) or not 1 <= self.history <= MOST_ROWS:
            raise ForceError(
                f"LearnedActuator has history {shown(self.history)}; expected a whole number from 1 to {MOST_ROWS}",
                code="DG-FORCE-030",
            )
        if self.activation not in ACTIVATIONS:
            raise ForceError(
                f"LearnedActuator has activation {shown(self.activation)}; expected one of {', '.join(ACTIVATIONS)}",
                code="DG-FORCE-031",
            )
        layers = [self.weights, self.biases]
        if not all(isinstance(x, Sequence | np.ndarray) and not isinstance(x, str) for x in layers) or not (
            len(self.weights) == len(self.biases) > 0
        ):
            raise ForceError(
                f"LearnedActuator has weights {shown(self.weights)} and biases {shown(self.biases)}; expected a "
                "matrix and a vector for each layer",
                code="DG-FORCE-032",
            )
        size, weights, biases = 2 * self.history, [], []
        for k, (matrix, vector) in enumerate(zip(self.weights, self.biases, strict=True)):
            own = numbers(f"LearnedActuator has biases[{k}] ", vector, (None,), FINITE, ForceError)
            rows = 1 if k == len(self.weights) - 1 else len(own)
            if len(own) != rows or not 1 <= rows <= MOST_ROWS:
                raise ForceError(
                    f"LearnedActuator has {len(own)} biases in layer {k}; expected "
                    f"{'1, the torque' if rows == 1 else f'1 to {MOST_ROWS}'}",
                    code="DG-FORCE-033",
                )
            whole = numbers(f"LearnedActuator has weights[{k}] ", matrix, (rows, size), FINITE, ForceError)
            weights.append(tuple(map(tuple, whole.tolist())))
            biases.append(tuple(own.tolist()))
            size = rows
        object.__setattr__(self, "weights", tuple(weights))
        object.__setattr__(self, "biases", tuple(biases))

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("target",)

    def states(self, robot: Robot) -> dict[str, ActuatorState]:
        """Return the errors and speeds of earlier steps."""
        count = (self.history - 1) * len(self.places(robot))
        if not count:
            return {}
        return {"errors": ActuatorState(count, "delta_q"), "speeds": ActuatorState(count, "qd")}

    def drive(self, now: ForceContext, command: list[Scalar], states: Mapping[str, Array]) -> Drive:
        """Return the commands with the torques of the network, and the history after the step."""
        earlier, target = self.history - 1, now.inputs["target"]
        torques, after = [], {name: list[Scalar]() for name in states}
        for k, (u, (q, v)) in enumerate(zip(command, self.places(now.robot), strict=True)):
            own = slice(k * earlier, (k + 1) * earlier)
            past = {name: list(values[own]) for name, values in states.items()}
            errors = [target[v] - now.q[q], *past.get("errors", [])]
            speeds = [now.qd[v], *past.get("speeds", [])]
            with scope(f"network{k}"):
                torques.append(u + self._network(errors, speeds))
            for name, values in (("errors", errors), ("speeds", speeds)):
                if name in after:
                    after[name] += values[:earlier]
        return Drive(array(torques), {name: array(values) for name, values in after.items()})

    def _network(self, errors: list[Scalar], speeds: list[Scalar]) -> Scalar:
        """Return the torque of one joint."""
        values: Array = array([*(x * self.error_scale for x in errors), *(x * self.speed_scale for x in speeds)])
        last = len(self.weights) - 1
        for k, (matrix, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = array(np.array(matrix)) @ values + array(list(bias))
            if k < last:
                values = array([ACTIVATIONS[self.activation](x) for x in values])
        return values[0] * self.scale
