"""A hand whose fingers, shoulder and tail follow other joints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from dynagate import Robot
from dynagate.robot import Mimic

BODY = """<link name="{0}"><inertial><origin xyz="0.05 0.02 0.1"/><mass value="{1}"/>
  <inertia ixx="0.02" iyy="0.015" izz="0.011" ixy="0.001" ixz="0.002" iyz="-0.001"/></inertial></link>"""
JOINT = """<joint name="{0}" type="{1}"><parent link="{2}"/><child link="{3}"/><origin xyz="{4}" rpy="0.3 0.2 0.1"/>
  <axis xyz="{5}"/><limit lower="-1" upper="1" velocity="2" effort="5"/><dynamics damping="0.3"/>{6}</joint>"""


def mimic(joint: str, multiplier: str = "1", offset: str = "0") -> str:
    return f'<mimic joint="{joint}" multiplier="{multiplier}" offset="{offset}"/>'


HALF, OPPOSITE = mimic("wrist", "0.5", "-0.1"), mimic("left", "-1")
TWICE = mimic("spin", "2", "0.2")


def hand(shoulder: str = HALF, right: str = OPPOSITE, tail: str = TWICE, *, order: str = "") -> str:
    """Two fingers that move together; a shoulder that follows the wrist beyond it; a tail that follows a finger's end
    from another branch."""
    bodies = "".join(
        BODY.format(name, mass) for name, mass in zip("abcdef", (1.0, 0.5, 0.4, 0.3, 0.2, 0.7), strict=True)
    )
    joints = [
        ("shoulder", "revolute", "base", "a", "0 0 0.2", "0 1 0", shoulder),
        ("wrist", "revolute", "a", "b", "0 0 0.3", "1 0 0", ""),
        ("left", "prismatic", "b", "c", "0 0 0.1", "0 1 0", ""),
        ("right", "prismatic", "b", "d", "0 0.1 0", "0 1 0", right),
        ("spin", "revolute", "d", "e", "0 0 0.1", "0 0 1", ""),
        ("tail", "revolute", "base", "f", "0 1 0.1", "0 0 1", tail),
    ]
    return f'<robot name="hand"><link name="base"/>{bodies}{"".join(JOINT.format(*joint) for joint in joints)}</robot>'


def read_hand(text: str, folder: Path, **options: object) -> Robot:
    path = folder / "hand.urdf"
    path.write_text(text)
    return Robot.from_urdf(path, **options)  # type: ignore[arg-type]


def ratios(robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    """G and the offset, for joints of one degree of freedom."""
    places = {link.joint.name: v.start for link, _, v in robot.slices()}
    g, offset = np.zeros((len(robot.links), robot.nv)), np.zeros(len(robot.links))
    for i, link in enumerate(robot.links):
        rule = link.joint.mimic or Mimic(link.joint.name)
        g[i, places[rule.joint]], offset[i] = rule.multiplier, rule.offset
    return g, offset
