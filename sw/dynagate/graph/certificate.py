"""Add a bound of each result's error to forward dynamics: the output `certificate`.

At a computed q̈ the residual torques are r = ID(q, q̇, q̈) - τ. The error of q̈ is M⁻¹ r, whatever computed it and
however it was rounded. With weights w that bound M⁻¹ in an operating region (`fixedpoint.proof.mass_bound`), |M⁻¹ r| <=
|w r|. The certificate is therefore the length of w r, plus an offset for the rounding errors of r.

No square root is needed: |(a, b)| <= max(|a|, |b|) + (√2 - 1) min(|a|, |b|). The two sides are equal if one number is
zero or both are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dynagate.base.errors import OptionError
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.builder import GraphBuilder
from dynagate.graph.graph import Graph, Node, Port
from dynagate.graph.ops import OPS
from dynagate.robot import Robot

CERTIFICATE = "certificate"
FUNCTIONS = ("forward_dynamics", "forward_dynamics_gradient")
"""Names of the functions whose output q̈ can have a certificate."""

LESSER = 0.41421357
"""Factor of the smaller of two magnitudes in the bound of their length: √2 - 1, rounded up."""


def check_certificate(function: str, algorithm: AlgorithmOptions, robot: Robot) -> None:
    """Raise OptionError if the results of a function with these options cannot have a certificate."""
    if function not in FUNCTIONS:
        forces = ", which forces of constraints move too" if function.startswith("constrained") else ""
        text = f"of {function}; expected one of {', '.join(FUNCTIONS)}: it bounds the error of qdd{forces}"
        raise OptionError("certificate", text, code="DG-PROOF-009")
    if algorithm.outputs is not None and "qdd" not in algorithm.outputs:
        raise OptionError(
            "certificate", f"without output 'qdd' of {function}; expected qdd among the outputs", code="DG-PROOF-010"
        )
    if robot.variable:
        raise OptionError(
            "certificate",
            f"with variable parameters {', '.join(robot.variable)}; expected one of them: it takes a bound of the mass "
            "matrix, which the parameters change; a robot with other numbers can be certified",
            code="DG-PROOF-011",
        )


def _named(name: str) -> str:
    """Return the name in a graph with a certificate of a node of inverse dynamics."""
    return f"{CERTIFICATE}{'.' if name.partition('.')[0] in OPS else '_'}{name}"


@dataclass(frozen=True)
class WithCertificate:
    """A graph of forward dynamics with a certificate, and the nodes that were added for it."""

    graph: Graph
    """The graph, with the output `certificate`."""
    place: tuple[int, ...]
    """For each node of inverse dynamics, the node of `graph` that computes it."""
    residual: tuple[int, ...]
    """The nodes of r, one for each degree of freedom."""
    weighted: tuple[int, ...]
    """The nodes of r times its weight, one for each degree of freedom."""
    others: tuple[int, ...]
    """The other nodes of the norm."""


def with_certificate(graph: Graph, inverse: Graph, weights: Sequence[float], offset: float) -> WithCertificate:
    """Add a certificate of q̈ to a graph of forward dynamics. Equal operations of both graphs are shared.

    Args:
        graph: The graph of forward dynamics.
        inverse: The graph of inverse dynamics with the same inputs.
        weights: Weights of r, one for each degree of freedom.
        offset: Bound on the error that rounding of r causes, in rad/s² or m/s².

    Returns:
        The graph and its new nodes.
    """
    editor = _Editor(graph)
    place = editor.joined(graph, inverse)
    torques = next(port.nodes for port in inverse.outputs if port.name == "tau")
    applied = next(port.nodes for port in graph.inputs if port.name == "tau")
    residual = [
        editor.new("sub", (place[a], b), None, f"r_{k}") for k, (a, b) in enumerate(zip(torques, applied, strict=True))
    ]
    weighted = [
        editor.new("mul_const", (r,), w, f"w_{k}") for k, (r, w) in enumerate(zip(residual, weights, strict=True))
    ]
    first = len(editor.nodes)
    bound = editor.new("add_const", (editor.norm(weighted),), offset, "bound")
    nodes = tuple(editor.nodes)
    outputs = (*graph.outputs, Port(CERTIFICATE, (), (bound,)))
    whole = replace(graph, nodes=nodes, outputs=outputs).check()
    return WithCertificate(whole, tuple(place), tuple(residual), tuple(weighted), tuple(range(first, len(nodes))))


class _Editor(GraphBuilder):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.nodes, lambda node: node.op != "input")

    def new(self, op: str, args: tuple[int, ...], constant: float | None, name: str) -> int:
        return self.append(Node(op, args, constant, f"{CERTIFICATE}.{name}"))

    def joined(self, graph: Graph, inverse: Graph) -> list[int]:
        """Add inverse dynamics at the computed q̈, and return the position of each of its nodes."""
        sources = {port.name: port.nodes for port in (*graph.inputs, *graph.outputs)}
        inputs = {i: k for port in inverse.inputs for i, k in zip(port.nodes, sources[port.name], strict=True)}
        return self.copy(inverse.nodes, inputs, _named)

    def norm(self, values: Sequence[int]) -> int:
        """Add nodes that bound the length of a vector by pairwise combination of magnitudes, and return the
        last one.
        """
        sizes = []
        for k, value in enumerate(values):
            sizes.append(self.new("select", (value, value, self.new("neg", (value,), None, f"n_{k}")), None, f"a_{k}"))
        count = 0
        while len(sizes) > 1:
            a, b = sizes[:2]
            larger = self.new("sub", (a, b), None, f"d_{count}")
            most = self.new("select", (larger, a, b), None, f"max_{count}")
            least = self.new("select", (larger, b, a), None, f"min_{count}")
            part = self.new("mul_const", (least,), LESSER, f"less_{count}")
            sizes = [*sizes[2:], self.new("add", (most, part), None, f"norm_{count}")]
            count += 1
        return sizes[0]
