"""The memory of iterations: values that loops keep separately for every iteration.

Its initial content is zero. In the strict style, which has no initial values, it is cleared after a hard reset.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.hw.export.style import AsynchronousReset, lasting_register
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

    Args:
        core: Shape of the core.
        clears: Signal that is 1 while the memory is cleared; nothing may use the memory then. Used if the platform has
            an asynchronous reset.
    """

    def __init__(self, core: Core, clears: Signal) -> None:
        self.core, self.clears = core, clears
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
        address: Value = at
        value, store = delayed(m, self.value, 1, "value"), delayed(m, self.store, 1, "store")
        if isinstance(platform, AsynchronousReset):
            address, clears = Mux(self.clears, self._row(m, platform), at), self.clears
            value, store = Mux(clears, 0, value), store | clears
        m.d.comb += [
            into.addr.eq(address),
            into.data.eq(value),
            into.en.eq(store),
            out.addr.eq(at),
            out.en.eq(1),
            self.valid.eq(delayed(m, self.load, LOADING, "load")),
            self.o.eq(delayed(m, out.data, LOADING - 2, "loaded", packed=True)),
            self.to.eq(delayed(m, self.place, LOADING, "place")),
        ]
        return m

    def _row(self, m: Module, platform: AsynchronousReset) -> Value:
        """Return the address that is cleared: each once after a hard reset."""
        count, domain = lasting_register(self.core.iteration_bits + 1, "cleared", platform)
        m.d.comb += self.clears.eq(~count[-1])
        with m.If(self.clears):
            m.d[domain] += count.eq(count + 1)
        return count[:-1]
