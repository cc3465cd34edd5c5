"""The digest of the generator's source: a change of the generator is a change of the design."""

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
    "fixedpoint/wordlength/sweep.py",
    "graph/truth.py",
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
    *(f"integrators/implicit/{name}.py" for name in ("contact", "contact_method")),
)
"""Folders and files that read, describe or measure designs. What they find is in design.json, if it is kept."""


CORE = (
    *("hw/processor/isa/", "hw/processor/rtl/", "hw/processor/shell/", "hw/export/", "hw/units/"),
    *(f"hw/rtl/{name}.py" for name in ("accelerator", "axi_lite", "regmap", "stream_ports")),
    *("base/philox.py", "fixedpoint/elementary.py", "fixedpoint/format.py", "fixedpoint/wordlength/goal.py"),
)
"""Source files that determine a processor's core; programs of other versions of the generator share it."""


@cache
def source_digest(places: tuple[str, ...] = ("",)) -> str:
    """16 hexadecimal digits, the same for a checkout and a wheel of it, wherever they lie. places: the files whose
    only names that begin so."""
    digest = hashlib.sha256()
    for name, path in source_files(places):
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def source_files(places: tuple[str, ...] = ("",)) -> list[tuple[str, Path]]:
    """Return the files that decide a design, sorted, named by their place in the package such as hw/units/add.py.
    places: only files whose names begin so."""
    return sorted(
        (name, path) for name, path in _all_files() if not name.startswith(EXCLUDED) and name.startswith(places)
    )


def _all_files() -> Iterator[tuple[str, Path]]:
    (top,) = map(Path, dynagate.__path__)
    for place in HASHED:
        path = top / place
        for file in [path] if path.is_file() else path.resolve().rglob("*.py"):
            yield (place if path.is_file() else f"{place}/{file.relative_to(path.resolve()).as_posix()}"), file
