"""Benchmark of quadrupeds on the ground: rollouts, environments and gradients next to MuJoCo's rollouts.

The robots stand and follow targets of their joints by position gains. Times are processor time on one thread. Calls
alternate, so that other load on the machine affects all of them equally.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.bench.measure import paired
from dynagate.bench.mujoco_peer import MujocoRollout
from dynagate.envs.batch import EnvBatch
from dynagate.envs.legged import legged_task
from dynagate.envs.task import Task
from dynagate.host.rollouts import Rollout
from dynagate.integrators.feedback import BRAKE, STIFFNESS, TARGET

FEET = "lf_foot", "rf_foot", "lh_foot", "rh_foot"
STANCE = {"lf_hfe": 0.7, "rf_hfe": 0.7, "lh_hfe": -0.7, "rh_hfe": -0.7}
STANCE |= {"lf_kfe": -1.4, "rf_kfe": -1.4, "lh_kfe": 1.4, "rh_kfe": 1.4}
"""Feet and stance of HyQ."""

PARAMETERS = {"*_leg.mass": True, "trunk.mass": True, "ground.friction": (0.5, 1.0)}
"""Ten variable parameters of HyQ, and their ranges."""

BATCH, GRADIENTS, PEERS = 4096, 256, 8
"""Robots in a call, in a call with a gradient, and in a call of MuJoCo, whose step takes equally long in any batch."""

STEPS, ACTIONS, ROUNDS = 50, 5, 3
"""Steps of a rollout, actions of an environment in a call, and rounds."""

HELD = 5
"""Steps for which a target is held."""


def task() -> Task:
    """Return the task of HyQ, with steps of 5 ms."""
    return legged_task("hyq", FEET, stance=STANCE, stiffness=200.0, damping=5.0)


@dataclass
class Calls:
    """Calls by name, and the number of steps that each makes."""

    each: dict[str, Callable[[], Any]] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, steps: int, call: Callable[[], Any]) -> None:
        """Add a call."""
        self.each[name], self.steps[name] = call, steps


def motions(own: Task, count: int, dtype: Any = np.float64) -> tuple[Array, Array, Array]:
    """Return starts q (count, nq) and qd (count, nv), and targets (count, STEPS, joints)."""
    random = np.random.default_rng(1)
    away = random.uniform(-0.1, 0.1, (count, STEPS // HELD, len(own.joints))).repeat(HELD, axis=1)
    q, qd = np.tile(own.stance, (count, 1)), np.zeros((count, own.robot.nv))
    return q.astype(dtype), qd.astype(dtype), (own.stance[own.places[0]] + away).astype(dtype)


def rollout(own: Task, count: int, dtype: Any, parameters: dict[str, Any] | None = None) -> tuple[Rollout, Any, Any]:
    """Return a rollout, its arguments, and its inputs by name."""
    robot = own.random.robot if parameters else own.robot
    run = Rollout(robot, STEPS, own.dt, contacts=own.contact, feedback=own.law or False, dtype=dtype)
    q, qd, target = motions(own, count, dtype)
    gains = dict(zip((STIFFNESS, BRAKE), own.gains, strict=True))
    inputs = {TARGET: target, **gains, **(parameters or {})}
    return run, (q, qd, np.zeros((count, STEPS, own.robot.nv), dtype)), inputs


def forward(calls: Calls, own: Task, dtype: str) -> None:
    """Add rollouts and environments."""
    run, start, inputs = rollout(own, BATCH, dtype)
    calls.add(f"rollout {dtype}", BATCH * STEPS, lambda: run(*start, **inputs))
    batch, action = EnvBatch(own, BATCH, dtype=dtype), np.random.default_rng(2)
    actions = action.uniform(-0.2, 0.2, (ACTIONS, BATCH, len(own.joints))).astype(dtype)
    batch.reset(seed=1)

    def act() -> None:
        batch.restart(np.ones(BATCH, bool))
        for each in actions:
            batch.step(each)

    calls.add(f"environment {dtype}", BATCH * ACTIONS * own.decimation, act)


def backward(calls: Calls) -> None:
    """Add rollouts with variable parameters, without and with their gradient."""
    own = legged_task("hyq", FEET, stance=STANCE, stiffness=200.0, damping=5.0, randomize=PARAMETERS)
    parameters, _, _ = own.random.values(np.random.default_rng(3).uniform(size=(GRADIENTS, own.random.size)))
    run, start, inputs = rollout(own, GRADIENTS, "float64", parameters)
    weights = np.ones((GRADIENTS, STEPS + 1, own.robot.nv))
    calls.add("with ten parameters", GRADIENTS * STEPS, lambda: run(*start, **inputs))
    moved = run(*start, **inputs)
    calls.add("its gradient", GRADIENTS * STEPS, lambda: run.vjp(moved, start[2], weights, weights, **inputs))


def peer(calls: Calls, own: Task) -> None:
    """Add MuJoCo's rollouts with the same law, ground and step."""
    there = MujocoRollout(own.robot, own.dt, contacts=own.contact, gains=own.gains)
    start = motions(own, PEERS)
    calls.add("mujoco.rollout", PEERS * STEPS, lambda: there(*start))


def text() -> str:
    """Return a table of times, and the ratios."""
    own, calls = task(), Calls()
    for dtype in ("float32", "float64"):
        forward(calls, own, dtype)
    backward(calls)
    if find_spec("mujoco"):
        peer(calls, own)
    taken = paired(calls.each, ROUNDS, clock=time.process_time_ns)
    ns = {name: min(times) / calls.steps[name] for name, times in taken.items()}
    lines = [f"{own.robot.name} on the ground with position gains, steps of {1e3 * own.dt:g} ms, one thread"]
    lines += [f"  {name:32} {each:10.0f} ns a step" for name, each in ns.items()]
    for dtype in ("float32", "float64"):
        if "mujoco.rollout" in ns:
            lines.append(f"  rollout / mujoco.rollout, {dtype:14} {ns['mujoco.rollout'] / ns[f'rollout {dtype}']:6.1f}")
        lines.append(f"  environment / rollout, {dtype:17} {ns[f'rollout {dtype}'] / ns[f'environment {dtype}']:6.2f}")
    lines.append(f"  (rates, {BATCH} robots in a call)")
    share = 1.0 + ns["its gradient"] / ns["with ten parameters"]
    lines.append(f"  time of rollout and gradient / time of rollout {share:.2f}, {GRADIENTS} robots in a call")
    return "\n".join(lines)
