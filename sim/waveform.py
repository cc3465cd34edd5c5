"""Write waveforms of a datapath with a signal for every node, for a few samples of a small robot."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from io import BufferedReader
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from dynagate.base.storage import scratch
from dynagate.fixedpoint.models.evaluate import quantize_inputs
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.build import BuildError
from dynagate.hw.designs import Design
from dynagate.hw.export.identifiers import instance_name
from dynagate.hw.rtl.datapath import Datapath

CONTROL = ("clk", "i_valid", "i_ready", "o_valid", "o_ready")
"""Signals of the datapath that are shown before those of nodes."""

_SCOPE = re.compile(r"(?<=^\$scope module )(?!bench |top )\S+")
"""Pattern for the name of an instance inside the datapath."""

Inputs = Mapping[str, npt.NDArray[np.float64]]


def write_vcd(built: Design[Pipeline], inputs: Inputs, path: str | PathLike[str]) -> None:
    """Stream states through Amaranth's simulator and write a VCD file.

    The simulator runs some hundred cycles per second on the two-joint arm; a large robot takes minutes per sample.

    Args:
        built: The design.
        inputs: States by input name, (samples, ...).
        path: Path of the file.

    Raises:
        BuildError: The file cannot be written.
    """
    target = Path(path)
    with scratch(target.parent, BuildError, target.name) as place:
        _simulate(built, inputs, place / target.name)
        (place / target.name).replace(target)


def write_waves(built: Design[Pipeline], inputs: Inputs, path: str | PathLike[str]) -> tuple[Path, Path]:
    """Write a VCD file like `write_vcd`, and a file for GTKWave that groups the nodes by pass and link.

    Args:
        built: The design.
        inputs: States by input name, (samples, ...).
        path: Path of the VCD file.

    Returns:
        Both paths. Both files are written, or neither.

    Raises:
        BuildError: A file cannot be written.
    """
    target = Path(path)
    save = target.with_suffix(".gtkw")
    if save == target:
        raise BuildError(
            f"{target} is the name of the GTKWave file; expected one such as {target.with_suffix('.vcd')}",
            code="DG-SIM-020",
        )
    with scratch(target.parent, BuildError, target.name) as place:
        wave = place / target.name
        _simulate(built, inputs, wave)
        draft = place / save.name
        with draft.open("w", encoding="utf-8") as file, wave.open("rb") as source:
            _write_groups(built, _variables(source), target, file)
        if save.is_dir():
            raise IsADirectoryError(None, f"{save.name} is a folder")
        wave.replace(target)
        draft.replace(save)
    return target, save


def _simulate(built: Design[Pipeline], inputs: Inputs, file: Path) -> None:
    """Write the VCD file, whose scopes have the names of the Verilog's instances."""
    from amaranth.sim import Simulator

    draft = file.with_suffix(".amaranth")
    integers = quantize_inputs(built.formatted, inputs)
    names = built.hardware.plan.signal_names
    count = len(next(iter(integers.values())))

    async def send(context: Any) -> None:
        for k in range(count):
            payload = {names[i]: int(column[k]) for i, column in integers.items()}
            context.set(top.i.payload, payload)
            context.set(top.i.valid, 1)
            await context.tick().until(top.i.ready)
        context.set(top.i.valid, 0)

    async def receive(context: Any) -> None:
        context.set(top.o.ready, 1)
        for _ in range(count):
            await context.tick().until(top.o.valid)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the simulator's remarks on names that a VCD cannot have
        top = Datapath(built.hardware.plan)
        simulator = Simulator(top)
        simulator.add_clock(1e-8)
        simulator.add_testbench(send)
        simulator.add_testbench(receive)
        with simulator.write_vcd(str(draft)):
            simulator.run()
    with draft.open(encoding="utf-8") as source, file.open("w", encoding="utf-8") as to:
        for line in source:
            to.write(_SCOPE.sub(lambda scope: instance_name(scope[0]), line))
            if line.startswith("$enddefinitions"):
                break
        shutil.copyfileobj(source, to)
    draft.unlink()


def _variables(source: BufferedReader) -> dict[str, list[str]]:
    """Return, for each signal name in a VCD file, the paths at which it occurs, as GTKWave writes them."""
    from vcd.reader import ScopeDecl, TokenKind, VarDecl, tokenize

    scopes: list[str] = []
    paths: dict[str, list[str]] = {}
    for token in tokenize(source):
        if token.kind is TokenKind.ENDDEFINITIONS:
            break
        if token.kind is TokenKind.UPSCOPE:
            scopes.pop()
        elif isinstance(token.data, ScopeDecl):
            scopes.append(token.data.ident)
        elif isinstance(token.data, VarDecl):
            bits = f"[{token.data.size - 1}:0]" if token.data.size > 1 else ""
            name = token.data.reference
            paths.setdefault(name, []).append(".".join((*scopes, name)) + bits)
    return paths


def _write_groups(built: Design[Pipeline], paths: Mapping[str, list[str]], wave: Path, file: IO[str]) -> None:
    """Write the handshakes, the inputs, and the nodes by pass and link, ordered by their first cycle."""
    from vcd.gtkw import GTKWSave

    plan, graph = built.hardware.plan, built.graph
    save = GTKWSave(file)
    save.dumpfile(str(wave.resolve()))
    save.savefile(str(wave.with_suffix(".gtkw").resolve()))
    save.timestart(0)
    for name in CONTROL:
        for path in paths.get(name, ())[:1]:
            save.trace(path, datafmt="bin")
    inputs = [i for i in graph.input_nodes if i in plan.position]
    with save.group("inputs"):
        for i in inputs:
            _trace(save, built, i, paths)
    nodes = [i for i in plan.position if graph.nodes[i].op != "input"]
    order = {name: k for k, name in enumerate(graph.scopes)}
    nodes.sort(key=lambda i: (order[graph.scope_paths[i][0]], graph.scope_paths[i][1:], plan.start(i)))
    for scope, of_scope in groupby(nodes, lambda i: graph.scope_paths[i][0]):
        with save.group(scope):
            for link, of_link in groupby(of_scope, lambda i: graph.scope_paths[i][1:]):
                with save.group(" ".join([scope, *link])) if link else nullcontext():
                    for i in of_link:
                        _trace(save, built, i, paths)


def _trace(save: Any, built: Design[Pipeline], node: int, paths: Mapping[str, list[str]]) -> None:
    """Write the signal of a node with its name and format. Among several paths, the one in the node's module is
    used.
    """
    plan = built.hardware.plan
    module = "".join(f".{instance_name(part)}" for part in plan.module(node))
    known = paths.get(plan.signal_names[node], ())
    if known:
        path = next((path for path in known if f"{module}.{plan.signal_names[node]}" in path), known[0])
        alias = f"{built.graph.nodes[node].name} {built.formatted.formats[node]}"
        save.trace(path, alias=alias, datafmt="signed")
