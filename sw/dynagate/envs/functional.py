"""Tasks as functions for JAX: `reset` and `step` under `jit` and `vmap`, with gradients through the simulation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt

from dynagate.base.extras import brought_by

with brought_by("jax", "dynagate.envs.functional"):
    import jax
    import jax.numpy as jnp

from dynagate.base.explained import explained
from dynagate.envs.batch import draws_of, start
from dynagate.envs.task import Task
from dynagate.graph import Graph
from dynagate.integrators.feedback import BRAKE, STIFFNESS, TARGET, feedback_graph
from dynagate.jax.functions import prepared
from dynagate.jax.primitive import bind
from dynagate.jax.rollouts import rollout
from dynagate.operators.compute import CPU, CompiledCompute
from dynagate.operators.operator import Operator

if TYPE_CHECKING:
    from jax import Array


class EnvState(NamedTuple):
    """State of robots during episodes, with leading axes in each field."""

    q: Any
    """Configuration (nq,)."""
    qd: Any
    """Velocity (nv,)."""
    last_action: Any
    """The previous action (joints,)."""
    drawn: dict[str, Any]
    """Gains, parameters and inputs of the episode, by name."""
    key: Any
    """Random key for later episodes."""
    count: Any
    """Number of actions so far."""


class EnvStep(NamedTuple):
    """Results of an action."""

    state: EnvState
    """State after the action, or the start of a new episode."""
    observation: Any
    """Observation after the action."""
    reward: Any
    """Reward of the action."""
    done: Any
    """Whether the episode has ended."""
    diverged: Any
    """Whether the state was not finite."""
    converged: Any
    """Whether contact forces were found in every step of the simulation."""


@explained
class FunctionalEnv:
    """A task as functions for JAX.

    Gradients through contact need float64: `jax.config.update("jax_enable_x64", True)`. Random draws differ from those
    of the Gymnasium environments; the simulation is the same.

    Args:
        task: A task from `legged_task` or `reach_task`.
        dtype: "float32" or "float64"; JAX's default if None.

    Example:
        >>> env = FunctionalEnv(reach_task("two_joint_arm"))
        >>> state, observation = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 8))
        >>> step = jax.jit(jax.vmap(env.step))(state, jnp.zeros((8, 2)))
    """

    def __init__(self, task: Task, dtype: npt.DTypeLike | None = None) -> None:
        self.task = task
        options: dict[str, Any] = {}
        if task.contact is not None:
            options |= {"contacts": task.contact, "outputs": ("impulse", "converged")}
        if task.law is not None:
            options["feedback"] = task.law
        robot = task.random.robot
        self._move = rollout(robot, task.decimation, task.dt, dtype=dtype, **options)
        self._move.operator.keep_unconverged = True
        self._dtype = self._move.operator.dtype
        self._act, self._see = _operator(task, task.acting), _operator(task, task.seeing)
        self._pull = None if task.law is None else _operator(task, feedback_graph(task.robot, task.law))

    def reset(self, key: Array) -> tuple[EnvState, Array]:
        """Begin an episode with a random key, and return the state and the observation."""
        key, own = jax.random.split(key)
        draws = jax.random.uniform(own, (1, draws_of(self.task)), self._dtype)
        begun = {name: jnp.asarray(value, self._dtype)[0] for name, value in start(self.task, draws).items()}
        begun.pop("r", None)
        q, qd, last = (begun.pop(name) for name in ("q", "qd", "last_action"))
        state = EnvState(q, qd, last, begun, key, jnp.zeros((), jnp.int32))
        nothing = {"action": last, "last_action": last}
        seen = _called(self._see, {"q_next": q, "qd_next": qd, **nothing, **begun})
        return state, seen["observation"]

    def step(self, state: EnvState, action: Array) -> EnvStep:
        """Apply an action (joints,), from -1 to 1. If the episode has ended, the state is the start of a new one."""
        task, drawn = self.task, state.drawn
        acted = _called(self._act, {"action": action})
        parameters = {name: drawn[name] for name in task.random.shapes}
        held: dict[str, Any] = {}
        tau = acted.get("tau", acted.get("feedforward"))
        if task.law is not None:
            held = {TARGET: acted[TARGET], STIFFNESS: drawn[STIFFNESS], BRAKE: drawn[BRAKE]}
        over = {name: jnp.broadcast_to(x, (task.decimation, *x.shape)) for name, x in {"tau": tau, **held}.items()}
        moved = self._move(state.q, state.qd, over.pop("tau"), **over, **parameters)
        q, qd = moved.q[-1], moved.qd[-1]
        if self._pull is not None:
            tau = _called(self._pull, {"q": moved.q[-2], "qd": moved.qd[-2], "feedforward": tau, **held})["tau"]
        values = {"q_next": q, "qd_next": qd, "tau": tau, "action": action, "last_action": state.last_action, **drawn}
        if task.contact is not None:
            values["swept"] = moved.impulse[-1].reshape(-1)
        seen = _called(self._see, values)
        diverged = ~(jnp.isfinite(q).all() & jnp.isfinite(qd).all())
        count = state.count + 1
        done = (seen["ends"] > 0.0).any() | diverged | (count >= task.episode)
        going = EnvState(q, qd, jnp.clip(action, -1.0, 1.0), drawn, state.key, count)
        begun, _ = self.reset(state.key)
        after = jax.tree.map(partial(_chosen, done), begun, going)
        reward = jnp.where(diverged, 0.0, seen["reward"])
        converged = ~diverged if task.contact is None else moved.converged.all()
        return EnvStep(after, jnp.nan_to_num(seen["observation"]), reward, done, diverged, converged)

    def observe(self, state: EnvState) -> Array:
        """Return the observation of a state at the start of an episode."""
        values = {"q_next": state.q, "qd_next": state.qd, "action": state.last_action, "last_action": state.last_action}
        return _called(self._see, {**values, **state.drawn})["observation"]


def _chosen(done: Any, begun: Any, going: Any) -> Any:
    return jnp.where(done, begun, going)


def _operator(task: Task, graph: Graph) -> Operator:
    return Operator(graph, task.robot, CompiledCompute(graph, (CPU,)), lambda own: CompiledCompute(own, (CPU,)))


def _called(operator: Operator, values: dict[str, Any]) -> dict[str, Any]:
    """Return the results of a graph by name. Missing inputs are 0."""
    dtype = jnp.asarray(next(iter(values.values()))).dtype
    inputs = {
        port.name: jnp.asarray(values.get(port.name, jnp.zeros(port.shape)), dtype) for port in operator.graph.inputs
    }
    results = bind(operator, *prepared(operator.graph, inputs))
    return {port.name: result for port, result in zip(operator.graph.outputs, results, strict=True)}
