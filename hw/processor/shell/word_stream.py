"""Convert between beats of an AXI4-Stream and words of packets.

1. A packet begins with a new beat. The rest of its last beat is ignored.
2. A packet is a head, the words that the head announces, and a tag. The receiver reports which word is the last one.
3. A packet that breaks rule 2 is dropped, with all data up to the next TLAST, and `cut` is 1 for one cycle. The rule is
   broken if TLAST comes before the tag, if no core supports the head, or if a byte of a word is missing. If TLAST ends
   every packet, the rule is also broken if TLAST does not come with the tag. Without TLAST, as behind a serial line, a
   reset ends the drop.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.packets import KIND_SHIFT, REGION_SHIFT, PacketKind
from dynagate.hw.processor.isa.shape import BLOCK_BITS, LANE
from dynagate.hw.rtl.stream_ports import stream_ports

BEATS_BEFORE = 3
"""Beats that can wait between the input port and the cores. With two, only every other cycle would pass a beat."""


def packet_beats(width: int) -> wiring.Signature:
    """Return the interface for beats of packets.

    ========  ===  =========================================================
    tdata     out  words of a beat
    tvalid    out  1: the beat is offered
    tready    in   1: the beat is accepted
    tlast     out  1: the beat ends a packet or a batch
    tkeep     out  one bit per byte: the byte is present
    messages  out  1: the first word, as a head, announces messages
    unknown   out  1: the first word, as a head, is one that no core supports
    ========  ===  =========================================================
    """
    members = {name: port.flip() for name, port in stream_ports(width, into=True).items()}
    return wiring.Signature({**members, "messages": Out(1), "unknown": Out(1)})


def packet_words() -> wiring.Signature:
    """Return the interface for words of packets to the cores.

    ========  ===  ==========================================================================
    word      out  32 bits: a word
    valid     out  1: the word is offered
    ready     in   1: the word is accepted
    ends      in   1: the word is the last of its packet
    refused   in   1: the word is a head that no core supports
    last      out  TLAST of the word's beat
    messages  out  1: the word, as a head, announces messages
    unknown   out  1: the word, as a head, is one that no core supports
    cut       out  1 for one cycle: the packet ends with this word although it is incomplete
    ========  ===  ==========================================================================
    """
    outputs = ("valid", "last", "messages", "unknown", "cut")
    inputs = ("ready", "ends", "refused")
    return wiring.Signature(
        {"word": Out(LANE), **{name: Out(1) for name in outputs}, **{name: In(1) for name in inputs}}
    )


def result_words() -> wiring.Signature:
    """Return the interface for words of answers to the output port.

    =====  ===  =======================================
    word   out  32 bits: a word
    valid  out  1: the word is offered
    ready  in   1: the word is accepted
    ends   out  1: the word is the last of its packet
    last   out  1: TLAST goes with the packet
    =====  ===  =======================================
    """
    return wiring.Signature({"word": Out(LANE), "valid": Out(1), "ready": In(1), "ends": Out(1), "last": Out(1)})


def announces_messages(head: Value) -> Value:
    """Return whether a head announces messages."""
    return head[KIND_SHIFT:LANE] != PacketKind.SAMPLE


def is_unknown(head: Value) -> Value:
    """Return whether no core supports a head.

    The head of a sample holds a block's number and nothing else. The head of messages holds an even number of words
    above 0.
    """
    kind, low = head[KIND_SHIFT:LANE], head[:KIND_SHIFT]
    no_sample = (kind != PacketKind.SAMPLE) | low[BLOCK_BITS:].any()
    no_messages = (kind != PacketKind.MESSAGES) | low[REGION_SHIFT:].any() | low[0] | ~low[1:REGION_SHIFT].any()
    return no_sample & no_messages


class InputBuffer(wiring.Component):
    """Holds up to BEATS_BEFORE beats, so that no combinational path leads from the input port to the cores.

    ======  ===  =========================================
    tdata…  in   the stream, see `stream_ports`
    beats   out  the beats, see `packet_beats`
    ======  ===  =========================================
    """

    def __init__(self, width: int) -> None:
        super().__init__({**stream_ports(width, into=True), "beats": Out(packet_beats(width))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        head, out = self.tdata[:LANE], self.beats
        entry = Cat(self.tdata, self.tlast, self.tkeep, announces_messages(head), is_unknown(head))
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=len(entry), depth=BEATS_BEFORE)
        m.d.comb += [
            fifo.w_data.eq(entry),
            fifo.w_en.eq(self.tvalid),
            self.tready.eq(fifo.w_rdy),
            Cat(out.tdata, out.tlast, out.tkeep, out.messages, out.unknown).eq(fifo.r_data),
            out.tvalid.eq(fifo.r_rdy),
            fifo.r_en.eq(out.tready),
        ]
        return m


class BeatsToWords(wiring.Component):
    """Splits beats into words.

    =====  ===  ===============================================
    beats  in   the beats, see `packet_beats`
    words  out  the words, see `packet_words`
    hole   out  1 for one cycle: a byte of a word is missing
    =====  ===  ===============================================

    Args:
        width: Bits of a beat.
        one_each: Whether TLAST ends every packet, and not only batches of packets.
    """

    def __init__(self, width: int, *, one_each: bool) -> None:
        self.width, self.one_each = width, one_each
        super().__init__({"beats": In(packet_beats(width)), "words": Out(packet_words()), "hole": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beats, words = self.beats, self.words
        lanes = self.width // LANE
        lane = Signal(range(lanes))
        taken, finished, holed, refused, goes_on, skips = (Signal() for _ in range(6))
        m.d.comb += [
            words.word.eq(beats.tdata.word_select(lane, LANE)),
            holed.eq(~beats.tkeep.word_select(lane, LANE // 8).all()),
            words.valid.eq(beats.tvalid & ~skips),
            words.last.eq(beats.tlast),
            words.messages.eq(beats.messages),
            words.unknown.eq(beats.unknown),
            taken.eq(words.valid & words.ready),
            finished.eq(words.ends | holed | words.refused | (lane == lanes - 1)),
            beats.tready.eq(skips | (words.ready & finished)),
            self.hole.eq(taken & holed),
            refused.eq(taken & words.refused),
            goes_on.eq(taken & words.ends & ~beats.tlast if self.one_each else 0),
            words.cut.eq(self.hole | refused | goes_on | (taken & finished & beats.tlast & ~words.ends)),
        ]
        with m.If(beats.tvalid & (skips | self.hole | refused | goes_on)):
            m.d.sync += skips.eq(~beats.tlast)
        with m.If(taken):
            m.d.sync += lane.eq(lane + 1)
            with m.If(finished):
                m.d.sync += lane.eq(0)
        return m


class WordsToBeats(wiring.Component):
    """Joins words into beats. The rest of a packet's last beat is 0.

    ======  ===  =====================================
    words   in   the words, see `result_words`
    tdata…  out  the stream, see `stream_ports`
    ======  ===  =====================================
    """

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__({"words": In(result_words()), **stream_ports(width, into=False)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words, lanes = self.words, self.width // LANE
        lane = Signal(range(lanes))
        m.d.comb += words.ready.eq(~self.tvalid | self.tready)
        with m.If(words.ready):
            m.d.sync += self.tvalid.eq(0)
        with m.If(words.ready & words.valid):
            fresh = [words.word if k == 0 else Const(0, LANE) for k in range(lanes)]
            m.d.sync += self.tdata.eq(Cat(fresh))
            if lanes > 1:
                with m.If(lane != 0):
                    m.d.sync += self.tdata.eq(self.tdata)
                    m.d.sync += self.tdata.word_select(lane, LANE).eq(words.word)
            m.d.sync += lane.eq(lane + 1)
            with m.If(words.ends | (lane == lanes - 1)):
                m.d.sync += [self.tvalid.eq(1), self.tlast.eq(words.ends & words.last), lane.eq(0)]
        return m
