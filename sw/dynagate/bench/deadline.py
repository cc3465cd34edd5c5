"""The cost of a deadline: the slowest of a million calls on this CPU, a datapath's cycles, and modeled small
processors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dynagate.bench.measure import each_call
from dynagate.graph import Graph
from dynagate.hw.plan.plan import Plan
from dynagate.native.expressions import NATIVE
from dynagate.native.kernel import Kernel

CALLS = 1_000_000
"""Number of calls."""

PROCESSORS: Mapping[str, tuple[float, float]] = {
    "Cortex-A53 of a Zynq UltraScale+": (1.2e9, 1.0),
    "Cortex-A9 of a Zynq-7000": (0.65e9, 0.5),
}
"""Assumed clock in Hz and floating-point instructions per cycle of small processors."""


def deadline(
    graph: Graph, inputs: Mapping[str, Any], planned: Plan, clock_hz: float, calls: int = CALLS
) -> dict[str, Any]:
    """Return the time of one sample in float32 on a CPU, a datapath and small processors.

    CPU times are measured quantiles of calls from C, in ns. The datapath's cycles are exact, and their time follows
    from an assumed clock. The processors' times are modeled.

    Args:
        graph: The function.
        inputs: Inputs of one sample.
        planned: Plan of the datapath of the same function.
        clock_hz: Clock of the datapath, Hz.
        calls: Number of calls.
    """
    ns = each_call(Kernel(graph, np.float32), dict(inputs), calls)
    return {
        "calls": calls,
        "median_ns": float(np.median(ns)),
        "per_mille_ns": float(np.quantile(ns, 0.999)),
        "worst_ns": float(ns.max()),
        "datapath_cycles": planned.latency,
        "datapath_ns_at_assumed_clock": planned.latency / clock_hz * 1e9,
        "processors_modeled_ns": {name: modeled(graph, *figures) for name, figures in PROCESSORS.items()},
    }


def modeled(graph: Graph, clock_hz: float, per_cycle: float) -> float:
    """Return the ns of one call on a processor that starts `per_cycle` instructions a cycle, from the graph's
    operations.
    """
    cycles = sum(NATIVE[node.op].in_order for node in graph.nodes)
    return math.ceil(cycles / per_cycle) / clock_hz * 1e9


def lines(result: Mapping[str, Any] | str) -> list[str]:
    """Return the table as text. `result` is the result of `deadline`, or the reason why it is missing."""
    if isinstance(result, str):
        return [f"one sample until its result: {result}"]
    rows = [
        (f"this CPU, {result['calls']:,} calls from C, median", result["median_ns"], "measured"),
        ("  99.9 %", result["per_mille_ns"], "measured"),
        ("  worst", result["worst_ns"], "measured"),
        (
            f"datapath, {result['datapath_cycles']} cycles, median and worst",
            result["datapath_ns_at_assumed_clock"],
            "cycles exact, clock assumed",
        ),
        *((name, ns, "modeled") for name, ns in result["processors_modeled_ns"].items()),
    ]
    return [
        "one sample, float32, until its result" + f"{'ns':>20}",
        *(f"  {name:<46}{ns:>9,.0f}  {how}" for name, ns, how in rows),
    ]
