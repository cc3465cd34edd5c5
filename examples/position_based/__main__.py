"""All figures: `python examples/position_based` from the project's folder, some minutes; options as of each script."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

NAMES = ("energy", "cost", "optimisers", "batches", "sliding_box", "slope", "swimmer", "motion")

for name in NAMES:
    runpy.run_path(str(Path(__file__).parent / f"{name}.py"), run_name="__main__")
    for part in ("figure", "slope"):
        sys.modules.pop(part, None)
