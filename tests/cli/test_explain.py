"""`dynagate explain`, and its explanations: each example raises the error that it explains, and each fix works."""

from __future__ import annotations

import re
import shlex
import warnings
from pathlib import Path

import dynagate
import pytest
from click.testing import CliRunner
from dynagate.cli import codes, main

EXPLAINED = codes.explanations()


def blocks(code: str, language: str) -> list[str]:
    """Return the blocks of code in the explanation of an error."""
    return re.findall(rf"^```{language}\n(.*?)^```$", EXPLAINED[code], re.MULTILINE | re.DOTALL)


def with_blocks(language: str) -> list[str]:
    return [code for code in EXPLAINED if blocks(code, language)]


def run(block: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dynagate.RobotWarning)
        exec(compile(block, "example", "exec"), {"__name__": "example"})


@pytest.mark.parametrize("code", with_blocks("python"))
def test_python_of_an_explanation_raises_the_error_and_the_fix_does_not(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong, *right = blocks(code, "python")
    with pytest.raises(dynagate.Error) as caught:
        run(wrong)
    assert (caught.value.code, str(caught.value)[-len(code) - 3 :]) == (code, f" [{code}]")
    for block in right:
        run(block)


@pytest.mark.parametrize("code", with_blocks("xml"))
def test_a_robot_of_an_explanation_raises_the_error(code: str, tmp_path: Path) -> None:
    (wrong,) = blocks(code, "xml")
    file = tmp_path / "robot.urdf"
    file.write_text(wrong)
    with pytest.raises(dynagate.RobotError) as caught:
        dynagate.Robot.from_urdf(file)
    assert caught.value.code == code


@pytest.mark.parametrize("code", with_blocks("sh"))
def test_a_command_of_an_explanation_ends_with_the_code(code: str) -> None:
    (command,) = blocks(code, "sh")
    result = CliRunner().invoke(main, shlex.split(command)[1:], terminal_width=10_000)
    assert result.exit_code != 0
    assert result.output.endswith(f" [{code}]\n")


def test_explanations_are_many_and_have_the_three_parts() -> None:
    assert len(EXPLAINED) >= 60
    for code, text in EXPLAINED.items():
        assert re.match(r"\*\*[^*]+\.\*\* [\w`]", text), f"{code}: expected a title in bold, then the reason"
        assert re.search(r"^To fix it, |^Use this ", text, re.MULTILINE), f"{code}: expected 'To fix it, ...'"


def test_an_error_is_explained_by_its_code() -> None:
    with pytest.raises(dynagate.Error) as caught:
        dynagate.trace("two_joint_arm", "statics")
    for spelling in (caught.value.code, f"[{caught.value.code.lower()}]"):
        result = CliRunner().invoke(main, ["explain", spelling])
        assert result.exit_code == 0
        assert result.output.startswith(f"{caught.value.code}: ArgumentError of dynagate.dynamics.functions.lookup\n")
        assert "no function <name>" in result.output
        assert EXPLAINED[caught.value.code] in result.output


def test_an_error_without_an_explanation_has_its_class_and_text() -> None:
    with pytest.raises(dynagate.Error) as caught:
        dynagate.compile("two_joint_arm", "mass_matrix,bias_torque")
    assert caught.value.code not in EXPLAINED
    output = CliRunner().invoke(main, ["explain", caught.value.code]).output
    assert "function <each> is for the command line" in output
    assert "ArgumentError: An argument with a value that cannot be used" in output


@pytest.mark.parametrize(
    "code", ["DG-URDF-999", "DG", "", "nonsense", "DG-URDF-001\n", "../../etc/passwd", "DG-ÜRDF-001"]
)
def test_other_codes_are_refused(code: str) -> None:
    result = CliRunner().invoke(main, ["explain", code])
    if code.strip() in codes.codes():
        assert result.exit_code == 0
    else:
        assert result.exit_code == 2
        assert "no error has the code" in result.output
        assert "Areas: ARG, " in result.output


def test_every_code_is_found_with_its_class_and_text() -> None:
    errors = [error for path in codes.sources() for error in codes.errors_in(path.read_text(), codes.module_of(path))]
    assert sorted(error.code for error in errors) == codes.codes()
    assert len(errors) > 1000
    modules = {codes.module_of(path) for path in codes.sources()}
    for error in errors:
        assert error.text, error.code
        assert error.module in modules, error.code
    for error in errors[::100]:
        assert codes.find(error.code) == error


def test_the_shell_completes_codes() -> None:
    from click.shell_completion import ShellComplete

    found = ShellComplete(main, {}, "dynagate", "_DYNAGATE_COMPLETE").get_completions(["explain"], "dg-jax-")
    assert [item.value for item in found] == [code for code in codes.codes() if code.startswith("DG-JAX-")]
    assert found
