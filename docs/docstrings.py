"""Docstrings as Markdown for the reference: a line that opens with arguments becomes an entry of a list."""

from __future__ import annotations

import re
from typing import Any

import griffe

ENTRY = re.compile(r'^((?:[a-z]\w*, )*[a-z]\w*)( \((?:"|function )[^)]*\))?: ', flags=re.M)
"""`form, frame: `, `threads ("cpu"): ` or `steps (function "rollout"): ` at the start of a line."""

RAISES = re.compile(r"^(Raises (?:\w+|as)\b)", flags=re.M)


class Lists(griffe.Extension):
    """Gives every docstring its lists."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Paragraphs of a docstring, those of arguments as lists and those of errors by themselves."""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(part if part[:4].isspace() else _paragraph(part) for part in paragraphs)


def _paragraph(text: str) -> str:
    """Lines of an entry stay with it; what follows "Raises" is no part of the last entry."""
    text = RAISES.sub(r"\n\1", text)
    blocks = []
    for block in text.split("\n\n"):
        first = ENTRY.search(block)
        if first and not block.startswith("Raises"):
            block = f"{block[: first.start()]}\n{ENTRY.sub(_entry, block[first.start() :])}".lstrip("\n")
        blocks.append(re.sub(r"\A(Raises)\b", r"**\1**", block))
    return "\n\n".join(blocks)


def _entry(match: re.Match[str]) -> str:
    names = ", ".join(f"`{name}`" for name in match[1].split(", "))
    return f"- {names}{match[2] or ''}: "
