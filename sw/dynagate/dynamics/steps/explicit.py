"""Explicit integrators: one time step of a robot over any scalar.

Configurations move on their Lie group: `advance` follows a velocity for unit time. Methods of order three and more
correct the rates of spherical and floating joints accordingly; the correction is zero for all other joints. The two
methods of order one keep the momentum of floating bodies (`steps.momentum`).

Reference:
    Munthe-Kaas, "High order Runge-Kutta methods on manifolds", 1999.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dynagate.base.arrays import Array
from dynagate.dynamics.configuration import advance, bracket
from dynagate.dynamics.spatial import zeros
from dynagate.dynamics.steps.momentum import along_new_axes, displaced, rate_along_held_axes
from dynagate.robot import Robot

Acceleration = Callable[[Array, Array], Array]
"""A function of q (nq,) and q̇ (nv,) that returns q̈ (nv,)."""


class Tableau(NamedTuple):
    """Coefficients of an explicit Runge-Kutta method."""

    nodes: tuple[tuple[float, ...], ...]
    """For each stage after the first, the weights of the stages before it."""
    weights: tuple[float, ...]
    """Weights of all stages in the step."""


TABLEAUX = {
    "euler": Tableau((), (1.0,)),
    "rk2": Tableau(((0.5,),), (0.0, 1.0)),
    "rk3": Tableau(((0.5,), (-1.0, 2.0)), (1 / 6, 2 / 3, 1 / 6)),
    "rk4": Tableau(((0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
}
"""Runge-Kutta methods: Euler, midpoint, and Kutta's methods of orders 3 and 4."""


@dataclass(frozen=True)
class Method:
    """An integrator."""

    name: str
    order: int
    """Order of the error over a fixed time, as a power of the step."""
    step: Callable[[Robot, Acceleration, Array, Array, Any], tuple[Array, Array]]
    """Function step(robot, acceleration, q, qd, dt) that returns q and q̇ after dt seconds."""


def _semi_implicit_euler(robot: Robot, acceleration: Acceleration, q: Array, qd: Array, dt: Any) -> tuple[Array, Array]:
    velocity = qd + rate_along_held_axes(robot, qd, acceleration(q, qd)) * dt
    displacement = velocity * dt
    return displaced(robot, q, displacement), along_new_axes(robot, qd, velocity, displacement, dt)


def _euler(robot: Robot, acceleration: Acceleration, q: Array, qd: Array, dt: Any) -> tuple[Array, Array]:
    rate, displacement = rate_along_held_axes(robot, qd, acceleration(q, qd)), qd * dt
    moved = displaced(robot, q, displacement)
    return moved, along_new_axes(robot, qd, qd + rate * dt, displacement, dt)


def _runge_kutta(tableau: Tableau) -> Callable[..., tuple[Array, Array]]:
    """Return the step function of a Runge-Kutta method."""
    nodes, weights = tableau

    def step(robot: Robot, acceleration: Acceleration, q: Array, qd: Array, dt: Any) -> tuple[Array, Array]:
        moves: list[Array] = []  # rates of the displacement from q
        slopes: list[Array] = []
        for row in [(), *nodes]:
            displacement = _mix(row, moves, robot.nv) * dt
            velocity = qd + _mix(row, slopes, robot.nv) * dt
            place = advance(robot, q, displacement) if moves else q
            slopes.append(acceleration(place, velocity))
            moves.append(_rate(robot, displacement, velocity) if moves else velocity)
        moved = advance(robot, q, _mix(weights, moves, robot.nv) * dt)
        return moved, qd + _mix(weights, slopes, robot.nv) * dt

    return step


def _mix(weights: Sequence[float], terms: Sequence[Array], size: int) -> Array:
    """Return the weighted sum of vectors, without terms of weight 0."""
    result = zeros(size)
    for weight, term in zip(weights, terms, strict=False):
        if weight:
            result = result + term * weight
    return result


def _rate(robot: Robot, displacement: Array, velocity: Array) -> Array:
    """Return the rate of the displacement u from a configuration that moves with velocity v: v + [u, v] / 2 + [u, [u,
    v]] / 12.
    """
    if not robot.quaternions():
        return velocity
    first = bracket(robot, displacement, velocity)
    return velocity + first * 0.5 + bracket(robot, displacement, first) * (1.0 / 12.0)


EXPLICIT_METHODS: dict[str, Method] = {
    method.name: method
    for method in [
        Method("euler", 1, _euler),
        Method("semi_implicit_euler", 1, _semi_implicit_euler),
        *(Method(name, order, _runge_kutta(TABLEAUX[name])) for name, order in (("rk2", 2), ("rk3", 3), ("rk4", 4))),
    ]
}
"""Integrators by name: explicit and semi-implicit Euler, midpoint, and Kutta's methods of orders 3 and 4."""
