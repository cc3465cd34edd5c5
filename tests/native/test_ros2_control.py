"""The page on ros2_control: its law and its plugin compile and run with declarations that repeat those of ROS."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import evaluate, robots, trace
from dynagate.cli import main

ROOT = Path(__file__).parents[2]
STANDINS = ROOT / "tests" / "standins" / "ros2_control"
PAGE = (ROOT / "docs" / "ros2_control.md").read_text()
NAME = "two_joint_arm_inverse_dynamics"

PROGRAM = """
#include "computed_torque_controller.cpp"
#include <cmath>
#include <cstdio>
using controller_interface::CallbackReturn;
using controller_interface::return_type;
int main() {
    const auto plugin = made_plugin();
    if (plugin->on_init() != CallbackReturn::SUCCESS) return 2;
    if (plugin->on_configure({}) != CallbackReturn::ERROR) return 3; // no joints
    auto &parameters = plugin->get_node()->parameters;
    parameters["joints"].value = std::vector<std::string>{"shoulder", "elbow"};
    parameters["goal"].value = std::vector<double>{0.5, -0.3};
    if (plugin->on_configure({}) != CallbackReturn::SUCCESS) return 4;
    for (const auto &name : plugin->state_interface_configuration().names) std::printf("%s ", name.c_str());
    for (const auto &name : plugin->command_interface_configuration().names) std::printf("%s ", name.c_str());
    std::printf("\\n");
    plugin->states().resize(4);
    plugin->commands().resize(2);
    if (plugin->update({}, {}) != return_type::OK || plugin->commands()[0].value) return 5; // nothing measured yet
    const double measured[] = {0.1, 1.0, -0.2, 2.0};
    for (int k = 0; k < 4; k++) plugin->states()[k].value = measured[k];
    if (plugin->update({}, {}) != return_type::OK) return 6;
    std::printf("%.17g %.17g\\n", *plugin->commands()[0].value, *plugin->commands()[1].value);
    plugin->commands()[1].is_locked = true;
    if (plugin->update({}, {}) != return_type::ERROR) return 7;
    plugin->commands()[1].is_locked = false;
    plugin->states()[1].value = NAN;
    return plugin->update({}, {}) == return_type::ERROR ? 0 : 8;
}
"""


def block(language: str, of: str) -> str:
    """Return the block of the page in a language that contains a text."""
    return next(text for text in re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.S) if of in text)


@pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler: apt-get install g++")
def test_the_controller_of_the_page_computes_torques(tmp_path: Path) -> None:
    """Names of interfaces, torques, and errors for wrong parameters, busy interfaces and NaN."""
    done = CliRunner().invoke(
        main, ["emit", "two_joint_arm", "--function", "inverse_dynamics", "--cmake", str(tmp_path / "dynamics")]
    )
    assert done.exit_code == 0, done.output
    (tmp_path / "computed_torque.hpp").write_text(block("cpp", "struct ComputedTorque"))
    (tmp_path / "computed_torque_controller.cpp").write_text(block("cpp", "PLUGINLIB_EXPORT_CLASS"))
    (tmp_path / "main.cpp").write_text(PROGRAM)
    source = tmp_path / "dynamics" / f"{NAME}_f64.c"
    subprocess.run(["gcc", "-std=c11", "-O2", "-c", source, "-o", tmp_path / "dynamics.o"], check=True)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-I", STANDINS, "-I", source.parent]
    command = ["g++", *flags, tmp_path / "main.cpp", tmp_path / "dynamics.o", "-o", tmp_path / "run"]
    subprocess.run(command, check=True)
    done_ = subprocess.run([tmp_path / "run"], check=True, capture_output=True, text=True)
    names, torques = done_.stdout.splitlines()
    states = "shoulder/position shoulder/velocity elbow/position elbow/velocity"
    assert names.split() == f"{states} shoulder/effort elbow/effort".split()
    assert "expected 2 joints and as many goals" in done_.stderr
    q, qd, goal = np.array([0.1, -0.2]), np.array([1.0, 2.0]), np.array([0.5, -0.3])
    state = {"q": [q], "qd": [qd], "qdd": [100.0 * (goal - q) - 20.0 * qd]}
    expected = evaluate(trace(robots.load("two_joint_arm"), "inverse_dynamics"), state)["tau"][0]
    np.testing.assert_allclose([float(x) for x in torques.split()], expected, rtol=1e-12)


def test_the_page_names_the_joints_of_the_robot() -> None:
    joints = [link.joint.name for link in robots.load("two_joint_arm").links]
    assert f"joints: [{', '.join(joints)}]" in PAGE
