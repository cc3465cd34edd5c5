"""The command line: what it prints, and its exit status."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import click.shell_completion
import dynagate.cli.info
import pytest
from click.testing import CliRunner
from dynagate import Region, RobotError, RobotWarning, robots, trace
from dynagate.base.errors import ArgumentError, OptionError
from dynagate.base.option import option
from dynagate.cli import groups, main
from dynagate.cli.fields import options_of
from dynagate.cli.output import write_text
from dynagate.design.verilog_list import read_list
from dynagate.dynamics import FUNCTIONS
from dynagate.fixedpoint.assign import assign
from dynagate.fixedpoint.models.files import write_formats


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    return result.exit_code, result.output


def test_help_lists_the_commands() -> None:
    status, text = call("--help")
    assert status == 0
    assert "build" in text
    assert "run" in text


def test_build_prints_the_folder(tmp_path: Path) -> None:
    arguments = ["build", "two_joint_arm", "--function", "mass_matrix", "--ii", "2", "--folder", str(tmp_path)]
    done = CliRunner().invoke(main, arguments)
    status, text = done.exit_code, done.output
    assert status == 0
    assert Path(done.stdout.strip()).is_dir()  # alone, for other programs to read
    folder = Path(text.splitlines()[-1])
    files = {
        *read_list(folder),
        "datasheet.md",
        "design.json",
        "files.f",
        "formats.json",
        "ooc.tcl",
        "ooc.xdc",
        "ooc.sdc",
    }
    assert {path.name for path in folder.iterdir() if path.is_file()} == files
    assert re.search(r"^  latency +\d+ cycles in the datapath", text, flags=re.M)
    assert re.search(r"^  multipliers +\d+; \d+ DSP48E2 blocks \(counted\)", text, flags=re.M)


def test_build_adds_axi_and_prints_the_datasheet(designs: Path) -> None:
    options = ("--function", "mass_matrix", "--ii", "2", "--folder", designs, "--axi", "64", "--tlast", "batch")
    status, text = call("build", "two_joint_arm", *options, "--report")
    assert status == 0, text
    folder = Path(text.splitlines()[-1])
    assert (folder / "accelerator.v").is_file()
    assert (folder / "datasheet.md").read_text() in text


def test_errors_are_asked_for_by_block_and_target(designs: Path) -> None:
    options = ("build", "two_joint_arm", "--function", "forward_dynamics", "--ii", "2", "--folder", designs)
    status, text = call(*options, "--error", "qdd=2e-2", "--target", "18x18")
    assert status == 0, text
    design = json.loads((Path(text.splitlines()[-1]) / "design.json").read_text())
    assert max(node["width"] for node in design["nodes"]) <= 18
    assert design["formats"]["goal"]["dsp"]["name"] == "18x18"


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


def test_synth_prints_what_a_netlist_has(designs: Path) -> None:
    small = ("--function", "mass_matrix", "--ii", "16", "--word", "12")  # Yosys takes a third of the time
    status, text = call("synth", "two_joint_arm", *small, "--folder", designs)
    assert status == 0, text
    assert re.search(r"^  xcup +\d+ +\d+ +\d+ .* 0$", text, flags=re.M)


def test_run_asks_for_programs_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("make", "perl", "dnf"):
        (tmp_path / name).symlink_to("/bin/true")
    status, text = call("run", "two_joint_arm", "--folder", tmp_path / "designs")
    assert status == 1
    assert "needs the program 'g++', which is not on the path; dnf install gcc-c++ ('dynagate doctor'" in text
    assert not (tmp_path / "designs").exists()
    assert not steps(text)


def test_run_passes_with_status_zero(designs: Path) -> None:
    status, text = call(
        "run", "two_joint_arm", "--function", "mass_matrix_inverse", "--ii", "2", "--states", "64", "--folder", designs
    )
    assert status == 0, text
    assert text.splitlines()[-1] == (
        "PASS: cycles per result is at most 2; the comparison of the hardware with its integers is equal; the largest "
        "error in the region is at most 1.00e-03; the number of overflows among 64 states in the region is at most 0; "
        "the number of overflows among 16 states at its limits is at most 1; the number of overflows among 16 states "
        "near rest is at most 0"
    )
    assert "2 cycles per result measured over 96 states" in text
    assert "DIFFER" not in text


def test_run_fails_with_status_one_where_the_error_is_too_large(designs: Path) -> None:
    status, text = call(
        "run", "two_joint_arm", "--function", "mass_matrix_inverse", "--word", "10", "--ii", "2", "--states", "64",
        "--folder", designs,
    )  # fmt: skip
    assert status == 1
    assert re.search(
        r"^FAIL: 1 of \d rules does not hold\n"
        r"  minv: the largest error in the region is \d\.\d\de-\d\d; expected at most 1\.00e-03\. To pass, use "
        r"a longer --word, a larger --error, or a smaller operating region\.$",
        text,
        flags=re.M,
    ), text


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
    uniform, limits = said["samples"]["uniform"], said["samples"]["limits"]
    assert max(uniform["error"].values()) <= 1e-3
    assert uniform["overflow"] <= 1e-4
    assert limits["overflow"] <= 1e-3


def test_info_lists_every_form() -> None:
    status, text = call("info", "two_joint_arm")
    assert status == 0
    for name, function in FUNCTIONS.items():
        for form in function.forms_for(robots.load("two_joint_arm")):
            assert any(line.split()[:2] == [name, form] for line in text.splitlines())
            assert any(line.split()[:2] == [name, form] for line in steps(text))
    done = CliRunner().invoke(main, ["info", "two_joint_arm", "--json", "--frame", "base"])
    rows = json.loads(done.stdout)
    assert {row["form"] for row in rows} >= {"closed_form", "body_columns", "aba", "ltdl"}
    assert all(0 < row["float32_error"] < 1e-4 and row["counts"]["depth"] > 0 for row in rows)
    assert {row["options"].get("frame") for row in rows if row["form"] == "closed_form"} == {"base"}


def test_info_says_which_robots_a_form_knows() -> None:
    status, text = call("info", "hyq", "--form", "cfa")
    assert status == 1
    assert "robot 'hyq' branches at the base" in text


def test_info_of_one_function() -> None:
    status, text = call("info", "two_joint_arm", "--function", "aba")
    assert status == 0
    rows = text[text.index("two_joint_arm: ") :].splitlines()[2:]
    assert [row.split()[:2] for row in rows] == [
        ["forward_dynamics", form] for form in FUNCTIONS["forward_dynamics"].forms
    ]
    for asked, message in (
        ("frame_pose_fore", "robot 'two_joint_arm' has no frame 'fore'"),
        (
            "forward_dynamic",
            "no function 'forward_dynamic' (did you mean 'forward_dynamics'?); expected one of inverse",
        ),
        ("delassus", "robot 'two_joint_arm' has no contacts and no loops"),
    ):
        status, text = call("info", "two_joint_arm", "--function", asked)
        assert status != 0
        assert message in " ".join(text.split())


def steps(text: str) -> list[str]:
    """Lines of progress, which are indented. A last line has the seconds of steps that were slow."""
    return [line for line in text.splitlines() if line.startswith("  ") and not line.startswith("  took: ")]


def test_robot_options_reach_the_robot() -> None:
    status, text = call("info", "hyq", "--floating-base", "--velocity", "root_joint=2", "--form", "ltdl")
    assert status == 0, text
    assert "hyq: 18 degrees of freedom" in text
    assert "taken for joints" not in text
    assert {line.split()[1] for line in steps(text)} == {"ltdl"}  # no other form is traced
    status, text = call("info", "two_joint_arm", "--lock", "elbow=0.5", "--velocity", "3", "--form", "ltdl")
    assert status == 0, text
    assert "two_joint_arm: 1 degrees of freedom" in text


def arm(folder: Path, *changes: tuple[str, str]) -> Path:
    """The arm's file with changes."""
    text = robots.path("two_joint_arm").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "arm.urdf").write_text(text)
    return folder / "arm.urdf"


def products(*arguments: object) -> int:
    done = CliRunner().invoke(main, ["info", *map(str, arguments), "--form", "aba", "--json"])
    assert done.exit_code == 0, done.output
    return sum(row["counts"]["mul"] + row["counts"]["mul_const"] for row in json.loads(done.stdout))


def test_right_angles_are_rounded_on_request(tmp_path: Path) -> None:
    tilted = arm(tmp_path, ('<origin xyz="0 0 0.5"/>', '<origin xyz="0 0 0.5" rpy="1.5708 0 0"/>'))
    assert products(tilted, "--round-rotations", "1e-5") < products(tilted)
    exact = ("emit", tilted, "--folder", tmp_path / "c")
    assert "costs products; --round-rotations 1e-5 makes them right angles" in call(*exact)[1]
    text = call(*exact, "--round-rotations", "1e-5")[1]
    assert "rotations turned to right angles: by 3.7e-06 rad at most" in text
    assert "costs products" not in text


def test_a_joint_held_in_degrees_is_noted(tmp_path: Path) -> None:
    status, text = call("emit", "two_joint_arm", "--lock", "elbow=90", "--folder", tmp_path / "c")
    assert status == 0, text
    assert "two_joint_arm.urdf: joint 'elbow' is held at 90 rad, beyond its limits [-2.6, 2.6]" in text
    status, text = call("emit", "two_joint_arm", "--lock", "elbow=1.57", "--folder", tmp_path / "c")
    assert status == 0, text
    assert "beyond its limits" not in text


def test_joints_without_limits_turn_on_request(tmp_path: Path) -> None:
    free = arm(tmp_path, ('lower="-2.6" upper="2.6" ', ""))
    status, text = call("emit", free, "--folder", tmp_path / "c")
    assert status == 1
    assert "--unlimited" in text
    status, text = call("emit", free, "--folder", tmp_path / "c", "--unlimited")
    assert status == 0, text


def test_faulty_xml_is_read_on_request(tmp_path: Path) -> None:
    faulty = arm(tmp_path, ('<?xml version="1.0"?>', '<?xml version="0.0"?>'))
    status, text = call("emit", faulty, "--folder", tmp_path / "c")
    assert status == 1
    assert "column 20; --lax overlooks that" in text
    status, text = call("emit", faulty, "--folder", tmp_path / "c", "--lax")
    assert status == 0, text
    assert "lax overlooks an XML declaration of an unknown version" in text


def test_limits_are_asked_for_where_they_matter_and_with_what_to_type(tmp_path: Path, designs: Path) -> None:
    silent = arm(tmp_path, (' velocity="4.0"', ""), (' velocity="5.0"', ""), ("elbow", "the elbow"))
    status, text = call("emit", silent, "--folder", tmp_path / "c")
    assert status == 0, text
    status, text = call("info", silent, "--form", "ltdl")
    assert status == 0, text
    assert "1 rad/s or m/s taken for joints without a velocity limit (--velocity): shoulder, the elbow" in text
    command = ["build", silent, "--function", "mass_matrix", "--ii", "2", "--folder", designs]
    status, text = call(*command)
    assert status == 2
    assert "Error: the file has no velocity limit for shoulder, the elbow; add, with what the robot reaches" in text
    line = text.splitlines()[-1]
    assert line == "  --velocity shoulder=1 --velocity 'the elbow=1'"
    status, text = call(*command, *shlex.split(line))
    assert status == 0, text
    weak = arm(tmp_path, (' effort="60"', ""))
    status, text = call("info", weak, "--effort", "limits")
    assert status == 2
    assert "the file has no effort limit for shoulder; add, with what the robot reaches (N m or N):" in text
    assert text.splitlines()[-1] == "  --effort shoulder=10"


def test_a_floating_base_is_written_as_c_without_a_region(tmp_path: Path) -> None:
    options = ("--floating-base", "--function", "kinetic_energy", "--folder", tmp_path)
    status, text = call("emit", "hyq", *options)
    assert status == 0, text
    assert steps(text) == ["  tracing hyq kinetic_energy", "  writing C"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyboardInterrupt(), "Error: interrupted\n"),
        (
            MemoryError("Unable to allocate 7 TiB"),
            "Error: not enough memory (Unable to allocate 7 TiB); expected fewer",
        ),
        (OSError(28, "No space left on device", "datapath.v"), "Error: datapath.v: No space left on device"),
        (PermissionError(13, "Permission denied", "a", None, "b"), "Error: a: Permission denied"),
        (OSError("cannot start 7 threads; expected fewer"), "Error: cannot start 7 threads; expected fewer"),
        (
            ModuleNotFoundError("No module named 'scipy'", name="scipy.optimize"),
            "Error: 'dynagate build' needs the module 'scipy' (No module named 'scipy'); pip install 'dynagate[hw]'",
        ),
        (RobotError("a.urdf: mimic joints are not supported, lock= holds them"), "not supported, --lock holds them\n"),
        (RobotError("expected 0 or ignore_friction"), "Error: expected 0 or --ignore-friction\n"),
    ],
)
def test_what_the_user_can_mend_is_told_in_a_line(
    error: BaseException, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(robots, "load", fail)
    result = CliRunner().invoke(main, ["build", "two_joint_arm"])
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 1
    assert message in result.output
    assert result.output.startswith("Error: ")
    assert len(result.output.splitlines()) == 1


def test_faults_of_the_program_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynagate.cli.info, "relative_errors", None)
    result = CliRunner().invoke(main, ["info", "two_joint_arm"])
    assert isinstance(result.exception, TypeError)
    assert any("a bug of dynagate" in note for note in result.exception.__notes__)


def test_files_are_written_all_or_none(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: the header fits, the body does not."""
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); import dynagate.cli as cli;"
    )
    program = [sys.executable, "-B", "-c", f"{limited} cli.main(sys.argv[1:])", "emit", "two_joint_arm", "--folder"]
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "two_joint_arm_forward_dynamics_gradient.h").write_text("as before")
    for folder in ("new/below", "kept"):
        done = subprocess.run([*program, tmp_path / folder], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith(f"Error: {tmp_path / folder}: File too large")
        assert "Traceback" not in done.stderr
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == [
        "kept",
        "kept/two_joint_arm_forward_dynamics_gradient.h",
    ]
    assert (tmp_path / "kept" / "two_joint_arm_forward_dynamics_gradient.h").read_text() == "as before"


def test_a_disk_that_fills_while_verilog_is_written_is_told(tmp_path: Path) -> None:
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); import dynagate.cli as cli;"
    )
    program = [sys.executable, "-B", "-c", f"{limited} cli.main(sys.argv[1:])", "build", "two_joint_arm", "--ii", "2"]
    command = [*program, "--function", "mass_matrix", "--folder", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"Error: .*File too large.*", done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_figures_go_to_a_pipe_or_into_a_whole_file(tmp_path: Path) -> None:
    write_text(tmp_path / "a.json", "1\n")
    write_text(tmp_path / "a.json", "2\n")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.json", "2\n")]
    write_text(Path("/dev/null"), "3\n")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_text(Path("/dev/full"), "3\n")
    program = (
        "from pathlib import Path; from dynagate.cli.output import write_text; write_text(Path('/dev/stdout'), '4')"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"4"


def test_a_reader_that_leaves_is_no_error() -> None:
    command = [sys.executable, "-m", "dynagate", "info", "two_joint_arm", "--form", "recursive"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        errors = program.stderr.read()
    assert program.returncode == 1
    assert "Error" not in errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:200], "is not a formats file"),
        (lambda content: content.replace(b'"q_0": [24', b'"q_0": [200'), "node 'q_0' has 200 bits; expected 2 to 32"),
        (lambda content: content.replace(b"half_up", b"half_down"), "rounding 'half_down'; expected"),
    ],
)
def test_damaged_formats_are_told(change: Callable[[bytes], bytes], message: str, tmp_path: Path) -> None:
    robot = robots.load("two_joint_arm")
    path = tmp_path / "formats.json"
    write_formats(assign(trace(robot, "mass_matrix"), Region.of(robot)), path)
    damaged = change(path.read_bytes())
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    status, text = call("build", "two_joint_arm", "--function", "mass_matrix", "--formats", path, "--folder", tmp_path)
    assert status == 1
    assert message in text, text
    assert [p.name for p in tmp_path.iterdir()] == ["formats.json"]


def test_every_command_is_explained_in_a_line_and_by_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples are command lines that are accepted."""
    monkeypatch.chdir(tmp_path)
    arm(tmp_path).rename("my_robot.urdf")
    Path("build/designs").mkdir(parents=True)
    _, overview = call("--help")
    assert "hyq, iiwa14, two_joint_arm" in overview
    for name, command in main.commands.items():
        assert f"  {name} " in overview
        assert f" {command.short_help}\n" in overview  # not cut
        _, text = call(name, "--help")
        examples = [line.split()[1:] for line in text.splitlines() if line.startswith("    dynagate ")]
        assert examples, name
        for example in examples:
            assert example[0] == name
            with command.make_context(name, example[1:]) as context:
                assert context.params.get("robot", True) or context.params["core"]


def test_help_says_what_each_argument_is() -> None:
    for name, text in (
        ("verify", "FOLDER +The folder of a design, as"),
        ("view", r"\[TRAJECTORY\] +An \.npz file with"),
    ):
        assert re.search(text, call(name, "--help")[1])


def test_a_warning_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a place in our files or click's. Those of others keep theirs."""

    def warned() -> None:
        sys.stderr.write(warnings.formatwarning("a motion is lost", RobotWarning, "place.py", 3))
        sys.stderr.write(warnings.formatwarning("another one", UserWarning, "place.py", 3))

    monkeypatch.setitem(main.commands, "warned", click.Command("warned", callback=warned))
    assert call("warned")[1] == "RobotWarning: a motion is lost\nplace.py:3: UserWarning: another one\n"
    assert warnings.formatwarning("a motion is lost", RobotWarning, "place.py", 3).startswith("place.py:3")


def test_help_puts_options_into_groups() -> None:
    """None is left over but --help, and none of a group is unknown to all commands."""
    listed = set()
    for name, command in main.commands.items():
        _, text = call(name, "--help")
        titles = re.findall(r"^(\w[^:\n]*):$", text, flags=re.M)
        assert titles == [title for title in groups.TITLES if title in titles], name
        left_over = re.findall(r"^  (-.*?)  ", text[text.index("\nOptions:\n") :], flags=re.M)
        assert left_over == ["-h, --help"], f"{name}: put {left_over[:-1]} into a group of dynagate.cli.groups"
        listed |= {option for parameter in command.params for option in parameter.opts}
    assert {f"--{option}" for names in groups.OPTIONS.values() for option in names.split()} <= listed
    _, text = call("build", "--help")
    assert text.index("Robot:\n  ROBOT ") < text.index("Formats:\n  --word") < text.index("Hardware:\n  --ii")


def completed(*words: str) -> list[str]:
    """What a shell is told that the last word can become."""
    *before, last = words
    complete = click.shell_completion.ShellComplete(main, {}, "dynagate", "_DYNAGATE_COMPLETE")
    return [item.value for item in complete.get_completions(before, last)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("do", ["doctor"]),
        ("run ii", ["iiwa14"]),
        ("sweep iiwa14 --function mass", ["mass_matrix", "mass_matrix_inverse"]),
        ("build iiwa14 --function mass_matrix,link_p", ["mass_matrix,link_positions"]),
        ("bitstream iiwa14 --board v", ["vcu118"]),
        ("synth iiwa14 --family e", ["ecp5"]),
        ("build iiwa14 --target ", ["DSP48E2", "DSP48E1", "18x18"]),
        ("build iiwa14 --function mass_matrix --form ", ["composite_bodies"]),
        ("info iiwa14 --frame b", ["base"]),
        ("build iiwa14 --budget l", ["lut="]),
        ("build two_joint_arm --outputs qdd,dqdd_dqd", ["qdd,dqdd_dqd"]),
        ("build two_joint_arm --variable f", ["forearm"]),
        ("info two_joint_arm --lock e", ["elbow="]),
        ("info nobody --lock e", []),
    ],
)
def test_shells_complete_names(words: str, expected: list[str]) -> None:
    assert completed(*words.split(" ")) == expected


def test_the_line_for_bash_completes() -> None:
    """`eval "$(...)"` of the manual, in bash itself."""
    program = """
        eval "$(_DYNAGATE_COMPLETE=bash_source dynagate)"
        COMP_WORDS=(dynagate bitstream iiwa14 --board k) COMP_CWORD=4
        _dynagate_completion dynagate
        echo "${COMPREPLY[@]}"
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", program], env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.stdout == "kv260\n", done.stderr


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("info two_joint_arm --form aba", "forward_dynamics aba"),
        ("emit two_joint_arm --folder c", "tracing two_joint_arm forward_dynamics_gradient"),
        ("build two_joint_arm --function mass_matrix --ii 2", "tracing two_joint_arm mass_matrix"),
        (
            "report two_joint_arm --show together --function mass_matrix,forward_dynamics",
            "planning two_joint_arm mass_matrix",
        ),
        ("clean --dry-run", "looking for what can go"),
    ],
)
def test_progress_is_told_from_the_start(
    words: str, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DYNAGATE_CACHE", str(tmp_path / "cache"))
    result = CliRunner().invoke(main, words.split())
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines()[0] == f"  {first}"
    assert result.stdout  # the result, apart from progress


def test_python_m_dynagate_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "dynagate", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"python -m dynagate, version {dynagate.__version__}\n"


@dataclass(frozen=True)
class Asked:
    """Options of a command in a test."""

    count: int = option("Draw this many.", 3, unit="SAMPLES", most=9)
    names: tuple[str, ...] = option("Take this one (repeatable).", (), name="--name", choices=("a", "b"))
    loud: bool = option("Print more.", False)
    not_an_option: int = 7

    def __post_init__(self) -> None:
        if self.loud and self.count > 5:
            raise ArgumentError("loud with count=6; expected one of them, and loud alone is enough")
        if self.names == ("b",):
            raise OptionError("count", "of b; expected more=True (--loud): it has none")


@groups.command(short_help="Test.", name="test")
@options_of(Asked)
def asking(options: Asked) -> None:
    click.echo(repr(options))
    if options.count == 4:
        raise OptionError("count", "4; expected more=True (--loud), or another")


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ("", 0, "Asked(count=3, names=(), loud=False, not_an_option=7)"),
        ("--count 9 --name b --name a", 0, "Asked(count=9, names=('b', 'a'), loud=False, not_an_option=7)"),
        ("--count 0", 2, "0; expected a whole number from 1 to 9"),
        ("--count nan", 2, "nan; expected a whole number from 1 to 9"),
        ("--name c", 2, "'c' is not one of 'a', 'b'"),
        ("--not-an-option 3", 2, "No such option"),
        ("--count 6 --loud", 2, "Error: --loud with --count=6; expected one of them, and --loud alone is enough"),
        ("--name b", 2, "Error: --count of b; expected --loud: it has none"),
        ("--count 4", 2, "Error: --count 4; expected --loud, or another"),
    ],
)
def test_options_are_made_from_the_fields_of_a_dataclass(arguments: str, status: int, text: str) -> None:
    done = CliRunner().invoke(asking, arguments.split())
    assert (done.exit_code, text in done.output) == (status, True), done.output


def test_help_of_an_option_is_in_its_field() -> None:
    text = " ".join(CliRunner().invoke(asking, ["--help"]).output.split())
    assert "--count SAMPLES Draw this many. [default: 3]" in text
    assert "--name [a|b] Take this one (repeatable)." in text
