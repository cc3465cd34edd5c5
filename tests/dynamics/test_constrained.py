"""Constrained dynamics: contacts that hold frames still, against Pinocchio, dense linear algebra and complex steps."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import dynagate
import numpy as np
import pinocchio
import pytest
from click.testing import CliRunner
from dynagate import Region, Robot, RobotError, build, evaluate, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.design.rebuilt import formatted_design
from dynagate.dynamics import CONSTRAINED
from dynagate.dynamics.configuration import integrate
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_integers
from dynagate.forces import Friction
from dynagate.graph.derivatives import jacobian
from dynagate.graph.reference_gradient import STEP, relative_errors
from dynagate.host.results import Results
from dynagate.robot import Constraint, Frame, Joint, Link, Mimic

from tests.benches import passes_in_verilator
from tests.constrained_robots import (
    FORWARD,
    INERTIA,
    KINDS,
    LOCAL,
    RESTITUTION,
    assert_close,
    body,
    branched,
    by_dense_algebra,
    by_pinocchio,
    constraint_state,
    differences,
    entries_of,
    four_bar,
    looped,
    one_foot,
    opening,
    place,
    quadruped,
    run,
    settled,
    weighted,
    with_stances,
)
from tests.cuda_text import as_host_code
from tests.oracle import pinocchio_of
from tests.played_card import play_card
from tests.robots import hopper
from tests.samples import State, states

OTHER_FORMS = ("single_pivots", "articulated")
ARM = robots.load("two_joint_arm")
PATTERN = "expected fewer constraints, 'point' for 'fixed', or compliance= of more than 0"


@pytest.mark.parametrize("form", ["blocks", pytest.param("single_pivots", marks=pytest.mark.long)])
def test_a_quadruped_in_all_stances_is_pinocchios(form: str) -> None:
    robot = quadruped()
    state = with_stances(robot, states(robot, 16, seed=1))
    assert len({tuple(stance) for stance in state["active"]}) == 16
    assert_close(run(robot, FORWARD, state, form=form), by_pinocchio(robot, state), 1e-10)


@pytest.mark.parametrize("seed", [21, pytest.param(25, marks=pytest.mark.long)])
def test_branched_robots_are_pinocchios(seed: int, tmp_path: Path) -> None:
    """With both contacts still: of a fixed one that moves, Pinocchio takes another acceleration, by ω × v."""
    robot = branched(seed, tmp_path)
    state = with_stances(robot, states(robot, 8, seed=2))
    state = settled(robot, state)
    assert_close(run(robot, FORWARD, state), by_pinocchio(robot, state), 1e-10)


def test_damping_is_pinocchios(tmp_path: Path) -> None:
    robot = one_foot(tmp_path, damping=7.0)
    state = with_stances(robot, states(robot, 4, seed=2))
    expected = by_pinocchio(robot, state)
    assert_close(run(robot, FORWARD, state), expected, 1e-10)
    free = run(replace(robot, constraints=(Constraint("toe"),)), FORWARD, state)
    assert np.abs(free["force"] - expected["force"]).max() > 1.0


@pytest.mark.parametrize("kind", ["point", "fixed"])
def test_loops_are_pinocchios(kind: str, tmp_path: Path) -> None:
    robot, state = looped(kind, tmp_path)
    state = settled(robot, state)
    assert_close(run(robot, FORWARD, state), by_pinocchio(robot, state), 1e-10)


def test_a_loop_to_the_base(tmp_path: Path) -> None:
    """A seven-joint arm whose hand is bolted to the wall has one degree of freedom left."""
    arm = robots.load("iiwa14")
    state = states(arm, 1, seed=4)
    hand = arm.links[-1].name
    pose = run(arm, f"frame_pose_{hand}", state)
    base = next(frame.name for frame in arm.frames if frame.link < 0)
    wall = arm.with_frame("wall", base, tuple(pose["frame_position"][0]), pose["frame_rotation"][0])
    robot = wall.with_loop("wall", hand, "fixed")
    state = settled(robot, with_stances(robot, state))
    result = run(robot, FORWARD, state)
    assert_close(result, by_dense_algebra(robot, state), 1e-9)
    other = wall.with_loop(hand, "wall", "fixed")  # the other way round: the same, with forces on the hand
    assert_close(run(other, FORWARD, state), {"qdd": result["qdd"], "force": -result["force"]}, 1e-9)
    assert_close(run(other, FORWARD, state), {"qdd": by_pinocchio(other, state)["qdd"]}, 1e-9)


@pytest.mark.parametrize("kind", [pytest.param("point", marks=pytest.mark.long), "fixed"])
def test_a_loop_is_drawn_together(kind: str, tmp_path: Path) -> None:
    """What is open closes by stiffness and damping, in derivatives too."""
    robot, state = looped(kind, tmp_path)
    contact, loop = robot.constraints
    robot = replace(robot, constraints=(contact, replace(loop, stiffness=30.0, damping=4.0, compliance=0.1)))
    state["q"] = integrate(robot, state["q"], 0.1 * state["delta_q"])
    assert np.abs(opening(robot, loop, state)).max() > 0.01
    expected = by_dense_algebra(robot, state)
    assert_close(run(robot, FORWARD, state), expected, 1e-9)
    assert_close(run(robot, f"{FORWARD}_vjp", state), weighted(state, differences(robot, state)), 1e-9)


@pytest.mark.parametrize("kind", [pytest.param("hinge", marks=pytest.mark.long), "distance", "plane"])
def test_kinds_that_leave_directions_free(kind: str, tmp_path: Path) -> None:
    """By dense algebra with a complex step of J, and how far a loop is open by what J says."""
    robot, state = looped("point", tmp_path)
    contact = robot.constraints[0]
    state["qd"] = 0.5 * state["qd"]
    free = replace(robot, constraints=(contact,))
    if kind == "plane":
        robot = replace(free, constraints=()).with_contact("sole", "plane", normal=(0.6, 0.0, 0.8), damping=2.0)
        state["active"] = np.ones((1, 1))
    else:
        apart = opening(robot, robot.constraints[1], {**state, "q": integrate(robot, state["q"], 0.3 * state["qd"])})
        there = free if kind == "hinge" else free.with_frame("far", "link_3", (0.1, 0.4, -0.2))
        length = {"length": float(np.linalg.norm(apart)) or 1.0} if kind == "distance" else {}
        robot = there.with_loop("sole", "there" if kind == "hinge" else "far", kind, compliance=0.01, **length)
        loop = replace(robot, constraints=(replace(robot.constraints[1], stiffness=1.0, compliance=0.0),))
        moved = integrate(robot, state["q"], 1j * STEP * state["qd"])
        rate = run(loop, "constraint_drift", {"q": moved, "qd": 0.0 * moved[:, 1:]})["constraint_drift"].imag / STEP
        j = run(loop, "contact_jacobian", state)["contact_jacobian"]
        assert_close({"rate": rate}, {"rate": np.einsum("bij,bj->bi", j, state["qd"])}, 1e-9)
    state["lam_force"] = np.ones((1, robot.constraint_rows))
    assert_close(run(robot, FORWARD, state), by_dense_algebra(robot, state), 1e-9)
    assert_close(run(robot, f"{FORWARD}_vjp", state), weighted(state, differences(robot, state)), 1e-9)


def test_a_body_on_a_hinge_is_a_pendulum() -> None:
    """With a joint in the place of the hinge it has the same acceleration."""
    block = Robot("block", (body("a", -1, "floating"),)).with_frame("pin", "a", (0.0, 0.3, 0.2))
    joint = Joint("swing", "revolute", axis=(0.0, 0.0, 1.0))
    com = tuple(np.array([0.1, 0.0, 0.2]) - [0.0, 0.3, 0.2])
    swing = Robot("swing", (Link("a", -1, joint, 2.0, com, INERTIA),), gravity=(3.0, -9.0, 2.0))
    block = replace(block, gravity=swing.gravity, frames=(*block.frames, Frame("wall", -1)))
    block = block.with_loop("pin", "wall", "hinge")
    turn, rate = 0.4, 2.0
    spin = np.array([0.0, 0.0, rate])
    rotation = np.array([[np.cos(turn), -np.sin(turn), 0.0], [np.sin(turn), np.cos(turn), 0.0], [0.0, 0.0, 1.0]])
    at = -(rotation @ [0.0, 0.3, 0.2]) - rotation @ block.links[0].joint.translation * 0.0
    q = np.concatenate(
        [at - np.array(block.links[0].joint.translation), [0.0, 0.0, np.sin(turn / 2), np.cos(turn / 2)]]
    )
    moving = rotation.T @ np.cross(spin, at)
    order = np.concatenate([spin, moving]) if _turns_first(block) else np.concatenate([moving, spin])
    state = {"q": q[None], "qd": order[None], "tau": np.zeros((1, 6)), "active": np.ones((1, 1))}
    got = run(block, FORWARD, state)["qdd"][0]
    alone = {"q": np.array([[turn]]), "qd": np.array([[rate]]), "tau": np.zeros((1, 1))}
    expected = run(swing, "forward_dynamics", alone)["qdd"][0, 0]
    np.testing.assert_allclose(got[2 if _turns_first(block) else 5], expected, rtol=1e-10)


def _turns_first(robot: Robot) -> bool:
    """Whether turning comes before moving in q̇ of a free body."""
    pose = run(robot, "frame_jacobian_a", {"q": np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])})
    return bool(next(iter(pose.values()))[0, 0, 0] == 1.0)


def test_a_block_slides_down_a_plane() -> None:
    """Without friction, by g sin of its slope."""
    slope = 0.3
    normal = (np.sin(slope), 0.0, np.cos(slope))
    block = Robot("block", (body("a", -1, "floating"),))
    for k, corner in enumerate(((0.3, 0.2, 0.0), (0.3, -0.2, 0.0), (-0.3, 0.0, 0.0))):
        block = block.with_frame(f"corner{k}", "a", corner).with_contact(f"corner{k}", "plane", normal=normal)
    half = slope / 2
    q = np.array([[0.0, 0.0, 0.0, 0.0, np.sin(half), 0.0, np.cos(half)]])
    state = {"q": q, "qd": np.zeros((1, 6)), "tau": np.zeros((1, 6)), "active": np.ones((1, 3))}
    got = run(block, FORWARD, state)
    np.testing.assert_allclose(np.linalg.norm(got["qdd"]), 9.81 * np.sin(slope), rtol=1e-10)
    np.testing.assert_allclose(got["force"].sum(), 2.0 * 9.81 * np.cos(slope), rtol=1e-10)
    assert (got["force"] > 0.0).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: ARM.with_contact("forearm", normal=(1.0, 0.0, 0.0)), "is of kind 'point' and has a normal"),
        (
            lambda: ARM.with_contact("forearm", "plane", normal=(0.0, 0.0, 0.0)),
            "expected three finite numbers, not all",
        ),
        (lambda: ARM.with_loop("forearm", "base", "distance"), "has length 0; expected a finite number above 0, in m"),
        (
            lambda: ARM.with_loop("forearm", "base", length=1.0),
            "is of kind 'point' and has a length; expected one of a",
        ),
    ],
)
def test_geometry_that_is_none(given: Any, message: str) -> None:
    with pytest.raises(RobotError, match=message):
        given()


def test_compliance_and_damping_are_in_the_equations(tmp_path: Path) -> None:
    robot = branched(21, tmp_path)
    first, second = robot.constraints
    robot = replace(robot, constraints=(replace(first, compliance=0.02), replace(second, damping=3.0, compliance=0.3)))
    state = with_stances(robot, states(robot, 8, seed=3))
    assert_close(run(robot, FORWARD, state), by_dense_algebra(robot, state), 1e-9)


def test_a_robot_whose_joints_mimic(tmp_path: Path) -> None:
    robot = branched(25, tmp_path)
    single = [k for k, link in enumerate(robot.links) if link.joint.type == "revolute"]
    leader, follower = robot.links[single[0]], robot.links[single[-1]]
    joint = replace(follower.joint, mimic=Mimic(leader.joint.name, -1.5, 0.2))
    links = [replace(link, joint=joint) if link is follower else link for link in robot.links]
    robot = replace(robot, links=tuple(links))
    state = with_stances(robot, states(robot, 4, seed=4))
    expected = by_dense_algebra(robot, state)
    assert_close(run(robot, FORWARD, state), expected, 1e-9)
    assert_close(run(robot, f"{FORWARD}_vjp", state), expected, 1e-9)


@pytest.mark.parametrize("form", ["blocks", *(pytest.param(k, marks=pytest.mark.long) for k in OTHER_FORMS)])
def test_derivatives_are_the_complex_steps(form: str, tmp_path: Path) -> None:
    robot = branched(21, tmp_path)
    first, second = robot.constraints
    robot = replace(robot, constraints=(replace(first, damping=2.0), replace(second, compliance=0.3)))
    state = with_stances(robot, states(robot, 4, seed=5))
    by = differences(robot, state)
    assert_close(run(robot, f"{FORWARD}_gradient", state, form=form), by, 1e-9)
    vjp, jvp = (run(robot, f"{FORWARD}_{kind}", state, form=form) for kind in ("vjp", "jvp"))
    assert_close(vjp, weighted(state, by), 1e-9)
    for y in ("qdd", "force"):
        moved = [np.einsum("bij,bj->bi", by[f"d{y}_d{x}"], state[f"delta_{x}"]) for x in ("q", "qd", "tau")]
        assert_close(jvp, {f"jvp_{y}": sum(moved)}, 1e-9)


def test_long_chains_take_products_by_their_length(tmp_path: Path) -> None:
    """Articulated bodies: each link as many as the one before."""

    def held(count: int) -> Robot:
        links = (body(str(k), k - 1, "revolute") for k in range(count))
        axes = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
        turned = (replace(link, joint=replace(link.joint, axis=axes[k % 3])) for k, link in enumerate(links))
        return Robot("chain", tuple(turned)).with_contact(str(count - 1), "fixed")

    graphs = [trace(held(count), FORWARD, form="articulated") for count in (6, 9, 12)]
    first, second, third = (graph.counts().products for graph in graphs)
    assert 0 < third - second <= second - first
    with pytest.raises(RobotError, match="which form 'articulated' of .* does not know; expected 'blocks'"):
        trace(stops_and_turns(tmp_path)[2], FORWARD, form="articulated")


def test_products_are_those_of_the_whole_graph(tmp_path: Path) -> None:
    """And take fewer operations than differentiating it."""
    robot = branched(21, tmp_path)
    state = with_stances(robot, states(robot, 4, seed=6))
    graph, listed = trace(robot, FORWARD), trace(robot, f"{FORWARD}_vjp")
    whole = dynagate.graph.derivatives.vjp(graph, inputs=["q", "qd", "tau"], robot=robot)
    inputs = {port.name: state[port.name] for port in whole.inputs}
    assert_close(evaluate(listed, inputs), evaluate(whole, inputs), 1e-9)
    assert listed.counts().products < 0.75 * whole.counts().products


def test_spherical_joints() -> None:
    links = (body("a", -1, "spherical"), body("b", 0, "spherical"), body("c", 1, "revolute"))
    robot = Robot("balls", links).with_frame("tip", "c", (0.0, 0.1, 0.3)).with_contact("tip")
    state = with_stances(robot, states(robot, 4, seed=1))
    assert_close(run(robot, FORWARD, state), by_pinocchio(robot, state), 1e-10)
    assert_close(run(robot, f"{FORWARD}_vjp", state), weighted(state, differences(robot, state)), 1e-9)


def test_two_free_bodies_that_are_tied() -> None:
    robot = Robot("pair", (body("a", -1, "floating"), body("b", -1, "floating")))
    robot = robot.with_frame("hook", "a", (0.0, 0.1, 0.3)).with_loop("hook", "b", "fixed", stiffness=3.0, damping=2.0)
    state = with_stances(robot, states(robot, 4, seed=1))
    assert_close(run(robot, FORWARD, state), by_dense_algebra(robot, state), 1e-9)
    assert_close(run(robot, f"{FORWARD}_vjp", state), weighted(state, differences(robot, state)), 1e-9)


def test_forces_from_outside_and_friction(tmp_path: Path) -> None:
    """f_ext at the toe is what the contact gives: the free robot then moves as the held one."""
    robot = one_foot(tmp_path)
    state = with_stances(robot, states(robot, 4, seed=7, external_forces=True))
    options: dict[str, Any] = {"external_forces": True, "forces": [Friction(0.3)]}
    held = run(robot, FORWARD, state, **options)
    pose = run(robot, "frame_pose_leg", state)
    local = np.einsum("bji,bj->bi", pose["frame_rotation"], held["force"])
    pushed = state["f_ext"].copy()
    pushed[:, 1] += np.concatenate([np.cross([0.0, 0.02, -0.4], local), local], axis=1)
    assert_close(held, run(robot, "forward_dynamics", {**state, "f_ext": pushed}, **options), 1e-10)
    by = differences(robot, state, **options)
    assert_close(run(robot, f"{FORWARD}_vjp", state, **options), weighted(state, by), 1e-9)


OTHERS = ("constrained_inverse_dynamics", "impact", "delassus", "constraint_drift")


@pytest.mark.parametrize("name", [FORWARD, f"{FORWARD}_vjp", *OTHERS, "impact_vjp"])
def test_compiled_code_is_the_graph(name: str, tmp_path: Path) -> None:
    robot = one_foot(tmp_path, damping=4.0)
    state = Region.of(robot, velocity=3.0).sample(name, 40, seed=1)
    assert set(np.unique(state.get("active", [0.0, 1.0]))) == {0.0, 1.0}
    graph = trace(robot, name)
    expected = evaluate(graph, state)
    within = 1e-10 if "inverse" in name else 1e-12  # one foot leaves much for nobody to give: divided by ε
    with dynagate.compile(robot, graph.name, device="cpu") as accelerator:
        assert_close(dict(accelerator(**state)), expected, within)
    assert_close(as_host_code(graph, state, tmp_path), expected, within)  # CUDA


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "within"), [(FORWARD, 1e-3), pytest.param("constrained_inverse_dynamics", 3e-3, marks=pytest.mark.long)]
)
def test_words_of_24_bits_are_enough_for_a_quadruped(name: str, within: float) -> None:
    """Near its stances, for all but one state in a thousand."""
    robot = quadruped()
    region = Region.of(robot, velocity={"root_joint": 1.0})
    formatted = assign(trace(robot, name), region, Policy(word=24))
    state = region.states(formatted.graph, 1000, seed=7)
    got, expected = evaluate_integers(formatted, state), evaluate(formatted.graph, state)
    assert got.overflow.sum() <= 1
    for output, values in expected.items():
        floor = 0.1 * np.sqrt(np.mean(np.sum(values**2, axis=1)))
        assert np.quantile(relative_errors(got.outputs[output], values, floor), 0.998) < within, output


@pytest.mark.long
@pytest.mark.parametrize("name", [FORWARD, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_hardware_is_the_integers(name: str, tmp_path: Path, designs: Path) -> None:
    robot = one_foot(tmp_path)
    region = Region.of(robot, velocity=2.0)
    state = region.sample(name, 60, seed=2)
    built = build(robot, name, ii=32, policy=Policy(word=24), region=region, folder=designs)
    passes_in_verilator(built.folder)
    assert formatted_design(built.folder).graph == built.formatted.graph
    assert json.loads((built.folder / "design.json").read_text())["robot"]["constraints"][0]["frame"] == "toe"
    if "active" in state:
        half = {**state, "active": np.where(np.arange(60)[:, None] == 7, 0.5, state["active"])}
        message = re.escape("input 'active' is 0.5 at (7, 0); expected 0 or 1")
        with dynagate.open(built, device="sim") as chip, pytest.raises(ArgumentError, match=message):
            chip(**half)
    with dynagate.open(built, device="fixed") as accelerator:
        if "inverse" not in name:  # one foot leaves much for nobody to give: divided by ε, beyond the bits
            assert_close(dict(accelerator(**state)), evaluate(trace(robot, name), state), 1e-4)
        if "active" not in state:
            return
        with pytest.raises(ArgumentError, match=re.escape("input 'active' is 0.5 at (0, 0); expected 0 or 1")):
            accelerator(**{**state, "active": 0.5 * np.ones((60, 1))})


@pytest.mark.parametrize("device", ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.long)])
def test_a_contact_that_is_half_active_is_refused(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_card(monkeypatch, tmp_path)
    robot = one_foot(tmp_path)
    state = Region.of(robot, velocity=3.0).sample(FORWARD, 3, seed=1)
    state["active"][1] = -1.0
    message = re.escape("input 'active' is -1 at (1, 0); expected 0 or 1")
    with dynagate.compile(robot, FORWARD, device=device) as accelerator:
        with pytest.raises(ArgumentError, match=message):
            accelerator(**state)
        state["active"][1] = 1.0
        bound = accelerator.bind(**state)
        bound()
        state["active"][1] = -1.0
        with pytest.raises(ArgumentError, match=message):
            bound()
    with pytest.raises(ArgumentError, match=message):
        evaluate(trace(robot, FORWARD), state)


def test_contacts_that_hold_the_same_twice(tmp_path: Path) -> None:
    toe = one_foot(tmp_path).with_frame("heel", "leg", (-0.1, 0.0, -0.4)).with_frame("arch", "leg", (0.0, 0.1, -0.4))
    twice = toe.with_contact("heel").with_contact("arch")  # the distances between points of a body stay as they are
    with pytest.raises(RobotError, match=re.escape("contact 'heel', contact 'arch' of robot 'hopper' holds")) as error:
        trace(twice, f"{FORWARD}_vjp")
    assert PATTERN in str(error.value)
    with pytest.raises(RobotError, match=PATTERN):
        trace(ARM.with_contact("forearm"), FORWARD)  # three directions, and two joints
    soft = replace(twice, constraints=tuple(replace(contact, compliance=1e-6) for contact in twice.constraints))
    loop = toe.with_loop("arch", "body", "fixed")
    with pytest.raises(RobotError, match="loop from 'arch' to 'body' of robot 'hopper' holds what"):
        trace(loop, FORWARD)
    tied = replace(branched(25, tmp_path), constraints=()).with_loop("sole", "link_0", "fixed")
    with pytest.raises(RobotError, match="loop from 'sole' to 'link_0' of robot 'random_25' holds what"):
        trace(
            tied, FORWARD
        )  # four joints cannot keep six directions once it is closed, though they can while it is open
    for robot in (soft, ARM.with_contact("forearm", "fixed", compliance=1e-6)):
        state = with_stances(robot, states(robot, 8, seed=8))
        for form in ("blocks", "single_pivots"):
            result = run(robot, FORWARD, state, form=form)
            assert_close(result, {"qdd": by_dense_algebra(robot, state)["qdd"]}, 1e-7)
            assert all(np.isfinite(values).all() for values in result.values())


@pytest.mark.parametrize(
    ("contacts", "message"),
    [
        ([("hand",)], "robot 'two_joint_arm' has no frame 'hand'; expected one of upper_arm, forearm, base"),
        ([("base",)], "contact 'base' of robot 'two_joint_arm' is fixed to the base; expected a frame that moves"),
        ([("forearm",)] * 2, "robot 'two_joint_arm' has two constraints that are contact 'forearm'; expected one"),
        ([("forearm", "hinge")], "contact 'forearm' is of kind 'hinge'; expected one of point, fixed, plane"),
    ],
)
def test_contacts_that_are_none(contacts: list[tuple[str, ...]], message: str) -> None:
    *first, last = contacts
    robot = ARM.with_contact(*first[0]) if first else ARM
    with pytest.raises(RobotError, match=re.escape(message)):
        robot.with_contact(*last)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (("upper_arm", "hand"), "has no frame 'hand'"),
        (("upper_arm", "upper_arm"), "loop from 'upper_arm' to 'upper_arm' of robot 'two_joint_arm' is between places"),
        (("tip", "forearm"), "loop from 'tip' to 'forearm' of robot 'two_joint_arm' is between places of one link"),
        (("forearm", "tip", "plane"), "is of kind 'plane'; expected one of point, fixed, hinge, distance"),
        (("base", "upper_arm"), "two constraints that are loop from 'upper_arm' to 'base'; expected one"),
    ],
)
def test_loops_that_are_none(ends: tuple[str, ...], message: str) -> None:
    robot = ARM.with_frame("tip", "forearm", (0.0, 0.0, 0.4)).with_loop("upper_arm", "base")
    with pytest.raises(RobotError, match=re.escape(message)):
        robot.with_loop(*ends)


@pytest.mark.parametrize("to", [None, "", 3, ("base",)])
def test_a_loop_to_no_name_is_no_contact(to: Any) -> None:
    with pytest.raises(RobotError, match="expected a name"):
        ARM.with_loop("upper_arm", to)
    with pytest.raises(RobotError, match=r"expected a name|is of kind .hinge.; expected one of point"):
        replace(ARM, constraints=(Constraint("upper_arm", "hinge", to=to),))


def test_constraints_that_are_passed_stay_as_they_are() -> None:
    """A robot normalizes constraints of its own."""
    plane = Constraint("forearm", "plane", normal=(0.0, 0.0, 2.0))
    joints = Constraint("elbow_joint", "joints", "shoulder_joint", polynomial=[0.0, 1.0])  # type: ignore[arg-type]
    before = hash(plane)
    robot = replace(ARM, constraints=(plane,))
    assert (hash(plane), plane.normal) == (before, (0.0, 0.0, 2.0))
    assert robot.constraints[0].normal == (0.0, 0.0, 1.0)
    assert robot == replace(ARM, constraints=[plane])  # type: ignore[arg-type]
    names = ARM.joint_names
    joints = replace(joints, frame=names[1], to=names[0])
    assert replace(ARM, constraints=(joints,)).constraints[0].polynomial == (0.0, 1.0)
    assert joints.polynomial == [0.0, 1.0]


def test_gains_that_are_too_small_or_mean_nothing() -> None:
    with pytest.raises(RobotError, match="has compliance 1e-15; expected 0, or 1e-12 or more"):
        ARM.with_contact("forearm", compliance=1e-15)
    with pytest.raises(RobotError, match="contact 'forearm' has stiffness 2; expected 0: only loops know where to"):
        replace(ARM, constraints=(Constraint("forearm", stiffness=2.0),))


@pytest.mark.parametrize(("name", "value"), [("damping", -1.0), ("compliance", float("inf"))])
def test_gains_that_are_none(name: str, value: float) -> None:
    message = f"contact 'forearm' has {name} {value!r}; expected a finite number, 0 or more"
    with pytest.raises(RobotError, match=message):
        ARM.with_contact("forearm", **{name: value})


@pytest.mark.parametrize("name", [FORWARD, f"{FORWARD}_jvp", "contact_jacobian"])
def test_a_robot_without_contacts(name: str) -> None:
    with pytest.raises(RobotError, match=re.escape("robot 'two_joint_arm' has no contacts and no loops")) as error:
        trace(ARM, name)
    assert "expected robot.with_contact('frame') for each (--contact FRAME on the command line), or" in str(error.value)


def test_contacts_are_part_of_a_robot(tmp_path: Path) -> None:
    robot = one_foot(tmp_path, kind="fixed", damping=2.0)
    assert robot.constraints == (Constraint("toe", "fixed", damping=2.0),)
    assert pickle.loads(pickle.dumps(robot)) == robot != hopper(tmp_path)
    assert hash(robot) != hash(replace(robot, constraints=()))
    free = trace(replace(robot, constraints=()), "forward_dynamics")
    assert trace(robot, "forward_dynamics") == free  # functions without constraints do not know them


def test_every_output_is_documented() -> None:
    outputs = {output.name for function in CONSTRAINED.values() for output in function.outputs}
    assert outputs <= set(get_type_hints(Results))


def test_the_jacobian_by_active_is_a_graph_too(tmp_path: Path) -> None:
    graph = trace(one_foot(tmp_path), FORWARD)
    assert {port.name for port in jacobian(graph, inputs=["tau", "active"], robot=one_foot(tmp_path)).outputs} == {
        f"d{output}_d{x}" for output in ("qdd", "force") for x in ("tau", "active")
    }


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--floating-base", "--contact", "lf_foot,rf_foot=fixed"], 0, ""),
        (["--floating-base"], 1, "has no contacts"),
        (["--contact", "lf_toe"], 1, "has no frame 'lf_toe'"),
        (["--contact", "trunk"], 1, "contact 'trunk' of robot 'hyq' is fixed"),
        (["--compliance", "1e-6"], 2, "--compliance needs --contact or --loop, whose compliance it is"),
        (["--loop", "lf_foot,rf_foot=fixed", "--compliance", "1e-6"], 0, ""),
        (["--loop", "lf_foot,lf_lower_leg"], 1, "is between places of one link"),
        (["--loop", "lf_foot"], 2, "'lf_foot'; expected FRAME,FRAME or FRAME,FRAME=fixed or =hinge"),
        (["--loop", "lf_foot=fixed,rf_foot"], 2, "expected FRAME,FRAME or FRAME,FRAME=fixed or =hinge"),
        (
            ["--contact", "lf_foot,"],
            2,
            "''; expected FRAME, FRAME=point or FRAME=fixed or FRAME=plane, several with commas",
        ),
        (["--contact", "lf_foot=flat"], 2, "'lf_foot=flat'; expected FRAME"),
    ],
)
def test_on_the_command_line(options: list[str], status: int, message: str, tmp_path: Path) -> None:
    command = ["emit", "hyq", *options, "--function", "contact_jacobian", "--folder", str(tmp_path)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == status, result.output
    assert message in result.output


def test_the_command_line_names_its_own_option(tmp_path: Path) -> None:
    command = ["emit", "two_joint_arm", "--contact", "forearm", "--function", FORWARD, "--folder", str(tmp_path)]
    result = CliRunner().invoke(main, command)
    assert "or --compliance of more than 0, such as 1e-6" in result.output
    result = CliRunner().invoke(main, [*command, "--compliance", "1e-6"])
    assert result.exit_code == 0, result.output


def stops_and_turns(folder: Path) -> list[Robot]:
    """Robots with contacts of both kinds, a loop, a compliance, and a joint that mimics another."""
    branch = branched(25, folder)
    first, second = branch.constraints
    single = [link.joint for link in branch.links if link.joint.type == "revolute"]
    joint = replace(single[-1], mimic=Mimic(single[0].name, -1.5, 0.2))
    links = [replace(link, joint=joint) if link.joint is single[-1] else link for link in branch.links]
    return [
        quadruped(),
        replace(branch, constraints=(replace(first, compliance=0.02), replace(second, damping=3.0))),
        replace(branch, links=tuple(links)),
        looped("point", folder)[0],
    ]


def by_rows(robot: Robot, numbers: Any) -> np.ndarray:
    """Numbers of constraints (..., constraints), for each of their rows."""
    return np.repeat(np.asarray(numbers), [own.rows for own in robot.constraints], axis=-1)


@pytest.mark.parametrize(
    "index", [0, pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long)]
)
def test_the_terms_of_constraints(index: int, tmp_path: Path) -> None:
    """J M⁻¹ Jᵀ, the drift, and impacts, by dense algebra."""
    robot = stops_and_turns(tmp_path)[index]
    state = constraint_state(robot, 8, seed=11)
    graph = trace(robot, "contact_jacobian")
    j, m = evaluate(graph, {"q": state["q"]})["contact_jacobian"], run(robot, "mass_matrix", state)["m"]
    expected = np.einsum("bij,bjk,blk->bil", j, np.linalg.inv(m), j)
    assert_close(run(robot, "delassus", state), {"delassus": expected}, 1e-10)
    rate = evaluate(graph, {"q": integrate(robot, state["q"], 1j * STEP * state["qd"])})["contact_jacobian"].imag / STEP
    velocity, damping = (np.einsum("bij,bj->bi", x, state["qd"]) for x in (j, rate))
    damping = damping + by_rows(robot, [own.damping for own in robot.constraints]) * velocity
    assert_close(run(robot, "constraint_drift", state), {"constraint_drift": damping}, 1e-10)
    on, part = by_rows(robot, state["active"]), by_rows(robot, state[RESTITUTION])
    soft = by_rows(robot, [own.compliance for own in robot.constraints])
    for form in ("blocks", "single_pivots"):
        result = run(robot, "impact", state, form=form)
        pushed = np.einsum("bij,bj->bi", m, result["qd_after"] - state["qd"])
        assert_close({"p": pushed}, {"p": np.einsum("bij,bi->bj", j, result["impulse"])}, 1e-9)
        after = np.einsum("bij,bj->bi", j, result["qd_after"]) + soft * result["impulse"]
        assert np.abs((after + part * velocity) * on).max() < 1e-9 * np.abs(velocity).max()
        assert not (result["impulse"] * (1.0 - on)).any()


def test_impacts_are_pinocchios() -> None:
    """Of one restitution for all feet, which is what Pinocchio has."""
    robot = quadruped()
    state = constraint_state(robot, 16, seed=12)
    state[RESTITUTION] = np.full_like(state[RESTITUTION], 0.3)
    model = pinocchio_of(robot)
    data = model.createData()
    ids = [model.getJointId(link.joint.name) for link in robot.links]
    rows, columns = entries_of(model, ids)
    result = run(robot, "impact", state)
    for k, active in enumerate(state["active"]):
        if not active.any():
            continue
        q, qd = np.zeros(model.nq), np.zeros(model.nv)
        q[rows], qd[columns] = state["q"][k], state["qd"][k]
        models, datas = pinocchio.StdVec_RigidConstraintModel(), pinocchio.StdVec_RigidConstraintData()
        for own in (own for own, on in zip(robot.constraints, active, strict=True) if on):
            models.append(pinocchio.RigidConstraintModel(KINDS["point"], model, *place(robot, ids, own.frame), LOCAL))
        datas.extend(own.createData() for own in models)
        settings = pinocchio.ProximalSettings(1e-14, 0.0, 1)
        pinocchio.initConstraintDynamics(model, data, models, datas)
        after = pinocchio.impulseDynamics(model, data, q, qd, models, datas, 0.3, settings)
        np.testing.assert_allclose(result["qd_after"][k], np.array(after)[columns], atol=1e-9)


@pytest.mark.parametrize("index", range(4))
def test_constrained_inverse_dynamics_gives_the_motion(index: int, tmp_path: Path) -> None:
    """With its torques the robot has the accelerations, and nothing remains for a free body that two feet or more
    can carry; forces are the smallest that do it."""
    robot = stops_and_turns(tmp_path)[index]
    state = constraint_state(robot, 16, seed=13)
    state["qdd"] = run(robot, FORWARD, state)["qdd"]
    result = run(robot, "constrained_inverse_dynamics", state)
    j = run(robot, "contact_jacobian", state)["contact_jacobian"] * by_rows(robot, state["active"])[:, :, None]
    full = run(robot, "inverse_dynamics", state)["tau"]
    assert_close({"t": result["tau"] + np.einsum("bij,bi->bj", j, result["force"])}, {"t": full}, 1e-9)
    for k in range(16):
        across = j[k][:, robot.undriven]
        least = np.linalg.pinv(across.T, rcond=1e-6) @ full[k][robot.undriven]
        if np.linalg.matrix_rank(across, tol=1e-3) == 6:
            np.testing.assert_allclose(result["force"][k], least, atol=1e-5 * (1.0 + np.abs(least).max()))
            assert np.abs(result["tau"][k][robot.undriven]).max() < 1e-6 * np.abs(full).max()


def test_passive_joints_of_a_four_bar() -> None:
    """One motor moves it: what the others would have to give, the loop does."""
    bar = four_bar().with_passive("coupler", "rocker")
    state = closed_states(bar, 6)
    torque = np.random.default_rng(1).normal(size=(6, 3)) * [1.0, 0.0, 0.0]
    state |= {"tau": torque, "active": np.ones((6, 1))}
    state["qdd"] = run(bar, FORWARD, state)["qdd"]
    back = run(bar, "constrained_inverse_dynamics", state)
    np.testing.assert_allclose(back["tau"], torque, atol=1e-5)
    for names, message in (
        (("elbow",), "has no joint 'elbow' of its own to be passive; expected some of coupler, crank, rocker"),
        (("coupler", "coupler"), "joint 'coupler' of robot 'four_bar' is passive twice"),
    ):
        with pytest.raises(RobotError, match=message):
            four_bar().with_passive(*names)


def closed_states(robot: Robot, count: int) -> State:
    """States in which loops are closed and move as they may."""
    state = Region.of(robot, velocity=3.0).sample("impact", count, 1)
    return settled(robot, {**state, "qdd": np.zeros((count, robot.nv))})


def test_a_singular_stance_is_flagged_and_refused() -> None:
    """An arm that is straight cannot tell the force along it: integers flag the sample, floats name it."""
    arm = robots.load("iiwa14").with_frame("tip", "link_7", (0.0, 0.0, 0.1)).with_contact("tip")
    bent = np.outer([0.0, 1e-5, 1e-3, 1e-2, 0.1, 1.0], [0.3, 0.5, -0.2, 0.8, 0.1, 0.6, 0.2])
    state = {
        "q": bent,
        "qd": np.zeros((6, 7)),
        "tau": np.zeros((6, 7)),
        "active": np.ones((6, 1)),
    }
    with dynagate.compile(arm, FORWARD, device="fixed") as accelerator:
        result = accelerator(**state)
    assert result.overflow[:3].all()
    assert not result.overflow[-1]
    fine = np.flatnonzero(~result.overflow)  # those near a singular one are flagged too, or right
    expected = run(arm, FORWARD, {name: x[fine] for name, x in state.items()})
    for k, sample in enumerate(fine):
        assert_close({"force": result.force[sample]}, {"force": expected["force"][k]}, 1e-2)
    with dynagate.compile(arm, FORWARD) as accelerator:
        with pytest.raises(ValueError, match=re.escape("output 'qdd' is nan at (0, 0)")):
            accelerator(**state)
        accelerator(**{name: x[1:] for name, x in state.items()})


@pytest.mark.parametrize("name", ["constrained_inverse_dynamics", "impact"])
def test_products_of_impacts_and_inverse_dynamics_are_the_complex_steps(name: str, tmp_path: Path) -> None:
    robot = branched(21, tmp_path)
    state = constraint_state(robot, 4, seed=15)
    graph = trace(robot, name)
    inputs: dict[str, Any] = {port.name: state[port.name] for port in graph.inputs}
    outputs = [port.name for port in graph.outputs]
    by, along = run(robot, f"{name}_vjp", state), run(robot, f"{name}_jvp", state)
    moved: dict[str, Any] = dict.fromkeys(outputs, 0.0)
    for x in (x for x in ("q", "qd", "qdd") if x in inputs):
        columns = []
        for unit in 1j * STEP * np.eye(robot.nv):
            there = integrate(robot, state["q"], unit) if x == "q" else inputs[x] + unit
            columns.append({y: z.imag / STEP for y, z in evaluate(graph, {**inputs, x: there}).items()})
        matrices = {y: np.stack([column[y] for column in columns], axis=-1) for y in outputs}
        expected = sum(np.einsum("bi,bij->bj", state[f"lam_{y}"], matrices[y]) for y in outputs)
        assert_close(by, {f"vjp_{x}": expected}, 1e-9)
        for y in outputs:
            moved[y] = moved[y] + np.einsum("bij,bj->bi", matrices[y], state[f"delta_{x}"])
    assert_close(along, {f"jvp_{y}": value for y, value in moved.items()}, 1e-9)
