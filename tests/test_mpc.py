"""The closed loop: the same controller on exact and on rounded derivatives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Region, RobotError, robots
from dynagate.cli import main
from dynagate.mpc.experiment import REACHES, exact, experiment, table
from dynagate.mpc.problem import Reach, solve

ARM = robots.load("two_joint_arm")


def test_reaches_the_goal_with_exact_derivatives() -> None:
    found = solve(ARM, REACHES["two_joint_arm"], exact(ARM))
    assert found.success
    np.testing.assert_allclose(found.states[-1], [*REACHES["two_joint_arm"].goal, 0.0, 0.0], atol=0.02)


def test_wrong_derivatives_take_longer() -> None:
    """The experiment feels what it is given."""

    def wrong(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {key: 0.5 * value for key, value in exact(ARM)(state).items()}

    reach = REACHES["two_joint_arm"]
    assert solve(ARM, reach, wrong).iterations > solve(ARM, reach, exact(ARM)).iterations


def test_few_bits_reach_the_same_cost_and_too_few_do_not() -> None:
    settings = {"global": (8, 18), "word": (10,), "optimised": (0.1,)}
    reference, outcomes = experiment(ARM, REACHES["two_joint_arm"], Region.of(ARM), settings)
    found = {(o.policy, o.setting): o for o in outcomes}
    assert not found["global", 8].same
    for key in (("global", 18), ("word", 10), ("optimised", 0.1)):
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


def test_robots_that_cannot_reach_are_named() -> None:
    hyq = robots.load("hyq", floating_base=True)
    with pytest.raises(RobotError, match="robot 'hyq' has quaternions; expected joints of one degree of freedom"):
        solve(hyq, REACHES["two_joint_arm"], exact(hyq))
    with pytest.raises(RobotError, match="needs a start and a goal of 2 angles for robot 'two_joint_arm'"):
        solve(ARM, Reach((0.0,), (1.0,)), exact(ARM))
    done = CliRunner().invoke(main, ["closed-loop", "hyq"])
    assert done.exit_code == 1
    assert "no reach is kept for robot 'hyq'; expected one of iiwa14, two_joint_arm" in done.output


def test_command_prints_the_table() -> None:
    arguments = ["closed-loop", "two_joint_arm", "--global", "18", "--word", "10", "--error", "0.1"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.output.splitlines()[-4:]] == ["float64", "global", "word", "optimised"]
