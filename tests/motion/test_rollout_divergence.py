"""Which step a rollout calls the one that diverged, where not every state is given."""

from __future__ import annotations

import numpy as np
import pytest
from dynagate import Rollout, robots

ARM = robots.load("two_joint_arm")


@pytest.mark.parametrize("device", ["cpu", "numpy"])
@pytest.mark.parametrize("every", [1, 3, 12])
def test_diverged_is_the_first_given_step_that_is_not_finite(device: str, every: int) -> None:
    """Of three trajectories, pushed too hard from the third, the eighth and no step on."""
    tau = np.zeros((3, 12, 2))
    tau[0, 2:], tau[1, 7:] = 1e200, 1e200
    start = np.full((3, 2), 0.3)
    motion = Rollout(ARM, steps=12, dt=0.01, every=every, device=device)(start, start, tau)  # type: ignore[arg-type]
    steps = np.arange(0, 13, every)
    finite = np.isfinite(motion.q).all(axis=2) & np.isfinite(motion.qd).all(axis=2)
    expected = [int(steps[~row][0]) if not row.all() else -1 for row in finite]
    assert motion.diverged.tolist() == expected
    assert 3 <= expected[0] <= expected[1] <= 12
    assert expected[2] == -1
    assert every == 1 or all(step % every == 0 for step in expected[:2])
