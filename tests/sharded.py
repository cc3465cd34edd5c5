"""Operators of `dynagate.jax` on four CPU devices, in `jax.shard_map` and on split arrays, compared with one device.

`python -m tests.sharded` reads a case as JSON from its input and prints its result as JSON: for each way to call the
operator the largest difference from the call on one device, as a fraction of the largest entry, or the text of an
error. A process of its own, because JAX fixes the number of its devices at its first use.

A case: {"robot": name or recipe of the fuzzer, "operator": "function", "rollout" or "inverse_kinematics", "name":
function or frame of the target, "options": {...}, "ways": [...]}. Where needed "contact": the link of a contact point,
"seed", and "replicated": the number of the input that all devices share.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.fuzz.robots import robot_of

ROOT = Path(__file__).parent.parent
ROWS = 8
LOOPS = ("value", "replicated out", "scan", "fori_loop", "while_loop", "vmap inside", "vmap outside")
GRADIENTS = ("gradient", "gradient inside")
FORWARD = ("jvp inside", "second order")
SPLIT = ("split", "explicit", "two axes", "split rows", "pmap")
SPLIT_GRADIENTS = ("split gradient", "explicit gradient")
COLLECTIVES = "collectives"
"""Way whose result is the number of values that devices exchange for a call and its gradient by an input of all."""
CPU_SECONDS = 900
"""Processor time in seconds after which a case counts as one that hangs."""


def run_case(case: dict[str, Any]) -> dict[str, float | str]:
    """Return the result of a case, by way. Raises RuntimeError: its process failed."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_ENABLE_X64": "1"}
    command = [sys.executable, "-m", "tests.sharded"]
    done = subprocess.run(command, input=json.dumps(case), env=environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == -signal.SIGXCPU:
        return dict.fromkeys(case["ways"], f"takes more than {CPU_SECONDS} s of processor time")
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def _operator(case: dict[str, Any]) -> tuple[Callable[..., Any], list[Any]]:
    """The operator with one array (rows, numbers) as its result, and its inputs."""
    import jax.numpy as jnp
    import numpy as np
    from dynagate import robots
    from dynagate.control.targets import FramePosition
    from dynagate.jax import function, inverse_kinematics, rollout

    if isinstance(case["robot"], str):
        robot = robots.load(case["robot"])
    else:
        with tempfile.TemporaryDirectory() as folder:
            robot = robot_of(case["robot"], Path(folder))
    if "contact" in case:
        robot = robot.with_frame("toe", case["contact"], (0.0, 0.02, -0.3)).with_contact("toe", compliance=1e-2)
    if case["operator"] == "function":
        operator = function(robot, case["name"], **case.get("options", {}))
        ports = operator.operator.graph.inputs
    elif case["operator"] == "inverse_kinematics":
        operator = inverse_kinematics(robot, [FramePosition(case["name"])], **case.get("options", {}))
        ports = [
            SimpleNamespace(name="q0", shape=(robot.nq,)),
            SimpleNamespace(name=f"{case['name']}_position", shape=(3,)),
        ]
    else:
        operator = rollout(robot, 3, 0.01, **case.get("options", {}))
        ports = operator.operator.arguments.inputs
    random = np.random.default_rng(case.get("seed", 0))
    inputs = [random.uniform(-1.0, 1.0, (ROWS, *port.shape)) for port in ports]
    for port, array in zip(ports, inputs, strict=True):
        if port.name == "active":
            array[...] = array > 0.0

    def call(*arrays: Any) -> Any:
        results = operator(arrays[0], **{port.name: x for port, x in zip(ports[1:], arrays[1:], strict=True)})
        leading = arrays[0].ndim - len(ports[0].shape)
        return jnp.concatenate([x.reshape(*x.shape[:leading], -1) for x in results], axis=-1)

    return call, inputs


def results_of(case: dict[str, Any]) -> dict[str, float | str]:
    """Call the operator in each way of the case."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P

    call, inputs = _operator(case)
    shared = case.get("replicated", len(inputs) - 1)
    carried = 1 if shared == 0 else 0
    inputs[shared] = inputs[shared][0]
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("b",))
    specs = tuple(P() if k == shared else P("b") for k in range(len(inputs)))
    weight = np.random.default_rng(1).uniform(0.5, 1.5, jax.eval_shape(call, *_spread(jnp, inputs, shared)).shape[-1])

    def sharded(local: Callable[..., Any], out: Any = None) -> Callable[..., Any]:
        return jax.jit(jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=P("b") if out is None else out))

    def whole(*arrays: Any) -> Any:
        return call(*_spread(jnp, arrays, shared))

    def cost(*arrays: Any) -> Any:
        return (weight * jnp.tanh(whole(*arrays))).sum()

    def body(carry: Any, *arrays: Any) -> Any:
        change = jnp.tanh(whole(*arrays[:carried], carry, *arrays[carried + 1 :])).sum(axis=-1)
        return carry + 0.01 * change.reshape(-1, *(1,) * (carry.ndim - 1))

    def scan(*arrays: Any) -> Any:
        return jax.lax.scan(lambda carry, _: (body(carry, *arrays), None), arrays[carried], None, length=3)[0]

    def fori(*arrays: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, carry: body(carry, *arrays), arrays[carried])

    def until(*arrays: Any) -> Any:
        step = lambda state: (state[0] + 1, body(state[1], *arrays))  # noqa: E731
        return jax.lax.while_loop(lambda state: state[0] < 3, step, (0, arrays[carried]))[1]

    def mapped(*arrays: Any) -> Any:
        axes = tuple(None if k == shared else 0 for k in range(len(arrays)))
        return jax.vmap(call, axes)(*arrays)

    def summed(*arrays: Any) -> Any:
        return sharded(lambda *x: jax.lax.psum(cost(*x), "b"), P())(*arrays)

    def rate(*arrays: Any) -> Any:
        return jax.jvp(whole, arrays, tuple(0.1 * jnp.cos(x) for x in arrays))[1]

    def placed(kind: Any, spec: Any = None, arrays: Any = inputs) -> list[Any]:
        """The inputs on a mesh of four devices, or of two times two for another split than the usual one."""
        sizes, names = ((4,), ("b",)) if spec is None else ((2, 2), ("a", "b"))
        devices = jax.make_mesh(sizes, names, (kind,) * len(sizes))
        own = [P() if k == shared else spec(x) if spec else P("b") for k, x in enumerate(arrays)]
        return [jax.device_put(x, NamedSharding(devices, to)) for x, to in zip(arrays, own, strict=True)]

    def by_rows(array: Any) -> Any:
        return P("b", *(None for _ in array.shape[2:]), "a")

    def by_pairs(*arrays: Any) -> Any:
        return call(
            *(jnp.broadcast_to(x, (2, ROWS // 2, *x.shape)) if k == shared else x for k, x in enumerate(arrays))
        )

    def collectives(function: Callable[..., Any]) -> float:
        text = jax.jit(function).lower(*placed(AxisType.Auto)).compile().as_text()
        assert "dynagate_" in text
        return float(len(re.findall("(all-gather|all-to-all|all-reduce|collective-permute)(-start)?\\(", text)))

    def curved(function: Callable[..., Any]) -> Any:
        slope = lambda x: jax.grad(function, shared)(*inputs[:shared], x, *inputs[shared + 1 :])  # noqa: E731
        return jax.jvp(slope, (inputs[shared],), (np.ones_like(inputs[shared]),))[1]

    every = tuple(k for k in range(len(inputs)))
    slopes = lambda *x: jax.grad(cost, every)(*x)  # noqa: E731
    apart = [x if k == shared else x.reshape(2, ROWS // 2, *x.shape[1:]) for k, x in enumerate(inputs)]
    folded = [x if k == shared else x.reshape(4, ROWS // 4, *x.shape[1:]) for k, x in enumerate(inputs)]
    mapped_axes = tuple(None if k == shared else 0 for k in every)
    unshared = lambda *x: jax.grad(lambda y: cost(*x[:carried], y, *x[carried + 1 :]))(x[carried])  # noqa: E731
    doubled = [np.stack([x, 0.5 * x]) for x in inputs]
    pairs: dict[str, Callable[[], tuple[Any, Any]]] = {
        "value": lambda: (sharded(whole)(*inputs), whole(*inputs)),
        "replicated out": lambda: (sharded(whole, P())(*inputs), np.nan),
        "scan": lambda: (sharded(scan)(*inputs), scan(*inputs)),
        "fori_loop": lambda: (sharded(fori)(*inputs), fori(*inputs)),
        "while_loop": lambda: (sharded(until)(*inputs), until(*inputs)),
        "vmap inside": lambda: (sharded(mapped)(*inputs), whole(*inputs)),
        "vmap outside": lambda: (jax.vmap(sharded(whole))(*doubled), jax.vmap(whole)(*doubled)),
        "gradient": lambda: (jax.grad(summed, every)(*inputs), slopes(*inputs)),
        "gradient inside": lambda: (sharded(slopes, specs)(*inputs), slopes(*inputs)),
        "jvp inside": lambda: (sharded(rate)(*inputs), rate(*inputs)),
        "second order": lambda: (curved(summed), curved(cost)),
        "split": lambda: (jax.jit(whole)(*placed(AxisType.Auto)), whole(*inputs)),
        "explicit": lambda: (jax.jit(whole)(*placed(AxisType.Explicit)), whole(*inputs)),
        "two axes": lambda: (jax.jit(by_pairs)(*placed(AxisType.Auto, lambda _: P("a", "b"), apart)), by_pairs(*apart)),
        "split rows": lambda: (jax.jit(whole)(*placed(AxisType.Auto, by_rows)), whole(*inputs)),
        "pmap": lambda: (jax.pmap(whole, in_axes=mapped_axes)(*folded).reshape(ROWS, -1), whole(*inputs)),
        "split gradient": lambda: (jax.jit(slopes)(*placed(AxisType.Auto)), slopes(*inputs)),
        "explicit gradient": lambda: (jax.jit(slopes)(*placed(AxisType.Explicit)), slopes(*inputs)),
        COLLECTIVES: lambda: (collectives(whole) + collectives(unshared), np.zeros(())),
    }
    results: dict[str, float | str] = {}
    for way in case["ways"]:
        try:
            got, expected = (jax.tree.leaves(value) for value in pairs[way]())
            results[way] = max(
                float(abs(g - e).max() / max(1e-9, abs(e).max())) for g, e in zip(got, expected, strict=True)
            )
        except Exception as error:  # the texts are compared
            results[way] = f"{type(error).__name__}: {error}"
    return results


def _spread(jnp: Any, inputs: Any, shared: int) -> list[Any]:
    """The inputs, the shared one with the rows of the others."""
    rows = next(x.shape[0] for k, x in enumerate(inputs) if k != shared) if len(inputs) > 1 else 1
    return [jnp.broadcast_to(x, (rows, *x.shape)) if k == shared else x for k, x in enumerate(inputs)]


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    print(json.dumps(results_of(json.load(sys.stdin))))
