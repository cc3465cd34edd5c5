"""Find the first node, in time, whose value in the RTL differs from the integer model."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.models.evaluate import evaluate_integers, quantize_inputs
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.build import TOP
from dynagate.hw.designs import Design
from dynagate.hw.export.identifiers import LEVEL, instance_name
from dynagate.sim.runner import input_payloads
from dynagate.sim.verilate import SimulationError, library


@dataclass(frozen=True)
class NodeDifference:
    """A node whose value in the RTL differs from the integer model."""

    node: str
    """Name of the node in the graph."""
    signal: str
    """Name of its signal in the RTL."""
    sample: int
    """Index of the state."""
    cycle: int
    """Cycles since the input handshake."""
    got: int
    """Integer in the RTL."""
    expected: int
    """Integer of the model."""

    def __str__(self) -> str:
        return (
            f"sample {self.sample}, cycle {self.cycle}: node '{self.node}' (signal {self.signal}) is {self.got}, "
            f"expected {self.expected}"
        )


def first_difference(
    built: Design[Pipeline], inputs: Mapping[str, npt.NDArray[np.float64]], *, verilog: Path | None = None
) -> NodeDifference | None:
    """Run states one at a time with the signal of every node public, and compare all nodes.

    If several nodes differ in the same cycle, the first in the graph's order is returned: the others read it, or have a
    bug of their own.

    Args:
        built: The design.
        inputs: States by input name, (samples, ...).
        verilog: Verilog of another datapath than the built one.

    Returns:
        The first difference; None if all nodes agree in all samples.

    Raises:
        SimulationError: The model cannot be compiled, or lacks a node's signal.
    """
    plan = built.hardware.plan
    nodes = sorted(plan.position, key=lambda i: (plan.ready(i), i))
    signals = [plan.signal_names[i] for i in nodes]
    places = [plan.module(i) for i in nodes]
    public = [(LEVEL.join((TOP, *place)), signal) for place, signal in zip(places, signals, strict=True)]
    model = ctypes.CDLL(str(library(verilog or built.module("datapath"), signals=public)))
    model.dynagate_open.restype = ctypes.c_void_p
    words = np.ctypeslib.ndpointer(np.uint32, flags="C_CONTIGUOUS")
    values = np.ctypeslib.ndpointer(np.uint64, flags="C_CONTIGUOUS")
    text = ctypes.POINTER(ctypes.c_char_p)
    model.dynagate_probe.restype = ctypes.c_uint64
    model.dynagate_probe.argtypes = [ctypes.c_void_p, words, text, ctypes.c_uint64, ctypes.c_uint64, values]
    model.dynagate_close.argtypes = [ctypes.c_void_p]

    integers = quantize_inputs(built.formatted, inputs)
    expected = evaluate_integers(built.formatted, integers, keep_all=True).value
    payloads = input_payloads(built, integers)
    paths = [".".join(("TOP", TOP, *map(instance_name, place))) for place in places]
    names = (ctypes.c_char_p * len(signals))(
        *(f"{path}.{signal}".encode() for path, signal in zip(paths, signals, strict=True))
    )
    cycles = plan.latency + 1
    for sample, payload in enumerate(payloads):
        seen = np.zeros((cycles, len(signals)), dtype=np.uint64)
        device = model.dynagate_open()
        try:
            count = model.dynagate_probe(device, payload, names, len(signals), cycles, seen)
        finally:
            model.dynagate_close(device)
        if count != len(signals):
            raise SimulationError(f"the model has no public signal '{signals[count]}'", code="DG-SIM-002")
        for k, i in enumerate(nodes):
            width = plan.stored(i)[0].width
            bits = int(seen[plan.ready(i), k]) & ((1 << width) - 1)
            got = bits - (1 << width) if bits >> (width - 1) else bits
            if got != int(expected[i][sample]):
                node = built.graph.nodes[i]
                return NodeDifference(node.name, signals[k], sample, plan.ready(i), got, int(expected[i][sample]))
    return None
