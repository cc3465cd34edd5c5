"""Axes of a batch before the inputs' own: the same for all inputs, on whatever computes. Others are refused by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Policy, Region, Rollout, robots
from dynagate.control import Cost
from dynagate.host import Opened

from tests.core_programs import SMALL
from tests.played_card import play_card

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
    "processor": {"units": SMALL, "region": REGION},
}
"""Options of `compile` and `build` by what computes a function; its own name is the device."""
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
    if kind in ("sim", "processor"):
        function = "inverse_dynamics" if kind == "processor" else "forward_dynamics_gradient"
        return dynagate.open(dynagate.build(ARM, function, folder=designs, **CALLS[kind]))
    return dynagate.compile(ARM, "forward_dynamics_gradient", **{"device": kind, **CALLS[kind]})


@pytest.mark.parametrize("kind", [*CALLS, *ROLLOUTS])
def test_leading_axes_of_inputs_are_those_of_results(
    kind: str, designs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_card(monkeypatch, tmp_path)
    call = opened(kind, designs)
    whole, flat = inputs_of(kind, (2, 3)), inputs_of(kind, (6,))
    results, expected = call(**whole), call(**flat)
    for name in call.outputs:
        one = getattr(expected, name)
        np.testing.assert_array_equal(getattr(results, name), one.reshape(2, 3, *one.shape[1:]))


@pytest.mark.parametrize("kind", CALLS)
def test_leading_axes_broadcast_as_in_numpy(
    kind: str, designs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_card(monkeypatch, tmp_path)
    call = opened(kind, designs)
    whole = inputs_of(kind, (2, 3))
    first, second, last = whole
    for own in (
        {**whole, second: whole[second][0, 0]},
        {**whole, first: whole[first][:1]},
        {**whole, last: whole[last][0]},
        {first: whole[first][:, :1], second: whole[second][:1], last: whole[last][0, 0]},
    ):
        full = {name: np.broadcast_to(array, whole[name].shape).copy() for name, array in own.items()}
        results, expected = call(*own.values()), call(**full)
        for name in call.outputs:
            np.testing.assert_array_equal(results[name], expected[name])


REFUSED: list[tuple[dict[str, tuple[int, ...]], str]] = [
    (
        {"q": (3, 3), "qd": (3,)},
        "'qd' has leading axes (3,) and input 'q' (3, 3): they fit in two ways; write qd[:, None] or qd[",
    ),
    ({"q": (3,), "qd": (3, 3)}, "they fit in two ways; write q[:, None] or q[None]"),
    ({"q": (3,), "tau": (3, 2, 3)}, "they fit in two ways; write q[:, None, None] or q[None, None]"),
    ({"q": (3, 5), "qd": (3,)}, "numpy aligns the last axes; write qd[:, None]"),
    ({"q": (2,), "tau": (3,)}, "input 'tau' has leading axes (3,) and input 'q' (2,): they do not broadcast; expected"),
    ({"qd": (2, 3), "tau": (4, 1)}, "input 'tau' has leading axes (4, 1) and input 'qd' (2, 3): they do not broadcast"),
    ({"qd": (0,), "tau": (2,)}, "they do not broadcast"),
]
"""Leading axes by input, none for the others, and the error."""


@pytest.mark.parametrize(("axes", "text"), REFUSED)
def test_leading_axes_that_do_not_fit_are_refused(axes: dict[str, tuple[int, ...]], text: str) -> None:
    forward = dynagate.compile(ARM, "forward_dynamics", device="numpy")
    states = {name: np.zeros((*axes.get(name, ()), 2)) for name in ("q", "qd", "tau")}
    with pytest.raises(ValueError, match=re.escape(text)):
        forward(**states)
    with pytest.raises(ValueError, match=r"has leading axes .* and input .*; expected the same, because bound arrays"):
        forward.bind(**states)


def test_batches_that_fit_in_one_way_are_not_refused() -> None:
    forward = dynagate.compile(ARM, "forward_dynamics", device="numpy")
    for q, qd, both in (
        ((3,), (5, 3), (5, 3)),
        ((1,), (3, 3), (3, 3)),
        ((), (3, 3), (3, 3)),
        ((3,), (2, 3, 3), (2, 3, 3)),
    ):
        shape = forward(np.zeros((*q, 2)), np.zeros((*qd, 2)), tau=np.zeros(2)).qdd.shape
        assert shape == (*both, 2)
    assert forward(np.zeros((0, 2)), np.zeros(2), np.zeros((1, 2))).qdd.shape == (0, 2)


def test_inputs_in_order_are_those_by_name() -> None:
    for device in ("numpy", "cpu", "fixed"):
        forward = dynagate.compile(ARM, "forward_dynamics", device=device)
        assert forward.inputs == ("q", "qd", "tau")
        state = [np.array([0.1, 0.2]), np.array([0.3, 0.4]), np.array([0.5, -0.6])]
        expected = forward(q=state[0], qd=state[1], tau=state[2]).qdd
        for results in (
            forward(*state),
            forward(*state[:2], tau=state[2]),
            forward.submit(*state).result(),
            forward.bind(*state)(),
        ):
            np.testing.assert_array_equal(results.qdd, expected)
        with pytest.raises(TypeError, match="forward_dynamics got 4 arrays; expected at most 3, in this order: q, qd"):
            forward(*state, state[0])
        with pytest.raises(ValueError, match="forward_dynamics got input 'q' twice, in order and by name"):
            forward(*state[:2], q=state[0], tau=state[2])
        with pytest.raises(ValueError, match="input 'tau' is missing"):
            forward(*state[:2])


def test_starts_and_torques_of_rollouts_broadcast() -> None:
    rollout = Rollout(ARM, steps=STEPS, dt=0.01, device="numpy")
    random = np.random.default_rng(2)
    q0, qd0, tau = (
        random.uniform(-0.2, 0.2, (5, 2)),
        random.uniform(-0.2, 0.2, 2),
        random.uniform(-0.2, 0.2, (STEPS, 2)),
    )
    whole = rollout(q0, np.tile(qd0, (5, 1)), np.tile(tau, (5, 1, 1)))
    for device in ("numpy", "cpu"):
        few = Rollout(ARM, steps=STEPS, dt=0.01, device=device)
        for _ in range(2):
            np.testing.assert_allclose(few(q0, qd0, tau).q, whole.q, atol=1e-12)
    assert rollout(q0[0], np.zeros((3, 2)), tau).q.shape == (3, STEPS + 1, 2)
    with pytest.raises(ValueError, match=re.escape("fit in two ways; write q0[:, None] or q0[None]")):
        rollout(q0[:3], np.zeros((3, 3, 2)), tau)
    with pytest.raises(ValueError, match="input 'tau' has leading axes .* they do not broadcast"):
        rollout(q0, qd0, np.zeros((4, STEPS, 2)))


def test_starts_of_solvers_broadcast() -> None:
    cost = Cost(lambda knot: [*knot.tau], lambda knot: [*knot.q])
    solver = dynagate.ilqr(ARM, knots=3, dt=0.02, cost=cost, device="numpy", iterations=3)
    q0 = np.array([[0.1, 0.2], [0.2, -0.1]])
    np.testing.assert_array_equal(solver(q0, np.zeros(2)).tau, solver(q0, np.zeros((2, 2))).tau)
