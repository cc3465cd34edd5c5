"""Bits to run gateware with (`sim.netlist`): terms over symbols, and arrays of all values that some operands have."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.equivalence.netlists import Bit, Word

MODULAR = {"+": operator.add, "-": operator.sub, "*": operator.mul}
COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def _computed(op: str, values: Sequence[Any], widths: Sequence[int], width: int) -> Any:
    """An operation on unsigned numbers of these widths, to be cut to a width."""

    def signed(k: int) -> Any:
        top = 1 << (widths[k] - 1)
        return (values[k] ^ top) - top

    if len(values) == 1:
        return -values[0] if op == "-" else ~values[0]
    if op in MODULAR:
        return MODULAR[op](*values)
    if op == "<<":
        return values[0] << values[1]
    if op in ("u>>", "s>>"):
        return (values[0] if op == "u>>" else signed(0)) >> values[1]
    plain = COMPARED[op.lstrip("us")]
    return plain(signed(0), signed(1)) if op.startswith("s") else plain(*values)


class Terms:
    """Bits as terms, each kept once. Equal terms have equal values, whatever the symbols are; the reverse need not
    hold. Words that are added or multiplied are looked at without the copies of their sign, so that a wider unit makes
    the same term."""

    def __init__(self) -> None:
        self._table: dict[Hashable, int] = {}
        self._inverse: dict[int, int] = {}
        self._parts: dict[int, frozenset[int]] = {}
        self._equal: dict[int, frozenset[int]] = {}

    def symbols(self, name: str, width: int) -> Word:
        """A word of which nothing is known."""
        return tuple(self._term(("symbol", name, k)) for k in range(width))

    def _term(self, key: Hashable) -> int:
        return self._table.setdefault(key, len(self._table) + 2)

    def inverted(self, a: Bit) -> Bit:
        if a in (0, 1):
            return 1 - a
        if a not in self._inverse:
            b = self._term(("~", a))
            self._inverse |= {a: b, b: a}
        return self._inverse[a]

    def both(self, a: Bit, b: Bit) -> Bit:
        if a == b or b == 1 or a == 0:
            return a
        if a == 1 or b == 0:
            return b
        some, none = (self._parts.get(self.inverted(x), frozenset()) for x in (a, b))
        if some and none == {self.inverted(x) for x in some}:  # some are 1 and some are 0
            first, *others = sorted(some)
            return self.inverted(self._all({self.inverted(self.differs(first, x)) for x in others}))
        return self._all(self._parts.get(a, {a}) | self._parts.get(b, {b}))

    def _all(self, parts: Set[int]) -> Bit:
        """Whether all of some terms are 1; those that say that terms are equal once, in one way."""
        if any(self.inverted(x) in parts for x in parts):
            return 0
        groups: list[set[int]] = []
        for pair in (self._equal[x] for x in parts if x in self._equal):
            met = [group for group in groups if group & pair]
            groups = [group for group in groups if group not in met] + [set(pair).union(*met)]
        kept = {x for x in parts if x not in self._equal}
        for group in groups:
            first, *others = sorted(group)
            kept |= {self.inverted(self.differs(first, x)) for x in others}
        if len(kept) == 1:
            return kept.pop()
        term = self._term(("&", frozenset(kept)))
        self._parts[term] = frozenset(kept)
        return term

    def differs(self, a: Bit, b: Bit) -> Bit:
        if a in (0, 1):
            a, b = b, a
        if b in (0, 1):
            return self.inverted(a) if b else a
        plain = [min(x, self._inverse.get(x, x)) for x in (a, b)]  # the one of x and its inverse that came first
        is_inverted = (plain[0] != a) != (plain[1] != b)
        if plain[0] == plain[1]:
            return int(is_inverted)
        term = self._term(("^", min(plain), max(plain)))
        self._equal[self.inverted(term)] = frozenset(plain)
        return self.inverted(term) if is_inverted else term

    def chosen(self, condition: Bit, positive: Bit, otherwise: Bit) -> Bit:
        if condition in (0, 1) or positive == otherwise:
            return positive if condition else otherwise
        return self._term(("m", condition, positive, otherwise))

    def word(self, op: str, operands: Sequence[Word], width: int) -> Word:
        if all(bit in (0, 1) for word in operands for bit in word):
            values = [sum(bit << k for k, bit in enumerate(word)) for word in operands]
            result = int(_computed(op, values, [len(word) for word in operands], width))
            return tuple((result >> k) & 1 for k in range(width))
        short, kept = list(operands), width
        if op in MODULAR:
            short = [_without_sign_copies(word) for word in operands]
            sizes = [len(word) for word in short]
            kept = min(width, sum(sizes) if op == "*" else max(sizes) + 1)
            if op != "-":
                short.sort()
        number = self._term((op, kept, *short))
        bits = tuple(self._term(("bit", number, k)) for k in range(kept))
        return bits + bits[-1:] * (width - kept)

    def looked_up(self, table: Sequence[int], width: int, address: Word) -> Word:
        if all(bit in (0, 1) for bit in address):
            place = sum(bit << k for k, bit in enumerate(address))
            entry = table[place] if place < len(table) else 0
            return tuple((entry >> k) & 1 for k in range(width))
        number = self._term(("table", tuple(table), address))
        return tuple(self._term(("bit", number, k)) for k in range(width))


def _without_sign_copies(word: Word) -> Word:
    size = len(word)
    while size > 1 and word[size - 1] == word[size - 2]:
        size -= 1
    return word[:size]


class Values:
    """Bits as arrays: every value of the operands in one run."""

    def spread(self, values: npt.NDArray[np.int64], width: int) -> Word:
        """The bits of integers."""
        return tuple(((values >> k) & 1).astype(bool) for k in range(width))

    def gathered(self, word: Word, *, signed: bool) -> npt.NDArray[np.int64]:
        """The integers of bits."""
        total: Any = 0
        for k, bit in enumerate(word):
            weight = -(1 << k) if signed and k == len(word) - 1 else 1 << k
            total = total + np.asarray(bit, dtype=np.int64) * weight
        return np.asarray(total)

    def inverted(self, a: Bit) -> Bit:
        return 1 - a if isinstance(a, int) else ~a

    def both(self, a: Bit, b: Bit) -> Bit:
        if isinstance(a, int):
            return b if a else 0
        return (a if b else 0) if isinstance(b, int) else a & b

    def differs(self, a: Bit, b: Bit) -> Bit:
        if isinstance(a, int):
            a, b = b, a
        return (self.inverted(a) if b else a) if isinstance(b, int) else a ^ b

    def chosen(self, condition: Bit, positive: Bit, otherwise: Bit) -> Bit:
        if isinstance(condition, int):
            return positive if condition else otherwise
        return np.where(condition, np.asarray(positive, dtype=bool), np.asarray(otherwise, dtype=bool))

    def word(self, op: str, operands: Sequence[Word], width: int) -> Word:
        values = [self.gathered(word, signed=False) for word in operands]
        return self.spread(np.asarray(_computed(op, values, [len(word) for word in operands], width), np.int64), width)

    def looked_up(self, table: Sequence[int], width: int, address: Word) -> Word:
        entries = np.zeros(1 << len(address), np.int64)
        entries[: len(table)] = table
        return self.spread(entries[self.gathered(address, signed=False)], width)
