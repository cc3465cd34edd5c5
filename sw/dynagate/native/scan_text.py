"""A scan as C and CUDA text: tables with the links' constants, and a function that calls the body of each link.

A body is a function of pointers to its ports. Passed values have slots. A slot is free again after the last link that
reads it, so a chain needs two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dynagate.graph.scan import PASSED, PASSING, TABLE, Scan


@dataclass(frozen=True)
class Slots:
    """Slots of each link for passed values, in the scan's order."""

    come: tuple[int, ...]
    """Slot of the values that arrive."""
    go: tuple[int, ...]
    """Slot of the values that the link passes on."""
    add: tuple[int, ...]
    """Slot to which the passed values are added; -1 for none."""
    count: int
    """Number of slots."""


def slots(scan: Scan) -> Slots:
    """Return slots for the values that the links of a scan pass on."""
    free: list[int] = []
    count = 0
    own: dict[int, int] = {}
    """Slot of each link for the values that it passes down, or that its children have passed up."""
    come, go, add = [], [], []
    left = [len(children) for children in scan.children]

    def new() -> int:
        nonlocal count
        if free:
            return free.pop()
        count += 1
        return count - 1

    for i in scan.order:
        p, added, slot = scan.parents[i], -1, new()
        source = p if scan.down else i
        come.append(own.get(source, 0))
        go.append(slot)
        if scan.down:
            own[i] = slot
            if p >= 0:
                left[p] -= 1
            free += [own[j] for j in {p, i} if j >= 0 and not left[j]]
        else:
            if i in own:
                free.append(own[i])
            if p in own:
                added = own[p]
            elif p >= 0:
                own[p] = slot
            if p < 0 or added >= 0:
                free.append(slot)
        add.append(added)
    return Slots(tuple(come), tuple(go), tuple(add), count)


class ScanText:
    """A scan as text.

    Args:
        scan: The scan.
        name: Name of its functions.
        read: Positions of its inputs in the array `v` of an iteration's values.
        written: Positions of its outputs there.
    """

    def __init__(self, scan: Scan, name: str, read: Mapping[str, int], written: Mapping[str, int]) -> None:
        self.scan, self.name = scan, name
        self.at = {port.name: read[port.name] for port in scan.inputs}
        self.at |= {port.name: written[port.name] for port in scan.outputs}
        self.slots = slots(scan)
        self._columns = {value: k for k, value in enumerate(self.at)}

    def body_name(self, k: int) -> str:
        """Return the name of the function of body k."""
        return f"{self.name}_body{k}"

    def tables(self) -> Iterator[str]:
        """Yield tables with the constants of all links and the positions of their values."""
        scan, name = self.scan, self.name
        numbers = [repr(number) for i in scan.order for number in scan.tables[i]] or ["0"]
        yield f"DG_CONSTANT real {name}_numbers[] = {{{', '.join(numbers)}}};"
        rows, first = [], 0
        for k, i in enumerate(scan.order):
            places = [self.at[value] + scan.starts[value][i] for value in self.at]
            width = scan.width
            passes = [self.slots.come[k] * width, self.slots.go[k] * width, self.slots.add[k] * width]
            rows.append([scan.kinds[i], first, *passes, *places])
            first += len(scan.tables[i])
        text = ",\n    ".join("{" + ", ".join(map(str, row)) + "}" for row in rows)
        yield f"DG_CONSTANT int {name}_links[][{len(rows[0])}] = {{\n    {text}}};"

    def _argument(self, port: str) -> str:
        passes = {TABLE: f"{self.name}_numbers + link[1]", PASSED: "pass + link[2]", PASSING: "pass + link[3]"}
        return passes.get(port) or f"v + link[{5 + self._columns[port]}]"

    def function(self, kind: str, number: str, suffix: str = "") -> Iterator[str]:
        """Yield the function that runs over all links.

        Args:
            kind: C specifiers before its name.
            number: Type of the values `v`.
            suffix: Suffix of the bodies' names.
        """
        scan = self.scan
        yield f"{kind} void {self.name}_{number}({number} *restrict v) {{"
        if scan.width:
            yield f"    {number} pass[{self.slots.count * scan.width}];"
        yield f"    for (int i = 0; i < {len(scan.parents)}; i++) {{"
        yield f"        const int *const link = {self.name}_links[i];"
        yield "        switch (link[0]) {"
        for k, body in enumerate(scan.bodies):
            arguments = ", ".join(self._argument(port.name) for port in (*body.inputs, *body.outputs))
            yield f"        case {k}: {self.body_name(k)}{suffix}({arguments}); break;"
        yield "        }"
        if max(self.slots.add, default=-1) >= 0:
            yield "        if (link[4] >= 0)"
            yield f"            for (int k = 0; k < {scan.width}; k++) pass[link[4] + k] += pass[link[3] + k];"
        yield "    }\n}\n"
