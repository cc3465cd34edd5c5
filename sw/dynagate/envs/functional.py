"""Tasks as functions for JAX: `reset` and `step` under `jit` and `vmap`, with gradients through the simulation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.extras import brought_by

with brought_by("jax", "dynagate.envs.functional"):
    import jax
    import jax.numpy as jnp

from dynagate.base.explained import explained
from dynagate.envs.batch import check_finite, push_at, start
from dynagate.envs.delays import PAST_ACTIONS, TICK
from dynagate.envs.draws import DELAY, PUSH, PUSH_PHASE, PUSHES
from dynagate.envs.task import AIM, DRIVE, PUSHED, Task
from dynagate.graph import Graph
from dynagate.integrators.drive import COMMAND
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
    """Gains, parameters, inputs, delay and pushes of the episode, by name."""
    key: Any
    """Random key for later episodes."""
    count: Any
    """Number of actions so far."""
    past_actions: Any = ()
    """Actions (count, joints) that can still arrive, the latest first; () if actions have no delay."""
    actuators: Any = ()
    """States of actuators by name; () if actuators have none."""


class EnvStep(NamedTuple):
    """Results of an action."""

    state: EnvState
    """State after the action, or the start of a new episode."""
    observation: Any
    """Observation after the action; zeros if the state was not finite."""
    reward: Any
    """Reward of the action; 0 if the state was not finite."""
    done: Any
    """Whether the episode has ended."""
    diverged: Any
    """Whether the state or the action was not finite."""
    converged: Any
    """Whether contact forces were found in every step of the simulation."""
    terms: Any
    """Terms (terms,) of the reward, in the order of the task's `rewards`."""


@explained
class FunctionalEnv:
    """A task as functions for JAX.

    Gradients through contact need float64: `jax.config.update("jax_enable_x64", True)`. Random draws differ from those
    of the Gymnasium environments; the simulation is the same. An environment whose state is not finite starts a new
    episode, and its gradients are 0, so the other environments of a batch keep theirs.

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
        if task.law is not None and not task.drive:
            options["feedback"] = task.law
        robot = task.random.robot
        steps = 1 if task.drive else task.decimation
        self._move = rollout(robot, steps, task.dt, dtype=dtype, **options)
        self._move.operator.keep_unconverged = True
        self._dtype = self._move.operator.dtype
        self._act, self._see = _operator(task, task.acting), _operator(task, task.seeing)
        self._pull = None if task.law is None else _operator(task, feedback_graph(task.robot, task.law))
        self._drive = _operator(task, task.drive.graph) if task.drive else None
        self._push = None if task.random.pushes is None else _operator(task, task.pushing)
        self._advance = jax.custom_vjp(self._simulated)
        self._advance.defvjp(self._saving, self._backward)

    def reset(self, key: Array) -> tuple[EnvState, Array]:
        """Begin an episode with a random key, and return the state and the observation."""
        key, own = jax.random.split(key)
        draws = jax.random.uniform(own, (1, self.task.draws), self._dtype)
        begun = {name: jnp.asarray(value, self._dtype)[0] for name, value in start(self.task, draws).items()}
        begun.pop("r", None)
        q, qd, last = (begun.pop(name) for name in ("q", "qd", "last_action"))
        driven = {name: begun.pop(earlier) for name, earlier in self.task.driven_states.items()} or ()
        state = EnvState(q, qd, last, begun, key, jnp.zeros((), jnp.int32), begun.pop(PAST_ACTIONS, ()), driven)
        nothing = {"action": last, "last_action": last}
        seen = _called(self._see, {"q_next": q, "qd_next": qd, **nothing, **begun})
        return state, seen["observation"]

    def step(self, state: EnvState, action: Array) -> EnvStep:
        """Apply an action (joints,), from -1 to 1. If the episode has ended, the state is the start of a new one."""
        drawn = dict(state.drawn)
        phase, pushes = drawn.pop(PUSH_PHASE, None), drawn.pop(PUSHES, None)
        if pushes is not None:
            drawn[PUSH] = push_at(self.task, phase[None], pushes[None], state.count[None])[0]
        start = {"q": state.q, "qd": state.qd, "last_action": state.last_action, PAST_ACTIONS: state.past_actions}
        action = jnp.asarray(action)
        driven = {earlier: state.actuators[name] for name, earlier in self.task.driven_states.items()}
        values = {**start, **drawn, **driven, "action": action}
        q, qd, seen, converged, after = self._advance(jax.tree.map(jnp.array, values))  # vmap may hold arrays of numpy
        diverged = ~_finite(q, qd, action, *after.values())
        count = state.count + 1
        done = (seen["ends"] > 0.0).any() | diverged | (count >= self.task.episode)
        bounded = jnp.clip(action, -1.0, 1.0)
        past = state.past_actions
        if self.task.past_actions:
            past = jnp.concatenate([bounded[None], past[:-1]])
        going = EnvState(q, qd, bounded, state.drawn, state.key, count, past, after or ())
        begun, _ = self.reset(state.key)
        chosen = jax.tree.map(partial(_chosen, done), begun, going)
        observation, reward, terms = (
            jnp.where(diverged, 0.0, seen[name]) for name in ("observation", "reward", "terms")
        )
        return EnvStep(chosen, observation, reward, done, diverged, (converged > 0.0) & ~diverged, terms)

    def _simulated(self, values: dict[str, Any]) -> tuple[Any, Any, dict[str, Any], Any, dict[str, Any]]:
        """Return q, qd, the results of `seeing`, whether contact forces were found, and the states of actuators, from
        the inputs of an action.
        """
        task, q, qd, action = self.task, values["q"], values["qd"], values["action"]
        if self._push is not None:
            qd = _called(self._push, {"q": q, "qd": qd, PUSH: values[PUSH]})[PUSHED]
        acting = {"action": action}
        if task.past_actions:
            acting |= {PAST_ACTIONS: values[PAST_ACTIONS], DELAY: values[DELAY], TICK: jnp.arange(task.decimation)}
        acted = _called(self._act, acting)
        parameters = {name: values[name] for name in task.random.shapes}
        held: dict[str, Any] = {"tau": acted.get(task.torque, acted.get("feedforward"))}
        held |= {AIM: acted[DRIVE[AIM]]} if DRIVE[AIM] in acted else {}
        if task.law is not None:
            held |= {TARGET: acted[TARGET], STIFFNESS: values[STIFFNESS], BRAKE: values[BRAKE]}
        over = {name: jnp.broadcast_to(x, (task.decimation, x.shape[-1])) for name, x in held.items()}
        driven = {name: values[name] for name in task.driven_states.values()}
        (q, qd, driven), seen, right = (self._driven if self._drive else self._rolled)(q, qd, driven, over, parameters)
        seeing = {**values, **seen, "q_next": q, "qd_next": qd}
        converged = jnp.where(right, jnp.ones((), q.dtype), 0.0)
        after = {name: driven[earlier] for name, earlier in task.driven_states.items()}
        return q, qd, _called(self._see, seeing), converged, after

    def _rolled(self, q: Any, qd: Any, driven: dict[str, Any], over: dict[str, Any], parameters: dict[str, Any]) -> Any:
        """Return the state after an action, its torques and impulses, and whether all steps converged.

        Args:
            q: Configuration (nq,).
            qd: Velocity (nv,).
            driven: States of actuators by their names before a step.
            over: Torques, targets and gains (decimation, ...) of each step.
            parameters: The robot's variable parameters.
        """
        over = dict(over)
        last = {name: x[-1] for name, x in over.items()}
        moved = self._move(q, qd, over.pop("tau"), **over, **parameters)
        seen = {"tau": last.pop("tau")}
        if self._pull is not None:
            state = {"q": moved.q[-2], "qd": moved.qd[-2], "feedforward": seen["tau"]}
            seen = {"tau": _called(self._pull, {**state, **last})["tau"]}
        return (moved.q[-1], moved.qd[-1], driven), *self._contacts(moved, seen)

    def _contacts(self, moved: Any, seen: dict[str, Any]) -> Any:
        """Return what an observation reads of a motion, and whether its steps converged."""
        if self.task.contact is None:
            return seen, True
        return {**seen, "swept": moved.impulse[-1].reshape(-1)}, moved.converged.all()

    def _driven(self, q: Any, qd: Any, driven: dict[str, Any], over: dict[str, Any], parameters: dict[str, Any]) -> Any:
        """Return the same as `_rolled` for a task with actuators, by a scan over steps."""
        assert self._drive is not None
        drive, carry = self._drive, self.task.driven_states

        def step(state: Any, now: dict[str, Any]) -> Any:
            q, qd, driven = state
            now = {**now, "q": q, "qd": qd}
            command = now["tau"]
            if self._pull is not None:
                command = _called(self._pull, {**now, "feedforward": command})["tau"]
            acted = _called(drive, {**now, **driven, COMMAND: command})
            moved = self._move(q, qd, acted["tau"][None], **parameters)
            after = {earlier: acted[name] for name, earlier in carry.items()}
            return (moved.q[-1], moved.qd[-1], after), self._contacts(moved, {"tau": acted["tau"]})

        state, (seen, right) = jax.lax.scan(step, (q, qd, driven), over)
        return state, {name: x[-1] for name, x in seen.items()}, jnp.asarray(right).all()

    def _saving(self, values: dict[str, Any]) -> tuple[Any, Any]:
        """Return the results of `_simulated`, and what the gradient needs."""
        results, pull = jax.vjp(self._simulated, values)
        return results, (pull, _finite(results[0], results[1], values["action"], *results[4].values()))

    def _backward(self, saved: Any, weights: Any) -> tuple[dict[str, Any]]:
        """Return the gradients by the inputs of an action, which are 0 if the state was not finite."""
        pull, finite = saved
        (products,) = pull(weights)
        return (jax.tree.map(lambda product: jnp.where(finite, product, 0.0), products),)

    def check(self, step: EnvStep) -> None:
        """Raise ArgumentError if a term of the reward or an observation of a finite state is not finite.

        `step` itself cannot raise errors under `jit`: it returns these values.

        Args:
            step: The result of `step`, with or without a leading axis, outside `jit`.
        """
        terms, observation, diverged = (np.asarray(x) for x in (step.terms, step.observation, step.diverged))
        sizes = terms.shape[-1], observation.shape[-1]
        check_finite(self.task, terms.reshape(-1, sizes[0]), observation.reshape(-1, sizes[1]), diverged.reshape(-1))

    def observe(self, state: EnvState) -> Array:
        """Return the observation of a state at the start of an episode."""
        values = {"q_next": state.q, "qd_next": state.qd, "action": state.last_action, "last_action": state.last_action}
        return _called(self._see, {**values, **state.drawn})["observation"]


def _finite(*arrays: Any) -> Any:
    """Return whether all entries of arrays are finite."""
    return jnp.isfinite(jnp.concatenate([array.reshape(-1) for array in arrays])).all()


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
