"""Gateware equal to the integers for all operands: units one by one, and a datapath over symbols for all samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import _nir
from dynagate import Policy, Region, robots, trace
from dynagate.fixedpoint.assign import assign
from dynagate.fixedpoint.format import Arithmetic, Format, FormattedIntegers, rescale
from dynagate.fixedpoint.operations import FIXED
from dynagate.fixedpoint.tabulated import table_plan
from dynagate.graph.ops import OPS
from dynagate.hw.plan.plan import Plan, plan
from dynagate.hw.rtl.datapath import Datapath
from dynagate.hw.units.multiply import Multiply, MultiplyConst
from dynagate.hw.units.table import HARDWARE, Elementary, Own
from dynagate.hw.units.unit_of import unit_of
from dynagate.sim.verilate import SimulationError

from tests.equivalence.algebras import Terms, Values
from tests.equivalence.equivalence import prove_datapath
from tests.equivalence.formal import ProofError
from tests.equivalence.netlists import Simulation, netlist_of

ARM = robots.load("two_joint_arm")
ARITHMETICS = [Arithmetic(rounding, overflow) for rounding in ("half_up", "floor") for overflow in ("wrap", "saturate")]
WIDTHS = range(2, 11)


def every(*widths: int) -> list[np.ndarray]:
    """All integers of some widths, with one another."""
    axes = [np.arange(-(1 << (width - 1)), 1 << (width - 1)) for width in widths]
    return [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]


def ran(unit: Any, columns: dict[str, tuple[np.ndarray | int, int]], netlist: Any = None) -> Simulation:
    """A unit whose ports have had these integers, of so many bits, for as long as its latency."""
    values = Values()
    simulation = Simulation(netlist or netlist_of(unit), values)
    for name, (column, width) in columns.items():
        if isinstance(column, int):
            simulation.set(name, tuple((column >> k) & 1 for k in range(width)))
        else:
            simulation.set(name, values.spread(column, width))
    for _ in range(unit.latency):
        simulation.step()
    return simulation


def results(simulation: Simulation, name: str, size: int, *, signed: bool = True) -> np.ndarray:
    return np.broadcast_to(Values().gathered(simulation.read(name), signed=signed), size)


def assert_equal(simulation: Simulation, expected: Any, size: int) -> None:
    assert np.array_equal(results(simulation, "o", size), np.broadcast_to(expected.value, size))
    flags = np.broadcast_to(expected.overflow, size).astype(np.int64)
    assert np.array_equal(results(simulation, "overflow", size, signed=False), flags)


@pytest.mark.parametrize("width", WIDTHS)
def test_products_of_all_operands(width: int) -> None:
    for other in WIDTHS:
        a, b = every(width, other)
        unit = Multiply(width, other)
        netlist = netlist_of(unit)
        for constant in (0, 1 << (width + other - 3)):
            run = ran(unit, {"a": (a, width), "b": (b, other), "c": (constant, width + other)}, netlist)
            assert np.array_equal(
                results(run, "p", len(a)),
                Values().gathered(Values().spread(a * b + constant, width + other), signed=True),
            )


@pytest.mark.parametrize("width", WIDTHS)
def test_products_with_constants(width: int) -> None:
    (a,) = every(width)
    for constant in (-77, -1, 1, 51, 1023):
        unit = MultiplyConst(width, constant)
        run = ran(unit, {"a": (a, width), "c": (1, width + unit.width_b)})
        assert np.array_equal(results(run, "p", len(a)), unit.model(a, 1))


def formats(random: np.random.Generator, *widths: int) -> list[Format]:
    return [Format(width, int(frac)) for width, frac in zip(widths, random.integers(-2, 9, len(widths)), strict=True)]


def assert_unit_equal(op: str, sources: list[Format], to: Format, arithmetic: Arithmetic) -> None:
    """The unit of an operation's row in the table of hardware, against its row in the table of fixed point."""
    unit, operands, held = unit_of(op, sources, to, arithmetic)
    columns = every(*(fmt.width for fmt in sources))
    ports = {name: (x, fmt.width) for name, x, fmt in zip(operands, columns, sources, strict=True)}
    run = ran(unit, ports | {name: (value.value, len(value)) for name, value in held.items()})
    fixed = [FormattedIntegers(x, fmt) for x, fmt in zip(columns, sources, strict=True)]
    assert_equal(run, FIXED[op].meaning.compute(fixed, to, arithmetic), len(columns[0]))


OWN = [op for op, row in HARDWARE.items() if isinstance(row, Own)]
OTHERS = {1: [()], 2: [(other,) for other in range(2, 8)], 3: [(2, 3), (4, 2)]}
"""Widths of the operands besides the first, by how many there are."""


@pytest.mark.parametrize("arithmetic", ARITHMETICS, ids=str)
@pytest.mark.parametrize("op", OWN)
def test_operations_of_all_operands(op: str, arithmetic: Arithmetic) -> None:
    """Two operands of every width up to 10 and 7 bits, shorter ones of three; result formats cut, round, wrap and
    saturate."""
    random = np.random.default_rng(len(op))
    count = OPS[op].arity + bool(OPS[op].constant)
    for width in WIDTHS if count < 3 else range(2, 6):
        for others in OTHERS[count]:
            for _ in range(6 if count == 1 else 1):
                sources = formats(random, width, *others)
                assert_unit_equal(op, sources, formats(random, int(random.integers(2, 11)))[0], arithmetic)


@pytest.mark.long
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("arithmetic", ARITHMETICS, ids=str)
def test_sums_of_all_operands_of_10_bits(width: int, arithmetic: Arithmetic) -> None:
    random = np.random.default_rng(width)
    for op in ("add", "sub"):
        for other in (8, 9, 10):
            sources = formats(random, width, other)
            for to in (formats(random, 11)[0], formats(random, int(random.integers(2, 11)))[0]):
                assert_unit_equal(op, sources, to, arithmetic)


def assert_selection_equal(width: int, others: tuple[int, int], arithmetic: Arithmetic, seed: int) -> None:
    """All triples of operands, one first operand after the other: what a unit then makes of x and y is an array of as
    many axes as it depends on, which stands for all pairs."""
    random = np.random.default_rng(seed)
    sources, to = formats(random, width, *others), formats(random, int(random.integers(2, 11)))[0]
    unit, values = unit_of("select", sources, to, arithmetic).component, Values()
    netlist = netlist_of(unit)
    x, y = (np.arange(-(1 << (w - 1)), 1 << (w - 1)) for w in others)
    x, y = x[:, None], y[None, :]
    for c in every(width)[0].tolist():
        simulation = Simulation(netlist, values)
        simulation.set("i0", tuple((c >> k) & 1 for k in range(width)))
        simulation.set("i1", values.spread(x, others[0]))
        simulation.set("i2", values.spread(y, others[1]))
        for _ in range(unit.latency):
            simulation.step()
        chosen = x if c > 0 else y
        expected = rescale(chosen, sources[1 if c > 0 else 2].frac, to, arithmetic)
        assert np.array_equal(values.gathered(simulation.read("o"), signed=True), expected.value)
        flag = np.broadcast_to(values.gathered(simulation.read("overflow"), signed=False), expected.value.shape)
        assert np.array_equal(flag, expected.overflow.astype(np.int64))


@pytest.mark.parametrize("arithmetic", ARITHMETICS, ids=str)
def test_selections_of_all_operands(arithmetic: Arithmetic) -> None:
    for width in (2, 4):
        assert_selection_equal(width, (7, 10), arithmetic, width)


@pytest.mark.long
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("arithmetic", ARITHMETICS, ids=str)
def test_selections_of_all_operands_of_10_bits(width: int, arithmetic: Arithmetic) -> None:
    for seed, others in enumerate([(10, 10), (width, 10), (10, width)]):
        assert_selection_equal(width, others, arithmetic, seed)


SHARED = [op for op, row in HARDWARE.items() if isinstance(row, Elementary)]


def functions(width: int) -> list[tuple[Format, Format]]:
    """Formats of operands and results."""
    return [
        (Format(width, width - 4), Format(9, 7)),
        (Format(width, width - 2), Format(width, width - 4)),
        (Format(width, 2), Format(width, 3)),
        (Format(width, 0), Format(8, 3)),
        (Format(width, 6), Format(5, 2)),
    ]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("op", SHARED)
def test_functions_of_all_operands(op: str, width: int) -> None:
    """Two pairs of formats at each width: every pair has three or four widths."""
    pairs = functions(width)
    for k in (2 * width, 2 * width + 1):
        source, to = pairs[k % len(pairs)]
        assert_unit_equal(op, [source], to, Arithmetic())


@pytest.mark.long
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("op", SHARED)
def test_functions_of_all_operands_in_all_formats(op: str, width: int) -> None:
    for source, to in functions(width):
        assert_unit_equal(op, [source], to, Arithmetic())


def test_inverses_by_tables_of_all_operands() -> None:
    found = 0
    for width, to_width, frac in [(w, t, f) for w in WIDTHS for t in WIDTHS for f in range(8, 16)]:
        if table_plan(width, to_width, frac) is None:
            continue
        found += 1
        if found % 4:
            continue
        assert_unit_equal("reciprocal", [Format(width, frac - 2)], Format(to_width, 2), Arithmetic())
    assert found > 20


@cache
def planned(function: str, word: int, ii: int) -> Plan:
    return plan(assign(trace(ARM, function), Region.of(ARM), Policy(word=word)), ii)


@pytest.mark.parametrize(
    ("function", "word", "ii"),
    [
        ("inverse_dynamics", 16, 1),
        ("forward_dynamics", 16, 2),
        pytest.param("forward_dynamics", 24, 8, marks=pytest.mark.long),
    ],
)
def test_a_datapath_routes_every_sample_right(function: str, word: int, ii: int) -> None:
    chosen = planned(function, word, ii)
    assert prove_datapath(chosen) >= chosen.latency


@pytest.mark.long
@pytest.mark.parametrize("ii", range(1, 65))
def test_a_datapath_at_every_interval(ii: int) -> None:
    prove_datapath(planned("forward_dynamics", 16, ii))


def cone(netlist: Any, port: str) -> list[int]:
    """The cells that an output depends on, of whatever cycle."""
    cells = netlist.cells
    found, waiting = set(), {net.cell for net in cells[0].ports_o[port] if net not in (0, 1)}
    while waiting:
        i = waiting.pop()
        if i and i not in found:
            found.add(i)
            reads = {net.cell for net in cells[i].input_nets() if net not in (0, 1)}
            if isinstance(cells[i], _nir.SyncReadPort | _nir.AsyncReadPort):
                reads |= {
                    net.cell
                    for c in cells
                    if isinstance(c, _nir.SyncWritePort) and c.memory == cells[i].memory
                    for net in c.input_nets()
                    if net not in (0, 1)
                }
            waiting |= reads - found
    return sorted(found)


def other_slot(netlist: Any, cell: Any, random: np.random.Generator) -> bool:
    """A register takes its value in another slot."""
    conditions = sorted({a.cond for c in netlist.cells if isinstance(c, _nir.AssignmentList) for a in c.assignments})
    if not isinstance(cell, _nir.AssignmentList) or len(cell.assignments) != 1 or len(cell.default) < 3:
        return False
    (assignment,) = cell.assignments
    others = [net for net in conditions if net != assignment.cond]
    assignment.cond = others[random.integers(len(others))]
    return True


def other_register(netlist: Any, cell: Any, random: np.random.Generator) -> bool:
    """A register is filled from another one, as by a delay too many or too few."""
    if not isinstance(cell, _nir.FlipFlop) or len(cell.data) < 8:
        return False
    others = [
        (i, c) for i, c in enumerate(netlist.cells) if isinstance(c, _nir.FlipFlop) and len(c.data) == len(cell.data)
    ]
    others = [(i, c) for i, c in others if c is not cell and c.data != cell.data]
    if not others:
        return False
    i, _ = others[random.integers(len(others))]
    cell.data = _nir.Value(_nir.Net.from_cell(i, k) for k in range(len(cell.data)))
    return True


def swapped(netlist: Any, cell: Any, random: np.random.Generator) -> bool:
    """Operands of a difference, or the ways of a multiplexer of words, are exchanged."""
    if not isinstance(cell, _nir.Operator) or cell.operator not in ("-", "m") or len(cell.inputs) < 2:
        return False
    *first, a, b = cell.inputs
    if a == b or len(a) < 8:
        return False
    cell.inputs = (*first, b, a)
    return True


def other_constant(netlist: Any, cell: Any, random: np.random.Generator) -> bool:
    """A bit of a constant operand of a sum is inverted, in the middle of the word."""
    if not isinstance(cell, _nir.Operator) or cell.operator not in ("+", "*"):
        return False
    for k, value in enumerate(cell.inputs):
        if len(value) > 8 and all(net in (0, 1) for net in value):
            nets = list(value)
            nets[4] = _nir.Net.from_const(1 - int(nets[4]))
            inputs = list(cell.inputs)
            inputs[k] = _nir.Value(nets)
            cell.inputs = tuple(inputs)
            return True
    return False


def other_operation(netlist: Any, cell: Any, random: np.random.Generator) -> bool:
    """A sum is a difference."""
    if not isinstance(cell, _nir.Operator) or cell.operator not in ("+", "-") or len(cell.inputs) != 2:
        return False
    if len(cell.inputs[0]) < 8:
        return False
    cell.operator = {"+": "-", "-": "+"}[cell.operator]
    return True


FAULTS: list[Callable[[Any, Any, np.random.Generator], bool]] = [
    other_slot,
    other_register,
    swapped,
    other_constant,
    other_operation,
]


def faulty(seed: int) -> tuple[Plan, Any]:
    random = np.random.default_rng(seed)
    chosen = planned("forward_dynamics", 16, (2, 3, 8)[seed % 3])
    netlist = netlist_of(Datapath(chosen))
    cells = [netlist.cells[i] for i in cone(netlist, "o__payload")]
    fault = FAULTS[seed % len(FAULTS)]
    order = random.permutation(len(cells))
    assert any(fault(netlist, cells[k], random) for k in order)
    return chosen, netlist


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(k, marks=pytest.mark.long) for k in range(3, 20))])
def test_seeded_faults_are_found(seed: int) -> None:
    chosen, netlist = faulty(seed)
    terms = Terms()
    with pytest.raises((ProofError, SimulationError)):
        prove_datapath(chosen, Simulation(netlist, terms), terms)
