"""Smoothed Coulomb friction in the functions of a robot, against the formula in numpy and its complex step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Region, Robot, RobotWarning, Rollout, evaluate, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.control import Cost
from dynagate.dynamics import FUNCTIONS, function
from dynagate.forces import Damping, Friction, Stops, as_text, of_text
from dynagate.forces.options import AlgorithmOptions, StepOptions
from dynagate.graph.reference_gradient import STEP, forward_dynamics_gradient, relative_errors
from dynagate.host.report import Checks, report_design
from dynagate.hw.request import DesignRequest
from dynagate.integrators.step import step_graph

from tests.samples import State, inputs_of, states

ARM = robots.load("two_joint_arm")
FORCES, SPEED = (0.4, 0.7), 0.5
FRICTION: dict[str, Any] = {"forces": [Friction(FORCES, SPEED)]}
TAKING = [row for row in FUNCTIONS.values() if row.takes_friction]
CASES = [(row.name, form) for row in TAKING for form in row.forms]
MIMIC = '<mimic joint="elbow" multiplier="-2"/><axis'


def rubbed(robot: Robot = ARM, forces: Sequence[float] = FORCES) -> Robot:
    """The robot with friction in its joints."""
    links = [
        replace(link, joint=replace(link.joint, friction=force))
        for link, force in zip(robot.links, forces, strict=True)
    ]
    return replace(robot, links=tuple(links))


def taken(qd: np.ndarray, forces: Any = FORCES, speed: float = SPEED) -> np.ndarray:
    return np.asarray(forces) * qd / np.sqrt(qd**2 + speed**2)


def slope(qd: np.ndarray) -> np.ndarray:
    return taken(qd + 1j * STEP).imag / STEP


def slow(robot: Robot, count: int, seed: int) -> State:
    """Speeds about those at which friction sets in."""
    state = states(robot, count, seed)
    return {**state, "qd": state["qd"] / 8.0}


def expected(name: str, form: str, state: State) -> State:
    """The outputs with friction: those without, of torques that lack what it takes, and what its slope adds."""
    takes, bends = taken(state["qd"]), slope(state["qd"])
    less = {**state, "tau": state["tau"] - takes}
    result = evaluate(trace(ARM, name, form=form), inputs_of(name, less))
    if "tau" in result:
        result["tau"] += takes
    if "dtau_dqd" in result:
        result["dtau_dqd"] += np.stack([np.diag(b) for b in bends])
    if "dqdd_dqd" in result:
        minv = evaluate(trace(ARM, "mass_matrix_inverse"), {"q": state["q"]})["minv"]
        minv = state["minv"] if name.endswith("given_minv") else minv
        result["dqdd_dqd"] -= minv * bends[:, None, :]
    if "jvp_tau" in result:
        result["jvp_tau"] += bends * state["delta_qd"]
    if "jvp_qdd" in result:
        minv = evaluate(trace(ARM, "mass_matrix_inverse"), {"q": state["q"]})["minv"]
        result["jvp_qdd"] -= np.einsum("nij,nj->ni", minv, bends * state["delta_qd"])
    if "vjp_qdd" in result:
        result["vjp_qd"] += bends * state["lam_tau"]
    if "vjp_tau" in result:
        result["vjp_qd"] -= bends * result["vjp_tau"]
    if "d2_dq_dqd" in result:
        result["d2_dq_dqd"] -= result["d2_dq_dtau"] * bends[:, None, :]
        mu = evaluate(trace(ARM, "forward_dynamics_vjp"), inputs_of("forward_dynamics_vjp", less))["vjp_tau"]
        curves = -3.0 * np.array(FORCES) * SPEED**2 * state["qd"] / (state["qd"] ** 2 + SPEED**2) ** 2.5
        result["d2_dqd_dqd"] -= np.stack([np.diag(c) for c in mu * curves])
    return result


@pytest.mark.parametrize(("name", "form"), CASES)
def test_every_form_has_the_friction_of_the_formula(name: str, form: str) -> None:
    state = slow(ARM, 20, seed=3)
    state["minv"] = evaluate(trace(ARM, "mass_matrix_inverse"), {"q": state["q"]})["minv"]
    results = evaluate(trace(ARM, name, form=form, **FRICTION), inputs_of(name, state))
    for output, value in expected(name, form, state).items():
        assert relative_errors(results[output], value).max() < 1e-11, output


def test_friction_falls_with_the_speed_after_breakaway() -> None:
    """The Stribeck law, its slope by complex steps, and its refusals."""
    rubbing = Friction(FORCES, SPEED, breakaway=1.6, stribeck=0.3)

    def law(qd: np.ndarray) -> np.ndarray:
        return np.asarray(taken(qd) * (1.0 + 0.6 / (1.0 + (qd / 0.3) ** 2)))

    state = slow(ARM, 20, seed=5)
    for name in ("inverse_dynamics", "inverse_dynamics_gradient", "forward_dynamics_gradient"):
        inputs = inputs_of(name, state)
        bends = law(state["qd"] + 1j * STEP).imag / STEP
        if name == "forward_dynamics_gradient":
            less = inputs_of(name, {**state, "tau": state["tau"] - law(state["qd"])})
            minv = evaluate(trace(ARM, "mass_matrix_inverse"), {"q": state["q"]})["minv"]
            output, more = "dqdd_dqd", -minv * bends[:, None, :]
        else:
            less, output = inputs, "tau" if name == "inverse_dynamics" else "dtau_dqd"
            more = law(state["qd"]) if output == "tau" else np.stack([np.diag(b) for b in bends])
        result = evaluate(trace(ARM, name, forces=[rubbing]), inputs)[output]
        expected = evaluate(trace(ARM, name), less)[output] + more
        assert relative_errors(result, expected).max() < 1e-11, name
    assert of_text(as_text(rubbing)) == rubbing
    with pytest.raises(ArgumentError, match="friction has breakaway 0.5; expected a part of Coulomb friction"):
        Friction(0.3, breakaway=0.5)


def test_functions_together_have_friction_too() -> None:
    state = slow(ARM, 20, seed=4)
    graph = trace(ARM, "all", **FRICTION)
    for part in function("all").parts:
        inputs = {shared: state[own] for own, shared in part.inputs} | {"function": np.full(20, float(part.code))}
        inputs.setdefault("qd", state["qd"])
        inputs.setdefault("tau_or_qdd", state["tau"])
        row = FUNCTIONS[part.name]
        options = FRICTION if row.takes_friction else {}
        alone = evaluate(trace(ARM, part.name, **options), inputs_of(part.name, state))
        both = evaluate(graph, inputs)
        for output, value in alone.items():
            assert relative_errors(both[output], value).max() < 1e-10, (part.name, output)


def test_true_is_the_friction_of_the_file_and_damping_acts_beside_it() -> None:
    damped = [replace(link, joint=replace(link.joint, damping=0.3)) for link in rubbed().links]
    state = slow(ARM, 20, seed=5)
    inputs = inputs_of("inverse_dynamics", state)
    plain = evaluate(trace(ARM, "inverse_dynamics"), inputs)["tau"]
    tau = evaluate(trace(replace(ARM, links=tuple(damped)), "inverse_dynamics", forces=[Friction()]), inputs)["tau"]
    np.testing.assert_allclose(tau, plain + 0.3 * state["qd"] + taken(state["qd"], speed=0.01), atol=1e-12)


def test_the_truth_computed_another_way_has_friction() -> None:
    state = inputs_of("forward_dynamics_gradient", slow(ARM, 20, seed=6))
    graph = trace(ARM, "forward_dynamics_gradient", **FRICTION)
    results, other = evaluate(graph, state), forward_dynamics_gradient(ARM, state, graph.forces)
    for output, value in other.items():
        assert relative_errors(results[output], value).max() < 1e-10, output


def test_a_joint_that_mimics_another_rubs_at_its_own_speed(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(robots.path("two_joint_arm").read_text().replace("<axis", MIMIC, 1))  # in the shoulder
    robot = rubbed(Robot.from_urdf(path))
    qd = np.array([[0.3], [-0.02]])
    inputs = {"q": np.zeros((2, 1)), "qd": qd, "qdd": np.zeros((2, 1))}
    plain, own, leader = (
        evaluate(trace(robot, "inverse_dynamics", forces=[Friction(friction, SPEED)]), inputs)["tau"]
        for friction in (0.0, True, FORCES[1:])
    )
    np.testing.assert_allclose(own - plain, taken(qd, 0.7) - 2.0 * taken(-2.0 * qd, 0.4), atol=1e-12)
    np.testing.assert_allclose(leader - plain, taken(qd, 0.7), atol=1e-12)
    gradient = trace(robot, "inverse_dynamics_gradient", forces=[Friction(speed=SPEED)])
    step = evaluate(trace(robot, "inverse_dynamics", forces=[Friction(speed=SPEED)]), {**inputs, "qd": qd + 1e-30j})
    np.testing.assert_allclose(evaluate(gradient, inputs)["dtau_dqd"][..., 0], step["tau"].imag / 1e-30, atol=1e-11)


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_a_step_is_that_of_a_rollout(integrator: str) -> None:
    state = slow(ARM, 5, seed=7)
    options: dict[str, Any] = {"dt": 0.01, "integrator": integrator, "forces": [Friction(speed=SPEED)]}
    inputs = inputs_of("step", state)
    step = evaluate(trace(rubbed(), "step", **options), inputs)
    run = Rollout(rubbed(), steps=1, device="numpy", **options)
    after = run(state["q"], state["qd"], state["tau"][:, None])
    np.testing.assert_allclose(after.q[:, 1], step["q_next"], atol=1e-12)
    np.testing.assert_allclose(after.qd[:, 1], step["qd_next"], atol=1e-12)
    without = evaluate(trace(ARM, "step", dt=0.01, integrator=integrator), inputs)
    assert np.abs(without["qd_next"] - step["qd_next"]).max() > 1e-3


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics_gradient"])
def test_compiled_code_and_integers_compute_it(name: str) -> None:
    region = Region.of(ARM)
    inputs = region.states(trace(ARM, name, **FRICTION), 50, seed=8)
    exact = evaluate(trace(ARM, name, **FRICTION), inputs)
    with dynagate.compile(ARM, name, device="cpu", **FRICTION) as compiled:
        results = compiled(**inputs)
        for output, value in exact.items():
            assert relative_errors(getattr(results, output), value).max() < 1e-12
    with dynagate.compile(ARM, name, device="fixed", region=region, **FRICTION) as integers:
        results = integers(**inputs)
        assert not results.overflow.any()
        for output, value in exact.items():
            assert relative_errors(getattr(results, output), value).max() < 1e-3


def test_a_design_keeps_its_friction(tmp_path: Path) -> None:
    built = dynagate.build(rubbed(), "inverse_dynamics", forces=[Friction(speed=SPEED)], folder=tmp_path)
    options = json.loads((built.folder / "design.json").read_text())["options"]
    assert options == {"forces": ["Friction(force=True, speed=0.5)"]}
    state = slow(ARM, 5, seed=9)
    inputs = inputs_of("inverse_dynamics", state)
    with dynagate.open(built.folder, device="numpy") as again:
        tau = again(**inputs).tau
    np.testing.assert_allclose(tau, expected("inverse_dynamics", "newton_euler", state)["tau"], atol=1e-12)
    several = dynagate.build(ARM, "inverse_dynamics", **FRICTION, folder=tmp_path)
    assert dynagate.open(several.folder, device="numpy")(**inputs).tau == pytest.approx(tau)


@pytest.mark.long
@pytest.mark.parametrize(("name", "options"), [("inverse_dynamics_gradient", {}), ("step", {"dt": 0.01})])
def test_the_datapath_computes_the_integers(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    request = DesignRequest(ARM, name, ii=4, algorithm=AlgorithmOptions(**options, **FRICTION))
    report = report_design(request, folder=tmp_path, checks=Checks(64))
    assert report.passed, report.text()


def test_sampled_states_overcome_friction_and_some_are_slow() -> None:
    region = Region.of(ARM)
    plain, rubs = (
        region.sample("forward_dynamics", 300, 1, kind="rest", **f) for f in ({}, {"forces": [Friction(FORCES)]})
    )
    fast, slowed = rubs["qd"][1::2], rubs["qd"][::2]
    assert np.array_equal(fast, plain["qd"][1::2])
    assert 0.02 < np.abs(slowed).max() <= 0.03
    assert np.abs(fast).max() > 0.1
    needed = taken(fast, speed=0.01)
    np.testing.assert_allclose(rubs["tau"][1::2] - plain["tau"][1::2], needed, atol=1e-12)


def test_friction_that_nothing_has_changes_nothing() -> None:
    with pytest.warns(RobotWarning, match="no joint of robot 'two_joint_arm' has friction, so the force Friction"):
        graph = trace(ARM, "inverse_dynamics", forces=[Friction()])
    assert graph == trace(ARM, "inverse_dynamics")
    with pytest.warns(RobotWarning, match="changes nothing"):
        Rollout(ARM, steps=1, dt=0.01, forces=[Friction()], device="numpy")
    assert trace(ARM, "inverse_dynamics", forces=[Friction(0.0)]) == trace(rubbed(), "inverse_dynamics")


@pytest.mark.parametrize(
    ("name", "forces", "message"),
    [
        ("mass_matrix", "Friction(0.1)", "mass_matrix does not depend on friction; expected no forces"),
        ("potential_energy", "Friction(speed=0.1)", "potential_energy does not depend on friction"),
        ("inverse_dynamics", "Friction(-1.0)", "friction has force -1.0; expected True, or numbers of 0 or more"),
        ("inverse_dynamics", "Friction('file')", "friction has force 'file'; expected True, or numbers of 0 or more"),
        ("inverse_dynamics", "Friction([1.0])", "friction has 1 numbers; expected one, or 2"),
        ("inverse_dynamics", "Friction(1.0, 0.0)", "friction has speed 0.0; expected a speed of more than 0"),
        ("inverse_dynamics", "Servo(1.0)", "inverse_dynamics with the force Servo; expected Friction, the only force"),
        ("step", "stops", "step with the force Stops; expected Friction, the only force that functions have, or dyna"),
        ("inverse_dynamics", ["friction", Friction(0.3)], r"forces has 2 of Friction: Friction\(force=True, .*at most"),
        ("inverse_dynamics", [0.3], "forces has 0.3; expected a Force, such as"),
        ("inverse_dynamics", None, "forces=None; expected a sequence of forces"),
    ],
)
def test_refused(name: str, forces: Any, message: str) -> None:
    for refusing in (trace, dynagate.compile, dynagate.build):
        with pytest.raises((ValueError, TypeError), match=message):
            refusing(ARM, name, forces=forces)


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ({"friction": True}, r"'friction' \(write forces=\[dynagate.forces.Friction\(\)\]\)"),
        ({"friction_speed": 0.1}, r"'friction_speed' \(write forces=\[dynagate.forces.Friction\(speed=...\)\]\)"),
        ({"stops": True}, r"'stops' \(write forces=\[dynagate.forces.Stops\(\)\]\)"),
    ],
)
def test_former_options_say_what_to_write(former: dict[str, Any], now: str) -> None:
    cost = Cost(lambda knot: knot.tau[0] * knot.tau[0], lambda knot: 0.0)
    solver = {"knots": 3, "dt": 0.01, "cost": cost}
    calls: list[tuple[Any, dict[str, Any]]] = [
        (lambda **o: Rollout(ARM, **o), {"steps": 1, "dt": 0.01}),
        (lambda **o: dynagate.ilqr(ARM, **o), solver),
        (lambda **o: dynagate.mppi(ARM, **o), {**solver, "temperature": 1.0, "spread": 1.0}),
        (lambda **o: dynagate.build(ARM, "rollout", **o), {}),
        (lambda **o: dynagate.compile(ARM, "forward_dynamics", **o), {}),
        (lambda **o: trace(ARM, "forward_dynamics", **o), {}),
    ]
    for call, options in calls:
        with pytest.raises(TypeError, match=now):
            call(**options, **former)


def test_friction_and_stops_of_a_step_stay_on_its_options() -> None:
    forces = (Friction(0.3, 0.1), Stops())
    step = StepOptions(0.01, forces=forces)
    assert step.forces == forces
    assert replace(step, dt=0.02).forces == forces
    assert step_graph(ARM, step).forces == forces[:1]


def test_one_number_needs_a_joint_to_act_on() -> None:
    """A floating body has no joint that rubs or is damped; a number for it is refused, numbers for all are taken."""
    chain = robots.load("two_joint_arm", floating_base=True, lock={"shoulder": 0.0, "elbow": 0.0})
    text = r"=0.3 acts on no joint of robot 'two_joint_arm', .* floating; expected 6 numbers"
    with pytest.raises(ValueError, match="friction" + text):
        trace(chain, "forward_dynamics", forces=[Friction(0.3)])
    for force in (Friction(0.3), Damping(0.3)):
        with pytest.raises(ValueError, match=text):
            Rollout(chain, steps=2, dt=0.01, forces=[force], device="numpy")
    for fine in (Friction(0.0), Damping(0.0), Friction([0.3] * 6), Damping([0.3] * 6)):
        Rollout(chain, steps=2, dt=0.01, forces=[fine], device="numpy")


def test_command_line(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(robots.path("two_joint_arm").read_text().replace("<axis", '<dynamics friction="0.2"/><axis'))

    def said(line: str) -> str:
        return CliRunner().invoke(main, line.split()).output

    folder = tmp_path / "c"
    output = said(f"emit {path} --function inverse_dynamics --force Friction(speed=0.5) --folder {folder}")
    assert "Coulomb friction of joint 'shoulder' and 1 more acts with --force friction only" in output
    assert any("sqrt" in file.read_text() for file in folder.iterdir())
    asked = ["info", "two_joint_arm", "--form", "newton_euler", "--force", "Friction(0.5)", "--json"]
    rows = json.loads(CliRunner().invoke(main, asked).stdout)
    assert rows[0]["options"] == {"forces": ["Friction(force=0.5, speed=0.01)"]}
    assert "mass_matrix has no force Friction; expected no --force, or --function rollout" in said(
        "emit two_joint_arm --function mass_matrix --force Friction(1) --folder x"
    )
    assert "inverse_dynamics has no force Stops; expected Friction" in said(
        "emit two_joint_arm --function inverse_dynamics --force stops --folder x"
    )
    assert "friction has force 'much'; expected True, or numbers" in said("info two_joint_arm --force Friction('much')")
    assert "no joint of two_joint_arm has friction in its file" in said("info two_joint_arm --force friction")
    twice = "build two_joint_arm --function rollout --force friction --force Friction(0.3)"
    assert "forces has 2 of Friction" in said(twice)
    for former, now in (
        ("--friction 0.3", "write --force friction"),
        ("--friction-speed 1", "write --force 'Friction(speed=0.05)'"),
        ("--stops", "write --force stops"),
    ):
        assert now in said(f"build two_joint_arm --function rollout {former}")


@pytest.mark.parametrize("force", [Friction(0.3), Friction()])
def test_friction_is_given_once(force: Friction) -> None:
    """Friction of the robot and friction among the forces are never added."""
    robot = ARM.with_friction(0.5)
    with pytest.raises(ValueError, match=r"has friction by with_friction\(\), and forces has Friction"):
        Rollout(robot, 2, 0.01, device="numpy", forces=[force])
    with pytest.raises(ValueError, match="expected one of them"):
        dynagate.ilqr(robot, cost=Cost.quadratic(tau=0.1), knots=2, dt=0.01, forces=[force])
    with pytest.raises(ValueError, match="expected one of them"):
        dynagate.compile(robot, "forward_dynamics", device="numpy", forces=[Friction(0.3)])
