"""The cost of a deadline: the worst of a million calls on this CPU, a datapath's cycles, a small processor's model."""

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

PROCESSORS: Mapping[str, tuple[float, float]] = {
    "Cortex-A53 of a Zynq UltraScale+": (1.2e9, 1.0),
    "Cortex-A9 of a Zynq-7000": (0.65e9, 0.5),
}
"""Clock in Hz, and floating-point instructions a cycle, both assumed."""


def deadline(
    graph: Graph, inputs: Mapping[str, Any], planned: Plan, clock_hz: float, calls: int = CALLS
) -> dict[str, Any]:
    """Figures of one sample at a time, in float32: measured quantiles of calls from C, in ns; the datapath's cycles,
    which are exact, and their time at an assumed clock; the processors' times, modeled.

    inputs: of one sample. planned: the datapath of the same function.
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
    """Nanoseconds of one call on a processor that starts this many instructions a cycle, from the graph's
    operations.
    """
    cycles = sum(NATIVE[node.op].in_order for node in graph.nodes)
    return math.ceil(cycles / per_cycle) / clock_hz * 1e9


def lines(result: Mapping[str, Any] | str) -> list[str]:
    """The table as text. result: of `deadline`, or why there is none."""
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
