"""The same words everywhere: robots by name or path, numbers of numpy, names that are near, missing extras."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Policy, Region, Robot, Rollout, difference, evaluate, integrate, neutral, robots, trace
from dynagate.base.nearest import nearest
from dynagate.control import Cost
from dynagate.dynamics import ALIASES, function
from dynagate.fixedpoint.wordlength.goal import Goal
from dynagate.hw.plan.plan import Stages
from dynagate.robot.limits import MAX_SUMMARY_JOINTS

ARM = robots.load("two_joint_arm")
PATH = robots.path("two_joint_arm")

TAKES_A_ROBOT: list[Callable[[Any], Any]] = [
    lambda robot: trace(robot, "mass_matrix"),
    lambda robot: Region.of(robot),
    lambda robot: neutral(robot).tolist(),
    lambda robot: integrate(robot, [0.1, 0.2], [1.0, 2.0]).tolist(),
    lambda robot: Rollout(robot, steps=2, dt=0.01, device="numpy").robot,
    lambda robot: dynagate.compile(robot, "mass_matrix", device="numpy").device.graph,
    lambda robot: dynagate.DesignRequest(robot, "mass_matrix").robot,
]


@pytest.mark.parametrize("take", TAKES_A_ROBOT)
def test_a_name_or_a_path_is_a_robot(take: Callable[[Any], Any]) -> None:
    expected = take(ARM)
    for robot in ("two_joint_arm", PATH, str(PATH)):
        assert take(robot) == expected
    with pytest.raises(dynagate.RobotError, match=r"no shipped robot 'two_joint_arn' \(did you mean 'two_joint_arm'"):
        take("two_joint_arn")
    with pytest.raises(TypeError):
        take(5)


def test_build_takes_the_command_s_words(tmp_path: Path) -> None:
    built = dynagate.build("two_joint_arm", "mass_matrix", ii=np.int64(4), word=np.int32(18), folder=tmp_path)
    same = dynagate.build(ARM, "mass_matrix", ii=4, policy=Policy(word=18), folder=tmp_path)
    assert built.folder == same.folder
    assert {fmt.width for fmt in built.formatted.formats} == {18}
    with pytest.raises(ValueError, match=r"word=18 and Policy\(...\); expected one of them"):
        dynagate.build(ARM, "mass_matrix", word=18, policy=Policy(), folder=tmp_path)
    with pytest.raises(ValueError, match=r"error=0.01 and Goal\(...\); expected one of them"):
        dynagate.build(ARM, "mass_matrix", error=0.01, goal=Goal(0.01), folder=tmp_path)
    with pytest.raises(ValueError, match="word=18 and an error; expected one of them: words are found for an error"):
        dynagate.build(ARM, "mass_matrix", word=18, error=0.01, folder=tmp_path)


def test_numpy_s_numbers_are_numbers() -> None:
    """What is kept of them is Python's: it goes into design.json."""
    held = [Policy(word=np.int64(18)).word, Stages(multiply=np.int8(1)).multiply, Goal(np.float32(0.25)).error]
    held.append(dynagate.DesignRequest(ARM, "mass_matrix", ii=np.uint16(4)).ii)
    assert json.loads(json.dumps(held)) == [18, 1, 0.25, 4]
    assert Goal({"m": np.float64(0.5)}).of("m") == 0.5
    assert Region.of(ARM, velocity=np.float32(2.0)).velocity == (2.0, 2.0)
    assert Rollout(ARM, steps=np.int64(2), dt=np.float64(0.01), device="numpy").steps == 2
    with pytest.raises(ValueError, match=r"word 18.5; expected \d+ to \d+ bits"):
        Policy(word=18.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="initiation interval True; expected a whole number"):
        dynagate.DesignRequest(ARM, "mass_matrix", ii=True)


def test_limits_are_arrays_in_the_order_of_q_and_v() -> None:
    iiwa = robots.load("iiwa14")
    assert [*iiwa.lower] == [link.joint.lower for link in iiwa.links]
    assert [*iiwa.upper] == [link.joint.upper for link in iiwa.links]
    assert [*iiwa.velocity] == [link.joint.velocity for link in iiwa.links]
    assert [*iiwa.effort] == [link.joint.effort for link in iiwa.links]
    floating = Robot.from_urdf(PATH, floating_base=True)
    assert [*floating.lower[:7], *floating.upper[:7]] == [-np.inf] * 3 + [-1.0] * 4 + [np.inf] * 3 + [1.0] * 4
    assert np.isinf(floating.velocity[:6]).all()
    assert (floating.effort[6:] == ARM.effort).all()


def test_a_robot_is_printed_as_a_screen() -> None:
    text = str(robots.load("hyq"))
    lines = text.splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) <= 160
    assert "12 joints, nq 12, nv 12" in lines[0]
    for link in robots.load("hyq").links:
        (line,) = [line for line in lines if f" {link.joint.name} " in line]
        assert f"{link.joint.lower:.4g} to {link.joint.upper:.4g}" in line
        assert f"{link.mass:.4g}" in line
    assert "frames: " in text
    many = Robot("chain", tuple(_with_parent(ARM, i) for i in range(MAX_SUMMARY_JOINTS + 5)))
    assert str(many).endswith("... and 5 joints more")
    assert repr(ARM).startswith("Robot(name=")  # whole: keys are made of it


def _with_parent(robot: Robot, i: int) -> Any:
    from dataclasses import replace

    return replace(robot.links[0], parent=i - 1)


def test_a_rollout_says_what_it_is() -> None:
    rollout = Rollout("two_joint_arm", steps=10, dt=0.01, every=5, device="numpy")
    assert repr(rollout) == "<Rollout two_joint_arm, 10 steps, every 5, dt 0.01 s, semi_implicit_euler, on numpy>"
    linear = Rollout(ARM, steps=1, dt=None, linearize=True, device="numpy")
    assert (
        repr(linear) == "<Rollout two_joint_arm, 1 steps, dt of each call, semi_implicit_euler, linearized, on numpy>"
    )


def test_names_that_people_type() -> None:
    for alias, name in ALIASES.items():
        assert function(alias) is function(name)
    assert function("aba,rnea").name == function("inverse_dynamics,forward_dynamics").name
    assert trace(ARM, "rnea") == trace(ARM, "inverse_dynamics")
    with dynagate.compile("two_joint_arm", "aba", device="numpy") as accelerator:
        assert accelerator.device.function == "forward_dynamics"


NEAR: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: trace(ARM, "inverse_dynamic"), ValueError, "no function 'inverse_dynamic' (did you mean 'inverse_dyn"),
    (
        lambda: trace(ARM, "Mass_Matrix"),
        ValueError,
        "no function 'Mass_Matrix' (did you mean 'mass_matrix'?); expected",
    ),
    (lambda: trace(ARM, "forward_dynamics", form="ABA"), ValueError, "has no form 'ABA' (did you mean 'aba'?); exp"),
    (lambda: trace(ARM, "forward_dynamics", outputs=["qdds"]), ValueError, "has no output 'qdds' (did you mean 'qdd'?"),
    (lambda: trace(ARM, "step", integrator="eulers"), ValueError, "integrator 'eulers' (did you mean 'euler'?); exp"),
    (lambda: trace(ARM, "step", integrater="rk4"), TypeError, "argument 'integrater' (did you mean 'integrator'?)"),  # type: ignore[call-arg]
    (lambda: ARM.with_variable("fore_arm"), ValueError, "moving link 'fore_arm' (did you mean 'forearm'?"),
    (lambda: ARM.frame("fore_arm"), ValueError, "no frame 'fore_arm' (did you mean 'forearm'?); expected one of upper"),
    (
        lambda: ARM.with_payload("fore_arm", 1.0, (0, 0, 0), ((1, 0, 0), (0, 1, 0), (0, 0, 1))),
        ValueError,
        "(did you mean 'forearm'?)",
    ),
    (lambda: Region.of(ARM, velocity={"elbov": 1.0}), ValueError, "joint 'elbov' (did you mean 'elbow'?), which robot"),
    (lambda: Region.of(ARM, speed=1.0), TypeError, "of() got an unexpected keyword argument 'speed'; expected one of"),  # type: ignore[call-arg]
    (
        lambda: dynagate.compile(ARM, "mass_matrix", thread=2),
        TypeError,
        "keyword argument 'thread' (did you mean 'threads'?); expected",
    ),  # type: ignore[call-arg]
    (
        lambda: dynagate.compile(ARM, "mass_matrix", device="cpus"),
        ValueError,
        "device 'cpus' (did you mean 'cpu'?); expected one of num",
    ),
    (lambda: Rollout(ARM, steps=2, dt=0.1, force=1), TypeError, "argument 'force' (did you mean 'forces'?); expected"),  # type: ignore[call-arg]
    (lambda: Rollout(ARM, steps=2, dt=0.1, contact=True), TypeError, "Rollout() got an unexpected keyword argument"),  # type: ignore[call-arg]
    (lambda: Rollout(ARM, steps=2, dt=0.1, integrator="RK4"), ValueError, "integrator 'RK4' (did you mean 'rk4'?); e"),
    (
        lambda: dynagate.build(ARM, "mass_matrix", unit=4),
        TypeError,
        "build() got an unexpected keyword argument 'unit' (did you mea",
    ),
    (lambda: dynagate.buld, AttributeError, "module 'dynagate' has no attribute 'buld' (did you mean '"),
]


@pytest.mark.parametrize(("call", "kind", "text"), NEAR, ids=lambda value: value if isinstance(value, str) else "")
def test_a_name_that_is_near_is_asked_for(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()


ZERO = np.zeros(2)
OTHERS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: difference(ARM, ZERO, np.zeros(3)), ValueError, "q_next has shape (3,); expected (..., 2)"),
    (lambda: difference(ARM, "a", ZERO), TypeError, "q has dtype <U1; expected real numbers such as float64"),
    (lambda: integrate(ARM, ZERO, np.zeros(3)), ValueError, "v has shape (3,); expected (..., 2)"),
    (lambda: evaluate("mass_matrix", {"q": ZERO}), TypeError, "graph='mass_matrix'; expected a Graph"),  # type: ignore[arg-type]
    (lambda: evaluate(trace(ARM, "mass_matrix"), [ZERO]), TypeError, "without names; expected arrays by q"),  # type: ignore[arg-type]
    (
        lambda: dynagate.compile(ARM, "mass_matrix", device="numpy")(ZERO, ZERO),
        TypeError,
        "mass_matrix got 2 arrays; expected at most 1, in this order: q",
    ),
    (
        lambda: dynagate.compile(ARM, "mass_matrix", device="numpy").new_inputs("a"),
        ValueError,
        "batch='a'; expected a whole number of",
    ),  # type: ignore[attr-defined]
    (
        lambda: dynagate.compile(ARM, "mass_matrix", threads="a"),
        ValueError,
        "'a' threads; expected 1 or more",
    ),
    (
        lambda: dynagate.compile(ARM, "mass_matrix", dtype="float23"),
        TypeError,
        "dtype 'float23'; expected float32 or float64",
    ),
    (
        lambda: dynagate.compile(ARM, "mass_matrix", dtype="int8"),
        ValueError,
        "dtype int8; expected float32 or float64",
    ),
    (lambda: dynagate.compile(ARM, 5), TypeError, "function 5; expected the name of a function, or a list of names"),  # type: ignore[call-overload]
    (lambda: dynagate.compile(ARM, []), TypeError, "function []; expected the name of a function, or a list of names"),
    (
        lambda: dynagate.compile(ARM, "mass_matrix", algorithm=3),
        TypeError,
        "compile() got an unexpected keyword argument 'algorithm'; expected one of robot, function, device",
    ),  # type: ignore[call-overload]
    (
        lambda: dynagate.compile(ARM, "mass_matrix", device="fixed", region=3),
        TypeError,
        "region=3; expected a Region",
    ),
    (
        lambda: dynagate.compile(ARM, "mass_matrix", device="fixed", policy=3),
        TypeError,
        "policy=3; expected a Policy",
    ),
    (
        lambda: dynagate.compile(ARM, "mass_matrix", outputs=3),
        TypeError,
        "outputs=3; expected a name, or a sequence of names",
    ),
    (
        lambda: dynagate.compile(ARM, "mass_matrix", variable=3),  # type: ignore[call-arg]
        TypeError,
        "unexpected keyword argument 'variable'; write robot.with_variable('forearm.mass'), and pass that robot",
    ),
    (lambda: Region.of(ARM).sample("mass_matrix", "a", 1), ValueError, "'a' states; expected 1 or more"),  # type: ignore[arg-type]
    (lambda: robots.load("hyq", floating_base="yes"), ValueError, "floating_base='yes'; expected True or False"),
    (lambda: robots.load("hyq", floatng_base=True), TypeError, "from_urdf() got an unexpected keyword argument 'floa"),
    (lambda: robots.load("two_joint_arm", lock={"elbw": 0}), ValueError, "joint 'elbw' (did you mean 'elbow'?), whic"),
    (
        lambda: ARM.with_payload("forearm", "1", ZERO, np.eye(3)),
        ValueError,
        "payload has mass '1'; expected a finite number above 0",
    ),  # type: ignore[arg-type]
    (lambda: robots.load("none.urdf"), ValueError, f"none.urdf: no such file in {Path.cwd()}; expected a URDF file"),
]


@pytest.mark.parametrize(("call", "kind", "text"), OTHERS, ids=[text for _, _, text in OTHERS])
def test_what_is_no_argument_is_refused_by_name(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)) as caught:
        call()
    assert isinstance(caught.value, dynagate.Error)


def test_nearest_asks_only_for_what_is_near() -> None:
    assert nearest("elbov", ["elbow", "shoulder"]) == " (did you mean 'elbow'?)"
    assert nearest("ELBOW", ["elbow"]) == " (did you mean 'elbow'?)"
    assert nearest("x", ["elbow", "shoulder"]) == ""


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
import dynagate
try:
    exec(sys.argv[2])
except dynagate.Error as error:
    print(f"{type(error).__name__}|{error}")
"""


@pytest.mark.parametrize(
    ("module", "code", "text"),
    [
        ("scipy", "dynagate.build", "dynagate.build needs the module 'scipy'; pip install 'dynagate[hw]'"),
        ("crocoddyl", "import dynagate.mpc.actions", "dynagate.mpc.state needs the module 'crocoddyl'; pip install"),
        ("casadi", "import dynagate.mpc.casadi", "dynagate.mpc.casadi needs the module 'casadi'; pip install 'dynagat"),
    ],
)
def test_a_missing_extra_is_named_from_python(module: str, code: str, text: str) -> None:
    command = [sys.executable, "-c", WITHOUT, module, code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.match(f"Missing(Extra|Name)Error[|]{re.escape(text)}", done.stdout)


def test_a_solver_shows_the_call_that_made_it() -> None:
    cost = Cost(lambda knot: knot.tau[0] * knot.tau[0], lambda knot: 0.0)
    solver = dynagate.ilqr(ARM, knots=3, dt=0.01, cost=cost, device="numpy")
    shown = "<dynagate.ilqr(two_joint_arm, knots=3, dt=0.01, integrator='semi_implicit_euler', device='numpy')>"
    assert repr(solver) == shown


def test_an_input_that_is_no_number_names_its_likely_origin() -> None:
    forward = dynagate.compile(ARM, "forward_dynamics", device="numpy")
    zeros = np.zeros(2)
    for call in (forward, Rollout(ARM, steps=1, dt=0.01, device="numpy")):
        with pytest.raises(ValueError, match="is nan at .*; results of samples that overflow are NaN, flagged in"):
            call(np.array([0.0, np.nan]), zeros, zeros if call is forward else zeros[None])
        with pytest.raises(ValueError, match=r"is inf at .*; expected finite numbers \[DG-"):
            call(np.array([0.0, np.inf]), zeros, zeros if call is forward else zeros[None])
