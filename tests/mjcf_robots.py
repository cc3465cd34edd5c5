"""Robots as MJCF text, and the same states in MuJoCo's coordinates."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Robot, RobotWarning
from dynagate.dynamics.quaternion import rotation_of

mujoco = pytest.importorskip("mujoco")

ARM_MJCF = """<mujoco model="arm"><compiler angle="degree" autolimits="true"/>
  <option gravity="0.5 0 -9.7"/>
  <default><joint damping="0.4" armature="0.05"/><geom contype="0" conaffinity="0"/></default>
  <asset><mesh name="shell" file="not_there.obj"/><material name="gray"/></asset>
  <worldbody><body name="base" quat="1 0 0 1" pos="0.1 0 0.2"><inertial mass="4" pos="0 0 0" diaginertia="1 1 1"/>
    <geom type="mesh" mesh="shell" material="gray"/>
    <body name="upper" pos="0 0 0.3" quat="1 0 1 0">
      <inertial mass="3" pos="0.1 0.02 0.2" quat="0.9 0.1 0.3 0.2" diaginertia="0.03 0.02 0.025"/>
      <joint name="shoulder" axis="0 1 0.2" pos="0 0.1 0.05" range="-90 120" ref="20" actuatorfrcrange="-40 30"/>
      <body name="sledge" pos="0.2 0 0.1" euler="10 20 30">
        <inertial mass="1.5" pos="0 0.1 0" fullinertia="0.02 0.03 0.025 0.001 0.002 -0.001"/>
        <joint name="slide" type="slide" axis="1 0 1" range="-0.3 0.2" ref="0.1" pos="0.3 0 0"/>
        <joint name="roll" axis="0 0 1" pos="0.05 0 0" damping="0" ref="30"/>
        <body name="tool" pos="0 0 0.2" quat="1 0 0 1"><geom size="0.05" mass="0.3"/></body>
      </body></body></body></worldbody></mujoco>"""
TREE_MJCF = """<mujoco model="tree"><compiler angle="radian"/>
  <worldbody><body name="trunk" pos="0 0 1" quat="0.9 0.1 0.2 0.3"><freejoint name="root"/>
    <geom type="box" size="0.2 0.1 0.05" mass="5"/>
    <body name="leg" pos="0.2 0.1 0"><joint name="hip" type="ball" pos="0 0 0.02" damping="0.2" armature="0.01"/>
      <geom type="capsule" fromto="0 0 0 0 0.1 -0.3" size="0.03" mass="1.2"/>
      <body pos="0 0.1 -0.3"><joint axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="0.7"/></body>
    </body>
    <body name="tail" pos="-0.2 0 0"><joint name="yaw" axis="0 0 1"/><joint name="pitch" axis="0 1 0" ref="0.4"/>
      <geom type="capsule" fromto="0 0 0 -0.3 0 0.1" size="0.02" mass="0.5"/></body>
  </body></worldbody></mujoco>"""


def read_mjcf(text: str, folder: Path, **options: Any) -> Robot:
    path = folder / "robot.xml"
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RobotWarning)
        return Robot.from_mjcf(path, **options)


def in_mujoco(robot: Robot, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """qpos, and B and c with qvel = B v and its rate B v̇ + c: a free joint's linear velocity is in the world's axes."""
    qpos, b, c = q.copy(), np.eye(robot.nv), np.zeros(robot.nv)
    for part in robot.quaternions():
        qpos[part] = np.roll(q[part], 1)
    for link, iq, iv in robot.slices():
        if link.joint.type == "floating":
            rotation = rotation_of(q[iq][3:].tolist()).astype(float)
            b[iv.start : iv.start + 3, iv.start : iv.start + 3] = rotation
            c[iv.start : iv.start + 3] = rotation @ np.cross(v[iv][3:], v[iv][:3])
    return qpos, b, c
