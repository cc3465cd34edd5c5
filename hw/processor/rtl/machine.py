"""The data path of a core, which program words control: operand memories, units and functions."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.packets import CONTROL, REGION_SHIFT
from dynagate.hw.processor.isa.shape import FETCH, KINDS, LANE, LOAD, OPERANDS, READ, SHARING, STORE, Core
from dynagate.hw.processor.rtl.elementary import FunctionUnits
from dynagate.hw.processor.rtl.iteration_memory import IterationMemory
from dynagate.hw.processor.rtl.unit import MultiplyAdd
from dynagate.hw.units.rescale import BLOCK_RAM, LOOKUP_RAM, delayed

PHASES = 4
"""Number of overflow flags in use at once: two samples, in even and odd steps."""


class OperandMemories(wiring.Component):
    """Memories of one operand of a unit: one for each producer, with a copy of all its results.

    A memory made of lookup tables is written and read one cycle later than a block RAM, since its address needs a
    register that a block RAM has inside.

    =======  ===  ======================================================
    address  in   memory and address of the operand
    write    in   one bit per memory: a result is written
    place    in   address of the write, for each memory
    value    in   value that is written, for each memory
    o        out  the operand, READ cycles after its address
    =======  ===  ======================================================
    """

    def __init__(self, core: Core, name: str) -> None:
        self.core, self.name = core, name
        self.width = width = core.word + (name == "a")  # of which a bit says that it is positive
        banks = core.units + 1
        super().__init__(
            {
                "address": In(core.operand_bits),
                "write": In(banks),
                "place": In(core.place_bits).array(banks),
                "value": In(width).array(banks),
                "o": Out(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core = self.core
        banks_out: list[Value] = []
        place = self.address[: core.place_bits]
        late = delayed(m, place, 1, "place")
        for k in range(core.units + 1):
            is_lookup = core.is_lookup(self.name, k)
            attrs = LOOKUP_RAM if is_lookup else BLOCK_RAM
            memory = Memory(shape=unsigned(self.width), depth=1 << core.place_bits, init=[], attrs=attrs)
            m.submodules[f"bank{k}"] = memory
            into, out = memory.write_port(), memory.read_port(domain="comb" if is_lookup else "sync")
            m.d.comb += [
                into.addr.eq(self.place[k]),
                into.data.eq(self.value[k]),
                into.en.eq(self.write[k]),
                out.addr.eq(late if is_lookup else place),
            ]
            if not is_lookup:
                m.d.comb += out.en.eq(1)
            banks_out.append(delayed(m, out.data, READ - 2, f"bank{k}", packed=not is_lookup))
        bank = delayed(m, self.address[core.place_bits :], READ - 1, "bank")
        o = Signal(self.width, name="operand", reset_less=True)
        m.d.sync += o.eq(Array(banks_out)[bank])
        m.d.comb += self.o.eq(o)
        return m


class _Writes:
    """Write ports of the memories: the value with its sign test on top, immediately and one cycle late."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.at_once: dict[int, tuple[Value, Value, Value]] = {}
        self.late: dict[int, tuple[Value, Value, Value]] = {}

    def add(self, m: Module, bank: int, write: Value, place: Value, bits: Value) -> None:
        """Register the write port of one producer's memories."""
        self.at_once[bank] = write, place, bits
        self.late[bank] = (
            delayed(m, write, 1, f"write{bank}_late"),
            delayed(m, place, 1, f"place{bank}_late"),
            delayed(m, bits, 1, f"value{bank}_late"),
        )

    def into(self, m: Module, operand: OperandMemories) -> None:
        """Drive the write ports of an operand's memories."""
        for bank in self.at_once:
            ports = self.late if self.core.is_lookup(operand.name, bank) else self.at_once
            write, place, value = ports[bank]
            m.d.comb += [operand.write[bank].eq(write), operand.place[bank].eq(place)]
            m.d.comb += operand.value[bank].eq(value[: operand.width])


class Machine(wiring.Component):
    """Operand memories and units: everything that program words time.

    ============  ===  =====================================================================
    word          in   program word, FETCH cycles after its address
    running       in   1: the requested address holds a word of the program
    phase         in   sample (0 or 1) that is computed, and whether its step is odd
    iteration     in   iteration of the loop that the word belongs to
    constant      in   1: a constant is written
    part_address  in   address of the constant in the shared memory
    part_value    in   signed: the constant
    copying       in   1: an input is written to the shared memory
    copied        in   index of the input
    input_value   in   signed: the input
    inputs_from   in   address of the first input in the shared memory
    takes_port    out  1: the next write to the shared memory is a function's result
    value         out  results of the units
    out           out  one bit per unit: the result leaves the core
    overflows     out  one bit per phase: a value does not fit
    positive      out  1: a test has a positive result
    ============  ===  =====================================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.clears = Signal(name="clears_iterations")
        """1 while the memory of iterations is cleared after a reset, in the strict style."""
        super().__init__(
            {
                "word": In(core.program_word),
                "running": In(1),
                "phase": In(2),
                "iteration": In(CONTROL["most"]),
                "constant": In(1),
                "part_address": In(REGION_SHIFT),
                "part_value": In(LANE),
                "copying": In(1),
                "copied": In(core.input_bits),
                "input_value": In(signed(core.word)),
                "inputs_from": In(core.place_bits),
                "takes_port": Out(1),
                "value": Out(signed(core.word)).array(core.units),
                "out": Out(core.units),
                "overflows": Out(PHASES),
                "positive": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core = self.core
        word = self.word
        running = delayed(m, self.running, FETCH, "running")
        phase = delayed(m, self.phase, FETCH, "phase")
        writes = _Writes(core)
        unfit: list[list[Value]] = [[] for _ in range(PHASES)]
        low, read = 0, list[OperandMemories]()
        for u in range(core.units):
            fields = {}
            for name, bits in core.unit_fields.items():
                fields[name] = word[low : low + bits]
                low += bits
            operands = {}
            for name in OPERANDS:
                m.submodules[f"operand_{name}{u}"] = operands[name] = OperandMemories(core, name)
                m.d.comb += operands[name].address.eq(fields[name])
            read += operands.values()
            m.submodules[f"unit{u}"] = unit = MultiplyAdd(core)
            m.d.comb += [getattr(unit, name).eq(operands[name].o[: core.word].as_signed()) for name in OPERANDS]
            m.d.comb += unit.positive.eq(operands["a"].o[-1])
            for name in ("product_negative", "addend_negative", "select", "up", "down"):
                m.d.comb += getattr(unit, name).eq(delayed(m, fields[name], READ, f"{name}{u}"))
            late = READ + unit.latency
            writes_it = delayed(m, fields["write"] & running, late, f"write{u}")
            is_out = delayed(m, fields["out"] & running, late, f"out{u}")
            whose = delayed(m, phase, late, f"phase{u}")
            writes.add(m, u, writes_it, delayed(m, fields["place"], late, f"place{u}"), Cat(unit.o, unit.o_positive))
            m.d.comb += [
                self.value[u].eq(unit.o),
                self.out[u].eq(is_out),
            ]
            flagged = delayed(m, writes_it | is_out, 1, f"computes{u}") & unit.overflow
            whose = delayed(m, whose, 1, f"flagged{u}")
            for k, flags in enumerate(unfit):
                flags.append(flagged & (whose == k))
            if u == 0:
                arguments = [operands[name].o for name in OPERANDS]
                tested = delayed(m, word[-1] & running, late, "test")
                m.d.sync += self.positive.eq(tested & unit.o_positive)
        self._functions(m, word[low:], arguments, running, phase, unfit)
        self._shared(m, writes)
        for operand in read:
            writes.into(m, operand)
        m.d.sync += self.overflows.eq(Cat(Cat(*flags).any() for flags in unfit))
        return m

    def _functions(
        self, m: Module, field: Value, arguments: list[Value], running: Value, phase: Value, unfit: list[list[Value]]
    ) -> None:
        """Connect the function slot: operands from unit 0, results to the shared memory, and its overflow flag."""
        core = self.core
        m.submodules.functions = self.functions = functions = FunctionUnits(core)
        fields, low = {}, 0
        for name, bits in core.function_fields.items():
            fields[name] = delayed(m, field[low : low + bits], READ, f"function_{name}")
            low += bits
        asked = delayed(m, running, READ, "function_running")
        kind = Mux(asked, fields["kind"], 0)
        m.d.comb += [
            *(port.eq(x) for port, x in zip((functions.x, functions.y, functions.z), arguments, strict=True)),
            functions.kind.eq(kind),
            functions.shift.eq(fields["shift"].as_signed()),
            functions.place.eq(fields["place"]),
        ]
        if core.iteration_bits:
            m.submodules.kept = self.kept = kept = IterationMemory(core, self.clears)
            m.d.comb += [
                kept.load.eq(kind == KINDS.index(LOAD) + 1),
                kept.store.eq(kind == KINDS.index(STORE) + 1),
                *(getattr(kept, name).eq(fields[name]) for name in ("address", "down", "place")),
                kept.value.eq(arguments[0]),
                kept.iteration.eq(delayed(m, self.iteration, FETCH + READ, "iteration")),
            ]
        # a function of one sample ends before the next one's begin, but for the flag
        shortest = READ + min(core.elementary.values())
        whose = delayed(m, phase, shortest, "function_phase")
        flagged = Signal(name="function_flagged", reset_less=True)
        whose_flag = Signal(2, name="function_flagged_phase", reset_less=True)
        m.d.sync += [flagged.eq(functions.valid & functions.overflow), whose_flag.eq(whose)]
        for k, flags in enumerate(unfit):
            flags.append(flagged & (whose_flag == k))

    def _shared(self, m: Module, writes: _Writes) -> None:
        """Drive the shared memory's write port: a function or load result, else an input, else a constant."""
        core, functions = self.core, self.functions
        written = Signal(name="shared_write", reset_less=True)
        place = Signal(core.place_bits, name="shared_place", reset_less=True)
        value = Signal(signed(core.word), name="shared_value", reset_less=True)
        valid, to, o = functions.valid, functions.to, functions.o
        if core.iteration_bits:
            loaded = self.kept.valid
            valid, to, o = valid | loaded, Mux(loaded, self.kept.to, to), Mux(loaded, self.kept.o, o)
        m.d.comb += self.takes_port.eq(valid)
        m.d.sync += written.eq(valid | self.copying | self.constant)
        with m.If(valid):
            m.d.sync += [place.eq(to), value.eq(o)]
        with m.Elif(self.copying):
            m.d.sync += [place.eq(self.inputs_from + self.copied), value.eq(self.input_value)]
        with m.Else():
            m.d.sync += [place.eq(self.part_address), value.eq(self.part_value)]
        signed_value = Cat(value, ~value[-1] & value[:-1].any())
        ports = (
            delayed(m, written, SHARING - 1, "shared_write"),
            delayed(m, place, SHARING - 1, "shared_place"),
            delayed(m, signed_value, SHARING - 1, "shared_value"),
        )
        writes.add(m, core.shared, *ports)
