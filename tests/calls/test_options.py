"""Options that are refused by name before any work, and options that must not be forgotten."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Axi, Region, Robot, RobotError, Rollout, robots
from dynagate.forces import Friction, Stops
from dynagate.forces.options import AlgorithmOptions, StepOptions

ARM = robots.load("two_joint_arm")


def rollout(**options: Any) -> Rollout:
    return Rollout(ARM, **{"steps": 3, "dt": 0.01, **options})


def opened(**options: Any) -> Any:
    return dynagate.compile(ARM, **{"function": "step", **options})


REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (rollout, {"dt": True}, "dt=True; expected a time step of more than 0 s"),
    (rollout, {"dt": "0.1"}, "dt='0.1'; expected a time step of more than 0 s"),
    (rollout, {"linearize": 1}, "linearize=1; expected True or False"),
    (rollout, {"steps": True}, "steps=True; expected a whole number of 1 or more"),
    (rollout, {"every": True}, "every=True of 3 steps; expected a whole number that divides them"),
    (Friction, {"speed": True}, "friction has speed True; expected a speed of more than 0"),
    (opened, {"dt": True}, "dt=True; expected a time step of more than 0 s"),
    (opened, {"pack": "no"}, "pack='no'; expected True or False"),
    (AlgorithmOptions, {"prefix": "no"}, "prefix='no'; expected True or False"),
    (AlgorithmOptions, {"variable_dt": 0.1}, "variable_dt=0.1; expected True or False"),
    (AlgorithmOptions, {"dt": -1.0}, "dt=-1.0; expected a time step of more than 0 s"),
    (Axi, {"choice": "no"}, "choice='no'; expected True or False"),
]


@pytest.mark.parametrize(("taker", "options", "text"), REFUSED)
def test_what_is_no_value_of_an_option(taker: Callable[..., Any], options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(text)} \[DG-"):
        taker(**options)


def test_step_options_take_friction_as_one_force_or_refuse_it_by_name() -> None:
    with pytest.raises(
        TypeError, match=r"keyword argument 'friction' \(write forces=\[dynagate.forces.Friction\(\)\]\)"
    ):
        StepOptions(0.01, friction=0.3)  # type: ignore[call-arg]
    for kind in (StepOptions, AlgorithmOptions):
        with pytest.raises(ValueError, match=r"forces has 2 of Friction: Friction\(force=0.3, .*expected at most one"):
            kind(forces=[Friction(0.3), "Friction(0.1)"])
    with pytest.raises(ValueError, match="forces has 2 of Friction"):
        Region.of(ARM).sample("forward_dynamics", 4, 1, forces=[Friction(0.3), Friction(0.1)])


def test_all_options_of_a_step_arrive_in_a_trace_a_rollout_and_a_solver() -> None:
    options = AlgorithmOptions(dt=0.02, integrator="euler", form="aba", implicit_damping=True)
    by_keyword = dynagate.trace(ARM, "step", dt=0.02, integrator="euler", form="aba", implicit_damping=True)
    assert dynagate.trace(ARM, "step", options) == by_keyword != dynagate.trace(ARM, "step")
    step = {**options.step().of_step(), "forces": [Friction(0.3), Stops()]}
    cost = dynagate.control.Cost.quadratic(q=1.0)
    assert rollout(device="numpy", **step).options == StepOptions(**step)
    assert dynagate.ilqr(ARM, knots=3, cost=cost, device="numpy", **step).step.step == StepOptions(**step)
    assert AlgorithmOptions.of_record(AlgorithmOptions(**step).as_dict()) == AlgorithmOptions(**step)


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"form": "aba"}, "options and form='aba'; expected one of them"),
        ({"forces": [Friction(0.3)]}, "options and forces=[Friction(force=0.3, speed=0.01)]; expected one of them"),
    ],
)
def test_a_trace_takes_options_in_one_object_or_by_keyword(keywords: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        dynagate.trace(ARM, "forward_dynamics", AlgorithmOptions(), **keywords)
    with pytest.raises(ValueError, match="has no option 'constrained'"):
        dynagate.trace(ARM, "forward_dynamics", AlgorithmOptions(constrained=True))


def test_numbers_of_numpy_are_numbers() -> None:
    few = rollout(steps=np.int64(4), every=np.int32(2), dt=np.float64(0.01), linearize=np.bool_(False))
    assert few(np.zeros(2), np.zeros(2), np.zeros((4, 2))).q.shape == (3, 2)


def test_a_build_refuses_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="linearize='no'; expected True or False"):
        dynagate.build(ARM, "rollout", linearize="no", folder=tmp_path)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_rotor_without_a_gear() -> None:
    with pytest.raises(RobotError, match="gear 0 of joint 'elbow'; expected turns of the rotor for each turn"):
        ARM.with_armature(1e-4, [100.0, 0.0])


def test_a_multiplier_that_is_empty(tmp_path: Path) -> None:
    text = robots.path("two_joint_arm").read_text()
    empty = text.replace("</joint>", '<mimic joint="shoulder" multiplier=""/></joint>')
    head, *rest = empty.split('<mimic joint="shoulder" multiplier=""/>', 1)
    (tmp_path / "arm.urdf").write_text("".join([head, *rest]))
    with pytest.raises(RobotError, match=r"<mimic multiplier=''>; expected 1 finite number"):
        Robot.from_urdf(tmp_path / "arm.urdf")


def test_overflow_of_a_rollout_design(tmp_path: Path) -> None:
    """`diverged` says which overflowed; nothing is raised."""
    built = dynagate.build(ARM, "rollout", ii=16, region=Region.of(ARM), folder=tmp_path)
    for what in (built, built.folder):
        with pytest.raises(ValueError, match=r"overflow='raise' of a rollout; expected 'mask': `diverged` says which"):
            dynagate.open(what, device="fixed", overflow="raise")


def test_packed_results_of_several_functions_unpack(tmp_path: Path) -> None:
    built = dynagate.build(ARM, ["mass_matrix", "inverse_dynamics"], per_sample=True, ii=16, folder=tmp_path)
    q = np.array([[0.1, -0.4], [0.3, 0.2]])
    with dynagate.open(built, device="numpy") as whole, dynagate.open(built, device="numpy", pack=True) as packed:
        expected, results = whole.mass_matrix(q=q), packed.mass_matrix(q=q)
        assert results.m.shape == (2, 3)
        assert np.array_equal(packed.mass_matrix.unpack(results).m, expected.m)
