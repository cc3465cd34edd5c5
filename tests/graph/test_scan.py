"""Scans over links: equal to the algorithms unrolled, on every backend."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Region, Robot, Rollout, evaluate, robots, trace
from dynagate.cli import main
from dynagate.dynamics import CONSTRAINED
from dynagate.dynamics.functions.record import SCANS as ALL_SCANS
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.scans import FormattedScan, FormattedScans, evaluate_scans
from dynagate.forces import Friction
from dynagate.graph.graph import GraphError, Port
from dynagate.graph.loop import Count, Loop, evaluate_loop
from dynagate.graph.recorder import Recording
from dynagate.graph.scan import PASSED, PASSING, Scan
from dynagate.graph.scan_trace import trace_scan
from dynagate.native import cuda
from dynagate.native.cuda_loop import cuda_loop_source
from dynagate.native.gpu_loop import GpuLoop
from dynagate.native.loop import LoopKernel
from dynagate.native.scan_text import slots
from dynagate.robot import RobotError
from dynagate.robot.parts import Mimic
from dynagate.robot.random_chain import random_chain

from tests.played_card import ON_HOST, needs_nvcc
from tests.robots import floating_robot, random_urdf


def states(robot: Robot, name: str, count: int = 20, seed: int = 1) -> dict[str, np.ndarray]:
    region = Region.of(robot, velocity=2.0, acceleration=5.0)
    return region.sample(name, count, seed=seed)


def error(results: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    assert results.keys() == expected.keys()
    return max(np.abs(results[k] - expected[k]).max() / (np.abs(expected[k]).max() or 1.0) for k in expected)


def tree_of(case: str, folder: Path) -> Robot:
    if case.startswith("random"):
        path = folder / f"{case}.urdf"
        path.write_text(random_urdf(int(case[6:])))
        return Robot.from_urdf(path)
    if case == "floating":
        return floating_robot(3, folder)
    if case == "spherical":
        arm = random_chain(5, 2)
        ball = replace(arm.links[2], joint=replace(arm.links[2].joint, type="spherical", axis=(0.0, 0.0, 1.0)))
        return replace(arm, links=(*arm.links[:2], ball, *arm.links[3:]))
    if case == "rotors":
        return random_chain(7, 3, prismatic=0.4, armature=0.2)
    return robots.load(case)


SCANS = {name: form for name, form in ALL_SCANS.items() if name not in CONSTRAINED}
TREES = ("two_joint_arm", "hyq", "random2", "random11", "random23", "floating", "spherical", "rotors")


QUICK = {
    *((case, "forward_dynamics_vjp") for case in ("random2", "random23", "floating", "spherical")),
    *((case, "forward_dynamics_jvp") for case in ("random23", "floating", "spherical")),
    *(("rotors", name) for name in SCANS),
}
"""The forward dynamics' product goes through all of inverse dynamics, articulated bodies and M⁻¹."""
IN_C = {
    ("random2", "forward_dynamics"),
    ("spherical", "inverse_dynamics"),
    ("spherical", "inverse_dynamics_jvp"),
}


def cases(quick: set[tuple[str, str]]) -> list[Any]:
    """All trees and functions, of which some are quick."""
    every = [(case, name) for case in TREES for name in SCANS]
    return [pytest.param(*each, marks=[] if each in quick else pytest.mark.long) for each in every]


@pytest.mark.parametrize(("case", "name"), cases(QUICK))
def test_scans_are_the_algorithm(case: str, name: str, tmp_path: Path) -> None:
    robot = tree_of(case, tmp_path)
    inputs = states(robot, name)
    expected = evaluate(trace(robot, name, form=SCANS[name]), inputs)
    assert error(evaluate_loop(trace_scan(robot, name), inputs), expected) < 1e-11


@pytest.mark.parametrize(("case", "name"), [("floating", "inverse_dynamics"), ("rotors", "forward_dynamics_vjp")])
def test_forces_and_friction_enter(case: str, name: str, tmp_path: Path) -> None:
    robot, options = tree_of(case, tmp_path), {"external_forces": True, "forces": [Friction(0.3, 0.1)]}
    inputs = states(robot, name)
    inputs["f_ext"] = np.random.default_rng(2).normal(size=(20, len(robot.links), 6))
    expected = evaluate(trace(robot, name, form=SCANS[name], **options), inputs)  # type: ignore[arg-type]
    result = evaluate_loop(trace_scan(robot, name, **options), inputs)  # type: ignore[arg-type]
    assert error(result, expected) < 1e-11
    assert (
        error(evaluate_loop(trace_scan(robot, name), {k: inputs[k] for k in inputs if k != "f_ext"}), expected) > 1e-3
    )


def test_bodies_do_not_grow_with_the_links() -> None:
    """A body per kind of link: the root, links between, the tip."""
    short, long = (trace_scan(random_chain(count, 1), "forward_dynamics") for count in (5, 60))
    sizes = [[len(body) for body in step.bodies] for loop in (short, long) for step in scans(loop)]
    assert np.allclose([sum(body) for body in sizes[:3]], [sum(body) for body in sizes[3:]], rtol=0.02)


def test_what_later_scans_do_not_read_is_not_kept() -> None:
    """Articulated bodies keep cosine and sine, the velocity, U, 1/D and the load, and nothing else."""
    kept = [sum(len(port.nodes) for port in step.outputs) for step in scans(trace_scan(random_chain(40, 1), NAME))]
    assert kept == [(2 + 6) * 40, (6 + 1 + 1) * 40, 40]


NAME = "forward_dynamics"


def scans(loop: Loop) -> list[Scan]:
    return [step for step in loop.steps if isinstance(step, Scan)]


STARTS = {"q": (0, 1), "qd": (0, 1), "forward_dynamics_each_0": (0, 2), "forward_dynamics_aba_2": (0, 6)}
"""Of the first scan of two links."""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parents": (-1, 1)}, "link 1 has the parent 1; expected a link before it, or -1"),
        ({"kinds": (0,)}, "it has 1 entries of 'kinds' for 2 links"),
        ({"kinds": (1, 1)}, "the body of link 0 takes 'passed', and nothing comes to it"),
        ({"starts": {**STARTS, "forward_dynamics_each_0": (0, 3)}}, "link 1 has entries of .*each_0' beyond its 4"),
        ({"starts": {**STARTS, "forward_dynamics_aba_2": (0, 0)}}, "entry 0 of 'forward_dynamics_aba_2' is written 2"),
        ({"starts": {"q": (0, 1)}}, "has the port 'qd', which is no value of the scan"),
        ({"outputs": ()}, "has the port 'forward_dynamics_each_0', which is no value of the scan"),
        ({"tables": ((), (1.0,) * 3)}, "link 1 has 3 numbers; its body takes 0"),
    ],
)
def test_a_scan_that_breaks_its_contract_is_refused(change: dict[str, Any], message: str) -> None:
    first = scans(trace_scan(random_chain(2, 1), NAME))[0]
    with pytest.raises(GraphError, match=message):
        replace(first, **change)


def test_what_has_no_scan_is_said() -> None:
    with pytest.raises(
        ValueError, match="mass_matrix has no algorithm over links; expected one of inverse_dynamics, f"
    ):
        trace_scan(random_chain(2, 1), "mass_matrix")
    leader, follower = random_chain(2, 1).links
    tied = replace(follower, joint=replace(follower.joint, mimic=Mimic("joint_0", 1.0, 0.0)))
    with pytest.raises(RobotError, match="mimic"):
        trace_scan(Robot("tied", (leader, tied)), NAME)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scans")


@pytest.mark.parametrize(("case", "name"), cases(IN_C))
def test_c_equals_the_reference(case: str, name: str, cache: Path) -> None:
    """A batch of whole vectors and a rest, and one sample alone."""
    robot = tree_of(case, cache)
    loop, inputs = trace_scan(robot, name), states(robot, name, 19)
    expected = evaluate_loop(loop, inputs)
    for dtype, most in ((np.float64, 1e-11), (np.float32, 1e-2)):
        kernel = LoopKernel(loop, dtype, folder=cache)
        for rows in (19, 1):
            outputs = kernel.new_outputs(rows, 1)
            assert kernel({k: x[:rows].astype(dtype) for k, x in inputs.items()}, outputs, rows, 1)
            assert error(outputs, {k: x[:rows] for k, x in expected.items()}) < most


@pytest.mark.parametrize(
    ("case", "segments"),
    [("random2", True), ("rotors", False), pytest.param("floating", True, marks=pytest.mark.long)],
)
def test_cuda_equals_the_reference(case: str, segments: bool, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host that plays the GPU."""
    if segments:
        monkeypatch.setattr(cuda, "MOST_OPERATIONS", 0)
    robot = tree_of(case, cache)
    loop, inputs = trace_scan(robot, NAME), states(robot, NAME, 37)
    kernel = GpuLoop(loop, np.float64, folder=cache, toolchain=ON_HOST)
    outputs = {port.name: np.empty((37, *port.shape)) for port in loop.outputs}
    kernel(inputs, outputs)
    assert error(outputs, evaluate_loop(loop, inputs)) < 1e-11


@needs_nvcc
@pytest.mark.long
def test_nvcc_takes_it(tmp_path: Path) -> None:
    source = cuda_loop_source(trace_scan(random_chain(100, 1), NAME))
    for name, text in source.files.items():
        (tmp_path / name).write_text(text)
    command = [shutil.which("nvcc") or "nvcc", "-c", "-std=c++17", "-arch=sm_90", tmp_path / f"{source.name}.cu"]
    done = subprocess.run([*command, "-o", tmp_path / "scan.o"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_passes_along_shares_memory() -> None:
    """A chain keeps two slots; a tree one for each branch that waits."""
    text = [slots(step) for step in scans(trace_scan(random_chain(50, 1), NAME))]
    assert [each.count for each in text] == [2, 2, 2]
    assert [slots(step).count for step in scans(trace_scan(robots.load("hyq"), NAME))] == [2, 2, 2]


def test_a_scan_is_a_step_of_a_loop(cache: Path) -> None:
    """Semi-implicit Euler: a graph integrates what the scans compute."""
    robot, dt = random_chain(4, 1), 0.01
    dynamics = trace_scan(robot, NAME)
    recording = Recording("integrate", robot.name)
    q, qd, qdd = (recording.input(n, (4,)) for n in ("q", "qd", "qdd"))
    qd_next = qd + qdd * dt
    step = recording.graph({"q_next": q + qd_next * dt, "qd_next": qd_next})
    carry = {"q_next": "q", "qd_next": "qd"}
    loop = Loop("swing", robot.name, (*dynamics.steps, step), carry, Count(20), last=("q_next", "qd_next"))
    inputs = states(robot, NAME, 9)
    kernel = LoopKernel(loop, np.float64, folder=cache)
    outputs = kernel.new_outputs(9, 20)
    kernel(inputs, outputs, 9, 20)
    values, graph = inputs, trace(robot, NAME, form="aba")
    for _ in range(20):
        moved = values["qd"] + dt * evaluate(graph, values)["qdd"]
        values = {"q": values["q"] + dt * moved, "qd": moved, "tau": values["tau"]}
    assert error(evaluate_loop(loop, inputs), {"q_next": values["q"], "qd_next": values["qd"]}) < 1e-10
    assert error(outputs, {"q_next": values["q"], "qd_next": values["qd"]}) < 1e-10


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_scans_open_as_functions(device: str) -> None:
    robot = random_chain(5, 1)
    inputs = states(robot, NAME, 6)
    with dynagate.compile(robot, NAME, device=device, form="scan") as accelerator:
        assert [port.name for port in accelerator.device.inputs] == ["q", "qd", "tau"]
        assert "a loop over links" in repr(accelerator)
        results = accelerator(**inputs)
        again = accelerator(**inputs)
        for values in inputs.values():
            values *= 0.5
        accelerator.bind(**inputs, out=again)()
    expected = evaluate(trace(robot, NAME, form="aba"), inputs)
    assert error({"qdd": again.qdd}, expected) < 1e-11 < error({"qdd": results.qdd}, expected)


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_inputs_of_scans_are_checked(device: str) -> None:
    robot = random_chain(3, 1)
    inputs = states(robot, NAME, 6)
    with dynagate.compile(robot, NAME, device=device, form="scan") as accelerator:
        for name, value, message in (
            ("qd", np.nan, r"input 'qd' is nan at \(2, 1\); expected finite numbers"),
            ("q", 1e17, r"input 'q' is 1e\+17 at \(2, 1\); expected angles below 140737488355328 rad for float64"),
            ("qd", 1e170, r"output 'qdd' is .* at \(2, 0\): values became too large for float64"),
        ):
            wrong = {k: x.copy() for k, x in inputs.items()}
            wrong[name][2, 1] = value
            with pytest.raises(ValueError, match=message):
                accelerator(**wrong)
        with pytest.raises(ValueError, match="missing"):
            accelerator(q=inputs["q"], qd=inputs["qd"])


def test_large_robots_are_scanned_unless_a_form_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = random_chain(4, 1)
    monkeypatch.setattr("dynagate.host.devices.scan.SCANNED_FROM", 4)
    for options, name, scan in (
        ({}, NAME, True),
        ({"forces": [Friction(0.1)], "external_forces": True}, NAME, True),
        ({"form": "aba"}, NAME, False),
        ({"pack": True}, NAME, True),
        ({"layout": "planes", "device": "cpu"}, NAME, False),
        ({"outputs": ("qdd",)}, NAME, False),
        ({}, "mass_matrix", False),
    ):
        with dynagate.compile(robot, name, **{"device": "numpy", **options}) as accelerator:  # type: ignore[arg-type]
            assert ("a loop over links" in repr(accelerator)) == scan, (options, name)
    monkeypatch.setattr("dynagate.host.devices.scan.SCANNED_FROM", 5)
    with dynagate.compile(robot, NAME, device="numpy") as accelerator:
        assert "a loop over links" not in repr(accelerator)


def test_threads_share_a_batch_of_chains_and_of_trajectories() -> None:
    """Whole vectors each, so the bits are those of one thread. A few samples are one thread's."""
    robot, random = random_chain(3, 1), np.random.default_rng(4)
    state = {name: random.uniform(-1.0, 1.0, (1024, 3)) for name in ("q", "qd", "tau")}
    qdd, motions = [], []
    for threads in (1, 3):
        with dynagate.compile(robot, NAME, form="scan", threads=threads, pack=threads == 3) as accelerator:
            results = accelerator(**state)
            qdd.append((accelerator.unpack(results) if threads == 3 else results).qdd)
            run = accelerator.bind(**state)
            np.testing.assert_array_equal(run().qdd, qdd[0])
            few = {name: array[:5] for name, array in state.items()}
            np.testing.assert_allclose(accelerator(**few).qdd, qdd[0][:5], rtol=1e-12)
            assert (", 3 threads, a loop" in repr(accelerator)) == (threads == 3)
            bad = state["tau"].copy()
            bad[700] = np.nan
            with pytest.raises(ValueError, match="input 'tau' is nan at .700, 0."):
                accelerator(**{**state, "tau": bad})
        with Rollout(robot, steps=5, dt=1e-3, threads=threads) as rollout:
            motions.append(rollout(state["q"], state["qd"], np.zeros((1024, 5, 3))).q)
    np.testing.assert_array_equal(*qdd)
    np.testing.assert_array_equal(*motions)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outputs": ("qdd",)}, "form 'scan' takes no option 'outputs'; expected another form, or none of it"),
        ({"layout": "planes"}, "form 'scan' takes no option 'layout'"),
        ({"threads": 0}, "0 threads; expected 1 or more"),
        ({"function": "mass_matrix"}, "mass_matrix has no algorithm over links; expected one of"),
    ],
)
def test_what_a_scan_does_not_take_is_said(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dynagate.compile(random_chain(2, 1), **{"function": NAME, "form": "scan", **options})


@pytest.mark.parametrize(("case", "name", "most"), [("random2", "inverse_dynamics", 1e-7), ("rotors", NAME, 1e-5)])
def test_integers_of_scans_are_near(case: str, name: str, most: float, tmp_path: Path) -> None:
    """One format for each value of a body over all links; errors halve with each bit."""
    robot = tree_of(case, tmp_path)
    region = Region.of(robot, velocity=2.0, acceleration=5.0)
    inputs, errors = region.sample(name, 200, seed=9), []
    expected = evaluate(trace(robot, name, form=SCANS[name]), inputs)
    for word in (20, 32):
        options: Any = {"region": region, "policy": Policy(word=word)}
        with dynagate.compile(robot, name, device="fixed", form="scan", **options) as accelerator:
            result = accelerator(**inputs)
        assert not result.overflow.any()
        errors.append(error({k: result[k] for k in expected}, expected))
    assert errors[1] < most
    assert errors[1] < errors[0] / 2**9


def test_sums_of_children_are_exact() -> None:
    """Three links hang from a root: what they pass on, 3/16 in all, is summed before it is rounded to eighths."""
    recording = Recording("leaf", "tree")
    leaf = recording.graph({PASSING: recording.input("x", (1,)) * 0.25, "y": np.array([1.0])})
    recording = Recording("root", "tree")
    root = recording.graph({"y": recording.input(PASSED, (1,)) + recording.input("x", (1,))})
    ports = [Port(name, (4,), tuple(range(4))) for name in ("x", "y")]
    starts = dict.fromkeys(("x", "y"), (0, 1, 2, 3))
    scan = Scan(
        "sum", "tree", False, (-1, 0, 0, 0), (root, leaf), (0, 1, 1, 1), ((),) * 4, starts, ports[:1], ports[1:]
    )
    arithmetic, x = Arithmetic(), np.array([[0.5, 0.25, 0.25, 0.25], [0.0, 1.0, -0.5, 0.25]])
    formats = [(Format(16, 6), Format(16, 3), Format(16, 6)), (Format(16, 2), Format(16, 4), Format(2, 0))]
    bodies = []
    for graph, (x_format, passed, y) in zip((root, leaf), formats, strict=True):
        named = {"x": x_format, PASSED: passed, "x_0": x_format, "passed_0": passed}
        chosen = tuple(named.get(n.name, y if n.op in ("add", "const") else passed) for n in graph.nodes)
        constants = {i: (int(n.constant), Format(16, 0)) for i, n in enumerate(graph.nodes) if n.constant is not None}
        chosen = tuple(Format(16, 4) if n.op == "shift" else f for f, n in zip(chosen, graph.nodes, strict=True))
        bounds = dict.fromkeys(graph.input_nodes, (-1.0, 1.0))
        bodies.append(FormattedGraph(graph, chosen, constants, bounds, arithmetic).check())
    loop = Loop("sum", "tree", (scan,), {}, Count(1), last=("y",))
    outputs, overflow = evaluate_scans(FormattedScans(loop, (FormattedScan(scan, tuple(bodies)),), {}), {"x": x})
    np.testing.assert_array_equal(outputs["y"][:, 0], x[:, 0] + 2 / 8)
    assert not overflow.any()
    np.testing.assert_array_equal(evaluate_loop(loop, {"x": x})["y"][:, 0], x[:, 0] + 3 / 16)


def test_integers_outside_of_their_region_are_told() -> None:
    robot = random_chain(4, 1)
    region = Region.of(robot)
    inputs = region.sample(NAME, 20, seed=1)
    with dynagate.compile(robot, NAME, device="fixed", form="scan", region=region) as accelerator:
        with pytest.raises(ValueError, match=r"input 'qd' is 2 at \(3, 1\); the formats were chosen for -1 to 1"):
            accelerator(**{**inputs, "qd": np.where(np.arange(80).reshape(20, 4) == 13, 2.0, inputs["qd"])})
        pushed = {**inputs, "tau": inputs["tau"] * 1e3}
        assert accelerator(**pushed).overflow.all()
    with pytest.raises(ValueError, match="ranges 'proved' of a loop over links; expected 'sampled'"):
        dynagate.compile(robot, NAME, device="fixed", form="scan", policy=Policy(ranges="proved"))


def test_the_command_writes_c_of_scans(tmp_path: Path) -> None:
    """A caller in C, which knows the header alone: 3 samples of a batch of 5, q the same for all."""

    def emitted(*options: str) -> tuple[int, str]:
        arguments = ["emit", "two_joint_arm", "--function", NAME, "--form", "scan", "--folder", str(tmp_path), *options]
        result = CliRunner().invoke(main, arguments)
        return result.exit_code, result.output

    for option, value in (("--integers", ()), ("--single", ("float32",)), ("--outputs", ("qdd",))):
        status, text = emitted(option, *value)
        assert status == 2
        assert f"--form scan and {option} are both given; expected one" in text
    assert emitted("--cuda")[0] == 0
    assert "two_joint_arm_forward_dynamics_sample" in (tmp_path / "two_joint_arm_forward_dynamics.cu").read_text()
    assert emitted()[0] == 0
    name = f"two_joint_arm_{NAME}"
    own = tmp_path / "main.c"
    own.write_text(
        f'''#include <stdio.h>
#include "{name}.h"
int main(void) {{
    const double q[] = {{0.5, -0.3}}, qd[10] = {{0}}, tau[10] = {{0, 0, 1, 2, 3, 4, 5, 6}};
    double qdd[10] = {{0}};
    const double *const in[] = {{q, qd, tau}};
    double *const out[] = {{qdd}};
    const long read[] = {{0, 2, 2}}, written[] = {{2}};
    const int status = {name}_f64(in, read, out, written, 1, 1, 4);
    for (int j = 0; j < 10; j++) printf("%.17g ", qdd[j]);
    return status;
}}'''
    )
    flags = ["-O1", "-march=native", "-Wall", "-DDYNAGATE_DOUBLE", "-o", tmp_path / "main"]
    subprocess.run(["cc", *flags, own, tmp_path / f"{name}.c", "-lm"], check=True)
    text = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout
    tau = np.array([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0, 0.0]).reshape(5, 2)
    states = {"q": np.tile([0.5, -0.3], (5, 1)), "qd": np.zeros((5, 2)), "tau": tau}
    expected = evaluate(trace(robots.load("two_joint_arm"), NAME), states)["qdd"]
    expected[[0, 4]] = 0.0  # not asked for
    np.testing.assert_allclose(np.array(text.split(), float).reshape(5, 2), expected, rtol=1e-12)
