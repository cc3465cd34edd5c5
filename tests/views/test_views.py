"""What shows a design: its page, the schedule in words and drawn, and waveforms in groups."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import html5lib
import pytest
from click.testing import CliRunner
from dynagate import Robot, build, robots
from dynagate.cli import main
from dynagate.design.files import DesignError
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.wordlength.goal import MULTIPLIERS, Goal
from dynagate.hw.designs import Design
from dynagate.hw.plan.plan import Stages
from dynagate.hw.plan.timeline import chain, pass_spans, text, units_in_use
from dynagate.hw.rebuild import rebuild
from dynagate.hw.rtl.axi import Axi
from dynagate.sim.waveform import write_waves
from dynagate.views import page as page_module
from dynagate.views.gantt import draw_schedule, draw_units
from dynagate.views.page import page
from dynagate.views.svg import NAMESPACE, Canvas

from tests.designs import resealed

SECTIONS = ("robot", "datapath", "schedule", "units", "widths", "errors", "resources")
BROWSERS = ("chromium", "chromium-headless-shell", "google-chrome", "chromium-browser", "chrome-headless-shell")
NO_WORD = Policy(word=18)


def arm() -> Robot:
    return robots.load("two_joint_arm")


REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {"function": "forward_dynamics", "ii": 4, "policy": NO_WORD},
    "stages": {"function": "forward_dynamics", "ii": 4, "stages": Stages(2, 1)},
    "statement": {
        "function": "forward_dynamics",
        "ii": 2,
        "goal": Goal({"qdd": 2e-2}, dsp=MULTIPLIERS["18x18"]),
    },
    "functions": {"function": ["inverse_dynamics", "forward_dynamics"], "per_sample": True, "ii": 4},
    "variable": {"function": "inverse_dynamics", "ii": 4, "axi": Axi(64)},
    "step": {"function": "step", "ii": 8},
}


@pytest.fixture(scope="module")
def built(designs: Path) -> Callable[[str], Design]:
    """Builds by the name of their request."""
    kept: dict[str, Design] = {}

    def of(name: str) -> Design:
        if name not in kept:
            kept[name] = build(
                arm().with_variable("forearm") if name == "variable" else arm(), folder=designs, **REQUESTS[name]
            )
        return kept[name]

    return of


def parsed(html: str) -> ElementTree.Element:
    """The page by a parser that refuses what the HTML standard calls an error, and each of its drawings by one of
    XML."""
    root = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(html)
    for drawing in re.findall(r"<svg.*?</svg>", html, flags=re.S):
        assert ElementTree.fromstring(drawing).tag == f"{{{NAMESPACE}}}svg"
    return root


def words(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


@pytest.mark.parametrize("name", REQUESTS)
def test_folder_gives_its_build_again_and_a_page(name: str, built: Callable[[str], Design]) -> None:
    original = built(name)
    again = rebuild(original.folder)
    assert (again.robot, again.region, again.hardware.plan) == (original.robot, original.region, original.hardware.plan)
    root = parsed(page(again))
    sections = {section.get("id"): section for section in root.iter("section")}
    assert tuple(sections) == SECTIONS
    for link in original.robot.links:
        assert link.name in words(sections["robot"])
        assert link.joint.name in words(sections["robot"])
    for span in pass_spans(original.hardware.plan):
        assert span.name in words(sections["datapath"])
        assert f"{span.name}: cycles {span.first} to {span.last}" in words(sections["schedule"])
    for node in original.graph.nodes:
        assert node.name in words(sections["widths"])
    cells = [cell.text for cell in sections["resources"].iter("td")]
    assert cells[cells.index("DSP48E2 blocks") + 1] == str(original.hardware.plan.dsp_blocks())
    assert cells.count("AMD VCU118") == 1
    statement = "Measured by the integer executor" in words(sections["errors"])
    assert statement == (name == "statement")
    assert ("no statement on its accuracy" in words(sections["errors"])) == (name != "statement")


def test_page_needs_nothing_else(built: Callable[[str], Design]) -> None:
    html = page(built("statement"))
    root = parsed(html)
    assert not [e.tag for e in root.iter() if e.tag in ("script", "img", "iframe", "object", "embed")]
    links = [e.get("href") for e in root.iter() if e.get("href")]
    assert [link for link in links if not link.startswith("#")] == ["data:,"]
    assert "url(" not in html
    assert set(re.findall(r"https?://[^\"'<> ]+", html)) == {NAMESPACE}


def test_schedule_names_the_chain_cycle_by_cycle(built: Callable[[str], Design]) -> None:
    plan = built("plain").hardware.plan
    pivots = chain(plan)
    assert pivots.title == "the pivots' chain"
    assert pivots.links[-1].kind == "reciprocal"
    assert {"input", "product", "sum", "reciprocal"} <= set(pivots.kinds)
    for before, after in zip(pivots.links, pivots.links[1:], strict=False):
        read = {plan.root[a] for a in built("plain").graph.nodes[after.node].args}
        assert before.node in read
        assert after.start == before.ready + after.wait >= before.ready
    assert sum(map(pivots.cycles, pivots.kinds)) + pivots.waiting == pivots.links[-1].ready
    other = chain(built("variable").hardware.plan)
    assert (other.title, other.links[-1].kind) == ("the chain to the last output", "sum")
    lines = text("two_joint_arm", plan).splitlines()
    assert lines[0] == f"two_joint_arm forward_dynamics: a sample every 4 cycles, latency {plan.latency}"
    last = pivots.links[-1]
    assert f"  {last.start:>5} {last.ready:>5} {last.wait:>4}  reciprocal    {last.name}" in lines


def test_more_pivots_make_a_longer_chain() -> None:
    from dynagate import Region, trace
    from dynagate.fixedpoint.assign import assign
    from dynagate.hw.plan.plan import plan

    robot = robots.load("iiwa14", lock={f"joint_{k}": 0.3 for k in (4, 5, 6, 7)})
    planned = plan(assign(trace(robot, "forward_dynamics"), Region.of(robot), NO_WORD), 8)
    count = sum(link.kind == "reciprocal" for link in chain(planned).links)
    assert count >= 2


def test_units_in_use_are_those_of_the_schedule(built: Callable[[str], Design]) -> None:
    plan = built("functions").hardware.plan
    rows = units_in_use(plan)
    assert {name: max(used) for name, (_, used) in rows.items()} == plan.schedule.units()
    assert all(len(used) == plan.ii and max(used) <= count for count, used in rows.values())
    assert ElementTree.fromstring(draw_units(plan)) is not None


HOSTILE = "<script>alert('1')</script>&amp;]]>"


def test_names_from_a_file_are_text(tmp_path: Path) -> None:
    robot = arm()
    links = tuple(
        replace(link, name=f"{HOSTILE}{k}", joint=replace(link.joint, name=f'"><img src=x onerror=alert({k})>'))
        for k, link in enumerate(robot.links)
    )
    hostile = build(replace(robot, name=HOSTILE, links=links), "mass_matrix", ii=2, folder=tmp_path)
    html = page(hostile)
    assert "<script" not in html
    assert "<img" not in html
    root = parsed(html)
    (title,) = root.iter("h1")
    assert title.text == f"{HOSTILE}: mass_matrix"
    assert f"{HOSTILE}0" in words(next(root.iter("section")))
    assert "<script" not in draw_schedule(HOSTILE, hostile.hardware.plan)


def test_drawing_holds_no_character_that_xml_has_not() -> None:
    canvas = Canvas(10, 10, "a\x00b\ud800c")
    canvas.text(1, 1, "\x1b<b>\uffff")
    root = ElementTree.fromstring(canvas.markup())
    texts = [each.text for each in root.iter() if not each.tag.endswith("style")]
    assert "".join(filter(None, texts)) == "a\ufffdb\ufffdc\ufffd<b>\ufffd"


def test_schedule_that_is_not_the_designs_is_refused(built: Callable[[str], Design], tmp_path: Path) -> None:
    content = json.loads((built("plain").folder / "design.json").read_text())
    node = next(node for node in reversed(content["nodes"]) if node["ready"])
    node["ready"] += 1
    (tmp_path / "design.json").write_text(json.dumps(resealed(content)))
    expected = "has a schedule that its robot and function do not give again; build the design again"
    with pytest.raises(DesignError, match=expected):
        rebuild(tmp_path)


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    return result.exit_code, result.output


def test_report_is_written_whole_or_not_at_all(
    built: Callable[[str], Design], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    target = tmp_path / "arm.html"
    status, output = call("report", built("plain").folder, "--output", target, "--open")
    assert (status, output.splitlines()[-1]) == (0, str(target))
    assert opened == [target.as_uri()]
    assert target.read_text() == page(built("plain"))

    def broken(*arguments: object) -> str:
        raise DesignError("cannot be drawn")

    before = target.read_text()
    monkeypatch.setattr(page_module, "draw_units", broken)
    status, output = call("report", built("plain").folder, "--output", target)
    assert (status, output.splitlines()[-1]) == (1, "Error: cannot be drawn")
    assert target.read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["arm.html"]


def test_report_of_a_robot_builds_it(designs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "arm.html"
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    options = ("--function", "mass_matrix", "--ii", "2", "--folder", designs, "--output", target)
    status, output = call("report", "two_joint_arm", *options, "--open")
    assert status == 1
    assert output.splitlines()[-1].startswith(f"Error: no browser to open {target} with; open it by hand")
    assert "two_joint_arm: mass_matrix" in words(parsed(target.read_text()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ii", "3"], "--ii with the folder of a design; expected a robot, or only the folder"),
        (["--show", "waves", "--lax"], "--lax with the folder of a design; expected a robot, or only the folder"),
        (["--show", "waves", "--samples", "0"], "0; expected a whole number from 1 to 1000"),
        (["--show", "schedule", "--output", "no/such/file.svg"], "no folder no/such; expected a file in a folder that"),
        (["--show", "schedule", "--output", "arm.html"], "arm.html; expected a name that ends in .svg"),
        (["--show", "together", "--output", "arm.html"], "--output with --show together; expected it left out"),
        (["--show", "together"], "--show together needs a robot, not the folder of a design"),
        (["--samples", "3"], "--samples needs --show waves"),
        (["--show", "waves", "--open"], "--open needs --show page or --show schedule"),
        (["--show", "gantt"], "'gantt' is not one of 'page', 'schedule', 'waves', 'together'"),
    ],
)
def test_options_are_checked_before_any_work(options: list[str], message: str, built: Callable[[str], Design]) -> None:
    status, output = call("report", built("plain").folder, *options)
    assert (status, message in " ".join(output.split())) == (2, True), output
    assert "reading" not in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--function", "mass_matrix"], "--function mass_matrix with --show together; expected several, with commas"),
        (["--word", "18"], "--word with --show together; expected only --function and --ii"),
        (["--form", "closed_form"], "--form with --show together; expected only --function and --ii"),
    ],
)
def test_a_comparison_takes_functions_and_an_interval(options: list[str], message: str) -> None:
    status, output = call("report", "two_joint_arm", "--show", "together", *options)
    assert (status, message in " ".join(output.split())) == (2, True), output


def test_folder_without_a_design_is_named(tmp_path: Path) -> None:
    status, output = call("report", tmp_path)
    assert status == 2
    expected = f"no design.json in {tmp_path}; expected a folder that `dynagate build` printed"
    assert expected in " ".join(output.split())


def test_schedule_command_prints_and_draws(built: Callable[[str], Design], tmp_path: Path) -> None:
    design, target = built("functions"), tmp_path / "arm.svg"
    status, output = call("report", design.folder, "--show", "schedule", "--output", target)
    assert status == 0, output
    assert text("two_joint_arm", design.hardware.plan) in output
    root = ElementTree.parse(target).getroot()
    hints = [title.text or "" for title in root.iter(f"{{{NAMESPACE}}}title")]
    for delivery in design.hardware.plan.deliveries:
        assert f"{delivery.name}: delivered in cycle {delivery.cycle}" in hints
    for link in chain(design.hardware.plan).links:
        assert any(link.name in hint and link.kind in hint for hint in hints)


def test_waves_are_grouped_by_pass_and_link(built: Callable[[str], Design], tmp_path: Path) -> None:
    design = built("plain")
    status, output = call(
        "report", design.folder, "--show", "waves", "--samples", "1", "--output", tmp_path / "arm.vcd"
    )
    assert status == 0, output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arm.gtkw", "arm.vcd"]
    declared, scopes = set(), []
    for line in (tmp_path / "arm.vcd").read_text().splitlines():
        _, *fields = line.split()
        if line.startswith("$scope"):
            scopes.append(fields[1])
        elif line.startswith("$upscope"):
            scopes.pop()
        elif line.startswith("$var"):
            bits = f"[{int(fields[1]) - 1}:0]" if fields[1] != "1" else ""
            declared.add(".".join((*scopes, fields[3])) + bits)
    groups: list[str] = []
    shown: dict[str, list[str]] = {}
    flags = ""
    for line in (tmp_path / "arm.gtkw").read_text().splitlines():
        if line.startswith("@"):  # holds for the lines below it, until the next one
            flags = line
        elif line.startswith("-") and flags == "@800200":
            groups.append(line[1:])
        elif line.startswith("-"):
            assert (flags, line[1:]) == ("@1000200", groups.pop())
        elif line.startswith("+{"):
            alias, path = line[2:].split("} ")
            assert path in declared
            shown[alias.split()[0]] = list(groups)
    assert not groups
    nodes = design.graph.nodes
    for i in design.hardware.plan.position:
        scope, *link = design.graph.scope_paths[i]
        expected = ["inputs"] if nodes[i].op == "input" else [scope, " ".join([scope, *link])][: 1 + bool(link)]
        assert shown[nodes[i].name] == expected
    (tmp_path / "other.gtkw").mkdir()
    inputs = design.region.states(design.graph, 1, seed=1)
    with pytest.raises(Exception, match=r"cannot keep other.vcd in .*other.gtkw is a folder"):
        write_waves(design, inputs, tmp_path / "other.vcd")
    assert not (tmp_path / "other.vcd").exists()


def browser() -> str:
    """The browser that DYNAGATE_BROWSER names, or one on the path; else the test is skipped."""
    names = [os.environ.get("DYNAGATE_BROWSER", ""), *BROWSERS]
    paths = [path for name in names if name and (path := shutil.which(name))]
    if not paths:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is on the path and DYNAGATE_BROWSER names none")
    return paths[0]


def test_browser_shows_the_page(built: Callable[[str], Design], tmp_path: Path) -> None:
    program, html, picture = browser(), tmp_path / "page.html", tmp_path / "page.png"
    html.write_text(page(built("statement")))
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1200,3000")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    done = subprocess.run(
        [program, *options, profile, f"--screenshot={picture}", html.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert picture.stat().st_size > 50_000, "a blank page"
    assert "CONSOLE" not in done.stderr, done.stderr
