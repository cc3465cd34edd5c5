"""Steps of a batch by kernels of the traced functions: every iteration is one call over all trajectories that have not
converged, eight in a vector with AVX-512.

Converged trajectories stay as they are while others iterate. When few are left, their numbers move to a smaller block,
which holds the active ones alone. So a trajectory's numbers never depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.graph import Graph, Port, trace
from dynagate.graph.evaluate import evaluate
from dynagate.integrators.variational_graphs import EXTRAPOLATED, ITERATION, PAST, START
from dynagate.integrators.variational_steps import CONVERGED, TURNED, UNSOLVED
from dynagate.native.arrays import good_stride, new_arrays
from dynagate.native.kernel import Kernel
from dynagate.robot import Robot

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

CROWD = 8
"""Active trajectories move to a block of their own when they are fewer than one in so many."""

SMALLEST = 32
"""Trajectories in the smallest block: for fewer, a call takes no less time."""


class NumpyKernel:
    """A graph evaluated by numpy, behind the calls of `Kernel`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def written(self, outputs: Arrays) -> Arrays:
        return outputs

    def bound(self, inputs: Arrays, written: Arrays, batch: int) -> Callable[[], int]:
        def call() -> int:
            for name, values in evaluate(self.graph, inputs).items():
                written[name][...] = values
            return 0

        return call


class _All(NamedTuple):
    """All entries of some ports as one."""

    name: str
    shape: tuple[int, ...]


def _together(kernel: Any, ports: Sequence[Port], size: int) -> tuple[Array, Arrays]:
    """Zeros (entries, size or a little more), one row after another in memory, and the arrays (size, *shape) of the
    ports within them, by name."""
    count, double = sum(len(port.nodes) for port in ports), np.dtype(np.float64)
    stride = good_stride(size, double)
    (store,) = new_arrays([_All("all", (count,))], double, "planes", stride).values()
    arrays, begin = {}, 0
    for port in ports:
        end = begin + len(port.nodes)
        arrays[port.name] = store[:size, begin:end].reshape(size, *port.shape)
        begin = end
    return store.T, arrays


class Block:
    """Arrays of so many trajectories, and the iteration bound to them. The increment is in two arrays, which swap roles
    with each iteration: `parity` says which is the present one."""

    def __init__(self, kernel: Any, size: int) -> None:
        self.size, self.parity = size, 0
        self.read, self.inputs = _together(kernel, kernel.graph.inputs, size)
        self.written, self.outputs = _together(kernel, kernel.graph.outputs, size)
        self._increments = (self.inputs["increment"], self.outputs["next"])
        self._calls = [
            kernel.bound({**self.inputs, "increment": now}, kernel.written({**self.outputs, "next": after}), size)
            for now, after in (self._increments, self._increments[::-1])
        ]

    @property
    def increment(self) -> Array:
        return self._increments[self.parity]

    def iterate(self, limit: float) -> Array:
        """One iteration; returns which trajectories (size,) are still above the limit."""
        self._calls[self.parity]()
        self.parity ^= 1
        return ~(self.outputs["squared"] <= limit)


class GraphSteps:
    """Steps of a batch of trajectories of one robot on "cpu" or "numpy". guess: 1 to 4.

    inputs: the arrays of the step's start, in which a caller sets tau and f_ext. past: the last increments, latest
    first."""

    def __init__(self, robot: Robot, guess: int, device: str, batch: int, external: bool) -> None:
        kernel = _kernel(robot, ITERATION.name, "riqn", device, False)
        self._iteration = kernel
        self.block = Block(kernel, batch)
        self._smaller: dict[int, Block] = {}
        self._age = 0
        forms = {guess, 3} if guess == EXTRAPOLATED else {guess}
        starts = {k: _kernel(robot, START.name, f"guess_{k}", device, external) for k in forms}
        _, self.inputs = _together(kernel, starts[guess].graph.inputs, batch)
        for name in ("q", "dt"):
            self.inputs[name] = self.block.inputs[name]
        self.inputs["momentum"] = self.block.outputs["momentum"]
        self.past = [self.inputs[argument.name] for argument in PAST]
        outputs = {port.name: self.block.inputs[port.name] for port in starts[guess].graph.outputs}
        self._guess = guess
        self._starts = {
            k: [self._bound(start, outputs, age, batch) for age in range(len(PAST))] for k, start in starts.items()
        }

    def _bound(self, start: Any, outputs: Arrays, age: int, batch: int) -> Callable[[], int]:
        """The start of a step, `age` steps after the arrays of past increments had their own names."""
        past = {argument.name: self.past[k - age] for k, argument in enumerate(PAST)}
        call: Callable[[], int] = start.bound({**self.inputs, **past}, start.written(outputs), batch)
        return call

    def set(self, q: Array, past: Array, age: int, momentum: Array, dt: float) -> None:
        """The state to begin with: q (batch, nv), past (4, batch, nv), age: steps since the start, momentum (batch,
        links, 6)."""
        self.block.inputs["q"][...] = q
        self._age = age
        for k, increments in enumerate(past):
            self.past[(k - age) % len(PAST)][...] = increments
        self.inputs["momentum"][...] = momentum
        self.inputs["dt"][...] = dt

    @property
    def last(self) -> Array:
        """The increment of the last step (batch, nv)."""
        return self.past[-self._age % len(PAST)]

    @property
    def q(self) -> Array:
        return self.block.inputs["q"]

    @property
    def squared(self) -> Array:
        """Squared norm of the residual times dt, of the last step (batch,)."""
        return self.block.outputs["squared"]

    def state(self) -> tuple[Array, Array, Array]:
        """q, past and momentum as `set` takes them."""
        past = [self.past[(k - self._age) % len(PAST)] for k in range(len(PAST))]
        return self.q.copy(), np.stack(past), self.inputs["momentum"].copy()

    def step(self, share: float, limit: float, most: int) -> tuple[Array, Array]:
        """One step with the forces in `inputs`: q is advanced where it converged, and `momentum` and the increment are
        the next step's. Returns the number of residual evaluations and the status of each trajectory (batch,)."""
        block = self.block
        self.inputs["share"][...] = share
        block.inputs["limit"][...] = limit
        block.parity = 0
        if self._guess == 1:  # a kernel leaves entries alone that are always zero
            block.increment[...] = 0.0
        guess = 3 if self._guess == EXTRAPOLATED and self._age < len(PAST) else self._guess
        self._starts[guess][self._age % len(PAST)]()
        iterations = np.ones(block.size, dtype=np.int64)
        active = block.iterate(limit)
        for count in range(2, most + 1):
            left = np.count_nonzero(active)
            if not left:
                break
            iterations += active
            if left * CROWD < block.size and block.size > SMALLEST:
                self._iterate_apart(np.flatnonzero(active), limit, most - count + 1, iterations, active)
                break
            active = block.iterate(limit)
        status = np.where(active, UNSOLVED, np.where(block.outputs["turned"] > 1.0, TURNED, CONVERGED))
        if status.any():
            self._stop(np.flatnonzero(status))
        block.inputs["q"] += block.increment
        self._age += 1
        self.last[...] = block.increment
        return iterations, status

    def _iterate_apart(self, which: Array, limit: float, most: int, iterations: Array, active: Array) -> None:
        """The remaining iterations of a few trajectories, in a block of their own."""
        block, size = self.block, max(SMALLEST, 1 << (len(which) - 1).bit_length())
        if size not in self._smaller:
            self._smaller[size] = Block(self._iteration, size)
        small = self._smaller[size]
        rows = np.resize(which, size)  # the rest of the block repeats some of them
        small.read[:, :size] = np.take(block.read, rows, axis=1)
        small.parity = 0
        small.increment[...] = block.increment[rows]
        going = small.iterate(limit)
        for _ in range(most - 1):
            if not going.any():
                break
            iterations[which] += going[: len(which)]
            going = small.iterate(limit)
        active[which] = going[: len(which)]
        increment = small.increment[: len(which)]
        block.written[:, which] = small.written[:, : len(which)]
        block.increment[which] = increment

    def _stop(self, which: Array) -> None:
        """These trajectories stay at rest from here on."""
        for array in (self.block.increment, self.inputs["momentum"], *self.past):
            array[which] = 0.0


@lru_cache(maxsize=16)
def _kernel(robot: Robot, function: str, form: str, device: str, external: bool) -> Any:
    graph = trace(robot, {f.name: f for f in (START, ITERATION)}[function], form=form, external_forces=external)
    return NumpyKernel(graph) if device == "numpy" else Kernel(graph, np.float64, layout="planes")
