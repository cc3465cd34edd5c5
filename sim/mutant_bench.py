"""Run the benches of a design on its mutants, which are all compiled at once.

Each bench is compiled once per simulator, with the design and all mutants in one text. A run selects one mutant and
ends at the first difference. A mutant that no bench notices is compared with the design by Yosys.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from dynagate.base.process import completed, limited
from dynagate.base.progress import Progress
from dynagate.base.storage import read_file
from dynagate.design.files import DesignError, bench_vectors_of
from dynagate.hw.vectors.subject import Subject
from dynagate.sim.equivalence import equal_reason
from dynagate.sim.mutant_selection import SelectedTexts, selected
from dynagate.sim.mutants import Mutant
from dynagate.sim.range_facts import RangeFacts, range_facts
from dynagate.sim.sources import SimulationError
from dynagate.sim.verilate import environment, lint_messages, uncached_bench_program

DIED, SURVIVED, EQUIVALENT, INVALID = "died", "survived", "equivalent", "does not compile"
"""Verdicts on mutants."""
FEWEST_SECONDS = 20
"""Processor time in s that a bench on a mutant has at least."""
LONGER = 10
"""Number of times that a bench on a mutant may take the processor time of the bench on the design."""
LONGEST_SECONDS = 600
"""Processor time in s after which any bench ends."""
_LINE = re.compile(r"(\w+\.v):(\d+):(?:\d+:)? *(.*)")


@dataclass(frozen=True)
class Judged:
    """A mutant with its verdict."""

    number: int
    """Place of the mutant in the order of the seed, from 1 on."""
    mutant: Mutant
    verdict: str
    """`DIED`, `SURVIVED`, `EQUIVALENT` or `INVALID`."""
    reason: str
    """The bench and its message for a mutant that died; otherwise how the verdict was reached."""

    @property
    def counts(self) -> bool:
        """Return whether the mutant counts in the score."""
        return self.verdict in (DIED, SURVIVED)


def _is_of(file: str, subject: Subject) -> bool:
    """Return whether a Verilog file belongs to the modules that a bench simulates."""
    return file.removesuffix(".v").partition("_")[0] in subject.tops


class MutantBench:
    """Run the benches of a design on its mutants."""

    def __init__(
        self,
        folder: Path,
        subjects: Sequence[Subject],
        texts: Mapping[str, str],
        simulators: Sequence[str],
        work: Path,
        progress: Progress,
    ) -> None:
        self.folder, self.subjects, self.texts, self.work, self.progress = folder, subjects, texts, work, progress
        self._known: list[RangeFacts | None] = []
        self._lock = Lock()
        work.mkdir()
        self.simulators = sorted(simulators, key=lambda name: name != "verilator")  # the fastest first

    def judged(self, mutants: Mapping[int, Mutant]) -> Iterator[Judged]:
        """Yield the verdicts on mutants in their order.

        Args:
            mutants: Mutants by number.

        Raises:
            SimulationError: The benches fail without a mutant.
        """
        refused: dict[int, str] = {}
        while True:
            rest = {number: mutant for number, mutant in mutants.items() if number not in refused}
            texts = selected(self.texts, rest)
            runs = self._runs(texts.texts)
            broken = runs.compile(texts)
            if not broken:
                break
            refused |= broken
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            futures = {
                number: pool.submit(self._judge, number, mutant, runs, number in texts.left)
                for number, mutant in rest.items()
            }
            try:
                for number, mutant in mutants.items():
                    if number in refused:
                        yield Judged(number, mutant, INVALID, refused[number])
                    else:
                        yield futures[number].result()
            finally:
                for future in futures.values():
                    future.cancel()

    def _runs(self, texts: Mapping[str, str]) -> _Runs:
        """Return the runs of a text in a new folder."""
        return _Runs(self, texts, self.work / f"runs{len(list(self.work.iterdir()))}")

    def _judge(self, number: int, mutant: Mutant, runs: _Runs, is_apart: bool) -> Judged:
        """Return the verdict on a mutant. is_apart: whether the text of the runs lacks it, so that it needs its own."""
        selection = number
        if is_apart:
            texts = SelectedTexts({**self.texts, mutant.file: mutant.applied(self.texts[mutant.file])}, {}, ())
            runs, selection = self._runs(texts.texts), 0
            if broken := runs.compile(SelectedTexts(texts.texts, {}, (number,))):
                return Judged(number, mutant, INVALID, broken[number])
        for simulator in self.simulators:
            for subject in self.subjects:
                if _is_of(mutant.file, subject) and (said := runs.message(subject, simulator, selection)):
                    return Judged(number, mutant, DIED, f"{subject.module} in {simulator}: {said}")
            if simulator == self.simulators[0] and (reason := equal_reason(self.texts, mutant, self._facts())):
                return Judged(number, mutant, EQUIVALENT, reason)
        return Judged(number, mutant, SURVIVED, f"no bench in {', '.join(self.simulators)} notices it")

    def _facts(self) -> RangeFacts | None:
        """Return the facts on ranges, which are computed once; None if the design cannot be scheduled again."""
        with self._lock:
            if not self._known:
                self.progress("ranges of values, which show what no input reaches")
                try:
                    self._known = [range_facts(self.folder)]
                except DesignError:
                    self._known = [None]
            return self._known[0]


class _Runs:
    """The compiled benches of one text."""

    def __init__(self, bench: MutantBench, texts: Mapping[str, str], place: Path) -> None:
        self.bench, self.texts, self.place = bench, texts, place
        self._limits: dict[tuple[str, str], int] = {}
        self._lock = Lock()
        place.mkdir()

    def compile(self, texts: SelectedTexts) -> dict[int, str]:
        """Compile the benches; return the messages of mutants that do not compile, by number."""
        for subject in reversed(self.bench.subjects):
            folder = self._folder(subject)
            folder.mkdir()
            for name in bench_vectors_of(subject.module):
                (folder / name).write_bytes(read_file(self.bench.folder / subject.folder / name))
            sources = self._sources(subject)
            for simulator in self.bench.simulators:
                self.bench.progress(f"compiling the bench of {subject.module} with mutants in {simulator}")
                said = self._compile(subject, simulator, sources)
                if said:
                    return _owners(said, texts)
        return {}

    def _folder(self, subject: Subject) -> Path:
        """Return the folder with the vectors and programs of a module's bench."""
        return self.place / subject.module

    def _sources(self, subject: Subject) -> dict[str, str]:
        """Return the Verilog of a module and its bench, by file name."""
        own = {name: text for name, text in self.texts.items() if _is_of(name, subject)}
        bench = self.bench.folder / subject.folder
        return {name: read_file(bench / name).decode() for name in ("rules.sv", "bench.v")} | own

    def _compile(self, subject: Subject, simulator: str, sources: dict[str, str]) -> str:
        """Compile a bench; return the messages of a failure, else nothing."""
        folder = self._folder(subject)
        if simulator == "icarus":
            for name, text in sources.items():
                (folder / name).write_text(text, encoding="utf-8")
            names = [name for name in sources if name != "rules.sv"]
            done = completed(["iverilog", "-g2012", "-s", "bench", "-o", "bench.vvp", *names], cwd=folder)
            return "" if done.returncode == 0 else done.stdout + done.stderr
        main = "#define MODEL Vtop\n" + read_file(self.bench.folder / subject.folder / "main.cpp").decode()
        try:
            uncached_bench_program(sources, main, folder / "verilator")
        except SimulationError:
            if said := lint_messages(sources, "bench"):
                return said
            raise
        return ""

    def message(self, subject: Subject, simulator: str, number: int) -> str:
        """Return the message with which a bench fails on a mutant; empty if it passes.

        Raises:
            SimulationError: The bench fails on the design itself.
        """
        if not number:  # a text of one mutant
            return self._run(subject, simulator, 0, LONGEST_SECONDS)
        key = (subject.module, simulator)
        with self._lock:
            if key not in self._limits:
                began = time.monotonic()
                if said := self._run(subject, simulator, 0, LONGEST_SECONDS):
                    raise SimulationError(
                        f"the benches fail without a mutant: {said}; expected a design that passes", code="DG-SIM-021"
                    )
                self._limits[key] = min(FEWEST_SECONDS + LONGER * int(time.monotonic() - began), LONGEST_SECONDS)
        return self._run(subject, simulator, number, self._limits[key])

    def _run(self, subject: Subject, simulator: str, number: int, seconds: int) -> str:
        """Run a bench on a mutant; return its message if it fails, else nothing."""
        program = ["vvp", "-n", "bench.vvp", "+few"] if simulator == "icarus" else ["verilator/bench"]
        command = limited([*program, f"+mutant={number}"], seconds)
        variables = environment() if simulator == "verilator" else dict(os.environ)
        done = completed(command, env=variables, cwd=self._folder(subject))
        if done.returncode == 0 and re.search(r"^PASS$", done.stdout, flags=re.M):
            return ""
        lines = [line for line in done.stdout.splitlines()[1:] if not line.startswith(("FATAL", "FAIL"))]
        return (lines or ["it does not end"])[-1 if len(lines) < 2 else -2].strip()[:200]


def _owners(said: str, texts: SelectedTexts) -> dict[int, str]:
    """Return the messages of a compiler that belong to mutants, by number.

    Raises:
        SimulationError: No message belongs to a mutant.
    """
    messages: dict[int, str] = {}
    for file, line, text in _LINE.findall(said):
        if number := texts.owners.get((file, int(line))):
            messages.setdefault(number, text.strip()[:200])
    if not messages and len(texts.left) == 1 and not texts.owners:
        messages = {texts.left[0]: said.strip()[:200]}
    if not messages:
        raise SimulationError(f"the design with its mutants does not compile: {said.strip()[-500:]}", code="DG-SIM-022")
    return messages
