"""The hardware of each operation: the unit that computes it, and how the unit is connected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Const, Module, Value, signed
from dynagate.fixedpoint.elementary import root_shift
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.fixedpoint.tabulated import table_plan
from dynagate.graph.ops import table
from dynagate.hw.units import exp, latencies, root, sincos, tabulated
from dynagate.hw.units.add import add_wires
from dynagate.hw.units.fused import fused_wires
from dynagate.hw.units.reciprocal import Reciprocal
from dynagate.hw.units.rescale import Wires
from dynagate.hw.units.select import select_wires
from dynagate.hw.units.tabulated import TabulatedReciprocal

SINE_TABLES, EXP_TABLES, ROOT_TABLES, RECIPROCAL_TABLES, TABLE_TABLES = 7, 15, 14, 12, 2
"""Lookup tables per bit of the result, measured at 24 bits.

In order: a sine, an exponential, a square root, a reciprocal that normalizes its operand, and one that does not.
"""


@dataclass(frozen=True)
class Wiring:
    """An operation without a unit: the register of an input, a constant, or a moved binary point."""


@dataclass(frozen=True)
class Own:
    """An operation with a unit of its own, whose output register makes its latency one cycle."""

    wires: Callable[[Module, Sequence[tuple[Value, Format]], Format, Arithmetic, str], Wires]
    """Function (m, operands, to, arithmetic, name) that returns the wires before the output register."""


@dataclass(frozen=True)
class Product:
    """An operation that uses a slot of a shared multiplier."""


@dataclass(frozen=True)
class Elementary:
    """An operation that uses a slot of a shared unit for a function of one operand."""

    kind: str
    """Name of the unit."""
    key: Callable[[Format, Format], tuple[Any, ...]]
    """Function of the formats of operand and result that returns what a unit is built for. Operations of one key share
    units.
    """
    latency: Callable[..., int]
    """Function of a key: latency in cycles."""
    products: Callable[..., Sequence[tuple[int, ...]]]
    """Function of a key: operand widths of the products inside the unit."""
    core: Callable[..., Any]
    """Function of a key: component with the ports x, o and overflow."""
    tables: Callable[..., int]
    """Function of a key: lookup tables per bit of the result."""
    constants: Callable[[Format, Format], Mapping[str, Value]] = field(default=lambda operand, to: {})
    """Function of the formats: values of the component's other ports for one operation, by name."""
    spare: float = 2.0
    """Units per unit that full use would need."""


@dataclass(frozen=True)
class OfCores:
    """An operation that no datapath computes: only the elementary unit of a processor has it."""


def _own(op: str) -> Own:
    """Return the row of a sum."""
    return Own(lambda m, operands, to, arithmetic, name: add_wires(m, op, operands, to, arithmetic, name))


def _fused(op: str) -> Own:
    """Return the row of a multiply-add."""
    return Own(lambda m, operands, to, arithmetic, name: fused_wires(m, op, operands, to, arithmetic, name))


def _sincos(cosine: int) -> Elementary:
    """Return the row of a sine or a cosine."""
    return Elementary(
        "sincos",
        key=lambda operand, to: (operand, to),
        latency=latencies.sine_latency,
        products=latencies.sine_products,
        core=sincos.SinCos,
        tables=lambda *key: SINE_TABLES,
        constants=lambda operand, to: {"cosine": Const(cosine, 1)},
    )


def _reciprocal_key(operand: Format, to: Format) -> tuple[int, ...]:
    """Return the key of a reciprocal unit: only the widths if it normalizes, also the binary points if it has a
    table.
    """
    key = operand.width, to.width, operand.frac + to.frac
    return key[:2] if table_plan(*key) is None else key


def _has_table(key: tuple[int, ...]) -> bool:
    """Return whether the unit of a key has a table."""
    return len(key) == 3


def _table_or(tabulated: Callable[..., Any], normalizing: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that passes a key to the function for units with a table, or to the one for those that
    normalize.
    """
    return lambda *key: (tabulated if _has_table(key) else normalizing)(*key)


def _shift(operand: Format, to: Format) -> dict[str, Value]:
    """Return the constant ports of a reciprocal unit."""
    if _has_table(_reciprocal_key(operand, to)):
        return {}
    return {"shift": _shift_port(operand, to)}


def _shift_port(operand: Format, to: Format) -> Const:
    return Const(latencies.shift_of(operand, to), signed(latencies.SHIFT_BITS))


HARDWARE = table(
    "hw.units",
    {
        "input": Wiring(),
        "const": Wiring(),
        "shift": Wiring(),
        "add": _own("add"),
        "sub": _own("sub"),
        "add_const": _own("add_const"),
        "neg": _own("neg"),
        "mul": Product(),
        "mul_const": Product(),
        "sin": _sincos(0),
        "cos": _sincos(1),
        "select": Own(select_wires),
        "exp": Elementary(
            "exp",
            key=lambda operand, to: (operand, to),
            latency=latencies.exp_latency,
            products=latencies.exp_products,
            core=exp.Exp,
            tables=lambda *key: EXP_TABLES,
        ),
        "noise": OfCores(),
        "sqrt": Elementary(
            "root",
            key=lambda operand, to: (operand.width, to.width, root_shift(operand, to)),
            latency=latencies.root_latency,
            products=lambda *key: (),
            core=root.Root,
            tables=lambda *key: ROOT_TABLES,
        ),
        "reciprocal": Elementary(
            "reciprocal",
            key=_reciprocal_key,
            latency=_table_or(tabulated.latency, latencies.reciprocal_latency),
            products=_table_or(tabulated.products, latencies.reciprocal_products),
            core=_table_or(TabulatedReciprocal, Reciprocal),
            tables=_table_or(lambda *key: TABLE_TABLES, lambda *key: RECIPROCAL_TABLES),
            constants=_shift,
        ),
        "multiply_add": _fused("multiply_add"),
        "multiply_sub": _fused("multiply_sub"),
        "sub_multiply": _fused("sub_multiply"),
        "normalized_reciprocal": Elementary(
            "normalized_reciprocal",
            key=lambda operand, to: (operand.width, to.width),
            latency=latencies.reciprocal_latency,
            products=latencies.reciprocal_products,
            core=Reciprocal,
            tables=lambda *key: RECIPROCAL_TABLES,
            constants=lambda operand, to: {"shift": _shift_port(operand, to)},
        ),
    },
)
"""Hardware of each operation, by name."""

ELEMENTARY = {row.kind: row for row in HARDWARE.values() if isinstance(row, Elementary)}
"""One row for each kind of shared unit. Rows of one kind differ only in `constants`."""


def products_of(kind: str, key: Sequence[Any]) -> Sequence[tuple[int, ...]]:
    """Return the operand widths of the products in a unit.

    Args:
        kind: Kind of the unit, "multiply" for a multiplier.
        key: What it is built for.
    """
    return [tuple(key)] if kind == "multiply" else ELEMENTARY[kind].products(*key)


def unit_dsp_blocks(kind: str, key: Sequence[Any]) -> int:
    """Return the DSP48E2 blocks of one unit.

    Args:
        kind: Kind of the unit, "multiply" for a multiplier.
        key: What it is built for.
    """
    return sum(latencies.dsp_blocks(widths[0], widths[1]) for widths in products_of(kind, key))
