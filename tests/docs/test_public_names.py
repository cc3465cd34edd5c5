"""Pages and examples import from public modules only."""

from __future__ import annotations

import ast
import doctest
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import dynagate
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PUBLIC = {
    "dynagate",
    "dynagate.forces",
    "dynagate.control",
    "dynagate.envs",
    "dynagate.hw",
    "dynagate.jax",
    "dynagate.mpc",
    "dynagate.torch",
}
DEVELOPMENT = {
    "docs/contributing.md",
    "docs/design.md",
    "docs/loop_graphs.md",
    "docs/pcie.md",
    "docs/processor_internals.md",
}
"""Pages for those who change the package, or want to know how it works inside."""
OF_CROCODDYL = {("dynagate.mpc", name) for name in ("ActionModel", "Step", "TerminalModel")}
STUDIES = {"examples/drift.py", "examples/parallel_datapaths.py", "examples/parallel_forward_dynamics.py"}
"""Examples that measure the package itself."""


def imported(path: Path) -> set[str]:
    """Return the modules of the package that a page's blocks, or a file of Python, imports."""
    text = path.read_text()
    blocks = re.findall(r"```python[^\n]*\n(.*?)```", text, re.DOTALL) if path.suffix == ".md" else [text]
    found = set()
    for node in (each for block in blocks for each in ast.walk(ast.parse(block))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return {name for name in found if name.partition(".")[0] == "dynagate"}


def test_pages_and_examples_import_public_names() -> None:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if str(path.relative_to(ROOT)) not in DEVELOPMENT]
    examples = [path for path in (ROOT / "examples").glob("*.py") if str(path.relative_to(ROOT)) not in STUDIES]
    found = {name for path in [ROOT / "README.md", *pages, *examples] for name in imported(path)} - PUBLIC
    assert not found, f"import from a public module instead: {', '.join(sorted(found))}"


@pytest.mark.parametrize("module", ["dynagate", "dynagate.control", "dynagate.forces", "dynagate.hw", "dynagate.mpc"])
def test_every_public_name_is_there(module: str) -> None:
    package = import_module(module)
    for name in package.__all__:
        if (module, name) not in OF_CROCODDYL or find_spec("crocoddyl"):
            assert getattr(package, name) is not None
            assert name in dir(package)
    with pytest.raises(AttributeError):
        package.no_such_name  # noqa: B018


@pytest.mark.parametrize(
    "name",
    [
        "Design",
        "Device",
        "Function",
        "Robot",
        "Robot.from_file",
        "Robot.with_friction",
        "Rollout",
        "build",
        "compile",
        "ilqr",
        "inverse_kinematics",
        "mppi",
        "open",
        "whole_body_torque",
    ],
)
def test_examples_of_docstrings_run(name: str, tmp_path: Path) -> None:
    thing = dynagate
    for part in name.split("."):
        thing = getattr(thing, part)
    space = {"dynagate": dynagate, "np": np, "folder": tmp_path}
    examples = doctest.DocTestParser().get_doctest(thing.__doc__ or "", space, name, None, 0)
    results = doctest.DocTestRunner().run(examples)
    assert results.attempted > 0 == results.failed


def test_there_are_few_public_names() -> None:
    assert len(dynagate.__all__) <= 61


def test_a_star_import_leaves_builtins_alone() -> None:
    space: dict[str, object] = {}
    exec("from dynagate import *", space)
    assert not {"open", "compile"} & space.keys()
    assert {"open", "compile"} <= set(dir(dynagate))
    assert hasattr(dynagate, "compile")
    assert hasattr(dynagate, "open")


@pytest.mark.parametrize(
    ("name", "now"),
    [
        ("Accelerator", "dynagate.Function"),
        ("Opened", "dynagate.Function"),
        ("ChipRollout", "dynagate.Device"),
        ("Build", "dynagate.Design"),
        ("ProcessorBuild", "dynagate.Design"),
    ],
)
def test_a_former_name_says_what_to_write(name: str, now: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'dynagate' has no attribute '{name}'; write {now}$"):
        getattr(dynagate, name)


@pytest.mark.parametrize("name", sorted(PUBLIC - {"dynagate", "dynagate.mpc"}))
def test_a_public_module_is_an_attribute_of_the_package(name: str) -> None:
    """In a process of its own, which has imported nothing else: the module, or what brings it."""
    own = name.partition(".")[2]
    program = (
        "import sys, dynagate\n"
        f"assert '{own}' in dir(dynagate) and ('{name}' not in sys.modules or '{own}' == 'forces')\n"
        "try:\n"
        f"    module = dynagate.{own}\n"
        "except AttributeError as error:\n"
        f"    print(error); assert not hasattr(dynagate, '{own}')\n"
        "else:\n"
        "    names = dir(module)\n"
        "    assert names == sorted(module.__all__) and all(hasattr(module, each) for each in names)\n"
        "    print(module.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    absent = f"dynagate.{own} needs the package '{own}'; pip install 'dynagate[{own}]'"
    printed = re.sub(r" \[DG-.*\]", "", done.stdout).strip()
    assert printed in ({name} if find_spec(own) or own in ("control", "envs", "forces", "hw") else {absent})


def test_names_of_the_package_are_public_names() -> None:
    assert not [each for each in dir(dynagate) if each.startswith("_") and each != "__version__"]
    assert "np" not in dir(dynagate)
    assert "dynamics" not in dir(dynagate)
