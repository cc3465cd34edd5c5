"""Arrays that share memory, or hold nothing."""

from __future__ import annotations

import dynagate
import numpy as np
import pytest
from dynagate import Region, robots
from dynagate.host import Results

from tests.samples import inputs_of, states

OVERLAPS = {
    "the same rows": ("rows", lambda m: (m[: 50 * 2].reshape(50, 2), m[: 50 * 2].reshape(50, 2)), True),
    "later rows": ("rows", lambda m: (m[: 50 * 2].reshape(50, 2), m[2 : 51 * 2].reshape(50, 2)), False),
    "the last row": ("rows", lambda m: (m[: 50 * 2].reshape(50, 2), m[49 * 2 : 99 * 2].reshape(50, 2)), False),
    "rows apart": ("rows", lambda m: (m[: 50 * 2].reshape(50, 2), m[50 * 2 : 100 * 2].reshape(50, 2)), True),
    "the same planes": ("planes", lambda m: (m[:120].reshape(2, 60).T[:50], m[:120].reshape(2, 60).T[:50]), True),
    "later samples": ("planes", lambda m: (m[:120].reshape(2, 60).T[:50], m[:120].reshape(2, 60).T[1:51]), False),
    "planes between": (
        "planes",
        lambda m: (m[:240].reshape(2, 2, 60)[:, 0].T[:50], m[:240].reshape(2, 2, 60)[:, 1].T[:50]),
        True,
    ),
    "planes of another distance": (
        "planes",
        lambda m: (m[:120].reshape(2, 60).T[:50], m[10:130].reshape(2, 60)[:, :59].T[:50]),
        False,
    ),
}


@pytest.mark.parametrize("case", list(OVERLAPS))
def test_results_may_lie_over_inputs_of_their_own_samples_alone(case: str) -> None:
    layout, views, allowed = OVERLAPS[case]
    state = inputs_of("inverse_dynamics", states(robots.load("two_joint_arm"), 50, seed=9))
    inputs = {name: views(np.zeros(300))[0] for name in state}  # all lie alike
    inputs["qd"], tau = views(np.zeros(300))
    with dynagate.compile(robots.load("two_joint_arm"), "inverse_dynamics", layout=layout) as accelerator:
        for name, array in inputs.items():
            array[...] = state[name]
        if allowed:
            assert np.array_equal(accelerator(out=Results(tau=tau), **inputs).tau, accelerator(**state).tau)
            return
        with pytest.raises(ValueError, match="out lies over inputs of other samples in memory; expected arrays apart"):
            accelerator(out=Results(tau=tau), **inputs)


@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_outputs_that_share_memory_are_refused(device: str) -> None:
    inputs = Region.of(robots.load("two_joint_arm")).sample("forward_dynamics_gradient", 9, seed=8)
    with dynagate.compile(robots.load("two_joint_arm"), "forward_dynamics_gradient", device=device) as accelerator:
        out = accelerator(**inputs)
        out = Results(**{**out, "minv": out.dqdd_dq})
        with pytest.raises(ValueError, match=r"out.dqdd_dq and out.minv share memory; expected an array for each"):
            accelerator(out=out, **inputs)


@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_an_empty_batch_of_a_floating_base_gives_empty_results(device: str) -> None:
    with dynagate.compile(robots.load("hyq", floating_base=True), "mass_matrix", device=device) as accelerator:
        assert accelerator(q=np.zeros((0, 19))).m.shape == (0, 18, 18)
