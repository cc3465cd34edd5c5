"""Forward dynamics of a serial chain on a GPU, with a warp for each chain and a lane for each link.

The forms are scans with a dense solve, and odd-even elimination of constraint forces. The text also compiles as host
code, in which the lanes run one after another.

Reference: Yang, Wu and Pan, "A Novel GPU-based Parallel Implementation Scheme and Performance Analysis of Robot Forward
Dynamics Algorithms", 2016.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.native.arrays import check
from dynagate.native.chains.numbers import FORCES, ChainNumbers
from dynagate.native.chains.steps import block_size, warp_header
from dynagate.native.compile import CUDA, Compiler
from dynagate.native.cuda import SHARED, SHARED_BYTES, host_arguments, with_host_side
from dynagate.native.gpu import GpuProgram, GpuText
from dynagate.native.headers import in_one_text
from dynagate.native.source import CSource
from dynagate.robot import Robot

FORMS = ("jsiia", *FORCES)
"""Forms of forward dynamics that a warp computes."""
STATE_NUMBERS = 48
"""Numbers of a link in shared memory for every form, as in dynagate_warp_chain.cuh."""


@dataclass(frozen=True)
class ChainPort:
    """An array of one sample."""

    name: str
    shape: tuple[int, ...]


class WarpChain(GpuProgram):
    """Forward dynamics of a serial chain, with a warp for each sample: q, qd and tau (links,) to qdd (links,).

    Args:
        robot: A serial chain of revolute and prismatic joints.
        form: One of FORMS.
        dtype: float32 or float64.
        device: Number of the card.
        folder: Folder of the compiled library; None for the cache.
        toolchain: Compiler of the text.

    Raises:
        ArgumentError: The form has no warp, or the chain exceeds the shared memory of a block.
        RobotError: The robot is no serial chain, as `ChainNumbers.of` reports it.
        CompileError: The source cannot be compiled.
        GpuError: The card cannot be used.
    """

    def __init__(
        self,
        robot: Robot,
        form: str,
        dtype: npt.DTypeLike = np.float64,
        *,
        device: int = 0,
        folder: Path | None = None,
        toolchain: Compiler = CUDA,
    ) -> None:
        own = np.dtype(dtype)
        check(own, "rows")
        text = warp_text(robot, form, double=own == np.float64)
        super().__init__(text, own, "rows", device=device, folder=folder, toolchain=toolchain)


def warp_text(robot: Robot, form: str, *, double: bool) -> GpuText:
    """Return the text of a chain. Raises as `WarpChain`.

    Args:
        robot: The robot.
        form: One of FORMS.
        double: Whether numbers are float64, else float32.
    """
    if form not in FORMS:
        raise ArgumentError(
            f"form '{form}' of a warp per chain; expected {', '.join(FORMS[:-1])} or {FORMS[-1]}", code="DG-COMPILE-026"
        )
    numbers, links = ChainNumbers.of(robot, form), len(robot.links)
    needed = (8 if double else 4) * shared_numbers(links, form, numbers.rotors)
    if needed > SHARED_BYTES:
        raise ArgumentError(
            f"{links} links by {form} in {'float64' if double else 'float32'} take {needed} bytes of a block's shared "
            f"memory, of {SHARED_BYTES}; expected a shorter chain, float32, or a thread for each sample: form='scan' "
            "without warp=True",
            code="DG-COMPILE-027",
        )
    inputs = [ChainPort(name, (links,)) for name in ("q", "qd", "tau")]
    source = warp_source(numbers, form, double=double)
    return GpuText(f"{form} of {links} links", source, inputs, [ChainPort("qdd", (links,))], 1, writes_all=True)


def shared_numbers(links: int, form: str, rotors: bool) -> int:
    """Return the numbers of a chain in shared memory: CHAIN_NUMBERS of dynagate_warp_chain.cuh."""
    own = links * (links + 1) // 2 + 20 * links
    if form in FORCES:
        block = block_size(rotors)
        own = links * (2 * (block * (block + 1) // 2 + block * block + block) + 5 * block + 2)
    return STATE_NUMBERS * links + own


def warp_source(numbers: ChainNumbers, form: str, *, double: bool) -> CSource:
    """Return CUDA of a chain with its host side."""
    host = [
        "static cudaError_t prepare() {",
        "#ifdef __CUDACC__",
        "    return cudaFuncSetAttribute(each, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);",
        "#else",
        "    return cudaSuccess;",
        "#endif",
        "}",
        "static void launch(real *const *inputs, real *const *outputs, long batch, long iterations, int planes,",
        "                   cudaStream_t stream) {",
        "    (void)iterations, (void)planes;",
        "#ifdef __CUDACC__",
        f"    each<<<batch, LANES, SHARED, stream>>>({host_arguments(3, 1, 'batch')});",
        "#else",
        f"    (void)stream, each({host_arguments(3, 1, 'batch')});",
        "#endif",
        "}",
    ]
    text = "\n".join(_lines(numbers, form, double))
    return with_host_side(f"warp_{form}", text, [len(numbers.slides)] * 4, [0] * 4, 3, host)


def _lines(numbers: ChainNumbers, form: str, double: bool) -> Iterator[str]:
    """Yield the text of the kernel: types, tables of the chain, steps of a link, and the loops over links."""
    forces = form in FORCES
    yield "#include <stdlib.h>"
    yield f"typedef {'double' if double else 'float'} real;"
    yield "typedef real vec;"
    yield "#define NUMBER real"
    yield in_one_text(SHARED)
    yield "#define DG_INLINE SAMPLE\n#define DG_ALL(x) ((vec)(x))"
    yield f"#define LINKS {len(numbers.slides)}"
    yield f"#define REFINED {int(form == 'cfa_refined')}"
    if forces:
        yield "#define BY_FORCES"
    yield _table("unsigned char", "chain_slides", numbers.slides)
    yield _table("real", "chain_numbers", numbers.links)
    if forces:
        yield _table("real", "chain_blocks", numbers.blocks)
    yield _table("real", "chain_base", numbers.base)
    yield warp_header(numbers.rotors, forces)
    yield in_one_text("dynagate_warp_chain.cuh")


def _table(type: str, name: str, values: npt.NDArray[Any]) -> str:
    """Return the text of a constant table."""
    listed = ",\n    ".join(", ".join(repr(x) for x in row) for row in np.atleast_2d(values).tolist())
    return f"DG_CONSTANT {type} {name}[{np.size(values)}] = {{\n    {listed}}};"
