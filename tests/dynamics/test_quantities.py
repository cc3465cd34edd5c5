"""What controllers need together, in one call: beside Pinocchio, on trees that no other test has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import dynagate
import numpy as np
import pinocchio
import pytest
from dynagate import Region, Robot, evaluate, robots, trace
from dynagate.base.untrusted import LONGEST_FUNCTION
from dynagate.dynamics import AND, FRAME_FUNCTIONS, FUNCTIONS, QUANTITIES, function
from dynagate.forces import Friction
from dynagate.native.source import kernel_name

from tests.oracle import pinocchio_of
from tests.robots import random_urdf

ARM = robots.load("two_joint_arm")


def tree(seed: int, folder: Path, *, floating_base: bool) -> Robot:
    path = folder / "tree.urdf"
    path.write_text(random_urdf(seed))
    return Robot.from_urdf(path, floating_base=floating_base)


def theirs(robot: Robot, model: pinocchio.Model, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Pinocchio's numbers for all of QUANTITIES and of the last link's frame, in our order."""
    q, columns = pinocchio.neutral(model), []
    moved = {"qd": np.zeros(model.nv), "qdd": np.zeros(model.nv)}
    for link, iq, iv in robot.slices():
        joint, own = model.joints[model.getJointId(link.joint.name)], state["q"][iq]
        q[joint.idx_q : joint.idx_q + joint.nq] = own if joint.nq == len(own) else [np.cos(own[0]), np.sin(own[0])]
        for name, vector in moved.items():
            vector[joint.idx_v : joint.idx_v + joint.nv] = state[name][iv]
        columns += range(joint.idx_v, joint.idx_v + joint.nv)
    data = model.createData()
    qd, qdd, swapped = moved["qd"], moved["qdd"], [3, 4, 5, 0, 1, 2]
    gravity = pinocchio.computeGeneralizedGravity(model, data, q).copy()
    bias = pinocchio.nonLinearEffects(model, data, q, qd).copy()
    damping = np.concatenate([np.repeat(link.joint.damping, link.joint.nv) for link in robot.links])
    result = {
        "gravity_torque": gravity[columns],
        "coriolis_torque": (bias - gravity)[columns],
        "bias_torque": bias[columns] + damping * state["qd"],
    }
    matrix = pinocchio.ccrba(model, data, q, qd)
    result["centroidal_momentum_matrix"] = matrix[swapped][:, columns]
    result["centroidal_momentum"] = data.hg.vector[swapped].copy()
    result["center_of_mass_jacobian"] = pinocchio.jacobianCenterOfMass(model, data, q)[:, columns]
    pinocchio.centerOfMass(model, data, q, qd)
    result["center_of_mass_velocity"] = data.vcom[0].copy()
    pinocchio.forwardKinematics(model, data, q, qd, qdd)
    pinocchio.updateFramePlacements(model, data)
    frame, aligned = model.getFrameId(robot.links[-1].name), pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED
    result["frame_acceleration"] = pinocchio.getFrameClassicalAcceleration(model, data, frame, aligned).vector[swapped]
    pinocchio.forwardKinematics(model, data, q, qd, 0.0 * qdd)
    bias_of_frame = pinocchio.getFrameClassicalAcceleration(model, data, frame, aligned).vector[swapped]
    return {**result, "frame_bias_acceleration": bias_of_frame}


@pytest.mark.parametrize("floating_base", [False, True])
@pytest.mark.parametrize("seed", [36, 41])
def test_quantities_are_pinocchio_s(seed: int, floating_base: bool, tmp_path: Path) -> None:
    robot = tree(seed, tmp_path, floating_base=floating_base)
    model = pinocchio.buildModelFromUrdf(
        str(tmp_path / "tree.urdf"), *([pinocchio.JointModelFreeFlyer()] if floating_base else [])
    )
    random = np.random.default_rng(seed)
    q = dynagate.integrate(robot, dynagate.neutral(robot), random.uniform(-1.0, 1.0, (3, robot.nv)))
    state = {"q": q, "qd": random.normal(size=(3, robot.nv)), "qdd": random.normal(size=(3, robot.nv))}
    last = robot.links[-1].name
    names = [*QUANTITIES, f"frame_acceleration_{last}", f"frame_bias_acceleration_{last}"]
    graph = trace(robot, names)
    ours = evaluate(graph, {port.name: state[port.name] for port in graph.inputs})
    for k in range(3):
        for name, expected in theirs(robot, model, {key: value[k] for key, value in state.items()}).items():
            got = ours[f"{name}_{last}" if name.startswith("frame") else name][k]
            np.testing.assert_allclose(
                got, expected, rtol=1e-9, atol=1e-9 * (1.0 + np.abs(expected).max()), err_msg=name
            )


def test_one_call_has_all_that_a_controller_needs() -> None:
    """HyQ's feet and its dynamics: equal to the functions alone, in less than the sum of their operations."""
    hyq = robots.load("hyq", floating_base=True)
    feet = [frame.name for frame in hyq.frames if frame.name.endswith("foot")]
    assert len(feet) == 4
    frames = [f"{row}_{foot}" for foot in feet for row in FRAME_FUNCTIONS if row != "frame_acceleration"]
    names = ["mass_matrix", "bias_torque", "center_of_mass", "centroidal_momentum_matrix", *frames]
    graph = trace(hyq, names)
    assert [port.name for port in graph.inputs] == ["q", "qd"]
    assert {f"frame_rotation_{foot}" for foot in feet} <= {port.name for port in graph.outputs}
    state = Region.of(hyq, velocity=3.0).states(graph, 20, seed=1)
    ours, operations = evaluate(graph, state), 0
    for name in names:
        own = trace(hyq, name)
        operations += len(own.nodes)
        for output, value in evaluate(own, {port.name: state[port.name] for port in own.inputs}).items():
            suffix = next((f"_{foot}" for foot in feet if name.endswith(foot)), "")
            np.testing.assert_allclose(ours[output + suffix], value, rtol=1e-9, atol=1e-9)
    assert len(graph.nodes) < 0.7 * operations


@pytest.mark.parametrize("device", ["cpu", "numpy", "fixed"])
def test_on_devices_and_by_either_name(device: str) -> None:
    names = ["gravity_torque", "frame_pose_forearm", "frame_bias_acceleration_forearm"]
    state = Region.of(ARM).sample(AND.join(names), 50, seed=2)
    assert sorted(state) == ["q", "qd"]
    exact = evaluate(trace(ARM, names), state)
    with pytest.raises(ValueError, match="is for the command line; write a list"):
        dynagate.compile(ARM, "+".join(names), device=device)
    for name in (names, tuple(names)):
        with dynagate.compile(ARM, name, device=device) as accelerator:
            results = accelerator(**state)
        assert list(results) == [
            *("gravity_torque", "frame_position_forearm", "frame_rotation_forearm"),
            "frame_bias_acceleration_forearm",
        ]
        for key, value in exact.items():
            np.testing.assert_allclose(results[key], value, atol=1e-3 if device == "fixed" else 1e-12)


def test_a_long_list_has_short_files_and_a_name_for_any_process() -> None:
    robot = ARM
    for k in range(6):
        robot = robot.with_frame(f"a_rather_long_name_of_a_frame_{k}", "forearm", (0.0, 0.0, 0.1 * k))
    names = [f"frame_pose_a_rather_long_name_of_a_frame_{k}" for k in range(6)]
    row = function(names)
    assert row.name == AND.join(names)
    name = kernel_name(trace(robot, names))
    assert len(name) <= len(f"{robot.name}_") + LONGEST_FUNCTION + 13
    assert name.isidentifier()
    other = (
        "from dynagate.dynamics import function; import sys; print(*(p.name for p in function(sys.argv[1]).at_once))"
    )
    parts = subprocess.run([sys.executable, "-c", other, row.name], capture_output=True, text=True, check=True).stdout
    assert parts.split() == [part.name for part in row.at_once] == names
    with dynagate.compile(robot, names) as accelerator:
        assert len(list(accelerator(q=np.zeros(2)))) == 12


def test_a_frame_whose_name_has_the_word_between() -> None:
    robot = ARM.with_frame("left_and_right", "forearm")
    assert function("frame_pose_left_and_right").name == "frame_pose_left_and_right"
    assert len(trace(robot, ["frame_pose_left_and_right", "mass_matrix"]).outputs) == 3


def test_friction_and_forces_enter_where_they_do() -> None:
    state = Region.of(ARM).sample("bias_torque", 20, seed=1)
    plain, rubbed = (
        evaluate(trace(ARM, "bias_torque", forces=[Friction(f)]), state)["bias_torque"] for f in (0.0, 0.5)
    )
    assert np.abs(rubbed - plain).max() > 0.4
    with pytest.raises(ValueError, match="coriolis_torque does not depend on friction"):
        trace(ARM, "coriolis_torque", forces=[Friction(0.5)])
    with pytest.raises(ValueError, match="frame_acceleration_forearm does not depend on external forces"):
        trace(ARM, "frame_acceleration_forearm", external_forces=True)
    both = trace(ARM, ["forward_dynamics", "mass_matrix"], external_forces=True)
    assert [port.name for port in both.inputs] == ["q", "qd", "tau", "f_ext"]


def test_a_frame_of_the_base_is_a_constant() -> None:
    robot = ARM.with_frame("mark", "base", (0.1, 0.2, 0.3))
    state = Region.of(robot).sample("inverse_dynamics", 5, seed=1)
    names = [f"{row}_mark" for row in FRAME_FUNCTIONS]
    with dynagate.compile(robot, names) as accelerator:
        results = accelerator(q=state["q"], qd=state["qd"], qdd=state["qdd"])
    assert (results["frame_position_mark"] == [0.1, 0.2, 0.3]).all()
    assert (results["frame_rotation_mark"] == np.eye(3)).all()
    for name in ("frame_velocity_mark", "frame_jacobian_mark", "frame_acceleration_mark"):
        assert not results[name].any()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["mass_matrix", "mass_matrix"], "mass_matrix is named twice; expected each function once"),
        (["mass_matrix", "forward_dynamics_vjp"], "forward_dynamics_vjp cannot be computed at one state with others"),
        (
            ["inverse_dynamics", "forward_dynamics"],
            "inverse_dynamics gives tau, which forward_dynamics takes; expected",
        ),
        (["mass_matrix", "gravity_torqe"], "no function 'gravity_torqe' (did you mean 'gravity_torque'?); expected"),
    ],
)
def test_what_cannot_be_computed_at_one_state(names: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        trace(ARM, names)


def test_difference_leads_where_integrate_goes(tmp_path: Path) -> None:
    """And is Pinocchio's, for turns from none to almost a half."""
    floating = tree(36, tmp_path, floating_base=True)
    model = pinocchio_of(floating)
    random = np.random.default_rng(5)
    start = dynagate.integrate(floating, dynagate.neutral(floating), random.uniform(-1.0, 1.0, floating.nv))
    for size in (0.0, 1e-9, 1e-4, 0.1, 0.5, 1.0):
        v = size * random.uniform(-1.7, 1.7, (30, floating.nv))
        after = dynagate.integrate(floating, start, v)
        np.testing.assert_allclose(dynagate.difference(floating, start, after), v, rtol=1e-9, atol=1e-13)
        flipped = after.copy()
        flipped[:, 3:7] *= -1.0
        np.testing.assert_allclose(dynagate.difference(floating, start, flipped), v, rtol=1e-9, atol=1e-13)
    base = pinocchio.difference(model, pinocchio.neutral(model), pinocchio.neutral(model))
    assert not base.any()
    one = pinocchio.log6(pinocchio.XYZQUATToSE3(start[:7]).inverse() * pinocchio.XYZQUATToSE3(after[0, :7])).vector
    np.testing.assert_allclose(dynagate.difference(floating, start, after[0])[:6], one, rtol=1e-9)
    assert dynagate.difference("two_joint_arm", [0.1, 0.2], [[0.3, 0.1]]).shape == (1, 2)


def test_functions_that_all_robots_have_stay_as_they_were() -> None:
    assert not QUANTITIES.keys() & FUNCTIONS.keys()
