"""The three figures of the paper as stacked bar charts in SVG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dynagate.bench.paper import STEP_NAMES
from dynagate.views.bars import Bar, draw_bars
from dynagate.views.svg import BLUE, GREEN, ORANGE, SKY

STEP_COLORS = dict(zip(STEP_NAMES, (SKY, BLUE, GREEN), strict=True))
HOST, COPROCESSOR = "host", "coprocessor"
PART_COLORS = {COPROCESSOR: BLUE, HOST: ORANGE}
WHOLE = {"the whole gradient": BLUE}
PARTITIONS = (
    "split: a kernel for each of q̈, M⁻¹ and the gradient of inverse dynamics, then their product; fused: the product "
    "within the last kernel; completely fused: one kernel. CPU: its coprocessor is the same core."
)


def figures(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write figure1.svg to figure3.svg: a single computation in three steps, partitions, and devices. Return their
    paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {"figure1": _steps, "figure2": _partitions, "figure3": _devices}
    paths = []
    for name, draw in drawn.items():
        paths.append(folder / f"{name}.svg")
        paths[-1].write_text(draw(result, result["paper"][name]) + "\n", encoding="utf-8")
    return paths


def origin(result: Mapping[str, Any]) -> str:
    """Return the machine, compiler and date of the measurement."""
    machine = result["machine"]
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['vectors']}; {machine['compiler']}; "
        f"Python {machine['python']}, numpy {machine['numpy']}; {machine.get('date', 'no date kept')}"
    )


def _steps(result: Mapping[str, Any], shown: Mapping[str, Any]) -> str:
    """Return figure 1: a single computation in three steps, by device."""
    bars = {"": {device: _bar(steps) for device, steps in shown.items()}}
    notes = ["medians in float32, Pinocchio in float64; arrays where they are computed, no link", origin(result)]
    return draw_bars(f"{result['robot']}: one gradient of forward dynamics", bars, STEP_COLORS, "µs", notes)


def _partitions(result: Mapping[str, Any], shown: Mapping[str, Any]) -> str:
    """Return figure 2: partitions between host and coprocessor, by device and batch."""
    groups: dict[str, dict[str, Bar | str]] = {}
    for device, rows in shown.items():
        for row in () if isinstance(rows, str) else rows:
            parts = {COPROCESSOR: (row["ns"] - row["host_ns"]) / 1e3, HOST: row["host_ns"] / 1e3}
            groups.setdefault(f"N = {row['batch']}", {})[f"{device}, {row['partition']}"] = _bar(parts, 1.0)
    _add_missing(groups, shown)
    return draw_bars(
        f"{result['robot']}: partitions of the gradient", groups, PART_COLORS, "µs", [PARTITIONS, origin(result)]
    )


def _devices(result: Mapping[str, Any], shown: Mapping[str, Any]) -> str:
    """Return figure 3: the gradient on each device, by batch."""
    groups: dict[str, dict[str, Bar | str]] = {}
    for device, rows in shown.items():
        for row in () if isinstance(rows, str) else rows:
            (part,) = WHOLE
            groups.setdefault(f"N = {row['batch']}", {})[device] = _bar({part: row["ns"]})
    _add_missing(groups, shown)
    notes = ["completely fused, float32, arrays in host memory before and after", origin(result)]
    return draw_bars(f"{result['robot']}: the gradient on each device", groups, WHOLE, "µs", notes)


def _bar(parts: Mapping[str, float] | str, scale: float = 1e-3) -> Bar | str:
    return parts if isinstance(parts, str) else {part: max(value, 0.0) * scale for part, value in parts.items()}


def _add_missing(groups: Mapping[str, dict[str, Bar | str]], shown: Mapping[str, Any]) -> None:
    """Add to each group a line for a device without figures, with the reason."""
    for group in groups.values():
        group |= {device: rows for device, rows in shown.items() if isinstance(rows, str)}
