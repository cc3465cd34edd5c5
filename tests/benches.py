"""Run the plain Verilog bench of a design's folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from dynagate.design.files import (
    BENCH,
)
from dynagate.hw.designs import Design
from dynagate.sim.verify import verify

from tests.designs import plant


def bench(folder: Path, module: str = "") -> subprocess.CompletedProcess[str]:
    """Run the script of a module's bench, in Icarus Verilog if it is installed. module: "" for the first module."""
    variables, simulator = dict(os.environ), "icarus"
    if shutil.which("iverilog") is None:
        from dynagate.sim.verilate import environment

        variables, simulator = environment(), "verilator"
    command = ["sh", str(folder / "tests" / module / "verify.sh"), simulator]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, env=variables, check=False)


def passes(folder: Path, module: str = "") -> None:
    """Fail unless the bench passes."""
    done = bench(folder, module)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nPASS\n" in done.stdout


def passes_in_verilator(folder: Path) -> None:
    """Fail unless the Verilog benches of all modules pass in Verilator: quicker than Icarus for large designs."""
    verified = verify(folder, ["verilator"], cocotb=False)
    assert verified.passed, verified.text()


def notices(built: Design, folder: Path, change: tuple[str, object], module: str = "") -> str:
    """Plant a change into a copy of a design and return what its bench prints. Fail if the bench passes.

    change: the pattern of a place in the Verilog of the module `module`, or of the first one, and its replacement.
    """
    copied = shutil.copytree(built.folder, folder / "faulty")
    old, new = change
    plant(copied / f"{module or 'datapath'}.v", old, new, 1)
    done = bench(copied, module)
    assert done.returncode != 0, done.stdout
    assert "PASS" not in done.stdout
    return done.stdout


icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog (iverilog) is not installed")


def run_script(folder: Path, *, script: str = "verify.sh", **variables: str) -> subprocess.CompletedProcess[str]:
    """The one command of a machine with Icarus alone."""
    command = ["sh", str(folder / BENCH / script)]
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
