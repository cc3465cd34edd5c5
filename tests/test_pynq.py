"""PynqLink under the real pynq, which wants an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dynagate import build, robots
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.evaluate import evaluate
from dynagate.hw.axi import Axi
from dynagate.sim.verilate import shell_library

FUNCTION = "forward_dynamics"
ROOT = Path(__file__).parent.parent
PACKAGES = ["pynq==4.0.0", "pynqutils==0.1.3", "numpy<2", "setuptools<=80", "lxml", "tqdm", "cattrs", "click"]
"""pynq builds with the environment's setuptools."""


def environment() -> Path:
    """Python with pynq, made once."""
    folder = ROOT / "build" / "pynq"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "pip"), "install", "--quiet"]
        subprocess.run([*pip, "setuptools<=80", "wheel", "numpy<2"], check=True)
        subprocess.run([*pip, "--no-build-isolation", *PACKAGES], check=True)
        (folder / "complete").touch()
    return folder / "bin" / "python"


@pytest.mark.long
def test_the_real_dma_driver_serves_the_link(designs: Path, tmp_path: Path) -> None:
    policy = Policy(word=20, guard_bits=1.0)
    built = build(robots.load("two_joint_arm"), FUNCTION, ii=5, policy=policy, axi=Axi(32, "batch"), folder=designs)
    sample = built.region.sample(FUNCTION, 900, seed=3)
    for port in built.graph.inputs:
        low, high = np.array([built.formatted.bounds[i] for i in port.nodes]).T
        sample[port.name] = np.clip(sample[port.name], low, high).astype(np.float32)
    states = {name: value.astype(np.float64) for name, value in sample.items()}
    expected = evaluate(built.formatted, states).outputs["qdd"].astype(np.float32)
    np.savez(tmp_path / "states.npz", expected=expected, **states)
    library = shell_library(built.accelerator, built.verilog)
    command = [str(environment()), "-m", "tests.standins.with_pynq", str(built.folder), str(library)]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "sw")])
    done = subprocess.run(
        [*command, str(tmp_path / "states.npz")],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.startswith("right 4.0.0 1."), done.stderr
