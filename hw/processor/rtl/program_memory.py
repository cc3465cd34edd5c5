"""Program memories, each shared by one or two cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.packets import REGION_SHIFT
from dynagate.hw.processor.isa.shape import FETCH, LANE, Core
from dynagate.hw.units.rescale import BLOCK_RAM, delayed

READERS = 2
"""Read ports of a program memory, as many as a block RAM has. The first port also loads the program."""


def memory_interface(core: Core) -> wiring.Signature:
    """Return the interface between a core and its program memory.

    ============  ===  ===============================================================
    address       out  address of a program word
    part          out  1: a part of a program is written, while no core runs
    part_address  out  address of the part: word and lane
    part_value    out  32 bits: the part
    ============  ===  ===============================================================
    """
    return wiring.Signature(
        {
            "address": Out(core.program_bits),
            "part": Out(1),
            "part_address": Out(REGION_SHIFT),
            "part_value": Out(LANE),
        }
    )


class ProgramMemory(wiring.Component):
    """Program words for up to READERS cores, which all run the same program.

    =======  ===  ===================================================================
    readers  in   requests of each core; the first one writes the program
    word     out  the word of each core, FETCH cycles after its address
    =======  ===  ===================================================================
    """

    def __init__(self, core: Core, readers: int) -> None:
        self.core = core
        super().__init__(
            {"readers": In(memory_interface(core)).array(readers), "word": Out(core.program_word).array(readers)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core, first = self.core, self.readers[0]
        # wires lead from here to blocks all over the chip, so registers are between
        addresses = [Signal(core.program_bits, name=f"at{k}", reset_less=True) for k in range(len(self.readers))]
        m.d.sync += [at.eq(reader.address) for at, reader in zip(addresses, self.readers, strict=True)]
        with m.If(first.part):
            m.d.sync += addresses[0].eq(first.part_address[core.lane_bits :])
        part = delayed(m, first.part, 1, "part")
        lane = delayed(m, first.part_address[: core.lane_bits], 1, "lane")
        value = delayed(m, first.part_value, 1, "value")
        words: list[list[Signal]] = [[] for _ in addresses]
        for k in range(core.lanes):
            bits = min(LANE, core.program_word - LANE * k)
            memory = Memory(shape=unsigned(bits), depth=1 << core.program_bits, init=[], attrs=BLOCK_RAM)
            m.submodules[f"lane{k}"] = memory
            into = memory.write_port()
            m.d.comb += [into.addr.eq(addresses[0]), into.data.eq(value), into.en.eq(part & (lane == k))]
            for lanes, at in zip(words, addresses, strict=True):
                out = memory.read_port()
                m.d.comb += [out.addr.eq(at), out.en.eq(1)]
                lanes.append(delayed(m, out.data, FETCH - 2, f"word{k}", packed=True))
        m.d.comb += [word.eq(Cat(*lanes)) for word, lanes in zip(self.word, words, strict=True)]
        return m


def programmed(m: Module, core: Core, processors: Sequence[Any]) -> None:
    """Add program memories to a module and connect them to cores.

    Args:
        m: Module to add to.
        core: Shape of the cores.
        processors: Cores, each a `Processor`.
    """
    for k in range(0, len(processors), READERS):
        readers = processors[k : k + READERS]
        m.submodules[f"program{k // READERS}"] = program = ProgramMemory(core, len(readers))
        for own, word, each in zip(program.readers, program.word, readers, strict=True):
            m.d.comb += [
                *(getattr(own, name).eq(getattr(each.program, name)) for name in memory_interface(core).members)
            ]
            m.d.comb += each.word.eq(word)
