"""Runs cases: one, one in a process of its own, and as many as a time allows."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import dynagate
import numpy as np
from dynagate.base.progress import Progress

from tests.fuzz import calls, constraints, contacts, flights, loops, rings, rollouts, shards, solvers
from tests.fuzz.findings import Findings
from tests.fuzz.shrink import shrunk

Case = dict[str, Any]
KINDS: dict[str, ModuleType] = {
    "rollouts": rollouts,
    "loops": loops,
    "rings": rings,
    "calls": calls,
    "shards": shards,
    "constraints": constraints,
    "contacts": contacts,
    "flights": flights,
    "solvers": solvers,
}
SHARES = {"rollouts": 0.22, "loops": 0.10, "rings": 0.08, "calls": 0.16, "shards": 0.04, "constraints": 0.14}
SHARES |= {"contacts": 0.13, "flights": 0.05, "solvers": 0.08}
"""Of the cases of each kind. Each draws by `draw(random)` and compares by `check(case, findings)`."""
CASES = Path(__file__).parent / "cases"
CPU_SECONDS = 120
"""Processor time in seconds after which a case counts as one that hangs."""
WAIT_SECONDS = 600.0
"""Time in seconds in which a case that uses no processor counts as one that hangs."""
GROSS = 1e3
"""Times its tolerance an output differs that is not wrong by rounding."""


def drawn(seed: int, number: int, kinds: Sequence[str] = ()) -> Case:
    """The case of this number under a seed, as it is read from a file."""
    random = np.random.default_rng([seed, number])
    names = list(kinds or KINDS)
    shares = np.array([SHARES[name] for name in names])
    case = KINDS[str(random.choice(names, p=shares / shares.sum()))].draw(random)
    return json.loads(json.dumps(case))


def check(case: Case, slack: float = 1.0) -> Findings:
    """A case in this process. What the project refuses as a whole is no fault."""
    findings = Findings(slack)
    try:
        KINDS[case["kind"]].check(case, findings)
    except dynagate.Error as error:
        findings.refused.append(str(error))
    return findings


def apart(case: Case, slack: float = 1.0) -> Findings:
    """A case in a process of its own, so that one which crashes or hangs is a fault like others. Raises RuntimeError:
    the fuzzer itself has failed, as with a case that lacks what it needs."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_sent, args=(case, slack, sender))
    process.start()
    assert process.pid is not None
    sender.close()
    try:
        used = -1.0
        while not (arrived := receiver.poll(WAIT_SECONDS)) and (now := _processor_time(process.pid)) > used:
            used = now
        answer = receiver.recv() if arrived else f"waits for more than {WAIT_SECONDS:g} s"
    except EOFError:
        process.join()
        is_long = process.exitcode == -signal.SIGXCPU
        answer = f"takes more than {CPU_SECONDS} s of processor time" if is_long else "ends the process"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
    if isinstance(answer, RuntimeError):
        raise answer
    if isinstance(answer, str):
        findings = Findings()
        findings.wrong("process", answer)
        return findings
    return answer


def _processor_time(session: int) -> float:
    """Return the processor time of the processes of a session that run, in seconds."""
    total = 0.0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        if int(fields[3]) == session:
            total += sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return total


def _sent(case: Case, slack: float, sender: Any) -> None:
    """Check a case in a session of its own, and send its findings or the fuzzer's own error."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    try:
        sender.send(check(case, slack))
    except Exception as error:
        sender.send(RuntimeError(f"{type(error).__name__}: {error}"))
    finally:
        sender.close()


def signature(case: Case, findings: Findings) -> tuple[str, ...]:
    """What faults of one cause mostly have in common: the kind of case, and the outputs."""
    return case["kind"], *sorted({what.split()[-1] for what in findings.faults})


def small(case: Case, findings: Findings, seconds: float) -> Case:
    """A smaller case with a fault in one of the same outputs; a gross one if this is, so that it does not become one of
    rounding on the way."""
    outputs, slack = set(signature(case, findings)[1:]), 1.0
    if gross := apart(case, GROSS).faults:
        outputs, slack = {what.split()[-1] for what in gross}, GROSS

    def fails(candidate: Case) -> bool:
        try:
            return not outputs.isdisjoint(signature(candidate, apart(candidate, slack))[1:])
        except RuntimeError:
            return False

    # on all of its devices again: those that agree had only been dropped for speed
    return {**shrunk(case, fails, seconds), **({"devices": case["devices"]} if "devices" in case else {})}


def kept(case: Case, folder: Path = CASES) -> Path:
    """The file in which a case is kept, to be replayed by `tests/project/test_fuzz.py`."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(case, indent=1)
    path = folder / f"{case['kind']}_{zlib.crc32(text.encode()):08x}.json"
    path.write_text(text + "\n")
    return path


def fuzz(
    minutes: float,
    seed: int,
    kinds: Sequence[str] = (),
    folder: Path = CASES,
    progress: Progress = print,
) -> int:
    """Draws and runs cases until the time is up; shrinks and keeps the first of each signature that fails. Returns how
    many of those there are."""
    end = time.monotonic() + 60.0 * minutes
    counts: Counter[str] = Counter()
    seen: set[tuple[str, ...]] = set()
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, DYNAGATE_CACHE=cache):
        number = 0
        while time.monotonic() < end:
            case = drawn(seed, number, kinds)
            try:
                findings = apart(case)
            except RuntimeError as error:
                raise RuntimeError(f"case {number} of seed {seed}: {error}") from error
            counts[case["kind"]] += 1
            counts["comparisons"] += findings.compared
            counts["refused"] += bool(findings.refused)
            if findings.faults:
                counts["failed"] += 1
                mark = signature(case, findings)
                if mark not in seen:
                    seen.add(mark)
                    what, text = next(iter(findings.faults.items()))
                    progress(f"seed {seed} case {number}, {case['kind']}: {what} {text}")
                    left = end - time.monotonic()
                    path = kept(small(case, findings, max(30.0, min(120.0, left))), folder)
                    progress(f"  kept as {path}")
            number += 1
    text = ", ".join(f"{counts[name]} {name}" for name in (*KINDS, "comparisons", "refused", "failed") if counts[name])
    progress(f"seed {seed}: {text}")
    return len(seen)
