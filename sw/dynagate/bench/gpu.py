"""GPU measurements: arrays that stay on the GPU, arrays in host memory, partitions, and GRiD for comparison."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from dynagate.base.process import run
from dynagate.bench.grid import grid
from dynagate.bench.measure import Timing, less_product, timing
from dynagate.bench.paper import STEPS
from dynagate.graph.region import Region
from dynagate.host import DeviceError, Function, compile
from dynagate.native.compile import CompileError, nvcc
from dynagate.native.gpu import has_driver
from dynagate.robot import Robot

GRADIENT = "forward_dynamics_gradient"
MANY = (262_144, 1_048_576)
"""Additional batch sizes for arrays that stay on the GPU."""

IN_GRAPH = 10
"""Number of launches in a CUDA graph."""
SEED, STATES = 3, 4096

LAYOUTS: dict[str, dict[str, Any]] = {"rows": {}, "packed": {"pack": True}, "planes": {"layout": "planes"}}
"""Layouts of results: rows like numpy, packed rows without zeros and mirrored entries, and planes with the batch
innermost.
"""

RESIDENT = {**LAYOUTS, "rows, float64": {"dtype": np.float64}}
"""Layouts of arrays that stay on the GPU, in float32 unless stated."""

PARTS = (
    "forward_dynamics",
    "mass_matrix_inverse",
    "inverse_dynamics_gradient",
    "forward_dynamics_gradient_given_minv",
)
"""Functions that the partitions combine to the gradient."""

Options = Callable[[str], dict[str, Any]]


def measured(robot: Robot, region: Region, batches: Sequence[int], options: Options) -> dict[str, Any] | str:
    """Return the times of the gradient on a GPU in ns per batch, as JSON values, or the reason why they are missing.

    Times are in float32 unless a row says otherwise. The entries are: card, driver and compiler, with names and
    versions; host, for arrays in host memory including copies; partitions of the same, where "host_ns" is computed by
    the host; steps, one sample of each step of the paper's figure 1; resident, arrays that stay on the GPU, where "ns"
    is a launch in a CUDA graph and "call_ns" a synchronous call from Python; and grid, GRiD's kernel. The last four may
    be a reason instead.

    Args:
        robot: The robot.
        region: The operating region.
        batches: Batch sizes.
        options: Function that returns the algorithm options of a function.
    """
    if not has_driver():
        return "no CUDA driver"
    try:
        return _measured(robot, region, batches, options)
    except (CompileError, DeviceError) as error:
        return str(error)


def _measured(robot: Robot, region: Region, batches: Sequence[int], options: Options) -> dict[str, Any]:
    """Measure everything on the GPU."""
    host = list(_host(robot, region, batches, options))
    kit = {"compiler": f"nvcc {nvcc_version()}", "driver": driver_version()}
    if find_spec("cupy") is None:
        why = "CuPy is not installed, which times arrays that stay on the GPU: pip install 'dynagate[gpu]'"
        return {"host": host, "card": "a GPU", **kit, "partitions": why, "steps": why, "resident": why, "grid": why}
    cupy = import_module("cupy")
    many = sorted({*batches, *MANY})
    return {
        "host": host,
        "card": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        **kit,
        "partitions": list(_partitions(cupy, robot, region, batches, options)),
        "steps": {name: asdict(_single(cupy, robot, region, name, options)) for name in STEPS},
        "resident": [row for layout in RESIDENT for row in _resident(cupy, robot, region, many, layout, options)],
        "grid": grid(robot, [batch for batch in many if batch <= max(batches)]),
    }


def nvcc_version() -> str:
    """Return the release of CUDA's compiler, such as 13.0."""
    release = re.search(r"release ([\d.]+)", run([nvcc(), "--version"], CompileError))
    return release[1] if release else "of unknown release"


def driver_version() -> str:
    """Return the version of the NVIDIA driver, or "unknown"."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return "unknown"
    query = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.splitlines()[0].strip()


def states(region: Region, batch: int, layout: str = "rows", dtype: Any = np.float32) -> dict[str, Any]:
    """Return a batch of states, which repeats after STATES samples."""
    order: Any = "F" if layout == "planes" else "C"
    sample = region.sample(GRADIENT, min(batch, STATES), SEED)
    return {k: np.asarray(np.resize(v, (batch, *v.shape[1:])), dtype, order=order) for k, v in sample.items()}


def _host(robot: Robot, region: Region, batches: Sequence[int], options: Options) -> Iterator[dict[str, Any]]:
    """Measure batches in host memory, including copies."""
    for dtype, label in ((np.float32, ""), (np.float64, ", float64")):
        with compile(robot, GRADIENT, device="cuda", dtype=dtype, **options(GRADIENT)) as accelerator:
            for batch in batches:
                inputs = states(region, batch, dtype=dtype)
                for results, call in (
                    ("the same", accelerator.bind(**inputs)),
                    ("new", lambda: accelerator(**inputs)),  # noqa: B023
                ):
                    yield {"results": results + label, "batch": batch, **asdict(timing(call, 0.3))}


def _resident(
    cupy: Any, robot: Robot, region: Region, batches: Sequence[int], layout: str, options: Options
) -> Iterator[dict[str, Any]]:
    """Measure batches that stay on the GPU, in one layout of results."""
    stream = cupy.cuda.Stream(non_blocking=True)
    chosen = {"dtype": np.float32, **options(GRADIENT), **RESIDENT[layout]}
    with stream, compile(robot, GRADIENT, device="cuda", stream=stream.ptr, **chosen) as accelerator:
        for batch in batches:
            inputs = {
                name: cupy.asarray(array) for name, array in states(region, batch, layout, chosen["dtype"]).items()
            }
            run = accelerator.bind(**inputs)
            run()
            stream.synchronize()

            def call() -> None:
                run()  # noqa: B023
                stream.synchronize()

            called = timing(call, 0.3)
            yield {"layout": layout, "batch": batch, **asdict(_launched(cupy, stream, run)), "call_ns": called.ns}


def _single(cupy: Any, robot: Robot, region: Region, name: str, options: Options) -> Timing:
    """Measure one sample of a function with its arrays on the GPU."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with (
        stream,
        compile(robot, name, device="cuda", stream=stream.ptr, dtype=np.float32, **options(name)) as accelerator,
    ):
        assert isinstance(accelerator, Function)
        sample = region.sample(name, 1, SEED)
        run = accelerator.bind(**{key: cupy.asarray(np.asarray(array, np.float32)) for key, array in sample.items()})
        run()
        stream.synchronize()
        return _launched(cupy, stream, run)


def _launched(cupy: Any, stream: Any, run: Callable[[], Any]) -> Timing:
    """Measure a launch as part of a CUDA graph with IN_GRAPH launches."""
    stream.begin_capture()
    for _ in range(IN_GRAPH):
        run()
    graph = stream.end_capture()
    return _on_the_card(cupy, stream, lambda: graph.launch(stream)).per(IN_GRAPH)


def _on_the_card(cupy: Any, stream: Any, launch: Callable[[], Any], repeats: int = 25) -> Timing:
    """Measure a launch with the GPU's own clock."""
    taken = []
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    for _ in range(repeats):
        begin.record(stream)
        launch()
        end.record(stream)
        end.synchronize()
        taken.append(1e6 * cupy.cuda.get_elapsed_time(begin, end))
    return Timing.of(taken[2:])


def _partitions(
    cupy: Any, robot: Robot, region: Region, batches: Sequence[int], options: Options
) -> Iterator[dict[str, Any]]:
    """Measure the partitions.

    "split" computes ∂ID on the GPU and the rest in C on one thread; "fused" computes everything on the GPU, kernel by
    kernel; "completely fused" is one kernel.
    """
    with ExitStack() as stack:

        def opened(name: str, device: Literal["cpu", "cuda"]) -> Function:
            accelerator = stack.enter_context(compile(robot, name, device=device, dtype=np.float32, **options(name)))
            assert isinstance(accelerator, Function)
            return accelerator

        card = {name: opened(name, "cuda") for name in (*PARTS, GRADIENT)}
        core = {name: opened(name, "cpu") for name in ("forward_dynamics", "mass_matrix_inverse")}

        def multiplied(minv: Any, part: Any) -> Any:
            out, call = less_product(minv, part)
            call()
            return out

        def split(q: Any, qd: Any, tau: Any) -> Any:
            qdd = core["forward_dynamics"](q=q, qd=qd, tau=tau).qdd
            minv = core["mass_matrix_inverse"](q=q).minv
            gradient = card["inverse_dynamics_gradient"](q=q, qd=qd, qdd=qdd)
            return [multiplied(minv, part) for part in (gradient.dtau_dq, gradient.dtau_dqd)]

        def beside(q: Any, qd: Any, tau: Any) -> Any:
            core["forward_dynamics"](q=q, qd=qd, tau=tau)
            minv = core["mass_matrix_inverse"](q=q).minv
            return [multiplied(minv, minv) for _ in range(2)]

        def fused(**state: Any) -> Any:
            q, qd, tau = (cupy.asarray(state[name]) for name in ("q", "qd", "tau"))
            qdd = card["forward_dynamics"](q=q, qd=qd, tau=tau).qdd
            minv = card["mass_matrix_inverse"](q=q).minv
            gradient = card["forward_dynamics_gradient_given_minv"](q=q, qd=qd, qdd=qdd, minv=minv)
            return [cupy.asnumpy(part) for part in (qdd, minv, gradient.dqdd_dq, gradient.dqdd_dqd)]

        calls: Mapping[str, Callable[..., Any]] = {"split": split, "fused": fused, "completely fused": card[GRADIENT]}
        for batch in batches:
            state = states(region, batch)
            host = {"split": timing(lambda: beside(**state), 0.2).ns, "fused": 0.0, "completely fused": 0.0}  # noqa: B023
            for name, call in calls.items():
                taken = timing(lambda: call(**state), 0.3)  # noqa: B023
                yield {"partition": name, "batch": batch, **asdict(taken), "host_ns": host[name]}
