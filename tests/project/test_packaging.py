"""What the package says of itself for indexes, conda and Docker: everywhere the same."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import click
import dynagate
import pytest
import yaml
from click.testing import CliRunner
from dynagate.base import storage
from dynagate.base.errors import Error
from dynagate.base.storage import full_disk
from dynagate.cli import main
from dynagate.cli.errors import BUG
from dynagate.cli.extras import MANAGERS, require, require_programs, simulation_programs
from dynagate.native.cache import check_own
from dynagate.native.compile import CompileError, compiler, nvcc
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPE = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
DOCKERFILE = (ROOT / "packaging" / "docker" / "Dockerfile").read_text()


def instructions() -> list[tuple[str, str]]:
    """Those of the Dockerfile, with lines that go on joined."""
    lines = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.M)).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word]


def names(texts: list[str]) -> dict[str, SpecifierSet]:
    requirements = [Requirement(text.replace(" ", "")) for text in texts]
    return {requirement.name: requirement.specifier for requirement in requirements}


def test_version_is_the_same_everywhere() -> None:
    changes = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert changes
    assert dynagate.__version__ == PROJECT["version"] == RECIPE["context"]["version"] == changes[1]


def test_classifiers_name_the_versions_of_python() -> None:
    versions = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)]
    assert PROJECT["requires-python"] == f">={versions[0]}" == f">={RECIPE['context']['python_min']}"
    minors = [int(version.partition(".")[2]) for version in versions]
    assert minors == list(range(minors[0], minors[-1] + 1))


def test_what_an_index_shows_is_there() -> None:
    assert (ROOT / PROJECT["readme"]).is_file()
    assert all((ROOT / file).is_file() for file in PROJECT["license-files"])
    assert PROJECT["license"] == RECIPE["about"]["license"]
    assert not any(text.startswith("License ::") for text in PROJECT["classifiers"])  # refused beside an expression
    assert all(url.startswith("https://") for url in PROJECT.get("urls", {}).values())


def test_conda_recipe_requires_what_pyproject_does() -> None:
    run = [text for text in RECIPE["requirements"]["run"] if not text.startswith(("python ", "__"))]
    assert names(run) == names(PROJECT["dependencies"])
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert names(build).items() <= names(RECIPE["requirements"]["host"][1:]).items()
    (script,) = PROJECT["scripts"].items()
    assert RECIPE["build"]["python"]["entry_points"] == [" = ".join(script)]


@pytest.mark.parametrize("line", RECIPE["tests"][1]["script"])
def test_commands_of_the_conda_recipe_work(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(line)
    assert program in PROJECT["scripts"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output


def test_dockerfile_installs_what_run_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    text = " ".join(rest for word, rest in instructions() if word == "RUN")
    packages = text.partition("--no-install-recommends")[2].partition("&&")[0].split()
    special = MANAGERS["apt-get"][1]
    assert set(packages) == {special.get(tool, tool) for tool in simulation_programs()}
    (extra,) = re.findall(r"\.whl\)\[(\w+)\]", text)
    assert extra in PROJECT["optional-dependencies"]
    assert "RUN dynagate doctor" in DOCKERFILE  # the build fails where something is missing
    assert [rest for word, rest in instructions() if word == "ENTRYPOINT"] == ['["dynagate"]']


def test_dockerfile_copies_what_is_there() -> None:
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    assert copied == [["."], ["constraints.txt"]]
    assert all((ROOT / path).exists() for paths in copied for path in paths)
    bases = {rest.split()[0] for word, rest in instructions() if word == "FROM"}
    (version,) = {re.fullmatch(r"python:(3\.\d+)-slim", base)[1] for base in bases}  # type: ignore[index]
    assert SpecifierSet(PROJECT["requires-python"]).contains(version)


def test_manual_lists_every_extra() -> None:
    table = (ROOT / "docs" / "install.md").read_text().partition("| extra |")[2].partition("\n\n")[0]
    listed = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert listed == set(PROJECT["optional-dependencies"])


def test_pages_install_extras_that_exist_from_a_clone() -> None:
    pages = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        for line in page.read_text().splitlines():
            for where, extras in re.findall(r"install.*'(dynagate|\.)\[([\w,]+)\]'", line):
                assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"]), f"{page.name}: {line}"
                assert where == "." or page.name == "install.md", f"{page.name}: {line}"


def troubles() -> list[str]:
    """The messages of dynagate that the manual explains."""
    table = (ROOT / "docs" / "install.md").read_text().partition("| message of dynagate |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `(.*?)` \|", table, flags=re.M)


def outdated(folder: Path) -> str:
    """Return what dynagate says of a compiler that lacks a flag."""
    script = folder / "old-compiler"
    script.write_text('#!/bin/sh\nfor flag; do [ $flag = -std=gnu11 ] && exit 1; done\nexec gcc "$@"\n')
    script.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", str(script))
        patch.setenv("DYNAGATE_CACHE", str(folder / "cache"))
        with pytest.raises(CompileError) as caught:
            dynagate.compile("two_joint_arm", "mass_matrix")
    return str(caught.value)


def provoked(folder: Path) -> list[str]:
    """What dynagate says where something is missing, full or not the user's own."""
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    texts = [BUG]
    for call in (
        lambda: require("'dynagate x'", "sim", "no_such_module"),
        lambda: require_programs("'dynagate x'", ["no-such-program"]),
        compiler,
        nvcc,
        lambda: check_own(folder / "open", Error),
    ):
        with pytest.raises((click.ClickException, Error)) as caught:
            call()
        texts.append(getattr(caught.value, "message", str(caught.value)))
    texts += [full_disk(folder), outdated(folder)]
    for arguments in (["build", "hyq", "--floating-base"], ["info", "nobody"]):
        texts.append(CliRunner().invoke(main, arguments).output)
    return texts


def test_messages_that_the_manual_explains_are_those_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("CC", "NVCC"):
        monkeypatch.setenv(variable, "no-such-compiler")
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    texts = [" ".join(text.split()) for text in provoked(tmp_path)]
    for message in troubles():
        pattern = re.escape(message).replace("…", ".*")
        assert any(re.search(pattern, text) for text in texts), f"'{message}' is none of {texts}"
    assert len(troubles()) == len(texts)


def test_interpreters_are_looked_for_until_one_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version manager's `python3.x` may be a program that only says that this version is not chosen."""
    spec = importlib.util.spec_from_file_location("try_wheel", ROOT / "packaging" / "try_wheel.py")
    assert spec
    assert spec.loader
    try_wheel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(try_wheel)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert version in try_wheel.versions()
    refusing, working = tmp_path / f"python{version}", tmp_path / "versions" / f"{version}.9" / "bin" / "python"
    refusing.write_text("#!/bin/sh\nexit 127\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert try_wheel.find(version) is None
    working.parent.mkdir(parents=True)
    working.symlink_to(sys.executable)
    assert try_wheel.find(version) == str(working)
    with pytest.raises(try_wheel.Failure, match=r"ended with status 1, expected 0 and 'PASS'"):
        try_wheel.call(["/bin/sh", "-c", "exit 1"], folder=tmp_path, expected="PASS")


def test_how_to_cite_it_agrees_with_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"] == dynagate.__version__
    assert citation["license"] == PROJECT["license"]
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert {"cff-version", "message", "title"} <= citation.keys()


def test_every_robot_that_ships_has_a_license() -> None:
    for name in dynagate.robots.names():
        text = dynagate.robots.path(name).read_text()
        assert f"SPDX-License-Identifier: {PROJECT['license']}" in text, name
