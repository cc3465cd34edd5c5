"""Environments with actuators: they equal rollouts with the same actuators, in C and in JAX."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dynagate import Rollout
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.envs.batch import EnvBatch
from dynagate.envs.reach import reach_task
from dynagate.envs.task import Task
from dynagate.forces import DCMotor, Delay, Friction, Lag, LearnedActuator, PositionServo, SeriesElastic
from dynagate.integrators.feedback import JointPD

DT, DECIMATION = 2e-3, 4
SPRING = SeriesElastic(400.0, 0.02, 1.0)
CHAINS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "torques": ({"actions": "torques"}, [Delay(1), Lag(0.01), DCMotor(0.1, 0.5, 900.0, ratio=30.0, inductance=1e-4)]),
    "targets": ({"stiffness": (20.0, 10.0), "damping": 0.5}, [Lag(0.01), SPRING]),
    "positions": ({"actions": "positions"}, [PositionServo(30.0, 0.5, 25.0), Lag(0.01)]),
}
NETWORK = LearnedActuator([[[0.1, 0.2]], [[1.0]]], [[0.0], [0.0]], history=1)


def task(actuators: Any, **options: Any) -> Task:
    """Return a task whose goal is the same in all episodes."""
    times: dict[str, Any] = {"dt": DT, "decimation": DECIMATION, "seconds": 5 * DT * DECIMATION}
    goals = [[0.3, 0.3], [0.0, 0.0], [0.6, 0.6]]
    return reach_task("two_joint_arm", goals=goals, actuators=actuators, **times, **options)


def rolled(own: Task, q: np.ndarray, qd: np.ndarray, actions: np.ndarray) -> tuple[Any, dict[str, np.ndarray]]:
    """Return the motion of actions (count, joints) by a rollout, each held for DECIMATION steps."""
    held = np.repeat(actions, DECIMATION, axis=0)
    options: dict[str, Any] = {"forces": list(own.actuators), "device": "numpy"}
    target = own.stance + held * 0.5
    if own.actions == "pd_targets":
        options["feedback"] = JointPD(tuple(own.robot.effort))
        gains = {"joint_stiffness": own.gains[0], "joint_damping": own.gains[1]}
        gains |= {"target": target} if own.drive.actuators.inputs else {}
        motion = Rollout(own.robot, len(held), DT, **options)(q, qd, np.zeros_like(held), joint_target=target, **gains)
    else:
        command = target if own.actions == "positions" else held * own.robot.effort
        motion = Rollout(own.robot, len(held), DT, **options)(q, qd, command)
    return motion, {name: x[-1] for name, x in motion.actuators.items()}


@pytest.mark.parametrize("name", [*CHAINS, "network"])
def test_actions_are_rollouts_with_actuators(name: str) -> None:
    options, chain = {**CHAINS, "network": ({"stiffness": 20.0}, [NETWORK])}[name]
    own = task(chain, **options)
    batch = EnvBatch(own, 2, dtype="float64")
    batch.reset(seed=4)
    q, qd = batch.q[0].copy(), batch.qd[0].copy()
    actions = np.random.default_rng(1).uniform(-1.0, 1.0, (4, 2, 2))
    for action in actions:
        batch.step(action)
    motion, states = rolled(own, q, qd, actions[:, 0])
    np.testing.assert_allclose(batch.q[0], motion.q[-1], atol=1e-12)
    np.testing.assert_allclose(batch.qd[0], motion.qd[-1], atol=1e-11)
    assert states.keys() == own.driven_states.keys()
    for state, value in states.items():
        now = batch.actuators[state]
        np.testing.assert_allclose(now[0], value, atol=1e-9, err_msg=state)
        assert np.abs(now[0]).max() > 0.0
    batch.restart(np.array([True, False]))
    for each in batch.actuators.values():
        assert not each[0].any()
        assert each[1].any()


def test_a_state_has_no_name_of_an_input() -> None:
    own = task([Lag(0.02)])
    with pytest.raises(ArgumentError, match="an actuator has the state 'lag'; expected another name"):
        replace(own, inputs={"lag": (np.zeros(1), np.ones(1))})


@pytest.mark.parametrize(
    "name", ["targets", *(pytest.param(name, marks=pytest.mark.long) for name in ("torques", "positions"))]
)
def test_functions_for_jax_are_the_batch_and_have_gradients(name: str) -> None:
    jax = pytest.importorskip("jax")
    from dynagate.envs.functional import FunctionalEnv

    options, chain = CHAINS[name]
    with jax.enable_x64(True):
        own = task(chain, **options)
        env, batch = FunctionalEnv(own, dtype="float64"), EnvBatch(own, 1, dtype="float64")
        batch.reset(seed=4)
        state, _ = env.reset(jax.random.key(0))
        state = state._replace(q=batch.q[0].copy(), qd=batch.qd[0].copy())
        actions = np.random.default_rng(1).uniform(-0.9, 0.9, (3, 2))
        for action in actions:
            outcome = batch.step(action[None])
            after = env.step(state, action)
            state = after.state
            np.testing.assert_allclose(state.q, batch.q[0], atol=1e-12)
            np.testing.assert_allclose(after.reward, outcome.reward[0], atol=1e-9)
            np.testing.assert_allclose(after.observation, outcome.observation[0], atol=1e-9)
        for each, value in batch.actuators.items():
            np.testing.assert_allclose(state.actuators[each], value[0], atol=1e-9)

        def speed(action: Any) -> Any:
            return (env.step(state, action).state.qd * np.array([1.0, -2.0])).sum()

        slope, at = jax.jit(jax.grad(speed))(actions[0]), actions[0]
        ends = [speed(at + h * np.array([1.0, 0.5])) for h in (1e-4, -1e-4)]
        np.testing.assert_allclose(slope @ np.array([1.0, 0.5]), (ends[0] - ends[1]) / 2e-4, rtol=1e-5, atol=1e-9)
        assert np.abs(slope).max() > 0.0


@pytest.mark.parametrize(
    ("actuators", "options", "error", "text"),
    [
        ([Friction(0.1)], {}, ArgumentTypeError, "actuators has Friction"),
        ([], {"actions": "positions"}, ArgumentError, "actions='positions' without actuators"),
        ([NETWORK], {"actions": "torques"}, ArgumentError, "actuators read 'target' with actions='torques'"),
        ([SeriesElastic(4e6, 0.02)], {}, ArgumentError, "dt=0.002 makes SeriesElastic unstable"),
        ([Lag(0.02), Lag(0.02)], {}, ValueError, "forces has 2 of Lag"),
    ],
)
def test_what_does_not_fit_is_refused(actuators: Any, options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        task(actuators, **options)
