"""Errors on purpose derive from `dynagate.Error`; a command tells them in a line, all others with a traceback."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click
import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import robots
from dynagate.base import errors
from dynagate.base.errors import ArgumentError, OutOfMemoryError
from dynagate.cli import main
from dynagate.dynamics import FRAME_FUNCTIONS, LISTED
from dynagate.dynamics.functions.aliases import ELSEWHERE, RESULTS
from dynagate.host import DesignError, DeviceError

from tests.modules import modules

BUILT_IN = {"Exception", "ValueError", "TypeError", "RuntimeError"}
FAULTS = {
    "dynagate.graph.field": 1,  # an operation without a rule, at import
    "dynagate.graph.ops": 2,  # a table without a row, at import
    "dynagate.graph.steps": 2,  # the same
    "dynagate.base.storage": 1,  # a field twice, which the reader of the file reports
    "dynagate.hw.plan.lifetimes": 1,  # a solver that fails on a problem that has a solution
    "dynagate.fixedpoint.wordlength.narrow": 1,  # the same
    "dynagate.hw.export.rtlil": 1,  # a statement that Amaranth does not write
    "dynagate.hw.export.verilog": 2,  # an operation that no gateware of ours has
}
"""How many faults of the program a module tells by an exception of Python's own."""


def raised(source: str) -> list[str]:
    """The names of the exceptions that `raise` statements make."""
    calls = [node.exc for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)]
    return [call.func.id for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)]


def test_modules_raise_errors_of_the_package() -> None:
    counts = {name: sum(each in BUILT_IN for each in raised(path.read_text())) for name, path in modules().items()}
    assert {name: count for name, count in counts.items() if count} == FAULTS


def test_every_error_class_derives_from_the_base_class() -> None:
    names = [name for name, path in modules().items() if "Error(" in path.read_text() and "cocotb" not in name]
    classes = {
        each
        for name in names
        if not name.startswith(("dynagate.sim.bench", "dynagate.sim.pcie.serve"))  # which run in the simulator alone
        and not (name.startswith("dynagate.torch") and find_spec("torch") is None)
        for each in vars(import_module(name)).values()
        if inspect.isclass(each)
        and issubclass(each, Exception)
        and each.__module__.startswith("dynagate.")
        and not issubclass(each, Warning | click.ClickException)  # of the command line
    } - {dynagate.Error}
    assert len(classes) >= 20
    assert {each for each in classes if not issubclass(each, dynagate.Error)} == set()
    assert {
        each for each in classes if not issubclass(each, ValueError | TypeError | RuntimeError | ArithmeticError)
    } == set()


@pytest.mark.parametrize(
    ("call", "built_in", "message"),
    [
        (lambda robot: dynagate.compile(robot, "mass_matrix", device="tpu"), ValueError, "device 'tpu'"),
        (lambda robot: dynagate.trace(robot, "statics"), ValueError, "no function 'statics'"),
        (
            lambda robot: dynagate.compile(robot, "mass_matrix", device="numpy")(q=["a", "b"]),
            TypeError,
            "has dtype <U1",
        ),
        (lambda robot: robots.load("atlas"), dynagate.RobotError, "no shipped robot 'atlas'"),
        (lambda robot: dynagate.open("no/design"), DesignError, "no design at"),
        (lambda robot: closed(robot)(q=np.zeros((1, 2))), DeviceError, "is closed"),
    ],
)
def test_one_class_holds_them_all(call: object, built_in: type[Exception], message: str) -> None:
    with pytest.raises(dynagate.Error, match=message) as caught:
        call(robots.load("two_joint_arm"))  # type: ignore[operator]
    assert isinstance(caught.value, built_in)


def closed(robot: dynagate.Robot) -> dynagate.Function:
    accelerator = dynagate.compile(robot, "mass_matrix", device="numpy")
    accelerator.close()
    return accelerator


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errors.ArgumentError("word 3; expected 4"), True),
        (errors.MissingExtraError("figures need matplotlib"), True),
        (ValueError("cannot reshape array"), False),
        (RuntimeError("generator raised StopIteration"), False),
        (TypeError("unhashable type"), False),
    ],
)
def test_the_class_alone_decides_what_a_command_tells(
    error: Exception, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(robots, "load", fail)
    result = CliRunner().invoke(main, ["build", "two_joint_arm"])
    if told:
        assert result.output == f"Error: {error}\n"
    else:
        assert result.exception is error
        assert any("a bug of dynagate" in note for note in error.__notes__)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fk", "it is called 'frame_pose' here: pass frame='NAME', the name of a frame or link"),
        ("framePlacement", "it is called 'frame_pose' here: pass frame='NAME'"),
        ("getFrameJacobian", "it is called 'frame_jacobian' here: pass frame='NAME'"),
        ("site_xpos", "it is called 'frame_pose' here: pass frame='NAME'"),
        ("body_jacobian", "it is called 'frame_jacobian' here: pass frame='NAME'"),
        ("placement", "it is called 'frame_pose' here: pass frame='NAME'"),
        ("frame_jacobian", "function 'frame_jacobian' without a frame; expected frame='NAME'"),
        ("frame_placement_link_7", "; functions of a frame are frame_pose, frame_velocity, frame_jacobian,"),
        ("computeTotalEnergy", "compute ['kinetic_energy', 'potential_energy'] and add them"),
        ("computeJointJacobians", "it is called 'link_jacobians' here"),
        ("mj_forward", "it is called 'forward_dynamics' here: MuJoCo adds the forces of contacts"),
        ("inertia", "it is called 'mass_matrix' here"),
        ("ForwardDynamics", "(did you mean 'forward_dynamics'?)"),
        ("torque", "(did you mean 'bias_torque' or 'gravity_torque'"),
        ("mass_matrix,bias_torque", "for the command line; write a list: ['mass_matrix', 'bias_torque']"),
        ("mass_matrix+bias_torque", "for the command line; write a list: ['mass_matrix', 'bias_torque']"),
        ("all", "for the command line; write a list: ['inverse_dynamics', 'mass_matrix',"),
        ("rollout", "function 'rollout' computes motions; write dynagate.Rollout(robot, ...)"),
        ("ilqr", "write dynagate.ilqr(...)"),
        ("mppi", "write dynagate.mppi(...)"),
    ],
)
def test_names_that_are_no_functions_are_answered(name: str, text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        dynagate.compile("two_joint_arm", name)
    assert text in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("computeABADerivatives", "forward_dynamics_gradient"),
        ("computeRNEADerivatives", "inverse_dynamics_gradient"),
        ("nonLinearEffects", "bias_torque"),
        ("computeGeneralizedGravity", "gravity_torque"),
        ("gravity", "gravity_torque"),
        ("RNEA", "inverse_dynamics"),
        ("crba_", "mass_matrix"),
        ("mj_fullM", "mass_matrix"),
    ],
)
def test_names_of_the_same_functions_elsewhere_are_accepted(name: str, own: str) -> None:
    assert dynagate.compile("two_joint_arm", name, device="numpy").function == own


def test_every_name_elsewhere_is_a_function_here() -> None:
    own = {*LISTED, *FRAME_FUNCTIONS}
    assert {row.function for row in ELSEWHERE.values()} <= own
    assert all(row.differs for row in ELSEWHERE.values() if row.function in FRAME_FUNCTIONS)
    outputs = {argument.name for row in LISTED.values() for argument in row.outputs}
    outputs |= {name for _, names, _ in FRAME_FUNCTIONS.values() for name in names.split()}
    assert {name for row in RESULTS.values() for name in row.outputs} <= outputs


@pytest.mark.parametrize("solver", ["ilqr", "mppi"])
def test_solvers_are_named_as_they_are_called(solver: str) -> None:
    call = getattr(dynagate, solver)
    with pytest.raises(TypeError, match=rf"^dynagate\.{solver}\(\) without .*cost"):
        call("two_joint_arm", knots=3, dt=0.1)
    with pytest.raises(TypeError, match=rf"^dynagate\.{solver}\(\) got an unexpected keyword argument 'knot'"):
        call("two_joint_arm", knot=3, dt=0.1)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: dynagate.build("two_joint_arm", "rollout", integrator="verlet"),
            "integrator 'verlet'; expected one of",
        ),
        (
            lambda: dynagate.Rollout("two_joint_arm", steps=3, dt=0.01, device="fixed", integrator="variational"),
            r"or a program: dynagate\.build\(robot, 'rollout', units=4, integrator='variational'\), opened on device",
        ),
        (
            lambda: dynagate.trace("two_joint_arm", "aba", form="scan"),
            r"dynagate\.compile\(robot, 'forward_dynamics', form",
        ),
    ],
)
def test_an_option_elsewhere_is_named(call: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        call()


def test_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynagate.graph.region.MAX_STATES", 10**13)  # else so many are refused before
    region = dynagate.Region.of(dynagate.robots.load("two_joint_arm"))
    with pytest.raises(
        OutOfMemoryError, match=r"^Region\.sample\(\) needs more memory than there is: Unable to allocate"
    ):
        region.sample("mass_matrix", 10**12, 0)
