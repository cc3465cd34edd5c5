"""Write the C of a rollout in integers: a function that calls the step, and rounds each new state into its format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from dynagate.fixedpoint.entering import entering, rounded_in_c
from dynagate.fixedpoint.format import Integers
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import quantize_inputs
from dynagate.fixedpoint.models.feedback import FeedbackModel
from dynagate.fixedpoint.operations import ExactResult
from dynagate.graph.region import Kind, Region
from dynagate.native.one_state import OneState
from dynagate.native.source import wrapped

STARTS: tuple[Kind, ...] = ("uniform", "rest", "rest")
"""Kind of the states in which the trajectories of the test vector begin. Those from rest keep the torques of their
first step, and leave the region late or never."""
TRAJECTORIES, STEPS = len(STARTS), 20
"""Size of the test vector."""


class Expected(NamedTuple):
    """Trajectories of the test vector, each a list by trajectory."""

    start: list[list[int]]
    """State before the first step."""
    controls: list[list[int]]
    """Other inputs of all steps."""
    usable: list[int]
    """Number of steps before an overflow."""
    end: list[list[int]]
    """State after these steps."""
    last: list[list[int]]
    """Output of the last of these steps."""


@dataclass(frozen=True)
class RolloutInC:
    """The function of all steps, in the file of one step.

    Args:
        file: File of the step.
        formatted: Graph of the step, with formats.
        carry: Input that each output becomes in the next step, by output.
    """

    file: OneState
    formatted: FormattedGraph
    carry: Mapping[str, str]

    @property
    def name(self) -> str:
        """Return the name of the function."""
        return f"{self.file.name}_run"

    @cached_property
    def states(self) -> list[int]:
        """Return the places of the state among the inputs of a step."""
        return [k for k in range(len(self.file.inputs)) if k not in self.controls]

    @cached_property
    def controls(self) -> list[int]:
        """Return the places of the other inputs of a step."""
        state = {target for _, target in self.formatted.graph.carried(self.carry)}
        return [k for k, i in enumerate(self.file.inputs) if i not in state]

    def described(self) -> Iterator[str]:
        """Yield lines of a comment for callers."""
        text = (
            f"computes many steps. `state` is input[0] to input[{len(self.states) - 1}] of the first step, and becomes "
            f"that of the next one. `control` holds the other {len(self.controls)} inputs of each step, and `results` "
            "the output of each step; it may be a null pointer. The function returns the number of steps with usable "
            "results: less than `steps` if a value overflowed, an input did not fit its format, or a new state did not "
            "fit."
        )
        yield f" * The function {self.name}"
        yield from wrapped(text, " * ", " * ")

    def lines(self) -> Iterator[str]:
        """Yield the function."""
        count = len(self.file.outputs)
        yield f"long {self.name}(word state[{len(self.states)}], const word *control, long steps, word *results) {{"
        for name, places in (("state_at", self.states), ("control_at", self.controls)):
            yield from wrapped(
                f"static const int {name}[{len(places)}] = {{{', '.join(map(str, places))}}};", "    ", "        "
            )
        yield f"    word input[{len(self.file.inputs)}], output[{count}];"
        yield "    for (long step = 0; step < steps; step++) {"
        yield "        int bad = 0;"
        yield f"        for (int k = 0; k < {len(self.states)}; k++) input[state_at[k]] = state[k];"
        yield f"        for (int k = 0; k < {len(self.controls)}; k++) input[control_at[k]] = *control++;"
        yield f"        if ({self.file.name}(input, output)) return step;"
        yield f"        for (int k = 0; results && k < {count}; k++) *results++ = output[k];"
        for source, target in self.formatted.graph.carried(self.carry):
            yield self._rounded(source, target)
        yield "        if (bad) return step + 1;"
        yield "    }"
        yield "    return steps;"
        yield "}\n"

    def _rounded(self, source: int, target: int) -> str:
        """Return the statement that rounds an output into the format of the state."""
        of, to = self.formatted.formats[source], self.formatted.formats[target]
        exact = ExactResult(of.width, of.frac, finer=(True,)).into(to)
        enter = entering(None, exact, to, self.formatted.arithmetic)
        value = f"(dg_{enter.type})output[{self.file.outputs.index(source)}]"
        text = rounded_in_c(f"{value} * ((dg_{enter.type})1 << {exact.up[0]})", enter, to)
        place = self.states.index(self.file.inputs.index(target))
        return f"        {{ {text} state[{place}] = (word)kept; if (v != kept) bad = 1; }}"

    def vector(self, region: Region) -> Iterator[str]:
        """Yield the trajectories of the test vector."""
        expected = self._expected(region)
        for name, rows in (
            ("state", expected.start),
            ("control", expected.controls),
            ("end", expected.end),
            ("last", expected.last),
        ):
            text = ", ".join("{" + ", ".join(map(str, row)) + "}" for row in rows)
            const = "" if name == "state" else "const "
            yield from wrapped(f"static {const}word check_{name}[{TRAJECTORIES}][{len(rows[0])}] = {{{text}}};")
        usable = ", ".join(map(str, expected.usable))
        yield f"static const long check_usable[{TRAJECTORIES}] = {{{usable}}};"
        yield f"static word check_results[{STEPS}][{len(self.file.outputs)}];"

    def check(self) -> Iterator[str]:
        """Yield the statements of `main` that compare trajectories with the test vector."""
        yield f"    for (int k = 0; k < {TRAJECTORIES}; k++) {{"
        yield f"        long usable = {self.name}(check_state[k], check_control[k], {STEPS}, check_results[0]);"
        yield "        int same = usable == check_usable[k];"
        yield f"        for (int j = 0; j < {len(self.states)}; j++) same &= check_state[k][j] == check_end[k][j];"
        yield f"        for (int j = 0; usable && j < {len(self.file.outputs)}; j++)"
        yield "            same &= check_results[usable - 1][j] == check_last[k][j];"
        yield "        wrong += !same;"
        yield "    }"

    def _expected(self, region: Region) -> Expected:
        """Return the trajectories of the test vector, whose integers the definition computes."""
        file = self.file
        states, controls = ([file.inputs[k] for k in places] for places in (self.states, self.controls))
        by_step = self._drawn(region)
        model = FeedbackModel(self.formatted, self.carry, {i: by_step[i][:, 0] for i in states})
        start = [[int(by_step[i][k, 0]) for i in states] for k in range(TRAJECTORIES)]
        usable, end, last = [0] * TRAJECTORIES, [*start], [[0] * len(file.outputs)] * TRAJECTORIES
        for step in range(STEPS):
            done = model.advance({i: by_step[i][:, step] for i in controls})
            for k in np.flatnonzero(~done.flagged).tolist():
                usable[k] += 1
                end[k] = [int(model.states[i][k]) for i in states]
                last[k] = [int(done.values[i][k]) for i in file.outputs]
        inputs = [[int(by_step[i][k, n]) for n in range(STEPS) for i in controls] for k in range(TRAJECTORIES)]
        return Expected(start, inputs, usable, end, last)

    def _drawn(self, region: Region) -> dict[int, Integers]:
        """Return integers of the inputs (TRAJECTORIES, STEPS), by node. Those of the state count in the first step."""
        graph = self.formatted.graph
        parts = [
            quantize_inputs(self.formatted, region.states(graph, STEPS, seed=2 + k, kind=kind))
            for k, kind in enumerate(STARTS)
        ]
        held = [
            part if kind == "uniform" else {i: x[:1].repeat(STEPS) for i, x in part.items()}
            for part, kind in zip(parts, STARTS, strict=True)
        ]
        return {i: np.stack([part[i] for part in held]) for i in self.file.inputs}
