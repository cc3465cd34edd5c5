"""What floating-point devices refuse: inputs and results that are not finite, angles that a dtype cannot reduce."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import Region, robots
from dynagate.host.inputs import LARGEST_ANGLE
from dynagate.native.kernel import Kernel

from tests.expressions import traced
from tests.samples import inputs_of, states


@pytest.mark.parametrize("layout", ["rows", "planes"])
@pytest.mark.parametrize("batch", [1, 3, 40, 1300])
def test_what_is_not_finite_is_found_wherever_it_stands(batch: int, layout: str) -> None:
    robot = robots.load("two_joint_arm")
    state = inputs_of("forward_dynamics", states(robot, batch, seed=8))
    with dynagate.compile(robot, "forward_dynamics", dtype=np.float32, layout=layout, threads=2) as accelerator:
        out = accelerator(**state)
        for row in {0, batch // 2, batch - 1}:
            for value, expected in (
                (np.nan, "finite numbers"),
                (-np.inf, "finite numbers"),
                (1e39, "that float32 holds"),
            ):
                bad = np.array(state["tau"])
                bad[row, 1] = value
                with pytest.raises(
                    ValueError, match=rf"input 'tau' is {value} at \({row}, 1\).*{expected}".replace("+", ".")
                ):
                    accelerator(out=out, **{**state, "tau": bad})
        accelerator(out=out, **state)  # and forgotten again


def too_large(dtype: type) -> tuple[float, str]:
    """A velocity whose square overflows, and how the results' fault is told."""
    text = rf"output '\w+' is (nan|-?inf) at \(%d.*: values became too large for {np.dtype(dtype)}; expected smaller"
    return (1e160 if dtype is np.float64 else 1e20), text


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", ["rows", "planes"])
@pytest.mark.parametrize("batch", [1, 3, 40, 1300])
def test_results_that_are_not_finite_are_refused(batch: int, layout: str, dtype: type) -> None:
    robot = robots.load("two_joint_arm")
    speed, message = too_large(dtype)
    with dynagate.compile(robot, "forward_dynamics_gradient", dtype=dtype, layout=layout, threads=2) as accelerator:
        inputs = accelerator.new_inputs(batch)
        for name, value in Region.of(robot).sample("forward_dynamics_gradient", batch, seed=8).items():
            inputs[name][...] = value
        out = accelerator(**inputs)
        for row in {0, batch // 2, batch - 1}:
            for _ in range(4):  # the last ones are prepared
                accelerator(out=out, **inputs)
            right = inputs["qd"].copy()
            inputs["qd"][row, 1] = speed
            for _ in range(2):
                with pytest.raises(ValueError, match=message % row):
                    accelerator(out=out, **inputs)
            with pytest.raises(ValueError, match=message % row):
                accelerator(**inputs)
            inputs["qd"][...] = right
        assert np.isfinite(accelerator(out=out, **inputs).dqdd_dq).all()


def test_numpy_refuses_results_that_are_not_finite() -> None:
    inputs = Region.of(robots.load("two_joint_arm")).sample("forward_dynamics_gradient", 9, seed=8)
    inputs["qd"][5, 1], message = too_large(np.float64)
    accelerator = dynagate.compile(robots.load("two_joint_arm"), "forward_dynamics_gradient", device="numpy")
    with pytest.raises(ValueError, match=message % 5):
        accelerator(**inputs)


@pytest.mark.parametrize(
    "formula",
    [
        lambda a, b, *_: [1 / (a * b), a.sin()],  # whose results are finite
        lambda a, b, c, *_: [a + b + c, a * b],  # of which the first is
    ],
)
def test_overflow_is_told_wherever_it_happens(formula: Callable[..., object], tmp_path: Path) -> None:
    graph = traced(formula)
    x = np.full((33, 8), 2.0, np.float32)
    for layout, batch in itertools.product(["rows", "planes"], [1, 33]):
        kernel = Kernel(graph, np.float32, layout=layout, folder=tmp_path)
        outputs = kernel.new_outputs(batch)
        assert kernel({"x": x[:batch]}, kernel.written(outputs), batch)
        large = x[:batch].copy()
        large[-1, :2] = 1e5, 1e35
        assert not kernel({"x": large}, kernel.written(outputs), batch)
        assert np.isfinite(outputs["y"][:, 0]).all()
        assert kernel({"x": x[:batch]}, kernel.written(outputs), batch)


@pytest.mark.parametrize(("device", "dtype"), [("cpu", np.float32), ("cpu", np.float64), ("numpy", np.float64)])
@pytest.mark.parametrize("batch", [1, 40])
def test_angles_that_a_dtype_cannot_reduce_are_refused(batch: int, device: str, dtype: type) -> None:
    robot = robots.load("two_joint_arm")
    options = {"dtype": dtype} if device == "cpu" else {}
    largest = LARGEST_ANGLE[np.dtype(dtype)]
    with dynagate.compile(robot, "forward_dynamics", device=device, **options) as accelerator:
        assert accelerator.device.angles == {"q": [0, 1]}
        state = {
            key: value.astype(dtype) for key, value in inputs_of("forward_dynamics", states(robot, batch, 8)).items()
        }
        for entry, value in ((0, largest), (1, -largest), (1, 1e30)):
            bad = {**state, "q": state["q"].copy()}
            bad["q"][batch - 1, entry] = value
            text = f"input 'q' is {dtype(value):g} at ({batch - 1}, {entry}); expected angles below {largest:.0f} rad"
            with pytest.raises(ValueError, match=re.escape(f"{text} for {np.dtype(dtype)}: subtract multiples of 2π")):
                accelerator(**bad)
        state["q"][-1] = np.nextafter(dtype(largest), dtype(0))
        state["tau"][-1] = 1e12  # no angle
        assert np.isfinite(accelerator(**state).qdd).all()
    moving = dynagate.compile(robots.load("hyq", floating_base=True), "mass_matrix", device="numpy")
    assert moving.device.angles == {"q": list(range(7, 19))}


@pytest.mark.parametrize("layout", ["rows", "planes"])
def test_every_entry_is_looked_at(layout: str) -> None:
    state = inputs_of("inverse_dynamics", states(robots.load("iiwa14"), 48, seed=8))
    with dynagate.compile(robots.load("iiwa14"), "inverse_dynamics", dtype=np.float32, layout=layout) as accelerator:
        for name, entry in itertools.product(state, range(7)):
            bad = {**state, name: np.array(state[name])}
            bad[name][17, entry] = np.inf
            with pytest.raises(ValueError, match=rf"input '{name}' is inf at \(17, {entry}\); expected finite numbers"):
                accelerator(**bad)
        assert np.isfinite(accelerator(**state).tau).all()
