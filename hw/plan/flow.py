"""Flow control of a pipeline that never stalls: when a sample may enter, where it is, and how its result leaves.

A sample enters in slot 0 if the output FIFOs are sure to have space for its result. This space minus the samples in the
pipeline is the credit. A pipeline of several functions has one end for each function, with a FIFO of its own. The
results of one function leave in order; a round-robin arbiter chooses among the functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from dynagate.hw.units.rescale import DUPLICATED

FIFO_LATENCY = 4
"""Cycles from a write into the output FIFO until the credit of that entry is available at the input."""
LATEST = 16
"""Largest number of cycles by which the overflow bits of a sample follow its values."""


def most_under_way(latency: int, ii: int) -> int:
    """Return the largest number of samples between acceptance and the output handshake.

    Args:
        latency: Cycles from acceptance to the last overflow bit.
        ii: Initiation interval in cycles.
    """
    return math.ceil((latency + FIFO_LATENCY) / ii) + 1 + (ii == 1)


class FunctionEnd(NamedTuple):
    """End of one function in the pipeline, where its results enter a FIFO."""

    latency: int
    """Cycle of a sample, counted from its acceptance, in which the values are delivered."""
    late: int
    """Cycles from the values to the overflow bits of the same sample."""
    values: int
    """Width of the values in bits."""
    flags: int
    """Number of overflow bits."""


class EndRegisters(NamedTuple):
    """Registers of one end that a formal proof observes."""

    valid: Signal
    """Bit k is 1 if a sample is in cycles 1 + k·ii to (k + 1)·ii after its acceptance."""
    values: SyncFIFOBuffered
    flags: SyncFIFOBuffered


class FlowRegisters(NamedTuple):
    """Registers of the flow control that a formal proof observes."""

    in_slot: Signal
    credit: Signal
    may_enter: Signal
    offered: Signal
    ends: tuple[EndRegisters, ...]


class FlowControl(wiring.Component):
    """Flow control of a pipeline: handshakes, slot counter, and output FIFOs with credit.

    ==========  ===  ==============================================================================
    i_valid     in   1: a sample is offered
    i_end       in   index of the end at which the sample will leave
    i_ready     out  1: the sample can enter in this cycle
    accept      out  1: the sample enters in this cycle
    in_slot     out  ii bits, one-hot: the cycle modulo ii
    values_k    in   at end k: values of the sample that is in its last cycle
    flags_k     in   at end k: overflow bits of the sample whose values came `late` cycles before
    o_values_k  out  values of the oldest result of end k
    o_flags_k   out  overflow bits of the oldest result of end k
    o_end       out  index of the end of the result that is offered
    o_valid     out  1: a result is offered
    o_ready     in   1: the result is accepted
    ==========  ===  ==============================================================================
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
        in_slot = Signal(ii, init=1, attrs=DUPLICATED)  # one-hot: each enable comes straight from a register
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
        offered = Signal(len(self.ends), init=1)  # one-hot: the end whose result is offered
        ends = tuple(self._end(m, k, in_slot, offered) for k in range(len(self.ends)))
        self._offer_next(m, offered, [end.flags.r_rdy for end in ends], taken)
        self.state = FlowRegisters(in_slot, credit, may_enter, offered, ends)
        return m

    def _end(self, m: Module, k: int, in_slot: Signal, offered: Signal) -> EndRegisters:
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
        m.d.comb += leaves.eq(self.o_ready & offered[k] & fifos[-1].r_rdy)
        return EndRegisters(valid, *fifos)

    def _offer_next(self, m: Module, offered: Signal, ready: list[Signal], taken: Signal) -> None:
        """Choose the end whose result is offered, round-robin, and hold the choice until the result is accepted.

        Every end computes in parallel whether it is next, so that no combinational chain runs through the ends.
        """
        count = len(ready)
        m.d.comb += self.o_valid.eq(
            (Cat(*ready) & offered).any()
        )  # the FIFO of flags fills later than the FIFO of values
        if count == 1:
            return
        comes: list[Value] = []
        for end in range(count):
            before = [(end - step) % count for step in range(1, count)]  # ends that may be next, in round-robin order
            ways = [offered[k] & ~Cat(ready[other] for other in before[:step]).any() for step, k in enumerate(before)]
            comes.append(ready[end] & Cat(*ways).any())
        with m.If((taken | ~self.o_valid) & Cat(*comes).any()):
            m.d.sync += offered.eq(Cat(*comes))
            for bit in range(len(self.o_end)):
                m.d.sync += self.o_end[bit].eq(Cat(come for k, come in enumerate(comes) if k >> bit & 1).any())
