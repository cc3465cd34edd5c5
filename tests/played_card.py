"""A host that plays a GPU: the toolchain, the device "cuda" on it, arrays that pretend to be there, and marks."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate.native.chains.warp import WarpChain
from dynagate.native.compile import Compiler
from dynagate.native.gpu import GpuKernel
from dynagate.native.gpu_loop import GpuLoop

from tests.conftest import has_card

SHIM = Path(__file__).parent / "cuda_on_host"
ON_HOST = Compiler(
    lambda: shutil.which("g++") or "g++",
    ("-x", "c++", "-std=c++17", "-O1", "-Wall", "-Werror", "-Wno-unused-function", "-shared", "-fPIC", f"-I{SHIM}"),
    ".cu",
)


def play_card(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Functions and loops on device "cuda" run on the host that plays the GPU, compiled in the folder."""
    for kind in (GpuKernel, GpuLoop, WarpChain):
        on_host = partial(kind, folder=folder, toolchain=ON_HOST)
        monkeypatch.setattr(f"dynagate.host.devices.cuda.{kind.__name__}", on_host)


needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
needs_none = pytest.mark.skipif(has_card(), reason="there is a CUDA card")


def live(kernel: GpuKernel) -> int:
    """Allocations and streams that the host which plays the GPU has given out."""
    return int(kernel._functions.cuda_on_host_live())


class OnGpu:
    """An array that only the CUDA array interface leads to."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.dtype = array.dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        a = self.array
        return {
            "shape": a.shape,
            "typestr": a.dtype.str,
            "data": (a.ctypes.data, False),
            "strides": a.strides,
            "version": 3,
        }
