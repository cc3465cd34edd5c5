"""Add a bound of each result's own error: the output `certificate` of forward dynamics.

At a computed q̈ the torques r = ID(q, q̇, q̈) - τ are left over, and q̈ errs by M⁻¹ r, whatever computed it and
however it was rounded. With weights w that bound M⁻¹ in a region (`fixedpoint.proof.mass_bound`), |M⁻¹ r| <= |w r|. So
a certificate is the length of w r, and an offset for the errors of r itself.

No root is needed: |(a, b)| <= max(|a|, |b|) + (√2 - 1) min(|a|, |b|), with equality where one is zero and where both
are equal.
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
"""Functions whose output q̈ has a certificate."""

LESSER = 0.41421357
"""√2 - 1, rounded up."""


def check_certificate(function: str, algorithm: AlgorithmOptions, robot: Robot) -> None:
    """Raises ValueError: results of this function, or with these options, cannot be certified."""
    if function not in FUNCTIONS:
        forces = ", which forces of constraints move too" if function.startswith("constrained") else ""
        text = f"of {function}; expected one of {', '.join(FUNCTIONS)}: it bounds the error of qdd{forces}"
        raise OptionError("certificate", text)
    if algorithm.outputs is not None and "qdd" not in algorithm.outputs:
        raise OptionError("certificate", f"without output 'qdd' of {function}; expected qdd among the outputs")
    if robot.variable:
        raise OptionError(
            "certificate",
            f"with variable parameters {', '.join(robot.variable)}; expected one of them: it takes a bound of the mass "
            "matrix, which the parameters change; a robot with other numbers can be certified",
        )


def _named(name: str) -> str:
    """Return the name in a graph with a certificate of a node of inverse dynamics."""
    return f"{CERTIFICATE}{'.' if name.partition('.')[0] in OPS else '_'}{name}"


@dataclass(frozen=True)
class WithCertificate:
    """graph: with the output `certificate`. place: per node of inverse dynamics the node that computes it. residual,
    weighted: per degree of freedom the nodes of r and of r times its weight. others: more nodes of the norm."""

    graph: Graph
    place: tuple[int, ...]
    residual: tuple[int, ...]
    weighted: tuple[int, ...]
    others: tuple[int, ...]


def with_certificate(graph: Graph, inverse: Graph, weights: Sequence[float], offset: float) -> WithCertificate:
    """A graph of forward dynamics that certifies its q̈.

    inverse: the graph of inverse dynamics of the same inputs. weights: of r, per degree of freedom. offset: in rad/s²
    or m/s². Nodes of both graphs that are the same operation of the same operands are shared.
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
        """Per node of inverse dynamics, at the computed q̈, its node."""
        sources = {port.name: port.nodes for port in (*graph.inputs, *graph.outputs)}
        inputs = {i: k for port in inverse.inputs for i, k in zip(port.nodes, sources[port.name], strict=True)}
        return self.copy(inverse.nodes, inputs, _named)

    def norm(self, values: Sequence[int]) -> int:
        """A bound of the length of a vector, from the pairs of its entries' magnitudes."""
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
