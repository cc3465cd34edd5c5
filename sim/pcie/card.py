"""A program that simulates a PCIe card for the process that started it (`sim.pcie.serve`)."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from dynagate.design.files import FILE
from dynagate.hw.build import SHELL_TOP, TOP
from dynagate.sim.runner import run_module
from dynagate.sim.verilate import SHELL_PORTS, cocotb_program


def main(settings: str) -> None:
    """Run until the other process closes the card, or ends. settings: options as JSON."""
    options = json.loads(settings)
    folder = Path(options["folder"])
    program = cocotb_program(folder / f"{SHELL_TOP}.v", SHELL_TOP, SHELL_PORTS, also=[folder / f"{TOP}.v"])
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "vectors.npz"
        design = (folder / FILE).read_text(encoding="utf-8")
        np.savez(file, design=design, seed=options["seed"], cases=json.dumps([options["case"]]))
        variables = {
            "DYNAGATE_VECTORS": str(file),
            "DYNAGATE_CARD": options["address"],
            "DYNAGATE_SECONDS": str(options["seconds"]),
            "DYNAGATE_SEED": str(options["seed"]),
        }
        run_module(program, "dynagate.sim.pcie.serve", variables)


if __name__ == "__main__":
    main(sys.argv[1])
