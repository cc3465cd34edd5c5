"""The three figures of Plancher et al. 2021, filled with the measurements of one run. The FPGA's numbers are modeled.

Figure 1 divides a single computation into three steps, figure 2 compares partitions between host and coprocessor, and
figure 3 compares the most optimized form on each device.

Reference:
    Plancher et al., "Accelerating Robot Dynamics Gradients on a CPU, GPU, and FPGA", 2021.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

STEPS = ("inverse_dynamics", "inverse_dynamics_gradient", "forward_dynamics_gradient_given_minv")
"""Functions that end with the first, second and third line of the paper's algorithm 3.

Each computes everything that the previous one does, so a step's time is the difference.
"""

STEP_NAMES = ("v, a, f", "∂τ/∂u", "−M⁻¹ ∂τ/∂u")
SIZES = (16, 32, 64, 128)
"""Batch sizes of the paper's figures 2 and 3."""

PARTITIONS = ("split", "fused", "completely fused")
LEFT_OUT = "{} left out; --all brings it"
"""Text in place of figures that a run of a large robot omits."""

PINOCCHIO, CPU, GPU, FPGA = "CPU, Pinocchio C++", "CPU", "GPU", "FPGA (modeled)"


def paper(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of the three figures.

    figure1 holds the ns of each step by device. figure2 holds "ns" by device, partition and batch, and "host_ns", which
    the host computes next to the coprocessor. figure3 holds the "ns" of the completely fused form by device and batch.
    A device without figures has the reason instead. Batches are those of the paper, or all if none of them was
    measured.
    """
    measured = list(dict.fromkeys(row["batch"] for row in result["partitions"]))
    sizes = [batch for batch in measured if batch in SIZES] or measured
    return {"figure1": _figure1(result), "figure2": _figure2(result, sizes), "figure3": _figure3(result, sizes)}


def _figure1(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the times of the three steps by device."""
    peer, card, chip = result["pinocchio"], _card(result, "steps"), result["fpga_modeled"]
    cpu = result["single_call"]
    absent = [name for name in STEPS if "float32" not in cpu.get(name, {})]
    up_to: dict[str, Any] = {
        PINOCCHIO: peer if isinstance(peer, str) else [peer["times"][name][0] for name in STEPS],
        CPU: [cpu[name]["float32"]["ns"] for name in STEPS] if not absent else LEFT_OUT.format(absent[-1]),
        GPU: card if isinstance(card, str) else [card[name]["ns"] for name in STEPS],
        FPGA: chip if isinstance(chip, str) else [chip["single_call"][name] for name in STEPS],
    }
    return {device: times if isinstance(times, str) else _step_times(times) for device, times in up_to.items()}


def _step_times(up_to: Sequence[float]) -> dict[str, float]:
    """Return the time of each step, from the times up to and including each.

    A step that overlaps a later one, or took longer by itself, gets only the remainder, so the times add up to the
    last.
    """
    least = list(accumulate(reversed(up_to), min))[::-1]
    times = [least[0], *(b - a for a, b in pairwise(least))]
    return dict(zip(STEP_NAMES, times, strict=True))


def _figure2(result: Mapping[str, Any], sizes: Sequence[int]) -> dict[str, Any]:
    """Return the times of partitions by device."""
    rows = {CPU: result["partitions"], GPU: _card(result, "partitions"), FPGA: _chip(result, "partitions")}
    columns = ("partition", "batch", "ns", "host_ns")
    return {
        device: listed
        if isinstance(listed, str)
        else [{name: row[name] for name in columns} for row in listed if row["batch"] in sizes]
        for device, listed in rows.items()
    }


def _figure3(result: Mapping[str, Any], sizes: Sequence[int]) -> dict[str, Any]:
    """Return the times of the complete gradient by device and batch."""
    threads = result["threads"]
    chosen = ("cpu", "float32", False, threads)
    rows = [r for r in result["batches"] if (r["device"], r["dtype"], r["packed"], r["threads"]) == chosen]
    on_cpu = list({row["batch"]: row for row in rows}.values())
    host = _card(result, "host")
    on_gpu: Any = host if isinstance(host, str) else [row for row in host if row["results"] == "the same"]
    by_device = {f"{CPU}, {threads} threads": on_cpu, GPU: on_gpu, FPGA: _chip(result, "batches")}
    return {
        device: listed
        if isinstance(listed, str)
        else [{"batch": row["batch"], "ns": row["ns"]} for row in listed if row["batch"] in sizes]
        for device, listed in by_device.items()
    }


def _card(result: Mapping[str, Any], part: str) -> Any:
    """Return the times of a GPU, or the reason why they are missing."""
    card = result["cuda"]
    return card if isinstance(card, str) else card[part]


def _chip(result: Mapping[str, Any], part: str) -> Any:
    """Return the modeled times of a datapath, or the reason why they are missing."""
    chip = result["fpga_modeled"]
    return chip if isinstance(chip, str) else chip[part]


def text(figures: Mapping[str, Any]) -> list[str]:
    """Return the three figures as tables in µs."""
    head = "".join(f"{name:>16}" for name in STEP_NAMES)
    lines = ["one gradient in the steps of the paper's figure 1, µs", f"  {'':<34}{head}{'together':>10}"]
    for device, steps in figures["figure1"].items():
        cells = "".join(f"{ns / 1e3:>16.3f}" for ns in steps.values()) if isinstance(steps, dict) else f"  {steps}"
        whole = f"{sum(steps.values()) / 1e3:>10.3f}" if isinstance(steps, dict) else ""
        lines.append(f"  {device:<34}{cells}{whole}")
    lines += ["", "partitions as in figure 2, µs (of which the host's)"]
    for device, rows in figures["figure2"].items():
        lines += _by_batch(device, rows, [row["partition"] for row in rows] if not isinstance(rows, str) else [])
    lines += ["", "the whole gradient on each device as in figure 3, µs"]
    for device, rows in figures["figure3"].items():
        lines += _by_batch(device, rows, [""] * len(rows))
    return lines


def _by_batch(device: str, rows: Sequence[Mapping[str, Any]] | str, labels: Sequence[str]) -> list[str]:
    """Return a line per label with a cell per batch, or the reason why they are missing."""
    if isinstance(rows, str):
        return [f"  {device:<34}  {rows}"]
    cells: dict[str, str] = {}
    for row, label in zip(rows, labels, strict=True):
        host = f" ({row['host_ns'] / 1e3:.1f})" if "host_ns" in row else ""
        cells[label] = cells.get(label, "") + f"{row['batch']:>7}:{row['ns'] / 1e3:>8.1f}{host:<9}"
    return [f"  {device + (' ' + label if label else ''):<34}{line}".rstrip() for label, line in cells.items()]
