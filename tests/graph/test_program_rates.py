"""Rates of programs: nested loops against differences, scans against the traced product, on every executor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import evaluate, robots, trace
from dynagate.forces.options import StepOptions
from dynagate.graph.loop import Count, Loop, evaluate_loop
from dynagate.graph.rates import JVP, jvp, rate_of
from dynagate.graph.recorder import Recording
from dynagate.graph.scan_trace import trace_scan
from dynagate.graph.steps import KINDS
from dynagate.graph.weights import VJP, vjp, weight_of
from dynagate.integrators.methods import method_of
from dynagate.native.loop import LoopKernel

from tests.small_loops import equal_names, sums

ARM, IIWA = robots.load("two_joint_arm"), robots.load("iiwa14")
BATCH, ITERATIONS, STEP = 5, 4, 1e-6


def drawn(loop: Loop, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        port.name: random.uniform(
            -1.0, 1.0, (BATCH, *([ITERATIONS] if port.name in loop.per_iteration else []), *port.shape)
        )
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
    loop = method_of("rk4").motion(ARM, StepOptions(0.01)).loop
    inputs = check_rates(loop, ["q", "qd", "tau"], 5, 1e-6)
    product = jvp(loop, ["q", "qd", "tau"])
    expected = evaluate_loop(product, inputs)
    kernel = LoopKernel(product, np.float64, folder=tmp_path)
    outputs = kernel.new_outputs(BATCH, ITERATIONS)
    kernel(inputs, outputs, BATCH, ITERATIONS)
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


def nested() -> Loop:
    """A counted loop in a counted loop. `k` is a constant of both, and `v` has a value for each iteration."""
    step = sums("step", {"x_next": {"x": 0.5, "k": 0.25, "v": 0.5}, "seen": {"x": 1.0, "v": -0.5}})
    square = Recording("square", "none")
    x, k = square.input("x_next", ())[()], square.input("k", ())[()]
    curved = square.graph({"x_next_2": np.array(x * x * 0.4 + x * k, dtype=object)})
    carry = {"x_next_2": "x"}
    inner = Loop("inner", "none", (step, curved), carry, Count(3), ("v",), ("seen",), ("x_next_2",), backwards=True)
    rows = Recording("rows", "none")
    values, u = rows.input("seen", (3,)), rows.input("u", ())[()]
    end = rows.input("x_next_2", ())[()]
    total = rows.graph({"next": np.array(values[0] * u + values[2] * 0.3 + end * values[1], dtype=object)})
    first = sums("first", {"x": {"z": 0.75, "u": 0.5}})
    return Loop("outer", "none", (first, inner, total), {"next": "z"}, Count(ITERATIONS), ("u",), ("next",), ("seen",))


def check_weights(loop: Loop, inputs: list[str], outputs: list[str], seed: int) -> None:
    """Products with weights equal products with rates, λᵀ (J δ) = (Jᵀ λ)ᵀ δ, for each input."""
    values, rates = drawn(loop, seed), drawn(loop, seed + 1)
    random = np.random.default_rng(seed)
    ports = {port.name: port for port in loop.writes}
    weights = {name: random.uniform(-1.0, 1.0, (BATCH, *ports[name].shape)) for name in outputs}
    back = evaluate_loop(vjp(loop, inputs, outputs), {**values, **{weight_of(n): w for n, w in weights.items()}})
    carried = list(loop.carry.values())
    for name in inputs:
        moving = list(dict.fromkeys([name, *carried]))
        own = {rate_of(n): rates[n] * (n == name) for n in moving}
        forward = evaluate_loop(jvp(loop, moving), {**values, **own})
        for output in outputs:
            np.testing.assert_allclose(back[output], forward[output], rtol=1e-12, atol=1e-12)
        left = sum((forward[rate_of(o)] * w).reshape(BATCH, -1).sum(axis=1) for o, w in weights.items())
        right = (back[weight_of(name)] * rates[name]).reshape(BATCH, -1).sum(axis=1)
        np.testing.assert_allclose(right, left, rtol=1e-9, atol=1e-11, err_msg=name)


def test_weights_of_loops_in_loops() -> None:
    check_weights(nested(), ["z", "u", "k", "v"], ["next", "seen"], 3)
    check_weights(nested(), ["v", "k"], ["seen"], 4)


def test_weights_of_a_rollout() -> None:
    loop = replace(method_of("rk4").motion(ARM, StepOptions(0.01)).loop, stop=Count(ITERATIONS))
    check_weights(loop, ["q", "qd", "tau"], ["q_next", "qd_next"], 5)


def test_what_has_no_weights_is_refused() -> None:
    assert {*VJP} == {*KINDS}
    with pytest.raises(ValueError, match="outer has no output 'x'; expected some of next, seen"):
        vjp(nested(), ["z"], ["x"])
    with pytest.raises(ValueError, match="as many iterations as its inputs; expected a number of iterations"):
        vjp(method_of("rk4").motion(ARM, StepOptions(0.01)).loop, ["q"], ["q_next"])
    until = replace(equal_names(), stop=Count(ITERATIONS))
    with pytest.raises(ValueError, match="until 'inner' in a sweep back; expected graphs, scans and counted loops"):
        vjp(until, ["x"], ["next"])


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
