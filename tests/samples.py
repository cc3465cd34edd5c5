"""States for tests: high velocities and accelerations, because wrong terms vanish at rest."""

from __future__ import annotations

import numpy as np
from dynagate import FUNCTIONS, Robot, evaluate, trace

State = dict[str, np.ndarray]


def states(robot: Robot, count: int, seed: int, *, external_forces: bool = False) -> State:
    """q, q̇, q̈ and the τ that causes it, (count, n) each; f_ext (count, n, 6) on request."""
    random = np.random.default_rng(seed)
    n = robot.n
    state = {
        "q": random.uniform(-3.0, 3.0, (count, n)),
        "qd": random.uniform(-8.0, 8.0, (count, n)),
        "qdd": random.uniform(-30.0, 30.0, (count, n)),
    }
    if external_forces:
        state["f_ext"] = random.uniform(-40.0, 40.0, (count, n, 6))
    state["tau"] = evaluate(trace(robot, "inverse_dynamics", external_forces=external_forces), state)["tau"]
    return state


def inputs_of(function: str, state: State, *, external_forces: bool = False) -> State:
    return {a.name: state[a.name] for a in FUNCTIONS[function].inputs_with(external_forces)}
