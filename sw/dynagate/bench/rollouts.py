"""Benchmark of rollouts by semi-implicit Euler.

A step of ours is compared with forward dynamics, with Pinocchio's and MuJoCo's steps, and with one trajectory called
from Python. Calls alternate, so that other load on the machine affects all of them equally.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.bench import peers
from dynagate.bench.measure import Timing, paired, single_call
from dynagate.bench.mujoco_peer import MujocoRollout
from dynagate.graph import trace
from dynagate.graph.region import Region
from dynagate.host.compiling import compile
from dynagate.host.rollouts import Rollout
from dynagate.integrators.explicit_method import rollout_loop
from dynagate.integrators.trajectories import motions
from dynagate.native.compile import CompileError
from dynagate.native.kernel import Kernel
from dynagate.native.loop import LoopKernel
from dynagate.robot import Robot

STEPS, DT, SEED = 50, 0.01, 1
ROUNDS = 15
PEER_BATCH = 8
"""Number of trajectories in MuJoCo's calls. Its step takes equally long in any batch."""


def measured(robot: Robot, region: Region, *, batch: int = 1024, pinocchio: bool = True) -> dict[str, Any]:
    """Return times in ns per step.

    `kernel` is the loop on existing arrays, `call` is `Rollout` with checks and new arrays, and `forward_dynamics` is
    its kernel at the same batch, each in float32 and float64. `pinocchio` and `mujoco` are a step in float64, or the
    reason why it is missing. `one` is a trajectory of STEPS steps called from Python, and `single` one forward dynamics
    called from C, in ns in total, in float64.

    Args:
        robot: The robot.
        region: The operating region.
        batch: Number of trajectories.
        pinocchio: Whether to measure Pinocchio.
    """
    q0, qd0, tau = motions(region, STEPS, DT, batch, SEED)
    result: dict[str, Any] = {"robot": robot.name, "batch": batch, "steps": STEPS}
    calls: dict[str, Callable[[], Any]] = {}
    per: dict[str, int] = {}
    for dtype in (np.float32, np.float64):
        kind = np.dtype(dtype).name
        own: dict[str, Any] = {"q": q0, "qd": qd0, "tau": tau}
        own = {name: value.astype(dtype) for name, value in own.items()}
        accelerator = compile(robot, "forward_dynamics", dtype=dtype)
        calls[f"forward_dynamics {kind}"] = accelerator.bind(**{**own, "tau": own["tau"][:, 0].copy()})
        calls[f"kernel {kind}"] = _kernel(robot, own, dtype)
        rollout = Rollout(robot, steps=STEPS, dt=DT, dtype=dtype)
        calls[f"call {kind}"] = lambda own=own, rollout=rollout: rollout(own["q"], own["qd"], own["tau"])  # type: ignore[misc]
        per |= {f"forward_dynamics {kind}": batch, f"kernel {kind}": batch * STEPS, f"call {kind}": batch * STEPS}
    one = Rollout(robot, steps=STEPS, dt=DT)
    calls["one"] = lambda: one(q0[0], qd0[0], tau[0])
    per["one"] = 1
    try:
        rollout_there = MujocoRollout(robot, DT)
        calls["mujoco"] = lambda: rollout_there(q0[:PEER_BATCH], qd0[:PEER_BATCH], tau[:PEER_BATCH])
        per["mujoco"] = min(batch, PEER_BATCH) * STEPS
    except ImportError:
        result["mujoco"] = "MuJoCo is not installed: pip install 'dynagate[bench]'"
    except ArgumentError as error:
        result["mujoco"] = str(error)
    taken = paired(calls, ROUNDS, seconds=0.01)
    result |= {name: vars(Timing.of(taken[name]).per(per[name])) for name in calls}
    state = {"q": q0[:1], "qd": qd0[:1], "tau": tau[:1, 0]}
    result["single"] = vars(single_call(Kernel(trace(robot, "forward_dynamics"), np.float64), state))
    result["pinocchio"] = _pinocchio(robot) if pinocchio else "not requested"
    return result


def _kernel(robot: Robot, inputs: Mapping[str, Any], dtype: Any) -> Callable[[], Any]:
    """Return a call of the compiled rollout loop on existing arrays."""
    batch = len(inputs["q"])
    loop = rollout_loop(robot, Rollout(robot, steps=STEPS, dt=DT, device="numpy").options)
    kernel = LoopKernel(loop, dtype)
    outputs = kernel.new_outputs(batch, STEPS)
    return lambda: kernel(inputs, outputs, batch, STEPS)


def _pinocchio(robot: Robot) -> dict[str, Any] | str:
    """Return the time of Pinocchio's step, or the reason why it is missing."""
    libraries = peers.installed()
    if isinstance(libraries, str):
        return libraries
    try:
        program = peers.compiled("pinocchiosteps_peer.cpp", peers.FLAGS, libraries)
    except CompileError as error:
        return str(error)
    done = subprocess.run([program], input=peers.described(robot), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"the Pinocchio program ended with status {done.returncode}: {done.stderr.strip()}"
    _, ns, spread = done.stdout.split()
    return {"ns": float(ns), "spread": float(spread)}


def text(result: Mapping[str, Any] | str) -> str:
    """Return a table of the figures, with ratios to our float32 step, or the reason why it is missing."""
    if isinstance(result, str):
        return f"rollouts are not measured: {result}"
    step = result["kernel float32"]["ns"]
    lines = [
        f"rollouts by semi-implicit Euler, {result['batch']} trajectories of {result['steps']} steps, one thread",
        f"{'':<34}{'ns a step':>10}{'of our float32 step':>22}",
    ]
    for name in ("kernel float32", "call float32", "forward_dynamics float32", "kernel float64", "call float64"):
        lines.append(f"{name:<34}{result[name]['ns']:>10.1f}{result[name]['ns'] / step:>22.2f}")
    for name in ("forward_dynamics float64", "pinocchio", "mujoco"):
        row = result[name]
        lines.append(
            f"{name:<34}{row}" if isinstance(row, str) else f"{name:<34}{row['ns']:>10.1f}{row['ns'] / step:>22.2f}"
        )
    one, single = result["one"]["ns"], result["single"]["ns"]
    lines.append(f"{'one trajectory, from Python':<34}{one:>10.0f}")
    lines.append(f"{'  of 50 single calls + 3 us':<34}{one / (result['steps'] * single + 3000.0):>10.2f}")
    for kind in ("float32", "float64"):
        ratio = result[f"kernel {kind}"]["ns"] / result[f"forward_dynamics {kind}"]["ns"]
        lines.append(f"{'step / forward dynamics, ' + kind:<34}{ratio:>10.2f}")
    return "\n".join(lines)
