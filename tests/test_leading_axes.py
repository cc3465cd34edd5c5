"""Axes of a batch before the inputs' own: the same for all inputs, on whatever computes. Others are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Policy, Region, Rollout, robots
from dynagate.host import Opened

from tests.test_gpu import play_card
from tests.test_processor import SMALL

ARM = robots.load("two_joint_arm")
STEPS = 2
REGION = Region.of(ARM, velocity=5.0)
CALLS: dict[str, dict[str, Any]] = {
    "numpy": {},
    "cpu": {},
    "cpu, planes": {"device": "cpu", "layout": "planes", "threads": 2},
    "cuda": {},
    "fixed": {"policy": Policy(samples=64)},
    "sim": {"ii": 3},
    "processor": {"device": "sim", "units": SMALL, "region": REGION},
}
"""Options of `open` by what computes a function; its own name is the device."""
ROLLOUTS: dict[str, dict[str, Any]] = {
    "rollout, numpy": {"device": "numpy"},
    "rollout, cpu": {"device": "cpu"},
    "rollout, cuda": {"device": "cuda"},
    "rollout, fixed": {"device": "fixed", "region": REGION},
    "rollout, variational": {"device": "numpy", "integrator": "variational"},
}


def inputs_of(kind: str, leading: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Inputs (*leading, ...) of a function or a rollout."""
    random, count = np.random.default_rng(1), int(np.prod(leading))
    names = ("q", "qd", "qdd") if kind == "processor" else ("q", "qd", "tau")
    if kind in ROLLOUTS:
        names = ("q0", "qd0", "tau")
    shapes = {name: (STEPS, 2) if name == "tau" and names[0] == "q0" else (2,) for name in names}
    flat = {name: random.uniform(-0.2, 0.2, (count, *shape)) for name, shape in shapes.items()}
    return {name: array.reshape(*leading, *shapes[name]) for name, array in flat.items()}


def opened(kind: str, designs: Path) -> Opened:
    if kind in ROLLOUTS:
        return Rollout(ARM, steps=STEPS, dt=0.01, **ROLLOUTS[kind])
    options = {"device": kind, **CALLS[kind]}
    if options["device"] == "sim":
        options["folder"] = designs
    return dynagate.open(ARM, "inverse_dynamics" if kind == "processor" else "forward_dynamics_gradient", **options)


@pytest.mark.parametrize("kind", [*CALLS, *ROLLOUTS])
def test_all_inputs_have_the_same_leading_axes(
    kind: str, designs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_card(monkeypatch, tmp_path)
    call = opened(kind, designs)
    whole, flat = inputs_of(kind, (2, 3)), inputs_of(kind, (6,))
    results, expected = call(**whole), call(**flat)
    for name in call.outputs:
        one = getattr(expected, name)
        np.testing.assert_array_equal(getattr(results, name), one.reshape(2, 3, *one.shape[1:]))
    first, second, last = whole
    refused = r"has leading axes .*: expected the same for all, as numpy.broadcast_to makes them"
    for wrong in (  # numpy would broadcast them
        {**whole, second: whole[second][0]},
        {**whole, first: whole[first][:1]},
        {**whole, last: whole[last][0, 0]},
    ):
        with pytest.raises(ValueError, match=r" has shape \(.*\); expected \(" if kind in ROLLOUTS else refused):
            call(**wrong)
