"""Measure a design that computes functions: stream states, and compare with the integers and with float64."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.progress import Progress, quiet
from dynagate.base.text_table import Column, table_lines
from dynagate.dynamics import CODE
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_fixed
from dynagate.fixedpoint.models.model import flagged_together
from dynagate.fixedpoint.wordlength.confidence import OVERFLOWS, WHICH, block_floors
from dynagate.fixedpoint.wordlength.goal import FLOOR, Goal
from dynagate.graph import reference_gradient
from dynagate.graph.certificate import CERTIFICATE
from dynagate.graph.evaluate import evaluate
from dynagate.graph.parts import parts_of, with_code
from dynagate.graph.region import Kind
from dynagate.host.report.rules import LONGER, Rule, at_most, equal_integers
from dynagate.host.report.sections import labeled

if TYPE_CHECKING:
    from dynagate.graph import Graph
    from dynagate.host.function import Function
    from dynagate.host.results import Results
    from dynagate.hw.designs import Design

ERROR_LIMIT = 1e-3
"""Relative L2 error of a block that a result may have: what the published accelerators reach."""


@dataclass(frozen=True)
class OutputErrors:
    """Errors of one output against the float64 graph.

    An error is |e| / max(|x|, floor) over the block. For a certificate it is the error that the certificate allows q̈.
    """

    name: str
    """Name of the output."""
    exact: bool
    """Whether every integer equals the executor's. For a certificate, also whether q̈'s error is never larger."""
    errors: Mapping[Kind, Array]
    """Errors of the states of each kind; 0 if the state overflowed."""
    by_reference: Array | None
    """Errors of uniform states against the function computed another way, or None if there is no other way."""
    allowed: float
    """Error that a share `quantile` of the uniform states may have."""
    quantile: float = 1.0
    """Share of the uniform states that must keep `allowed`, 0 to 1."""

    @property
    def at_quantile(self) -> float:
        """Return the error that the share `quantile` of the uniform states keeps."""
        return float(np.quantile(self.errors["uniform"], self.quantile))

    @property
    def rules(self) -> Iterator[Rule]:
        """Yield the rules on this output: equal integers, and errors within the allowed ones."""
        share = (
            "the largest error" if self.quantile == 1.0 else f"the error that {self.quantile:.4g} of the states keep"
        )
        helps = f"{LONGER}, a larger --error, or a smaller operating region"
        yield equal_integers(f"{self.name}: the comparison of the hardware with its integers", self.exact)
        yield at_most(f"{self.name}: {share} in the region", self.at_quantile, self.allowed, helps, "{:.2e}")
        if self.quantile < 1.0 and self.by_reference is not None:
            what = f"{self.name}: the largest error against the truth"
            yield at_most(what, self.by_reference.max(), self.allowed, helps, "{:.2e}")


def _truth(block: OutputErrors) -> str | None:
    """Return the largest error against the function computed another way."""
    return None if block.by_reference is None else f"{block.by_reference.max():.1e}"


COLUMNS: list[Column[OutputErrors]] = [
    Column("", 14, lambda block: f"  {block.name}", left=True, group="error"),
    Column("median", 10, lambda block: np.median(block.errors["uniform"]), ".1e", group="in the region"),
    Column("largest", 10, lambda block: block.errors["uniform"].max(), ".1e", group="in the region"),
    Column("largest", 16, lambda block: block.errors["limits"].max(), ".1e", group="at its limits"),
    Column("largest", 12, lambda block: block.errors["rest"].max(), ".1e", group="near rest"),
    Column("largest", 10, _truth, group="truth*"),
    Column("", 8, lambda block: "equal" if block.exact else "DIFFER", left=True, gap=3, group="integers"),
]
"""Columns of the table of errors."""


@dataclass(frozen=True)
class MeasuredFunction:
    """A function of a design that is to be measured."""

    formatted: FormattedGraph
    """Graph of the function with its formats."""
    sampled: Graph
    """Graph whose states decide the floors of the errors."""


@dataclass(frozen=True)
class CheckedFunction:
    """States of one function that a design computed, compared with the integers and with float64."""

    name: str
    """Name of the function."""
    states: Mapping[Kind, int]
    """Number of states of each kind."""
    overflows: Mapping[Kind, int]
    """Number of states of each kind that overflowed."""
    latency: int
    """Cycles from the first beat in to the first beat out, measured."""
    cycles_per_sample: float
    """Cycles from a result to the next, measured."""
    blocks: tuple[OutputErrors, ...]
    """Errors of each output."""


@dataclass(frozen=True)
class FunctionMeasurement:
    """Section of a report: rate, overflows and errors of the functions of a design."""

    functions: tuple[CheckedFunction, ...]
    """Measurements of each function."""

    @property
    def blocks(self) -> list[OutputErrors]:
        """Return the outputs of all functions."""
        return [block for function in self.functions for block in function.blocks]

    @property
    def states(self) -> Counter[Kind]:
        """Return the number of states of each kind, of all functions together."""
        return _total(function.states for function in self.functions)

    @property
    def overflows(self) -> Counter[Kind]:
        """Return the number of states of each kind that overflowed, of all functions together."""
        return _total(function.overflows for function in self.functions)

    @property
    def latency(self) -> int:
        """Return the largest measured latency of the functions, in cycles."""
        return max(function.latency for function in self.functions)

    @property
    def cycles_per_sample(self) -> float:
        """Return the largest number of cycles from a result to the next of the functions."""
        return max(function.cycles_per_sample for function in self.functions)

    @property
    def rules(self) -> list[Rule]:
        """Return the rules on errors, and on how many states of each kind may overflow in each function."""
        rules = [rule for block in self.blocks for rule in block.rules]
        for function in self.functions:
            prefix = f"{function.name}: " if len(self.functions) > 1 else ""
            rules += [
                at_most(
                    f"{prefix}the number of overflows among {function.states[kind]} {WHICH[kind]}",
                    count,
                    int(OVERFLOWS[kind] * function.states[kind] + 1.0 * (kind == "limits")),
                    f"{LONGER}, or give ranges more room: guard_bits=1",
                )
                for kind, count in function.overflows.items()
            ]
        return rules

    @property
    def lines(self) -> list[str]:
        """Return the rate, the overflows, the table of errors, and notes on the table."""
        states = self.states
        flagged = ", ".join(f"{n} of {states[kind]} {WHICH[kind]}" for kind, n in self.overflows.items())
        rate = f"{self.cycles_per_sample:.4g} cycles per result measured over {states.total()} states"
        return [
            *labeled({"throughput": rate, "overflows": flagged}),
            *table_lines(COLUMNS, self.blocks, indent=2),
            f"  errors are |e| / max(|x|, floor) per state, the floor {FLOOR:.0%} of the block's size in the region",
            "  * Newton-Euler by complex step, M from unit accelerations, LU; inputs not quantized",
        ]


def _total(counts: Iterable[Mapping[Kind, int]]) -> Counter[Kind]:
    """Return the sums of counts by kind. A kind without a count keeps its zero."""
    total: Counter[Kind] = Counter()
    for each in counts:
        total.update(each)
    return total


def counts_of(states: int) -> dict[Kind, int]:
    """Return how many states of each kind are streamed: a quarter as many at the limits and as many near rest.

    Args:
        states: Number of uniform states.

    Returns:
        Number of states of each kind.
    """
    return {"uniform": states, "limits": max(states // 4, 1), "rest": max(states // 4, 1)}


def measure_functions(
    built: Design[Any],
    subjects: Sequence[MeasuredFunction],
    device: Function,
    counts: Mapping[Kind, int],
    *,
    seed: int = 1,
    goal: Goal | None = None,
    progress: Progress = quiet,
) -> FunctionMeasurement:
    """Stream states through a design and compare the results.

    Args:
        built: The design.
        subjects: Its functions.
        device: The open design.
        counts: Number of states of each kind.
        seed: Seed of the states.
        goal: The accuracy that the design was built for.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The section of the report.
    """
    checked = []
    for subject in subjects:
        name = subject.formatted.graph.name
        samples = [built.region.states(subject.formatted.graph, count, seed, kind) for kind, count in counts.items()]
        inputs: dict[str, Any] = {key: np.concatenate([sample[key] for sample in samples]) for key in samples[0]}
        progress(f"streaming {sum(counts.values())} states of {name}")
        function = device.functions.get(name, device)
        results, transfer = function(**inputs), function.transfer
        progress("comparing")
        ends = np.cumsum(list(counts.values()))
        places = {kind: slice(end - count, end) for (kind, count), end in zip(counts.items(), ends, strict=True)}
        overflows = {kind: int(results.overflow[place].sum()) for kind, place in places.items()}
        blocks = _blocks(built, subject, _coded(built, subject, inputs), results, places, goal)
        checked.append(CheckedFunction(name, counts, overflows, transfer.latency, transfer.per_sample, blocks))
    return FunctionMeasurement(tuple(checked))


def _coded(built: Design[Any], subject: MeasuredFunction, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs of a function's graph, with the code of the function if its graph has that input."""
    graph, count = subject.formatted.graph, len(next(iter(inputs.values())))
    part = next((part for part in parts_of(built.function) if part.name == graph.name), None)
    coded = inputs if part is None else with_code(part, inputs, count)
    return {port.name: coded[port.name] for port in graph.inputs}


def _blocks(
    built: Design[Any],
    subject: MeasuredFunction,
    inputs: Mapping[str, Array],
    results: Results,
    places: Mapping[Kind, slice],
    goal: Goal | None,
) -> tuple[OutputErrors, ...]:
    """Compare the results of each output of a function with the integers, with float64 and with the other way."""
    graph, design = subject.formatted.graph, built.design
    reference = evaluate(graph, inputs)
    fixed = evaluate_fixed(subject.formatted, inputs, design.numbers)
    other: dict[str, Any] = {}
    if graph.name in ("forward_dynamics", "forward_dynamics_gradient") and {*inputs} <= {"q", "qd", "tau", CODE.name}:
        other = reference_gradient.forward_dynamics_gradient(built.robot, inputs, graph.forces)
    floors = block_floors(subject.sampled, built.region, goal or Goal(ERROR_LIMIT, floor=FLOOR))
    flags_equal = np.array_equal(results.overflow, flagged_together(fixed.overflow, design.samples_per_packet))
    good = ~results.overflow  # the other states have no result, and overflows are counted separately
    blocks = []
    for name, expected in reference.items():
        integers = results[name]
        errors = reference_gradient.relative_errors(integers, expected, floors[name])
        exact = flags_equal and np.array_equal(integers[good], fixed.outputs[name][good])
        if name == CERTIFICATE:
            missed = np.linalg.norm(results["qdd"] - reference["qdd"], axis=1) > integers
            exact = exact and not (missed & good).any()
            errors = integers / np.maximum(np.linalg.norm(reference["qdd"], axis=1), floors["qdd"])
        errors = np.where(good, errors, 0.0)
        reference_errors = None
        if name in other:
            reference_errors = np.where(
                good, reference_gradient.relative_errors(integers, other[name], floors[name]), 0.0
            )
        blocks.append(
            OutputErrors(
                name,
                bool(exact),
                {kind: errors[place] for kind, place in places.items()},
                None if reference_errors is None else reference_errors[places["uniform"]],
                np.inf if name == CERTIFICATE else goal.of(name) if goal else ERROR_LIMIT,
                goal.quantile if goal else 1.0,
            )
        )
    return tuple(blocks)
