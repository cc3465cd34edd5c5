"""States for tests: high velocities and accelerations, because wrong terms vanish at rest."""

from __future__ import annotations

import numpy as np
from dynagate import FUNCTIONS, Robot, evaluate, trace
from dynagate.dynamics.configuration import normalized

State = dict[str, np.ndarray]


def states(robot: Robot, count: int, seed: int, *, external_forces: bool = False) -> State:
    """q (count, nq), q̇, q̈ and the τ that causes it, (count, nv) each; λ and δ of derivatives; f_ext (count, links, 6)
    on request."""
    random = np.random.default_rng(seed)
    state = {
        "q": random.uniform(-3.0, 3.0, (count, robot.nq)),
        "qd": random.uniform(-8.0, 8.0, (count, robot.nv)),
        "qdd": random.uniform(-30.0, 30.0, (count, robot.nv)),
    }
    for part in robot.quaternions():
        state["q"][:, part] = random.normal(size=(count, 4))
    normalized(robot, state["q"])
    if external_forces:
        state["f_ext"] = random.uniform(-40.0, 40.0, (count, len(robot.links), 6))
    state["tau"] = evaluate(trace(robot, "inverse_dynamics", external_forces=external_forces), state)["tau"]
    for name in ("lam_qdd", "lam_tau", "delta_q", "delta_qd", "delta_qdd", "delta_tau"):
        state[name] = random.normal(size=(count, robot.nv))
    return state


def inputs_of(function: str, state: State, *, external_forces: bool = False) -> State:
    return {a.name: state[a.name] for a in FUNCTIONS[function].inputs_with(external_forces)}
