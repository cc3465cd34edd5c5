"""The same bits from a design's shell, its bare datapath and its integers, whatever its streams carry; and what an
accuracy goal promises of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Goal, Region, Robot, evaluate, robots
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.wordlength.confidence import block_floors
from dynagate.graph.reference_gradient import relative_errors
from dynagate.hw.rtl.axi import Axi
from dynagate.robot import Joint, Link

ARM = robots.load("two_joint_arm")


def test_shell_datapath_and_integers_agree(tmp_path: Path) -> None:
    """Inputs in float64, 27 bits and so tight that some states overflow."""
    policy, axi = Policy(word=27, guard_bits=-0.2), Axi(32)
    built = dynagate.build(ARM, "inverse_dynamics", ii=8, policy=policy, axi=axi, folder=tmp_path)
    states = Region.of(ARM).sample("inverse_dynamics", 1000, seed=8)
    options: tuple[dict[str, Any], ...] = ({"shell": True}, {}, {"device": "fixed"})
    results = []
    for each in options:
        with dynagate.open(built.folder, **each) as accelerator:
            results.append(accelerator(**states))
            late = accelerator.submit(**states).result()
            assert np.array_equal(late.tau, results[-1].tau, equal_nan=True)
    _, bare, fixed = results
    sound = ~fixed.overflow
    assert 0 < np.count_nonzero(~sound) < 50
    for result in results:
        assert result.tau.dtype == np.float32
        assert np.array_equal(result.overflow, fixed.overflow)
        assert np.array_equal(result.tau[sound], fixed.tau[sound])
    assert np.array_equal(bare.tau, fixed.tau, equal_nan=True)


def test_rings_agree(tmp_path: Path) -> None:
    inertia = ((0.02, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.02))
    joint = Joint("x", "prismatic", axis=(1.0, 0.0, 0.0), lower=-1.0, upper=1.0, velocity=1.0, effort=50.0)
    slide = Robot("slide", (Link("body", -1, joint, 2.0, (0.0, 0.0, 0.0), inertia),))
    built = dynagate.build(slide, "rollout", dt=0.01, axi=Axi(32), folder=tmp_path)
    random = np.random.default_rng(0)
    arrays = [random.uniform(-0.5, 0.5, shape) for shape in ((50, 1), (50, 1), (50, 4, 1))]
    results = []
    for options in ({"shell": True}, {}, {"device": "fixed"}):
        with dynagate.open(built.folder, **options) as chip:
            results.append(chip(*arrays))
    for result in results:
        assert result.q.dtype == np.float32
        assert np.array_equal(result.q, results[-1].q)
        assert np.array_equal(result.qd, results[-1].qd)


@pytest.mark.parametrize("device", ["sim", "fixed"])
def test_an_input_that_rounds_to_more_than_its_format_holds(device: str, tmp_path: Path) -> None:
    """As the shell refuses it: 1.99999999 is 2 in float32."""
    region = Region.of(ARM, velocity=1.99999999)
    policy = Policy(word=32, guard_bits=0.0)
    built = dynagate.build(ARM, "inverse_dynamics", region=region, policy=policy, axi=Axi(32), folder=tmp_path)
    zero = np.zeros(2)
    with dynagate.open(built.folder, device=device) as accelerator:
        with pytest.raises(ValueError, match=r"input 'qd' is 2 in sample 0; its format holds -2 to 2"):
            accelerator(q=zero, qd=[0.0, 1.99999999], qdd=zero)
        assert np.isfinite(accelerator(q=zero, qd=[0.0, 1.999], qdd=zero).tau).all()


def test_a_goal_is_kept_behind_the_rounding_to_float32(tmp_path: Path) -> None:
    """In 99.9 % of the states, for the inputs that float32 brings."""
    error, region = 5e-4, Region.of(ARM)
    goal = Goal(error, states=8192, fresh=16384)
    built = dynagate.build(ARM, "inverse_dynamics", goal=goal, axi=Axi(32), folder=tmp_path)
    states = region.sample("inverse_dynamics", 20000, seed=99)
    with dynagate.open(built.folder, device="fixed") as accelerator:
        results = accelerator(**states)
    exact = evaluate(built.graph, {name: x.astype(np.float32).astype(float) for name, x in states.items()})
    floors = block_floors(built.graph, region, goal)
    errors = relative_errors(results.tau.astype(float), exact["tau"], floors["tau"])
    assert np.count_nonzero(errors > error) <= 0.001 * len(errors)
    statement = built.design.formats.statement
    assert statement is not None
    assert 3e-4 < statement["samples"]["uniform"]["error"]["tau"] <= error
    assert "Results are rounded to float32, as the streams carry them." in (built.folder / "datasheet.md").read_text()
