"""The memory of iterations: values that loops keep separately for every iteration. Its initial content is zero."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.shape import LOADING, Core
from dynagate.hw.units.rescale import BLOCK_RAM, delayed

KEPT = "kept_of_iterations"
"""Name of the memory in Verilog. It is the only memory without other contents whose zeros are initialised."""


class IterationMemory(wiring.Component):
    """One load or store per cycle. A load in a later cycle reads what a store has written.

    =========  ===  ==========================================================
    load       in   1: a value is requested
    store      in   1: a value is written
    address    in   address of the first iteration's value
    down       in   1: later iterations use lower addresses
    iteration  in   iteration of the loop
    value      in   signed: value to write
    place      in   address in the shared memory that a loaded value goes to
    valid      out  1: the loaded value, LOADING cycles after the request
    o          out  signed: the value
    to         out  address in the shared memory that it goes to
    =========  ===  ==========================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "load": In(1),
                "store": In(1),
                "address": In(core.iteration_bits),
                "down": In(1),
                "iteration": In(core.iteration_bits),
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
        at = Signal(core.iteration_bits, reset_less=True)
        m.d.sync += at.eq(Mux(self.down, self.address - self.iteration, self.address + self.iteration))
        memory = Memory(shape=signed(core.word), depth=1 << core.iteration_bits, init=[], attrs=BLOCK_RAM)
        m.submodules[KEPT] = memory
        into, out = memory.write_port(), memory.read_port()
        m.d.comb += [
            into.addr.eq(at),
            into.data.eq(delayed(m, self.value, 1, "value")),
            into.en.eq(delayed(m, self.store, 1, "store", reset=True)),
            out.addr.eq(at),
            out.en.eq(1),
            self.valid.eq(delayed(m, self.load, LOADING, "load", reset=True)),
            self.o.eq(delayed(m, out.data, LOADING - 2, "loaded", packed=True)),
            self.to.eq(delayed(m, self.place, LOADING, "place")),
        ]
        return m
