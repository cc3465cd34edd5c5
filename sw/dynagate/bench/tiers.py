"""How long a user waits for a robot's first gradient, and what a sample costs then, by tier, in one run.

`python -m dynagate.bench.tiers iiwa14 my_robot.urdf --floating-base` prints a row for each robot and tier, and the
ratio to Pinocchio's C++ if that is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

import dynagate
from dynagate import Region, Robot, robots
from dynagate.bench import peers
from dynagate.bench.measure import paired

FUNCTION, BATCH, ROUNDS = "forward_dynamics_gradient", 1024, 7
TIERS: tuple[Literal["interpreted"], Literal["compiled"]] = ("interpreted", "compiled")
SPEED = 1.0
"""Largest speed of the states, rad/s or m/s."""

START = """
import json, resource, sys
import numpy as np
import dynagate
robot = dynagate.robots.load(sys.argv[1], **json.loads(sys.argv[2]))
function = dynagate.compile(robot, "forward_dynamics_gradient", tier=sys.argv[3])
function(dynagate.neutral(robot), np.zeros(robot.nv), np.ones(robot.nv))
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(each.ru_utime + each.ru_stime for each in used))
"""
"""A program that reads a robot and computes a gradient. It prints its CPU seconds."""


def first_gradients(name: str, options: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return by tier the CPU seconds of a process that starts without a cache, and of a second one.

    Imports and compilers are included.
    """
    result: dict[str, list[float]] = {}
    for tier in TIERS:
        with TemporaryDirectory() as folder:
            command = [sys.executable, "-W", "ignore", "-c", START, name, json.dumps(options), tier]
            environment = {**os.environ, "DYNAGATE_CACHE": folder}
            result[tier] = [
                float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)
                for _ in range(2)
            ]
    return result


def samples(robot: Robot) -> dict[str, float]:
    """Return the ns of a sample in a batch, in float64 on one core, by tier."""
    inputs = Region.of(robot, velocity=SPEED).sample("forward_dynamics", BATCH, seed=1)
    calls: dict[str, Callable[[], Any]] = {}
    for tier in TIERS:
        function = dynagate.compile(robot, FUNCTION, tier=tier, layout="planes")
        own: dict[str, Any] = {**function.new_inputs(BATCH)}
        for port, values in own.items():
            values[...] = inputs[port]
        calls[tier] = function.bind(**own)
    return {tier: float(np.median(ns)) / BATCH for tier, ns in paired(calls, ROUNDS, seconds=0.2).items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each robot and tier."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robots", nargs="+", help="names or files of robots")
    parser.add_argument("--floating-base", action="store_true", help="let the bases move")
    parser.add_argument("--allow-unphysical", action="store_true", help="accept inertias that no body has")
    parser.add_argument("--no-pinocchio", action="store_true", help="do not measure Pinocchio")
    chosen = parser.parse_args(arguments)
    options: dict[str, Any] = {name: True for name in ("floating_base", "allow_unphysical") if getattr(chosen, name)}
    print("| robot | tier | first gradient, CPU s | second start, CPU s | ns a sample | Pinocchio's time / ours |")
    print("|---|---|---|---|---|---|")
    for name in chosen.robots:
        robot = robots.load(name, **options)
        starts, ns = first_gradients(name, options), samples(robot)
        peer = "not requested" if chosen.no_pinocchio else peers.pinocchio(robot)
        for tier in TIERS:
            first, second = starts[tier]
            ratio = peer if isinstance(peer, str) else f"{peer.times[FUNCTION][0] / ns[tier]:.1f}"
            print(f"| {robot.name} | {tier} | {first:.1f} | {second:.1f} | {ns[tier]:,.0f} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
