"""The documentation site: it builds without a broken link, and its reference has every public name in full."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import json
import re
import runpy
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynagate
import pytest
from dynagate.host.results import Results

ROOT = Path(__file__).parents[2]
ARRAYS = re.compile(r"\b(ArrayLike|NDArray|Array|Results)\b")
SHAPE = re.compile(r"\(\*?(\.\.\.|nq\b|nv\b|leading\b|batch\b|\d|links\b)")
QUANTITIES = {
    *("q", "qd", "qdd", "tau", "q0", "qd0", "v", "dt", "velocity", "acceleration", "effort", "gravity"),
    *("friction", "friction_speed", "armature", "gear", "com", "inertia", "translation", "cost_q", "joint"),
}
"""Parameters that have a unit."""

UNIT = re.compile(r"(?<!['.])\b(rad|m|kg|s|seconds|N|J)\b(?!['.]\w)|\b[Uu]nits?\b|as in `\w+`")


SEARCHED = {"contact": "constraints", "friction": "friction", "pynq": "zynq"}
"""Words that the search finds, each on a page."""


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` does. root: of the repository."""
    pages = site.parent / "pages"
    pages.mkdir(parents=True)
    options = ["--quiet", "--fail-on-warning", "--keep-going", "-c", str(root / "docs")]
    command = [sys.executable, "-m", "sphinx", *options, str(pages), str(site)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


def seen(page: Path, query: str = "") -> str:
    """What a browser makes of a page that it has opened as a file."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on the path; expected chromium, chromium-browser or google-chrome")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900", "--virtual-time-budget=9000"]
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [browser, *options, profile, "--dump-dom", f"{page.as_uri()}{query}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def own(kind: type) -> dict[str, Any]:
    """Attributes of a class, and of the bases that a robot's class is made of."""
    bases = [base for base in reversed(kind.__mro__) if base is kind or base.__module__.startswith("dynagate.robot.")]
    return {key: value for base in bases for key, value in vars(base).items()}


def properties() -> dict[str, Any]:
    """Those of public classes, by name."""
    classes = [name for name in dynagate.__all__ if inspect.isclass(getattr(dynagate, name))]
    members = {f"{name}.{key}": value for name in classes for key, value in own(getattr(dynagate, name)).items()}
    kinds = (property, functools.cached_property)
    return {key: value for key, value in members.items() if isinstance(value, kinds) and "._" not in key}


def raised(thing: Callable[..., Any]) -> dict[str, set[str]]:
    """The errors that a function's own body raises, or of a class what makes it raises: each with its bases' names."""
    body = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    makers = [node for node in ast.walk(body) if getattr(node, "name", "") in ("__init__", "__post_init__")]
    statements = [node for part in (makers if inspect.isclass(thing) else [body]) for node in ast.walk(part)]
    names = {
        ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
        for node in statements
        if isinstance(node, ast.Raise) and node.exc is not None
    }
    space = vars(inspect.getmodule(thing))
    classes = {name: space[name] for name in names if inspect.isclass(space.get(name))}
    return {
        name: {base.__name__ for base in error.__mro__} - {"Error", "Exception", "BaseException", "object"}
        for name, error in classes.items()
    }


def documented() -> dict[str, Callable[..., Any]]:
    """Public functions, classes, and methods of these, by name; exceptions apart."""
    things: dict[str, Callable[..., Any]] = {}
    for name in (*dynagate.__all__, "compile", "open"):  # a star import leaves the last two out
        thing = getattr(dynagate, name)
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            members = {key: getattr(value, "__func__", value) for key, value in own(thing).items()}
            public = {key: value for key, value in members.items() if key == "__call__" or key[0] != "_"}
            things |= {f"{name}.{key}": value for key, value in public.items() if inspect.isfunction(value)}
        if callable(thing) and not (inspect.isclass(thing) and issubclass(thing, Exception)):
            things[name] = thing
    return things


@pytest.mark.long
def test_the_site_has_every_public_name_and_nothing_from_the_network(site: Path) -> None:
    text = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    ids = {
        name.removeprefix("module-")
        for name in re.findall(r'<(?:dt|section)[^>]* id="((?:module-)?dynagate[\w.]+)"', text)
    }
    assert {f"dynagate.{name}" for name in dynagate.__all__} <= ids
    assert {"dynagate.jax.function", "dynagate.torch.function", "dynagate.mpc.actions.ActionModel"} <= ids
    assert {"dynagate.Function.bind", "dynagate.Function.__call__", "dynagate.Results.qdd"} <= ids
    for page in site.rglob("*.html"):
        assert not re.search(r'<(script|link|img)[^>]*(src|href)="https?://', page.read_text()), page.name


@pytest.mark.long
def test_the_index_of_the_search_is_there_for_files(site: Path) -> None:
    """Its script runs without a server: it gives an object to the page, which is looked into here."""
    script = (site / "searchindex.js").read_text()
    index = json.loads(script.removeprefix("Search.setIndex(").rstrip(")\n;"))
    for word, page in SEARCHED.items():
        pages = [index[terms].get(word, []) for terms in ("terms", "titleterms")]
        found = {page for each in pages for page in ([each] if isinstance(each, int) else each)}
        assert page in {index["docnames"][k] for k in found}, f"the search finds no '{word}' on {page}"


@pytest.mark.long
@pytest.mark.parametrize("word", SEARCHED)
def test_a_browser_finds_words_in_the_site_opened_from_a_file(site: Path, word: str) -> None:
    shown = seen(site / "search.html", f"?q={word}")
    assert re.search(r"found \d+ page", shown), "the search has not run"
    assert f'href="{SEARCHED[word]}.html' in shown


WIDE = """<script>addEventListener("load", () => { document.body.dataset.wide = [...document.querySelectorAll("pre")]
.filter(pre => pre.scrollWidth > pre.clientWidth + 1).map(pre => pre.textContent.slice(0, 60)).join("|") || "none"
document.body.dataset.page = document.documentElement.scrollWidth })</script></body>"""


@pytest.mark.long
@pytest.mark.parametrize("page", ["index.html", "contributing.html"])
def test_code_is_inside_the_page_on_a_small_screen(site: Path, page: str) -> None:
    """1280 pixels wide."""
    probe = site / f"probe_{page}"
    probe.write_text((site / page).read_text().replace("</body>", WIDE))
    shown = seen(probe)
    assert re.search(r'data-wide="([^"]*)"', shown)[1] == "none"  # type: ignore[index]
    assert int(re.search(r'data-page="(\d+)"', shown)[1]) <= 1280  # type: ignore[index]


def test_sections_of_a_docstring_become_lists_and_code() -> None:
    as_markdown = runpy.run_path(str(ROOT / "docs" / "docstrings.py"))["as_markdown"]
    text = inspect.cleandoc(dynagate.Robot.from_file.__doc__ or "")
    shown = as_markdown(text)
    assert "**Arguments**\n\n- `path`: File that ends in .urdf" in shown
    assert "**Raises**\n\n- `RobotError`: The file is missing" in shown
    assert "**Example**\n\n```pycon\n>>> dynagate.Robot.from_file(" in shown
    assert not re.search("^(Args|Raises|Example):", shown, flags=re.M)


@pytest.mark.long
def test_the_reference_has_the_changes_of_a_robot_and_plain_defaults(site: Path) -> None:
    text = (site / "reference" / "robots.html").read_text()
    assert all(f'id="dynagate.Robot.{name}"' in text for name in ("with_contact", "with_payload", "from_file"))
    assert "option(" not in (site / "reference" / "designs.html").read_text()


@pytest.mark.long
@pytest.mark.parametrize("link", ["nowhere.md", "calls.md#nowhere", "../nowhere.py"])
def test_a_broken_link_fails_the_build(link: str, tmp_path: Path) -> None:
    done = build_changed(tmp_path, "when.md", f"\n[broken]({link})\n")
    assert done.returncode == 1
    assert "pages/when.md:" in done.stderr
    assert "nowhere" in done.stderr


def test_a_page_that_is_not_listed_fails_the_build(tmp_path: Path) -> None:
    done = build_changed(tmp_path, "new.md", "# New\n")
    assert done.returncode != 0
    assert "docs/new.md is not in nav of docs/nav.yml; expected a line there" in done.stderr


def build_changed(folder: Path, page: str, text: str) -> subprocess.CompletedProcess[str]:
    """The site of a copy of the repository, with a text at the end of a page."""
    for name in ("sw", "hw", "sim", "fixedpoint", "examples"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "docs", folder / "docs")
    for name in ("README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff"):
        shutil.copy(ROOT / name, folder)
    with (folder / "docs" / page).open("a") as file:
        file.write(text)
    return build(folder, folder / "out" / "site")


def documented_fields(thing: object) -> list[str]:
    """Return the fields of a dataclass and its bases with the docstrings below them, as reference pages list them."""
    if not dataclasses.is_dataclass(thing):
        return []
    classes = [each for each in inspect.getmro(thing) if dataclasses.is_dataclass(each)]  # type: ignore[arg-type]
    definitions = [ast.parse(inspect.getsource(each)).body[0] for each in classes]
    return [
        f"{field.target.id}: {below.value.value}"
        for definition in definitions
        if isinstance(definition, ast.ClassDef)
        for field, below in itertools.pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    ]


@pytest.mark.parametrize("name", documented())
def test_a_docstring_names_what_it_takes(name: str) -> None:
    """Every parameter; shapes where there are arrays; units of what has one; the errors that it raises itself."""
    thing = documented()[name]
    text = "\n".join([inspect.getdoc(thing) or "", *documented_fields(thing)])
    signature = {key: value for key, value in inspect.signature(thing).parameters.items() if key not in ("self", "cls")}
    parameters = {key: str(value.annotation) for key, value in signature.items() if value.kind != value.VAR_KEYWORD}
    missing = [key for key in parameters if not re.search(rf"\b{key}\b", text)]
    assert text, f"'{name}' has no docstring"
    assert not missing, f"the docstring of '{name}' says nothing of {missing}"
    if any(ARRAYS.search(annotation) for annotation in parameters.values()):
        assert SHAPE.search(text), f"the docstring of '{name}' has no shapes"
    if quantities := QUANTITIES & set(parameters):
        assert UNIT.search(text), f"the docstring of '{name}' has no units, of {sorted(quantities)}"
    for error, bases in raised(thing).items():
        assert re.search(rf"\b({'|'.join(bases)})\b", text), f"the docstring of '{name}' says nothing of {error}"


FRAMEWORKS = {
    "jax/functions.py": ["function"],
    "jax/rollouts.py": ["rollout"],
    "jax/inverse_kinematics.py": ["inverse_kinematics"],
    "torch/functions.py": ["function"],
    "torch/rollouts.py": ["rollout"],
    "mpc/actions.py": ["StepDerivatives", "ActionModel", "TerminalModel"],
    "mpc/casadi.py": ["casadi_function"],
}
"""What the reference lists of them; their packages need not be here."""


@pytest.mark.parametrize(("file", "name"), [(file, name) for file, names in FRAMEWORKS.items() for name in names])
def test_a_docstring_of_a_framework_names_what_it_takes_and_raises(file: str, name: str) -> None:
    module = ast.parse((ROOT / "sw" / "dynagate" / file).read_text())
    (thing,) = [node for node in module.body if getattr(node, "name", "") == name]
    assert isinstance(thing, ast.ClassDef | ast.FunctionDef)
    makers = [node for node in ast.walk(thing) if getattr(node, "name", "") == "__init__"] or [thing]
    text = ast.get_docstring(thing) or ""
    arguments = [node.arg for node in ast.walk(makers[0].args) if isinstance(node, ast.arg)]  # type: ignore[attr-defined]
    missing = [argument for argument in arguments if argument != "self" and not re.search(rf"\b{argument}\b", text)]
    assert not missing, f"the docstring of '{name}' says nothing of {missing}"
    assert "Raises" in text


@pytest.mark.parametrize("name", properties())
def test_a_property_says_what_it_is(name: str) -> None:
    assert inspect.getdoc(properties()[name]), f"'{name}' has no docstring"


@pytest.mark.parametrize("name", Results.__annotations__)
def test_a_result_has_a_shape_and_a_unit(name: str) -> None:
    """Products with λ or δ have the unit of what they are multiplied with."""
    line = re.search(rf'^    {name}: [^\n]*\n    """(.*?)"""', inspect.getsource(Results), flags=re.M | re.S)
    assert line
    assert re.match(r"\(.*?\)", line[1])
    assert UNIT.search(line[1]) or re.search("[λ·]|samples", line[1]), f"'{name}' has no unit: {line[1]}"


@pytest.mark.parametrize(
    "name",
    [
        "open",
        "build",
        "build_request",
        "trace",
        "evaluate",
        "integrate",
        "Function.bind",
        "Function.__call__",
        "Rollout",
        "Rollout.__call__",
        "Rollout.vjp",
        "Region.of",
        "Robot.from_urdf",
        "Robot.with_armature",
        "DesignRequest",
        "Goal",
        "Stages",
    ],
)
def test_a_docstring_names_the_errors(name: str) -> None:
    assert re.search(r"\bRaises(:\n    \w+Error| \w+Error| as)\b", inspect.getdoc(documented()[name]) or "")
