"""PynqLink under the real pynq, which wants an environment of its own: its DMA driver, and pynq.remote over gRPC."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from dynagate import build, robots
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.models.evaluate import evaluate
from dynagate.hw.designs import Design
from dynagate.hw.rtl.axi import Axi
from dynagate.sim.verilate import shell_library

from tests.projects import FUNCTION, designed_for, project
from tests.tcl import engines
from tests.vivado import Vivado

ROOT = Path(__file__).parents[2]
OWN = ["pynqutils==0.1.3", "pycparser<3", "setuptools<=80", "tqdm", "cattrs", "click", "tomli"]


def old_python() -> str | None:
    """Python 3.10, which the image of the PYNQ-Z2 has, if there is one that runs."""
    python = shutil.which("python3.10")
    runs = python and subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0
    return python if runs else None


OLD_PYTHON = old_python()
ENVIRONMENTS = {
    "4.0.0": (sys.executable, ["numpy<2", "lxml"]),
    # what Ubuntu 22.04 has, the image of the PYNQ-Z2, where that Python is here
    "3.1.2": (OLD_PYTHON, ["numpy==1.21.5", "lxml==4.8.0"]) if OLD_PYTHON else (sys.executable, ["numpy<2", "lxml"]),
}
"""By version of pynq: the Python, and what dynagate needs there besides OWN."""


@cache
def environment(version: str) -> Path:
    """Python with pynq, made once. pynq builds with the environment's setuptools."""
    python, packages = ENVIRONMENTS[version]
    folder = ROOT / "build" / f"pynq-{version}"
    if not (folder / "complete").exists():
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "pip"), "install", "--quiet"]
        subprocess.run([*pip, "setuptools<=80", "wheel", packages[0]], check=True)
        subprocess.run([*pip, "--no-build-isolation", f"pynq=={version}", *OWN, *packages], check=True)
        (folder / "complete").touch()
    return folder / "bin" / "python"


def run_with_pynq(version: str, what: list[str], folder: Path, built: Design, scratch: Path) -> str:
    """What a module prints that gets arguments, a folder, the compiled accelerator, and states with their results."""
    library = shell_library(built.module("accelerator"), built.module("datapath"))
    done = subprocess.run(
        [str(environment(version)), "-m", *what, str(folder), str(library), str(states(built, scratch))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "sw")])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def states(built: Design, folder: Path) -> Path:
    """Inputs within their ranges, and the results of the integers."""
    sample = built.region.sample(FUNCTION, 900, seed=3)
    for port in built.graph.inputs:
        low, high = np.array([built.formatted.bounds[i] for i in port.nodes]).T
        sample[port.name] = np.clip(sample[port.name], low, high).astype(np.float32)
    inputs = {name: value.astype(np.float64) for name, value in sample.items()}
    expected = evaluate(built.formatted, inputs).outputs["qdd"].astype(np.float32)
    np.savez(folder / "states.npz", expected=expected, **inputs)
    return folder / "states.npz"


@pytest.mark.long
@pytest.mark.parametrize("version", ENVIRONMENTS)
def test_the_real_dma_driver_serves_the_link(version: str, designs: Path, tmp_path: Path) -> None:
    policy = Policy(word=20, guard_bits=1.0)
    built = build(robots.load("two_joint_arm"), FUNCTION, ii=5, policy=policy, axi=Axi(32, "batch"), folder=designs)
    printed = run_with_pynq(version, ["tests.standins.with_pynq"], built.folder, built, tmp_path)
    assert printed.startswith(f"right {version} 1.")


@pytest.mark.long
@pytest.mark.parametrize(("version", "name"), [("4.0.0", "kv260"), ("3.1.2", "pynq-z2")])
def test_a_board_is_reached_by_pynq_remote(version: str, name: str, designs: Path, tmp_path: Path) -> None:
    """From the project's folder: overlay, .hwh, bitstream, buffers, DMA engine and registers through gRPC. pynq 4 knows
    no Zynq-7000."""
    folder = project(name, designs, tmp_path).folder
    Vivado(folder).run("build.tcl", engines()[0])
    hardware = (folder / "accelerator.hwh").read_bytes()  # pynq keeps what it read of a bitstream of the same content
    (folder / "accelerator.bit").write_bytes(bit_file(hashlib.sha256(hardware).digest()))
    built = designed_for(name, designs)
    printed = run_with_pynq(version, ["tests.standins.with_pynq_remote", name], folder, built, tmp_path)
    assert printed.startswith(f"right {version} 1.")


def bit_file(data: bytes) -> bytes:
    """A bitstream with Vivado's header around it: design, part, date, time."""
    texts = {b"a": b"system;Version=2023.2\0", b"b": b"7z020clg400\0", b"c": b"2024/01/01\0", b"d": b"00:00:00\0"}
    head = struct.pack(">H9sH", 9, bytes.fromhex("0ff00ff00ff00ff000"), 1)
    fields = b"".join(key + struct.pack(">H", len(text)) + text for key, text in texts.items())
    return head + fields + b"e" + struct.pack(">I", len(data)) + data
