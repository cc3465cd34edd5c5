"""Build, try and tag a version: `make release`.

The committed files are exported and built, so nothing else of the working tree gets into a release. The sdist and the
wheel go to `dist/` with `notes.md`, the version's part of CHANGELOG.md. A tag vVERSION is made last. Nothing is pushed
and nothing is uploaded. With `--tag vVERSION`, as the workflow calls it, the tag exists already and is only checked.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from try_wheel import ROOT, all_tried, find, versions

LINK = re.compile(r"(\]\(|\bsrc(?:set)?=\")(?!https?://|#|mailto:)([^)\s\"]+)(\)|\")")


class NotReady(Exception):
    """A reason why the repository cannot be released, and what to do."""


def git(*arguments: str, root: Path = ROOT) -> str:
    """Run git and return its output. Raises NotReady if it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReady(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def notes_of(changelog: str, version: str) -> str:
    """Return the part of a changelog for a version.

    Raises:
        NotReady: The newest version of the changelog is another one, or "Unreleased" still lists changes.
    """
    parts = re.split(r"^## (.*)$", changelog, flags=re.M)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    if "\n* " in sections.get("Unreleased", ""):
        raise NotReady(f"CHANGELOG.md lists changes under 'Unreleased'; move them under '## {version} - YYYY-MM-DD'")
    newest = next((title for title in sections if title != "Unreleased"), "")
    if not re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", newest):
        raise NotReady(f"the newest version in CHANGELOG.md is '{newest}'; expected '## {version} - YYYY-MM-DD'")
    return sections[newest].strip() + "\n"


def with_absolute_links(markdown: str, address: str, tag: str) -> str:
    """Return a page whose relative links lead to the files of a tag: pictures raw, all others as pages.

    Args:
        markdown: The page.
        address: The repository's address, without a slash at the end.
        tag: The tag whose files the links show.
    """

    def absolute(match: re.Match[str]) -> str:
        picture = re.search(r"\.(svg|png|gif)$", match[2])
        return f"{match[1]}{address}/{'raw' if picture else 'blob'}/{tag}/{match[2]}{match[3]}"

    return LINK.sub(absolute, markdown)


def check_tag(version: str, named: str | None, root: Path = ROOT) -> None:
    """Check the tag of a release.

    Args:
        version: The version in pyproject.toml.
        named: A tag that must exist and lead to this commit, or None if the tag is to be made.
        root: The folder of the repository.

    Raises:
        NotReady: The tag has another name, leads elsewhere, or exists although it is to be made.
    """
    tag, exists = f"v{version}", git("tag", "--list", f"v{version}", root=root)
    if named is None and exists:
        raise NotReady(f"the tag {tag} exists; set the next version in pyproject.toml")
    if named is not None and named != tag:
        raise NotReady(f"the tag is '{named}' and pyproject.toml has version {version}; expected the tag {tag}")
    leads_here = exists and git("rev-list", "-1", tag, root=root) == git("rev-parse", "HEAD", root=root)
    if named is not None and not leads_here:
        raise NotReady(f"the tag {tag} does not lead to the commit that is checked out")


def exported(folder: Path, address: str | None, tag: str, root: Path = ROOT) -> Path:
    """Export the committed files to a folder and return it. With an address, the README's links become absolute."""
    archive, source = folder / "source.tar", folder / "source"
    git("archive", "--format=tar", f"--output={archive}", "HEAD", root=root)
    with tarfile.open(archive) as files:
        files.extractall(source, filter="data")
    if address:
        readme = source / "README.md"
        readme.write_text(with_absolute_links(readme.read_text(), address.rstrip("/"), tag))
    else:
        print("[project.urls] is empty: the README keeps its relative links, which a package index cannot show")
    return source


def main() -> int:
    """Release the committed version. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tag", help="check that this tag exists and fits; make none")
    named = parser.parse_args().tag
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version, address = project["version"], project.get("urls", {}).get("Repository")
    try:
        if changed := git("status", "--porcelain"):
            raise NotReady(f"the working tree has changes that are not committed:\n{changed}")
        notes = notes_of((ROOT / "CHANGELOG.md").read_text(), version)
        check_tag(version, named)
        with tempfile.TemporaryDirectory(prefix="dynagate-release-") as place:
            source = exported(Path(place), address, f"v{version}")
            if not all_tried(source, ROOT / "dist", {python: find(python) for python in versions()}):
                return 1
        (ROOT / "dist" / "notes.md").write_text(notes)
        if named is None:
            git("tag", "--annotate", f"v{version}", "--message", f"dynagate {version}")
            print(f"tagged v{version}; to publish it: git push origin v{version}")
    except NotReady as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
