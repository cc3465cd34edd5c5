"""Calls that somebody writes who knows Pinocchio, MuJoCo and JAX: they run, or the error has what to write."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.dynamics import FRAME_FUNCTIONS, LISTED

ARM = dynagate.robots.load("two_joint_arm")
WITH_HAND = ARM.with_frame("hand", on=ARM.links[-1].name, translation=(0.1, 0.2, 0.0))


@pytest.mark.parametrize(
    ("function", "name", "own"),
    [
        ("crba", "M", "m"),
        ("computeMinverse", "Minv", "minv"),
        ("computeGeneralizedGravity", "g", "gravity_torque"),
        ("nonLinearEffects", "nle", "bias_torque"),
        ("bias_torque", "qfrc_bias", "bias_torque"),
        ("aba", "ddq", "qdd"),
        ("aba", "qacc", "qdd"),
        ("computeABADerivatives", "ddq_dq", "dqdd_dq"),
        ("computeABADerivatives", "ddq_dv", "dqdd_dqd"),
        ("computeABADerivatives", "ddq_dtau", "minv"),
        ("computeABADerivatives", "Minv", "minv"),
        ("computeRNEADerivatives", "dtau_dv", "dtau_dqd"),
        ("centerOfMass", "com", "center_of_mass"),
        ("jacobianCenterOfMass", "Jcom", "center_of_mass_jacobian"),
        ("jacobianCenterOfMass", "J", "center_of_mass_jacobian"),
        ("frame_jacobian", "J", "frame_jacobian"),
        ("frame_pose", "translation", "frame_position"),
        ("frame_pose", "rotation", "frame_rotation"),
        (["crba", "frame_jacobian"], "frame_jacobian", "frame_jacobian_hand"),
        ("framesForwardKinematics", "position", "frame_position"),
        ("frame_placement", "rotation", "frame_rotation"),
    ],
)
def test_results_answer_to_their_names_elsewhere(function: Any, name: str, own: str) -> None:
    """Reading alone: the keys and the text of results keep our names."""
    frame = "hand" if "frame" in str(function) else None
    computed = dynagate.compile(WITH_HAND, function, frame=frame, device="numpy")
    results = computed(*(np.full(2, 0.3) for _ in computed.inputs))
    assert getattr(results, name) is results[own]
    assert name not in list(results)
    if name != own:
        assert name not in repr(results).replace(",", " ").split()
        assert name not in results
        with pytest.raises(KeyError, match=f"it is called '{own}' here"):
            results[name]


@pytest.mark.parametrize(
    ("function", "name", "text"),
    [
        ("ccrba", "Ag", "it is called 'centroidal_momentum_matrix' here: [angular; linear], where Pinocchio has"),
        ("frame_pose", "xmat", "it is called 'frame_rotation' here: its shape is (3, 3)"),
        ("frame_pose", "oMf", "it is called 'frame_position' here: its rotation is 'frame_rotation'"),
        ("frame_jacobian", "jacp", "it is called 'frame_jacobian' here: its rows 3 to 5"),
        ("coriolis_torque", "C", "it is called 'coriolis_torque' here: it is the torque, not the matrix"),
        ("crba", "g", "no result 'g'; expected one of m"),
    ],
)
def test_results_that_differ_elsewhere_are_answered(function: str, name: str, text: str) -> None:
    frame = "hand" if function.startswith("frame") else None
    computed = dynagate.compile(WITH_HAND, function, frame=frame, device="numpy")
    results = computed(*(np.full(2, 0.3) for _ in computed.inputs))
    with pytest.raises(AttributeError, match=re.escape(text)):
        getattr(results, name)


@pytest.mark.parametrize("operation", [lambda x: x**2, lambda x: np.ones(2) - x, lambda x: -x, lambda x: 2.0 * x])
def test_results_are_no_array(operation: Callable[[Any], Any]) -> None:
    accelerations = dynagate.compile("two_joint_arm", "aba", device="numpy")(*np.zeros((3, 2)))
    with pytest.raises(TypeError, match=r"results are no array; write \.qdd"):
        operation(accelerations)


FRAMES = [("hand", "its name"), (WITH_HAND.frame("hand"), "a frame"), (WITH_HAND.frames[-1], "a frame of the list")]


@pytest.mark.parametrize("frame", [frame for frame, _ in FRAMES], ids=[text for _, text in FRAMES])
@pytest.mark.parametrize("function", list(FRAME_FUNCTIONS))
def test_the_frame_of_a_function_is_an_option(function: str, frame: Any) -> None:
    named = dynagate.compile(WITH_HAND, f"{function}_hand", device="numpy")
    computed = dynagate.compile(WITH_HAND, function, frame=frame, device="numpy")
    state = [np.full(2, 0.1 * k + 0.2) for k in range(len(computed.inputs))]
    assert computed.function == named.function
    assert dynagate.trace(WITH_HAND, function, frame=frame) == named.device.graph
    for name, array in named(*state).items():
        np.testing.assert_array_equal(computed(*state)[name], array)


@pytest.mark.parametrize(
    ("function", "frame", "text"),
    [
        ("frame_pose", 3, "frame=3 of 'frame_pose'; expected the name of a frame or link"),
        ("frame_pose", "", "frame='' of 'frame_pose'; expected the name"),
        ("frame_pose", True, "frame=True of 'frame_pose'; expected the name"),
        ("frame_pose", ["hand"], "frame=['hand'] of 'frame_pose'; expected the name"),
        ("frame_pose", "foot", "no frame 'foot'"),
        ("frame_pose", "a b", "frame 'a b' cannot be part of a function's name; give it one of up to"),
        ("frame_pose_hand", "hand", "function 'frame_pose_hand' with frame='hand'; expected the frame once"),
        ("inverse_dynamics_gradient", "hand", "frame 'hand'; expected base, middle, sparsest"),
        ("mass_matrix", "hand", "frame 'hand'; expected base, middle, sparsest"),
        (["mass_matrix", "frame_pose"], None, "function 'frame_pose' without a frame; expected frame='NAME'"),
    ],
)
def test_a_frame_that_is_none_is_refused(function: Any, frame: Any, text: str) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError, dynagate.RobotError), match=re.escape(text)):
        dynagate.compile(WITH_HAND, function, frame=frame, device="numpy")


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> dynagate.Design:
    return dynagate.build(ARM, "mass_matrix", ii=8, folder=tmp_path_factory.mktemp("designs"))


COST = dynagate.control.Cost.quadratic(q=1.0, tau=1e-3)
STEPS: dict[str, Any] = {"dt": 0.1, "cost": COST, "device": "numpy"}
SPREAD: dict[str, Any] = {"temperature": 1.0, "spread": 1.0, **STEPS}
ZERO = np.zeros(2)

GUESSES: list[tuple[str, Callable[[Any], Any], str]] = [
    # options
    ("ilqr horizon", lambda _: dynagate.ilqr(ARM, horizon=5, **STEPS), "'horizon' (write knots)"),
    ("ilqr steps", lambda _: dynagate.ilqr(ARM, steps=5, **STEPS), "'steps' (write knots)"),
    ("ilqr max_iter", lambda _: dynagate.ilqr(ARM, max_iter=5, **STEPS), "'max_iter' (write iterations)"),
    ("mppi num_samples", lambda _: dynagate.mppi(ARM, num_samples=5, **STEPS), "'num_samples' (write samples)"),
    ("mppi lambda", lambda _: dynagate.mppi(ARM, lambda_=5, **STEPS), "'lambda_' (write temperature)"),
    ("ilqr tol", lambda _: dynagate.ilqr(ARM, tol=1e-3, **STEPS), "'tol' (write tolerance)"),
    ("rollout horizon", lambda _: dynagate.Rollout(ARM, horizon=5), "'horizon' (write steps)"),
    ("rollout timestep", lambda _: dynagate.Rollout(ARM, 5, timestep=0.1), "'timestep' (write dt)"),
    ("rollout method", lambda _: dynagate.Rollout(ARM, 5, 0.1, method="rk4"), "'method' (write integrator)"),
    ("compile steps", lambda _: dynagate.compile(ARM, "step", steps=5), "write dynagate.Rollout(robot, steps=..., dt="),
    ("compile target", lambda _: dynagate.compile(ARM, "aba", target="fpga"), "write dynagate.build(robot, function"),
    ("compile interval", lambda _: dynagate.compile(ARM, "aba", interval=8), "write dynagate.build(robot, function"),
    ("compile num_threads", lambda _: dynagate.compile(ARM, "aba", num_threads=2), "(write threads)"),
    ("compile precision", lambda _: dynagate.compile(ARM, "aba", precision="float32"), "(write dtype)"),
    ("compile site", lambda _: dynagate.compile(ARM, "frame_pose", site="hand"), "(write frame)"),
    ("compile backend", lambda _: dynagate.compile(ARM, "aba", backend="cuda"), "(write device)"),
    ("build interval", lambda _: dynagate.build(ARM, "aba", interval=8), "'interval' (write ii)"),
    ("build bits", lambda _: dynagate.build(ARM, "aba", bits=18), "'bits' (write word)"),
    ("build device", lambda _: dynagate.build(ARM, "aba", device="sim"), "it belongs to dynagate.open(design, ...)"),
    ("compliant contact", lambda _: dynagate.forces.CompliantContact([], damping=1.0), "(write dissipation)"),
    ("contact", lambda _: dynagate.forces.Contact([], damping=1.0), "CompliantContact has the option dissipation"),
    # a function's name comes before options
    ("rollout first", lambda _: dynagate.compile(ARM, "rollout", steps=5), "write dynagate.Rollout(robot, ...)"),
    ("name first", lambda _: dynagate.compile(ARM, "no_such", color=5), "no function 'no_such'"),
    ("name of build first", lambda _: dynagate.build(ARM, "no_such", color=5), "no function 'no_such'"),
    # devices
    ("gpu", lambda _: dynagate.compile(ARM, "aba", device="gpu"), "device 'gpu' (write cuda)"),
    (
        "fpga",
        lambda _: dynagate.compile(ARM, "aba", device="fpga"),
        "write dynagate.open(dynagate.build(robot, function)",
    ),
    ("verilog", lambda _: dynagate.Rollout(ARM, 5, 0.1, device="verilog"), "write dynagate.open(dynagate.build(robot,"),
    # objects
    ("simulate", lambda design: design.simulate(), "Design has no attribute 'simulate'; write dynagate.open(design)"),
    ("call of a design", lambda design: design(ZERO), "a Design is not called; write dynagate.open(design)(...)"),
    (
        "cost",
        lambda _: dynagate.ilqr(ARM, knots=5, dt=0.1, cost="quadratic"),
        "Cost.quadratic(q=10.0, qd=0.1, tau=1e-3)",
    ),
    ("solve", lambda _: dynagate.mppi(ARM, knots=5, samples=4, **SPREAD).solve(ZERO), "write solver(q0, qd0, ...): a"),
    ("simulate a rollout", lambda _: dynagate.Rollout(ARM, 5, 0.1, device="numpy").simulate(), "write rollout(q0, qd0"),
    (
        "run",
        lambda _: dynagate.compile(ARM, "aba", device="numpy").run(ZERO),
        "a function is called: write function(..",
    ),
    ("u", lambda _: dynagate.mppi(ARM, knots=5, samples=4, **SPREAD)(ZERO, ZERO, goal=ZERO).u, "write sampled.tau"),
    (
        "qpos",
        lambda _: dynagate.Rollout(ARM, 5, 0.1, device="numpy")(ZERO, ZERO, np.zeros((5, 2))).qpos,
        "write trajectories.q",
    ),
    ("neutral", lambda _: ARM.neutral(), "Robot has no attribute 'neutral'; write dynagate.neutral(robot)"),
    ("integrate", lambda _: ARM.integrate(ZERO, ZERO), "write dynagate.integrate(robot, q, v)"),
    ("effortLimit", lambda _: ARM.effortLimit, "write robot.effort"),
    # names of the package
    ("load", lambda _: dynagate.load("two_joint_arm"), "write dynagate.Robot.from_file(path), or dynagate.robots.load"),
    ("random", lambda _: dynagate.randomConfiguration(ARM), "write dynagate.Region.of(robot).sample('mass_matrix'"),
    ("rnea", lambda _: dynagate.rnea(ARM, ZERO, ZERO, ZERO), "write dynagate.compile(robot, function)"),
]


@pytest.mark.parametrize(("call", "text"), [row[1:] for row in GUESSES], ids=[row[0] for row in GUESSES])
def test_a_guess_is_answered(call: Callable[[Any], Any], text: str, design: dynagate.Design) -> None:
    with pytest.raises((dynagate.Error, AttributeError), match=re.escape(text)) as caught:
        call(design)
    assert len(str(caught.value)) < 330


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_a_guess_of_a_framework_is_answered(framework: str) -> None:
    if find_spec(framework) is None:
        pytest.skip(f"no {framework}")
    module = getattr(dynagate, framework)
    for name, text in [
        ("compile", f"write dynagate.{framework}.function(robot, function)"),
        ("forward_dynamics", "write function(robot, 'forward_dynamics')"),
        ("Rollout", "(did you mean 'rollout'?)"),
    ]:
        with pytest.raises(AttributeError, match=re.escape(text)):
            getattr(module, name)
    with pytest.raises(TypeError, match=r"'device' \(write backend\)"):
        module.function(ARM, "aba", device="cpu")
    with pytest.raises(ValueError, match="no function 'no_such'"):
        module.function(ARM, "no_such", color=1)
    accelerations = module.function(ARM, "aba", backend="numpy")
    zero = np.zeros(2) if framework == "jax" else __import__("torch").zeros(2, dtype=__import__("torch").float64)
    results = accelerations(zero, zero, zero)
    assert results.qacc is results.qdd
    for guess in (lambda: results**2, lambda: 2.0 * results, lambda: results.sum()):
        with pytest.raises((TypeError, AttributeError), match=r"write \.qdd"):
            guess()


def test_sample_of_the_answer_for_random_configurations_runs() -> None:
    q = dynagate.Region.of(dynagate.robots.load("hyq")).sample("mass_matrix", 3, 0)["q"]
    assert q.shape == (3, dynagate.robots.load("hyq").nq)


def test_steps_of_rollouts_have_one_order() -> None:
    rollout = dynagate.Rollout(ARM, 5, 0.1, device="numpy")
    assert (rollout.steps, rollout.options.dt) == (5, 0.1)


def test_an_unknown_option_lists_a_few() -> None:
    with pytest.raises(dynagate.Error) as caught:
        dynagate.compile(ARM, "aba", treads=2)  # type: ignore[call-arg]
    text = caught.value.text
    assert "(did you mean 'threads'?); expected one of threads, " in text
    assert text.endswith("or another of its 26 options") or re.search(r"or another of its \d+ options$", text)
    assert text.count(",") == 4


def test_objects_of_classes_that_answer_keep_their_own_errors() -> None:
    with pytest.raises(AttributeError, match="'Robot' object has no attribute 'no_such'"):
        _ = ARM.no_such  # type: ignore[attr-defined]
    assert not hasattr(ARM, "__array__")
    assert not hasattr(ARM, "neutral")


def test_the_fields_of_solutions_are_listed_by_their_class() -> None:
    assert {"q", "qd", "tau", "gains", "converged"} <= set(dir(dynagate.Solution))
    assert {"tau", "cost", "least"} <= set(dir(dynagate.Sampled))


def test_the_text_of_a_design_is_short(design: dynagate.Design, tmp_path: Path) -> None:
    assert repr(design).startswith("<Design two_joint_arm mass_matrix, datapath: a sample each 8 cycles, latency ")
    program = dynagate.build(ARM, "mass_matrix", units=2, folder=tmp_path)
    assert repr(program).startswith("<Design two_joint_arm mass_matrix, program: a sample each ")
    assert max(len(repr(each)) for each in (design, program)) < 120


def test_the_table_of_functions_is_complete_and_short() -> None:
    table = dynagate.FUNCTIONS
    assert {*LISTED, *FRAME_FUNCTIONS} == set(table)
    text = repr(table)
    assert all(re.search(rf"^  {name} +\S.* -> \S", text, re.MULTILINE) for name in table)
    assert len(text.splitlines()) == len(table) + 5
    assert max(map(len, text.splitlines())) < 150
    with pytest.raises(ArgumentError, match=r"expected dynagate\.trace\(robot, name, frame='NAME'\)"):
        table["frame_pose"](ARM, ZERO)


def overflowing(device: Any) -> dict[str, Any]:
    """Return inputs inside the operating region whose accelerations leave it."""
    state = dynagate.Region.of(ARM).sample("forward_dynamics", 32, 0)
    return {**state, "tau": state["tau"][::-1].copy()}


def test_an_overflow_is_reported_once() -> None:
    computed = dynagate.compile(ARM, "forward_dynamics", device="fixed")
    state = overflowing(computed)
    with pytest.warns(dynagate.OverflowWarning) as caught:
        results = computed(**state)
    count = int(results.overflow.sum())
    assert 0 < count < 32
    assert len(caught) == 1
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    for part in (
        f"{count} of 32 samples",
        "NaN",
        "region=dynagate.Region.of(robot, acceleration=...)",
        "dynagate.compile",
    ):
        assert part in text
    assert "overflow='raise'" in text
    assert repr(results).endswith(f"; {count} of 32 overflowed>")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = computed(**state)  # once for each function
    np.testing.assert_array_equal(again.overflow, results.overflow)
    larger = dynagate.compile(ARM, "forward_dynamics", device="fixed", region=dynagate.Region.of(ARM, acceleration=2e3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not larger(**state).overflow.any()  # what the warning says to write


def test_an_overflow_of_one_state_and_of_a_design_is_reported(tmp_path: Path) -> None:
    computed = dynagate.compile(ARM, "forward_dynamics", device="fixed")
    state = overflowing(computed)
    with pytest.warns(dynagate.OverflowWarning):
        k = int(np.argmax(computed(**state).overflow))
    one = {name: array[k] for name, array in state.items()}
    with pytest.warns(dynagate.OverflowWarning, match="^1 of 1 samples"):
        results = dynagate.compile(ARM, "forward_dynamics", device="fixed")(**one)
    assert repr(results).endswith("; 1 of 1 overflowed>")
    built = dynagate.build(ARM, "forward_dynamics", folder=tmp_path)
    with dynagate.open(built, device="fixed") as device, pytest.warns(dynagate.OverflowWarning, match="dynagate.build"):
        device(**state)
    with dynagate.open(built, device="fixed", overflow="raise") as device, warnings.catch_warnings():
        warnings.simplefilter("error", dynagate.OverflowWarning)
        with pytest.raises(dynagate.Error, match="samples overflowed, the first at"):
            device(**state)


def test_right_results_have_no_count_of_overflows() -> None:
    results = dynagate.compile(ARM, "aba", device="fixed")(ZERO, ZERO, ZERO)
    assert repr(results) == "<Results qdd (2,); float64>"
