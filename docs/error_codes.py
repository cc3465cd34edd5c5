"""Keep the codes of errors: `python docs/error_codes.py` checks them (`make lint`), `--assign` gives new errors a code.

Each call that creates an error of the package has a keyword `code="DG-<AREA>-<number>"`, and no two calls have the same
code. docs/error_codes.toml lists the areas, the modules of each and the highest number that it has ever used, so that
the number of an error that was removed is not used again.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dynagate.cli import codes

ROOT = Path(__file__).parents[1]
SETTINGS = Path(__file__).with_suffix(".toml")
BASE = "Error"
"""Name of the base class of the package's errors."""
NEVER_CODED = {name for name, value in vars(builtins).items() if isinstance(value, type)} | {"Interrupted"}
"""Exceptions of Python, which have no code, and the end of a command by Ctrl-C."""
CLICK = {"UsageError", "BadParameter", "ClickException", "BadOptionUsage", "BadArgumentUsage", "FileError"}
"""Errors of click. The command line has classes of its own, in cli/refusals.py, that accept a code."""
OWN_CLICK = {"UsageError", "BadParameter", "CommandError"}
"""The classes of cli/refusals.py."""
METHODS = {"fail": ("self", "cli/"), "add": ("errors", "robot/")}
"""Methods that create an error from a text, as `self.fail`: the name -> its object, and the folder that calls it."""


def name_of(node: ast.expr) -> str:
    """Return the last part of a dotted name, or "" for other expressions."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


@dataclass
class Module:
    """One file of the package."""

    path: Path
    name: str
    """Path within the package, such as robot/urdf.py."""
    text: str
    tree: ast.Module
    owners: dict[ast.AST, ast.AST] = field(default_factory=dict)
    """Node -> the node around it."""

    @classmethod
    def read(cls, path: Path, package: Path) -> Module:
        """Read and parse a file of a package."""
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        owners = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        return cls(path, path.relative_to(package).as_posix(), text, tree, owners)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around a node, from inside to outside."""
        while (outer := self.owners.get(node)) is not None:
            node = outer
            yield node

    def where(self, node: ast.expr | ast.stmt) -> str:
        """Return the place of a node for a complaint."""
        path = self.path.resolve()
        return f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{node.lineno}"


class Package:
    """All modules of the package, its classes of errors and the calls that create errors."""

    def __init__(self, folder: Path = codes.PACKAGE) -> None:
        self.modules = [Module.read(path, folder) for path in codes.sources(folder)]
        self.classes = {
            node.name: node
            for module in self.modules
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ClassDef)
        }

    @cached_property
    def errors(self) -> set[str]:
        """Names of the classes that derive from the base class."""
        names, before = {BASE}, 0
        while len(names) > before:
            before = len(names)
            names |= {name for name, node in self.classes.items() if names & set(map(name_of, node.bases))}
        return names

    @cached_property
    def constructors(self) -> set[str]:
        """Error classes that accept a code. Others create their text, and so have the code, in their constructor."""
        return {name for name in self.errors if "code" in self._parameters(name)} | OWN_CLICK

    def _parameters(self, name: str) -> set[str]:
        """Return the parameters of the constructor of an error class."""
        node = self.classes[name]
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                return {argument.arg for argument in (*each.args.args, *each.args.kwonlyargs)}
        bases = [base for base in map(name_of, node.bases) if base in self.errors]
        return self._parameters(bases[0])

    @cached_property
    def returned(self) -> set[str]:
        """Names of functions that return an error, by their annotation."""
        functions = (each for module in self.modules for each in ast.walk(module.tree))
        return {
            each.name
            for each in functions
            if isinstance(each, ast.FunctionDef)
            and each.returns is not None
            and name_of(each.returns) in self.errors | NEVER_CODED | CLICK
        }

    def creations(self, module: Module) -> list[ast.Call]:
        """Return the calls of a module that create an error or a warning of the package, in their order."""
        calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call) and self._creates(node, module)]
        return sorted(calls, key=lambda call: (call.lineno, call.col_offset))

    def without_code(self, module: Module) -> list[ast.Call]:
        """Return the calls of a module that create an error and pass no code."""
        return [call for call in self.creations(module) if not passes_code(call)]

    def _creates(self, call: ast.Call, module: Module) -> bool:
        """Return whether a call creates an error or a warning that needs a code."""
        called = call.func
        if isinstance(called, ast.Call):  # type(error)(...)
            return name_of(called.func) == "type" and isinstance(module.owners[call], ast.Raise)
        name = name_of(called)
        if isinstance(called, ast.Name) and name in self._class_parameters(call, module):
            return True
        if isinstance(called, ast.Attribute):
            if name == "__init__" and isinstance(called.value, ast.Call) and name_of(called.value.func) == "super":
                return self._is_own_constructor(call, module)
            if name_of(called.value) == "click":
                return False
            if name in METHODS:
                owner, folder = METHODS[name]
                return name_of(called.value) == owner and module.name.startswith(folder)
        if name == "warn":
            return isinstance(called, ast.Name) and module.name != "base/warned.py"
        is_click = module.name.startswith("cli/") and name in OWN_CLICK
        return is_click or (name in self.errors and name in self.constructors)

    def _class_parameters(self, call: ast.Call, module: Module) -> set[str]:
        """Return the parameters of the functions around a call that are classes of errors."""
        functions = [node for node in module.around(call) if isinstance(node, ast.FunctionDef)]
        arguments = [each for node in functions for each in (*node.args.args, *node.args.kwonlyargs)]
        classes = re.compile(rf"type\[({'|'.join(sorted(self.errors))})\]")
        return {each.arg for each in arguments if each.annotation and classes.fullmatch(ast.unparse(each.annotation))}

    def _is_own_constructor(self, call: ast.Call, module: Module) -> bool:
        """Return whether a call is super().__init__(...) in an error class whose constructor accepts no code."""
        owner = next((node for node in module.around(call) if isinstance(node, ast.ClassDef)), None)
        return owner is not None and owner.name in self.errors - self.constructors

    def unclear(self, module: Module) -> Iterator[tuple[ast.Raise, str]]:
        """Yield the raise statements of a module that the tool cannot follow to a call with a code, and the reason."""
        created = set(map(id, self.creations(module)))
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Raise) or node.exc is None:
                continue
            if isinstance(node.exc, ast.Name) and node.exc.id in self.errors:
                yield node, f"create the error: raise {node.exc.id}(text)"
            if not isinstance(node.exc, ast.Call) or id(node.exc) in created:
                continue
            name = name_of(node.exc.func)
            if isinstance(node.exc.func, ast.Attribute) and name_of(node.exc.func.value) == "click" and name in CLICK:
                yield node, f"raise a class of cli/refusals.py in place of click.{name}, which has no code"
            elif name not in NEVER_CODED | self.errors | self.returned:
                yield node, f"'{ast.unparse(node.exc.func)}' is no class of errors, nor a function that returns one"


def read_areas(path: Path = SETTINGS) -> dict[str, dict[str, object]]:
    """Return the areas of docs/error_codes.toml by name."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def area_of(name: str, areas: dict[str, dict[str, object]]) -> str:
    """Return the area of new errors of a module: the area that lists the longest part of the module's path."""
    listed = [(prefix, area) for area, each in areas.items() for prefix in each["modules"]]  # type: ignore[attr-defined]
    fitting = [(len(prefix), area) for prefix, area in listed if name.startswith(prefix)]
    return max(fitting)[1] if fitting else ""


def passes_code(call: ast.Call) -> bool:
    """Return whether a call passes a code: a text, or the code of another error."""
    return any(keyword.arg == "code" for keyword in call.keywords)


def complaints(package: Package, areas: dict[str, dict[str, object]], explained: Iterable[str]) -> Iterator[str]:
    """Yield all that is wrong with the codes of a package and with the codes that are explained."""
    places: dict[str, list[str]] = {}
    for module in package.modules:
        for node, reason in package.unclear(module):
            yield f"{module.where(node)}: {reason}"
        for call in package.creations(module):
            where = module.where(call)
            if not passes_code(call):
                yield f"{where}: an error without a code; run `python docs/error_codes.py --assign`"
                continue
            value = next(keyword.value for keyword in call.keywords if keyword.arg == "code")
            if isinstance(value, ast.Constant):
                places.setdefault(str(value.value), []).append(where)
    for code, listed in sorted(places.items()):
        yield from wrong_code(code, listed, areas)
    for area, each in areas.items():
        for prefix in each["modules"]:  # type: ignore[attr-defined]
            if not any(module.name.startswith(prefix) for module in package.modules):
                yield f"{SETTINGS.name}: area {area} lists '{prefix}', with which no module begins; correct it"
    for code in explained:
        if code not in places:
            yield f"{codes.EXPLANATIONS.name}: no error has the code {code}; remove the section or correct its heading"


def wrong_code(code: str, places: list[str], areas: dict[str, dict[str, object]]) -> Iterator[str]:
    """Yield all that is wrong with one code, which has its places in the source."""
    if not codes.CODE.fullmatch(code) or (area := code.split("-")[1]) not in areas:
        yield f"{places[0]}: code '{code}'; expected DG-AREA-123 with an area of {SETTINGS.name}"
        return
    if len(places) > 1:
        yield f"{' and '.join(places)}: the code {code} twice; remove it from the newer error and run --assign"
    if int(code.split("-")[2]) > areas[area]["highest"]:  # type: ignore[operator]
        yield f"{places[0]}: the code {code} is above the highest number of its area in {SETTINGS.name}; raise that"


def assign(package: Package, path: Path = SETTINGS) -> int:
    """Give each error without a code the next number of its area. Return how many there were.

    Args:
        package: The package, whose files are changed.
        path: File of the areas, which gets their new highest numbers.
    """
    areas = read_areas(path)
    highest: dict[str, int] = {area: each["highest"] for area, each in areas.items()}  # type: ignore[misc]
    missing = {module.name: package.without_code(module) for module in package.modules}
    changed = [module for module in package.modules if missing[module.name]]
    for module in changed:
        if not area_of(module.name, areas):
            raise SystemExit(f"{module.name} belongs to no area of {path.name}; add it to one")
    for module in changed:
        area, calls = area_of(module.name, areas), missing[module.name]
        numbered = [(call, highest[area] + k) for k, call in enumerate(calls, 1)]
        highest[area] += len(calls)
        module.path.write_text(with_codes(module.text, numbered, area), encoding="utf-8")
    text = path.read_text(encoding="utf-8")
    for area, number in highest.items():
        text = re.sub(rf"(\[{area}\][^[]*?\[[^]]*\][^[]*?highest = )\d+", rf"\g<1>{number}", text)
    path.write_text(text, encoding="utf-8")
    if changed:
        files = [str(module.path.resolve()) for module in changed]
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", *files], cwd=ROOT, check=True)
    return sum(map(len, missing.values()))


def with_codes(text: str, numbered: list[tuple[ast.Call, int]], area: str) -> str:
    """Return the text of a module with a code as the last argument of each call."""
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    content = b"".join(lines)
    for call, number in sorted(numbered, key=lambda each: -(starts[each[0].end_lineno - 1] + each[0].end_col_offset)):  # type: ignore[operator]
        end = starts[call.end_lineno - 1] + call.end_col_offset - 1  # type: ignore[operator]
        last = max(
            (starts[each.end_lineno - 1] + each.end_col_offset for each in (*call.args, *call.keywords)),  # type: ignore[operator]
            default=end,
        )
        comma = b", " if call.args or call.keywords else b""
        last += len(re.match(rb"[\s)]*\)|", content[last:end])[0])  # type: ignore[index]
        content = content[:last] + comma + f'code="DG-{area}-{number:03d}"'.encode() + content[last:]
    result = content.decode()
    ast.parse(result)
    return result


def listed() -> str:
    """Return all codes of the package as Markdown for the site: a table for each area, with links to explanations."""
    places = {code: f"source/{codes.EXPLANATIONS.relative_to(ROOT)}#{code.lower()}" for code in codes.explanations()}
    errors = [
        error
        for path in codes.sources()
        for error in codes.errors_in(path.read_text(encoding="utf-8"), codes.module_of(path))
    ]
    lines = []
    for area, each in read_areas().items():
        lines += [
            f"\n### {area}\n",
            f"These errors concern {each['about']}.\n",
            "| code | class | text |",
            "|---|---|---|",
        ]
        for error in sorted(errors, key=lambda error: error.code):
            if error.code.split("-")[1] == area:
                code = f"[{error.code}]({places[error.code]})" if error.code in places else error.code
                text = error.text.replace("`", "'").replace("|", "/")
                lines.append(f"| {code} | {error.kind} | `{text}` |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Check the codes, or assign new ones; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assign", action="store_true", help="Give each error without a code the next number.")
    if parser.parse_args().assign:
        print(f"{assign(Package())} errors got a code")
    found = list(complaints(Package(), read_areas(), codes.explanations()))
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
