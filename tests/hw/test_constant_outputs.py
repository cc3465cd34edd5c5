"""Functions whose results do not depend on the state, in one design: those of a gantry."""

from __future__ import annotations

from pathlib import Path

import dynagate
import numpy as np
from dynagate import Robot
from dynagate.dynamics import TOGETHER
from dynagate.hw.rtl.axi import Axi
from dynagate.robot import Joint, Link

from tests.designs import functions_of

INERTIA = ((0.02, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.02))


def gantry() -> Robot:
    limits = {"lower": -1.0, "upper": 1.0, "velocity": 1.0, "effort": 50.0}
    x, y = (Joint(name, "prismatic", axis=axis, **limits) for name, axis in (("x", (1, 0, 0)), ("y", (0, 1, 0))))
    nowhere = (0.0, 0.0, 0.0)
    return Robot("gantry", (Link("a", -1, x, 1.0, nowhere, INERTIA), Link("b", 0, y, 2.0, nowhere, INERTIA)))


def test_a_function_whose_results_are_always_zero_is_built_with_others(tmp_path: Path) -> None:
    """Its stream has a number of another function, which nobody reads."""
    name = "mass_matrix,inverse_dynamics,inverse_dynamics_gradient"
    built = dynagate.build(gantry(), **functions_of(name), axi=Axi(32), folder=tmp_path)
    random = np.random.default_rng(0)
    state = {each: random.uniform(-1.0, 1.0, (20, 2)) for each in ("q", "qd", "qdd")}
    exact = {}
    with dynagate.open(built.folder, device="numpy") as reference:
        for each, part in reference.functions.items():
            exact[each] = part(**{port.name: state[port.name] for port in part.device.inputs})
    assert not exact["inverse_dynamics_gradient"].dtau_dq.any()
    with dynagate.open(built, shell=True) as accelerator:
        for each, expected in exact.items():
            part = accelerator.functions[each]
            results = part(**{port.name: state[port.name] for port in part.device.inputs})
            assert not results.overflow.any()
            for output in expected:
                np.testing.assert_allclose(results[output], expected[output], atol=1e-5)


def test_all_functions_of_a_gantry(tmp_path: Path) -> None:
    built = dynagate.build(gantry(), list(TOGETHER), per_sample=True, folder=tmp_path)
    assert "forward_dynamics_gradient" in {each.name for each in built.design.functions}
