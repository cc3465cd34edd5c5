"""Identities: nodes that are equal, zero or constant in every state although their formulas differ.

Examples are c² + s² = 1, orthogonal columns, and symmetric products. Instead of a rewriting rule for each of them, the
nodes are evaluated at random probes. Two analytic functions that agree at each of them to fourteen digits of their
terms agree everywhere, except with a probability of about 10**-70 (Schwartz-Zippel). The result of an operation that is
not analytic is treated as an input. `same.check_same` compares the graph that comes of it with its recording.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dynagate.graph.graph import Port
from dynagate.graph.ops import OPS, SUMS
from dynagate.graph.probes import magnitudes, probes
from dynagate.graph.rebuild import Entry, Raw, RawNode, Rebuilt, RecordedPort, live_nodes, rebuilt, replay, with_sign

PROBES = 48
"""Number of probes, and of those first ones that have the inputs' own sizes."""
PLAIN = 6
SEED = 7
TOLERANCE = 1e-14
"""Largest difference of equal nodes at a probe, relative to the terms that a node sums there: constants are rounded to
float64. The nodes are evaluated in the longest float of the machine, so that cancellation in their operands does not
hide an equality."""

ENOUGH = 36
"""Probes at which equal nodes are seen to be equal, at least."""
EPSILON = float(np.finfo(np.longdouble).eps)


def merge_identities(
    raw: Raw,
    inputs: Sequence[RecordedPort],
    outputs: Sequence[RecordedPort],
    ports: Mapping[str, Port],
    new_trace: Callable[[], Any],
) -> Rebuilt:
    """Rebuild the nodes with equal ones merged (up to sign), and zeros and constants folded. ports: as in `lower`."""
    roots = [entry for port in (*inputs, *outputs) for entry in port[2]]
    live = live_nodes(raw, roots)
    with np.errstate(all="ignore"):
        same = _representatives(raw, live, probes(inputs, ports, PROBES, PLAIN, SEED))
    trace = new_trace()
    place: dict[int, Any] = {}
    for i, node in enumerate(raw.nodes):
        if not live[i]:
            continue
        equal = same.get(i)
        if isinstance(equal, tuple):
            place[i] = with_sign(place[equal[0]], equal[1])
        elif equal is not None:
            place[i] = equal
        else:
            place[i] = replay(node, [place[a] for a in node.args], trace, raw.names[i])
        if hasattr(place[i], "id") and not trace.named[place[i].id]:
            trace.names[place[i].id], trace.named[place[i].id] = raw.names[i], raw.named[i]
    return rebuilt(trace, place, inputs, outputs)


def _representatives(raw: Raw, live: list[bool], inputs: Mapping[int, Any]) -> dict[int, Entry]:
    """Node -> (an earlier node that is equal up to sign, the sign), or the node's constant value. inputs: values of the
    input nodes at the probes."""
    random = np.random.default_rng(SEED)
    values: list[Any] = [None] * len(raw.nodes)
    scales: dict[int, Any] = {}  # of a sum at each probe, the largest of its terms and those of its partial sums
    noises: dict[int, Any] = {}  # at each probe, how far evaluation may have moved a value: what cancels leaves that
    by_digits: dict[tuple[int, ...], list[tuple[int, int]]] = {}  # leading digits -> nodes and their signs
    same: dict[int, Entry] = {}

    def scale_of(i: int) -> Any:
        return scales[i] if i in scales else np.abs(values[i])

    for i, node in enumerate(raw.nodes):
        if not live[i]:
            continue
        operands = [values[a] for a in node.args]
        constant = [] if node.constant is None else [node.constant]
        if node.op == "input":
            value = inputs[i].astype(np.longdouble)
        elif OPS[node.op].analytic:
            value = OPS[node.op].real(*operands, *constant) + np.zeros(PROBES, dtype=np.longdouble)
        else:
            # as large as one of the operands that are not 0, another from probe to probe: where it were 0, what it
            # multiplies would be equal to anything else that it multiplies
            choices = np.stack([values[a] for a in node.args[OPS[node.op].conditions :]])
            size = choices[random.integers(len(choices), size=PROBES), np.arange(PROBES)]
            size = np.where(size == 0.0, np.abs(choices).max(axis=0), size)
            value = random.uniform(-2.5, 2.5, PROBES) * magnitudes(random, PROBES, PLAIN) * size
        values[i] = value
        if node.op in SUMS:
            terms = [value, *constant, *(scales.get(a, values[a]) for a in node.args)]
            scales[i] = functools.reduce(np.maximum, map(np.abs, terms)).astype(np.float64)
        tolerance = TOLERANCE * scale_of(i)
        noises[i] = _noise(node, operands, value, [noises[a] for a in node.args]) + EPSILON * scale_of(i)
        drowned = noises[i] > tolerance
        first, second = float(value[0]), float(value[1])
        if not (math.isfinite(first) and math.isfinite(second)):
            continue
        if abs(second - first) <= tolerance[0] + tolerance[1] and _is_constant(value, tolerance, drowned):
            finest = np.nanargmin(tolerance)
            same[i] = _shortest(float(value[finest]), float(tolerance[finest]))
            values[i], noises[i] = np.full(PROBES, same[i], dtype=np.longdouble), np.zeros(PROBES)
            continue
        sign = 1 if first > 0 else -1
        key = (*_digits(sign * first), *_digits(sign * second))
        for other, other_sign in by_digits.setdefault(key, []):
            difference, other_tolerance = value - sign * other_sign * values[other], TOLERANCE * scale_of(other)
            drowns = drowned | (noises[other] > other_tolerance)
            if _within(difference, np.maximum(tolerance, other_tolerance), drowns):
                same[i] = (other, sign * other_sign)
                break
        else:
            by_digits[key].append((i, sign))
    return same


def _noise(node: RawNode, operands: Sequence[Any], value: Any, noises: Sequence[Any]) -> Any:
    """What an operation makes of its operands' noise, to first order."""
    if node.op == "mul":
        (a, b), (of_a, of_b) = operands, noises
        return (np.abs(a) * of_b + np.abs(b) * of_a).astype(np.float64)
    if node.op == "mul_const":
        return abs(node.constant or 0.0) * noises[0]
    if node.op == "reciprocal":
        return (value * value).astype(np.float64) * noises[0]
    return sum(noises) if OPS[node.op].analytic else 0.0


def _is_constant(value: Any, tolerance: Any, drowned: Any) -> bool:
    finest = np.nanargmin(tolerance)
    return _within(value - value[finest], tolerance + tolerance[finest], drowned)


def _within(difference: Any, tolerance: Any, drowned: Any) -> bool:
    """Whether nodes are equal. A probe says nothing at which there is no number, or noise alone, but for the first
    ones; enough others must say so."""
    equal = np.abs(difference) <= tolerance
    different = ~equal & np.isfinite(difference) & ~drowned
    return bool(not different.any() and equal[:PLAIN].all() and equal.sum() >= ENOUGH)


def _digits(value: float) -> tuple[int, int]:
    """The mantissa, rounded to about six digits, and the exponent."""
    mantissa, exponent = math.frexp(value)
    return round(mantissa * 2**20), exponent


def _shortest(value: float, tolerance: float) -> float:
    """The number with the fewest decimal digits within the tolerance."""
    if abs(value) <= tolerance:
        return 0.0
    candidates = (float(f"{value:.{digits}e}") for digits in range(17))
    return next((x for x in candidates if abs(x - value) <= tolerance), value)
