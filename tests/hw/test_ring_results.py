"""What a bare ring gives back: the results of the integers, also those that are always zero."""

from __future__ import annotations

from pathlib import Path

import dynagate
import numpy as np
from dynagate import Region, Robot, Rollout, build
from dynagate.robot import Joint, Link

INERTIA = ((0.02, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.02))


def test_entries_of_a_and_b_that_are_always_zero(tmp_path: Path) -> None:
    """An explicit Euler step of a slide: the position does not feel the force."""
    joint = Joint("x", "prismatic", axis=(1.0, 0.0, 0.0), lower=-1.0, upper=1.0, velocity=1.0, effort=50.0)
    slide = Robot("slide", (Link("body", -1, joint, 2.0, (0.0, 0.0, 0.0), INERTIA),))
    inputs = np.full((2, 1), 0.1), np.zeros((2, 1)), np.full((2, 3, 1), 0.3)
    options = {"steps": 3, "dt": 0.01, "integrator": "euler", "linearize": True}
    region = Region.of(slide)
    exact = Rollout(slide, device="numpy", **options)(*inputs)
    fixed = Rollout(slide, device="fixed", region=region, **options)(*inputs)
    built = build(slide, "rollout", region=region, folder=tmp_path, **{k: options[k] for k in options if k != "steps"})
    ring = dynagate.open(built)(*inputs)
    for name in ("q", "qd", "a", "b", "diverged"):
        assert np.array_equal(getattr(ring, name), getattr(fixed, name)), name
    np.testing.assert_allclose(ring.a, exact.a, atol=1e-6)
    np.testing.assert_allclose(ring.b, exact.b, atol=1e-6)
    assert not ring.b[..., 0, 0].any()
