"""Find which entries of a unit's tables operands read, and which bits of these entries change the result.

Benches choose their samples by this, so that a wrong bit of a table in hardware is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.elementary import (
    Quadratic,
    exp_fraction,
    exp_plan,
    reciprocal,
    reciprocal_plan,
    reciprocal_seed,
    sine_plan,
    sine_quarter,
)
from dynagate.fixedpoint.format import Format, Integers
from dynagate.fixedpoint.tabulated import table_plan, tabulated, tabulated_address

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class UsedTable:
    """Table of a unit for an elementary function."""

    name: str
    """Name of the function and formats that the table is for; units with equal names have equal tables."""
    size: int
    """Number of entries."""
    widths: tuple[int, ...]
    """Bits of each coefficient in an entry, without the sign."""
    address: Callable[[Integers], npt.NDArray[np.int64]]
    """Function of operands (batch,) that returns the entry each of them reads."""
    result: Callable[[Integers, int, int], Integers]
    """Function of operands, a coefficient and a mask that returns the results if the mask is applied by exclusive or to
    the coefficient of each entry.
    """
    step: int
    """Number of consecutive operands that read at most two entries; 0 if unknown."""

    def visible(self, x: Integers) -> Flags:
        """Return which bits of the entries change the results of operands, (batch, bits of an entry)."""
        return self.changes(x) != 0

    def changes(self, x: Integers) -> npt.NDArray[np.int8]:
        """Return the sign by which an inverted bit of the entry changes each result, (batch, bits of an entry)."""
        sound = self.result(x, 0, 0)
        columns = [
            np.sign(self.result(x, k, 1 << bit) - sound) for k, width in enumerate(self.widths) for bit in range(width)
        ]
        return np.stack(columns, axis=1).astype(np.int8)

    def read_by(self, low: int, high: int) -> Flags:
        """Return which entries any operand from low to high may read, (entries,)."""
        read = np.zeros(self.size, bool)
        if self.step == 0 or (high - low) // self.step > MAX_OPERANDS:
            read[:] = True
            return read
        operands = np.append(np.arange(low, high + 1, max(self.step // 2, 1)), high)
        read[self.address(operands)] = True
        return read


MAX_OPERANDS = 1 << 22
"""Largest number of operands with which `UsedTable.read_by` tries entries."""


def table_of(op: str, source: Format, to: Format) -> UsedTable | None:
    """Return the table of an operation, or None if it has none.

    Args:
        op: Name of the operation.
        source: Format of the operand.
        to: Format of the result.
    """
    if op in ("sin", "cos"):
        return _sine(int(op == "cos"), source, to)
    if op == "exp":
        return _exp(source, to)
    if op == "reciprocal" and table_plan(source.width, to.width, source.frac + to.frac) is not None:
        return _tabulated(source, to)
    if op in ("reciprocal", "normalized_reciprocal"):
        return _newton(op, source, to)
    return None


def _widths(columns: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the bits of the largest coefficient of each column."""
    return tuple(max(abs(value).bit_length() for value in column) for column in columns)


def _changed(column: Sequence[int], mask: int) -> tuple[int, ...]:
    """Return coefficients with a mask applied by exclusive or."""
    return tuple(value ^ mask for value in column)


def _of_quadratic(plan: Quadratic, argument: Callable[[Integers], Integers]) -> dict[str, Any]:
    """Return the fields of a `UsedTable` for a quadratic. argument: function of operands that returns u."""

    def result(x: Integers, k: int, mask: int) -> Integers:
        columns = [plan.c0, plan.c1, plan.c2]
        columns[k] = _changed(columns[k], mask) if mask else columns[k]
        return replace(plan, c0=columns[0], c1=columns[1], c2=columns[2]).rounded(argument(x))

    return {
        "size": 1 << plan.index_bits,
        "widths": _widths((plan.c0, plan.c1, plan.c2)),
        "address": lambda x: np.asarray(argument(x) >> plan.offset_bits, np.int64),
        "result": result,
    }


def _sine(quarters: int, source: Format, to: Format) -> UsedTable:
    plan = sine_plan(source, to)
    fields = _of_quadratic(plan.quarter, lambda x: sine_quarter(x, source, to, quarters)[0])
    segment = int(2.0**source.frac * np.pi / 2.0 / fields["size"])
    return UsedTable(f"sincos {source} {to}", **fields, step=segment)


def _exp(source: Format, to: Format) -> UsedTable:
    fields = _of_quadratic(exp_plan(source, to).power, lambda x: exp_fraction(x, source, to)[0])
    return UsedTable(f"exp {source} {to}", **fields, step=int(2.0**source.frac * np.log(2.0) / fields["size"]))


def _tabulated(source: Format, to: Format) -> UsedTable:
    plan = table_plan(source.width, to.width, source.frac + to.frac)
    assert plan is not None

    def result(x: Integers, k: int, mask: int) -> Integers:
        columns = list(plan.coefficients)
        columns[k] = _changed(columns[k], mask) if mask else columns[k]
        return tabulated(x, replace(plan, coefficients=tuple(columns)), source, to).value

    return UsedTable(
        f"reciprocal {source.width} {to.width} {source.frac + to.frac}",
        len(plan.coefficients[0]),
        _widths(plan.coefficients),
        lambda x: tabulated_address(x, plan, source)[0],
        result,
        min(1 << window.offset_bits for window in plan.windows),
    )


def _newton(op: str, source: Format, to: Format) -> UsedTable:
    plan = reciprocal_plan(source, to)

    def result(x: Integers, k: int, mask: int) -> Integers:
        changed = replace(plan, seed=_changed(plan.seed, mask)) if mask else plan
        return reciprocal(x, source, to, changed).value

    return UsedTable(
        f"{op} {source.width} {to.width}",
        len(plan.seed),
        _widths((plan.seed,)),
        lambda x: reciprocal_seed(x, source, plan)[0],
        result,
        0,
    )
