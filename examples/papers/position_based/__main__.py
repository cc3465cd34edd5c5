"""All figures but that of `learn.py`: `python -m examples.papers.position_based` from the project's folder; options as
of each script."""

from __future__ import annotations

import runpy
from pathlib import Path

NAMES = ("energy", "cost", "optimizers", "batches", "sliding_box", "slope", "swimmer", "motion")

for name in NAMES:
    runpy.run_path(str(Path(__file__).parent / f"{name}.py"), run_name="__main__")
