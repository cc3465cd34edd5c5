"""Constrained forward dynamics of a robot with point contacts beside Pinocchio's, on one core."""

from __future__ import annotations

import subprocess
from dataclasses import asdict
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.bench.measure import timing
from dynagate.bench.peers import FLAGS, compiled, described, installed
from dynagate.graph.region import Region
from dynagate.host import Accelerator, open
from dynagate.native.compile import CompileError
from dynagate.robot import Robot

FUNCTION = "constrained_forward_dynamics"
SEED = 1


def measured(robot: Robot, region: Region, batch: int = 4096) -> dict[str, Any]:
    """ns per state: of a batch in float64 and float32 on one thread, and of a single call of Pinocchio's
    `constraintDynamics` in C++ with all contacts, or why it could not be had.

    robot: with point contacts and no loops. Raises ValueError: it has others, or none."""
    others = [own.text for own in robot.constraints if own.to or own.kind != "point"]
    if others or not robot.constraints:
        raise ArgumentError(
            f"robot '{robot.name}' has {', '.join(others) or 'no contacts'}; expected point contacts alone to compare "
            "with Pinocchio"
        )
    result: dict[str, Any] = {"batch": batch, "pinocchio": _pinocchio(robot)}
    state = region.sample(FUNCTION, batch, SEED)
    for dtype in ("float64", "float32"):
        with open(robot, FUNCTION, dtype=dtype, threads=1) as accelerator:
            assert isinstance(accelerator, Accelerator)
            inputs: dict[str, Any] = accelerator.new_inputs(batch)
            for name, value in state.items():
                inputs[name][...] = value
            result[dtype] = asdict(timing(accelerator.bind(**inputs)).per(batch))
    return result


def _pinocchio(robot: Robot) -> tuple[float, float] | str:
    """Median and distance of the quartiles."""
    libraries = installed()
    if isinstance(libraries, str):
        return libraries
    try:
        program = compiled("contacts_peer.cpp", FLAGS, libraries)
    except CompileError as error:
        return str(error)
    frames = [robot.frame(own.frame) for own in robot.constraints]
    rows = [f"{frame.link} {' '.join(map(repr, map(float, frame.translation)))}" for frame in frames]
    text = described(robot) + "\n".join([str(len(rows)), *rows]) + "\n"
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"the Pinocchio program ended with status {done.returncode}: {done.stderr.strip()}"
    median, spread = done.stdout.split()
    return float(median), float(spread)
