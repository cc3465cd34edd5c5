"""The loops over chains on a GPU: a thread per sample."""

from __future__ import annotations

import ctypes
import hashlib
import weakref
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.chains.steps import header
from dynagate.native.compile import CUDA, CompileError, Toolchain, library
from dynagate.native.cuda import HOST_CHECK, SHARED
from dynagate.native.emit import Source
from dynagate.native.gpu import require

Array = npt.NDArray[Any]


class GpuChain:
    """One algorithm on a card. constants: a `batched.ChainConstants`, read when it opens; rotors: whether a joint has
    an armature; most: samples that it makes room for at once.

    Raises CompileError; GpuError, whose text says at which call."""

    def __init__(
        self,
        constants: ctypes.Structure,
        algorithm: str,
        dtype: np.dtype[Any],
        *,
        rotors: bool,
        most: int,
        device: int = 0,
        folder: Path | None = None,
        toolchain: Toolchain = CUDA,
    ) -> None:
        double = dtype == np.float64
        path = library(gpu_source(algorithm, rotors), double=double, folder=folder, toolchain=toolchain)
        try:
            self._functions = ctypes.CDLL(str(path))
        except OSError as error:
            raise CompileError(f"{path} is not the library of the chains: {error}") from None
        for name in ("open", "run"):
            getattr(self._functions, f"dynagate_chain_{name}").restype = ctypes.c_char_p
        context, count = ctypes.c_void_p(), ctypes.c_long(most)
        opened = self._functions.dynagate_chain_open(device, ctypes.byref(constants), count, ctypes.byref(context))
        require(opened)
        self._context = context
        self._end = weakref.finalize(self, self._functions.dynagate_chain_close, context)
        self._end.atexit = False  # the process frees it anyway

    def __call__(self, q: Array, qd: Array, tau: Array, qdd: Array) -> None:
        """Fills qdd (batch, links). Arrays in host memory without gaps, of the kernel's dtype. Raises GpuError."""
        pointers = (ctypes.c_void_p(array.ctypes.data) for array in (q, qd, tau, qdd))
        require(self._functions.dynagate_chain_run(self._context, *pointers, ctypes.c_long(len(q))))

    def close(self) -> None:
        """Gives back the card's memory."""
        self._end()


@cache
def gpu_source(algorithm: str, rotors: bool) -> Source:
    """The CUDA of one algorithm. rotors: for chains of which a joint has an armature."""
    chosen = f"#define CHAIN_ALGORITHM {algorithm}\n#define CHAIN_WORK {algorithm.upper()}_WORK\n"
    own = files("dynagate.chains")
    texts = {
        f"dynagate_chain_{algorithm}.cu": chosen + (own / "dynagate_chain.cu").read_text(),
        "dynagate_chain.h": (own / "dynagate_chain.h").read_text(),
        **{file: (files("dynagate.native") / file).read_text() for file in (SHARED, HOST_CHECK)},
        "steps.h": header(rotors),
    }
    stamp = hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:16]
    return Source(f"dynagate_chain_{algorithm}", texts, stamp)
