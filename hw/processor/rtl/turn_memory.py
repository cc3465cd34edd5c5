"""The memory of iterations: what loops keep of every iteration. It begins with zeros."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.shape import LOADING, Core
from dynagate.hw.units.rescale import BLOCK_RAM, delayed

KEPT = "kept_of_turns"
"""The memory's name in Verilog, where it is the only one of zeros that is given them."""


class TurnMemory(wiring.Component):
    """A load or a store every cycle at most. What a store leaves, a load of a later cycle meets.

    =======  ===  ====================================================
    load     in   a value is requested
    store    in   a value is here
    address  in   of the first iteration's value
    down     in   those of later iterations lie below it
    turn     in   of the loop
    value    in   what is to be kept, signed
    place    in   where a loaded one goes
    valid    out  it is here, LOADING cycles later
    o        out  the value, signed
    to       out  its place
    =======  ===  ====================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "load": In(1),
                "store": In(1),
                "address": In(core.turn_bits),
                "down": In(1),
                "turn": In(core.turn_bits),
                "value": In(signed(core.word)),
                "place": In(core.place_bits),
                "valid": Out(1),
                "o": Out(signed(core.word)),
                "to": Out(core.place_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core = self.core
        at = Signal(core.turn_bits, reset_less=True)
        m.d.sync += at.eq(Mux(self.down, self.address - self.turn, self.address + self.turn))
        memory = Memory(shape=signed(core.word), depth=1 << core.turn_bits, init=[], attrs=BLOCK_RAM)
        m.submodules[KEPT] = memory
        into, out = memory.write_port(), memory.read_port()
        m.d.comb += [
            into.addr.eq(at),
            into.data.eq(delayed(m, self.value, 1, "value")),
            into.en.eq(delayed(m, self.store, 1, "store", reset=True)),
            out.addr.eq(at),
            out.en.eq(1),
            self.valid.eq(delayed(m, self.load, LOADING, "load", reset=True)),
            self.o.eq(delayed(m, out.data, LOADING - 2, "loaded")),
            self.to.eq(delayed(m, self.place, LOADING, "place")),
        ]
        return m
