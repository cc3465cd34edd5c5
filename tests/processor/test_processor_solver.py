"""iLQR and MPPI as programs of loops: what a processor computes equals the integers, and these are near float64."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Policy, robots
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.control import Cost, terminal_unit
from dynagate.control.chip import calls_of
from dynagate.control.chip_ilqr import ChipIlqr
from dynagate.control.chip_mppi import ChipMppi, MppiOptions
from dynagate.control.cost import CostGraphs, Input
from dynagate.control.terminal_unit import unit_of_last
from dynagate.control.training_problems import check_solved, stable_step
from dynagate.fixedpoint.format import SATURATE, Arithmetic
from dynagate.fixedpoint.fuse import fused
from dynagate.fixedpoint.models.loops import FormattedLoop, LoopTrajectories, integers_of, values_of
from dynagate.forces import Servo
from dynagate.forces.options import StepOptions
from dynagate.host.devices import program_session
from dynagate.host.report.rules import passed, verdict
from dynagate.host.report.solvers import SolverMeasurement
from dynagate.host.report.trials import Compared
from dynagate.hw.bodies.program import build_solver
from dynagate.hw.processor.checker.replay import Memory
from dynagate.hw.processor.compiler import pipelining
from dynagate.hw.processor.compiler.batched_iterations import batched_iterations, counts
from dynagate.hw.processor.compiler.check import checked_schedule
from dynagate.hw.processor.compiler.instructions import ProgramError
from dynagate.hw.processor.compiler.loops import loop_instructions
from dynagate.hw.processor.compiler.motion import angles_of
from dynagate.hw.processor.compiler.pipelining import pipelined
from dynagate.hw.processor.compiler.schedule import check_program_fits, schedule
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule
from dynagate.hw.processor.compiler.solver import formatted_solver
from dynagate.hw.processor.core_spec import CoreSpec
from dynagate.hw.processor.isa.shape import LOAD, STORE, Core
from dynagate.robot import Robot

from tests.replays import replayed_iteration
from tests.solver_programs import ARM, COST, ILQR, MPPI, WORD, draws, problems

CORE = Core(units=4, word=WORD, angle_bits=3, iteration_bits=8, saturates=1)


def formatted_loop(solver: ChipIlqr, batch: int = 12) -> FormattedLoop:
    policy = Policy(word=WORD, arithmetic=Arithmetic(overflow=SATURATE))
    formatted = formatted_solver(solver, problems(solver.robot, batch, 0), policy)
    angle = angles_of(formatted.graphs(), WORD)
    return formatted.mapped(lambda graph: fused(graph, angle))


@pytest.fixture(scope="module")
def solver() -> ChipIlqr:
    return ChipIlqr.of(ARM, COST, ILQR)


@pytest.fixture(scope="module")
def formatted(solver: ChipIlqr) -> FormattedLoop:
    return formatted_loop(solver)


@pytest.fixture(scope="module")
def scheduled(formatted: FormattedLoop) -> ProgramSchedule:
    """Iterations overlap: those of the backward pass, and of the loops that choose and begin. Timings that were kept
    from one loop to the next are those of a schedule from scratch."""
    plain = schedule(loop_instructions(formatted), CORE)
    overlapped = pipelined(plain)
    assert schedule(overlapped.instructions, CORE) == overlapped
    assert overlapped.period < 0.9 * plain.period
    assert len(overlapped.blocks) > len(plain.blocks) + 2
    return overlapped


def test_a_program_solves_as_the_integers_do(
    solver: ChipIlqr, formatted: FormattedLoop, scheduled: ProgramSchedule
) -> None:
    """Two calls, of which the second begins with what the first has left in the memory of iterations; costs and gains
    are near those of float64."""
    batch = 3
    integers, memory = LoopTrajectories(formatted, {}, batch), Memory()
    for inputs, exact in calls_of(solver, problems(ARM, batch, 1), 2):
        own = integers_of(formatted, inputs)
        values, _ = integers.advance(own)
        got, _ = replayed_iteration(scheduled, own, memory)
        for name, entries in got.items():
            for result, fixed in zip(entries, values[name], strict=True):
                np.testing.assert_array_equal(result, fixed.value, err_msg=name)
        result = {name: values_of(values[name], exact[name].shape[1:]) for name in got}
        np.testing.assert_array_equal(result["iterations"], exact["iterations"])
        assert (result["converged"] == 1.0).all()
        np.testing.assert_allclose(result["cost"], exact["cost"], rtol=1e-4)
        largest = abs(exact["gain"]).max()
        np.testing.assert_allclose(result["gain"] / largest, exact["gain"] / largest, atol=1e-2)
    assert (exact["iterations"] >= 2).all()


def test_a_call_that_begins_with_its_guess_owes_nothing_to_memory(solver: ChipIlqr, formatted: FormattedLoop) -> None:
    """Not even a flag: where another problem's plan is in memory, nothing of it may overflow."""
    count = 24
    ((inputs, _),) = calls_of(solver, problems(ARM, count, 4), 1)
    own = integers_of(formatted, inputs)
    empty, before, after = (LoopTrajectories(formatted, {}, count) for _ in range(3))
    expected, _ = empty.advance(own)
    before.advance({name: [np.roll(x, 1) for x in entries] for name, entries in own.items()})
    after.memory_of(before)
    got, _ = after.advance(own)
    np.testing.assert_array_equal(after.overflow, empty.overflow)
    for name in (port.name for port in formatted.loop.steps[-1].outputs):
        for a, b in zip(got[name], expected[name], strict=True):
            np.testing.assert_array_equal(a.value, b.value, err_msg=name)


SAMPLING: dict[str, int] = {
    **{"units": 4, "word": WORD, "angle_bits": 3, "saturates": 1},
    **{"exp_bits": 6, "exp_whole": 2, "noise": 1},
}


IN_LINES = replace(MPPI, nodes=4, bounds=(np.array([-0.8, -9.0]), np.array([0.4, np.inf])))


@pytest.mark.parametrize("own", [MPPI, IN_LINES], ids=["knots", "lines"])
def test_the_loop_of_a_chip_is_mppi(own: MppiOptions) -> None:
    """One sample after the other, in float64: the torques, costs and weights of `Mppi` with the same draw. Samples far
    above the least cost have e**-16 of the weight, and there 0."""
    known = draws(3, 1)
    (_, got), (after, again) = calls_of(ChipMppi.of(ARM, COST, own), known, 2)
    options: dict[str, Any] = {"knots": 6, "dt": 0.02, "samples": 9, "temperature": 0.3, "spread": MPPI.spread}
    options |= {"nodes": own.nodes, "bounds": own.bounds}
    with dynagate.mppi(ARM, cost=COST, seed=7, device="numpy", **options) as reference:
        for k in range(3):
            goal, guess = known["goal"][k], known["guess"][k]
            plan = reference(known["q"][k], known["qd"][k], np.tile(guess, (6, 1)), draw=500 + k, goal=goal)
            np.testing.assert_allclose(got["tau"][k], plan.tau[0], atol=1e-5)
            np.testing.assert_allclose((got["cost"][k], got["least"][k]), (plan.cost, plan.least), rtol=1e-5)
            warm = np.concatenate([plan.tau[1:], guess[None]])
            then = reference(after["q"][k], after["qd"][k], warm, draw=501 + k, goal=goal)
            np.testing.assert_allclose(again["tau"][k], then.tau[0], atol=1e-5)
            assert plan.effective > 1.1
    assert (got["tau"][:, 0].min() < -0.8) == (own is MPPI)


@pytest.mark.parametrize(
    ("own", "temperature", "count"),
    [pytest.param(MPPI, 0.3, 9, marks=pytest.mark.long), (MPPI, 1.0, 3), (IN_LINES, 0.3, 3)],
)
def test_a_program_samples_as_the_integers_do(own: MppiOptions, temperature: float, count: int) -> None:
    """Two calls, of which the second begins with the mean that the first has left; noise is drawn from its counter. At
    temperature 1 exponents have fewer bits behind the binary point than the unit of exponentials takes. The integers
    are those of one sample after the other, and the program has `count` of them side by side."""
    sampler = ChipMppi.of(ARM, COST, replace(own, temperature=temperature, spread=0.3 * MPPI.spread))
    policy = Policy(word=WORD, arithmetic=Arithmetic(overflow=SATURATE))
    loop = formatted_solver(sampler, draws(12, 0), policy)
    core = CoreSpec.resolve(4).with_functions("mppi", list(loop.graphs()), policy)
    assert core.noise == 1
    with pytest.raises(ProgramError, match="the core has no unit for them; expected a core with noise=1"):
        CoreSpec(replace(core, noise=0)).with_functions("mppi", list(loop.graphs()), policy)
    loop = loop.mapped(core.fused)
    beside = batched_iterations(loop, sampler.samples, count)
    integers, together, memory = LoopTrajectories(loop, {}, 3), LoopTrajectories(beside, {}, 3), Memory()
    plain = schedule(loop_instructions(beside), replace(core, iteration_bits=9))
    scheduled = pipelined(plain)
    assert scheduled.period < 0.95 * plain.period
    for inputs, exact in calls_of(sampler, draws(3, 1), 2):
        given = integers_of(loop, inputs)
        values, flagged = integers.advance(given)
        same, _ = together.advance(given)
        assert not flagged.any()
        got, _ = replayed_iteration(scheduled, given, memory)
        for name, entries in got.items():
            for result, fixed, other in zip(entries, values[name], same[name], strict=True):
                np.testing.assert_array_equal(result, fixed.value, err_msg=name)
                np.testing.assert_array_equal(other.value, fixed.value, err_msg=name)
            result = values_of(values[name], exact[name].shape[1:])
            np.testing.assert_allclose(result, exact[name], rtol=1e-4, atol=1e-4, err_msg=name)


def test_a_simulation_waits_as_long_as_a_call_may_take(scheduled: ProgramSchedule) -> None:
    waits = scheduled.period * program_session.RETRIES * (1 + ILQR.iterations)
    assert 0.5 * waits < scheduled.longest < waits


def test_iterations_overlap_where_it_pays_and_fits(formatted: FormattedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a core without room for what one part hands to the other, nor where too few cycles are saved."""
    plain = schedule(loop_instructions(formatted), replace(CORE, place_bits=6))
    assert max(plain.depths) <= 64 < max(pipelined(replace(plain, core=CORE)).depths)
    assert max(pipelined(plain).depths) <= 64
    monkeypatch.setattr(pipelining, "GAIN", 0.9)
    assert pipelined(replace(plain, core=CORE)).instructions == plain.instructions


def test_joints_without_a_motor_have_no_torque_whatever_the_guess() -> None:
    sampler = ChipMppi.of(ARM.with_passive("elbow"), COST, MPPI)
    known, drawn = draws(12, 0), draws(3, 1)
    for each in (known, drawn):
        each["guess"] *= 20.0
    loop = formatted_solver(sampler, known, Policy(word=WORD, arithmetic=Arithmetic(overflow=SATURATE)))
    ((inputs, exact),) = calls_of(sampler, drawn, 1)
    values, flagged = LoopTrajectories(loop, {}, 3).advance(integers_of(loop, inputs))
    assert not flagged.any()
    assert (values_of(values["tau"], (2,))[:, 1] == 0.0).all()
    np.testing.assert_allclose(values_of(values["tau"], (2,)), exact["tau"], atol=1e-4)


def test_samples_side_by_side_take_fewer_cycles_and_fit_the_core(tmp_path: Path) -> None:
    """As many as the core's program memory and its memory of iterations hold: 9 samples, or 3 of them."""
    sampler = ChipMppi.of(ARM, COST, MPPI)
    cycles = {}
    few_values, few_words = Core(**SAMPLING, iteration_bits=7), Core(**SAMPLING, iteration_bits=8, program_bits=10)
    for core, asked, count in ((4, None, 9), (few_values, None, 3), (few_words, None, 3), (4, 1, 1)):
        built = build_solver(sampler, draws(12, 0), core, word=WORD, folder=tmp_path, samples_per_run=asked)
        assert built.design.options["samples_per_run"] == count
        cycles[count] = built.hardware.schedule.longest
    assert cycles[9] < 0.6 * cycles[3]
    assert cycles[3] < 0.5 * cycles[1]
    with pytest.raises(
        ProgramError, match=r"takes \d+ words, \d+ more than the core's 1024 and 132 values of iterations"
    ):
        build_solver(
            sampler, draws(12, 0), replace(few_words, iteration_bits=7), word=WORD, folder=tmp_path, samples_per_run=9
        )
    assert [counts(n) for n in (64, 60, 7, 1)] == [[1, 2, 4, 8, 16], [1, 2, 4, 6, 15], [1, 7], [1]]


def test_what_a_chip_does_not_sample(tmp_path: Path, solver: ChipIlqr) -> None:
    sampler = ChipMppi.of(ARM, COST, MPPI)
    for other, count, text in [
        (sampler, 2, "samples_per_run 2 of mppi; expected 1 to 16 that divide its 9 samples"),
        (solver, 2, "samples_per_run 2 of ilqr; expected 1"),
    ]:
        with pytest.raises(ArgumentError, match=rf"^{text} \[DG-"):
            build_solver(other, {}, 4, word=WORD, folder=tmp_path, samples_per_run=count)
    many = ChipMppi.of(ARM, COST, replace(MPPI, samples=10000))
    text = "10000 samples of 6 nodes take 120012 numbers; expected 65535 at most with words of 18 bits"
    with pytest.raises(ArgumentError, match=text):
        build_solver(many, draws(2, 0), 4, word=18, folder=tmp_path)
    constrained = replace(MPPI, step=StepOptions(0.02, forces=(Servo(1.0, 1.0),)))
    for options, text in [
        (constrained, "steps of two_joint_arm take 'target' of each knot; expected forces without inputs"),
        (replace(MPPI, step=StepOptions(None)), "dt=None of a solver on a chip; expected the seconds of a knot"),
        (replace(MPPI, spread=np.ones(3)), r"spread of two_joint_arm on a chip; expected shape \(2,\)"),
    ]:
        with pytest.raises(ArgumentError, match=text):
            ChipMppi.of(ARM, COST, options)
    for changes, text in [
        ({"nodes": 7}, "nodes=7; expected 2 to 6, as many as knots"),
        ({"temperature": 0.0}, "temperature=0.0; expected a cost of more than 0"),
        ({"samples": 0}, "samples=0; expected a whole number of 1 or more"),
    ]:
        with pytest.raises(ArgumentError, match=text):
            replace(MPPI, **cast("Any", changes))


def test_a_value_of_an_iteration_that_is_kept_too_early_is_caught(scheduled: ProgramSchedule) -> None:
    """A store before the load of what the iteration before the last has kept there."""
    load = next(slot for slot in scheduled.slots if slot.instruction.kind == LOAD)
    store = next(
        slot
        for slot in scheduled.slots
        if slot.instruction.kind == STORE and slot.instruction.address == load.instruction.address
    )
    both = {id(load): replace(load, cycle=store.cycle), id(store): replace(store, cycle=load.cycle)}
    slots = sorted((both.get(id(slot), slot) for slot in scheduled.slots), key=lambda slot: (slot.cycle, slot.unit))
    with pytest.raises(AssertionError, match="is too late|holds"):
        checked_schedule(replace(scheduled, slots=tuple(slots)))


def test_too_many_knots_are_refused(formatted: FormattedLoop) -> None:
    with pytest.raises(
        ProgramError, match=r"takes \d+ values of iterations, \d+ more than the core's 64; expected a core"
    ):
        check_program_fits(schedule(loop_instructions(formatted), replace(CORE, iteration_bits=6)))


def test_a_plan_that_no_core_holds_is_refused_before_any_work(tmp_path: Path) -> None:
    """Of a knot it has 4 values of the state, 4 of torques and their feed, and 8 gains."""
    solver = ChipIlqr.of(ARM, COST, replace(ILQR, knots=4100))
    text = "a plan of 4100 knots of two_joint_arm takes 65600 values of iterations, 64 more than the core's 65536; "
    with pytest.raises(ProgramError, match=text + "expected at most 4096 knots"):
        build_solver(solver, {}, 8, word=WORD, folder=tmp_path)
    with pytest.raises(ProgramError, match="64 more than the core's 65536; expected at most 4096 knots"):
        build_solver(solver, {}, replace(CORE, iteration_bits=16), word=WORD, folder=tmp_path)
    with pytest.raises(ProgramError, match="65568 more than the core's 32; expected at most 2 knots"):
        build_solver(solver, {}, replace(CORE, iteration_bits=5), word=WORD, folder=tmp_path)


def test_solvers_that_no_chip_has() -> None:
    moving = Cost(lambda knot: [knot.q[0] - knot["goal"]], inputs={"goal": Input((), each=True)})
    with pytest.raises(ArgumentError, match="the cost has an input 'goal' of each knot; expected one of all on a chip"):
        ChipIlqr.of(ARM, moving, ILQR)


def test_formats_come_from_problems_that_have_a_solution(solver: ChipIlqr) -> None:
    policy, known = Policy(word=WORD), problems(ARM, 3, 0)
    lost = {name: x.copy() for name, x in known.items()}
    lost["qd"][1] = 1e200
    others = {name: x[[0, 2]] for name, x in known.items()}
    formats = [[graph.formats for graph in formatted_solver(solver, each, policy).graphs()] for each in (lost, others)]
    assert formats[0] == formats[1]
    lost["qd"][0] = 1e200
    text = "2 of 3 problems of two_joint_arm have no solution in float64 with dt=0.02; expected 50% with one, "
    with pytest.raises(ArgumentError, match=text + "from which ranges can be found: a smaller dt or other problems"):
        formatted_solver(solver, lost, policy)


def light_arm() -> Robot:
    """The arm with links of some grams and centimeters: torques cost little beside what they change."""
    links = [
        replace(
            link,
            mass=2e-3 * link.mass,
            com=tuple(0.15 * x for x in link.com),
            inertia=tuple(tuple(4.5e-5 * x for x in row) for row in link.inertia),
            joint=replace(link.joint, translation=tuple(0.15 * x for x in link.joint.translation)),
        )
        for link in ARM.links
    ]
    return replace(ARM, name="light", links=tuple(links))


def unmoved(batch: int, seed: int) -> dict[str, Any]:
    """Problems that begin with no torques."""
    drawn = problems(ARM, batch, seed)
    return {**drawn, "guess": 0.0 * drawn["guess"]}


@pytest.mark.parametrize("alone", [False, True], ids=["", "without a unit of the last knot"])
def test_the_last_knot_takes_no_bits_of_the_others(alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a power of two, which float64 does not see; without it gains of light links are wrong."""
    robot, options = light_arm(), replace(ILQR, knots=8)
    known, given = ({**each, "goal": each["q"] + each["goal"]} for each in (unmoved(24, 0), unmoved(4, 1)))
    monkeypatch.setattr(terminal_unit, "unit_of_last", lambda *_: 1.0)
    (_, expected), *_ = calls_of(ChipIlqr.of(robot, COST, options), given, 1)
    if not alone:
        monkeypatch.undo()
    solver = ChipIlqr.of(robot, COST, options)
    (inputs, exact), *_ = calls_of(solver, given, 1)
    np.testing.assert_allclose(exact["gain"], expected["gain"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(exact["cost"], expected["cost"], rtol=1e-12)
    loop = formatted_solver(solver, known, Policy(word=WORD, arithmetic=Arithmetic(overflow=SATURATE)))
    angle = angles_of(loop.graphs(), WORD)
    loop = loop.mapped(lambda graph: fused(graph, angle))
    own = integers_of(loop, inputs)
    values, _ = LoopTrajectories(loop, {}, 4).advance(own)
    if not alone:  # numbers move by more places than an instruction moves them
        got, _ = replayed_iteration(schedule(loop_instructions(loop), CORE), own, Memory())
        for result, fixed in zip(got["gain"], values["gain"], strict=True):
            np.testing.assert_array_equal(result, fixed.value)
    gain = values_of(values["gain"], exact["gain"].shape[1:])
    error = np.median(abs(gain - exact["gain"]).max(axis=(1, 2)) / abs(exact["gains_new"]).max(axis=(1, 2, 3)))
    assert error > 1e-2 if alone else error < 1e-3, f"{error:.1e}"


def test_the_unit_of_the_last_knot() -> None:
    """About a knot's curvature beside the last one's, 0.02 / 10, where torques are cheap; at most so many bits."""
    for robot, cost, unit in (
        (ARM, COST, 1.0),
        (light_arm(), COST, 2.0**-8),
        (light_arm(), Cost(lambda knot: [0.1 * x for x in knot.tau], lambda knot: [*knot.q, *knot.qd]), 2.0**-12),
    ):
        costs = CostGraphs(robot, cost, ILQR.step.dt or 0.0)
        assert unit_of_last(costs, ILQR.step, np.arange(2)) == unit


def test_damping_that_a_step_is_too_long_for_is_named() -> None:
    """The longest step, by eigenvalues, is where small speeds of a rollout begin to grow."""
    links = tuple(replace(link, joint=replace(link.joint, damping=30.0)) for link in ARM.links)
    damped, q = replace(ARM, links=links, gravity=(0.0, 0.0, 0.0)), np.array([[0.1, 0.2]])
    longest = stable_step(damped, q)
    ends = []
    for factor in (0.9, 1.1):
        rollout = dynagate.Rollout(damped, steps=30, dt=factor * longest, device="numpy")
        ends.append(abs(rollout(q, np.full((1, 2), 1e-3), np.zeros((1, 30, 2))).qd[:, -1]).max())
    assert ends[0] < 5e-4
    assert ends[1] > 1e-2
    assert stable_step(robots.load("two_joint_arm", damping=False), q) == np.inf
    asked = (
        f"from which ranges can be found: implicit_damping=True, a dt below {longest:.2g} s, which explicit damping of "
        "joints asks for, the robot read with damping=False, or other problems"
    )
    with pytest.raises(ArgumentError, match=asked):
        check_solved(np.array([False, True, False]), q.repeat(3, axis=0), damped, StepOptions(0.02))
    with pytest.raises(ArgumentError, match="can be found: a smaller dt or other problems"):
        check_solved(
            np.array([False, True, False]), q.repeat(3, axis=0), damped, StepOptions(0.02, implicit_damping=True)
        )
    check_solved(np.array([False, True]), q.repeat(2, axis=0), damped, StepOptions(0.02))


def test_a_solver_takes_and_gives_float32(solver: ChipIlqr, tmp_path: Path) -> None:
    """Its integers are those of inputs that were rounded to float32, its results the nearest float32."""
    known: dict[str, Any] = {"folder": tmp_path, "word": 32}
    short = ChipIlqr.of(ARM, COST, replace(solver.options, knots=2, iterations=1))
    plain, floats = (build_solver(short, problems(ARM, 6, 0), 2, words=words, **known) for words in (None, "float32"))
    assert (plain.hardware.core.floats, floats.hardware.core.floats) == (0, 1)
    assert replace(floats.hardware.core, floats=0) == plain.hardware.core
    assert floats.design.numbers["goal"] == floats.design.numbers["gain"] == "float32"
    inputs = {**problems(ARM, 1, 1), "warm": np.zeros(1)}
    rounded = {name: np.asarray(x, np.float32).astype(np.float64) for name, x in inputs.items()}
    with dynagate.open(plain, device="fixed") as integers, dynagate.open(floats, device="fixed") as others:
        got, expected, unlike = others(**inputs), integers(**rounded), integers(**inputs)
    for name in expected:
        assert got[name].dtype == np.float32
        np.testing.assert_array_equal(got[name], expected[name].astype(np.float32))
    assert any((unlike[name] != expected[name]).any() for name in ("tau", "gain"))
    for core, words, text in [
        (2, "float16", "words 'float16' of a program; expected 'fixed' or 'float32'"),
        (
            floats.hardware.core,
            "fixed",
            r"words 'fixed' for a core of 'float32'; expected Core\(floats=0\), or words left out",
        ),
    ]:
        with pytest.raises(ArgumentError, match=text):
            build_solver(short, {}, core, words=words, **known)


@pytest.mark.long
@pytest.mark.parametrize("words", ["fixed", "float32"])
def test_the_command_samples_on_a_core(words: str, tmp_path: Path) -> None:
    """Integers of the core equal those of the loop; a call takes as many cycles as any other."""
    options = (
        "--function",
        "mppi",
        "--knots",
        "4",
        "--samples",
        "5",
        "--units",
        "2",
        "--states",
        "3",
        "--words",
        words,
    )
    done = CliRunner().invoke(main, ["run", "two_joint_arm", *options, "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "  integers        equal; of calls that go on with the call before equal\nPASS" in done.output
    call = re.search(r"call +(\d+) cycles measured, (\d+) at most; \d+ a knot of a sample", done.output)
    assert call is not None, done.output
    assert call[1] == call[2]


@pytest.mark.long
@pytest.mark.parametrize("words", ["fixed", "float32"])
def test_the_command_solves_on_a_core(words: str, tmp_path: Path) -> None:
    """Integers of the core equal those of the loop, in calls that go on with the plan before too."""
    options = ("--function", "ilqr", "--knots", "6", "--units", "2", "--states", "6", "--words", words)
    done = CliRunner().invoke(main, ["run", "two_joint_arm", *options, "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "  integers        equal; of calls that go on with the call before equal\nPASS" in done.output
    assert re.search(r"iteration +\d{4} cycles measured over \d+ of 6 problems", done.output), done.output


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--function", "ilqr"), "--function ilqr without --units; expected a processor's units, such as --units 8"),
        (
            ("--function", "ilqr", "--units", "2", "--force", "stops"),
            "--force with --function ilqr; expected it left out",
        ),
        (("--function", "ilqr", "--board", "ulx3s"), "--board with --function ilqr; expected it left out"),
        (
            ("--function", "ilqr", "--units", "2", "--word", "24", "--formats", "README.md"),
            "--word and --formats are both given; expected one: each decides the formats",
        ),
        (("--function", "mppi", "--error", "1e-3"), "--error with --function mppi; expected it left out"),
        (
            ("--knots", "8"),
            "--knots does not apply to forward_dynamics_gradient; leave it out, or pass --function ilqr or mppi",
        ),
        (("--function", "mppi"), "--function mppi without --units; expected a processor's units, such as --units 8"),
        (
            ("--function", "ilqr", "--samples", "8"),
            "--samples does not apply to ilqr; leave it out, or pass --function mppi",
        ),
        (
            ("--function", "ilqr", "--samples-per-run", "2"),
            "--samples-per-run does not apply to ilqr; leave it out, or pass --function mppi",
        ),
        (
            ("--function", "mppi", "--units", "2", "--samples", "9", "--samples-per-run", "2"),
            "--samples-per-run 2 of 9 samples; expected a number that divides them",
        ),
        (("--units", "4", "--samples-per-run", "5"), "--samples-per-run 5; expected 1 to 4 samples in one run"),
        (("closed-loop", "--units", "4"), "--units does not apply to --controller derivatives; leave it out"),
        (
            ("closed-loop", "--controller", "ilqr", "--rtl", "27"),
            "--rtl with --controller ilqr needs the units of a core",
        ),
        (
            ("closed-loop", "--controller", "ilqr", "--error", "0.1"),
            "--error does not apply to --controller ilqr; pass its word length by --rtl",
        ),
        (
            ("closed-loop", "--controller", "ilqr", "--samples", "9"),
            "--samples does not apply to --controller ilqr; leave it out",
        ),
        (
            ("closed-loop", "--controller", "mppi", "--rtl", "27"),
            "--rtl with --controller mppi needs the units of a core",
        ),
    ],
)
def test_options_of_the_commands(options: tuple[str, ...], text: str) -> None:
    name, *rest = options if options[0] == "closed-loop" else ("run", *options)
    done = CliRunner().invoke(main, [name, "two_joint_arm", *rest])
    assert done.exit_code == 2
    assert text in " ".join(done.output.split()), done.output


def test_a_report_fails_where_integers_or_gains_differ() -> None:
    def compared(cost: float, error: float) -> tuple[Compared, ...]:
        return tuple(Compared(name, np.full(2, x), 1e-3, "") for name, x in (("cost", cost), ("gains", error)))

    measured = SolverMeasurement(compared(0.0, 0.0), "near float64", "use a longer --word", exact=True, warm=True)
    assert verdict(measured.rules).startswith("PASS: the comparison of the core with its integers is equal; ")
    for changes, text in [
        (
            {"exact": False},
            "FAIL: 1 of 3 rules does not hold\n"
            "  the comparison of the core with its integers is not equal; expected equal. To pass, report",
        ),
        (
            {"warm": False},
            "\n  the comparison in calls that go on with the call before is not equal",
        ),
        (
            {"compared": compared(0.0, 0.01)},
            "near float64 is 0 of 2; expected at least 0.5 of them. To pass, use a longer --word",
        ),
        ({"compared": compared(np.nan, 0.0)}, "is 0 of 2"),
    ]:
        other = replace(measured, **changes)
        assert not passed(other.rules)
        assert text in verdict(other.rules)


@pytest.mark.long
@pytest.mark.parametrize("trials", [1, 10])
def test_cycles_of_a_call(trials: int, tmp_path: Path) -> None:
    """A call takes as many cycles as its loops have iterations. With one step length and one backward pass in each of a
    fixed number of iterations, the worst call of random problems equals the median, and the most of the datasheet."""
    options = replace(ILQR, iterations=3, tolerance=1e-12, trials=trials, retries=trials)
    solver = ChipIlqr.of(ARM, COST, options)
    known, drawn = problems(ARM, 24, 0), problems(ARM, 8, 1)
    for each in (known, drawn):
        each["guess"] *= 10.0
        each["qd"] += np.where(np.arange(len(each["qd"])) % 2, 2.0, -1.0)[:, None]
    known = {name: 1.2 * x for name, x in known.items()}
    built = build_solver(solver, known, 2, word=WORD, folder=tmp_path)
    cycles = []
    with dynagate.open(built) as chip:
        for k in range(len(drawn["q"])):
            chip(**{name: x[k] for name, x in drawn.items()}, warm=0.0)
            cycles.append(chip.transfer.latency)
    words = 32  # cycles in which a call comes in and its results leave, and no more
    most = built.hardware.schedule.cycles + built.hardware.schedule.longest - built.hardware.schedule.period + words
    if trials == 1:
        assert len(set(cycles)) == 1
        assert most - words < cycles[0] < most
    else:
        assert len(set(cycles)) > 1
        assert max(cycles) < most


@pytest.mark.long
@pytest.mark.parametrize(("controller", "label"), [("ilqr", "iLQR"), ("mppi", "MPPI")])
def test_the_core_is_the_controller(controller: str, label: str) -> None:
    """Its torques are those of the integers, and it gets near where the controllers in float64 get."""
    pytest.importorskip("crocoddyl")
    options = ["--controller", controller, "--units", "2", "--rtl", "27", "--seconds", "0.6"]
    options += ["--samples", "32"] if controller == "mppi" else []
    done = CliRunner().invoke(main, ["closed-loop", "two_joint_arm", *options])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    ends = {
        name: float(line.removeprefix(name).split()[0])
        for line in lines
        for name in ("Crocoddyl", f"{label}, float64", f"{label}, core of 2 units")
        if line.startswith(name)
    }
    assert len(ends) == 3
    assert max(ends.values()) < {"ilqr": 0.04, "mppi": 0.5}[controller], done.output
    assert re.search(r"torques of the integers, [\d,]+ cycles a plan, [\d,]+ at most", done.output)
