"""Loops in loops and loops that end by a tolerance as programs: drawn ones, and the steps of methods that solve
equations."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Integrator, Policy, Region, Rollout, VariationalIntegrator, robots
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.dynamics.spatial import select, sin
from dynagate.fixedpoint.fuse import fused
from dynagate.fixedpoint.models.loops import (
    FormattedLoop,
    LoopTrajectories,
    assign_loop,
    integers_of,
    observe,
    values_of,
)
from dynagate.forces import Drag, Limits
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import Graph
from dynagate.graph.blocks import in_blocks
from dynagate.graph.loop import ITERATIONS, Count, Loop, Until, evaluate_loop
from dynagate.graph.recorder import Recording
from dynagate.host import RolloutDevice
from dynagate.host.report import Checks, report_design
from dynagate.host.report.motions import SolvedSteps
from dynagate.hw.designs import Design
from dynagate.hw.processor.checker.replay import Memory
from dynagate.hw.processor.compiler import pipelining
from dynagate.hw.processor.compiler.check import checked_schedule
from dynagate.hw.processor.compiler.instructions import Instructions, ProgramError, Repeat
from dynagate.hw.processor.compiler.loops import loop_instructions
from dynagate.hw.processor.compiler.motion import ToleranceError, angles_of, motion_and_formats
from dynagate.hw.processor.compiler.pipelining import pipelined
from dynagate.hw.processor.compiler.schedule import schedule
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule
from dynagate.hw.processor.compiler.words import messages
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.request import DesignRequest
from dynagate.integrators.chip_motion import ChipMotion

from tests.core_programs import SMALL
from tests.fuzz.robots import KINDS
from tests.fuzz.robots import robot_of as drawn_robot
from tests.replays import replayed_iteration

ARM = robots.load("two_joint_arm")
SIZE = 3


class Anywhere:
    """Inputs without limits of their own."""

    def bounds(self, name: str) -> None:
        return None


def drawn_graph(name: str, inputs: list[str], outputs: list[str], random: np.random.Generator) -> Graph:
    """Values (SIZE,) of others, all within about ±2; 'left' is a number whose size halves, at least, in each
    iteration.
    """
    recording = Recording(name, "drawn")
    values = [x for key in inputs for x in recording.input(key, () if key == "left" else (SIZE,)).ravel()]
    entries = list(values)
    for kind in random.integers(0, 4, random.integers(4, 12)):
        a, b, c = (entries[k] for k in random.integers(0, len(entries), 3))
        entries.append((0.4 * a * b + 0.1 * c, 0.6 * a - 0.3 * b, select(a, b, c), 0.8 * sin(a))[kind])

    def entry() -> Any:
        a, b = (entries[k] for k in random.integers(0, len(entries), 2))
        return 0.5 * a - 0.4 * b + 0.1

    results: dict[str, np.ndarray] = {}
    for key in outputs:
        shape = () if key.startswith("left") else (SIZE,)
        results[key] = np.empty(shape, dtype=object)
        for index in np.ndindex(*shape):
            results[key][index] = 0.45 * values[-1] if shape == () else entry()
    return recording.graph(results)


def drawn_loop(random: np.random.Generator, levels: int) -> Loop:
    """A loop of steps with loops in it, so many levels, of counted iterations or until 'left' is small."""

    def inner(level: int, until: bool) -> Loop:
        name = f"inner{level}"
        x, more = f"x{level}", f"more{level}"
        steps: list[Graph | Loop] = [drawn_graph(f"a{level}", ["state", x], [f"y{level}"], random)]
        if level + 1 < levels:
            steps.append(drawn_graph(f"b{level}", [f"y{level}"], [f"x{level + 1}"], random))
            steps.append(inner(level + 1, False))
            last = f"more{level + 1}"
        else:
            last = f"y{level}"
        end = [last, x, *(["left"] if until else [])]
        steps.append(drawn_graph(f"c{level}", end, [more, *(["left_next"] if until else [])], random))
        carry = {more: x, **({"left_next": "left"} if until else {})}
        stop = Until("left_next", 0.01, 12) if until else Count(int(random.integers(1, 4)))
        return Loop(name, "drawn", tuple(steps), carry, stop, last=(more,))

    first = drawn_graph("first", ["state", "control"], ["x0", "other"], random)
    begin = Recording("begin", "drawn")
    left = begin.input("control", (SIZE,))
    size = np.empty((), dtype=object)
    size[()] = left[0] * left[1]
    begun = begin.graph({"left": size})
    tail = drawn_graph("tail", ["more0", "other", "state"], ["state_next", "seen"], random)
    carry = {"state_next": "state"}
    steps = (first, begun, inner(0, True), tail)
    return Loop("drawn", "drawn", steps, carry, Count(), ("control",), ("state_next", "seen", ITERATIONS))


def formatted_loop(loop: Loop, batch: int, random: np.random.Generator, word: int = 24) -> FormattedLoop:
    blocks = in_blocks(loop)
    states = {"state": random.uniform(-1.0, 1.0, (batch, SIZE))}
    controls = {"control": random.uniform(-1.0, 1.0, (batch, 4, SIZE))}
    observed = observe(blocks, states, controls, lambda values: np.ones(len(values["seen"]), bool))
    for inputs in (inputs for batches in observed.inputs.values() for inputs in batches if "inner0_before" in inputs):
        inputs["inner0_before"] = random.uniform(0.0, 12.0, inputs["inner0_before"].shape)
    formatted = assign_loop(blocks, observed, Anywhere(), Policy(word=word))
    angle = angles_of(formatted.graphs(), word)
    return formatted.mapped(lambda graph: fused(graph, angle))


Integers = dict[str, list[np.ndarray]]


def check_iteration(
    loop: LoopTrajectories, scheduled: ProgramSchedule, memory: Memory, states: Integers, own: Integers
) -> tuple[Any, np.ndarray, np.ndarray]:
    """An iteration of the program, replayed in Python, gives the loop's integers. Returns these, where this iteration
    of the program overflowed, and where the loop did in this iteration or one before it."""
    values, flags = loop.advance(own)
    got, overflow = replayed_iteration(scheduled, {**states, **own}, memory)
    for name, results in got.items():
        for result, fixed in zip(results, values[name], strict=True):
            np.testing.assert_array_equal(result, fixed.value, err_msg=name)
    return values, overflow, flags


def check_replay(formatted: FormattedLoop, scheduled: ProgramSchedule, random: np.random.Generator) -> np.ndarray:
    """Words of the program, replayed in Python, give the integers and flags iteration by iteration. Returns the
    iterations that the loop with a tolerance took."""
    batch, memory = 9, Memory()
    states = integers_of(formatted, {"state": random.uniform(-1.0, 1.0, (batch, SIZE))})
    loop = LoopTrajectories(formatted, states)
    flagged = np.zeros(batch, bool)
    iterations = []
    for _ in range(3):
        own = integers_of(formatted, {"control": random.uniform(-1.0, 1.0, (batch, SIZE))})
        values, overflow, flags = check_iteration(loop, scheduled, memory, states, own)
        flagged |= overflow
        np.testing.assert_array_equal(flagged, flags)
        iterations.append(values[f"inner0_{ITERATIONS}"][0])
    return np.concatenate([fixed.value * fixed.format.step for fixed in iterations])


@pytest.mark.parametrize("seed", [0, 1, 5, *(pytest.param(k, marks=pytest.mark.long) for k in range(6, 30))])
def test_drawn_loops_in_loops_equal_the_integers(seed: int) -> None:
    random = np.random.default_rng(seed)
    loop = drawn_loop(random, 1 + seed % 3)
    formatted = formatted_loop(loop, 200, random)
    scheduled = schedule(loop_instructions(formatted), Core(units=2 + seed % 3))
    iterations = check_replay(formatted, scheduled, random)
    assert iterations.min() >= 1.0
    assert iterations.max() > iterations.min()


SEVERAL = [0, 1, *(pytest.param(k, marks=pytest.mark.long) for k in (7, 8, 17, 19, 21, 28, 30, 32, 39))]
"""Seeds of loops with one in them that has several iterations, whose early part takes nothing from late ones."""


@pytest.mark.parametrize("seed", SEVERAL)
def test_iterations_that_overlap_equal_the_integers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of each iteration in the iteration before it, whether or not that pays."""
    monkeypatch.setattr(pipelining, "GAIN", -10.0)
    random = np.random.default_rng(seed)
    formatted = formatted_loop(drawn_loop(random, 2 + seed % 2), 200, random)
    plain = schedule(loop_instructions(formatted), Core(units=2 + seed % 3))
    overlapped = pipelined(plain)
    assert len(overlapped.blocks) == len(plain.blocks) + 2
    check_replay(formatted, overlapped, random)


def test_an_iteration_reads_what_the_next_one_has_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The early part of an iteration carries `size` on, of which the late part of the iteration before reads what was
    there.
    """
    monkeypatch.setattr(pipelining, "GAIN", -10.0)
    recording = Recording("iteration", "drawn")
    x, size = recording.input("x", (SIZE,)), recording.input("size", (SIZE,))
    iteration = recording.graph({"x_next": x * (size * (size - 0.5)) * size + 0.3, "size_next": 0.6 * size - 0.2})
    inner = Loop("inner", "drawn", (iteration,), {"x_next": "x", "size_next": "size"}, Count(4), last=("x_next",))
    random = np.random.default_rng(0)
    first = drawn_graph("first", ["state", "control"], ["x", "size"], random)
    tail = drawn_graph("tail", ["x_next", "state"], ["state_next", "seen"], random)
    loop = Loop("whole", "drawn", (first, inner, tail), {"state_next": "state"}, Count(), ("control",), ("seen",))
    formatted = formatted_loop(loop, 200, random)
    plain = schedule(loop_instructions(formatted), SMALL)
    overlapped = pipelined(plain)
    assert len(overlapped.blocks) == len(plain.blocks) + 2
    states, memory = integers_of(formatted, {"state": random.uniform(-1.0, 1.0, (9, SIZE))}), Memory()
    integers = LoopTrajectories(formatted, states)
    for _ in range(3):
        own = integers_of(formatted, {"control": random.uniform(-1.0, 1.0, (9, SIZE))})
        check_iteration(integers, overlapped, memory, states, own)


def test_a_drawn_loop_in_blocks_is_the_loop() -> None:
    random = np.random.default_rng(4)
    loop = drawn_loop(random, 3)
    blocks = in_blocks(loop)
    inputs = {"state": random.uniform(-1.0, 1.0, (5, SIZE)), "control": random.uniform(-1.0, 1.0, (5, 6, SIZE))}
    expected = evaluate_loop(loop, inputs)
    starts = {name: np.full(5, value) for name, value in blocks.starts.items()}
    got = evaluate_loop(blocks.loop, {**inputs, **starts})
    for name, other in zip(loop.kept, blocks.loop.kept, strict=True):
        np.testing.assert_allclose(got[other], expected[name], rtol=1e-12, atol=1e-12)
    assert len(blocks.loop.steps) == 3


def test_a_wrong_program_of_loops_is_caught() -> None:
    """A place that a loop writes again, read too late or taken by another value."""
    random = np.random.default_rng(1)
    scheduled = schedule(loop_instructions(formatted_loop(drawn_loop(random, 2), 100, random)), SMALL)
    listed = [slot.instruction.result for slot in scheduled.slots]
    cells = {result for result in listed if listed.count(result) > 1} & scheduled.instructions.pinned
    assert cells
    cell = next(slot for slot in scheduled.slots if slot.instruction.result in cells)
    other = next(s for s in scheduled.slots if s.bank == cell.bank and s.place not in (None, cell.place))
    slots = tuple(replace(slot, place=cell.place) if slot is other else slot for slot in scheduled.slots)
    with pytest.raises(AssertionError, match="holds|overwritten|twice"):
        checked_schedule(replace(scheduled, slots=slots))


def test_too_many_loops_are_refused() -> None:
    random = np.random.default_rng(2)
    program = loop_instructions(formatted_loop(drawn_loop(random, 2), 50, random))

    def with_repeat(**changes: int) -> Instructions:
        blocks = tuple(
            replace(block, repeat=replace(block.repeat, **changes)) if block.repeat else block
            for block in program.blocks
        )
        return replace(program, blocks=blocks)

    with pytest.raises(ProgramError, match=r"^drawn drawn has loops 5 deep; expected 4 at most \[DG-"):
        schedule(with_repeat(level=4), SMALL)
    with pytest.raises(
        ProgramError, match=r"^drawn drawn has a loop of 70000 iterations; expected 65535 at most \[DG-"
    ):
        schedule(with_repeat(most=70000), SMALL)
    with pytest.raises(ProgramError, match=r"^drawn drawn takes \d+ blocks, \d+ more than a core's 32; expected fewer"):
        schedule(replace(program, blocks=program.blocks * 9), SMALL)
    assert Repeat(0, 1) == Repeat(0, 1, False, 0)


def build(integrator: str | Integrator | None, folder: Path, core: Core | int = SMALL, **options: Any) -> Design:
    options = {"dt": 0.01, "integrator": integrator, **options}
    region = Region.of(ARM, velocity=3.0)
    return dynagate.build(
        ARM, "rollout", units=core, policy=Policy(samples=512), region=region, folder=folder, **options
    )


def starts(batch: int, iterations: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    states = Region.of(ARM, velocity=3.0).sample("forward_dynamics", batch, 1, kind="uniform")
    factors = np.random.default_rng(1).uniform(0.0, 1.0, (batch, iterations, 1))
    return states["q"], states["qd"], states["tau"][:, None] * factors


def check(chip: Any, built: Design | Path, batch: int, iterations: int, **options: Any) -> Any:
    arrays = starts(batch, iterations)
    assert isinstance(chip, RolloutDevice)
    got = chip(*arrays, **options)
    with dynagate.open(built, device="fixed") as integers:
        expected = integers(*arrays, **options)
    for name in ("q", "qd", "converged", "iterations", "residual", "diverged"):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))
    return got


def test_position_based_steps_run_on_a_core(tmp_path: Path) -> None:
    """Iterations differ from step to step; results are near those of float64."""
    built = build("position_based", tmp_path)
    with dynagate.open(built) as chip:
        got = check(chip, built, 7, 11)
        check(chip, built.folder, 5, 9, steps=[9, 1, 8, 3, 5], every=4)
    good = got.diverged < 0
    assert good.sum() >= 3
    assert got.converged[good].all()
    assert set(np.unique(got.iterations[good])) >= {1.0, 2.0}
    exact = Rollout(ARM, steps=11, dt=0.01, integrator="position_based")(*starts(7, 11))
    np.testing.assert_allclose(got.q[good], exact.q[good], atol=2e-3)
    again = build("position_based", tmp_path)
    assert again.design == built.design
    assert np.array_equal(messages(again.hardware.schedule), messages(built.hardware.schedule))
    assert "cycles at most" in (built.folder / "datasheet.md").read_text()


def test_position_based_steps_with_forces_run_on_a_core(tmp_path: Path) -> None:
    """Such a step has no energy: the search accepts a step if the largest force that is left falls."""
    forces = [Drag((0.2, 0.1)), Limits(stiffness=20.0)]
    built = build("position_based", tmp_path, dt=0.02, forces=forces)
    with dynagate.open(built) as chip:
        got = check(chip, built, 7, 11)
    good = got.diverged < 0
    assert good.sum() >= 3
    assert got.converged[good].all()
    arrays = starts(7, 11)
    exact, free = (
        Rollout(ARM, steps=11, dt=0.02, integrator="position_based", forces=acting)(*arrays) for acting in (forces, [])
    )
    np.testing.assert_allclose(got.q[good], exact.q[good], atol=2e-3)
    assert np.abs(free.q[good] - exact.q[good]).max() > 0.01


def test_a_core_takes_the_options_of_an_integrator(tmp_path: Path) -> None:
    """An object and its text are the same design; the tolerance is an option of the design."""
    by_object = build(VariationalIntegrator(guess=4, tolerance=1e-4), tmp_path, 4, dt=1e-3)
    by_text = build("VariationalIntegrator(guess=4)", tmp_path, 4, dt=1e-3, tolerance=1e-4)
    assert by_object.design == by_text.design
    assert by_object.design.options["integrator"] == "variational(guess=4)"
    assert by_object.design.options["tolerance"] == 1e-4
    with dynagate.open(by_object.folder, device="fixed") as chip:
        moved = chip(*starts(3, 4))
    plain = build("variational(guess=3)", tmp_path, 4, dt=1e-3, tolerance=1e-4)
    assert plain.design.options["integrator"] == "variational"
    with dynagate.open(plain, device="fixed") as chip:
        assert not np.array_equal(chip(*starts(3, 4)).q, moved.q)


def test_variational_steps_replay_as_the_integers(tmp_path: Path) -> None:
    options = AlgorithmOptions(integrator="variational", dt=1e-3, tolerance=1e-5)
    built = dynagate.build(
        ARM,
        "rollout",
        units=4,
        integrator="variational",
        dt=1e-3,
        tolerance=1e-5,
        folder=tmp_path,
        policy=Policy(samples=512),
    )
    formatted = built.formatted
    assert isinstance(formatted, FormattedLoop)
    motion, (q, qd, tau) = ChipMotion.of(ARM, options, 24), starts(6, 4)
    states = integers_of(formatted, motion.begun(q, qd))
    loop, memory = LoopTrajectories(formatted, states), Memory()
    for iteration in range(4):
        check_iteration(
            loop, built.hardware.schedule, memory, states, integers_of(formatted, {"tau": tau[:, iteration]})
        )


def test_a_variational_step_in_integers_ends_where_its_residual_is_small() -> None:
    """Words of 24 bits have bits for the residual at the tolerance, although first ones are far larger."""
    options = AlgorithmOptions(integrator="variational", dt=0.01)
    options, formatted = motion_and_formats(ARM, options, Region.of(ARM), Policy(samples=512))
    motion, (q, qd, tau) = ChipMotion.of(ARM, options, 24, options.tolerance), starts(200, 1)
    assert options.tolerance is not None
    assert options.tolerance <= 1e-5
    values, flagged = LoopTrajectories(formatted, integers_of(formatted, motion.begun(q, qd))).advance(
        integers_of(formatted, {"tau": tau[:, 0]})
    )
    fields = ("residual_of_step", "iterations_of_step", "failures")
    residual, iterations, failed = (values_of(values[name], ())[~flagged] for name in fields)
    assert not failed.any()
    assert (residual <= 1.0).all()
    assert np.median(residual) > 0.05
    assert (iterations <= 8).all()
    assert set(np.unique(iterations)) >= {2.0, 3.0, 4.0}
    exact = Rollout(ARM, steps=1, dt=0.01, integrator="variational", device="numpy")(q, qd, tau).qd[~flagged, 1]
    errors = abs(values_of(values["qd_next"], (ARM.nv,))[~flagged] - exact).max(axis=1)
    assert np.median(errors) < 1e-3


SPREAD = """
import numpy as np
from dynagate.hw.processor.compiler.motion import spread
class Observed:
    names = [f"x{k}" for k in range(8)]
    inputs = {"graph": [{name: np.zeros((4, 1)) for name in names}]}
spread(Observed, dict.fromkeys(Observed.names, 1.0), 0)
print([array.ravel().tolist() for array in Observed.inputs["graph"][0].values()])
"""


def test_formats_do_not_depend_on_the_hashes_of_names() -> None:
    """Python orders sets of text anew in each process; the numbers that formats come from stay the same."""
    texts = {
        subprocess.run(
            [sys.executable, "-c", SPREAD], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1


@pytest.mark.parametrize("name", ["iiwa14", "light"])
def test_short_steps_become_programs(name: str, tmp_path: Path) -> None:
    """At 5 ms the squares of the first residuals are far above those of the last."""
    robot = drawn_robot(KINDS[name](np.random.default_rng(3), 5), tmp_path) if name in KINDS else robots.load(name)
    options = AlgorithmOptions(integrator="variational", dt=0.005, tolerance=2.56e-6)
    _, formatted = motion_and_formats(robot, options, Region.of(robot), Policy(samples=256))
    angle = angles_of(formatted.graphs(), 24)
    assert len(loop_instructions(formatted.mapped(lambda graph: fused(graph, angle))).blocks) == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"integrator": "rk4", "tolerance": 1e-3},
            r"^tolerance=0\.001 with integrator='rk4'; expected one that solves",
        ),
        ({"integrator": "leap"}, r"^integrator 'leap'; expected one of euler, .*, variational, position_based, or"),
        ({"integrator": None, "tolerance": 1e-3}, r"^tolerance=0\.001 with integrator=None; expected one that solves"),
        ({"tolerance": -1.0}, r"^tolerance -1\.0; expected a number of more than 0 \[DG-"),
        ({"linearize": True}, r"^integrator 'variational' takes no linearize; expected a method with derivatives"),
        ({"variable_dt": True}, r"^integrator 'variational' takes no variable_dt; expected a constant time step \[DG-"),
        (
            {"integrator": "position_based(order=4)"},
            r"^integrator 'position_based\(order=4\)': order 4; expected 2 or 3",
        ),
        (
            {"integrator": "variational(guess=5)"},
            r"^integrator 'variational\(guess=5\)': guess 5; expected 1, 2, 3 or 4",
        ),
        ({"integrator": "variational(guess=4"}, r"^integrator 'variational\(guess=4': '\(' was never closed"),
        (
            {"integrator": "variational(tolerance=1e-5)", "tolerance": 1e-5},
            r"^tolerance=1e-05 and integrator='variational\(tolerance=1e-5\)'; expected one tolerance \[DG-",
        ),
        ({"forces": ["Servo(1.0, 0.1)"]}, r"takes the input 'target' of each step, for which a chip has no place"),
    ],
    ids=str,
)
def test_what_a_motion_on_a_core_does_not_take(options: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=text):
        build(**{"integrator": "variational", "folder": tmp_path, **options})
    assert not list(tmp_path.iterdir())


def test_a_tolerance_that_no_step_meets_is_told(tmp_path: Path) -> None:
    region = Region.of(ARM, velocity=1e-3)  # every step leaves it
    with pytest.raises(
        ToleranceError, match=r"^no step of two_joint_arm from its region converges within it; expected"
    ):
        dynagate.build(ARM, "rollout", units=4, region=region, folder=tmp_path, integrator="variational", dt=0.1)
    with pytest.raises(ArgumentError, match=r"^integrator 'variational' of a datapath; expected a program"):
        dynagate.build(ARM, "rollout", ii=4, folder=tmp_path, integrator="variational")


@pytest.mark.parametrize(
    ("dt", "text"),
    [
        (
            1e-3,
            "in steps of 0.001 s, rounding leaves a residual of 2.4e-02, above the largest tolerance, 6.6e-03; "
            "expected words of 26 bits, dt=0.002, or a tolerance of your own",
        ),
        (
            1e-5,
            "in steps of 1e-05 s, rounding leaves a residual of 2.4e+02, above the largest tolerance, 6.6e-03; "
            "expected dt=0.0021, or a tolerance of your own",
        ),
    ],
)
def test_steps_too_short_for_a_word_are_refused_before_any_work(dt: float, text: str, tmp_path: Path) -> None:
    """Positions are subtracted twice and divided by dt²."""
    with pytest.raises(ToleranceError, match=re.escape(f"converge in words of 24 bits: {text}")):
        build(integrator="position_based", dt=dt, folder=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("word", "dt"), [(26, 1e-3), (24, 2e-3)])
def test_words_and_steps_that_the_refusal_suggests_are_accepted(word: int, dt: float) -> None:
    options = AlgorithmOptions(integrator="position_based", dt=dt)
    options, _ = motion_and_formats(ARM, options, Region.of(ARM, velocity=2.0), Policy(word=word, samples=256))
    assert options.tolerance is not None


def test_steps_of_order_3_in_integers_are_those_of_float64() -> None:
    """In words of 24 bits they keep the motion within the tolerance, from one step to the next."""
    options = AlgorithmOptions(integrator="position_based(order=3)", dt=0.02)
    region = Region.of(ARM, velocity=3.0)
    options, formatted = motion_and_formats(ARM, options, region, Policy(samples=512))
    motion, exact = (ChipMotion.of(ARM, options, bits, options.tolerance) for bits in (24, None))
    q, qd, tau = starts(60, 3)
    integers = LoopTrajectories(formatted, integers_of(formatted, motion.begun(q, qd)))
    for step in range(3):
        values, flagged = integers.advance(integers_of(formatted, {"tau": tau[:, step]}))
    good = ~flagged & (values_of(values["failures"], ()) == 0.0)
    assert good.mean() > 0.8
    expected = exact.exact(q, qd, tau)["q_next"][:, -1]
    errors = np.abs(values_of(values["q_next"], (2,)) - expected)[good].max(axis=1)
    assert np.median(errors) < 3e-5


STIFF = AlgorithmOptions(integrator="position_based", dt=0.02, forces=("Limits(stiffness=2000.0)",))
"""Steps that need words of 24 bits."""


def test_steps_that_do_not_converge_report_where_and_the_words_that_do() -> None:
    region = Region.of(ARM, velocity=8.0, acceleration=80.0)
    with pytest.raises(
        ToleranceError,
        match=r"converge in words of 18 bits, even to tolerance 6.6e-03: \d+\.\d% of the trajectories stay above it, "
        r"most of them in step \d, with a residual of \d+.* times the tolerance; expected words of 2[24] bits, or a",
    ):
        motion_and_formats(ARM, STIFF, region, Policy(word=18, samples=512))


@pytest.mark.long
@pytest.mark.parametrize("method", ["variational", "position_based"])
@pytest.mark.parametrize("name", ["two_joint_arm", "iiwa14", "hyq"])
def test_the_usual_core_runs_the_methods(name: str, method: str, tmp_path: Path) -> None:
    request = DesignRequest(robots.load(name), "rollout", algorithm=AlgorithmOptions(dt=2e-3, integrator=method))
    report = report_design(request, 4, folder=tmp_path, checks=Checks(states=9, steps=10))
    assert report.passed
    assert "iterations a step" in report.text()
    solved = report.section(SolvedSteps)
    assert solved.failed <= 0.01 * solved.steps


@pytest.mark.long
def test_steps_from_the_region_s_border_fit(tmp_path: Path) -> None:
    """They leave it at once, by little, and formats are for them too."""
    robot, region = robots.load("iiwa14"), Region.of(robots.load("iiwa14"))
    options = AlgorithmOptions(integrator="variational", dt=1e-3, tolerance=1e-5)
    _, formatted = motion_and_formats(robot, options, region, Policy())
    motion = ChipMotion.of(robot, options, 24)
    limits = region.sample("forward_dynamics", 200, 3, kind="limits")
    first = LoopTrajectories(formatted, integers_of(formatted, motion.begun(limits["q"], limits["qd"])))
    _, flagged = first.advance(integers_of(formatted, {"tau": limits["tau"]}))
    assert flagged.mean() < 0.02


@pytest.mark.long
def test_the_command_runs_a_method(tmp_path: Path) -> None:
    options = ("--units", "4", "--function", "rollout", "--integrator", "variational", "--steps", "9", "--states", "9")
    done = CliRunner().invoke(main, ["run", "two_joint_arm", *options, "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "two_joint_arm rollout, 24-bit words, 4 units, variational, 0.001 s a step" in done.output
    assert done.output.splitlines()[-1].startswith("PASS: ")
