"""A ring around the datapath of one step: results return as the states of the next step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import (
    Cat,
    ClockSignal,
    Const,
    Instance,
    Module,
    Mux,
    ResetInserter,
    Signal,
    Value,
    signed,
    unsigned,
)
from amaranth.lib import stream, wiring
from amaranth.lib.data import StructLayout, View
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from dynagate.base.errors import ArgumentError
from dynagate.design.design import WORD
from dynagate.design.ring import FLAGS
from dynagate.hw.export.style import reset_with
from dynagate.hw.plan.flow import LATEST, most_under_way
from dynagate.hw.plan.plan import Plan
from dynagate.hw.units.rescale import delayed, differ, fit, rounding_constant

COUNT = 32
"""Bits of a trajectory's step counter, and of the registers that it is compared with."""

SPARE = 4
"""Number of states that the ring can hold in addition to those in the pipeline."""


def capacity(latency: int, ii: int) -> int:
    """Return how many trajectories can be under way at once.

    Args:
        latency: Latency of the datapath in cycles.
        ii: Initiation interval in cycles.
    """
    return -(-latency // ii) + SPARE


class StateFeedback(wiring.Component):
    """Runs steps of trajectories through a datapath. The module `datapath` is in a file of its own.

    Up to `capacity` trajectories are under way. A step that does not start a trajectory continues the one whose last
    step entered longest ago. A state is rounded to the formats of the inputs like `fixedpoint.format.rescale`. A
    trajectory that overflows, in the datapath or because a state or an input does not fit, is flagged in all its later
    results.

    ===========  ===  =====================================================================================
    reset        in   1: drop all trajectories
    steps        in   trajectories end after this many steps; 0: only the stream ends them
    every        in   a result is sent after this many steps, and after the last; 0 counts as 1
    i            in   stream of steps: the datapath's fields, FLAGS and a tag; the state counts if start is 1
    o            out  stream of results: the datapath's fields, flagged, end of the batch, and the step's tag
    entered      out  1 for one cycle: a step has entered the datapath
    design_hash  out  64-bit constant: start of the hash in design.json
    ===========  ===  =====================================================================================

    Args:
        plan: Plan of the datapath.
        carry: Input of the graph that each carried output becomes, by output.

    Raises:
        ArgumentError: The shapes of an output and its input differ.
    """

    def __init__(self, plan: Plan, carry: Mapping[str, str]) -> None:
        self.plan = plan
        graph, formats = plan.formatted.graph, plan.formatted.formats
        self.capacity = capacity(plan.latency, plan.ii)
        sizes = {port.name: len(port.nodes) for port in (*graph.inputs, *graph.outputs)}
        for source, target in carry.items():
            if sizes[source] != sizes[target]:
                raise ArgumentError(
                    f"'{source}' has {sizes[source]} numbers, '{target}' {sizes[target]}", code="DG-HW-029"
                )
        self.pairs = graph.carried(carry)
        self.in_bits = sum(formats[i].width for i in graph.input_nodes)
        self.out_bits = sum(formats[i].width for i in graph.result_nodes) + len(graph.scopes)
        beside = {"flagged": 1, "shows": 1, "ends": 1, "since": COUNT, "step": COUNT}
        self._beside = StructLayout({**beside, "last": 1, "tag": WORD})
        self._states = StructLayout({"fields": sum(formats[target].width for _, target in self.pairs), **beside})
        super().__init__(
            {
                "reset": In(1),
                "steps": In(COUNT),
                "every": In(COUNT),
                "i": In(stream.Signature(unsigned(self.in_bits + len(FLAGS) + WORD))),
                "o": Out(stream.Signature(unsigned(self.out_bits + 2 + WORD))),
                "entered": Out(1),
                "design_hash": Out(unsigned(64)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = self.capacity
        m.submodules.states = states = ResetInserter(self.reset)(SyncFIFO(width=self._states.size, depth=depth + 1))
        # has space for all that the datapath takes
        under_way = most_under_way(self.plan.latency + LATEST, self.plan.ii)
        m.submodules.beside = beside = ResetInserter(self.reset)(
            SyncFIFOBuffered(width=self._beside.size, depth=under_way + 1)
        )
        state, leaving = View(self._states, states.r_data), View(self._beside, beside.r_data)
        result, fields = Signal(self.out_bits), Signal(self.in_bits)
        ready, leave, in_ready, out_valid, out_ready = (
            Signal(name=name) for name in ("ready", "leave", "in_ready", "out_valid", "out_ready")
        )
        m.submodules.datapath = Instance(
            "datapath",
            i_clk=ClockSignal(),
            i_rst=reset_with(m, self.reset, platform),
            i_i_data=fields,
            i_i_valid=ready,
            o_i_ready=in_ready,
            o_o_data=result,
            o_o_valid=out_valid,
            i_o_ready=out_ready,
            o_design_hash=self.design_hash,
        )
        shows_all = Signal(reset_less=True, init=1)
        m.d.sync += shows_all.eq(self.every <= 1)
        start = self.i.payload[self.in_bits + FLAGS.index("start")]
        held = Signal(range(depth + 2))
        has_space = Signal()  # seen a cycle before, in which a state may return: hence the place beyond `depth`
        m.d.sync += has_space.eq(held < depth)
        flagged = leaving.flagged | result[self.out_bits - len(self.plan.formatted.graph.scopes) :].any()
        again = ~leaving.ends
        slack = ~again | has_space
        waits = self._waits(m, states)
        entered = Signal(name="entered_before")
        m.d.sync += entered.eq(self.entered & ~self.reset)
        m.d.comb += [
            ready.eq(self.i.valid & (start | waits)),
            self.entered.eq(ready & in_ready),
            self.i.ready.eq((start | waits) & in_ready),
            states.r_en.eq(self.entered & ~start),
            beside.w_en.eq(entered),
            beside.w_data.eq(delayed(m, self._entering(m, state, shows_all).as_value(), 1, "entering")),
            fields.eq(self._with_state(start, state.fields)),
            self.o.valid.eq(out_valid & slack & leaving.shows),
            self.o.payload.eq(Cat(result, flagged, leaving.last, leaving.tag)),
            out_ready.eq((self.o.ready | ~leaving.shows) & slack),
            leave.eq(out_valid & out_ready),
            beside.r_en.eq(leave),
        ]
        # a state takes a cycle to be rounded: its place is kept from the first
        with m.If(self.reset):
            m.d.sync += held.eq(0)
        with m.Else():
            m.d.sync += held.eq(held + (leave & again) - (self.entered & ~start))
        returns = Signal()
        m.d.sync += returns.eq(leave & again & ~self.reset)
        m.d.comb += [states.w_en.eq(returns), states.w_data.eq(self._kept(m, leaving, result, flagged, shows_all))]
        return m

    def _waits(self, m: Module, states: SyncFIFO) -> Signal:
        """Return a register that is 1 if a state waits for its next step.

        A step enters in slot 0, so no state was taken in the cycle before. If every cycle is a slot, one may have been
        taken:
        the last state then counts only in every second cycle.
        """
        waits = Signal(name="a_state_waits")
        kept = ~waits if self.plan.ii == 1 else Const(1)
        m.d.sync += waits.eq(~self.reset & (states.w_en | (states.level > 1) | ((states.level != 0) & kept)))
        return waits

    def _entering(self, m: Module, state: View[Any], shows_all: Signal) -> View[Any]:
        """Return the side data of a step that enters the datapath."""
        start, stop, bad, last = (self.i.payload[self.in_bits + k] for k in range(len(FLAGS)))
        entering = Signal(self._beside)
        first_ends = Signal(reset_less=True)
        m.d.sync += first_ends.eq(self.steps == 1)
        m.d.comb += [
            entering.ends.eq(stop | Mux(start, first_ends, state.ends)),
            entering.shows.eq(entering.ends | Mux(start, shows_all, state.shows)),
            entering.flagged.eq(bad | (state.flagged & ~start)),
            entering.since.eq(Mux(start, 0, state.since)),
            entering.step.eq(Mux(start, 0, state.step)),
            entering.last.eq(last),
            entering.tag.eq(self.i.payload[self.in_bits + len(FLAGS) :]),
        ]
        return entering

    def _kept(self, m: Module, leaving: View[Any], result: Value, flagged: Value, shows_all: Signal) -> View[Any]:
        """Return the state of the next step with its side data, one cycle after the result."""
        values, misfit = self._rounded(m, result)
        flagged_late = Signal()
        since, step = Signal(COUNT, reset_less=True), Signal(COUNT, reset_less=True)
        m.d.sync += [
            flagged_late.eq(flagged),
            since.eq(Mux(leaving.shows, 0, leaving.since + 1)),
            step.eq(leaving.step + 1),
        ]
        kept = Signal(self._states)
        m.d.comb += [
            kept.fields.eq(values),
            kept.flagged.eq(flagged_late | misfit),
            kept.shows.eq(shows_all | (since + 1 == self.every)),
            kept.ends.eq(step + 1 == self.steps),
            kept.since.eq(since),
            kept.step.eq(step),
        ]
        return kept

    def _with_state(self, start: Value, state: Value) -> Value:
        """Return the fields of a step: carried ones from the stream if `start` is 1, else from the state."""
        place = {}
        at = 0
        for _, target in self.pairs:
            width = self.plan.formatted.formats[target].width
            place[target] = state[at : at + width]
            at += width
        fields: list[Any] = []
        at = 0
        for i in self.plan.formatted.graph.input_nodes:
            width = self.plan.formatted.formats[i].width
            offered = self.i.payload[at : at + width]
            fields.append(Mux(start, offered, place[i]) if i in place else offered)
            at += width
        return Cat(*fields)

    def _rounded(self, m: Module, result: Value) -> tuple[Value, Value]:
        """Return the carried outputs in the formats of the inputs, and whether one did not fit, one cycle late."""
        plan = self.plan
        formats, arithmetic = plan.formatted.formats, plan.formatted.arithmetic
        place: dict[int, Value] = {}
        at = 0
        for i in plan.formatted.graph.result_nodes:
            place[i] = result[at : at + formats[i].width].as_signed()
            at += formats[i].width
        values, guards = [], []
        for k, (source, target) in enumerate(self.pairs):
            frac, to = formats[source].frac, formats[target]
            if source not in place:  # always zero, so it is not in the result
                place[source] = Const(0, signed(formats[source].width))
            constant = rounding_constant(frac - to.frac, arithmetic)
            # one more bit, for the rounding constant
            value = (place[source] + constant) if constant else place[source]
            wires = fit(m, value, frac, to, arithmetic, f"state_{k}")
            register = Signal(signed(to.width), name=f"state_{k}_rounded", reset_less=True)
            m.d.sync += register.eq(wires.value)
            values.append(register)
            if len(wires.guard):
                guard = delayed(m, wires.guard, 1, f"state_{k}_guard")
                guards.append(differ(guard))
        return Cat(*values), Cat(*guards).any() if guards else Const(0)
