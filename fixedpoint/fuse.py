"""Convert a formatted graph to multiply-adds of one word length, for a processor.

A product that only one sum reads is merged with it: r = ± a b ± c, exact, rounded once. Signs and powers of two are
free:
readers apply a minus sign, and a power of two moves a binary point. Factors and terms that the robot fixes become
constants, which a processor reads like other values.

The result is a formatted graph, whose integers define what the processor computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from dynagate.base import philox
from dynagate.base.errors import ArgumentError, Error
from dynagate.fixedpoint.format import HALF_UP, Arithmetic, Format
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.graph.builder import unique
from dynagate.graph.graph import Node
from dynagate.graph.ops import OPS, PRODUCTS, SUMS, TRIG

MOST_SHIFT = 31
"""Largest shift of an addend before the sum, and of the sum after it, in bits: a shift amount has 5 bits."""
FEWEST_ANGLE_BITS = 3
"""Smallest number of integer bits of an angle, so that robots share a sine unit: ±8 rad."""
NOISE_WHOLE = philox.WIDTH - 1 - philox.FRAC
"""Integer bits of random numbers."""
EXPONENT = Format(16, 0)
"""Format of the exponent of a shift."""
SIGNS = {(1, 1): ("multiply_add", 1), (1, -1): ("multiply_sub", 1), (-1, 1): ("sub_multiply", 1)}
"""Operation, and sign of the value that it stores, by the signs of product and addend."""
SIGNS[-1, -1] = ("multiply_add", -1)
"""Signs of product and addend -> the operation, and the sign of what it stores."""


class FuseError(Error, ValueError):
    """A graph cannot be converted to one word length; the text names the node."""


def angle_format(formatted: FormattedGraph, word: int) -> Format:
    """Return the format of the operands of all sines: as many integer bits as the largest needs."""
    graph, formats = formatted.graph, formatted.formats
    angles = [formats[node.args[0]] for node in graph.nodes if node.op in TRIG]
    whole = max((fmt.width - 1 - fmt.frac for fmt in angles), default=0)
    return Format(word, word - 1 - max(whole, FEWEST_ANGLE_BITS))


def exponential_formats(formatted: FormattedGraph, word: int) -> tuple[Format, Format]:
    """Return one format for the operands of all exponentials, and one for their results."""
    nodes, formats = formatted.graph.nodes, formatted.formats
    results = [i for i, node in enumerate(nodes) if node.op == "exp"]
    whole = [
        max((f.width - 1 - f.frac for f in each), default=1)
        for each in ([formats[nodes[i].args[0]] for i in results], [formats[i] for i in results])
    ]
    operand, result = (Format(word, word - 1 - max(bits, 1)) for bits in whole)
    return operand, result


def root_frac(source: Format) -> int:
    """Return the fraction bits of a root of an operand in this format; one shift, word + 1, serves all roots."""
    return (source.width + 1 + source.frac - 2) // 2


def fused(
    formatted: FormattedGraph,
    angle: Format | None = None,
    exponential: tuple[Format, Format] | None = None,
    word: int | None = None,
) -> FormattedGraph:
    """Convert a graph to multiply-adds of one word length.

    Binary points stay, except those of angles, which have `angle_format`, and of roots and their operands. Narrower
    values get more integer bits. An addend whose binary point is too far from the product's stays separate.

    Args:
        formatted: Graph with formats.
        angle: Format of the operands of all sines; `angle_format` unless given.
        exponential: Formats of the operands and results of all exponentials; `exponential_formats` unless given.
        word: Word length in bits; that of the widest node unless given.

    Raises:
        ArgumentError: The arithmetic is not the processor's.
    """
    if formatted.arithmetic.rounding != HALF_UP:
        raise ArgumentError(
            f"{formatted.arithmetic} on a processor; expected {Arithmetic()}: it rounds no other way",
            code="DG-FORMAT-015",
        )
    word = word or max(fmt.width for fmt in formatted.formats)
    exponentials = exponential or exponential_formats(formatted, word)
    return _Fuser(formatted, word, angle or angle_format(formatted, word), exponentials).graph()


class _Term(NamedTuple):
    """An operand of a sum: sign · value of a node of the old graph · 2**exponent."""

    sign: int
    node: int
    """Node of the old graph; -1 for a constant."""
    exponent: int = 0
    integer: int = 0
    """Constant, rounded."""
    frac: int = 0
    """Fraction bits of the constant."""
    value: float = 0.0
    """Exact constant."""


class _Product(NamedTuple):
    """A product sign · a · b."""

    sign: int
    a: int
    """Node of the new graph."""
    b: int | None
    """Node of the new graph; None for a constant factor."""
    frac: int
    """Fraction bits of the product."""
    integer: int = 0
    """Constant factor, rounded."""
    room: int = 0
    """Bits by which the constant can be shifted left."""
    value: float = 0.0
    """Exact constant factor."""


class _Fuser:
    """Builds the new graph. place: new node and sign of its value, by old node."""

    def __init__(self, formatted: FormattedGraph, word: int, angle: Format, exponential: tuple[Format, Format]) -> None:
        self.old, self.source = formatted.graph, formatted
        self.word, self.angle, self.exponential = word, angle, exponential
        self.nodes: list[Node] = []
        self.formats: list[Format] = []
        self.constants: dict[int, tuple[int, Format]] = {}
        self.place: dict[int, tuple[int, int]] = {}
        self._known: dict[tuple[object, ...], int] = {}
        self._taken: dict[str, int] = {}
        self._outputs = set(self.old.output_nodes)
        self._depth = self._depths()
        self._reader = {i: self._sum_of(i) for i, node in enumerate(self.old.nodes) if node.op in PRODUCTS}
        self._plain = self._outputs | {
            self._root(a).node for node in self.old.nodes if node.op not in (*SUMS, *PRODUCTS) for a in node.args
        }
        angles = {a for node in self.old.nodes if node.op in TRIG for a in node.args}
        self._angles = {a for a in angles if self.old.nodes[a].op == "input"}

    def graph(self) -> FormattedGraph:
        """Return the new graph."""
        for i, node in enumerate(self.old.nodes):
            if node.op in PRODUCTS:
                if self._reader[i] is None:
                    self._emit_product(i)
            elif node.op in SUMS:
                self._emit_sum(i)
            elif node.op not in ("neg", "shift"):
                self._emit_other(i, node)
        outputs = tuple(replace(port, nodes=tuple(self._positive(i) for i in port.nodes)) for port in self.old.outputs)
        inputs = tuple(replace(port, nodes=tuple(self.place[i][0] for i in port.nodes)) for port in self.old.inputs)
        whole = replace(self.old, nodes=tuple(self.nodes), inputs=inputs, outputs=outputs)
        # a product and a sum that were not merged may leave unread shifted operands
        kept = {i: k for k, i in enumerate(whole.reaching((*whole.input_nodes, *whole.output_nodes)))}
        return FormattedGraph(
            whole.numbered(kept).check(),
            tuple(self.formats[i] for i in kept),
            {kept[i]: constant for i, constant in self.constants.items() if i in kept},
            {kept[self.place[i][0]]: bounds for i, bounds in self.source.bounds.items()},
            self.source.arithmetic,
        ).check()

    # properties of the old graph

    def _depths(self) -> list[int]:
        """Return the latency from the inputs to each old node, in cycles of the operations' table."""
        depth: list[int] = []
        for node in self.old.nodes:
            depth.append(OPS[node.op].cycles + max((depth[a] for a in node.args), default=0))
        return depth

    def _root(self, i: int, sign: int = 1) -> _Term:
        """Return a node as a term, through minus signs and shifts."""
        exponent = 0
        while (node := self.old.nodes[i]).op in ("neg", "shift"):
            if node.op == "neg":
                sign = -sign
            else:
                exponent += int(node.constant or 0)
            i = node.args[0]
        return _Term(sign, i, exponent)

    def _sum_of(self, i: int) -> int | None:
        """Return the sum that is the only reader of a product, or None."""
        while i not in self._outputs and len(self.old.users[i]) == 1:
            i = self.old.users[i][0]
            if self.old.nodes[i].op in SUMS:
                return i
            if self.old.nodes[i].op not in ("neg", "shift"):
                break
        return None

    # new nodes

    def _new(self, op: str, args: Iterable[int], frac: int, name: str, constant: float | None = None) -> int:
        """Add a node to the new graph."""
        self.nodes.append(Node(op, tuple(args), constant, unique(name, self._taken)))
        self.formats.append(Format(self.word, frac))
        return len(self.nodes) - 1

    def _const(self, integer: int, frac: int, value: float) -> int:
        """Return the node of a constant; equal constants share a node."""
        key = "const", integer, frac, value
        if key not in self._known:
            self._known[key] = i = self._new("const", (), frac, "constant", value)
            self.constants[i] = integer, Format(self.word, frac)
        return self._known[key]

    def _shifted(self, i: int, exponent: int) -> int:
        """Return the node times 2**exponent."""
        if not exponent:
            return i
        key = "shift", i, exponent
        if key not in self._known:
            name = f"{self.nodes[i].name}.moved"
            self._known[key] = new = self._new("shift", (i,), self.formats[i].frac - exponent, name, float(exponent))
            self.constants[new] = exponent, EXPONENT
        return self._known[key]

    def _coarser(self, i: int, frac: int) -> int:
        """Return the node with fewer fraction bits."""
        while self.formats[i].frac > frac:
            here = max(frac, self.formats[i].frac - MOST_SHIFT)
            key = "coarser", i, here
            if key not in self._known:
                self._known[key] = self._new("mul", (i, self._const(1, 0, 1.0)), here, f"{self.nodes[i].name}.coarser")
            i = self._known[key]
        return i

    def _exactly(self, i: int, frac: int) -> int:
        """Return the node with this many fraction bits, for a unit that expects them."""
        i = self._coarser(i, frac)
        if (more := frac - self.formats[i].frac) > 0:
            key = "exactly", i, frac
            if key not in self._known:
                args = i, self._const(1 << more, more, 1.0)
                self._known[key] = self._new("mul", args, frac, f"{self.nodes[i].name}.finer")
            i = self._known[key]
        return i

    def _signed(self, term: _Term) -> tuple[int, int]:
        """Return the new node of a term, and the sign of the term relative to the stored value."""
        if term.node not in self.place:
            self._emit_product(term.node)  # a product that could not be merged with its sum
        i, stored = self.place[term.node]
        return self._shifted(i, term.exponent), term.sign * stored

    def _positive(self, i: int) -> int:
        """Return the new node that holds an old node's value, sign included."""
        new, sign = self._signed(self._root(i))
        if sign > 0:
            return new
        key = "neg", new
        if key not in self._known:
            self._known[key] = self._new("neg", (new,), self.formats[new].frac, f"{self.nodes[new].name}.neg")
        return self._known[key]

    # operations

    def _emit_other(self, i: int, node: Node) -> None:
        """Add an operation that is neither a product nor a sum."""
        frac = self.source.formats[i].frac
        if node.op == "const":
            self.place[i] = self._const(*_fitted(*self._constant(i), self.word), float(node.constant or 0.0)), 1
            return
        args = [self._positive(a) for a in node.args]
        op = node.op
        if op == "input":
            frac = self.angle.frac if i in self._angles else frac
        elif op in TRIG:
            args, frac = [self._exactly(args[0], self.angle.frac)], self.word - 2
        elif op == "exp":
            operand, result = self.exponential
            args, frac = [self._exactly(args[0], operand.frac)], result.frac
        elif op == "noise":
            args, frac = [self._coarser(a, 0) for a in args], self.word - 1 - NOISE_WHOLE
            if any(self.formats[a].frac for a in args):
                raise FuseError(
                    f"node {i} '{node.name}': an operand is beyond words of {self.word} bits", code="DG-FORMAT-016"
                )
        elif op == "reciprocal":
            op = "normalized_reciprocal"
        elif op == "sqrt":
            source = self.formats[args[0]]
            args = [self._coarser(args[0], source.frac - (source.frac + self.word + 1) % 2)]
            frac = root_frac(self.formats[args[0]])
        elif op == "select":
            args[1:] = self._near(args[1:], frac)
            frac = min(frac, max(self.formats[a].frac for a in args[1:]))
        else:
            raise FuseError(
                f"node {i} '{node.name}' is a {op}; expected an operation that a processor has", code="DG-FORMAT-017"
            )
        self.place[i] = self._new(op, args, frac, node.name), 1

    def _constant(self, i: int) -> tuple[int, int]:
        """Return integer and fraction bits of an old node's constant."""
        integer, fmt = self.source.constants[i]
        return integer, fmt.frac

    def _near(self, args: list[int], frac: int) -> list[int]:
        """Return the operands of a sum, none with more fraction bits than the shifts allow."""
        args = [self._coarser(a, frac + MOST_SHIFT) for a in args]
        coarsest = min(self.formats[a].frac for a in args)
        return [self._coarser(a, coarsest + MOST_SHIFT) for a in args]

    def _product(self, i: int, exponent: int = 0) -> _Product:
        """Return the product of an old node, times 2**exponent."""
        node = self.old.nodes[i]
        a, sign = self._signed(self._root(node.args[0]))
        if node.op == "mul":
            b, other = self._signed(self._root(node.args[1]))
            b = self._shifted(b, exponent)
            return _Product(sign * other, a, b, self.formats[a].frac + self.formats[b].frac)
        integer, frac = self._constant(i)
        odd, frac = _fitted(*_odd(abs(integer), frac), self.word)
        frac += self.formats[a].frac - exponent
        room, value = self.word - 1 - odd.bit_length(), abs(float(node.constant or 0.0)) * 2.0**exponent
        return _Product(-sign if integer < 0 else sign, a, None, frac, odd, room, value)

    def _factors(self, product: _Product, up: int) -> tuple[int, int]:
        """Return the new nodes of a product's factors; `up` shifts a constant factor left."""
        if product.b is not None:
            return product.a, product.b
        frac = product.frac - self.formats[product.a].frac + up
        return product.a, self._const(product.integer << up, frac, product.value)

    def _emit_product(self, i: int) -> None:
        """Add a product on its own."""
        product, name = self._product(i), self.old.nodes[i].name
        frac = self.source.formats[i].frac
        up = min(max(frac - product.frac, 0), product.room)
        frac = min(frac, product.frac + up)
        if (over := product.frac + up - frac - MOST_SHIFT) > 0:
            a = self._coarser(product.a, self.formats[product.a].frac - over)
            product = product._replace(a=a, frac=product.frac - over)
        args = self._factors(product, up)
        if product.sign < 0 and i in self._plain:
            zero = self._const(0, product.frac + up, 0.0)
            self.place[i] = self._new("sub_multiply", (*args, zero), frac, name), 1
        else:
            self.place[i] = self._new("mul", args, frac, name), product.sign

    def _terms(self, i: int) -> list[_Term]:
        """Return the operands of a sum."""
        node = self.old.nodes[i]
        signs = (1, -1 if node.op == "sub" else 1)
        terms = [self._root(a, sign) for a, sign in zip(node.args, signs, strict=False)]
        if node.op == "add_const":
            integer, frac = self._constant(i)
            odd, frac = _odd(abs(integer), frac)
            value = abs(float(node.constant or 0.0))
            terms.append(_Term(-1 if integer < 0 else 1, -1, 0, *_fitted(odd, frac, self.word), value))
        return terms

    def _emit_sum(self, i: int) -> None:
        """Add a sum, merged with a product if one fits."""
        terms = self._terms(i)
        fusing = [k for k, term in enumerate(terms) if term.node >= 0 and self._reader.get(term.node) == i]
        for k in sorted(fusing, key=lambda k: -self._depth[terms[k].node]):
            if self._fuse(i, terms[k], terms[1 - k]):
                return
        self._add(i, terms)

    def _frac(self, term: _Term) -> int:
        """Return the fraction bits of a term, which may be a product that is not added yet."""
        if term.node < 0:
            return term.frac
        if term.node in self.place:
            return self.formats[self.place[term.node][0]].frac - term.exponent
        return self.source.formats[term.node].frac - term.exponent

    def _fuse(self, i: int, factor: _Term, addend: _Term) -> bool:
        """Add the sum at node i merged with a product, if the shifts allow it; return whether they do."""
        product, frac = self._product(factor.node, factor.exponent), self.source.formats[i].frac
        for up in range(product.room + 1):
            down, left = product.frac + up - frac, product.frac + up - self._frac(addend)
            more = 0
            if addend.node < 0:
                more = max(left - MOST_SHIFT, 0)
                more = min(more, self.word - 1 - addend.integer.bit_length())
                left -= more
            if 0 <= down <= MOST_SHIFT and 0 <= left <= MOST_SHIFT:
                break
        else:
            return False
        if addend.node < 0:
            c, sign = self._const(addend.integer << more, addend.frac + more, addend.value), addend.sign
        else:
            c, sign = self._signed(addend)
        op, stored = SIGNS[factor.sign * product.sign, sign]
        new = self._new(op, (*self._factors(product, up), c), frac, self.old.nodes[i].name)
        self.place[i] = new, stored
        return True

    def _add(self, i: int, terms: list[_Term]) -> None:
        """Add the sum at node i without a product."""
        frac = self.source.formats[i].frac
        parts = [self._signed(term) for term in terms if term.node >= 0]
        if len(parts) < len(terms):
            (term,), near = [term for term in terms if term.node < 0], self.formats[parts[0][0]].frac
            parts.append((self._const(*self._beside(term, near), term.value), term.sign))
        (a, first), (b, second) = parts
        a, b = self._near([a, b], frac)
        coarse, fine = sorted(self.formats[each].frac for each in (a, b))
        frac = min(frac, coarse + MOST_SHIFT, fine + self.word - 2)  # zeros beyond, as all bits below the finest are
        if first == second:
            self.place[i] = self._new("add", (a, b), frac, self.old.nodes[i].name), first
        else:
            args = (a, b) if first > 0 else (b, a)
            self.place[i] = self._new("sub", args, frac, self.old.nodes[i].name), 1

    def _beside(self, term: _Term, frac: int) -> tuple[int, int]:
        """Return a constant whose binary point is near enough to that of an operand with `frac` fraction bits."""
        up = min(max(frac - MOST_SHIFT - term.frac, 0), self.word - 1 - term.integer.bit_length())
        down = max(term.frac - frac - MOST_SHIFT, 0)
        return (term.integer << up) + ((1 << down) >> 1) >> down, term.frac + up - down


def _odd(integer: int, frac: int) -> tuple[int, int]:
    """Return the same number without trailing zeros."""
    if not integer:
        return 0, 0
    zeros = (integer & -integer).bit_length() - 1
    return integer >> zeros, frac - zeros


def _fitted(integer: int, frac: int, word: int) -> tuple[int, int]:
    """Return the same number, rounded if it has more bits than the word."""
    over = max(abs(integer).bit_length() - (word - 1), 0)
    if over and (abs(integer) + (1 << over >> 1) >> over).bit_length() > word - 1:
        over += 1
    return (integer + ((1 << over) >> 1)) >> over, frac - over
