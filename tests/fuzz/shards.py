"""Operators of `dynagate.jax` inside `jax.shard_map`, against the same calls outside of it.

A case: {"kind": "shards", ...} and the entries of `tests.sharded`.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from tests import sharded
from tests.fuzz.findings import Findings
from tests.fuzz.robots import draw_robot

Case = dict[str, Any]
FUNCTIONS = ("forward_dynamics", "inverse_dynamics")
NEAR = 1e-9
REFUSED = "ValueError: shard_map applied to the function 'whole' was given out_specs which require replication"
"""The text with which JAX itself refuses a result that differs between devices as a replicated one."""


def draw(random: np.random.Generator) -> Case:
    rolls = bool(random.random() < 0.4)
    ways = [*sharded.LOOPS, *sharded.GRADIENTS, *(() if rolls else sharded.FORWARD)]
    return {
        "kind": "shards",
        "robot": draw_robot(random, 3),
        "operator": "rollout" if rolls else "function",
        "name": str(random.choice(FUNCTIONS)),
        "options": {"backend": str(random.choice(["compiled", "compiled", "numpy"]))},
        "ways": [str(way) for way in random.choice(ways, 4, replace=False)],
        "replicated": int(random.integers(3)),
        "seed": int(random.integers(1000)),
    }


def check(case: Case, findings: Findings) -> None:
    if importlib.util.find_spec("jax") is None:
        findings.refused.append("shards: jax is not installed")
        return
    for way, result in sharded.run_case(case).items():
        what = f"{case['operator']} {way}"
        if way == "replicated out":
            findings.compared += 1
            if not str(result).startswith(REFUSED):
                findings.wrong(what, f"is not refused: {result}")
        elif isinstance(result, str):
            findings.wrong(what, result[:300])
        else:
            findings.near(what, result, 0.0, NEAR, 1.0)
