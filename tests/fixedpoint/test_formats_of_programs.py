"""Formats files of programs: of several functions, of loops that solve equations, and of solvers of optimal control.
What is read gives the program that it was written of."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Function, Policy, Region, Robot, trace
from dynagate.control import Cost
from dynagate.control.chip_ilqr import ChipIlqr
from dynagate.control.chip_mppi import ChipMppi
from dynagate.fixedpoint.assign import assign
from dynagate.fixedpoint.models.files import FORMATS, FormatsError, read_formats, write_formats
from dynagate.hw.bodies.program import build_solver
from dynagate.hw.designs import Design
from dynagate.hw.processor.compiler.instructions import ProgramError
from dynagate.hw.processor.isa.shape import Core

from tests.core_programs import FLOATS, SMALL
from tests.designs import functions_of
from tests.fuzz.robots import KINDS
from tests.fuzz.robots import robot_of as drawn_robot
from tests.solver_programs import ARM, COST, MPPI, WORD, draws, problems
from tests.solver_programs import ILQR as OPTIONS

FUNCTIONS = ("inverse_dynamics", "mass_matrix", "forward_dynamics")


def program_of(built: Design) -> bytes:
    return (built.folder / "program.bin").read_bytes()


def again(built: Design, *, units: int | Core = 2, **options: Any) -> Design:
    """The program of the formats that lie in a program's folder."""
    request = {"folder": built.folder.parent, "formats": built.folder / FORMATS, **options}
    function = str(request.pop("function", built.design.function))
    return dynagate.build(built.robot, **functions_of(function), units=units, region=built.region, **request)


def called(opened: Function, name: str, names: list[str], states: dict[str, Any]) -> Any:
    """A function's results, which may be one of several of an accelerator."""
    return (getattr(opened, name) if len(names) > 1 else opened)(**states)


def equal(got: Any, expected: Any) -> None:
    for output in expected:
        np.testing.assert_array_equal(got[output], expected[output])


def robot_of(seed: int, folder: Path) -> Robot:
    """A light robot, one with quaternions, one with mimics, or an arm, of two links."""
    kind = list(KINDS)[seed % len(KINDS)]
    return drawn_robot(KINDS[kind](np.random.default_rng(seed), 2), folder)


@pytest.mark.parametrize("seed", range(5))
def test_a_program_read_is_the_program_that_was_written(seed: int, tmp_path: Path) -> None:
    """Functions, words, streams and samples side by side are drawn; the integers of what was read are made again from
    its folder alone."""
    random = np.random.default_rng(seed)
    robot = robot_of(seed, tmp_path)
    names = list(random.permutation(FUNCTIONS)[: random.integers(1, 4)])
    words = str(random.choice(["fixed", "float32"]))
    word = (
        24 if words == "fixed" else int(random.integers(18, 33))
    )  # a folder of integers holds the Verilog of its core
    samples_per_run = int(random.integers(1, 4)) if len(names) == 1 else 1
    options: dict[str, Any] = {"words": words, "samples_per_run": samples_per_run}
    policy = Policy(word=word, samples=256)
    built = dynagate.build(robot, names, per_sample=len(names) > 1, units=2, policy=policy, folder=tmp_path, **options)
    read = again(built, **options)
    assert read.hardware.core == built.hardware.core
    assert program_of(read) == program_of(built)
    assert (read.folder / FORMATS).read_text() == (built.folder / FORMATS).read_text()
    with dynagate.open(read.folder, device="fixed") as ours, dynagate.open(built, device="fixed") as theirs:
        for name in names:
            states = built.region.sample(name, 5, seed)
            equal(called(ours, name, names, states), called(theirs, name, names, states))


@pytest.mark.parametrize("core", [SMALL, FLOATS], ids=["fixed", "float32"])
def test_random_turns_on_one_core(core: Core, tmp_path: Path) -> None:
    """Programs whose formats come from files of other words are loaded one after the other."""
    random = np.random.default_rng(core.floats)
    region, path = Region.of(ARM, velocity=5.0), tmp_path / "shared.json"
    with ExitStack() as stack:
        single: Function | None = None
        for turn in range(6):
            policy = Policy(word=int(random.integers(18, 25)), samples=256)
            write_formats([assign(trace(ARM, name), region, policy) for name in FUNCTIONS], path)
            names = list(random.permutation(FUNCTIONS)[: random.integers(1, 3)])
            options: dict[str, Any] = {"formats": path, "region": region, "folder": tmp_path}
            if len(names) > 1:
                built = dynagate.build(ARM, names, per_sample=True, units=core, **options)
                chip = stack.enter_context(dynagate.open(built))
            else:
                built = dynagate.build(ARM, *names, units=core, samples_per_run=int(random.integers(1, 3)), **options)
                if single is None:
                    single = stack.enter_context(dynagate.open(built))
                else:
                    single.load(built)
                chip = single
            integers = stack.enter_context(dynagate.open(built, device="fixed"))
            for name in names:
                states = region.sample(name, int(random.integers(1, 9)), turn)
                equal(called(chip, name, names, states), called(integers, name, names, states))
        assert single is not None


def test_a_file_of_several_functions_serves_each_of_them(tmp_path: Path) -> None:
    options: dict[str, Any] = {"units": 2, "policy": Policy(word=20), "words": "float32", "folder": tmp_path}
    built = dynagate.build(ARM, ["inverse_dynamics", "mass_matrix"], per_sample=True, **options)
    alone = dynagate.build(ARM, "mass_matrix", **options)
    assert program_of(again(built, function="mass_matrix", words="float32")) == program_of(alone)
    (other,) = trace(ARM, "mass_matrix").outputs
    assert read_formats(trace(ARM, "mass_matrix"), built.folder / FORMATS).graph.outputs[0].name == other.name
    text = r"is for two_joint_arm inverse_dynamics,mass_matrix; expected two_joint_arm forward_dynamics \[DG-"
    with pytest.raises(FormatsError, match=text):
        again(built, function="mass_matrix,forward_dynamics")
    with pytest.raises(FormatsError, match=r"expected hyq mass_matrix \[DG-"):
        dynagate.build("hyq", "mass_matrix", units=2, folder=tmp_path, formats=built.folder / FORMATS)
    core = replace(SMALL, word=18)
    with pytest.raises(
        ProgramError, match=r"node '\S+' has 20 bits, 2 more than the core's words of 18; .* word=20 \[DG-"
    ):
        again(built, units=core)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    "options", [{}, {"integrator": "variational"}, {"integrator": "position_based", "tolerance": 2e-3}], ids=str
)
def test_a_rollout_read_is_the_rollout_that_was_written(options: dict[str, Any], tmp_path: Path) -> None:
    """The tolerance that was found is in the file, which is for no other options."""
    asked: dict[str, Any] = {"dt": 0.005, "words": "float32", **options}
    region = Region.of(ARM, velocity=3.0)
    policy = Policy(word=22, samples=256)
    built = dynagate.build(ARM, "rollout", units=2, policy=policy, region=region, folder=tmp_path, **asked)
    read = again(built, **asked)
    assert program_of(read) == program_of(built)
    assert read.design.options == built.design.options
    assert ("tolerance" in read.design.options) == bool(options)
    states = region.sample("forward_dynamics", 3, 1)
    starts = states["q"], states["qd"], np.repeat(states["tau"][:, None], 3, axis=1)
    with dynagate.open(read.folder, device="fixed") as ours, dynagate.open(built, device="fixed") as theirs:
        np.testing.assert_array_equal(ours(*starts).q, theirs(*starts).q)
    with pytest.raises(FormatsError, match=r"is for rollout with dt=0\.005; expected dt=0\.01 \[DG-"):
        again(built, **{**asked, "dt": 0.01})
    if options:
        with pytest.raises(FormatsError, match=r"is for rollout with tolerance=\S+; expected tolerance=0\.001 \[DG-"):
            again(built, **{**asked, "tolerance": 1e-3})
        other = "variational" if options["integrator"] == "position_based" else "position_based"
        with pytest.raises(
            FormatsError, match=f"is for rollout with integrator='{options['integrator']}'; expected .*{other}"
        ):
            again(built, **{**asked, "integrator": other})


@pytest.fixture(scope="module")
def solver() -> ChipIlqr:
    return ChipIlqr.of(ARM, COST, replace(OPTIONS, knots=3, iterations=2))


@pytest.fixture(scope="module")
def solved(solver: ChipIlqr, tmp_path_factory: pytest.TempPathFactory) -> Design:
    return build_solver(solver, problems(ARM, 6, 0), 2, word=WORD, folder=tmp_path_factory.mktemp("solver"))


def test_a_solver_read_solves_no_problems(solver: ChipIlqr, solved: Design, tmp_path: Path) -> None:
    steps: list[str] = []
    formats = solved.folder / FORMATS
    read = build_solver(solver, {}, 2, word=24, folder=tmp_path, formats=formats, progress=steps.append)
    assert steps == ["fusing and scheduling"]
    assert read.hardware.core == solved.hardware.core
    assert program_of(read) == program_of(solved)
    assert read.design.formats.word == "given"
    assert (read.folder / FORMATS).read_text() == formats.read_text()


def test_formats_of_mppi_serve_any_number_of_samples_side_by_side(tmp_path: Path) -> None:
    sampler = ChipMppi.of(ARM, COST, replace(MPPI, knots=2, nodes=2, samples=2))
    options: dict[str, Any] = {"word": WORD, "folder": tmp_path}
    one, two = (build_solver(sampler, draws(6, 0), 2, samples_per_run=count, **options) for count in (1, 2))
    formats = one.folder / FORMATS
    assert formats.read_text() == (two.folder / FORMATS).read_text()
    assert program_of(build_solver(sampler, {}, 2, samples_per_run=2, formats=formats, **options)) == program_of(two)
    assert program_of(one) != program_of(two)
    other = ChipMppi.of(ARM, COST, replace(sampler.options, temperature=0.5))
    with pytest.raises(FormatsError, match=r"is for mppi with temperature=0\.3; expected temperature=0\.5 \[DG-"):
        build_solver(other, {}, 2, formats=formats, **options)


def graphs_of(content: dict[str, Any]) -> list[Any]:
    graphs: list[Any] = content["functions"]["ilqr"]["graphs"]
    return graphs


@pytest.mark.parametrize(
    ("options", "cost", "change", "text"),
    [
        ({"knots": 4}, COST, None, r"is for ilqr with knots=3; expected knots=4 \[DG-"),
        ({"iterations": 3}, COST, None, r"is for ilqr with iterations=2; expected iterations=3 \[DG-"),
        ({}, Cost.quadratic(q=1.0, qd=0.1, tau=2e-2, final=10.0), None, r"has the constant \S+; the graph has \S+: "),
        (
            {},
            COST,
            lambda c: graphs_of(c).pop(),
            r"has formats of \d+ graphs for ilqr; expected \d+: trace it alike \[DG-",
        ),
        ({}, COST, lambda c: graphs_of(c).reverse(), r"has a format for '\S+', which the graph does not have"),
        ({}, COST, lambda c: graphs_of(c)[1].update(formats=None), r"'formats' is None; expected an object \[DG-"),
        ({}, COST, lambda c: c["functions"]["ilqr"].update(options=3), r"'options' is 3; expected an object \[DG-"),
        ({}, COST, lambda c: c["functions"].update(ilqr=[]), r"functions, 'ilqr' has no list of graphs, each an"),
    ],
    ids=["knots", "iterations", "cost", "a graph less", "order", "a graph without", "options", "a list"],
)
def test_a_file_of_another_solver_is_refused(
    options: dict[str, Any],
    cost: Cost,
    change: Callable[[dict[str, Any]], Any] | None,
    text: str,
    solved: Design,
    tmp_path: Path,
) -> None:
    content = json.loads((solved.folder / FORMATS).read_text())
    if change is not None:
        change(content)
    path = tmp_path / FORMATS
    path.write_text(json.dumps(content))
    other = ChipIlqr.of(ARM, cost, replace(OPTIONS, **{"knots": 3, "iterations": 2, **options}))
    with pytest.raises(FormatsError, match=text):
        build_solver(other, {}, 2, word=WORD, folder=tmp_path / "new", formats=path)
    assert not (tmp_path / "new").exists()


def test_a_datapath_and_a_program_read_the_same_file(tmp_path: Path) -> None:
    datapath = dynagate.build(ARM, "mass_matrix", ii=4, policy=Policy(word=20), folder=tmp_path)
    program = dynagate.build(ARM, "mass_matrix", units=2, policy=Policy(word=20), words="float32", folder=tmp_path)
    assert (datapath.folder / FORMATS).read_text() == (program.folder / FORMATS).read_text()
    read = dynagate.build(ARM, "mass_matrix", ii=4, formats=program.folder / FORMATS, folder=tmp_path)
    assert read.formatted == datapath.formatted
