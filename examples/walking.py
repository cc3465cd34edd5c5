"""A quadruped that walks at a commanded speed: the task, the options and the files that the training scripts share.

`train_quadruped.py` and `train_quadruped_sb3.py` train its policy, and `replay_in_mujoco.py` replays the policy.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
from dynagate.envs import LeggedEnv

SECONDS = 6.0
"""Length of the motion that a trained policy is judged by, s. The first second, in which it starts, does not count."""

STANCE = "*_haa=-0.1,?f_hfe=0.7,?f_kfe=-1.4,?h_hfe=-0.7,?h_kfe=1.4"
"""Stance of HyQ."""

FRICTION = (0.5, 1.0)
"""Range of the friction coefficient of the ground, drawn for each episode."""

Layers = Sequence[tuple[Any, Any]]
"""Matrix and offset of each layer of a policy."""


def options(text: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of the task."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="hyq", help="Path of a URDF file, or the name of a robot that ships.")
    parser.add_argument("--feet", default="lf_foot,rf_foot,lh_foot,rh_foot", help="Links or frames, with commas.")
    parser.add_argument("--stance", default=STANCE, help="Joints that match a pattern, rad, with commas: %(default)s.")
    parser.add_argument("--stiffness", type=float, default=200.0, help="Gain of positions, N m/rad.")
    parser.add_argument("--damping", type=float, default=5.0, help="Gain of velocities, N m s/rad.")
    parser.add_argument("--swing", type=float, default=0.4, help="Largest distance of a target from the stance, rad.")
    parser.add_argument("--speed", type=float, default=0.5, help="Commanded speed, m/s.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the random numbers.")
    parser.add_argument("--robots", type=int, default=512, help="Number of robots that learn at the same time.")
    parser.add_argument("--threads", type=int, default=1, help="Number of threads that share the robots.")
    parser.add_argument("--folder", help="Write policy.npz, curve.png, walk.gif and walk.html to this folder.")
    return parser


def stance(robot: Any, text: str) -> dict[str, float]:
    """Return positions of joints by name, from patterns of names."""
    pairs = [part.split("=") for part in text.split(",") if part]
    joints = [joint.name for joint, _, _ in robot.moving() if joint.nv == 1]
    for pattern, _ in pairs:
        if not any(fnmatch(name, pattern) for name in joints):
            raise SystemExit(f"--stance has '{pattern}', which no joint matches; expected some of {', '.join(joints)}")
    return {name: float(value) for pattern, value in pairs for name in joints if fnmatch(name, pattern)}


def environment(chosen: Mapping[str, Any], count: int, **more: Any) -> LeggedEnv:
    """Return environments with the task that the options describe."""
    robot = dynagate.robots.load(chosen["robot"], floating_base=True)
    speed = chosen["speed"]
    return LeggedEnv(
        robot,
        chosen["feet"].split(","),
        count,
        stance=stance(robot, chosen["stance"]) or None,
        stiffness=chosen["stiffness"],
        damping=chosen["damping"],
        swing=chosen["swing"],
        commands=((speed, speed), (0.0, 0.0), (0.0, 0.0)),
        randomize={"ground.friction": FRICTION},
        threads=chosen["threads"],
        seconds=10.0,
        **more,
    )


def answer(layers: Layers, seen: Any) -> Any:
    """Return the actions of a policy for observations (batch, size)."""
    for matrix, offset in layers[:-1]:
        seen = seen @ matrix + offset
        seen = np.where(seen > 0.0, seen, np.expm1(np.minimum(seen, 0.0)))  # ELU
    matrix, offset = layers[-1]
    return seen @ matrix + offset


def walk(env: LeggedEnv, layers: Layers, seed: int = 1) -> np.ndarray:
    """Return the motion (actions + 1, nq) of the first robot, until it falls at the latest."""
    seen, _ = env.reset(seed=seed)
    motion = [env.batch.q[0].astype(np.float64)]
    for _ in range(round(SECONDS / env.task.period)):
        seen, _, terminated, _, _ = env.step(answer(layers, seen))
        if terminated[0]:
            break
        motion.append(env.batch.q[0].astype(np.float64))
    return np.array(motion)


def speed_of(q: np.ndarray, period: float) -> float:
    """Return the mean forward speed of a motion without its first second, m/s; 0 if the robot fell."""
    first = round(1.0 / period)
    if len(q) <= round(SECONDS / period):
        return 0.0
    return float((q[-1, 0] - q[first, 0]) / ((len(q) - 1 - first) * period))


def load(path: str | Path) -> tuple[dict[str, Any], Layers]:
    """Return the options and the layers of a policy.npz."""
    file = np.load(path)
    layers = [(file[f"matrix{k}"], file[f"offset{k}"]) for k in range(int(file["layers"]))]
    return json.loads(str(file["options"])), layers


def finish(chosen: Mapping[str, Any], layers: Layers, curve: Sequence[tuple[float, float]]) -> None:
    """Print the speed of a trained policy, and write its files.

    Args:
        chosen: The options.
        layers: The policy.
        curve: Processor time in s and mean reward of an action, for each update.
    """
    env = environment(chosen, 1)
    q = walk(env, layers)
    print(f"{speed_of(q, env.task.period):.3f} m/s at a command of {chosen['speed']:g} m/s")
    if chosen["folder"] is None:
        return
    folder = Path(chosen["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {
        f"{name}{k}": np.asarray(x)
        for k, layer in enumerate(layers)
        for name, x in zip(("matrix", "offset"), layer, strict=True)
    }
    np.savez(
        folder / "policy.npz", options=json.dumps(dict(chosen)), layers=len(layers), curve=np.array(curve), **arrays
    )
    for name in ("walk.gif", "walk.html"):
        dynagate.draw(env.task.robot, q, folder / name, dt=env.task.period)
    draw_curve(curve, folder / "curve.png")


def draw_curve(curve: Sequence[tuple[float, float]], path: Path) -> None:
    """Draw the mean reward of an action over processor time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.plot(*np.array(curve).T)
    axes.set(xlabel="processor time, s", ylabel="mean reward of an action")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
