"""Hash the generator's source, since a changed generator may build a different design."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dynagate

HASHED = (
    "base/exact.py",
    "base/naming.py",
    "base/philox.py",
    "control",
    *(f"robot/{name}.py" for name in ("constraint", "edit", "helical", "inertia", "kinds", "model", "parts", "tree")),
    *(f"robot/{name}.py" for name in ("validate", "variable", "vectors")),
    "dynamics",
    "graph",
    "fixedpoint",
    "design/ring.py",
    "design/verilog_list.py",
    "design/words.py",
    "forces",
    "integrators/chip_motion.py",
    "integrators/explicit_method.py",
    "integrators/implicit",
    "integrators/linearized.py",
    "integrators/methods.py",
    "integrators/motion.py",
    "integrators/stages.py",
    "integrators/step.py",
    "integrators/design_graph.py",
    "integrators/vectors.py",
    "native/expressions.py",
    "native/sums.py",
    "hw",
)
"""Source files that determine a design, relative to the package."""

EXCLUDED = (
    "control/mppi.py",
    "fixedpoint/models/files.py",
    "fixedpoint/wordlength/sampled_errors.py",
    "fixedpoint/wordlength/results_file.py",
    "fixedpoint/wordlength/sweep.py",
    "graph/reference_gradient.py",
    *(f"hw/bodies/{name}_datasheet.py" for name in ("pipeline", "program")),
    "hw/boards/",
    "hw/datasheet.py",
    "hw/export/yosys.py",
    "hw/format_warnings.py",
    "hw/plan/cost.py",
    "hw/plan/timeline.py",
    "hw/processor/streams.py",
    "hw/rebuild.py",
    *(f"hw/rtl/{name}.py" for name in ("frames", "uart", "wrapper")),
    "hw/targets/",
    "hw/units/mult18x18.py",
    "hw/units/slice_multiplexer.py",
    "hw/vectors/",
)
"""Folders and files that read, describe or measure designs. Their results are in design.json if they matter."""


CORE = (
    *("hw/processor/isa/", "hw/processor/rtl/", "hw/processor/shell/", "hw/export/", "hw/units/"),
    *(f"hw/rtl/{name}.py" for name in ("accelerator", "axi_lite", "regmap", "stream_ports")),
    *("base/philox.py", "fixedpoint/elementary.py", "fixedpoint/format.py", "fixedpoint/wordlength/goal.py"),
)
"""Source files that determine a core. Programs of generator versions with equal files here can share a core."""


@cache
def source_digest(places: tuple[str, ...] = ("",)) -> str:
    """Return 16 hexadecimal digits that identify the source, the same for a checkout and a wheel.

    Args:
        places: Beginnings of the file names to include.
    """
    digest = hashlib.sha256()
    for name, path in source_files(places):
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def source_files(places: tuple[str, ...] = ("",)) -> list[tuple[str, Path]]:
    """Return the files that determine a design, sorted, with their path in the package such as hw/units/add.py.

    Args:
        places: Beginnings of the file names to include.
    """
    return sorted(
        (name, path) for name, path in _all_files() if not name.startswith(EXCLUDED) and name.startswith(places)
    )


def _all_files() -> Iterator[tuple[str, Path]]:
    (top,) = map(Path, dynagate.__path__)
    for place in HASHED:
        path = top / place
        for file in [path] if path.is_file() else path.resolve().rglob("*.py"):
            yield (place if path.is_file() else f"{place}/{file.relative_to(path.resolve()).as_posix()}"), file
