"""Robots that the tests share: the shipped ones, and random trees as URDF text from a seed."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Robot, RobotWarning, robots

DATA = Path(sysconfig.get_path("purelib")) / "cmeel.prefix" / "share" / "example-robot-data" / "robots"
"""Robots of the package example-robot-data."""
MEASURED = Path(__file__).parent / "robot_files"
"""Robots of other projects that measurements are made with."""
JACO = DATA / "kinova_description" / "robots" / "kinova.urdf"
PANDA = DATA / "panda_description" / "urdf" / "panda.urdf"
SOLO = DATA / "solo_description" / "robots" / "solo12.urdf"

SHIPPED = tuple(robots.names())
RANDOM_SEEDS = tuple(range(50))


UNREAD = {"panda.urdf": "attributes .*'mu_viscous' in <dynamics> of 'panda_joint1', .* are not read"}
"""Files of other people -> the warning that reading them gives, beyond rounding."""


def read_other(path: Path, **options: Any) -> Robot:
    """Return the robot in a file of other people. Fail if it does not give the warning of `UNREAD`."""
    if path.name not in UNREAD:
        return Robot.from_urdf(path, **options)
    with pytest.warns(RobotWarning, match=UNREAD[path.name]):
        return Robot.from_urdf(path, **options)


def random_urdf(seed: int) -> str:
    """A tree of 1 to 12 moving links about any axis, with fixed links bolted on here and there."""
    random = np.random.default_rng(seed)
    lines = [f'<robot name="random_{seed}">', '<link name="base"/>']
    links = ["base"]
    for k in range(int(random.integers(1, 13))):
        # mostly chains, with branches
        parent = links[-1] if random.random() < 0.7 else links[int(random.integers(len(links)))]
        kind = str(random.choice(["revolute", "continuous", "prismatic"], p=[0.6, 0.2, 0.2]))
        lines += _joint(random, f"joint_{k}", parent, f"link_{k}", kind)
        lines += _link(random, f"link_{k}")
        links.append(f"link_{k}")
        if random.random() < 0.25:
            lines += _joint(random, f"bolt_{k}", f"link_{k}", f"tool_{k}", "fixed")
            lines += _link(random, f"tool_{k}") if random.random() < 0.7 else [f'<link name="tool_{k}"/>']
            if random.random() < 0.5:
                links.append(f"tool_{k}")
    return "\n".join([*lines, "</robot>"])


BASE = (
    '<link name="base"><inertial><mass value="4"/>'
    '<inertia ixx="0.05" ixy="0" ixz="0" iyy="0.06" iyz="0" izz="0.07"/></inertial></link>'
)


def floating_robot(seed: int, folder: Path) -> Robot:
    """A random tree on a body that moves freely."""
    path = folder / f"floating_{seed}.urdf"
    path.write_text(random_urdf(seed).replace('<link name="base"/>', BASE))
    return Robot.from_urdf(path, floating_base=True)


def _text(values: np.ndarray) -> str:
    return " ".join(repr(float(v)) for v in np.atleast_1d(values))


def _oblique(angles: np.ndarray) -> np.ndarray:
    """None so near to a right angle that the reader takes it for one with few decimals."""
    near = np.abs(np.sin(2.0 * angles)) < 0.01
    return angles + 0.02 * near


def _joint(random: np.random.Generator, name: str, parent: str, child: str, kind: str) -> list[str]:
    cardinal = random.random() < 0.4
    axis = np.eye(3)[random.integers(3)] * random.choice([-1, 1]) if cardinal else random.normal(size=3)
    quarter = np.pi / 2 * random.integers(-2, 3, size=3)
    rpy = quarter if random.random() < 0.4 else _oblique(random.uniform(-np.pi, np.pi, 3))
    return [
        f'<joint name="{name}" type="{kind}">',
        f'<parent link="{parent}"/><child link="{child}"/>',
        f'<origin xyz="{_text(random.uniform(-0.5, 0.5, 3))}" rpy="{_text(rpy)}"/>',
        f'<axis xyz="{_text(axis)}"/>',
        '<limit lower="-2.5" upper="2.5" velocity="5" effort="100"/>',
        "</joint>",
    ]


def _link(random: np.random.Generator, name: str) -> list[str]:
    # the second moment of a random cloud of points is that of a body
    points = random.normal(size=(4, 3)) * 0.1
    mass = random.uniform(0.5, 5.0)
    second = mass * points.T @ points / 4 + 1e-3 * np.eye(3)
    inertia = np.trace(second) * np.eye(3) - second
    names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    entries = [f'{key}="{float(v)!r}"' for key, v in zip(names, inertia[np.triu_indices(3)], strict=True)]
    return [
        f'<link name="{name}"><inertial>',
        f'<origin xyz="{_text(random.uniform(-0.2, 0.2, 3))}" rpy="{_text(_oblique(random.uniform(-1, 1, 3)))}"/>',
        f'<mass value="{mass!r}"/>',
        f"<inertia {' '.join(entries)}/>",
        "</inertial></link>",
    ]


def random_robot(seed: int, folder: Path) -> tuple[Robot, Path]:
    path = folder / f"random_{seed}.urdf"
    path.write_text(random_urdf(seed))
    return Robot.from_urdf(path), path


HOPPER = """<robot name="hopper">
<link name="body"><inertial><origin xyz="0.02 0.01 -0.03"/><mass value="2.0"/>
<inertia ixx="0.03" ixy="0.001" ixz="0.002" iyy="0.04" iyz="0.001" izz="0.05"/></inertial></link>
<link name="leg"><inertial><origin xyz="0 0 -0.2"/><mass value="0.5"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.002"/></inertial></link>
<joint name="hip" type="revolute"><parent link="body"/><child link="leg"/><origin xyz="0 0.1 0"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" velocity="5" effort="50"/></joint>
</robot>"""


def hopper(folder: Path) -> Robot:
    """A floating body with one leg: the least robot with a quaternion and a joint."""
    path = folder / "hopper.urdf"
    path.write_text(HOPPER)
    return Robot.from_urdf(path, floating_base=True)


def measured_file(name: str) -> Path:
    return MEASURED / f"{name}.urdf"


PRISMATIC_SEED = 35


def floating(folder: Path) -> Robot:
    return floating_robot(PRISMATIC_SEED, folder)
