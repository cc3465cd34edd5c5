"""Rates of programs: nested loops against differences, scans against the traced product, on every executor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import evaluate, robots, trace
from dynagate.graph.loop import Loop, evaluate_loop
from dynagate.graph.rates import JVP, jvp, rate_of
from dynagate.graph.scan_trace import trace_scan
from dynagate.graph.steps import KINDS
from dynagate.integrators.methods import method_of
from dynagate.integrators.step import StepOptions
from dynagate.native.loop import LoopKernel

from tests.test_nested_loops import equal_names

ARM, IIWA = robots.load("two_joint_arm"), robots.load("iiwa14")
BATCH, TURNS, STEP = 5, 4, 1e-6


def drawn(loop: Loop, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        port.name: random.uniform(-1.0, 1.0, (BATCH, *([TURNS] if port.name in loop.per_turn else []), *port.shape))
        for port in loop.inputs
    }


def check_rates(loop: Loop, names: list[str], seed: int, tolerance: float = 1e-7) -> dict[str, Any]:
    """The rates of all outputs are central differences along the rates of these inputs. Returns the inputs."""
    inputs, rates = drawn(loop, seed), drawn(loop, seed + 1)
    product = jvp(loop, names)
    own = {**inputs, **{rate_of(name): rates[name] for name in names}}
    got = evaluate_loop(product, own)
    ends = [
        evaluate_loop(loop, {n: x + sign * STEP * rates[n] if n in names else x for n, x in inputs.items()})
        for sign in (1.0, -1.0)
    ]
    for name in (*loop.kept, *loop.last):
        expected = (ends[0][name] - ends[1][name]) / (2.0 * STEP)
        rate = got.get(rate_of(name), np.zeros_like(expected))
        np.testing.assert_allclose(rate, expected, atol=tolerance * max(1.0, np.abs(expected).max()), err_msg=name)
        np.testing.assert_array_equal(got[name].shape, expected.shape)
    return own


@pytest.mark.parametrize("names", [["x"], ["x", "u"], ["x", "k"], ["x", "u", "k"]], ids="-".join)
def test_rates_of_loops_in_loops(names: list[str]) -> None:
    """Scopes have equal names, and one loop ends by a value."""
    check_rates(equal_names(), names, 3)


def test_rates_of_a_rollout_on_all_executors(tmp_path: Path) -> None:
    loop = method_of("rk4").motion(IIWA, StepOptions(0.01)).loop
    inputs = check_rates(loop, ["q", "qd", "tau"], 5, 1e-6)
    product = jvp(loop, ["q", "qd", "tau"])
    expected = evaluate_loop(product, inputs)
    kernel = LoopKernel(product, np.float64, folder=tmp_path)
    outputs = kernel.new_outputs(BATCH, TURNS)
    kernel(inputs, outputs, BATCH, TURNS)
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics"])
def test_rates_of_scans(function: str) -> None:
    """One up and one down the tree; the unrolled function has the same product."""
    loop = trace_scan(IIWA, function)
    names = [port.name for port in loop.inputs]
    inputs, rates = drawn(loop, 7), drawn(loop, 8)
    got = evaluate_loop(jvp(loop, names), {**inputs, **{rate_of(name): rates[name] for name in names}})
    product = evaluate(trace(IIWA, f"{function}_jvp"), {**inputs, **{f"delta_{name}": rates[name] for name in names}})
    (output,) = loop.last
    expected = next(value for name, value in product.items() if name != output)
    np.testing.assert_allclose(got[rate_of(output)], expected, atol=1e-9 * np.abs(expected).max())


def test_what_has_no_rates_is_refused() -> None:
    assert {*JVP} == {*KINDS}
    loop = method_of("rk4").motion(ARM, StepOptions(0.01)).loop
    with pytest.raises(ValueError, match="no input 'torque'; expected some of q, qd, tau"):
        jvp(loop, ["torque"])
    with pytest.raises(ValueError, match="carries rates to q, qd; expected these among the inputs that change"):
        jvp(loop, ["tau"])
    floating = method_of("semi_implicit_euler").motion(robots.load("hyq", floating_base=True), StepOptions(0.01)).loop
    with pytest.raises(ValueError, match="has quaternions"):
        jvp(floating, ["tau", "q", "qd"])
