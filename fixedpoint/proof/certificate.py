"""Certificates in integers: the weights and the offset of `graph.certificate`, and the formats of its nodes.

The residual torques r are computed in integers, too, with errors. The offset is the contribution of these errors to the
bound. With proved ranges it holds for every state, else it comes from a sample. Formats hold `ROOM` times the largest
value of a sample; beyond, the result is flagged as overflowing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.base.arrays import Floats
from dynagate.fixedpoint.assign import (
    LARGEST_WORD,
    PROVED,
    SMALLEST_WORD,
    Policy,
    WordLengths,
    assign_word,
    fixed_factor,
    sampled_states,
)
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_fixed
from dynagate.fixedpoint.proof.mass_bound import mass_bound
from dynagate.fixedpoint.ranges.proved import error_bounds, proved_ranges
from dynagate.fixedpoint.ranges.sampled import sampled_ranges
from dynagate.graph import Graph, Port, trace
from dynagate.graph.certificate import WithCertificate, with_certificate
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.robot import Robot

STATES = 16384
"""Number of states in a sample of errors: half uniform in the region, a quarter at its limits, a quarter near rest."""

MARGIN = 2.0
"""Factor by which sampled errors are enlarged."""

ROOM = 64.0
"""Factor by which formats of certificates exceed the largest certificate of the sample."""

FINE = 0.02
"""Largest share of the offset that the rounding of the norm may add."""

WEIGHT_BITS = 12
"""Bits of a weight as an integer. Weights are rounded up, by up to 1/1000."""

MORE_BITS = 3
"""Extra bits of residual torques compared with the words of forward dynamics, since they are differences of large
torques.

Words of 24 bits grow to 27, and a 27-bit product takes as many multiplier blocks as a 24-bit one.
"""

WIDEST = 64
"""Largest number of bits of a residual torque and of a certificate, if words may have any length."""

LEFT_OVER = "left_over"
"""Name of the output with residual torques."""

SINGLE, DOUBLE = 2.0**-24, 2.0**-53
"""Relative rounding errors of float32 and float64."""


@dataclass(frozen=True)
class Certificate:
    """Numbers of a certificate."""

    weights: tuple[float, ...]
    """Weight of the residual torque of each degree of freedom, from a bound of M⁻¹."""
    offset: float
    """Bound of the effect of the torques' own errors, rad/s² or m/s²."""
    mass_proved: bool
    """Whether the bound of M⁻¹ is proved, or else sampled."""
    errors_proved: bool
    """Whether the errors of the torques are proved, or else sampled."""

    def text(self) -> str:
        """Return the certificate in one line."""
        which = {True: "proved", False: "sampled"}
        return (
            f"bounds the error of qdd as a vector, {self.offset:.1e} at least; mass matrix {which[self.mass_proved]}, "
            f"errors of its torques {which[self.errors_proved]}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the certificate for JSON."""
        return asdict(self)

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> Certificate:
        """Return the certificate that `as_dict` converted."""
        return cls(**{**content, "weights": tuple(content["weights"])})


class ProcessorModel(NamedTuple):
    """A processor that computes the certificate."""

    word: int
    """Word length in bits."""
    computed: Callable[[FormattedGraph], FormattedGraph]
    """Function that converts a formatted graph to the processor's operations."""


def inverse_graph(graph: Graph, robot: Robot) -> Graph:
    """Return inverse dynamics for the inputs of a graph of forward dynamics."""
    external_forces = any(port.name == "f_ext" for port in graph.inputs)
    return trace(robot, "inverse_dynamics", external_forces=external_forces, forces=graph.forces)


def certified_graph(graph: Graph, region: Region, dtype: npt.DTypeLike) -> tuple[Graph, Certificate]:
    """Return forward dynamics with the output `certificate` (), for results in float64 or float32.

    The torques' errors come from a sample in float32; those of float64 are smaller by 2⁻²⁹.

    Args:
        graph: Graph of forward dynamics.
        region: Operating region.
        dtype: Type of the results.
    """
    inverse, mass = inverse_graph(graph, region.robot), mass_bound(region)
    states = sampled_states(graph, region, _sampling(None))
    single = {name: value.astype(np.float32) for name, value in states.items()}
    qdd = evaluate(graph, single)["qdd"].astype(np.float32)
    inputs = {port.name for port in inverse.inputs} - {"qdd"}
    rough = evaluate(inverse, {**{name: single[name] for name in inputs}, "qdd": qdd})["tau"] - single["tau"]
    exact = evaluate(inverse, {**{name: states[name] for name in inputs}, "qdd": qdd.astype(np.float64)})["tau"]
    offset = MARGIN * _longest(region.robot, states["q"], rough - (exact - states["tau"]))
    if np.dtype(dtype) == np.float64:
        offset *= DOUBLE / SINGLE
    weights = tuple(float(x) for x in mass.weights * (1.0 + 2.0**-16))  # what a norm of float32 may lack
    certificate = Certificate(weights, offset, mass.proved, False)
    return with_certificate(graph, inverse, weights, offset).graph, certificate


def certified(
    formatted: FormattedGraph, region: Region, policy: Policy | None = None, machine: ProcessorModel | None = None
) -> tuple[FormattedGraph, Certificate]:
    """Return formatted forward dynamics with the output `certificate` (); other outputs stay the same.

    Args:
        formatted: Forward dynamics with formats.
        region: Operating region.
        policy: Policy of the residual torques. With proved ranges their errors are proved.
        machine: Processor that computes the certificate in words of its own; the torques' errors are then sampled.

    Raises:
        ProofError: The errors cannot be proved.
    """
    longest = max(fmt.width for fmt in formatted.formats)
    word = machine.word if machine else min(max(longest + MORE_BITS, SMALLEST_WORD), LARGEST_WORD)
    policy = replace(policy or Policy(), word=word)
    graph, mass = formatted.graph, mass_bound(region)
    inverse = inverse_graph(graph, region.robot)
    nv = len(mass.weights)
    draft = with_certificate(graph, inverse, [1.0] * nv, 0.0)
    limits = [formatted.formats[i].limits[1] for i in _port(graph, "qdd")]
    around = replace(region, acceleration=tuple(limits), effort=None)
    torques = _torques(formatted, draft, inverse, around, policy)
    widest = machine.word if machine else WIDEST
    left_over = _left_over(formatted, draft, torques, widest)
    sample = _sample(machine.computed(left_over) if machine else left_over, inverse, region, policy)
    weights = [_above(float(w)) for w in mass.weights]
    held = np.array([value * fmt.step for value, fmt in weights])
    if policy.ranges == PROVED:
        ranges = proved_ranges(inverse, around, policy.milliseconds)
        _, bounds = error_bounds(torques, ranges, policy.milliseconds)
        errors = bounds[list(_port(inverse, "tau"))] + [formatted.formats[i].step for i in _port(graph, "tau")]
        least = float(np.linalg.norm(held * errors))
    else:
        least = MARGIN * sample.error
    largest = float(np.max(np.linalg.norm(held * sample.left, axis=1)))
    offset, size = _size(least, largest, nv, widest)
    whole = with_certificate(graph, inverse, held.tolist(), offset)
    result = _formatted(formatted, whole, torques, weights, size, widest)
    certificate = Certificate(tuple(held.tolist()), offset, mass.proved, policy.ranges == PROVED)
    return result, certificate


def _size(least: float, largest: float, nv: int, widest: int) -> tuple[float, Format]:
    """Return the offset and the format of the certificate.

    least: smallest offset, without the rounding of the norm. largest: largest certificate of a sample. Differences in
    the norm have one bit more, at most `widest`.
    """
    roundings = 2 * nv - 1
    frac = math.ceil(math.log2(2.0 * roundings / (FINE * least)))
    while True:
        offset = least + roundings * 2.0**-frac
        bits = math.ceil(math.log2(ROOM * (largest + offset))) + frac + 1
        if bits < widest:
            return offset, Format(bits, frac)
        frac -= bits + 1 - widest


def recertified(graph: Graph, robot: Robot, certificate: Certificate) -> Graph:
    """Return forward dynamics with a known certificate."""
    return with_certificate(graph, inverse_graph(graph, robot), certificate.weights, certificate.offset).graph


def _port(graph: Graph, name: str) -> tuple[int, ...]:
    """Return the nodes of a port."""
    return next(port.nodes for port in (*graph.outputs, *graph.inputs) if port.name == name)


def _sampling(policy: Policy | None) -> Policy:
    """Return a policy whose samples are the states of a sample of errors."""
    base = policy or Policy()
    return replace(base, samples=STATES // 2, seed=base.seed + 7)


def _above(weight: float) -> tuple[int, Format]:
    """Return a weight as a constant, rounded up."""
    integer, fmt = fixed_factor(weight, WEIGHT_BITS)
    while integer * fmt.step < weight:
        integer += 1
    return integer, Format(integer.bit_length() + 1, fmt.frac)


def _torques(
    formatted: FormattedGraph, draft: WithCertificate, inverse: Graph, around: Region, policy: Policy
) -> FormattedGraph:
    """Return inverse dynamics at the computed accelerations with formats. around: region of these accelerations.

    Nodes shared with forward dynamics keep their formats.
    """
    known = len(formatted.formats)
    fixed = {i: (formatted.formats[k], formatted.constants.get(k)) for i, k in enumerate(draft.place) if k < known}
    words = WordLengths([policy.word] * len(inverse), fixed=fixed)
    if policy.ranges == PROVED:
        return assign_word(
            inverse, around, proved_ranges(inverse, around, policy.milliseconds), replace(policy, guard_bits=0.0), words
        )
    return assign_word(inverse, around, sampled_ranges(inverse, sampled_states(inverse, around, policy)), policy, words)


def _left_over(
    formatted: FormattedGraph, draft: WithCertificate, torques: FormattedGraph, widest: int
) -> FormattedGraph:
    """Return forward dynamics with the residual torques as the output LEFT_OVER, without their norm."""
    end = draft.residual[-1] + 1
    ports = (*formatted.graph.outputs, Port(LEFT_OVER, (len(draft.residual),), draft.residual))
    graph = replace(draft.graph, nodes=draft.graph.nodes[:end], outputs=ports).check()
    formats, constants = _joined(formatted, draft, torques)
    for r in draft.residual:
        formats[r] = _difference([formats[a] for a in graph.nodes[r].args], widest)
    return FormattedGraph(graph, tuple(formats[:end]), constants, formatted.bounds, formatted.arithmetic).check()


def _joined(
    formatted: FormattedGraph, whole: WithCertificate, torques: FormattedGraph
) -> tuple[list[Any], dict[int, tuple[int, Format]]]:
    """Return formats and constants of forward and inverse dynamics in one graph; None for other nodes."""
    constants = dict(formatted.constants)
    formats: list[Any] = [*formatted.formats, *[None] * (len(whole.graph) - len(formatted.formats))]
    for i, k in enumerate(whole.place):
        if formats[k] is None:
            formats[k] = torques.formats[i]
            if i in torques.constants:
                constants[k] = torques.constants[i]
    return formats, constants


def _difference(operands: Sequence[Format], widest: int) -> Format:
    """Return a format that holds every difference of the operands exactly, limited to `widest` bits."""
    frac = max(fmt.frac for fmt in operands)
    return Format(min(max(fmt.width + frac - fmt.frac for fmt in operands) + 1, widest), frac)


@dataclass(frozen=True)
class _Sample:
    """A sample of residual torques."""

    left: Floats
    """Residual torques from integers, (states, nv)."""
    error: float
    """Longest M⁻¹ e of their errors e."""


def _sample(left_over: FormattedGraph, inverse: Graph, region: Region, policy: Policy) -> _Sample:
    """Measure the residual torques and their errors."""
    states = sampled_states(left_over.graph, region, _sampling(policy))
    result = evaluate_fixed(left_over, states)
    exact = {port.name: states[port.name] for port in inverse.inputs if port.name != "qdd"}
    real = evaluate(inverse, {**exact, "qdd": result.outputs["qdd"]})["tau"] - states["tau"]
    left, fits = result.outputs[LEFT_OVER], ~result.overflow
    return _Sample(left[fits], _longest(region.robot, states["q"][fits], (left - real)[fits]))


def _longest(robot: Robot, q: Floats, torques: Floats) -> float:
    """Return the longest acceleration M⁻¹ τ for positions (states, nq) and torques (states, nv)."""
    mass = evaluate(trace(robot, "mass_matrix"), {"q": q})["m"]
    return float(np.max(np.linalg.norm(np.linalg.solve(mass, torques[:, :, None])[:, :, 0], axis=1)))


def _formatted(
    formatted: FormattedGraph,
    whole: WithCertificate,
    torques: FormattedGraph,
    weights: Sequence[tuple[int, Format]],
    size: Format,
    widest: int,
) -> FormattedGraph:
    """Return the complete graph with formats.

    size: format of the certificate and of the parts of the norm. widest: bits that residual torques may have.
    """
    graph = whole.graph
    formats, constants = _joined(formatted, whole, torques)
    for r, w, (weight, fmt) in zip(whole.residual, whole.weighted, weights, strict=True):
        any_of_them = _difference([formats[a] for a in graph.nodes[r].args], widest)
        bits = math.ceil(math.log2(size.limits[1] / (weight * fmt.step))) + any_of_them.frac + 1
        formats[r] = replace(any_of_them, width=min(max(bits, 2), any_of_them.width))
        formats[w], constants[w] = size, (weight, fmt)
    for i in whole.others:
        node = graph.nodes[i]
        formats[i] = Format(size.width + 1, size.frac) if node.op in ("neg", "sub") else size
        if node.op == "mul_const":
            constants[i] = _above(float(node.constant or 0.0))
        elif node.op == "add_const":
            integer = math.ceil(math.ldexp(float(node.constant or 0.0), size.frac))
            constants[i] = integer, Format(integer.bit_length() + 1, size.frac)
    return FormattedGraph(graph, tuple(formats), constants, formatted.bounds, formatted.arithmetic).check()
