"""Texts of design.json that are damaged in many ways."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from dynagate import Axi, Region, robots
from dynagate.design.design import ChosenFormats
from dynagate.design.files import top_files
from dynagate.fixedpoint.assign import assign
from dynagate.forces.options import AlgorithmOptions
from dynagate.hw.build import design_record
from dynagate.hw.plan.plan import plan
from dynagate.integrators.design_graph import graph_of

KINDS: dict[str, tuple[str, Axi, dict[str, Any]]] = {
    "shell": ("inverse_dynamics", Axi(32), {}),
    "functions": ("mass_matrix,inverse_dynamics", Axi(64, choice=True), {}),
    "ring": ("rollout", Axi(32, words="fixed"), {"dt": 1e-3}),
    "links": ("inverse_dynamics", Axi(128), {}),
}


@cache
def text_of(kind: str) -> str:
    """design.json of the two-joint arm."""
    (function, axi, options), arm = KINDS[kind], robots.load("two_joint_arm")
    arm = arm.with_variable("forearm") if kind == "links" else arm
    region, algorithm = Region.of(arm), AlgorithmOptions(**options)
    planned = plan(assign(graph_of(arm, function, algorithm), region), 8)
    design = design_record(arm, region, planned, ChosenFormats(24), algorithm.as_dict(), axi)
    return json.dumps(design.to_json() | {"files": dict.fromkeys([*sorted(top_files(design)), "files.f"], "")})
