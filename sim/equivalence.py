"""Prove that a mutant computes the same as the design, so that no bench can notice it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from dynagate.base.process import completed, limited, python_environment
from dynagate.hw.export.yosys import yosys_command
from dynagate.sim.mutants import Mutant

PROOF_SECONDS = 30
"""Processor time in s after which Yosys counts as having found no proof."""
PROOF_DEPTH = 6
"""Number of clock cycles of an induction: more than the stages in front of a table."""


def equal_reason(texts: Mapping[str, str], mutant: Mutant) -> str:
    """Return how a mutant is proved to compute the same as the design; empty without a proof.

    Args:
        texts: Verilog of the design by file name.
        mutant: The mutant.
    """
    module = module_of(texts[mutant.file], mutant.line)
    if mutant.kind != "table" and find_spec("pyosys") is not None and proved_equal(texts, mutant, module):
        return f"Yosys proves by induction that {module} computes the same"
    return ""


def module_of(text: str, line: int) -> str:
    """Return the module that a line belongs to, as Verilog spells its name."""
    above = text.split("\n")[: line - 1]
    return next(each.split()[1] for each in reversed(above) if each.startswith("module "))


def proved_equal(texts: Mapping[str, str], mutant: Mutant, module: str) -> bool:
    """Return whether Yosys proves that the mutant's module computes the same as the design's.

    The proof is an induction: from equal registers and inputs follow equal next values and outputs. Modules inside are
    opaque; a mutant that needs a fact about other modules is not proved.
    """
    passes = []
    with tempfile.TemporaryDirectory() as work:
        for name, text in (("gold", texts[mutant.file]), ("gate", mutant.applied(texts[mutant.file]))):
            path = Path(work) / f"{name}.v"
            path.write_text(text, encoding="utf-8")
            passes += [f"read_verilog -sv {path}", *_PREPARING, f"rename {module} {name}", f"design -stash {name}"]
        command = yosys_command([*passes, *_PROVING])
        try:
            done = completed(limited(command, PROOF_SECONDS), env=python_environment(), cwd=work)
        except OSError:
            return False
    return done.returncode == 0


_PREPARING = ("proc", "memory_collect", "memory_map", "opt_expr", "opt_clean -purge")
"""Passes of Yosys on each of the two modules."""
_PROVING = (
    *("design -copy-from gold gold", "design -copy-from gate gate", "equiv_make gold gate equiv", "cd equiv"),
    *("equiv_struct", f"equiv_simple -seq {PROOF_DEPTH}", f"equiv_induct -seq {PROOF_DEPTH}", "equiv_status -assert"),
)
"""Passes that prove the two modules equal. They fail where there is no proof."""
