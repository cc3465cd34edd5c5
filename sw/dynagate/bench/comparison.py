"""Measure what is here: C, numpy, Pinocchio; model what is not: the datapath on an FPGA, from its schedule."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.bench import codegen, contacts, gpu, peers, rollouts, solvers
from dynagate.bench.deadline import deadline
from dynagate.bench.gpu import GRADIENT, LAYOUTS, PARTS, SEED
from dynagate.bench.measure import less_product, machine, single_call, timing
from dynagate.bench.paper import STEPS, paper
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

SEARCHED = 20
"""Most degrees of freedom of a robot whose frames are searched for."""

MOST_NUMBERS = 200_000_000
"""Of a batch's intermediate values in numpy, which keeps many of them: larger batches are left out there."""

CLOCK_HZ = 250e6
LINK_BYTES = 6.0e9
LINK_SECONDS = 2.0e-6
STREAM_BITS = 512
"""Assumed for the modelled FPGA: clock of the datapath; bytes a second and latency of a PCIe 3.0 × 8 link each way;
bits of a beat of float32 streams."""

ASKED = "asked"
"""In the figures of a run that is not over: what was asked for."""
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
    begun: Mapping[str, Any] | None = None,
    keep: Callable[[dict[str, Any]], Any] | None = None,
) -> dict[str, Any]:
    """All figures of one run, as JSON takes them: machine, single calls, partitions, batches, accuracy, modelled FPGA.

    Times are nanoseconds: per call, or per sample of a batch. begun: figures of a run of the same that was interrupted,
    which are taken over. keep: called with the figures after each part; those of the last part are whole.
    Raises ValueError for an empty batch, no threads or an interval that no datapath has, CompileError where there is no
    C compiler.
    """
    say = step or (lambda text: None)
    _check(batches, threads, ii)
    if robot.constraints:
        contacts.check_points(robot)
    asked = {"batches": list(batches), "threads": threads, "ii": ii}
    states = region.sample(GRADIENT, 4, SEED).values()
    drawn = hashlib.sha256(b"".join(np.ascontiguousarray(value).tobytes() for value in states)).hexdigest()
    asked |= {"pinocchio": pinocchio, "pinocchio_single": pinocchio_single, "states": drawn}
    result: dict[str, Any] = {"robot": robot.name, "degrees_of_freedom": robot.nv, "machine": machine()}
    result[ASKED] = asked
    known = begun if begun is not None and goes_on(begun, result) else {}
    if known:
        result["machine"] = known["machine"]
    for name, measure in _parts(robot, region, asked, say, result).items():
        result[name] = known[name] if name in known else measure()
        if keep is not None:
            keep(result)
    del result[ASKED]
    if keep is not None:
        keep(result)
    return result


def goes_on(begun: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether figures are of an interrupted run of the same robot, options and machine."""
    same = all(begun.get(name) == now[name] for name in ("robot", "degrees_of_freedom", ASKED))
    machines = [
        {key: value for key, value in each["machine"].items() if key != "date"} for each in (begun, now) if same
    ]
    return same and machines[0] == machines[1]


def _parts(
    robot: Robot, region: Region, asked: Mapping[str, Any], say: Say, result: Mapping[str, Any]
) -> dict[str, Callable[[], Any]]:
    """What is measured, in order, by its name in the result. result: of the parts before."""
    batches, threads, peers_too = asked["batches"], asked["threads"], asked["pinocchio"]
    planned = cache(lambda name: plan(assign(trace(robot, name), region, Policy()), asked["ii"]))

    def pinocchio() -> Any:
        if not peers_too:
            return "not asked for"
        say("Pinocchio: compiling (minutes, the first time) and measuring")
        peer = peers.pinocchio(robot, single=asked["pinocchio_single"])
        return peer if isinstance(peer, str) else asdict(peer)

    def casadi() -> Any:
        if not peers_too:
            return "not asked for"
        say("CasADi: compiling (minutes, the first time) and measuring")
        peer = codegen.casadi(robot)
        return peer if isinstance(peer, str) else asdict(peer)

    def said(text: str, measure: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            say(text)
            return measure()

        return run

    def million() -> Any:
        one = region.sample(GRADIENT, 1, SEED)
        return deadline(trace(robot, GRADIENT, **_options(robot, GRADIENT)), one, planned(GRADIENT), CLOCK_HZ)

    def modelled() -> Any:
        model = _modelled(planned(GRADIENT), batches)
        model["partitions"] = _modelled_partitions(planned, result["partitions"], model["batches"])
        stages = dict.fromkeys((*STAGES, *STEPS))
        model["single_call"] = {name: planned(name).latency / CLOCK_HZ * 1e9 for name in stages}
        return model

    held = {"contacts": said("contacts", lambda: contacts.measured(robot, region, pinocchio=peers_too))}
    return {
        "pinocchio": pinocchio,
        "casadi": casadi,
        "single_call": lambda: _single_calls(robot, region, say),
        "throughput": lambda: _throughput(robot, region, threads, say),
        "partitions": lambda: _partitions(robot, region, batches, say),
        "batches": lambda: _batches(robot, region, batches, threads, say),
        "rollouts": said("rollouts", lambda: rollouts.measured(robot, region, pinocchio=peers_too)),
        "solver": said("the solver of optimal control", lambda: solvers.measured(robot, region, crocoddyl=peers_too)),
        **(held if robot.constraints else {}),
        "cuda": said(
            "the GPU, if there is one", lambda: gpu.measured(robot, region, batches, partial(_options, robot))
        ),
        "accuracy": said("accuracy", lambda: _accuracy(robot, region)),
        "fpga_modelled": said("the modelled FPGA", modelled),
        "deadline": said("a million single calls", million),
        "paper": lambda: paper({**result, "threads": threads}),
    }


def _check(batches: Sequence[int], threads: int, ii: int) -> None:
    """All that can be refused before anything is measured."""
    if not batches or min(batches) < 1:
        raise ArgumentError(f"batches {list(batches)}; expected at least one, of 1 sample or more each")
    if threads < 1:
        raise ArgumentError(f"{threads} threads; expected 1 or more")
    check_interval(ii)


def _options(robot: Robot, name: str) -> dict[str, Any]:
    """The choices of fewest operations, which are the fastest ones on a CPU. The search for a frame traces once for
    each link, so large robots have the default one, by a count of products: Atlas' is the same."""
    function = FUNCTIONS[name]
    known = function.options.get(next(iter(function.forms)), ())
    chosen = {"mass": "shared"} if robot.nv > SEARCHED else {"frame": "fewest", "mass": "shared"}
    return {key: value for key, value in chosen.items() if key in known}


def _single_calls(robot: Robot, region: Region, say: Say) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for name in dict.fromkeys((*STAGES, *STEPS)):
        say(f"single calls: {name}")
        inputs = region.sample(name, 1, SEED)
        graph = trace(robot, name, **_options(robot, name))
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
        options = {"dtype": dtype, "threads": count, **_options(robot, name), **HOST_LAYOUTS[layout]}
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
    """What a call is cut into, float32 on one thread, all of it in C: split (q̈, M⁻¹ and ∂ID by a kernel each, then
    the product with M⁻¹), fused (that product within the last kernel), completely fused (one kernel). "host_ns": of
    this, what a host has to do beside a datapath of the last kernel."""
    say("partitions of a call")
    kernel = {name: open(robot, name, dtype=np.float32, **_options(robot, name)) for name in (*PARTS, GRADIENT)}
    rows = []
    for batch in batches:
        state = _filled(kernel[GRADIENT], region, batch)
        q, qd, tau = (state[key] for key in ("q", "qd", "tau"))

        def bound(name: str, **inputs: Any) -> tuple[Any, Any]:
            """A call on these arrays, and the results that it writes again and again."""
            run = kernel[name].bind(**inputs)
            return run, run()

        accelerations, first = bound("forward_dynamics", q=q, qd=qd, tau=tau)
        inverses, second = bound("mass_matrix_inverse", q=q)
        gradients, third = bound("inverse_dynamics_gradient", q=q, qd=qd, qdd=first.qdd)
        products, _ = bound("forward_dynamics_gradient_given_minv", q=q, qd=qd, qdd=first.qdd, minv=second.minv)
        whole, _ = bound(GRADIENT, q=q, qd=qd, tau=tau)
        ahead = [accelerations, inverses]
        behind = [less_product(second.minv, part)[1] for part in (third.dtau_dq, third.dtau_dqd)]
        calls = {"split": [*ahead, gradients, *behind], "fused": [*ahead, products], "completely fused": [whole]}
        host = {"split": [*ahead, *behind], "fused": ahead, "completely fused": []}
        for name, called in calls.items():
            beside = timing(partial(_all, host[name]), 0.2).ns if host[name] else 0.0
            taken = timing(partial(_all, called), 0.3)
            rows.append({"partition": name, "batch": batch, **asdict(taken), "host_ns": beside})
    for accelerator in kernel.values():
        accelerator.close()
    return rows


def _all(calls: Sequence[Callable[[], Any]]) -> None:
    for call in calls:
        call()


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
    operations = len(trace(robot, GRADIENT, **_options(robot, GRADIENT)))
    for device, options in devices:
        say(f"end to end: {device}")
        with open(robot, GRADIENT, device=device, **options, **_options(robot, GRADIENT)) as accelerator:
            for batch in batches:
                if device == "numpy" and batch > batches[0] and batch * operations > MOST_NUMBERS:
                    continue
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
        ("float32 fewest operations", np.float32, _options(robot, GRADIENT)),
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


ON_CHIP = {
    "split": "inverse_dynamics_gradient",
    "fused": "forward_dynamics_gradient_given_minv",
    "completely fused": GRADIENT,
}
"""What a datapath computes in each partition; the rest is the host's, measured."""


def _modelled_partitions(
    planned: Callable[[str], Plan], measured: Sequence[Mapping[str, Any]], whole: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Per partition and batch: the host's part, which was measured, and then the datapath's, modelled as `_modelled`
    has it. whole: of the datapath of the whole gradient."""
    batches = [row["batch"] for row in whole]
    chip = {name: _modelled(planned(function), batches)["batches"] for name, function in ON_CHIP.items()}
    modelled = {(name, row["batch"]): row["ns"] for name, rows in chip.items() for row in rows}
    return [
        {
            "partition": row["partition"],
            "batch": row["batch"],
            "ns": row["host_ns"] + modelled[row["partition"], row["batch"]],
            "host_ns": row["host_ns"],
        }
        for row in measured
    ]


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
