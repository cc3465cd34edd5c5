"""Forward dynamics of a serial chain over a batch: C or CUDA with loops over the links, one library for all chains."""

from __future__ import annotations

import ctypes
import hashlib
import math
import warnings
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import real
from dynagate.base.errors import ArgumentError
from dynagate.chains.gpu import GpuChain
from dynagate.chains.steps import BLOCK_NUMBERS, header
from dynagate.dynamics.constraint_forces import check_bodies, constants
from dynagate.dynamics.serial import check_serial
from dynagate.dynamics.tree import Tree
from dynagate.native.compile import C, CompileError, Toolchain, library
from dynagate.native.emit import Source
from dynagate.native.gpu import require_driver
from dynagate.robot import Robot

ALGORITHMS = ("aba", "jsiia", "abia", "cfa", "cfa_serial")
DEVICES = ("cpu", "cuda")
LAPACK_LINKS = 256
"""JSIIA's dense system is solved by LAPACK, sample by sample, from so many links on: measured."""

LAPACK_SAMPLES = 64
"""Mass matrices that are kept at once for LAPACK."""

INEXACT = 1e-2
"""Relative error of float32 from which on it is warned of."""

SAMPLES = 8
"""States that float32 is compared with float64 on: within 1 rad or m, 1 rad/s or m/s, 1 N m or N."""

TOOLCHAIN = Toolchain(C.find, (*C.flags, "-O3"), C.suffix, C.target)
TYPES = {np.dtype(np.float64): "f64", np.dtype(np.float32): "f32"}
Array = npt.NDArray[Any]


class ChainConstants(ctypes.Structure):
    """`chain` of dynagate_chain.h."""

    _fields_ = [
        ("links", ctypes.c_long),
        *((name, ctypes.c_void_p) for name in ("slides", "numbers", "blocks", "base")),
        ("refined", ctypes.c_long),
    ]


class InexactWarning(UserWarning):
    """An algorithm that is too inexact in float32 for a chain. The text has the measured error."""


class ForwardDynamics:
    """q̈ of a serial chain of revolute and prismatic joints for a batch, on one core or a GPU.

    algorithm: "aba", articulated bodies; "jsiia", M by unit accelerations and a dense solve; "abia", articulated
    inertias and the square factors of M⁻¹; "cfa", constraint forces by odd-even elimination; "cfa_serial", by
    Thomas' recursion; these two correct themselves once, at twice the time, where joints slide or have rotors.
    dtype: float64, or float32, whose errors `docs/parallel.md` lists; an InexactWarning says where those of this chain
    are above INEXACT, measured at some states against "aba" in float64. dense: JSIIA's solver, "ldl" in the same
    loops or "lapack"; None takes LAPACK from LAPACK_LINKS links on. device: "cpu", or "cuda": a thread per sample,
    for many samples at once. folder: a cache of compiled code, the user's unless given. Use one object from one
    thread at a time.
    Raises ValueError: another algorithm, dtype, solver or device. RobotError: the robot branches, has joints of several
    degrees of freedom, or massless links for the constraint force algorithm. CompileError. GpuError: there is no GPU.
    """

    def __init__(
        self,
        robot: Robot,
        algorithm: str = "aba",
        *,
        dtype: npt.DTypeLike = np.float64,
        dense: str | None = None,
        device: str = "cpu",
        folder: Path | None = None,
    ) -> None:
        if algorithm not in ALGORITHMS:
            raise ArgumentError(f"no algorithm '{algorithm}'; expected one of {', '.join(ALGORITHMS)}")
        self.dtype = np.dtype(dtype)
        if self.dtype not in TYPES:
            raise ArgumentError(f"dtype {self.dtype}; expected float64 or float32")
        if dense not in (None, "ldl", "lapack"):
            raise ArgumentError(f"dense solver '{dense}'; expected 'ldl' or 'lapack'")
        if device not in DEVICES:
            raise ArgumentError(f"device '{device}'; expected one of {', '.join(DEVICES)}")
        if (device, dense) == ("cuda", "lapack"):
            raise ArgumentError("dense solver 'lapack' on device 'cuda'; expected 'ldl', which runs in the same loops")
        if device == "cuda":
            require_driver("device 'cuda'", "'cpu'")
        self.algorithm, self.device, self.links = algorithm, device, len(robot.links)
        self._lapack = (algorithm, device) == ("jsiia", "cpu") and (
            dense or ("lapack" if self.links >= LAPACK_LINKS else "ldl")
        ) == "lapack"
        robot.check_uncoupled("forward dynamics of long chains")
        tree = Tree(robot, reduced=False)
        (check_bodies if algorithm.startswith("cfa") else check_serial)(tree)
        numbers = _link_numbers(tree)
        blocks = _block_numbers(tree) if algorithm.startswith("cfa") else np.zeros((1, BLOCK_NUMBERS))
        base = np.array([0.0, 0.0, 0.0, *tree.base_acceleration], dtype=np.float64)
        self._kept = [
            np.array([tree.slides(i) for i in tree.links], dtype=np.uint8),
            *(np.ascontiguousarray(part, dtype=self.dtype) for part in (numbers, blocks, base)),
        ]
        self._rotors = any(a > 0.0 for a in tree.armature)
        refined = self._rotors or any(map(tree.slides, tree.links))
        self._chain = ChainConstants(self.links, *(part.ctypes.data for part in self._kept), refined)
        self._card: tuple[int, GpuChain] | None = None
        if device == "cuda":
            self._folder = folder
            self._opened(1)
        else:
            self._open_loops(folder)
        if self.dtype == np.float32 and algorithm != "aba":
            self._warn_if_inexact(ForwardDynamics(robot, folder=folder))

    def _open_loops(self, folder: Path | None) -> None:
        loaded = _loaded(self._rotors, self.dtype == np.float64, folder)
        suffix = TYPES[self.dtype]
        entry = "mass" if self._lapack else self.algorithm
        self._call = getattr(loaded, f"{entry}_{suffix}")
        work = getattr(loaded, f"{entry}_work_{suffix}")
        work.restype = ctypes.c_long
        self._work = _aligned(work(ctypes.c_long(self.links)) * getattr(loaded, f"lanes_{suffix}")(), self.dtype)

    def _warn_if_inexact(self, reference: ForwardDynamics) -> None:
        random = np.random.default_rng(1)
        state = {name: random.uniform(-1.0, 1.0, (SAMPLES, self.links)) for name in ("q", "qd", "tau")}
        exact = reference(**state)
        try:
            error = float(np.max(np.abs(self(**state) - exact).max(axis=1) / np.abs(exact).max(axis=1)))
        except ArgumentError:  # an acceleration that is not finite, or a matrix that is not positive definite
            error = np.inf
        if not error <= INEXACT:
            warnings.warn(
                f"{self.algorithm} in float32 errs by {error:.1g} of the largest acceleration on this chain of "
                f"{self.links} links; expected at most {INEXACT:g}: take 'aba', or float64",
                InexactWarning,
                stacklevel=3,
            )

    def __call__(self, q: npt.ArrayLike, qd: npt.ArrayLike, tau: npt.ArrayLike) -> Array:
        """q̈ (batch, links) in rad/s², m/s² where a joint slides, from q, q̇ and τ (batch, links).

        Raises ValueError: another shape, or a result that is not finite: an input is not, or a value overflows;
        TypeError: masked arrays, or other than real numbers."""
        named = {"q": q, "qd": qd, "tau": tau}
        read = [np.ascontiguousarray(real(name, values), dtype=self.dtype) for name, values in named.items()]
        batch = len(read[0]) if read[0].ndim == 2 else -1
        for name, values in zip(named, read, strict=True):
            if values.shape != (batch, self.links):
                raise ArgumentError(f"{name} has shape {values.shape}; expected ({max(batch, 1)}, {self.links})")
        qdd = np.empty((batch, self.links), dtype=self.dtype)
        if self.device == "cuda":
            self._opened(batch)(read[0], read[1], read[2], qdd)
            if not np.isfinite(qdd).all():
                raise self._not_finite()
            return qdd
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
            raise self._not_finite()

    def _not_finite(self) -> ArgumentError:
        return ArgumentError(f"{self.algorithm}: an acceleration is not finite; an input is not, or a value overflows")

    def _opened(self, batch: int) -> GpuChain:
        """The card, with room for a batch. Raises GpuError."""
        if self._card is None or self._card[0] < batch:
            self.close()
            card = GpuChain(
                self._chain, self.algorithm, self.dtype, rotors=self._rotors, most=batch, folder=self._folder
            )
            self._card = batch, card
        return self._card[1]

    def close(self) -> None:
        """Gives back the GPU's memory, where it has some; the next call takes it again."""
        if self._card is not None:
            self._card[1].close()
            self._card = None

    def _solve(self, m: Array, net: Array) -> None:
        """In place of the torques: q̈ by Cholesky, a sample at a time. m has its lower triangles alone."""
        from scipy.linalg import get_lapack_funcs

        (posv,) = get_lapack_funcs(("posv",), (m[:1], net))
        for matrix, torque in zip(m[: len(net)], net, strict=True):
            # the transposed view is in Fortran's order, where the lower triangle is the upper one
            _, torque[:], info = posv(matrix.T, torque, lower=False, overwrite_a=True)
            if info:
                raise ArgumentError(f"jsiia: the mass matrix is not positive definite in {self.dtype} (pivot {info})")


def _aligned(count: int, dtype: np.dtype[Any]) -> Array:
    """Zeros that begin on a cache line."""
    raw = np.zeros(count * dtype.itemsize + 64, dtype=np.uint8)
    begin = -raw.ctypes.data % 64
    return raw[begin : begin + count * dtype.itemsize].view(dtype)


@cache
def _loaded(rotors: bool, double: bool, folder: Path | None) -> ctypes.CDLL:
    path = library(source(rotors), double=double, folder=folder, toolchain=TOOLCHAIN)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CompileError(f"{path} is not the library of the chains: {error}") from None


@cache
def source(rotors: bool) -> Source:
    """The C files. rotors: for chains of which a joint has an armature."""
    texts = {
        "dynagate_chain.c": (files("dynagate.chains") / "dynagate_chain.c").read_text(),
        "dynagate_chain.h": (files("dynagate.chains") / "dynagate_chain.h").read_text(),
        "dynagate_simd.h": (files("dynagate.native") / "dynagate_simd.h").read_text(),
        "steps.h": header(rotors),
    }
    return Source("dynagate_chain", texts, hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:16])


def _link_numbers(tree: Tree) -> Array:
    """(links, LINK_NUMBERS), as `steps` names them."""
    rows = []
    for i, link in enumerate(tree.robot.links):
        mass, first, second = tree.inertias[i]
        upper = np.array(second, dtype=np.float64)[np.triu_indices(3)]
        armature = link.joint.armature
        pose = [*np.ravel(link.joint.rotation), *link.joint.translation]
        rows.append([*pose, mass, *first, *upper, armature, link.joint.damping, math.sqrt(armature)])
    return np.array(rows, dtype=np.float64)


def _block_numbers(tree: Tree) -> Array:
    """(links, BLOCK_NUMBERS), as `steps` names them."""
    links = constants(tree)
    mobility, fixed, above = (np.array(part, dtype=np.float64) for part in (links.mobility, links.fixed, links.above))
    coupled = np.zeros_like(mobility)
    coupled[:-1] = mobility[:-1] @ fixed[1:].transpose(0, 2, 1)
    return np.concatenate([part.reshape(len(part), 36) for part in (mobility, above, coupled)], axis=1)
