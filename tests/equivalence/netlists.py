"""Gateware cycle by cycle in Python, over any algebra of bits: terms for proofs, or arrays of all operands at once.

It runs Amaranth's own netlist, from which the Verilog is written too. A cell is computed again only where an operand of
it has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from amaranth.hdl import Fragment, Value, _ir, _nir
from amaranth.lib import wiring
from dynagate.sim.verilate import SimulationError

Bit = Any
"""0, 1, or what the algebra has for a bit that is not known."""
Word = tuple[Bit, ...]
"""Least significant bit first."""


class Algebra(Protocol):
    """What a netlist's cells compute with."""

    def inverted(self, a: Bit) -> Bit: ...

    def both(self, a: Bit, b: Bit) -> Bit: ...

    def differs(self, a: Bit, b: Bit) -> Bit: ...

    def chosen(self, condition: Bit, positive: Bit, otherwise: Bit) -> Bit: ...

    def word(self, op: str, operands: Sequence[Word], width: int) -> Word:
        """An operation on words, by its name in Amaranth's netlist."""

    def looked_up(self, table: Sequence[int], width: int, address: Word) -> Word:
        """An entry of a table."""


class Simulation:
    """A component's netlist after its reset. Inputs are 0 until they are set."""

    def __init__(self, netlist: Any, algebra: Algebra) -> None:
        self.algebra = algebra
        self._cells = netlist.cells
        self.values: dict[int, Word] = {0: (0, 1, *[0] * self._inputs())}
        self._memories = {i: list(c.init) for i, c in enumerate(self._cells) if isinstance(c, _nir.Memory)}
        self._written = {c.memory for c in self._cells if isinstance(c, _nir.SyncWritePort)}
        self._registers = [i for i, c in enumerate(self._cells) if isinstance(c, _nir.FlipFlop | _nir.SyncReadPort)]
        self._writes = [c for c in self._cells if isinstance(c, _nir.SyncWritePort)]
        for i in self._registers:
            cell = self._cells[i]
            init = cell.init if isinstance(cell, _nir.FlipFlop) else 0
            width = len(cell.data) if isinstance(cell, _nir.FlipFlop) else cell.width
            self.values[i] = _word(init, width)
        self._order, self._users = _order(self._cells, set(self._registers))
        self._stale = dict.fromkeys(self._order, True)

    def _inputs(self) -> int:
        return max((start + width - 2 for start, width in self._cells[0].ports_i.values()), default=0)

    def set(self, name: str, word: Word) -> None:
        """An input port, from this cycle on."""
        start, width = self._cells[0].ports_i[name]
        assert len(word) == width, f"{name} has {width} bits, not {len(word)}"
        top = list(self.values[0])
        top[start : start + width] = word
        self._put(0, tuple(top))

    def read(self, name: str) -> Word:
        """An output port in this cycle."""
        self._settle()
        return self._of(self._cells[0].ports_o[name])

    def step(self) -> None:
        """To the next cycle."""
        self._settle()
        following = {i: self._next(i) for i in self._registers}
        for port in self._writes:
            self._write(port)
        for i, word in following.items():
            self._put(i, word)

    def _put(self, cell: int, word: Word) -> None:
        if not _same(self.values.get(cell), word):
            self.values[cell] = word
            for user in self._users.get(cell, ()):
                self._stale[user] = True

    def _of(self, value: Iterable[Any]) -> Word:
        return tuple(int(net) if net in (0, 1) else self.values[net.cell][net.bit] for net in value)

    def _settle(self) -> None:
        for i in self._order:
            if self._stale[i]:
                self._stale[i] = False
                self._put(i, self._computed(self._cells[i]))

    def _next(self, i: int) -> Word:
        cell = self._cells[i]
        if isinstance(cell, _nir.FlipFlop):
            return self._of(cell.data)
        read = self._looked_up(cell)
        return self._mux(self._of((cell.en,))[0], read, self.values[i])

    def _looked_up(self, cell: Any) -> Word:
        address, rows = self._of(cell.addr), self._memories[cell.memory]
        if cell.memory not in self._written:
            return self.algebra.looked_up(rows, cell.width, address)
        row = rows[_known(address, "an address of a memory")]
        return _word(row, cell.width) if isinstance(row, int) else row

    def _write(self, port: Any) -> None:
        rows, data, enabled = self._memories[port.memory], self._of(port.data), self._of(port.en)
        if _known(tuple(set(enabled)) if len(set(enabled)) == 1 else enabled, "a memory's write enable"):
            rows[_known(self._of(port.addr), "an address of a memory")] = data

    def _mux(self, condition: Bit, positive: Word, otherwise: Word) -> Word:
        pairs = zip(positive, otherwise, strict=True)
        return tuple(a if _same(a, b) else self.algebra.chosen(condition, a, b) for a, b in pairs)

    def _computed(self, cell: Any) -> Word:
        algebra = self.algebra
        match cell:
            case _nir.Operator():
                return self._operator(cell)
            case _nir.AsyncReadPort():
                return self._looked_up(cell)
            case _nir.AssignmentList():
                word = list(self._of(cell.default))
                for each in cell.assignments:
                    span = slice(each.start, each.start + len(each.value))
                    word[span] = self._mux(self._of((each.cond,))[0], self._of(each.value), tuple(word[span]))
                return tuple(word)
            case _nir.Matches():
                bits = self._of(cell.value)
                return (self._any([self._all(_matching(algebra, bits, pattern)) for pattern in cell.patterns]),)
            case _nir.PriorityMatch():
                left, result = self._of((cell.en,))[0], []
                for bit in self._of(cell.inputs):
                    result.append(algebra.both(left, bit))
                    left = algebra.both(left, algebra.inverted(bit))
                return tuple(result)
            case _nir.Part():
                return self._part(cell)
        raise SimulationError(f"a cell of type {type(cell).__name__}; expected logic, registers and memories")

    def _operator(self, cell: Any) -> Word:
        algebra, operands = self.algebra, [self._of(value) for value in cell.inputs]
        match cell.operator:
            case "~":
                return tuple(map(algebra.inverted, operands[0]))
            case "&":
                return tuple(map(algebra.both, *operands))
            case "|":
                return tuple(self._any(pair) for pair in zip(*operands, strict=True))
            case "^":
                return tuple(map(algebra.differs, *operands))
            case "m":
                return self._mux(operands[0][0], *operands[1:])
            case "b" | "r|":
                return (self._any(operands[0]),)
            case "r&":
                return (self._all(operands[0]),)
        return algebra.word(cell.operator, operands, cell.width)

    def _part(self, cell: Any) -> Word:
        word, offset = self._of(cell.value), self._of(cell.offset)
        fill = word[-1] if cell.value_signed else 0

        def part(start: int) -> Word:
            return tuple(word[k] if k < len(word) else fill for k in range(start, start + cell.width))

        if all(bit in (0, 1) for bit in map(_plain, offset)):
            return part(_known(offset, "an offset") * cell.stride)
        ways = [part(k * cell.stride) for k in range(1 << len(offset))]
        for bit in offset:
            ways = [self._mux(bit, high, low) for low, high in zip(ways[::2], ways[1::2], strict=True)]
        return ways[0]

    def _all(self, bits: Iterable[Bit]) -> Bit:
        result: Bit = 1
        for bit in bits:
            result = self.algebra.both(result, bit)
        return result

    def _any(self, bits: Iterable[Bit]) -> Bit:
        return self.algebra.inverted(self._all([self.algebra.inverted(bit) for bit in bits]))


def _matching(algebra: Algebra, bits: Word, pattern: str) -> list[Bit]:
    marks = zip(bits, reversed(pattern), strict=True)
    return [bit if mark == "1" else algebra.inverted(bit) for bit, mark in marks if mark != "-"]


def netlist_of(component: Any, platform: Any = None) -> Any:
    """The cells that a component is. platform: the device it is for, such as a `units.multiply.Fabric`."""
    ports: dict[str, tuple[Any, Any]] = {}
    for path, member, value in component.signature.flatten(component):
        way = _ir.PortDirection.Input if member.flow == wiring.In else _ir.PortDirection.Output
        ports["__".join(map(str, path))] = Value.cast(value), way
    return _ir.build_netlist(Fragment.get(component, platform), ports=ports)


def _order(cells: Sequence[Any], registers: set[int]) -> tuple[list[int], dict[int, list[int]]]:
    """The cells of logic, each after those that it reads, and per cell those that read it."""
    logic = {
        i: {net.cell for net in cell.input_nets() if net not in (0, 1)}
        for i, cell in enumerate(cells)
        if i and i not in registers and not isinstance(cell, _nir.Memory | _nir.SyncWritePort)
    }
    users: dict[int, list[int]] = {}
    for i, reads in logic.items():
        for read in reads:
            users.setdefault(read, []).append(i)
    waits = {i: sum(read in logic for read in reads) for i, reads in logic.items()}
    order = [i for i, count in waits.items() if not count]
    for i in order:
        for user in users.get(i, ()):
            waits[user] -= 1
            if not waits[user]:
                order.append(user)
    return order, users


def _word(value: int, width: int) -> Word:
    return tuple((value >> k) & 1 for k in range(width))


def _plain(bit: Bit) -> Bit:
    return bit if isinstance(bit, int) else None


def _known(word: Word, what: str) -> int:
    if not all(isinstance(bit, int) and bit in (0, 1) for bit in word):
        raise SimulationError(f"{what} that depends on the samples")
    return sum(bit << k for k, bit in enumerate(word))


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return isinstance(a, int) and isinstance(b, int) and a == b
