"""Forward dynamics of serial chains by prefix sums and by odd-even elimination, traced, and in the loops over long
chains of `examples/parallel`."""

from __future__ import annotations

import ctypes
import json
import operator
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pinocchio
import pytest
from click.testing import CliRunner
from dynagate import FUNCTIONS, Region, Robot, RobotError, evaluate, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.control import Cost
from dynagate.dynamics.serial_chains.block_tridiagonal import odd_even_elimination
from dynagate.dynamics.serial_chains.linear_recursion import linear_recursion
from dynagate.dynamics.spatial import array
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.graph import Graph, GraphWarning
from dynagate.graph.reference_gradient import relative_errors
from dynagate.graph.single_precision import check_single_precision
from dynagate.native.chains.numbers import ChainNumbers
from dynagate.native.chains.warp import FORMS, WarpChain, shared_numbers, warp_source
from dynagate.native.compile import CUDA, library
from dynagate.operators.compute import CompiledCompute
from dynagate.operators.creation import operator as operator_of
from dynagate.robot.random_chain import random_chain
from parallel.loops import ALGORITHMS, ForwardDynamics, forward_dynamics

from tests.oracle import pinocchio_of, reference
from tests.played_card import ON_HOST, live, needs_nvcc, play_card
from tests.samples import inputs_of, states

SCAN_FORMS = ("jsiia", "abia")
FORCE_FORMS = ("cfa", "cfa_refined")
ANY_NUMBER = (1, 2, 3, 5, 6, 9, 13, 17)
LENGTHS = (*ANY_NUMBER, 33, 50, 100, 200)


@pytest.mark.parametrize("scan", [True, False])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", ANY_NUMBER)
def test_linear_recursion_solves_the_bidiagonal_system(count: int, reverse: bool, scan: bool) -> None:
    random = np.random.default_rng(count)
    maps, constants = random.normal(size=(count, 3, 3)), random.normal(size=(count, 3))
    system = np.eye(3 * count)
    for i in range(1, count):
        row, column = (i - 1, i) if reverse else (i, i - 1)
        system[3 * row : 3 * row + 3, 3 * column : 3 * column + 3] = -maps[row]
    expected = np.linalg.solve(system, constants.ravel()).reshape(count, 3)
    x = linear_recursion(maps, constants, operator.matmul, operator.matmul, "part", reverse=reverse, scan=scan)
    np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", ANY_NUMBER)
def test_block_tridiagonal_systems(count: int) -> None:
    """Blocks of different sizes, as joints with and without a rotor make them."""
    random = np.random.default_rng(count)
    ends = np.cumsum([0, *random.integers(1, 7, count)])
    parts = [slice(a, b) for a, b in pairwise(ends)]
    matrix = np.zeros((ends[-1], ends[-1]))
    for own, following in zip(parts, [*parts[1:], parts[-1]], strict=True):
        both = slice(own.start, following.stop)
        root = random.normal(size=(both.stop - both.start, both.stop - both.start))
        matrix[both, both] += root @ root.T + np.eye(len(root))
    right = random.normal(size=ends[-1])
    diagonal = [array(matrix[p, p]) for p in parts]
    upper = [array(matrix[p, following]) for p, following in pairwise(parts)]
    x = odd_even_elimination(diagonal, upper, [array(right[p]) for p in parts])
    expected = np.linalg.solve(matrix, right)
    np.testing.assert_allclose(np.concatenate(x).astype(float), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("count", "prismatic", "armature", "pushed"),
    [(1, 0.0, 0.0, False), (2, 1.0, 0.2, True), (3, 0.0, 0.2, False), (5, 0.4, 0.2, True), (6, 0.0, 0.0, True)],
)
def test_scan_forms_agree_with_pinocchio(count: int, prismatic: float, armature: float, pushed: bool) -> None:
    robot = random_chain(count, 1, prismatic=prismatic, armature=armature)
    state = states(robot, 3, seed=count, external_forces=pushed)
    expected = reference(robot, pinocchio_of(robot), state)
    for name, output, forms in [
        ("inverse_dynamics", "tau", ("prefix",)),
        ("forward_dynamics", "qdd", SCAN_FORMS + FORCE_FORMS),
    ]:
        assert set(forms) <= set(FUNCTIONS[name].forms_for(robot))
        for form in forms:
            graph = trace(robot, name, form=form, external_forces=pushed)
            got = evaluate(graph, inputs_of(name, state, external_forces=pushed))[output]
            # constraint forces are a thousand times what accelerates the joints here, and cancel
            bound = 1e-9 if form == "cfa" else 1e-12
            assert relative_errors(got, expected[output]).max() <= bound, form


@cache
def depth(form: str, count: int) -> int:
    return trace(random_chain(count, 1), "forward_dynamics", form=form).counts().depth


@pytest.mark.long
def test_constraint_forces_take_a_path_that_grows_with_the_logarithm() -> None:
    """Twice the links: one more step of odd-even elimination and of each scan. Link by link, twice the path."""
    steps = [depth("cfa", 2 * n) - depth("cfa", n) for n in (3, 6)]
    assert all(0 < step <= 30 for step in steps), steps
    assert depth("cfa", 12) < 0.4 * depth("aba", 12)
    assert depth("aba", 12) > 1.9 * depth("aba", 6)


def sample(count: int, batch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(count)
    q = random.uniform(-np.pi, np.pi, (batch, count))
    return q, random.uniform(-1.0, 1.0, (batch, count)), random.uniform(-1.0, 1.0, (batch, count))


def by_pinocchio(robot: Robot, q: np.ndarray, qd: np.ndarray, tau: np.ndarray) -> np.ndarray:
    model = pinocchio_of(robot)
    data = model.createData()
    return np.array([pinocchio.aba(model, data, *one).copy() for one in zip(q, qd, tau, strict=True)])


def bound(count: int) -> float:
    """Of the relative error of q̈ in float64."""
    return 1e-11 if count <= 10 else 1e-9 if count <= 50 else 5e-9


FLOAT32 = {"aba": 1e-4, "jsiia": 0.1, "abia": 1e-2, "cfa": 0.5}
"""Up to 200 links; docs/parallel.md has what was measured."""


@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(each, marks=[] if each in ("abia", "jsiia") else [pytest.mark.long]) for each in ALGORITHMS],
)
def test_long_chains_agree_with_pinocchio(algorithm: str) -> None:
    """Nineteen samples: whole vectors and a part of one."""
    for count in (9, 100) if algorithm == "aba" else LENGTHS:  # a library for each chain, or one for all
        robot = random_chain(count, 2)
        state = sample(count, 19)
        expected = by_pinocchio(robot, *state)
        got = forward_dynamics(robot, algorithm)(*state)
        assert relative_errors(got, expected).max() <= bound(count), count
        single = forward_dynamics(robot, algorithm, np.float32, checked=False)(*(x.astype(np.float32) for x in state))
        assert single.dtype == np.float32
        assert relative_errors(single, expected).max() <= FLOAT32[algorithm], count


SLIDING = random_chain(10, 5, prismatic=0.4, armature=0.2)
"""A chain that constraint forces compute inaccurately in float32."""
WRONG = r"form 'cfa' in float32 errs by 7\.5 % for robot 'chain_10', whose chain has 10 links; at most 1 % is accepted"


def test_forms_that_are_wrong_in_float32_are_refused(tmp_path: Path) -> None:
    """The message has the length that holds, and one correction makes this chain accurate."""
    with pytest.raises(ArgumentError, match=WRONG) as found:
        dynagate.compile(SLIDING, "forward_dynamics", form="cfa", dtype="float32")
    longest = re.search(r"as long as its first (\d+) links", str(found.value))
    assert longest is not None
    for links, right in ((int(longest[1]), True), (int(longest[1]) + 1, False)):
        part = replace(SLIDING, links=SLIDING.links[:links])
        graph = trace(part, "forward_dynamics", form="cfa")
        states = Region.of(part).states(graph, 32, 1)
        single = evaluate(graph, {name: values.astype(np.float32) for name, values in states.items()})["qdd"]
        exact = by_pinocchio(part, *(states[name] for name in ("q", "qd", "tau")))
        assert bool(relative_errors(single, exact).max() <= 1e-2) is right
    check_single_precision(SLIDING, graph_of("cfa_refined"), AlgorithmOptions(form="cfa_refined"))
    check_single_precision(SLIDING, graph_of("aba"), AlgorithmOptions(form="aba"))
    with pytest.raises(ArgumentError, match="cfa in float32 errs by .* for robot 'chain_50'"):
        ForwardDynamics(random_chain(50, 5, prismatic=0.4, armature=0.2), "cfa", np.float32)


def test_steps_and_derivatives_that_are_wrong_in_float32_are_refused() -> None:
    chain, wrong = random_chain(4, 4, prismatic=0.5, armature=0.2), "form 'cfa' in float32 errs by 15 % for robot"
    own: dict[str, Any] = {"dt": 1e-2, "form": "cfa", "dtype": "float32"}
    with pytest.raises(ArgumentError, match=wrong):
        dynagate.Rollout(chain, steps=2, **own)
    cost = Cost.quadratic(q=1.0, qd=0.1, tau=1e-3)
    with pytest.raises(ArgumentError, match=wrong):
        dynagate.mppi(chain, cost=cost, knots=3, temperature=1.0, spread=1.0, **own)
    derived = Graph("forward_dynamics_vjp", chain.name, (), (), ())
    with pytest.raises(ArgumentError, match=wrong):
        check_single_precision(chain, derived, AlgorithmOptions(form="cfa"))


def test_a_chain_without_limits_of_speed_is_compared_too() -> None:
    unlimited = without_speeds(SLIDING)
    with pytest.raises(ArgumentError, match="form 'cfa' in float32 errs by"):
        dynagate.compile(unlimited, "forward_dynamics", form="cfa", dtype="float32")
    short = replace(unlimited, links=unlimited.links[:2])
    check_single_precision(short, trace(short, "forward_dynamics", form="cfa"), AlgorithmOptions(form="cfa"))
    with pytest.raises(ArgumentError, match="cfa in float32 errs by"):
        ForwardDynamics(without_speeds(random_chain(50, 5, prismatic=0.4, armature=0.2)), "cfa", np.float32)


def without_speeds(robot: Robot) -> Robot:
    links = (replace(link, joint=replace(link.joint, velocity=None)) for link in robot.links)
    return replace(robot, links=tuple(links))


def graph_of(form: str) -> Graph:
    return trace(SLIDING, "forward_dynamics", form=form)


def test_text_in_float32_is_refused_and_text_in_both_types_warns(tmp_path: Path) -> None:
    chain = tmp_path / "chain.urdf"
    chain.write_text(SLIDING.to_urdf())
    command = ["emit", str(chain), "--function", "forward_dynamics", "--form", "cfa"]
    for more in (["--cuda"], ["--single", "float32"]):
        done = CliRunner().invoke(main, [*command, *more, "--folder", str(tmp_path / "out")])
        assert done.exit_code == 1
        assert "form 'cfa' in float32 errs by" in done.output
        assert not (tmp_path / "out").exists()
    with pytest.warns(GraphWarning, match=WRONG):
        check_single_precision(SLIDING, graph_of("cfa"), AlgorithmOptions(form="cfa"), warns=True)


def test_operators_check_float32_when_they_compile_it() -> None:
    compute = operator_of(SLIDING, "forward_dynamics", algorithm=AlgorithmOptions(form="cfa")).compute
    assert isinstance(compute, CompiledCompute)
    with pytest.raises(ArgumentError, match=WRONG):
        compute.kernel(np.float32)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_chains_that_slide_and_have_rotors_agree_with_pinocchio(algorithm: str) -> None:
    cases = ((1, 1.0, 0.1), (2, 0.5, 0.0), (7, 0.4, 0.2), (10, 0.4, 0.2), (33, 0.4, 0.2))
    for count, prismatic, armature in cases[3:] if algorithm == "aba" else cases:
        robot = random_chain(count, 5, prismatic=prismatic, armature=armature)
        damped = [replace(link, joint=replace(link.joint, damping=0.1)) for link in robot.links]
        state = sample(count, 9)
        undamped_torque = state[2] - 0.1 * state[1]
        expected = by_pinocchio(robot, state[0], state[1], undamped_torque)
        got = forward_dynamics(replace(robot, links=tuple(damped)), algorithm)(*state)
        assert relative_errors(got, expected).max() <= bound(count), count


@pytest.mark.parametrize(("count", "batch"), [(1, 5), (7, 70), (50, 3)])
def test_lapack_and_the_loops_solve_the_same_mass_matrix(count: int, batch: int) -> None:
    robot, state = random_chain(count, 3), sample(count, batch)
    by_loops, by_lapack = (ForwardDynamics(robot, "jsiia", dense=dense)(*state) for dense in ("ldl", "lapack"))
    np.testing.assert_allclose(by_loops, by_lapack, rtol=1e-8)


def by_warps(warp: WarpChain, *state: np.ndarray) -> np.ndarray:
    outputs = warp.new_outputs(len(state[0]))
    warp(dict(zip(("q", "qd", "tau"), state, strict=True)), outputs)
    return outputs["qdd"]


def warp_equals_pinocchio(form: str, robot: Robot, folder: Path) -> None:
    """And its results have the same bits whichever lane is first, so none reads what another one writes meanwhile."""
    links = len(robot.links)
    state = sample(links, 9)
    warp = WarpChain(robot, form, folder=folder, toolchain=ON_HOST)
    order = ctypes.c_int.in_dll(warp._functions, "last_lane_first")
    found = []
    for last_first in (0, 1):
        order.value = last_first
        found.append(by_warps(warp, *state))
    warp.close()
    assert live(warp) == 0  # type: ignore[arg-type]
    np.testing.assert_array_equal(*found)
    assert relative_errors(found[0], by_pinocchio(robot, *state)).max() <= bound(links), links


@pytest.mark.parametrize("form", ["jsiia", "cfa_refined"])
def test_a_warp_shares_the_links_of_a_chain(form: str, tmp_path: Path) -> None:
    warp_equals_pinocchio(form, random_chain(5, 2, prismatic=0.4, armature=0.2), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_warps_on_chains_of_any_length(form: str, tmp_path: Path) -> None:
    """Up to more links than lanes."""
    for count in (1, 2, 3, 9, 16, 31, 32, 33, 50):
        warp_equals_pinocchio(form, random_chain(count, 3), tmp_path)
    single = WarpChain(random_chain(9, 3), form, np.float32, folder=tmp_path, toolchain=ON_HOST)
    state = sample(9, 40)
    expected = by_pinocchio(random_chain(9, 3), *state)
    found = by_warps(single, *(x.astype(np.float32) for x in state))
    assert found.dtype == np.float32
    assert relative_errors(found, expected).max() <= FLOAT32[form.removesuffix("_refined")]


def test_a_function_by_warps_is_compared_in_float32(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    play_card(monkeypatch, tmp_path)
    robot, state = random_chain(5, 2), sample(5, 6)
    options: dict[str, Any] = {"device": "cuda", "warp": True}
    with dynagate.compile(robot, "forward_dynamics", form="jsiia", **options) as warp:
        found = warp(*(x.astype(np.float32) for x in state)).qdd
        assert found.dtype == np.float32
        assert relative_errors(found, by_pinocchio(robot, *state)).max() <= 1e-4
        assert repr(warp).count("a warp per chain") == 1
    long = random_chain(12, 5, prismatic=0.4, armature=0.2)
    with pytest.raises(ArgumentError, match="cfa in float32 errs by .* for robot 'chain_12' of 12 links; at most 1 %"):
        dynagate.compile(long, "forward_dynamics", form="cfa", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "abia"}, "form 'abia' of a warp per chain; expected jsiia, cfa or cfa_refined"),
        ({}, "form '' of a warp per chain; expected jsiia, cfa or cfa_refined"),
        ({"form": "cfa", "pack": True}, "warp=True with pack=; expected no pack=, or no warp=True"),
        ({"form": "cfa", "external_forces": True}, "warp=True with external_forces=; expected no external_forces="),
        ({"form": "cfa", "device": "cpu"}, "warp"),
    ],
    ids=str,
)
def test_what_a_warp_does_not_take(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        dynagate.compile(random_chain(3, 1), "forward_dynamics", **{"device": "cuda", "warp": True, **options})


def test_chains_that_no_warp_holds_are_refused() -> None:
    needed = 8 * shared_numbers(100, "cfa", False)
    message = (
        f"100 links by cfa in float64 take {needed} bytes of a block's shared memory, of 98304; expected a shorter"
    )
    with pytest.raises(ValueError, match=message):
        WarpChain(random_chain(100, 1), "cfa")
    with pytest.raises(RobotError, match="robot 'hyq' branches at the base"):
        WarpChain(robots.load("hyq"), "jsiia")
    with pytest.raises(ArgumentError, match="warp=True of mass_matrix; expected forward_dynamics, or no warp=True"):
        dynagate.compile(random_chain(3, 1), "mass_matrix", device="cuda", warp=True)


@needs_nvcc
@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_nvcc_takes_the_text_of_a_warp(form: str, tmp_path: Path) -> None:
    numbers = ChainNumbers.of(random_chain(16, 1, prismatic=0.4, armature=0.2), form)
    library(warp_source(numbers, form, double=True), double=True, folder=tmp_path, toolchain=CUDA)


def test_branches_and_other_joints_are_refused_by_name() -> None:
    hyq = robots.load("hyq")
    for form in SCAN_FORMS + FORCE_FORMS:
        with pytest.raises(RobotError, match="robot 'hyq' branches at the base: links '.*' and '.*' hang from it"):
            trace(hyq, "forward_dynamics", form=form)
    with pytest.raises(RobotError, match="expected a serial chain. Use another form"):
        trace(hyq, "inverse_dynamics", form="prefix")
    with pytest.raises(RobotError, match="robot 'hyq' branches at the base"):
        ForwardDynamics(hyq, "cfa")
    floating = robots.load("hyq", floating_base=True)
    with pytest.raises(RobotError, match="joint 'root_joint' is floating; expected a serial chain of revolute"):
        trace(floating, "forward_dynamics", form="jsiia")
    assert FUNCTIONS["forward_dynamics"].forms_for(hyq) == ["mass_matrix_solve", "aba"]


def test_a_link_without_mass_is_refused_where_its_inverse_is_needed() -> None:
    chain = random_chain(3, 1)
    light = replace(chain.links[1], mass=0.0, inertia=((0.0,) * 3,) * 3)
    robot = replace(chain, links=(chain.links[0], light, chain.links[2]))
    with pytest.raises(RobotError, match="link 'link_1' has mass 0 kg .* needs positive ones in every link"):
        trace(robot, "forward_dynamics", form="cfa")
    state = sample(3, 2)
    got = ForwardDynamics(robot, "abia")(*state)
    assert relative_errors(got, by_pinocchio(robot, *state)).max() <= 1e-9


def test_a_chain_has_a_link() -> None:
    with pytest.raises(ValueError, match="a chain of 0 links; expected 1 or more"):
        random_chain(0, 1)


@pytest.mark.long
def test_the_example_draws_its_figures(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "examples" / "parallel_forward_dynamics.py"
    command = [sys.executable, str(script), "--short", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"figure{name}.png" for name in ("2", "3a", "3b")),
        "figures.json",
    }
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert all(time > 0.0 for times in figures["single_call_s"].values() for time in times.values())
    assert list(figures["single_call_s"]) == list(ALGORITHMS)
    assert len(re.findall("^(?:confirmed|contradicted) ", done.stdout, re.MULTILINE)) == 10
