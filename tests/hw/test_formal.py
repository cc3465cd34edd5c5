"""Proofs by induction: no pattern of handshakes, however long, breaks the flow control or loses a sample's room."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.fifo import SyncFIFOBuffered
from dynagate.design.words import FIXED
from dynagate.fixedpoint.format import Format
from dynagate.hw.plan.flow import FlowControl, FunctionEnd
from dynagate.hw.rtl.axi_lite import AxiLite
from dynagate.hw.rtl.axi_stream import InputStream, OutputStream

from tests.equivalence.formal import ProofError, prove

FORMATS = [Format(6, 3)] * 3


def ones(bits: Value) -> Value:
    return sum((bits[k] for k in range(len(bits))), Const(0, 8))


def stays_until_taken(m: Module, valid: Value, ready: Value, *held: Value) -> None:
    """What an AXI stream promises: once valid it stays, and so does what comes with it."""
    waited, before = Signal(), Signal(len(Cat(*held)))
    m.d.sync += [waited.eq(valid & ~ready), before.eq(Cat(*held))]
    m.d.comb += Assert(~waited | (valid & (before == Cat(*held))))


def never_overflows(m: Module, fifo: SyncFIFOBuffered) -> None:
    """Nothing is written where there is no room, and nothing is read that is not there."""
    m.d.comb += [
        Assert(~fifo.w_en | fifo.w_rdy),
        Assert(fifo.level <= fifo.depth),
        Assert(~fifo.r_rdy | (fifo.level != 0)),
    ]


class FlowProof(FlowControl):
    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        s, ii = self.state, self.ii
        slot = Signal(range(ii))
        m.d.comb += slot.eq(sum(Mux(s.in_slot[k], k, 0) for k in range(ii)))

        def inside(valid: Value, cycle: int) -> Value:
            """Samples that entered and whose this cycle is not over."""
            step, place = divmod(cycle - 1, ii)
            now = Mux(slot == 0, ii - 1, slot - 1) if ii > 1 else Const(0)
            return ones(valid[:step]) + (valid[step] & (now <= place))

        m.d.comb += [Assert(ones(s.in_slot) == 1), Assert(s.offered == 1 << self.o_end)]
        m.d.comb += Assert(~s.in_slot[0] | ~s.may_enter | (s.credit != 0))
        room: Value = s.credit
        for k, (end, e) in enumerate(zip(self.ends, s.ends, strict=True)):
            written, flagged = inside(e.valid, end.latency), inside(e.valid, end.latency + end.late)
            room = room + flagged + e.flags.level
            m.d.comb += [
                Assert(e.values.level + written == flagged + e.flags.level),
                Assert(~self.o_valid | (self.o_end != k) | e.values.r_rdy),
            ]
            never_overflows(m, e.values)
            never_overflows(m, e.flags)
        m.d.comb += Assert(room == self.depth)  # every sample's room is either free, on its way, or taken by it
        values = [getattr(self, f"o_values_{k}") for k in range(len(self.ends))]
        stays_until_taken(m, self.o_valid, self.o_ready, self.o_end, Array(values)[self.o_end])
        return m

    def inputs(self) -> list[Value]:
        data = [getattr(self, f"{name}_{k}") for k in range(len(self.ends)) for name in ("values", "flags")]
        return [self.i_valid, self.o_ready, *data, *([self.i_end] if len(self.ends) > 1 else [])]


class InputProof(InputStream):
    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        s = self.state
        m.d.comb += [
            Assert(self.beat < self.beats),
            Assert(~s.some | (s.credit != 0)),
            Assert(s.credit + (self.beat != 0) + ones(s.under_way) + s.fifo.level == self.depth),
            Assert(~self.idle | (~self.o_valid & (self.beat == 0) & ~s.under_way.any())),
        ]
        never_overflows(m, s.fifo)
        held = (self.o_payload, self.o_bad, self.o_broken, self.o_last, self.o_tag)
        stays_until_taken(m, self.o_valid, self.o_ready, *held)
        return m

    def inputs(self) -> list[Value]:
        return [self.tdata, self.tkeep, self.tvalid, self.tlast, self.o_ready]


class OutputProof(OutputStream):
    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        s = self.state
        m.d.comb += Assert(s.credit + ones(s.under_way) + s.fifo.level == s.fifo.depth)
        m.d.comb += Assert(~s.some | (s.credit != 0))
        m.d.comb += Assert(~self.idle | (~self.tvalid & (s.fifo.level == 0) & ~s.under_way.any()))
        never_overflows(m, s.fifo)
        stays_until_taken(m, self.tvalid, self.tready, self.tdata, self.tlast)
        return m

    def inputs(self) -> list[Value]:
        several = [self.i_layout] if len(self.layouts.ends) > 1 else []
        chosen = [self.i_choice] if "i_choice" in self.signature.members else []
        return [self.i_payload, self.i_bad, self.i_last, self.i_tag, *several, *chosen, self.i_valid, self.tready]


class LiteProof(AxiLite):
    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        stays_until_taken(m, self.bvalid, self.bready, self.bresp)
        stays_until_taken(m, self.rvalid, self.rready, self.rdata, self.rresp)
        # an answer for each request, and none without
        for asked, answered, inside in (
            (self.awvalid & self.awready, self.bvalid & self.bready, self.have_address + self.bvalid),
            (self.wvalid & self.wready, self.bvalid & self.bready, self.have_data + self.bvalid),
            (self.arvalid & self.arready, self.rvalid & self.rready, self.reading + self.rvalid),
        ):
            unanswered = Signal(3)
            m.d.sync += unanswered.eq(unanswered + asked - answered)
            m.d.comb += Assert(unanswered == inside)
        if "outputs" in self.signature.members:
            before, may_change = Signal(len(self.outputs), init=self.outputs.init), Signal(init=1)
            m.d.sync += [before.eq(self.outputs), may_change.eq(self.idle | self.restore)]
            m.d.comb += [
                Assert((before == self.outputs) | may_change),
                Assert(self.outputs[0] & self.outputs[1:].any()),  # an output of each function
            ]
        return m

    def inputs(self) -> list[Value]:
        names = ["awaddr", "awvalid", "wdata", "wstrb", "wvalid", "bready", "araddr", "arvalid", "rready"]
        names += ["idle", "restore"] if "outputs" in self.signature.members else []
        return [getattr(self, name) for name in names]


PROOFS: dict[str, Callable[[], FlowProof | InputProof | OutputProof | LiteProof]] = {
    "flow ii 1": lambda: FlowProof(1, [FunctionEnd(3, 2, 2, 1)]),
    "flow ii 2": lambda: FlowProof(2, [FunctionEnd(4, 1, 2, 1)]),
    "flow ii 3": lambda: FlowProof(3, [FunctionEnd(7, 3, 2, 1)]),
    "flow ii 8": lambda: FlowProof(8, [FunctionEnd(20, 3, 2, 1)]),
    "two functions": lambda: FlowProof(2, [FunctionEnd(2, 1, 2, 1), FunctionEnd(4, 2, 2, 1)]),
    "input, a beat a sample": lambda: InputProof(FORMATS[:1], 64, 1),
    "input, three beats a sample": lambda: InputProof(FORMATS[:2], 32, 2),
    "input, batches cut short": lambda: InputProof(FORMATS[:2], 32, 2, last="batch"),
    "output, a beat a sample": lambda: OutputProof(FORMATS[:1], 64),
    "output, two beats a sample": lambda: OutputProof(FORMATS, 64),
    "input of integers": lambda: InputProof(FORMATS, 32, 2, words=FIXED),
    "output of integers": lambda: OutputProof(FORMATS, 32, words=FIXED),
    "output, two functions": lambda: OutputProof(FORMATS, 64, layouts=[[[0]], [[2, 0, 1]]]),
    "output, two functions, one of them with a choice": lambda: OutputProof(
        FORMATS, 64, layouts=[[[0]], [[2], [0, 1], [2, 0, 1]]]
    ),
    "registers": lambda: LiteProof({}),
    "registers, one of them a choice of outputs": lambda: LiteProof({}, choices=(1, 3)),
}


@pytest.mark.parametrize("name", list(PROOFS))
def test_handshakes(name: str) -> None:
    design = PROOFS[name]()
    prove(design, design.inputs())


def test_a_flow_with_too_little_room_is_not_proved() -> None:
    class Short(FlowProof):
        def elaborate(self, platform: object) -> Module:
            m = super().elaborate(platform)
            m.d.sync += self.state.credit.eq(self.state.credit + (self.o_valid & self.o_ready))  # nothing is taken
            return m

    design = Short(2, [FunctionEnd(4, 1, 2, 1)])
    with pytest.raises(ProofError, match="not proved"):
        prove(design, design.inputs(), steps=4)
