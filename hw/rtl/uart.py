"""An accelerator behind a serial line: bits to bytes, bytes to frames (`hw.rtl.frames`), frames to streams and
registers.

A sample is passed on to the accelerator only when its complete frame has arrived with a correct CRC. So bytes that are
lost or added on the line never become part of a sample.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import (
    Array,
    Cat,
    ClockSignal,
    Const,
    Instance,
    Module,
    Mux,
    ResetInserter,
    Signal,
    Value,
    unsigned,
)
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.crc.catalog import CRC32_ETHERNET
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.base.errors import ArgumentError
from dynagate.hw.rtl.frames import (
    ANSWER,
    END,
    ESC,
    ESC_END,
    ESC_ESC,
    NUMBERS,
    VERSION,
    FrameKind,
    Refusal,
    waiting_words,
)
from dynagate.hw.rtl.regmap import ADDRESS_BITS, BITS
from dynagate.hw.rtl.stream_ports import stream_ports

LEAST_CLOCKS = 4
"""Smallest number of clock cycles per bit: fewer leave no margin around the middle of a bit."""
TOLERANCE = 0.02
"""Largest relative error of the device's baud rate: over the ten bits of a byte it is a fifth of a bit."""
SPARE = 4
"""Words of the sample buffer that are reserved for frames of register accesses."""
TOP = "serial"
"""Name of the Verilog module."""
_NUMBER = range(NUMBERS)


def clocks_per_bit(megahertz: float, baud: int) -> int:
    """Return the clock cycles per bit.

    Args:
        megahertz: Clock frequency.
        baud: Bits per second.

    Raises:
        ArgumentError: The clock cannot make this baud rate.
    """
    clocks = max(round(megahertz * 1e6 / baud), 1)
    error = abs(megahertz * 1e6 / clocks / baud - 1)
    if clocks < LEAST_CLOCKS or error > TOLERANCE:
        raise ArgumentError(
            f"{baud} baud from a clock of {megahertz:g} MHz is {clocks} clocks a bit, {error:.1%} off; expected "
            f"{LEAST_CLOCKS} clocks or more and at most {TOLERANCE:.0%}: another baud",
            code="DG-HW-032",
        )
    return clocks


class Receiver(wiring.Component):
    """Converts bits to bytes.

    =====  ===  ==============================================================
    rx     in   the line, asynchronous
    data   out  8 bits: a byte
    valid  out  1 for one cycle: a byte has arrived
    lost   out  1 for one cycle: a byte without a stop bit was dropped
    =====  ===  ==============================================================
    """

    def __init__(self, clocks: int) -> None:
        self.clocks = clocks
        super().__init__({"rx": In(1), "data": Out(8), "valid": Out(1), "lost": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rx = Signal(init=1)
        m.submodules.line = FFSynchronizer(self.rx, rx, init=1)
        wait = Signal(range(self.clocks))
        left = Signal(range(9))
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [wait.eq(self.clocks // 2 - 1), left.eq(8)]
                with m.If(~rx):
                    m.next = "START"
            with m.State("START"):  # a line that is up again in the middle of the bit was noise
                m.d.sync += wait.eq(Mux(wait == 0, self.clocks - 1, wait - 1))
                with m.If(wait == 0):
                    m.next = "BITS"
                    with m.If(rx):
                        m.next = "IDLE"
            with m.State("BITS"):
                m.d.sync += wait.eq(Mux(wait == 0, self.clocks - 1, wait - 1))
                with m.If(wait == 0):
                    with m.If(left == 0):
                        m.d.comb += [self.valid.eq(rx), self.lost.eq(~rx)]
                        m.next = "UP"
                    with m.Else():
                        m.d.sync += [self.data.eq(Cat(self.data[1:], rx)), left.eq(left - 1)]
            with m.State("UP"), m.If(rx):  # a line that stays down is no byte after byte
                m.next = "IDLE"
        return m


class Transmitter(wiring.Component):
    """Converts bytes to bits.

    =====  ===  ===========================
    data   in   8 bits: a byte
    valid  in   1: the byte is offered
    ready  out  1: the byte is accepted
    tx     out  the line
    =====  ===  ===========================
    """

    def __init__(self, clocks: int) -> None:
        self.clocks = clocks
        super().__init__({"data": In(8), "valid": In(1), "ready": Out(1), "tx": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        wait = Signal(range(self.clocks))
        left = Signal(range(10))
        bits = Signal(9, init=0x1FF)
        m.d.comb += self.ready.eq((left == 0) & (wait == 0))
        m.d.sync += self.tx.eq(bits[0])
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Elif(left != 0):
            m.d.sync += [bits.eq(Cat(bits[1:], Const(1, 1))), left.eq(left - 1), wait.eq(self.clocks - 1)]
        with m.Elif(self.valid):
            m.d.sync += [bits.eq(Cat(Const(0, 1), self.data)), left.eq(9), wait.eq(self.clocks - 1)]
        return m


class FrameReader(wiring.Component):
    """Converts bytes to frames. Words after the header are written to a buffer before the CRC is known.

    =======  ===  ==============================================================================
    data     in   8 bits: a byte
    valid    in   1 for one cycle: a byte has arrived
    lost     in   1 for one cycle: a byte was lost
    room     in   number of free words in the buffer
    word     out  32 bits: a word for the buffer
    place    out  index of the word among the words after the header
    write    out  1 for one cycle: write the word
    whole    out  1 for one cycle: an undamaged frame has ended; the outputs below are then
                  valid until the next frame
    header   out  32 bits: the header
    value    out  32 bits: the first word after the header
    count    out  number of words in the payload
    =======  ===  ==============================================================================
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        super().__init__(
            {
                "data": In(8),
                "valid": In(1),
                "lost": In(1),
                "room": In(range(depth + 1)),
                "word": Out(BITS),
                "place": Out(range(depth + 2)),
                "write": Out(1),
                "whole": Out(1),
                "header": Out(BITS),
                "value": Out(BITS),
                "count": Out(range(depth + 2)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.crc = crc = CRC32_ETHERNET(data_width=8).create()
        escaped, broken, full = Signal(), Signal(), Signal()
        position = Signal(2)  # of the next byte in its word
        words = Signal(range(self.depth + 3))
        byte = Signal(8)
        special = Signal()
        arrived = Signal()  # a word is whole
        m.d.comb += [
            byte.eq(Mux(escaped, Mux(self.data == ESC_END, END, ESC), self.data)),
            special.eq((self.data == END) | (self.data == ESC)),
            crc.data.eq(byte),
            crc.valid.eq(self.valid & ~special),
            self.place.eq(words - 1),
            self.write.eq(arrived & (words != 0) & ~full & ~broken),
        ]
        # bytes come many cycles apart, so a comparison may be of the cycle before
        m.d.sync += [arrived.eq(crc.valid & (position == 3)), full.eq(words > self.room)]
        with m.If(self.lost):
            m.d.sync += broken.eq(1)
        with m.If(crc.valid):
            m.d.sync += [self.word.eq(Cat(self.word[8:], byte)), position.eq(position + 1), escaped.eq(0)]
            with m.If(escaped & (self.data != ESC_END) & (self.data != ESC_ESC)):
                m.d.sync += broken.eq(1)
        with m.If(self.valid & (self.data == ESC)):
            m.d.sync += [escaped.eq(1), broken.eq(broken | escaped)]
        with m.If(arrived):
            with m.If(words == 0):
                m.d.sync += self.header.eq(self.word)
            with m.If(words == 1):
                m.d.sync += self.value.eq(self.word)
            # the header and the CRC do not stay in the buffer, but the CRC is written there
            with m.If(full):
                m.d.sync += broken.eq(1)
            with m.Else():
                m.d.sync += words.eq(words + 1)
        ended = Signal()
        fresh = Signal(init=1)
        m.d.comb += crc.start.eq(fresh)
        m.d.sync += [
            ended.eq(self.valid & (self.data == END)),
            fresh.eq(ended),
            self.whole.eq(ended & crc.match_detected & ~broken & ~escaped & (position == 0) & (words >= 2)),
        ]
        with m.If(ended):
            m.d.sync += self.count.eq(words - 2)
            m.d.sync += [escaped.eq(0), broken.eq(0), position.eq(0), words.eq(0)]
        return m


class FrameWriter(wiring.Component):
    """Converts a header and words to a frame: header, words as they are offered, CRC.

    =======  ===  =============================================================
    header   in   32 bits: the header
    open     in   1: a frame is to begin
    opened   out  1 for one cycle: the frame begins, and the header is accepted
    word     in   32 bits: a word of the payload
    valid    in   1: the word is offered
    ready    out  1 for one cycle: the word is accepted
    last     in   1: this is the last word, or there is no word
    data     out  8 bits: a byte
    offered  out  1: the byte is offered
    taken    in   1: the byte is accepted
    =======  ===  =============================================================

    A frame without payload has `last` without `valid`.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "header": In(BITS),
                "open": In(1),
                "opened": Out(1),
                "word": In(BITS),
                "valid": In(1),
                "ready": Out(1),
                "last": In(1),
                "data": Out(8),
                "offered": Out(1),
                "taken": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.crc = crc = CRC32_ETHERNET(data_width=8).create()
        word = Signal(BITS)
        position = Signal(2)
        escaped, closing, ends = Signal(), Signal(), Signal()
        byte = word[:8]
        special = (byte == END) | (byte == ESC)
        m.d.comb += crc.data.eq(byte)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.opened.eq(self.open), crc.start.eq(1)]
                m.d.sync += [word.eq(self.header), closing.eq(0), ends.eq(0), position.eq(0), escaped.eq(0)]
                with m.If(self.open):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += [self.data.eq(END), self.offered.eq(1)]
                with m.If(self.taken):
                    m.next = "WORD"
            with m.State("WORD"):
                m.d.comb += self.offered.eq(1)
                with m.If(special & ~escaped):
                    m.d.comb += self.data.eq(ESC)
                    with m.If(self.taken):
                        m.d.sync += escaped.eq(1)
                with m.Else():
                    m.d.comb += self.data.eq(Mux(escaped, Mux(byte == END, ESC_END, ESC_ESC), byte))
                    m.d.comb += crc.valid.eq(self.taken)
                    with m.If(self.taken):
                        m.d.sync += [escaped.eq(0), word.eq(word[8:]), position.eq(position + 1)]
                        with m.If(position == 3):
                            m.next = "NEXT"
            with m.State("NEXT"):
                with m.If(closing):
                    m.next = "END"
                with m.Elif(ends | (self.last & ~self.valid)):
                    m.d.sync += [word.eq(crc.crc), closing.eq(1)]
                    m.next = "WORD"
                with m.Elif(self.valid):
                    m.d.comb += self.ready.eq(1)
                    m.d.sync += [word.eq(self.word), ends.eq(self.last)]
                    m.next = "WORD"
            with m.State("END"):
                m.d.comb += [self.data.eq(END), self.offered.eq(1)]
                with m.If(self.taken):
                    m.next = "IDLE"
        return m


class Samples(wiring.Component):
    """Buffer of samples that wait for the accelerator. A refused sample, and those after it, are dropped.

    ========  ===  ==============================================================
    word      in   32 bits: a word of a frame
    place     in   index of the word in the frame
    write     in   1 for one cycle: write the word
    room      out  number of free words
    commit    in   1 for one cycle: the words that were written are a sample
    count     in   number of words of the sample, valid from the cycle before
    number    in   number of the sample, valid from the cycle before
    expected  out  number of the next sample
    refuses   out  1 for one cycle: the first sample since a reset is refused
    reason    out  reason of the refusal, a Refusal
    tdata     out  32 bits: a word of a sample
    tvalid    out  1: the word is offered
    tready    in   1: the word is accepted
    tlast     out  1: the word is the last of its sample
    ========  ===  ==============================================================
    """

    def __init__(self, beats: int | None, depth: int) -> None:
        """Describe the buffer.

        Args:
            beats: Words of a sample; None if samples have different lengths, whose end the accelerator finds without
                TLAST.
            depth: Words that the buffer holds.
        """
        self.beats, self.depth = beats, depth
        super().__init__(
            {
                "word": In(BITS),
                "place": In(range(depth + 2)),
                "write": In(1),
                "room": Out(range(depth + 1)),
                "commit": In(1),
                "count": In(range(depth + 2)),
                "number": In(_NUMBER),
                "expected": Out(_NUMBER),
                "refuses": Out(1),
                "reason": Out(8),
                **stream_ports(BITS, into=False),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=unsigned(BITS), depth=self.depth, init=[])
        into, out = memory.write_port(), memory.read_port()
        free, oldest = Signal(range(self.depth)), Signal(range(self.depth))
        used = Signal(range(self.depth + 1))
        beats: Value = self.count if self.beats is None else Const(self.beats)
        in_order, of_size, fits, refused, kept = Signal(), Signal(), Signal(), Signal(), Signal()
        fetch, fetched = Signal(), Signal()
        m.d.comb += [
            into.addr.eq(free + self.place),
            into.data.eq(self.word),
            into.en.eq(self.write),
            self.room.eq(self.depth - used),
            fits.eq(in_order & of_size),
            self.reason.eq(Mux(in_order, Refusal.SIZE, Refusal.ORDER)),
            kept.eq(self.commit & fits & ~refused),
            self.refuses.eq(self.commit & ~fits & ~refused),
            fetch.eq((used != 0) & ~fetched & ~self.tvalid),
            out.addr.eq(oldest),
            out.en.eq(fetch),
        ]
        m.d.sync += [
            in_order.eq(self.number == self.expected),
            of_size.eq(self.count == beats),
            used.eq(used + Mux(kept, beats, 0) - fetch),
            oldest.eq(oldest + fetch),
            fetched.eq(fetch),
            self.tvalid.eq(fetched | (self.tvalid & ~self.tready)),
            refused.eq(refused | self.refuses),
        ]
        with m.If(fetched):  # a block of memory answers late in the cycle: no logic behind it
            m.d.sync += self.tdata.eq(out.data)
        with m.If(kept):
            m.d.sync += [free.eq(free + beats), self.expected.eq(self.expected + 1)]
        if self.beats is not None:
            beat = Signal(range(max(self.beats, 2)))
            m.d.comb += self.tlast.eq(beat == self.beats - 1)
            with m.If(self.tvalid & self.tready):
                m.d.sync += beat.eq(Mux(self.tlast, 0, beat + 1))
        return m


_LITE_OUT = {"awaddr": ADDRESS_BITS, "awvalid": 1, "wdata": BITS, "wvalid": 1, "bready": 1}
"""Bits of the AXI4-Lite signals that the manager drives, by name."""
_LITE_OUT |= {"araddr": ADDRESS_BITS, "arvalid": 1, "rready": 1}
_LITE_IN = {"awready": 1, "wready": 1, "bresp": 2, "bvalid": 1, "arready": 1, "rdata": BITS, "rresp": 2, "rvalid": 1}
"""Bits of the AXI4-Lite signals that the subordinate drives, by name."""


class Access(wiring.Component):
    """Accesses registers over AXI4-Lite, one at a time. The ports of AXI4-Lite are listed in _LITE_OUT and _LITE_IN.

    ========  ===  ==============================================================
    start     in   1 for one cycle: begin an access; ignored during an access
    write     in   1 for a write, 0 for a read
    address   in   byte address of the register
    value     in   32 bits: value to write
    number    in   number of the request
    answered  out  1: the answer is available, until `taken`
    header    out  32 bits: header of the answer
    values    out  number of words in its payload
    payload   out  32 bits: the word, if there is one
    taken     in   1 for one cycle: the answer is sent
    ========  ===  ==============================================================
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "start": In(1),
                "write": In(1),
                "address": In(8),
                "value": In(BITS),
                "number": In(_NUMBER),
                "answered": Out(1),
                "header": Out(BITS),
                "values": Out(2),
                "payload": Out(BITS),
                "taken": In(1),
                **{name: Out(width) for name, width in _LITE_OUT.items()},
                **{name: In(width) for name, width in _LITE_IN.items()},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        writes = Signal()
        response = Signal(8)
        number = Signal(_NUMBER)
        kind = Mux(writes, FrameKind.WRITE | ANSWER, FrameKind.READ | ANSWER)
        m.d.comb += [self.header.eq(Cat(Const(0, 8) | kind, response, number)), self.values.eq(~writes)]
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += [
                    writes.eq(self.write),
                    number.eq(self.number),
                    self.awaddr.eq(self.address),
                    self.araddr.eq(self.address),
                    self.wdata.eq(self.value),
                    self.awvalid.eq(self.write),
                    self.wvalid.eq(self.write),
                    self.arvalid.eq(~self.write),
                ]
                m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += [self.bready.eq(1), self.rready.eq(1)]
                for name in ("aw", "w", "ar"):
                    with m.If(getattr(self, f"{name}ready")):
                        m.d.sync += getattr(self, f"{name}valid").eq(0)
                with m.If(self.bvalid | self.rvalid):
                    m.d.sync += [response.eq(Mux(writes, self.bresp, self.rresp)), self.payload.eq(self.rdata)]
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += self.answered.eq(1)
                with m.If(self.taken):
                    m.next = "IDLE"
        return m


class Serial(wiring.Component):
    """An accelerator behind a serial line. The module `accelerator` is in a file of its own.

    ===  ===  ===========================
    clk  in   clock of the whole module
    rst  in   synchronous reset
    rx   in   the line from the host
    tx   out  the line to the host
    ===  ===  ===========================

    Args:
        beats: Words of a sample, one per beat; None if samples have different lengths.
        clocks: Clock cycles per bit.
        longest: Largest number of words of a sample, if `beats` is None.
    """

    def __init__(self, beats: int | None, clocks: int, longest: int = 0) -> None:
        self.beats, self.clocks = beats, clocks
        self.depth = waiting_words(longest if beats is None else beats)
        super().__init__({"rx": In(1), "tx": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        resets = Signal()  # for a cycle: a soft reset of all but the line
        m.submodules.receiver = receiver = Receiver(self.clocks)
        m.submodules.transmitter = transmitter = Transmitter(self.clocks)
        m.submodules.reader = reader = FrameReader(self.depth)
        m.submodules.writer = writer = ResetInserter(resets)(FrameWriter())
        m.submodules.samples = samples = ResetInserter(resets)(Samples(self.beats, self.depth))
        m.submodules.access = access = ResetInserter(resets)(Access())
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            reader.data.eq(receiver.data),
            reader.valid.eq(receiver.valid),
            reader.lost.eq(receiver.lost),
            reader.room.eq(samples.room),
            samples.word.eq(reader.word),
            samples.place.eq(reader.place),
            samples.write.eq(reader.write),
            samples.count.eq(reader.count),
            transmitter.data.eq(writer.data),
            transmitter.valid.eq(writer.offered),
            writer.taken.eq(transmitter.ready),
        ]
        kind, argument, number = reader.header[:8], reader.header[8:16], reader.header[16:]
        commit, start = Signal(), Signal()
        m.d.sync += [
            resets.eq(reader.whole & (kind == FrameKind.RESET) & (reader.count == 0)),
            commit.eq(reader.whole & (kind == FrameKind.SAMPLE)),
            start.eq(reader.whole & ((kind == FrameKind.READ) | access.write) & (reader.count == access.write)),
        ]
        m.d.comb += [
            samples.commit.eq(commit),
            samples.number.eq(number),
            access.write.eq(kind == FrameKind.WRITE),
            access.start.eq(start),
            access.address.eq(argument),
            access.value.eq(reader.value),
            access.number.eq(number),
        ]
        result = _Result(m, access, samples, resets)
        self._answers(m, writer, access, samples, result, resets, number)
        return m

    def _answers(
        self, m: Module, writer: Any, access: Access, samples: Samples, result: _Result, resets: Value, number: Value
    ) -> None:
        """Select the device's answer by priority: answer to a reset, refusal, answer to a register access, result."""
        reset_answer, refusal = Signal(), Signal()
        reset_number, refused_number, results = Signal(_NUMBER), Signal(_NUMBER), Signal(_NUMBER)
        reason = Signal(8)
        headers = [
            Cat(Const(FrameKind.RESET | ANSWER, 8), Const(0, 8), reset_number),
            Cat(Const(FrameKind.REFUSED | ANSWER, 8), reason, refused_number),
            access.header,
            Cat(Const(FrameKind.SAMPLE | ANSWER, 8), Const(0, 8), results),
        ]
        pending = [reset_answer, refusal, access.answered, result.tvalid]
        chosen, source, left = Signal(2), Signal(2), Signal(2)
        m.d.comb += [
            chosen.eq(Mux(reset_answer, 0, Mux(refusal, 1, Mux(access.answered, 2, 3)))),
            writer.header.eq(Array(headers)[chosen]),
            writer.open.eq(Cat(pending).any()),
            access.taken.eq(writer.opened & (chosen == 2)),
        ]
        with m.If(writer.opened):
            m.d.sync += [
                source.eq(chosen),
                left.eq(Array([2, 0, access.values, 0])[chosen]),
                reset_answer.eq(reset_answer & (chosen != 0)),
                refusal.eq(refusal & (chosen != 1)),
                results.eq(results + (chosen == 3)),
            ]
        with m.If(writer.ready):
            m.d.sync += left.eq(left - 1)
        with m.If(samples.refuses):
            m.d.sync += [refusal.eq(1), reason.eq(samples.reason), refused_number.eq(samples.expected)]
        with m.If(resets):
            m.d.sync += [reset_answer.eq(1), reset_number.eq(number), refusal.eq(0), results.eq(0)]
        of_reset = Mux(left == 2, VERSION, self.depth - SPARE)
        m.d.comb += [
            writer.word.eq(Array([of_reset, 0, access.payload, result.tdata])[source]),
            writer.valid.eq(Mux(source == 3, result.tvalid, left != 0)),
            writer.last.eq(Mux(source == 3, result.tlast, left <= 1)),
            result.tready.eq(writer.ready & (source == 3)),
        ]


class _Result:
    """Instance of the accelerator, connected to samples and registers; its attributes are the stream of results."""

    def __init__(self, m: Module, access: Access, samples: Samples, resets: Value) -> None:
        self.tdata, self.tvalid, self.tlast = Signal(BITS), Signal(), Signal()
        self.tready = Signal()
        aresetn = Signal()  # a register: wires lead from here all over the chip
        m.d.sync += aresetn.eq(~resets)
        m.submodules.accelerator = Instance(
            "accelerator",
            i_aclk=ClockSignal(),
            i_aresetn=aresetn,
            i_s_axis_tdata=samples.tdata,
            i_s_axis_tvalid=samples.tvalid,
            i_s_axis_tlast=samples.tlast,
            i_s_axis_tkeep=Const((1 << BITS // 8) - 1, BITS // 8),
            o_s_axis_tready=samples.tready,
            o_m_axis_tdata=self.tdata,
            o_m_axis_tvalid=self.tvalid,
            o_m_axis_tlast=self.tlast,
            i_m_axis_tready=self.tready,
            i_s_axil_awprot=Const(0, 3),
            i_s_axil_arprot=Const(0, 3),
            i_s_axil_wstrb=Const(15, 4),
            **{f"i_s_axil_{name}": getattr(access, name) for name in _LITE_OUT},
            **{f"o_s_axil_{name}": getattr(access, name) for name in _LITE_IN},
        )
