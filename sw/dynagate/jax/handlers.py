"""XLA handlers: `dynagate_ffi.cpp`, compiled with the headers in jaxlib, and the kernels that they may call."""

from __future__ import annotations

import ctypes
import hashlib
import secrets
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jax
import numpy as np

from dynagate.native.compile import CompileError, Compiler, cxx, library
from dynagate.native.source import CSource

NAME = "dynagate_ffi"
ROWS, LOOP, HOST, GPU = "dynagate_rows", "dynagate_loop", "dynagate_host", "dynagate_gpu"
PLATFORMS = {ROWS: "cpu", LOOP: "cpu", HOST: "cpu", GPU: "CUDA"}
"""JAX's name of each handler's platform."""
FLAGS = ("-std=c++17", "-O2", "-shared", "-fPIC")

_kept: dict[int, Any] = {}
"""Kernels by key, which must stay loaded as long as a compiled program may call them."""
_host_keys: dict[Any, int] = {}
"""A Python function and the arrays of its rows -> key."""

Row = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and number type of an array's row."""

_Arrays = ctypes.POINTER(ctypes.c_void_p)
_HostCall = ctypes.CFUNCTYPE(ctypes.c_int, _Arrays, _Arrays, ctypes.c_long, ctypes.c_void_p, ctypes.c_long)


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
            jax.ffi.register_ffi_target_as_batch_partitionable(name)
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


def host_key(function: Callable[..., Sequence[Any]], inputs: Sequence[Row], outputs: Sequence[Row]) -> int:
    """Return the key of a Python function of numpy arrays (batch, *row), which handlers call on XLA's own buffers.

    The key is random, so a program that XLA kept from another process finds no function.
    """
    known = function, tuple(inputs), tuple(outputs)
    if known not in _host_keys:

        def run(sources: Any, results: Any, batch: int, text: int, room: int) -> int:
            try:
                arrays = [_array(sources[k], batch, *row) for k, row in enumerate(inputs)]
                for array in arrays:
                    array.flags.writeable = False
                for k, result in enumerate(function(*arrays)):
                    _array(results[k], batch, *outputs[k])[...] = result
            except BaseException as error:
                message = f"{type(error).__name__}: {error}".encode()[: room - 1] + b"\0"
                ctypes.memmove(text, message, len(message))
                return 1
            return 0

        called = _HostCall(run)
        address = ctypes.cast(called, ctypes.c_void_p).value
        assert address is not None
        _host_keys[known] = key_of(called, secrets.token_hex(16), (address, 0))
    return _host_keys[known]


def _array(address: int | None, batch: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return the array (batch, *shape) at an address."""
    whole = (batch, *shape)
    size = int(np.prod(whole)) * dtype.itemsize
    if not size:
        return np.empty(whole, dtype)
    assert address is not None
    return np.frombuffer(memoryview((ctypes.c_char * size).from_address(address)), dtype).reshape(whole)
