"""MPPI: noise against published numbers and between backends, weights, means, failed problems, refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import robots
from dynagate.base import philox
from dynagate.control import Cost
from dynagate.control.mppi import weights
from dynagate.host.mppi import Mppi
from dynagate.native import noise

ARM = robots.load("two_joint_arm")
KNOTS, DT = 20, 0.02
COST = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=100.0)
OPTIONS: dict[str, Any] = {
    **{"knots": KNOTS, "dt": DT, "cost": COST, "samples": 300, "temperature": 1.0},
    **{"spread": [2.0, 0.5], "nodes": 5, "seed": 7},
}


@pytest.fixture(scope="module")
def sampler() -> Iterator[Mppi]:
    opened = dynagate.mppi(ARM, **OPTIONS)
    assert isinstance(opened, Mppi)
    with opened:
        yield opened


def starts(count: int) -> dict[str, Any]:
    q0, goal = np.random.default_rng(0).uniform(-1.0, 1.0, (2, count, 2))
    return {"q0": q0, "qd0": np.zeros((count, 2)), "goal": goal}


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0), 0, "ff1dae59 6cd10df2"),
        ((2**32 - 1, 2**32 - 1), 2**32 - 1, "2c3f628b ab4fd7ad"),
        ((0x243F6A88, 0x85A308D3), 0x13198A2E, "dd7ce038 f62a4c12"),
    ],
)
def test_philox_has_the_numbers_that_its_authors_publish(counter: Any, key: int, expected: str) -> None:
    assert " ".join(f"{int(x):08x}" for x in philox.philox(*counter, key)) == expected


@pytest.mark.parametrize("count", [1, 31, 32, 33, 63, 64, 65, 1001])
def test_integers_are_the_same_in_c(count: int) -> None:
    seed, draw = 2**31 + 12345, 2**31 + 7
    expected = noise.integers(count, seed, draw)
    np.testing.assert_array_equal(noise.compiled(count, seed, draw), expected)
    np.testing.assert_array_equal(noise.integers(2000, seed, draw)[:count], expected)
    assert not np.array_equal(noise.compiled(count, seed, draw + 1), expected)
    assert not np.array_equal(noise.compiled(count, seed + 1, draw), expected)


def test_numbers_are_nearly_normal() -> None:
    x = noise.compiled(400_000, 3, 0) / philox.DEVIATION
    assert abs(x.mean()) < 0.01
    assert abs(x.std() - 1.0) < 0.01
    assert abs((x**4).mean() - 2.7) < 0.05  # of a sum of four uniform numbers
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.01


@pytest.mark.parametrize(("nodes", "knots"), [(5, 20), (20, 20), (2, 3), (1, 1)])
@pytest.mark.parametrize("width", [1, 3, 8, 13, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lines_in_c_are_those_of_numpy(nodes: int, knots: int, width: int, dtype: Any) -> None:
    scale = np.linspace(1.0, 0.0, width + 1)[1:] / philox.DEVIATION
    lines = noise.NoiseLines(nodes, knots, scale)
    numbers = noise.integers(2 * 200 * nodes * width, 1, 2).reshape(2, 200, nodes, width)
    mean = np.arange(2 * knots * width, dtype=dtype).reshape(2, knots, width)
    expected = lines.about(mean, numbers)
    result = lines.compiled(mean, numbers)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=4e-7)
    last = np.broadcast_to(mean[:, None, :, -1], (2, 200, knots))
    np.testing.assert_array_equal(result[..., -1], last)
    np.testing.assert_array_equal(lines.compiled(mean, numbers[:, :1].copy()), result[:, :1])
    assert abs((expected - mean[:, None])[..., 0].std() - scale[0] * philox.DEVIATION) < 0.1


def test_a_call_is_the_mean_by_weights_of_rollouts(sampler: Mppi) -> None:
    """From the noise on, by a rollout and the cost's formula."""
    inputs = starts(3)
    guess = np.random.default_rng(1).normal(size=(3, KNOTS, 2))
    result = sampler(**inputs, tau=guess, draw=5)
    torques = sampler.torques(guess, 5)
    np.testing.assert_array_equal(torques[:, 0], guess)
    for k in range(3):
        samples = len(torques[k])
        q0, qd0 = np.tile(inputs["q0"][k], (samples, 1)), np.zeros((samples, 2))
        motion = dynagate.Rollout(ARM, steps=KNOTS, dt=DT)(q0, qd0, torques[k])
        away = motion.q - inputs["goal"][k]
        rate = 0.5 * (away**2 + 0.1 * motion.qd**2).sum(axis=2)
        cost = DT * (rate[:, :-1].sum(axis=1) + 0.5e-2 * (torques[k] ** 2).sum(axis=(1, 2))) + 100.0 * rate[:, -1]
        weight = np.exp(-(cost - cost.min()))
        weight /= weight.sum()
        np.testing.assert_allclose(result.tau[k], np.einsum("s,sij->ij", weight, torques[k]), rtol=1e-8)
        np.testing.assert_allclose(result.least[k], cost.min(), rtol=1e-9)
        np.testing.assert_allclose(result.cost[k], weight @ cost, rtol=1e-8)
        np.testing.assert_allclose(result.effective[k], 1.0 / (weight**2).sum(), rtol=1e-8)


def test_numpy_is_the_reference(sampler: Mppi) -> None:
    inputs = starts(2)
    with dynagate.mppi(ARM, device="numpy", **OPTIONS) as reference:
        expected = reference(**inputs, draw=3)
    result = sampler(**inputs, draw=3)
    for name in ("tau", "cost", "least", "effective"):
        np.testing.assert_allclose(getattr(result, name), getattr(expected, name), rtol=1e-7, err_msg=name)


def test_draws_follow_one_another_and_iterations_are_calls(sampler: Mppi) -> None:
    inputs = starts(1)
    first = sampler(**inputs, draw=10)
    second = sampler(**inputs, tau=first.tau)
    assert sampler.draws == 12
    with dynagate.mppi(ARM, **{**OPTIONS, "iterations": 2}) as twice:
        np.testing.assert_array_equal(twice(**inputs, draw=10).tau, second.tau)
    mean = first
    for _ in range(30):
        mean = sampler(**inputs, tau=mean.tau)
    assert mean.least[0] < 0.5 * first.least[0]
    np.testing.assert_array_equal(first.shifted(2)[:, :-2], first.tau[:, 2:])


def test_one_failed_problem_harms_no_other(sampler: Mppi) -> None:
    inputs = starts(4)
    alone = sampler(**inputs, draw=1)
    inputs["q0"] = inputs["q0"].copy()
    inputs["q0"][2] = np.nan
    result = sampler(**inputs, draw=1)
    assert result.failed.tolist() == [False, False, True, False]
    assert np.isnan(result.cost[2])
    assert result.effective[2] == 0.0
    np.testing.assert_array_equal(result.tau[[0, 1, 3]], alone.tau[[0, 1, 3]])


def test_bounds_hold(sampler: Mppi) -> None:
    with dynagate.mppi(ARM.with_passive("elbow"), bounds=[1.5, 9.0], **OPTIONS) as bounded:
        result = bounded(**starts(3))
    assert abs(result.tau[..., 0]).max() <= 1.5
    assert (result.tau[..., 1] == 0.0).all()


def test_weights_leave_out_what_is_not_finite() -> None:
    share, least = weights(np.array([[1.0, np.nan, 2.0, np.inf], [np.nan, np.inf, np.nan, np.nan]]), 0.5)
    expected = np.array([1.0, 0.0, np.exp(-2.0), 0.0])
    np.testing.assert_allclose(share, [expected / expected.sum(), np.zeros(4)])
    assert least.tolist() == [1.0, np.inf]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"samples": 0}, "samples=0; expected a whole number of 1 or more"),
        ({"temperature": 0.0}, "temperature=0.0; expected a cost of more than 0"),
        ({"spread": -1.0}, "spread=-1.0; expected one standard deviation of 0 or more, or one for each joint"),
        ({"nodes": 21}, "nodes=21; expected 2 to 20, as many as knots"),
        ({"nodes": 1}, "nodes=1; expected 2 to 20"),
        ({"seed": -1}, "seed=-1; expected a whole number of 0 or more"),
        ({"device": "sim"}, "device 'sim' runs designs; write dynagate.open"),
        ({"device": "fixed"}, "device 'fixed' of mppi; expected one of numpy, cpu, cuda"),
    ],
)
def test_options_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        dynagate.mppi(ARM, **{**OPTIONS, **changes})


def test_calls_refused(sampler: Mppi) -> None:
    start = {name: x[0] for name, x in starts(1).items()}
    for changes, text in [
        ({"draw": 1.5}, "draw=1.5; expected a whole number"),
        ({"tau": np.zeros((3, 2))}, "tau has shape (3, 2); expected (20, 2), or its last axes"),
        ({"target": 1.0}, "mppi has no input 'target' (write goal); expected goal, hold"),
    ]:
        with pytest.raises(ValueError, match=re.escape(text)):
            sampler(**{**start, **changes})
