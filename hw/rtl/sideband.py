"""A queue for data that bypasses a pipeline and waits for the results of its samples."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class InFlightSideband(wiring.Component):
    """A FIFO without an occupancy counter: the pipeline's credit guarantees that it never overflows or underflows.

    This saves two comparisons in front of its registers.

    ======  ===  ===========================================
    w_data  in   data to write
    w_en    in   1: write the data
    r_data  out  oldest data; undefined if the queue is empty
    r_en    in   1: remove the oldest data
    empty   out  1: the queue is empty
    ======  ===  ===========================================

    Args:
        width: Bits of an entry.
        most: Largest number of entries that wait at once.
    """

    def __init__(self, width: int, most: int) -> None:
        self.width, self.places = width, most + 1  # the places of next and oldest are the same only where none waits
        super().__init__(
            {"w_data": In(width), "w_en": In(1), "r_data": Out(width), "r_en": In(1), "empty": Out(1)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.storage = storage = Memory(shape=self.width, depth=self.places, init=[])
        write, read = storage.write_port(), storage.read_port(domain="comb")
        following, oldest = Signal(range(self.places)), Signal(range(self.places))
        m.d.comb += [
            write.addr.eq(following),
            write.data.eq(self.w_data),
            write.en.eq(self.w_en),
            read.addr.eq(oldest),
            self.r_data.eq(read.data),
            self.empty.eq(following == oldest),
        ]
        for place, moves in ((following, self.w_en), (oldest, self.r_en)):
            with m.If(moves):
                m.d.sync += place.eq(Mux(place == self.places - 1, 0, place + 1))
        return m
