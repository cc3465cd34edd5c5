"""What the package says of itself for indexes, conda and Docker: everywhere the same."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
import tomllib
from pathlib import Path

import dynagate
import pytest
import yaml
from click.testing import CliRunner
from dynagate.cli import main
from dynagate.cli.diagnosis import MANAGERS
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parent.parent
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
    changes = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
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


def test_dockerfile_installs_what_run_needs() -> None:
    text = " ".join(rest for word, rest in instructions() if word == "RUN")
    packages = text.partition("--no-install-recommends")[2].partition("&&")[0].split()
    special = MANAGERS["apt-get"][1]
    assert set(packages) == {special.get(tool, tool) for tool in ("make", "perl", "c++", "g++")}
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
