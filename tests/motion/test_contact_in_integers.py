"""Rigid contact in integers: the law of a pair, states that touch the ground, and motions against float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Policy, Region, RigidContact, robots
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.fixedpoint.models.loops import LoopTrajectories, integers_of, values_of
from dynagate.forces import Contact, Plane, Point
from dynagate.forces.contact import ContactError
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.evaluate import evaluate
from dynagate.graph.recorder import Recording
from dynagate.host.devices.program_session import longest_wait
from dynagate.host.sim_links import IDLE_CYCLES
from dynagate.hw.processor.compiler.motion import motion_and_formats
from dynagate.integrators.chip_motion import FAILURES, STATE, ChipMotion
from dynagate.integrators.implicit.contact_method import ContactIntegrator
from dynagate.integrators.implicit.contact_pair_solution import block_inverses, pair_solution
from dynagate.integrators.implicit.contact_states import DEPTH, touching
from dynagate.integrators.methods import method_of, method_text

ARM = robots.load("two_joint_arm")
TIP = Point("forearm", (0.0, 0.0, 0.36))
LOW = Plane((0.0, 0.0, 1.0), 0.9)
CONTACT = RigidContact([TIP], [LOW])
TEXT = "RigidContact([Point('forearm', (0.0, 0.0, 0.36))], [Plane((0.0, 0.0, 1.0), 0.9)])"
REGION = Region.of(ARM, velocity=8.0, acceleration=80.0)
ENDS = np.array(REGION.lower), np.array(REGION.upper)


@pytest.mark.parametrize("sizes", [{}, {"largest": 1e4, "tolerance": 1e-9}], ids=["floats", "integers"])
def test_a_pair_is_open_or_sticks_or_slides(sizes: dict[str, float]) -> None:
    """0 ≤ u_n ⟂ r_n ≥ 0, and r_t in the disc of radius μ r_n, on its border against u_t."""
    mu, count, random = 0.5, 800, np.random.default_rng(3)
    recording = Recording("pair", "none")
    w, b, r = recording.input("w", (3, 3)), recording.input("b", (3,)), recording.input("r", (3,))
    inverse = recording.input("inverse", (2,))
    stiff = block_inverses(w, 1e-3)[0]
    r_next = pair_solution(w, stiff, inverse, r, w @ r + b, mu, **sizes)
    graph = recording.graph({"r_next": r_next})
    root = random.normal(size=(count, 3, 3)) * random.choice([0.3, 1.0], size=(count, 1, 1)) + np.eye(3)
    w_values = root @ np.swapaxes(root, 1, 2)
    b_values, impulses = random.normal(size=(2, count, 3))
    largest = np.linalg.eigvalsh(w_values[:, 1:, 1:])[:, -1]
    state = {"w": w_values, "b": b_values, "inverse": np.stack([1.0 / w_values[:, 0, 0], 1.0 / largest], axis=1)}
    for _ in range(200):
        impulses = evaluate(graph, {**state, "r": impulses})["r_next"]
    u = np.einsum("bij,bj->bi", w_values, impulses) + b_values
    good = np.abs(evaluate(graph, {**state, "r": impulses})["r_next"] - impulses).max(axis=1) < 1e-7
    assert good.mean() > 0.99
    u, impulses = u[good], impulses[good]
    normal, size = impulses[:, 0], np.linalg.norm(impulses[:, 1:], axis=1)
    is_open, slides = normal == 0.0, size > mu * normal - 1e-6
    assert (u[is_open, 0] >= -1e-6).all()
    assert (size <= mu * normal + 1e-6).all()
    assert np.abs(u[~is_open, 0]).max() < 1e-5
    assert np.abs(u[~is_open & ~slides]).max() < 1e-5
    border = ~is_open & slides
    assert min(is_open.sum(), border.sum(), (~is_open & ~slides).sum()) > 20
    power = (impulses[border, 1:] * u[border, 1:]).sum(axis=1)
    np.testing.assert_allclose(power, -size[border] * np.linalg.norm(u[border, 1:], axis=1), atol=1e-5)


def tip_gap(q: np.ndarray) -> np.ndarray:
    """Return the height of the tip above the plane, (count,)."""
    graph = dynagate.trace(ARM.with_frame("tip", "forearm", TIP.position), "frame_pose_tip")
    place = evaluate(graph, {"q": q})["frame_position"]
    return np.asarray(place[:, 2] - LOW.offset)


def test_configurations_touch_the_ground_and_are_not_below() -> None:
    q = REGION.sample("mass_matrix", 300, 4)["q"]
    assert (tip_gap(q) < -0.05).any()
    near = touching(ARM, CONTACT, q, ENDS, 1)
    gap = tip_gap(near)
    assert gap.min() >= -DEPTH * 1.02
    assert 0.2 < (gap < 1e-6).mean() < 1.0
    with pytest.raises(ContactError, match="points of robot 'two_joint_arm' are below the ground in all of 300 conf"):
        touching(ARM, RigidContact([TIP], [Plane((0.0, 0.0, 1.0), 9.0)]), q, ENDS, 1)


@pytest.mark.parametrize("word", [24, pytest.param(27, marks=pytest.mark.long)])
def test_a_step_in_integers_is_near_float64(word: int) -> None:
    """For 100 steps, 99.8 % of them within 1e-5 of float64's step of the same state, in the unit of q."""
    options = AlgorithmOptions(integrator=TEXT, dt=1e-3)
    options, formatted = motion_and_formats(ARM, options, REGION, Policy(word=word, samples=768))
    motion, exact = (ChipMotion.of(ARM, options, bits, options.tolerance) for bits in (word, None))
    count, steps = 24, 100
    sample = motion.starts(Region.of(ARM, velocity=1.0, acceleration=3.0), count, 5)
    q, qd = sample["q"], sample["qd"]
    (weight,) = evaluate(dynagate.trace(ARM, "gravity_torque"), {"q": q}).values()
    tau = 0.9 * weight
    integers = LoopTrajectories(formatted, integers_of(formatted, motion.begun(q, qd)))
    errors, pressed = [], 0
    for _ in range(steps):
        values, flagged = integers.advance(integers_of(formatted, {"tau": tau}))
        once = exact.exact(q, qd, tau[:, None])
        q, qd = (values_of(values[name], (2,)) for name in STATE)
        solved = ~flagged & (values_of(values[FAILURES], ()) == 0.0)
        errors.extend(np.abs(q - once["q_next"][:, 0])[solved].max(axis=1))
        pressed += int((values["impulse_of_step"][0].value[solved] > 0).sum())
    assert pressed > 50
    assert solved.mean() > 0.5
    assert np.quantile(errors, 0.998) < 1e-5


def test_formats_hold_the_speeds_after_an_impact() -> None:
    """A blow at the tip of a fast arm exceeds the speed limits of its light wrist."""
    arm = robots.load("iiwa14")
    region = Region.of(arm)
    text = method_text(ContactIntegrator(RigidContact([Point("link_7", (0.0, 0.0, 0.045))])))
    options = AlgorithmOptions(integrator=text, dt=1e-3, tolerance=2.0**-13)
    options, formatted = motion_and_formats(arm, options, region, Policy())
    motion = ChipMotion.of(arm, options, 24, options.tolerance)
    sample = motion.starts(region, 150, 5)
    q, qd, tau = (sample[name] for name in ("q", "qd", "tau"))
    once = motion.exact(q, qd, tau[:, None])
    fast = (np.abs(once["qd_next"][:, 0]) > 1.2 * np.array(region.velocity)).any(axis=1)
    assert fast.sum() > 5
    integers = LoopTrajectories(formatted, integers_of(formatted, motion.begun(q, qd)))
    values, flagged = integers.advance(integers_of(formatted, {"tau": tau}))
    solved = ~flagged & (values_of(values[FAILURES], ()) == 0.0)
    assert solved.mean() > 0.9
    assert solved[fast].mean() > 0.7
    errors = np.abs(values_of(values["q_next"], (7,)) - once["q_next"][:, 0])[solved].max(axis=1)
    assert np.quantile(errors, 0.99) < 1e-5


def test_position_based_contact_starts_above_the_ground_and_converges() -> None:
    """From states far below the ground, the arm leaves with a thousand times its speed, and no format holds both."""
    contact = Contact([TIP], [LOW], stiffness=1e4, friction=1e3)
    options = AlgorithmOptions(integrator="position_based", dt=0.02, forces=(contact,))
    options, formatted = motion_and_formats(ARM, options, REGION, Policy(samples=256))
    motion, exact = (ChipMotion.of(ARM, options, bits, options.tolerance) for bits in (24, None))
    sample = motion.starts(REGION, 200, 5)
    q, qd, tau = (sample[name] for name in ("q", "qd", "tau"))
    gap = tip_gap(q)
    assert gap.min() >= -DEPTH * 1.02
    assert 0.2 < (gap < 1e-6).mean() < 1.0
    integers = LoopTrajectories(formatted, integers_of(formatted, motion.begun(q, qd)))
    values, flagged = integers.advance(integers_of(formatted, {"tau": tau}))
    solved = ~flagged & (values_of(values[FAILURES], ()) == 0.0)
    assert solved.mean() > 0.8
    once = exact.exact(q, qd, tau[:, None])["q_next"][:, 0]
    errors = np.abs(values_of(values["q_next"], (2,)) - once)[solved].max(axis=1)
    assert np.median(errors) < 1e-5


def test_rigid_contact_has_a_text() -> None:
    method = ContactIntegrator(RigidContact([TIP], [LOW], friction=0.3, sweeps=20))
    assert method_of(method_text(method)) == method
    assert method_of(TEXT) == ContactIntegrator(CONTACT)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"contacts": CONTACT, "integrator": "rk4"}, "contacts= with integrator='rk4'; expected only contacts="),
        (
            {"contacts": RigidContact([Point("hand", (0, 0, 0))])},
            "contact point on link 'hand', which robot 'two_joint_arm' has not; expected one of",
        ),
        ({"integrator": "RigidContact([Point('forearm')])"}, "position"),
        ({"contacts": CONTACT, "units": None}, "of a datapath; expected a program"),
    ],
    ids=str,
)
def test_what_contact_on_a_core_does_not_take(options: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises((ArgumentError, ContactError), match=text):
        dynagate.build(ARM, "rollout", region=REGION, folder=tmp_path, **{"units": 4, **options})
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_link_waits_for_the_longest_steps(tmp_path: Path) -> None:
    """Four hundred sweeps in each step of a sample take more cycles than a link waits for otherwise."""
    built = dynagate.build(ARM, "rollout", units=4, region=REGION, contacts=CONTACT, folder=tmp_path, dt=1e-3)
    body = built.design.body
    assert longest_wait(built.design) >= body.loop.steps * max(most for _, most in body.shell.spans) > IDLE_CYCLES


@pytest.mark.long
def test_the_command_runs_contact(tmp_path: Path) -> None:
    how = ("--function", "rollout", "--units", "4", "--velocity", "8", "--steps", "6", "--states", "9")
    text = TEXT.replace("0.9)])", "0.9)], sweeps=40)")
    done = CliRunner().invoke(main, ["run", "two_joint_arm", *how, "--integrator", text, "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1].startswith("PASS: ")
    assert "iterations a step" in done.output
