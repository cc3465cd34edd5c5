"""Calls with arguments of other types: their errors name the argument, what was expected, and what is called."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import dynagate
import numpy as np
import numpy.typing as npt
import pytest
from dynagate import Policy, Region, Robot, RobotWarning, Rollout, robots, trace
from dynagate.base.explained import explained, in_words, matches
from dynagate.control import Cost
from dynagate.forces import Friction
from dynagate.host.ilqr import Ilqr

ARM = robots.load("two_joint_arm")
ZERO = np.zeros(2)
ROLLOUT = Rollout(ARM, steps=3, dt=0.01, device="numpy")
MASSES = dynagate.compile(ARM, "mass_matrix", device="numpy")


@explained
def moved(robot: str, /, by: float, *others: int, speed: float = 1.0, path: str | PathLike[str] | None = None) -> float:
    return speed + by * len(robot) + sum(others)


@explained
class Arm:
    def __init__(self, joints: Sequence[str]) -> None:
        self.joints = [joint.lower() for joint in joints]

    @classmethod
    def of(cls, count: int) -> Arm:
        return cls(["a"] * count)

    def turn(self, q: npt.ArrayLike) -> float:
        return float(np.sum(np.asarray(q) + 1.0))

    def broken(self, q: float) -> float:
        return q + {}["no such key"]


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: moved("a", None), "moved() got by=None; expected a number"),  # type: ignore[arg-type]
    (lambda: moved(3, "b"), "moved() got robot=3; expected a text; by='b'; expected a number"),  # type: ignore[arg-type]
    (lambda: moved("a"), "moved() without by; expected robot, by"),  # type: ignore[call-arg]
    (lambda: moved("a", 1.0, by=2.0), "moved() got by twice; expected it once"),  # type: ignore[misc]
    (lambda: moved("a", 1.0, sped=2.0), "keyword argument 'sped' (did you mean 'speed'?)"),  # type: ignore[call-arg]
    (lambda: Arm(3), "Arm() got joints=3; expected a sequence"),  # type: ignore[arg-type]
    (lambda: Arm([None]), "Arm() got joints=[None]; expected a sequence"),  # type: ignore[list-item]
    (lambda: Arm.of("b"), "Arm.of() got count='b'; expected a whole number"),  # type: ignore[arg-type]
    (lambda: Arm(["b"]).turn("c"), "Arm.turn() got q='c'; expected an array of numbers"),
    (lambda: Arm(["b"]).turn(1, 2), "Arm.turn() got 2 arguments without names; expected at most 1: q"),  # type: ignore[call-arg]
    (lambda: ROLLOUT(), "Rollout() without q0, qd0, tau; expected q0, qd0, tau"),  # type: ignore[call-arg]
    (lambda: dynagate.draw(ARM, ZERO, 3), "draw() got file=3; expected a text, a path or None"),  # type: ignore[arg-type]
    (
        lambda: dynagate.build(ARM, "mass_matrix", folder=3),
        "build() got folder=3; expected a text or a path",
    ),  # type: ignore[call-overload]
    (
        lambda: dynagate.compile(ARM, "mass_matrix", progress=3),
        "compile() got progress=3; expected a function or None",
    ),  # type: ignore[call-overload]
    (
        lambda: dynagate.compile(ARM, "mass_matrix", device=[None]),
        "device=[None]; expected one of numpy, fixed, cpu, cuda",
    ),  # type: ignore[call-overload]
    (
        lambda: dynagate.compile(ARM, "mass_matrix", form=ZERO),
        "compile() got form=array([0., 0.]); expected a text or None",
    ),
    (
        lambda: dynagate.build(ARM, "mass_matrix", region="all"),
        "build() got region='all'; expected a Region or None",
    ),
    (
        lambda: dynagate.build(ARM, "mass_matrix", stages=3),
        "build() got stages=3; expected a Stages or None",
    ),
    (
        lambda: dynagate.build(ARM, "mass_matrix", units=4, words=18),
        "build() got words=18; expected a text or None",
    ),
    (
        lambda: dynagate.DesignRequest(ARM, "step", samples_per_run="2"),
        "DesignRequest() got samples_per_run='2'; expected a whole",
    ),  # type: ignore[arg-type]
    (lambda: MASSES.choosing(3), "Function.choosing() got outputs=3; expected a text or a sequence"),  # type: ignore[arg-type]
    (lambda: Policy(guard_bits=float("nan")), "guard_bits=nan; expected at most"),
    (lambda: dynagate.draw(ARM, 3.0, "a.svg"), "q has shape (); expected (2,), (steps, 2) or (batch, steps, 2)"),
    (lambda: Region.of(ARM).sample("mass_matrix", 3, -1), "seed=-1; expected a whole number of 0 or more"),
    (lambda: Region.of(ARM).sample("mass_matrix", 10**30, 1), " states; expected 1 or more"),
    (lambda: MASSES.new_inputs(10**30), "batch=1000000000000000000000000000000; expected a whole number"),
    (lambda: ARM.ancestors(3), "no link 3 of robot 'two_joint_arm'; expected at most 1, or -1"),
    (
        lambda: ARM.with_frame("f", "forearm", rotation=[[1], [1, 2]]),
        "has rotation [[1], [1, 2]]; expected 3 × 3 finite numbers",
    ),
    (lambda: Robot.from_xacro("x", sped=1), "from_xacro() got an unexpected keyword argument 'sped'"),  # type: ignore[call-arg]
    (lambda: Ilqr(ARM, knots=3, dt=0.1, cost=Cost(lambda k: k.q), bounds=0), "bounds=0 leave no torque to choose"),
    (lambda: Policy(samples=-1), "samples=-1; expected a whole number of 1 or more"),
]


@pytest.mark.parametrize(("call", "text"), CALLS, ids=[text for _, text in CALLS])
def test_an_argument_of_another_type_is_named(call: Callable[[], Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(dynagate.Error, match=re.escape(text)):
        call()


def test_a_call_that_is_right_and_a_fault_of_ours_are_left_alone() -> None:
    assert moved("arm", 2, 1, 1, speed=np.float32(2.0)) == 10.0
    assert Arm.of(np.int64(2)).turn([1, 2]) == 5.0  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="no such key"):
        Arm(["b"]).broken(1.0)


TYPES: list[tuple[Any, str, list[Any], list[Any]]] = [
    (int, "a whole number", [1, np.int8(1)], [True, 1.5, "1", None]),
    (float, "a number", [1, 1.5, np.float32(1)], [True, "1", 1j]),
    (bool, "True or False", [True, np.False_], [1, "True"]),
    (str | PathLike[str] | None, "a text, a path or None", ["a", Path("a"), None], [3, b"a"]),
    (Sequence[str], "a sequence", [["a"], ("a", "b"), []], ["a", 3, [3], {"a"}]),
    (tuple[float, float], "a tuple", [(1, 2.0), [1, 2], np.ones(2)], [(1,), (1, "a"), 3]),
    (Mapping[str, float], "a mapping", [{"a": 1}, {}], [{1: 1}, {"a": "b"}, ["a"]]),
    (npt.ArrayLike, "an array of numbers", [1, [1, 2], ZERO], ["a", None, [[1], [1, 2]], 1j]),
    (Literal["a", "b"], "'a' or 'b'", ["a"], ["c", 3]),
    (Callable[[int], int], "a function", [len], [3]),
    (Robot, "a Robot", [ARM], [Robot, "arm"]),
]


@pytest.mark.parametrize(("annotation", "words", "right", "wrong"), TYPES, ids=[words for _, words, _, _ in TYPES])
def test_what_a_type_takes(annotation: Any, words: str, right: list[Any], wrong: list[Any]) -> None:
    assert in_words(annotation) == words
    assert all(matches(value, annotation) for value in right)
    assert not any(matches(value, annotation) for value in wrong)


HOSTILE: list[Any] = [
    *(None, "no such", "", b"x", 3, -1, 0, 10**30, 2.5, float("nan"), float("inf"), -1e300, True, 1j, object(), object),
    *([], [None], {}, {"x": None}, (), (1, 2, 3), range(3), {1, 2}, [[1], [1, 2]], "x" * 10**5, lambda: 1, ARM),
    *(np.zeros(0), np.zeros((2, 2, 2, 2)), np.full(2, np.nan), np.array(["a"]), Path("/none/x.urdf")),
]
ATTACKED: list[tuple[Callable[..., Any], dict[str, Any], list[str]]] = [
    (
        dynagate.open,
        {"what": ARM, "function": "mass_matrix", "device": "numpy"},
        ["form", "frame", "outputs", "forces", "progress"],
    ),
    (
        Rollout,
        {"robot": ARM, "steps": 2, "dt": 0.1, "device": "numpy"},
        ["integrator", "every", "forces", "feedback"],
    ),
    (ROLLOUT, {"q0": ZERO, "qd0": ZERO, "tau": np.zeros((3, 2))}, ["dt", "active"]),
    (MASSES, {"q": ZERO}, ["out", "outputs"]),
    (trace, {"robot": ARM, "name": "mass_matrix"}, ["form", "outputs", "dt"]),
    (Region.of, {"robot": ARM}, ["velocity", "acceleration", "effort"]),
    (Policy, {"word": 20}, ["guard_bits", "samples", "seed", "ranges", "milliseconds"]),
    (dynagate.DesignRequest, {"robot": ARM}, ["ii", "policy", "goal", "axi", "budget", "stages", "region"]),
    (dynagate.integrate, {"robot": ARM, "q": ZERO, "v": ZERO}, []),
    (Robot.from_urdf, {"path": robots.path("two_joint_arm")}, ["gravity", "lock", "lax", "velocity"]),
]


@pytest.mark.parametrize(("call", "right", "others"), ATTACKED, ids=lambda value: getattr(value, "__qualname__", ""))
def test_no_argument_ends_in_an_error_of_python(
    call: Callable[..., Any], right: dict[str, Any], others: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each argument is each hostile value once; then, by a seed, several at a time."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(7)
    names = [*right, *others]
    cases = [{**right, name: value} for name in names for value in HOSTILE]
    cases += [{**right, **{name: draw.choice(HOSTILE) for name in draw.sample(names, 2)}} for _ in range(20)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases:
            try:
                call(**case)
            except (dynagate.Error, OSError, MemoryError):
                pass
            except Exception as error:
                raise AssertionError(f"{call} of {case}") from error


def test_a_warning_points_at_the_line_of_the_caller() -> None:
    with pytest.warns(RobotWarning, match="has friction") as caught:
        dynagate.compile(ARM, "inverse_dynamics", forces=[Friction()], device="numpy")
    assert caught[0].filename == __file__
