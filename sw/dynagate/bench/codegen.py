"""Pinocchio's algorithms as C code that CasADi generates, compiled and measured here where CasADi is installed."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.bench.peers import FLAGS, Peer, compiled, described, installed
from dynagate.dynamics.configuration import normalized
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.native.cache import cache_folder, kept
from dynagate.native.compile import CompileError, compiler
from dynagate.robot import Robot

STATES, REPEATS, SEED = 256, 41, 9
OUTPUTS = {
    "inverse_dynamics": ("tau",),
    "forward_dynamics": ("qdd",),
    "forward_dynamics_gradient": ("dqdd_dq", "dqdd_dqd"),
}
AGREE = 1e-8
C_FLAGS = ("-O3", "-march=native", "-shared", "-fPIC", "-w")


def casadi(robot: Robot) -> Peer | str:
    """CasADi's code on this robot, checked against ours, or why it could not be had. The first time compiles Pinocchio
    for CasADi's expressions, some minutes."""
    spec = find_spec("casadi")
    if spec is None or spec.origin is None:
        return "CasADi is not installed: pip install 'dynagate[bench]'"
    headers = installed()
    if isinstance(headers, str):
        return headers
    library = Path(spec.origin).parent
    try:
        generator = compiled(
            "casadi_peer.cpp",
            ["-O0" if flag == "-O3" else flag for flag in FLAGS],
            headers,
            [f"-I{library / 'include'}", f"-L{library}", "-lcasadi", f"-Wl,-rpath,{library}"],
        )
        functions = _library(generator, described(robot))
    except CompileError as error:
        return str(error)
    times = {}
    for name in OUTPUTS:
        measured = _measured(functions, name, robot)
        if isinstance(measured, str):
            return measured
        times[name] = measured
    return Peer("CasADi", times, None)


def _library(generator: Path, robot: str) -> ctypes.CDLL:
    """The robot's functions, generated and compiled unless they are there. Raises CompileError."""
    timer = files("dynagate.bench") / "casadi_time.c"
    key = hashlib.sha256((timer.read_text() + robot + generator.parent.name).encode()).hexdigest()[:16]

    def make(work: Path, result: Path) -> None:
        # CasADi takes a plain file name and writes where it runs
        commands = [
            [str(generator), "generated"],
            [compiler(), *C_FLAGS, "generated.c", str(timer), "-lm", "-o", str(result / "casadi.so")],
        ]
        for command in commands:
            done = subprocess.run(command, input=robot, cwd=work, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise CompileError(f"{Path(command[0]).name} failed on CasADi's code: {done.stderr.splitlines()[-1:]}")

    return ctypes.CDLL(str(kept(cache_folder() / f"casadi-robot-{key}", make, CompileError) / "casadi.so"))


def _measured(library: ctypes.CDLL, name: str, robot: Robot) -> tuple[float, float] | str:
    """Median and distance of the quartiles in ns per call, or how its results differ from ours."""
    random = np.random.default_rng(SEED)
    q = random.uniform(-3.0, 3.0, (STATES, robot.nq))
    normalized(robot, q)
    v, u = random.uniform(-1.0, 1.0, (2, STATES, robot.nv))
    sizes = [ctypes.c_longlong() for _ in range(4)]
    library[f"{name}_work"](*(ctypes.byref(size) for size in sizes))
    inputs: dict[str, Any] = {"q": q[:1], "qd": v[:1], ("qdd" if name == "inverse_dynamics" else "tau"): u[:1]}
    expected = evaluate(trace(robot, name), inputs)
    results = [np.zeros_like(expected[output][0]) for output in OUTPUTS[name]]
    integers, doubles = np.zeros(sizes[2].value + 1, dtype=np.int64), np.zeros(sizes[3].value + 1)
    pointers = (ctypes.c_void_p * max(sizes[1].value, len(results)))(*(r.ctypes.data for r in results))
    ns = np.zeros(REPEATS)

    def run(states: int, repeats: int) -> None:
        library.dynagate_time(
            ctypes.cast(library[name], ctypes.c_void_p),
            *(ctypes.c_void_p(array.ctypes.data) for array in (q, v, u)),
            *(ctypes.c_long(size) for size in (robot.nq, robot.nv, states)),
            pointers,
            ctypes.c_void_p(integers.ctypes.data),
            ctypes.c_void_p(doubles.ctypes.data),
            ctypes.c_long(repeats),
            ctypes.c_void_p(ns.ctypes.data),
        )

    run(1, 1)
    for output, result in zip(OUTPUTS[name], results, strict=True):
        ours = expected[output][0]
        error = float(np.linalg.norm(result.T - ours) / np.linalg.norm(ours))  # by columns
        if not error < AGREE:
            return f"CasADi's {output} differs from ours by {error:.1e}"
    run(STATES, REPEATS)
    quartiles = np.quantile(ns, [0.25, 0.5, 0.75])
    return float(quartiles[1]), float(quartiles[2] - quartiles[0])
