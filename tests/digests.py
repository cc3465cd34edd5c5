"""Digests of what dynagate writes: Verilog, programs, the bytes of streams, graphs, C, CUDA, help and reports.

`tests/digests.json` holds a sha256 for each entry, never the text. `python -m tests.digests` lists the entries that
changed; with `--record` it writes the file anew. Names on the command line limit both to these entries.

Left out or masked, because they depend on the source, the machine or a random draw:

* the hashes of a design and of a core, in all files, and `design.json`, which is full of them;
* `reference.hex` of a bench: float64 numbers, whose last bits come from the mathematics library;
* tags of samples on a stream, which begin at a random number;
* programs of variational and position-based rollouts: some of their formats come from diverging motions, whose size
  differs from run to run;
* folders, times, rates and sizes on disk in printed reports, and lines of progress.

Everything else is a function of the input, `constraints.txt` and the processor's IEEE arithmetic.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import dynagate
import numpy as np
from click.testing import CliRunner
from dynagate import Policy, Robot, robots
from dynagate.cli import main
from dynagate.control import Cost, FramePosition
from dynagate.control.chip import ChipSolver
from dynagate.control.chip_ilqr import ChipIlqr
from dynagate.control.chip_mppi import ChipMppi, MppiOptions
from dynagate.control.ilqr import IlqrOptions
from dynagate.design.codec import Words
from dynagate.design.design import AxiStreams, DesignRecord
from dynagate.fixedpoint.format import SATURATE, Arithmetic
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.loop import Loop
from dynagate.graph.scan import Scan
from dynagate.graph.scan_trace import SCANS, trace_scan
from dynagate.host.board_links import LINKS, LinkRow
from dynagate.host.links import DeviceLink
from dynagate.hw.designs import Design
from dynagate.hw.plan.plan import Stages
from dynagate.hw.processor.compiler.loops import loop_instructions
from dynagate.hw.processor.compiler.solver import formatted_solver
from dynagate.hw.processor.core_spec import CoreSpec
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.regmap import REGISTERS
from dynagate.integrators.feedback import reverse_with_feedback, with_feedback
from dynagate.integrators.methods import METHODS, method_of
from dynagate.integrators.motion import reverse_loop
from dynagate.native.cuda import emit_cuda
from dynagate.native.cuda_loop import emit_cuda_loop
from dynagate.native.emit import emit
from dynagate.native.loop import emit_loop

FILE = Path(__file__).parent / "digests.json"
RECORD = "design.json"
DIGITS = 32
"""Hexadecimal digits of a sha256 that are kept."""
PACKAGES = "amaranth", "click", "numpy", "scipy"
"""Packages whose versions decide some of the entries."""

ARM, IIWA, HYQ = "two_joint_arm", "iiwa14", "hyq"
Digests = dict[str, str]


def digest(content: str | bytes) -> str:
    """Return the digest of a text or of bytes."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:DIGITS]


# ---- designs ---------------------------------------------------------------------------------------------------------


def pipeline(
    function: str | list[str], ii: int = 4, robot: str | dynagate.Robot = ARM, **options: Any
) -> dict[str, Any]:
    """Return the arguments of `dynagate.build` for a datapath."""
    return {"robot": robot, "function": function, "ii": ii, **options}


def program(function: str | list[str], units: int | Core = 2, robot: str = ARM, **options: Any) -> dict[str, Any]:
    """Return the arguments of `dynagate.build` for a program."""
    return {"robot": robot, "function": function, "units": units, **options}


VARIED = dynagate.robots.load(ARM).with_variable("forearm")
THREE = ["inverse_dynamics", "forward_dynamics", "mass_matrix"]
PIPELINES: dict[str, dict[str, Any]] = {
    "id": pipeline("inverse_dynamics", 2),
    "id ii1": pipeline("inverse_dynamics", 1),
    "id ii16": pipeline("inverse_dynamics", 16),
    "id spatial": pipeline("inverse_dynamics", form="spatial"),
    "id 18 bits": pipeline("inverse_dynamics", policy=Policy(word=18, samples=512)),
    "id 32 bits": pipeline("inverse_dynamics", policy=Policy(word=32, samples=512)),
    "id few guard bits": pipeline("inverse_dynamics", policy=Policy(word=24, samples=256, guard_bits=-1.0)),
    "id saturating": pipeline("inverse_dynamics", policy=Policy(samples=256, arithmetic=Arithmetic(overflow=SATURATE))),
    "id forces": pipeline("inverse_dynamics", external_forces=True),
    "id proved": pipeline("inverse_dynamics", policy=Policy(ranges="proved")),
    "id stages": pipeline("inverse_dynamics", stages=Stages(multiply=1, add=1)),
    "id axi32": pipeline("inverse_dynamics", axi=Axi(32)),
    "id axi64 batch": pipeline("inverse_dynamics", axi=Axi(64, "batch")),
    "id axi64 fixed": pipeline("inverse_dynamics", axi=Axi(64, words="fixed")),
    "id variable": pipeline("inverse_dynamics", robot=VARIED, axi=Axi(64)),
    "minv": pipeline("mass_matrix_inverse"),
    "minv direct": pipeline("mass_matrix_inverse", form="direct"),
    "m axi512": pipeline("mass_matrix", axi=Axi(512, "batch")),
    "fd": pipeline("forward_dynamics", 8),
    "fd aba": pipeline("forward_dynamics", form="aba"),
    "fd cfa": pipeline("forward_dynamics", form="cfa"),
    "fd certificate": pipeline("forward_dynamics", certificate=True),
    "fd error": pipeline("forward_dynamics", error=1e-2),
    "product": pipeline("inverse_mass_product", 3),
    "step": pipeline("step", dt=0.01),
    "idg": pipeline("inverse_dynamics_gradient"),
    "fdg": pipeline("forward_dynamics_gradient", 3),
    "fdg choice": pipeline("forward_dynamics_gradient", 3, axi=Axi(64, choice=True)),
    "fdg some": pipeline("forward_dynamics_gradient", 3, outputs=["qdd", "minv"]),
    "vjp": pipeline("inverse_dynamics_vjp"),
    "together": pipeline(["mass_matrix", "bias_torque"]),
    "three": pipeline(THREE, per_sample=True),
    "three axi": pipeline(THREE, per_sample=True, axi=Axi(128, "batch")),
    "three choice": pipeline(THREE, per_sample=True, axi=Axi(64, choice=True)),
    "three fixed": pipeline(THREE, per_sample=True, axi=Axi(32, words="fixed")),
    "rollout": pipeline("rollout", dt=0.005),
    "rollout axi": pipeline("rollout", axi=Axi(64, "batch")),
    "rollout fixed": pipeline("rollout", axi=Axi(32, words="fixed")),
    "rollout rk4": pipeline("rollout", 16, integrator="rk4", dt=0.002, variable_dt=True),
    "rollout linear": pipeline("rollout", 8, linearize=True),
    "com iiwa14": pipeline("center_of_mass", 8, IIWA),
    "gravity hyq": pipeline("gravity_torque", 8, HYQ),
}
"""Datapaths by name."""

PROGRAMS: dict[str, dict[str, Any]] = {
    "id": program("inverse_dynamics"),
    "id 4 units": program("inverse_dynamics", 4),
    "id 8 units": program("inverse_dynamics", 8),
    "id 18 bits": program("inverse_dynamics", policy=Policy(word=18, samples=512)),
    "id float32": program("inverse_dynamics", words="float32"),
    "id samples_per_run": program("inverse_dynamics", samples_per_run=3),
    "id samples_per_run float32": program("inverse_dynamics", samples_per_run=2, words="float32"),
    "id proved": program("inverse_dynamics", policy=Policy(ranges="proved")),
    "id core": program("inverse_dynamics", Core(units=3, word=20, angle_bits=3), policy=Policy(word=20)),
    "id forces": program("inverse_dynamics", external_forces=True),
    "fd": program("forward_dynamics", 4),
    "fd aba": program("forward_dynamics", form="aba"),
    "fd error": program("forward_dynamics", 4, error=1e-2),
    "fd certificate": program("forward_dynamics", certificate=True),
    "fdg": program("forward_dynamics_gradient", 4),
    "fdg some": program("forward_dynamics_gradient", 4, outputs=["qdd", "minv"]),
    "minv": program("mass_matrix_inverse"),
    "two": program(THREE[:2], per_sample=True),
    "three float32": program(THREE, per_sample=True, words="float32"),
    "rollout": program("rollout", dt=0.005),
    "rollout float32": program("rollout", 4, words="float32"),
    "rollout rk4": program("rollout", 4, integrator="rk4"),
    "rollout linear": program("rollout", 4, linearize=True),
    "rollout euler": program("rollout", 8, integrator="euler", dt=0.01),
    "gravity iiwa14": program("gravity_torque", 4, IIWA),
}
"""Programs by name."""

STREAMED = {
    "pipeline": (
        *("id", "id 18 bits", "id forces", "id axi32", "id axi64 batch", "id axi64 fixed"),
        *("id variable", "m axi512", "fdg", "fdg choice", "three", "three axi", "three choice", "three fixed"),
        *("rollout", "rollout axi", "rollout fixed", "rollout linear"),
    ),
    "program": (
        *("id", "id float32", "id samples_per_run", "id samples_per_run float32", "fdg some", "two", "three float32"),
        *("rollout", "rollout float32", "rollout linear"),
    ),
}
"""Designs whose streams are recorded."""


@cache
def built(kind: str, name: str) -> Design:
    """Return a design of one of the tables, built once in a temporary folder."""
    options = dict((PIPELINES if kind == "pipeline" else PROGRAMS)[name])
    folder = Path(tempfile.mkdtemp(prefix="digests-", dir=_temporary().name))
    robot, function = options.pop("robot"), options.pop("function")
    robot = robots.load(robot) if isinstance(robot, str) else robot
    return dynagate.build(robot, function, folder=folder, progress=lambda text: None, **_smaller(options))


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="dynagate-digests-")


def _smaller(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options, with fewer sampled states if the options name no policy."""
    if "policy" in options or "error" in options:
        return options
    return {**options, "policy": Policy(samples=512)}


def hashes(design: Design) -> list[str]:
    """Return the hexadecimal texts that stand for the hashes of a design and its core."""
    record = design.design
    texts = [record.hash, getattr(record.body, "core_hash", record.hash), record.versions.source]
    texts += [f"{int(text[:16], 16) ^ 1:016x}{text[16:]}" for text in texts]  # another core, in the bench of a program
    return [part for text in texts for part in (text, text[:16], text[:12], text[:8], text[8:16])]


def masked(text: str, hidden: Iterable[str]) -> str:
    """Return a text without these hexadecimal numbers.

    Verilog writes a number without its leading zeros. The digits that are left may occur by chance in a longer number,
    so there the zeros have to be in front of them.
    """
    for each in hidden:
        digits = each.lstrip("0")
        zeros = len(each) - len(digits)
        number = rf"0{{{zeros},}}{digits}|(?<![0-9a-f]){digits}(?![0-9a-f])" if zeros else f"0*{digits}"
        text = re.sub(rf"(?:[0-9]+'h)?(?:{number})", "HASH", text, flags=re.IGNORECASE)
    return text


def design_digests(kind: str, name: str) -> Digests:
    """Return the digests of a design's files: Verilog, bench, program, and the others."""
    design = built(kind, name)
    groups: dict[str, list[str]] = {"verilog": [], "bench": [], "program": [], "other": []}
    for path in design.files:
        place = path.relative_to(design.folder).as_posix()
        if path.name in (RECORD, "reference.hex"):
            continue
        if path.suffix == ".bin":
            words = np.frombuffer(path.read_bytes(), "<u4").copy()
            words[1] = 0  # names the core
            groups["program"].append(f"{place} {digest(words.tobytes())}")
            continue
        group = "bench" if place.startswith("tests/") else "verilog" if path.suffix == ".v" else "other"
        groups[group].append(f"{place} {digest(masked(path.read_text(encoding='utf-8'), hashes(design)))}")
    return {f"{kind} {name}, {group}": digest("\n".join(lines)) for group, lines in groups.items() if lines}


# ---- streams ---------------------------------------------------------------------------------------------------------


class GoldenLink(DeviceLink):
    """A device in a test: it keeps the samples that are written, and its results are numbers from a fixed seed."""

    opened: GoldenLink
    """The last one."""
    result_words: int
    """Words of a result before its tag, for one of several functions. 0 stands for those of the whole design."""

    def __init__(self, path: str, design: DesignRecord) -> None:
        self.text, self.design = "golden", design
        self.sent: list[bytes] = []
        self.result_words = 0
        self.axi: AxiStreams | None = design.axi
        self._random = np.random.default_rng(3)
        self._registers: dict[int, int] = {}
        GoldenLink.opened = self
        if self.axi is None:
            table = REGISTERS
        else:
            table = self.axi.registers
            self._set(table, "identity", self.axi.identity)
            self._set(table, "version", self.axi.version)
            self._set(table, "input_words", self.axi.words.input)
            self._set(table, "output_words", self.axi.words.output)
        self._table = table
        self._set(table, "hash_low", design.device_hash & 0xFFFFFFFF)
        self._set(table, "hash_high", design.device_hash >> 32)
        self._set(table, "ii", design.interval)
        self._set(table, "latency", design.latency)
        self._set(table, "cores", 2)
        self._set(table, "stream", 32)

    def _set(self, table: Mapping[str, Any], name: str, value: int) -> None:
        if name in table:
            self._registers[table[name].address] = value

    def carry(self, axi: AxiStreams) -> None:
        self.axi = axi

    def write(self, samples: Words, results: int | None = None) -> None:
        self._samples = samples.copy()
        kept = samples.reshape(len(samples), -1).copy()
        if self.axi is not None:
            kept[:, self.axi.words.input] = 0
        kept[kept == self.design.device_hash & 0xFFFFFFFF] = 0  # names the core of a program
        self.sent.append(np.ascontiguousarray(kept, "<u4").tobytes())
        self._set(self._table, "samples_in", len(samples))
        self._set(self._table, "samples_out", len(samples) if results is None else results)

    def read(self, results: Words) -> int:
        flat = results.reshape(len(results), -1)
        flat[...] = self._numbers(flat.shape)
        if self.axi is None:
            return len(results)
        words, tags = self.axi.words, self._samples.reshape(len(self._samples), -1)
        after = self.result_words or words.output
        flat[:, after] = tags[: len(flat), words.input]
        if words.output == 1:
            flat[:, 0] = 1  # a core that accepts a program
        elif self.design.samples_per_packet > 1:
            flat[:, after - 1] = 0  # the flag, which the driver compares with counters
        return len(results)

    def _numbers(self, shape: tuple[int, int]) -> Words:
        if self.axi is None or self.axi.word == "fixed":
            return self._random.integers(1 << 32, size=shape, dtype=np.uint32)
        return self._random.normal(size=shape).astype(np.float32).view(np.uint32)

    def read_register(self, address: int) -> int:
        return self._registers.get(address, 0)

    def write_register(self, address: int, value: int) -> None:
        self.sent.append(f"register {address} {value}".encode())

    def reset(self) -> None: ...
    def close(self) -> None: ...


def opened(design: Design) -> Any:
    """Return the device of a design behind a `GoldenLink`."""
    if design.design.axi is not None or design.design.is_loaded:
        with patch.dict(LINKS, golden=LinkRow(__name__, GoldenLink.__name__, "NAME")):
            return dynagate.open(design, link="golden:here")
    from dynagate.host.device import FunctionDevice
    from dynagate.host.devices.stream import stream_device
    from dynagate.host.devices.stream_steps import StreamSteps
    from dynagate.host.drivers import DatapathSession
    from dynagate.host.ring_drivers import DatapathRingDriver
    from dynagate.host.rollout_device import RolloutDevice

    record: Any = design.design
    link = GoldenLink("here", record)
    if record.body.ring is None:
        return FunctionDevice(stream_device(DatapathSession(record, link)), overflow="mask")
    return RolloutDevice(StreamSteps(record, DatapathRingDriver.opened(record, link)))


def value_digest(values: Mapping[str, Any]) -> str:
    """Return the digest of arrays by name, every NaN alike."""
    lines = []
    for name, value in sorted(values.items()):
        array = np.array(value)
        if array.dtype.kind == "f":
            array[np.isnan(array)] = np.nan
        lines.append(f"{name} {array.dtype} {array.shape} {digest(np.ascontiguousarray(array).tobytes())}")
    return digest("\n".join(lines))


def inputs_of(device: Any, robot: Robot, count: int) -> dict[str, Any]:
    """Return inputs of a function, (count, *shape), inside the ranges of its formats.

    Parameters of a robot are its own in all samples.
    """
    record = GoldenLink.opened.design
    bounds = {port.name: [record.input.fields[k].range for k in port.fields] for port in record.input.ports}
    random, inputs = np.random.default_rng(7), {}
    for port in device.device.inputs:
        low, high = np.array(bounds.get(port.name, [(-1.0, 1.0)] * len(port.fields)))[: len(port.fields)].T
        rows = random.uniform(np.maximum(low, -10.0), np.minimum(high, 10.0), (count, len(port.fields)))
        if port.parameter:
            rows[...] = robot.parameters[port.name].ravel()
        inputs[port.name] = rows.reshape(count, *port.shape)
    return inputs


def stream_digests(kind: str, name: str) -> Digests:
    """Return the digests of what a design's streams carry: packets of inputs, and values of results."""
    design = built(kind, name)
    label = f"stream of {kind} {name}"
    with warnings.catch_warnings(), opened(design) as device:
        warnings.simplefilter("ignore")  # results are random: some overflow, or pass the limits of joints
        link = GoldenLink.opened
        values: dict[str, Any] = {}
        if "rollout" in design.function:
            ranges = device.device.ranges
            nq, nv = (len(ranges[each]) for each in ("q", "qd"))
            random = np.random.default_rng(7)
            more = {"dt": 0.001} if "dt" in ranges else {}
            starts = random.uniform(-0.5, 0.5, (3, nq)), random.uniform(-0.5, 0.5, (3, nv))
            moved = device(*starts, random.uniform(-0.5, 0.5, (3, 5, nv)), steps=[5, 3, 4], **more)
            values = {each: getattr(moved, each) for each in ("q", "qd", "a", "b", "diverged")}
            values = {each: value for each, value in values.items() if value is not None}
        else:
            parts = device.functions or {"": device}
            several = {each.name: each for each in link.design.functions}
            for part, function in parts.items():
                if part in several and link.axi is not None:
                    link.result_words = link.design.of_function(several[part]).axi.words.output
                for count in (1, 11):
                    results = function.submit(**inputs_of(function, design.robot, count)).result()
                    names = (*function.outputs, "overflow")
                    values |= {f"{part} {count} {each}": getattr(results, each) for each in names}
        packets = digest(b"|".join(link.sent))
    return {f"{label}, packets": packets, f"{label}, values": value_digest(values)}


# ---- graphs, loops and their C and CUDA ------------------------------------------------------------------------------

FRAMES = {ARM: "forearm", IIWA: "link_7", HYQ: "lf_lower_leg"}
"""A link of each robot, for functions of a frame and for contacts."""
CONSTRAINED = ("constrained_", "impact", "delassus", "constraint_drift", "contact_jacobian")
"""Beginnings of the names of functions of a robot with contacts."""
COST = Cost.quadratic(q=2.0, qd=0.1, tau=1e-3, final=4.0)
STEPS = StepOptions(0.01)


def graph_text(graph: Graph) -> str:
    """Return the operations and ports of a graph as text."""
    nodes = "\n".join(f"{node.op} {node.args} {node.constant} {node.name}" for node in graph.nodes)
    ports = "\n".join(f"{p.name} {p.shape} {p.nodes} {p.unit_vectors}" for p in (*graph.inputs, *graph.outputs))
    return f"{graph.name} {graph.robot}\n{nodes}\n{ports}"


def loop_text(step: Graph | Loop | Scan) -> str:
    """Return a loop, its steps and those of the loops in it as text."""
    if isinstance(step, Graph):
        return graph_text(step)
    if isinstance(step, Scan):
        links = f"{step.name} {step.down} {step.parents} {step.kinds} {step.tables} {sorted(step.starts.items())}"
        return "\n".join([links, *map(graph_text, step.bodies)])
    head = f"{step.name} {step.carry} {step.stop} {step.per_iteration} {step.kept} {step.last}"
    head = f"{head} {step.backwards} {step.every}"
    return "\n".join([head, *map(loop_text, step.steps), "end"])


def functions_digests(robot_name: str) -> Digests:
    """Return the digests of the graphs of a robot's functions, and of their C and CUDA."""
    robot, found = robots.load(robot_name), {}
    touching = robot.with_contact(FRAMES[robot_name], compliance=1e-3)
    for function in dynagate.FUNCTIONS:
        frame = {"frame": FRAMES[robot_name]} if function.startswith("frame_") else {}
        constrained = function.startswith(CONSTRAINED)
        graph = dynagate.trace(touching if constrained else robot, function, **frame)
        text = "\n".join([graph_text(graph), *emit(graph).files.values(), emit_cuda(graph)])
        found[f"functions of {robot_name}, {function}"] = digest(text)
    return found


def loops() -> dict[str, Loop]:
    """Return rollouts, solvers and scans of the arm by name."""
    arm = robots.load(ARM)
    found = {f"rollout {name}": method_of(name).motion(arm, STEPS).loop for name in METHODS}
    found["rollout linear"] = method_of("rk4").motion(arm, STEPS, linearize=True).loop
    found["rollout with feedback"] = with_feedback(method_of("rk4").motion(arm, STEPS), arm, True).loop
    found["reverse with feedback"] = reverse_with_feedback(reverse_loop(method_of("rk4"), arm, STEPS), arm, True)
    found["reverse"] = reverse_loop(method_of("rk4"), arm, STEPS)
    found |= {f"scan {name}": trace_scan(arm, name) for name in SCANS if not name.startswith(CONSTRAINED)}
    ilqr: dict[str, Any] = {"knots": 4, "dt": 0.01, "cost": COST, "device": "numpy"}
    found["ilqr"] = dynagate.ilqr(arm, bounds=True, **ilqr).loop
    found["ilqr of bounds"] = dynagate.ilqr(arm, joint_bounds=True, **ilqr).loop
    found["mppi"] = dynagate.mppi(arm, samples=4, temperature=1.0, spread=0.1, joint_bounds=True, **ilqr).loop
    targets = [FramePosition("forearm")]
    found["inverse kinematics"] = dynagate.inverse_kinematics(arm, targets, device="numpy").loop
    return found


def loops_digests() -> Digests:
    """Return the digests of loops, and of their C and CUDA."""
    return {
        f"loops, {name}": digest("\n".join([loop_text(loop), *emit_loop(loop).files.values(), emit_cuda_loop(loop)]))
        for name, loop in loops().items()
    }


def solver_digests(name: str) -> Digests:
    """Return the digests of a solver's program for a processor: its blocks, formats and instructions."""
    arm = robots.load(ARM)
    if name == "ilqr":
        solver: ChipSolver = ChipIlqr.of(arm, COST, IlqrOptions(4, STEPS, 5, 1e-6, 1e-9, 1e9))
    else:
        solver = ChipMppi.of(arm, COST, MppiOptions(4, STEPS, 6, 1.0, np.full(2, 0.1), nodes=3))
    random, problems = np.random.default_rng(3), dict[str, Any]()
    for port in solver.blocks.loop.inputs:
        if port.name in solver.blocks.loop.per_iteration:
            problems[port.name] = random.uniform(-0.3, 0.3, (8, *port.shape))
    whole = {each: np.rint(abs(problems[each]) * 10.0) for each in ("draw", "seed") if each in problems}
    formatted = formatted_solver(solver, problems | whole, Policy(27))
    formats = "\n".join(f"{graph.formats} {graph.constants}" for graph in formatted.graphs())
    shape = CoreSpec.resolve(4).with_functions("solver", list(formatted.graphs()), Policy(27), "fixed")
    program = loop_instructions(formatted.mapped(shape.fused))
    blocks = "\n".join(map(str, program.blocks))
    return {
        f"solver of {name}, blocks": digest(loop_text(solver.blocks.loop) + str(dict(solver.blocks.starts))),
        f"solver of {name}, formats": digest(formats),
        f"solver of {name}, program": digest(blocks),
    }


# ---- the command line ------------------------------------------------------------------------------------------------

SMALL = ("two_joint_arm", "--function", "inverse_dynamics")
REPORTS: dict[str, tuple[str, ...]] = {
    "info": ("info", ARM),
    "info of one function": ("info", IIWA, "--function", "mass_matrix"),
    "build": ("build", *SMALL, "--ii", "2", "--report"),
    "build axi": ("build", *SMALL, "--ii", "2", "--axi", "64", "--report"),
    "build units": ("build", *SMALL, "--units", "2", "--report"),
    "build float32": ("build", *SMALL, "--units", "2", "--words", "float32", "--report"),
    "build error": ("build", ARM, "--function", "forward_dynamics", "--ii", "2", "--error", "qdd=2e-2", "--report"),
    "build proved": ("build", *SMALL, "--units", "2", "--proved", "--report"),
    "build rollout": ("build", ARM, "--function", "rollout", "--dt", "0.005", "--report"),
    "build rollout units": ("build", ARM, "--function", "rollout", "--units", "2", "--report"),
    "build three": ("build", ARM, "--function", ",".join(THREE), "--axi", "128", "--report"),
    "schedule": ("report", *SMALL, "--show", "schedule"),
    "together": ("report", ARM, "--show", "together"),
    "project": ("bitstream", *SMALL, "--board", "pynq-z2", "--only-project"),
    "project of cores": ("bitstream", "--core", "--board", "pynq-z2", "--only-project"),
    "emit": ("emit", *SMALL, "--integers"),
    "run": ("run", *SMALL, "--ii", "2", "--states", "64"),
    "run units": ("run", *SMALL, "--units", "2", "--states", "64"),
    "run rollout units": ("run", ARM, "--function", "rollout", "--units", "2", "--states", "8", "--steps", "4"),
    "run error": ("run", ARM, "--function", "forward_dynamics", "--ii", "2", "--error", "1e-2", "--states", "32"),
    "run two": ("run", ARM, "--function", ",".join(THREE[::2]), "--ii", "2", "--states", "16"),
    "run two units": ("run", ARM, "--function", ",".join(THREE[::2]), "--units", "2", "--states", "16"),
    "run rollout": ("run", ARM, "--function", "rollout", "--ii", "4", "--states", "6", "--steps", "5"),
    "run ilqr": ("run", ARM, "--function", "ilqr", "--knots", "4", "--units", "2", "--states", "3"),
    "run mppi": ("run", ARM, "--function", "mppi", "--knots", "4", "--samples", "8", "--units", "2", "--states", "3"),
    "refused": ("build", ARM, "--words", "float16"),
    "refused program": ("build", ARM, "--units", "2", "--axi", "64"),
}
"""Commands whose printed text is recorded. A folder for what they write is added."""

FOLDERS: dict[str, tuple[str, ...]] = {
    "project": ("--folder", "--project-folder"),
    "project of cores": ("--project-folder",),
    **dict.fromkeys(("info", "info of one function", "together"), ()),
}
"""The options with which these commands take folders, where that is not `--folder`."""

TIMES = r"[0-9][0-9.,]*(e[+-][0-9]+)? ?(ns|µs|ms|s|kB|MB|GB|/s|samples/s|million)\b"
MASKS = ((r"\b[0-9a-f]{12,64}\b", "HASH"), (TIMES, "TIME"), (r"[ ]{2,}", "  "))


def printed(name: str) -> str:
    """Return what a command prints, without folders, times and hashes: its results, or its error.

    Lines of progress are left out: they depend on what the cache holds, and on how long each step took.
    """
    with tempfile.TemporaryDirectory() as folder:
        own = [part for option in FOLDERS.get(name, ("--folder",)) for part in (option, f"{folder}/{option[2:]}")]
        arguments = [*REPORTS[name], *own]
        result = CliRunner().invoke(main, arguments, env={"COLUMNS": "100"}, terminal_width=100)
        text = (result.stderr if result.exit_code else result.stdout).replace(folder, "FOLDER")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    for pattern, instead in MASKS:
        text = re.sub(pattern, instead, text)
    return f"{result.exit_code}\n{text}"


def report_digests(name: str) -> Digests:
    """Return the digest of what a command prints."""
    return {f"report of {name}": digest(printed(name))}


def help_digests() -> Digests:
    """Return the digests of the help of all commands."""
    found = {}
    for path in _commands(main, ()):
        result = CliRunner().invoke(main, [*path, "--help"], env={"COLUMNS": "80"}, terminal_width=80)
        assert result.exit_code == 0, result.output
        found[f"help of {' '.join(('dynagate', *path))}"] = digest(result.output)
    return found


def _commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from _commands(each, (*path, name))


# ---- all of them -----------------------------------------------------------------------------------------------------

QUICK = (
    *("help", "pipeline id", "pipeline three axi", "pipeline rollout fixed", "program id", "program two"),
    *("stream of pipeline three axi", "stream of pipeline rollout fixed", "stream of program id"),
    *("stream of program two", "report of build units", "report of refused"),
    *("functions of two_joint_arm", "loops"),
    *("solver of ilqr", "solver of mppi"),
)
"""The groups that are cheap enough for every run of the tests."""


def groups() -> dict[str, Callable[[], Digests]]:
    """Return what computes the digests of each group of entries, by the group's name."""
    found: dict[str, Callable[[], Digests]] = {"help": help_digests}
    for kind, table in (("pipeline", PIPELINES), ("program", PROGRAMS)):
        found |= {f"{kind} {name}": partial(design_digests, kind, name) for name in table}
        found |= {f"stream of {kind} {name}": partial(stream_digests, kind, name) for name in STREAMED[kind]}
    found |= {f"functions of {name}": partial(functions_digests, name) for name in robots.names()}
    found |= {"loops": loops_digests} | {
        f"solver of {name}": partial(solver_digests, name) for name in ("ilqr", "mppi")
    }
    return found | {f"report of {name}": partial(report_digests, name) for name in REPORTS}


def belongs(entry: str, group: str) -> bool:
    """Return whether an entry is one of a group."""
    return entry.split(" of ")[0] == group if group == "help" else entry == group or entry.startswith(f"{group},")


def recorded() -> dict[str, Any]:
    """Return the content of the file: the digests by entry, and versions of packages."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def differences(names: Iterable[str]) -> list[str]:
    """Compare groups with the recorded digests.

    Returns:
        A line for each entry that changed, is new, or is gone.
    """
    kept, lines = recorded(), []
    known = groups()
    for name in names:
        now = known[name]()
        before = {entry: each for entry, each in kept["digests"].items() if belongs(entry, name)}
        for entry in sorted({*now, *before}):
            if now.get(entry) != before.get(entry):
                lines.append(f"{entry}: {before.get(entry, 'not there')} -> {now.get(entry, 'not there')}")
    other = [
        f"{name} {was}, here {is_now}" for name, was in kept["versions"].items() if (is_now := version(name)) != was
    ]
    return [*lines, *(f"recorded with {each}" for each in other if lines)]


def record(names: Iterable[str]) -> None:
    """Write the digests of groups into the file. Other groups keep theirs, unless they are gone."""
    known = groups()
    kept = recorded()["digests"] if FILE.is_file() else {}
    names = list(names)
    kept = {k: each for k, each in kept.items() if any(belongs(k, group) for group in known)}
    kept = {k: each for k, each in kept.items() if not any(belongs(k, name) for name in names)}
    for name in names:
        kept |= known[name]()
    content = {"versions": {name: version(name) for name in PACKAGES}, "digests": dict(sorted(kept.items()))}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _main() -> int:
    parser = argparse.ArgumentParser(description="Compare what dynagate writes with tests/digests.json.")
    parser.add_argument("groups", nargs="*", help="only these groups, such as 'pipeline id'; all unless named")
    parser.add_argument("--record", action="store_true", help="write the file anew")
    options = parser.parse_args()
    names = options.groups or list(groups())
    if unknown := set(names) - set(groups()):
        parser.error(f"no group {min(unknown)!r}; expected some of {', '.join(groups())}")
    if options.record:
        record(names)
        return 0
    lines = differences(names)
    print("\n".join(lines) or "nothing changed")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(_main())
