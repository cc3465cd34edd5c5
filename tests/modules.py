"""The modules of the package and what they import."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sw" / "dynagate"


def files() -> list[Path]:
    """Every file of the package, by its place within it; the top folders are links in it."""
    return [
        place / path.relative_to((PACKAGE / place).resolve())
        for place in [Path(path.name) for path in sorted(PACKAGE.iterdir()) if path.is_dir()]
        for path in sorted((PACKAGE / place).resolve().rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ] + [Path(path.name) for path in sorted(PACKAGE.iterdir()) if path.is_file()]


def modules() -> dict[str, Path]:
    """Modules by name."""
    names = {path: ["dynagate", *path.with_suffix("").parts] for path in files() if path.suffix == ".py"}
    return {".".join(part for part in parts if part != "__init__"): PACKAGE / path for path, parts in names.items()}


def imports(path: Path, known: set[str]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from dynagate.graph import reference_gradient` imports the module dynagate.graph.reference_gradient
            full = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in known else node.module for name in full.values()}
    return {name for name in names if name.split(".")[0] == "dynagate"}
