"""`python -m tests.fuzz --minutes 10 --seed 7`, and `python -m tests.fuzz FILE ...` to run kept cases again."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from pathlib import Path

from tests.fuzz.run import CASES, KINDS, check, fuzz


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="kept cases to run again, instead of drawing")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, help="any number unless given")
    parser.add_argument("--kind", action="append", choices=tuple(KINDS), default=[], help="draw these kinds alone")
    parser.add_argument("--folder", type=Path, default=CASES, help="where cases that fail are kept")
    asked = parser.parse_args()
    if not asked.files:
        seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
        return bool(fuzz(asked.minutes, seed, asked.kind, asked.folder))
    failed = 0
    for path in asked.files:
        findings = check(json.loads(path.read_text()))
        failed += bool(findings.faults)
        print(f"{path}: {findings.compared} compared, {len(findings.refused)} refused")
        for what, text in findings.faults.items():
            print(f"  {what} {text}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
