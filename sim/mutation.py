"""Measure the benches of a design: change its Verilog in one place at a time, and count the changes that they notice.

A mutant dies if a Verilog bench fails, in the first of the simulators that notices it. A mutant that does not compile
is not counted. A mutant that no bench notices is compared with the design: if a proof shows that it computes the same,
the mutant is equivalent and is not counted either. All other mutants
survive, those in entries of tables that no input reads too. They are kept as patches, and the results are kept so that
a run can continue.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from dynagate.base.progress import Progress, quiet
from dynagate.base.storage import check_folder, read_file, write
from dynagate.design.design import DesignRecord
from dynagate.design.files import SIMULATORS
from dynagate.sim.mutant_bench import DIED, EQUIVALENT, INVALID, SURVIVED, Judged, MutantBench
from dynagate.sim.mutants import Mutant, mutants_of
from dynagate.sim.sources import SimulationError, read_sources
from dynagate.sim.verify import check_simulators, checked_subjects, copy_design

RESULTS = "results.json"
"""Name of the file with the verdicts of a run."""
MIN_SCORE = 0.98
"""Smallest share of mutants that must die for a passing run."""
SPARE = 5
"""Number of mutants that are compiled in addition to 5/4 of those that are missing: some are not counted."""
EXTRA_DRAWS = 10
"""Largest number of drawn mutants per counted one."""


@dataclass(frozen=True)
class MutationRun:
    """Verdicts on mutants of a design."""

    design: DesignRecord
    """Record of the design."""
    seed: int
    """Seed of the mutants."""
    judged: tuple[Judged, ...]
    """Mutants in the order of the seed."""
    folder: Path
    """Folder with the verdicts and the surviving mutants."""

    @property
    def score(self) -> float:
        """Return the share of the counted mutants that died; 1.0 if none counts."""
        counted = [each for each in self.judged if each.counts]
        return sum(each.verdict == DIED for each in counted) / len(counted) if counted else 1.0

    @property
    def passed(self) -> bool:
        """Return whether the score is at least `MIN_SCORE`."""
        return self.score >= MIN_SCORE

    def text(self) -> str:
        """Return the score for a terminal, by kind of mutant, with each survivor."""
        verdicts = Counter(each.verdict for each in self.judged)
        counted = verdicts[DIED] + verdicts[SURVIVED]
        lines = [f"mutants of {self.design.title}, design {self.design.hash[:16]}, seed {self.seed}"]
        for kind in dict.fromkeys(each.mutant.kind for each in self.judged):
            own = Counter(each.verdict for each in self.judged if each.mutant.kind == kind)
            lines.append(f"  {kind:<10}{own[DIED]:>4} of {own[DIED] + own[SURVIVED]} died")
        lines.append(f"mutation score: {verdicts[DIED]} of {counted} mutants died, {100 * self.score:.1f} %")
        lines.append(f"  not counted: {verdicts[EQUIVALENT]} equivalent, {verdicts[INVALID]} not compiled")
        reasons = Counter(each.reason for each in self.judged if each.verdict == EQUIVALENT)
        lines += [f"    {number} equivalent: {reason}" for reason, number in reasons.most_common()]
        for each in self.judged:
            if each.verdict == INVALID:
                lines.append(f"    not compiled: {each.mutant.file}:{each.mutant.line} {each.reason.splitlines()[0]}")
        for each in self.judged:
            if each.verdict == SURVIVED:
                lines.append(f"  survived: {self.folder / patch_name(each)}")
                lines += [
                    f"    {each.mutant.file}:{each.mutant.line} {sign} {line.strip()[:100]}"
                    for sign, line in (("-", each.mutant.old), ("+", each.mutant.new))
                ]
        if not self.passed:
            lines.append(f"FAIL: the score is below {100 * MIN_SCORE:.0f} %")
        return "\n".join(lines)


def patch_name(judged: Judged) -> str:
    """Return the name of the patch file of a surviving mutant."""
    return f"survivor-{judged.number:04d}.patch"


def mutate(
    folder: str | os.PathLike[str],
    count: int,
    seed: int,
    kept: Path,
    simulators: Sequence[str] = SIMULATORS,
    *,
    progress: Progress = quiet,
) -> MutationRun:
    """Run the benches on mutants of a design until `count` of them have died or survived.

    The mutants are made in a temporary copy. An earlier run on the same design, benches and seed is continued.

    Args:
        folder: Folder of the design.
        count: Number of mutants in the score.
        seed: Seed of the mutants.
        kept: Folder in which verdicts and survivors of all designs and seeds are kept.
        simulators: Simulators in the order in which they run until one notices the mutant.
        progress: Function that receives a line of text before each mutant.

    Raises:
        DesignError: The design is damaged, or a file of its bench was edited.
        SimulationError: A simulator is missing, a folder cannot be written, or the benches fail without a mutant.
    """
    check_simulators(simulators)
    check_folder(kept, SimulationError, "surviving mutants")
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / "design"
        copy_design(Path(folder).absolute(), copy)
        subjects = checked_subjects(copy)
        design = subjects[0].design
        texts = read_sources([copy / f"{module}.v" for module in subjects[-1].tops])
        place, state = kept / f"{design.hash[:16]}-seed{seed}", _state(copy, texts, simulators)
        judged = _kept(place, state)
        drawn = enumerate(islice(mutants_of(texts, seed), EXTRA_DRAWS * count), 1)
        for _ in range(len(judged)):
            next(drawn)
        bench = MutantBench(copy, subjects, texts, simulators, Path(work) / "runs", progress)
        missing = count - sum(each.counts for each in judged)
        while missing > 0 and (batch := dict(islice(drawn, missing * 5 // 4 + SPARE))):
            for each in bench.judged(batch):
                judged.append(each)
                missing -= each.counts
                _keep(place, state, judged, texts)
                progress(f"mutant {each.number} ({each.mutant.kind}): {each.verdict}; {count - missing} of {count}")
                if not missing:
                    break
    return MutationRun(design, seed, tuple(judged), place)


# what is kept between runs


def _state(folder: Path, texts: dict[str, str], simulators: Sequence[str]) -> str:
    """Return a hash of all that verdicts depend on: the design, its benches and the simulators."""
    hashed = hashlib.sha256(" ".join(simulators).encode())
    for text in texts.values():
        hashed.update(text.encode())
    for path in sorted(path for path in (folder / "tests").rglob("*") if path.is_file()):
        hashed.update(read_file(path))
    return hashed.hexdigest()


def _kept(place: Path, state: str) -> list[Judged]:
    """Return the verdicts of an earlier run on the same design and benches."""
    try:
        content = json.loads(read_file(place / RESULTS))
        if content["state"] != state:
            return []
        return [
            Judged(row["number"], Mutant(**row["mutant"]), row["verdict"], row["reason"]) for row in content["mutants"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _keep(place: Path, state: str, judged: Sequence[Judged], texts: dict[str, str]) -> None:
    """Keep the verdicts, and the patch of the last mutant if it has survived."""
    place.mkdir(parents=True, exist_ok=True)
    content = {"state": state, "mutants": [asdict(each) for each in judged]}
    write(place / RESULTS, json.dumps(content, indent=1) + "\n", SimulationError)
    last = judged[-1]
    if last.verdict == SURVIVED:
        write(place / patch_name(last), "".join(_patch(last, texts[last.mutant.file])), SimulationError)


def _patch(judged: Judged, text: str) -> Iterator[str]:
    """Yield the lines of a mutant as a patch, for `patch -p1` in a copy of the design's folder."""
    mutant = judged.mutant
    yield f"{judged.reason}: {mutant.kind} in line {mutant.line}\n"
    old, new = (each.splitlines(keepends=True) for each in (text, mutant.applied(text)))
    yield from difflib.unified_diff(old, new, f"a/{mutant.file}", f"b/{mutant.file}")
