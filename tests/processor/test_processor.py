"""Programs for processors: fused graphs, schedules, words, the core in simulation, and what is refused."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Function, Policy, Region, Robot, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.design import files
from dynagate.design.files import DesignError
from dynagate.design.program import PROGRAM, ProgramBody, load_words
from dynagate.design.words import FIXED, PER_BATCH
from dynagate.fixedpoint.assign import assign
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.fuse import fused
from dynagate.fixedpoint.models.evaluate import evaluate_in_numpy, quantize_inputs
from dynagate.fixedpoint.models.files import write_formats
from dynagate.fixedpoint.proof.error_bounds import CheckedBounds
from dynagate.fixedpoint.wordlength.optimize import optimize
from dynagate.forces import Friction
from dynagate.graph import Graph, Node, Port
from dynagate.graph.evaluate import evaluate
from dynagate.graph.ops import FUSED
from dynagate.host.devices.program_session import ProgramDevice, ProgramSession
from dynagate.host.links import DeviceError
from dynagate.host.openers import executor_of
from dynagate.host.report import Checks, report_design
from dynagate.host.report.bodies import ProgramSection
from dynagate.host.report.functions import FunctionMeasurement
from dynagate.host.report.rules import passed
from dynagate.host.report.sections import Pace
from dynagate.host.sim_links import SimShellLink
from dynagate.hw.designs import Design
from dynagate.hw.processor.checker.replay import _sum, replay
from dynagate.hw.processor.compiler.check import checked_schedule
from dynagate.hw.processor.compiler.instructions import ProgramError, instructions
from dynagate.hw.processor.compiler.schedule import schedule
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule, ScheduledInstruction
from dynagate.hw.processor.compiler.words import messages
from dynagate.hw.processor.isa.packets import KIND_SHIFT, REGION_SHIFT, PacketKind, checksum, packed_messages
from dynagate.hw.processor.isa.shape import BLOCK_BITS, Core
from dynagate.hw.processor.rtl.unit import MultiplyAdd
from dynagate.hw.processor.shell.core_shell import shell_text
from dynagate.hw.request import DesignRequest
from dynagate.hw.rtl.axi import Axi
from dynagate.sim.runner import UnitCase, run_unit_bench

from tests.all_operations import ALL_OPERATIONS
from tests.all_operations import function as all_operations  # noqa: F401
from tests.core_programs import ARM, PAUSES, SMALL, build, check, check_under_pauses, states_of
from tests.designs import functions_of
from tests.failing_links import check_closed_on_failure
from tests.holes import punch
from tests.replays import by_result
from tests.robots import floating_robot


def formatted_of(robot: Robot, function: str, policy: Policy | None = None, **options: Any) -> FormattedGraph:
    policy = policy or Policy(samples=512)
    return assign(trace(robot, function, **options), Region.of(robot, velocity=5.0), policy)


@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics", "forward_dynamics_vjp"])
@pytest.mark.parametrize("name", ["two_joint_arm", "hyq"])
def test_a_fused_graph_is_the_same_function_of_one_word(name: str, function: str) -> None:
    robot = robots.load(name)
    formatted = formatted_of(robot, function)
    made = fused(formatted)
    ops = [node.op for node in made.graph.nodes]
    assert not set(ops) & {"mul_const", "add_const", "reciprocal"}
    assert sum(op in FUSED for op in ops) > len(ops) / 10
    assert {fmt.width for fmt in made.formats} == {24}
    inputs = states_of(formatted.graph, robot, 200)
    expected, got = evaluate(formatted.graph, inputs), evaluate(made.graph, inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=1e-9 * np.abs(value).max())


@pytest.mark.parametrize(("coarse", "fine", "result"), [(-12, 19, 21), (20, 20, 23), (-12, -12, 13), (-40, 8, 0)])
def test_a_sum_of_far_operands_is_one_instruction(coarse: int, fine: int, result: int) -> None:
    """Its result may be finer than its operands by more than a shift reaches, for what is left of two large numbers."""
    nodes = (Node("input", (), None, "a"), Node("input", (), None, "b"), Node("sub", (0, 1), None, "rest"))
    ports = Port("a", (), (0,)), Port("b", (), (1,))
    graph = Graph("rest", "none", nodes, ports, (Port("rest", (), (2,)),)).check()
    formats = Format(24, coarse), Format(24, fine), Format(24, result)
    bounds = {i: formats[i].limits for i in (0, 1)}
    made = fused(FormattedGraph(graph, formats, {}, bounds, Arithmetic()).check())
    small = np.arange(-40, 40) * formats[1].step
    inputs = {"a": np.where(np.arange(80) % 2, 0.0, formats[0].step), "b": small}
    inputs["b"] += np.where(abs(formats[0].step) < formats[1].limits[1], inputs["a"], 0.0)
    assert equal_to_integers(schedule(instructions(made), SMALL), inputs)
    values = evaluate_in_numpy(made, quantize_inputs(made, inputs))
    rest = values.value[made.graph.output_nodes[0]] * made.formats[made.graph.output_nodes[0]].step
    near = abs(rest - (inputs["a"] - inputs["b"])) <= max(formats[2].step, formats[0].step / 2.0**31)
    assert (near | values.overflow).all()
    assert near.any()


def test_fusing_needs_the_processors_arithmetic() -> None:
    formatted = formatted_of(ARM, "inverse_dynamics", Policy(samples=64, arithmetic=Arithmetic("floor", "wrap")))
    with pytest.raises(ArgumentError, match=r"rounding='floor'.* on a processor; expected Arithmetic"):
        fused(formatted)


def equal_to_integers(scheduled: ProgramSchedule, inputs: dict[str, np.ndarray]) -> bool:
    """Whether the words of a program, replayed in Python, give the integers and flags of the executor."""
    formatted = scheduled.instructions.formatted
    integers = quantize_inputs(formatted, inputs)
    expected, got = evaluate_in_numpy(formatted, integers), replay(scheduled, integers)
    value = by_result(scheduled, got)
    outputs = scheduled.instructions.outputs
    return all(np.array_equal(value[outputs[i]], expected.value[i]) for i in formatted.graph.result_nodes) and bool(
        np.array_equal(got.overflow, expected.overflow)
    )


@pytest.mark.parametrize("units", [2, 4, 8])
@pytest.mark.parametrize("word", [18, 24, 32])
def test_a_replayed_program_equals_the_integers(units: int, word: int) -> None:
    made = fused(formatted_of(ARM, "forward_dynamics", Policy(word=word, samples=512)))
    scheduled = schedule(instructions(made), Core(units=units, word=word))
    assert equal_to_integers(scheduled, states_of(made.graph, ARM, 60))


def test_a_program_has_every_operation() -> None:
    core = replace(SMALL, exp_bits=4, exp_whole=3)
    made = core.fused(formatted_of(ARM, ALL_OPERATIONS))
    assert {"select", "exp", "sqrt", "normalized_reciprocal", "sin", "cos"} <= {node.op for node in made.graph.nodes}
    assert equal_to_integers(schedule(instructions(made), core), states_of(made.graph, ARM, 200))


def test_a_program_of_a_floating_base_and_quaternions(tmp_path: Path) -> None:
    robot = floating_robot(2, tmp_path)
    made = fused(formatted_of(robot, "inverse_dynamics"))
    assert equal_to_integers(schedule(instructions(made), Core(units=3)), states_of(made.graph, robot, 100))


def test_overflow_is_that_of_the_integers() -> None:
    made = fused(formatted_of(ARM, "forward_dynamics", Policy(samples=64, guard_bits=-0.5)))
    scheduled, inputs = schedule(instructions(made), SMALL), states_of(made.graph, ARM, 300)
    integers = quantize_inputs(made, inputs)
    assert 0 < evaluate_in_numpy(made, integers).overflow.sum() < 300
    assert equal_to_integers(scheduled, inputs)


def arm_schedule() -> ProgramSchedule:
    return schedule(instructions(fused(formatted_of(ARM, "forward_dynamics"))), SMALL)


def _too_early(slots: list[ScheduledInstruction], core: Core) -> list[ScheduledInstruction]:
    last = max(slots, key=lambda slot: slot.cycle)
    return [replace(slot, cycle=slot.cycle - 1) if slot is last else slot for slot in slots]


def _one_place(slots: list[ScheduledInstruction], core: Core) -> list[ScheduledInstruction]:
    return [replace(slot, place=0) if slot.place is not None and slot.bank == 0 else slot for slot in slots]


def _where_it_is_read(slots: list[ScheduledInstruction], core: Core) -> list[ScheduledInstruction]:
    """A result to another's place in the cycle in which that is read for the last time."""
    last = {node: slot.cycle for slot in slots for node in slot.instruction.reads}
    a, b = next(
        (a, b)
        for a in slots
        for b in slots
        if a.bank == b.bank
        and None not in (a.place, b.place)
        and b.cycle + core.latency_of(b.instruction.kind) - 1 == last.get(a.instruction.result)
    )
    return [replace(slot, place=a.place) if slot is b else slot for slot in slots]


def _one_unit(slots: list[ScheduledInstruction], core: Core) -> list[ScheduledInstruction]:
    return [replace(slot, unit=0, bank=0) if slot.bank != core.shared else slot for slot in slots]


def _over_a_constant(slots: list[ScheduledInstruction], core: Core) -> list[ScheduledInstruction]:
    return [replace(slot, place=0) if slot.bank == core.shared else slot for slot in slots]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (_too_early, "holds"),
        (_one_place, "overwritten|holds|at once"),
        (_where_it_is_read, "is read and written at once"),
        (_one_unit, "two instructions|holds|twice"),
        (_over_a_constant, "overwritten|holds|at once"),
    ],
)
def test_a_wrong_schedule_is_caught(
    wrong: Callable[[list[ScheduledInstruction], Core], list[ScheduledInstruction]], text: str
) -> None:
    right = arm_schedule()
    with pytest.raises(AssertionError, match=text):
        checked_schedule(replace(right, slots=tuple(wrong(list(right.slots), SMALL))))


def test_equal_requests_give_equal_words_and_cores() -> None:
    assert np.array_equal(messages(arm_schedule()), messages(arm_schedule()))
    tiny, axi = Core(units=2, place_bits=5, program_bits=5), Axi(64, words=FIXED)
    assert shell_text(tiny, axi) == shell_text(tiny, axi)


LONG_WORDS = ((18, 0), (27, 0), (32, 0), (24, 1))


@pytest.mark.parametrize(
    ("word", "saturates"), [(24, 0), *(pytest.param(*each, marks=pytest.mark.long) for each in LONG_WORDS)]
)
def test_the_unit_equals_the_integers(word: int, saturates: int, units: Path) -> None:
    core, random, count = Core(word=word, saturates=saturates), np.random.default_rng(word), 2000
    low, high = -(1 << (word - 1)), 1 << (word - 1)
    inputs = {name: random.integers(low, high, count) >> random.integers(0, word, count) for name in "abc"}
    inputs["a"][:4] = inputs["b"][:4] = inputs["c"][:4] = [low, high - 1, low, 0]
    for name in ("product_negative", "addend_negative", "select"):
        inputs[name] = random.integers(0, 2, count)
    inputs |= {name: random.integers(0, 32, count) for name in ("up", "down")}
    # sums that are nearly rounded to the lowest or the highest number of a word
    borders = itertools.product((low, high - 1), (-1, 1), (-1, 0, 1), range(1, word))
    for k, (end, sign, step, shift) in enumerate(borders, 4):
        row = {"a": 1, "b": sign * (1 << (shift - 1)) + step, "c": end, "up": shift, "down": shift}
        for name, value in {**row, "product_negative": 0, "addend_negative": 0, "select": 0}.items():
            inputs[name][k] = value
    inputs["positive"] = (inputs["a"] > 0).astype(np.int64)
    expected = []
    for k in range(count):
        operands = (np.array([int(inputs[name][k])], dtype=object) for name in "abc")
        expected.append(_sum(core, {name: int(column[k]) for name, column in inputs.items()}, *operands))
    flags = [False, *(bool(each.overflow[0]) for each in expected[:-1])]  # a cycle after the result
    assert 0.1 < np.mean(flags) < 0.9
    outputs = {"o": np.array([int(each.value[0]) for each in expected]), "overflow": np.array(flags)}
    run_unit_bench("multiply_add", {"unit": UnitCase(MultiplyAdd(core), inputs, outputs)}, units)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Design]:
    folder = tmp_path_factory.mktemp("programs")
    return {
        "arm": build(ARM, "forward_dynamics", folder),
        "overflowing": build(ARM, "inverse_dynamics", folder, policy=Policy(samples=64, guard_bits=-0.5)),
        "iiwa14": build(robots.load("iiwa14"), "inverse_dynamics", folder),
        "friction": build(ARM, "forward_dynamics", folder, forces=[Friction(0.5)]),
    }


@pytest.fixture
def accelerator(programs: dict[str, Design]) -> Iterator[dynagate.Function]:
    with dynagate.open(programs["arm"]) as opened:
        yield opened


def test_the_core_equals_the_integers_program_after_program(
    accelerator: dynagate.Function, programs: dict[str, Design]
) -> None:
    assert check(accelerator, programs["arm"]) == 0
    for name in ("iiwa14", "overflowing", "friction", "arm"):
        accelerator.load(programs[name].folder if name == "friction" else programs[name])
        overflows = check(accelerator, programs[name], seed=len(name))
        assert (overflows > 0) == (name == "overflowing")
    assert accelerator.transfer.per_sample <= programs["arm"].hardware.schedule.cycles_per_sample


@pytest.mark.parametrize("pauses", PAUSES)
def test_the_core_waits_for_its_streams(programs: dict[str, Design], pauses: tuple[float, float]) -> None:
    check_under_pauses(programs["overflowing"], programs["arm"], pauses)


def test_samples_lie_side_by_side(accelerator: dynagate.Function, programs: dict[str, Design], tmp_path: Path) -> None:
    """Three in a packet, which share its flag: the last packet is not full."""
    policy, region = Policy(samples=256, guard_bits=-1.0), Region.of(ARM, velocity=5.0)
    asked: dict[str, Any] = {"units": SMALL, "region": region, "policy": policy, "folder": tmp_path}
    alone, beside = (dynagate.build(ARM, "inverse_dynamics", **asked, samples_per_run=count) for count in (1, 3))
    assert beside.hardware.schedule.cycles < 1.2 * alone.hardware.schedule.cycles
    assert beside.hardware.schedule.use > 2.5 * alone.hardware.schedule.use
    accelerator.load(beside)
    flagged = check(accelerator, beside, 40)
    assert flagged % 3 in (0, 1)
    assert 3 * accelerator.transfer.per_sample <= beside.hardware.schedule.cycles_per_sample
    states = states_of(alone.graph, ARM, 40)
    with dynagate.open(alone, device="fixed") as integers, dynagate.open(beside.folder, device="fixed") as again:
        own, whole = integers(**states), again(**states)
    assert own.overflow.sum() < flagged == whole.overflow.sum() < 40
    np.testing.assert_array_equal(own.tau[~whole.overflow], whole.tau[~whole.overflow])
    states["q"][20, 1] = 9.0
    with pytest.raises(ArgumentError, match=r"^input 'q' is 9 at \(20, 1\); the formats were chosen for "):
        accelerator(**states)
    accelerator.load(programs["arm"])
    check(accelerator, programs["arm"], 12)


def test_samples_one_by_one_keep_their_own_flags(programs: dict[str, Design]) -> None:
    """The core has two samples' worth of everything; which of the two a sample takes must not depend on pauses."""
    built = programs["overflowing"]
    with dynagate.open(built) as accelerator:
        flags = [check(accelerator, built, 1, seed) for seed in range(30)]
        assert 0 < sum(flags) < 30
        accelerator.load(programs["arm"])
        check(accelerator, programs["arm"], 3)
        accelerator.load(built)
        assert 0 < check(accelerator, built, 31) < 31


def test_batches_follow_each_other_and_a_reset_keeps_the_program(
    accelerator: dynagate.Function, programs: dict[str, Design]
) -> None:
    inputs = states_of(programs["arm"].graph, ARM, 30)
    first = accelerator(**inputs)
    pending = [accelerator.submit(**inputs) for _ in range(3)]
    for each in pending:
        np.testing.assert_array_equal(each.result().qdd, first.qdd)
    device = accelerator.device
    assert isinstance(device, ProgramDevice)
    device.driver.link.write(device.driver.link.buffer((2, *device.driver.sample)))
    device.session.recover()
    np.testing.assert_array_equal(accelerator(**inputs).qdd, first.qdd)


def test_a_soft_reset_within_packets_keeps_the_program(
    accelerator: dynagate.Function, programs: dict[str, Design]
) -> None:
    """As DMA links reset: by a register, while the streams stand still."""
    driver = accelerator.device.driver  # type: ignore[attr-defined]
    link, size = driver.link, driver.sample[0]
    for count in (size, 3):
        link.write(link.buffer((2, count, 1)))
        for _ in range(40):  # nobody takes results, which wait for the reset
            driver.session.read_counters()
        driver.session.reset()
        link.stream = link.new_stream()
        link._under_way.clear()
        if count == size:  # the beat that is offered stays
            with suppress(DeviceError):
                link.read(link.buffer((1, 1, 1)))
        link.stream = link.new_stream()
        check(accelerator, programs["arm"], 5)


def test_a_link_that_breaks_while_it_loads_leaves_no_program_and_loads_again(
    accelerator: dynagate.Function, programs: dict[str, Design], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(results: np.ndarray) -> int:
        raise DeviceError("the cable is out")

    link = accelerator.device.driver.link  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(link, "read", cut)
        with pytest.raises(DeviceError, match="the cable is out"):
            accelerator.load(programs["iiwa14"])
    with pytest.raises(DeviceError, match="has no program, because loading the last one failed; load it again"):
        check(accelerator, programs["arm"], 5)
    accelerator.load(programs["iiwa14"])
    check(accelerator, programs["iiwa14"], 5)
    accelerator.close()
    with pytest.raises(DeviceError, match="closed"):
        accelerator.load(programs["arm"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shell": False}, "shell=False of a program; expected True: cores are only simulated in their AXI shell"),
        ({"device": "fixed", "cores": 2}, "device 'fixed' of a program takes no option 'cores'; it takes none"),
        ({"device": "numpy", "pack": True}, "device 'numpy' of a program takes no option 'pack'; it takes none"),
        ({"pauses": (2.0, 0.0)}, r"pauses=\(2.0, 0.0\); expected two numbers from 0 to 1"),
        ({"device": "board"}, "device 'board' without a link; expected link='xdma:/dev/xdma0' or another"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_options_of_an_opened_program_are_checked_first(
    options: dict[str, Any], text: str, programs: dict[str, Design], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("work was done")

    monkeypatch.setattr("dynagate.sim.processor.core_library", work)
    with pytest.raises(ArgumentError, match=text):
        dynagate.open(programs["arm"], **options)


def test_a_link_that_fails_while_a_program_opens_is_closed(
    programs: dict[str, Design], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever operation fails: identity, hash, the program, or its answer."""
    assert check_closed_on_failure(monkeypatch, SimShellLink, lambda: dynagate.open(programs["arm"])) > 10


def test_a_program_of_several_functions_is_called_by_name(
    accelerator: dynagate.Function, programs: dict[str, Design], tmp_path: Path
) -> None:
    """An opened core has the functions of the program that it holds."""
    several = build(ARM, "inverse_dynamics,mass_matrix", tmp_path)
    assert several.hardware.core.hash == programs["arm"].hardware.core.hash
    accelerator.load(several)
    q = np.array([[0.3, -0.4]])
    with dynagate.open(several, device="fixed") as integers:
        np.testing.assert_array_equal(accelerator.mass_matrix(q=q).m, integers.mass_matrix(q=q).m)
    with pytest.raises(ArgumentError, match=r"expected a call of one: accelerator\.inverse_dynamics"):
        accelerator(q=q)
    mass = accelerator.mass_matrix
    accelerator.load(programs["arm"])
    assert accelerator.functions == {}
    check(accelerator, programs["arm"], 3)
    with pytest.raises(DeviceError, match="closed"):
        mass(q=q)


def test_a_rollout_is_not_loaded_into_an_accelerator(
    accelerator: dynagate.Function, programs: dict[str, Design], tmp_path: Path
) -> None:
    turns = build(ARM, "rollout", tmp_path, dt=0.01)
    with pytest.raises(ArgumentError, match=r"rollout keeps the states of its trajectories.*: dynagate\.open\("):
        accelerator.load(turns)
    check(accelerator, programs["arm"], 3)


def test_a_bound_call_ends_with_its_program(accelerator: dynagate.Function, programs: dict[str, Design]) -> None:
    run = accelerator.bind(**accelerator.new_inputs(2))
    run()
    accelerator.load(programs["iiwa14"])
    with pytest.raises(DeviceError, match=r"has loaded another program since bind\(\); bind the call again"):
        run()


def test_overflow_is_alike_in_the_core_and_in_its_integers(programs: dict[str, Design]) -> None:
    built = programs["overflowing"]
    inputs = states_of(built.graph, ARM, 40)
    with dynagate.open(built) as core, dynagate.open(built, device="fixed") as integers:
        for each in (core, integers):
            results = each(**inputs)
            assert 0 < results.overflow.sum() < 40
            assert np.isnan(results.tau[results.overflow]).all()
            assert np.isfinite(results.tau[~results.overflow]).all()
        run = integers.bind(**{name: np.array(x) for name, x in inputs.items()})
        np.testing.assert_array_equal(run().tau, results.tau)
        np.testing.assert_array_equal(core.submit(**inputs).result().tau, results.tau)


def test_the_core_refuses_a_damaged_program(accelerator: dynagate.Function, programs: dict[str, Design]) -> None:
    session = accelerator.device.session  # type: ignore[attr-defined]
    assert isinstance(session, ProgramSession)
    design = files.load_program(programs["arm"].folder)
    words = load_words(programs["arm"].folder, design)
    assert checksum(words[1:-1]) == words[-1, 1]
    damaged = words.copy()
    damaged[len(words) // 2, 1] ^= 1 << 7
    with pytest.raises(DesignError, match=r"refuses the program of two_joint_arm forward_dynamics: its checksum"):
        session.replace_program(design, damaged)
    with pytest.raises(DeviceError, match="has no program, because loading the last one failed; load it again"):
        check(accelerator, programs["arm"])
    session.replace_program(design, words)
    with pytest.raises(DeviceError, match="has loaded another program than two_joint_arm forward_dynamics; open it"):
        check(accelerator, programs["arm"])  # its driver is of the program before
    accelerator.load(programs["arm"])
    check(accelerator, programs["arm"])


def test_the_core_refuses_a_foreign_program_and_one_that_is_cut(
    accelerator: dynagate.Function, programs: dict[str, Design]
) -> None:
    driver = accelerator.device.driver  # type: ignore[attr-defined]
    design = files.load_program(programs["arm"].folder)
    words = load_words(programs["arm"].folder, design)
    assert driver.registers.read("checksum") == words[-1, 1]
    foreign = words.copy()
    foreign[0, 1] ^= 1
    with pytest.raises(DesignError, match=r"refuses the program of two_joint_arm forward_dynamics"):
        driver.session.replace_program(design, foreign)
    assert driver.registers.read("checksum") == 0
    driver.session.replace_program(design, words)
    cut = packed_messages(words, 8)[:1, :-3]  # begins a program, and TLAST ends it
    driver.link.write(np.ascontiguousarray(cut[:, :, np.newaxis]))
    driver.link.write(driver.link.buffer((1, 2, 1)))  # a sample of two words
    with pytest.raises(DeviceError, match=r"0 results for 1 samples: .*; 0 samples entered .* 1 were misaligned"):
        driver.session.read(driver.link.buffer((1, 2, 1)))
    assert driver.registers.read("checksum") == 0
    driver.link.reset()
    accelerator.load(programs["arm"])
    check(accelerator, programs["arm"])


@pytest.mark.parametrize("at", [0, -1], ids=["its first beat", "its last"])
def test_a_packet_with_a_hole_is_dropped_until_the_next_tlast(
    at: int, accelerator: dynagate.Function, programs: dict[str, Design], monkeypatch: pytest.MonkeyPatch
) -> None:
    build = programs["arm"]
    accelerator.load(build)
    punch(monkeypatch, at)
    with pytest.raises(DeviceError, match=r"0 results for 1 samples: .*; 0 samples entered .* 1 were .*; .* holes"):
        accelerator(**states_of(build.graph, build.robot, 1))
    monkeypatch.undo()
    check(accelerator, build, 5)


MESSAGES, TAG = PacketKind.MESSAGES << KIND_SHIFT, 7


@pytest.mark.parametrize(
    "packet",
    [
        [MESSAGES | 2, 0, 0, TAG, PacketKind.BEGIN << KIND_SHIFT | 1, 5, PacketKind.PART << KIND_SHIFT],
        [0, *[0] * 6, TAG, 0, 0],
        [MESSAGES | 8, 0, 0, TAG],
        [MESSAGES | 3, 0, 0, 0, TAG],
        [MESSAGES, TAG],
        [MESSAGES | 1 << REGION_SHIFT | 2, 0, 0, TAG],
        [(PacketKind.MESSAGES + 1) << KIND_SHIFT | 2, 0, 0, TAG],
        [1 << BLOCK_BITS, *[0] * 6, TAG],
    ],
    ids=["goes on", "sample goes on", "ends early", "odd", "empty", "too long", "unknown", "unknown block"],
)
def test_a_packet_that_is_not_what_its_head_says_is_counted_and_dropped(
    packet: list[int], accelerator: dynagate.Function, programs: dict[str, Design]
) -> None:
    """Its rest is not taken for a head: nothing is answered or lost, and the next samples are right without a reset."""
    driver = accelerator.device.driver  # type: ignore[attr-defined]
    assert driver.design.input.words == 7
    link, loaded = driver.link, driver.registers.read("checksum")
    words = link.buffer((1, len(packet), 1))
    words[0, :, 0] = packet
    driver.session.clear()
    link.write(words)
    with pytest.raises(DeviceError, match=r"0 results for 1 samples: .*; 0 samples entered .* 1 were misaligned"):
        driver.session.read(link.buffer((1, 2, 1)))
    assert driver.registers.read("status") == 1 << 2
    assert driver.registers.read("checksum") == loaded
    check(accelerator, programs["arm"], 5)


def test_exponentials_take_a_core_that_has_them(tmp_path: Path) -> None:
    text = r"has exponentials of ±\d+ to \d+, the core has none; expected a core with exp_bits=\d+, exp_whole=\d+ \[DG-"
    with pytest.raises(ProgramError, match=text):
        build(ARM, ALL_OPERATIONS, tmp_path)


@pytest.mark.long
def test_a_core_has_every_operation(tmp_path: Path) -> None:
    built = dynagate.build(ARM, ALL_OPERATIONS, units=2, region=Region.of(ARM, velocity=5.0), folder=tmp_path)
    assert built.hardware.core.exp_bits > 0
    with dynagate.open(built) as accelerator:
        check(accelerator, built, 300)


@pytest.mark.long
def test_cores_take_samples_in_turn(programs: dict[str, Design]) -> None:
    """On streams of several words a beat, whose TLAST ends a batch; a program goes to all cores."""
    axi = Axi(128, PER_BATCH, FIXED)
    for pauses in ((0.0, 0.0), (0.3, 0.7)):
        executor = executor_of(programs["overflowing"], "sim", axi=axi, cores=2, pauses=pauses)
        with closing(Function(executor)) as accelerator:
            driver = accelerator.device.driver  # type: ignore[attr-defined]
            assert (driver.registers.read("stream"), driver.registers.read("cores")) == (1 << 16 | 128, 2)
            assert check(accelerator, programs["overflowing"], 23) > 0
            for _ in range(2):
                accelerator.load(programs["arm"])
                assert check(accelerator, programs["arm"], 23) == 0
            if not pauses[0]:
                assert accelerator.transfer.per_sample < 0.6 * programs["arm"].hardware.schedule.cycles_per_sample


@pytest.mark.parametrize(
    ("axi", "cores", "text"),
    [
        (Axi(32), 1, r"^words 'float32' of a processor; expected 'fixed': its core has floats=0 \[DG-"),
        (Axi(32, words=FIXED), 0, r"^0 cores; expected 1 to 32 \[DG-"),
        (Axi(32, words=FIXED), 33, r"^33 cores; expected 1 to 32 \[DG-"),
    ],
    ids=str,
)
def test_a_shell_of_cores_checks_what_is_asked(axi: Axi, cores: int, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        shell_text(SMALL, axi, cores)


def test_a_program_for_another_core_is_refused_and_the_one_before_stays(
    accelerator: dynagate.Function, programs: dict[str, Design], tmp_path: Path
) -> None:
    other = dynagate.build(ARM, "forward_dynamics", units=3, folder=tmp_path, policy=Policy(samples=64))
    with pytest.raises(DesignError, match=r"for another core \(units=3, .*\); this one has units=2, "):
        accelerator.load(other)
    with pytest.raises(ArgumentError, match=r"is no program; expected what build\(robot, units=\.\.\.\) returned"):
        accelerator.load(tmp_path)
    check(accelerator, programs["arm"])
    with (
        dynagate.open(programs["arm"], device="numpy") as numpy,
        pytest.raises(ArgumentError, match=r"^numpy, float64 has no program; expected a processor"),
    ):
        numpy.load(other)


def test_the_host_refuses_a_core_that_shows_another_hash(
    programs: dict[str, Design], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProgramBody, "device_hash", lambda self, design: 0x1234)
    with pytest.raises(DesignError, match=r"is core [0-9a-f]{16}; .* for core 0000000000001234 \(units=2, "):
        dynagate.open(programs["arm"])


def test_a_folder_is_read_again_and_damage_is_told(programs: dict[str, Design], tmp_path: Path) -> None:
    built = build(ARM, "forward_dynamics", tmp_path)
    assert built.design == programs["arm"].design == files.load_program(built.folder)
    inputs = states_of(built.graph, ARM, 20)
    with dynagate.open(built.folder, device="fixed") as again, dynagate.open(built, device="fixed") as before:
        np.testing.assert_array_equal(again(**inputs).qdd, before(**inputs).qdd)
    with dynagate.open(str(built.folder), device="numpy") as floats:
        np.testing.assert_allclose(floats(**inputs).qdd, evaluate(built.graph, inputs)["qdd"])
    with pytest.raises(
        ArgumentError, match=r"device 'cpu' does not run this design; expected one of sim, board, fixed"
    ):
        dynagate.open(built.folder, device="cpu")
    content = (built.folder / PROGRAM).read_bytes()
    (built.folder / PROGRAM).write_bytes(content[:-1] + b"?")
    with pytest.raises(DesignError, match=r"program\.bin was changed or damaged: its sha256 is"):
        dynagate.open(built.folder)
    text = (built.folder / files.FILE).read_text()
    (built.folder / files.FILE).write_text(text.replace('"period": ', '"period": 1'))
    with pytest.raises(DesignError, match=r"design\.json was changed or damaged: its content has hash"):
        dynagate.open(built.folder)
    assert build(ARM, "forward_dynamics", tmp_path).design == built.design  # mended
    assert load_words(built.folder, built.design).tobytes() == content


def test_a_program_too_large_says_by_how_much_and_which_core_holds_it(tmp_path: Path) -> None:
    small = Core(units=2, place_bits=5, program_bits=6)
    with pytest.raises(
        ProgramError,
        match=r"^iiwa14 inverse_dynamics takes \d+ words, \d+ more than the core's 64 and \d+ places, \d+ more than "
        r"the core's 32; expected a core with program_bits=9, place_bits=7 \[DG-",
    ):
        dynagate.build(robots.load("iiwa14"), "inverse_dynamics", units=small, folder=tmp_path)
    with pytest.raises(ProgramError, match=r"takes 21 inputs, 13 more than the core's 8; expected a core with input_b"):
        dynagate.build(robots.load("iiwa14"), "inverse_dynamics", units=replace(SMALL, input_bits=3), folder=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"units": 1}, r"^units 1 of a core; expected 2 to 8 \[DG-"),
        ({"units": 9}, r"^units 9 of a core; expected 2 to 8 \[DG-"),
        ({"units": 4, "policy": Policy(word=16)}, r"^word 16 of a processor; expected 18 to 32 bits \[DG-"),
        (
            {"units": SMALL, "policy": Policy(word=20)},
            r"^word 20 for a core of 24 bits; expected Policy\(word=24\) \[DG-",
        ),
        ({"units": 4, "budget": dynagate.Budget(dsp=3)}, r"^budget of a program; expected it left out: a processor"),
        (
            {"units": 4, "goal": dynagate.Goal(1e-3), **functions_of("inverse_dynamics,mass_matrix")},
            r"^a goal of several functions in a program; expected one function, or a word \[DG-",
        ),
        (
            {"units": 4, "policy": Policy(ranges="proved"), **functions_of("inverse_dynamics,mass_matrix")},
            r"^proved ranges of inverse_dynamics,mass_matrix in a program; expected ranges='sampled', or one function",
        ),
        ({"units": 4, "samples_per_run": 5}, r"^samples_per_run 5; expected 1 to 4 samples in one run \[DG-"),
        (
            {"units": 4, "samples_per_run": 2, "function": "rollout"},
            r"^samples_per_run 2 of rollout; expected 1: only one function of ",
        ),
        (
            {"samples_per_run": 2},
            r"^samples_per_run 2 of a datapath; expected 1, or a program: units=4 \(--units 4\) \[DG-",
        ),
    ],
    ids=str,
)
def test_what_a_program_cannot_be_is_refused(options: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=text):
        dynagate.build(ARM, **{"function": "forward_dynamics", **options}, folder=tmp_path)


def test_ranges_of_a_program_are_proved(tmp_path: Path) -> None:
    request = DesignRequest(ARM, "inverse_dynamics", policy=Policy(ranges="proved"), samples_per_run=2)
    report = report_design(request, SMALL, folder=tmp_path, checks=Checks(60))
    assert report.passed, report.text()
    assert not any(report.section(FunctionMeasurement).overflows.values())
    built = report.section(ProgramSection).built
    content = built.design.formats.proved
    assert content is not None
    (block,) = CheckedBounds.of_dict(content).blocks.values()
    assert 0.0 < block.measured_error <= block.proved_error < 1e-3
    assert "| tau | error at most " in (built.folder / "datasheet.md").read_text()


def test_an_accuracy_gives_the_shortest_word_that_meets_it(tmp_path: Path) -> None:
    region = Region.of(ARM, velocity=5.0)
    asked: dict[str, Any] = {"goal": dynagate.Goal(2e-4, fresh=8192), "region": region, "folder": tmp_path}
    built = dynagate.build(ARM, "inverse_dynamics", units=3, **asked)
    assert built.hardware.core.word == 22
    with pytest.raises(ProgramError, match=r"^two_joint_arm inverse_dynamics in words of 20 bits: tau errs by .*"):
        dynagate.build(ARM, "inverse_dynamics", units=Core(units=3, word=20), **asked)
    assert built.design.formats.goal is not None
    assert built.design.formats.statement is not None
    errors = re.findall(r"\| largest error in states [a-z ]+ \| (\S+) \|", (built.folder / "datasheet.md").read_text())
    assert len(errors) == 3
    assert float(errors[0]) <= 2e-4
    with dynagate.open(built.folder, device="fixed") as again, dynagate.open(built, device="numpy") as exact:
        states = region.sample("inverse_dynamics", 50, 3)
        np.testing.assert_allclose(again(**states).tau, exact(**states).tau, atol=2e-3)


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of several word lengths, 24 bits the longest."""
    path = tmp_path_factory.mktemp("formats") / "formats.json"
    goal = dynagate.Goal(1e-2, fresh=8192)
    graph = trace(ARM, "forward_dynamics")
    write_formats(optimize(graph, Region.of(ARM, velocity=5.0), goal).formatted, path)
    return path


def test_formats_come_from_a_file(formats: Path, tmp_path: Path) -> None:
    """Their binary points are the program's, in words of the core."""
    built = build(ARM, "forward_dynamics", tmp_path, formats=formats, policy=None)
    (held,) = json.loads(formats.read_text())["functions"]["forward_dynamics"]["graphs"]
    widths = [width for width, _ in held["formats"].values()]
    assert min(widths) < 18
    assert max(widths) == 24
    formatted = built.hardware.schedule.instructions.functions[0]
    assert isinstance(formatted, FormattedGraph)
    own = {node.name: fmt for node, fmt in zip(built.graph.nodes, formatted.formats, strict=True)}
    assert {fmt.width for fmt in own.values()} == {24}
    points = [own[name].frac == frac for name, (_, frac) in held["formats"].items() if name in own and name[0] != "q"]
    assert np.mean(points) > 0.9
    line = f"| formats | from a file, {min(widths)} to 24 bits in words of 24 |"
    assert line in (built.folder / "datasheet.md").read_text()
    with dynagate.open(built) as accelerator, dynagate.open(built.folder, device="fixed") as again:
        check(accelerator, built, 20)
        states = states_of(built.graph, ARM, 20)
        np.testing.assert_array_equal(again(**states).qdd, accelerator(**states).qdd)
    assert build(ARM, "forward_dynamics", tmp_path).design.hash != built.design.hash
    request = DesignRequest(ARM, "forward_dynamics", formats=formats, region=built.region)
    report = report_design(request, SMALL, folder=tmp_path, checks=Checks(40))
    assert report.section(FunctionMeasurement).blocks[0].exact


@pytest.mark.parametrize(
    ("units", "width", "text"),
    [
        (
            SMALL,
            27,
            r"node '\S+' has 27 bits, 3 more than the core's words of 24; .*, or a core with word=27 \[DG-",
        ),
        (2, 40, r"node '\S+' has 40 bits, 8 more than the core's words of 32; expected shorter formats \[DG-"),
    ],
    ids=str,
)
def test_formats_longer_than_a_word_are_refused(
    units: Any, width: int, text: str, formats: Path, tmp_path: Path
) -> None:
    content = json.loads(formats.read_text())
    (graph,) = content["functions"]["forward_dynamics"]["graphs"]
    name = next(name for name in graph["formats"] if ".mul" in name)
    graph["formats"][name][0] = width
    (tmp_path / "formats.json").write_text(json.dumps(content))
    with pytest.raises(ProgramError, match=text):
        dynagate.build(ARM, "forward_dynamics", units=units, formats=tmp_path / "formats.json", folder=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_angles_beyond_the_cores_are_refused(tmp_path: Path) -> None:
    region = Region.of(ARM, velocity=5.0)
    wide = replace(region, lower=(-20.0, -3.0), upper=(20.0, 3.0))
    with pytest.raises(ProgramError, match=r"has angles to ±32 rad, the core's sines take ±8; expected .*angle_bits=5"):
        dynagate.build(ARM, "forward_dynamics", units=SMALL, region=wide, folder=tmp_path)
    assert dynagate.build(ARM, "forward_dynamics", units=4, region=wide, folder=tmp_path).hardware.core.angle_bits == 5


def test_the_report_of_a_program(tmp_path: Path) -> None:
    report = report_design(DesignRequest(ARM, "inverse_dynamics"), SMALL, folder=tmp_path, checks=Checks(60))
    assert report.passed
    text = report.text()
    assert text.startswith("two_joint_arm inverse_dynamics, 24-bit words, 2 units\n  instructions    ")
    assert text.splitlines()[-1].startswith("PASS: ")
    pace, (block,) = report.section(Pace), report.section(FunctionMeasurement).blocks
    assert not passed(replace(pace, cycles=pace.limit + 1.0).rules)
    assert not passed(replace(block, exact=False).rules)


def test_iiwa14s_gradient_takes_720_cycles_at_most() -> None:
    made = fused(assign(trace(robots.load("iiwa14"), "forward_dynamics_gradient"), Region.of(robots.load("iiwa14"))))
    assert schedule(instructions(made), Core(units=4)).cycles <= 720


@pytest.mark.long
@pytest.mark.parametrize("core", [Core(units=8, word=32), Core(units=3, word=18), Core(units=5, word=27)], ids=str)
def test_cores_of_other_shapes_equal_the_integers(core: Core, tmp_path: Path) -> None:
    floating = floating_robot(2, tmp_path)
    for robot, options in ((robots.load("iiwa14"), {}), (ARM, {"forces": [Friction(0.5)]}), (floating, {})):
        region = Region.of(robot, velocity=5.0)
        built = dynagate.build(robot, "forward_dynamics", units=core, region=region, folder=tmp_path, **options)
        with dynagate.open(built) as accelerator:
            check(accelerator, built, 21)


@pytest.mark.long
@pytest.mark.parametrize(
    "function",
    ["forward_dynamics_gradient", "inverse_dynamics_gradient", "mass_matrix_inverse", "forward_dynamics_jvp", "step"],
)
@pytest.mark.parametrize("name", ["iiwa14", "hyq"])
def test_the_usual_core_equals_the_integers(name: str, function: str, tmp_path: Path) -> None:
    robot = robots.load(name)
    built = dynagate.build(robot, function, units=4, region=Region.of(robot, velocity=5.0), folder=tmp_path)
    with dynagate.open(built) as accelerator:
        check(accelerator, built, 30)


def call(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    return done.exit_code, done.output


def test_the_command_builds_a_program(tmp_path: Path) -> None:
    options = ("build", "two_joint_arm", "--function", "forward_dynamics", "--units", "3", "--folder", tmp_path)
    status, text = call(*options, "--word", "27")
    assert status == 0, text
    folder = Path(text.splitlines()[-1])
    expected = ["accelerator.v", "datasheet.md", "design.json", "files.f", "formats.json", "program.bin", "tests"]
    assert sorted(path.name for path in folder.iterdir()) == expected
    assert (folder / "datasheet.md").read_text() in text
    assert "| core | 3 units, 27 bits, angles to ±8 rad, 512 places, 4096 words |" in text
    assert files.load_program(folder).body.core["word"] == 27
    status, text = call(*options, "--report")
    assert status == 0, text
    assert Path(text.splitlines()[-1]).is_dir()
    assert re.search(r"^program [0-9a-f]{16}, core [0-9a-f]{16}$", text, flags=re.M)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("build", "--units", 4, "--ii", 4), "--units with --ii; expected one of them: a program has no --ii"),
        (
            ("run", "--units", 4, "--function", "rollout", "--error", "1e-3"),
            "--error of a rollout; expected --word BITS: errors add up over its steps",
        ),
        (("run", "--units", 4, "--stages", "add=1"), "--stages of a program; expected it left out"),
        (("run", "--units", 4, "--formats", __file__), "test_processor.py is not a formats file: "),
        (
            ("run", "--units", 4, "--function", "rollout", "--proved"),
            "--proved of a rollout; expected --proved left out",
        ),
        (
            ("run", "--units", 4, "--function", "rollout", "--samples-per-run", 2),
            "--samples-per-run 2 of rollout; expected 1: only one",
        ),
        (("build", "--samples-per-run", 2), "--samples-per-run 2 of a datapath; expected 1, or a program: --units 4"),
        (("run", "--units", 4, "--word", 12), "--word 12 of a processor; expected 18 to 32 bits"),
        (("run", "--units", 9), "9"),
        (("build", "--units", 4, "--axi", 64), "--axi of a program; expected it left out"),
        (("build", "--units", 4, "--budget", "dsp=3"), "--budget of a program; expected it left out"),
        (("run", "--units", 4, "--steps", 3), "--steps does not apply to forward_dynamics_gradient; leave it out"),
    ],
    ids=str,
)
def test_options_of_a_pipeline_do_not_go_with_units(options: tuple[object, ...], text: str, tmp_path: Path) -> None:
    command, *rest = options
    status, output = call(command, "two_joint_arm", *rest, "--folder", tmp_path)
    assert status != 0
    assert text in " ".join(output.split())
    assert not list(tmp_path.iterdir())


def test_a_program_opens_by_its_link(tmp_path: Path) -> None:
    with dynagate.open(build(ARM, "inverse_dynamics", tmp_path), link="sim") as accelerator:
        torque = accelerator(q=[0.1, 0.2], qd=[0.3, 0.4], qdd=[0.5, 0.6]).tau
    with dynagate.compile(ARM, "inverse_dynamics") as exact:
        np.testing.assert_allclose(torque, exact(q=[0.1, 0.2], qd=[0.3, 0.4], qdd=[0.5, 0.6]).tau, atol=1e-4)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Design:
    return build(ARM, "inverse_dynamics,mass_matrix,forward_dynamics", tmp_path_factory.mktemp("several"))


def test_several_functions_share_a_program(several: Design) -> None:
    """Each has formats and cycles of its own; samples of all are mixed."""
    names = ["inverse_dynamics", "mass_matrix", "forward_dynamics"]
    assert [each.name for each in several.design.functions] == names
    assert several.design.functions[0].latency < several.design.functions[2].latency
    cycles = several.design.functions[0].latency
    line = f"| cycles | {cycles} from the first program word to the last result, of inverse_dynamics |"
    assert line in (several.folder / "datasheet.md").read_text()
    states = Region.of(ARM, velocity=5.0)
    with dynagate.open(several) as chip, dynagate.open(several.folder, device="fixed") as integers:
        for turn, name in enumerate(names * 2):
            inputs = states.sample(name, 9, turn)
            got, expected = getattr(chip, name)(**inputs), getattr(integers, name)(**inputs)
            np.testing.assert_array_equal(got.overflow, expected.overflow)
            for output in expected:
                np.testing.assert_array_equal(got[output], expected[output])
    request = DesignRequest(ARM, "inverse_dynamics,mass_matrix")
    report = report_design(request, SMALL, folder=several.folder.parent, checks=Checks(40))
    assert report.passed
    assert [block.name for block in report.section(FunctionMeasurement).blocks] == ["tau", "m"]
    assert report.section(FunctionMeasurement).cycles_per_sample > 20
    with dynagate.open(several) as chip:
        m = chip.mass_matrix([0.1, 0.2]).m
    with dynagate.compile(ARM, "mass_matrix") as exact:
        np.testing.assert_allclose(m, exact(q=[0.1, 0.2]).m, atol=1e-5)
