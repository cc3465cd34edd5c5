"""GRiD's gradient kernel, generated, compiled and measured on this computer if its generator and a GPU are available.

Reference:
    Plancher et al., "GRiD: GPU-accelerated rigid body dynamics with analytical gradients", ICRA 2022.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree

from dynagate.base.process import ending
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.native.cache import cache_folder, kept
from dynagate.native.compile import CompileError, nvcc
from dynagate.robot import Robot

PACKAGE = "grid-rbd"
"""Name of GRiD's Python package."""
FUNCTION = "forward_dynamics_gradient"
AGREE = 1e-3
"""Largest relative L2 difference between GRiD's gradient and ours at one state. GRiD computes in float32."""


def grid(robot: Robot, batches: Sequence[int]) -> list[dict[str, Any]] | str:
    """Return, for each batch, the ns of a launch among many and of a synchronous launch, or the reason why they are
    missing.

    States and results are float32 on the GPU. The number of threads per block is the fastest one.
    """
    if any(robot.gravity[:2]):
        return "GRiD has gravity along z only"
    try:
        release = version(PACKAGE)
    except PackageNotFoundError:
        return f"GRiD is not installed: pip install {PACKAGE}"
    generator = shutil.which("grid-generate")
    if generator is None:
        return "GRiD's grid-generate is not on the path"
    source = (files("dynagate.bench") / "grid_peer.cu").read_text()
    text = described(robot)
    key = hashlib.sha256("\0".join([source, text, release]).encode()).hexdigest()[:16]

    def make(work: Path, result: Path) -> None:
        (work / "robot.urdf").write_text(text)
        (work / "peer.cu").write_text(source)
        header = work / "grid.cuh"
        chosen = ["--algorithm-list", FUNCTION, "--no-mujoco-kernels", "-o", str(header)]
        _run([generator, str(work / "robot.urdf"), *chosen])
        flags = ["-O3", "-std=c++17", "-arch=native", f'-DGRID_HEADER="{header}"']
        _run([nvcc(), *flags, str(work / "peer.cu"), "-o", str(result / "grid")])

    try:
        program = kept(cache_folder() / f"grid-{key}", make, CompileError) / "grid"
        random = np.random.default_rng(1)
        state = {port: random.uniform(-1.0, 1.0, (1, robot.nv)) for port in ("q", "qd", "tau")}
        numbers = " ".join(repr(float(x)) for value in state.values() for x in value[0])
        first, *rows = _run([str(program), repr(robot.gravity[2]), *map(str, batches)], numbers).splitlines()[
            -1 - len(batches) :
        ]
    except CompileError as error:
        return str(error)
    exact = evaluate(trace(robot, FUNCTION), state)
    expected = np.concatenate([exact[name][0].T.ravel() for name in ("dqdd_dq", "dqdd_dqd")])
    grid_values = np.array(first.split()[1:], float)
    apart = float(np.linalg.norm(grid_values - expected) / np.linalg.norm(expected))
    if not apart <= AGREE:
        return f"GRiD's gradient differs from ours by {apart:.1e}, relative L2"
    return [
        {"batch": int(batch), "ns": 1e3 * float(launch), "call_ns": 1e3 * float(call), "threads": int(threads)}
        for batch, launch, call, threads in (row.split() for row in rows)
    ]


def described(robot: Robot) -> str:
    """Return the robot as URDF text with fixed joints merged."""
    robot.check_uncoupled("the comparison with GRiD")
    top = etree.Element("robot", name="robot")
    etree.SubElement(top, "link", name="base")
    for k, link in enumerate(robot.links):
        joint, rotation = link.joint, np.array(link.joint.rotation)
        body = etree.SubElement(etree.SubElement(top, "link", name=f"link_{k}"), "inertial")
        etree.SubElement(body, "origin", xyz=_text(link.com), rpy="0 0 0")
        etree.SubElement(body, "mass", value=repr(float(link.mass)))
        i = np.array(link.inertia)
        entries = {f"i{'xyz'[a]}{'xyz'[b]}": repr(float(i[a, b])) for a in range(3) for b in range(a, 3)}
        etree.SubElement(body, "inertia", entries)
        kind = joint.kind.file_name
        element = etree.SubElement(top, "joint", name=f"joint_{k}", type=kind)
        etree.SubElement(element, "parent", link="base" if link.parent < 0 else f"link_{link.parent}")
        etree.SubElement(element, "child", link=f"link_{k}")
        angles = (
            np.arctan2(rotation[2, 1], rotation[2, 2]),
            -np.arcsin(np.clip(rotation[2, 0], -1.0, 1.0)),
            np.arctan2(rotation[1, 0], rotation[0, 0]),
        )
        etree.SubElement(element, "origin", xyz=_text(joint.translation), rpy=_text(angles))
        etree.SubElement(element, "axis", xyz=_text(joint.axis))
        etree.SubElement(element, "limit", lower="-3", upper="3", velocity="10", effort="100")
        etree.SubElement(element, "dynamics", damping=repr(float(joint.damping)))
    return str(etree.tostring(top, pretty_print=True, encoding="unicode"))


def _text(numbers: Any) -> str:
    return " ".join(repr(float(x)) for x in numbers)


def _run(command: list[str], stdin: str | None = None) -> str:
    """Run a command and return its output. Raise CompileError if it fails."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).splitlines()[-3:]
        raise CompileError(f"{command[0]} {ending(done.returncode)}: {' '.join(said)}", code="DG-BENCH-003")
    return done.stdout
