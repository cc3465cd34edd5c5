"""A program replayed in Python from its bits: what the core computes, cycle by cycle."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.elementary import cosine, reciprocal, reciprocal_plan, sine
from dynagate.fixedpoint.format import Arithmetic, Format, Integers, Rescaled, rescale, wide
from dynagate.fixedpoint.integers import square_root
from dynagate.hw.processor.schedule import Schedule
from dynagate.hw.processor.shape import ELEMENTARY, Core
from dynagate.hw.processor.words import program_words, unpack_fields


class Replayed(NamedTuple):
    """results: integers (batch,) by unit, in the order in which the unit brings them out. overflow: (batch,)."""

    results: list[list[Integers]]
    overflow: npt.NDArray[np.bool_]


Memory = dict[tuple[int, int], Integers]
"""What is at each place of each memory, (batch,)."""


def replay(scheduled: Schedule, inputs: dict[int, Integers], memory: Memory | None = None) -> Replayed:
    """The program of a schedule on inputs by node, (batch,) each. memory: what the turn before has left, where this one
    is not the first of a loop."""
    core = scheduled.core
    batch = len(next(iter(inputs.values())))
    if scheduled.instructions.start is not None:
        inputs = {**inputs, scheduled.instructions.start: np.full(batch, not memory, dtype=np.int64)}
    memory = {} if memory is None else memory
    writes: dict[int, list[tuple[int, int, Integers]]] = defaultdict(list)
    for source, place in scheduled.fixed.items():
        if source.node is None:
            memory[core.shared, place] = np.full(batch, source.integer, dtype=np.int64)
        else:
            writes[scheduled.arrivals[source.node]].append((core.shared, place, inputs[source.node]))
    results: list[list[Integers]] = [[] for _ in range(core.units)]
    overflow = np.zeros(batch, dtype=bool)
    words = program_words(scheduled)
    for cycle in range(scheduled.cycles):
        word = words[cycle] if cycle < len(words) else 0
        kind = unpack_fields(word >> (core.units * core.unit_bits), core.function_fields)
        for unit in range(core.units):
            fields = unpack_fields(word >> (unit * core.unit_bits), core.unit_fields)
            function = kind["kind"] if unit == 0 else 0
            if not (function or fields["write"] or fields["out"]):
                continue
            a, b, c = (memory.get(divmod(fields[name], 1 << core.place_bits)) for name in "abc")
            if function:
                assert a is not None
                name = ELEMENTARY[function - 1]
                done = _function(core, name, a, kind["shift"])
                writes[cycle + core.latency_of(name) - 1].append((core.shared, kind["place"], done.value))
            else:
                a, b, c = (np.zeros(batch, np.int64) if each is None else each for each in (a, b, c))
                done = _sum(core, fields, a, b, c)
                if fields["out"]:
                    results[unit].append(done.value)
                if fields["write"]:
                    writes[cycle + core.latency - 1].append((unit, fields["place"], done.value))
            overflow |= done.overflow
        for bank, place, value in writes.pop(cycle, ()):
            memory[bank, place] = value
    return Replayed(results, overflow)


def _sum(core: Core, fields: dict[str, int], a: Integers, b: Integers, c: Integers) -> Rescaled:
    if fields["select"]:
        takes_b = (a > 0) ^ bool(fields["product_negative"])
        product, addend = np.where(takes_b, b, 0), np.where(takes_b, 0, c)
    else:
        product, addend = wide(a, core.sum_bits + 8) * wide(b, core.sum_bits + 8), c
        product = -product if fields["product_negative"] else product
        addend = -addend if fields["addend_negative"] else addend
    exact = wide(product, core.sum_bits + 8) + (wide(addend, core.sum_bits + 8) << fields["up"])
    return rescale(exact, fields["down"], Format(core.word, 0), Arithmetic())


def _function(core: Core, name: str, x: Integers, shift: int) -> Rescaled:
    if name == "sqrt":
        return square_root(x, core.root_source, core.root)
    if name != "normalised_reciprocal":
        return (sine if name == "sin" else cosine)(x, core.angle, core.sine)
    bits = core.function_fields["shift"]
    signed = shift - (1 << bits) if shift >> (bits - 1) else shift
    source = Format(core.word, 0)
    return reciprocal(x, source, Format(core.word, reciprocal_plan(source, source).shift - signed))
