"""Joints that mimic others: every function in the robot's own coordinates, and what a file's <mimic> means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pinocchio
import pytest
from dynagate import Region, Robot, RobotError, evaluate, trace
from dynagate.base.errors import ArgumentError
from dynagate.design.files import load
from dynagate.design.rebuilt import formatted_design, robot_of
from dynagate.dynamics import FUNCTIONS, Argument, FunctionRow, Tree
from dynagate.forces import Stops
from dynagate.graph.reference_gradient import relative_errors
from dynagate.robot import Mimic

from tests import tolerances
from tests.mimic_hand import BODY, JOINT, OPPOSITE, TWICE, hand, mimic, ratios, read_hand
from tests.oracle import products, reference
from tests.samples import State, inputs_of, states


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mimic") / "hand.urdf"
    path.write_text(hand())
    return path


def reduced(robot: Robot, model: pinocchio.Model, state: State) -> State:
    """All outputs from Pinocchio's with every joint free, by τ_r = Gᵀ τ and M_r = Gᵀ M G."""
    g, offset = ratios(robot)
    free = {name: state[name] @ g.T for name in ("q", "qd", "qdd")} | {"f_ext": state["f_ext"]}
    free["q"] += offset
    free["tau"] = np.zeros_like(free["qd"])
    one = reference(robot.uncoupled(), model, free)
    m = g.T @ one["m"] @ g
    minv = np.linalg.inv(m)
    by = {name: g.T @ one[f"dtau_{name}"] @ g for name in ("dq", "dqd")}
    return {
        **one,
        "tau": one["tau"] @ g,
        "m": m,
        "minv": minv,
        "qdd": state["qdd"],  # of the torques that cause it
        **{f"dtau_{name}": value for name, value in by.items()},
        **{f"dqdd_{name}": -minv @ value for name, value in by.items()},
        "link_jacobians": one["link_jacobians"] @ g,
    }


def test_every_function_is_the_free_robots_in_fewer_coordinates(path: Path) -> None:
    robot = Robot.from_urdf(path, damping=False)
    assert (robot.nq, robot.nv, len(robot.links)) == (3, 3, 6)
    state = states(robot, 5, seed=3, external_forces=True)
    model = pinocchio.buildModelFromUrdf(str(path))
    expected = reduced(robot, model, state)
    state["minv"] = expected["minv"]
    for name, function in FUNCTIONS.items():
        if name.endswith("_second_order") or name.startswith("inverse_mass_product_"):  # derivatives of listed ones
            continue
        right = products(name, robot, state, expected)
        pushed = function.takes_external_forces
        inputs = inputs_of(name, state, external_forces=pushed)
        for form in function.forms_for(robot):
            outputs = evaluate(trace(robot, name, form=form, external_forces=pushed), inputs)
            if name == "inverse_mass_product":
                right = {"qdd": np.einsum("bij,bj->bi", expected["minv"], inputs["tau"])}
            for output, values in outputs.items():
                error = relative_errors(values, right[output]).max()
                assert error <= tolerances.PINOCCHIO, f"{name} {form} {output}: {error:.1e}"


def test_damping_and_rotors_are_felt_through_the_ratio(path: Path) -> None:
    robot = Robot.from_urdf(path)
    still = Robot.from_urdf(path, damping=False)
    g, _ = ratios(robot)
    state = inputs_of("inverse_dynamics", states(robot, 2, seed=1))
    tau, without = (evaluate(trace(r, "inverse_dynamics"), state)["tau"] for r in (robot, still))
    np.testing.assert_allclose(tau - without, state["qd"] @ (0.3 * g.T @ g), atol=1e-9)
    rotors = 0.1 * np.arange(6.0)
    m, light = (
        evaluate(trace(r, "mass_matrix"), {"q": state["q"]})["m"] for r in (robot.with_armature(rotors.tolist()), robot)
    )
    np.testing.assert_allclose(m - light, np.broadcast_to(g.T @ np.diag(rotors) @ g, m.shape), atol=1e-12)


def test_as_pinocchio_reads_them(tmp_path: Path) -> None:
    """Whose leaders must come before their followers. M by columns of its torques: crba of Pinocchio 4.1 differs from
    its own rnea where a joint hangs beyond a follower."""
    read_hand(hand(shoulder="", tail=mimic("shoulder", "2", "0.2")), tmp_path)
    robot = Robot.from_urdf(tmp_path / "hand.urdf", damping=False)
    model = pinocchio.buildModelFromUrdf(str(tmp_path / "hand.urdf"), True)
    data = model.createData()
    names = [link.joint.name for link in robot.links if link.joint.nv]
    order = [model.joints[model.getJointId(name)].idx_v for name in names]
    state = states(robot, 3, seed=8)
    ours = {name: evaluate(trace(robot, name), inputs_of(name, state)) for name in ("inverse_dynamics", "mass_matrix")}
    for k in range(3):
        q, qd, qdd = (np.zeros(model.nv) for _ in range(3))
        q[order], qd[order], qdd[order] = (state[name][k] for name in ("q", "qd", "qdd"))
        tau = pinocchio.rnea(model, data, q, qd, qdd)[order]
        rest = pinocchio.rnea(model, data, q, 0.0 * q, 0.0 * q)
        m = np.array([pinocchio.rnea(model, data, q, 0.0 * q, unit) - rest for unit in np.eye(model.nv)])
        m = m[np.ix_(order, order)]
        np.testing.assert_allclose(ours["inverse_dynamics"]["tau"][k], tau, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours["mass_matrix"]["m"][k], m, rtol=1e-9, atol=1e-12)


def test_what_the_factor_fills_in_is_known(tmp_path: Path) -> None:
    """Two arms apart from each other until a joint of one follows one of the other: M has no entry of both first
    joints, and its factor has."""
    links = "".join(BODY.format(name, 1) for name in "abcd")
    joints = [
        ("one", "revolute", "base", "a", "0 0 0.2", "0 1 0", ""),
        ("end", "revolute", "a", "b", "0.1 0 0.3", "1 0 0", mimic("tip")),
        ("two", "revolute", "base", "c", "0 0.5 0", "0 1 0", ""),
        ("tip", "revolute", "c", "d", "0.2 0 0", "0 0 1", ""),
    ]
    text = f'<robot name="arms"><link name="base"/>{links}{"".join(JOINT.format(*joint) for joint in joints)}</robot>'
    robot = read_hand(text, tmp_path)
    assert Tree(robot).mimic.chain == [[0], [0, 1], [0, 1, 2]]
    state = states(robot, 2, seed=2)
    assert not evaluate(trace(robot, "mass_matrix"), {"q": state["q"]})["m"][:, 0, 1].any()
    qdd = evaluate(trace(robot, "forward_dynamics"), inputs_of("forward_dynamics", state))["qdd"]
    np.testing.assert_allclose(qdd, state["qdd"], rtol=1e-9)


def test_fingers_on_a_floating_hand(tmp_path: Path) -> None:
    robot = read_hand(hand().replace('<link name="base"/>', BODY.format("base", 2)), tmp_path, floating_base=True)
    assert (robot.nq, robot.nv) == (10, 9)
    state = states(robot, 2, seed=5)
    qdd = evaluate(trace(robot, "forward_dynamics"), inputs_of("forward_dynamics", state))["qdd"]
    np.testing.assert_allclose(qdd, state["qdd"], rtol=1e-8)


def test_limits_of_followers_bound_the_region(path: Path) -> None:
    region = Region.of(Robot.from_urdf(path))
    # the shoulder reaches -1 at -1.8 of the wrist; the tail 1 at 0.4 of the spin and -1 at -0.6
    np.testing.assert_allclose([region.lower, region.upper], [[-1.0, -1.0, -0.6], [1.0, 1.0, 0.4]])
    assert region.velocity == (2.0, 2.0, 2.0)
    with pytest.raises(RobotError, match="velocity names joint 'tail', which robot 'hand' does not have"):
        Region.of(Robot.from_urdf(path), velocity={"tail": 1.0})


def test_followers_that_leave_no_range_are_refused(tmp_path: Path) -> None:
    robot = read_hand(hand(tail=mimic("spin", "1", "5")), tmp_path)
    with pytest.raises(RobotError, match="the limits of 'tail', which mimic joint 'spin', leave it no range"):
        Region.of(robot)


def test_a_rollout_stops_where_followers_end(path: Path) -> None:
    robot = Robot.from_urdf(path)
    rollout = dynagate.Rollout(robot, steps=1, dt=1e-3, device="numpy", forces=[Stops()])
    q = rollout(np.array([[0.0, 0.0, 0.399]]), np.array([[0.0, 0.0, 2.0]]), np.zeros((1, 1, 3))).q
    assert q[0, -1, 2] == pytest.approx(0.4)  # the spin, where the tail is at its limit of 1


def test_chains_are_one_ratio(tmp_path: Path) -> None:
    robot = read_hand(hand(right=mimic("tail", "3", "0.5")), tmp_path)
    rules = {link.joint.name: link.joint.mimic for link in robot.links}
    assert rules["tail"] == Mimic("spin", 2.0, 0.2)
    assert rules["right"] == Mimic("spin", 6.0, 3.0 * 0.2 + 0.5)


@pytest.mark.parametrize(
    ("text", "options", "moving"),
    [
        (hand(tail=mimic("spin", "0", "0.4")), {}, 5),
        (hand(), {"lock": {"spin": 0.1}}, 4),
        (hand(), {"lock": {"tail": 0.4}}, 5),
        (
            hand(tail=mimic("bolt", "2", "0.4")).replace(
                "</robot>",
                BODY.format("g", 1) + JOINT.format("bolt", "fixed", "base", "g", "0 0 0", "0 0 1", "") + "</robot>",
            ),
            {},
            5,
        ),
    ],
    ids=["multiplier 0", "leader held", "follower held", "leader fixed"],
)
def test_what_follows_nothing_that_moves_is_held(text: str, options: dict, moving: int, tmp_path: Path) -> None:
    robot = read_hand(text, tmp_path, **options)
    assert len(robot.links) == moving
    held = read_hand(hand(tail=""), tmp_path, lock={"tail": 0.4, **options.get("lock", {})})
    q = states(held, 2, seed=1)["q"]
    if robot.nv == held.nv:
        m, expected = (evaluate(trace(r, "mass_matrix"), {"q": q})["m"] for r in (robot, held))
        np.testing.assert_allclose(m, expected, rtol=1e-12, atol=1e-15)


REFUSED = {
    "itself": (hand(tail=mimic("tail")), "joint 'tail' mimics a joint that mimics it in turn ('tail' -> 'tail')"),
    "a cycle": (
        hand(shoulder=mimic("tail"), tail=mimic("shoulder")),
        "joint 'shoulder' mimics a joint that mimics it in turn ('shoulder' -> 'tail' -> 'shoulder')",
    ),
    "into a cycle": (
        hand(shoulder=mimic("right"), right=mimic("tail"), tail=mimic("right")),
        "joint 'shoulder' mimics a joint that mimics it in turn ('right' -> 'tail' -> 'right')",
    ),
    "nobody": (hand(tail=mimic("head")), "joint 'tail' mimics joint 'head', which the file does not define"),
    "nan": (hand(tail=mimic("spin", "nan")), "<mimic multiplier='nan'>; expected 1 finite number(s)"),
    "infinite": (hand(tail=mimic("spin", "1", "1e999")), "<mimic offset='1e999'>; expected 1 finite number(s)"),
    "huge": (hand(tail=mimic("spin", "-1e30")), "joint 'tail' mimics joint 'spin' with multiplier -1e+30 and offset 0"),
    "huge chain": (
        hand(right=mimic("tail", "1e5"), tail=mimic("spin", "1e5")),
        "joint 'right' mimics joint 'spin' with multiplier 1e+10",
    ),
    "small": (hand(tail=mimic("spin", "1e-9")), "expected a multiplier of size 1e-06 to 1e+06"),
    "far": (hand(tail=mimic("spin", "1", "1e9")), "and an offset up to 1e+06"),
    "no name": (hand(tail='<mimic multiplier="2"/>'), "joint 'tail': <mimic> has no attribute 'joint'"),
    "two": (hand(tail=TWICE + OPPOSITE), "joint 'tail' has 2 <mimic>"),
    "words": (hand(tail=mimic("spin", "twice")), "<mimic multiplier='twice'> is not made of numbers"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_refused(case: str, tmp_path: Path) -> None:
    text, message = REFUSED[case]
    with pytest.raises(RobotError, match=re.escape(message)) as caught:
        read_hand(text, tmp_path)
    if "; to read it, add lock=" in str(caught.value):
        assert read_hand(text, tmp_path, lock={"tail": 0.0, "shoulder": 0.0, "right": 0.0}).nv >= 3


def test_forms_that_do_not_know_followers_name_the_one_that_does(path: Path) -> None:
    robot = Robot.from_urdf(path)
    with pytest.raises(RobotError, match=r"form 'aba' of forward_dynamics does not know; expected 'mass_matrix_solve'"):
        trace(robot, "forward_dynamics", form="aba")
    with pytest.raises(RobotError, match="mimic others, which functions together do not know; expected one function"):
        trace(robot, "all")
    assert FUNCTIONS["forward_dynamics"].forms_for(robot) == ["mass_matrix_solve"]


def test_spaces_and_no_names_map_the_arguments_of_a_function(path: Path) -> None:
    """A row of one's own has any names: its velocities become those of all joints, its torques the robot's."""
    robot = Robot.from_urdf(path)
    arguments = (Argument("place", "configuration"), Argument("speed", "tangent", like="qd"))

    def resistance(tree: Tree, place: Sequence[Any], speed: Sequence[Any]) -> list[Any]:
        assert len(place) == len(speed) == tree.nv > robot.nv
        return [tree.resistance(d, speed) for d in range(tree.nv)]

    row = FunctionRow("resistance", arguments, (Argument("load", "cotangent"),), {"": resistance}, {})
    state = states(robot, 3, seed=4)
    got = evaluate(trace(robot, row), {"place": state["q"], "speed": state["qd"]})["load"]
    follow, _ = ratios(robot)
    free = np.array([link.joint.damping for link in robot.links])
    assert np.allclose(got, state["qd"] @ follow.T @ np.diag(free) @ follow, rtol=1e-14)
    solved = FunctionRow("rates", arguments, (Argument("rate", "tangent"),), {"": resistance}, {})
    with pytest.raises(RobotError, match=r"form '' of rates does not know; expected lock= for these joints"):
        trace(robot, solved)
    with pytest.raises(ArgumentError, match="has space 'tangents' \\(did you mean 'tangent'\\?\\); expected one of"):
        Argument("rate", "tangents")


def test_a_design_knows_its_robot_again(path: Path, designs: Path) -> None:
    """Followers and frames are in design.json."""
    robot = Robot.from_urdf(path)
    robot = robot.with_frame("tip", robot.links[-1].name, (0.0, 0.1, 0.2))
    built = dynagate.build(robot, "mass_matrix", ii=4, folder=designs)
    assert robot_of(load(built.folder)) == robot
    assert formatted_design(built.folder) == built.formatted
