"""Create the operator of a function, for a robot and a backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dynagate.base.changed_options import of_call
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.dynamics import FUNCTIONS, of_frame, requested
from dynagate.dynamics.functions.record import SCAN, SCANS
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.forces.options import DEFAULTS, AlgorithmOptions
from dynagate.graph import Graph, trace
from dynagate.graph.region import Region
from dynagate.graph.single_precision import check_single_precision
from dynagate.host import Function
from dynagate.host.devices.fixed import graph_device
from dynagate.operators.compute import CPU, CUDA, AcceleratorCompute, CompiledCompute, Compute, OpenedProduct, Reference
from dynagate.operators.operator import Make, Operator
from dynagate.operators.products import in_entries
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of

COMPILED = {"compiled": (CPU, CUDA), "cpu": (CPU,), "cuda": (CUDA,)}
"""Backends of compiled code -> platforms on which they run."""
NUMPY, FIXED = "numpy", "fixed"
FLOAT, BITS = "float", "bits"
PRODUCT_OPTIONS = {"form", "forces"}
"""Options with which the function table has the derivative products of a function."""

Backend = str | Function
Gradient = str | Function


def of_function(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `operator` from those of a framework's `function`, by name."""
    function, axes = of_frame(call["function"], call["frame"])
    own = {name: call[name] for name in ("robot", "backend", "gradient", "policy", "region")}
    return {**own, "function": function, "algorithm": of_call(AlgorithmOptions, call, frame=axes)}


def operator(
    robot: RobotOrName,
    function: str | Sequence[str],
    *,
    backend: Backend = "compiled",
    gradient: Gradient = FLOAT,
    policy: Policy | None = None,
    region: Region | None = None,
    algorithm: AlgorithmOptions = DEFAULTS,
) -> Operator:
    """Return the operator of a function. The arguments are those of `dynagate.jax.function`.

    Args:
        robot: The robot, its name or its path.
        function: Name of the function, or several names.
        backend: Executor of the function, or a compiled function.
        gradient: Executor of its derivative.
        policy: Formats of integers.
        region: Operating region for which integers are made.
        algorithm: Options of the algorithm.

    Raises:
        ArgumentError: The backend, gradient or function is unknown, or a compiled function computes something else.
        ArgumentTypeError: An argument has another type.
        RobotError: The robot does not exist.
    """
    _check(backend, gradient)
    for name, value in (("policy", policy), ("region", region)):
        if value is not None and backend != FIXED and gradient != BITS:
            raise ArgumentError(
                f"{name} without integers to choose formats for; expected backend='{FIXED}'", code="DG-ARG-048"
            )
    loaded = robot_of(robot)
    function = requested(function).name
    reverse_scan = f"{function}_vjp"
    if algorithm.form == SCAN and reverse_scan in SCANS:
        raise ArgumentError(
            f"form '{SCAN}' of an operator, which is differentiated both ways and again; expected another form, or "
            f"dynagate.compile(robot, '{reverse_scan}', form='{SCAN}')",
            code="DG-ARG-049",
        )
    graph = trace(loaded, function, algorithm)

    def check_single(graph: Graph) -> None:
        check_single_precision(loaded, graph, algorithm)

    platforms = COMPILED[backend if isinstance(backend, str) and backend in COMPILED else "compiled"]
    make: Make = Reference if backend == NUMPY else lambda graph: CompiledCompute(graph, platforms, check_single)
    if backend == FIXED or isinstance(backend, Function):
        compute: Compute = AcceleratorCompute(graph, _accelerator(loaded, graph, backend, "backend", policy, region))
    else:
        compute = make(graph)
    reverse = None
    if gradient != FLOAT:
        if not _is_listed(graph, algorithm):
            raise ArgumentError(
                f"gradient {gradient!r} of {graph.name} with {', '.join(algorithm.changed()) or 'no options'}; "
                f"expected '{FLOAT}', or one of the functions whose products are listed: forward_dynamics, "
                "inverse_dynamics",
                code="DG-ARG-050",
            )
        listed = trace(loaded, f"{graph.name}_vjp", algorithm)
        source = FIXED if gradient == BITS else gradient
        reverse = _accelerator(loaded, listed, source, "gradient", policy, region)
    return _Function(graph, loaded, compute, make, algorithm, reverse)


def _is_listed(graph: Graph, algorithm: AlgorithmOptions) -> bool:
    """Return whether the function table has the derivative products of this function."""
    return f"{graph.name}_vjp" in FUNCTIONS and algorithm.changed().keys() <= PRODUCT_OPTIONS


class _Function(Operator):
    """The operator of a listed function, whose products the table may have in a form that takes fewer operations."""

    def __init__(
        self,
        graph: Graph,
        robot: Robot,
        compute: Compute,
        make: Make,
        algorithm: AlgorithmOptions,
        reverse: Function | None,
    ) -> None:
        super().__init__(graph, robot, compute, make)
        self._options, self._listed = algorithm, _is_listed(graph, algorithm)
        self._reverse = reverse

    def product_graphs(self) -> tuple[Graph, Graph]:
        if not self._listed:
            return super().product_graphs()
        forward, reverse = (
            self._own_inputs_first(
                in_entries(trace(self.robot, f"{self.graph.name}_{kind}", self._options), self.robot, f"{kind}_")
            )
            for kind in ("jvp", "vjp")
        )
        return forward, reverse

    def _own_inputs_first(self, product: Graph) -> Graph:
        """Return the graph of a product with the inputs of this function first, and then their directions or the
        weights in the function's order."""
        names = [port.name for port in self.graph.inputs]
        order = [*names, *(f"delta_{name}" for name in names), *(f"lam_{port.name}" for port in self.graph.outputs)]
        return replace(product, inputs=tuple(sorted(product.inputs, key=lambda port: order.index(port.name))))

    def computes(self, forward: Graph, reverse: Graph) -> tuple[Compute, Compute]:
        if self._reverse is None:
            return super().computes(forward, reverse)
        return self._make(forward), OpenedProduct(reverse, self._reverse, self.robot)


def _check(backend: Backend, gradient: Gradient) -> None:
    for name, value, words in (("backend", backend, (*COMPILED, NUMPY, FIXED)), ("gradient", gradient, (FLOAT, BITS))):
        if not isinstance(value, str | Function):
            raise ArgumentTypeError(
                f"{name} is a {type(value).__name__}; expected one of {', '.join(words)}, or a compiled function",
                code="DG-ARG-051",
            )
        if isinstance(value, str) and value not in words:
            raise ArgumentError(
                f"{name} '{value}'; expected one of {', '.join(words)}, or a compiled function", code="DG-ARG-052"
            )
    if gradient != FLOAT and isinstance(backend, str) and backend != FIXED:
        raise ArgumentError(
            f"gradient {gradient!r} with backend '{backend}'; expected '{FLOAT}' for floating point", code="DG-ARG-053"
        )


def _accelerator(
    robot: Robot, graph: Graph, source: str | Function, role: str, policy: Policy | None, region: Region | None
) -> Function:
    """Return the integers of a graph, or a compiled function after checking that it computes the graph."""
    if not isinstance(source, Function):
        return Function(graph_device(assign(graph, (region or Region.of(robot)).of_robot(robot), policy)))
    accelerator = source.functions.get(graph.name, source)
    device = accelerator.device
    own = [(port.name, tuple(port.shape)) for port in (*device.inputs, *device.outputs)]
    asked = [(port.name, port.shape) for port in (*graph.inputs, *graph.outputs)]
    if (device.robot, device.function) != (robot.name, graph.name) or own != asked:
        raise ArgumentError(
            f"{role} {accelerator!r} computes {device.function} of {device.robot} from "
            f"{', '.join(port.name for port in device.inputs)}; expected {graph.name} of {robot.name} from "
            f"{', '.join(port.name for port in graph.inputs)}",
            code="DG-ARG-054",
        )
    return accelerator
