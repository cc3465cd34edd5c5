"""The core: program memory, operand memories, units, and the streams that feed them."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.crc import Algorithm
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.elementary import Functions
from dynagate.hw.processor.shape import LANE, READ, Core
from dynagate.hw.processor.unit import MultiplyAdd
from dynagate.hw.processor.words import KIND_SHIFT, REGION_SHIFT, REGISTERS, Kind, Region
from dynagate.hw.units.rescale import BLOCK_RAM, delayed

FETCH = 2
"""Cycles from a program address to the word: memory and its register."""
CRC = {"polynomial": 0x04C11DB7, "initial_crc": 0xFFFFFFFF, "xor_output": 0xFFFFFFFF}
FLAG_CYCLES = 4
"""From the last result of a sample until its overflow flag is sure to be there."""


class Operand(wiring.Component):
    """An operand of a unit: a memory for each producer, each with all of its results.

    =======  ===  ===================================================
    address  in   memory and place
    write    in   a bit for each memory
    place    in   where each is written
    value    in   what is written to each
    o        out  the operand, READ cycles after its address
    =======  ===  ===================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        banks = core.units + 1
        super().__init__(
            {
                "address": In(core.operand_bits),
                "write": In(banks),
                "place": In(core.place_bits).array(banks),
                "value": In(signed(core.word)).array(banks),
                "o": Out(signed(core.word)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core = self.core
        found: list[Value] = []
        for k in range(core.units + 1):
            memory = Memory(shape=signed(core.word), depth=1 << core.place_bits, init=[], attrs=BLOCK_RAM)
            m.submodules[f"bank{k}"] = memory
            into, out = memory.write_port(), memory.read_port()
            m.d.comb += [
                into.addr.eq(self.place[k]),
                into.data.eq(self.value[k]),
                into.en.eq(self.write[k]),
                out.addr.eq(self.address[: core.place_bits]),
                out.en.eq(1),
            ]
            found.append(delayed(m, out.data, READ - 2, f"bank{k}"))
        bank = delayed(m, self.address[core.place_bits :], READ - 1, "bank")
        o = Signal(signed(core.word), name="operand", reset_less=True)
        m.d.sync += o.eq(Array(found)[bank])
        m.d.comb += self.o.eq(o)
        return m


class Processor(wiring.Component):
    """A core of some shape. It speaks messages (`words`): a head, then the inputs of a sample or a part of a program.

    A sample's results are words of 32 bits, those of unit 0 first, and after them 1 where a value overflowed. The end
    of a program is answered by a word too: 1 where its checksum is right. A program begins when no sample is under way.

    ===========  ===  =============================================================
    i            in   stream of messages
    o            out  stream of results
    design_hash  out  a constant: 64 bits of the core's hash
    ===========  ===  =============================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "i": In(stream.Signature(unsigned(LANE))),
                "o": Out(stream.Signature(unsigned(LANE))),
                "design_hash": Out(unsigned(64)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.design_hash.eq(self.core.device_hash)
        m.submodules.loader = loader = Loader(self.core)
        m.submodules.sequencer = sequencer = Sequencer(self.core)
        m.submodules.machine = machine = Machine(self.core)
        m.submodules.sender = sender = Sender(self.core)
        registers = {name: getattr(loader, name) for name in REGISTERS}
        m.d.comb += [
            loader.i_valid.eq(self.i.valid),
            loader.i_payload.eq(self.i.payload),
            self.i.ready.eq(loader.i_ready),
            loader.idle.eq(sequencer.idle),
            loader.answered.eq(sender.answered),
            loader.taken.eq(sequencer.taken),
            sequencer.full.eq(loader.full),
            sequencer.sent.eq(sender.sent),
            *(getattr(sequencer, name).eq(register) for name, register in registers.items()),
            machine.address.eq(sequencer.address),
            machine.running.eq(sequencer.running),
            machine.sample.eq(sequencer.sample),
            machine.part.eq(loader.part),
            machine.part_address.eq(loader.address),
            machine.part_value.eq(loader.value),
            machine.copying.eq(sequencer.copying),
            machine.copied.eq(sequencer.copied),
            machine.input_value.eq(loader.input_value),
            machine.inputs_from.eq(loader.inputs_from),
            sequencer.stalls.eq(machine.takes_port),
            loader.input_address.eq(Cat(sequencer.copied, sequencer.copies_from)),
            sender.answer.eq(loader.answer),
            sender.right.eq(loader.right),
            sender.under_way.eq(sequencer.under_way),
            *(sender.results[u].eq(loader.results[u]) for u in range(self.core.units)),
            *(sender.value[u].eq(machine.value[u]) for u in range(self.core.units)),
            sender.out.eq(machine.out),
            sender.overflows.eq(machine.overflows),
            self.o.valid.eq(sender.o_valid),
            self.o.payload.eq(sender.o_payload),
            sender.o_ready.eq(self.o.ready),
        ]
        return m


class Loader(wiring.Component):
    """Messages: the program to its memories, inputs of samples to a buffer of two samples.

    full: samples that wait in the buffer. taken: one of them was. part: a part of a program, with address and value.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "i_valid": In(1),
                "i_ready": Out(1),
                "i_payload": In(LANE),
                "idle": In(1),
                "full": Out(2),
                "taken": In(2),
                "input_address": In(core.input_bits + 1),
                "input_value": Out(signed(core.word)),
                "inputs_from": Out(core.place_bits),
                "part": Out(len(Region)),
                "address": Out(REGION_SHIFT),
                "value": Out(LANE),
                "answer": Out(1),
                "right": Out(1),
                "answered": In(1),
                "words": Out(core.program_bits + 1),
                "period": Out(core.program_bits + 2),
                "inputs": Out(core.input_bits + 1),
                "ahead": Out(2),
                "results": Out(core.output_bits + 1).array(core.units),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core = self.core
        head = Signal(LANE)
        kind, region = self.i_payload[KIND_SHIFT:], head[REGION_SHIFT:KIND_SHIFT]
        count = Signal(core.input_bits + 1)
        half = Signal()
        loaded = Signal(reset_less=True)
        full = Signal(2)
        memory = Memory(shape=signed(core.word), depth=2 << core.input_bits, init=[])
        m.submodules.inputs_memory = memory
        into, out = memory.write_port(), memory.read_port(domain="comb")
        m.submodules.crc = crc = Algorithm(crc_width=LANE, reflect_input=True, reflect_output=True, **CRC)(
            LANE
        ).create()
        m.d.comb += [
            into.addr.eq(Cat(count[: core.input_bits], half)),
            into.data.eq(self.i_payload[: core.word]),
            out.addr.eq(self.input_address),
            self.input_value.eq(out.data),
            self.full.eq(full),
            crc.data.eq(self.i_payload),
            self.address.eq(head[:REGION_SHIFT]),
            self.value.eq(self.i_payload),
        ]
        m.d.sync += full.eq(full & ~self.taken)
        with m.FSM(name="message"):
            with m.State("head"):
                begins = self.i_valid & (kind == Kind.BEGIN)
                # a program waits until the last sample's results are sent, samples until there is a program
                m.d.comb += self.i_ready.eq(
                    Mux(begins, self.idle & ~full.any(), (kind != Kind.SAMPLE) | (loaded & ~full.bit_select(half, 1)))
                )
                with m.If(self.i_valid & self.i_ready):
                    m.d.sync += [head.eq(self.i_payload), count.eq(0)]
                    m.d.comb += [crc.start.eq(kind == Kind.BEGIN), crc.valid.eq(kind == Kind.PART)]
                    with m.If(kind == Kind.SAMPLE):
                        m.next = "sample"
                    with m.Else():
                        m.next = "number"
            with m.State("sample"):
                m.d.comb += [self.i_ready.eq(1), into.en.eq(self.i_valid)]
                with m.If(self.i_valid):
                    m.d.sync += count.eq(count + 1)
                    with m.If(count + 1 == self.inputs):
                        m.d.sync += [full.eq((full & ~self.taken) | (1 << half)), half.eq(~half)]
                        m.next = "head"
            with m.State("number"):
                ends = head[KIND_SHIFT:] == Kind.END
                m.d.comb += [self.i_ready.eq(1), crc.valid.eq(self.i_valid & (head[KIND_SHIFT:] == Kind.PART))]
                with m.If(self.i_valid):
                    m.next = "head"
                    with m.If(head[KIND_SHIFT:] == Kind.BEGIN):
                        m.d.sync += loaded.eq(0)
                    with m.Elif(head[KIND_SHIFT:] == Kind.PART):
                        m.d.comb += self.part.eq((1 << region) & ~loaded.replicate(len(Region)))
                    with m.Elif(ends):
                        m.d.sync += [loaded.eq(loaded | (crc.crc == self.i_payload)), half.eq(0)]
                        m.next = "answer"
            with m.State("answer"):
                m.d.comb += [self.answer.eq(1), self.right.eq(loaded)]
                with m.If(self.answered):
                    m.next = "head"
        self._registers(m)
        return m

    def _registers(self, m: Module) -> None:
        names = [getattr(self, name) for name in REGISTERS]
        for k, port in enumerate([*names, *(self.results[u] for u in range(self.core.units))]):
            register = Signal(len(port), name=f"register{k}", reset_less=True)
            m.d.comb += port.eq(register)
            with m.If(self.part[Region.REGISTERS] & (self.address == k)):
                m.d.sync += register.eq(self.value)
        first = Signal(self.core.place_bits, name="inputs_from_register", reset_less=True)
        m.d.comb += self.inputs_from.eq(first)
        with m.If(self.part[Region.CONSTANTS]):  # inputs lie behind the last constant
            m.d.sync += first.eq(self.address + 1)


class Sequencer(wiring.Component):
    """Starts samples, counts through their program and copies their inputs.

    address: of the program. running: it is one of a word. sample: which of two, of a sample that runs. copying: an
    input is written unless `stalls`; copied: its number. under_way: samples whose results are not all sent.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "full": In(2),
                "taken": Out(2),
                "sent": In(1),
                "words": In(core.program_bits + 1),
                "period": In(core.program_bits + 2),
                "inputs": In(core.input_bits + 1),
                "ahead": In(2),
                "idle": Out(1),
                "under_way": Out(2),
                "address": Out(core.program_bits),
                "running": Out(1),
                "sample": Out(1),
                "copying": Out(1),
                "copied": Out(core.input_bits),
                "copies_from": Out(1),
                "stalls": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        counter = Signal(self.core.program_bits + 2)
        busy, next_one, sample = Signal(), Signal(), Signal()
        under_way = Signal(2)
        copied = Signal(self.core.input_bits + 1)
        copying, started = Signal(), Signal()
        last = counter + 1 == self.period
        go = Signal()
        m.d.comb += [
            go.eq((~busy | last) & self.full.bit_select(next_one, 1) & (under_way < self.ahead)),
            self.idle.eq(~busy & (under_way == 0)),
            self.under_way.eq(under_way),
            self.address.eq(counter),
            self.running.eq(busy & (counter < self.words)),
            self.sample.eq(sample),
            self.copying.eq(copying),
            self.copied.eq(copied),
            self.copies_from.eq(sample),
        ]
        m.d.sync += [counter.eq(counter + 1), under_way.eq(under_way + go - self.sent)]
        with m.If(go):
            m.d.sync += [busy.eq(1), counter.eq(0), sample.eq(next_one), next_one.eq(~next_one)]
        with m.Elif(last):
            m.d.sync += busy.eq(0)
        m.d.sync += started.eq(go)
        with m.If(started):
            m.d.sync += [copying.eq(1), copied.eq(0)]
        with m.If(copying & ~self.stalls):
            m.d.sync += copied.eq(copied + 1)
            with m.If(copied + 1 == self.inputs):
                m.d.sync += copying.eq(0)
                m.d.comb += self.taken.eq(1 << sample)
        with m.If(self.idle & ~self.full.any()):
            m.d.sync += next_one.eq(0)
        return m


class Machine(wiring.Component):
    """Program memory, operand memories and units: all that is timed by program words.

    value, out: results of the units and which of them are a sample's. overflows: a bit for each of two samples.
    takes_port: a function's result is written to the shared memory next.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "address": In(core.program_bits),
                "running": In(1),
                "sample": In(1),
                "part": In(len(Region)),
                "part_address": In(REGION_SHIFT),
                "part_value": In(LANE),
                "copying": In(1),
                "copied": In(core.input_bits),
                "input_value": In(signed(core.word)),
                "inputs_from": In(core.place_bits),
                "takes_port": Out(1),
                "value": Out(signed(core.word)).array(core.units),
                "out": Out(core.units),
                "overflows": Out(2),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core = self.core
        word = self._fetched(m)
        running = delayed(m, self.running, FETCH, "running", reset=True)
        sample = delayed(m, self.sample, FETCH, "sample")
        banks = core.units + 1
        writes, places = Signal(banks), [Signal(core.place_bits, name=f"place{k}") for k in range(banks)]
        values = [Signal(signed(core.word), name=f"value{k}") for k in range(banks)]
        unfit: list[list[Value]] = [[], []]
        low = 0
        for u in range(core.units):
            fields = {}
            for name, bits in core.unit_fields.items():
                fields[name] = word[low : low + bits]
                low += bits
            operands = {}
            for name in "abc":
                m.submodules[f"operand_{name}{u}"] = operands[name] = operand = Operand(core)
                m.d.comb += [operand.address.eq(fields[name]), operand.write.eq(writes)]
                m.d.comb += [operand.place[k].eq(places[k]) for k in range(banks)]
                m.d.comb += [operand.value[k].eq(values[k]) for k in range(banks)]
            m.submodules[f"unit{u}"] = unit = MultiplyAdd(core)
            m.d.comb += [getattr(unit, name).eq(operands[name].o) for name in "abc"]
            for name in ("product_negative", "addend_negative", "select", "up", "down"):
                m.d.comb += getattr(unit, name).eq(delayed(m, fields[name], READ, f"{name}{u}"))
            late = READ + unit.latency
            writes_it = delayed(m, fields["write"] & running, late, f"write{u}", reset=True)
            is_out = delayed(m, fields["out"] & running, late, f"out{u}", reset=True)
            whose = delayed(m, sample, late, f"sample{u}")
            m.d.comb += [
                writes[u].eq(writes_it),
                places[u].eq(delayed(m, fields["place"], late, f"place{u}")),
                values[u].eq(unit.o),
                self.value[u].eq(unit.o),
                self.out[u].eq(is_out),
            ]
            flagged = delayed(m, writes_it | is_out, 1, f"computes{u}", reset=True) & unit.overflow
            whose = delayed(m, whose, 1, f"flagged{u}")
            unfit[0].append(flagged & ~whose)
            unfit[1].append(flagged & whose)
            if u == 0:
                argument = operands["a"].o
        self._functions(m, word[low:], argument, running, sample, unfit)
        self._shared(m, writes, places, values)
        m.d.sync += self.overflows.eq(Cat(Cat(*flags).any() for flags in unfit))
        return m

    def _fetched(self, m: Module) -> Value:
        """The program word FETCH cycles after its address."""
        core = self.core
        lanes: list[Value] = []
        for k in range(core.lanes):
            bits = min(LANE, core.program_word - LANE * k)
            memory = Memory(shape=unsigned(bits), depth=1 << core.program_bits, init=[], attrs=BLOCK_RAM)
            m.submodules[f"program{k}"] = memory
            into, out = memory.write_port(), memory.read_port()
            is_lane = self.part_address[: core.lane_bits] == k
            m.d.comb += [
                into.addr.eq(self.part_address[core.lane_bits :]),
                into.data.eq(self.part_value),
                into.en.eq(self.part[Region.PROGRAM] & is_lane),
                out.addr.eq(self.address),
                out.en.eq(1),
            ]
            lanes.append(delayed(m, out.data, FETCH - 1, f"lane{k}"))
        return Cat(*lanes)

    def _functions(
        self, m: Module, field: Value, argument: Value, running: Value, sample: Value, unfit: list[list[Value]]
    ) -> None:
        core = self.core
        m.submodules.functions = self.functions = functions = Functions(core)
        fields, low = {}, 0
        for name, bits in core.function_fields.items():
            fields[name] = delayed(m, field[low : low + bits], READ, f"function_{name}")
            low += bits
        asked = delayed(m, running, READ, "function_running", reset=True)
        m.d.comb += [
            functions.x.eq(argument),
            functions.kind.eq(Mux(asked, fields["kind"], 0)),
            functions.shift.eq(fields["shift"].as_signed()),
            functions.place.eq(fields["place"]),
        ]
        # a function of one sample ends before the next one's begin, but for the flag
        shortest = READ + min(core.elementary.values())
        whose = delayed(m, sample, shortest, "function_sample")
        flagged = Signal(name="function_flagged")
        whose_flag = Signal(name="function_flagged_sample", reset_less=True)
        m.d.sync += [flagged.eq(functions.valid & functions.overflow), whose_flag.eq(whose)]
        unfit[0].append(flagged & ~whose_flag)
        unfit[1].append(flagged & whose_flag)

    def _shared(self, m: Module, writes: Signal, places: list[Signal], values: list[Signal]) -> None:
        """The shared memory's write port: a function's result, else an input, else a constant of a program."""
        core, functions = self.core, self.functions
        written = Signal(name="shared_write")
        place = Signal(core.place_bits, name="shared_place", reset_less=True)
        value = Signal(signed(core.word), name="shared_value", reset_less=True)
        constant = self.part[Region.CONSTANTS]
        m.d.comb += self.takes_port.eq(functions.valid)
        m.d.sync += written.eq(functions.valid | self.copying | constant)
        with m.If(functions.valid):
            m.d.sync += [place.eq(functions.to), value.eq(functions.o)]
        with m.Elif(self.copying):
            m.d.sync += [place.eq(self.inputs_from + self.copied), value.eq(self.input_value)]
        with m.Else():
            m.d.sync += [place.eq(self.part_address), value.eq(self.part_value)]
        m.d.comb += [writes[-1].eq(written), places[-1].eq(place), values[-1].eq(value)]


class Sender(wiring.Component):
    """Results of samples, those of unit 0 first, then the flag; and the answer to a program.

    sent: all of a sample's. answered: the answer.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "value": In(signed(core.word)).array(core.units),
                "out": In(core.units),
                "overflows": In(2),
                "results": In(core.output_bits + 1).array(core.units),
                "under_way": In(2),
                "sent": Out(1),
                "answer": In(1),
                "right": In(1),
                "answered": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
                "o_payload": Out(LANE),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core = self.core
        unit = Signal(range(core.units + 1))
        count = Signal(core.output_bits + 1)
        sample = Signal()
        flags = Signal(2)
        m.d.sync += flags.eq(flags | self.overflows)
        fifos = []
        for u in range(core.units):
            m.submodules[f"results{u}"] = fifo = SyncFIFOBuffered(width=core.word, depth=1 << core.output_bits)
            m.d.comb += [fifo.w_data.eq(self.value[u]), fifo.w_en.eq(self.out[u])]
            fifos.append(fifo)
        wait = Signal(range(FLAG_CYCLES + 1))
        here, ready = Signal(signed(core.word)), Signal()
        m.d.comb += [here.eq(Array(fifo.r_data for fifo in fifos)[unit]), ready.eq(Array(f.r_rdy for f in fifos)[unit])]
        with m.FSM(name="results"):
            with m.State("idle"):
                m.d.sync += [unit.eq(0), count.eq(0), wait.eq(0)]
                with m.If(self.answer):
                    m.d.comb += [self.o_valid.eq(1), self.o_payload.eq(self.right), self.answered.eq(self.o_ready)]
                with m.Elif(self.under_way != 0):
                    m.next = "values"
            with m.State("values"):
                with m.If(count == Array(self.results[u] for u in range(core.units))[unit]):
                    m.d.sync += [count.eq(0), unit.eq(unit + 1)]
                    with m.If(unit == core.units - 1):
                        m.next = "wait"
                with m.Else():
                    m.d.comb += [self.o_valid.eq(ready), self.o_payload.eq(here)]
                    for u, fifo in enumerate(fifos):
                        m.d.comb += fifo.r_en.eq(self.o_ready & ready & (unit == u))
                    with m.If(self.o_ready & ready):
                        m.d.sync += count.eq(count + 1)
            with m.State("wait"):
                m.d.sync += wait.eq(wait + 1)
                with m.If(wait == FLAG_CYCLES):
                    m.next = "flag"
            with m.State("flag"):
                m.d.comb += [self.o_valid.eq(1), self.o_payload.eq(flags.bit_select(sample, 1))]
                with m.If(self.o_ready):
                    m.d.comb += self.sent.eq(1)
                    m.d.sync += [flags.eq((flags | self.overflows) & ~(1 << sample)), sample.eq(~sample)]
                    m.next = "idle"
        return m


TOP = "processor"


def core_text(core: Core, platform: object = None) -> str:
    """The Verilog of a core, module `processor`. It depends on the shape alone."""
    from dynagate.hw.netlist import verilog_text

    head = f"// a core of {core.units} units, {core.word} bits, generated by dynagate; {core.hash}\n"
    return head + verilog_text(Processor(core), TOP, platform, blank=True)
