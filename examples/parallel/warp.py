"""Forward dynamics of a serial chain on a GPU, a warp per chain: by scans and a dense solve, or by odd-even elimination
of constraint forces. The text is warp.h; it compiles as host code too, where the lanes take turns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate import Robot
from dynagate.base.errors import ArgumentError
from dynagate.native.compile import CUDA, Compiler
from dynagate.native.cuda import SHARED, SHARED_BYTES, host_arguments, with_host_side
from dynagate.native.gpu import GpuProgram, GpuText
from dynagate.native.headers import in_one_text
from dynagate.native.source import CSource
from parallel.loops import Numbers, check_chain
from parallel.steps import block_size, warp_header

ALGORITHMS = ("jsiia", "cfa")
"""By scans; by constraint forces."""

STATE_NUMBERS = 48
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Port:
    """An array of a sample."""

    name: str
    shape: tuple[int, ...]


class WarpDynamics:
    """q̈ of a serial chain of revolute and prismatic joints for a batch, on a GPU.

    algorithm: of ALGORITHMS. device, folder, toolchain: as of `GpuProgram`. checked: as of `loops.ForwardDynamics`.
    Raises ArgumentError: another algorithm, or
    more links than a block's shared memory holds; RobotError as `loops.ForwardDynamics`; CompileError; GpuError.
    """

    def __init__(
        self,
        robot: Robot,
        algorithm: str,
        dtype: npt.DTypeLike = np.float64,
        *,
        device: int = 0,
        folder: Path | None = None,
        toolchain: Compiler = CUDA,
        checked: bool = True,
    ) -> None:
        if algorithm not in ALGORITHMS:
            raise ArgumentError(f"algorithm '{algorithm}'; expected {' or '.join(ALGORITHMS)}")
        own, links = np.dtype(dtype), len(robot.links)
        numbers = Numbers.of(robot, algorithm)
        needed = own.itemsize * chain_numbers(links, algorithm, numbers.rotors)
        if needed > SHARED_BYTES:
            raise ArgumentError(
                f"{links} links by {algorithm} in {own} take {needed} bytes of a block's shared memory, of "
                f"{SHARED_BYTES}; expected a shorter chain, float32, or a thread per sample: "
                'dynagate.compile(robot, "forward_dynamics", device="cuda", form="scan")'
            )
        ports = [Port(name, (links,)) for name in ("q", "qd", "tau")]
        text = GpuText(
            f"{algorithm} of {links} links",
            source(numbers, algorithm, double=own == np.float64),
            ports,
            [Port("qdd", (links,))],
            1,
            writes_all=True,
        )
        self.program = GpuProgram(text, own, "rows", device=device, folder=folder, toolchain=toolchain)
        if checked and own == np.float32:
            try:
                check_chain(robot, algorithm, self)
            except ArgumentError:
                self.close()
                raise

    def __call__(self, q: Array, qd: Array, tau: Array) -> Array:
        """q̈ (batch, links) in rad/s², m/s² where a joint slides, of q, q̇ and τ (batch, links). Raises as
        `GpuProgram`'s call."""
        outputs = self.program.new_outputs(len(q))
        self.program({"q": q, "qd": qd, "tau": tau}, outputs)
        return outputs["qdd"]

    def close(self) -> None:
        """Gives back the GPU's memory."""
        self.program.close()


def chain_numbers(links: int, algorithm: str, rotors: bool) -> int:
    """Numbers of a chain in shared memory: CHAIN_NUMBERS of warp.h."""
    own = links * (links + 1) // 2 + 20 * links
    if algorithm == "cfa":
        block = block_size(rotors)
        own = links * (2 * (block * (block + 1) // 2 + block * block + block) + 5 * block + 2)
    return STATE_NUMBERS * links + own


def source(numbers: Numbers, algorithm: str, *, double: bool) -> CSource:
    """CUDA of a chain with its host side."""
    name = f"warp_{algorithm}"
    host = [
        "static cudaError_t prepare() {",
        "#ifdef __CUDACC__",
        "    return cudaFuncSetAttribute(each, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);",
        "#else",
        "    return cudaSuccess;",
        "#endif",
        "}",
        "static void launch(real *const *inputs, real *const *outputs, long batch, long turns, int planes,",
        "                   cudaStream_t stream) {",
        "    (void)turns, (void)planes;",
        "#ifdef __CUDACC__",
        f"    each<<<batch, LANES, SHARED, stream>>>({host_arguments(3, 1, 'batch')});",
        "#else",
        f"    (void)stream, each({host_arguments(3, 1, 'batch')});",
        "#endif",
        "}",
    ]
    text = "\n".join(_lines(numbers, algorithm, double))
    sizes = [len(numbers.slides)] * 4
    whole = with_host_side(name, text, sizes, [0] * 4, 3, host)
    files_too = {**whole.files, "warp.h": (Path(__file__).parent / "warp.h").read_text()}
    return CSource(name, files_too, hashlib.sha256("\0".join(files_too.values()).encode()).hexdigest()[:16])


def _lines(numbers: Numbers, algorithm: str, double: bool) -> Iterator[str]:
    forces = algorithm == "cfa"
    yield "#include <stdlib.h>"
    yield f"typedef {'double' if double else 'float'} real;"
    yield "typedef real vec;"
    yield "#define NUMBER real"
    yield in_one_text(SHARED)
    yield "#define DG_INLINE SAMPLE\n#define DG_ALL(x) ((vec)(x))"
    yield f"#define LINKS {len(numbers.slides)}"
    yield f"#define REFINED {int(numbers.refined)}"
    if forces:
        yield "#define BY_FORCES"
    yield _table("unsigned char", "chain_slides", numbers.slides)
    yield _table("real", "chain_numbers", numbers.links)
    if forces:
        yield _table("real", "chain_blocks", numbers.blocks)
    yield _table("real", "chain_base", numbers.base)
    yield warp_header(numbers.rotors, forces)
    yield '#include "warp.h"\n'


def _table(type: str, name: str, values: Array) -> str:
    listed = ",\n    ".join(", ".join(repr(x) for x in row) for row in np.atleast_2d(values).tolist())
    return f"DG_CONSTANT {type} {name}[{np.size(values)}] = {{\n    {listed}}};"
