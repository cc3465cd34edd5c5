"""All measurements of `dynagate bench`: C, numpy and Pinocchio measured here; an FPGA datapath modeled from its
schedule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from itertools import product
from typing import Any, Literal

import numpy as np

from dynagate.base.progress import Progress, quiet
from dynagate.bench import budget, codegen, contacts, gpu, peers, rollouts, solvers
from dynagate.bench.budget import FLOAT32, STAGES, Selection
from dynagate.bench.deadline import deadline
from dynagate.bench.gpu import GRADIENT, LAYOUTS, SEED
from dynagate.bench.measure import less_product, machine, single_call, timing
from dynagate.bench.options import BenchOptions
from dynagate.bench.paper import LEFT_OUT, STEPS, paper
from dynagate.design.words import sample_bytes
from dynagate.dynamics import FUNCTIONS
from dynagate.dynamics.configuration import normalized
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.host import Function, Opened, compile
from dynagate.hw.plan.plan import Plan, plan
from dynagate.native.gpu import has_driver
from dynagate.native.kernel import Kernel
from dynagate.robot import Robot

HOST_LAYOUTS: dict[str, dict[str, Any]] = {**LAYOUTS, "packed planes": {"pack": True, "layout": "planes"}}
THROUGHPUT_BATCHES = (1024, 4096, 8192)
"""Batch sizes. Results of the first stay in a second-level cache; gradients of the last do not, but torques do."""

SEARCHED = 20
"""Largest number of degrees of freedom of a robot whose expression frames are searched."""

MOST_NUMBERS = 200_000_000
"""Largest number of intermediate values of a batch in numpy, which stores many of them. Larger batches are skipped."""

CLOCK_HZ = 250e6
LINK_BYTES = 6.0e9
LINK_SECONDS = 2.0e-6
STREAM_BITS = 512
"""Assumptions for the modeled FPGA.

The clock of the datapath; bytes per second and latency of a PCIe 3.0 × 8 link in each direction; bits of a beat of
float32 streams.
"""

OPTIONS_KEY = "asked"
"""Key of the run's options in the figures of an unfinished run."""


def compare(
    robot: Robot,
    region: Region,
    options: BenchOptions | None = None,
    *,
    progress: Progress = quiet,
    begun: Mapping[str, Any] | None = None,
    keep: Callable[[dict[str, Any]], Any] | None = None,
) -> dict[str, Any]:
    """Measure everything for one robot and return the figures as JSON values.

    The figures hold machine, single calls, partitions, batches, accuracy and modeled FPGA. Times are in ns: per call,
    or per
    sample of a batch. Without `options.everything`, the entry "left_out" lists what `budget` omits for a large robot.

    Args:
        robot: The robot.
        region: The operating region from which states are drawn.
        options: Options of the run.
        progress: Function that receives a line of text before each slow stage.
        begun: Figures of an interrupted run with the same options, which are reused.
        keep: Function that receives the figures after each part; those of the last part are complete.

    Raises:
        CompileError: There is no C compiler.
    """
    options = options or BenchOptions()
    if robot.constraints:
        contacts.check_points(robot)
    states = region.sample(GRADIENT, 4, SEED).values()
    drawn = hashlib.sha256(b"".join(np.ascontiguousarray(value).tobytes() for value in states)).hexdigest()
    requested = {**options.as_dict(), "states": drawn}
    result: dict[str, Any] = {"robot": robot.name, "degrees_of_freedom": robot.nv, "machine": machine()}
    result[OPTIONS_KEY] = requested
    earlier = begun if begun is not None and can_resume(begun, result) else {}
    if earlier:
        result["machine"] = earlier["machine"]
    for name, measure in measurements(robot, region, requested, progress, result).items():
        result[name] = earlier[name] if name in earlier else measure()
        if keep is not None:
            keep(result)
    del result[OPTIONS_KEY]
    if keep is not None:
        keep(result)
    return result


def can_resume(begun: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether figures belong to an interrupted run of the same robot, options and machine."""
    same = all(begun.get(name) == now[name] for name in ("robot", "degrees_of_freedom", OPTIONS_KEY))
    same = same and isinstance(begun.get("machine"), dict)
    machines = [
        {key: value for key, value in each["machine"].items() if key != "date"} for each in (begun, now) if same
    ]
    return same and machines[0] == machines[1]


def measurements(
    robot: Robot, region: Region, requested: Mapping[str, Any], progress: Progress, result: Mapping[str, Any]
) -> dict[str, Callable[[], Any]]:
    """Return the measurements in order, by their name in the result. `result` holds the results of the earlier ones."""
    batches, threads, peers_too = requested["batches"], requested["threads"], requested["pinocchio"]
    fit = budget.choose(
        lambda name: len(trace(robot, name, **options_for(robot, name))),
        card=has_driver(),
        peers=peers_too,
        everything=requested["everything"],
    )
    planned = cache(lambda name: plan(assign(trace(robot, name), region, Policy()), requested["ii"]))

    def pinocchio() -> Any:
        if not peers_too:
            return "not requested"
        progress("Pinocchio: compiling (minutes, the first time) and measuring")
        peer = peers.pinocchio(robot, single=requested["pinocchio_single"])
        return peer if isinstance(peer, str) else asdict(peer)

    def casadi() -> Any:
        if not peers_too:
            return "not requested"
        progress("CasADi: compiling (minutes, the first time) and measuring")
        peer = codegen.casadi(robot)
        return peer if isinstance(peer, str) else asdict(peer)

    def announced(text: str, measure: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            progress(text)
            return measure()

        return run

    def million() -> Any:
        one = region.sample(GRADIENT, 1, SEED)
        return deadline(trace(robot, GRADIENT, **options_for(robot, GRADIENT)), one, planned(GRADIENT), CLOCK_HZ)

    def modeled() -> Any:
        model = modeled_figures(planned(GRADIENT), batches)
        model["partitions"] = _modeled_partitions(planned, result["partitions"], model["batches"])
        stages = dict.fromkeys((*STAGES, *STEPS))
        model["single_call"] = {name: planned(name).latency / CLOCK_HZ * 1e9 for name in stages}
        return model

    def unless_left_out(what: str, measure: Callable[[], Any]) -> Callable[[], Any]:
        return measure if fit.has(what) else lambda: LEFT_OUT.format(what)

    held = {"contacts": announced("contacts", lambda: contacts.measured(robot, region, pinocchio=peers_too))}
    parts = {
        "left_out": fit.text,
        "pinocchio": pinocchio,
        "casadi": casadi,
        "single_call": lambda: _single_calls(robot, region, fit, progress),
        "throughput": lambda: _throughput(robot, region, threads, fit, progress),
        "partitions": lambda: _partitions(robot, region, batches, fit, progress),
        "batches": lambda: _batches(robot, region, batches, threads, fit, progress),
        "rollouts": announced("rollouts", lambda: rollouts.measured(robot, region, pinocchio=peers_too)),
        "solver": announced(
            "the solver of optimal control", lambda: solvers.measured(robot, region, crocoddyl=peers_too)
        ),
        **(held if robot.constraints else {}),
        "cuda": announced(
            "the GPU, if there is one", lambda: gpu.measured(robot, region, batches, partial(options_for, robot))
        ),
        "accuracy": announced("accuracy", lambda: _accuracy(robot, fit)),
        "fpga_modeled": announced("the modeled FPGA", modeled),
        "deadline": announced("a million single calls", million),
        "paper": lambda: paper({**result, "threads": threads}),
    }
    of_budget = {
        "casadi": budget.CASADI,
        "rollouts": budget.ROLLOUTS,
        "cuda": budget.CARD,
        "fpga_modeled": budget.DATAPATHS,
        "deadline": budget.DATAPATHS,
    }
    return parts | {part: unless_left_out(what, parts[part]) for part, what in of_budget.items()}


def options_for(robot: Robot, name: str) -> dict[str, Any]:
    """Return the options with the fewest operations, which are the fastest ones on a CPU.

    The search for an expression frame traces once for each link, so large robots use the default frame, which a count
    of products chooses. For Atlas both are the same.
    """
    function = FUNCTIONS[name]
    accepted = function.options.get(next(iter(function.forms)), ())
    fastest = {"mass": "shared"} if robot.nv > SEARCHED else {"frame": "fewest", "mass": "shared"}
    return {key: value for key, value in fastest.items() if key in accepted}


def _single_calls(robot: Robot, region: Region, fit: Selection, progress: Progress) -> dict[str, Any]:
    """Measure single calls from C for each function, in float64 and float32."""
    rows: dict[str, Any] = {}
    for name in dict.fromkeys((*STAGES, *STEPS)):
        dtypes = [dtype for dtype in (np.float64, np.float32) if fit.has(str(np.dtype(dtype)), name)]
        if not dtypes:
            continue
        progress(f"single calls: {name}")
        inputs = region.sample(name, 1, SEED)
        graph = trace(robot, name, **options_for(robot, name))
        rows[name] = {str(np.dtype(dtype)): asdict(single_call(Kernel(graph, dtype), inputs)) for dtype in dtypes}
    return rows


def _throughput(robot: Robot, region: Region, threads: int, fit: Selection, progress: Progress) -> list[dict[str, Any]]:
    """Measure large batches through `compile` with bound arrays; the largest batch with several threads too."""
    rows = []
    for name, dtype, layout, count in product(STAGES, (np.float32, np.float64), HOST_LAYOUTS, sorted({1, threads})):
        options = {"dtype": dtype, "threads": count, **HOST_LAYOUTS[layout]}
        if not fit.has(_measurement_name(options), name):
            continue
        progress(f"batches: {name}, {np.dtype(dtype)}, {layout}, {count} threads")
        row = {"function": name, "dtype": str(np.dtype(dtype)), "layout": layout, "threads": count}
        with compile(robot, name, **options, **options_for(robot, name)) as accelerator:
            for batch in THROUGHPUT_BATCHES if count == 1 else THROUGHPUT_BATCHES[-1:]:
                run = accelerator.bind(**_filled(accelerator, region, batch))
                measured = timing(run).per(batch)
                rows.append({**row, "batch": batch, **asdict(measured)})
    return rows


def _measurement_name(options: Mapping[str, Any]) -> str:
    """Return the name in `budget` of the kernels with these options; without options, numpy."""
    if not options:
        return budget.NUMPY
    packed = "packed " if options.get("pack") else ""
    return f"{packed}{np.dtype(options['dtype'])}"


def _filled(accelerator: Opened, region: Region, batch: int) -> dict[str, Any]:
    """Return the inputs of a batch, in arrays that the accelerator provides."""
    assert isinstance(accelerator, Function)
    inputs = accelerator.new_inputs(batch)
    for name, value in region.sample(accelerator.function, batch, SEED).items():
        inputs[name][...] = value
    return inputs


def _partitions(
    robot: Robot, region: Region, batches: Sequence[int], fit: Selection, progress: Progress
) -> list[dict[str, Any]]:
    """Measure how a call can be divided between host and accelerator, in C, float32, on one thread.

    "split" computes q̈, M⁻¹ and ∂ID with a kernel each, then the product with M⁻¹. "fused" has that product in the last
    kernel. "completely fused" has one kernel. "host_ns" is the time of the host's part next to a datapath of the last
    kernel. Partitions with a function that `fit` leaves out are not measured.
    """
    progress("partitions of a call")
    needed = {name: (*HOST_FUNCTIONS[name], function) for name, function in ON_CHIP.items()}
    needed = {name: all_of for name, all_of in needed.items() if all(fit.has(FLOAT32, one) for one in all_of)}
    names = dict.fromkeys(one for all_of in needed.values() for one in all_of)
    kernel = {name: compile(robot, name, dtype=np.float32, **options_for(robot, name)) for name in names}
    rows = []
    for batch in batches:
        arrays = _filled(kernel[GRADIENT], region, batch)
        calls = {name: _called(name, kernel[name], arrays) for name in names}
        for name, all_of in needed.items():
            *ahead, last = (calls[one] for one in all_of)
            parts = ("dtau_dq", "dtau_dqd") if name == "split" else ()
            behind = [less_product(arrays["minv"], arrays[part])[1] for part in parts]
            beside = timing(partial(_all, [*ahead, *behind]), 0.2).ns if ahead else 0.0
            taken = timing(partial(_all, [*ahead, last, *behind]), 0.3)
            rows.append({"partition": name, "batch": batch, **asdict(taken), "host_ns": beside})
    for accelerator in kernel.values():
        accelerator.close()
    return rows


def _called(name: str, kernel: Opened, arrays: dict[str, Any]) -> Callable[[], Any]:
    """Return a function that calls a kernel on arrays by name. Its results are added to the arrays and overwritten by
    each call.
    """
    run = kernel.bind(**{argument.name: arrays[argument.name] for argument in FUNCTIONS[name].inputs})
    arrays |= run()
    return run


def _all(calls: Sequence[Callable[[], Any]]) -> None:
    """Call functions one after another."""
    for call in calls:
        call()


def _batches(
    robot: Robot, region: Region, batches: Sequence[int], threads: int, fit: Selection, progress: Progress
) -> list[dict[str, Any]]:
    """Measure batches end to end: numpy arrays in, numpy arrays out, with bound arrays."""
    rows = []
    devices: list[tuple[Literal["cpu", "numpy"], dict[str, Any]]] = [
        ("cpu", {"dtype": np.float32, "threads": 1}),
        ("cpu", {"dtype": np.float64, "threads": 1}),
        ("cpu", {"dtype": np.float32, "threads": 1, "pack": True}),
        ("cpu", {"dtype": np.float32, "threads": threads}),
        ("numpy", {}),
    ]
    operations = len(trace(robot, GRADIENT, **options_for(robot, GRADIENT)))
    for device, options in devices:
        if not fit.has(_measurement_name(options), GRADIENT):
            continue
        progress(f"end to end: {device}")
        with compile(robot, GRADIENT, device=device, **options, **options_for(robot, GRADIENT)) as accelerator:
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


def _accuracy(robot: Robot, fit: Selection) -> dict[str, Any]:
    """Return the relative L2 error of each output over all states, against the graph in float64.

    float32 is measured in the frame with the fewest operations and in the default one, at states like those of the
    Pinocchio program.
    """
    random = np.random.default_rng(SEED)
    count = 256
    state = {
        "q": random.uniform(-3.0, 3.0, (count, robot.nq)),
        "qd": random.uniform(-1.0, 1.0, (count, robot.nv)),
        "tau": random.uniform(-1.0, 1.0, (count, robot.nv)),
    }
    normalized(robot, state["q"])
    fewest = options_for(robot, GRADIENT)
    rows = {}
    choices: list[tuple[str, Any, dict[str, Any]]] = [("float32 fewest operations", np.float32, fewest)]
    if fit.has(budget.DEFAULT_FRAME):
        choices = [("float64", np.float64, {}), ("float32", np.float32, {}), *choices]
    exact = evaluate(trace(robot, GRADIENT, **choices[0][2]), state)
    for label, dtype, options in choices:
        inputs: dict[str, Any] = {key: value.astype(dtype) for key, value in state.items()}
        with compile(robot, GRADIENT, dtype=dtype, **options) as accelerator:
            results = accelerator(**inputs)
        rows[label] = {
            name: float(np.linalg.norm(getattr(results, name) - value) / np.linalg.norm(value))
            for name, value in exact.items()
        }
    return rows


HOST_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "split": ("forward_dynamics", "mass_matrix_inverse"),
    "fused": ("forward_dynamics", "mass_matrix_inverse"),
    "completely fused": (),
}
"""Functions that the host computes in each partition before those of ON_CHIP. In "split" it multiplies by M⁻¹
afterwards.
"""

ON_CHIP = {
    "split": "inverse_dynamics_gradient",
    "fused": "forward_dynamics_gradient_given_minv",
    "completely fused": GRADIENT,
}
"""Function that a datapath computes in each partition. The host's part is measured."""


def _modeled_partitions(
    planned: Callable[[str], Plan], measured: Sequence[Mapping[str, Any]], whole: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return, for each partition and batch, the measured time of the host's part plus the modeled time of the datapath.

    Args:
        planned: Plan of a function's datapath.
        measured: Measured partitions.
        whole: Modeled times of the datapath of the complete gradient.
    """
    batches = [row["batch"] for row in whole]
    chip = {name: modeled_figures(planned(function), batches)["batches"] for name, function in ON_CHIP.items()}
    modeled = {(name, row["batch"]): row["ns"] for name, rows in chip.items() for row in rows}
    return [
        {
            "partition": row["partition"],
            "batch": row["batch"],
            "ns": row["host_ns"] + modeled[row["partition"], row["batch"]],
            "host_ns": row["host_ns"],
        }
        for row in measured
    ]


def modeled_figures(planned: Plan, batches: Sequence[int]) -> dict[str, Any]:
    """Return modeled times of a datapath at an assumed clock behind an assumed link, from the exact cycles of its
    schedule.
    """
    graph = planned.formatted.graph
    bytes_in, bytes_out = (sample_bytes(len(side), STREAM_BITS) for side in (graph.input_nodes, graph.result_nodes))
    rows = []
    for batch in batches:
        cycles = planned.latency + planned.ii * (batch - 1)
        transfer = batch * max(bytes_in, bytes_out) / LINK_BYTES  # both directions at the same time
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
