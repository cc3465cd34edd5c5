"""Scans in integers: one format for each value of a body, over all links that have the body.

A body reads a value in the format of its writer and converts it to its own format. Values from several children are
summed exactly and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.base.arrays import Floats
from dynagate.base.errors import ArgumentError
from dynagate.fixedpoint.assign import SAMPLED, Policy, assign_word
from dynagate.fixedpoint.format import Arithmetic, Format, FormattedIntegers, quantize, rescale, to_float, wide
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate_integers
from dynagate.fixedpoint.ranges.sampled import sampled_ranges
from dynagate.forces import Force
from dynagate.graph.critical_path import late_terms_last
from dynagate.graph.loop import Loop
from dynagate.graph.region import Kind, Region
from dynagate.graph.scan import PASSED, PASSING, TABLE, Scan, evaluate_scan, scans_of

MOST_ROWS = 2**14
"""Largest number of samples times links that the ranges of a body come from."""

LEAST_SAMPLES = 128
"""Smallest number of samples, even for many links."""


@dataclass(frozen=True)
class FormattedScan:
    """A scan whose bodies have formats."""

    scan: Scan
    bodies: tuple[FormattedGraph, ...]
    """Formatted graph of each kind of body."""


@dataclass(frozen=True)
class FormattedScans:
    """A function as scans with formats."""

    loop: Loop
    scans: tuple[FormattedScan, ...]
    bounds: Mapping[str, Sequence[tuple[float, float]] | None]
    """Smallest and largest value of each entry of an input; None for an input that follows from others."""

    @cached_property
    def arithmetic(self) -> Arithmetic:
        """Return rounding and overflow."""
        return self.scans[0].bodies[0].arithmetic


def assign_scans(
    loop: Loop,
    region: Region,
    policy: Policy | None = None,
    *,
    external_forces: bool = False,
    forces: Sequence[Force | str] = (),
) -> FormattedScans:
    """Choose formats of one word length for the states of a region.

    The binary point of each node of a body comes from its range over the sampled states and all links that have the
    body.

    Args:
        loop: Scans that follow one another, from `trace_scan`.
        region: Operating region.
        policy: Word length and ranges.
        external_forces: Whether the function has external forces as inputs.
        forces: Forces of the function.

    Raises:
        ArgumentError: A step is no scan, ranges are to be proved, or a value is not finite.
    """
    policy = policy or Policy()
    if policy.ranges != SAMPLED:
        raise ArgumentError(
            f"ranges '{policy.ranges}' of a loop over links; expected '{SAMPLED}'", code="DG-FORMAT-033"
        )
    values = _states(loop, region, policy, external_forces, forces)
    scans = []
    for step in scans_of(loop):
        scan = replace(step, bodies=tuple(map(late_terms_last, step.bodies)))
        read: list[list[dict[str, Floats]]] = [[] for _ in scan.bodies]

        def seen(i: int, own: dict[str, Floats], read: Any = read, scan: Scan = scan) -> None:
            read[scan.kinds[i]].append(own)

        values |= evaluate_scan(scan, values, seen)
        bodies = []
        for k, (body, rows) in enumerate(zip(scan.bodies, read, strict=True)):
            together = {name: np.concatenate([each[name] for each in rows]) for name in rows[0]}
            bodies.append(assign_word(body, _BodyLimits(scan, k, region), sampled_ranges(body, together), policy))
        scans.append(FormattedScan(scan, tuple(bodies)))
    bounds = {port.name: region.bounds(port.name) for port in loop.inputs}
    return FormattedScans(loop, tuple(scans), bounds)


def _states(
    loop: Loop, region: Region, policy: Policy, external_forces: bool, forces: Sequence[Force | str]
) -> dict[str, Floats]:
    """Return the sampled states that ranges come from."""
    links = max(len(scan.parents) for scan in scans_of(loop))
    count = max(min(policy.samples, MOST_ROWS // links), LEAST_SAMPLES)
    counts: dict[Kind, int] = {"uniform": count, "limits": count // 2, "rest": count // 4}
    options = {"external_forces": external_forces, "forces": forces}
    parts = [
        region.sample(loop.name, each, policy.seed, kind=kind, **options)  # type: ignore[arg-type]
        for kind, each in counts.items()
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@dataclass(frozen=True)
class _BodyLimits:
    """Bounds of a body's inputs: for each entry, the limits of all links that have the body."""

    scan: Scan
    kind: int
    region: Region

    def bounds(self, name: str) -> list[tuple[float, float]] | None:
        known = self.region.bounds(name) if name in self.scan.starts else None
        if known is None:
            return None
        port = next(port for port in self.scan.bodies[self.kind].inputs if port.name == name)
        parts = [known[self.scan.part(i, port)] for i, kind in enumerate(self.scan.kinds) if kind == self.kind]
        return [(min(low for low, _ in entry), max(high for _, high in entry)) for entry in zip(*parts, strict=True)]


@dataclass
class _Integers:
    """Integers of a batch, computed scan by scan.

    overflow: states (batch,) in which a node, or a value between two bodies, overflowed.
    """

    inputs: Mapping[str, Floats]
    arithmetic: Arithmetic
    overflow: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        self.values: dict[str, dict[int, FormattedIntegers]] = {}

    def read(self, values: Sequence[FormattedIntegers], to: Format) -> npt.NDArray[np.int64]:
        """Return the sum of integers in several formats, rounded once."""
        frac = max(value.format.frac for value in values)
        bits = max(value.format.width + frac - value.format.frac for value in values) + len(values)
        total = sum(wide(value.value, bits) << (frac - value.format.frac) for value in values)
        result = rescale(np.asarray(total), frac, to, self.arithmetic)
        self.overflow |= result.overflow
        return np.asarray(result.value)

    def run(self, formatted: FormattedScan) -> None:
        """Compute a scan."""
        scan, passing = formatted.scan, dict[int, list[list[FormattedIntegers]]]()
        for i in scan.order:
            own = formatted.bodies[scan.kinds[i]]
            come = passing.get(scan.parents[i] if scan.down else i, [])
            result = evaluate_integers(own, self._inputs(scan, i, own, come))
            self.overflow |= result.overflow
            for port in own.graph.outputs:
                fixed = [FormattedIntegers(result.value[node], own.formats[node]) for node in port.nodes]
                if port.name == PASSING:
                    passing.setdefault(i if scan.down else scan.parents[i], []).append(fixed)
                else:
                    start = scan.starts[port.name][i]
                    self.values.setdefault(port.name, {}).update({start + k: each for k, each in enumerate(fixed)})

    def _inputs(
        self, scan: Scan, i: int, own: FormattedGraph, come: Sequence[Sequence[FormattedIntegers]]
    ) -> dict[int, npt.NDArray[np.int64]]:
        """Return the integers of a body's inputs, by node."""
        integers = {}
        for port in own.graph.inputs:
            for k, node in enumerate(port.nodes):
                to = own.formats[node]
                if port.name == PASSED:
                    integers[node] = self.read([each[k] for each in come], to)
                elif port.name in self.values:
                    integers[node] = self.read([self.values[port.name][scan.starts[port.name][i] + k]], to)
                else:
                    batch = len(self.overflow)
                    column = (
                        np.full(batch, scan.tables[i][k])
                        if port.name == TABLE
                        else self.inputs[port.name][:, scan.starts[port.name][i] + k]
                    )
                    integers[node] = quantize(column, to).value
        return integers


def evaluate_scans(
    formatted: FormattedScans, inputs: Mapping[str, Floats]
) -> tuple[dict[str, Floats], npt.NDArray[np.bool_]]:
    """Evaluate scans on real inputs, through integers.

    Args:
        formatted: Scans with formats.
        inputs: Arrays (batch, *shape) by name.

    Returns:
        Outputs (batch, *shape) by name, and the states (batch,) that overflowed.
    """
    batch = len(next(iter(inputs.values())))
    columns = {name: np.reshape(np.asarray(array, dtype=np.float64), (batch, -1)) for name, array in inputs.items()}
    integers = _Integers(columns, formatted.arithmetic, np.zeros(batch, dtype=bool))
    for scan in formatted.scans:
        integers.run(scan)
    outputs = {}
    for port in formatted.loop.outputs:
        fixed = [integers.values[port.name][k] for k in range(len(port.nodes))]
        flat = np.stack([to_float(each.value, each.format) for each in fixed], axis=1)
        outputs[port.name] = flat.reshape(batch, *port.shape)
    return outputs, integers.overflow
