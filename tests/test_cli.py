"""The command line: what it prints, and its exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from dynagate import FUNCTIONS
from dynagate.cli import main


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    return result.exit_code, result.output


def test_help_lists_the_commands() -> None:
    status, text = call("--help")
    assert status == 0
    assert "build" in text
    assert "run" in text


def test_build_prints_the_folder(designs: Path) -> None:
    status, text = call("build", "two_joint_arm", "--function", "mass_matrix", "--ii", "2", "--folder", designs)
    assert status == 0
    folder = Path(text.splitlines()[-1])
    assert sorted(p.name for p in folder.iterdir() if p.is_file()) == ["datapath.v", "datasheet.md", "design.json"]


def test_build_adds_axi_and_prints_the_datasheet(designs: Path) -> None:
    options = ("--function", "mass_matrix", "--ii", "2", "--folder", designs, "--axi", "64", "--tlast", "batch")
    status, text = call("build", "two_joint_arm", *options, "--report")
    assert status == 0, text
    folder = Path(text.splitlines()[-1])
    assert (folder / "accelerator.v").is_file()
    assert (folder / "datasheet.md").read_text() in text
    status, text = call("build", "two_joint_arm", *options[:-4], "--axi", "48")
    assert status == 1
    assert "stream of 48 bits; expected one of 32, 64, 128, 256, 512" in text


def test_errors_are_asked_for_by_block_and_target(designs: Path) -> None:
    options = ("build", "two_joint_arm", "--function", "forward_dynamics", "--ii", "2", "--folder", designs)
    status, text = call(*options, "--error", "qdd=2e-2", "--target", "18x18")
    assert status == 0, text
    design = json.loads((Path(text.splitlines()[-1]) / "design.json").read_text())
    assert max(node["width"] for node in design["nodes"]) <= 18
    assert design["formats"]["goal"]["dsp"]["name"] == "18x18"
    status, text = call(*options, "--error", "1e-3", "--target", "DSP58")
    assert status == 1
    assert "--target DSP58; expected one of DSP48E2, DSP48E1, 18x18" in text
    status, text = call(*options, "--error", "1e-3", "--error", "qdd=1e-3")
    assert "--error: one limit for all blocks, or limits by name; expected not both" in text


def test_budgets_are_kept_or_refused(designs: Path) -> None:
    options = ("build", "two_joint_arm", "--function", "forward_dynamics", "--ii", "2", "--folder", designs)
    status, text = call(*options, "--budget", "dsp=500", "--budget", "register_bits=100000")
    assert status == 0, text
    status, text = call(*options, "--budget", "dsp=12")
    assert status == 1
    assert re.search(r"\d+ DSP48E2 blocks planned, 12 allowed: \d+ units of 'multiply_wide' take \d+; a larger", text)
    status, text = call(*options, "--budget", "register_bits=10")
    assert re.search(r"\d+ bits of registers planned, 10 allowed: node '\S+' takes most, \d+ words of 24 bits", text)
    status, text = call(*options, "--budget", "lut=10")
    assert "lookup tables estimated, 10 allowed: " in text
    status, text = call(*options, "--budget", "ram=10")
    assert "--budget ram; expected dsp or lut or register_bits" in text


def test_synth_prints_what_a_netlist_has(designs: Path) -> None:
    status, text = call("synth", "two_joint_arm", "--function", "mass_matrix", "--ii", "2", "--folder", designs)
    assert status == 0, text
    assert re.search(r"^  xcup +\d+ +\d+ +\d+ .* 0$", text, flags=re.M)


def test_run_passes_with_status_zero(designs: Path) -> None:
    status, text = call(
        "run", "two_joint_arm", "--function", "mass_matrix_inverse", "--ii", "2", "--states", "64", "--folder", designs
    )
    assert status == 0, text
    assert text.splitlines()[-1] == "PASS"
    assert "2 cycles per result measured over 64 states" in text
    assert "DIFFER" not in text


def test_run_fails_with_status_one_where_the_error_is_too_large(designs: Path) -> None:
    status, text = call(
        "run", "two_joint_arm", "--function", "mass_matrix_inverse", "--word", "10", "--ii", "2", "--states", "64",
        "--folder", designs,
    )  # fmt: skip
    assert status == 1
    assert text.splitlines()[-1] == "FAIL"


def test_run_with_chosen_word_lengths(designs: Path) -> None:
    """Mixed words in hardware: equal to the integers; design.json carries the statement."""
    arguments = ("two_joint_arm", "--error", "1e-3", "--ii", "3", "--folder", designs)
    status, text = call("run", *arguments, "--states", "200")
    assert status == 0, text
    assert "two_joint_arm forward_dynamics_gradient, words of " in text
    assert "DIFFER" not in text
    _, text = call("build", *arguments)
    said = json.loads((Path(text.splitlines()[-1]) / "design.json").read_text())["formats"]["statement"]
    assert said["confidence"] == 0.99
    assert said["overflow"] < 1e-3
    assert max(said["error"].values()) < 2e-3


def test_info_lists_every_form() -> None:
    status, text = call("info", "two_joint_arm")
    assert status == 0
    for name, function in FUNCTIONS.items():
        for form in function.forms:
            assert any(line.split()[:2] == [name, form] for line in text.splitlines())
    status, text = call("info", "two_joint_arm", "--json", "--frame", "base")
    rows = json.loads(text)
    assert {row["form"] for row in rows} >= {"closed_form", "body_columns", "aba", "ltdl"}
    assert all(0 < row["float32_error"] < 1e-4 and row["counts"]["depth"] > 0 for row in rows)


def test_robot_options_reach_the_robot() -> None:
    status, text = call("info", "hyq", "--floating-base", "--velocity", "root_joint=2", "--form", "ltdl")
    assert status == 0, text
    assert "hyq: 18 degrees of freedom" in text
    status, text = call("info", "two_joint_arm", "--lock", "elbow=0.5", "--velocity", "3", "--form", "ltdl")
    assert status == 0, text
    assert "two_joint_arm: 1 degrees of freedom" in text
    for arguments, message in (
        (["--lock", "elbow=up"], "Error: --lock elbow=up; expected a number after the joint's name and '='"),
        (
            ["--velocity", "1", "--velocity", "elbow=2"],
            "one limit for all joints, or limits by name; expected not both",
        ),
        (["--floating-base"], "Error: joint 'root_joint' has no velocity limit"),
        (["--effort", "1", "--acceleration", "1"], "Error: acceleration and effort are both given; expected one"),
        (["--effort", "knee=1"], "Error: effort names joint 'knee', which robot 'two_joint_arm' does not have"),
    ):
        status, text = call("info", "two_joint_arm", *arguments)
        assert status == 1
        assert message in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "atlas"], "Error: no shipped robot 'atlas'; expected one of hyq, iiwa14, two_joint_arm"),
        (["run", "missing.urdf"], "Error: missing.urdf: no such file"),
        (["build", "two_joint_arm", "--ii", "0"], "Error: initiation interval 0; expected 1 or more"),
        (["build", "two_joint_arm", "--word", "64"], "Error: word 64; expected 4 to 32 bits"),
        (["build", "two_joint_arm", "--frame", "9"], "Error: frame 9; expected a link index from 0 to 1"),
        (["build", "two_joint_arm", "--function", "statics"], "'statics' is not one of"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(arguments: list[str], message: str, tmp_path: Path) -> None:
    status, text = call(*arguments, "--folder", str(tmp_path / "designs"))
    assert status != 0
    assert message in text
    assert "Traceback" not in text
    assert not (tmp_path / "designs").exists()
