"""Estimate the lookup tables of a plan before there is a netlist, and check resource budgets.

The estimate follows Yosys' mapping for UltraScale+. It is within 8 % of the netlists in docs/schedule.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields

from dynagate.base.arguments import check_count, store_plain_numbers
from dynagate.base.errors import Error
from dynagate.base.explained import explained
from dynagate.design.words import WORD
from dynagate.hw.plan.plan import Operand, Plan, operands
from dynagate.hw.units.rescale import rounding_constant
from dynagate.hw.units.slot_selects import tables_of
from dynagate.hw.units.table import ELEMENTARY

PER_MULTIPLEXER = 0.67
"""Lookup tables per bit of a two-way multiplexer, as measured in netlists. One table holds up to four ways."""
PER_TABLE = 1.2
"""Lookup tables in netlists per table of a multiplexer by slot, with its select registers."""
COMPARED = 5
"""Number of guard bits that one lookup table compares."""
BUFFER_BITS, BUFFER_DEPTH, BUFFER_TABLES = 14, 32, 8
"""Bits and words of a RAM32M16, of which the output FIFO consists, and its number of lookup tables."""


REGISTERS_TABLES = 330
"""Lookup tables of the AXI4-Lite registers and their counters."""


def lookup_tables(plan: Plan) -> Counter[str]:
    """Estimate the lookup tables of a datapath.

    Returns:
        Number of 6-input lookup tables by purpose: sums, multiplexers, overflow, units, and the output buffer.
    """
    formatted = plan.formatted
    formats = formatted.formats
    shared = plan.binding.unit
    by_purpose: Counter[str] = Counter(overflow=len(plan.position) // COMPARED)
    for i, position in plan.position.items():
        if position in shared or not (read := operands(formatted, i)):
            continue
        width, below = _sum_width(read, formats[i].frac)
        by_purpose["sums"] += width - below
        if rounding_constant(below, formatted.arithmetic) > 1 and min(o.format.frac for o in read) > formats[i].frac:
            by_purpose["sums"] += width - below  # a third operand to add
        by_purpose["overflow"] += _compared(width - below - formats[i].width + 1)
    node_at = {p: i for i, p in plan.position.items()}
    for (name, _), by_slot in plan.binding.operations_of(plan.schedule).items():
        kind = plan.classes[name].kind
        nodes = {slot: node_at[p] for slot, p in by_slot.items()}
        by_purpose["multiplexers"] += _multiplexed(plan, nodes)
        if kind in ELEMENTARY:
            by_purpose["units"] += ELEMENTARY[kind].tables(*plan.classes[name].key) * max(
                formats[i].width for i in nodes.values()
            )
            continue
        guards = []
        for i in nodes.values():
            read = operands(formatted, i)
            width = sum(o.format.width for o in read)
            below = sum(o.format.frac for o in read) - formats[i].frac
            guards.append(width - below - formats[i].width + 1)
        by_purpose["overflow"] += _compared(max(guards)) + len(nodes)
    deep = math.ceil((plan.latency / plan.ii + 4) / BUFFER_DEPTH)
    for delivery in plan.deliveries:
        outputs = sum(formats[i].width for i in delivery.nodes)
        by_purpose["buffer"] += math.ceil(outputs / BUFFER_BITS) * BUFFER_TABLES * deep
    return by_purpose


def shell_tables(plan: Plan, width: int) -> Counter[str]:
    """Estimate the lookup tables of the AXI shell around a datapath, and of its ring.

    The terms for converters and multiplexers are fitted to Yosys netlists of shells of 64 and 128 bits for UltraScale+.

    Args:
        plan: Plan of the datapath.
        width: Bits of the streams, whose words are float32.

    Returns:
        Number of lookup tables by purpose.
    """
    graph, formats, lanes = plan.formatted.graph, plan.formatted.formats, width // WORD
    source = [formats[i].width for i in graph.input_nodes]
    sink = [formats[i].width for i in graph.result_nodes]
    into = [max(source[k::lanes]) for k in range(min(lanes, len(source)))]
    out = [max(sink[k::lanes]) for k in range(min(lanes, len(sink)))]
    ways = sum((len(sink[k::lanes]) - 1) * widest for k, widest in enumerate(out))
    return Counter(
        converters=round(sum(77 + 2.6 * w for w in into) + sum(50 + 3.1 * w for w in out)),
        buffers=_buffer(sum(source) + 3 + WORD) + _buffer(width + 1) + len(plan.deliveries) * _buffer(2 + WORD),
        multiplexers=round(PER_MULTIPLEXER * ways),
        control=200 + 6 * len(source),
        registers=REGISTERS_TABLES,
    )


def _buffer(bits: int) -> int:
    """Return the lookup tables of a FIFO of up to BUFFER_DEPTH words of this many bits."""
    return math.ceil(bits / BUFFER_BITS) * BUFFER_TABLES


def _sum_width(read: tuple[Operand, ...], frac: int) -> tuple[int, int]:
    """Return the bits of an exact sum, and how many of them lie below the last fraction bit of the result."""
    finest = max(o.format.frac for o in read)
    return max(o.format.width + finest - o.format.frac for o in read) + 1, max(finest - frac, 0)


def _compared(bits: int) -> int:
    """Return the lookup tables that compare this many guard bits."""
    return math.ceil(bits / COMPARED) if bits > 1 else 0


def _multiplexed(plan: Plan, nodes: Mapping[int, int]) -> int:
    """Return the lookup tables of the multiplexers in front of one unit. nodes: operation by slot."""
    count = 0
    for port in range(2):
        sources: dict[int, Hashable] = {}
        width = 0
        for slot, i in nodes.items():
            read = plan.port_operands(i)
            if port >= len(read):
                continue
            operand = read[port]
            width = max(width, operand.format.width)
            sources[slot] = plan.source(i, operand)
        if sources:
            count += width * tables_of([sources.get(slot) for slot in range(plan.ii)])
    return round(PER_TABLE * count)


class BudgetError(Error, ValueError):
    """A plan exceeds the resource budget; the text lists what takes most of the resource."""


@explained
@dataclass(frozen=True)
class Budget:
    """Upper limits for the resources of a datapath; None means no limit."""

    dsp: int | None = None
    """DSP48E2 blocks."""
    lut: int | None = None
    """6-input lookup tables, as estimated by `lookup_tables`."""
    register_bits: int | None = None
    """Bits of the delay lines between units."""

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        for limit in fields(self):
            value = getattr(self, limit.name)
            if value is not None:
                check_count(limit.name, value, 2**63, 0)

    def check(self, planned: Plan) -> None:
        """Check a plan against the budget.

        Args:
            planned: The plan.

        Raises:
            BudgetError: The datapath exceeds a limit. The text lists what takes most of that resource.
        """
        limits = planned.schedule.problem.limits
        way_out = f"a larger interval than {planned.ii} or a larger error takes fewer"
        if self.dsp is not None and planned.dsp_blocks() > self.dsp:
            blocks = {name: limits[name] * unit.dsp_blocks for name, unit in planned.classes.items()}
            most = max(blocks, key=lambda name: blocks[name])
            raise BudgetError(
                f"{planned.dsp_blocks()} DSP48E2 blocks planned, {self.dsp} allowed: {limits[most]} units of '{most}' "
                f"take {blocks[most]}; {way_out}",
                code="DG-HW-013",
            )
        if self.lut is not None and (tables := lookup_tables(planned)).total() > self.lut:
            part, count = tables.most_common(1)[0]
            raise BudgetError(
                f"{tables.total()} lookup tables estimated, {self.lut} allowed: {part} take {count}; {way_out}",
                code="DG-HW-014",
            )
        if self.register_bits is not None and planned.register_bits() > self.register_bits:
            formats = planned.formatted.formats
            longest = max(planned.position, key=lambda i: planned.registers(i) * formats[i].width)
            raise BudgetError(
                f"{planned.register_bits()} bits of registers planned, {self.register_bits} allowed: node "
                f"'{planned.formatted.graph.nodes[longest].name}' takes most, {planned.registers(longest)} words of "
                f"{formats[longest].width} bits; {way_out}",
                code="DG-HW-015",
            )
