"""Ranges that hold for every state of a region, by interval and affine arithmetic, and where they stop being useful.

An interval forgets where its width comes from, so sums that cancel look wide. An affine form keeps the part of each
value that is linear in the inputs, sines and cosines, and lumps the rest (de Figueiredo & Stolfi, "Affine arithmetic",
2004); the smaller of both is taken at every node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.ranges import Ranges
from dynagate.graph import Graph
from dynagate.region import Region

Array = npt.NDArray[np.float64]


class Form(NamedTuple):
    """low to high, and middle + Σ parts ε + rest ε' with every ε in [-1, 1]: the value is in both."""

    low: float
    high: float
    middle: float
    parts: Array
    rest: float


@dataclass(frozen=True)
class Bounds:
    """low, high: of every node, (nodes,), infinite where nothing holds."""

    low: Array
    high: Array

    @property
    def largest(self) -> Array:
        return np.maximum(np.abs(self.low), np.abs(self.high))


def bounds(graph: Graph, region: Region, known: Mapping[str, Array] | None = None) -> Bounds:
    """Bounds of every node over a region.

    known: largest magnitudes (…) of the inputs that the region does not bound itself, such as tau and minv.
    Raises ValueError: such an input is not given.
    """
    symbols = [i for i, node in enumerate(graph.nodes) if node.op in ("input", "sin", "cos")]
    place = {i: k for k, i in enumerate(symbols)}
    limits: dict[int, tuple[float, float]] = {}
    for port in graph.inputs:
        given = region.bounds(port.name)
        if given is None:
            if known is None or port.name not in known:
                raise ValueError(f"the region does not bound input '{port.name}'; give its magnitudes as known=")
            given = [(-float(x), float(x)) for x in np.ravel(known[port.name])]
        limits.update(dict(zip(port.nodes, given, strict=True)))
    forms: list[Form] = []
    for i, node in enumerate(graph.nodes):
        operands = [forms[a] for a in node.args]
        if node.op == "input":
            forms.append(_symbol(*limits[i], place[i], len(symbols)))
        elif node.op in ("sin", "cos"):
            forms.append(_symbol(*_wave(node.op, operands[0]), place[i], len(symbols)))
        else:
            forms.append(_result(node.op, operands, float(node.constant or 0.0), len(symbols)))
    return Bounds(np.array([f.low for f in forms]), np.array([f.high for f in forms]))


def useless(graph: Graph, found: Bounds, sampled: Ranges, bits: float = 4.0) -> list[str]:
    """Names of the nodes whose bound is more than so many bits above what samples show, though their operands' are not:
    where the bound stops being useful."""
    wide = found.largest > sampled.largest * 2.0**bits
    return [
        node.name
        for i, node in enumerate(graph.nodes)
        if wide[i] and sampled.largest[i] > 0.0 and not any(wide[a] for a in node.args)
    ]


def _symbol(low: float, high: float, k: int, count: int) -> Form:
    parts = np.zeros(count)
    parts[k] = 0.5 * (high - low)
    return Form(low, high, 0.5 * (low + high), parts, 0.0)


def _wave(op: str, angle: Form) -> tuple[float, float]:
    """Range of a sine or cosine over an interval."""
    shift = 0.0 if op == "sin" else 0.5 * math.pi
    low, high = angle.low + shift, angle.high + shift
    if not high - low < 2.0 * math.pi:
        return -1.0, 1.0
    ends = math.sin(low), math.sin(high)

    def holds(peak: float) -> bool:  # peak + 2 pi k lies between low and high
        return math.floor((high - peak) / (2.0 * math.pi)) >= math.ceil((low - peak) / (2.0 * math.pi))

    return -1.0 if holds(-0.5 * math.pi) else min(ends), 1.0 if holds(0.5 * math.pi) else max(ends)


def _result(op: str, operands: list[Form], constant: float, count: int) -> Form:
    if op == "const":
        return Form(constant, constant, constant, np.zeros(count), 0.0)
    a = operands[0]
    if op == "add":
        b = operands[1]
        return _met(a.low + b.low, a.high + b.high, a.middle + b.middle, a.parts + b.parts, a.rest + b.rest)
    if op == "sub":
        b = operands[1]
        return _met(a.low - b.high, a.high - b.low, a.middle - b.middle, a.parts - b.parts, a.rest + b.rest)
    if op == "add_const":
        return _met(a.low + constant, a.high + constant, a.middle + constant, a.parts, a.rest)
    if op in ("neg", "mul_const", "shift"):
        factor = {"neg": -1.0, "mul_const": constant, "shift": 2.0**constant}[op]
        low, high = sorted((a.low * factor, a.high * factor))
        return _met(low, high, a.middle * factor, a.parts * factor, a.rest * abs(factor))
    if op == "mul":
        b = operands[1]
        ends = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        radius_a, radius_b = float(np.abs(a.parts).sum()) + a.rest, float(np.abs(b.parts).sum()) + b.rest
        rest = _times(abs(a.middle), b.rest) + _times(abs(b.middle), a.rest) + _times(radius_a, radius_b)
        return _met(min(ends), max(ends), a.middle * b.middle, a.middle * b.parts + b.middle * a.parts, rest)
    if a.low <= 0.0 <= a.high:  # reciprocal of what may be zero
        return Form(-math.inf, math.inf, 0.0, np.zeros(count), math.inf)
    low, high = sorted((1.0 / a.low, 1.0 / a.high))
    return Form(low, high, 0.5 * (low + high), np.zeros(count), 0.5 * (high - low))


def _times(x: float, y: float) -> float:
    """0 · ∞ = 0, as it is for bounds."""
    return 0.0 if x == 0.0 or y == 0.0 else x * y


def _met(low: float, high: float, middle: float, parts: Array, rest: float) -> Form:
    """Both descriptions of a value, the interval cut to what the affine form allows."""
    radius = float(np.abs(parts).sum()) + rest
    if not math.isfinite(radius) or not math.isfinite(middle):
        return Form(low, high, 0.0, np.zeros(len(parts)), math.inf)
    cut_low, cut_high = max(low, middle - radius), min(high, middle + radius)
    return Form(cut_low, cut_high, middle, parts, rest) if cut_low <= cut_high else Form(low, high, middle, parts, rest)
