"""README and docs: their Python runs, and the figures are the ones that the command prints."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import click
import dynagate
import pytest
from dynagate import robots
from dynagate.cli import main
from dynagate.host.report import Report, report_design
from dynagate.host.report.bodies import body_of
from dynagate.host.report.functions import counts_of, measure_functions
from dynagate.hw.build import build_request
from dynagate.hw.request import DesignRequest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONG = (
    *("docs/driver.md", "docs/environments.md", "docs/processor.md"),
    *("docs/train_policy.md", "docs/tutorials/learning.md"),
    *("docs/tutorials/hardware.md", "docs/tutorials/hour.md", "docs/tutorials/legged.md"),
)
"""Pages whose programs take long: most of them compile a simulation of hardware. Other tests run the same functions."""
WRITES = ("check_robot.md", "hour.md", "legged.md", "models.md")
APART = "contributing.md"
"""It adds to the tables of operations and functions, so `test_contributing` runs it in interpreters of its own."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(ROOT / page, marks=[pytest.mark.long] if page in LONG else [], id=page)
        for page in (path.relative_to(ROOT).as_posix() for path in PAGES if path.name != APART)
    ],
)
def test_python_on_the_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch, designs: Path, tmp_path: Path) -> None:
    """And, of a tutorial, its commands between."""
    # where `make run` keeps its design too, but for a page that writes files
    monkeypatch.chdir(tmp_path if page.name in WRITES else designs.parent.parent)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    space: dict[str, object] = {}
    languages = "python|sh" if page.parent.name == "tutorials" else "python"
    for language, block in re.findall(rf"```({languages})\n(.*?)```", page.read_text(), flags=re.S):
        if language == "sh":
            kept = designs.parent / "environment"
            subprocess.run(["bash", "-ec", f"{block}\nenv -0 > '{kept}'"], check=True)
            for line in filter(None, kept.read_text().split("\0")):  # what is exported stays, as in a terminal
                monkeypatch.setenv(*line.split("=", 1))
        else:
            exec(compile(block, page.name, "exec"), space)
    pictures = runpy.run_path(str(ROOT / "docs" / "draw_pictures.py"))
    for path, drawn in pictures["of_page"](os.path.relpath(page, ROOT / "docs")):
        difference = pictures["differs"](drawn(space).rstrip() + "\n", path.read_text())
        assert not difference, f"{path.name} is not what {page.name} computes: {difference}; docs/draw_pictures.py"


RUN = DesignRequest(robots.load("iiwa14"), "forward_dynamics_gradient", ii=8)
"""The design of `make run`."""
VERIFICATION = ROOT / "docs" / "verification.md"


@pytest.mark.long
def test_the_page_of_verification_shows_what_make_run_prints(designs: Path) -> None:
    report = report_design(RUN, folder=designs)
    assert report.passed
    assert report.text() in VERIFICATION.read_text()


@pytest.mark.long
def test_the_page_of_verification_has_the_counts_and_errors_of_the_integers(designs: Path) -> None:
    """The integers, which the simulated design of `make run` equals, give everything but the cycles measured."""
    built, page = build_request(RUN, folder=designs), VERIFICATION.read_text()
    with dynagate.open(built, device="fixed") as integers:
        measured = measure_functions(built, body_of(built).functions, integers, counts_of(1024))
    (function,) = measured.functions
    (latency,) = re.findall(r"^  latency +(\d+) cycles measured", page, flags=re.M)
    measured = replace(measured, functions=(replace(function, latency=int(latency), cycles_per_sample=8.0),))
    body = body_of(built)
    title = f"{built.robot.name} {built.function}, {body.words}"
    assert Report(title, (body, body.pace_of_functions(measured), measured)).text() in page


PERFORMANCE, WHEN = "docs/performance.md", "docs/when.md"
REPEATED = [
    (WHEN, r"\((\d+) to (\d+) cycles\)", PERFORMANCE, r"(\d+) to (\d+) cycles from the first beat in"),
    (WHEN, r"([\d.]+) µs a call from Python", PERFORMANCE, r"It takes ([\d.]+) µs for one state"),
    (WHEN, r"(\d+) to (\d+) µs a call from Python", PERFORMANCE, r"call from Python takes (\d+) to (\d+) µs"),
    (WHEN, r"([\d,]+) M \(65,536 samples, float32", PERFORMANCE, r"A batch of 65,536 is ([\d,]+) M"),
    (WHEN, r"65,536 samples in ([\d.]+) ms", PERFORMANCE, r"65,536 samples take ([\d.]+) ms"),
    (
        WHEN,
        r"(\d+) M \(65,536 samples in ",
        "docs/notebook.md",
        r"over PCIe\) \| [\d.]+ ms \| (\d+) M",
    ),
    (WHEN, r"([\d.]+) M by a link", PERFORMANCE, r"\| link \| ([\d.]+) M results"),
]
"""Figures that two pages have: where, and the words around them."""


@pytest.mark.parametrize(("page", "here", "other", "there"), REPEATED, ids=lambda value: str(value)[:30])
def test_figures_that_pages_repeat_agree(page: str, here: str, other: str, there: str) -> None:
    first, second = (re.search(p, (ROOT / name).read_text()) for name, p in ((page, here), (other, there)))
    assert first is not None, f"{page} has no {here}"
    assert second is not None, f"{other} has no {there}"
    assert first.groups() == second.groups()


def test_the_readme_is_short_and_begins_with_a_picture_and_a_first_call() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 110
    screen = "\n".join(lines[:40])
    for picture in re.findall(r'(?:src|srcset)="([^"]+)"', screen) or [""]:
        assert (ROOT / picture).is_file(), picture
    (commands,) = re.findall(r"^```sh\n(.*?)^```", screen, flags=re.S | re.M)
    assert len(commands.splitlines()) == 2
    assert "dg.compile(" in screen


def anchors(page: Path) -> set[str]:
    """Those of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    titles = [re.sub(r"[^\w\- ]", "", title.lower()) for title in re.findall(r"^#+ (.*)$", text, flags=re.M)]
    return {title.replace(" ", "-") for title in titles}


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", page.read_text()):
            path = page.parent / target if target else page
            assert path.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(path), f"{page.name}: {target}#{anchor}"


def test_index_of_the_reference_lists_the_names_of_its_pages() -> None:
    folder = ROOT / "docs" / "reference"
    rows = re.findall(r"^\| \[[^]]*\]\((\w+\.md)\) \| (.*) \|$", (folder / "index.md").read_text(), flags=re.M)
    assert sorted(page for page, _ in rows) == sorted(p.name for p in folder.glob("*.md") if p.name != "index.md")
    for page, listed in rows:
        names = re.findall(r"^::: (?:[\w.]+\.)?(\w+)$", (folder / page).read_text(), flags=re.M)
        assert [name.split(".")[-1] for name in re.findall(r"`([\w.]+)`", listed)] == names, page


def spans(page: Path) -> list[tuple[int, str]]:
    """Code spans and lines of shell blocks of a page, by the number of their line."""
    found, language = [], None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            language = line[3:] if language is None else None
        elif language in ("sh", "console"):
            found.append((number, line))
        elif language is None:
            found += [(number, span) for span in re.findall(r"`([^`]+)`", line)]
    return found


def test_commands_on_pages_exist_with_their_options() -> None:
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    options = {
        name: {"--help", *(text for each in command.params for text in (*each.opts, *each.secondary_opts))}
        for name, command in commands.items()
        if command is not None
    }
    for page in PAGES:
        for number, text in spans(page):
            for name, rest in re.findall(r"\bdynagate ([a-z][a-z-]+)\b([^|#]*)", text):
                assert name in options, f"{page.name}:{number}: no command '{name}'"
                for option in re.findall(r"(?<!\S)--[a-z][\w-]*", rest):
                    assert option in options[name], f"{page.name}:{number}: {name} has no option {option}"


CALLED_ELSEWHERE = {"JointModelFreeFlyer"}
"""Classes of other packages that pages call."""


def test_names_on_pages_exist() -> None:
    """Dotted names of the package, and classes that a code span calls, which are public."""
    modules = [dynagate, *(import_module(f"dynagate.{name}") for name in ("control", "envs", "forces", "hw"))]
    classes = {name for module in modules for name in dir(module)} | {
        "ActionModel",
        "FunctionalEnv",
        "StepDerivatives",
        "TerminalModel",
    }
    for page in PAGES:
        if page.name == APART:
            continue
        for number, text in spans(page):
            for name in re.findall(r"\bdynagate\.([a-z][\w.]*\w)", text):
                assert resolves(name), f"{page.name}:{number}: no dynagate.{name}"
            for name in re.findall(r"^([A-Z]\w+)\(", text):
                assert name in classes | CALLED_ELSEWHERE, f"{page.name}:{number}: no class {name}"


def resolves(name: str) -> bool:
    """Whether a dotted name of the package is a module or leads to a value. One that needs an extra counts as there."""
    thing: object = dynagate
    parts = name.split(".")
    for count, part in enumerate(parts, 1):
        try:
            thing = getattr(thing, part)
        except dynagate.Error:
            return True
        except AttributeError:
            try:
                thing = import_module(".".join(["dynagate", *parts[:count]]))
            except ModuleNotFoundError as error:
                return not (error.name or "").startswith("dynagate")
    return True


def test_files_of_the_repository_on_pages_exist() -> None:
    places = [ROOT, *(ROOT / name for name in ("sw/dynagate", "hw", "sim", "fixedpoint"))]
    folders = {path.name for place in places for path in place.iterdir() if path.is_dir()}
    for page in PAGES:
        for number, text in spans(page):
            for name in re.findall(r"^((?:[\w-]+/)+[\w.-]+\.(?:py|md|toml|h|cuh|v))$", text):
                if name.split("/")[0] in folders:
                    there = any((place / name).exists() for place in places)
                    assert there, f"{page.name}:{number}: no file {name}"
