"""Constrained dynamics as loops over links: equal to the algorithms unrolled, on every backend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import Region, Robot, RobotError, robots
from dynagate.forces import Friction
from dynagate.graph.loop import Loop, evaluate_loop
from dynagate.graph.scan import Scan
from dynagate.graph.scan_trace import trace_scan
from dynagate.native.gpu_loop import GpuLoop
from dynagate.robot.random_chain import random_chain

from tests.constrained_robots import (
    FORWARD,
    assert_close,
    by_pinocchio,
    looped,
    one_foot,
    quadruped,
    run,
    settled,
    with_stances,
)
from tests.played_card import ON_HOST
from tests.samples import State, states


def taken(loop: Loop, state: State) -> State:
    return {port.name: state[port.name] for port in loop.inputs}


def held_chain(count: int) -> Robot:
    chain = random_chain(count, seed=1)
    return chain.with_contact(chain.links[-1].name, "fixed")


LONG = pytest.mark.long


@pytest.mark.parametrize("kind", [pytest.param("fixed", marks=LONG), "hinge", pytest.param("distance", marks=LONG)])
def test_loops_and_contacts(kind: str, tmp_path: Path) -> None:
    """Of a branched robot on a free body, with all that a constraint may have."""
    robot, state = looped("fixed", tmp_path)
    if kind != "fixed":
        free = replace(robot, constraints=robot.constraints[:1]).with_frame("far", "link_3", (0.1, 0.4, -0.2))
        robot = free.with_loop("sole", "far", kind, **({"length": 1.0} if kind == "distance" else {}))  # type: ignore[arg-type]
    contact, loop = robot.constraints
    robot = replace(robot, constraints=(contact, replace(loop, stiffness=30.0, damping=4.0, compliance=0.1)))
    state = {**with_stances(robot, state), "active": np.ones((1, 2))}
    state["f_ext"] = np.random.default_rng(1).normal(size=(1, len(robot.links), 6))
    options = {"external_forces": True, "forces": [Friction(0.3)]}
    loop = trace_scan(robot, FORWARD, **options)  # type: ignore[arg-type]
    assert_close(evaluate_loop(loop, taken(loop, state)), run(robot, FORWARD, state, **options), 1e-12)


def test_contacts_planes_and_equalities_of_an_arm() -> None:
    arm = robots.load("iiwa14").with_joint_equality("joint_3", "joint_2", (0.1, 0.5, 0.2), stiffness=10.0, damping=2.0)
    robot = arm.with_contact(arm.links[-1].name, "plane", normal=(0.6, 0.0, 0.8), damping=3.0)
    robot = robot.with_contact(arm.links[3].name, compliance=0.01)
    state = with_stances(robot, states(robot, 8, seed=1))
    loop = trace_scan(robot, FORWARD)
    assert_close(evaluate_loop(loop, taken(loop, state)), run(robot, FORWARD, state), 1e-12)


def test_a_quadruped_in_all_stances() -> None:
    robot = quadruped()
    state = with_stances(robot, states(robot, 16, seed=1))
    loop = trace_scan(robot, FORWARD)
    got = evaluate_loop(loop, taken(loop, state))
    assert_close(got, by_pinocchio(robot, state), 1e-10)
    assert_close(got, run(robot, FORWARD, state, form="articulated"), 1e-12)


def test_in_c_and_on_a_host_that_plays_the_gpu(tmp_path: Path) -> None:
    robot = one_foot(tmp_path)
    state = with_stances(robot, states(robot, 9, seed=1))
    loop = trace_scan(robot, FORWARD)
    inputs, expected = taken(loop, state), run(robot, FORWARD, state)
    outputs = {port.name: np.empty((9, *port.shape)) for port in loop.outputs}
    GpuLoop(loop, np.float64, folder=tmp_path, toolchain=ON_HOST)(inputs, outputs)
    assert_close(outputs, expected, 1e-11)
    with dynagate.compile(robot, FORWARD, device="cpu", form="scan") as accelerator:
        in_c = accelerator(**inputs)
        assert_close({"qdd": in_c.qdd, "force": in_c.force}, expected, 1e-11)
        inputs["active"] = inputs["active"].copy()
        inputs["active"][3] = 0.5
        with pytest.raises(ValueError, match=r"input 'active' is 0.5 at \(3, 0\); expected 0 or 1"):
            accelerator(**inputs)


def test_integers_are_near(tmp_path: Path) -> None:
    robot = one_foot(tmp_path)
    region = Region.of(robot, velocity=1.0)
    state = region.sample(FORWARD, 64, seed=1)
    expected = run(robot, FORWARD, state)
    inputs = {name: state[name] for name in ("q", "qd", "tau", "active")}
    with dynagate.compile(robot, FORWARD, device="fixed", form="scan", region=region) as accelerator:
        result = accelerator(**inputs)
    assert not result.overflow.any()
    assert_close({"qdd": result.qdd, "force": result.force}, expected, 1e-4)


def test_a_long_chain_takes_the_text_of_a_short_one() -> None:
    """And is Pinocchio's at rest, where a fixed contact is the same to both."""
    short, long = (trace_scan(held_chain(count), FORWARD) for count in (7, 30))
    for one, other in zip(short.steps, long.steps, strict=True):
        assert isinstance(one, Scan)
        assert isinstance(other, Scan)
        sizes = [sum(node.op != "input" for body in scan.bodies for node in body.nodes) for scan in (one, other)]
        assert sizes[1] <= 1.1 * sizes[0]
    robot = held_chain(30)
    state = settled(robot, with_stances(robot, states(robot, 2, seed=1)))
    got = evaluate_loop(long, taken(long, state))
    assert_close(got, by_pinocchio(robot, state), 1e-8)


def test_what_a_loop_over_links_refuses() -> None:
    arm = robots.load("two_joint_arm")
    with pytest.raises(RobotError, match="has no contacts and no loops"):
        trace_scan(arm, FORWARD)
    with pytest.raises(RobotError, match="forearm.* so that its force is not determined"):
        trace_scan(arm.with_contact("forearm"), FORWARD)
