"""dynagate.envs: environments equal loops of single steps, and keep Gymnasium's and JAX's rules."""

from __future__ import annotations

import warnings
import webbrowser
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Robot, Rollout
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.dynamics.configuration import neutral
from dynagate.envs.batch import EnvBatch
from dynagate.envs.task import Task
from dynagate.forces import HeightField, Plane, Point
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate

from tests.jointed_bodies import LEG

gymnasium = pytest.importorskip("gymnasium")

from dynagate.envs import (  # noqa: E402
    LeggedEnv,
    ReachEnv,
    SingleEnv,
    vector,
)
from dynagate.envs.legged import legged_task  # noqa: E402
from dynagate.envs.reach import reach_task  # noqa: E402
from dynagate.envs.vector import RobotVectorEnv  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

LIMITED = Robot(
    "leg",
    (LEG.links[0], *(replace(link, joint=replace(link.joint, effort=30.0)) for link in LEG.links[1:])),
)
LIGHT = replace(LIMITED.links[2], mass=0.0, com=(0.0, 0.0, 0.0), inertia=((0.0, 0.0, 0.0),) * 3)
MASSLESS = Robot("massless", (*LIMITED.links[:2], LIGHT))
FEET = [Point("shank", (0.0, 0.0, -0.2)), Point("trunk", (0.1, 0.1, -0.25)), Point("trunk", (0.1, -0.1, -0.25))]
DT, DECIMATION = 2e-3, 3
RANDOM: dict[str, Any] = {
    "*.mass": True,
    "*.damping": True,
    "ground.friction": (0.3, 1.0),
    "stiffness": (0.8, 1.2),
    "damping": (1.0, 1.0),
    "delay": (0.0, 5 * DT),
    "push": (2 * DT * DECIMATION, 0.1, 0.3),
}


def task(**options: Any) -> Task:
    chosen: dict[str, Any] = {
        "stance": {"hip": 0.3, "knee": -0.6},
        "stiffness": (20.0, 10.0),
        "damping": 0.3,
        "dt": DT,
        "decimation": DECIMATION,
        "tolerance": 1e-10,
        "sweeps": 3000,
        "randomize": RANDOM,
    }
    return legged_task(LIMITED, FEET, **{**chosen, **options})


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """The rotation matrix of a quaternion (x, y, z, w)."""
    *vector, w = quaternion
    x, y, z = vector
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray((w * w - np.dot(vector, vector)) * np.eye(3) + 2.0 * np.outer(vector, vector) + 2.0 * w * cross)


@cache
def compiled(actions: str) -> EnvBatch:
    return EnvBatch(task(actions=actions), 5, dtype="float64")


def drawn(batch: EnvBatch) -> dict[str, np.ndarray]:
    return {name: batch._inputs[name].copy() for name in batch._inputs}


@pytest.mark.parametrize("actions", ["pd_targets", "torques"])
def test_an_action_is_a_loop_of_single_steps(actions: str) -> None:
    """The simulation by one-step rollouts with the law, delays, pushes, observations and rewards in numpy."""
    batch = compiled(actions)
    own = batch.task
    batch.reset(seed=4)
    varied = LIMITED.with_variable("*.mass", "*.damping", "ground.friction")
    single = Rollout(varied, steps=1, dt=DT, contacts=own.contact)
    random = np.random.default_rng(2)
    last, arrived = np.zeros((5, 2)), [np.zeros((5, 2))] * 2
    pushes, phases = batch.pushes.copy(), batch.push_phase.astype(int)
    assert len(np.unique(batch._inputs["delay"])) > 2
    assert len(np.unique(phases)) == 2
    for number in range(4):
        before, action = drawn(batch), random.uniform(-1.5, 1.5, (5, 2))
        parameters = {name: before[name] for name in ("mass", "damping", "ground_friction")}
        outcome, bounded = batch.step(action), np.clip(action, -1.0, 1.0)
        assert outcome.converged.all()
        arrived.append(bounded)
        q, qd = before["q"], before["qd"].copy()
        for robot in range(5):
            turn, own_push = divmod(number + phases[robot], 2)
            if own_push == 1:
                qd[robot, :3] += rotation(q[robot, 3:7]).T @ [*pushes[robot, turn], 0.0]
        for k in range(DECIMATION):
            ages = np.ceil((before["delay"] - k) / DECIMATION).clip(0).astype(int)
            held = np.stack([arrived[-1 - age][robot] for robot, age in enumerate(ages)])
            tau = np.zeros((5, 8))
            tau[:, 6:] = 30.0 * held
            if actions == "pd_targets":
                away = own.stance[7:] + 0.5 * held - q[:, 7:]
                tau[:, 6:] = np.clip(
                    before["joint_stiffness"] * away - before["joint_damping"] * qd[:, 6:], -30.0, 30.0
                )
            moved = single(q, qd, tau[:, None], **parameters)
            q, qd = moved.q[:, -1], moved.qd[:, -1]
        np.testing.assert_allclose(batch.q, q, atol=1e-7)
        np.testing.assert_allclose(batch.qd, qd, atol=1e-5)
        x, y, z, w = q[:, 3:7].T
        up = np.stack([2 * (x * z - y * w), 2 * (y * z + x * w), w * w + z * z - x * x - y * y], axis=1)
        parts = {name: outcome.observation[:, part] for name, part in own.observation_parts.items()}
        np.testing.assert_allclose(parts["up"], up, atol=1e-7)
        np.testing.assert_allclose(parts["velocity"], qd[:, :3], atol=1e-5)
        np.testing.assert_allclose(parts["spin"], 0.25 * qd[:, 3:6], atol=1e-5)
        np.testing.assert_allclose(parts["joints"], q[:, 7:] - own.stance[7:], atol=1e-7)
        np.testing.assert_allclose(parts["action"], bounded, atol=0.0)
        speed = ((qd[:, :2] - before["command"][:, :2]) ** 2).sum(axis=1)
        reward = np.exp(-speed / 0.25) + 0.5 * np.exp(-((qd[:, 5] - before["command"][:, 2]) ** 2) / 0.25)
        reward += -(qd[:, 2] ** 2) - 0.05 * (qd[:, 3:5] ** 2).sum(axis=1) - 1e-5 * (tau**2).sum(axis=1)
        reward -= 0.01 * ((bounded - last) ** 2).sum(axis=1)
        np.testing.assert_allclose(outcome.reward, reward, atol=1e-4)
        last = bounded


def test_episodes_depend_on_the_seed_and_the_environment_alone() -> None:
    few, many = EnvBatch(task(), 2), EnvBatch(task(), 6)
    np.testing.assert_array_equal(few.reset(seed=9), many.reset(seed=9)[:2])
    begun = {name: array[:2].copy() for name, array in many._inputs.items()}
    assert all(np.array_equal(begun[name], array[:2]) for name, array in few._inputs.items())
    assert len(np.unique(many._inputs["mass"])) > 6
    second = few.reset()
    assert not np.array_equal(second, few.reset())
    few.reset(seed=9)
    np.testing.assert_array_equal(few.reset(), second)


def test_ends_of_episodes_in_a_vector() -> None:
    """A robot that diverges is reset and flagged, others go on as before, and episodes end in time."""
    options: dict[str, Any] = {"stance": {"hip": 0.3, "knee": -0.6}, "stiffness": 20.0, "damping": 0.3, "dt": DT}
    env, other = (LeggedEnv(LIMITED, FEET, 3, seconds=0.02, decimation=4, **options) for _ in range(2))
    assert env.task.episode == 2
    assert env.metadata["autoreset_mode"].value == "SameStep"
    first, _ = env.reset(seed=2)
    other.reset(seed=2)
    env.batch.qd[1] = np.nan
    seen, reward, terminated, truncated, info = env.step(np.zeros((3, 2)))
    expected = other.step(np.zeros((3, 2)))
    assert info["diverged"].tolist() == terminated.tolist() == [False, True, False]
    assert not truncated.any()
    assert reward[1] == 0.0
    assert np.isfinite(seen).all()
    np.testing.assert_array_equal(info["final_obs"][1], first[1])
    np.testing.assert_array_equal(seen[[0, 2]], expected[0][[0, 2]])
    _, _, terminated, truncated, info = env.step(np.zeros((3, 2)))
    assert truncated.tolist() == [True, False, True]
    assert not terminated.any()
    assert info["_final_obs"].tolist() == [True, False, True]
    assert env.batch.steps.tolist() == [0, 1, 0]


def test_pushes_add_a_horizontal_velocity_to_the_base() -> None:
    """Each robot has its own time of the first push; a push is horizontal for a base that is tilted."""
    period = DT * DECIMATION
    own = task(randomize={"push": (3 * period, 0.2, 0.5)}, seconds=9 * period, start_noise=0.0)
    batch, calm = EnvBatch(own, 16, dtype="float64"), EnvBatch(replace(own, randomize={}), 16, dtype="float64")
    batch.reset(seed=1)
    calm.reset(seed=1)
    tilted = np.array([0.5, 0.5, -0.5, 0.5])
    rotation = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
    pushed_at = []
    for _ in range(6):
        for each in (batch, calm):
            each.q[:], each.qd[:] = each.task.stance, 0.0
            each.q[:, 2], each.q[:, 3:7] = 5.0, tilted
            each.step(np.zeros((16, 2)))
        added = (batch.qd - calm.qd)[:, :3] @ rotation.T
        speed = np.linalg.norm(added[:, :2], axis=1)
        np.testing.assert_allclose(added[:, 2], 0.0, atol=0.02)
        assert ((speed < 1e-12) | ((speed > 0.19) & (speed < 0.51))).all()
        pushed_at.append(speed > 0.1)
    assert (np.sum(pushed_at, axis=0) == 2).all()
    assert len(np.unique(np.argmax(pushed_at, axis=0))) == 3
    np.testing.assert_array_equal(pushed_at[:3], pushed_at[3:])


def test_gymnasiums_checker() -> None:
    options: dict[str, Any] = {"stance": {"hip": 0.3, "knee": -0.6}, "stiffness": 20.0, "damping": 0.3, "dt": DT}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        legged = LeggedEnv(LIMITED, FEET, render_mode="rgb_array", **options)
        for env in (SingleEnv(legged), SingleEnv(ReachEnv("two_joint_arm", stiffness=20.0))):
            check_env(env, skip_render_check=True)
    picture = SingleEnv(legged).render()
    assert picture.shape == (480, 640, 3)
    assert picture.dtype == np.uint8


def test_episodes_in_the_browser_and_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has the present episode of the first robot, and a file has its last complete one."""
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    monkeypatch.setattr(vector, "SHOWN_EVERY", 0.0)
    options: dict[str, Any] = {"stance": {"hip": 0.3, "knee": -0.6}, "stiffness": 20.0, "damping": 0.3, "dt": DT}
    env = LeggedEnv(LIMITED, FEET, 2, seconds=6 * DT, decimation=2, render_mode="browser", **options)
    env.reset(seed=0)
    shown = []
    for _ in range(4):
        env.step(np.zeros((2, 2)))
        assert env.render() is None
        assert env.page is not None
        shown.append(len(env.page.q))
        np.testing.assert_allclose(env.page.q[-1], env.batch.q[0], atol=1e-7)
    assert shown == [2, 3, 1, 2]
    env.draw(tmp_path / "episode.html")
    assert '"frames": 3' in (tmp_path / "episode.html").read_text()
    env.close()
    assert env.page is None


@pytest.fixture
def doubles() -> Iterator[Any]:
    """JAX in 64-bit mode, in all threads: callbacks run in others than the test."""
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


def test_functions_for_jax_are_the_same_environment(doubles: Any) -> None:
    from dynagate.envs.functional import EnvState, FunctionalEnv

    jax, jnp = doubles, doubles.numpy
    batch = compiled("pd_targets")
    batch.reset(seed=4)
    env, begun = FunctionalEnv(batch.task), drawn(batch)
    names = ("mass", "damping", "ground_friction", "joint_stiffness", "joint_damping", "command", "delay")
    own = {name: jnp.asarray(begun[name]) for name in names}
    own |= {"push_phase": jnp.asarray(batch.push_phase), "pushes": jnp.asarray(batch.pushes)}
    keys = jax.random.split(jax.random.key(0), 5)
    past = jnp.zeros((5, 2, 2))
    state = EnvState(begun["q"], begun["qd"], jnp.zeros((5, 2)), own, keys, jnp.zeros(5, int), past)
    step, actions = jax.jit(jax.vmap(env.step)), np.random.default_rng(2).uniform(-1.0, 1.0, (3, 5, 2))
    for action in actions:
        outcome, moved = batch.step(action), step(state, action)
        state = moved.state
        np.testing.assert_allclose(moved.observation, outcome.observation, atol=1e-7)
        np.testing.assert_allclose(moved.reward, outcome.reward, atol=1e-7)

    @jax.jit
    def paid(first: Any) -> Any:
        """The rewards of two actions: the first of them arrives late in some environments."""
        then = jax.vmap(env.step)(state, first)
        return then.reward.sum() + jax.vmap(env.step)(then.state, actions[1]).reward.sum()

    slope, away = jax.jit(jax.grad(paid))(actions[0]), np.random.default_rng(3).normal(size=(5, 2)) * 1e-6
    ends = [paid(actions[0] + sign * away) for sign in (1.0, -1.0)]
    np.testing.assert_allclose(np.sum(slope * away), 0.5 * (ends[0] - ends[1]), rtol=1e-4)
    fresh, seen = jax.vmap(env.reset)(keys)
    np.testing.assert_allclose(jax.vmap(env.observe)(fresh), seen, atol=1e-12)
    lost = step(fresh._replace(qd=fresh.qd.at[1].set(jnp.nan)), actions[0])
    assert lost.diverged.tolist() == lost.done.tolist() == [False, True, False, False, False]
    assert jnp.isfinite(lost.state.q).all()
    assert jnp.isfinite(lost.observation).all()
    assert lost.reward[1] == 0.0
    env.check(lost)


def test_gradients_of_environments_that_diverge_are_zero(doubles: Any) -> None:
    """A policy that all environments share keeps its gradient when one of them diverges."""
    from dynagate.envs.functional import FunctionalEnv

    jax, jnp = doubles, doubles.numpy
    env = FunctionalEnv(reach_task("two_joint_arm", stiffness=20.0, randomize={"delay": (0.0, 0.01)}))
    state, seen = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 3))
    bad = state._replace(qd=state.qd.at[1].set(jnp.nan))
    weights = 0.1 * np.random.default_rng(0).normal(size=(seen.shape[1], 2))

    @jax.jit
    @jax.grad
    def slope_of(weights: Any, state: Any, share: Any) -> Any:
        return jax.vmap(env.step)(state, jnp.tanh(seen @ weights)).reward @ share

    slope = slope_of(weights, bad, jnp.ones(3))
    np.testing.assert_allclose(slope, slope_of(weights, state, jnp.array([1.0, 0.0, 1.0])), rtol=1e-12)
    assert np.abs(slope).max() > 0.0


def test_rewards_that_are_not_finite_are_named_by_the_functions(doubles: Any) -> None:
    from dynagate.envs.functional import FunctionalEnv

    jax, jnp = doubles, doubles.numpy
    rewards = {"fine": lambda moment: moment.q[0], "inverse": lambda moment: 1.0 / (moment.action[0] - 0.5)}
    env = FunctionalEnv(reach_task("two_joint_arm", stiffness=20.0, rewards=rewards))
    state, _ = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 3))
    step = jax.vmap(env.step)(state, jnp.array([[0.0, 0.0], [0.0, 0.0], [0.5, 0.0]]))
    assert not step.done.any()
    with pytest.raises(ArgumentError, match="reward 'inverse' is inf in environment 2, whose state is finite"):
        env.check(step)
    env.check(jax.vmap(env.step)(state, jnp.zeros((3, 2))))


@pytest.mark.parametrize("actions", ["pd_targets", "torques"])
def test_an_action_that_is_not_finite_ends_its_episode_alone(actions: str) -> None:
    """The others go on bit for bit as without it, in vectors of robots and in what remains of them."""
    bad, good = (RobotVectorEnv(task(actions=actions, dt=DT), 37) for _ in range(2))
    bad.reset(seed=1)
    good.reset(seed=1)
    random, others = np.random.default_rng(0), np.delete(np.arange(37), [11, 36])
    for number in range(4):
        action = random.uniform(-1.0, 1.0, (37, 2)).astype(np.float32)
        expected = good.step(action)
        if number == 1:
            action[11], action[36, 1] = np.nan, np.inf
        seen, reward, terminated, _, info = bad.step(action)
        assert np.flatnonzero(info["diverged"]).tolist() == ([11, 36] if number == 1 else [])
        assert np.isfinite(seen).all()
        if number == 1:
            assert terminated[[11, 36]].all()
            assert (reward[[11, 36]] == 0.0).all()
            assert (bad.batch.steps[[11, 36]] == 0).all()
        np.testing.assert_array_equal(seen[others], expected[0][others])
        np.testing.assert_array_equal(reward[others], expected[1][others])


def test_an_arm_has_delays_and_no_pushes() -> None:
    """While an action is late, the target of the action before it holds."""
    dt, options = 5e-3, {"stiffness": 20.0, "start_noise": 0.0, "decimation": 4}
    late, now = (
        EnvBatch(reach_task("two_joint_arm", randomize=each, dt=dt, **options), 2, dtype="float64")
        for each in ({"delay": (8 * dt, 8 * dt)}, {})
    )
    late.reset(seed=0)
    now.reset(seed=0)
    random = np.random.default_rng(0)
    actions = [np.zeros((2, 2))] * 2 + [random.uniform(-1.0, 1.0, (2, 2)) for _ in range(4)]
    for issued, arriving in zip(actions[2:], actions, strict=False):
        late.step(issued)
        now.step(arriving)
        np.testing.assert_allclose(late.q, now.q, atol=1e-14)
    with pytest.raises(ArgumentError, match="'push', but the base of robot 'two_joint_arm' cannot move freely"):
        reach_task("two_joint_arm", stiffness=20.0, randomize={"push": (1.0, 0.5)})


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "no feet": (
        lambda: legged_task(LIMITED),
        ArgumentError,
        "feet=None for robot 'leg'; expected names of links or fr",
    ),
    "other foot": (lambda: legged_task(LIMITED, ["paw"]), ValueError, "paw"),
    "fixed base": (lambda: legged_task("hyq", []), ArgumentError, "such as some of lf_foot, rf_foot"),
    "arm": (
        lambda: legged_task(reach_task("two_joint_arm").robot, ["forearm"]),
        ArgumentError,
        "is fixed to the ground",
    ),
    "gains": (
        lambda: task(stiffness=20.0, damping=30.0),
        ArgumentError,
        r"make steps of 0.002 s unstable, first at joint '\w+'; expected dt of at most",
    ),
    "two numbers": (
        lambda: EnvBatch(task(rewards={"fast": lambda moment: moment.qd}), 2),
        ArgumentError,
        "rewards has 'fast' with 8 numbers; expected one number",
    ),
    "no function": (lambda: task(rewards={"fast": 1.0}), ArgumentTypeError, "rewards has 'fast': 1.0; expected a func"),
    "no rewards": (lambda: task(rewards={}), ArgumentError, "rewards is empty"),
    "no such input": (
        lambda: EnvBatch(task(observations={"goal": lambda moment: moment["goal"]}), 2),
        ArgumentError,
        "reads the input 'goal'",
    ),
    "inertia": (lambda: task(randomize={"shank": True}), ArgumentError, "randomize has 'shank'.*expected a name that"),
    "range": (lambda: task(randomize={"trunk.mass": (3.0, 2.0)}), ValueError, "expected a low end below the high one"),
    "factor": (lambda: task(randomize={"stiffness": (1.2, 0.8)}), ArgumentError, r"expected \(low, high\)"),
    "delay": (lambda: task(randomize={"delay": (0.02, 0.01)}), ArgumentError, r"expected \(low, high\), seconds"),
    "long delay": (lambda: EnvBatch(task(randomize={"delay": (0.0, 9.0)}), 1), ArgumentError, "at most 32 actions"),
    "delay of text": (lambda: task(randomize={"delay": "long"}), ArgumentError, "randomize has 'delay' 'long'"),
    "push without speed": (lambda: task(randomize={"push": (1.0,)}), ArgumentError, "randomize has 'push'"),
    "push at once": (lambda: task(randomize={"push": (0.0, 1.0)}), ArgumentError, "seconds between pushes, above 0"),
    "speeds": (lambda: task(randomize={"push": (1.0, 2.0, 1.0)}), ArgumentError, "lowest and the highest speed"),
    "not a number": (lambda: task(randomize={"push": (1.0, np.nan)}), ArgumentError, "randomize has 'push'"),
    "own name": (
        lambda: replace(task(), inputs={"delay": (np.zeros(1), np.ones(1))}),
        ArgumentError,
        "inputs has 'delay'",
    ),
    "actions": (lambda: task(actions="torque"), ArgumentError, "did you mean 'torques'"),
    "effort": (lambda: legged_task(LEG, FEET, actions="torques"), ArgumentError, "joint 'hip' has no effort limit"),
    "stance": (lambda: task(stance={"hup": 0.1}), ArgumentError, "stance has joint 'hup'.*expected some of hip, knee"),
    "commands": (lambda: task(commands=((1.0, 0.0),) * 3), ArgumentError, "commands="),
    "terrain": (lambda: task(terrain=()), ValueError, "ground"),
    "dt": (lambda: task(dt=0.0), ArgumentError, "dt"),
    "count": (lambda: LeggedEnv(LIMITED, FEET, 0, stiffness=20.0, damping=0.3, dt=DT), ArgumentError, "num_envs=0"),
    "frame": (lambda: reach_task("two_joint_arm", "hand"), ValueError, "hand"),
    "massless foot": (
        lambda: legged_task(MASSLESS, FEET, stance={"knee": -0.6}, stiffness=20.0, damping=0.3, dt=DT),
        ArgumentError,
        "joint 'knee' of robot 'massless' moves no mass; expected a mass",
    ),
    "massless foot, torques": (
        lambda: legged_task(MASSLESS, FEET, stance={"knee": -0.6}, actions="torques"),
        ArgumentError,
        "joint 'knee' of robot 'massless' moves no mass",
    ),
    "negative gain": (lambda: task(stiffness=-10.0), ArgumentError, "stiffness=-10.0; expected a finite number, 0 or"),
    "negative swing": (lambda: task(swing=-1.0), ArgumentError, "swing=-1.0; expected a finite number, 0 or more"),
    "stance of nan": (lambda: task(stance={"hip": np.nan}), ArgumentError, "stance of joint 'hip' nan; expected a fin"),
    "stance beyond": (
        lambda: task(stance={"hip": 9.0}),
        ArgumentError,
        "stance has joint 'hip' at 9, beyond its limits; expected -1.5 to 1.5",
    ),
    "option": (lambda: task(stifness=3.0), ArgumentTypeError, "did you mean 'stiffness'"),
    "hole": (
        lambda: task(terrain=HeightField(((0.0, np.nan), (0.0, 0.0)), (1.0, 1.0))),
        ValueError,
        r"has a hole: heights\[0, 1\] is nan",
    ),
    "one row": (lambda: task(terrain=HeightField(((0.0, 0.0),), (1.0, 1.0))), ValueError, "expected two rows"),
    "render": (
        lambda: LeggedEnv(LIMITED, FEET, stiffness=20.0, damping=0.3, dt=DT, render_mode="human"),
        ArgumentError,
        "expected 'rgb_array', 'browser' or None",
    ),
    "draw": (
        lambda: LeggedEnv(LIMITED, FEET, stiffness=20.0, damping=0.3, dt=DT).draw("a.html"),
        ArgumentError,
        r"draw\(\) has no motion",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    make, error, text = REFUSED[case]
    with pytest.raises(error, match=text):
        make()


def test_a_reward_that_is_not_finite_is_named() -> None:
    bad = {"fine": lambda moment: moment.q[2], "inverse": lambda moment: 1.0 / (moment.action[0] - 0.5)}
    batch = EnvBatch(task(rewards=bad), 3, dtype="float64")
    with pytest.raises(ArgumentError, match=r"step\(\) before reset"):
        batch.step(np.zeros((3, 2)))
    batch.reset(seed=0)
    batch.step(np.zeros((3, 2)))
    with pytest.raises(ArgumentError, match="reward 'inverse' is inf in environment 1, whose state is finite"):
        batch.step([[0.0, 0.0], [0.5, 0.0], [0.0, 0.0]])
    with pytest.raises(ArgumentError, match=r"actions has shape \(2,\)"):
        batch.step(np.zeros(2))


def test_a_slope_has_the_robot_above_it() -> None:
    joints = {"hip": 0.8, "knee": -0.6}
    own = task(terrain=Plane.slope(10.0), randomize={}, stance=joints)
    batch = EnvBatch(own, 1, dtype="float64")
    batch.reset(seed=0)
    assert own.stance[2] > task(stance=joints).stance[2] + 0.01
    assert neutral(LIMITED)[2] == 0.0
    assert batch.step(np.zeros((1, 2))).converged.all()


@pytest.mark.parametrize("hip", [-0.5, 0.3, 0.9])
def test_the_lowest_foot_of_the_stance_is_on_the_ground(hip: float) -> None:
    """Joints turn about axes other than z, so the axes of links differ from those of their joints."""
    robot = LIMITED.with_frame("paw", "shank", (0.02, 0.0, -0.2))
    own = legged_task(robot, ["paw"], stance={"hip": hip, "knee": -0.6}, stiffness=20.0, damping=0.3, dt=DT)
    place = evaluate(trace(robot, "frame_pose_paw"), {"q": own.stance[None]})["frame_position"][0]
    np.testing.assert_allclose(place[2], 0.0, atol=1e-12)


@pytest.mark.long
def test_the_example_trains_a_policy() -> None:
    pytest.importorskip("jax")
    from examples.train_quadruped import train

    env = LeggedEnv(LIMITED, FEET, 8, stance={"hip": 0.3, "knee": -0.6}, stiffness=20.0, damping=0.3, dt=DT)
    weights, curve = train(env, updates=2)
    assert np.isfinite(curve).all()
    assert np.shape(curve) == (2, 2)
    assert weights["actor0"][0].shape == (env.single_observation_space.shape[0], 128)
