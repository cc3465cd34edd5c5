"""Measure what is here: C, numpy, Pinocchio; model what is not: the datapath on an FPGA, from its schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.bench import codegen, gpu, peers, rollouts, solvers
from dynagate.bench.deadline import deadline
from dynagate.bench.gpu import GRADIENT, LAYOUTS, PARTS, SEED
from dynagate.bench.measure import machine, single_call, timing
from dynagate.design.words import sample_bytes
from dynagate.dynamics import FUNCTIONS
from dynagate.dynamics.configuration import normalised
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.host import Accelerator, Opened, open
from dynagate.hw.plan import Plan, plan
from dynagate.hw.schedule import check_interval
from dynagate.native.kernel import Kernel
from dynagate.robot import Robot

STAGES = ("inverse_dynamics", "forward_dynamics", "mass_matrix_inverse", "inverse_dynamics_gradient", GRADIENT)
HOST_LAYOUTS: dict[str, dict[str, Any]] = {**LAYOUTS, "packed planes": {"pack": True, "layout": "planes"}}
BATCHES = (16, 32, 64, 128, 256, 1024, 4096, 16384, 65536)
THROUGHPUT_BATCHES = (1024, 4096, 8192)
"""From one whose results stay in a second-level cache to one whose gradients leave it, but whose torques do not."""

CLOCK_HZ = 250e6
LINK_BYTES = 6.0e9
LINK_SECONDS = 2.0e-6
STREAM_BITS = 512
"""Assumed for the modelled FPGA: clock of the datapath; bytes a second and latency of a PCIe 3.0 × 8 link each way;
bits of a beat of float32 streams."""

Say = Callable[[str], Any]


def compare(
    robot: Robot,
    region: Region,
    *,
    batches: Sequence[int] = BATCHES,
    threads: int = 2,
    ii: int = 8,
    pinocchio: bool = True,
    pinocchio_single: bool = False,
    step: Say | None = None,
) -> dict[str, Any]:
    """All figures of one run, as JSON takes them: machine, single calls, partitions, batches, accuracy, modelled FPGA.

    Times are nanoseconds: per call, or per sample of a batch. Raises ValueError for an empty batch, no threads or an
    interval that no datapath has, CompileError where there is no C compiler.
    """
    say = step or (lambda text: None)
    _check(batches, threads, ii)
    on = machine()
    peer: peers.Peer | str = "not asked for"
    generated: peers.Peer | str = "not asked for"
    if pinocchio:
        say("Pinocchio: compiling (minutes, the first time) and measuring")
        peer = peers.pinocchio(robot, single=pinocchio_single)
        say("CasADi: compiling (minutes, the first time) and measuring")
        generated = codegen.casadi(robot)
    single = _single_calls(robot, region, say)
    result: dict[str, Any] = {
        "robot": robot.name,
        "degrees_of_freedom": robot.nv,
        "machine": on,
        "pinocchio": peer if isinstance(peer, str) else asdict(peer),
        "casadi": generated if isinstance(generated, str) else asdict(generated),
        "single_call": single,
        "throughput": _throughput(robot, region, threads, say),
        "partitions": _partitions(robot, region, batches, say),
        "batches": _batches(robot, region, batches, threads, say),
    }
    say("rollouts")
    result["rollouts"] = rollouts.measured(robot, region, pinocchio=pinocchio)
    say("the solver of optimal control")
    result["solver"] = solvers.measured(robot, region, crocoddyl=pinocchio)
    say("the GPU, if there is one")
    result["cuda"] = gpu.measured(robot, region, batches, _options)
    say("accuracy")
    result["accuracy"] = _accuracy(robot, region)
    say("the modelled FPGA")
    planned = plan(assign(trace(robot, GRADIENT), region, Policy()), ii)
    result["fpga_modelled"] = _modelled(planned, batches)
    say("a million single calls")
    one = region.sample(GRADIENT, 1, SEED)
    result["deadline"] = deadline(trace(robot, GRADIENT, **_options(GRADIENT)), one, planned, CLOCK_HZ)
    return result


def _check(batches: Sequence[int], threads: int, ii: int) -> None:
    """All that can be refused before anything is measured."""
    if not batches or min(batches) < 1:
        raise ArgumentError(f"batches {list(batches)}; expected at least one, of 1 sample or more each")
    if threads < 1:
        raise ArgumentError(f"{threads} threads; expected 1 or more")
    check_interval(ii)


def _options(name: str) -> dict[str, Any]:
    """The choices of fewest operations, which are the fastest ones on a CPU."""
    function = FUNCTIONS[name]
    known = function.options.get(next(iter(function.forms)), ())
    return {key: value for key, value in {"frame": "fewest", "mass": "shared"}.items() if key in known}


def _single_calls(robot: Robot, region: Region, say: Say) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for name in STAGES:
        say(f"single calls: {name}")
        inputs = region.sample(name, 1, SEED)
        graph = trace(robot, name, **_options(name))
        rows[name] = {
            str(np.dtype(dtype)): asdict(single_call(Kernel(graph, dtype), inputs))
            for dtype in (np.float64, np.float32)
        }
    return rows


def _throughput(robot: Robot, region: Region, threads: int, say: Say) -> list[dict[str, Any]]:
    """Large batches through the user's class, bound to their arrays; the largest by several threads as well."""
    rows = []
    for name, dtype, layout, count in product(STAGES, (np.float32, np.float64), HOST_LAYOUTS, sorted({1, threads})):
        say(f"batches: {name}, {np.dtype(dtype)}, {layout}, {count} threads")
        options = {"dtype": dtype, "threads": count, **_options(name), **HOST_LAYOUTS[layout]}
        row = {"function": name, "dtype": str(np.dtype(dtype)), "layout": layout, "threads": count}
        with open(robot, name, **options) as accelerator:
            for batch in THROUGHPUT_BATCHES if count == 1 else THROUGHPUT_BATCHES[-1:]:
                run = accelerator.bind(**_filled(accelerator, region, batch))
                measured = timing(run).per(batch)
                rows.append({**row, "batch": batch, **asdict(measured)})
    return rows


def _filled(accelerator: Opened, region: Region, batch: int) -> dict[str, Any]:
    """Inputs of a batch in the arrays that the accelerator offers for them."""
    assert isinstance(accelerator, Accelerator)
    inputs = accelerator.new_inputs(batch)
    for name, value in region.sample(accelerator.function, batch, SEED).items():
        inputs[name][...] = value
    return inputs


def _partitions(robot: Robot, region: Region, batches: Sequence[int], say: Say) -> list[dict[str, Any]]:
    """What a call is cut into, float32 on one thread: split (∂ID alone in C, the rest in float64 numpy), fused (all in
    C, kernel by kernel), completely fused (one kernel)."""
    say("partitions of a call")
    kernel = {name: open(robot, name, dtype=np.float32, **_options(name)) for name in (*PARTS, GRADIENT)}
    reference = {name: trace(robot, name, **_options(name)) for name in PARTS}
    rows = []
    for batch in batches:
        state = _filled(kernel[GRADIENT], region, batch)
        q, qd, tau = (state[key] for key in ("q", "qd", "tau"))

        def split() -> None:
            qdd = evaluate(reference["forward_dynamics"], {"q": q, "qd": qd, "tau": tau})["qdd"]  # noqa: B023
            minv = evaluate(reference["mass_matrix_inverse"], {"q": q})["minv"]  # noqa: B023
            gradient = kernel["inverse_dynamics_gradient"](q=q, qd=qd, qdd=qdd)  # noqa: B023
            for part in (gradient.dtau_dq, gradient.dtau_dqd):
                np.matmul(-minv, part)

        def fused() -> None:
            qdd = kernel["forward_dynamics"](q=q, qd=qd, tau=tau).qdd  # noqa: B023
            minv = kernel["mass_matrix_inverse"](q=q).minv  # noqa: B023
            kernel["forward_dynamics_gradient_given_minv"](q=q, qd=qd, qdd=qdd, minv=minv)  # noqa: B023

        def completely() -> None:
            kernel[GRADIENT](q=q, qd=qd, tau=tau)  # noqa: B023

        for name, call in (("split", split), ("fused", fused), ("completely fused", completely)):
            rows.append({"partition": name, "batch": batch, **asdict(timing(call, 0.3))})
    for accelerator in kernel.values():
        accelerator.close()
    return rows


def _batches(robot: Robot, region: Region, batches: Sequence[int], threads: int, say: Say) -> list[dict[str, Any]]:
    """End to end per batch: numpy arrays in, numpy arrays out, bound to them."""
    rows = []
    devices: list[tuple[str, dict[str, Any]]] = [
        ("cpu", {"dtype": np.float32, "threads": 1}),
        ("cpu", {"dtype": np.float64, "threads": 1}),
        ("cpu", {"dtype": np.float32, "threads": 1, "pack": True}),
        ("cpu", {"dtype": np.float32, "threads": threads}),
        ("numpy", {}),
    ]
    for device, options in devices:
        say(f"end to end: {device}")
        with open(robot, GRADIENT, device=device, **options, **_options(GRADIENT)) as accelerator:
            for batch in batches:
                run = accelerator.bind(**_filled(accelerator, region, batch))
                measured = timing(run, 0.3)
                rows.append(
                    {
                        "device": device,
                        "dtype": str(accelerator.dtype),
                        "threads": options.get("threads", 1),
                        "packed": options.get("pack", False),
                        "batch": batch,
                        **asdict(measured),
                    }
                )
    return rows


def _accuracy(robot: Robot, region: Region) -> dict[str, Any]:
    """Relative L2 error per block over all states, against the graph in float64; for float32 in the frame of fewest
    operations and in the default one, at states like those of the Pinocchio program."""
    random = np.random.default_rng(SEED)
    count = 256
    state = {
        "q": random.uniform(-3.0, 3.0, (count, robot.nq)),
        "qd": random.uniform(-1.0, 1.0, (count, robot.nv)),
        "tau": random.uniform(-1.0, 1.0, (count, robot.nv)),
    }
    normalised(robot, state["q"])
    exact = evaluate(trace(robot, GRADIENT), state)
    rows = {}
    choices: list[tuple[str, Any, dict[str, Any]]] = [
        ("float64", np.float64, {}),
        ("float32", np.float32, {}),
        ("float32 fewest operations", np.float32, _options(GRADIENT)),
    ]
    for label, dtype, options in choices:
        inputs: dict[str, Any] = {key: value.astype(dtype) for key, value in state.items()}
        with open(robot, GRADIENT, dtype=dtype, **options) as accelerator:
            results = accelerator(**inputs)
        rows[label] = {
            name: float(np.linalg.norm(getattr(results, name) - value) / np.linalg.norm(value))
            for name, value in exact.items()
        }
    return rows


def _modelled(planned: Plan, batches: Sequence[int]) -> dict[str, Any]:
    """The datapath at an assumed clock behind an assumed link; cycles are the schedule's, which simulation confirms."""
    graph = planned.formatted.graph
    bytes_in, bytes_out = (sample_bytes(len(side), STREAM_BITS) for side in (graph.input_nodes, graph.result_nodes))
    rows = []
    for batch in batches:
        cycles = planned.latency + planned.ii * (batch - 1)
        transfer = batch * max(bytes_in, bytes_out) / LINK_BYTES  # both ways at once
        seconds = LINK_SECONDS * 2 + max(cycles / CLOCK_HZ, transfer)
        rows.append({"batch": batch, "ns": seconds * 1e9})
    return {
        "ii": planned.ii,
        "latency_cycles": planned.latency,
        "clock_hz_assumed": CLOCK_HZ,
        "link_bytes_per_second_assumed": LINK_BYTES,
        "link_seconds_assumed": LINK_SECONDS,
        "bytes_in": bytes_in,
        "bytes_out": bytes_out,
        "batches": rows,
    }
