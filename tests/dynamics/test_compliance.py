"""Compliance of constraints, and constraints that hold the same twice, against a dense linear system (`tests.kkt`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Region, Robot, RobotError, trace
from dynagate.dynamics.constraints.solve import ConstraintSolver
from dynagate.dynamics.factor import BlockFactor
from dynagate.dynamics.tree import Tree
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_integers
from dynagate.graph.loop import evaluate_loop
from dynagate.graph.scan_trace import trace_scan
from dynagate.robot import Frame, Joint, Link, Mimic

from tests.constrained_robots import FORWARD, INERTIA, RESTITUTION, branched, constraint_state, pair, run, weighted
from tests.kkt import Kkt, kkt_of
from tests.samples import State

FORMS = ("blocks", "single_pivots", "articulated")
TOLERANCE = 1e-12
"""Relative error at a condition number of 1."""
MIXTURES = ((0.3, None), (0.02, 0.3), (0.3, 0.0), (0.0, 0.3), (1e3, 1e-3), (1e-6, 1e-12))
"""Compliances of moving and of turning, on both sides of where a ball at the frame becomes none."""


def some_mixtures(*quick: int) -> list[Any]:
    """Return parameters for all mixtures. Those whose numbers are not in `quick` are marked long."""
    return [pytest.param(*row, marks=() if k in quick else pytest.mark.long) for k, row in enumerate(MIXTURES)]


def assert_solves(got: State, expected: State, condition: np.ndarray) -> None:
    """Compare sample by sample, by the largest entry and the condition number of the system."""
    for name, rows in expected.items():
        for k, (value, row) in enumerate(zip(got[name], rows, strict=True)):
            error = np.abs(value - row).max() / max(1e-9, np.abs(row).max())
            assert error <= TOLERANCE * max(1.0, condition[k]), (name, k, error, condition[k])


def forward_of(system: Kkt, state: State) -> tuple[State, np.ndarray]:
    found = system.forward(state["q"], state["qd"], state["tau"], state["active"])
    return {"qdd": found.x, "force": found.force}, found.condition


def assert_motion(robot: Robot, state: State, forms: tuple[str, ...] = FORMS) -> None:
    """Check accelerations and forces of the forms and of the loop over links, where the robot has them."""
    expected, condition = forward_of(kkt_of(robot), state)
    for form in forms:
        assert_solves(run(robot, FORWARD, state, form=form), expected, condition)
    if "articulated" in forms:
        loop = trace_scan(robot, FORWARD)
        assert_solves(evaluate_loop(loop, {port.name: state[port.name] for port in loop.inputs}), expected, condition)


def assert_impact(robot: Robot, state: State) -> None:
    found = kkt_of(robot).impact(state["q"], state["qd"], state["active"], state[RESTITUTION])
    for form in FORMS[:2]:
        got = run(robot, "impact", state, form=form)
        assert_solves(got, {"qd_after": found.x, "impulse": found.force}, found.condition)


def assert_derivatives(robot: Robot, state: State) -> None:
    system = kkt_of(robot)
    condition = system.condition(state["q"], state["active"])
    by = system.forward_slopes(*(state[name] for name in ("q", "qd", "tau", "active")))
    assert_solves(run(robot, f"{FORWARD}_vjp", state), weighted(state, by), 10.0 * condition)


def soft(robot: Robot, moving: float, turning: float | None, **others: Any) -> Robot:
    gains = {"compliance": moving, "moment_compliance": turning, **others}
    return replace(robot, constraints=tuple(replace(own, **gains) for own in robot.constraints))


def pendulum() -> Robot:
    """One joint about y with 1 kg at 0.3 m, and a frame there."""
    inertia = ((0.01, 0.0, 0.0), (0.0, 0.01, 0.0), (0.0, 0.0, 0.01))
    joint = Joint("swing", "revolute", axis=(0.0, 1.0, 0.0), lower=-3.0, upper=3.0, velocity=5.0, effort=50.0)
    link = Link("bar", -1, joint, 1.0, (0.3, 0.0, 0.0), inertia)
    return Robot("pendulum", (link,), gravity=(0.0, 0.0, 0.0)).with_frame("tip", "bar", (0.3, 0.0, 0.0))


@pytest.mark.parametrize("compliance", [0.01, 0.1, 0.3, 0.6, 1.0, 2.0, 100.0])
def test_a_fixed_contact_by_hand(compliance: float) -> None:
    """(M + Jᵀ J / c) q̈ = τ, with J = [angular; linear]."""
    robot = pendulum().with_contact("tip", "fixed", compliance=compliance)
    jacobian = np.array([0.0, 1.0, 0.0, 0.0, 0.0, -0.3])
    expected = 1.0 / (0.1 + jacobian @ jacobian / compliance)
    one = np.ones((1, 1))
    got = run(robot, FORWARD, {"q": 0.0 * one, "qd": 0.0 * one, "tau": one, "active": one})
    np.testing.assert_allclose(got["qdd"], [[expected]], rtol=1e-12)
    np.testing.assert_allclose(got["force"], [-jacobian * expected / compliance], rtol=1e-12, atol=1e-15)
    after = run(robot, "impact", {"q": 0.0 * one, "qd": one, "active": one, RESTITUTION: 0.0 * one})
    np.testing.assert_allclose(after["qd_after"], [[0.1 * expected]], rtol=1e-12)


def test_balls_at_frames_by_hand() -> None:
    """A body of 3 kg that floats: balls weigh the power of two above what it weighs at its center of mass."""
    inertia = ((0.02, 0.0, 0.0), (0.0, 0.03, 0.0), (0.0, 0.0, 0.04))
    body = Robot("body", (Link("a", -1, Joint("free", "floating"), 3.0, (0.0, 0.0, 0.0), inertia),))
    body = replace(body, frames=(Frame("center", 0), Frame("wall", -1)))
    moving, turning = 4.0, 2.0**-5  # above 3 kg, and above 3 / (1 / 0.02 + 1 / 0.03 + 1 / 0.04) kg m²
    for kind, compliances, ball in (
        ("point", (0.0, None), (moving, 0.0)),
        ("fixed", (0.0, None), (moving, turning)),
        ("fixed", (0.0, 17.0), (moving, 0.0)),
        ("fixed", (0.13, 0.0), (0.0, turning)),
        ("fixed", (17.0, 0.0), (0.0, turning)),
        ("fixed", (0.12, 15.0), (moving, turning)),
        ("fixed", (0.13, 17.0), (0.0, 0.0)),
    ):
        loops = [body.with_loop(*ends, kind) for ends in (("center", "wall"), ("wall", "center"))]
        for held in (body.with_contact("center", kind), *loops):
            got = ConstraintSolver(Tree(soft(held, *compliances))).balls([1.0])
            assert set(got) == ({0} if any(ball) else set()), (kind, compliances)
            if got:
                assert got[0].mass == ball[0]
                assert np.array_equal(np.asarray(got[0].second, float), 0.5 * ball[1] * np.eye(3))
    for held in (body.with_contact("center", "plane"), body.with_loop("center", "wall", "hinge")):
        assert not ConstraintSolver(Tree(held)).balls([1.0])
    twice = body.with_contact("center").with_frame("aside", "a").with_contact("aside", "fixed")
    assert ConstraintSolver(Tree(twice)).balls([1.0, 0.5])[0].mass == 1.5 * moving
    assert not ConstraintSolver(Tree(pair().with_frame("other", "a").with_loop("hook", "other"))).balls([1.0])


@pytest.mark.parametrize(("moving", "turning"), some_mixtures(1, 5))
def test_mixtures_of_moving_and_turning(moving: float, turning: float | None, tmp_path: Path) -> None:
    """Of a fixed contact on a branched robot with quaternions, beside a point that is hard."""
    robot = branched(21, tmp_path)
    first, second = robot.constraints
    robot = replace(robot, constraints=(replace(first, compliance=moving, moment_compliance=turning), second))
    state = constraint_state(robot, 4, seed=3)
    assert_motion(robot, state, FORMS[:1])
    assert_derivatives(robot, state)


@pytest.mark.parametrize(("moving", "turning"), some_mixtures(2)[2:5])
def test_a_loop_to_the_base(moving: float, turning: float | None) -> None:
    """Which gets a ball too. In all forms, with the loop open, at rest and at speed."""
    robot = pair().with_loop("hook", "wall", "fixed", stiffness=20.0, damping=3.0)
    robot = soft(robot, moving, turning)
    state = constraint_state(robot, 3, seed=5)
    state["qd"][0] = 0.0
    state["active"][:] = [[1.0], [1.0], [0.0]]
    assert_motion(robot, state)
    assert_impact(robot, state)


def test_compiled_code_and_integers() -> None:
    robot = pendulum().with_contact("tip", "fixed", compliance=0.3)
    region = Region.of(robot, velocity=3.0)
    state = region.sample(FORWARD, 40, seed=1)
    expected, condition = forward_of(kkt_of(robot), state)
    with dynagate.compile(robot, FORWARD, device="cpu") as accelerator:
        assert_solves(
            dict(accelerator(**{name: state[name] for name in ("q", "qd", "tau", "active")})), expected, condition
        )
    formatted = assign(trace(robot, FORWARD), region, Policy(word=24))
    got = evaluate_integers(formatted, region.states(formatted.graph, 200, seed=2))
    state = region.states(formatted.graph, 200, seed=2)
    expected, _ = forward_of(kkt_of(robot), state)
    assert not got.overflow.any()
    for name, rows in expected.items():
        assert np.abs(got.outputs[name] - rows).max() < 1e-4 * np.abs(rows).max(), name


def parallel(kind: str, **gains: Any) -> Robot:
    """A floating trunk on two legs, whose feet are tied to each other and one of them to the ground. All joints turn
    about one direction, so that the loop holds several directions that the joints hold already."""
    hinge = {"axis": (0.36, 0.48, 0.8), "lower": -2.0, "upper": 2.0, "velocity": 3.0, "effort": 20.0}
    links = [Link("trunk", -1, Joint("free", "floating"), 5.0, (0.0, 0.0, 0.1), INERTIA)]
    for side, y in (("left", 0.2), ("right", -0.2)):
        hip = Joint(f"{side}_hip", "revolute", translation=(0.0, y, 0.0), **hinge)
        knee = Joint(f"{side}_knee", "revolute", translation=(0.0, 0.0, -0.4), **hinge)
        links.append(Link(f"{side}_thigh", 0, hip, 1.0, (0.0, 0.0, -0.2), INERTIA))
        links.append(Link(f"{side}_shank", len(links) - 1, knee, 0.3, (0.0, 0.0, -0.2), INERTIA))
    robot = Robot("parallel", tuple(links))
    for side in ("left", "right"):
        robot = robot.with_frame(f"{side}_foot", f"{side}_shank", (0.0, 0.0, -0.4))
    robot = robot.with_contact("left_foot", "fixed", compliance=gains.get("compliance", 0.0))
    robot = robot.with_frame("bar", "left_shank", (0.0, -0.4, -0.4))
    return robot.with_loop("bar", "right_foot", kind, **gains)


LONG = pytest.mark.long


@pytest.mark.parametrize("compliance", [pytest.param(1e-3, marks=LONG), 1e-6])
@pytest.mark.parametrize("kind", ["fixed", *(pytest.param(kind, marks=LONG) for kind in ("hinge", "point"))])
def test_redundant_rows_are_solved_as_the_dense_system(kind: str, compliance: float) -> None:
    robot = parallel(kind, compliance=compliance)
    state = constraint_state(robot, 3, seed=2)
    state["active"][:] = 1.0
    for hips in (7, 9):
        state["q"][0, hips : hips + 2] = 0.0  # straight legs, at rest
    state["qd"][0] = 0.0
    assert_motion(robot, state, FORMS[::2])
    assert_impact(robot, state)
    assert_derivatives(robot, state)


@pytest.mark.long
def test_redundant_loops_of_joints_that_mimic() -> None:
    robot = parallel("fixed", compliance=1e-6)
    links = list(robot.links)
    links[4] = replace(links[4], joint=replace(links[4].joint, mimic=Mimic("right_hip", -1.5, 0.2)))
    robot = replace(robot, links=tuple(links)).with_joint_equality(
        "left_knee", "left_hip", (0.1, -0.5), compliance=1e-6
    )
    state = constraint_state(robot, 2, seed=4)
    state["active"][:] = 1.0
    assert_motion(robot, state, FORMS[:2])
    assert_impact(robot, state)
    assert_derivatives(robot, state)


def gripper(compliance: float) -> Robot:
    """An arm of 20 kg with fingers of 2 g, one of which mimics the other. Both touch the ground, and a bar of 1 g that
    hangs on the first is tied to the palm."""
    hinge = {"axis": (0.0, 1.0, 0.0), "lower": -2.0, "upper": 2.0, "velocity": 3.0, "effort": 20.0}
    slide = {"lower": 0.0, "upper": 0.05, "velocity": 1.0, "effort": 5.0}
    light, lightest = (tuple(map(tuple, np.diag([size] * 3).tolist())) for size in (1e-7, 5e-8))
    links = (
        Link("upper", -1, Joint("shoulder", "revolute", **hinge), 15.0, (0.0, 0.0, 0.3), INERTIA),
        Link(
            "palm", 0, Joint("elbow", "revolute", translation=(0.0, 0.0, 0.6), **hinge), 5.0, (0.1, 0.0, 0.2), INERTIA
        ),
        Link(
            "left",
            1,
            Joint("grip", "prismatic", translation=(0.0, 0.02, 0.4), axis=(0.0, 1.0, 0.0), **slide),
            0.002,
            (0.0, 0.0, 0.02),
            light,
        ),
        Link(
            "right",
            1,
            Joint(
                "follows",
                "prismatic",
                translation=(0.0, -0.02, 0.4),
                axis=(0.0, -1.0, 0.0),
                mimic=Mimic("grip"),
                **slide,
            ),
            0.002,
            (0.0, 0.0, 0.02),
            light,
        ),
        Link(
            "bar",
            2,
            Joint("knuckle", "revolute", translation=(0.0, 0.0, 0.03), **hinge),
            0.001,
            (0.0, 0.0, 0.01),
            lightest,
        ),
    )
    robot = (
        Robot("gripper", links)
        .with_frame("tip", "left", (0.0, 0.0, 0.05))
        .with_frame("other", "right", (0.0, 0.0, 0.05))
    )
    robot = robot.with_frame("end", "bar", (0.0, 0.0, 0.02)).with_frame("wrist", "palm", (0.01, 0.03, 0.45))
    robot = robot.with_contact("tip", compliance=compliance).with_contact("other", compliance=compliance)
    return robot.with_loop("end", "wrist", "distance", length=0.02, stiffness=50.0, damping=5.0, compliance=compliance)


@pytest.mark.parametrize("compliance", [1e-6, 10.0])
def test_fingers_of_2_grams_on_a_heavy_arm(compliance: float) -> None:
    robot = gripper(compliance)
    state = constraint_state(robot, 4, seed=6)
    state["active"][:] = [[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    state["qd"][0] = 0.0
    assert_motion(robot, state, FORMS[:2])
    assert_impact(robot, state)
    assert_derivatives(robot, state)


@pytest.mark.parametrize("order", [1, pytest.param(-1, marks=pytest.mark.long)])
def test_one_of_two_that_hold_the_same_needs_compliance(order: int) -> None:
    """In whichever order they come; if neither has one, the error names the second."""
    robot = pair().with_frame("same", "b")
    pairs = [("hook", 1e-3), ("same", 0.0)][::order]
    for name, compliance in pairs:
        robot = robot.with_contact(name, "fixed", compliance=compliance)
    state = constraint_state(robot, 2, seed=1)
    state["active"][:] = 1.0
    assert_motion(robot, state)
    with pytest.raises(RobotError, match=f"contact '{pairs[1][0]}' of robot 'pair' holds .*which every form solves"):
        trace(soft(robot, 0.0, None), FORWARD)
    turning = replace(robot.constraints[1], compliance=0.0, moment_compliance=1e-3)
    with pytest.raises(RobotError, match="holds what constraints before it"):
        trace(replace(robot, constraints=(replace(robot.constraints[0], compliance=0.0), turning)), FORWARD)


def test_special_states() -> None:
    """At rest, in singular poses, and with some or all contacts inactive, a redundant stance is determined."""
    robot = pair()
    for k, at in enumerate(((0.3, 0.0, 0.0), (0.0, 0.3, 0.0), (-0.3, -0.3, 0.0), (0.0, 0.0, 0.3))):
        robot = robot.with_frame(f"corner{k}", "a", at).with_contact(f"corner{k}", "point", compliance=1e-6)
    state = constraint_state(robot, 6, seed=3)
    state["q"][0] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    state["qd"][:2], state["tau"][0] = 0.0, 0.0
    state["active"][:] = [[1, 1, 1, 1], [1, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1], [1, 1, 1, 0]]
    assert_motion(robot, state)
    assert_impact(robot, state)
    assert_derivatives(robot, state)
    got = run(robot, FORWARD, state)
    assert np.array_equal(got["force"][2], np.zeros(12))
    expected = run(replace(robot, constraints=()), "forward_dynamics", state)["qdd"][2]
    np.testing.assert_allclose(got["qdd"][2], expected, rtol=1e-12, atol=1e-12)


def test_blocks_stay_without_compliance() -> None:
    """Designs of hard constraints keep three pivots at a time; with any compliance each division is of one pivot."""
    hard = pair().with_contact("hook", "fixed")
    assert trace(hard, FORWARD).counts().reciprocal < trace(hard, FORWARD, form="single_pivots").counts().reciprocal
    yielding = soft(hard, 0.0, 0.1)
    mixed = hard.with_frame("aside", "a").with_contact("aside", compliance=0.1)
    for robot in (yielding, mixed):
        assert trace(robot, FORWARD) == trace(robot, FORWARD, form="single_pivots")


@pytest.mark.parametrize("sizes", [(1,), (3,), (1, 1, 1), (3, 3, 3), (1, 3, 1, 3), (3, 1, 1, 3, 3)])
def test_block_factors_solve(sizes: tuple[int, ...]) -> None:
    """In every mixture of pivots; what is passed stays as it is."""
    count = sum(sizes)
    half = np.random.default_rng(count).normal(size=(count, count + 2))
    matrix, rhs = half @ half.T, np.arange(1.0, count + 1.0)
    before = matrix.copy()
    found = BlockFactor(matrix.astype(object), sizes).solve(rhs)
    np.testing.assert_allclose(found.astype(float), np.linalg.solve(before, rhs), rtol=1e-9)
    assert np.array_equal(matrix, before)
    assert np.array_equal(rhs, np.arange(1.0, count + 1.0))


def test_single_pivots_are_stable_for_nearly_singular_blocks() -> None:
    """Two directions of a block are singular but for the compliance."""
    row = np.array([0.36, 0.48, 0.8])
    matrix = np.outer(row, row) + 1e-6 * np.eye(3)
    expected = np.linalg.solve(matrix, row)
    found = BlockFactor(matrix, (1, 1, 1)).solve(row)
    np.testing.assert_allclose(np.asarray(found, float), expected, rtol=1e-9)
