"""Find the place and the explanation of an error by its code.

The source of the package is the only list of codes: each error has its code at the call that creates it. So the list
and the errors of an installed package cannot differ.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

CODE = re.compile(r"DG-[A-Z]+-[0-9]{3}")
"""Pattern of a code: DG, the subject, and a number."""

PACKAGE = Path(__file__).parents[1]
"""Folder of the package."""

EXPLANATIONS = Path(__file__).with_name("explanations.md")
"""Explanations of the errors that users meet most, one section for each code."""

RESOLVED_NAMES = 3
"""How often a text may refer to a variable that refers to another, before the name is shown."""


@dataclass(frozen=True)
class CodedError:
    """The place of an error in the package."""

    code: str
    """Stable code, such as DG-URDF-012."""
    kind: str
    """Name of the class; Error if the caller of a helper passes the class."""
    text: str
    """Text of the error, with <names> for its values."""
    module: str
    """Name of the module that creates the error."""


def errors_in(source: str, module: str) -> Iterator[CodedError]:
    """Yield the errors with a code that a module creates, in the order of its text."""
    tree = ast.parse(source)
    constants = _variables(tree.body)
    calls = [(node, owner) for node, owner in _with_functions(tree) if code_of(node)]
    for call, owner in sorted(calls, key=lambda pair: (pair[0].lineno, pair[0].col_offset)):
        yield CodedError(code_of(call), _kind(call, tree), text_of(call, owner, constants), module)


def code_of(call: ast.Call) -> str:
    """Return the code that a call passes as text, or "" if it passes none."""
    for keyword in call.keywords:
        value = keyword.value
        if keyword.arg == "code" and isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value if CODE.fullmatch(value.value) else ""
    return ""


def text_of(call: ast.Call, function: ast.AST, constants: Mapping[str, ast.expr]) -> str:
    """Return the text of the error that a call creates, with <names> for its values.

    Args:
        call: The call. Its arguments that are texts make the text of the error.
        function: The function with the call, where variables of the text are looked up.
        constants: Texts that the module defines.
    """
    variables = {**constants, **_variables(ast.walk(function))}
    texts = [_template(argument, variables) for argument in call.args]
    written = [text for text in texts if not re.fullmatch(r"<[^>]*>", text)]
    return " ".join(" ".join(written or texts[:1]).split())


def _variables(nodes: Iterable[ast.AST]) -> dict[str, ast.expr]:
    """Return the values of the names that statements assign texts or lists to."""
    return {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    }


def _with_functions(tree: ast.Module) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Yield each call of a module with the innermost function that holds it."""

    def visit(node: ast.AST, owner: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
        if isinstance(node, ast.Call):
            yield node, owner
        inner = node if isinstance(node, ast.FunctionDef) else owner
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inner)

    return visit(tree, tree)


def _kind(call: ast.Call, tree: ast.Module) -> str:
    """Return the name of the class that a call creates an object of."""
    text = ast.unparse(call.func)
    if text == "super().__init__":
        holders = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and call in ast.walk(node)]
        return holders[-1].name
    if text.endswith((".fail", ".add")):
        return {"fail": "BadParameter", "add": "RobotError"}[text.rpartition(".")[2]]
    if text == "warn" and len(call.args) > 1:
        return ast.unparse(call.args[1]).rpartition(".")[2]
    name = text.rpartition(".")[2]
    if name.startswith("_"):
        (hidden,) = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)
        return ast.unparse(hidden.bases[0])
    return name if name[0].isupper() else "Error"


def _template(node: ast.expr, variables: Mapping[str, ast.expr], depth: int = 0) -> str:
    """Return a text with <names> for the values that are put into it."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr():
            return "".join(_template(part, variables, depth) for part in node.values)
        case ast.FormattedValue(value=value):
            is_text = isinstance(value, ast.Name) and isinstance(variables.get(value.id), ast.Constant | ast.JoinedStr)
            return _template(value, variables, depth if is_text else RESOLVED_NAMES)
        case ast.BinOp(op=ast.Add()):
            return _template(node.left, variables, depth) + _template(node.right, variables, depth)
        case ast.IfExp():
            return _template(node.body, variables, depth)
        case ast.Name(id=name) if depth < RESOLVED_NAMES and name in variables:
            return _template(variables[name], variables, depth + 1)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return f"<{name.strip('_')}>"
        case ast.Call(func=ast.Name(id="shown" | "str" | "repr" | "sorted"), args=[ast.expr() as only]):
            return _template(only, variables, RESOLVED_NAMES)
        case ast.Call(func=ast.Attribute(attr="join"), args=[ast.expr() as only]):
            return _template(only, variables, RESOLVED_NAMES)
    return "<...>"


@lru_cache(1)
def explanations() -> dict[str, str]:
    """Return the explanation of each code that has one, as Markdown without its heading."""
    parts = re.split(rf"^## ({CODE.pattern})\n", EXPLANATIONS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {code: text.strip() for code, text in zip(parts[1::2], parts[2::2], strict=True)}


def find(code: str) -> CodedError | None:
    """Return the error of a code, or None if the package has no such code."""
    for path in sources():
        source = path.read_text(encoding="utf-8")
        if f'"{code}"' in source:
            for error in errors_in(source, module_of(path)):
                if error.code == code:
                    return error
    return None


def description_of(kind: str) -> str:
    """Return the docstring of a class of errors, in one line, or "" for a class that the package does not define."""
    for path in sources():
        source = path.read_text(encoding="utf-8")
        if f"class {kind}(" in source:
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.ClassDef) and node.name == kind:
                    paragraph = (ast.get_docstring(node) or "").partition("\n\n")[0]
                    return f"{kind}: {' '.join(paragraph.split())}"
    return ""


def codes() -> list[str]:
    """Return all codes of the package, sorted."""
    distinct = {code for path in sources() for code in re.findall(rf'code="({CODE.pattern})"', path.read_text("utf-8"))}
    return sorted(distinct)


def sources(package: Path = PACKAGE) -> list[Path]:
    """Return the modules of a package, those in its linked folders too."""
    files = (Path(folder) / name for folder, _, names in os.walk(package, followlinks=True) for name in names)
    return sorted(path for path in files if path.suffix == ".py")


def module_of(path: Path) -> str:
    """Return the name of a module of the package by its path."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")
