"""Flow control of a free-running pipeline: when a sample may enter, where it is, and where it waits at the end.

The pipeline itself never waits. A sample enters in slot 0 when the output FIFOs are sure to have room for it: credit is
what is left of their depth.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

FIFO_LATENCY = 3
"""Cycles from a write into the output FIFO until its credit can be back at the input."""


class State(NamedTuple):
    """What a proof needs to see of the flow's registers."""

    slot: Signal
    in_slot: Signal
    credit: Signal
    valid: Signal
    values: SyncFIFOBuffered
    flags: SyncFIFOBuffered


class Flow(wiring.Component):
    """Flow control: handshakes, the slot counter, and the output FIFO with its credit.

    =========  ===  ===================================================================================
    i_valid    in   a sample is offered
    i_ready    out  it can enter in this cycle
    accept     out  it enters
    slot       out  the cycle modulo ii
    in_slot    out  the same, one-hot
    values     in   the outputs of the sample that is in its last cycle, `latency` after its acceptance
    flags      in   the overflow bits of the sample `late` cycles after that
    o_payload  out  values, then flags, of the oldest result
    o_valid    out  there is a result
    o_ready    in   it is taken
    =========  ===  ===================================================================================
    """

    def __init__(self, ii: int, latency: int, late: int, values: int, flags: int) -> None:
        self.ii, self.latency, self.late = ii, latency, late
        self.depth = math.ceil((latency + late + FIFO_LATENCY) / ii) + 1
        super().__init__(
            {
                "i_valid": In(1),
                "i_ready": Out(1),
                "accept": Out(1),
                "slot": Out(range(ii)),
                "in_slot": Out(ii),
                "values": In(values),
                "flags": In(flags),
                "o_payload": Out(values + flags),
                "o_valid": Out(1),
                "o_ready": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ii = self.ii
        slot = Signal(range(ii))
        in_slot = Signal(ii, init=1)  # one hot, so that an enable is one register away
        if ii > 1:
            m.d.sync += [slot.eq(Mux(slot == ii - 1, 0, slot + 1)), in_slot.eq(in_slot.rotate_left(1))]
        credit = Signal(range(self.depth + 1), init=self.depth)
        m.d.comb += [
            self.slot.eq(slot),
            self.in_slot.eq(in_slot),
            self.i_ready.eq(in_slot[0] & (credit != 0)),
            self.accept.eq(self.i_ready & self.i_valid),
        ]

        # valid[k] belongs to the sample that is in cycles 1 + k ii to (k + 1) ii
        steps = max(math.ceil((self.latency + self.late) / ii), 1)
        valid = Signal(steps)
        m.d.sync += valid[0].eq(Mux(in_slot[0], self.accept, valid[0]))
        for k in range(1, steps):
            m.d.sync += valid[k].eq(Mux(in_slot[0], valid[k - 1], valid[k]))

        taken = Signal()
        fifos = []
        ends = ("values", self.values, self.latency), ("flags", self.flags, self.latency + self.late)
        for name, bits, cycle in ends:
            fifo = SyncFIFOBuffered(width=len(bits), depth=self.depth)
            m.submodules[f"{name}_fifo"] = fifo
            m.d.comb += [
                fifo.w_data.eq(bits),
                fifo.w_en.eq(valid[math.ceil(cycle / ii) - 1] & in_slot[cycle % ii]),
                fifo.r_en.eq(taken),
            ]
            fifos.append(fifo)
        m.d.comb += [
            self.o_payload.eq(Cat(*(fifo.r_data for fifo in fifos))),
            self.o_valid.eq(fifos[-1].r_rdy),  # the later one
            taken.eq(self.o_valid & self.o_ready),
        ]
        m.d.sync += credit.eq(credit - self.accept + taken)
        self.state = State(slot, in_slot, credit, valid, *fifos)
        return m
