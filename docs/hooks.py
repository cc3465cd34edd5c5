"""Pages of the site in Sphinx's source folder: docs/, the README as home page, and files that pages link to.

conf.py calls `lay_out`. The output is MyST Markdown. Pages in the repository stay plain Markdown, which GitHub renders.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docstrings
import error_codes
import yaml

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NAV = DOCS / "nav.yml"
LINK = re.compile(r"(?<=\]\()[^)#:\s]+(?=[)#])|(?<=\bsrc=\")[^\":]+(?=\")|(?<=\bsrcset=\")[^\":]+(?=\")")
"""Pattern of a file in a Markdown link, which excludes web addresses and pure anchors."""

LANGUAGES = {".py": "python", ".c": "c", ".toml": "toml"}
KEPT = {".md", ".svg", ".png", ".gif"}
"""Suffixes of pages in docs/ and of pictures on them."""


def lay_out(folder: Path) -> None:
    """Write all pages into a folder, and delete files that belong to no page.

    Unchanged files are not rewritten, so Sphinx reads only changed ones. Raise ValueError if docs/ and nav.yml list
    different pages.
    """
    files = {path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*") if path.suffix in KEPT}
    pages = sorted(name for name in files if name.endswith(".md"))
    check_nav(pages)
    texts = {name: relinked(f"docs/{name}", name) for name in pages}
    texts["index.md"] = relinked("README.md", "index.md") + "".join(toctrees())
    for path in sorted(linked_files(["README.md", *(f"docs/{name}" for name in pages)])):
        if not path.startswith("docs/") or Path(path).suffix not in KEPT:
            texts[uri(path)] = f"---\norphan: true\n---\n\n{source(path)}"
    texts["errors.md"] = texts["errors.md"].replace("<!-- codes -->", error_codes.listed())
    reference = docstrings.Reference(ROOT / "sw")
    for name, text in texts.items():
        write(folder / name, (reference.filled(text) if name.startswith("reference/") else text).encode())
    pictures = [name for name in files if name not in texts]
    for name in pictures:
        write(folder / name, files[name].read_bytes())
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path.relative_to(folder).as_posix() not in {*texts, *pictures}:
            path.unlink()


def write(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def nav() -> list[Any]:
    return yaml.safe_load(NAV.read_text())["nav"]


def entries(tree: Any) -> Iterator[tuple[str | None, str]]:
    """Yield the titles and pages in a part of the navigation, recursively."""
    for entry in tree:
        for title, value in entry.items() if isinstance(entry, dict) else [(None, entry)]:
            if isinstance(value, str):
                yield title, value
            else:
                yield from entries(value)


def check_nav(pages: list[str]) -> None:
    listed = [page for _, page in entries(nav()) if not page.startswith("source/") and page != "index.md"]
    for page in pages:
        if page not in listed:
            raise ValueError(f"docs/{page} is not in nav of docs/nav.yml; expected a line there")
    for page in listed:
        if page not in pages:
            raise ValueError(f"nav of docs/nav.yml has '{page}', which is no page of docs/")


def toctrees() -> Iterator[str]:
    """Yield the site's navigation as tables of contents that the home page hides."""
    for section in nav():
        for caption, tree in section.items():
            yield from _toctrees(caption, tree)


def _toctrees(caption: str, tree: list[Any]) -> Iterator[str]:
    """Yield a table of contents for each part; a nested part is a separate table after it."""
    lines, within = [], []
    for entry in tree:
        for title, value in entry.items() if isinstance(entry, dict) else [(None, entry)]:
            if not isinstance(value, str):
                within += _toctrees(f"{caption}: {title}", value)
            elif value != "index.md":
                page = value.removesuffix(".md")
                lines.append(f"{title} <{page}>" if title else page)
    yield "\n".join(["\n```{toctree}", ":hidden:", f":caption: {caption}", "", *lines, "```\n"])
    yield from within


def targets(page: str) -> list[str]:
    """Return the paths of repository files that a page links to."""
    return [resolved(page, link) for link in LINK.findall((ROOT / page).read_text())]


def linked_files(pages: list[str]) -> set[str]:
    """Return the files that pages link to, directly or through another page such as CONTRIBUTING.md."""
    files, waiting = set(pages), list(pages)
    while waiting:
        found = {path for path in targets(waiting.pop()) if (ROOT / path).is_file()} - files
        files |= found
        waiting += [path for path in found if path.endswith(".md")]
    return files - {"README.md"}


def resolved(page: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def uri(path: str) -> str:
    """Return the path of a repository file among the site's pages."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/") and Path(path).suffix in KEPT:
        return path.removeprefix("docs/")
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def relinked(page: str, here: str) -> str:
    """Return the text of a repository page with links relative to the location `here` on the site."""

    def moved(match: re.Match[str]) -> str:
        path = resolved(page, match[0])
        # a link to a missing file stays, so that Sphinx reports it
        return posixpath.relpath(uri(path), posixpath.dirname(here)) if (ROOT / path).is_file() else match[0]

    return outside_code((ROOT / page).read_text(), lambda text: LINK.sub(moved, text))


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.S | re.M)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


def source(path: str) -> str:
    """Return a page that shows a file."""
    if path.endswith(".md"):
        return relinked(path, uri(path))
    text = (ROOT / path).read_text()
    return f"# {path}\n\n````{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}````\n"
