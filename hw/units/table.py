"""The operations in hardware: which unit computes each, and how it is fed."""

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
"""Lookup tables per bit of the result, measured at 24 bits: of a sine, an exponential, a square root, a reciprocal that
normalizes its operand and one that does not."""


@dataclass(frozen=True)
class Wiring:
    """No unit: an input's register, a constant, a moved binary point."""


@dataclass(frozen=True)
class Own:
    """A unit for each operation. wires(m, operands, to, arithmetic, name): what is before its register, which makes its
    latency one cycle."""

    wires: Callable[[Module, Sequence[tuple[Value, Format]], Format, Arithmetic, str], Wires]


@dataclass(frozen=True)
class Product:
    """A slot of a shared multiplier."""


@dataclass(frozen=True)
class Elementary:
    """A slot of a shared unit that computes a function of one operand.

    kind: the unit's name. key(operand, to): what a unit is built for, of the formats of operand and result; operations
    of one key share units. Of a key: latency in cycles, products (the operand widths of those inside), and core, a
    component with the ports x, o and overflow.
    constants(operand, to): the values of the core's other ports, by name, for one operation.
    spare: units for each that full use needs. tables: of a key, the lookup tables per bit of the result.
    """

    kind: str
    key: Callable[[Format, Format], tuple[Any, ...]]
    latency: Callable[..., int]
    products: Callable[..., Sequence[tuple[int, ...]]]
    core: Callable[..., Any]
    tables: Callable[..., int]
    constants: Callable[[Format, Format], Mapping[str, Value]] = field(default=lambda operand, to: {})
    spare: float = 2.0


@dataclass(frozen=True)
class OfCores:
    """No unit of a datapath: the elementary unit of a processor's core computes it."""


def _own(op: str) -> Own:
    return Own(lambda m, operands, to, arithmetic, name: add_wires(m, op, operands, to, arithmetic, name))


def _fused(op: str) -> Own:
    return Own(lambda m, operands, to, arithmetic, name: fused_wires(m, op, operands, to, arithmetic, name))


def _sincos(cosine: int) -> Elementary:
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
    return len(key) == 3


def _table_or(tabulated: Callable[..., Any], normalizing: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that dispatches a key of `_reciprocal_key` to the unit with a table or to the one that
    normalizes.
    """
    return lambda *key: (tabulated if _has_table(key) else normalizing)(*key)


def _shift(operand: Format, to: Format) -> dict[str, Value]:
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

ELEMENTARY = {row.kind: row for row in HARDWARE.values() if isinstance(row, Elementary)}
"""One row of each kind of unit: they agree in all but `constants`."""


def products_of(kind: str, key: Sequence[Any]) -> Sequence[tuple[int, ...]]:
    """Operand widths of the products inside a unit; of a multiplier its own."""
    return [tuple(key)] if kind == "multiply" else ELEMENTARY[kind].products(*key)


def dsp_blocks(kind: str, key: Sequence[Any]) -> int:
    """DSP48E2 blocks of one unit's products."""
    return sum(latencies.dsp_blocks(widths[0], widths[1]) for widths in products_of(kind, key))
