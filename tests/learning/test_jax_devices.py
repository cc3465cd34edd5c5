"""dynagate.jax on several devices: arrays split over virtual CPU devices, and two processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate.base.errors import ArgumentError

jax = pytest.importorskip("jax")

from dynagate.jax import function  # noqa: E402
from jax.sharding import AxisType, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from tests import sharded  # noqa: E402

ROOT = Path(__file__).parents[2]
ARM = "two_joint_arm"
COUNT_ROWS = """
import jax, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from dynagate.jax import function
from dynagate.jax.primitive import HostCompute

rows, plain = [], HostCompute.__call__


def counted(self, *arrays):
    rows.append(len(arrays[0]))
    return plain(self, *arrays)


HostCompute.__call__ = counted
call = function("two_joint_arm", "forward_dynamics", backend="numpy")
mesh = jax.make_mesh((4,), ("b",), (AxisType.Auto,))
x = jax.device_put(np.ones((8, 2)), NamedSharding(mesh, P("b")))
jax.block_until_ready(jax.jit(lambda x: call(x, x, x))(x))
print(rows)
"""


@pytest.mark.parametrize(
    "case",
    [
        {"robot": ARM, "operator": "function", "name": "forward_dynamics", "replicated": 1},
        {"robot": ARM, "operator": "rollout", "replicated": 0},
        pytest.param(
            {"robot": ARM, "operator": "rollout", "contact": "forearm", "options": {"constrained": True}},
            marks=pytest.mark.long,
        ),
        {"robot": ARM, "operator": "inverse_kinematics", "name": "forearm", "replicated": 0},
    ],
    ids=lambda case: f"{case['operator']} {case.get('options', '')}",
)
def test_operators_on_split_arrays(case: dict[str, Any]) -> None:
    """Four devices compute two of eight rows each, without exchange, and the values are those of one to the bit."""
    ways = [*sharded.SPLIT, *sharded.SPLIT_GRADIENTS, sharded.COLLECTIVES]
    if case["operator"] == "inverse_kinematics":
        ways.remove("split rows")  # two devices cannot share three coordinates
        ways += ["value", "gradient"]
    results = sharded.run_case({**case, "ways": ways})
    errors = {way: 1e-12 if "gradient" in way else 0.0 for way in ways}
    assert {way: x for way, x in results.items() if not (isinstance(x, float) and x <= errors[way])} == {}


def test_rows_of_a_function_on_the_host_are_split() -> None:
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run([sys.executable, "-c", COUNT_ROWS], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "[2, 2, 2, 2]", done.stderr


@pytest.mark.parametrize("specs", [(P("a", None), P("b", None)), (P(None, "a"), P(None, "a"))])
def test_inputs_split_differently_are_refused(specs: tuple[P, P]) -> None:
    mesh = jax.sharding.AbstractMesh((2, 2), ("a", "b"), (AxisType.Explicit,) * 2)
    arrays = [jax.ShapeDtypeStruct((8, 2), "float32", sharding=NamedSharding(mesh, spec)) for spec in specs]
    forward = function(ARM, "forward_dynamics")
    with jax.sharding.use_abstract_mesh(mesh), pytest.raises(ArgumentError, match="expected the same leading axes"):
        jax.eval_shape(lambda q, qd: forward(q, qd, qd).qdd, *arrays)


def test_errors_on_the_host_reach_the_caller() -> None:
    call = function(ARM, "forward_dynamics", backend="fixed")
    with pytest.raises(jax.errors.JaxRuntimeError, match="EntryError: input 'q' is 90"):
        jax.block_until_ready(call(*[np.full((1, 2), 90.0)] * 3))


def test_two_processes_share_a_gradient() -> None:
    """Each has the gradient of one process, by psum in shard_map and by jit of arrays that both hold parts of."""
    command = [sys.executable, str(ROOT / "examples" / "jax_processes.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"process (\d), ([a-z_ ]+): .* difference (\S+)", done.stdout)
    ways = "shard_map and psum", "jit of split arrays"
    assert sorted(line[:2] for line in lines) == sorted((process, way) for process in "01" for way in ways)
    assert all(float(difference) <= 1e-14 for *_, difference in lines)
