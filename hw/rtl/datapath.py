"""Generate the datapath of a plan: one Amaranth component with an input stream and an output stream.

The pipeline never stalls: only control registers have a reset. A sample enters in slot 0 if the output FIFO is sure to
have space (credit), and its valid bit travels along; the next sample may enter ii cycles later. A register of a value
is enabled once every ii cycles, so ceil(lifetime / ii) registers hold it.

Between two registers there is at most one DSP stage, one carry chain or one multiplexer. The result of a carry chain is
compared one cycle later, so overflow bits are collected in a separate pipeline and follow the values by a few cycles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Format
from dynagate.graph.parts import code_node
from dynagate.hw.plan.flow import LATEST, FlowControl, FunctionEnd
from dynagate.hw.plan.plan import FunctionOutputs, Plan, UnitClass
from dynagate.hw.rtl.overflow import INPUTS, Flags, gather
from dynagate.hw.units.multiply import DspTarget, Multiply
from dynagate.hw.units.rescale import delayed, differ, fit, rounding_constant, widened
from dynagate.hw.units.slot_selects import SlotSelects
from dynagate.hw.units.table import ELEMENTARY, HARDWARE, Elementary, Own

END = "end"
"""Field of a result of several functions that holds the index of its function."""


class Datapath(wiring.Component):
    """The pipeline of a plan.

    ===========  ===  ==============================================================================================
    i            in   stream of samples: one signed field for each input of the graph
    o            out  stream of results: one field for each different output, and `overflow` with a bit per pass;
                      with several functions, `end` is the sample's function, whose outputs are valid
    design_hash  out  64-bit constant: start of the hash in design.json
    ===========  ===  ==============================================================================================

    Args:
        plan: Plan of the datapath.
        design_hash: The constant.
    """

    def __init__(self, plan: Plan, design_hash: int = 0) -> None:
        self.plan = plan
        self.hash = design_hash
        self.late: tuple[int, ...] = ()
        graph, formats = plan.formatted.graph, plan.formatted.formats
        self.input_layout = data.StructLayout(
            {plan.signal_names[i]: signed(formats[i].width) for i in graph.input_nodes}
        )
        self.output_layout = data.StructLayout(
            {
                **{plan.signal_names[i]: signed(formats[i].width) for i in graph.result_nodes},
                "overflow": unsigned(len(graph.scopes)),
                **({END: range(len(plan.deliveries))} if len(plan.deliveries) > 1 else {}),
            }
        )
        super().__init__(
            {
                "i": In(stream.Signature(self.input_layout)),
                "o": Out(stream.Signature(self.output_layout)),
                "design_hash": Out(unsigned(64)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.design_hash.eq(self.hash)
        plan = self.plan
        values = _Values(m, plan, self.i.payload, DspTarget.of(platform))
        outputs = [values.outputs(delivery) for delivery in plan.deliveries]
        overflows = [values.overflow(delivery) for delivery in plan.deliveries]
        ends = [
            FunctionEnd(delivery.cycle, late, len(fields), len(bits))
            for delivery, fields, (bits, late) in zip(plan.deliveries, outputs, overflows, strict=True)
        ]
        assert all(end.late <= LATEST for end in ends), (
            "the queue next to the datapath has no space for this many samples"
        )
        self.late = tuple(end.late for end in ends)
        m.submodules.flow = flow = FlowControl(plan.ii, ends)
        m.d.comb += [
            flow.i_valid.eq(self.i.valid),
            self.i.ready.eq(flow.i_ready),
            self.o.valid.eq(flow.o_valid),
            flow.o_ready.eq(self.o.ready),
        ]
        for k, (fields, (bits, _)) in enumerate(zip(outputs, overflows, strict=True)):
            m.d.comb += [getattr(flow, f"values_{k}").eq(fields), getattr(flow, f"flags_{k}").eq(bits)]
        self._deliver(m, flow)
        values.connect(flow)
        return m

    def _deliver(self, m: Module, flow: FlowControl) -> None:
        """Drive the output stream with the result of the chosen end. Outputs that its function lacks are undefined."""
        plan, payload = self.plan, self.o.payload
        sources: dict[str, dict[int, Value]] = defaultdict(dict)
        for k, delivery in enumerate(plan.deliveries):
            low, values = 0, getattr(flow, f"o_values_{k}")
            for i in delivery.nodes:
                width = plan.formatted.formats[i].width
                sources[plan.signal_names[i]][k] = values[low : low + width]
                low += width
            sources["overflow"][k] = self._overflow(getattr(flow, f"o_flags_{k}"), delivery)
        for name, by_end in sources.items():
            chosen, *others = reversed(by_end.items())
            value = chosen[1]
            for k, other in others:
                value = Mux(flow.o_end == k, other, value)
            m.d.comb += Value.cast(payload[name]).eq(value)
        if len(plan.deliveries) > 1:
            code = Value.cast(self.i.payload[plan.signal_names[code_node(plan.formatted.graph)]]).as_signed()
            end = end_of([code == delivery.code for delivery in plan.deliveries])
            m.d.comb += [flow.i_end.eq(end), payload[END].eq(flow.o_end)]

    def _overflow(self, bits: Value, delivery: FunctionOutputs) -> Value:
        """Return a bit for each pass: the overflow bit of a pass that may overflow, else 0."""
        place = {scope: k for k, scope in enumerate(self.plan.overflowing(delivery))}
        scopes = range(len(self.plan.formatted.graph.scopes))
        return Cat(*(bits[place[scope]] if scope in place else Const(0, 1) for scope in scopes))


def end_of(is_code: Sequence[Value]) -> Value:
    """Return the index of a sample's function; that of the last function if the code is unknown.

    Args:
        is_code: For each function, whether the sample has its code.
    """
    end: Value = Const(len(is_code) - 1)
    for k, here in enumerate(is_code[:-1]):
        end = Mux(here, k, end)
    return end


class _Values:
    """One delay line per value, and the units that compute the values.

    Registers and adders are in submodules named after the pass and the link. Shared units are in `units`.
    """

    def __init__(self, m: Module, plan: Plan, payload: Any, fabric: DspTarget) -> None:
        self.plan, self.formatted, self.fabric = plan, plan.formatted, fabric
        self._modules: dict[tuple[str, ...], Module] = {(): m}
        self.units = self._module(("units",))
        self._updates: dict[tuple[tuple[str, ...], int], list[Any]] = defaultdict(list)  # (module, slot)
        self.chain: dict[int, list[Signal]] = {}
        self.live: dict[int, Signal] = {}  # output of a unit, for the one cycle it is there
        self.flags: list[tuple[int, int, Value]] = []  # node, the cycle in which it can be read, overflow bit
        nodes = self.formatted.graph.nodes
        for i in plan.position:
            self._make_signals(i)
        for i in plan.position:
            if nodes[i].op == "input":
                self._on_slot(i, 0, self.chain[i][0].eq(payload[plan.signal_names[i]]))
            elif isinstance(row := HARDWARE[nodes[i].op], Own):
                self._own(i, row)
        node_at = {p: i for i, p in plan.position.items()}
        for (name, instance), by_slot in sorted(plan.binding.operations_of(plan.schedule).items()):
            operations = {slot: node_at[p] for slot, p in sorted(by_slot.items())}
            unit = plan.classes[name]
            make = self._multiplier if unit.kind == "multiply" else self._elementary
            make(unit, f"{name.lower().replace('.', '_').replace('-', 'm')}_{instance}", operations)

    def connect(self, flow: FlowControl) -> None:
        """Connect the slots to the registers that they enable."""
        for (path, slot), assignments in sorted(self._updates.items()):
            m = self._module(path)
            if self.plan.ii == 1:
                m.d.sync += assignments
            else:
                with m.If(flow.in_slot[slot]):
                    m.d.sync += assignments

    def _module(self, path: tuple[str, ...]) -> Module:
        """Return the submodule with this path; it is created if necessary."""
        if path not in self._modules:
            above = self._module(path[:-1])
            self._modules[path] = above.submodules[path[-1]] = Module()
        return self._modules[path]

    def _home(self, i: int) -> Module:
        """Return the module that holds a node's registers."""
        return self._module(self.plan.module(i))

    def _on_slot(self, i: int, cycle: int, assignment: Any) -> None:
        """Assign to a node's registers at the end of this cycle of every sample."""
        self._updates[self.plan.module(i), cycle % self.plan.ii].append(assignment)

    def _by_slot(self, values: dict[int, Value], slots: SlotSelects, name: str) -> Value:
        """Return the value of the present slot; any of the values in a slot without one."""
        ways = [values.get(slot) for slot in range(self.plan.ii)]
        return self.fabric.choose(self.units, ways, slots, f"choose_{name}")

    def _make_signals(self, i: int) -> None:
        """Create the delay line of a node: its named signal is valid from cycle ready(i) on, _d1, _d2, ... hold it
        longer.
        """
        plan = self.plan
        name, shape = plan.signal_names[i], signed(plan.stored(i)[0].width)
        count = plan.registers(i)
        if plan.holds(i):
            names = [name] + [f"{name}_d{k}" for k in range(1, count)]
        else:
            self.live[i] = Signal(shape, name=name)
            names = [f"{name}_d{k}" for k in range(1, count + 1)]
        registers = [Signal(shape, name=n, reset_less=True) for n in names]
        self.chain[i] = registers
        cycle = plan.ready(i)
        if plan.holds(i):
            cycle -= 1  # the first register is the unit's own, filled in the unit's last cycle
        elif registers:
            self._on_slot(i, cycle, registers[0].eq(self.live[i]))
        for before, after in pairwise(registers):
            self._on_slot(i, cycle, after.eq(before))

    def read(self, node: int, cycle: int) -> Value:
        """Return the register that holds a node's integer in a cycle of its sample."""
        plan = self.plan
        root = plan.root[node]
        if root not in plan.position:
            return Const(self.formatted.constants[root][0], signed(self.formatted.formats[root].width))
        index = plan.register_index(root, cycle)
        return self.chain[root][index - 1] if index else self.live[root]

    def _own(self, i: int, row: Own) -> None:
        """Add the unit of an operation that does not share one."""
        cycle = self.plan.start(i)
        to, arithmetic = self.plan.stored(i)
        wires = row.wires(self._home(i), self._operands(i), to, arithmetic, self.plan.signal_names[i])
        value = wires.value
        last = self.plan.ready(i) - 1
        for k in range(cycle, last):  # stages that the target wants
            stage = Signal(value.shape(), name=f"{self.plan.signal_names[i]}_s{k - cycle + 1}", reset_less=True)
            self._on_slot(i, k, stage.eq(value))
            value = stage
        self._on_slot(i, last, self.chain[i][0].eq(value))
        guard_bits = wires.guard_within(to, self.plan.exact_width(i))
        if len(guard_bits) and self.plan.may_overflow(i):
            guard = Signal(len(guard_bits), name=f"{self.plan.signal_names[i]}_guard", reset_less=True)
            self._on_slot(i, cycle, guard.eq(guard_bits))
            cycle, flag = cycle + 1, differ(guard)
            if len(guard) > INPUTS:  # two levels of lookup tables: not another behind them
                cycle, flag = cycle + 1, delayed(self._home(i), flag, 1, f"{self.plan.signal_names[i]}_differs")
            self._note_overflow(i, cycle, flag)

    def _operands(self, i: int) -> list[tuple[Value, Format]]:
        """Return the values that the node's operation reads at its start, constants included."""
        values = []
        for node, fmt in self.plan.port_operands(i):
            if node is None:
                values.append((Const(self.formatted.constants[i][0], signed(fmt.width)), fmt))
            else:
                values.append((self.read(node, self.plan.start(i)), fmt))
        return values

    def _note_overflow(self, i: int, cycle: int, flag: Value) -> None:
        """Record an overflow bit, and the cycle of a sample in which it can be read."""
        self.flags.append((i, cycle, flag))

    def _multiplier(self, unit: UnitClass, name: str, operations: dict[int, int]) -> None:
        """Add a shared multiplier and its multiplexers."""
        formatted = self.formatted
        reads = {slot: self._operands(i) for slot, i in operations.items()}
        constants = {
            slot: rounding_constant(a.frac + b.frac - formatted.formats[operations[slot]].frac, formatted.arithmetic)
            for slot, ((_, a), (_, b)) in reads.items()
        }
        places = sorted({constant.bit_length() - 1 for constant in constants.values() if constant}) or [0]
        fracs = {i: a.frac + b.frac for i, ((_, a), (_, b)) in zip(operations.values(), reads.values(), strict=True)}
        core = Multiply(*self.plan.multiplier_widths(list(fracs), self.fabric.multiplier), places=places)
        ports: dict[str, dict[int, Value]] = {"a": {}, "b": {}, "c": {}}
        self.units.submodules[name] = core
        # narrower than its class: wait, so that all of the class take equally long
        product = delayed(self.units, core.p, unit.latency - core.latency, f"{name}_p")
        for slot, ((a, _), (b, _)) in reads.items():
            ports["a"][slot], ports["b"][slot] = a, b
            ports["c"][slot] = Const(
                sum(1 << k for k, place in enumerate(places) if constants[slot] >> place & 1), len(places)
            )
        self._cut(name, product, fracs)
        self._connect_ports(name, core, ports)

    def _cut(self, name: str, exact: Value, fracs: dict[int, int]) -> None:
        """Cut the results of a unit to the formats of their nodes. fracs: fraction bits of the exact result, by
        node.
        """
        guards: dict[int, Value] = {}
        for i, frac in fracs.items():
            m = self._home(i)
            wires = fit(m, exact, frac, *self.plan.stored(i), self.plan.signal_names[i])
            m.d.comb += self.live[i].eq(wires.value)
            if self.plan.may_overflow(i):
                guards[i] = wires.guard
        self._guards(name, exact, guards)

    def _guards(self, name: str, product: Value, guards: dict[int, Value]) -> None:
        """Compare the guard bits of a unit's results, which all end at its top bit.

        The bits are divided at the start of each guard. Each part is compared once for all results, and a cycle later
        the parts of a guard are joined.

        Args:
            name: Name of the unit, for signals.
            product: Exact result of the unit.
            guards: Guard bits of each result that may overflow, by node.
        """
        lengths = sorted({len(guard) for guard in guards.values()} - {0})
        parts: list[Signal] = []
        top = len(product) - 1
        for k, (before, length) in enumerate(pairwise([1, *lengths])):
            part = Signal(name=f"{name}_guard_{k}", reset_less=True)
            self.units.d.sync += part.eq(differ(product[top + 1 - length : top + 2 - before]))
            parts.append(part)
        for i, guard in guards.items():
            if len(guard):
                flag = Cat(*parts[: lengths.index(len(guard)) + 1]).any()
                self._note_overflow(i, self.plan.ready(i) + 1, flag)

    def _connect_ports(self, unit: str, core: Any, ports: dict[str, dict[int, Value]]) -> None:
        """Connect the operand ports of a shared unit, by slot."""
        slots = SlotSelects(self.units, self.plan.ii, unit)
        self.units.d.comb += [
            getattr(core, name).eq(self._by_slot(values, slots, f"{unit}_{name}")) for name, values in ports.items()
        ]
        slots.finish()

    def _elementary(self, unit: UnitClass, name: str, operations: dict[int, int]) -> None:
        """Add a shared unit of an elementary function."""
        core = ELEMENTARY[unit.kind].core(*unit.key)
        self.units.submodules[name] = core
        ports: dict[str, dict[int, Value]] = {"x": {}}
        formats = self.formatted.formats
        for slot, i in operations.items():
            node = self.formatted.graph.nodes[i]
            row = HARDWARE[node.op]
            assert isinstance(row, Elementary)
            (a,) = node.args
            ports["x"][slot] = self.read(a, self.plan.start(i))
            for port, value in row.constants(formats[a], formats[i]).items():
                ports.setdefault(port, {})[slot] = value
            self._unit_result(i, core)
        self._connect_ports(name, core, ports)

    def _unit_result(self, i: int, core: Any) -> None:
        """Connect the result of a shared unit to its node."""
        self._home(i).d.comb += self.live[i].eq(core.o)
        if self.plan.may_overflow(i):
            self._note_overflow(i, self.plan.ready(i), core.overflow)

    def outputs(self, delivery: FunctionOutputs) -> Value:
        """Return the outputs of a function in the last cycle of its samples."""
        formats = self.formatted.formats
        return Cat(*(widened(self.read(i, delivery.cycle), formats[i].width) for i in delivery.nodes))

    def overflow(self, delivery: FunctionOutputs) -> tuple[Value, int]:
        """Return one overflow bit per pass that may overflow, and the cycles by which they follow the outputs."""
        graph = self.formatted.graph
        flags: dict[int, Flags] = {scope: defaultdict(list) for scope in self.plan.overflowing(delivery)}
        for i, cycle, flag in self.flags:
            if i in delivery.needed:
                flags[graph.scope_of[i]][cycle].append(flag)
        name = "overflow" if len(self.plan.deliveries) == 1 else f"overflow_of_{delivery.name}"
        return gather(self._modules[()], flags, delivery.cycle, name)
