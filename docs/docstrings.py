"""Reference pages generated from docstrings, which are parsed without importing the package.

A line `::: dynagate.name` on a page is replaced by the signature and docstring of that name and of its members.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import griffe

ENTRY = re.compile(r'^((?:[a-z]\w*, )*[a-z]\w*)( \((?:"|function )[^)]*\))?: ', flags=re.M)
"""Pattern of an entry at the start of a line: `form, frame: `, `threads ("cpu"): ` or `steps (function "rollout"): `.
"""

RAISES = re.compile(r"^(Raises (?:\w+|as)\b)", flags=re.M)
SECTION = re.compile(
    r"^(Args|Attributes|Returns|Raises|Reference|Examples?):\n((?:[ ]{4}.*(?:\n|\Z)|[ ]*\n)+)", flags=re.M
)
LISTED = re.compile(r"^(\**\w[\w.]*(?:, \**\w[\w.]*)*): ", flags=re.M)
"""Pattern of an entry in a section: `form, frame: ` at the start of a line."""

TITLES = {"Args": "Arguments"}
PLACE = re.compile(r"^::: ([\w.]+)$", flags=re.M)


class Reference:
    """The docstrings of the package in a source folder."""

    def __init__(self, folder: Path) -> None:
        self._package = griffe.load("dynagate", search_paths=[folder], resolve_aliases=True)

    def filled(self, markdown: str) -> str:
        """Return a page with each line `::: name` replaced. Raise KeyError if there is no such name."""
        return PLACE.sub(lambda match: self._entry(match[1]), markdown)

    def _entry(self, name: str) -> str:
        thing = self._package[name.removeprefix("dynagate.")]
        thing = thing.final_target if thing.is_alias else thing
        own = thing.members.get(thing.name)
        if thing.is_module and own is not None and not own.is_alias:  # a function hides the module with the same name
            thing = own
        if not thing.is_module:
            return _directive(name, thing)
        exported = thing.exports or [key for key, member in thing.members.items() if _shown(key, member)]
        parts = [
            f"## {name}",
            f"```{{py:module}} {name}\n```\n```{{py:currentmodule}} None\n```",
            as_markdown(_text(thing)),
        ]
        return "\n\n".join([*parts, *(self._entry(f"{name}.{key}") for key in map(str, exported))])


def _shown(name: str, thing: griffe.Object | griffe.Alias) -> bool:
    """Return whether a member is public, defined here, and has a docstring."""
    return (name == "__call__" or not name.startswith("_")) and not thing.is_alias and thing.has_docstring


def _members(kind: griffe.Object | griffe.Alias) -> dict[str, griffe.Object | griffe.Alias]:
    """Return the members of a class, and of the base classes of `Robot`."""
    bases = [base for base in kind.mro() if base.path.startswith("dynagate.robot.")]
    return {key: member for base in (*reversed(bases), kind) for key, member in base.members.items()}


def _text(thing: griffe.Object | griffe.Alias) -> str:
    return thing.docstring.value if thing.docstring else ""


def _directive(name: str, thing: griffe.Object | griffe.Alias, fence: int = 7) -> str:
    """Return a name and its members as Sphinx directives for Python in MyST."""
    options, parts = [], [as_markdown(_text(thing))]
    if thing.is_class:
        kind, signature = "class", name + _parameters(thing.members.get("__init__"))
        if "__init__" in thing.members:
            parts.append(as_markdown(_text(thing.members["__init__"])))
        members = {key: member for key, member in _members(thing).items() if _shown(key, member)}
        parts += [_directive(key, member, fence - 2) for key, member in members.items()]
    elif thing.is_function:
        method = isinstance(thing.parent, griffe.Class)
        kind, signature = "method" if method else "function", name + _parameters(thing)
        options = [f"{label}:" for label in ("classmethod", "staticmethod") if method and label in thing.labels]
    else:
        kind, signature = "property" if "property" in thing.labels else "attribute", name
        if thing.annotation is not None:
            options = [f"type: {thing.annotation}"]
    head = "".join(f":{option}\n" for option in options)
    ticks = "`" * fence
    return "\n".join([f"{ticks}{{py:{kind}}} {signature}", head, "\n\n".join(filter(None, parts)), ticks])


def _parameters(function: griffe.Object | griffe.Alias | None) -> str:
    """Return the parameters as in a signature, without self, and the return type."""
    if not isinstance(function, griffe.Function):
        return ""
    for parameter in function.parameters:
        if isinstance(parameter.default, griffe.ExprCall) and str(parameter.default.function) == "option":
            parameter.default = parameter.default.arguments[1]  # option(help, default): show only the default
    text = function.signature(name="f", return_type=function.name != "__init__")
    return re.sub(r"^f\((?:(?:self|cls)(?:, )?)?(?:/, )?", "(", text)


def as_markdown(text: str) -> str:
    """Return a docstring as Markdown: paragraphs, sections such as "Args:" as lists, and examples as code."""
    parts, end = [], 0
    for section in SECTION.finditer(text):
        parts += [
            _paragraphs(text[end : section.start()]),
            _section(section[1], textwrap.dedent(section[2]).strip("\n")),
        ]
        end = section.end()
    return "\n\n".join(filter(None, [*parts, _paragraphs(text[end:])]))


def _section(title: str, body: str) -> str:
    """Return a section in Google's layout: entries as a list, an example as code, and a result as a paragraph."""
    head = f"**{TITLES.get(title, title)}**"
    if title.startswith("Example"):
        return f"{head}\n\n```pycon\n{body}\n```"
    if title in ("Args", "Attributes", "Raises"):
        body = LISTED.sub(lambda match: f"- {_names(match[1])}: ", body)
    return f"{head}\n\n{body}"


def _names(text: str) -> str:
    return ", ".join(f"`{name}`" for name in text.split(", "))


def _paragraphs(text: str) -> str:
    """Return paragraphs, with those of arguments as lists and those of errors separate."""
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(part if part[:4].isspace() else _paragraph(part) for part in paragraphs)


def _paragraph(text: str) -> str:
    """Return one paragraph. Lines of an entry stay together, and text after "Raises" starts a new paragraph."""
    text = RAISES.sub(r"\n\1", text)
    blocks = []
    for block in text.split("\n\n"):
        first = ENTRY.search(block)
        if first and not block.startswith("Raises"):
            block = f"{block[: first.start()]}\n{ENTRY.sub(_entry, block[first.start() :])}".lstrip("\n")
        blocks.append(re.sub(r"\A(Raises)\b", r"**\1**", block))
    return "\n\n".join(blocks)


def _entry(match: re.Match[str]) -> str:
    return f"- {_names(match[1])}{match[2] or ''}: "
