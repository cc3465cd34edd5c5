"""Overhead of the JAX and PyTorch operators over plain calls, as ratios measured in one run.

`python -m dynagate.bench.learning iiwa14` prints them for the installed frameworks, the overhead of a rollout's call
over its kernel, and the ratios of quadrupeds on the ground (`dynagate.bench.legged`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import dynagate
from dynagate import Robot, robots
from dynagate.bench import legged
from dynagate.bench.measure import paired

BATCH, STEPS, TRAJECTORIES, REPEATS = 1024, 50, 256, 60
Calls = dict[str, Callable[[], object]]


def states(robot: Robot) -> dict[str, Any]:
    """Return random states (BATCH, nv)."""
    random = np.random.default_rng(1)
    return {name: random.normal(size=(BATCH, robot.nv)) for name in ("q", "qd", "tau")}


def plain(robot: Robot) -> Calls:
    """Return plain calls of accelerators and rollouts."""
    x = states(robot)
    weights: dict[str, Any] = {"lam_qdd": np.ones((BATCH, robot.nv))}
    gradient = dynagate.compile(robot, "forward_dynamics_gradient")
    product = dynagate.compile(robot, "forward_dynamics_vjp")
    run = dynagate.Rollout(robot, steps=STEPS, dt=0.01)
    start = (x["q"][:TRAJECTORIES], x["qd"][:TRAJECTORIES], torques(robot))
    return {
        "plain gradient": lambda: gradient(**x),
        "plain product": lambda: product(**x, **weights),
        "plain rollout": lambda: run(*start),
    }


def torques(robot: Robot) -> np.ndarray:
    """Return random torques (TRAJECTORIES, STEPS, nv)."""
    return np.random.default_rng(2).normal(size=(TRAJECTORIES, STEPS, robot.nv))


def in_jax(robot: Robot) -> Calls:
    """Return calls of the JAX operators with the same work as the plain calls."""
    import jax
    import jax.numpy as jnp

    import dynagate.jax

    jax.config.update("jax_enable_x64", True)
    x = {name: jnp.asarray(value) for name, value in states(robot).items()}
    function = dynagate.jax.function(robot, "forward_dynamics")
    gradient = jax.jit(dynagate.jax.function(robot, "forward_dynamics_gradient"))
    product = jax.jit(jax.grad(lambda x: function(**x).qdd.sum()))
    run = jax.jit(dynagate.jax.rollout(robot, STEPS, 0.01))
    start = (x["q"][:TRAJECTORIES], x["qd"][:TRAJECTORIES], jnp.asarray(torques(robot)))
    backward = jax.jit(jax.grad(lambda q, qd, tau: (run(q, qd, tau).q ** 2).sum(), argnums=2))
    return {
        "jax gradient": lambda: jax.block_until_ready(gradient(**x)),
        "jax product": lambda: jax.block_until_ready(product(x)),
        "jax rollout": lambda: jax.block_until_ready(run(*start)),
        "jax rollout and its gradient": lambda: jax.block_until_ready(backward(*start)),
    }


def in_torch(robot: Robot) -> Calls:
    """Return calls of the PyTorch operators with the same work as the plain calls."""
    import torch

    import dynagate.torch

    torch.set_num_threads(1)
    x = {name: torch.from_numpy(value).requires_grad_() for name, value in states(robot).items()}
    detached = {name: value.detach() for name, value in x.items()}
    weights = torch.ones(BATCH, robot.nv, dtype=torch.float64)
    function = dynagate.torch.function(robot, "forward_dynamics")
    gradient = dynagate.torch.function(robot, "forward_dynamics_gradient")
    product = dynagate.torch.function(robot, "forward_dynamics_vjp")
    run = dynagate.torch.rollout(robot, STEPS, 0.01, dtype=torch.float64)
    tau = torch.from_numpy(torques(robot)).requires_grad_()
    start = (detached["q"][:TRAJECTORIES], detached["qd"][:TRAJECTORIES])
    return {
        "torch gradient": lambda: gradient(**detached),
        "torch product": lambda: product(**detached, lam_qdd=weights),
        "torch autograd": lambda: torch.autograd.grad(function(**x).qdd.sum(), list(x.values())),
        "torch rollout": lambda: run(*start, tau.detach()),
        "torch rollout and its gradient": lambda: torch.autograd.grad((run(*start, tau).q ** 2).sum(), tau),
    }


def overhead(robot: Robot) -> str:
    """Return a line with the time of a rollout called from Python over the time of its kernel, in float32."""
    run = dynagate.Rollout(robot, steps=STEPS, dt=0.01, dtype="float32")
    start = {name: value.astype(np.float32) for name, value in states(robot).items() if name != "tau"}
    tau = np.random.default_rng(2).normal(size=(BATCH, STEPS, robot.nv)).astype(np.float32)
    assert run.kernel is not None
    outputs = run.kernel.new_outputs(BATCH, STEPS)
    kernel = run.kernel.bound({**start, "tau": tau}, outputs, BATCH, STEPS)
    calls: Calls = {"kernel": kernel, "call": lambda: run(start["q"], start["qd"], tau)}
    times = {name: min(each) for name, each in paired(calls, REPEATS, clock=time.process_time_ns).items()}
    ns = {name: each / (BATCH * STEPS) for name, each in times.items()}
    return (
        f"{robot.name}, {BATCH} trajectories of {STEPS} steps, float32: kernel {ns['kernel']:.1f} ns a step, "
        f"call {ns['call']:.1f} ns, ratio {ns['call'] / ns['kernel']:.2f}"
    )


def text(robot: Robot) -> str:
    """Return a table of times, and of ratios to the plain call with the same work."""
    calls = plain(robot)
    for name, more in (("jax", in_jax), ("torch", in_torch)):
        if find_spec(name):
            calls |= more(robot)
    times = {name: min(taken) * 1e-9 for name, taken in paired(calls, REPEATS, repeats=2).items()}
    lines = [f"{robot.name}, {BATCH} states, {TRAJECTORIES} trajectories of {STEPS} steps, float64, one thread"]
    for name, seconds in times.items():
        base = next((b for b in ("gradient", "product", "rollout") if name.split(" ", 1)[1].startswith(b)), "product")
        lines.append(f"  {name:32} {seconds * 1e6:10.0f} us {seconds / times[f'plain {base}']:6.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    chosen = robots.load(sys.argv[1] if len(sys.argv) > 1 else "iiwa14")
    for part in (overhead, text):
        print(part(chosen), flush=True)
    print(legged.text())
