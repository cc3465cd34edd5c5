"""Trees of every type of joint, drawn by hypothesis, against Pinocchio; and robots at the edges of what is a robot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio
import pytest
from dynagate import Region, Robot, RobotError, evaluate, robots, trace
from dynagate.dynamics.configuration import integrate, neutral
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_fixed
from dynagate.graph import reference_gradient
from dynagate.graph.reference_gradient import relative_errors
from dynagate.robot.kinds import KINDS
from dynagate.robot.parts import Joint, Link
from dynagate.robot.vectors import matrix3, vector3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import tolerances
from tests.oracle import GRADIENT_FRAMES, compare, pinocchio_model, pinocchio_of
from tests.samples import inputs_of, states


def _rotation(random: np.random.Generator) -> np.ndarray:
    """Any rotation, or one by quarter turns, whose zeros the trace must find."""
    if random.random() < 0.4:
        turn = np.eye(3)[random.permutation(3)] * random.choice([-1.0, 1.0], 3)
        return turn * np.linalg.det(turn)
    turn = np.linalg.qr(random.normal(size=(3, 3)))[0]
    return turn * np.linalg.det(turn)


def _body(random: np.random.Generator) -> tuple[float, tuple, tuple]:
    points = random.normal(size=(4, 3)) * 0.1
    mass = random.uniform(0.5, 5.0)
    second = mass * points.T @ points / 4 + 1e-3 * np.eye(3)
    return mass, vector3(random.uniform(-0.2, 0.2, 3)), matrix3(np.trace(second) * np.eye(3) - second)


def _joint(random: np.random.Generator, kind: str, k: int) -> Joint:
    axis = np.array([0.0, 0.0, 1.0])
    if kind not in ("spherical", "floating"):
        cardinal = random.random() < 0.4
        axis = np.eye(3)[random.integers(3)] * random.choice([-1, 1]) if cardinal else random.normal(size=3)
        axis /= np.linalg.norm(axis)
    armature = float(random.choice([0.0, 0.1]))
    return Joint(
        f"joint_{k}",
        kind,
        matrix3(_rotation(random)),
        vector3(random.uniform(-0.5, 0.5, 3)),
        vector3(axis),
        armature=armature,
    )


@st.composite
def trees(draw: st.DrawFn) -> Robot:
    """One to seven links in any branching, with any joints; numbers from a seed."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    links: list[Link] = []
    for k in range(draw(st.integers(1, 7))):
        parent = draw(st.integers(-1, k - 1))
        kind = draw(st.sampled_from(sorted(KINDS)))
        links.append(Link(f"link_{k}", parent, _joint(random, kind, k), *_body(random)))
    # depth first, as the reader numbers them
    order: list[int] = []
    stack = [k for k in reversed(range(len(links))) if links[k].parent < 0]
    while stack:
        k = stack.pop()
        order.append(k)
        stack += [c for c in reversed(range(len(links))) if links[c].parent == k]
    place = {-1: -1, **{old: new for new, old in enumerate(order)}}
    return Robot("drawn", tuple(replace(links[k], parent=place[links[k].parent]) for k in order))


def agrees(robot: Robot, frame: str | int, pushed: bool) -> None:
    compare(robot, pinocchio_of(robot), count=2, frames=[frame], external_forces=pushed, every_form=robot.nv <= 12)


def drawn(max_examples: int) -> settings:
    slow = [HealthCheck.too_slow]
    return settings(max_examples=max_examples, deadline=None, derandomize=True, suppress_health_check=slow)


@given(trees(), st.sampled_from(GRADIENT_FRAMES), st.booleans())
@drawn(2)
def test_drawn_tree_agrees_with_pinocchio(robot: Robot, frame: str | int, pushed: bool) -> None:
    agrees(robot, frame, pushed)


@pytest.mark.long
@given(trees(), st.sampled_from(GRADIENT_FRAMES), st.booleans())
@drawn(50)
def test_many_drawn_trees_agree_with_pinocchio(robot: Robot, frame: str | int, pushed: bool) -> None:
    agrees(robot, frame, pushed)


@pytest.mark.long
@pytest.mark.parametrize("name", ["hyq", "iiwa14"])
def test_floating_base_agrees_with_pinocchio(name: str) -> None:
    if name == "iiwa14":  # whose base has no mass: give it some
        robot = _floating_iiwa()
        compare(robot, pinocchio_of(robot), count=3, external_forces=True, frames=["middle"], every_form=False)
        return
    model = pinocchio_model(robots.path(name), floating_base=True)
    compare(robots.load(name, floating_base=True), model, count=5, external_forces=True)


def _floating_iiwa() -> Robot:
    robot = robots.load("iiwa14", floating_base=True)
    base = replace(robot.links[0], mass=5.0, inertia=((0.05, 0.0, 0.0), (0.0, 0.06, 0.01), (0.0, 0.01, 0.03)))
    return replace(robot, links=(base, *robot.links[1:]))


@pytest.mark.parametrize("kind", ["floating", "spherical"])
def test_gradients_of_a_quaternion_joint_equal_the_complex_step(kind: str) -> None:
    """The tangent is what `integrate` says, whatever Pinocchio says."""
    robot = robots.load("hyq", floating_base=True)
    root = replace(robot.links[0], joint=replace(robot.links[0].joint, type=kind))
    robot = replace(robot, links=(root, *robot.links[1:]))
    inputs = inputs_of("forward_dynamics_gradient", states(robot, 4, seed=3))
    expected = reference_gradient.forward_dynamics_gradient(robot, inputs)
    for output, got in evaluate(trace(robot, "forward_dynamics_gradient"), inputs).items():
        assert relative_errors(got, expected[output]).max() <= tolerances.COMPLEX_STEP, output


@given(trees(), st.sampled_from([1e-9, 1e-3, 0.2, 1.0, 3.0]))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_integrate_is_pinocchios(robot: Robot, size: float) -> None:
    q, v = (states(robot, 3, seed=2)[key] for key in ("q", "qd"))
    v *= size / 8.0
    model = pinocchio_of(robot)
    for a, b, got in zip(q, v, integrate(robot, q, v), strict=True):
        expected = pinocchio.integrate(model, a, b)
        for part in robot.quaternions():  # q and -q are one rotation; Pinocchio takes the nearer to where it starts
            expected[part] *= np.sign(expected[part] @ got[part])
        np.testing.assert_allclose(got, expected, atol=1e-12)
    np.testing.assert_array_equal(neutral(robot), pinocchio.neutral(model))
    np.testing.assert_allclose(integrate(robot, q, np.zeros_like(v)), q, atol=4e-16)  # a quaternion is normalized


def test_massless_frames_between_the_axes_of_a_joint() -> None:
    """A universal joint: two axes that cross, no mass between them; and a rotor may hold what has no mass."""
    arm = robots.load("two_joint_arm")
    frame = replace(arm.links[1], name="cross", mass=0.0, com=(0.0, 0.0, 0.0), inertia=matrix3(np.zeros((3, 3))))
    hand = replace(
        arm.links[1],
        name="hand",
        parent=2,
        joint=replace(arm.links[1].joint, name="wrist", axis=(1.0, 0.0, 0.0), translation=(0.0, 0.0, 0.0)),
    )
    frame = replace(frame, parent=1, joint=replace(frame.joint, name="nod"))
    universal = Robot("universal", (*arm.links, frame, hand))
    compare(universal, pinocchio_of(universal), count=3)
    tip = Robot("tip", (*arm.links, frame))
    torque = trace(tip, "inverse_dynamics")
    state = states(tip, 2, seed=1)
    assert np.all(evaluate(torque, inputs_of("inverse_dynamics", state))["tau"][:, 2] == 0.0)
    for function in ("forward_dynamics", "mass_matrix_inverse", "forward_dynamics_gradient"):
        with pytest.raises(RobotError, match="joint 'nod' can move without moving any mass, so .* of 'tip' has no inv"):
            trace(tip, function)
    geared = tip.with_armature([0.0, 0.0, 0.1])
    compare(geared, pinocchio_of(geared), count=3)


@pytest.mark.parametrize("place", [(0.0, 0.0, 0.0), (0.3, -0.2, 0.7)])
def test_joints_that_move_nothing_together_are_named(place: tuple[float, float, float]) -> None:
    """A floating base without mass turns about the first joint's axis as that joint turns back."""
    robot = robots.load("two_joint_arm", floating_base=True)
    shoulder = replace(robot.links[1].joint, axis=vector3(np.array([1.0, 2.0, 2.0]) / 3.0), translation=place)
    robot = replace(robot, links=(robot.links[0], replace(robot.links[1], joint=shoulder), robot.links[2]))
    for form in ("mass_matrix_solve", "aba"):
        with pytest.raises(RobotError) as caught:
            trace(robot, "forward_dynamics", form=form)
        assert caught.value.text == (
            "joints 'root_joint' and 'shoulder' together can move without moving any mass, so the mass matrix of "
            "'two_joint_arm' has no inverse; give mass and inertia to 'base', or hold by lock= 'shoulder'"
        )
    inputs = inputs_of("inverse_dynamics", states(robot, 2, seed=1))
    torque = trace(robot, "inverse_dynamics")
    moved, still = (evaluate(torque, {**inputs, "qdd": k * inputs["qdd"]})["tau"] for k in (1.0, 0.0))
    m = evaluate(trace(robot, "mass_matrix"), {"q": inputs["q"]})["m"]
    np.testing.assert_allclose(np.einsum("bij,bj->bi", m, inputs["qdd"]), moved - still, atol=1e-10)
    if any(place):
        base = replace(robot.links[0], mass=1.0, inertia=matrix3(0.1 * np.eye(3)))
        weighty = replace(robot, links=(base, *robot.links[1:]))
        compare(weighty, pinocchio_of(weighty), count=2)


def test_one_joint_of_each_type_has_every_function() -> None:
    arm = robots.load("two_joint_arm")
    for kind in KINDS:
        joint = replace(arm.links[0].joint, type=kind, axis=(0.0, 0.0, 1.0))
        single = Robot("single", (replace(arm.links[0], joint=joint, com=(0.1, 0.2, 0.3)),))
        compare(single, pinocchio_of(single), count=2)


def test_quaternions_must_have_length_one() -> None:
    robot = robots.load("hyq", floating_base=True)
    graph = trace(robot, "mass_matrix")
    q = np.stack([neutral(robot)] * 3)
    assert graph.inputs[0].unit_vectors == ((3, 7),)
    evaluate(graph, {"q": q})
    q[1, 3:7] = 0.6
    with pytest.raises(
        ValueError, match=r"input 'q' of sample 1 has at \[3:7\] a quaternion of length 1.2; expected 1"
    ):
        evaluate(graph, {"q": q})
    formatted = assign(graph, Region.of(robot, velocity=1.0), Policy(samples=64))
    with pytest.raises(ValueError, match="input 'q' of sample 1 has at .* a quaternion of length 1.2"):
        evaluate_fixed(formatted, {"q": q})


def test_region_of_a_floating_base() -> None:
    robot = robots.load("hyq", floating_base=True)
    with pytest.raises(RobotError, match="joint 'root_joint' has no velocity limit"):
        Region.of(robot)
    with pytest.raises(RobotError, match="velocity names joint 'tail', which robot 'hyq' does not have"):
        Region.of(robot, velocity={"root_joint": 2.0, "tail": 1.0})
    region = Region.of(robot, velocity={"root_joint": 2.0})
    assert region.velocity[:7] == (2.0,) * 6 + (robot.links[1].joint.velocity,)
    sample = region.sample("forward_dynamics", 50, seed=1)
    assert {key: value.shape for key, value in sample.items()} == {"q": (50, 19), "qd": (50, 18), "tau": (50, 18)}
    np.testing.assert_allclose(np.linalg.norm(sample["q"][:, 3:7], axis=1), 1.0)
