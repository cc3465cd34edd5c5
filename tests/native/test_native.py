"""The C backend: equal to the graph in every layout, type and batch, and clear where it cannot be."""

from __future__ import annotations

import copy
import ctypes
import math
import os
import pickle
import re
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Region, Robot, evaluate, robots, trace
from dynagate.dynamics import FUNCTIONS
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.reference_gradient import relative_errors
from dynagate.host import DeviceError, Results
from dynagate.host.inputs import LARGEST_ANGLE
from dynagate.integrators.methods import METHODS
from dynagate.native import headers
from dynagate.native.compile import CompileError, cache_folder, compiler, knows, library, machine, native_flags, tried
from dynagate.native.emit import emit
from dynagate.native.headers import in_one_text, with_headers
from dynagate.native.kernel import Kernel
from dynagate.native.loop import emit_loop

from tests import tolerances
from tests.expressions import traced
from tests.robots import floating_robot
from tests.samples import inputs_of, states

BRANCHED_SEED = 38
LARGE = ("link_jacobians", "forward_dynamics_second_order")
"""Of hyq on a floating base: their compilation takes half a minute."""
LAYOUTS = ((np.float64, "rows"), (np.float32, "planes"))
SECOND_ORDER = "forward_dynamics_second_order"
SLOW = {
    ("branched, floating", name)
    for name in (
        "forward_dynamics_gradient_given_minv",
        "forward_dynamics_jvp",
        "inverse_dynamics_gradient",
        "inverse_mass_product_jvp",
        "inverse_mass_product_vjp",
        "forward_dynamics_vjp",
    )
}
"""Cases whose compilation takes seconds; the same functions of the arm and one gradient of this robot stay."""
CASES = [
    # each function in either layout: of the arm in one, in turn, of the floating robot in the other
    *(
        pytest.param(
            name,
            robot,
            *layout,
            marks=[]
            if ((k + at + own) % 2 and (robot, name) not in SLOW) or name == SECOND_ORDER
            else [pytest.mark.long],
        )
        for own, robot in enumerate(("two_joint_arm", "branched, floating"))
        for k, name in enumerate(FUNCTIONS)
        if (name, robot) != (SECOND_ORDER, "branched, floating")
        for at, layout in enumerate(LAYOUTS)
    ),
    *(
        pytest.param(name, "hyq, floating", *layout, marks=pytest.mark.long)
        for name in FUNCTIONS
        if name not in LARGE
        for layout in LAYOUTS
    ),
]


def robot_of(name: str, folder: Path) -> Robot:
    if name == "branched, floating":
        return floating_robot(BRANCHED_SEED, folder)
    return robots.load(name.removesuffix(", floating"), floating_base=name.endswith("floating"))


@pytest.mark.parametrize(("name", "robot", "dtype", "layout"), CASES)
def test_equals_the_graph(name: str, robot: str, dtype: type, layout: str, cache: Path, tmp_path: Path) -> None:
    loaded = robot_of(robot, tmp_path)
    graph = trace(loaded, name)
    state = states(loaded, 300, seed=4)
    if "minv" in {port.name for port in graph.inputs}:
        state["minv"] = evaluate(trace(loaded, "mass_matrix_inverse"), {"q": state["q"]})["minv"]
    inputs = {key: value.astype(dtype) for key, value in inputs_of(name, state).items()}
    expected = evaluate(graph, {key: value.astype(np.float64) for key, value in inputs.items()})
    kernel = Kernel(graph, dtype, layout=layout, folder=cache)
    outputs = kernel.new_outputs(300)
    assert kernel(inputs, kernel.written(outputs), 300)
    bound = tolerances.SAME_FORMULA if dtype is np.float64 else tolerances.FLOAT32
    for key, value in expected.items():
        assert relative_errors(outputs[key], value).max() <= bound, key


@pytest.mark.parametrize("layout", ["rows", "planes"])
@pytest.mark.parametrize("batch", [1, 2, 15, 16, 17, 95, 96, 97, 1500])
def test_every_batch_and_nothing_beyond(batch: int, layout: str, cache: Path) -> None:
    robot = robots.load("two_joint_arm")
    graph = trace(robot, "forward_dynamics_gradient")
    inputs = inputs_of(graph.name, states(robot, batch, seed=5))
    kernel = Kernel(graph, np.float64, layout=layout, threads=3, folder=cache)
    outputs = kernel.new_outputs(batch + 1)  # one row more than is computed
    for array in outputs.values():
        array[-1] = 7.0
    if layout == "rows" or batch > 1:
        kernel(inputs, kernel.written({key: value[:-1] for key, value in outputs.items()}), batch)
    else:  # the entries of a single sample lie side by side
        outputs = kernel.new_outputs(batch)
        kernel(inputs, kernel.written(outputs), batch)
    for key, value in evaluate(graph, inputs).items():
        np.testing.assert_allclose(outputs[key][:batch], value, rtol=1e-10, atol=1e-12)
        assert np.all(outputs[key][batch:] == 7.0)
    kernel.close()


THREADED = """
import os, random, time, numpy as np
from dynagate import Region, robots
import dynagate

robot = robots.load("two_joint_arm")
inputs = Region.of(robot).sample("forward_dynamics", 700, seed=1)
expected = dynagate.compile(robot, "forward_dynamics")(**inputs).qdd
pauses = random.Random(1)
with dynagate.compile(robot, "forward_dynamics", threads=5) as accelerator:
    out = accelerator(**inputs)
    for _ in range(300):  # threads that look out for work, that fall asleep and that sleep
        time.sleep(pauses.choice([0.0, 0.00008, 0.0001, 0.00012, 0.001]))
        out.qdd[:] = 0.0
        assert np.array_equal(accelerator(out=out, **inputs).qdd, expected)
    child = os.fork()
    out.qdd[:] = 0.0
    right = np.array_equal(accelerator(out=out, **inputs).qdd, expected)
    if child == 0:
        accelerator.close()
        os._exit(0 if right else 1)
    assert right
    assert os.waitpid(child, 0)[1] == 0
accelerator.close()
print("right")
"""


def test_threads_share_a_batch_sleep_and_wake_and_stay_behind_at_a_fork() -> None:
    done = subprocess.run([sys.executable, "-c", THREADED], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "right\n", done.stderr


LOCKED = """
import gc, os, signal, sys, threading
import dynagate
import numpy as np
from dynagate.native.pool import Pool

which = sys.argv[1]
state = {name: np.full((3, 2), 0.1) for name in ("q", "qd", "tau")}
if which == "rollout":
    opened = dynagate.Rollout("two_joint_arm", steps=2, dt=0.01)
    call = lambda: opened(state["q"], state["qd"], np.zeros((3, 2, 2))).q
    expected = call()
    (small,) = opened._small._kept.values()
    locks = [opened._small._lock, small._lock]
else:
    options = {"threads": 2} if which == "threads" else {"device": which}
    opened = dynagate.compile("two_joint_arm", "forward_dynamics", **options)
    call = lambda: opened.choosing("qdd")(**state).qdd
    expected = call()
    locks = [opened._lock, *(each._lock for each in gc.get_objects() if isinstance(each, Pool))]
held, done = threading.Event(), threading.Event()


def hold():
    for lock in locks:
        lock.acquire()
    held.set()
    done.wait()
    for lock in locks:
        lock.release()


thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(60)  # ends a child that hangs
    os._exit(0 if np.array_equal(call(), expected) else 3)
status = os.waitpid(child, 0)[1]
done.set()
thread.join()
assert np.array_equal(call(), expected)
sys.exit(status != 0)
"""


@pytest.mark.parametrize("which", ["cpu", "numpy", "threads", "rollout"])
def test_a_forked_child_computes_while_a_thread_of_the_parent_is_in_a_call(which: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOCKED, which], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def moved(value: Any) -> Any:
    """Return a value that was pickled and read again."""
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("move", [moved, copy.copy, copy.deepcopy])
def test_functions_rollouts_and_solvers_are_pickled_and_copied(move: Any) -> None:
    """A copy is an object of its own: it computes the same after the original was closed."""
    q, goal = np.array([0.3, -0.2]), np.array([0.4, 0.1])
    cost = dynagate.control.Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=10.0)
    robot = robots.load("two_joint_arm")
    frame = robot.links[-1].name
    calls: list[tuple[Any, Any]] = [
        (dynagate.compile("two_joint_arm", "mass_matrix", dtype="float32"), lambda f: f(q).m),
        (dynagate.compile(robot, ["mass_matrix", "bias_torque"], device="numpy"), lambda f: f(q, q).bias_torque),
        (dynagate.compile(robot, "frame_pose", frame=frame, device="numpy"), lambda f: f(q).frame_position),
        (
            dynagate.compile(robot, "forward_dynamics_gradient", device="numpy").choosing("minv"),
            lambda f: tuple(f(q, q, q)),
        ),
        (dynagate.Rollout(robot, steps=2, dt=0.01, device="numpy"), lambda r: r(q, q, np.zeros((2, 2))).q),
        (dynagate.ilqr(robot, knots=3, dt=0.02, cost=cost, device="numpy"), lambda s: s(q, 0 * q, goal=goal).tau),
        (dynagate.inverse_kinematics(robot, [frame], device="numpy"), lambda s: tuple(s.inputs)),
    ]
    for opened, call in calls:
        expected = call(opened)
        other = move(opened)
        assert type(other) is type(opened)
        assert other is not opened
        assert repr(other) == repr(opened)
        opened.close()
        np.testing.assert_array_equal(call(other), expected)
        with pytest.raises(DeviceError, match="is closed"):
            move(opened)


def test_a_pool_of_processes_gets_a_function() -> None:
    """Processes that are started anew, as on macOS and Windows, and by Dask."""
    with dynagate.compile("two_joint_arm", "mass_matrix") as opened:
        states = np.random.default_rng(3).normal(size=(4, 2))
        with get_context("spawn").Pool(1) as pool:
            results = pool.map(opened, list(states), chunksize=2)
        for state, result in zip(states, results, strict=True):
            np.testing.assert_array_equal(result.m, opened(state).m)


@pytest.mark.parametrize("move", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_solver_with_formats_of_its_problems_is_not_pickled(move: Any) -> None:
    cost = dynagate.control.Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=10.0)
    solver = dynagate.ilqr("two_joint_arm", knots=3, dt=0.02, cost=cost, device="numpy")
    starts = np.random.default_rng(1).uniform(-0.3, 0.3, (8, 2))
    integers = solver.on_integers(starts, 0.0 * starts, goal=np.zeros(2))
    with pytest.raises(TypeError, match=r"can't be pickled or copied: .* Pass the robot"):
        move(integers)


CLANG = """
import sys
import dynagate
import numpy as np
from dynagate import Region, robots
from dynagate.control import Cost

arm, results = robots.load("two_joint_arm"), {}
states = Region.of(arm).sample("forward_dynamics", 37, seed=1)
for key, options in {"single": {"dtype": "float32"}, "threads": {"threads": 2}, "fixed": {"device": "fixed"}}.items():
    with dynagate.compile(arm, "forward_dynamics", **options) as opened:
        results[key] = opened(**states).qdd
with dynagate.compile(arm, "forward_dynamics", form="scan") as opened:
    results["scan"] = opened(**states).qdd
rollout = dynagate.Rollout(arm, steps=3, dt=0.01)
results["rollout"] = rollout(states["q"], states["qd"], np.zeros((37, 3, 2))).q
solver = dynagate.ilqr(arm, knots=4, dt=0.02, cost=Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=10.0))
results["ilqr"] = solver(np.zeros((2, 2)), np.zeros((2, 2)), goal=np.full((2, 2), 0.3)).q
np.savez(sys.argv[1], **results)
"""


@pytest.fixture
def clang(tmp_path: Path) -> str:
    """A Clang: that of the wheel `ziglang`, which needs no root."""
    pytest.importorskip("ziglang")
    script = tmp_path / "clang"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang cc "$@"\n')
    script.chmod(0o700)
    return str(script)


@pytest.mark.long
def test_clang_computes_what_gcc_computes(clang: str, tmp_path: Path) -> None:
    """Functions of a sample and of vectors, threads, integers, scans, rollouts and solvers."""
    results = []
    for name, variables in {"usual": {}, "clang": {"CC": clang, "DYNAGATE_CACHE": str(tmp_path / "cache")}}.items():
        path, environment = tmp_path / f"{name}.npz", {**os.environ, **variables}
        subprocess.run([sys.executable, "-c", CLANG, path], env=environment, check=True, timeout=600)
        with np.load(path) as arrays:
            results.append(dict(arrays))
    usual, other = results
    np.testing.assert_array_equal(other.pop("fixed"), usual["fixed"])
    for key, value in other.items():
        tolerance = tolerances.FLOAT32 if key == "single" else 1e-12
        np.testing.assert_allclose(value, usual[key], rtol=tolerance, atol=tolerance * np.abs(usual[key]).max())


def test_without_a_compiler_the_one_of_the_wheel_is_used(tmp_path: Path) -> None:
    """The path has sh only. Functions compile, and a compiler that is chosen but missing is an error as ever."""
    pytest.importorskip("ziglang")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    program = (
        "import dynagate, numpy as np\n"
        "from dynagate.native.compile import compiler, cxx\n"
        "print(dynagate.compile('two_joint_arm', 'mass_matrix')(np.zeros(2)).m[0, 0], compiler(), cxx())\n"
    )
    environment = {"PATH": str(tmp_path / "bin"), "DYNAGATE_CACHE": str(tmp_path / "it's"), "HOME": str(Path.home())}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    number, *compilers = done.stdout.split()
    expected = evaluate(trace(robots.load("two_joint_arm"), "mass_matrix"), {"q": np.zeros((1, 2))})["m"][0, 0, 0]
    assert float(number) == pytest.approx(expected, rel=1e-12)
    assert [Path(path).name for path in compilers] == ["cc", "c++"]
    environment["CC"] = "gcc"
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert "no C compiler 'gcc' on the path; expected GCC or Clang, or one named by CC, or: pip install" in done.stderr


def test_clang_takes_the_text_for_the_widest_vectors(clang: str, tmp_path: Path) -> None:
    """What is pushed for AVX-512 is popped in functions and in loops."""
    loop = dynagate.Rollout("two_joint_arm", steps=2, dt=0.01, device="numpy").loop
    for source in (emit(trace(robots.load("two_joint_arm"), "mass_matrix")), emit_loop(loop)):
        for file, text in source.files.items():
            (tmp_path / file).write_text(text)
        command = [
            clang,
            "-target",
            "x86_64-linux-gnu",
            "-mcpu=x86_64_v4",
            "-std=gnu11",
            "-c",
            "-o",
            str(tmp_path / "x.o"),
        ]
        subprocess.run([*command, f"{source.name}.c"], cwd=tmp_path, check=True)


def test_flags_are_asked_of_the_compiler(clang: str) -> None:
    assert not knows(clang, "-fno-thread-jumps")
    assert knows(clang, "-fno-math-errno")
    assert native_flags(clang)
    assert not knows(compiler(), "-fno-such-flag")


def test_the_doctor_compiles_a_function_and_runs_it(
    clang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in (compiler(), clang):
        monkeypatch.setenv("CC", program)
        assert "-march=native" in tried() or "-mcpu=native" in tried()
    wrong = tmp_path / "wrong"
    wrong.write_text(f'#!/bin/sh\nexec "{clang}" -Ddynagate_trial=other "$@"\n')
    wrong.chmod(0o700)
    monkeypatch.setenv("CC", str(wrong))
    with pytest.raises(CompileError, match="compiles a function that does not load here"):
        tried()
    monkeypatch.setenv("CC", "false")
    with pytest.raises(CompileError):
        tried()


GUARDED = """
import ctypes, mmap, numpy as np
from dynagate import robots, trace
from dynagate.native.kernel import Kernel

libc = ctypes.CDLL(None, use_errno=True)
page = mmap.PAGESIZE
kept = []

def at_the_end_of_a_page(shape, dtype):  # what comes after must not be touched
    region = mmap.mmap(-1, 8 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    assert libc.mprotect(ctypes.c_void_p(start + 7 * page), page, 0) == 0
    count = int(np.prod(shape))
    kept.append(region)
    array = np.frombuffer(region, dtype, count=count, offset=7 * page - count * np.dtype(dtype).itemsize).reshape(shape)
    array[:] = 0.1
    return array

for robot, name in (("two_joint_arm", "forward_dynamics"), ("iiwa14", "inverse_dynamics")):
    graph = trace(robots.load(robot), name)
    for dtype in (np.float32, np.float64):
        kernel = Kernel(graph, dtype)
        for batch in (2, 48, 50, 97):
            inputs = {port.name: at_the_end_of_a_page((batch, *port.shape), dtype) for port in graph.inputs}
            outputs = {port.name: at_the_end_of_a_page((batch, *port.shape), dtype) for port in graph.outputs}
            kernel(inputs, kernel.written(outputs), batch)
            for result in outputs.values():
                assert (result != 0.1).all() and not np.ptp(result, axis=0).any()
import os
os._exit(0)  # guarded pages cannot be given back in the usual way
"""


def test_touches_nothing_beyond_its_arrays() -> None:
    done = subprocess.run([sys.executable, "-c", GUARDED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)


@pytest.mark.parametrize("layout", ["rows", "planes"])
def test_results_that_no_cache_holds_are_the_same(layout: str) -> None:
    """Written past the caches where a vector may lie, and elsewhere as ever; and the rest of a batch."""
    few = inputs_of("forward_dynamics_gradient", states(robots.load("iiwa14"), 1000, seed=9))
    for batch in (112_000, 112_005):
        many = {name: np.resize(array, (batch, 7)).astype(np.float32) for name, array in few.items()}
        options = {"dtype": np.float32, "layout": layout}
        with dynagate.compile(
            robots.load("iiwa14"), "forward_dynamics_gradient", device="cpu", **options
        ) as accelerator:
            expected = accelerator(**{name: array[:1000] for name, array in many.items()}).dqdd_dq
            out = accelerator(**many)
            assert np.array_equal(out.dqdd_dq, np.resize(expected, (batch, 7, 7)))
            own = {}
            for name in out:
                entries = out[name].shape[1:]
                order = (*entries, batch) if layout == "planes" else (batch, *entries)
                moved = np.zeros(math.prod(order) + 1, np.float32)[1:].reshape(order)
                own[name] = np.moveaxis(moved, -1, 0) if layout == "planes" else moved
            assert np.array_equal(accelerator(out=Results(**own), **many).dqdd_dq, np.resize(expected, (batch, 7, 7)))


@pytest.mark.parametrize("batch", [2, 33, 1024])
def test_planes_may_be_any_distance_apart(batch: int, cache: Path) -> None:
    graph = trace(robots.load("iiwa14"), "forward_dynamics_gradient")
    state = inputs_of(graph.name, states(robots.load("iiwa14"), batch, seed=9))
    expected = evaluate(graph, state)
    kernel = Kernel(graph, np.float64, layout="planes", folder=cache)
    own, outputs = kernel.new_inputs(batch), kernel.new_outputs(batch)
    for key, array in own.items():
        array[...] = state[key]
    wide = {key: np.moveaxis(np.zeros((7, batch + 40))[:, 3 : batch + 3], -1, 0) for key in own}
    for key, array in wide.items():
        array[...] = state[key]
    mixed = {**state, "q": wide["q"], "qd": np.asarray(state["qd"], order="F")}
    assert kernel.read(own).arrays == list(own.values())
    assert kernel.read(wide).arrays == list(wide.values())
    assert (kernel.read(wide).stride, kernel.read(own).stride % 16) == (batch + 40, 8)
    for given in (own, wide, mixed, state):
        for array in outputs.values():
            array[...] = 0.0
        assert kernel(given, kernel.written(outputs), batch)
        for key, value in expected.items():
            assert relative_errors(outputs[key], value).max() <= tolerances.SAME_FORMULA
    assert not kernel.fits(np.lib.stride_tricks.sliding_window_view(np.zeros(batch + 6), 7))
    outputs["minv"] = np.moveaxis(np.zeros((7, 7, batch)), -1, 0)
    with pytest.raises(ValueError, match=rf"'minv': {batch}}} numbers apart; expected results of one call"):
        kernel.written(outputs)


@pytest.mark.parametrize("layout", ["rows", "planes"])
@pytest.mark.parametrize("batch", [1, 33])
def test_results_that_nothing_computes(batch: int, layout: str, cache: Path) -> None:
    """Inputs, sines and constants that are results themselves, and results twice."""
    graph = traced(lambda a, b, c, *_: [a, b.sin(), b.cos() * c, a, a * c, a * c, a - a, b.sin()])
    x = np.random.default_rng(4).normal(size=(batch, 8))
    kernel = Kernel(graph, np.float64, layout=layout, folder=cache)
    outputs = kernel.new_outputs(batch)
    assert kernel({"x": x}, kernel.written(outputs), batch)
    np.testing.assert_allclose(outputs["y"], evaluate(graph, {"x": x})["y"], rtol=1e-12, atol=1e-12)
    x[batch // 2, 0] = np.inf
    assert not kernel({"x": x}, kernel.written(outputs), batch)


def test_planes_may_be_written_over_what_is_read(cache: Path) -> None:
    graph = trace(robots.load("iiwa14"), "forward_dynamics_gradient_given_minv")
    state = states(robots.load("iiwa14"), 100, seed=9)
    state["minv"] = evaluate(trace(robots.load("iiwa14"), "mass_matrix_inverse"), {"q": state["q"]})["minv"]
    inputs = inputs_of(graph.name, state)
    kernel = Kernel(graph, np.float64, layout="planes", folder=cache)
    given = {key: np.array(value, order="F") for key, value in inputs.items()}
    given["minv"] = np.moveaxis(np.ascontiguousarray(np.moveaxis(inputs["minv"], 0, -1)), -1, 0)
    dqdd_dqd = np.moveaxis(np.zeros((7, 7, 100)), -1, 0)
    kernel(given, kernel.written({"dqdd_dq": given["minv"], "dqdd_dqd": dqdd_dqd}), 100)
    expected = evaluate(graph, inputs)
    found = np.where(expected["dqdd_dq"] == 0.0, 0.0, given["minv"])  # what is always zero is not written
    np.testing.assert_allclose(found, expected["dqdd_dq"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(dqdd_dqd, expected["dqdd_dqd"], rtol=1e-9, atol=1e-9)


def test_sines_and_cosines_are_within_two_units_or_three_from_tables(cache: Path) -> None:
    bound = 3.0 if "__AVX512F__" in machine(compiler(), native_flags(compiler())) else 2.0
    graph: Graph = traced(lambda a, *_: [a.sin(), a.cos()])
    macros = machine(compiler(), native_flags(compiler()))
    fuses = "__FMA__" in macros or "__ARM_FEATURE_FMA" in macros
    near = [np.linspace(-7.0, 7.0, 50_001), np.linspace(-3000.0, 3000.0, 50_000)]
    for dtype in (np.float32, np.float64):
        largest = np.nextafter(dtype(LARGEST_ANGLE[np.dtype(dtype)]), dtype(0))
        angles = np.concatenate([*near, *([np.linspace(-largest, largest, 50_000)] if fuses else [])])
        x = np.zeros((len(angles), 8), dtype)
        x[:, 0] = angles
        kernel = Kernel(graph, dtype, folder=cache)
        outputs = kernel.new_outputs(len(x))
        kernel({"x": x}, kernel.written(outputs), len(x))
        exact = np.stack([np.sin(x[:, 0].astype(np.longdouble)), np.cos(x[:, 0].astype(np.longdouble))], axis=1)
        # near a zero the last place of the reduced angle counts, not that of the result
        unit = np.spacing(np.maximum(np.abs(exact), 2.0**-6).astype(dtype))
        assert np.max(np.abs(outputs["y"] - exact) / unit) <= bound


@pytest.mark.parametrize("layout", ["rows", "planes"])
def test_long_functions_are_cut_and_cuts_change_nothing(layout: str, cache: Path) -> None:
    robot = robots.load("iiwa14")
    graph = trace(robot, "forward_dynamics_gradient", frame="base")
    assert emit(graph).files[f"{emit(graph).name}_body.h"].count("DG_APART void SEGMENT(") == 2
    assert emit(graph, {}) == emit(graph, {})  # emitted twice; without a packing the last ones are kept
    kept = emit(graph)
    assert emit(graph) is kept
    assert emit(replace(graph, outputs=graph.outputs[::-1])) != kept
    inputs = inputs_of(graph.name, states(robot, 200, seed=6))
    expected = evaluate(graph, inputs)
    kernel = Kernel(graph, np.float64, layout=layout, folder=cache)
    outputs = kernel.new_outputs(200)
    assert kernel(inputs, kernel.written(outputs), 200)
    for key, value in expected.items():
        assert relative_errors(outputs[key], value).max() <= tolerances.SAME_FORMULA


def test_any_strides_and_dtypes_are_taken(cache: Path) -> None:
    robot = robots.load("two_joint_arm")
    state = inputs_of("forward_dynamics", states(robot, 40, seed=7))
    with dynagate.compile(robot, "forward_dynamics") as accelerator:
        expected = accelerator(**state).qdd
        backwards = {key: np.array(value[::-1])[::-1] for key, value in state.items()}
        np.testing.assert_array_equal(accelerator(**backwards).qdd, expected)
        wide = {key: np.repeat(value, 2, axis=1)[:, ::2] for key, value in state.items()}
        np.testing.assert_array_equal(accelerator(**wide).qdd, expected)
        for value in state.values():
            value.flags.writeable = False
        np.testing.assert_array_equal(accelerator(**state).qdd, expected)
        rounded = {key: np.round(value) for key, value in state.items()}
        integers = {key: value.astype(np.int64) for key, value in rounded.items()}
        np.testing.assert_array_equal(accelerator(**integers).qdd, accelerator(**rounded).qdd)


@pytest.mark.parametrize("layout", ["rows", "planes"])
def test_arrays_that_are_changed_in_place_are_read_anew(layout: str) -> None:
    robot = robots.load("two_joint_arm")
    state = inputs_of("forward_dynamics", states(robot, 40, seed=7))  # float64, in rows: converted every time
    with dynagate.compile(robot, "forward_dynamics", dtype=np.float32, layout=layout) as accelerator:
        for _ in range(3):
            state["tau"][:] += 1.0
            expected = evaluate(trace(robot, "forward_dynamics"), state)["qdd"]
            assert relative_errors(accelerator(**state).qdd, expected).max() <= tolerances.FLOAT32


@pytest.mark.parametrize(("device", "layout"), [("cpu", "rows"), ("cpu", "planes"), ("numpy", None)])
@pytest.mark.parametrize("name", ["forward_dynamics_gradient", "mass_matrix", "link_positions"])
def test_packed_results_hold_each_entry_once(name: str, device: str, layout: str | None) -> None:
    robot = robots.load("hyq")
    options = {"layout": layout} if layout else {}
    inputs = Region.of(robot).sample(name, 40, seed=2)
    expected = evaluate(trace(robot, name), inputs)
    with dynagate.compile(robot, name, device=device, pack=True, **options) as accelerator:
        results = accelerator(**inputs)
        full = accelerator.unpack(results)
    for key, value in expected.items():
        packed = getattr(results, key)
        assert packed.shape == (40, len(np.unique(value[0][value[0] != 0.0])))
        np.testing.assert_allclose(getattr(full, key), value, rtol=1e-9, atol=1e-9)
    with (
        dynagate.compile(robot, name, device="numpy") as plain,
        pytest.raises(ValueError, match="expected one with pack=True"),
    ):
        plain.unpack(results)


@pytest.mark.parametrize("layout", ["rows", "planes"])
@pytest.mark.parametrize("batch", [1, 40, 600])
def test_a_call_made_again_and_again_sees_what_has_changed(batch: int, layout: str) -> None:
    robot = robots.load("two_joint_arm")
    graph = trace(robot, "forward_dynamics")
    accelerator = dynagate.compile(robot, "forward_dynamics", layout=layout, threads=2)
    inputs = accelerator.new_inputs(batch)

    def again(seed: int) -> None:
        for key, value in Region.of(robot).sample("forward_dynamics", batch, seed).items():
            inputs[key][...] = value
        out.overflow[0] = True
        assert accelerator(out=out, **inputs) is out
        assert out.overflow.shape == (batch,)
        assert not out.overflow.any()
        assert relative_errors(out.qdd, evaluate(graph, inputs)["qdd"]).max() <= tolerances.SAME_FORMULA

    out = accelerator(**inputs)
    for seed in range(4):
        again(seed)
    inputs["tau"][-1, 1] = np.nan
    with pytest.raises(ValueError, match=rf"input 'tau' is nan at \({batch - 1}, 1\)"):
        accelerator(out=out, **inputs)
    with pytest.raises(ValueError, match="input 'tau' is missing"):
        accelerator(out=out, q=inputs["q"], qd=inputs["qd"])
    for _ in range(3):
        again(5)
    out.qdd.flags.writeable = False
    with pytest.raises(ValueError, match="cannot be written in one piece"):
        again(6)
    out.qdd.flags.writeable = True
    for seed in (6, 6, 6):
        again(seed)
    out = Results(qdd=np.array(out.qdd, order="F" if layout == "planes" else "C"))
    accelerator(out=out, **inputs)
    for seed in (7, 7, 7):
        again(seed)
    inputs = {**inputs, "qd": np.array(inputs["qd"], order="F" if layout == "planes" else "C")}
    for seed in (8, 8, 8):
        again(seed)
    accelerator.close()
    with pytest.raises(DeviceError, match="is closed; open it again"):
        again(9)


@pytest.mark.parametrize("device", ["cpu", "numpy", "fixed"])
def test_one_face(device: str) -> None:
    robot = robots.load("two_joint_arm")
    inputs = Region.of(robot).sample("forward_dynamics_gradient", 600, seed=1)
    expected = evaluate(trace(robot, "forward_dynamics_gradient"), inputs)
    with dynagate.compile(robot, "forward_dynamics_gradient", device=device) as accelerator:
        results = accelerator(**inputs)
        for key, value in expected.items():
            bound = tolerances.FIXED if device == "fixed" else tolerances.SAME_FORMULA
            assert np.median(relative_errors(getattr(results, key), value)) <= bound
        assert results.overflow.shape == (600,)
        again = accelerator(out=results, **inputs)
        assert again is results
        fewer = {key: value[:5] for key, value in inputs.items()}
        with pytest.raises(ValueError, match=r"out.qdd is float64 \(600, 2\); expected float64 \(5, 2\)"):
            accelerator(out=results, **fewer)  # also where they have just been written over
        inputs["tau"][:] += 1.0  # in place: the same arrays, other numbers
        expected = evaluate(trace(robot, "forward_dynamics_gradient"), inputs)
        accelerator(out=results, **inputs)
        assert np.nanmedian(relative_errors(results.qdd, expected["qdd"])) <= tolerances.FIXED
        mine = np.zeros_like(results.qdd)
        results = accelerator(out=Results(**{**results, "qdd": mine}), **inputs)
        assert results.qdd is mine
        assert np.nanmedian(relative_errors(mine, expected["qdd"])) <= tolerances.FIXED
        assert accelerator(**{key: value[:0] for key, value in inputs.items()}).qdd.shape == (0, 2)
        with pytest.raises(ValueError, match=r"input 'q' has shape \(600, 1\); expected \(batch, 2\)"):
            accelerator(**{**inputs, "q": inputs["q"][:, :1]})
        with pytest.raises(ValueError, match=r"out.qdd is float64 \(600, 2\); expected float64 \(5, 2\)"):
            accelerator(out=results, **{key: value[:5] for key, value in inputs.items()})
        results.qdd.flags.writeable = False
        with pytest.raises(ValueError, match="out.qdd cannot be written in one piece"):
            accelerator(out=results, **inputs)
    assert "two_joint_arm forward_dynamics_gradient" in repr(accelerator)


def test_wrong_requests_are_named() -> None:
    robot = robots.load("two_joint_arm")
    with pytest.raises(ValueError, match="device 'tpu'; expected one of numpy, fixed, cpu, cuda"):
        dynagate.compile(robot, "forward_dynamics_gradient", device="tpu")
    with pytest.raises(ValueError, match="dtype float16; expected float32 or float64"):
        dynagate.compile(robot, "forward_dynamics_gradient", dtype=np.float16)
    with pytest.raises(ValueError, match="0 threads; expected 1 or more"):
        dynagate.compile(robot, "forward_dynamics_gradient", threads=0)
    with pytest.raises(ValueError, match="layout 'tiles'; expected rows or planes"):
        dynagate.compile(robot, "forward_dynamics_gradient", layout="tiles")
    with pytest.raises(ValueError, match="device 'cpu' does not run this design; expected one of"):
        dynagate.open("build/designs", device="cpu")


def test_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = emit(trace(robots.load("two_joint_arm"), "mass_matrix"))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompileError, match="no C compiler 'no-such-compiler' on the path; expected GCC or Clang"):
        library(source, double=True, folder=tmp_path)
    monkeypatch.setenv("CC", "false")
    with pytest.raises(CompileError, match="false failed with status 1"):
        library(source, double=True, folder=tmp_path)
    assert not list(tmp_path.iterdir())


FAILING = {
    "too old": (
        "for flag; do [ $flag = -std=gnu11 ] && exit 1; done",
        r"version 4\.3 lacks -std=gnu11; expected GCC 10",
    ),
    "crashes": (
        "case $* in *empty.c*) ;; *) kill -11 $$;; esac",
        "SIGSEGV.*\n+It is version 4.3; expected GCC 10, Clang 13",
    ),
    "writes nothing": ("exit 0", r"ends without an error, but writes no file; expected GCC 10.*dynagate\[compiler\]"),
}
"""Lines of a shell, of a compiler that fails, and its error."""


@pytest.mark.parametrize("kind", FAILING)
def test_compilers_that_fail_are_named_with_what_would_do(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of the compiler has a blank and quotes, as that of the cache has."""
    line, message = FAILING[kind]
    script, cache = tmp_path / 'it\'s "my" compiler', tmp_path / 'the cache\'s "folder"'
    head = '#!/bin/sh\ncase "$*" in *--version*) echo version 4.3; exit 0;; *-dM*) exit 0;; esac\n'
    script.write_text(f'{head}{line}\nexec gcc "$@"\n')
    script.chmod(0o700)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("DYNAGATE_CACHE", str(cache))
    with pytest.raises(CompileError, match=message):
        dynagate.compile(robots.load("two_joint_arm"), "mass_matrix")
    assert not list(cache.iterdir())
    script.write_text(f'{head}exec gcc "$@"\n')
    with dynagate.compile(robots.load("two_joint_arm"), "mass_matrix") as function:
        assert function(np.zeros(2)).m.shape == (2, 2)
    monkeypatch.setenv("CC", "gcc -m64")
    with pytest.raises(CompileError, match="CC is the name of one program, without options: write a script for more"):
        dynagate.compile(robots.load("two_joint_arm"), "kinetic_energy")


def test_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DYNAGATE_CACHE", str(tmp_path / "file" / "folder"))
    assert cache_folder() == tmp_path / "file" / "folder"
    with pytest.raises(CompileError, match="cannot keep .* set DYNAGATE_CACHE to a folder that can be written"):
        dynagate.compile(robots.load("two_joint_arm"), "mass_matrix")


def _compile(folder: Path) -> str:
    return str(library(emit(trace(robots.load("two_joint_arm"), "forward_dynamics")), double=True, folder=folder))


def test_two_processes_may_compile_at_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, get_context("spawn")) as pool:  # JAX, once imported, warns of forks
        paths = set(pool.map(_compile, [tmp_path] * 4))
    assert len(paths) == 1
    ctypes.CDLL(paths.pop())
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("layout", ["rows", "planes"])
def test_a_kernel_takes_no_array_that_does_not_fit(layout: str) -> None:
    """Of the compiled code, which reads and writes where it is told to."""
    kernel = Kernel(trace(robots.load("two_joint_arm"), "forward_dynamics"), np.float64, layout=layout)
    inputs, outputs = kernel.new_inputs(5), kernel.new_outputs(5)
    written = kernel.written(outputs)
    assert kernel(inputs, written, 5)
    short, wide = np.zeros((4, 2)), np.zeros((5, 3))
    for other, message in (
        ({"qd": short}, r"input 'qd' is float64 \(4, 2\); expected float64 \(5, 2\)"),
        ({"tau": wide}, r"input 'tau' is float64 \(5, 3\); expected float64 \(5, 2\)"),
        ({"q": np.zeros(())}, r"input 'q' is float64 \(\); expected float64 \(0, 2\)"),
        ({"q": np.zeros((5, 2), complex)}, "input 'q' has dtype complex128; expected real numbers"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            kernel({**inputs, **other}, written, 5)
        with pytest.raises((ValueError, TypeError), match=message):
            kernel.bound({**inputs, **other}, written, 5)
    with pytest.raises(ValueError, match="inputs of 5 samples for a batch of 6"):
        kernel(inputs, written, 6)
    with pytest.raises(ValueError, match="outputs of 4 samples for a batch of 5"):
        kernel(inputs, kernel.written(kernel.new_outputs(4)), 5)
    with pytest.raises(ValueError, match=r"out.qdd is float64 \(5, 3\); expected float64 \(5, 2\)"):
        kernel.written({"qdd": wide})
    with pytest.raises(ValueError, match="out.qdd is float32"):
        kernel.written({"qdd": outputs["qdd"].astype(np.float32)})
    with pytest.raises(ValueError, match=f"out.qdd does not lie in {layout} without gaps"):
        kernel.written({"qdd": np.zeros((10, 4))[::2, ::2]})


def test_a_source_has_all_headers_that_it_includes() -> None:
    """Whoever makes one lists none of them: those that headers include come along, once."""
    arm = robots.load("two_joint_arm")
    loop = METHODS["semi_implicit_euler"].motion(arm, StepOptions(0.01)).loop
    for source in (emit(trace(arm, "inverse_dynamics")), emit_loop(loop)):
        included = {
            name for text in source.files.values() for name in re.findall(r'^#include "([^"]*)"', text, flags=re.M)
        }
        assert {"dynagate_simd.h", "dynagate_philox.h"} < included <= set(source.files)
    text = in_one_text("dynagate_sample.cuh", "dynagate_philox.h")
    assert text.count("#define DYNAGATE_PHILOX_H") == 1
    assert '#include "dynagate_' not in text
    with pytest.raises(FileNotFoundError, match=r"dynagate_absent\.h"):
        with_headers({"a.c": '#include "dynagate_absent.h"\n'})


def test_c_files_that_change_on_disk_do_not_reach_a_running_process(tmp_path: Path) -> None:
    """A table in the layout of the old Python code, read by the C code of a new installation, crashes the process."""
    shutil.copytree(Path(headers.__file__).parent, tmp_path / "dynagate" / "native")
    (tmp_path / "dynagate" / "__init__.py").touch()
    program = (
        "from pathlib import Path; from dynagate.native import headers; folder = Path(headers.__file__).parent;"
        "assert folder.is_relative_to(Path.cwd());"
        "names = [path.name for path in folder.iterdir() if path.suffix in ('.c', '.h', '.cuh')];"
        "assert len(names) > 9;"
        "before = {name: (folder / name).read_text() for name in names};"
        "[(folder / name).write_text('#error changed') for name in names];"
        "assert before == {name: headers.header(name) for name in names}"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
