"""Arguments that no function can have been meant to get: an error of the package in a line, in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import AlgorithmOptions, Region, Robot, robots
from dynagate.cli import main
from dynagate.control import Cost
from dynagate.dynamics import function
from dynagate.forces import CompliantContact, Contact, Friction, Point
from dynagate.forces.contact import contact_points
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.implicit.variational_method import VariationalIntegrator
from dynagate.robot import Constraint
from dynagate.robot.random_chain import random_chain

from tests.effort import at_most_calls

ARM = robots.load("two_joint_arm")
CALLS_OF_A_REFUSAL = 10_000_000
"""Function calls within which a wrong argument is refused: a few seconds, imports of modules included."""
COST = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=10.0)
NO_ROBOTS: dict[str, Any] = {
    "bytes": b"two_joint_arm",
    "nothing": None,
    "a number": 3,
    "a class": Robot,
}
CALLS: dict[str, Callable[[Any], object]] = {
    "build": lambda robot: dynagate.build(robot, "forward_dynamics_gradient"),
    "build a rollout": lambda robot: dynagate.build(robot, "rollout"),
    "compile": lambda robot: dynagate.compile(robot, "mass_matrix"),
    "trace": lambda robot: dynagate.trace(robot, "mass_matrix"),
    "region": Region.of,
}


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("case", list(NO_ROBOTS))
def test_what_is_no_robot_is_named(case: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        TypeError, match=r"robot is .*; expected a Robot, a name such as 'two_joint_arm', or the path"
    ) as error:
        CALLS[call](NO_ROBOTS[case])
    assert isinstance(error.value, dynagate.Error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", [None, 3, [], Robot, b"two_joint_arm", np.zeros(2)])
def test_what_cannot_be_opened_is_named(what: Any) -> None:
    with pytest.raises(
        TypeError, match=r"open\(\) got .*; expected what dynagate.build returned, or the path of its folder"
    ):
        dynagate.open(what)


TOO_LARGE: dict[str, Callable[[], object]] = {
    "dt of a rollout": lambda: dynagate.Rollout(ARM, steps=3, dt=1e300, device="numpy"),
    "dt of a step": lambda: dynagate.compile(ARM, "step", dt=1e300, device="numpy"),
    "dt that float64 cannot hold": lambda: dynagate.Rollout(ARM, steps=3, dt=10**400, device="numpy"),
    "friction that float64 cannot hold": lambda: dynagate.compile(ARM, "inverse_dynamics", forces=[Friction(10**400)]),
    "the largest dt": lambda: dynagate.compile(ARM, "step", dt=1e308, device="numpy"),
    "dt of a design": lambda: dynagate.build(ARM, "rollout", dt=1e300),
    "friction": lambda: dynagate.compile(ARM, "inverse_dynamics", forces=[Friction(1e308)]),
    "friction of one joint": lambda: dynagate.compile(ARM, "inverse_dynamics", forces=[Friction([1e308, 0.0])]),
    "friction of a design": lambda: dynagate.build(ARM, "inverse_dynamics", forces=[Friction(1e300)]),
    "friction's speed": lambda: dynagate.compile(ARM, "forward_dynamics", forces=[Friction(1.0, 1e308)]),
}


@pytest.mark.parametrize("case", list(TOO_LARGE))
def test_numbers_that_become_too_large_are_refused(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = r"expected (a (time step|speed) of more than 0( s)?|True, or numbers of 0 or more .*), at most 1e\+12"
    with pytest.raises(ValueError, match=expected) as e, at_most_calls(CALLS_OF_A_REFUSAL):
        TOO_LARGE[case]()
    assert isinstance(e.value, dynagate.Error)
    assert list(tmp_path.iterdir()) == []


POINTS = [Point(ARM.links[-1].name, (0.0, 0.0, 0.1))]
SIZES: dict[str, tuple[Callable[[], object], str]] = {
    "power of a contact's depth": (
        lambda: dynagate.Rollout(ARM, steps=2, dt=0.01, forces=[Contact(POINTS, alpha=1e9)]),
        r"contact has alpha .*; expected at most 16",
    ),
    "power of a compliant contact's depth": (
        lambda: dynagate.Rollout(ARM, steps=2, dt=0.01, forces=[CompliantContact(POINTS, exponent=1e9)]),
        r"contact has exponent .*; expected a whole number, 1 or more, at most 16",
    ),
    "sweeps over contacts": (
        lambda: RigidContact(POINTS, sweeps=10**12),
        "sweeps=10+; expected a whole number, at most 100000",
    ),
    "points around a rim": (
        lambda: contact_points([], around=10**9),
        "around=10+; expected a whole number, at most 1000",
    ),
    "steps": (
        lambda: dynagate.Rollout(ARM, steps=10**12, dt=0.01),
        r"steps=10+; expected a whole number, at most 1e\+07",
    ),
    "knots": (
        lambda: dynagate.ilqr(ARM, knots=10**12, dt=0.01, cost=COST),
        "knots=10+; expected a whole number, at most 100000",
    ),
    "samples": (
        lambda: dynagate.mppi(ARM, knots=3, samples=10**12, dt=0.01, cost=COST, temperature=1.0, spread=1.0),
        r"samples=10+; expected a whole number, at most 1e\+06",
    ),
    "iterations": (
        lambda: dynagate.ilqr(ARM, knots=3, iterations=10**12, dt=0.01, cost=COST),
        "iterations=10+; expected a whole number, at most 100000",
    ),
    "iterations of a step": (lambda: VariationalIntegrator(iterations=10**12), "iterations=10+; .* at most 100000"),
    "states": (lambda: Region.of(ARM).sample("mass_matrix", 10**9, 1), "10+ states; expected .* at most 10000000"),
    "samples of formats": (lambda: dynagate.Policy(samples=10**9), "samples=10+; expected at most 10000000"),
    "states of a goal": (lambda: dynagate.Goal(1e-3, fresh=10**9), r"fresh=10+; .* at most 1e\+07"),
    "threads": (
        lambda: dynagate.compile(ARM, "mass_matrix", threads=10**9),
        "10+ threads; expected 1 or more, at most 1024",
    ),
    "links": (lambda: random_chain(10**9, 1), "a chain of 10+ links; expected 1 or more, at most 10000"),
    "contacts in a loop": (
        lambda: replace(ARM, constraints=tuple(Constraint(f"f{k}") for k in range(10**5))),
        "the 100000 constraints of robot 'two_joint_arm' have 300000 rows; expected at most 300",
    ),
    "equalities of a file": (
        lambda: read_connects(1000),
        "the 1000 constraints of robot '.*' have 3000 rows; expected at most 300",
    ),
    "units": (
        lambda: dynagate.build(ARM, "mass_matrix", units=10**9),
        "units 10+ of a core; expected 2 to 8",
    ),
    "words": (lambda: dynagate.build(ARM, "mass_matrix", word=10**9), "word 10+; expected 4 to 32 bits"),
    "samples in lanes": (
        lambda: dynagate.build(ARM, "mass_matrix", units=2, samples_per_run=10**9),
        "samples_per_run 10+; expected 1 to 4 samples",
    ),
    "cycles": (
        lambda: dynagate.build(ARM, "mass_matrix", ii=10**12),
        "initiation interval 10+; .* from 1 to 65535 cycles",
    ),
    "bits of a stream": (lambda: dynagate.Axi(width=10**9), "stream of 10+ bits; expected one of 32, 64"),
    "a batch": (
        lambda: dynagate.compile(ARM, "mass_matrix", device="numpy").new_inputs((10**6, 10**6)),
        r"batch=\(1000000, 1000000\); expected at most 1e\+10 samples",
    ),
    "a budget": (lambda: dynagate.Budget(dsp=float("nan")), "dsp=nan; expected a whole number of 0 or more"),  # type: ignore[arg-type]
    "a limit": (lambda: Region.of(ARM, effort=1e-320), "effort=.*; expected positive numbers"),
}


def read_connects(count: int) -> Robot:
    """Read a file of MuJoCo's with two free bodies that are connected at many points."""
    bodies = "".join(f'<body name="{name}"><freejoint/><geom size="0.1"/></body>' for name in "ab")
    points = "".join(f'<connect body1="a" body2="b" anchor="{k} 0 0"/>' for k in range(count))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "r.xml"
        path.write_text(f"<mujoco><worldbody>{bodies}</worldbody><equality>{points}</equality></mujoco>")
        return Robot.from_mjcf(path)


@pytest.mark.parametrize("case", list(SIZES))
def test_sizes_have_a_largest(case: str) -> None:
    """Of everything that is unrolled, allocated or computed; refused by name before any work."""
    call, message = SIZES[case]
    with pytest.raises(dynagate.Error, match=message), at_most_calls(CALLS_OF_A_REFUSAL):
        call()


def test_numpys_numbers_are_options_like_pythons(tmp_path: Path) -> None:
    """Every number of a request, and of what is in it, has Python's type: int8 overflows, and JSON has no float16."""
    kinds = {"units": np.int8, "samples_per_run": np.uint8, "word": np.int16}
    numbers = {"units": 3, "samples_per_run": 2, "word": 20}
    plain, own = (
        dynagate.build(ARM, "gravity_torque", folder=tmp_path, **options)
        for options in (numbers, {name: kind(numbers[name]) for name, kind in kinds.items()})
    )
    assert plain.folder == own.folder
    options = AlgorithmOptions(dt=np.float16(0.5), tolerance=np.longdouble(0.5), linearize=np.bool_(True))  # type: ignore[arg-type]
    assert [type(x) for x in (options.dt, options.tolerance, options.linearize)] == [float, float, bool]
    assert type(VariationalIntegrator(iterations=np.int8(9)).iterations) is int


NO_OPTIONS: dict[str, Callable[[Any], object]] = {
    "units": lambda value: dynagate.build(ARM, "gravity_torque", units=value),
    "samples_per_run": lambda value: dynagate.build(ARM, "gravity_torque", units=2, samples_per_run=value),
    "dt": lambda value: AlgorithmOptions(dt=value),
    "tolerance": lambda value: AlgorithmOptions(tolerance=value),
    "variable": lambda value: ARM.with_variable(value),
    "outputs": lambda value: AlgorithmOptions(outputs=value),
    "forces": lambda value: AlgorithmOptions(forces=value),
    "error": dynagate.Goal,
    "dsp": lambda value: dynagate.Goal(1e-3, dsp=value),
    "guess": lambda value: VariationalIntegrator(guess=value),
    "width": lambda value: dynagate.Axi(width=value),
    "folder": lambda value: dynagate.build(ARM, "gravity_torque", folder=value),
}


@pytest.mark.parametrize(
    "value", [np.int8(-3), np.timedelta64(3), np.array("q"), np.array([3, 4]), np.void(b"ab"), "\0"], ids=repr
)
@pytest.mark.parametrize("option", list(NO_OPTIONS))
def test_what_is_no_option_is_named(option: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if isinstance(value, str) and option in ("variable", "outputs", "forces"):
        return  # names, which are looked up once there is a function
    with pytest.raises(dynagate.Error):
        NO_OPTIONS[option](value)
    assert list(tmp_path.iterdir()) == []


def called(name: str) -> Robot:
    return replace(ARM, links=(ARM.links[0], replace(ARM.links[1], name=name)))


@pytest.mark.parametrize("name", ["self", "inputs", "batch", "double", "class", "None", "__init__", "overflow"])
def test_a_variable_link_may_have_any_name_that_is_no_argument(name: str) -> None:
    robot = called(name)
    inputs: dict[str, Any] = {"q": np.array([0.1, 0.2]), "qd": np.ones(2), "qdd": np.zeros(2)}
    with dynagate.compile(robot.with_variable(name), "inverse_dynamics", device="numpy") as accelerator:
        own = {**inputs, name: robot.links[1].parameters()}
        results = [accelerator(**own), accelerator.submit(**own).result(), accelerator.bind(**own)()]
    expected = dynagate.compile(ARM, "inverse_dynamics", device="numpy")(**inputs).tau
    for result in results:
        np.testing.assert_allclose(result.tau, expected, rtol=1e-12)


@pytest.mark.parametrize(("name", "own"), [("a b", "a_b"), ("a-b", "a_b"), ("1st", "_1st"), ("a.mass", "a_mass")])
def test_an_input_has_other_characters_of_a_name_as_underlines(name: str, own: str) -> None:
    assert list(called(name).with_variable(name).parameters) == [own]


@pytest.mark.parametrize("name", ["out", "outputs", "q", "qdd", "", "ü", "x" * 10**6 + "-"])
def test_a_variable_link_that_cannot_be_an_input_is_named(name: str) -> None:
    text = "cannot be (the input .* is not q, qd, qdd, f_ext, out, outputs|an input; expected a name with letters or)"
    with pytest.raises(ValueError, match=text):
        dynagate.compile(called(name).with_variable(name), "inverse_dynamics", device="numpy")


FRAMES = [
    "f" * 300,
    "f" * 101,
    "x" * 5000,
    "a/b",
    "../../x",
    "a b",
    "ü",
    "%s",
    "a:b",
    "-x",
    "a\\b",
    "$(touch x)",
    "`x`",
    "a\nb",
]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("row", ["frame_pose", "frame_jacobian"])
def test_a_frame_that_cannot_be_part_of_a_name_is_named(row: str, frame: str) -> None:
    with pytest.raises(ValueError, match="cannot be part of a function's name; give it one of up to 100 letters"):
        function(f"{row}_{frame}")


def test_a_frame_of_the_longest_name_has_a_design(tmp_path: Path) -> None:
    robot = replace(ARM, name="r" * 300).with_frame("f" * 100, on="forearm")
    built = dynagate.build(robot, f"frame_velocity_{'f' * 100}", folder=tmp_path)
    assert built.module("datapath").is_file()


LINES = [
    f"build two_joint_arm --function frame_pose_{'f' * 300}",
    f"emit two_joint_arm --folder out --function frame_pose_{'f' * 300}",
    "build two_joint_arm --function rollout --dt 1e300",
    "build two_joint_arm --function inverse_dynamics --force Friction(1e308)",
    "build r.xacro",
    "info r.xacro",
    "build missing.toml",
]


@pytest.mark.parametrize("line", LINES, ids=[line[:50] for line in LINES])
def test_a_command_ends_in_a_line(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, line.split())
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Error: " in result.output
    assert list(tmp_path.iterdir()) == []
