"""Measure the benches of a design: change its Verilog in one place at a time, and count the changes that they notice.

A mutant dies if a Verilog bench fails, in the first of the simulators that notices it. A mutant that does not compile
is not counted. A mutant that no bench notices is compared with the design by Yosys: if induction over all registers
proves that the changed module computes the same, the mutant is equivalent and is not counted either. All other mutants
survive, those in entries of tables that no input reads too. They are kept as patches, and the results are kept so that
a run can continue.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import resource
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from dynagate.base.process import completed, python_environment
from dynagate.base.progress import Progress, quiet
from dynagate.base.storage import check_folder, read_file, write
from dynagate.design.design import DesignRecord
from dynagate.design.files import SIMULATORS
from dynagate.hw.export.yosys import yosys_command
from dynagate.hw.vectors.subject import Subject
from dynagate.sim.mutants import Mutant, mutants_of
from dynagate.sim.sources import SimulationError, read_sources
from dynagate.sim.verify import check_simulators, checked_subjects, copy_design
from dynagate.sim.verilate import environment

DIED, SURVIVED, EQUIVALENT, INVALID = "died", "survived", "equivalent", "does not compile"
"""Verdicts on mutants."""
RESULTS = "results.json"
"""Name of the file with the verdicts of a run."""
MIN_SCORE = 0.98
"""Smallest share of mutants that must die for a passing run."""
CPU_SECONDS = 300
"""Processor time in s after which a bench counts as failed: a mutant may never end."""
PROOF_SECONDS = 30
"""Processor time in s after which Yosys counts as having found no proof."""
PROOF_DEPTH = 6
"""Number of clock cycles of an induction: more than the stages in front of a table."""
EXTRA_DRAWS = 10
"""Largest number of drawn mutants per counted one."""


@dataclass(frozen=True)
class Judged:
    """A mutant with its verdict."""

    number: int
    """Place of the mutant in the order of the seed, from 1 on."""
    mutant: Mutant
    verdict: str
    """`DIED`, `SURVIVED`, `EQUIVALENT` or `INVALID`."""
    reason: str
    """The bench and its message for a mutant that died; otherwise how the verdict was found."""

    @property
    def counts(self) -> bool:
        """Return whether the mutant counts in the score."""
        return self.verdict in (DIED, SURVIVED)


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
        lines.append(
            f"  not counted: {verdicts[EQUIVALENT]} equivalent (proved by Yosys), {verdicts[INVALID]} not compiled"
        )
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
        bench = MutantBench(copy, subjects, texts, simulators)
        place, state = kept / f"{design.hash[:16]}-seed{seed}", _state(copy, texts, simulators)
        judged = _kept(place, state)
        if not judged:
            progress("the benches of the design itself")
            if said := bench.noticed():
                raise SimulationError(
                    f"the benches fail without a mutant: {said}; expected a design that passes", code="DG-SIM-021"
                )
        for number, mutant in enumerate(mutants_of(texts, seed), 1):
            counted = sum(each.counts for each in judged[:number])
            if counted >= count or number > EXTRA_DRAWS * count:
                break
            if number > len(judged):
                progress(f"mutant {number} ({mutant.kind}) at {mutant.file}:{mutant.line}; {counted} of {count} judged")
                judged.append(bench.judged(number, mutant))
                _keep(place, state, judged, texts)
    return MutationRun(design, seed, tuple(judged), place)


class MutantBench:
    """Run the benches of a design on its mutants, in a folder that is restored after each."""

    def __init__(
        self, folder: Path, subjects: Sequence[Subject], texts: dict[str, str], simulators: Sequence[str]
    ) -> None:
        self.folder, self.subjects, self.texts, self.simulators = folder, subjects, texts, simulators

    def judged(self, number: int, mutant: Mutant) -> Judged:
        """Return the verdict on a mutant."""
        try:
            with self._applied(mutant):
                said = self.noticed(mutant.file)
        except SyntaxError as error:
            return Judged(number, mutant, INVALID, str(error))
        if said:
            return Judged(number, mutant, DIED, said)
        module = module_of(self.texts[mutant.file], mutant.line)
        is_provable = mutant.kind != "table" and find_spec("pyosys") is not None
        if is_provable and proved_equal(self.texts, mutant, module):
            return Judged(number, mutant, EQUIVALENT, f"Yosys proves by induction that {module} computes the same")
        return Judged(number, mutant, SURVIVED, f"no bench in {', '.join(self.simulators)} notices it")

    @contextmanager
    def _applied(self, mutant: Mutant) -> Iterator[None]:
        """Put a mutant into the folder for a while."""
        path, text = self.folder / mutant.file, self.texts[mutant.file]
        path.write_text(mutant.applied(text), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")

    def noticed(self, file: str | None = None) -> str:
        """Return the bench that fails and its message; empty if all pass.

        Args:
            file: File that was changed, whose benches run; None for all benches.

        Raises:
            SyntaxError: The Verilog does not compile.
        """
        for simulator in self.simulators:
            for subject in self.subjects:
                is_inside = file is None or file.removesuffix(".v").partition("_")[0] in subject.tops
                if is_inside and (said := self._run(subject, simulator)):
                    return f"{subject.module} in {simulator}: {said}"
        return ""

    def _run(self, subject: Subject, simulator: str) -> str:
        """Run the script of a module's bench; return its message if it fails, else nothing."""
        bench = self.folder / subject.folder
        variables = environment() if simulator == "verilator" else dict(os.environ)
        command = ["sh", str(bench / "verify.sh"), simulator]
        done = completed(command, env={**variables, "VECTORS": str(bench)}, preexec_fn=partial(_limit_cpu, CPU_SECONDS))
        if done.returncode == 0 and re.search(r"^PASS$", done.stdout, flags=re.M):
            return ""
        if not done.stdout.startswith("bench of "):
            raise SyntaxError("\n".join((done.stdout + done.stderr).splitlines()[-3:]))
        lines = [line for line in done.stdout.splitlines()[1:] if not line.startswith(("FATAL", "FAIL"))]
        return (lines or ["it does not end"])[-1 if len(lines) < 2 else -2].strip()[:200]


def _limit_cpu(seconds: int) -> None:
    """Limit the processor time of the process that is about to start."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def module_of(text: str, line: int) -> str:
    """Return the module that a line belongs to, as Verilog spells its name."""
    above = text.split("\n")[: line - 1]
    return next(each.split()[1] for each in reversed(above) if each.startswith("module "))


def proved_equal(texts: dict[str, str], mutant: Mutant, module: str) -> bool:
    """Return whether Yosys proves that the mutant's module computes the same as the design's.

    The proof is an induction: from equal registers and inputs follow equal next values and outputs. Modules inside are
    opaque; a mutant that needs a fact about other modules is not proved.
    """
    passes = []
    with tempfile.TemporaryDirectory() as work:
        for name, text in (("gold", texts[mutant.file]), ("gate", mutant.applied(texts[mutant.file]))):
            path = Path(work) / f"{name}.v"
            path.write_text(text, encoding="utf-8")
            passes += [f"read_verilog -sv {path}", *_PREPARING, f"rename {module} {name}", f"design -stash {name}"]
        command = yosys_command([*passes, *_PROVING])
        limit = partial(_limit_cpu, PROOF_SECONDS)
        try:
            done = completed(command, env=python_environment(), cwd=work, preexec_fn=limit)
        except OSError:
            return False
    return done.returncode == 0


_PREPARING = ("proc", "memory_collect", "memory_map", "opt_expr", "opt_clean -purge")
"""Passes of Yosys on each of the two modules."""
_PROVING = (
    *("design -copy-from gold gold", "design -copy-from gate gate", "equiv_make gold gate equiv", "cd equiv"),
    *("equiv_struct", f"equiv_simple -seq {PROOF_DEPTH}", f"equiv_induct -seq {PROOF_DEPTH}", "equiv_status -assert"),
)
"""Passes that prove the two modules equal. They fail where there is no proof."""


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
        write(place / patch_name(last), "".join(_patch(last.mutant, texts[last.mutant.file])), SimulationError)


def _patch(mutant: Mutant, text: str) -> Iterator[str]:
    """Yield the lines of a mutant as a patch, for `patch -p1` in a copy of the design's folder."""
    old, new = (each.splitlines(keepends=True) for each in (text, mutant.applied(text)))
    yield from difflib.unified_diff(old, new, f"a/{mutant.file}", f"b/{mutant.file}")
