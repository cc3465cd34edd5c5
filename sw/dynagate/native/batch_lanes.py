"""Run several iterations of an inner loop in the vector lanes that a single sample would leave empty.

The first graphs of a body may not depend on carried values: a solver linearizes each knot independently. DG_LANES of
these iterations are computed at once, by the functions that otherwise compute as many samples. The rest of the body
runs one iteration after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dynagate.graph import Graph
from dynagate.graph.graph import Port
from dynagate.graph.loop import Count, Loop

WORTH = 4
"""Operations for each number that is moved into or out of lanes, above which iterations run in lanes."""
LANES = "lanes"
"""Name of the array of vectors that the lanes read and write, with the layout of the array of an iteration's
values.
"""

Places = Mapping[str, int]


def first_graphs(loop: Loop) -> tuple[Graph, ...]:
    """Return the first graphs of a loop's body if their iterations may run in lanes; () if that does not pay."""
    if not isinstance(loop.stop, Count) or loop.stop.iterations is None:
        return ()
    carried, first = set(loop.carry.values()), list[Graph]()
    for step in loop.steps:
        names = {port.name for port in step.inputs}
        if (graph := step.as_graph) is None or names & (carried | {port.name for port in step.outputs}):
            break
        first.append(graph)
    each, constant = taken_in(loop, first)
    moved = sum(each.values()) + sum(len(port.nodes) for port in handed_on(loop, first))
    work = sum(len(graph) for graph in first)
    worth = work * loop.stop.iterations > WORTH * (moved * loop.stop.iterations + sum(constant.values()))
    return tuple(first) if worth else ()


def taken_in(loop: Loop, first: Sequence[Graph]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the sizes of the first graphs' inputs by name: those with a value per iteration, and the
    constant ones.
    """
    computed = {port.name for graph in first for port in graph.outputs}
    sizes = {port.name: len(port.nodes) for graph in first for port in graph.inputs if port.name not in computed}
    return (
        {name: size for name, size in sizes.items() if name in loop.per_iteration},
        {name: size for name, size in sizes.items() if name not in loop.per_iteration},
    )


def handed_on(loop: Loop, first: Sequence[Graph]) -> list[Port]:
    """Return the values that the first graphs of a loop's body pass to the rest of it or to the surrounding scope."""
    asked = {port.name for step in loop.steps[len(first) :] for port in step.reads}
    asked |= {*loop.kept, *loop.last, *loop.carry}
    return list({port.name: port for graph in first for port in graph.outputs if port.name in asked}.values())


class BatchLanes:
    """The statements for the first graphs of an inner loop whose iterations run in lanes.

    Args:
        at: Value -> its position in the array of an iteration's values.
        starts: Per-iteration input -> its position in the array of the loop around.
        calls: For each graph, its call on the numbers `v` and on the vectors LANES.
    """

    def __init__(
        self, loop: Loop, first: Sequence[Graph], at: Places, starts: Places, calls: Sequence[tuple[str, str]]
    ) -> None:
        self.loop, self.first, self.at, self.starts, self.calls = loop, first, at, starts, calls
        stop = loop.stop
        assert isinstance(stop, Count)
        self.iterations, self.results = stop.iterations, handed_on(loop, first)
        self.each, self.constant = taken_in(loop, first)

    def begin(self) -> Iterator[str]:
        """Yield the statements before the first iteration, when no lane holds an iteration."""
        size = sum(len(port.nodes) for port in self.results)
        yield f"static _Thread_local real abreast[{max(size, 1)} * DG_LANES];"
        yield "long first = -DG_LANES;"
        yield f"if ({self.iterations} >= DG_LANES) {{"
        for name, size in self.constant.items():
            yield f"    dg_get_vec({LANES} + {self.at[name]}, v + {self.at[name]}, 0, {size});"
        yield "}"

    def iteration(self) -> Iterator[str]:
        """Emit the loads of an iteration. Values that the lanes do not hold yet are loaded with those of the next
        iterations, or with the last ones of the loop.
        """
        yield f"if ({self.iterations} >= DG_LANES) {{"
        yield "    if (iteration < first || iteration >= first + DG_LANES) {"
        if self.loop.backwards:
            yield "        first = iteration >= DG_LANES ? iteration - DG_LANES + 1 : 0;"
        else:
            count = self.iterations
            yield f"        first = iteration + DG_LANES <= {count} ? iteration : {count} - DG_LANES;"
        for name, size in self.each.items():
            place, rows = self.at[name], f"v + {self.starts[name]} + first * {size}"
            yield f"        dg_get_vec({LANES} + {place}, {rows}, {size}, {size});"
        yield from (f"        {vectors}" for _, vectors in self.calls)
        yield from self._of_results(
            "        dg_put_vec({lanes} + {place}, abreast + {offset} * DG_LANES, {size}, {size});"
        )
        yield "    }"
        yield from self._of_results(
            "    for (int j = 0; j < {size}; j++) "
            "v[{place} + j] = abreast[{offset} * DG_LANES + (iteration - first) * {size} + j];"
        )
        yield "} else {"
        yield from (f"    {single}" for single, _ in self.calls)
        yield "}"

    def _of_results(self, text: str) -> Iterator[str]:
        offset = 0
        for port in self.results:
            size = len(port.nodes)
            yield text.format(lanes=LANES, place=self.at[port.name], offset=offset, size=size)
            offset += size
