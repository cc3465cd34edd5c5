"""A datapath in its AXI shell: AXI4-Stream of numbers in and out, and AXI4-Lite registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from amaranth.hdl import (
    Cat,
    ClockSignal,
    Const,
    Instance,
    Module,
    ResetInserter,
    Signal,
    Value,
    signed,
)
from dynagate.design.ring import COMMAND
from dynagate.design.words import WORD
from dynagate.fixedpoint.format import quantize
from dynagate.graph.parts import code_node
from dynagate.hw.export.style import reset_with
from dynagate.hw.plan.flow import LATEST, most_under_way
from dynagate.hw.plan.layouts import choices
from dynagate.hw.plan.plan import FunctionOutputs
from dynagate.hw.rtl.accelerator import Accelerator, ShellStatus
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.axi_lite import AxiLite
from dynagate.hw.rtl.axi_stream import InputStream, OutputStream
from dynagate.hw.rtl.datapath import Datapath, end_of
from dynagate.hw.rtl.feedback import StateFeedback
from dynagate.hw.rtl.regmap import BITS, RING
from dynagate.hw.rtl.sideband import InFlightSideband
from dynagate.hw.units.float32 import FromFloat
from dynagate.hw.units.rescale import by_beat, delayed


class Shell(Accelerator):
    """The accelerator of a datapath, whose module `datapath` is in a file of its own.

    Its streams are described in `hw.rtl.axi_stream`.
    """

    def __init__(
        self,
        datapath: Datapath,
        axi: Axi,
        parameters: Sequence[float] = (),
        carry: Mapping[str, str] | None = None,
    ) -> None:
        """Describe a shell.

        Args:
            datapath: Datapath, elaborated or not.
            axi: Options of the streams.
            parameters: Variable parameters of the robot after a reset.
            carry: Input that each carried output becomes, for a datapath with a ring.
        """
        self.datapath, self.axi = datapath, axi
        self.parameters = np.asarray(parameters, dtype=np.float32)
        formatted = datapath.plan.formatted
        graph, formats = formatted.graph, formatted.formats
        streamed = graph.input_nodes[: len(graph.input_nodes) - len(self.parameters)]
        self.held = [formats[i] for i in graph.input_nodes[len(streamed) :]]
        self.ring = None if carry is None else StateFeedback(datapath.plan, carry)
        fields = [formats[i] for i in streamed] + ([COMMAND] if self.ring else [])
        self.input = InputStream(fields, axi.width, datapath.plan.ii, axi.last, axi.words)
        layouts = [self._layouts(delivery) for delivery in datapath.plan.deliveries]
        self.output = OutputStream([formats[i] for i in graph.result_nodes], axi.width, axi.last, layouts, axi.words)
        super().__init__(axi)

    def _layouts(self, delivery: FunctionOutputs) -> list[tuple[int, ...]]:
        """Return the fields of a function's results for each choice of outputs, or for all outputs."""
        place = {i: k for k, i in enumerate(self.datapath.plan.formatted.graph.result_nodes)}
        fields = tuple(place[i] for i in delivery.nodes)
        if not self.axi.choice:
            return [fields]
        return choices([[place[i] for i in nodes if i in place] for nodes in delivery.outputs.values()], fields)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        reset, clear = self._clocked(m, platform)
        words = [0] * len(RING) if self.ring else [int(word) for word in self.parameters.view(np.uint32)]
        outputs = [len(delivery.outputs) for delivery in self.datapath.plan.deliveries] if self.axi.choice else []
        self.registers = AxiLite({}, words, outputs)
        m.submodules.input = ResetInserter(reset)(self.input)
        m.submodules.output = ResetInserter(reset)(self.output)

        core = self._turns(m, reset) if self.ring else self._samples(m, reset, platform)
        self._offer(m, self.output, reset)
        self.registers.values = self._constants() | self._counters(m, reset | clear, core)
        self._controlled(m, reset, clear, self.registers)
        m.d.comb += self._at_the_ports(self.input, reset)
        if self.axi.choice:
            idle = Signal()  # seen a cycle before, in which a sample may begin
            m.d.sync += idle.eq(self.input.idle & core.empty & self.output.idle & ~self.s_axis_tvalid)
            m.d.comb += [self.registers.idle.eq(idle), self.registers.restore.eq(reset)]
            if "i_choice" in self.output.signature.members:
                m.d.comb += self.output.i_choice.eq(self.registers.outputs)
        return m

    def _samples(self, m: Module, reset: Signal, platform: object) -> ShellStatus:
        """Connect the datapath to the streams."""
        plan, source, sink = self.datapath.plan, self.input, self.output
        scopes = len(plan.formatted.graph.scopes)
        # data about a sample besides its values waits for its result; results of a function come in order
        ends = len(plan.deliveries)
        depth = most_under_way(plan.latency + LATEST, plan.ii)
        besides = [InFlightSideband(2 + WORD, depth) for _ in range(ends)]
        for k, beside in enumerate(besides):
            m.submodules[f"beside_{k}"] = ResetInserter(reset)(beside)
        held, unfit = self._held(m)
        result = Signal(sink.bits + scopes + (ends - 1).bit_length())
        end = Signal(range(ends))
        unknown = Signal()
        of_sample = self._end_of_sample(m, source.o_payload, unknown)
        taken = Signal()
        result_valid = Signal()
        m.submodules.datapath = Instance(
            "datapath",
            i_clk=ClockSignal(),
            i_rst=reset_with(m, reset, platform),
            i_i_data=Cat(source.o_payload, *held),
            i_i_valid=source.o_valid,
            o_i_ready=taken,
            o_o_data=result,
            o_o_valid=result_valid,
            i_o_ready=sink.i_ready,
            o_design_hash=Signal(64, name="datapath_hash"),  # the registers have it as constants
        )
        enter = Signal()
        leave = Signal()
        bad_sample = Signal()
        overflow = result[sink.bits : sink.bits + scopes]
        for k, beside in enumerate(besides):
            m.d.comb += [
                beside.w_data.eq(Cat(bad_sample | source.o_broken, source.o_last, source.o_tag)),
                beside.w_en.eq(enter & (of_sample == k)),
                beside.r_en.eq(leave & (end == k)),
            ]
        known = by_beat([beside.r_data for beside in besides], end)
        m.d.comb += [
            end.eq(result[sink.bits + scopes :]),
            bad_sample.eq(source.o_bad | unknown | unfit),
            enter.eq(source.o_valid & taken),
            leave.eq(result_valid & sink.i_ready),
            source.o_ready.eq(taken),
            sink.i_payload.eq(result[: sink.bits]),
            sink.i_bad.eq(known[0] | overflow.any()),
            sink.i_last.eq(known[1]),
            sink.i_tag.eq(known[2:]),
            sink.i_layout.eq(end),
            sink.i_valid.eq(result_valid),
        ]
        empty = Cat(beside.empty for beside in besides).all()
        return ShellStatus(enter, leave, bad_sample, overflow, overflow.any(), source.misaligned, source.hole, empty)

    def _turns(self, m: Module, reset: Signal) -> ShellStatus:
        """Connect the ring to the streams."""
        ring, source, sink, registers = self.ring, self.input, self.output, self.registers
        assert ring is not None
        m.submodules.ring = ring
        for place, port in enumerate((ring.steps, ring.every)):
            register = Signal(BITS, name=RING[place])
            m.d.comb += port.eq(register)
            with m.If(registers.parameter_valid & (registers.parameter == place)):
                m.d.sync += register.eq(registers.parameter_word)
        fields, command = source.o_payload[: ring.in_bits], source.o_payload[ring.in_bits :]
        alone = source.o_broken.replicate(2)  # a step that is none leaves the states of trajectories as they are
        values, overflow = ring.o.payload[: sink.bits], ring.o.payload[sink.bits : ring.out_bits]
        unusable = source.o_bad | source.o_broken
        flagged, last, tag = (ring.o.payload[low:] for low in range(ring.out_bits, ring.out_bits + 3))
        m.d.comb += [
            ring.reset.eq(reset),
            ring.i.payload.eq(Cat(fields, ~command[:2] | alone, unusable, source.o_last, source.o_tag)),
            ring.i.valid.eq(source.o_valid),
            source.o_ready.eq(ring.i.ready),
            sink.i_payload.eq(values),
            sink.i_bad.eq(flagged[0]),
            sink.i_last.eq(last[0]),
            sink.i_tag.eq(tag),
            sink.i_valid.eq(ring.o.valid),
            ring.o.ready.eq(sink.i_ready),
        ]
        left = ring.o.valid & ring.o.ready
        return ShellStatus(ring.entered, left, source.o_bad, overflow, flagged[0], source.misaligned, source.hole)

    def _constants(self) -> dict[str, Value]:
        """Return the registers that describe the design, by name."""
        plan = self.datapath.plan
        return {
            **self._identity(self.datapath.hash),
            "ii": Const(plan.ii, BITS),
            "latency": Const(plan.latency, BITS),
            "input_words": Const(self.input.words, BITS),
            "output_words": Const(self.output.layouts.longest, BITS),
        }

    def _held(self, m: Module) -> tuple[list[Signal], Value]:
        """Return the fields that registers hold, and whether one does not fit its format. One converter serves all."""
        if not self.held:
            return [], Const(0)
        registers = self.registers
        m.submodules.parameters = unit = FromFloat(self.held)
        m.d.comb += [unit.x.eq(registers.parameter_word), unit.beat.eq(registers.parameter)]
        arrived = delayed(m, registers.parameter_valid, unit.latency, "parameter_arrived", reset=True)
        place = delayed(m, registers.parameter, unit.latency, "parameter_place")
        fields, unfit = [], []
        for k, (fmt, value) in enumerate(zip(self.held, self.parameters, strict=True)):
            start = quantize(value, fmt)
            fields.append(Signal(signed(fmt.width), name=f"held_{k}", init=int(start.value)))
            unfit.append(Signal(name=f"unfit_{k}", init=bool(start.overflow)))
            with m.If(arrived & (place == k)):
                m.d.sync += [fields[k].eq(unit.o), unfit[k].eq(unit.bad)]
        return fields, Cat(*unfit).any()

    def _end_of_sample(self, m: Module, payload: Value, unknown: Signal) -> Value:
        """Return the index of a sample's function; `unknown` becomes 1 if no function has its code."""
        plan = self.datapath.plan
        if len(plan.deliveries) == 1:
            return Const(0)
        nodes = list(plan.formatted.graph.input_nodes)
        before, own = nodes[: nodes.index(code := code_node(plan.formatted.graph))], plan.formatted.formats[code]
        low = sum(plan.formatted.formats[i].width for i in before)
        value = payload[low : low + own.width].as_signed()
        is_code = [value == delivery.code for delivery in plan.deliveries]
        m.d.comb += unknown.eq(~Cat(*is_code).any())
        return end_of(is_code)
