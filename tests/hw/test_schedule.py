"""The scheduler's rules on tiny named problems, and its answers on random ones."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal
from dynagate import Region, robots, trace
from dynagate.fixedpoint.assign import assign
from dynagate.hw import build as module
from dynagate.hw.build import build
from dynagate.hw.plan.bind import Binding, Source, bind
from dynagate.hw.plan.lifetimes import least_lifetimes
from dynagate.hw.plan.modulo import Placement, modulo_schedule
from dynagate.hw.plan.plan import Stages, plan
from dynagate.hw.plan.schedule import LONGEST_INTERVAL, MOST_STAGES, Operation, Problem, Schedule, ScheduleError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.designs import verilog


def op(name: str, *operands: int, latency: int = 1, on: str | None = None) -> Operation:
    return Operation(name, operands, latency, on, holds=on is None)


CHAIN = Problem((op("a"), op("b", 0, latency=3, on="mul"), op("c", 1)), 1, {"mul": 1}, (2,))
TWO_PRODUCTS = Problem(
    (op("a"), op("p", 0, latency=3, on="mul"), op("q", 0, latency=3, on="mul"), op("s", 1, 2)), 2, {"mul": 1}, (3,)
)


def test_chain_takes_its_latencies() -> None:
    schedule = modulo_schedule(CHAIN)
    assert schedule.start == (0, 1, 4)
    assert schedule.length == 5 == CHAIN.critical_path()


def test_one_multiplier_takes_turns() -> None:
    schedule = modulo_schedule(TWO_PRODUCTS)
    assert sorted(schedule.start[1:3]) == [1, 2]
    assert schedule.length == 6


def test_units_that_nothing_uses_are_left_out() -> None:
    schedule = modulo_schedule(replace(TWO_PRODUCTS, limits={"mul": 5}))
    assert schedule.problem.limits == schedule.units() == {"mul": 2}
    assert schedule.length == 5


def test_operations_of_the_critical_path_do_not_queue_at_one_unit() -> None:
    sines = [op(f"sine{k}", 0, latency=3, on="sin") for k in range(8)]
    late = [op(f"late{k}", 0, latency=1, on="sin") for k in range(9)]  # these have slack
    legs = Problem((op("a"), *sines, *late), 64, {"sin": 1, "mul": 1}, tuple(range(1, 9)))
    assert legs.units_at_once() == {"sin": 2, "mul": 0}
    assert modulo_schedule(replace(legs, limits={"sin": 2})).length == legs.critical_path() + 6


def test_a_placed_operation_moves_for_one_with_less_slack() -> None:
    operations = (
        op("a"),
        op("p", 0, latency=3, on="mul"),
        op("q", 0, latency=3, on="mul"),
        op("s", 0, 1),
        op("r", 2, 3, latency=3, on="mul"),
    )
    problem = Problem(operations, 3, {"mul": 1}, (4,))
    assert problem.critical_path() == 8
    assert modulo_schedule(problem).length == 9  # 11 if q stays in its first free slot, which is r's only one


def test_placed_operations_move_in_a_chain() -> None:
    """Each product has two cycles to choose from. The last finds both taken, by products that can move only if a third
    one does."""
    operations: list[Operation] = []
    for k, first in enumerate((1, 2, 3, 5)):
        before = Operation(f"x{k}", (), first)
        after = Operation(f"y{k}", (3 * k + 1,), 20 - first - 1 - 3)
        operations += [before, op(f"p{k}", 3 * k, latency=3, on="mul"), after]
    problem = Problem(tuple(operations), 4, {"mul": 1}, (2, 5, 8, 11)).check()
    placed = Placement(problem, 20, [0] * 12).starts()
    assert placed == {1: 1, 4: 3, 7: 4, 10: 6}


@st.composite
def small_problems(draw: st.DrawFn) -> Problem:
    operations: list[Operation] = []
    for i in range(draw(st.integers(2, 6))):
        operands = draw(st.lists(st.integers(0, i - 1), max_size=2)) if i > 1 else [0] * i
        on = draw(st.sampled_from([None, "mul"]))
        width = draw(st.integers(1, 30))
        operations.append(Operation(f"o{i}", tuple(operands), 2 if on else 1, on, holds=on is None, width=width))
    outputs = draw(st.lists(st.integers(0, len(operations) - 1), min_size=1, max_size=2, unique=True))
    return Problem(tuple(operations), draw(st.integers(1, 3)), {"mul": 6}, tuple(outputs))


def bit_cycles(schedule: Schedule) -> int:
    """Width × lifetime of all results; a lifetime is an interval at least where the unit holds its result."""
    problem, total = schedule.problem, 0
    for i, o in enumerate(problem.operations):
        read = bool(problem.users[i]) or i in problem.outputs
        lifetime = schedule.last_use(i) + o.holds - schedule.ready(i) if read else 0
        total += o.width * max(lifetime, problem.ii if o.holds else 0)
    return total


@settings(max_examples=60, deadline=None, derandomize=True)
@given(small_problems(), st.integers(0, 2))
def test_lifetimes_are_the_least_of_all_starts(problem: Problem, more: int) -> None:
    operations, length = problem.operations, problem.critical_path() + more
    cycles = [range(length - o.latency + 1) if o.operands else range(1) for o in operations]
    every = (Schedule(problem, start, length) for start in itertools.product(*cycles))
    legal = (s for s in every if all(s.start[i] >= s.ready(a) for i, o in enumerate(operations) for a in o.operands))
    found = Schedule(problem, tuple(least_lifetimes(problem, length, {})), length)
    assert bit_cycles(found.verify()) == min(map(bit_cycles, legal))


def test_fixed_starts_that_leave_no_slack_are_refused() -> None:
    with pytest.raises(ValueError, match="no starts within 6 cycles: .*infeasible"):
        least_lifetimes(TWO_PRODUCTS, 6, {1: 3})


@pytest.mark.parametrize(("width", "start"), [(8, 1), (40, 3)])
def test_a_sum_is_early_where_it_is_narrower_than_its_operands(width: int, start: int) -> None:
    inputs = [Operation(name, (), 1, width=16) for name in "abc"]
    others = (op("d", 2), op("e", 4), op("f", 5), op("end", 3, 6))
    problem = Problem((*inputs, Operation("sum", (0, 1), 1, width=width), *others), 1, {}, (7,))
    assert modulo_schedule(problem).start[3] == start


def test_registers_are_lifetimes_in_intervals() -> None:
    problem = Problem((op("a"), op("b", 0), op("c", 0, 1)), 4, {}, (2,))
    schedule = Schedule(problem, (0, 8, 12), 13).verify()
    assert schedule.registers(0) == 11 // 4 + 1  # ready at 1, last read at 12
    assert schedule.registers(1) == 3 // 4 + 1
    live = Problem((op("p", latency=3, on="mul"), op("c", 0)), 4, {"mul": 1}, (1,))
    assert Schedule(live, (0, 3), 4).registers(0) == 0  # read as it leaves the multiplier
    assert Schedule(live, (0, 8), 9).registers(0) == math.ceil(5 / 4)


@pytest.mark.parametrize(
    ("problem", "fault"),
    [
        (Problem((op("a"),), 0, {}, (0,)), "initiation interval 0; expected 1 or more"),
        (Problem((op("a", 0),), 1, {}, (0,)), "operation 'a' reads (0,); operands must come before it"),
        (Problem((op("a", latency=-1),), 1, {}, (0,)), "operation 'a' has latency -1"),
        (Problem((op("p", latency=0, on="mul"),), 1, {"mul": 1}, (0,)), "operation 'p' has latency 0"),
        (Problem(TWO_PRODUCTS.operations, 1, {"mul": 1}, (3,)), "2 operations on 1 × 'mul' do not fit in 1 slots"),
        (Problem((op("p", on="mul"),), 1, {}, (0,)), "1 operations on 0 × 'mul' do not fit in 1 slots"),
        (Problem((op("a"),), 1, {}, (7,)), "output 7 is no operation"),
    ],
)
def test_check_names_the_fault(problem: Problem, fault: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        modulo_schedule(problem)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("start", "length", "fault"),
    [
        ((0, 1, 2), 6, "3 start cycles for 4 operations"),
        ((0, 0, 2, 5), 6, "operation 'p' starts at 0, before its operand 'a' is ready at 1"),
        ((-1, 1, 2, 5), 6, "operation 'a' starts at -1"),
        ((0, 1, 3, 6), 7, "operation 'q' is number 2 on 'mul' in slot 1; there are 1"),
        ((0, 1, 2, 5), 5, "output 's' is ready at 6, after the last cycle 5"),
    ],
)
def test_verify_names_the_fault(start: tuple[int, ...], length: int, fault: str) -> None:
    Schedule(TWO_PRODUCTS, (0, 1, 2, 5), 6).verify()
    with pytest.raises(ScheduleError) as caught:
        Schedule(TWO_PRODUCTS, start, length).verify()
    assert fault in str(caught.value)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    ii = draw(st.integers(1, 9))
    operations: list[Operation] = []
    for i in range(draw(st.integers(1, 40))):
        operands = tuple(draw(st.lists(st.integers(0, i - 1), max_size=2))) if i else ()
        kind = draw(st.sampled_from([None, None, "mul", "rare"]))
        operations.append(op(f"o{i}", *operands, latency={None: 1, "mul": 3, "rare": 11}[kind], on=kind))
    wanted = {kind: sum(o.resource == kind for o in operations) for kind in ("mul", "rare")}
    limits = {kind: math.ceil(count / ii) for kind, count in wanted.items() if count}
    outputs = tuple(draw(st.lists(st.integers(0, len(operations) - 1), min_size=1, max_size=5, unique=True)))
    return Problem(tuple(operations), ii, limits, outputs)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(problems())
def test_random_problems_are_scheduled_and_bound(problem: Problem) -> None:
    schedule = modulo_schedule(problem)  # verifies itself
    assert schedule.length >= problem.critical_path()
    binding = bind(schedule, lambda i: tuple(map(Source, problem.operations[i].operands)))
    used = binding.operations_of(schedule)
    bound = [i for slots in used.values() for i in slots.values()]
    assert sorted(bound) == [i for i, o in enumerate(problem.operations) if o.resource is not None]
    assert all(instance < problem.limits[kind] for kind, instance in used)


def test_binding_prefers_the_unit_that_sees_the_operand() -> None:
    operations = (op("x"), op("y"), *(op(f"p{k}", k % 2, latency=3, on="mul") for k in range(4)))
    problem = Problem(operations, 2, {"mul": 2}, (2, 3, 4, 5))
    schedule = Schedule(problem, (0, 0, 1, 1, 2, 2), 5).verify()
    shared = bind(schedule, lambda i: tuple(map(Source, operations[i].operands)))
    assert shared.unit[2] == shared.unit[4]
    assert shared.unit[3] == shared.unit[5]
    assert shared.mux_inputs == 2


def test_two_operations_in_one_slot_are_refused() -> None:
    schedule = modulo_schedule(TWO_PRODUCTS)
    clash = Schedule(TWO_PRODUCTS, (0, 1, 1, 4), 5)
    with pytest.raises(ScheduleError, match=r"operations 1 and 2 are both bound to \('mul', 0\) in slot 1"):
        Binding({1: ("mul", 0), 2: ("mul", 0)}, 0).operations_of(clash)
    Binding({1: ("mul", 0), 2: ("mul", 0)}, 0).operations_of(schedule)


@pytest.mark.parametrize("ii", [0, -1, LONGEST_INTERVAL + 1, 10**9])
def test_intervals_that_no_datapath_has_are_refused(ii: int, tmp_path: Path) -> None:
    robot = robots.load("two_joint_arm")
    message = f"initiation interval {re.escape(str(ii))}; expected a whole number from 1 to 65535 cycles"
    with pytest.raises(ScheduleError, match=message):
        build(robot, "mass_matrix", ii=ii, folder=tmp_path / "designs")
    with pytest.raises(ScheduleError, match=message):
        plan(assign(trace(robot, "mass_matrix"), Region.of(robot)), ii)
    assert not (tmp_path / "designs").exists()


def test_an_interval_that_is_no_whole_number_is_refused(tmp_path: Path) -> None:
    robot = robots.load("two_joint_arm")
    with pytest.raises(ScheduleError, match=r"initiation interval 8.5; expected a whole number from 1 to 65535 cycles"):
        build(robot, "mass_matrix", ii=8.5, folder=tmp_path / "designs")  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match=r"initiation interval 8.5; expected a whole number from 1 to 65535 cycles"):
        plan(assign(trace(robot, "mass_matrix"), Region.of(robot)), 8.5)  # type: ignore[arg-type]
    assert not (tmp_path / "designs").exists()


def test_the_longest_interval_becomes_verilog(tmp_path: Path) -> None:
    built = build(robots.load("two_joint_arm"), "mass_matrix", ii=LONGEST_INTERVAL, folder=tmp_path)
    assert f"[{LONGEST_INTERVAL - 1}:0] in_slot" in verilog(built.module("datapath"))


@pytest.mark.parametrize("count", [-1, MOST_STAGES + 1, 1.5, 10**9])
def test_stages_that_no_target_wants_are_refused(count: int) -> None:
    for stages in ({"multiply": count}, {"add": count}):
        with pytest.raises(ValueError, match="expected whole numbers of stages from 0 to 64"):
            Stages(**stages)


def test_payloads_that_amaranth_does_not_take_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Amaranth takes the widest; a robot with such results would take minutes to trace."""
    monkeypatch.setattr(module, "WIDEST_STREAM", 70)
    with pytest.raises(
        ValueError, match=r"mass_matrix has \d+ bits of output; expected at most 70: shorter words, or a"
    ):
        module.build(robots.load("two_joint_arm"), "mass_matrix", ii=2, folder=tmp_path)
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    wire = Module()
    wide = Signal(module.WIDEST_STREAM)
    through = Signal(module.WIDEST_STREAM)
    wire.d.sync += through.eq(wide)
    assert "wire width 65000" in rtlil.convert(wire, ports=[wide, through])
