"""Rollouts and their gradients on arrays in GPU memory: loops in CUDA, the rest by functions of the framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynagate.graph.loop import Count, Loop
from dynagate.integrators.adjoint import AFTER, FIRST, before
from dynagate.operators.rollouts import CONVERGED, RolloutOperator


@dataclass(frozen=True)
class Framework:
    """The functions of a framework that a rollout on its arrays needs."""

    full: Callable[[tuple[int, ...], float], Any]
    """Returns a new array of a shape, filled with a number."""
    concatenate: Callable[[Sequence[Any]], Any]
    """Joins arrays along the second axis."""
    where: Callable[[Any, Any, Any], Any]
    """Selects an array where a condition holds, else another array or number."""
    run: Callable[[Loop, int | None, list[Any]], Sequence[Any]]
    """Computes the outputs of a loop from its inputs (batch, ...), both in the loop's order. Its second argument is the
    number of iterations for a loop that does not state it, else None.
    """

    def outputs(self, loop: Loop, steps: int, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of a loop by name.

        Args:
            loop: The loop.
            steps: Number of iterations for a loop that does not state it.
            inputs: Inputs by name; further entries are ignored.
        """
        iterations = None if isinstance(loop.stop, Count) and loop.stop.iterations else steps
        computed = self.run(loop, iterations, [inputs[port.name] for port in loop.inputs])
        return dict(zip((port.name for port in loop.outputs), computed, strict=True))


def forward(operator: RolloutOperator, arrays: Sequence[Any], on: Framework) -> list[Any]:
    """Compute trajectories on a GPU, with the arguments and results of `RolloutOperator.forward`."""
    motion, steps = operator.rollout.motion, operator.steps
    leading = tuple(arrays[0].shape[:-1])
    batch = math.prod(leading)
    names = ("q", "qd", operator.rollout.torques, *operator.held, *operator.stepped, *operator.parameters)
    state = {name: x.reshape(batch, *x.shape[len(leading) :]) for name, x in zip(names, arrays, strict=True)}
    inputs = {name: on.full((batch, count), 0.0) for name, count in motion.zeros.items()} | state
    inputs |= {name: on.full((batch,), value) for name, value in motion.constants.items()}
    if motion.begin is not None:
        inputs |= on.outputs(motion.begin, steps, inputs)
    kept = on.outputs(motion.loop, steps, inputs)
    results = {
        name: on.concatenate([state[name][:, None], kept[after]])
        for name, after in zip(("q", "qd"), motion.states, strict=True)
    }
    for name, size in operator.solved.items():
        results[name] = kept[motion.extras[name][0]].reshape(batch, -1, size)
    results |= {name: kept[name] for name in operator.linear}
    if motion.failed:
        failed = kept[motion.failed]
        lost = (on.concatenate([on.full((batch, 1), 0.0), failed]) > 0.0)[..., None]
        results |= {name: on.where(lost, math.nan, results[name]) for name in ("q", "qd")}
        earlier = on.concatenate([on.full((batch, 1), 0.0), failed[:, :-1]])
        results[CONVERGED] = on.where(failed == earlier, on.full((), 1.0), 0.0)
    return [results[name].reshape(*leading, *shape) for name, shape in operator.shapes.items()]


def backward(operator: RolloutOperator, arrays: Sequence[Any], on: Framework) -> list[Any]:
    """Compute gradients on a GPU, with the arguments and results of `RolloutOperator.backward`."""
    steps, axes = operator.steps, arrays[2].ndim - 2
    leading = tuple(arrays[2].shape[:axes])
    batch = math.prod(leading)
    q, qd, tau, *others = (x.reshape(batch, *x.shape[axes:]) for x in arrays)
    count = len(others) - len(operator.solved)
    names = (*operator.held, *operator.stepped, *operator.parameters, *operator.solved)
    by_step = dict(zip(names, others[: count - 2], strict=True))
    cost_q, cost_qd, *costs = others[count - 2 :]
    first = [on.full((batch, 1), 1.0), on.full((batch, steps - 1), 0.0)]
    inputs = {
        "q": q[:, :-1],
        "qd": qd[:, :-1],
        AFTER: qd[:, 1:],
        FIRST: on.concatenate(first),
        operator.rollout.torques: tau,
        "cost_q": cost_q[:, :-1],
        "cost_qd": cost_qd[:, :-1],
        "lam_q": cost_q[:, -1],
        "lam_qd": cost_qd[:, -1],
        **{f"cost_{name}": cost for name, cost in zip(operator.solved, costs, strict=True)},
        **by_step,
    }
    for name in (*operator.held, *operator.solved):
        earlier = [on.full((batch, 1, *by_step[name].shape[2:]), 0.0), by_step[name][:, :-1]]
        inputs[before(name)] = on.concatenate(earlier)
    loop = operator.sweep.reversed_loop
    for port in loop.inputs:
        if port.name not in inputs:  # costs of results that no loss reads, and of values that steps only carry
            rows = (steps,) if port.name in loop.per_iteration else ()
            inputs[port.name] = on.full((batch, *rows, *port.shape), 0.0)
    products = on.outputs(loop, steps, inputs)
    results: tuple[str, ...] = ("lam_q_next", "lam_qd_next", f"vjp_{operator.rollout.torques}")
    results += (*(f"vjp_{name}" for name in operator.stepped), *(f"lam_{name}_next" for name in operator.parameters))
    return [products[name].reshape(*leading, *products[name].shape[1:]) for name in results]
