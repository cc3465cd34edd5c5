"""The variational method of rollouts on spherical and floating joints: its steps against derivatives of the action, its
momenta, its energy, and its order beside an explicit method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Robot, Rollout, evaluate, trace
from dynagate.dynamics.configuration import difference, integrate
from dynagate.forces import ForceContext
from dynagate.integrators.implicit.variational_method import VariationalIntegrator

from tests.jointed_bodies import action, forces_on, start, tumbler
from tests.played_card import play_card

TIGHT = VariationalIntegrator(tolerance=1e-12)


def slope(function: Callable[[float], float], h: float = 2e-4) -> float:
    return (8.0 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12.0 * h)


def run(of: Robot, steps: int, dt: float, method: Any = TIGHT, device: str = "cpu", **options: Any) -> Any:
    q0, qd0 = start(of)
    rollout = Rollout(of, steps=steps, dt=dt, integrator=method, device=device, **options)
    got = rollout(q0, qd0, np.zeros((steps, of.nv)))
    assert got.converged.all()
    return got


def test_steps_are_stationary_points_of_the_action() -> None:
    of, dt = tumbler(satellite=True), 0.02
    before, here, after = run(of, 3, dt, device="numpy").q[1:]
    momentum = 0.0
    for unit in np.eye(of.nv):

        def varied(h: float, unit: np.ndarray = unit) -> float:
            moved = integrate(of, here, h * unit)
            return action(of, before, moved, dt) + action(of, moved, after, dt)

        momentum = max(momentum, abs(slope(lambda h, u=unit: action(of, before, integrate(of, here, h * u), dt))))
        assert abs(slope(varied)) < 1e-9 * max(momentum, 1.0)
    assert momentum > 1.0


def test_momenta_in_free_flight_stay() -> None:
    """The discrete momentum of all motions of the whole robot in space, which Noether's theorem keeps."""
    of, dt = tumbler(gravity=False), 0.02
    q = run(of, 40, dt).q
    kept = []
    for k in (1, 20, 40):
        rotation = np.array(ForceContext(of, q[k].tolist(), [0.0] * of.nv, dt).poses[0][0], dtype=float)
        each = []
        for turn, push in np.eye(6).reshape(6, 2, 3):
            moved = np.zeros(of.nv)
            moved[:3] = rotation.T @ (push + np.cross(turn, q[k][:3]))
            moved[3:6] = rotation.T @ turn
            each.append(slope(lambda h, k=k, v=moved: action(of, q[k - 1], integrate(of, q[k], h * v), dt)))
        kept.append(each)
    np.testing.assert_allclose(kept, [kept[0]] * 3, atol=2e-9 * np.abs(kept[0]).max())
    assert np.abs(kept[0]).min() > 0.01


def test_energy_stays_in_free_flight() -> None:
    of = tumbler(gravity=False)
    graph = trace(of, "kinetic_energy")

    def drift(method: Any) -> float:
        got = run(of, 1000, 0.01, method, every=50)
        energy = np.array(evaluate(graph, {"q": got.q, "qd": got.qd})["kinetic_energy"])
        return float(np.abs(energy / energy[0] - 1.0).max())

    assert drift("variational") < 0.01
    assert drift("semi_implicit_euler") < 0.03


def test_order_under_forces_beside_small_explicit_steps() -> None:
    of, time = tumbler(), 0.2
    forces = forces_on(of)
    exact = run(of, 1600, time / 1600, "rk2", every=1600, forces=forces).q[-1]
    errors = []
    for steps in (40, 80):
        got = run(of, steps, time / steps, "variational", every=steps, forces=forces)
        errors.append(np.abs(difference(of, got.q[-1], exact)).max())
    assert errors[0] < 3e-3
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.2)


def test_devices_and_guesses_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_card(monkeypatch, tmp_path)
    of = tumbler()
    reference = run(of, 6, 0.01, VariationalIntegrator(guess=2, tolerance=1e-12), "numpy")
    np.testing.assert_allclose(np.linalg.norm(reference.q[:, 3:7], axis=-1), 1.0, atol=1e-14)
    np.testing.assert_allclose(0.01 * reference.qd[1:], difference(of, reference.q[:-1], reference.q[1:]), atol=1e-12)
    for guess, device in ((3, "cpu"), (3, "cuda"), (4, "numpy")):
        got = run(of, 6, 0.01, VariationalIntegrator(guess=guess, tolerance=1e-12), device)
        np.testing.assert_allclose(got.q, reference.q, atol=1e-10)


def test_a_step_is_solved_where_damping_is_larger_than_inertia() -> None:
    """A light gripper with a heavy damper in its joint: half a step of damping belongs to the factor of M."""
    of, dt = tumbler(), 0.005
    lower = of.links[-1]
    of = replace(of, links=(*of.links[:-1], replace(lower, joint=replace(lower.joint, damping=4e3))))
    got = run(of, 20, dt)
    assert np.abs(got.qd[-1, -1]) < 0.01 * np.abs(got.qd[0, -1])


def test_a_ball_that_turns_too_far_in_a_step_is_told() -> None:
    of = tumbler()
    q0, qd0 = start(of)
    qd0 = np.stack([qd0, qd0])
    qd0[1, 6:9] = 80.0
    got = Rollout(of, steps=3, dt=0.02, integrator="variational")([q0, q0], qd0, np.zeros((2, 3, of.nv)))
    assert got.converged.all(axis=1).tolist() == [True, False]
    assert np.isnan(got.q[1, 1:]).all()
    assert np.isfinite(got.q[0]).all()
