"""Draw motion.gif and motion_dark.gif: `python docs/draw_motion.py --date 2026-11-26`.

A Panda arm with the meshes of the package `example-robot-data` (extra `test`) follows a path by computed torques.
The files of the robot have the Apache License 2.0 and are not part of dynagate. The license
and the date are in the comment of each GIF. The same date gives the same bytes.
"""

from __future__ import annotations

import argparse
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from dynagate import Robot, evaluate, trace
from dynagate.views.scene.look import DARK, LIGHT
from dynagate.views.scene.pictures import gif
from dynagate.views.scene.scene import scene_of

FOLDER = Path(__file__).parent / "pictures"
WIDTH, HEIGHT, COLORS = 480, 360, 96
DT, EVERY, SECONDS = 0.01, 8, 5.6
"""Time of a step in s, steps in a frame, and length of the motion in s."""
STIFFNESS, DAMPING = 100.0, 20.0
"""Gains of the computed torques, 1/s² and 1/s."""


def panda() -> tuple[Robot, Path, Path]:
    """Return the robot, its URDF file, and the folder of its meshes."""
    share = Path(str(files("cmeel"))).parent / "cmeel.prefix" / "share"
    path = share / "example-robot-data" / "robots" / "panda_description" / "urdf" / "panda.urdf"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the file's damping has other units
        return Robot.from_urdf(path), path, share


def motion(robot: Robot) -> Any:
    """Return configurations (steps, nq): the arm draws an eight by computed torques, on semi-implicit Euler."""
    inverse, forward = trace(robot, "inverse_dynamics"), trace(robot, "forward_dynamics")
    time = DT * np.arange(round(SECONDS / DT))
    phase = 2.0 * np.pi * time / SECONDS
    middle = np.zeros(robot.nq)
    middle[:7] = [0.0, -0.5, 0.0, -2.1, 0.0, 1.7, 0.8]
    middle[7:] = 0.02
    swing = np.zeros((len(time), robot.nq))
    swing[:, 0], swing[:, 1] = 0.7 * np.sin(phase), 0.35 * np.sin(2.0 * phase)
    swing[:, 3], swing[:, 5] = 0.4 * np.cos(phase), 0.3 * np.sin(phase)
    path = middle + swing
    speed = np.gradient(path, DT, axis=0)
    q, qd, states = path[0].copy(), speed[0].copy(), []
    for k in range(len(time)):
        states.append(q.copy())
        wish = np.gradient(speed, DT, axis=0)[k] + STIFFNESS * (path[k] - q) + DAMPING * (speed[k] - qd)
        tau = evaluate(inverse, {"q": q[None], "qd": qd[None], "qdd": wish[None]})["tau"]
        qd = qd + DT * evaluate(forward, {"q": q[None], "qd": qd[None], "tau": tau})["qdd"][0]
        q = q + DT * qd
    return np.array(states)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", required=True, help="date to keep in the files, such as 2026-11-26")
    date = parser.parse_args().date
    robot, path, meshes = panda()
    scene = scene_of(robot, motion(robot)[::EVERY], dt=DT * EVERY, file=path, meshes=meshes)
    comment = f"dynagate, {date}. Panda arm: panda_description of example-robot-data, Apache License 2.0"
    for name, theme in (("motion.gif", LIGHT), ("motion_dark.gif", DARK)):
        data = gif(scene, WIDTH, HEIGHT, theme, colors=COLORS, comment=comment)
        (FOLDER / name).write_bytes(data)
        print(FOLDER / name, len(data), flush=True)


if __name__ == "__main__":
    main()
