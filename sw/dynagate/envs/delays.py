"""Actions that arrive late: which action holds in a step of the simulation."""

from __future__ import annotations

import math

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.dynamics.spatial import Scalar, array, chosen, select

TICK, PAST_ACTIONS = "tick", "past_actions"
"""Names of the step of the simulation since the action, and of the actions before it, the latest first."""

MOST_PAST = 32
"""Largest number of earlier actions that are kept."""


def past_actions(seconds: float, dt: float, decimation: int) -> int:
    """Return how many earlier actions can still arrive with a delay of this many seconds, at least one.

    Args:
        seconds: Largest delay, s.
        dt: Time step of the simulation, s.
        decimation: Steps of the simulation for each action.

    Raises:
        ArgumentError: There are more than MOST_PAST.
    """
    count = max(1, math.ceil(math.floor(seconds / dt + 0.5) / decimation))
    if count > MOST_PAST:
        raise ArgumentError(
            f"randomize has 'delay' of up to {seconds:g} s, which is {count} actions; expected at most {MOST_PAST} "
            f"actions of {dt * decimation:g} s",
            code="DG-ENV-022",
        )
    return count


def arriving(action: Array, past: Array, tick: Scalar, delay: Scalar, decimation: int) -> Array:
    """Return the action (joints,) that holds in a step of the simulation.

    Args:
        action: The latest action (joints,).
        past: The actions (count, joints) before it, the latest first.
        tick: Steps of the simulation since the latest action.
        delay: Steps until an action arrives, at most count times decimation.
        decimation: Steps of the simulation for each action.
    """
    held = past[-1]
    for age in reversed(range(len(past))):
        newer = past[age - 1] if age else action
        held = chosen(tick - delay + (age * decimation + 0.5), newer, held)
    return held


def clipped(action: Array) -> Array:
    """Return an action with entries limited to -1 to 1."""
    low = [select(a + 1.0, a, -1.0) for a in action]
    return array([select(a - 1.0, 1.0, a) for a in low])
