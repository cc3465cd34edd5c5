"""Proofs by induction, with the SAT solver inside Yosys: what holds in every state that the assumptions allow."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from dynagate.hw.export.yosys import YosysError, run_yosys
from dynagate.sim.verilate import SimulationError

TRACE_LINES = 90


class ProofError(SimulationError):
    """An assertion does not hold, or was not proved in the steps allowed; the text has the solver's trace."""


def prove(design: Any, inputs: Sequence[Any], *, steps: int = 8, seconds: int = 300) -> None:
    """Prove the design's assertions (`amaranth.hdl.Assert`) in all states, by induction over at most `steps` cycles.

    inputs: the signals that do as they please. The first cycle is a reset. Raises ProofError.
    """
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "proof.il"
        source.write_text(rtlil.convert(design, name="proof", ports=inputs, emit_src=False))
        passes = [
            f"read_rtlil {source}",
            "prep -flatten -top proof",
            "memory_map",
            "opt -full",
            "async2sync",
            "dffunmap",
            "opt_clean",
            f"sat -tempinduct -prove-asserts -set-assumes -set-at 1 rst 1 -seq 1 -show-regs -maxsteps {steps} "
            f"-timeout {seconds} -verify",
        ]
        try:
            run_yosys(passes, lines=TRACE_LINES)
        except YosysError as error:
            raise ProofError(f"not proved: {error}") from None
