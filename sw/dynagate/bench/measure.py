"""Timing of calls: warm-up, repetition, median and spread."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.base.machine import processor
from dynagate.native.compile import C, compiler
from dynagate.native.compile import library as compiled
from dynagate.native.kernel import Kernel
from dynagate.native.source import CSource

SECONDS = 0.3
"""Time in s for which a call is repeated."""
LEAST = 7
"""Least number of repeats of which the median is taken."""
WARM = 1000
"""Number of warm-up calls before calls are timed individually."""

LOOPS = replace(C, flags=(*C.flags, "-O3"))
"""Compiler options with vectorized loops."""


@dataclass(frozen=True)
class Timing:
    """Time of a call."""

    ns: float
    """Median, ns."""
    spread: float
    """Interquartile range, ns."""
    repeats: int
    """Number of repeats."""

    @staticmethod
    def of(taken: Sequence[float]) -> Timing:
        """Return the median and spread of measured times in ns."""
        low, middle, high = np.quantile(taken, [0.25, 0.5, 0.75])
        return Timing(float(middle), float(high - low), len(taken))

    def per(self, count: int) -> Timing:
        """Return the time divided by a number of samples."""
        return Timing(self.ns / count, self.spread / count, self.repeats)


def timing(call: Callable[[], Any], share: float = 1.0) -> Timing:
    """Measure a call: two warm-up calls, then repeats for a fraction `share` of SECONDS."""
    call()
    call()
    taken: list[float] = []
    end = time.perf_counter() + share * SECONDS
    while len(taken) < LEAST or time.perf_counter() < end:
        start = time.perf_counter_ns()
        call()
        taken.append(time.perf_counter_ns() - start)
    return Timing.of(taken)


def paired(
    calls: Mapping[str, Callable[[], Any]],
    rounds: int,
    *,
    repeats: int = 1,
    seconds: float = 0.0,
    clock: Callable[[], int] = time.perf_counter_ns,
    count: Callable[[Any], int] = lambda result: 1,
) -> dict[str, list[float]]:
    """Time several calls alternately, so that changes of the machine's speed affect all of them.

    Args:
        calls: The calls by name.
        rounds: Rounds in which each call is timed. One more round before them warms up.
        repeats: Least number of repeats of a call in a round; the fastest repeat is its time.
        seconds: Time for which a call is repeated in a round, s.
        clock: Clock in nanoseconds.
        count: Function from a call's result to the number of equal parts that its time is divided by.

    Returns:
        The times of the rounds in nanoseconds, by the name of the call.
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            times, end = list[float](), time.perf_counter() + seconds
            while len(times) < repeats or time.perf_counter() < end:
                start = clock()
                result = call()
                times.append((clock() - start) / max(count(result), 1))
            if turn:
                taken[name].append(min(times))
    return taken


def single_call(kernel: Kernel, inputs: dict[str, Any], count: int = 200) -> Timing:
    """Measure a kernel with one sample, called from C."""
    written = kernel.written(kernel.new_outputs(1))
    read = kernel.read(inputs)
    repeat = _library().repeat
    one = ctypes.cast(kernel.one, ctypes.c_void_p)
    return timing(lambda: repeat(one, read.pointers, written.pointers, count)).per(count)


def each_call(kernel: Kernel, inputs: dict[str, Any], count: int) -> npt.NDArray[np.float64]:
    """Return the time (count,) in ns of each call with one sample, from C, including two clock readings."""
    written = kernel.written(kernel.new_outputs(1))
    read = kernel.read(inputs)
    one = ctypes.cast(kernel.one, ctypes.c_void_p)
    ns = np.zeros(count)
    _library().repeat(one, read.pointers, written.pointers, WARM)
    _library().each(one, read.pointers, written.pointers, count, ns.ctypes.data_as(ctypes.POINTER(ctypes.c_double)))
    return ns


Matrices = npt.NDArray[np.float32]


def less_product(minv: Matrices, matrices: Matrices) -> tuple[Matrices, Callable[[], Any]]:
    """Prepare -M⁻¹ times a matrix per sample, float32 in C on one thread, which partitions leave to the host.

    Args:
        minv: M⁻¹ (batch, n, n).
        matrices: Matrices (batch, n, n).

    Returns:
        The array of results (batch, n, n), and the call that computes it.

    Raises:
        ArgumentError: An array is not contiguous.
    """
    for array in (minv, matrices):
        if array.dtype != np.float32 or array.shape != minv.shape or not array.flags.c_contiguous:
            raise ArgumentError(
                f"{array.dtype} {array.shape}; expected float32 {minv.shape} in rows without gaps", code="DG-BENCH-004"
            )
    out = np.empty_like(minv)
    arguments = [*(ctypes.c_void_p(array.ctypes.data) for array in (minv, matrices, out)), ctypes.c_long(len(out))]
    kept, product = (minv, matrices, out), _compiled("product.c", f"#define SIZE {minv.shape[1]}\n").less_product
    return out, lambda: kept and product(*arguments)


@cache
def _library() -> ctypes.CDLL:
    """Return the functions `repeat` and `each` of repeat.c."""
    library = _compiled("repeat.c")
    pointers = ctypes.POINTER(ctypes.c_void_p)
    calls: list[Any] = [ctypes.c_void_p, pointers, pointers, ctypes.c_long]
    library.repeat.argtypes, library.repeat.restype = calls, None
    library.each.argtypes, library.each.restype = [*calls, ctypes.POINTER(ctypes.c_double)], None
    return library


@cache
def _compiled(file: str, before: str = "") -> ctypes.CDLL:
    """Compile a C file of this package, with `before` in front of its text."""
    text = before + (files("dynagate.bench") / file).read_text(encoding="utf-8")
    name = f"dynagate_{Path(file).stem}"
    source = CSource.of(name, {f"{name}.c": text})
    return ctypes.CDLL(str(compiled(source, double=False, toolchain=LOOPS)))


def machine() -> dict[str, Any]:
    """Describe the machine that the figures were measured on."""
    model, flags = processor()
    vectors = next((name for name in ("avx512f", "avx2", "asimd", "sse2") if name in flags), "unknown")
    version = subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=False).stdout
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "vectors": vectors,
        "compiler": version.splitlines()[0] if version else "unknown",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "date": date.today().isoformat(),
    }
