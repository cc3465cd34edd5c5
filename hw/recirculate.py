"""A datapath of one step, whose state stays on the chip: results return as the states of the next turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Mux, ResetSignal, Signal, Value, signed, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from dynagate.base.errors import ArgumentError
from dynagate.hw.plan import Plan
from dynagate.hw.units.rescale import delayed, differ, fit, rounding_constant

FLAGS = ("start", "stop")
"""Bits above the fields of a turn: the state comes with it; the result does not return."""

SPARE = 4
"""States that the chip holds beyond those in the pipeline."""


def capacity(latency: int, ii: int) -> int:
    """Trajectories that may be under way at a time."""
    return -(-latency // ii) + SPARE


class Recirculate(wiring.Component):
    """Turns of trajectories through a datapath. The module `datapath` is in a file of its own.

    Up to `capacity` trajectories are under way. Their turns enter in rounds: each trajectory's next turn after one turn
    of every other. A state is rounded to the formats of the inputs as `fixedpoint.format.rescale` does. A trajectory
    that overflows, in the datapath or because its state does not fit, is flagged in all its later results.

    ===========  ===  ========================================================================================
    i            in   stream of turns: the datapath's fields, then `start` and `stop`; the state counts with start
    o            out  stream of results: the datapath's, then `flagged`
    design_hash  out  a constant: the 64 bits of the hash in design.json
    ===========  ===  ========================================================================================

    carry: output -> input of the graph. Raises ValueError: their shapes differ.
    """

    def __init__(self, plan: Plan, carry: Mapping[str, str]) -> None:
        self.plan = plan
        graph, formats = plan.formatted.graph, plan.formatted.formats
        self.capacity = capacity(plan.latency, plan.ii)
        sources = {port.name: port.nodes for port in graph.outputs}
        targets = {port.name: port.nodes for port in graph.inputs}
        self.pairs: list[tuple[int, int]] = []
        for source, target in carry.items():
            if len(sources[source]) != len(targets[target]):
                raise ArgumentError(f"'{source}' has {len(sources[source])} numbers, '{target}' {len(targets[target])}")
            self.pairs += zip(sources[source], targets[target], strict=True)
        self.in_bits = sum(formats[i].width for i in graph.input_nodes)
        self.out_bits = sum(formats[i].width for i in graph.result_nodes) + len(graph.scopes)
        super().__init__(
            {
                "i": In(stream.Signature(unsigned(self.in_bits + len(FLAGS)))),
                "o": Out(stream.Signature(unsigned(self.out_bits + 1))),
                "design_hash": Out(unsigned(64)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan = self.plan
        state_bits = sum(plan.formatted.formats[target].width for _, target in self.pairs)
        m.submodules.states = states = SyncFIFOBuffered(width=state_bits + 1, depth=self.capacity)
        m.submodules.beside = beside = SyncFIFOBuffered(width=2, depth=self.capacity + SPARE)
        start, stop = self.i.payload[self.in_bits], self.i.payload[self.in_bits + 1]
        ready = Signal()  # all that a turn needs but the datapath is there
        result = Signal(self.out_bits)
        enter, leave, in_ready, out_valid, out_ready = (
            Signal(name=name) for name in ("enter", "leave", "in_ready", "out_valid", "out_ready")
        )
        fields = Signal(self.in_bits)
        m.submodules.datapath = Instance(
            "datapath",
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            i_i__payload=fields,
            i_i__valid=ready,
            o_i__ready=in_ready,
            o_o__payload=result,
            o_o__valid=out_valid,
            i_o__ready=out_ready,
            o_design_hash=self.design_hash,
        )
        held = Signal(range(self.capacity + 1))
        overflow = result[self.out_bits - len(plan.formatted.graph.scopes) :].any()
        flagged = beside.r_data[1] | overflow
        again = ~beside.r_data[0]
        room = ~again | (held != self.capacity)
        m.d.comb += [
            ready.eq(self.i.valid & (start | states.r_rdy) & beside.w_rdy),
            enter.eq(ready & in_ready),
            self.i.ready.eq((start | states.r_rdy) & beside.w_rdy & in_ready),
            states.r_en.eq(enter & ~start),
            beside.w_en.eq(enter),
            beside.w_data.eq(Cat(stop, states.r_data[-1] & ~start)),
            fields.eq(self._with_state(start, states.r_data)),
            self.o.valid.eq(out_valid & room),
            self.o.payload.eq(Cat(result, flagged)),
            out_ready.eq(self.o.ready & room),
            leave.eq(out_valid & out_ready),
            beside.r_en.eq(leave),
        ]
        # a state takes two cycles to be rounded and looked at: its place is kept from the first
        m.d.sync += held.eq(held + (leave & again) - (enter & ~start))
        values, misfit = self._rounded(m, result)
        late = delayed(m, Cat(leave & again, flagged), 2, "late", reset=True)
        m.d.comb += [
            states.w_en.eq(late[0]),
            states.w_data.eq(Cat(delayed(m, values, 1, "values_late"), late[1] | misfit)),
        ]
        return m

    def _with_state(self, start: Value, state: Value) -> Value:
        """The fields of a turn, the carried ones from the stream with `start`, else from the states."""
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
        """Carried outputs in the formats of the inputs, a cycle late; and whether one did not fit, two cycles late."""
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
        misfit = Signal(reset_less=True)
        m.d.sync += misfit.eq(Cat(*guards).any() if guards else 0)
        return Cat(*values), misfit
