"""Run cocotb benches: write the vectors, compile, start the simulator, raise an error on failure."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.base.process import completed, python_environment, run, safe_path
from dynagate.base.storage import write
from dynagate.fixedpoint.format import Integers
from dynagate.fixedpoint.models.evaluate import evaluate_integers
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.designs import Design
from dynagate.hw.vectors.wire import StreamModel
from dynagate.sim.sources import SimulationError, read_sources
from dynagate.sim.verilate import cocotb_program, environment, tool

LAST = 25
"""Largest number of log lines in an error."""


class Icarus(NamedTuple):
    """Verilog files and their top module for Icarus Verilog, which compiles them in the folder of each bench."""

    top: str
    files: tuple[Path, ...]

    def compiled(self, folder: Path) -> Path:
        """Compile to sim.vvp in a folder, and return a path in that folder whose name is the top module.

        Raises:
            SimulationError: Icarus is missing or failed.
        """
        paths = []
        for name, text in read_sources(self.files).items():
            paths.append(folder / name)
            paths[-1].write_text(text, encoding="utf-8")
        (folder / "time").write_text("+timescale+1ns/1ps\n")
        if shutil.which("iverilog") is None:
            raise SimulationError("'iverilog' is not on the path; expected Icarus Verilog", code="DG-SIM-003")
        options = ["-g2012", "-f", str(folder / "time"), "-s", self.top, "-o", str(folder / "sim.vvp")]
        run(["iverilog", *options, *map(str, paths)], SimulationError, place=folder)
        return folder / self.top


def words_of(built: Design[Pipeline], inputs: Mapping[str, npt.NDArray[np.float64]]) -> npt.NDArray[np.uint32]:
    """Return states as words on the AXI stream, (samples, words)."""
    flat = [inputs[port.name].reshape(len(inputs[port.name]), -1) for port in built.graph.inputs]
    return StreamModel(built.design, built.formatted).sent(np.concatenate(flat, axis=1)).words


def expected_words(
    built: Design[Pipeline], words: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return the expected results of words on the AXI stream.

    Args:
        built: Design with an AXI shell.
        words: Words of the samples, (samples, words).

    Returns:
        Words of the results, (samples, words), with NaN for samples that were bad or overflowed; which samples were
        bad, (samples,); and which passes overflowed, (samples, scopes).
    """
    assert built.design.axi is not None, "the design has no AXI shell"
    wire = StreamModel(built.design, built.formatted)
    sent = wire.entered(words)
    nodes = built.graph.result_nodes
    values = evaluate_integers(built.formatted, {i: sent.integers[k] for k, i in enumerate(built.graph.input_nodes)})
    by_place = {k: values.value[i] for k, i in enumerate(nodes)}
    results = wire.received(range(len(nodes)), by_place, sent.bad | values.overflow)
    return results, sent.bad, values.by_scope


@dataclass(frozen=True)
class UnitCase:
    """A unit with the operands of each cycle, and the results that it must have `unit.latency` cycles later."""

    unit: Any
    """Component with `latency`."""
    inputs: Mapping[str, npt.ArrayLike]
    """Operands (cycles,) by port."""
    outputs: Mapping[str, npt.ArrayLike]
    """Expected results (cycles,) by port."""


def run_unit_bench(
    name: str,
    cases: Mapping[str, UnitCase],
    folder: Path,
    *,
    platform: Any = None,
    models: Mapping[str, str] | None = None,
) -> None:
    """Simulate units next to each other in one module, with new operands in every cycle.

    Args:
        name: Name of the module.
        cases: Units by label; labels are identifiers.
        folder: Folder for the module's Verilog.
        platform: Device that the units are elaborated for.
        models: Verilog of the device's blocks, by file name.

    Raises:
        SimulationError: A result differs. The text names the label, the port and the sample.
    """
    from dynagate.hw.export.netlist import verilog_text
    from dynagate.sim.unit_rack import UnitRack

    text = verilog_text(UnitRack({label: case.unit for label, case in cases.items()}), name, platform)
    source = folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}" / f"{name}.v"
    write(source, text, SimulationError)
    # parameters of a device's blocks are strings, which no file may hold
    texts = None if models is None else {source.name: text, **models}
    data = {f"latency {label}": case.unit.latency for label, case in cases.items()}
    for kind in ("inputs", "outputs"):
        for label, case in cases.items():
            data |= {f"{kind} {label} {port}": np.asarray(x) for port, x in getattr(case, kind).items()}
    ports = [f"{label}_{port}" for label, case in cases.items() for port in (*case.inputs, *case.outputs)]
    program = cocotb_program(source if texts is None else None, name, ["clk", "rst", *ports], texts=texts)
    run_bench(program, "dynagate.sim.bench_unit", data)


def input_payloads(built: Design[Pipeline], integers: Mapping[int, Integers]) -> npt.NDArray[np.uint32]:
    """Return the payloads of samples. integers: inputs by node."""
    return built.design.input.codec.from_columns([integers[i] for i in built.graph.input_nodes])


def run_bench(program: Path | Icarus, module: str, data: Mapping[str, Any], *, only: str | None = None) -> None:
    """Run the cocotb tests of a module.

    Args:
        program: Program that Verilator compiled, or files for Icarus Verilog.
        module: Python module with the tests.
        data: Arrays that the module reads with `bench.read_vectors`.
        only: Regular expression for the names of tests.

    Raises:
        SimulationError: A test fails. The text has the end of the log.
    """
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "vectors.npz"
        np.savez(file, **data)
        run_module(program, module, {"DYNAGATE_VECTORS": str(file)}, only=only)


def run_module(
    program: Path | Icarus,
    module: str,
    variables: Mapping[str, str],
    place: Path | None = None,
    *,
    only: str | None = None,
) -> None:
    """Run the cocotb tests of a module with environment variables that name its data files.

    Args:
        program: Program that Verilator compiled, or files for Icarus Verilog.
        module: Python module with the tests.
        variables: Environment variables.
        place: Folder of a module that belongs to no package.
        only: Regular expression for the names of tests.

    Raises:
        SimulationError: A test fails.
    """
    with tempfile.TemporaryDirectory() as work:
        if isinstance(program, Icarus):
            _run_in(Path(work), "icarus", program.compiled(Path(work)), module, variables, place, only)
        else:
            _run_in(Path(work), "verilator", program, module, variables, place, only)


def _run_in(
    work: Path,
    simulator: str,
    program: Path,
    module: str,
    variables: Mapping[str, str],
    place: Path | None,
    only: str | None,
) -> None:
    """Run the cocotb tests of a module in a simulator.

    Args:
        work: Folder of the simulator.
        simulator: "icarus" or "verilator".
        program: Compiled simulation.
        module: Python module with the tests.
        variables: Environment variables.
        place: Folder of a module that belongs to no package; it is searched last.
        only: Regular expression for the names of tests.

    Raises:
        SimulationError: A test fails.
    """
    from cocotb_tools.check_results import get_results

    results, log = work / "results.xml", work / "log.txt"
    folders = [*safe_path(), *([] if place is None else [str(place.absolute())])]
    settings = {
        "PYTHONPATH": os.pathsep.join(folders),
        "COCOTB_TOPLEVEL": program.name,
        "COCOTB_TEST_MODULES": module,
        "COCOTB_RESULTS_FILE": str(results),
        **({} if only is None else {"COCOTB_TEST_FILTER": only}),
        **variables,
        **_quick_start(module),
    }
    with log.open("w", encoding="utf-8") as output:
        command = _simulation(simulator, program)
        done = completed(command, cwd=work, env={**_cocotb(), **settings}, stdout=output, stderr=subprocess.STDOUT)
    try:
        ran, failed = get_results(results)
    except RuntimeError:  # the simulator ended before it wrote its results
        raise SimulationError(f"{module} failed on {program.name}:\n{_failure(work)}", code="DG-SIM-004") from None
    if done.returncode or failed or not ran:
        raise SimulationError(
            f"{module} on {program.name}: {failed} of {ran} benches failed:\n{_failure(work)}", code="DG-SIM-005"
        )


def _simulation(simulator: str, program: Path) -> list[str]:
    """Return the command that starts a compiled simulation with cocotb in it."""
    import cocotb_tools.config

    if simulator != "icarus":
        return [str(program)]
    compiled = str(program.parent / "sim.vvp")
    return [tool("vvp"), "-m", cocotb_tools.config.lib_entry("vpi", "icarus"), compiled, "-none"]


def _cocotb() -> dict[str, str]:
    """Return the environment that cocotb needs in a simulator, without the caller's settings for Python or cocotb."""
    import cocotb_tools.config
    import find_libpython

    python = os.environ.get("LIBPYTHON_LOC") or find_libpython.find_libpython()
    if python is None:
        raise SimulationError(
            "cocotb finds no shared library of Python (libpython); expected a Python that has one", code="DG-SIM-006"
        )
    settings = ("GPI_", "PYGPI_", "COCOTB_", "TOPLEVEL")
    kept = {name: value for name, value in python_environment().items() if not name.startswith(settings)}
    return {
        **kept,
        "PATH": os.pathsep.join([environment()["PATH"], str(cocotb_tools.config.libs_dir)]),
        "PYGPI_PYTHON_BIN": sys.executable,
        "GPI_USERS": f"{python};{cocotb_tools.config.pygpi_entry_point()}",
        "TOPLEVEL_LANG": "verilog",
    }


def _quick_start(module: str) -> dict[str, str]:
    """Return variables for the simulator's Python that make it start quickly.

    pytest then rewrites only the assertions of the bench; those of all imported modules take longer than most benches.
    """
    return {
        "PYTHONDONTWRITEBYTECODE": "1",
        "COCOTB_REWRITE_ASSERTION_FILES": f"{module.rsplit('.', 1)[-1]}.py",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def _failure(work: Path) -> str:
    """Return the first failed test in the log: its name, its line and the error's text; or the end of the log."""
    log = work / "log.txt"
    lines = log.read_text().splitlines() if log.is_file() else []
    first = next((k for k, line in enumerate(lines) if line.lstrip().startswith("Traceback")), 0)
    if not first:
        return "\n".join(lines[-LAST:])
    indent = len(lines[first]) - len(lines[first].lstrip())
    told = itertools.takewhile(lambda line: not line[:indent].strip(), lines[first + 1 :])
    block = [line[indent:] for line in told]
    frames = [k for k, line in enumerate(block) if line.startswith("  File ")]
    own = [k for k in frames if "site-packages" not in block[k]] or frames
    error = itertools.dropwhile(lambda line: line.startswith("  "), block[max(frames, default=-1) + 1 :])
    which = " ".join(lines[first - 1].split())
    return "\n".join([which, *(block[k].rstrip() for k in own[-1:]), *itertools.islice(error, LAST)])
