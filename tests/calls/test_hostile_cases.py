"""Hostile cases that a seed draws, 1,200 and more: each ends in an error of the package or a right result, and soon."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.batch import CPU_SECONDS
from tests.hostile.cases import COUNTS, KINDS, entries

ROOT = Path(__file__).parents[2]
SEED = 1


def test_enough_cases_are_kept() -> None:
    assert set(COUNTS) == set(KINDS)
    assert sum(COUNTS.values()) >= 1200


def run_cases(kind: str, seed: int, count: int, folder: Path) -> list[Mapping[str, Any]]:
    """Run cases of a kind in a process of their own. Return what each was and how it ended; a crash is an ending."""
    command = [sys.executable, "-m", "tests.hostile.batch", kind, str(seed), str(count), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    cases: dict[int, dict[str, Any]] = {}
    for line in done.stdout.splitlines():
        if line.startswith('{"case": '):
            told = json.loads(line)
            cases.setdefault(told["case"], {"ending": "crash", "seconds": 0.0, "text": ""}).update(told)
    if len(cases) < count:  # also before the first case
        cases.setdefault(len(cases), {"what": "", "ending": "crash", "seconds": 0.0, "text": done.stderr[-500:]})
    return list(cases.values())


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_cases_are_refused_or_right(kind: str, tmp_path: Path) -> None:
    cases = run_cases(kind, SEED, COUNTS[kind], tmp_path)
    bad = [case for case in cases if case["ending"] not in ("refused", "right") or case["seconds"] > CPU_SECONDS]
    assert not bad, "\n".join(f"{case['ending']}: {case['what']}: {case['text']}" for case in bad)
    assert len(cases) == COUNTS[kind]
    assert "right" in {case["ending"] for case in cases}, "the unspoilt file or call is refused as well"


@pytest.mark.filterwarnings("ignore")
def test_entries_accept_their_own_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spoilt argument is refused for its own sake, not for another one that no entry has."""
    monkeypatch.chdir(tmp_path)
    for call, arguments in entries(tmp_path).values():
        call(**arguments)


def test_what_goes_wrong_in_a_batch_is_seen(tmp_path: Path) -> None:
    """A foreign error, a result that should not be, a hang and a crash each have their ending."""
    program = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.hostile import batch
batch.CPU_SECONDS = 0.2
def draw(random, k):
    def hang():
        while True:
            pass
    def wrong():
        raise batch.Wrong("taken")
    return str(k), [lambda: 1 / 0, wrong, hang, lambda: None, os.abort][k]
batch.KINDS["own"] = lambda folder: draw
batch.main("own", 1, 6, Path({str(tmp_path)!r}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["ending"] for line in told if "ending" in line] == ["foreign", "wrong", "long", "right"]
    assert told[-1] == {"case": 4, "what": "4"}
    assert done.returncode < 0
