"""Packages of portable C and C++: what compilers accept, what the objects contain, and projects that use them."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Region, Robot, evaluate, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.forces import Friction
from dynagate.native.package import graph_package
from dynagate.native.package_content import Package
from dynagate.native.package_files import package_files
from dynagate.native.portable import c_names

from tests.robots import floating_robot

ARM = robots.load("two_joint_arm")
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-O1"]
ZIG = [sys.executable, "-m", "ziglang"]
COMPILERS = {
    "gcc, C11": ["gcc", "-std=c11"],
    "g++, C++17": ["g++", "-x", "c++", "-std=c++17"],
    "clang, C11": [*ZIG, "cc", "-std=c11"],
    "clang, C++17": [*ZIG, "c++", "-x", "c++", "-std=c++17"],
}
MATHEMATICS = re.compile(r"(sin|cos|sincos|exp|sqrt|floor)f?")
"""Functions of math.h that a package may call. GCC makes one call of a sine and a cosine."""

needs_cmake = pytest.mark.skipif(not shutil.which("cmake"), reason="needs CMake: pip install cmake")


def compiler(kind: str) -> list[str]:
    """Return the command of a compiler, or skip the test if it is not installed."""
    command = COMPILERS[kind]
    if command[0] == sys.executable and not importlib.util.find_spec("ziglang"):
        pytest.skip("needs Clang: pip install ziglang")
    return command


def quiet(kind: str) -> list[str]:
    """Return flags against what a compiler adds to objects by default: checks that call a runtime of its own."""
    return ["-fno-sanitize=undefined"] if kind.startswith("clang") else []


def written(package: Package, folder: Path) -> str:
    """Write the files of a package and return its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in package_files(package).items():
        (folder / file).write_text(text)
    return package.name


def package_of(robot: Robot, function: str, **options: object) -> Package:
    """Return the package of a function of a robot."""
    return graph_package(trace(robot, function, **options), robot, Region.of(robot, velocity=1.0))  # type: ignore[arg-type]


def wrong_outputs(folder: Path, name: str, command: Sequence[str], *flags: str) -> int:
    """Build the test of a package and return how many outputs are wrong."""
    sources = [folder / f"{name}_{part}.c" for part in ("f32", "f64", "test")]
    subprocess.run([*command, *flags, *sources, "-o", folder / "check", "-lm"], check=True)
    return subprocess.run([folder / "check"], check=False, stdout=subprocess.PIPE).returncode


@pytest.mark.parametrize("kind", COMPILERS)
def test_the_sources_are_valid_c11_and_cpp17_and_call_mathematical_functions_only(kind: str, tmp_path: Path) -> None:
    """No heap, lock, state or thread-local memory: an object has constants and two functions, and nothing else."""
    name = written(package_of(ARM, "forward_dynamics", forces=[Friction(0.2)]), tmp_path)
    for suffix in ("f32", "f64"):
        source, result = tmp_path / f"{name}_{suffix}.c", tmp_path / f"{suffix}.o"
        subprocess.run(
            [*compiler(kind), *STRICT, "-fno-stack-protector", *quiet(kind), "-c", source, "-o", result], check=True
        )
        rows = subprocess.run(["nm", "-P", result], check=True, capture_output=True, text=True).stdout.splitlines()
        symbols = {row.split()[0]: row.split()[1] for row in rows}
        undefined = {symbol for symbol, kind_ in symbols.items() if kind_ == "U"}
        assert undefined
        assert all(MATHEMATICS.fullmatch(symbol) for symbol in undefined), undefined
        assert {symbol for symbol, kind_ in symbols.items() if kind_ == "T"} == {f"{name}_{suffix}"}
        assert not {symbol for symbol, kind_ in symbols.items() if kind_ in "BbDdC"}


@pytest.mark.parametrize("kind", ["gcc, C11", "g++, C++17"])
def test_the_test_of_a_package_passes_and_finds_a_wrong_number(kind: str, tmp_path: Path) -> None:
    name = written(package_of(ARM, "forward_dynamics_gradient"), tmp_path)
    assert wrong_outputs(tmp_path, name, compiler(kind), *STRICT) == 0
    file = tmp_path / f"{name}_body.h"
    text = file.read_text()
    file.write_text(re.sub(r"(const NUMBER v\d+ = )(\w+ \* \w+);", r"\1(real)1.001 * \2;", text, count=1))
    assert file.read_text() != text
    assert wrong_outputs(tmp_path, name, compiler(kind)) > 0


def test_robots_of_every_kind_pass_their_test(tmp_path: Path) -> None:
    """A free body with quaternions, a joint that follows another, masses as inputs, functions computed together."""
    floating = floating_robot(14, tmp_path)
    following = robot_of_text(MIMIC, tmp_path)
    for k, package in enumerate(
        [
            package_of(floating, "forward_dynamics"),
            package_of(floating, "step", dt=0.01),
            package_of(following, "inverse_dynamics"),
            package_of(ARM.with_variable("forearm.mass"), "inverse_dynamics"),
            graph_package(trace(ARM, ["mass_matrix", "bias_torque"]), ARM, Region.of(ARM, velocity=1.0)),
            package_of(ARM, "link_jacobians"),
            package_of(ARM, "kinetic_energy"),
        ]
    ):
        folder = tmp_path / str(k)
        name = written(package, folder)
        assert wrong_outputs(folder, name, ["gcc", "-std=c11"], *STRICT, "-O0", "-fsanitize=undefined") == 0, name


def robot_of_text(text: str, folder: Path) -> Robot:
    """Return the robot in the text of a URDF file."""
    (folder / "robot.urdf").write_text(text)
    return Robot.from_urdf(folder / "robot.urdf")


LINK = """<link name="{0}"><inertial><origin xyz="0.1 0 0.02"/><mass value="1.5"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.03"/></inertial></link>"""
JOINT = """<joint name="{1}" type="{0}"><parent link="{2}"/><child link="{3}"/><origin xyz="0.2 0 0" rpy="0.3 0 0"/>
<axis xyz="0 1 0"/><limit lower="-2" upper="2" velocity="3" effort="20"/>{4}</joint>"""
MIMIC = "\n".join(
    [
        '<robot name="gripper"><link name="base"/>',
        *map(LINK.format, ("arm", "finger", "thumb")),
        JOINT.format("revolute", "turn", "base", "arm", ""),
        JOINT.format("prismatic", "close", "arm", "finger", ""),
        JOINT.format("prismatic", "follow", "arm", "thumb", '<mimic joint="close" multiplier="-1.0" offset="0.1"/>'),
        "</robot>",
    ]
)


def loop_name(files: Sequence[Path], folder: Path) -> str:
    """Return the name of a package of a loop, whose files are in the folder, after strict compilation."""
    name = next(file.stem for file in files if file.suffix == ".hpp")
    flags = [flag for flag in STRICT if flag != "-Wshadow"]
    for kind in ("gcc, C11", "g++, C++17"):
        source, result = folder / f"{name}_f64.c", folder / "f64.o"
        subprocess.run([*compiler(kind), *flags, "-fno-stack-protector", "-c", source, "-o", result], check=True)
        rows = subprocess.run(["nm", "-P", result], check=True, capture_output=True, text=True).stdout.splitlines()
        symbols = {row.split()[0]: row.split()[1] for row in rows}
        undefined = {symbol for symbol, kind_ in symbols.items() if kind_ == "U"}
        assert all(MATHEMATICS.fullmatch(symbol) for symbol in undefined), undefined
        assert not {symbol for symbol, kind_ in symbols.items() if kind_ in "BbDdC"}
    return name


def test_rollouts_need_a_workspace_of_the_stated_size(tmp_path: Path) -> None:
    """By the command, and with feedback. The test of a package passes too small a workspace as well."""
    arguments = ["emit", "two_joint_arm", "--function", "rollout", "--dt", "0.01", "--integrator", "rk2"]
    done = CliRunner().invoke(main, [*arguments, "--cmake", str(tmp_path / "steps")])
    assert done.exit_code == 0, done.output
    name = loop_name([Path(line) for line in done.stdout.splitlines()], tmp_path / "steps")
    assert wrong_outputs(tmp_path / "steps", name, ["gcc", "-std=c11"], "-O1") == 0
    done = CliRunner().invoke(main, [*arguments, "--folder", str(tmp_path / "c")])
    assert "--function rollout without --cmake" in done.output
    rollout = dynagate.Rollout(ARM, steps=4, dt=0.01, feedback=True, device="numpy")
    folder = tmp_path / "feedback"
    name = loop_name(rollout.write_cmake(folder), folder)
    assert wrong_outputs(folder, name, ["gcc", "-std=c11"], "-O1", "-fsanitize=undefined") == 0
    header = (folder / f"{name}.h").read_text()
    size = int(re.findall(rf"{name}_workspace = (\d+)", header)[0])
    body = folder / f"{name}_body.h"
    assert f"workspace_size < {size}) return 2" in body.read_text()
    assert "in  gain[iterations][2][4]" in header
    body.write_text(body.read_text().replace(f"workspace_size < {size})", "workspace_size < 1)"))
    assert wrong_outputs(folder, name, ["gcc", "-std=c11"], "-O1") > 0


def test_a_rollout_refuses_counts_of_steps_that_it_cannot_take(tmp_path: Path) -> None:
    rollout = dynagate.Rollout(ARM, steps=4, dt=0.01, every=2, device="numpy")
    name = loop_name(rollout.write_cmake(tmp_path), tmp_path)
    (tmp_path / "main.c").write_text(
        f"""#include "{name}.h"
        static double q[2], qd[2], tau[8], states[4], speeds[4], workspace[{name}_workspace];
        static int status(long steps, double *memory) {{
            return {name}_f64(q, qd, tau, states, speeds, steps, memory, {name}_workspace);
        }}
        int main(void) {{
            return status(4, workspace) + 2 * (status(0, workspace) != 3) + 4 * (status(-2, workspace) != 3)
                + 8 * (status(3, workspace) != 3) + 16 * (status(4, 0) != 2);
        }}"""
    )
    sources = [tmp_path / "main.c", tmp_path / f"{name}_f64.c"]
    subprocess.run(["gcc", "-std=c11", "-O1", *sources, "-o", tmp_path / "run", "-lm"], check=True)
    assert subprocess.run([tmp_path / "run"], check=False).returncode == 0


def test_solvers_solve_the_same_problems_as_in_python(tmp_path: Path) -> None:
    """iLQR from several starts and to several goals, and inverse kinematics."""
    random = np.random.default_rng(2)
    cost = dynagate.control.Cost.quadratic(q=1.0, qd=0.1, tau=0.01, final=10.0)
    planner = dynagate.ilqr(ARM, knots=4, dt=0.02, cost=cost, iterations=20, device="numpy")
    folder = tmp_path / "ilqr"
    starts, goals = random.uniform(-1.0, 1.0, (2, 5, 2))
    name = loop_name(planner.write_cmake(folder, starts, 0.0 * starts, goal=goals), folder)
    assert wrong_outputs(folder, name, ["gcc", "-std=c11"], "-O1") == 0
    text = (folder / f"{name}_test.c").read_text()
    plan = planner(starts, 0.0 * starts, goal=goals)
    assert repr(float(plan.tau[0, 0, 0])) in text
    finder = dynagate.inverse_kinematics(ARM, [dynagate.control.FramePosition(ARM.links[-1].name)], device="numpy")
    folder = tmp_path / "ik"
    target = {name: np.array([0.3, 0.1, 0.4]) for name in finder.inputs}
    name = loop_name(finder.write_cmake(folder, starts, **target), folder)
    assert wrong_outputs(folder, name, ["gcc", "-std=c11"], "-O1") == 0


@pytest.mark.parametrize("options", [{}, {"nodes": 3, "bounds": 0.4, "seed": 7}], ids=["knots", "nodes and bounds"])
def test_sampled_torques_are_those_of_python(options: dict[str, Any], tmp_path: Path) -> None:
    """One draw of MPPI, for five problems with draws 0 to 4."""
    random = np.random.default_rng(2)
    cost = dynagate.control.Cost.quadratic(q=1.0, qd=0.1, tau=0.01, final=10.0)
    shared = {"knots": 5, "dt": 0.02, "cost": cost, "temperature": 1.0, "spread": [1.0, 0.5], "samples": 16}
    sampler = dynagate.mppi(ARM, **shared, **options, device="numpy")
    starts, goals = random.uniform(-1.0, 1.0, (2, 5, 2))
    name = loop_name(sampler.write_cmake(tmp_path, starts, 0.0 * starts, goal=goals), tmp_path)
    assert wrong_outputs(tmp_path, name, ["gcc", "-std=c11"], "-O1", "-fsanitize=undefined") == 0
    text = (tmp_path / f"{name}_test.c").read_text()
    sampled = sampler(starts[3], np.zeros(2), goal=goals[3], draw=3)
    assert repr(float(sampled.tau[0, 0])) in text
    assert repr(float(sampled.effective)) in text
    body = tmp_path / f"{name}_body.h"
    body.write_text(body.read_text().replace("key = ", "key = 1u + "))
    assert wrong_outputs(tmp_path, name, ["gcc", "-std=c11"], "-O1") > 0


def test_a_draw_out_of_range_and_costs_that_are_not_finite(tmp_path: Path) -> None:
    """The status is 1 for a draw of no number; samples without a finite cost leave the guess."""
    cost = dynagate.control.Cost.quadratic(q=1.0, qd=0.1, tau=0.01, final=10.0)
    options = {"temperature": 1.0, "spread": 0.5, "samples": 4, "device": "numpy"}
    sampler = dynagate.mppi(ARM, knots=2, dt=0.02, cost=cost, **options)
    name = loop_name(sampler.write_cmake(tmp_path, np.zeros(2), np.zeros(2), goal=np.zeros(2)), tmp_path)
    declared = re.findall(r"(in |out) +(\w+)(?:\[|:)", (tmp_path / f"{name}.h").read_text())
    numbers = "".join(f"static double {label}[16];\n" for label in dict.fromkeys(label for _, label in declared))
    passed = ", ".join(dict.fromkeys(label for _, label in declared))
    (tmp_path / "main.c").write_text(
        f"""#include "{name}.h"
        #include <math.h>
        {numbers}static double workspace[{name}_workspace];
        static int status(void) {{ return {name}_f64({passed}, workspace, {name}_workspace); }}
        int main(void) {{
            int wrong = status() != 0 || failed[0] != 0;
            draw[0] = -1; wrong += 2 * (status() != 1);
            draw[0] = NAN; wrong += 4 * (status() != 1);
            draw[0] = 4294967296.0; wrong += 8 * (status() != 1);
            draw[0] = 4294967295.0; cost_goal[0] = INFINITY; tau[0] = 3;
            return wrong + 16 * (status() != 0 || failed[0] != 1 || tau_mean[0] != 3 || effective[0] != 0);
        }}"""
    )
    sources = [tmp_path / "main.c", tmp_path / f"{name}_f64.c"]
    subprocess.run(["gcc", "-std=c11", "-O1", *sources, "-o", tmp_path / "run", "-lm"], check=True)
    assert subprocess.run([tmp_path / "run"], check=False).returncode == 0


def test_controllers_are_written_from_the_reference() -> None:
    cost = dynagate.control.Cost.quadratic(q=1.0, qd=0.1, tau=0.01, final=10.0)
    sampler = dynagate.mppi(ARM, knots=2, dt=0.02, cost=cost, temperature=1.0, spread=0.5, samples=4)
    with pytest.raises(ArgumentError, match=r"device='cpu'; expected device='numpy'"):
        sampler.write_cmake("unused", np.zeros(2), np.zeros(2), goal=np.zeros(2))


def test_the_header_lists_units_and_joints(tmp_path: Path) -> None:
    name = written(package_of(robot_of_text(MIMIC, tmp_path), "inverse_dynamics"), tmp_path)
    text = (tmp_path / f"{name}.h").read_text()
    for line in (
        "in  q[2]: rad or m",
        "out tau[2]: N m or N",
        "turn, revolute: q[0], qd[0]",
        "close, prismatic: q[1], qd[1]",
        "follow, prismatic: follows another joint",
        "SPDX-License-Identifier: 0BSD",
        "Generated files belong to whoever generated them",
    ):
        assert line in text


def test_infinite_numbers_and_nan_are_reported(tmp_path: Path) -> None:
    name = written(package_of(ARM, "forward_dynamics"), tmp_path)
    (tmp_path / "main.c").write_text(
        f"""#include "{name}.h"
        int main(void) {{
            const double good[2] = {{0.5, -0.5}}, large[2] = {{1e300 * 1e300, 0}};
            const double nan[2] = {{large[0] - large[0], 0}};
            double qdd[2];
            return {name}_f64(good, good, good, qdd) + 2 * !{name}_f64(good, nan, good, qdd)
                + 4 * !{name}_f64(good, good, large, qdd) + 8 * !{name}_f64(nan, good, good, qdd);
        }}"""
    )
    command = ["gcc", "-std=c11", "-O2", tmp_path / "main.c", tmp_path / f"{name}_f64.c", "-o", tmp_path / "run", "-lm"]
    subprocess.run(command, check=True)
    assert subprocess.run([tmp_path / "run"], check=False).returncode == 0
    fast = subprocess.run([*command, "-ffast-math"], check=False, capture_output=True, text=True)
    assert "compile without -ffast-math" in fast.stderr


def test_names_are_identifiers_and_differ() -> None:
    names = ["q", "q", "double", "link.mass", "link_mass", "7", "", "é", "workspace", "class", "status"]
    found = c_names(names)
    assert len(set(found)) == len(names)
    assert found[0] == "q"
    assert all(re.fullmatch(r"[A-Za-z]\w*", name, flags=re.ASCII) for name in found)
    assert not set(found) & {"double", "class", "workspace", "status"}


@pytest.mark.parametrize("robot_name", ["7 dof", "double", "a/* */b", 'quote"s $X `y`', "ro-bot;x"])
def test_names_of_robots_cannot_break_a_package(robot_name: str, tmp_path: Path) -> None:
    name = written(package_of(replace(ARM, name=robot_name), "mass_matrix"), tmp_path)
    assert name.isidentifier()
    assert wrong_outputs(tmp_path, name, ["gcc", "-std=c11"], *STRICT) == 0


CONSUMER = """cmake_minimum_required(VERSION 3.15)
project(consumer CXX)
find_package({name} 1.0 REQUIRED)
add_executable(consumer main.cpp)
target_compile_features(consumer PRIVATE cxx_std_20)
if(EIGEN_FOLDER)
  target_include_directories(consumer PRIVATE "${{EIGEN_FOLDER}}")
endif()
target_link_libraries(consumer PRIVATE dynagate::{name})
"""
CALLS = """#include <array>
#include <cstdio>
#include <vector>
#include "{name}.hpp"
template <class Number> void print() {{
    const std::array<Number, 2> q{{Number(0.3), Number(-0.5)}}, qd{{1, 2}}, tau{{0, Number(0.1)}};
    std::array<Number, 2> a, b;
    std::array<Number, 4> m[3];
    Number *const to[] = {{a.data(), m[0].data(), m[1].data(), m[2].data()}};
    static_assert(noexcept(dynagate::{name}(q.data(), qd.data(), tau.data(), to[0], to[1], to[2], to[3])));
    int status = dynagate::{name}(q.data(), qd.data(), tau.data(), to[0], to[1], to[2], to[3]);
    status += dynagate::{name}(q, qd, tau, b, m[0], m[1], m[2]);
    std::printf("%d %.17g %.17g %.17g %.17g ", status, double(a[0]), double(a[1]), double(b[0]), double(b[1]));
#if __has_include(<Eigen/Core>)
    Eigen::Matrix<Number, Eigen::Dynamic, 1> position(2);
    position << q[0], q[1];
    const Eigen::Matrix<Number, 2, 1> velocity(1, 2), torque(0, Number(0.1));
    const auto results = dynagate::{name}(position, velocity, torque);
    const Eigen::Matrix<Number, 2, 2> by_columns = results.dqdd_dq; // of the other order of storage
    std::printf("%.17g %.17g ", double(results.qdd[0]), double(results.qdd[1]));
    std::printf("%.17g %.17g", double(by_columns(0, 1)) - double(m[0][1]), double(results.status));
#else
    std::printf("%.17g %.17g 0 0", double(a[0]), double(a[1]));
#endif
    std::printf("\\n");
}}
int main() {{ print<float>(), print<double>(); }}
"""


def eigen() -> str:
    """Return the folder of Eigen's headers, or an empty text if they are not installed."""
    found = [Path(sys.prefix) / "lib", Path("/usr/include/eigen3")]
    core = next((path for folder in found for path in folder.glob("**/cmeel.prefix/include/eigen3/Eigen/Core")), None)
    return str(core.parents[1]) if core else "/usr/include/eigen3" if Path("/usr/include/eigen3").exists() else ""


@needs_cmake
def test_another_project_finds_and_links_an_installed_package(tmp_path: Path) -> None:
    """From the command line to a C++20 program with pointers, spans and Eigen, in a folder with a blank and a quote."""
    folder, prefix, consumer = (tmp_path / "it's here" / each for each in ("package", "prefix dir", "consumer"))
    done = CliRunner().invoke(main, ["emit", "two_joint_arm", "--cmake", str(folder)])
    assert done.exit_code == 0, done.output
    name = "two_joint_arm_forward_dynamics_gradient"
    assert done.stdout.splitlines()[0] == str(folder / f"{name}.h")
    assert len((folder / f"{name}_example.cpp").read_text().splitlines()) <= 22

    def run(*command: object) -> str:
        result = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    run("cmake", "-S", folder, "-B", folder / "build")
    run("cmake", "--build", folder / "build")
    assert "100% tests passed" in run("ctest", "--test-dir", folder / "build")
    example = [float(x) for x in run(folder / "build" / f"{name}_example").split()]
    graph = trace(ARM, "forward_dynamics_gradient")
    state = Region.of(ARM, velocity=1.0).states(graph, 5, seed=1)
    np.testing.assert_allclose(example, evaluate(graph, state)["qdd"][0], rtol=1e-6)
    run("cmake", "--install", folder / "build", "--prefix", prefix)
    consumer.mkdir()
    (consumer / "CMakeLists.txt").write_text(CONSUMER.format(name=name))
    (consumer / "main.cpp").write_text(CALLS.format(name=name))
    found = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DEIGEN_FOLDER={eigen()}"]
    run("cmake", "-S", consumer, "-B", consumer / "build", *found)
    run("cmake", "--build", consumer / "build")
    lines = run(consumer / "build" / "consumer").splitlines()
    expected = evaluate(graph, {"q": [[0.3, -0.5]], "qd": [[1.0, 2.0]], "tau": [[0.0, 0.1]]})["qdd"][0]
    for line, tolerance in zip(lines, (1e-5, 1e-12), strict=True):
        status, *numbers, difference, other_status = [float(x) for x in line.split()]
        assert status == difference == other_status == 0.0
        np.testing.assert_allclose(np.reshape(numbers, (3, 2)), np.tile(expected, (3, 1)), rtol=tolerance)


@needs_cmake
@pytest.mark.skipif(not shutil.which("pkg-config"), reason="needs pkg-config")
def test_pkg_config_finds_an_installed_package(tmp_path: Path) -> None:
    name = written(package_of(ARM, "mass_matrix"), tmp_path / "package")
    build, prefix = tmp_path / "build", tmp_path / "prefix with blanks"
    for command in (
        ["cmake", "-S", tmp_path / "package", "-B", build, f"-D{name}_TEST=OFF", f"-D{name}_EXAMPLE=OFF"],
        ["cmake", "--build", build],
        ["cmake", "--install", build, "--prefix", prefix],
    ):
        subprocess.run(command, check=True, capture_output=True)
    flags = f"$(pkg-config --cflags --libs {name})"
    assert (prefix / "include" / f"{name}.h").exists()
    (tmp_path / "main.c").write_text(f'#include "{name}.h"\nint main(void) {{ return {name}_m_size - 4; }}\n')
    command = f"eval gcc main.c -o main {flags} && ./main"
    environment = {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig"), "PATH": "/usr/bin:/bin"}
    subprocess.run(["sh", "-c", command], check=True, cwd=tmp_path, env=environment)


def test_the_command_refuses_what_does_not_go_together(tmp_path: Path) -> None:
    def refused(*options: str) -> str:
        done = CliRunner().invoke(main, ["emit", "two_joint_arm", *options])
        assert done.exit_code == 2
        return done.output

    folder = str(tmp_path / "a \"package\" 'here'")
    assert "--folder FOLDER, --cmake FOLDER or --fmu FILE" in refused()
    assert "--folder and --cmake are all given" in refused("--cmake", folder, "--folder", folder)
    for other in (["--cuda"], ["--pack"], ["--integers"], ["--single", "float32"]):
        text = refused("--cmake", folder, *other)
        assert f"--cmake and {other[0]} are both given" in text or f"{other[0]} and --cmake are both given" in text
    (tmp_path / "file").write_text("")
    assert "is not a folder" in refused("--cmake", str(tmp_path / "file"))
    assert not Path(folder).exists()
    done = CliRunner().invoke(main, ["emit", "two_joint_arm", "--function", "mass_matrix", "--cmake", folder])
    assert done.exit_code == 0
    assert wrong_outputs(Path(folder), "two_joint_arm_mass_matrix", ["gcc", "-std=c11"]) == 0
