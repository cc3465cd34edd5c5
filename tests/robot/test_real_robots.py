"""Other people's robots: against Pinocchio, and with no more operations than the prototype took."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio
import pytest
from dynagate import Robot, evaluate, trace
from dynagate.graph.reference_gradient import relative_errors

from tests import tolerances
from tests.effort import at_most_calls
from tests.oracle import compare, pinocchio_model
from tests.robots import DATA, JACO, PANDA, SOLO, measured_file, read_other

FINGERS = {"panda_finger_joint1": 0.02, "panda_finger_joint2": 0.02}
ROBOTS: dict[str, dict[str, Any]] = {
    "a1_description/urdf/a1.urdf": {},
    "alexander_description/urdf/alexander_v1.lowerBodyOnly.urdf": {},
    "anymal_b_simple_description/robots/anymal-kinova.urdf": {},
    "anymal_c_simple_description/urdf/anymal.urdf": {},
    "asr_twodof_description/urdf/TwoDofs.urdf": {},
    "b1_description/urdf/b1.urdf": {},
    "bolt_description/robots/bolt.urdf": {},
    "borinot_description/urdf/borinot_flying_arm_2.urdf": {},
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf": {"unlimited": True},
    "g1_description/urdf/g1_29dof_rev_1_0.urdf": {},
    "go1_description/urdf/go1.urdf": {"ignore_friction": True},
    "go2_description/urdf/go2.urdf": {},
    "hyq_description/robots/hyq_no_sensors.urdf": {},
    "iris_description/robots/iris.urdf": {"unlimited": True},
    "kinova_description/robots/kinova.urdf": {},
    "laikago_description/urdf/laikago.urdf": {},
    "panda_description/urdf/panda.urdf": {"lock": FINGERS},
    "simple_humanoid_description/urdf/simple_humanoid.urdf": {},
    "so_arm_description/urdf/so100.urdf": {},
    "solo_description/robots/solo12.urdf": {},
    "talos_data/robots/talos_left_arm.urdf": {"ignore_friction": True},
    "ur_description/urdf/ur5_robot.urdf": {},
    "xarm_description/urdf/xarm7.urdf": {"ignore_friction": True},
    "z1_description/urdf/z1.urdf": {"ignore_friction": True},
}


QUICK = {
    ("asr_twodof_description/urdf/TwoDofs.urdf", "floating"),
    ("double_pendulum_description/urdf/double_pendulum_continuous.urdf", "floating"),
    ("go1_description/urdf/go1.urdf", "fixed"),
    ("iris_description/robots/iris.urdf", "floating"),
    ("panda_description/urdf/panda.urdf", "fixed"),
}
"""An arm, legs, a drone and a pendulum; all robots run with `make test-long`."""


@pytest.mark.parametrize(
    ("name", "base"),
    [
        (name, base) if (name, base) in QUICK else pytest.param(name, base, marks=pytest.mark.long)
        for name in ROBOTS
        for base in ("fixed", "floating")
    ],
)
def test_real_robot_agrees_with_pinocchio(name: str, base: str) -> None:
    options, floating_base = ROBOTS[name], base == "floating"
    # Pinocchio's algorithms leave joint damping out, and take 1.57079632679 at its word
    robot = read_other(DATA / name, damping=False, round_rotations=0.0, floating_base=floating_base, **options)
    model = pinocchio_model(DATA / name, options.get("lock"), floating_base=floating_base)
    # forms of longer chains are compared on iiwa14
    compare(robot, model, count=2, frames=["middle"], every_form=robot.nv <= 6)


@pytest.mark.parametrize("form", ["mass_matrix_solve", "aba"])
@pytest.mark.parametrize("name", ["ur10e", "jaco"])
def test_known_accelerations_come_back_to_twelve_digits(name: str, form: str) -> None:
    """Light wrists on heavy arms: a constant of 1e-13 counts. q̈ is chosen and Pinocchio says which torque gives it."""
    path = JACO if name == "jaco" else measured_file(name)
    robot = Robot.from_urdf(path, damping=False, round_rotations=0.0)
    model = pinocchio_model(path)
    data = model.createData()
    random = np.random.default_rng(1)
    q, qd, qdd = (random.uniform(-size, size, (20, robot.nv)) for size in (3.0, 3.0, 10.0))
    tau = []
    for row in zip(q, qd, qdd, strict=True):
        position = pinocchio.neutral(model)
        for joint, angle in zip(
            list(model.joints)[1:], row[0], strict=True
        ):  # a continuous joint is a point on a circle
            own = [angle] if joint.nq == 1 else [np.cos(angle), np.sin(angle)]
            position[joint.idx_q : joint.idx_q + joint.nq] = own
        tau.append(pinocchio.rnea(model, data, position, *row[1:]).copy())
    inputs = {"q": q, "qd": qd, "tau": np.array(tau)}
    found = evaluate(trace(robot, "forward_dynamics", form=form), inputs)["qdd"]
    assert relative_errors(found, qdd).max() <= tolerances.KNOWN


TABLE = {
    # products, constant products, additions, reciprocals of dFD(τ) in closed form (the prototype's measured table)
    "iiwa14": (2800, 358, 2709, 7),
    "hyq": (940, 368, 1044, 12),
    "solo12": (908, 296, 896, 12),
    "panda": (2753, 378, 2686, 7),
    "baxter": (5711, 896, 5709, 15),
    "atlas": (20255, 2342, 20201, 30),
}


def measured(name: str) -> Robot:
    if name == "solo12":
        return Robot.from_urdf(SOLO, damping=False)
    if name == "panda":
        return read_other(PANDA, damping=False, lock={"panda_finger_joint1": 0.0, "panda_finger_joint2": 0.0})
    return Robot.from_urdf(
        measured_file(name),
        damping=False,
        ignore_friction=True,
        allow_unphysical=name == "atlas",
        round_rotations=ROUNDED.get(name, 1e-9),
    )


ROUNDED = {"gen3_7dof": 1e-5, "aliengo": 1e-5, "atlas": 1e-4}
"""Files with short right angles, and what makes them exact."""

COUNTS = {
    # multiplications of two values and by a constant, but for powers of two, in dFD(τ) with its defaults
    "iiwa14": (1975, 116),
    "gen3_7dof": (2555, 196),
    "ur10e": (1074, 83),
    "z1": (1427, 141),
    "aliengo": (824, 184),
    "baxter": (5072, 532),
}


@pytest.mark.parametrize("name", list(COUNTS))
def test_products_of_the_main_job(name: str) -> None:
    """What is multiplied decides what hardware takes: no robot may take more."""
    graph = trace(measured(name), "forward_dynamics_gradient")
    counts = graph.counts()
    constant = counts.mul_const - sum(node.op == "shift" for node in graph.nodes)
    assert counts.mul <= COUNTS[name][0]
    assert counts.mul + constant <= sum(COUNTS[name])


@pytest.mark.filterwarnings("ignore:.*round_rotations")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (n in ("atlas", "baxter"))) for n in TABLE]
)
def test_no_more_operations_than_the_table(name: str) -> None:
    counts = trace(measured(name), "forward_dynamics_gradient", frame="fewest", mass="shared").counts()
    found = (counts.mul, counts.mul_const, counts.add, counts.reciprocal)
    assert all(a <= b for a, b in zip(found, TABLE[name], strict=True)), counts


@pytest.mark.filterwarnings("ignore:.*round_rotations")
@pytest.mark.parametrize(
    ("name", "calls"), [("iiwa14", 4_000_000), pytest.param("atlas", 40_000_000, marks=pytest.mark.long)]
)
def test_tracing_takes_seconds(name: str, calls: int) -> None:
    """The limit is four times the work of today: a few seconds. An algorithm that is quadratic in nodes takes more."""
    robot = measured(name)
    with at_most_calls(calls):
        trace(robot, "forward_dynamics_gradient")
