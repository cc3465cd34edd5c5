"""What the controllers share: an arm from the command line, and where its reach begins and ends."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from dynagate import Robot, robots

START = np.array([0.0, 0.3, 0.0, -1.2, 0.0, 0.8, 0.0])
"""Of iiwa14, rad."""

TOO_LONG = "light links with much damping want shorter steps than these; try --undamped"


def parser_of(text: str | None, name: str) -> argparse.ArgumentParser:
    """The options of every example. name: of its folder in build/."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="iiwa14", help="a robot that ships, or the path of a URDF file")
    parser.add_argument("--undamped", action="store_true", help="without the joints' damping")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, default=Path("build") / name)
    return parser


def arm_of(options: argparse.Namespace) -> Robot:
    return robots.load(options.robot, damping=not options.undamped)


def ends(robot: Robot, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """START and the goal of iiwa14; of another arm two places half a radian apart."""
    if robot.name == "iiwa14":
        return START, goal
    start = np.clip(np.zeros(robot.nv), robot.lower, robot.upper)
    return start, np.clip(start + 0.5 * (-1.0) ** np.arange(robot.nv), robot.lower, robot.upper)
