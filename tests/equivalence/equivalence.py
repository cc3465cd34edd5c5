"""A proof that a datapath computes its plan for all samples: slots, registers, delays, and overflow bits.

Samples of symbols run through the gateware (`sim.netlist`). Each result has to be the very term that the units make of
its sample's symbols, one unit after the other as the graph has them, with nothing of the samples beside it. What a unit
makes of numbers is no part of this proof: units are compared with the integers one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from amaranth.hdl import Const, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.hw.plan.plan import Plan
from dynagate.hw.rtl.datapath import Datapath
from dynagate.hw.units.multiply import Multiply
from dynagate.hw.units.rescale import differ, fit, rounding_constant
from dynagate.hw.units.table import HARDWARE, Elementary, Own, Product
from dynagate.hw.units.unit_of import UnitOf, unit_of

from tests.equivalence.algebras import Terms
from tests.equivalence.formal import ProofError
from tests.equivalence.netlists import Simulation, Word, netlist_of

ENTERS = True, False, True, True
"""Which of the first slots a sample enters in."""


class ProductUnit(wiring.Component):
    """A product cut to a format, by a multiplier of these widths, `latency` cycles later.

    ========  ===  ================================
    i0, i1    in   the factors, signed
    o         out  the product in its format, signed
    overflow  out  it does not fit
    ========  ===  ================================
    """

    def __init__(self, widths: tuple[int, int, int], frac: int, to: Format, arithmetic: Arithmetic) -> None:
        self.core = Multiply(*widths)
        self.frac, self.to, self.arithmetic = frac, to, arithmetic
        self.latency = self.core.latency
        ports = {f"i{k}": In(signed(width)) for k, width in enumerate(widths[:2])}
        super().__init__({**ports, "o": Out(signed(to.width)), "overflow": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = core = self.core
        constant = rounding_constant(self.frac - self.to.frac, self.arithmetic)
        exact = Signal(core.p.shape())
        m.d.comb += [core.c.eq(Const(constant, core.c.shape())), exact.eq(core.p)]
        m.d.comb += [core.a.eq(self.i0), core.b.eq(self.i1)]
        wires = fit(m, exact, self.frac, self.to, self.arithmetic, "o")
        m.d.comb += [self.o.eq(wires.value), self.overflow.eq(differ(wires.guard))]
        return m


class Composed:
    """The units of a plan, one after the other on the words of a sample."""

    def __init__(self, plan: Plan, terms: Terms) -> None:
        self.plan, self.terms, self.formatted = plan, terms, plan.formatted
        self._graph = plan.formatted.graph
        self._units: dict[int, tuple[Simulation, UnitOf]] = {}

    @cached_property
    def _widths(self) -> dict[int, tuple[int, int, int]]:
        """Of the multiplier that a node shares with others."""
        node_at = {p: i for i, p in self.plan.position.items()}
        widths: dict[int, tuple[int, int, int]] = {}
        for by_slot in self.plan.binding.operations_of(self.plan.schedule).values():
            nodes = [node_at[p] for p in by_slot.values()]
            if isinstance(HARDWARE[self._graph.nodes[nodes[0]].op], Product):
                widths |= dict.fromkeys(nodes, self.plan.multiplier_widths(nodes))
        return widths

    def results(self, inputs: dict[int, Word]) -> tuple[dict[int, Word], list[int]]:
        """Words by node, and per scope the term that says whether one of its nodes overflowed."""
        words, flags = dict(inputs), [0] * len(self._graph.scopes)
        for i, node in enumerate(self._graph.nodes):
            if node.op == "input":
                continue
            row = HARDWARE[node.op]
            reads = [() if each.node is None else words[each.node] for each in self.plan.port_operands(i)]
            if isinstance(row, Own | Product | Elementary):
                words[i], flag = self._computed(i, reads)
                scope = self._graph.scope_of[i]
                flags[scope] = self._either(flags[scope], flag)
            else:  # a constant, or a moved binary point
                words[i] = reads[0] or _bits(self.formatted.constants[i][0], self.formatted.formats[i].width)
        return words, flags

    def _either(self, a: int, b: int) -> int:
        return int(self.terms.inverted(self.terms.both(self.terms.inverted(a), self.terms.inverted(b))))

    def _computed(self, i: int, reads: Sequence[Word]) -> tuple[Word, int]:
        """What the unit of node i makes of its operands, and whether that overflows."""
        formatted, to = self.formatted, self.formatted.formats[i]
        sources = [x.format for x in self.plan.port_operands(i)]
        if i not in self._units:
            self._units[i] = self._unit(i, sources)
        simulation, unit = self._units[i]
        value = formatted.constants.get(i, (0, None))[0]
        words = [word or _bits(value, fmt.width) for word, fmt in zip(reads, sources, strict=True)]
        if i in self._widths:
            words = [_extended(word, width) for word, width in zip(words, self._widths[i][:2], strict=True)]
        held = {name: _bits(value.value, len(value)) for name, value in unit.held.items()}
        for name, word in [*zip(unit.operands, words, strict=True), *held.items()]:
            simulation.set(name, word)
        for _ in range(unit.component.latency):
            simulation.step()
        stored = simulation.read("o")[: self.plan.stored(i)[0].width]
        flag = simulation.read("overflow")[0] if self.plan.may_overflow(i) else 0
        return _extended(stored, to.width), flag

    def _unit(self, i: int, sources: Sequence[Format]) -> tuple[Simulation, UnitOf]:
        op = self._graph.nodes[i].op
        to, arithmetic = self.plan.stored(i)
        if isinstance(HARDWARE[op], Product):
            frac = sources[0].frac + sources[1].frac
            unit = UnitOf(ProductUnit(self._widths[i], frac, to, arithmetic), ("i0", "i1"), {})
        elif isinstance(HARDWARE[op], Own):
            unit = unit_of(op, sources, to, arithmetic, self.plan.exact_width(i))
        else:
            unit = unit_of(op, sources, self.formatted.formats[i], self.formatted.arithmetic)
        return Simulation(netlist_of(unit.component), self.terms), unit


def _bits(value: int, width: int) -> Word:
    return tuple((value >> k) & 1 for k in range(width))


def _extended(word: Word, width: int) -> Word:
    return (*word, *word[-1:] * (width - len(word)))[:width]


def prove_datapath(plan: Plan, simulation: Simulation | None = None, terms: Terms | None = None) -> int:
    """That every result of the datapath is what its units, one after the other, make of its sample.

    simulation, terms: of the datapath, which is made from the plan unless given. Returns the cycles from a sample's
    entry to its result. Raises ProofError naming the first output that is another term.
    """
    terms = terms or Terms()
    simulation = simulation or Simulation(netlist_of(Datapath(plan)), terms)
    graph, formats = plan.formatted.graph, plan.formatted.formats
    composed, entered, latencies = Composed(plan, terms), [], []
    simulation.set("o__ready", (1,))
    cycle, slot = 0, 0
    width = sum(formats[i].width for i in graph.input_nodes)
    results: list[tuple[int, Word]] = []
    while len(results) < sum(ENTERS):
        if cycle > 4 * (plan.latency + 8 * plan.ii) + 64:
            raise ProofError(f"{len(results)} results of {sum(ENTERS)} samples in {cycle} cycles")
        sample = terms.symbols(f"sample in cycle {cycle}", width)
        simulation.set("i__payload", sample)
        simulation.set("i__valid", (int(slot < len(ENTERS) and ENTERS[slot]),))
        if simulation.read("i__ready") == (1,):
            if slot < len(ENTERS) and ENTERS[slot]:
                entered.append((cycle, sample))
            slot += 1
        valid = simulation.read("o__valid")
        if valid == (1,):
            results.append((cycle, simulation.read("o__payload")))
        elif valid != (0,):
            raise ProofError(f"in cycle {cycle} it depends on a sample whether there is a result")
        simulation.step()
        cycle += 1
    for (came, sample), (left, payload) in zip(entered, results, strict=True):
        _compare(plan, composed, sample, payload)
        latencies.append(left - came)
    return max(latencies)


def _compare(plan: Plan, composed: Composed, sample: Word, payload: Word) -> None:
    graph, formats = plan.formatted.graph, plan.formatted.formats
    inputs, low = {}, 0
    for i in graph.input_nodes:
        inputs[i] = sample[low : low + formats[i].width]
        low += formats[i].width
    words, flags = composed.results(inputs)
    low = 0
    for i in graph.result_nodes:
        expected = words[i]
        if payload[low : low + len(expected)] != expected:
            raise ProofError(f"result '{graph.nodes[i].name}' is not what the units make of its sample")
        low += len(expected)
    for scope, flag, bit in zip(graph.scopes, flags, payload[low:], strict=False):
        if flag != bit:
            raise ProofError(f"the overflow bit of '{scope}' is not that of its sample's nodes")
