"""Position-based steps as a loop of graphs: in numpy, C and CUDA they are those of the paper's loops over links."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Rollout, robots
from dynagate.forces.contact import Contact, ContactError, Plane, Point, corners
from dynagate.forces.options import StepOptions
from dynagate.forces.servo import Servo
from dynagate.graph.loop import Loop, evaluate_loop
from dynagate.integrators.implicit.collocation import collocation
from dynagate.integrators.implicit.position_based_method import PositionBasedIntegrator
from dynagate.native.cuda_loop import emit_cuda_loop
from dynagate.native.gpu_loop import GpuLoop
from dynagate.robot import Robot

from examples.papers.position_based.integrator import PositionBased
from examples.papers.position_based.legged import hopper
from examples.papers.position_based.printed import PrintedContact
from examples.papers.position_based.robots import planar_box
from tests.played_card import ON_HOST, needs_nvcc

BATCH, STEPS = 12, 6


def robot_with(damping: float, armature: float) -> Robot:
    arm = robots.load("two_joint_arm")
    links = [replace(link, joint=replace(link.joint, damping=damping, armature=armature)) for link in arm.links]
    return replace(arm, links=tuple(links))


@pytest.mark.long
@pytest.mark.parametrize(
    ("dt", "speed", "damping", "equal"), [(0.02, 1.0, 0.0, 1.0), (0.1, 4.0, 0.3, 1.0), (0.1, 5.0, 0.0, 0.8)]
)
def test_a_trajectory_is_that_of_the_loops_over_links(dt: float, speed: float, damping: float, equal: float) -> None:
    """Configurations, and the share of steps with equal iterations. The last case has some that are rejected: up to 377
    iterations a step, whose number rounding changes."""
    robot = robot_with(damping, 0.1 * damping)
    sim = PositionBased(robot, dt)
    random = np.random.default_rng(0)
    q0, qd0 = random.uniform(-1.0, 1.0, (BATCH, 2)), random.uniform(-speed, speed, (BATCH, 2))
    tau = random.uniform(-1.0, 1.0, (BATCH, STEPS, 2))
    expected = sim.run(q0, qd0, STEPS, tau=tau)
    assert expected.converged.all()
    assert (expected.iterations.max() > 100) == (equal < 1.0)
    method = PositionBasedIntegrator(search="lm")
    for device in ("numpy", "cpu"):
        track = Rollout(robot, steps=STEPS, dt=dt, integrator=method, device=device)(q0, qd0, tau)
        assert np.abs(track.q - expected.q).max() < (1e-12 if equal == 1.0 else 1e-5)
        assert (np.abs(track.iterations - expected.iterations) <= 1).mean() >= equal
        assert track.residual is not None
        assert track.residual.max() <= 1.0


def loop_of(robot: Robot, dt: float, contact: Contact | None, **options: Any) -> Loop:
    forces = (contact,) if contact else ()
    return PositionBasedIntegrator(**options).motion(robot, StepOptions(dt, forces=forces)).loop


def sliding_box(of: type[Contact] = Contact, **law: Any) -> tuple[Robot, float, Contact, None]:
    return planar_box(), 0.05, of(corners("box", (1.0, 0.0, 0.5)), **law), None


def standing_hopper() -> tuple[Robot, float, Contact, Servo]:
    legged = hopper()
    contact = Contact(legged.feet, stiffness=1e5, friction=5e5)
    return legged.robot, 0.025, contact, legged.servo


TOUCHING = {
    "box": sliding_box(),
    "box, other powers": sliding_box(alpha=3.0, beta=3.0, gamma=2.0, stiffness=1e6),
    "box, as printed": sliding_box(PrintedContact, beta=2.0),
    "box, pbd": sliding_box(model="pbd", stiffness=1e4, friction=1e4),
    "box in a groove": (
        planar_box(),
        0.02,
        Contact(corners("box", (1.0, 0.0, 0.5)), planes=(Plane.slope(30.0), Plane.slope(-20.0))),
        None,
    ),
    "hopper": standing_hopper(),
}


@pytest.mark.long
@pytest.mark.parametrize("name", TOUCHING)
def test_contact_and_servos_are_those_of_the_loops_over_links(name: str) -> None:
    robot, dt, contact, servo = TOUCHING[name]
    sim = PositionBased(robot, dt, contact=contact, servo=servo, objective="forces")
    forces = [force for force in (contact, servo) if force]
    rollout = Rollout(robot, steps=STEPS, dt=dt, integrator="position_based", forces=forces, device="numpy")
    random = np.random.default_rng(0)
    stance = hopper().stance if servo else np.array([0.0, 0.245, 0.0])
    n = robot.nv
    q0 = stance + random.uniform(-0.01, 0.01, (BATCH, n))
    qd0 = random.uniform(-0.3, 0.3, (BATCH, n)) + 0.5 * np.eye(n)[0]
    tau, inputs = random.uniform(-1.0, 1.0, (BATCH, STEPS, n)), {}
    if servo:
        inputs["target"] = random.uniform(-0.3, 0.3, (BATCH, STEPS, n)) * (np.arange(n) >= 3)
    expected = sim.run(q0, qd0, STEPS, tau=tau, **inputs)
    assert expected.converged.all()
    track = rollout(q0, qd0, tau, **inputs)
    assert np.abs(track.q - expected.q).max() < 1e-10
    assert (np.abs(track.iterations - expected.iterations) <= 1).all()
    assert track.converged.all()


@pytest.mark.long
@pytest.mark.parametrize("name", ["box", "hopper", "arm"])
def test_rollouts_are_the_loops_over_links(name: str) -> None:
    """A batch in C."""
    robot, dt, contact, servo = TOUCHING.get(name, (robot_with(0.3, 0.03), 0.02, None, None))
    links = PositionBased(robot, dt, contact=contact, servo=servo)
    forces = [force for force in (contact, servo) if force]
    rollout = Rollout(robot, steps=STEPS, dt=dt, integrator="position_based", forces=forces)
    random, n = np.random.default_rng(0), robot.nv
    stance = {"box": np.array([0.0, 0.245, 0.0]), "hopper": hopper().stance, "arm": np.zeros(2)}[name]
    q0, qd0 = stance + random.uniform(-0.01, 0.01, (BATCH + 1, n)), random.uniform(-0.5, 0.5, (BATCH + 1, n))
    expected = links.run(q0, qd0, STEPS, tau=np.full(n, 0.1))
    track = rollout(q0, qd0, np.full((BATCH + 1, STEPS, n), 0.1))
    assert np.abs(track.q - expected.q).max() < 1e-9
    assert track.converged.all()


@pytest.mark.parametrize("touching", [False, True])
def test_the_loop_in_cuda(touching: bool, tmp_path: Path) -> None:
    """As host code: each trajectory's search ends by itself, after other numbers of iterations than its neighbors'."""
    robot, dt, contact, _ = sliding_box() if touching else (robot_with(0.3, 0.03), 0.1, None, None)
    loop = loop_of(robot, dt, contact, search="lm")
    random, n = np.random.default_rng(0), robot.nv
    stance, spread = (np.array([0.0, 0.245, 0.0]), 0.1) if touching else (np.zeros(n), 1.0)
    q0, qd0 = stance + spread * random.uniform(-1.0, 1.0, (BATCH, n)), spread * random.uniform(-4.0, 4.0, (BATCH, n))
    inputs = {"q": q0, "before": q0 - dt * qd0, "tau": random.uniform(-1.0, 1.0, (BATCH, STEPS, n))}
    inputs["failed"] = np.zeros(BATCH)
    card = GpuLoop(loop, np.float64, STEPS, folder=tmp_path, toolchain=ON_HOST)
    outputs = card.new_outputs(BATCH)
    card(inputs, outputs)
    card.close()
    expected = evaluate_loop(loop, inputs)
    assert np.abs(outputs["q_next"] - expected["q_next"]).max() < 1e-10
    assert np.abs(outputs["counted"] - expected["counted"]).max() <= 1
    assert np.ptp(outputs["counted"], axis=0).max() >= 2
    assert outputs["rest"].max() <= 1.0


@needs_nvcc
def test_nvcc_takes_the_loop(tmp_path: Path) -> None:
    robot, dt, contact, _ = sliding_box()
    loop = loop_of(robot, dt, contact)
    (tmp_path / "loop.cu").write_text(emit_cuda_loop(loop, double=True))
    command = [shutil.which("nvcc") or "nvcc", "-cubin", "-arch=sm_90", "-Xptxas", "-v", tmp_path / "loop.cu"]
    done = subprocess.run([*command, "-o", tmp_path / "loop.cubin"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr


def test_powers_that_are_not_whole_are_refused() -> None:
    robot, dt, contact, _ = sliding_box(alpha=1.5)
    with pytest.raises(ContactError, match="alpha 1.5, beta 1, gamma 1; a graph takes whole numbers as alph"):
        loop_of(robot, dt, contact)
    with pytest.raises(ContactError, match="and an even one as beta"):
        loop_of(robot, dt, PrintedContact(contact.points))
    with pytest.raises(ContactError, match="contact point on link 'lid', which robot 'planar box' has not"):
        loop_of(robot, dt, Contact([Point("lid", (0.0, 0.0, 0.0))]))


@pytest.mark.parametrize(
    ("law", "text"),
    [
        ({"alpha": 1.0}, "contact has alpha 1.0; expected alpha > 1 for model 'pbfd'"),
        ({"alpha": 0.0, "model": "pbd"}, "contact has alpha 0.0; expected alpha > 0 for model 'pbd'"),
        ({"beta": 0.5}, "contact has beta 0.5; expected beta ≥ 1 for model 'pbfd'"),
        ({"gamma": 0.0}, "contact has gamma 0.0; expected gamma > 0 for model 'pbfd'"),
        ({"stiffness": float("nan")}, "contact has stiffness nan"),
        ({"stiffness": "1e4"}, "contact has stiffness '1e4'; expected stiffness > 0 for model 'pbfd'"),
        ({"planes": Plane()}, "contact has planes Plane.*; expected a sequence of one Plane or more"),
        ({"friction": -1.0}, "contact has friction -1.0; expected friction ≥ 0 for model 'pbfd'"),
        ({"model": "ipc"}, "contact has model 'ipc'; expected 'pbfd' or 'pbd'"),
        ({"points": []}, "contact has points \\[\\]; expected a sequence of one Point or more"),
    ],
)
def test_laws_outside_the_lemmas_are_refused(law: dict[str, Any], text: str) -> None:
    with pytest.raises(ContactError, match=text):
        Contact(**{"points": corners("box", (1.0, 0.0, 0.5))} | law)


def test_what_the_printed_law_refuses() -> None:
    points = corners("box", (1.0, 0.0, 0.5))
    with pytest.raises(ContactError, match="contact has beta 0.0; expected beta > 0 for model 'pbfd'"):
        PrintedContact(points, beta=0.0)
    with pytest.raises(ContactError, match="the printed exponent is of the force along the plane, which model 'pbd'"):
        PrintedContact(points, model="pbd")


@pytest.mark.parametrize("order", [2, 3, 4])
def test_growth_of_an_oscillation(order: int) -> None:
    """x'' = -ω² x, ω dt = 3: orders 2 and 3 do not grow, order 4 does, by 1.28 a step."""
    nodes = collocation(order)
    unknown = nodes.second[:, 2:] + 9.0 * np.eye(order - 1)
    answer = -np.linalg.solve(unknown, nodes.second[:, :2])
    step = np.array([answer[order - 3] if order > 2 else [0.0, 1.0], answer[-1]])
    growth = np.abs(np.linalg.eigvals(step)).max()
    assert growth == pytest.approx(1.2814, abs=1e-4) if order == 4 else growth < 1.0
