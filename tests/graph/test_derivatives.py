"""Derivatives of graphs: products from both sides, Jacobians and second derivatives, against the complex step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import FUNCTIONS, Robot, evaluate, robots, trace
from dynagate.dynamics.configuration import direction_matrix, integrate
from dynagate.graph import Graph
from dynagate.graph.derivatives import jacobian, jvp, sweep_operations, vjp
from dynagate.graph.recorder import Recording
from dynagate.graph.reference_gradient import STEP, relative_errors

from tests import tolerances
from tests.robots import floating
from tests.samples import State, inputs_of, states

SECOND = "forward_dynamics_second_order"


def robot_of(name: str, folder: Path) -> Robot:
    return floating(folder) if name == "floating" else robots.load(name)


def along(robot: Robot, state: State, name: str, k: int) -> State:
    """The state moved by a complex step along direction k of an input."""
    moved = {key: value.astype(complex) for key, value in state.items()}
    step = 1j * STEP * np.eye(robot.nv)[k]
    moved[name] = integrate(robot, state["q"], step) if name == "q" else state[name] + step
    return moved


def columns(robot: Robot, graph: Graph, state: State, output: str, name: str) -> np.ndarray:
    """∂output/∂direction by the complex step, (count, *output, nv)."""
    each = [evaluate(graph, along(robot, state, name, k))[output].imag / STEP for k in range(robot.nv)]
    return np.stack(each, axis=-1)


@pytest.mark.parametrize("name", ["two_joint_arm", "iiwa14", "floating"])
def test_second_order_equals_the_complex_step_of_the_gradient(name: str, tmp_path: Path) -> None:
    robot = robot_of(name, tmp_path)
    state = inputs_of(SECOND, states(robot, 3, seed=4))
    product = trace(robot, "forward_dynamics_vjp")
    outputs = evaluate(trace(robot, SECOND), state)
    for output, (row, column) in {
        "d2_dq_dq": ("q", "q"),
        "d2_dq_dqd": ("q", "qd"),
        "d2_dqd_dqd": ("qd", "qd"),
        "d2_dq_dtau": ("q", "tau"),
    }.items():
        expected = columns(robot, product, state, f"vjp_{row}", column)
        assert relative_errors(outputs[output], expected).max() <= tolerances.COMPLEX_STEP, output
    for row, column in (("qd", "tau"), ("tau", "tau")):  # those that are left out
        assert np.abs(columns(robot, product, state, f"vjp_{row}", column)).max() < tolerances.ZERO


@pytest.mark.parametrize("name", ["two_joint_arm", "floating"])
def test_directions_are_those_of_integrate(name: str, tmp_path: Path) -> None:
    robot = robot_of(name, tmp_path)
    q = states(robot, 1, seed=3)["q"][0]
    steps = [integrate(robot, q, 1j * STEP * unit).imag / STEP for unit in np.eye(robot.nv)]
    matrix = direction_matrix(robot, q.tolist()).astype(float)
    np.testing.assert_allclose(matrix, np.stack(steps, axis=-1), atol=1e-14)


@pytest.mark.parametrize("function", ["forward_dynamics", "mass_matrix", "link_positions", "kinetic_energy"])
@pytest.mark.parametrize("name", ["two_joint_arm", "floating"])
def test_derivatives_of_any_graph(name: str, function: str, tmp_path: Path) -> None:
    """The Jacobian against the complex step, and both products against the Jacobian."""
    robot = robot_of(name, tmp_path)
    graph = trace(robot, function)
    state = inputs_of(function, states(robot, 3, seed=6))
    (output,) = (port.name for port in graph.outputs)
    matrices = evaluate(jacobian(graph, robot=robot), state)
    random = np.random.default_rng(0)
    rates = {f"delta_{x}": random.normal(size=(3, robot.nv)) for x in state}
    moved = evaluate(jvp(graph, robot=robot), {**state, **rates})[f"jvp_{output}"]
    weight = random.normal(size=moved.shape)
    weighed = evaluate(vjp(graph, robot=robot), {**state, f"lam_{output}": weight})
    total = np.zeros_like(moved)
    for x in state:
        matrix = matrices[f"d{output}_d{x}"]
        expected = columns(robot, graph, state, output, x)
        assert relative_errors(matrix, expected).max() <= tolerances.COMPLEX_STEP, x
        total += np.einsum("b...j,bj->b...", matrix, rates[f"delta_{x}"])
        product = np.einsum("bi,bij->bj", weight.reshape(3, -1), matrix.reshape(3, -1, robot.nv))
        assert relative_errors(weighed[f"vjp_{x}"], product).max() <= tolerances.IDENTITY, x
    assert relative_errors(moved, total).max() <= tolerances.IDENTITY


def test_an_entry_of_a_symmetric_matrix_moves_with_its_mirror_image() -> None:
    robot = robots.load("two_joint_arm")
    graph = trace(robot, "forward_dynamics_gradient_given_minv")
    state = states(robot, 2, seed=1)
    state["minv"] = evaluate(trace(robot, "mass_matrix_inverse"), {"q": state["q"]})["minv"]
    inputs = inputs_of("forward_dynamics_gradient_given_minv", state)
    product = vjp(graph, ["dqdd_dq"], ["minv"], robot=robot)
    assert [(port.name, port.shape) for port in product.outputs] == [("dqdd_dq", (2, 2)), ("vjp_minv", (3,))]
    weight = np.random.default_rng(1).normal(size=(2, 2, 2))
    got = evaluate(product, {**inputs, "lam_dqdd_dq": weight})["vjp_minv"]
    for k, (i, j) in enumerate([(0, 0), (0, 1), (1, 1)]):
        moved = {key: value.astype(complex) for key, value in inputs.items()}
        moved["minv"][:, i, j] += 1j * STEP
        moved["minv"][:, j, i] = moved["minv"][:, i, j]
        expected = np.sum(weight * evaluate(graph, moved)["dqdd_dq"].imag / STEP, axis=(1, 2))
        np.testing.assert_allclose(got[:, k], expected, rtol=1e-12)


def test_functions_of_others_keep_their_forms_and_forces() -> None:
    robot = robots.load("two_joint_arm")
    state = states(robot, 3, seed=2, external_forces=True)
    inputs = inputs_of("forward_dynamics_vjp", state, external_forces=True)
    graphs = [trace(robot, "forward_dynamics_vjp", form=form, external_forces=True) for form in (None, "aba")]
    plain, aba = (evaluate(graph, inputs) for graph in graphs)
    assert graphs[0] != graphs[1]
    full = evaluate(
        trace(robot, "forward_dynamics_gradient", external_forces=True),
        {k: inputs[k] for k in ("q", "qd", "tau", "f_ext")},
    )
    for x, matrix in (("q", "dqdd_dq"), ("qd", "dqdd_dqd"), ("tau", "minv")):
        expected = np.einsum("bi,bij->bj", inputs["lam_qdd"], full[matrix])
        for got in (plain, aba):
            assert relative_errors(got[f"vjp_{x}"], expected).max() <= tolerances.IDENTITY


@pytest.mark.parametrize(
    ("name", "products", "additions", "depth"),
    [("iiwa14", 652 + 284, 821, 64), ("hyq", 636 + 632, 1036, 34)],
)
def test_a_product_takes_half_of_the_gradient(name: str, products: int, additions: int, depth: int) -> None:
    counts = trace(robots.load(name), "forward_dynamics_vjp").counts()
    assert (counts.products, counts.add, counts.depth) <= (products, additions, depth)
    assert counts.add <= additions
    assert counts.depth <= depth


def test_what_is_refused(tmp_path: Path) -> None:
    robot = robots.load("two_joint_arm")
    graph = trace(robot, "forward_dynamics")
    with pytest.raises(ValueError, match="forward_dynamics has no output 'tau'; expected one of qdd"):
        vjp(graph, ["tau"])
    with pytest.raises(ValueError, match="forward_dynamics has no input 'qdd'; expected one of q, qd, tau"):
        jvp(graph, inputs=["qdd"])
    free = trace(floating(tmp_path), "inverse_dynamics")
    with pytest.raises(
        ValueError, match="input 'q' of inverse_dynamics has quaternions; expected robot=, the robot with this input"
    ):
        jacobian(free)
    with pytest.raises(
        ValueError, match="forward_dynamics_vjp has no form 'lu'; expected one of mass_matrix_solve, aba"
    ):
        trace(robot, "forward_dynamics_vjp", form="lu")
    with pytest.raises(
        ValueError, match=r"is made from a graph; expected dynagate.trace\(robot, 'forward_dynamics_jvp'\)"
    ):
        FUNCTIONS["forward_dynamics_jvp"](robot, *[[0.0] * 2] * 6)


def test_a_weight_outside_its_range_is_named() -> None:
    with dynagate.compile(robots.load("two_joint_arm"), "forward_dynamics_vjp", device="fixed") as accelerator:
        inputs = {name: np.zeros(2) for name in ("q", "qd", "tau")}
        with pytest.raises(ValueError, match=r"input 'lam_qdd' is 1e\+06 at \(1,\); the formats were chosen for -"):
            accelerator(**inputs, lam_qdd=[0.0, 1e6])


def test_many_inputs_of_one_result_take_one_sweep_back() -> None:
    """The gradient of a number takes no more operations than a product with its weight, by any count of inputs."""
    robot = robots.load("iiwa14").with_variable(*(f"{link.name}.mass" for link in robots.load("iiwa14").links))
    graph = trace(robot, "kinetic_energy")
    whole, product = jacobian(graph, robot=robot), vjp(graph, robot=robot)
    assert whole.counts().products <= product.counts().products
    state = inputs_of("kinetic_energy", states(robots.load("iiwa14"), 2, seed=3)) | robot.parameters
    state = {
        name: np.broadcast_to(value, (2, *value.shape)) if value.ndim == 0 else value for name, value in state.items()
    }
    by = evaluate(whole, state)
    weighed = evaluate(product, {**state, "lam_kinetic_energy": np.ones(2)})
    for port in graph.inputs:
        np.testing.assert_allclose(by[f"dkinetic_energy_d{port.name}"], weighed[f"vjp_{port.name}"], rtol=1e-12)


@pytest.mark.parametrize(
    ("formula", "operations"),
    [
        pytest.param(lambda x: [x[0] * x[1] + x[2], x[0].sin()], (0, 2), id="the first products are with 1"),
        pytest.param(lambda x: [(x[0] * x[1]) * (x[2] * x[3])], (4, 4), id="one way for each operand"),
        pytest.param(lambda x: [(x[0] * x[1]).sin().sin()], (4, 3), id="many inputs of one result"),
        pytest.param(lambda x: [x[0].sin().sin(), x[0].sin().cos()], (2, 2), id="one input of two results"),
        pytest.param(lambda x: [x[0].sin() * x[0].cos()], (3, 3), id="ways that meet"),
        pytest.param(lambda x: [(x[0] + x[1]) * x[2]], (2, 0), id="sums have no products"),
    ],
)
def test_operations_of_sweeps(formula: Any, operations: tuple[int, int]) -> None:
    recording = Recording("formula", "none")
    x = recording.input("x", (4,))
    graph = recording.graph({"y": np.array(formula(x), dtype=object)})
    (port,) = graph.inputs
    assert sweep_operations(graph, [{i: 1.0} for i in port.nodes], graph.output_nodes) == operations


def test_forward_sweeps_are_kept_unless_sweeps_back_are_clearly_shorter() -> None:
    iiwa = robots.load("iiwa14")
    counts = jacobian(trace(iiwa, "inverse_dynamics"), robot=iiwa).counts()
    assert counts.products + counts.add + counts.neg <= 3702  # of forward sweeps


def test_a_number_by_a_number_has_a_derivative() -> None:
    robot = robots.load("two_joint_arm").with_variable("forearm.mass")
    state = inputs_of("kinetic_energy", states(robots.load("two_joint_arm"), 3, seed=2))
    by = evaluate(
        jacobian(trace(robot, "kinetic_energy"), inputs=["forearm_mass"], robot=robot),
        {**state, "forearm_mass": np.ones(3)},
    )["dkinetic_energy_dforearm_mass"]
    energy = [evaluate(trace(robot, "kinetic_energy"), {**state, "forearm_mass": np.full(3, m)}) for m in (1.0, 2.0)]
    np.testing.assert_allclose(by, energy[1]["kinetic_energy"] - energy[0]["kinetic_energy"], rtol=1e-12)
