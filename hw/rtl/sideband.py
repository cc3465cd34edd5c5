"""Data that waits next to a pipeline for the results of its samples."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class InFlightSideband(wiring.Component):
    """A queue whose user knows when it has something and when it has room, as a pipeline's credit says. So it counts
    nothing, and two comparisons less lie before its registers than in a FIFO.

    most: what waits at once, at most.

    ======  ===  ===========================================
    w_data  in   what goes in
    w_en    in   it does
    r_data  out  the oldest; undefined where there is none
    r_en    in   it leaves
    empty   out  there is none
    ======  ===  ===========================================
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
