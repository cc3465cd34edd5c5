"""Flow control of a free-running pipeline: when a sample may enter, where it is, and where it waits at the end.

The pipeline itself never waits. A sample enters in slot 0 when the output FIFOs are sure to have room for it: credit is
what is left of their depth. A pipeline of several functions has an end for each, in the cycle in which its outputs are
there. The results of one function come out in order; of several the ends that have some take turns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

FIFO_LATENCY = 4
"""Cycles from a write into the output FIFO until its credit can be back at the input."""
LATEST = 16
"""Cycles by which overflow bits follow their sample's values, at most."""


def most_under_way(latency: int, ii: int) -> int:
    """Samples that have entered a pipeline and that nobody has taken, at most."""
    return math.ceil((latency + FIFO_LATENCY) / ii) + 1 + (ii == 1)


class FunctionEnd(NamedTuple):
    """The end of a function in the pipeline: `values` bits leave in cycle `latency` of a sample, and `flags` bits
    `late` cycles later.
    """

    latency: int
    late: int
    values: int
    flags: int


class EndRegisters(NamedTuple):
    """Registers of an end that a proof observes. valid: bit k belongs to the sample in cycles 1 + k ii to (k + 1)
    ii.
    """

    valid: Signal
    values: SyncFIFOBuffered
    flags: SyncFIFOBuffered


class FlowRegisters(NamedTuple):
    """Registers of the flow that a proof observes."""

    in_slot: Signal
    credit: Signal
    may_enter: Signal
    turn: Signal
    ends: tuple[EndRegisters, ...]


class FlowControl(wiring.Component):
    """Flow control: handshakes, the slot, and the output FIFOs with their credit.

    ==========  ===  ===================================================================================
    i_valid     in   a sample is offered
    i_end       in   the end at which it will leave
    i_ready     out  it can enter in this cycle
    accept      out  it enters
    in_slot     out  the cycle modulo ii, one-hot
    values_k    in   at end k, the outputs of the sample that is in its last cycle
    flags_k     in   the overflow bits of the sample `late` cycles after that
    o_values_k  out  the values of the oldest result of end k
    o_flags_k   out  its flags
    o_end       out  the end of the result that is offered
    o_valid     out  there is a result
    o_ready     in   it is taken
    ==========  ===  ===================================================================================
    """

    def __init__(self, ii: int, ends: Sequence[FunctionEnd]) -> None:
        self.ii, self.ends = ii, tuple(ends)
        self.depth = most_under_way(max(e.latency + e.late for e in self.ends), ii)
        ports: dict[str, Any] = {}
        for k, end in enumerate(self.ends):
            ports |= {f"values_{k}": In(end.values), f"flags_{k}": In(end.flags)}
            ports |= {f"o_values_{k}": Out(end.values), f"o_flags_{k}": Out(end.flags)}
        super().__init__(
            {
                "i_valid": In(1),
                "i_end": In(range(len(self.ends))),
                "i_ready": Out(1),
                "accept": Out(1),
                "in_slot": Out(ii),
                **ports,
                "o_end": Out(range(len(self.ends))),
                "o_valid": Out(1),
                "o_ready": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ii = self.ii
        in_slot = Signal(ii, init=1)  # one hot, so that an enable is one register away
        if ii > 1:
            m.d.sync += in_slot.eq(in_slot.rotate_left(1))
        credit = Signal(range(self.depth + 1), init=self.depth)
        taken = Signal()
        may_enter = Signal()  # there is credit in slot 0: seen a cycle before, in which a sample takes some if ii is 1
        m.d.sync += may_enter.eq(credit > (ii == 1))
        m.d.comb += [
            self.in_slot.eq(in_slot),
            self.i_ready.eq(in_slot[0] & may_enter),
            self.accept.eq(self.i_ready & self.i_valid),
            taken.eq(self.o_valid & self.o_ready),
        ]
        m.d.sync += credit.eq(credit - self.accept + taken)
        turn = Signal(len(self.ends), init=1)  # one hot, as the slots
        ends = tuple(self._end(m, k, in_slot, turn) for k in range(len(self.ends)))
        self._take_turns(m, turn, [end.flags.r_rdy for end in ends], taken)
        self.state = FlowRegisters(in_slot, credit, may_enter, turn, ends)
        return m

    def _end(self, m: Module, k: int, in_slot: Signal, turn: Signal) -> EndRegisters:
        end, ii = self.ends[k], self.ii
        steps = max(math.ceil((end.latency + end.late) / ii), 1)
        valid = Signal(steps, name=f"valid_{k}")
        m.d.sync += valid[0].eq(Mux(in_slot[0], self.accept & (self.i_end == k), valid[0]))
        for step in range(1, steps):
            m.d.sync += valid[step].eq(Mux(in_slot[0], valid[step - 1], valid[step]))
        fifos: list[SyncFIFOBuffered] = []
        leaves = Signal(name=f"leaves_{k}")
        for name, width, cycle in (
            ("values", end.values, end.latency),
            ("flags", end.flags, end.latency + end.late),
        ):
            fifo = SyncFIFOBuffered(width=width, depth=self.depth)
            m.submodules[f"{name}_{k}_fifo"] = fifo
            m.d.comb += [
                fifo.w_data.eq(getattr(self, f"{name}_{k}")),
                fifo.w_en.eq(valid[math.ceil(cycle / ii) - 1] & in_slot[cycle % ii]),
                fifo.r_en.eq(leaves),
                getattr(self, f"o_{name}_{k}").eq(fifo.r_data),
            ]
            fifos.append(fifo)
        m.d.comb += leaves.eq(self.o_ready & turn[k] & fifos[-1].r_rdy)
        return EndRegisters(valid, *fifos)

    def _take_turns(self, m: Module, turn: Signal, ready: list[Signal], taken: Signal) -> None:
        """A result that is offered stays until it is taken. Then, or where there is none, the next end with one has its
        turn. Each end looks for itself whether it is the next one, so that no chain forms."""
        count = len(ready)
        m.d.comb += self.o_valid.eq((Cat(*ready) & turn).any())  # of its FIFOs the later one
        if count == 1:
            return
        comes: list[Value] = []
        for end in range(count):
            before = [(end - step) % count for step in range(1, count)]  # whose turn it may be now, the nearest first
            ways = [turn[k] & ~Cat(ready[other] for other in before[:step]).any() for step, k in enumerate(before)]
            comes.append(ready[end] & Cat(*ways).any())
        with m.If((taken | ~self.o_valid) & Cat(*comes).any()):
            m.d.sync += turn.eq(Cat(*comes))
            for bit in range(len(self.o_end)):
                m.d.sync += self.o_end[bit].eq(Cat(come for k, come in enumerate(comes) if k >> bit & 1).any())
