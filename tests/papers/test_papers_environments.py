"""Walking as Gymnasium environments: the checker, seeds, both simulators, falls, what is refused, and training."""

from __future__ import annotations

import json
import runpy
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from dynagate import evaluate, trace
from dynagate.base.errors import Error
from dynagate.robot import RobotWarning
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from examples.papers.position_based.environment_speed import compared
from examples.papers.position_based.environments import CONTROL, Walking, WalkingBatch
from examples.papers.position_based.legged import LEGGED
from examples.papers.position_based.walking import WalkingTask

pytestmark = pytest.mark.long  # Numba compiles for half a minute

SIMULATORS = ("pbfd", "newton-euler", "contact")
FREEDOMS = {"hopper": 6, "walker": 14, "spider": 18}
EXAMPLES = Path(__file__).parents[2] / "examples" / "papers" / "position_based"


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("robot", LEGGED)
def test_the_checker_of_gymnasium_passes(robot: str, simulator: Any) -> None:
    assert LEGGED[robot]().robot.nv == FREEDOMS[robot]
    env = gymnasium.make(f"dynagate/{robot.capitalize()}-v0", simulator=simulator, disable_env_checker=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*observation space (min|max)imum value is.*infinity")
        check_env(env.unwrapped, skip_render_check=True)


def moved(env: Walking, seed: int, actions: int = 4) -> np.ndarray:
    random = np.random.default_rng(0)
    rows = [env.reset(seed=seed)[0]]
    rows += [env.step(random.uniform(-1.0, 1.0, env.action_space.shape))[0] for _ in range(actions)]
    return np.array(rows)


def test_a_seed_makes_the_same_episode() -> None:
    env, other = Walking("spider"), Walking("spider")
    assert np.array_equal(moved(env, 3), moved(other, 3))
    assert not np.array_equal(moved(env, 3), moved(env, 4))


@pytest.mark.parametrize(("simulator", "batch"), [*((each, False) for each in SIMULATORS), ("pbfd", True)])
def test_limits_that_are_passed_are_said_once(simulator: Any, batch: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hopper falls; its knee has a narrow range, its hip a weak motor."""
    own = LEGGED["hopper"]()
    changed = {"knee": {"lower": -0.05, "upper": 0.05}, "hip": {"effort": 1.0}}
    joints = [replace(link.joint, **changed.get(link.joint.name, {})) for link in own.robot.links]
    links = tuple(replace(link, joint=joint) for link, joint in zip(own.robot.links, joints, strict=True))
    limited = replace(own, robot=replace(own.robot, links=links))
    monkeypatch.setitem(LEGGED, "hopper", lambda: limited)
    env = WalkingBatch("hopper", 2, simulator=simulator) if batch else Walking("hopper", simulator=simulator)
    env.reset(seed=1)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for _ in range(5):
            env.step(np.ones(env.action_space.shape, np.float32))
    texts = [str(each.message) for each in given if issubclass(each.category, RobotWarning)]
    assert sorted(text.split(" of robot")[0] for text in texts) == ["joint 'hip'", "joint 'knee'"]
    assert any("is given more than its limit of effort" in text for text in texts)


@pytest.mark.parametrize("robot", LEGGED)
def test_stances_stand_and_pushes_agree(robot: str) -> None:
    """0.15 s after a push of 0.3 m/s all simulators have moved the base about as far, and it stands."""
    bases = []
    for simulator in SIMULATORS:
        env = Walking(robot, simulator=simulator)  # type: ignore[arg-type]
        env.reset(seed=0, options={"push": 0.3, "noise": 0.0})
        for _ in range(3):
            _, reward, fallen, _, info = env.step(np.zeros(env.action_space.shape, np.float32))
            assert info["converged"]
            assert not fallen
            assert reward > 0.75
        bases.append(env.q[[0, env.task.legged.height]])
    assert bases[1][0] > 0.005
    assert np.isclose(bases[0][0], bases[1][0], rtol=0.5)
    assert np.abs(bases[0][1] - bases[1][1]) < 0.025  # PBFD yields under the weight, dry friction's contacts do not
    np.testing.assert_allclose(bases[2], bases[1], atol=5e-3)  # the same law


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("robot", LEGGED)
def test_in_the_air_a_robot_falls_freely(robot: str, simulator: Any) -> None:
    """Nothing holds the base: away from the ground the center of mass keeps its speed along x and falls with g."""
    task = WalkingTask(robot, simulator, 0.005, 1.0)
    own, height = task.legged.robot, task.legged.height
    q, qd = np.tile(task.legged.stance, (3, 1)), np.zeros((3, own.nv))
    q[:, 0] = 0.0, 1.0, -5.0
    q[:, height] += 2.0
    qd[:, 0] = 2.0
    random, moves = np.random.default_rng(0), trace(own, "center_of_mass")
    begin = evaluate(moves, {"q": q})["center_of_mass"]
    seconds = 6 * CONTROL
    for action in random.uniform(-1.0, 1.0, (6, task.motors)):
        q, qd, _, _, converged = task.step(q, qd, np.tile(action, (3, 1)))
        assert converged.all()
    traveled = evaluate(moves, {"q": q})["center_of_mass"] - begin
    expected = [2.0 * seconds, 0.0, -0.5 * 9.81 * seconds**2]
    np.testing.assert_allclose(traveled, np.tile(expected, (3, 1)), atol=0.01)


def test_the_end_of_an_episode() -> None:
    env = Walking("hopper", span=2 * CONTROL)
    env.reset(seed=0)
    still = np.zeros(3, np.float32)
    assert [env.step(still)[3] for _ in range(2)] == [False, True]
    for limit in ({"tilt": 0.0}, {"least": 2.0}):
        env = Walking("hopper")
        env.task.legged = replace(env.task.legged, **limit)
        env.reset(seed=0)
        _, reward, fallen, _, _ = env.step(still)
        assert fallen
        assert reward < 0.5


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_a_state_that_is_lost_ends_the_episode(simulator: Any) -> None:
    """Numbers that are not finite, or speeds beyond 1000, never reach the observation."""
    env = Walking("walker", simulator=simulator)
    env.reset(options={"push": 1e6})
    observation, reward, fallen, _, info = env.step(np.zeros(8, np.float32))
    assert fallen
    assert not info["converged"]
    assert np.isfinite(observation).all()
    assert np.isfinite(reward)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"robot": "horse"}, "robot 'horse'; expected one of hopper, walker, spider"),
        ({"simulator": "mujoco"}, "simulator 'mujoco'; expected one of pbfd, newton-euler, contact"),
        ({"dt": 0.02}, "dt is 0.02 s; expected 0.05 s over a whole number"),
        ({"dt": 0.0}, "dt is 0; expected a finite number above 0"),
        ({"span": 0.01}, "span is 0.01 s; expected a finite number, 0.05 or more"),
        ({"span": float("inf")}, "span is inf s; expected a finite number, 0.05 or more"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(Error, match=text):
        Walking(**options)


def test_options_of_reset_that_are_refused() -> None:
    with pytest.raises(Error, match="reset has no option shove; expected push, noise"):
        Walking().reset(options={"shove": 1.0})
    with pytest.raises(Error, match="reset has noise -1; expected a finite number, for noise 0 or more"):
        Walking().reset(options={"noise": -1.0})


def test_actions_that_are_refused() -> None:
    for action in (np.zeros(1), np.full(3, np.nan)):
        with pytest.raises(Error, match=r"action is .*; expected finite numbers of shape \(3,\)"):
            Walking().step(action)


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("robot", LEGGED)
def test_a_batch_is_as_many_environments(robot: str, simulator: Any) -> None:
    """Gymnasium's own vector of single ones, with episodes that fall and that end in time."""
    count, options = 5, {"push": 1.0, "noise": 0.1}

    def single() -> Walking:
        env = Walking(robot, simulator=simulator, span=0.5)
        env.task.legged = replace(env.task.legged, tilt=0.08)
        return env

    singles = SyncVectorEnv([single] * count, autoreset_mode=AutoresetMode.SAME_STEP)
    batch = gymnasium.make_vec(f"dynagate/{robot.capitalize()}-v0", count, simulator=simulator, span=0.5)
    assert isinstance(batch, WalkingBatch)
    batch.task.legged = replace(batch.task.legged, tilt=0.08)
    assert batch.observation_space == singles.observation_space
    assert batch.action_space == singles.action_space
    random, ends = np.random.default_rng(2), np.zeros(2, int)
    np.testing.assert_array_equal(*(envs.reset(seed=7, options=options)[0] for envs in (batch, singles)))
    for _ in range(24):
        actions = random.uniform(-1.5, 1.5, batch.action_space.shape) * [[0.0], [0.0], [1.0], [1.0], [1.0]]
        ours, theirs = (envs.step(actions) for envs in (batch, singles))
        for one, other in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        ended = ours[2] | ours[3]
        np.testing.assert_array_equal(ours[4].get("_final_obs", np.zeros(count, bool)), ended)
        for i in np.flatnonzero(ended):
            np.testing.assert_allclose(ours[4]["final_obs"][i], theirs[4]["final_obs"][i], rtol=1e-5, atol=1e-6)
        ends += ours[2].sum(), ours[3].sum()
    assert ends.all(), f"{ends}: expected falls, and episodes that end in time"


def test_what_a_batch_refuses() -> None:
    for count in (0, 2.0, True):
        with pytest.raises(Error, match=f"num_envs is {count}; expected a whole number, 1 or more"):
            WalkingBatch("hopper", count)
    with pytest.raises(Error, match="robot 'horse'; expected one of hopper, walker, spider"):
        WalkingBatch("horse", 2)
    envs = WalkingBatch("hopper", 2)
    with pytest.raises(Error, match=r"action is array.*; expected finite numbers of shape \(2, 3\)"):
        envs.step(np.zeros(3))
    with pytest.raises(Error, match="reset has no option shove; expected push, noise"):
        envs.reset(options={"shove": 1.0})


def run_script(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    monkeypatch.setattr(sys, "argv", [name, "--short", "--folder", str(folder), *arguments])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert (folder / f"{name}.png").stat().st_size > 10_000
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["loky", "ray"])
def test_training_in_short(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PPO on PBFD, tested on both simulators; the same with its environments on Ray workers."""
    pytest.importorskip("stable_baselines3")
    if backend == "ray":
        pytest.importorskip("ray")
    (row,) = run_script("learn", tmp_path, monkeypatch, "--backend", backend, "--jobs", "1")["robots"]
    assert row["actions"] == 128
    assert set(row["after"]) == {"pbfd", "newton-euler"}
    assert row["after"] != row["before"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_rollouts_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The swimmer's search is the same on Ray workers."""
    pytest.importorskip("ray")
    here = run_script("swimmer", tmp_path, monkeypatch)
    there = run_script("swimmer", tmp_path, monkeypatch, "--backend", "ray", "--jobs", "2")
    assert there == here


@pytest.mark.long  # a timing
def test_one_robot_is_as_fast_as_gymnasium_s_of_mujoco() -> None:
    """In simulated time. The spider has four motors more than the ant, and is slower."""
    pytest.importorskip("mujoco")
    for name in ("Hopper", "Walker"):
        ours, theirs = compared(name, turns=3, count=200)
        assert ours >= theirs
