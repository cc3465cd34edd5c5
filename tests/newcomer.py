"""What a newcomer has and does: a clone, an empty home, and the blocks of a page in their order."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent

FOLLOW = r"""
import json, os, subprocess, sys, time, dynagate
print("dynagate of", dynagate.__file__)
space = {"__name__": "__main__"}
for number, (language, text) in enumerate(json.loads(sys.argv.pop())):
    start = time.monotonic()
    if language == "sh":
        subprocess.run(["bash", "-ec", text + "\nenv -0 > ../blocks"], check=True)
        with open("../blocks") as after:  # what is exported stays, as in a terminal
            os.environ.update(line.split("=", 1) for line in after.read().split("\0") if "=" in line)
    else:
        exec(compile(text, f"block {number}", "exec"), space)
    print(f"block {number} ({language}): {time.monotonic() - start:.1f} s", flush=True)
"""
"""Runs in the newcomer's Python. Blocks of Python share their names, as cells of a notebook do."""


def blocks(page: Path, languages: str, heading: str = "") -> list[tuple[str, str]]:
    """Languages and texts of a page's blocks, or of those below one heading."""
    text = page.read_text()
    if heading:
        text = text[text.index(f"\n## {heading}\n") + 1 :]
        text = text[: text.find("\n## ")] if "\n## " in text else text
    return re.findall(rf"^```({languages})\n(.*?)^```", text, flags=re.S | re.M)


def clone(folder: Path) -> Path:
    """The files under version control, and nothing that was built beside them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, copy = ROOT / name, folder / name
        if source.exists() or source.is_symlink():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)
    return folder


@dataclass
class Newcomer:
    """A shell in `folder` whose home is empty. What a block changes in the environment stays, as in a terminal."""

    folder: Path
    environment: dict[str, str]

    @staticmethod
    def at(folder: Path) -> Newcomer:
        """Pip's settings and cache stay those of the computer. The interpreter is the tests', without packages."""
        (folder / "home").mkdir(parents=True)
        (folder / "work").mkdir()
        ours = ("VIRTUAL_ENV", "PYTHONPATH", "PYTEST_CURRENT_TEST", "DYNAGATE_CACHE", "XDG_CACHE_HOME")
        environment = {name: value for name, value in os.environ.items() if name not in ours}
        places = [place for place in os.environ["PATH"].split(os.pathsep) if Path(place) != Path(sys.prefix) / "bin"]
        environment["PATH"] = os.pathsep.join([str(Path(sys.base_prefix) / "bin"), *places])
        environment.setdefault("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))
        return Newcomer(folder / "work", environment | {"HOME": str(folder / "home")})

    def call(self, text: str, folder: Path | None = None) -> str:
        """What a block of shell prints. Raises AssertionError, with the text, if a command of it fails."""
        after = self.folder.parent / "environment"
        done = subprocess.run(
            ["bash", "-ec", f"{text}\nenv -0 > '{after}'"],
            cwd=folder or self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{text}\nended with status {done.returncode}:\n{done.stdout}"
        self.environment = dict(row.split("=", 1) for row in after.read_text().split("\0") if row)
        return done.stdout

    def follow(self, steps: list[tuple[str, str]]) -> str:
        """Blocks of shell and Python in their order, in the active environment. Returns what they print, and times."""
        (self.folder.parent / "follow.py").write_text(FOLLOW)
        self.environment["STEPS"] = json.dumps(steps)
        return self.call("""python ../follow.py "$STEPS" """)
