"""XLA handlers: `dynagate_ffi.cpp`, compiled with the headers in jaxlib, and the kernels that they may call."""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

import jax

from dynagate.native.compile import CompileError, Compiler, cxx, library
from dynagate.native.source import CSource

NAME = "dynagate_ffi"
ROWS, LOOP, GPU = "dynagate_rows", "dynagate_loop", "dynagate_gpu"
PLATFORMS = {ROWS: "cpu", LOOP: "cpu", GPU: "CUDA"}
"""JAX's name of each handler's platform."""
FLAGS = ("-std=c++17", "-O2", "-shared", "-fPIC")

_kept: dict[int, Any] = {}
"""Kernels by key, which must stay loaded as long as a compiled program may call them."""


@cache
def handlers_library() -> ctypes.CDLL:
    """Return the library, compiled on first use and registered with XLA. Raise CompileError if that fails."""
    text = (files("dynagate.jax") / f"{NAME}.cpp").read_text()
    # a header of another jaxlib is another library
    stamp = hashlib.sha256(f"{text}\0{jax.lib.__version__}".encode()).hexdigest()[:16]
    toolchain = Compiler(cxx, (*FLAGS, f"-isystem{jax.ffi.include_dir()}"), ".cpp")
    path = library(CSource(NAME, {f"{NAME}.cpp": text}, stamp), double=False, toolchain=toolchain)
    try:
        loaded = ctypes.CDLL(str(path))
        loaded.dynagate_ffi_add.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
        for name, platform in PLATFORMS.items():
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(loaded, name)), platform=platform)
    except (OSError, AttributeError) as error:
        raise CompileError(f"{path} is not the library of {NAME}: {error}", code="DG-JAX-006") from None
    return loaded


def key_of(kernel: Any, identity: str, addresses: tuple[int, int]) -> int:
    """Return the key by which handlers find a kernel. Raise CompileError if the handlers cannot be compiled."""
    key = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big", signed=True)
    if key not in _kept:
        handlers_library().dynagate_ffi_add(key, *addresses)
        _kept[key] = kernel
    return key
