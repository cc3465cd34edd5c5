"""Whole-body torque: the conditions of the optimum, rest, flight, straight legs, infeasible contacts, refusals."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Robot, RobotError, robots
from dynagate.base.errors import ArgumentError, ArgumentTypeError, MissingExtraError
from dynagate.bench import whole_body
from dynagate.host.devices import Cpu
from dynagate.host.links import DeviceError
from dynagate.host.whole_body import WholeBodySolution, WholeBodyTorque

ARM = robots.load("two_joint_arm")


def leg(side: str, y: float) -> str:
    """Return the links and joints of a leg of three joints with a foot."""
    parts = []
    for name, parent, axis, at, mass, down, effort in (
        ("hip", "trunk", "1 0 0", f"0 {y} -0.1", 1.2, 0.03, 60),
        ("thigh", f"{side}_hip", "0 1 0", "0 0 -0.05", 1.5, 0.15, 80),
        ("shank", f"{side}_thigh", "0 1 0", "0 0 -0.3", 0.6, 0.14, 70),
    ):
        parts.append(
            f'<link name="{side}_{name}"><inertial><origin xyz="0.01 0 -{down}"/><mass value="{mass}"/>'
            f'<inertia ixx="0.012" iyy="0.011" izz="0.004" ixy="0.0005" ixz="0" iyz="0"/></inertial></link>'
            f'<joint name="{side}_{name}_joint" type="revolute"><parent link="{parent}"/>'
            f'<child link="{side}_{name}"/><origin xyz="{at}"/><axis xyz="{axis}"/>'
            f'<limit lower="-2.5" upper="2.5" effort="{effort}" velocity="12"/></joint>'
        )
    foot = (
        f'<link name="{side}_foot"/><joint name="{side}_ankle" type="fixed"><parent link="{side}_shank"/>'
        f'<child link="{side}_foot"/><origin xyz="0 0 -0.3"/></joint>'
    )
    return "".join([*parts, foot])


TWO_LEGS = (
    '<robot name="two_legs"><link name="trunk"><inertial><origin xyz="0.02 0 0.1"/><mass value="9"/>'
    '<inertia ixx="0.2" iyy="0.15" izz="0.1" ixy="0" ixz="0.01" iyz="0"/></inertial></link>'
    f"{leg('left', 0.1)}{leg('right', -0.1)}</robot>"
)
with TemporaryDirectory() as _folder:
    (_path := Path(_folder) / "two_legs.urdf").write_text(TWO_LEGS)
    BIPED = Robot.from_file(_path, floating_base=True)
FEET = ("left_foot", "right_foot")
HYQ = Robot.from_file(robots.path("hyq"), floating_base=True)
HYQ_FEET = ("lf_foot", "rf_foot", "lh_foot", "rh_foot")
LEG = {"two_legs": [0.0, 0.4, -0.8], "hyq": [0.0, 0.6, -1.2]}


def solver_of(*args: Any, device: Any = "numpy", **options: Any) -> WholeBodyTorque:
    opened = dynagate.whole_body_torque(*args, device=device, **options)
    assert isinstance(opened, WholeBodyTorque)
    return opened


def stance(robot: Robot) -> np.ndarray:
    """Return a configuration with bent legs."""
    q = dynagate.neutral(robot)
    q[7:] = np.tile(LEG[robot.name], (robot.nq - 7) // 3)
    return q


def problems(robot: Robot, contacts: int, count: int, seed: int, slope: float = 0.2) -> dict[str, np.ndarray]:
    """Return random problems, some with inactive contacts, contacts without friction, or requests beyond reach."""
    random = np.random.default_rng(seed)
    q = np.tile(stance(robot), (count, 1))
    q[:, 7:] += random.uniform(-0.3, 0.3, (count, robot.nq - 7))
    turned = random.normal(size=(count, 4)) * [0.2, 0.2, 0.2, 0.0] + [0.0, 0.0, 0.0, 1.0]
    q[:, 3:7] = turned / np.linalg.norm(turned, axis=1, keepdims=True)
    normal = random.normal(size=(count, contacts, 3)) * [slope, slope, 0.0] + [0.0, 0.0, 1.0]
    return {
        "q": q,
        "qd": random.normal(size=(count, robot.nv)) * 0.5,
        "qdd": random.normal(size=(count, robot.nv)) * 4.0,
        "active": (random.uniform(size=(count, contacts)) < 0.8).astype(float),
        "friction": random.choice([0.0, 0.4, 0.9], size=(count, contacts)),
        "normal": normal / np.linalg.norm(normal, axis=2, keepdims=True),
    }


def terms(robot: Robot, contacts: tuple[str, ...], x: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return M (n, nv, nv), the bias (n, nv), J (n, 3 contacts, nv) and its drift, by the compiled functions."""
    values = {
        name: dynagate.evaluate(dynagate.trace(robot, name), {k: x[k] for k in inputs})
        for name, inputs in (("mass_matrix", ["q"]), ("bias_torque", ["q", "qd"]))
    }
    rows, drifts = [], []
    for each in contacts:
        jacobian = dynagate.trace(robot, "frame_jacobian", frame=each)
        drift = dynagate.trace(robot, "frame_bias_acceleration", frame=each)
        rows.append(next(iter(dynagate.evaluate(jacobian, {"q": x["q"]}).values()))[:, 3:])
        found = dynagate.evaluate(drift, {k: x[k] for k in ("q", "qd")})
        drifts.append(next(iter(found.values()))[:, 3:])
    mass, bias = (next(iter(each.values())) for each in values.values())
    return {"m": mass, "bias": bias, "j": np.concatenate(rows, axis=1), "drift": np.concatenate(drifts, axis=1)}


def slopes(
    solver: WholeBodyTorque, x: Mapping[str, np.ndarray], found: WholeBodySolution
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients of the cost by torques (n, nv) and by forces (n, contacts, 3) at a solution."""
    options, y = solver.options, terms(solver.robot, solver.options.contacts, x)
    held = np.repeat(x["active"], 3, axis=1)
    away = (found.qdd - x["qdd"]) * np.array(options.acceleration)
    slip = (np.einsum("nij,nj->ni", y["j"], found.qdd) + y["drift"]) * held * options.contact
    np.testing.assert_allclose(slip.reshape(found.slip.shape), found.slip * options.contact, atol=1e-6)
    pulled = away + np.einsum("nij,ni->nj", y["j"], slip)
    by_torque = np.linalg.solve(y["m"], pulled[..., None])[..., 0]
    forces = found.force.reshape(len(held), -1)
    by_force = np.einsum("nij,nj->ni", y["j"], by_torque) + options.force * forces
    return by_torque + options.torque * found.tau, by_force.reshape(found.force.shape)


@pytest.fixture(scope="module", params=["cone", "pyramid"])
def biped(request: pytest.FixtureRequest) -> WholeBodyTorque:
    return solver_of(BIPED, FEET, shape=request.param)


def check_optimum(solver: WholeBodyTorque, x: Mapping[str, np.ndarray]) -> None:
    """Check motion, limits, cones, and that no torque and no force can lower the convex cost."""
    found, robot = solver(**x), solver.robot
    y = terms(robot, solver.options.contacts, x)
    forces = found.force.reshape(len(x["q"]), -1)
    pushed = found.tau + np.einsum("nij,ni->nj", y["j"], forces)
    moved = np.einsum("nij,nj->ni", y["m"], found.qdd) + y["bias"]
    np.testing.assert_allclose(moved, pushed, atol=1e-7 * np.abs(pushed).max())
    low, high = np.array(solver.options.low), np.array(solver.options.high)
    assert (found.tau[:, robot.undriven] == 0.0).all()
    assert ((found.tau >= low - 1e-7) & (found.tau <= high + 1e-7)).all()
    by_torque, by_force = slopes(solver, x, found)
    done = found.converged
    assert done.all()
    driven, span = low < high, high - low
    inside = np.minimum(found.tau - low, high - found.tau) > 1e-3 * span
    scale = max(np.abs(by_torque[:, driven]).max(), 1e-2)
    assert np.abs(by_torque[done] * (driven & inside[done])).max() < 1e-6 * scale
    at_high, at_low = found.tau > high - 1e-5 * span, found.tau < low + 1e-5 * span
    assert (by_torque[done][(at_high & driven)[done]] < 1e-6 * scale).all()
    assert (by_torque[done][(at_low & driven)[done]] > -1e-6 * scale).all()
    check_cones(solver, x, found, by_force)


def check_cones(
    solver: WholeBodyTorque, x: Mapping[str, np.ndarray], found: WholeBodySolution, by_force: np.ndarray
) -> None:
    """Check forces in their cones, gradients in the dual cones, and that the two are orthogonal."""
    normal, friction, active = x["normal"], x["friction"], x["active"] > 0.0
    up, slope = (np.sum(each * normal, axis=2) for each in (found.force, by_force))
    side, across = (each - height[..., None] * normal for each, height in ((found.force, up), (by_force, slope)))
    if solver.options.shape == "cone":
        sides, dual = np.linalg.norm(side, axis=2), np.linalg.norm(across, axis=2)
    else:  # for normals along z, the sides are along x and y
        sides, dual = np.abs(side).max(axis=2), np.abs(across).sum(axis=2)
    done, weight = found.converged, solver.problem.weight
    assert (found.force[~active] == 0.0).all()
    assert (sides <= friction * up + 1e-9 * weight).all()
    scale = max(np.abs(by_force[done]).max(), 1e-2)
    assert (slope - friction * dual)[done][active[done]].min() > -1e-6 * scale
    assert np.abs(np.sum(found.force * by_force, axis=2))[done].max() < 1e-6 * scale * weight


@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_lowers_the_cost(biped: WholeBodyTorque, seed: int) -> None:
    check_optimum(biped, problems(BIPED, 2, 40, seed, 0.2 if biped.options.shape == "cone" else 0.0))


def test_nothing_lowers_the_cost_of_a_quadruped() -> None:
    check_optimum(solver_of(HYQ, HYQ_FEET), problems(HYQ, 4, 40, 2))


def test_quadratic_programs_of_the_bench_hold_at_the_solution() -> None:
    solver = solver_of(HYQ, whole_body.FEET, shape="pyramid")
    x = whole_body.problems(HYQ, 6)
    own, found = whole_body.programs(solver, x), solver(**x)
    plan = np.concatenate([found.qdd, found.tau[:, solver.problem.driven], found.force.reshape(6, -1)], axis=1)
    plan /= whole_body.units(solver)
    residual = np.einsum("nij,nj->ni", own.motion, plan) - own.bias
    np.testing.assert_allclose(residual, 0.0, atol=1e-7 * np.abs(own.bias).max())
    rows = np.einsum("nij,nj->ni", own.rows, plan)
    assert ((rows > own.low - 1e-7) & (rows < own.high + 1e-7)).all()
    # the slope of the cost is in the span of the equations of motion and of the active rows
    slope = np.einsum("nij,nj->ni", own.hessian, plan) + own.slope
    for k in range(6):
        active = own.rows[k][(rows[k] < own.low[k] + 1e-4) | (rows[k] > own.high[k] - 1e-4)]
        normals = np.concatenate([own.motion[k], active])
        left = slope[k] - np.linalg.lstsq(normals.T, slope[k], rcond=None)[0] @ normals
        assert np.abs(left).max() < 1e-4 * np.abs(own.slope[k]).max()


def test_the_bench_names_the_package_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "proxsuite", None)
    with pytest.raises(MissingExtraError, match="needs the module 'proxsuite'; pip install proxsuite"):
        whole_body.compared(1)


def test_numpy_and_c_find_the_same(biped: WholeBodyTorque) -> None:
    x = problems(BIPED, 2, 13, 5, 0.0)
    with solver_of(BIPED, FEET, shape=biped.options.shape, device="cpu") as compiled:
        found, expected = compiled(**x), biped(**x)
        part = compiled(**{name: each[4:6] for name, each in x.items()})
    done = expected.converged
    assert done.sum() > 10
    np.testing.assert_allclose(found.tau[done], expected.tau[done], atol=1e-4)
    np.testing.assert_allclose(found.force[done], expected.force[done], atol=1e-3)
    np.testing.assert_allclose(part.tau, found.tau[4:6], atol=1e-9)


def test_the_ground_carries_a_robot_at_rest(biped: WholeBodyTorque) -> None:
    found = biped(stance(BIPED), friction=0.6)
    assert found.converged
    both = biped(np.tile(stance(BIPED), (2, 1)), active=[[1.0, 1.0], [0.0, 1.0]])
    assert both.kept.tolist() == [True, True]
    assert found.force.shape == (2, 3)
    weight = biped.problem.weight
    assert abs(both.force[1, 1, 2]) <= weight * 1.2
    assert not both.force[1, 0].any()


def test_legs_in_the_air_follow(biped: WholeBodyTorque) -> None:
    """Without contacts, torques of any accelerations of joints exist, and the base follows from them."""
    x = problems(BIPED, 2, 8, 7)
    x["qdd"] *= 0.2
    x["active"][:] = 0.0
    base = np.array([1e-6] * 6 + [1.0] * 6)
    with solver_of(BIPED, FEET, acceleration=base, torque=1e-9, bounds=None) as free:
        found = free(**x)
    assert not found.force.any()
    assert found.converged.all()
    assert found.kept.all()
    np.testing.assert_allclose(found.qdd[:, 6:], x["qdd"][:, 6:], atol=1e-3)
    y = terms(BIPED, FEET, x)
    moved = np.einsum("nij,nj->ni", y["m"], found.qdd) + y["bias"]
    np.testing.assert_allclose(moved[:, :6], 0.0, atol=1e-8)
    np.testing.assert_allclose(moved[:, 6:], found.tau[:, 6:], atol=1e-8)


def test_straight_legs(biped: WholeBodyTorque) -> None:
    q = dynagate.neutral(BIPED)
    found = biped(q)
    assert found.converged
    assert found.kept
    assert np.isfinite(found.tau).all()
    assert abs(found.force[:, 2].sum() - biped.problem.weight) < 1e-2 * biped.problem.weight


def test_contacts_that_cannot_stay_are_flagged(biped: WholeBodyTorque) -> None:
    q, slope = stance(BIPED), np.array([np.sin(0.3), 0.0, np.cos(0.3)])
    smooth = biped(q, friction=0.0, normal=slope)
    rough = biped(q, friction=0.9, normal=slope)
    assert rough.kept
    assert not smooth.kept
    assert smooth.converged
    np.testing.assert_allclose(np.cross(smooth.force, slope), 0.0, atol=1e-9)
    with solver_of(BIPED, FEET, bounds=3.0) as weak:
        found = weak(q)
        limits = np.array(weak.options.high)
    assert not found.kept
    assert found.converged
    assert (np.abs(found.tau) <= limits + 1e-8).all()
    assert np.isclose(np.abs(found.tau), 3.0, atol=1e-4).any()


def test_a_robot_without_contacts_gets_inverse_dynamics() -> None:
    x = {name: np.random.default_rng(3).uniform(-1.0, 1.0, (5, 2)) for name in ("q", "qd", "qdd")}
    with solver_of(ARM, bounds=1000.0, torque=1e-12) as solver:
        found = solver(**x)
        assert solver.inputs == ("q", "qd", "qdd")
    expected = dynagate.evaluate(dynagate.trace(ARM, "inverse_dynamics"), x)["tau"]
    np.testing.assert_allclose(found.tau, expected, atol=1e-6)
    assert found.kept.all()
    assert found.force.shape == (5, 0, 3)


def test_bounds_of_one_sign_and_fixed_torques() -> None:
    with solver_of(ARM, bounds=([-0.5, 0.2], [np.inf, 0.2])) as solver:
        found = solver(np.zeros((4, 2)), qdd=np.linspace(-50.0, 50.0, 8).reshape(4, 2))
    assert (found.tau[:, 0] >= -0.5 - 1e-9).all()
    assert (found.tau[:, 1] == 0.2).all()
    assert found.converged.all()


@pytest.mark.parametrize("biped", ["cone"], indirect=True)
def test_the_sensitivity_is_that_of_differences(biped: WholeBodyTorque) -> None:
    x = problems(BIPED, 2, 6, 11)
    slopes, random = biped.sensitivity(**x), np.random.default_rng(4)
    assert slopes.smooth.all()
    step = 1e-4
    for name, slope in (("q", slopes.q), ("qd", slopes.qd), ("qdd", slopes.qdd)):
        way = random.normal(size=(6, BIPED.nv))
        ends = []
        for size in (step, -step):
            moved = dynagate.integrate(BIPED, x["q"], size * way) if name == "q" else x[name] + size * way
            ends.append(biped(**{**x, name: moved}).tau)
        expected = (ends[0] - ends[1]) / (2.0 * step)
        difference = np.abs(np.einsum("nij,nj->ni", slope, way) - expected).max(axis=1)
        assert (difference < 1e-3 * np.maximum(np.abs(expected).max(axis=1), 1.0)).all()


def test_derivatives_in_jax(biped: WholeBodyTorque) -> None:
    """Torques are the solver's, and their derivatives those of differences, quaternion included."""
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        from dynagate.jax.whole_body import WholeBodyTorqueFunction

        function, x = WholeBodyTorqueFunction(biped), problems(BIPED, 2, 3, 11)
        motion, ground = [x[name] for name in ("q", "qd", "qdd")], {k: x[k] for k in x.keys() - {"q", "qd", "qdd"}}
        held = function(*motion, **ground)
        np.testing.assert_array_equal(held.tau, biped(**x).tau)
        assert np.asarray(held.converged).all()

        def torques(q: Any, qd: Any, qdd: Any) -> Any:
            return function(q, qd, qdd, **{name: value[0] for name, value in ground.items()}).tau

        own, random, step = [each[0] for each in motion], np.random.default_rng(4), 1e-4
        by_motion = jax.jacrev(torques, argnums=(0, 1, 2))(*own)
        for k, slope in enumerate(by_motion):
            way = step * random.normal(size=BIPED.nv)
            ends = [
                dynagate.integrate(BIPED, own[0], sign * way) if k == 0 else own[k] + sign * way for sign in (1, -1)
            ]
            after, low = (np.asarray(torques(*own[:k], end, *own[k + 1 :])) for end in ends)
            expected = after - low
            assert np.abs(slope @ (ends[0] - ends[1]) - expected).max() < 1e-3 * max(np.abs(expected).max(), step)
        q, one = jax.numpy.asarray(own[0]), jax.jit(jax.vmap(lambda x: function(own[0], friction=x).tau))
        several = one(np.array([0.3, 0.6]))
        np.testing.assert_array_equal(several[1], biped(np.asarray(q), friction=0.6).tau)
        with pytest.raises(ArgumentError, match=r"no input 'frction' \(did you mean 'friction'"):
            function(q, frction=0.5)
    finally:
        jax.config.update("jax_enable_x64", before)


def test_a_torque_that_just_reaches_its_limit_is_no_smooth_problem() -> None:
    with solver_of(ARM, bounds=50.0) as free:
        tau, inside = free(np.zeros(2), qdd=[1.0, 2.0]).tau, free.sensitivity(np.zeros(2), qdd=[1.0, 2.0])
    with solver_of(ARM, bounds=([-50.0, -50.0], [tau[0], 50.0])) as solver:
        assert inside.smooth
        assert not solver.sensitivity(np.zeros(2), qdd=[1.0, 2.0]).smooth
        assert solver.sensitivity(np.zeros((3, 2)), qdd=[9.0, 2.0]).smooth.all()


def test_leading_axes_are_broadcast(biped: WholeBodyTorque) -> None:
    q = np.tile(stance(BIPED), (3, 2, 1))
    found = biped(q, qdd=np.zeros((2, 12)), friction=0.5 * np.ones(2))
    assert found.tau.shape == (3, 2, 12)
    assert found.force.shape == found.slip.shape == (3, 2, 2, 3)
    assert found.converged.shape == (3, 2)
    np.testing.assert_array_equal(found.tau[0, 0], found.tau[2, 1])
    assert biped(q[:0]).tau.shape == (0, 2, 12)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"contacts": ["left_foot", "left_foot"]}, ArgumentError, "contact 'left_foot' is there twice"),
        ({"contacts": [], "bounds": None}, ArgumentError, "without contacts and bounds"),
        ({"contacts": ["tail"]}, RobotError, "tail"),
        ({"contacts": [3]}, ArgumentTypeError, "contacts"),
        ({"shape": "ball"}, ArgumentError, "shape='ball'; expected cone or pyramid"),
        ({"friction": -0.1}, ArgumentError, "friction=-0.1"),
        ({"force": 0.0}, ArgumentError, "force=0.0; expected a weight of more than 0"),
        ({"acceleration": [1.0, 2.0]}, ArgumentError, "acceleration=[1.0, 2.0] has 2 numbers"),
        ({"iterations": 0}, ArgumentError, "iterations=0"),
        ({"device": Cpu(dtype="float32")}, ArgumentError, "float32"),
        ({"robot": BIPED.with_contact("left_foot")}, ArgumentError, "with constraints (contact 'left_foot')"),
        ({"robot": BIPED.with_variable("trunk.mass")}, ArgumentError, "with variable parameters"),
    ],
)
def test_refused_options(change: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        dynagate.whole_body_torque(**{"robot": BIPED, "contacts": FEET, "device": "numpy", **change})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"q": np.full(13, np.nan)}, "q is nan in problem 0; expected finite numbers"),
        ({"q": np.zeros(13)}, "quaternion of length 0"),
        ({"qd": np.zeros(11)}, "'qd' has shape (11,)"),
        ({"active": [0.5, 1.0]}, "active is 0.5 in problem 0"),
        ({"friction": [0.5, -1.0]}, "friction is -1.0 in problem 0; expected finite coefficients, 0 or more"),
        ({"normal": np.ones((2, 3))}, "normal has length 1.73205 in problem 0; expected 1"),
    ],
)
def test_refused_inputs(biped: WholeBodyTorque, change: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(text)):
        biped(**{"q": stance(BIPED), **change})


def test_a_solver_without_contacts_has_no_ground() -> None:
    solver = solver_of(ARM)
    with pytest.raises(ArgumentError, match="friction of a solver without contacts"):
        solver(np.zeros(2), friction=1.0)
    solver.close()
    with pytest.raises(DeviceError):
        solver(np.zeros(2))
