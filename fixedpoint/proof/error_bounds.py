"""Compare proved bounds, which no state of a region exceeds, with the errors in a sample of states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from dynagate.base.arrays import Floats
from dynagate.fixedpoint.assign import Policy, sampled_states
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_fixed
from dynagate.fixedpoint.ranges.proved import Proof, prove
from dynagate.fixedpoint.ranges.sampled import sampled_ranges
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region


@dataclass(frozen=True)
class BlockBounds:
    """Proved and sampled extremes of an output block, over its entries and in its units."""

    proved_largest: float
    """Largest magnitude of every state, proved."""
    proved_error: float
    """Largest error of every state, proved."""
    measured_largest: float
    """Largest magnitude in the sample."""
    measured_error: float
    """Largest error in the sample."""

    def text(self) -> str:
        """Return the bounds in one line."""
        return (
            f"error at most {self.proved_error:.1e} (proved), {self.measured_error:.1e} (measured); magnitude at most "
            f"{self.proved_largest:.3g} (proved), {self.measured_largest:.3g} (measured)"
        )


@dataclass(frozen=True)
class CheckedBounds:
    """Bounds of all outputs of a design."""

    blocks: dict[str, BlockBounds]
    """Bounds by output."""
    states: int
    """Number of sampled states, which had no part in choosing formats."""
    seed: int
    """Seed of the states."""
    bits_beyond: float
    """Bits by which proved ranges exceed sampled ones, median over the nodes."""
    most_bits_beyond: float
    """Bits by which a proved range exceeds the sampled one at most."""

    def text(self) -> str:
        """Return the comparison of ranges in one line."""
        return f"{self.bits_beyond:.1f} bits beyond the sample's in the median, {self.most_bits_beyond:.1f} at most"

    def as_dict(self) -> dict[str, Any]:
        """Return the bounds for JSON."""
        return asdict(self)

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> CheckedBounds:
        """Return the bounds that `as_dict` converted."""
        blocks = {name: BlockBounds(**block) for name, block in content["blocks"].items()}
        return cls(blocks, content["states"], content["seed"], content["bits_beyond"], content["most_bits_beyond"])


def proved_and_sampled(
    formatted: FormattedGraph, region: Region, policy: Policy, numbers: Mapping[str, str] | None = None
) -> CheckedBounds:
    """Prove the ranges and errors of formats, and compare them with fresh sampled states.

    Args:
        formatted: Graph with formats.
        region: Operating region.
        policy: Its `milliseconds` and its number of states are used.
        numbers: Type that streams round each input and output to, by name.

    Raises:
        ProofError: A node may overflow.
    """
    graph, numbers = formatted.graph, numbers or {}
    proof = prove(formatted, region, policy.milliseconds, numbers)
    states = sampled_states(graph, region, replace(policy, seed=policy.seed + 1))
    expected, result = evaluate(graph, states), evaluate_fixed(formatted, states, numbers)
    assert not result.overflow.any(), "a state overflowed where none can"
    blocks = {
        name: BlockBounds(
            proof.largest(name),
            proof.error_of(name),
            float(np.abs(value).max()),
            float(np.abs(result.outputs[name] - value).max()),
        )
        for name, value in expected.items()
    }
    bits = _bits_beyond(proof, sampled_ranges(graph, states).largest)
    return CheckedBounds(
        blocks, len(next(iter(states.values()))), policy.seed + 1, float(np.median(bits)), float(bits.max())
    )


def _bits_beyond(proof: Proof, largest: Floats) -> Floats:
    """Return the bits by which the proved range of each node exceeds the sampled one, for nodes that vary in the
    sample.

    largest: sampled magnitudes, (nodes,).
    """
    computed = np.array([bool(node.args) for node in proof.graph.nodes]) & (largest > 0.0)
    proved = np.maximum(-proof.low, proof.high)
    return np.asarray(np.log2(proved[computed] / largest[computed]), dtype=np.float64)
