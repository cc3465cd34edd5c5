"""What MkDocs is told beyond mkdocs.yml: the README is the home page, and files that pages link to are pages too."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<=\]\()[^)#:\s]+(?=[)#])")
"""The file that a link of Markdown leads to, neither an address nor an anchor alone."""

LANGUAGES = {".py": "python", ".c": "c", ".toml": "toml"}


def on_files(files: Files, config: Any) -> Files:
    """Adds the README as index.md and, under source/, the files outside docs/ that pages link to."""
    readme = File.generated(config, "index.md", content=relinked("README.md", "index.md"))
    files.append(readme)
    pages = ["README.md", *(f"docs/{file.src_uri}" for file in files.documentation_pages() if file is not readme)]
    linked = {path for page in pages for path in targets(page) if (ROOT / path).is_file()}
    for path in sorted(linked - {"README.md"}):
        if not path.startswith("docs/"):
            files.append(File.generated(config, uri(path), content=source(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of a page as they are in the site."""
    here = page.file.src_uri
    return markdown if page.file.generated_by else relinked(f"docs/{here}", here, markdown)


def targets(page: str) -> list[str]:
    """Files of the repository that a page links to, by their paths in it."""
    return [resolved(page, link) for link in LINK.findall((ROOT / page).read_text())]


def resolved(page: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def uri(path: str) -> str:
    """Where a file of the repository is in the site's sources."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def relinked(page: str, here: str, markdown: str | None = None) -> str:
    """The text of a page of the repository, its links relative to the place `here` in the site's sources."""

    def moved(match: re.Match[str]) -> str:
        path = resolved(page, match[0])
        # what is not there stays as it is, for MkDocs to name
        return posixpath.relpath(uri(path), posixpath.dirname(here)) if (ROOT / path).is_file() else match[0]

    return outside_code((ROOT / page).read_text() if markdown is None else markdown, lambda text: LINK.sub(moved, text))


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.S | re.M)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


def source(path: str) -> str:
    """A page that shows a file."""
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return relinked(path, uri(path))
    return f"# {path}\n\n````{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}````\n"
