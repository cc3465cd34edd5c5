"""Replay a trained policy in MuJoCo, and compare the speed with the one in `dynagate.envs`.

    pip install '.[rl,mjcf]'
    python -m examples.replay_in_mujoco walk/policy.npz

MuJoCo reads the robot from the same URDF file. Its feet are small balls on a plane with the same friction, the law of
the joints is the same, and all other collisions are off. It prints both speeds and the loss in per cent.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import dynagate
import mujoco
import numpy as np
from dynagate.envs import LeggedEnv

from examples import walking

BALL, STEP = 2e-3, 1e-3
"""Radius of the feet in MuJoCo, m, and its time step, s: its contacts are soft, and stiffer with shorter steps."""


def model_of(env: LeggedEnv, urdf: Path, feet: list[str]) -> Any:
    """Return MuJoCo's model of a robot on a plane."""
    spec = mujoco.MjSpec.from_file(str(urdf))
    spec.compiler.fusestatic = False  # keeps the links of the feet
    spec.option.timestep, spec.option.cone, spec.option.impratio = STEP, mujoco.mjtCone.mjCONE_ELLIPTIC, 10.0
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0
    spec.worldbody.first_body().add_freejoint()
    friction = [env.task.contact.friction, 0.0, 0.0]
    plane = mujoco.mjtGeom.mjGEOM_PLANE
    spec.worldbody.add_geom(type=plane, size=[0.0, 0.0, 1.0], pos=[0.0, 0.0, -BALL], friction=friction)
    for foot in feet:
        ball = spec.body(foot).add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[BALL, 0.0, 0.0], friction=friction)
        ball.mass, ball.contype, ball.conaffinity = 0.0, 1, 1
    return spec.compile()


def replay(env: LeggedEnv, model: Any, layers: walking.Layers, command: np.ndarray) -> np.ndarray:
    """Return the motion (actions + 1, nq) of the policy in MuJoCo, with quaternions as in `dynagate`."""
    task, data = env.task, mujoco.MjData(model)
    joints = [model.joint(name) for name in task.joints]
    at, rates = [joint.qposadr[0] for joint in joints], [joint.dofadr[0] for joint in joints]
    stance, (stiffness, damping) = task.stance[task.places[0]], task.gains
    data.qpos[:7], data.qpos[at] = task.stance[[0, 1, 2, 6, 3, 4, 5]], stance
    action, motion = np.zeros(len(joints)), [task.stance]
    for _ in range(round(walking.SECONDS / task.period)):
        axes = np.zeros(9)
        mujoco.mju_quat2Mat(axes, data.qpos[3:7])
        axes = axes.reshape(3, 3)
        parts = axes[2], axes.T @ data.qvel[:3], 0.25 * data.qvel[3:6], data.qpos[at] - stance, 0.05 * data.qvel[rates]
        seen = np.concatenate([*parts, action, command])
        action = np.clip(walking.answer(layers, seen), -1.0, 1.0)
        for _ in range(round(task.period / STEP)):
            torque = stiffness * (stance + task.swing * action - data.qpos[at]) - damping * data.qvel[rates]
            data.qfrc_applied[rates] = np.clip(torque, -task.effort, task.effort)
            mujoco.mj_step(model, data)
        q = task.stance.copy()
        q[:7], q[task.places[0]] = data.qpos[[0, 1, 2, 4, 5, 6, 3]], data.qpos[at]
        motion.append(q)
        if axes[2, 2] < 0.5:
            break
    return np.array(motion)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", help="policy.npz of a training script.")
    parser.add_argument("--gif", help="Write the motion in MuJoCo to this file.")
    chosen = parser.parse_args()
    options, layers = walking.load(chosen.policy)
    env = walking.environment(options, 1)
    ours = walking.speed_of(walking.walk(env, layers), env.task.period)
    model = model_of(env, Path(dynagate.robots.file_of(options["robot"])), options["feet"].split(","))
    q = replay(env, model, layers, np.array([options["speed"], 0.0, 0.0]))
    other = walking.speed_of(q, env.task.period)
    print(f"dynagate {ours:.3f} m/s, MuJoCo {other:.3f} m/s, loss {100.0 * (1.0 - other / ours):.1f} %")
    if chosen.gif:
        dynagate.draw(env.task.robot, q, chosen.gif, dt=env.task.period)


if __name__ == "__main__":
    main()
