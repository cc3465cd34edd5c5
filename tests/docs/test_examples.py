"""Examples that users copy: each runs, prints right numbers, is short, and is in the index with its picture."""

from __future__ import annotations

import ast
import json
import re
import runpy
from pathlib import Path
from typing import Any

import dynagate as dg
import numpy as np
import pinocchio
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NUMBERED = sorted(path for path in EXAMPLES.iterdir() if re.match(r"\d\d_", path.name))
PICTURES = runpy.run_path(str(ROOT / "docs" / "draw_pictures.py"))
LINES = 40
ARM = dg.robots.path("two_joint_arm")


class Run:
    """An example that ran: its names and the numbers of each line that it printed."""

    def __init__(self, name: str, space: dict[str, Any], printed: str) -> None:
        self.space, self.lines = space, printed.splitlines()
        for path, drawn in PICTURES["of_page"](f"../examples/{name}"):
            difference = PICTURES["differs"](drawn(space).rstrip() + "\n", path.read_text())
            assert not difference, f"{path.name} differs: {difference}; run docs/draw_pictures.py examples/{name}"

    def numbers(self, start: str) -> list[float]:
        """Return the numbers after these words in the line that begins with them."""
        (line,) = (line for line in self.lines if line.startswith(start))
        return [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?", line.removeprefix(start))]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, designs: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """A function that runs an example in the folder whose build/designs the tests keep."""
    monkeypatch.chdir(designs.parent.parent)

    def example(name: str) -> Run:
        space = PICTURES["computed"](EXAMPLES / name)
        return Run(name, space, capsys.readouterr().out)

    return example


@pytest.fixture
def _doubles() -> Any:
    """Undo the example's setting of JAX."""
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


def test_gradients(run: Any) -> None:
    """Pinocchio's derivatives are those that the example prints the errors of."""
    done = run("01_gradients.py")
    assert done.numbers("largest difference of dqdd_dq from finite differences: ")[0] < 1e-8
    assert done.numbers("a batch of 1024 states: dqdd_dq has shape ") == [1024, 7, 7]
    robot, q, qd, tau = (done.space[name] for name in ("robot", "q", "qd", "tau"))
    model = pinocchio.buildModelFromUrdf(str(dg.robots.path("iiwa14")))
    data, damping = model.createData(), np.array([link.joint.damping for link in robot.links])
    pinocchio.computeABADerivatives(model, data, q, qd, tau - damping * qd)
    np.testing.assert_allclose(done.space["exact"].dqdd_dq, data.ddq_dq, atol=1e-9 * np.abs(data.ddq_dq).max())


def test_pd_with_gravity_compensation(run: Any) -> None:
    """At rest the springs carry what the controller does not know: the payload's part of gravity, or all of it."""
    done = run("02_pd_gravity.py")
    model = pinocchio.buildModelFromUrdf(str(dg.robots.path("iiwa14")))
    data, goal, stiffness = model.createData(), done.space["goal"], done.space["stiffness"]
    empty = pinocchio.computeGeneralizedGravity(model, data, goal).copy()
    model.inertias[-1] += pinocchio.Inertia(1.0, np.array([0.0, 0.0, 0.1]), np.zeros((3, 3)))
    loaded = pinocchio.computeGeneralizedGravity(model, data, goal).copy()
    for start, load in (("with gravity compensation: ", loaded - empty), ("without: ", loaded)):
        expected = 1e3 * np.abs(load / stiffness).max()
        assert done.numbers(start)[0] == pytest.approx(expected, rel=0.1)


def test_ilqr(run: Any) -> None:
    """The motion obeys Pinocchio's dynamics, and the gains bring a pushed arm back."""
    done = run("03_ilqr.py")
    first, last, *_ = done.numbers("cost ")
    assert last < 0.01 * first
    assert done.space["plan"].converged
    assert done.numbers("the motion ends ")[0] < 5.0
    _, without, with_gains = done.numbers("pushed by ")
    assert with_gains < 0.1 < 100.0 < without
    plan, dt = done.space["plan"], done.space["DT"]
    model = pinocchio.buildModelFromUrdf(str(ARM))
    data = model.createData()
    for k in range(len(plan.tau)):
        tau = plan.tau[k] - np.array([link.joint.damping for link in done.space["robot"].links]) * plan.qd[k]
        qdd = pinocchio.aba(model, data, plan.q[k], plan.qd[k], tau)
        np.testing.assert_allclose(plan.qd[k + 1], plan.qd[k] + dt * qdd, atol=1e-9)


def test_mppi(run: Any) -> None:
    done = run("04_mppi.py")
    before, after = done.numbers("the arm went from ")
    path, goal = done.space["path"], done.space["goal"]
    assert before == pytest.approx(np.abs(path[0] - goal).max())
    assert after == pytest.approx(np.abs(path[-1] - goal).max(), abs=1e-3)
    assert after < 0.1 * before


@pytest.mark.long
@pytest.mark.usefixtures("_doubles")
def test_gradient_of_a_rollout_in_jax(run: Any) -> None:
    """A rollout outside JAX ends where the loss says."""
    done = run("05_jax_rollout_gradient.py")
    exact, numeric = done.numbers("slope along a random direction: ")
    assert exact == pytest.approx(numeric, rel=1e-5)
    first, last, _ = done.numbers("loss ")
    assert last < 0.01 * first
    space = done.space
    torques = np.asarray(space["hold"] + space["torques"])
    motion = dg.Rollout("two_joint_arm", steps=50, dt=0.01)([0.2, -0.4], [0.0, 0.0], torques)
    missed = ((motion.q[-1] - [0.6, 0.3]) ** 2).sum() + 0.01 * (motion.qd[-1] ** 2).sum()
    assert missed + 1e-6 * (np.asarray(space["torques"]) ** 2).sum() == pytest.approx(last, abs=2e-6)


def test_contacts(run: Any) -> None:
    done = run("06_contacts.py")
    slid, expected = done.numbers("the box slid ")[0], 1e3 / (2.0 * 0.4 * 9.81)
    assert slid == pytest.approx(expected, rel=0.01)
    assert done.numbers("the ground carries ") == pytest.approx([2.0 * 9.81] * 2, abs=0.01)


def test_variable_masses(run: Any) -> None:
    done = run("07_variable_masses.py")
    assert done.numbers("mass: estimated ") == pytest.approx([0.8, 0.8], abs=1e-3)
    assert done.numbers("height of its center: estimated ") == pytest.approx([250.0, 250.0], abs=0.5)


def test_datapath(run: Any) -> None:
    """The Verilog's results are Pinocchio's to four digits."""
    done = run("08_datapath.py")
    assert done.numbers("error relative to the largest result: ")[0] < 1e-4
    count = done.space["COUNT"]
    assert [int(x) for x in done.lines[3].split()[:3:2]] == [count, count]
    assert Path(done.lines[4].removeprefix("Verilog: ")).read_text().count("endmodule")
    assert_forward_dynamics(done.space["states"], done.space["verilog"])


def test_processor(run: Any) -> None:
    done = run("09_zynq_processor.py")
    for name in done.space["FUNCTIONS"]:
        cycles, time, clock, same, count = done.numbers(f"{name}: ")
        assert (same, count) == (16, 16)
        assert time == pytest.approx(cycles / clock, abs=0.01)
    assert_forward_dynamics(done.space["states"], done.space["result"].qdd)


def test_the_notebook_for_pynq(run: Any) -> None:
    done = run("10_pynq.ipynb")
    assert done.numbers("error relative to the largest result: ")[0] < 1e-4
    assert "64 of 64 states are equal" in done.lines
    assert done.numbers("batch: ") == [1000, 1000]
    assert done.numbers("the device counted ") == [1000]
    assert done.numbers("largest difference from the torques of before: ")[0] < 1.0
    assert "overflow: [False, True, False], and sample 1 is [nan nan]" in done.lines
    assert done.numbers("largest difference from float64: ")[0] < 100.0
    assert_forward_dynamics(done.space["states"], done.space["qdd"])
    text = (EXAMPLES / "10_pynq.ipynb").read_text()
    assert len(re.findall(r"pynq:accelerator\.bit", text)) == 1


def test_the_tour(run: Any) -> None:
    done = run("11_tour.ipynb")
    errors = [float(number) for line in done.lines for number in re.findall(r"\de-\d\d", line)]
    assert len(errors) == 4
    assert errors[0] < 1e-12 < max(errors) < 1e-4
    q, qd, tau = done.space["states"]
    assert_forward_dynamics({"q": q, "qd": qd, "tau": tau}, done.space["qdd"])


def assert_forward_dynamics(states: dict[str, np.ndarray], qdd: np.ndarray) -> None:
    """Compare accelerations of the two-joint arm with Pinocchio's, to 1e-4 of the largest."""
    model = pinocchio.buildModelFromUrdf(str(ARM))
    data, damping = model.createData(), [link.joint.damping for link in dg.robots.load("two_joint_arm").links]
    expected = [
        pinocchio.aba(model, data, q, qd, tau - damping * qd).copy()
        for q, qd, tau in zip(*(np.asarray(states[name], float) for name in ("q", "qd", "tau")), strict=True)
    ]
    np.testing.assert_allclose(qdd, expected, atol=1e-4 * np.abs(expected).max())


def test_inverse_kinematics(run: Any) -> None:
    """Pinocchio's kinematics put the hand on the circle."""
    done = run("12_inverse_kinematics.py")
    assert done.numbers("reached ")[0] == 1000
    assert done.numbers("largest error ")[0] < 1e-6
    assert done.numbers("along the circle ")[0] < 0.2
    model = pinocchio.buildModelFromUrdf(str(dg.robots.path("iiwa14")))
    data = model.createData()
    frame = model.getFrameId("link_7")
    for q, pose in zip(done.space["path"], done.space["circle"], strict=True):
        pinocchio.framesForwardKinematics(model, data, q)
        np.testing.assert_allclose(data.oMf[frame].homogeneous, pose, atol=2e-6)


def test_identification(run: Any) -> None:
    done = run("13_identification.py")
    assert done.numbers("condition ")[0] < 100.0
    assert done.numbers("file: ")[0] > 3.0
    assert done.numbers("identified: ")[0] < 0.2
    value, deviation = done.numbers("armature of joint 4: ")
    assert abs(value - 0.1) < 2.0 * deviation


def test_check_robot(run: Any) -> None:
    done = run("17_check_robot.py")
    places = ["error, line 28, link 'forearm'", "warning, line 24, joint 'elbow'"]
    places += ["warning, line 6, joint 'shoulder'", "warning, line 20, joint 'elbow'"]
    for line, count, place in zip(done.lines[1:], (4, 3, 2, 1), places, strict=False):
        assert line.startswith(f"{count} left, first: {place}"), line
    assert "fixed: 0 findings" in done.lines
    assert float(done.lines[-1].rpartition(" ")[2]) < 1e-12


def test_constraints(run: Any) -> None:
    done = run("14_constraints.py")
    (free, _, cheap), (distance, speed, cost) = (done.numbers(f"{name}: ") for name in ("free", "constrained"))
    assert free < 0.14
    assert distance > 0.1499
    assert speed < 1e-4
    assert cost > cheap
    assert done.space["plan"].converged


def test_actuators(run: Any) -> None:
    done = run("15_actuators.py")
    ideal, late = (done.numbers(f"{name}: overshoot ")[0] for name in ("ideal", "delay of 10 ms"))
    assert late > ideal
    slope, difference = done.numbers("gradient with respect to the deflection ")
    np.testing.assert_allclose(slope, difference, rtol=1e-3)


def test_whole_body_torque(run: Any) -> None:
    done = run("16_whole_body_torque.py")
    used, _, away = zip(*(done.numbers(f"slope {degrees}: ") for degrees in (0, 10, 20, 30, 40)), strict=True)
    np.testing.assert_allclose(used[:3], np.tan(np.radians([0.0, 10.0, 20.0])), atol=0.06)
    assert max(used) < 0.6 + 1e-6
    assert max(away[:4]) < 0.1 < 0.3 < away[4]
    slope, difference = done.numbers("a knee's torque by the acceleration ")
    np.testing.assert_allclose(slope, difference, rtol=1e-3)


@pytest.mark.parametrize("path", NUMBERED, ids=lambda path: path.stem)
def test_examples_are_short_and_explained(path: Path) -> None:
    """At most 40 lines; the first words say what the example shows and what it prints."""
    if path.suffix == ".py":
        text = path.read_text()
        assert len(text.splitlines()) <= LINES
        words = ast.get_docstring(ast.parse(text))
        assert words
        assert "It prints" in words.replace("\n", " ")
    else:
        notebook = json.loads(path.read_text())
        words = "".join(notebook["cells"][0]["source"])
        assert all(not cell.get("outputs") for cell in notebook["cells"])
    assert "or " in words


def test_the_index_has_every_example_with_its_picture() -> None:
    assert len(NUMBERED) == 17
    index = (EXAMPLES / "README.md").read_text()
    for path in NUMBERED:
        assert f"({path.name})" in index, path.name
        assert f"(../docs/pictures/{path.stem}.svg)" in index, path.name
    for link in re.findall(r"\]\(([^)#:]+)\)", index + (EXAMPLES / "papers" / "README.md").read_text()):
        assert (EXAMPLES / link).exists() or (EXAMPLES / "papers" / link).exists(), link
