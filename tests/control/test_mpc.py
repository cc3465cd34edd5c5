"""The closed loop: the same controller on exact and on rounded derivatives."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Region, Robot, RobotError, robots
from dynagate.cli import main
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.mpc import reach as module
from dynagate.mpc.experiment import REACHES, exact, experiment, table
from dynagate.mpc.problem import Reach, solve
from dynagate.mpc.reach import drawn, find
from dynagate.mpc.receding import ClosedLoop, IlqrPlanner

ARM = robots.load("two_joint_arm")


def test_reaches_the_goal_with_exact_derivatives() -> None:
    found = solve(ARM, REACHES["two_joint_arm"], exact(ARM))
    assert found.success
    np.testing.assert_allclose(found.states[-1], [*REACHES["two_joint_arm"].goal, 0.0, 0.0], atol=0.02)


@pytest.mark.long
def test_wrong_derivatives_take_longer() -> None:
    """The experiment feels what it is given."""

    def wrong(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {key: 0.5 * value for key, value in exact(ARM)(state).items()}

    reach = REACHES["two_joint_arm"]
    assert solve(ARM, reach, wrong).iterations > solve(ARM, reach, exact(ARM)).iterations


@pytest.mark.long
def test_few_bits_reach_the_same_cost_and_too_few_do_not() -> None:
    settings = {"global": (8, 18), "word": (10,), "optimized": (0.1,)}
    reference, outcomes = experiment(ARM, REACHES["two_joint_arm"], Region.of(ARM), settings)
    found = {(o.policy, o.setting): o for o in outcomes}
    assert not found["global", 8].same
    for key in (("global", 18), ("word", 10), ("optimized", 0.1)):
        assert found[key].same
        assert found[key].tracking <= 1.2 * found["float64", 64].tracking
    text = table(reference, outcomes)
    assert text.startswith("float64: converged in")
    assert len(text.splitlines()) == 2 + len(outcomes)


def test_datapath_in_the_loop_does_what_its_integers_do() -> None:
    settings = {"word": (11,), "rtl": (11,)}
    _, (_, integers, datapath) = experiment(ARM, REACHES["two_joint_arm"], Region.of(ARM), settings)
    assert datapath == replace(integers, policy="rtl")
    assert integers.same


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's handler of it, which a shell in the background takes away."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_solving_is_heard_after_it() -> None:
    """An exception in a model ends the process: boost throws where nothing catches."""

    def interrupted(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        signal.raise_signal(signal.SIGINT)
        return derivatives(state)

    derivatives = exact(ARM)
    with pytest.raises(KeyboardInterrupt):
        solve(ARM, REACHES["two_joint_arm"], interrupted)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert solve(ARM, REACHES["two_joint_arm"], derivatives).success


def test_robots_that_cannot_reach_are_named() -> None:
    hyq = robots.load("hyq", floating_base=True)
    with pytest.raises(RobotError, match="robot 'hyq' has quaternions; expected joints of one degree of freedom"):
        solve(hyq, REACHES["two_joint_arm"], exact(hyq))
    with pytest.raises(RobotError, match="needs a start and a goal of 2 angles for robot 'two_joint_arm'"):
        solve(ARM, Reach((0.0,), (1.0,)), exact(ARM))
    with pytest.raises(RobotError, match="robot 'hyq' has quaternions; expected joints of one degree of freedom"):
        drawn(hyq, Region.of(hyq, velocity={"root_joint": 1.0}), 1)


def test_reaches_are_drawn_by_seed_inside_the_limits() -> None:
    hyq = robots.load("hyq")
    region = Region.of(hyq)
    low, high = np.array(region.lower), np.array(region.upper)
    slow = Region.of(hyq, velocity=1.0)
    step = np.subtract(drawn(hyq, slow, 0).goal, drawn(hyq, slow, 0).start)
    assert 0.05 < np.abs(step).max() <= 0.1
    reaches = [drawn(hyq, region, seed) for seed in range(20)]
    assert drawn(hyq, region, 3) == reaches[3]
    assert len({reach.start for reach in reaches}) == 20
    for reach in reaches:
        start, goal = np.array(reach.start), np.array(reach.goal)
        for posture in (start, goal):
            assert ((low < posture) & (posture < high)).all()
        assert (np.abs(goal - start) <= 0.1 * np.array(region.velocity)).all()
        assert reach.knots == 50
        assert (np.array(reach.noise) <= 1.0).all()
    changes = {"start": {"lf_kfe": -1.0}, "goal": {"rh_haa": 0.1}, "seconds": 0.5}
    own = drawn(hyq, region, 3, **changes)
    assert (own.start[2], own.goal[9], own.knots) == (-1.0, 0.1, 25)
    assert own.start[:2] + own.start[3:] == reaches[3].start[:2] + reaches[3].start[3:]
    with pytest.raises(RobotError, match=r"goal of joint 'rh_haa' is 7; expected -1.22173 to 0.436332"):
        drawn(hyq, region, 3, goal={"rh_haa": 7.0})
    with pytest.raises(RobotError, match="start names joint 'knee', which robot 'hyq' does not have"):
        drawn(hyq, region, 3, start={"knee": 1.0})


def test_a_reach_that_float64_masters_within_the_limits_is_found() -> None:
    region, derivatives = Region.of(ARM), exact(ARM)
    chosen = find(ARM, region, derivatives, 5)
    assert chosen == find(ARM, region, derivatives, 5)
    solution = solve(ARM, chosen.reach, derivatives)
    assert solution.success
    assert np.abs(solution.torques / [60.0, 30.0]).max() == pytest.approx(chosen.load)
    assert chosen.inside
    assert chosen.load <= 1.0
    assert chosen.text() == f"reach of seed {chosen.seed}, 1 s, torques up to {chosen.load:.0%} of the effort limits"


def test_seeds_are_tried_until_the_torques_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    """With weak motors the first seeds hold the arm too far from the vertical; with none that suffice, the least is
    taken and said."""
    derivatives = exact(ARM)
    by_seed = [find(ARM, Region.of(ARM), derivatives, seed) for seed in range(1, 5)]
    assert [chosen.seed for chosen in by_seed] == [1, 2, 3, 4]
    least = min(by_seed, key=lambda chosen: chosen.load)
    assert least.seed > 1
    weak = with_efforts(ARM, 1.01 * least.load)
    assert find(weak, Region.of(weak), derivatives, 1).seed == least.seed
    monkeypatch.setattr(module, "TRIES", 4)
    weaker = with_efforts(ARM, 0.5 * least.load)
    best = find(weaker, Region.of(weaker), derivatives, 1)
    assert (best.seed, best.inside) == (least.seed, False)
    assert best.text().endswith("200% of the effort limits: not within all limits, which no seed that was tried keeps")
    monkeypatch.setattr(module, "TRIES", 2)
    with pytest.raises(RobotError, match="the float64 controller converges on no reach of seeds 7 to 8; expected more"):
        find(ARM, Region.of(ARM), lambda state: {key: -x for key, x in derivatives(state).items()}, 7)


def with_efforts(robot: Robot, factor: float) -> Robot:
    """With weaker motors."""
    joints = [replace(link.joint, effort=factor * (link.joint.effort or 0.0)) for link in robot.links]
    links = zip(robot.links, joints, strict=True)
    return replace(robot, links=tuple(replace(link, joint=joint) for link, joint in links))


@pytest.mark.long
def test_command_prints_the_table_of_the_reach_that_is_kept() -> None:
    arguments = ["closed-loop", "two_joint_arm", "--global", "18", "--word", "10", "--error", "0.1"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert "the reach kept for two_joint_arm, 1 s" in lines
    assert [line.split()[0] for line in lines[-4:]] == ["float64", "global", "word", "optimized"]


@pytest.mark.long
def test_command_draws_a_reach_for_any_robot(tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf"
    file.write_text(robots.path("two_joint_arm").read_text().replace('name="two_joint_arm"', 'name="other_arm"'))
    arguments = ["closed-loop", str(file), "--policy", "word", "--word", "12"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[-5].startswith("reach of seed 1, 1 s, torques up to ")
    assert lines[-4].startswith("float64: converged in ")
    assert [line.split()[0] for line in lines[-2:]] == ["float64", "word"]
    again = CliRunner().invoke(main, [*arguments, "--seed", "1"])
    times = re.compile(r"^ *took: .*\n|\d+\.\d s\b", re.MULTILINE)
    assert times.sub("", again.output) == times.sub("", done.output)
    own = CliRunner().invoke(main, [*arguments, "--from", "elbow=1", "--to", "elbow=0.5", "--seconds", "0.5"])
    assert own.exit_code == 0, own.output
    assert "reach of seed 1, 0.5 s" in own.output
    assert own.output.splitlines()[-2:] != done.output.splitlines()[-2:]


@pytest.mark.filterwarnings("ignore:joint 'elbow' of robot 'two_joint_arm' starts beyond its limits")
def test_a_loop_with_implicit_damping_moves_the_robot_by_its_steps() -> None:
    """An explicit step of 0.02 s is unstable for a forearm with a damping of 30 N m s/rad."""
    links = [replace(link, joint=replace(link.joint, damping=d)) for link, d in zip(ARM.links, (2, 30), strict=True)]
    arm = replace(ARM, links=tuple(links))
    reach = Reach((0.3, 0.7), (-0.2, 1.0), noise=0.1)

    def reached(damping: bool) -> float:
        loop = ClosedLoop(arm, reach, 0.3, implicit_damping=damping)
        return loop.run("iLQR", IlqrPlanner(loop, 0).planned)[0].end

    assert reached(False) == np.inf
    assert reached(True) < 0.25

    loop, dt, tau = ClosedLoop(arm, reach, 0.3, implicit_damping=True), 0.02, np.array([1.0, -2.0])
    x = np.array([0.3, 0.7, 0.5, -1.0])
    moved = loop.model.step(x, tau, dt)
    pull = evaluate(trace(arm, "inverse_dynamics"), {"q": x[None, :2], "qd": x[None, 2:], "qdd": np.zeros((1, 2))})
    mass = evaluate(trace(arm, "mass_matrix"), {"q": x[None, :2]})["m"][0]
    # M (v' - v) / dt = tau - c - D v', where the inverse dynamics already holds D v
    force = tau - pull["tau"][0] - np.diag([2.0, 30.0]) @ (moved[2:] - x[2:])
    np.testing.assert_allclose(mass @ (moved[2:] - x[2:]) / dt, force, atol=1e-10)
    np.testing.assert_allclose(moved[:2], x[:2] + dt * moved[2:], atol=1e-14)
