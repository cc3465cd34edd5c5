"""Numbers that users pass to public entries: kind, shape, mask, finiteness and range are checked everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Region, Robot, Rollout, robots
from dynagate.base.arguments import ABOVE_ZERO, AT_LEAST_ZERO, SHARE, number, numbers, one_or_each
from dynagate.control.cost import Cost
from dynagate.forces import (
    CompliantContact,
    Contact,
    Damping,
    Drag,
    Friction,
    Limits,
    Plane,
    Point,
    Servo,
    along,
    contact_points,
)
from dynagate.host.devices import Cpu
from dynagate.host.ilqr import Ilqr
from dynagate.host.joint_limits import joint_bounds_of
from dynagate.host.mppi import spread_of
from dynagate.host.solver import bounds_of
from dynagate.integrators.implicit.rigid_contact import RigidContact

ARM = robots.load("two_joint_arm")
IDENTITY = np.eye(3)

WRONG: dict[str, Any] = {
    "a truth value": True,
    "a text": "1.0",
    "a complex number": 1j,
    "nothing": None,
    "not a number": float("nan"),
    "infinity": float("inf"),
    "too large": 10**400,
    "masked": np.ma.array(1.0, mask=True),
    "a list": [[1.0]],
    "an object": object(),
    "a negative number": -1.0,
}
COEFFICIENTS: dict[str, Callable[[Any], object]] = {
    "stiffness of limits": Limits,
    "dissipation of limits": lambda x: Limits(1.0, x),
    "damping": Damping,
    "friction": lambda x: Friction([x, 0.0]),
    "speed of friction": lambda x: Friction(1.0, x),
    "viscosity": lambda x: Drag((x, 1.0)),
    "density": lambda x: Drag((1.0, 1.0), x),
    "stiffness of a servo": Servo,
    "damping of a servo": lambda x: Servo(1.0, x),
    "radius": lambda x: Point("forearm", (0.0, 0.0, 0.0), x),
    "friction of a rigid contact": lambda x: RigidContact([Point("forearm", (0.0, 0.0, 0.0))], friction=x),
    "compliance of a rigid contact": lambda x: RigidContact([Point("forearm", (0.0, 0.0, 0.0))], compliance=x),
    "tolerance of a rigid contact": lambda x: RigidContact([Point("forearm", (0.0, 0.0, 0.0))], tolerance=x),
    "sweeps of a rigid contact": lambda x: RigidContact([Point("forearm", (0.0, 0.0, 0.0))], sweeps=x),
    "stiffness of a contact": lambda x: CompliantContact([Point("forearm", (0.0, 0.0, 0.0))], stiffness=x),
    "exponent": lambda x: CompliantContact([Point("forearm", (0.0, 0.0, 0.0))], exponent=x),
    "alpha": lambda x: Contact([Point("forearm", (0.0, 0.0, 0.0))], alpha=x),
    "damping of a contact": lambda x: ARM.with_contact("forearm", damping=x),
    "compliance of a contact": lambda x: ARM.with_contact("forearm", compliance=x),
    "stiffness of an equality": lambda x: ARM.with_joint_equality("elbow", stiffness=x, polynomial=(1.0,)),
    "armature": ARM.with_armature,
    "armature of a joint": lambda x: ARM.with_armature([x, 1.0]),
    "mass of a payload": lambda x: ARM.with_payload("forearm", x, (0.0, 0.0, 0.0), IDENTITY),
    "weight": lambda x: Cost.quadratic(q=x),
    "weight of the end": lambda x: Cost.quadratic(q=1.0, final=x),
    "time step": lambda x: Rollout(ARM, steps=2, dt=x) if x is not None else Rollout(ARM, steps=2, dt=-1.0),
}


@pytest.mark.parametrize("what", COEFFICIENTS)
def test_a_coefficient_is_one_finite_number_in_its_range(what: str) -> None:
    for case, value in WRONG.items():
        with pytest.raises(dynagate.Error, match="expected"):
            raise AssertionError(f"{case} passes as {what}: {COEFFICIENTS[what](value)}")


VECTORS: dict[str, Callable[[Any], object]] = {
    "position of a point": lambda x: Point("forearm", x),
    "normal of a plane": Plane,
    "direction of drag": lambda x: Drag((1.0, 1.0), direction=x),
    "normal of a contact": lambda x: ARM.with_contact("forearm", "plane", normal=x),
    "translation of a frame": lambda x: ARM.with_frame("tool", "forearm", x),
    "center of a payload": lambda x: ARM.with_payload("forearm", 1.0, x, IDENTITY),
    "gravity": lambda x: Robot("r", ARM.links, x),
}


@pytest.mark.parametrize("what", VECTORS)
def test_a_vector_is_three_finite_numbers(what: str) -> None:
    wrong = [None, 1.0, "abc", [1.0, 0.0], [1.0, 0.0, True], [1.0, 0.0, "0"], [1j, 0.0, 0.0], [1.0, 0.0, np.nan]]
    wrong += [
        {"x": 1.0, "y": 0.0, "z": 0.0},
        np.ma.array([1.0, 0.0, 0.0], mask=[1, 0, 0]),
        np.zeros((3, 1)),
        [1e300] * 3,
    ]
    for value in wrong:
        with pytest.raises(dynagate.Error, match="expected"):
            raise AssertionError(f"{value!r} passes as {what}: {VECTORS[what](value)}")


SOLVER_OPTIONS: dict[str, Callable[[Any], object]] = {
    "spread": lambda x: spread_of(x, ARM.nv),
    "bounds": lambda x: bounds_of(ARM, x),
    "lowest bounds": lambda x: bounds_of(ARM, (x, 1e3)),
    "highest bounds": lambda x: bounds_of(ARM, (-1e3, x)),
    "joint_bounds": lambda x: joint_bounds_of(ARM, x),
    "lowest joint_bounds": lambda x: joint_bounds_of(ARM, (x, 1e3)),
    "highest joint_bounds": lambda x: joint_bounds_of(ARM, (-1e3, x)),
}
NO_TORQUES: dict[str, Any] = {
    **{
        name: WRONG[name] for name in ("a text", "a complex number", "not a number", "too large", "masked", "an object")
    },
    "three numbers": [1.0, 2.0, 3.0],
    "a truth value among numbers": [True, 1.0],
    "a matrix": np.ones((2, 2)),
    "no numbers": [],
}


@pytest.mark.parametrize("what", SOLVER_OPTIONS)
def test_an_option_of_each_joint_is_one_number_or_one_for_each(what: str) -> None:
    for case, wrong in NO_TORQUES.items():
        with pytest.raises(dynagate.Error) as error:
            SOLVER_OPTIONS[what](wrong)
        assert "expected" in str(error.value), case
    for fine in (2.0, np.float32(2.0), [2.0, 1.0], (2.0, 1.0), np.array([2.0, 1.0]), np.array(2)):
        if isinstance(fine, tuple) and "bounds" in what.split()[0] and " " not in what:
            continue  # a pair is the lowest and the highest
        SOLVER_OPTIONS[what](fine)


@pytest.mark.parametrize("of", [bounds_of, joint_bounds_of])
def test_no_bound_is_infinite_on_the_wrong_side(of: Callable[[Robot, Any], object]) -> None:
    for wrong in (([np.inf, -1.0], np.inf), (-np.inf, [-np.inf, 1.0]), (1.0, -1.0)):
        with pytest.raises(ValueError, match="expected lowest and highest"):
            of(ARM, wrong)
    assert of(ARM, (-np.inf, np.inf)) is None
    assert of(ARM, ([-np.inf, -1.0], np.inf)) is not None


def test_numbers_of_numpy_pass() -> None:
    assert number("x=", np.float32(0.5), SHARE) == 0.5
    assert number("x=", np.array(2), ABOVE_ZERO) == 2.0
    assert numbers("x=", range(3), (3,), AT_LEAST_ZERO).tolist() == [0.0, 1.0, 2.0]
    assert one_or_each("x=", np.array([1, 2])) == (1.0, 2.0)
    assert repr(Limits(np.int64(100))) == repr(Limits(100.0))
    assert ARM.with_contact("forearm", damping=np.float32(0.5)).constraints[0].damping == 0.5


def test_a_payload_may_be_a_point_mass() -> None:
    loaded = ARM.with_payload("forearm", 2.0, (0.1, 0.0, 0.0), np.zeros((3, 3)))
    link, before = loaded.links[1], ARM.links[1]
    total = before.mass + 2.0
    assert link.mass == total
    apart = np.array(before.com) - [0.1, 0.0, 0.0]
    between = before.mass * 2.0 / total * (apart @ apart * IDENTITY - np.outer(apart, apart))
    np.testing.assert_allclose(link.inertia, np.array(before.inertia) + between, atol=1e-12)


FREE = robots.load("two_joint_arm", floating_base=True)


@pytest.mark.parametrize("name", ["integrate", "difference"])
def test_configurations_are_checked(name: str) -> None:
    call = getattr(dynagate, name)
    q = dynagate.neutral(FREE)
    other = np.zeros(FREE.nv) if name == "integrate" else q
    long, lost = q.copy(), q.copy()
    long[6], lost[0] = 2.0, np.nan
    masked = np.ma.array(q, mask=[True] + [False] * (FREE.nq - 1))
    for wrong in (
        long,
        lost,
        masked,
        q + 0j,
        q.astype(str),
        q.astype(bool),
        q[:-1],
        None,
        np.stack([q] * 3)[:, :, None],
    ):
        with pytest.raises(dynagate.Error):
            raise AssertionError(f"{wrong!r}: {call(FREE, wrong, other)}")
    with pytest.raises(dynagate.Error, match="expected leading axes that numpy broadcasts"):
        call(FREE, np.stack([q] * 2), np.stack([other] * 3))
    for wrong in (other * np.nan, np.ma.array(other, mask=True), other.astype(str)):
        with pytest.raises(dynagate.Error):
            call(FREE, q, wrong)


def test_restitution_is_from_0_to_1() -> None:
    robot = ARM.with_contact("forearm", "plane")
    impact = dynagate.compile(robot, "impact", device="numpy")
    state = {"q": np.array([0.3, 0.4]), "qd": np.ones(robot.nv), "active": [1.0]}
    assert np.isfinite(impact(**state, restitution=[1.0]).qd_after).all()
    for wrong in (-0.1, 1.1, 50.0):
        with pytest.raises(ValueError, match=rf"input 'restitution' is {wrong} at \(0,\); expected 0 to 1"):
            impact(**state, restitution=[wrong])


def test_an_input_of_a_force_is_required() -> None:
    q0, tau = np.zeros(2), np.zeros((4, 2))
    rollout = Rollout(ARM, steps=4, dt=0.01, forces=[Servo(10.0)], device="numpy")
    with pytest.raises(
        ValueError, match=r"input 'target' of a force is missing; expected shape \(2,\) or \(\.\.\., 4, 2\)"
    ):
        rollout(q0, q0, tau)
    done = rollout(q0, q0, tau, target=q0)
    cost = np.zeros((5, 2))
    with pytest.raises(ValueError, match="input 'target' of a force is missing"):
        rollout.vjp(done, tau, cost, cost)
    solver = Ilqr(ARM, cost=Cost.quadratic(q=1.0, tau=1.0), knots=4, dt=0.01, forces=[Servo(10.0)], device="numpy")
    with pytest.raises(ValueError, match="input 'target' is missing"):
        solver(q0, q0, goal=q0)


@pytest.mark.parametrize("each", [False, True])
def test_a_cost_and_a_force_do_not_share_an_input(each: bool) -> None:
    cost = Cost.quadratic(tau=1.0, frame="forearm", place=1.0, each=each)
    with pytest.raises(ValueError, match=r"both take an input 'target'; expected different names: give the force"):
        Ilqr(ARM, cost=cost, knots=4, dt=0.01, forces=[Servo(10.0)], device="numpy")


def test_options_that_are_equal_are_taken_for_the_same() -> None:
    assert Cpu(layout="".join(["ro", "ws"])).changed() == Cpu(layout="rows").changed() == {}


def test_a_limit_in_float32_is_inside_the_region() -> None:
    links = [replace(link, joint=replace(link.joint, lower=-3.14, upper=3.14)) for link in ARM.links]
    robot = replace(ARM, links=tuple(links))
    region = Region.of(robot)
    fixed = dynagate.compile(robot, "gravity_torque", device="fixed", region=region)
    assert np.isfinite(fixed(q=np.array([3.14, -3.14], np.float32)).gravity_torque).all()
    with pytest.raises(ValueError, match=r"is 3\.1401 at \(0,\); the formats were chosen for -3\.14 to 3\.14"):
        fixed(q=np.array([3.1401, 0.0]))


FOREIGN: dict[str, Callable[[Any], object]] = {
    "a link's number": ARM.ancestors,
    "an order of joints": ARM.permutation,
    "speeds of a region": lambda x: Region.of(ARM, velocity=x),
    "largest torques": lambda x: Rollout(ARM, steps=3, dt=0.1, feedback=x, device="numpy"),
    "a frame of a cost": lambda x: Cost.quadratic(frame=x, place=1.0),
    "points on a line": lambda x: along("forearm", (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), x),
    "shapes": contact_points,
}


@pytest.mark.parametrize("what", FOREIGN)
def test_what_is_no_value_is_refused_by_an_error_of_the_package(what: str) -> None:
    for value in (10**400, np.ma.masked, float("nan"), 1j, object(), {1: 2}, np.array(["x"]), [True, "1"]):
        with pytest.raises(dynagate.Error, match="expected|does not have"):
            raise AssertionError(f"{value!r} passes as {what}: {FOREIGN[what](value)}")
