"""Proofs by induction, with the SAT solver inside Yosys: what holds in every state that the assumptions allow."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from dynagate.sim.verilate import SimulationError


class ProofError(SimulationError):
    """An assertion does not hold, or was not proved in the steps allowed; the text has the solver's trace."""


def prove(design: Any, inputs: Sequence[Any], *, steps: int = 8, seconds: int = 300) -> None:
    """Prove the design's assertions (`amaranth.hdl.Assert`) in all states, by induction over at most `steps` cycles.

    The first cycle is the state after reset; clk is implicit. Raises ProofError.
    """
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "proof.il"
        source.write_text(rtlil.convert(design, name="proof", ports=inputs, emit_src=False))
        script = (
            f"read_rtlil {source}; prep -flatten -top proof; memory_map; opt -full; async2sync; dffunmap; opt_clean; "
            f"sat -tempinduct -prove-asserts -set-assumes -set-at 1 rst 1 -seq 1 -show-regs "
            f"-maxsteps {steps} -timeout {seconds} -verify"
        )
        program = "from pyosys import libyosys as ys\nd = ys.Design()\n" + "".join(
            f"ys.run_pass({part.strip()!r}, d)\n" for part in script.split(";")
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProofError("not proved:\n" + "\n".join((done.stdout + done.stderr).splitlines()[-90:]))
