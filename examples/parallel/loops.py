"""Forward dynamics of a serial chain over a batch by the paper's three algorithms: C with loops over the links, one
library for all chains."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import numpy.typing as npt
from dynagate import Robot
from dynagate.graph.single_precision import check_accelerations
from dynagate.native.chains.numbers import ChainNumbers
from dynagate.native.compile import C, library
from dynagate.native.headers import with_headers
from dynagate.native.source import CSource
from parallel.steps import header

PAPER = ("jsiia", "abia", "cfa")
ALGORITHMS = ("aba", *PAPER)
LAPACK_LINKS = 256
"""JSIIA's dense system is solved by LAPACK, sample by sample, from so many links on: measured."""

LAPACK_SAMPLES = 64
"""Mass matrices that are kept at once for LAPACK."""

TOOLCHAIN = replace(C, flags=(*C.flags, "-O3"))
TYPES = {np.dtype(np.float64): "f64", np.dtype(np.float32): "f32"}
Array = npt.NDArray[Any]
Dynamics = Callable[[Array, Array, Array], Array]


def forward_dynamics(
    robot: Robot, algorithm: str, dtype: npt.DTypeLike = np.float64, *, checked: bool = True
) -> Dynamics:
    """Return a function of q, q̇ and τ (batch, links) that computes q̈ (batch, links).

    The algorithm is "aba", articulated bodies as dynagate's loop over links, or one of PAPER. `checked` is as of
    `ForwardDynamics`.
    """
    if algorithm != "aba":
        return ForwardDynamics(robot, algorithm, dtype, checked=checked)
    accelerator = dynagate.compile(robot, "forward_dynamics", device="cpu", form="scan", dtype=dtype)
    return lambda q, qd, tau: accelerator(q=q, qd=qd, tau=tau).qdd


class ChainConstants(ctypes.Structure):
    """`chain` of chain.h."""

    _fields_ = [
        ("links", ctypes.c_long),
        *((name, ctypes.c_void_p) for name in ("slides", "numbers", "blocks", "base")),
        ("refined", ctypes.c_long),
    ]


class ForwardDynamics:
    """q̈ of a serial chain of revolute and prismatic joints for a batch, on one core.

    algorithm: "jsiia", M by unit accelerations and a dense solve; "abia", articulated inertias and the square factors
    of M⁻¹; "cfa", constraint forces by odd-even elimination, which corrects itself once, at twice the time, where
    joints slide or have rotors. dense: JSIIA's solver, "ldl" in the same loops or "lapack"; None takes LAPACK from
    LAPACK_LINKS links on. Raises RobotError: the robot branches, has joints of several degrees of freedom, or massless
    links for the constraint force algorithm. checked: compare float32 with articulated bodies at drawn states, and
    raise ArgumentError if it is wrong for this chain."""

    def __init__(
        self,
        robot: Robot,
        algorithm: str,
        dtype: npt.DTypeLike = np.float64,
        dense: str | None = None,
        *,
        checked: bool = True,
    ) -> None:
        self.algorithm, self.dtype, self.links = algorithm, np.dtype(dtype), len(robot.links)
        own = dense or ("lapack" if self.links >= LAPACK_LINKS else "ldl")
        self._lapack = (algorithm, own) == ("jsiia", "lapack")
        numbers = ChainNumbers.of(robot, algorithm)
        self._kept = [
            numbers.slides,
            *(np.ascontiguousarray(part, self.dtype) for part in (numbers.links, numbers.blocks, numbers.base)),
        ]
        self._chain = ChainConstants(self.links, *(part.ctypes.data for part in self._kept), numbers.loses_digits)
        loaded, suffix = _loaded(numbers.rotors, self.dtype == np.float64), TYPES[self.dtype]
        entry = "mass" if self._lapack else algorithm
        self._call = getattr(loaded, f"{entry}_{suffix}")
        work = getattr(loaded, f"{entry}_work_{suffix}")
        work.restype = ctypes.c_long
        self._work = _aligned(work(ctypes.c_long(self.links)) * getattr(loaded, f"lanes_{suffix}")(), self.dtype)
        if checked and self.dtype == np.float32:
            check_accelerations(robot, algorithm, self)

    def __call__(self, q: Array, qd: Array, tau: Array) -> Array:
        """q̈ (batch, links) in rad/s², m/s² where a joint slides, from q, q̇ and τ (batch, links). Raises ValueError: a
        result that is not finite."""
        read = [np.ascontiguousarray(values, dtype=self.dtype) for values in (q, qd, tau)]
        batch = len(read[0])
        qdd = np.empty((batch, self.links), dtype=self.dtype)
        if not self._lapack:
            self._run(*read, qdd)
            return qdd
        m = np.empty((min(batch, LAPACK_SAMPLES), self.links, self.links), dtype=self.dtype)
        for start in range(0, batch, LAPACK_SAMPLES):
            part = slice(start, start + LAPACK_SAMPLES)
            self._run(*(values[part] for values in read), m, qdd[part])
            self._solve(m, qdd[part])
        return qdd

    def _run(self, *arrays: Array) -> None:
        """The compiled function on inputs and results; the batch is the first input's."""
        pointers = (ctypes.c_void_p(values.ctypes.data) for values in arrays)
        batch, work = ctypes.c_long(len(arrays[0])), ctypes.c_void_p(self._work.ctypes.data)
        if self._call(ctypes.byref(self._chain), *pointers, batch, work):
            raise ValueError(f"{self.algorithm}: an acceleration is not finite")

    def _solve(self, m: Array, net: Array) -> None:
        """In place of the torques: q̈ by Cholesky, a sample at a time. m has its lower triangles alone."""
        from scipy.linalg import get_lapack_funcs

        (posv,) = get_lapack_funcs(("posv",), (m[:1], net))
        for matrix, torque in zip(m[: len(net)], net, strict=True):
            # the transposed view is in Fortran's order, where the lower triangle is the upper one
            _, torque[:], info = posv(matrix.T, torque, lower=False, overwrite_a=True)
            if info:
                raise ValueError(f"jsiia: the mass matrix is not positive definite in {self.dtype} (pivot {info})")


def _aligned(count: int, dtype: np.dtype[Any]) -> Array:
    """Zeros that begin on a cache line."""
    raw = np.zeros(count * dtype.itemsize + 64, dtype=np.uint8)
    begin = -raw.ctypes.data % 64
    return raw[begin : begin + count * dtype.itemsize].view(dtype)


@cache
def _loaded(rotors: bool, double: bool) -> ctypes.CDLL:
    return ctypes.CDLL(str(library(source(rotors), double=double, toolchain=TOOLCHAIN)))


@cache
def source(rotors: bool) -> CSource:
    """The C files. rotors: for chains of which a joint has an armature."""
    own = Path(__file__).parent
    texts = {name: (own / name).read_text() for name in ("chain.c", "chain.h")}
    texts = with_headers({**texts, "steps.h": header(rotors)})
    return CSource("chain", texts, hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:16])
