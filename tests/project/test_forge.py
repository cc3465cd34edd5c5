"""The files for contributors: workflows, issue forms, the changelog, and the release script."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
PAGES = ["CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"]
CHANGES = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
"""The headings of Keep a Changelog."""

FORM_FIELDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), flags=re.M))


def jobs(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())["jobs"]


def commands_of(job: dict[str, Any]) -> list[str]:
    """Return the shell lines of a job, once for each row of its matrix."""
    lines = [line for step in job["steps"] for line in step.get("run", "").splitlines()]
    matrix = job.get("strategy", {}).get("matrix", {})
    for name, values in matrix.items():
        variable = "${{ matrix." + name + " }}"
        lines = [line.replace(variable, str(value)) for line in lines for value in values]
    return lines


def all_commands() -> list[tuple[str, str]]:
    return [(path.name, line) for path in WORKFLOWS for job in jobs(path).values() for line in commands_of(job)]


def blocks(page: str) -> list[str]:
    """Return the lines of a page's shell blocks and its code spans that begin with a command."""
    text = (ROOT / page).read_text()
    lines = "".join(re.findall(r"```sh\n(.*?)```", text, flags=re.S)).splitlines()
    return lines + [span for span in re.findall(r"`([^`\n]+)`", text) if span.startswith(("make ", ".venv/bin/"))]


def check_command(line: str) -> None:
    """Check that a make target, an extra and each file of the repository in a command exist."""
    words = shlex.split(line)
    if words[0] == "make":
        target = next(word for word in words[1:] if "=" not in word)
        assert target in makefile_targets(), f"no target '{target}' in the Makefile"
    for extra in re.findall(r"\.\[([\w,]+)\]", line):
        assert set(extra.split(",")) <= set(PROJECT["optional-dependencies"]), f"no extra '{extra}'"
    for word in words:
        if re.match(r"(tests|packaging|docs)/", word):
            assert (ROOT / word).exists(), f"no file '{word}'"


def release() -> ModuleType:
    """Import packaging/release.py, which imports try_wheel.py from its own folder."""
    folder = str(ROOT / "packaging")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("release", ROOT / "packaging" / "release.py")
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def test_workflows_cover_lint_tests_docs_nightly_and_release() -> None:
    assert [path.name for path in WORKFLOWS] == ["checks.yml", "nightly.yml", "release.yml"]
    checks, nightly, published = (jobs(path) for path in WORKFLOWS)
    assert set(checks) == {"lint", "fast", "docs"}
    assert commands_of(checks["lint"]) == ["make lint"]
    assert commands_of(checks["docs"]) == ["make docs"]
    assert {"make test", "make test-long"} <= set(commands_of(nightly["long"]))
    assert any(line.startswith("make release TAG=") for line in commands_of(published["build"]))


def test_fast_tests_run_on_each_supported_python() -> None:
    versions = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)]
    fast = jobs(WORKFLOWS[0])["fast"]
    assert fast["strategy"]["matrix"]["python"] == versions
    assert set(commands_of(fast)) == {"make test-core"}
    (core,) = re.findall(r"^CORE := ((?:.*[\\]\n)*.*)$", (ROOT / "Makefile").read_text(), flags=re.M)
    for name in core.replace("\\", " ").split():
        assert (ROOT / "tests" / f"{name}.py").is_file(), f"no tests/{name}.py"


@pytest.mark.parametrize(("workflow", "line"), all_commands())
def test_a_command_of_a_workflow_exists(workflow: str, line: str) -> None:
    check_command(line)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_few_permissions_and_a_time_limit(path: Path) -> None:
    text = yaml.safe_load(path.read_text())
    assert text["permissions"] == {"contents": "read"}
    for name, job in text["jobs"].items():
        assert job["timeout-minutes"] <= 360, name
        writes = job.get("permissions", {}).get("contents") == "write"
        # the job that may write runs no code of the packages that the build installs
        assert not writes or [line.split()[0] for line in commands_of(job)] == ["gh"], name
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), name
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name
            # text that a stranger chooses, such as a title or a branch, reaches a shell through a variable only
            assert not re.search(r"\$\{\{\s*(github|inputs)\.", step.get("run", "")), name


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_an_issue_form_is_complete(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert {"name", "description", "body"} <= form.keys()
    identifiers = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(set(identifiers)) == len(identifiers)
    assert {field["type"] for field in form["body"]} <= FORM_FIELDS
    assert all(field["attributes"].get("label") for field in form["body"] if field["type"] != "markdown")
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_there_is_a_form_for_a_bug_a_feature_and_a_robot() -> None:
    assert [path.stem for path in FORMS] == ["bug", "feature", "robot"]


@pytest.mark.parametrize("page", PAGES)
def test_links_and_commands_of_a_page_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\((?!https://)([^)#]+)", text):
        assert (ROOT / target).exists(), f"{page}: {target}"
    for line in blocks(page):
        check_command(line)


def test_contributing_lists_each_folder() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for folder in ("sw/dynagate", "fixedpoint", "hw", "sim", "tests", "docs", "examples", "packaging"):
        assert f"`{folder}/`" in text


def test_the_address_has_one_place() -> None:
    """Where the project has an address, only pyproject.toml holds it; no page has a stand-in for it."""
    address, version = PROJECT.get("urls", {}).get("Repository", ""), re.escape(PROJECT["version"])
    for page in [*PAGES, "README.md", "CHANGELOG.md", "CITATION.cff"]:
        # the README of an sdist has absolute links to the files of its tag
        text = re.sub(rf"\({re.escape(address)}/(blob|raw)/v{version}/", "(", (ROOT / page).read_text())
        assert not address or address not in text, page
        assert not re.search(r"https?://(\.\.\.|example\.)|YOUR|OWNER|<address>", text), page


def test_the_changelog_keeps_its_form() -> None:
    parts = re.split(r"^## (.*)$", CHANGELOG, flags=re.M)
    titles = parts[1::2]
    assert titles[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", title) for title in titles[1:])
    for title, text in zip(titles, parts[2::2], strict=True):
        kinds = re.findall(r"^### (.*)$", text, flags=re.M)
        assert set(kinds) <= CHANGES, title
        assert len(set(kinds)) == len(kinds), title
        items = [line for line in text.splitlines() if line and not line.startswith(("#", "  "))]
        assert all(line.startswith("* ") for line in items if line != "The first version."), title
    dates = {title.split(" - ")[0]: title.split(" - ")[1] for title in titles[1:]}
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["date-released"]) == dates[PROJECT["version"]]


def test_the_notes_of_a_release_are_its_part_of_the_changelog() -> None:
    script = release()
    text = "# Changelog\n\n## Unreleased\n\n## 1.2.0 - 2027-01-31\n\n### Added\n\n* A.\n\n## 1.1.0 - 2026-12-01\n"
    assert script.notes_of(text, "1.2.0") == "### Added\n\n* A.\n"
    with pytest.raises(script.NotReady, match=r"newest version .* '1\.2\.0 - 2027-01-31'; expected '## 1\.3\.0"):
        script.notes_of(text, "1.3.0")
    with pytest.raises(script.NotReady, match="under 'Unreleased'"):
        script.notes_of(text.replace("Unreleased\n", "Unreleased\n\n### Fixed\n\n* C.\n"), "1.2.0")
    with pytest.raises(script.NotReady, match="expected '## 1"):
        script.notes_of(text.replace("2027-01-31", "soon"), "1.2.0")


def test_links_of_the_readme_become_absolute() -> None:
    text = "[a](docs/a.md#b) ![c](docs/c.svg) [d](https://d.org) [e](#f) [`g`](LICENSE)"
    expected = (
        "[a](https://h.org/p/blob/v1/docs/a.md#b) ![c](https://h.org/p/raw/v1/docs/c.svg) "
        "[d](https://d.org) [e](#f) [`g`](https://h.org/p/blob/v1/LICENSE)"
    )
    assert release().with_absolute_links(text, "https://h.org/p", "v1") == expected


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, whose README has a link."""
    root = tmp_path / "repository"
    root.mkdir()
    (root / "README.md").write_text("[a](docs/a.md)\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.org"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "a: b"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def test_a_release_exports_committed_files(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "new.md").write_text("not committed")
    places = [tmp_path / "1", tmp_path / "2"]
    for place in places:
        place.mkdir()
    plain = release().exported(places[0], None, "v1", repository)
    assert {path.name for path in plain.iterdir()} == {"README.md"}
    assert (plain / "README.md").read_text() == "[a](docs/a.md)\n"
    assert "[project.urls] is empty" in capsys.readouterr().out
    linked = release().exported(places[1], "https://h.org/p/", "v1", repository)
    assert (linked / "README.md").read_text() == "[a](https://h.org/p/blob/v1/docs/a.md)\n"
    assert (repository / "README.md").read_text() == "[a](docs/a.md)\n"


def test_a_tag_is_new_or_leads_to_the_commit(repository: Path) -> None:
    script = release()
    script.check_tag("1.0.0", None, repository)
    with pytest.raises(script.NotReady, match="does not lead to the commit"):
        script.check_tag("1.0.0", "v1.0.0", repository)
    subprocess.run(["git", "tag", "v1.0.0"], cwd=repository, check=True)
    script.check_tag("1.0.0", "v1.0.0", repository)
    with pytest.raises(script.NotReady, match="expected the tag v1\\.0\\.1"):
        script.check_tag("1.0.1", "v1.0.0", repository)
    with pytest.raises(script.NotReady, match="exists; set the next version"):
        script.check_tag("1.0.0", None, repository)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.org"]
    command = ["git", *identity, "commit", "-q", "--allow-empty", "-m", "a: c"]
    subprocess.run(command, cwd=repository, check=True)
    with pytest.raises(script.NotReady, match="does not lead to the commit"):
        script.check_tag("1.0.0", "v1.0.0", repository)
