"""States for tests: high velocities and accelerations, because wrong terms vanish at rest."""

from __future__ import annotations

import numpy as np
from dynagate import FUNCTIONS, Robot, evaluate, trace

State = dict[str, np.ndarray]


def states(robot: Robot, count: int, seed: int) -> State:
    """q, q̇, q̈ and the τ that causes it, (count, n) each."""
    random = np.random.default_rng(seed)
    n = robot.n
    state = {
        "q": random.uniform(-3.0, 3.0, (count, n)),
        "qd": random.uniform(-8.0, 8.0, (count, n)),
        "qdd": random.uniform(-30.0, 30.0, (count, n)),
    }
    state["tau"] = evaluate(trace(robot, "inverse_dynamics"), state)["tau"]
    return state


def inputs_of(function: str, state: State) -> State:
    return {argument.name: state[argument.name] for argument in FUNCTIONS[function].inputs}
