"""Loops as programs of a processor: rollouts whose states stay in the core, step by step equal to the integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Policy, Region, Robot, robots
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.design import files
from dynagate.design.design import DesignRecord
from dynagate.design.files import DesignError
from dynagate.design.program import ProgramBody
from dynagate.design.words import FIXED
from dynagate.fixedpoint.models.evaluate import quantize_inputs
from dynagate.fixedpoint.models.feedback import FeedbackModel
from dynagate.forces.options import AlgorithmOptions
from dynagate.host import RolloutDevice
from dynagate.host.openers import executor_of
from dynagate.host.report import Checks, report_design
from dynagate.host.report.motions import MotionMeasurement
from dynagate.host.report.rules import passed
from dynagate.host.report.sections import Pace
from dynagate.hw.designs import Design
from dynagate.hw.processor.checker.replay import Memory, replay
from dynagate.hw.processor.compiler.check import checked_schedule
from dynagate.hw.processor.compiler.instructions import OperandSource
from dynagate.hw.processor.compiler.listing import listing
from dynagate.hw.processor.compiler.scheduled import MAX_STEPS_PER_SAMPLE, ScheduledInstruction
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.request import DesignRequest
from dynagate.hw.rtl.axi import Axi
from dynagate.integrators.step import CARRY

from tests.replays import by_result
from tests.robots import floating_robot

ARM = robots.load("two_joint_arm")
SMALL = Core(units=2, place_bits=7, program_bits=10)
"""As of tests.processor.test_processor."""


def build(robot: Robot, folder: Path, core: Core | int = SMALL, **options: Any) -> Design:
    options.setdefault("dt", 0.02)
    region = Region.of(robot, velocity=3.0)
    policy = Policy(samples=128)
    return dynagate.build(robot, "rollout", units=core, policy=policy, region=region, folder=folder, **options)


def starts(built: Design, batch: int, longest: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States and torques, which change from step to step."""
    states = built.region.states(built.graph, batch, seed, "uniform")
    factors = np.random.default_rng(seed).uniform(0.0, 1.0, (batch, longest, 1))
    return states["q"], states["qd"], states["tau"][:, None] * factors


def check(chip: Any, built: Design, batch: int, longest: int, **options: Any) -> int:
    """Trajectories equal those of the integers; returns how many diverged."""
    arrays = starts(built, batch, longest)
    assert isinstance(chip, RolloutDevice)
    got = chip(*arrays, **options)
    with dynagate.open(built, device="fixed") as integers:
        expected = integers(*arrays, **options)
    for name in ("q", "qd", "a", "b", "diverged"):
        if getattr(expected, name) is not None:
            np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))
    return int((got.diverged >= 0).sum())


@pytest.mark.parametrize(
    ("floating", "options"),
    [
        pytest.param(False, {"integrator": "rk4"}, marks=pytest.mark.long),
        (False, {"linearize": True}),
        pytest.param(True, {}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_a_replayed_loop_equals_the_integers(floating: bool, options: dict[str, Any], tmp_path: Path) -> None:
    built = build(floating_robot(2, tmp_path) if floating else ARM, tmp_path, 4, **options)
    scheduled = built.hardware.schedule
    inputs = quantize_inputs(built.formatted, built.region.states(built.graph, 15, 1, "uniform"))
    carried = {i for port in built.graph.inputs if port.name in CARRY.values() for i in port.nodes}
    loop = FeedbackModel(built.formatted, CARRY, {i: inputs[i] for i in carried})
    memory: Memory = {}
    flagged = np.zeros(15, bool)
    for _ in range(9):
        step = loop.advance({i: x for i, x in inputs.items() if i not in carried})
        replayed = replay(scheduled, inputs, memory)
        flagged |= replayed.overflow
        value = by_result(scheduled, replayed)
        for i in built.graph.result_nodes:
            np.testing.assert_array_equal(value[scheduled.instructions.outputs[i]], step.values[i])
        np.testing.assert_array_equal(flagged, step.flagged)


def test_a_loop_that_forgets_its_state_is_caught(tmp_path: Path) -> None:
    scheduled = build(ARM, tmp_path).hardware.schedule
    (kept, *_) = sorted(scheduled.instructions.pinned)
    own = scheduled.by_result[kept]
    assert own.place is not None

    def moved(slot: ScheduledInstruction) -> ScheduledInstruction:
        """Another value of the same memory in the place that the state is kept in."""
        here = slot.bank == own.bank and slot.place is not None and slot.cycle > own.cycle
        return replace(slot, place=own.place) if here and slot.instruction.result not in kept_ones else slot

    kept_ones = scheduled.instructions.pinned
    slots = tuple(sorted((moved(slot) for slot in scheduled.slots), key=lambda slot: (slot.cycle, slot.unit)))
    if slots == scheduled.slots:  # nothing follows it: let it be written before the step before was read
        state = min(slot.cycle for slot in slots if OperandSource(kept, 0, True) in slot.instruction.sources)
        early = replace(own, cycle=max(state - scheduled.core.latency, 0))
        slots = tuple(early if slot is own else slot for slot in slots)
    with pytest.raises(AssertionError, match="overwritten|holds|two instructions"):
        checked_schedule(replace(scheduled, slots=slots))


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Design:
    return build(ARM, tmp_path_factory.mktemp("loops"))


@pytest.fixture
def chip(arm: Design) -> Iterator[Any]:
    with dynagate.open(arm) as opened:
        yield opened


def test_rollouts_equal_the_integers(chip: Any, arm: Design, tmp_path: Path) -> None:
    """Of fewer steps than a sample has, of several samples, and of steps of their own; a function in between."""
    assert arm.hardware.schedule.steps == MAX_STEPS_PER_SAMPLE == 8
    assert (
        "| limits | positions of 2 joints are not kept: the force `Stops` or `Limits`"
        in (arm.folder / "datasheet.md").read_text()
    )
    for longest in (1, 8, 9, 21):
        check(chip, arm, 7, longest)
    check(chip, arm, 6, 20, steps=[1, 5, 8, 9, 20, 3], every=4)
    check(chip, arm, 6, 20, last=True)
    assert 0 < check(chip, arm, 12, 30) < 12  # some come out of their formats
    one = build(ARM, tmp_path, linearize=True)
    with dynagate.open(one) as linearized:
        check(linearized, one, 5, 11)


def test_rollouts_wait_for_their_streams(arm: Design) -> None:
    with dynagate.open(arm, pauses=(0.4, 0.8), seed=2) as chip:
        assert check(chip, arm, 5, 60) > 0


@pytest.mark.long
def test_cores_go_on_with_trajectories_of_their_own(arm: Design) -> None:
    with RolloutDevice(executor_of(arm, "sim", axi=Axi(64, words=FIXED), cores=3)) as chip:  # type: ignore[arg-type]
        for batch in (1, 3, 7):
            check(chip, arm, batch, 19)


@pytest.mark.long
@pytest.mark.parametrize("name", ["iiwa14", "hyq"])
@pytest.mark.parametrize("options", [{}, {"integrator": "rk4", "dt": 0.005}, {"linearize": True}], ids=str)
def test_the_usual_core_rolls_out(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    built = build(robots.load(name), tmp_path, 4, **options)
    with dynagate.open(built) as chip:
        check(chip, built, 4, 10)


def with_loop(built: Design, **changes: Any) -> DesignRecord[ProgramBody]:
    """The record of a program with other fields of its loop."""
    body = built.design.body
    assert body.loop is not None
    return replace(built.design, body=replace(body, loop=replace(body.loop, **changes)))


def test_a_loop_s_folder_is_read_again(arm: Design, tmp_path: Path) -> None:
    assert files.load_program(arm.folder) == arm.design
    assert "start" in listing(arm.hardware.schedule)
    assert "previous " in listing(arm.hardware.schedule)
    with dynagate.open(arm.folder, device="fixed") as again:
        check(again, arm, 3, 5)
    broken = files.sealed(with_loop(arm, steps=9))
    (tmp_path / files.FILE).write_text(files.text_of(broken))
    with pytest.raises(
        DesignError, match=r"loop has inputs beyond its stream, or two .*; loop has results beyond its stream"
    ):
        files.load_program(tmp_path)
    broken = files.sealed(with_loop(arm, carry=(("q_next", "tau0"),)))
    (tmp_path / files.FILE).write_text(files.text_of(broken))
    with pytest.raises(DesignError, match=r"loop carries 'q_next' to 'tau0'; expected an output and an input of one"):
        files.load_program(tmp_path)
    with pytest.raises(ArgumentError, match=r"overflow='raise' of a rollout; expected 'mask'"):
        dynagate.open(arm, overflow="raise")


def test_the_report_of_a_rollout(tmp_path: Path) -> None:
    request = DesignRequest(ARM, "rollout", algorithm=AlgorithmOptions(dt=0.01))
    report = report_design(request, SMALL, folder=tmp_path, checks=Checks(states=9, steps=16))
    text = report.text()
    assert text.startswith("two_joint_arm rollout, 24-bit words, 2 units, semi_implicit_euler, 0.01 s a step")
    assert "9 trajectories of 16 steps: integers and flags equal" in text
    assert "  loop            8 steps in a sample; " in text
    assert report.passed
    assert text.splitlines()[-1].startswith("PASS: ")
    pace = report.section(Pace)
    assert not passed(replace(report.section(MotionMeasurement), exact=False).rules)
    assert not passed(replace(pace, cycles=pace.limit + 20).rules)


@pytest.mark.long
def test_the_command_rolls_out(tmp_path: Path) -> None:
    options = ("--units", "4", "--function", "rollout", "--dt", "0.01", "--steps", "12", "--states", "9")
    done = CliRunner().invoke(main, ["run", "two_joint_arm", *options, "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1].startswith("PASS: ")
