"""Kinds of joints: one class each, those that are missing are named, and threads on joints against Pinocchio."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dynagate
import numpy as np
import pinocchio
import pytest
from dynagate import Region, Robot, RobotError, evaluate, robots, trace
from dynagate.dynamics.batch import batched
from dynagate.dynamics.joint_motions import MOTIONS, motion_of
from dynagate.dynamics.spatial import array
from dynagate.robot.kinds import KINDS, Revolute, kind_of
from dynagate.robot.parts import Joint
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from tests.oracle import JOINTS
from tests.robots import DATA, random_robot

ARM = robots.load("two_joint_arm")


def screwed(robot: Robot, screws: dict[str, float]) -> pinocchio.Model:
    """A robot in Pinocchio, joint by joint, with its own helical joints. screws: pitch by joint."""
    model = pinocchio.Model()
    model.gravity = pinocchio.Motion(np.array(robot.gravity), np.zeros(3))
    ids: list[int] = []
    for link in robot.links:
        joint, axis = link.joint, np.array(link.joint.axis)
        placement = pinocchio.SE3(np.array(joint.rotation), np.array(joint.translation))
        kind = (
            pinocchio.JointModelHelicalUnaligned(axis, screws[joint.name])
            if joint.name in screws
            else JOINTS[joint.type](axis)
        )
        ids.append(model.addJoint(ids[link.parent] if link.parent >= 0 else 0, kind, placement, joint.name))
        body = pinocchio.Inertia(link.mass, np.array(link.com), np.array(link.inertia))
        model.appendBodyToJoint(ids[-1], body, pinocchio.SE3.Identity())
        model.armature[model.joints[ids[-1]].idx_v] = joint.armature
    return model


def threads(robot: Robot) -> tuple[Robot, pinocchio.Model]:
    """A thread on each third joint that turns, of either hand."""
    turning = [link.joint.name for link in robot.links if link.joint.kind.turning and link.joint.mimic is None]
    screws = {name: (-1) ** k * 0.05 * (k + 1) for k, name in enumerate(turning[::3])}
    threaded = robot
    for name, pitch in screws.items():
        threaded = threaded.with_helical(name, pitch)
    return threaded, screwed(robot, screws)


def compare(robot: Robot, seed: int) -> None:
    """At states of any size, and near rest."""
    plain = replace(robot, links=tuple(replace(link, joint=replace(link.joint, damping=0.0)) for link in robot.links))
    threaded, model = threads(plain)
    assert threaded.nv == robot.nv
    assert len(threaded.links) > len(robot.links)
    data, random = model.createData(), np.random.default_rng(seed)
    order = [model.joints[model.getJointId(name)].idx_v for name in robot.joint_names]
    scale = np.repeat([1.0, 1e-5], 6)[:, None]
    q, qd, tau, qdd = scale * random.uniform(-1.0, 1.0, (4, 12, robot.nv))
    state = {"q": q, "qd": qd, "tau": tau, "qdd": qdd}
    results = {
        "inverse_dynamics": ("qdd", "tau"),
        "forward_dynamics": ("tau", "qdd"),
        "forward_dynamics_gradient": ("tau", "dqdd_dq", "dqdd_dqd", "minv"),
    }
    for function, (third, *outputs) in results.items():
        own = evaluate(trace(threaded, function), {name: state[name] for name in ("q", "qd", third)})
        for k in range(len(q)):
            at = [np.empty(robot.nv) for _ in range(3)]
            for theirs, ours in zip(at, (q[k], qd[k], state[third][k]), strict=True):
                theirs[order] = ours
            if function == "inverse_dynamics":
                expected = [pinocchio.rnea(model, data, *at)[order]]
            elif function == "forward_dynamics":
                expected = [pinocchio.aba(model, data, *at)[order]]
            else:
                pinocchio.computeABADerivatives(model, data, *at)
                grid = np.ix_(order, order)
                minv = np.triu(data.Minv) + np.triu(data.Minv, 1).T
                expected = [data.ddq_dq[grid], data.ddq_dv[grid], minv[grid]]
            for name, value in zip(outputs, expected, strict=True):
                size = max(abs(value).max(), 1e-6)
                assert abs(own[name][k] - value).max() <= 1e-9 * size, (function, name)


def test_threads_are_pinocchios_helical_joints(tmp_path: Path) -> None:
    compare(ARM, seed=1)
    compare(random_robot(5, tmp_path)[0], seed=2)


def test_a_thread_on_every_device_and_in_integers(designs: Path) -> None:
    screw = ARM.with_helical("elbow", 0.02)
    states = Region.of(screw).sample("forward_dynamics", 20, seed=3)
    expected = evaluate(trace(screw, "forward_dynamics"), states)["qdd"]
    for device, error in (("cpu", 1e-12), ("fixed", 1e-3)):
        with dynagate.compile(screw, "forward_dynamics", device=device) as opened:
            assert abs(opened(**states).qdd - expected).max() <= error * abs(expected).max()
    built = dynagate.build(screw, "inverse_dynamics", ii=4, folder=designs)
    moves = built.region.sample("inverse_dynamics", 20, seed=4)
    with dynagate.open(built) as datapath, dynagate.open(built, device="fixed") as integers:
        assert np.array_equal(datapath(**moves).tau, integers(**moves).tau)


def test_a_thread_keeps_frames_limits_and_other_links() -> None:
    screw = ARM.with_helical("shoulder", 0.02)
    assert screw.joint_names == ("shoulder", "shoulder slide", "elbow")
    assert screw.parents == (-1, 0, 1)
    hyq = robots.load("hyq")
    third = hyq.with_helical(hyq.joint_names[2], 0.02)
    assert any(frame.link >= 0 for frame in hyq.frames)
    for before, after in zip(hyq.frames, third.frames, strict=True):
        names = [r.links[f.link].name if f.link >= 0 else "" for r, f in ((hyq, before), (third, after))]
        assert names[0] == names[1], before.name
    assert Region.of(screw).lower == Region.of(ARM).lower
    assert screw.with_helical("elbow", -0.01).nv == 2


@pytest.mark.parametrize(
    ("joint", "pitch", "message"),
    [
        ("wrist", 0.1, "robot 'two_joint_arm' has no joint 'wrist'; expected one of shoulder, elbow"),
        ("elbow", 0.0, "joint 'elbow slide' mimics joint 'elbow' with multiplier 0"),
        ("slide", 0.1, "joint 'slide' is prismatic; expected a revolute or continuous joint"),
    ],
)
def test_threads_that_are_refused(joint: str, pitch: float, message: str) -> None:
    links = (*ARM.links[:1], replace(ARM.links[1], joint=replace(ARM.links[1].joint, name="slide", type="prismatic")))
    with pytest.raises(RobotError, match=message):
        (replace(ARM, links=links) if joint == "slide" else ARM).with_helical(joint, pitch)
    for wrong in ("a", float("nan")):
        with pytest.raises(TypeError, match=f"pitch={wrong!r}; expected a finite number, in m/rad"):
            ARM.with_helical("elbow", wrong)  # type: ignore[arg-type]


def test_kinds_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "expected one of revolute, continuous, prismatic, spherical, floating"
    with pytest.raises(ValueError, match=f"table robot.kinds.KINDS has no row for joint kind 'planar'; {expected}"):
        kind_of("planar")
    with pytest.raises(ValueError, match="no row for joint kind 'planar'"):
        assert Joint("j", "planar").nv
    monkeypatch.setitem(KINDS, "hinge", type("Hinge", (Revolute,), {"name": "hinge"})())
    hinged = replace(ARM, links=(ARM.links[0], replace(ARM.links[1], joint=replace(ARM.links[1].joint, type="hinge"))))
    with pytest.raises(
        ValueError, match=f"dynamics.joint_motions.MOTIONS has no row for joint kind 'hinge'; {expected}"
    ):
        trace(hinged, "inverse_dynamics")


def test_every_kind_is_consistent() -> None:
    """Directions are the slopes of `advanced`, `rates` is their left inverse, `between` the way back, and a batch of
    configurations moves as each of them."""
    assert KINDS.keys() == MOTIONS.keys()
    random = np.random.default_rng(0)
    for name, kind in KINDS.items():
        motion = motion_of(name)
        q = random.uniform(-1.0, 1.0, kind.nq)
        if kind.has_quaternion:
            q[-4:] /= np.linalg.norm(q[-4:])
        columns = batched(motion.advanced, q, 1e-30j * np.eye(kind.nv)).imag.T / 1e-30
        assert np.allclose(motion.directions(q, kind.nv).astype(float), columns, atol=1e-15)
        v = random.uniform(-2.0, 2.0, kind.nv)
        assert np.allclose(motion.rates(q, array(columns @ v), kind.nv).astype(float), v, atol=1e-14)
        after = motion.advanced(array(q), array(v))
        assert kind.nq == len(after)
        assert np.allclose(motion.between(array(q), after).astype(float), v, atol=1e-14)
        assert (batched(motion.advanced, q, np.stack([v, 0.1 * v])) == [after, motion.advanced(q, 0.1 * v)]).all()
        assert len(set(kind.directions)) == kind.nv


def test_quaternions_move_by_the_matrix_exponential() -> None:
    """Against exp of the twist's matrix, for turns from none to beyond a whole one."""
    random, motion = np.random.default_rng(1), motion_of("floating")
    for size in (0.0, 1e-9, 1e-4, 0.499, 0.5, 0.501, 2.0, 3.1, 7.0, 50.0):
        q, v = random.normal(size=7), random.normal(size=6)
        q[3:] /= np.linalg.norm(q[3:])
        v[3:] *= size / np.linalg.norm(v[3:])
        twist = np.zeros((4, 4))
        twist[:3, :3], twist[:3, 3] = np.cross(np.eye(3), v[3:]), v[:3]
        start, end = np.eye(4), np.eye(4)
        start[:3, :3], start[:3, 3] = Rotation.from_quat(q[3:]).as_matrix(), q[:3]
        after = batched(motion.advanced, q, v)
        end[:3, :3], end[:3, 3] = Rotation.from_quat(after[3:]).as_matrix(), after[:3]
        assert np.allclose(start @ expm(twist), end, atol=2e-14 * (1.0 + size)), size
        assert abs(np.linalg.norm(after[3:]) - 1.0) < 4e-16
        if size < np.pi:
            assert np.allclose(batched(motion.between, q, after), v, atol=1e-13)


@pytest.mark.long
@pytest.mark.parametrize("name", ["ur_description/urdf/ur10_robot.urdf", "z1_description/urdf/z1.urdf"])
def test_threads_on_robots_of_others(name: str) -> None:
    compare(Robot.from_urdf(DATA / name, lax=True, ignore_friction=True), seed=4)
