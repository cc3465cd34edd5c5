"""Every arithmetic unit in the simulator: exhaustive at small widths, random and extreme operands at full width."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dynagate.base import philox
from dynagate.base.philox import ROUNDS
from dynagate.fixedpoint.format import FLOOR, HALF_UP, SATURATE, WRAP, Arithmetic, Format, FormattedIntegers, quantize
from dynagate.fixedpoint.operations import FIXED
from dynagate.fixedpoint.tabulated import table_plan
from dynagate.fixedpoint.wordlength.goal import MULTIPLIERS
from dynagate.graph.ops import OPS
from dynagate.hw.units.float32 import FromFloat, FromFloatAt, ToFloat, ToFloatAt
from dynagate.hw.units.floating import BINARY32, from_floating, point_into, point_out_of, to_floating
from dynagate.hw.units.latencies import ROUND_CYCLES, dsp_blocks, parts, product_latency, shift_of
from dynagate.hw.units.multiply import Multiply, MultiplyConst
from dynagate.hw.units.noise import Noise
from dynagate.hw.units.table import HARDWARE, Elementary, Own
from dynagate.hw.units.unit_of import unit_of
from dynagate.sim.runner import UnitCase, run_unit_bench
from dynagate.sim.verilate import SimulationError

from tests.operands import every, pairs, some


def test_multiply(units: Path) -> None:
    cases = {}
    for widths in ((6, 5), (27, 18), (18, 27), (24, 24), (24, 30), (35, 27), (32, 32)):
        a, b = pairs(Format(widths[0], 0), Format(widths[1], 0))
        c = np.where(np.arange(len(a)) % 3, 1 << (sum(widths) - 4), 0)
        exact = [Multiply.model(int(x), int(y), int(z)) for x, y, z in zip(a, b, c, strict=True)]
        outputs = {"p": np.array(exact, dtype=object).astype(np.int64)}
        cases[f"multiply_{widths[0]}_{widths[1]}"] = UnitCase(Multiply(*widths), {"a": a, "b": b, "c": c}, outputs)
    run_unit_bench("multiply", cases, units)


def test_multiplier_sizes() -> None:
    assert dsp_blocks(27, 18) == dsp_blocks(18, 27) == dsp_blocks(5, 5) == 1
    assert dsp_blocks(27, 19) == dsp_blocks(24, 24) == dsp_blocks(27, 27) == 2
    assert dsp_blocks(28, 24) == dsp_blocks(24, 35) == 2
    assert dsp_blocks(32, 32) == 4
    assert product_latency(27, 18) == 3
    assert product_latency(24, 24) == 4
    for wa in range(2, 40):
        for wb in range(2, 40):
            for block in MULTIPLIERS.values():
                assert len(parts(wa, wb, block)) == dsp_blocks(wa, wb, block)
            assert all(
                bits_a <= 27 and bits_b <= 27 and min(bits_a, bits_b) <= 18 for _, bits_a, _, bits_b, _ in parts(wa, wb)
            )


def test_multiply_by_constant(units: Path) -> None:
    cases = {}
    for width, constant in ((10, -77), (24, (1 << 23) - 3)):
        unit = MultiplyConst(width, constant)
        a = every(Format(width, 0)) if width == 10 else some(Format(width, 0), 3)
        c = np.full(len(a), 8)
        cases[f"multiply_{width}"] = UnitCase(unit, {"a": a, "c": c}, {"p": unit.model(a, c)})
    run_unit_bench("multiply_const", cases, units)


def case_of(op: str, sources: list[Format], to: Format, arithmetic: Arithmetic, columns: list[np.ndarray]) -> UnitCase:
    """Return the unit of an operation's row in the table of hardware, with the results of its row in the table of
    fixed point."""
    unit, operands, held = unit_of(op, sources, to, arithmetic)
    fixed = [FormattedIntegers(x, fmt) for x, fmt in zip(columns, sources, strict=True)]
    expected = FIXED[op].meaning.compute(fixed, to, arithmetic)
    inputs = dict(zip(operands, columns, strict=True))
    inputs |= {name: np.full(len(columns[0]), value.value) for name, value in held.items()}
    return UnitCase(unit, inputs, {"o": expected.value, "overflow": expected.overflow})


OWN = [op for op, row in HARDWARE.items() if isinstance(row, Own)]
SMALL = [Format(5, 2), Format(4, 3), Format(4, 1)], Format(6, 3), Arithmetic(HALF_UP, SATURATE)
LARGE = [Format(24, 20), Format(24, 17), Format(22, 19)], Format(20, 16), Arithmetic(FLOOR, WRAP)


def test_operations_with_units_of_their_own(units: Path) -> None:
    """All small operands with one another, random and extreme large ones."""
    cases = {}
    for op in OWN:
        count = OPS[op].arity + bool(OPS[op].constant)
        for size, (sources, to, arithmetic) in (("small", SMALL), ("large", LARGE)):
            columns = [some(fmt, k) for k, fmt in enumerate(sources[:count])]
            if size == "small":
                columns = [grid.ravel() for grid in np.meshgrid(*map(every, sources[:count]))]
            elif count == 2:
                columns = list(pairs(*sources[:count]))
            cases[f"{op}_{size}"] = case_of(op, sources[:count], to, arithmetic, columns)
    assert len(cases) == 2 * len(OWN) > 10
    run_unit_bench("own", cases, units)


FORMATS: dict[str, list[tuple[Format, Format]]] = {
    "sin": [(Format(10, 6), Format(9, 7)), (Format(24, 18), Format(24, 22))],
    "cos": [(Format(24, 21), Format(24, 22))],
    "exp": [(Format(9, 5), Format(10, 3)), (Format(24, 19), Format(24, 22))],
    "normalized_reciprocal": [
        (Format(10, 6), Format(9, 3)),
        (Format(24, 21), Format(24, 12)),
        (Format(32, 28), Format(32, 20)),
    ],
    "sqrt": [
        (Format(10, 6), Format(9, 7)),
        (Format(9, 3), Format(10, 2)),
        (Format(8, 7), Format(9, 1)),
        (Format(24, 21), Format(24, 20)),
        (Format(32, 20), Format(32, 26)),
    ],
}
"""Of operands and results that ask most of a unit."""
USUAL = [(Format(10, 6), Format(9, 4)), (Format(24, 20), Format(24, 18))]
SHARED = [op for op, row in HARDWARE.items() if isinstance(row, Elementary)]


def test_operations_with_shared_units(units: Path) -> None:
    cases = {}
    for op in SHARED:
        row = HARDWARE[op]
        assert isinstance(row, Elementary)
        for k, (source, to) in enumerate(FORMATS.get(op, USUAL)):
            x = every(source) if source.width <= 10 else some(source, 5)
            cases[f"{op}_{k}"] = case_of(op, [source], to, Arithmetic(), [x])
            assert cases[f"{op}_{k}"].unit.latency == row.latency(*row.key(source, to))
    run_unit_bench("shared", cases, units)


RECIPROCALS = [
    ((Format(10, 8), Format(10, 5)), 1, 3, 4),
    ((Format(11, 9), Format(10, 3)), 1, 4, 4),
    ((Format(18, 19), Format(18, 14)), 1, 1, 4),
    ((Format(24, 23), Format(24, 20)), 2, 2, 7),
    ((Format(20, 19), Format(20, 12)), 2, 4, 7),
]
"""Formats of the operand and of the result; the table's degree, its number of windows and its cycles."""


def test_reciprocals_by_tables(units: Path) -> None:
    run_unit_bench("reciprocal", {f"table_{k}": reciprocal(*row) for k, row in enumerate(RECIPROCALS)}, units)


def reciprocal(formats: tuple[Format, Format], degree: int, windows: int, cycles: int) -> UnitCase:
    """Return a table's unit, with every operand of a small format. Of a large format, return operands around the least
    one whose reciprocal fits, and random ones."""
    source, to = formats
    plan = table_plan(source.width, to.width, source.frac + to.frac)
    assert plan is not None
    assert (plan.degree, len(plan.windows)) == (degree, windows)
    edge = plan.least + np.arange(-5, 6)
    x = every(source) if source.width <= 11 else np.concatenate([some(source, 5), edge])
    expected = FIXED["reciprocal"].meaning.compute([FormattedIntegers(x, source)], to, Arithmetic())
    fits = x >= plan.least
    assert expected.overflow[~fits].all()
    right = fits & ~expected.overflow
    error = expected.value[right] - 2.0 ** (source.frac + to.frac) / x[right]
    assert np.abs(error).max() < 0.9
    assert np.count_nonzero(fits & expected.overflow) <= 1
    case = case_of("reciprocal", [source], to, Arithmetic(), [x])
    assert case.unit.latency == cycles
    return case


def test_random_numbers(units: Path) -> None:
    """As many as go around side by side, one after the other, and then the next as soon as the first are out."""
    cases = {}
    for word in (18, 32):
        number, draw, seed = (some(Format(word, 0), k, 1500) for k in range(3))
        asks = np.arange(1500) % (ROUNDS * ROUND_CYCLES) < ROUND_CYCLES
        expected = np.where(asks, philox.integers(*(x & 0xFFFFFFFF for x in (number, draw, seed))) << (word - 18), 0)
        inputs = {"asks": asks.astype(int), "number": number, "draw": draw, "seed": seed}
        cases[f"noise_{word}"] = UnitCase(Noise(word), inputs, {"o": expected})
    run_unit_bench("noise", cases, units)


FLOATS = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 1e-45, -1e-39, 1e-20, 3e38, -3e38, np.inf, -np.inf, np.nan],
    dtype=np.float32,
)


def some_floats(formats: list[Format], seed: int) -> np.ndarray:
    """Around the limits and the ties of each format, over all sizes, and the odd ones."""
    random = np.random.default_rng(seed)
    parts = [FLOATS, np.ldexp(random.uniform(-1, 1, 600), random.integers(-60, 60, 600))]
    for fmt in formats:
        edges = np.array([fmt.lowest, fmt.highest, fmt.highest + 1, 1, -1, 5, -7])
        parts.append(np.ldexp(np.concatenate([edges, edges + 0.5, edges - 0.5, edges + 0.25]), -fmt.frac))
        parts.append(np.ldexp(random.uniform(2.0 * fmt.lowest, 2.0 * fmt.highest, 400), -fmt.frac))
    return np.concatenate([part.astype(np.float32) for part in parts])


FLOAT_FORMATS = [
    [Format(10, 6)],
    [Format(24, 21)],
    [Format(24, 14), Format(20, 19), Format(27, 20)],
    [Format(32, 40), Format(32, -3)],
]


def test_conversions_from_and_to_float32(units: Path) -> None:
    cases = {f"from_{k}": from_float32(formats) for k, formats in enumerate(FLOAT_FORMATS)}
    cases |= {f"to_{k}": to_float32(formats) for k, formats in enumerate(FLOAT_FORMATS)}
    run_unit_bench("conversions", cases, units)


def from_float32(formats: list[Format]) -> UnitCase:
    unit = FromFloat(formats)
    x = np.tile(some_floats(formats, 6), len(formats)).view(np.uint32)
    beat = np.repeat(np.arange(len(formats)), len(x) // len(formats))
    expected = [unit.model(x[beat == k], k) for k in range(len(formats))]
    for k, (fmt, got) in enumerate(zip(formats, expected, strict=True)):  # the model is the host's own rounding
        real = x[beat == k].view(np.float32)
        right = np.isfinite(real)
        other = quantize(real[right], fmt)
        np.testing.assert_array_equal(got.overflow[right], other.overflow)
        np.testing.assert_array_equal(got.value[right][~other.overflow], other.value[~other.overflow])
        assert got.overflow[~right].all()
    outputs = {"o": np.concatenate([e.value for e in expected]), "bad": np.concatenate([e.overflow for e in expected])}
    return UnitCase(unit, {"x": x, "beat": beat}, outputs)


def to_float32(formats: list[Format]) -> UnitCase:
    unit = ToFloat(formats)
    x = [every(fmt) if fmt.width <= 10 else some(fmt, 7) for fmt in formats]
    sizes = [
        np.concatenate([column, column >> (column % (fmt.width - 1))]) for column, fmt in zip(x, formats, strict=True)
    ]
    beat = np.repeat(np.arange(len(formats)), [len(column) for column in sizes])
    expected = [unit.model(column, k) for k, column in enumerate(sizes)]
    return UnitCase(unit, {"x": np.concatenate(sizes), "beat": beat}, {"o": np.concatenate(expected)})


def test_float32_with_the_binary_point_as_an_input(units: Path) -> None:
    cases = {}
    for width in (18, 24, 32):
        cases |= {f"{way}_{width}": case for way, case in by_binary_point(width).items()}
    run_unit_bench("conversions_at", cases, units)


def by_binary_point(width: int) -> dict[str, UnitCase]:
    """Return both conversions of numbers whose formats come in any order."""
    formats, random = [Format(width, frac) for frac in (-3, 0, 5, width - 1, width + 9)], np.random.default_rng(width)
    floats = some_floats(formats, 8).view(np.uint32)
    own, x = random.integers(0, len(formats), 2000), random.permutation(floats)[:2000]
    made = [from_floating(x, fmt, width, BINARY32) for fmt in formats]
    outputs = {
        "o": np.choose(own, [each.value for each in made]),
        "bad": np.choose(own, [each.overflow for each in made]),
    }
    inputs = {"x": x, "point": np.array([point_into(fmt) for fmt in formats])[own]}
    into = UnitCase(FromFloatAt(width), inputs, outputs)
    x = some(formats[0], 9, 2000) >> random.integers(0, width, 2000)
    inputs = {"x": x, "point": np.array([point_out_of(fmt) for fmt in formats])[own]}
    words = np.choose(own, [to_floating(x, fmt, BINARY32) for fmt in formats])
    return {"from": into, "to": UnitCase(ToFloatAt(width), inputs, {"o": words})}


def squares(unit: Multiply, results: np.ndarray) -> dict[str, UnitCase]:
    """Return a right case, and one of a unit with these results."""
    a = every(Format(6, 0))
    inputs = {"a": a, "b": a, "c": 0 * a}
    return {"first": UnitCase(Multiply(6, 6), inputs, {"p": a * a}), "second": UnitCase(unit, inputs, {"p": results})}


def test_bench_notices_a_wrong_result(units: Path) -> None:
    a = every(Format(6, 0))
    wrong = a * a
    wrong[17] += 1
    with pytest.raises(SimulationError, match=r"second: p of sample 17 .*expected"):
        run_unit_bench("multiply", squares(Multiply(6, 6), wrong), units)


def test_bench_notices_a_wrong_latency(units: Path) -> None:
    unit = Multiply(6, 6)
    unit.latency -= 1
    a = every(Format(6, 0))
    with pytest.raises(SimulationError, match="dynagate.sim.bench_unit on multiply: 1 of 1 benches failed"):
        run_unit_bench("multiply", squares(unit, a * a), units)


def test_far_apart_binary_points_are_refused() -> None:
    with pytest.raises(ValueError, match=r"reciprocal of s24.-600 as s24.12: the binary points are \d+ bits apart"):
        shift_of(Format(24, -600), Format(24, 12))
