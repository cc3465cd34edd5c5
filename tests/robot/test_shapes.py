"""Collision shapes of a file as points of contact: where they are, what they touch with, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dynagate import Robot, RobotError, RobotWarning, Rollout, evaluate, neutral, trace
from dynagate.forces import CompliantContact, Contact, ContactError, Plane, Point, contact_points
from dynagate.integrators import RigidContact
from dynagate.robot import Joint, Link, collision_shapes

INERTIAL = '<inertial><mass value="2"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>'


def crawler(folder: Path, foot: str = '<sphere radius="0.05"/>', more: str = "") -> tuple[Path, Robot]:
    """A body with a box, a shin with a capsule and a cylinder across, and a foot bolted to it."""
    path = folder / "crawler.urdf"
    path.write_text(
        f"""<robot name="crawler"><link name="body">{INERTIAL}
        <collision><origin xyz="0 0 0.1" rpy="0 0 1.5707963267948966"/><geometry><box size="0.4 0.2 0.1"/></geometry>
        </collision></link>
        <joint name="knee" type="revolute"><parent link="body"/><child link="shin"/><origin xyz="0.2 0 0"/>
        <axis xyz="0 1 0"/><limit lower="-2" upper="2" velocity="9" effort="9"/></joint>
        <link name="shin">{INERTIAL}
        <collision><origin xyz="0 0 -0.2"/><geometry><capsule radius="0.03" length="0.2"/></geometry></collision>
        <collision><origin rpy="1.5707963267948966 0 0"/><geometry><cylinder radius="0.04" length="0.1"/></geometry>
        </collision>{more}</link>
        <joint name="ankle" type="fixed"><parent link="shin"/><child link="foot"/><origin xyz="0 0 -0.4"/></joint>
        <link name="foot"><collision><origin xyz="0.01 0 0"/><geometry>{foot}</geometry></collision></link></robot>"""
    )
    return path, Robot.from_urdf(path, floating_base=True)


def test_points_are_where_the_shapes_end(tmp_path: Path) -> None:
    path, robot = crawler(tmp_path)
    shapes = collision_shapes(path, robot)
    assert [(shape.link, shape.part, shape.kind) for shape in shapes] == [
        ("body", "body", "box"),
        ("shin", "shin", "capsule"),
        ("shin", "shin", "cylinder"),
        ("shin", "foot", "sphere"),
    ]
    points = contact_points(shapes, around=4)
    assert len(points) == 8 + 2 + 8 + 1
    box, capsule, cylinder, sphere = (
        np.array([point.position for point in part]) for part in np.split(np.array(points, object), [8, 10, 18])
    )
    np.testing.assert_allclose(np.abs(box - [0.0, 0.0, 0.1]), [[0.1, 0.2, 0.05]] * 8, atol=1e-15)  # a quarter turn
    np.testing.assert_allclose(capsule, [[0.0, 0.0, -0.3], [0.0, 0.0, -0.1]], atol=1e-15)
    np.testing.assert_allclose(cylinder[:4, 1], 0.05, atol=1e-15)
    np.testing.assert_allclose(np.hypot(cylinder[:, 0], cylinder[:, 2]), 0.04, atol=1e-15)
    np.testing.assert_allclose(sphere, [[0.01, 0.0, -0.4]], atol=1e-15)
    assert [point.radius for point in points] == [*[0.0] * 8, 0.03, 0.03, *[0.0] * 8, 0.05]
    (foot,) = contact_points(collision_shapes(path, robot, ["foot"]))
    assert foot == points[-1]


def test_shapes_stand_and_are_held(tmp_path: Path) -> None:
    """Their points are those of compliant contact, and of frames that `with_contact` holds."""
    path, robot = crawler(tmp_path, foot='<box size="0.1 0.06 0.02"/>')
    points = contact_points(collision_shapes(path, robot, ["foot"]))
    held = robot
    for k, point in enumerate(points[::2]):
        held = held.with_frame(f"corner{k}", point.link, point.position).with_contact(f"corner{k}", compliance=1e-6)
    q, none = neutral(robot), np.zeros(robot.nv)
    q[2] = 0.41 - 1e-4
    jacobian = evaluate(trace(held, "contact_jacobian"), {"q": q[None]})["contact_jacobian"][0]
    assert jacobian.shape == (12, 7)
    # the force of the ground on all lowest corners, by the transposed Jacobian of the same corners
    lowest = [point for point in points if point.position[2] < -0.4]
    rollout = Rollout(
        robot, steps=1, dt=1e-3, device="numpy", forces=[CompliantContact(lowest, stiffness=1e5, friction=0.0)]
    )
    pushed = (
        rollout(q, none, none[None]).qd[1] - Rollout(robot, steps=1, dt=1e-3, device="numpy")(q, none, none[None]).qd[1]
    )
    minv = evaluate(trace(robot, "mass_matrix_inverse"), {"q": q[None]})["minv"][0]
    frames = robot
    for k, point in enumerate(lowest):
        frames = frames.with_frame(f"low{k}", point.link, point.position).with_contact(f"low{k}")
    rows = evaluate(trace(frames, "contact_jacobian"), {"q": q[None]})["contact_jacobian"][0]
    force = np.zeros(12)
    force[2::3] = 1e5 * 1e-4
    # the step turns the base's velocity by its own rotation, an effect of second order in dt
    np.testing.assert_allclose(pushed, 1e-3 * minv @ (rows.T @ force), atol=1e-6)


def ball(radius: float = 0.1) -> tuple[Robot, Point]:
    moment = 0.4 * 2.0 * radius**2
    inertia = ((moment, 0.0, 0.0), (0.0, moment, 0.0), (0.0, 0.0, moment))
    return Robot("ball", (Link("ball", -1, Joint("free", "floating"), 2.0, (0.0, 0.0, 0.0), inertia),)), Point(
        "ball", (0.0, 0.0, 0.0), radius
    )


@pytest.mark.parametrize("rigid", [True, False])
def test_a_ball_that_slides_comes_to_roll(rigid: bool) -> None:
    """With 5/7 of its speed, whatever the friction (a text-book's result), and ω r = v."""
    robot, point = ball()
    steps, dt = 4000, 1e-4
    ground = [Plane((0.0, 0.0, 1.0), 0.2)]
    if rigid:
        rollout = Rollout(robot, steps=steps, dt=dt, contacts=RigidContact([point], ground, friction=0.5))
    else:
        law = CompliantContact([point], ground, stiffness=2e4, friction=0.5, speed=1e-3)
        rollout = Rollout(robot, steps=steps, dt=dt, forces=[law])
    q0, qd0 = neutral(robot), np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    q0[2] = 0.3 - (0.0 if rigid else 2.0 * 9.80665 / 2e4)
    end = rollout(q0, qd0, np.zeros((steps, 6)))
    velocity = (end.q[-1, :3] - end.q[-101, :3]) / (100 * dt)
    np.testing.assert_allclose(velocity, [5.0 / 7.0, 0.0, 0.0], atol=2e-3)
    np.testing.assert_allclose(end.qd[-1, 4], velocity[0] / 0.1, rtol=5e-3)
    np.testing.assert_allclose(end.q[-1, 2], q0[2], atol=1e-4)


def test_what_is_refused(tmp_path: Path) -> None:
    path, robot = crawler(tmp_path)
    with pytest.raises(RobotError, match=r"no link 'fot' that moves \(did you mean 'foot'\?\); expected some of"):
        collision_shapes(path, robot, ["fot"])
    for foot, message in (
        ('<cone radius="1"/>', "of link 'foot' is cone; expected one of box, sphere, cylinder, capsule, mesh"),
        ("", "a collision of link 'foot' is nothing; expected one of box"),
        ('<sphere radius="0"/>', r"is a sphere with sizes \(0.0,\); expected numbers above 0"),
        ('<box size="1 2"/>', "expected 3 finite number"),
    ):
        with pytest.raises(RobotError, match=message):
            collision_shapes(*crawler(tmp_path, foot))
    mesh = '<collision><geometry><mesh filename="a.stl"/></geometry></collision>'
    with pytest.warns(RobotWarning, match="collision shapes are left out: 1 of kind mesh; expected boxes, spheres"):
        assert len(collision_shapes(*crawler(tmp_path, more=mesh))) == 4
    with pytest.raises(ContactError, match="around=2; expected a whole number of 3 or more"):
        contact_points([], around=2)
    with pytest.raises(ContactError, match="link 'ball' has radius -1.0; expected a finite number, 0 or more"):
        Point("ball", (0.0, 0.0, 0.0), -1.0)


HOPPER = """<mujoco model="hopper"><compiler angle="radian"/><worldbody><geom type="plane" size="1 1 1"/>
<body name="trunk" pos="0 0 0.5"><freejoint/><inertial mass="2" pos="0 0 0" diaginertia="0.1 0.1 0.1"/>
 <geom type="box" size="0.2 0.1 0.05" pos="0 0 0.1" quat="0.9238795325112867 0 0 0.3826834323650898"/>
 <geom type="sphere" size="0.3" contype="0" conaffinity="0"/>
 <body name="leg" pos="0.1 0 -0.1"><joint name="hip" pos="0 0 0.05" axis="0 1 0" range="-1 1" limited="true"/>
  <inertial mass="1" pos="0 0 0" diaginertia="0.1 0.1 0.1"/>
  <geom type="capsule" size="0.02" fromto="0 0 0 0.05 0 -0.3"/><geom type="ellipsoid" size="0.1 0.2 0.3"/>
  <body name="foot" pos="0.05 0 -0.3" euler="0.3 0 0"><inertial mass="0.1" pos="0 0 0" diaginertia="0.01 0.01 0.01"/>
   <geom type="cylinder" size="0.04 0.1" pos="0 0.01 0"/><geom type="sphere" size="0.03" pos="0 0 -0.02"/></body>
 </body></body></worldbody></mujoco>"""


def test_shapes_of_mjcf_are_where_mujoco_has_them(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "hopper.xml"
    path.write_text(HOPPER)
    with pytest.warns(RobotWarning, match="left out, being no dynamics of a free tree: contacts"):
        robot = Robot.from_file(path, trust=True)
    with pytest.raises(RobotError, match="hopper.xml is MJCF, which names files that MuJoCo opens; expected trust"):
        collision_shapes(path, robot)
    with pytest.warns(RobotWarning, match="hopper.xml: collision shapes are left out: 1 of kind ellipsoid; expected"):
        shapes = collision_shapes(path, robot, trust=True)
    assert [(shape.link, shape.part, shape.kind) for shape in shapes] == [
        ("trunk", "trunk", "box"),
        ("leg", "leg", "capsule"),
        ("leg", "foot", "cylinder"),
        ("leg", "foot", "sphere"),
    ]
    model = mujoco.MjModel.from_xml_string(HOPPER)
    data = mujoco.MjData(model)
    random = np.random.default_rng(3)
    data.qpos[:] = [*random.normal(size=3), *random.normal(size=4), 0.7]
    data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
    mujoco.mj_kinematics(model, data)
    q = np.array([*data.qpos[:3], *data.qpos[4:7], data.qpos[3], data.qpos[7]])
    for shape, geom in zip(shapes, (1, 3, 5, 6), strict=True):
        placed = robot.with_frame("shape", shape.link, shape.translation, shape.rotation)
        pose = evaluate(trace(placed, "frame_pose", frame="shape"), {"q": q[None]})
        np.testing.assert_allclose(pose["frame_position"][0], data.geom_xpos[geom], atol=1e-12)
        np.testing.assert_allclose(pose["frame_rotation"][0].ravel(), data.geom_xmat[geom], atol=1e-12)
    assert shapes[0].size == (0.4, 0.2, 0.1)
    np.testing.assert_allclose(shapes[1].size, [0.02, np.hypot(0.05, 0.3)])
    assert shapes[2].size == (0.04, 0.2)
    assert collision_shapes(path, robot, ["foot"], trust=True) == shapes[2:]
    with pytest.raises(RobotError, match="hopper.xml: no link 'world' that moves"):
        collision_shapes(path, robot, ["world"], trust=True)
    with pytest.warns(RobotWarning, match="left out, being no dynamics of a free tree: contacts"):
        held = Robot.from_mjcf(path, lock={"hip": 0.1})
    with pytest.raises(RobotError, match="body 'leg' is on link 'leg', which the robot has not; expected the robot of"):
        collision_shapes(path, held, trust=True)


def test_displacement_laws_of_balls_in_position_based_steps() -> None:
    """A ball on a slide sinks to where its law's force is its weight."""
    rail = Robot(
        "rail",
        (
            Link(
                "ball",
                -1,
                Joint("slide", "prismatic", axis=(0.0, 0.0, 1.0)),
                2.0,
                (0.0, 0.0, 0.0),
                ((0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.1)),
            ),
        ),
    )
    law = Contact([Point("ball", (0.0, 0.0, 0.0), 0.1)], stiffness=1e4)
    end = Rollout(rail, steps=200, dt=0.02, integrator="position_based", forces=[law], every=200)(
        [0.1], [0.0], np.zeros((200, 1))
    )
    assert end.converged.all()
    np.testing.assert_allclose(end.q[-1], 0.1 - np.sqrt(2.0 * 9.80665 / 1e4), atol=1e-4)
