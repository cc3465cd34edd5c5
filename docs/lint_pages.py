"""Check the language of pages, docstrings and option help: `python docs/lint_pages.py`, which `make lint` runs.

docs/words.toml lists forbidden words, forbidden openings, pages that are not checked yet, and how often docstrings may
still have a forbidden opening or word. Edit that list when a rule does more harm than good.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
SETTINGS = DOCS / "words.toml"
EXPLANATIONS = ROOT / "sw" / "dynagate" / "cli" / "explanations.md"
"""Explanations of errors, which the package holds."""
PACKAGES = ("sw/dynagate", "hw", "fixedpoint", "sim")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z*`\"(\[])")
COMMENT = re.compile(r"<!--[^\n]*?-->")
LIST_ITEM = re.compile(r"^\s*(?:[*-]|\d+\.)\s+|^#+ ")


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph, list item and heading outside code and tables, with the number of its first line."""
    first, lines, in_code = 1, [], False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        starts_block = not line.strip() or line.startswith(("|", "<")) or LIST_ITEM.match(line) is not None
        if fence or in_code or starts_block:
            if lines:
                yield first, " ".join(lines)
            lines = []
        in_code ^= fence
        if in_code or fence or not line.strip() or line.startswith(("|", "<")):
            continue
        first = first if lines else number
        lines.append(line.strip() if line.startswith("#") else LIST_ITEM.sub("", line, count=1).strip())


def prose(markdown: str) -> str:
    """Return Markdown with code spans replaced by one word, and links and pictures by their text."""
    text = re.sub(r"`[^`]*`", "Code", markdown)
    return re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text).replace("*", "")


def complaints_about_words(text: str, settings: dict[str, object]) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each complaint about a page's words and sentences."""
    words: dict[str, str] = settings["words"]  # type: ignore[assignment]
    openings: list[str] = settings["openings"]  # type: ignore[assignment]
    longest: int = settings["longest_sentence"]  # type: ignore[assignment]
    forbidden = re.compile(rf"\b({'|'.join(words)})\b", re.I)
    opening = re.compile(rf"({'|'.join(openings)})\b")
    for line, paragraph in paragraphs(text):
        plain = prose(paragraph)
        for match in forbidden.finditer(plain):
            instead = next(value for key, value in words.items() if re.fullmatch(key, match[1], re.I))
            yield line, f"'{match[1]}': write {instead}"
        for sentence in SENTENCE_END.split(plain):
            if (match := opening.match(sentence)) and not paragraph.startswith("#"):
                yield line, f"a sentence begins with '{match[1]}'; begin with its subject or an imperative verb"
            if (count := len(sentence.split())) > longest:
                yield line, f"a sentence of {count} words, at most {longest}: '{' '.join(sentence.split()[:6])} ...'"


def long_lines(text: str, longest: int) -> Iterator[tuple[int, str]]:
    """Yield the lines that are too long, outside tables and code; the addresses of links do not count."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        in_code ^= line.lstrip().startswith("```")
        if not in_code and not line.startswith("|") and len(re.sub(r"\]\([^)]*\)", "]", line)) > longest:
            yield number, f"a line of {len(line)} characters, at most {longest}"


def sources() -> dict[str, str]:
    """Return the text of each module of the package, by its path."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def openings_of(text: str, openings: list[str]) -> int:
    """Count the docstrings and option help of a module that begin with a forbidden word."""
    return len(re.findall(rf'(?:"""|\bhelp=\(?\s*f?")(?:{"|".join(openings)})\b', text))


def words_of(text: str, words: Iterable[str]) -> int:
    """Count the forbidden words in the docstrings of a module: its own, of classes, functions, constants and fields."""
    forbidden = re.compile(rf"\b(?:{'|'.join(words)})\b", re.I)
    docstrings = [
        node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return sum(len(forbidden.findall(re.sub(r"`[^`]*`", "", docstring))) for docstring in docstrings)


def exceeds(counts: dict[str, int], allowed: int, what: str) -> bool:
    """Print how a count by file compares with the number in docs/words.toml, and return whether it is larger."""
    total = sum(counts.values())
    if total != allowed:
        print(f"{what}: {total}; docs/words.toml has {allowed}")
    if total > allowed:
        print("most of them:", ", ".join(f"{k} {v}" for k, v in sorted(counts.items(), key=lambda row: -row[1])[:5]))
    elif total < allowed:
        print("lower the number there")
    return total > allowed


def main() -> int:
    """Print all complaints and return the exit status."""
    settings = tomllib.loads(SETTINGS.read_text())
    failed = 0
    for path in [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), EXPLANATIONS]:
        name, text = path.relative_to(ROOT).as_posix(), COMMENT.sub("", path.read_text())
        if name in settings["not_checked_yet"]:
            continue
        found = [*complaints_about_words(text, settings), *long_lines(text, settings["longest_line"])]
        failed += len(found)
        for line, complaint in sorted(found):
            print(f"{name}:{line}: {complaint}")
    for name in settings["not_checked_yet"]:
        if not (ROOT / name).exists():
            failed += 1
            print(f"docs/words.toml: '{name}' does not exist; remove it from not_checked_yet")
    opening, words = settings["openings"], settings["words"]
    texts = sources()
    bad_openings = {name: openings_of(text, opening) for name, text in texts.items()}
    bad_words = {name: words_of(text, words) for name, text in texts.items()}
    failed += exceeds(bad_openings, settings["docstrings"], "docstrings and help with a bad opening")
    failed += exceeds(bad_words, settings["docstring_words"], "forbidden words in docstrings")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
