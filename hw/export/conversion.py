"""Amaranth's conversion to RTLIL with quicker versions of its inner functions.

The functions below return exactly what Amaranth's own return. They leave out repeated checks of types, and the search
for combinational cycles visits each operator once and not once for each bit. They apply only while `convert` runs, and
only if Amaranth's functions have the source text that these were written for. With any other text, Amaranth's own run.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import _nir

REPLACED_TEXT = "b41a65d27a0841082c798e3f0523afeee57e91c5cdac081a9192ba9c8a31dffc"
"""SHA-256 of the source text of Amaranth's functions that `_quicker` replaces; it is the same from 0.5.8 to 0.5.10."""
_BITWISE = ("~", "&", "|", "^", "m")
"""Operators of which an output bit depends on one bit of each operand; `m` depends on its condition too."""
_value = tuple.__new__
_net = int.__new__


def convert(component: Any, name: str, platform: Any = None, *, ports: Any = None) -> str:
    """Return the RTLIL text of a component, as `amaranth.back.rtlil.convert` writes it without source locations."""
    with _no_collection(), _quicker():
        return rtlil.convert(component, name=name, platform=platform, ports=ports, emit_src=False)


@contextmanager
def _no_collection() -> Iterator[None]:
    """A conversion makes millions of objects, hardly any of them garbage; to look for it takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _new_value(cls: type, nets: Any = ()) -> Any:
    return _value(cls, (nets,) if isinstance(nets, _nir.Net) else nets)


def _net_of_cell(cls: type, cell: int, bit: int) -> Any:
    return _net(cls, cell << 16 | bit)


def _resolve_value(netlist: Any, value: Any) -> Any:
    if not value or min(value) >= 0:
        return _value(_nir.Value, value)
    connections, nets = netlist.connections, []
    for net in value:
        while net < 0:
            net = connections[net]
        nets.append(net)
    return _value(_nir.Value, nets)


def _check_comb_cycles(netlist: Any) -> None:
    """Search for a combinational cycle. If there is one, Amaranth's own search raises the error that describes it."""
    if not _is_acyclic(netlist):
        _OWN[_nir.Netlist, "check_comb_cycles"](netlist)


def _is_acyclic(netlist: Any) -> bool:
    cells, connections = netlist.cells, netlist.connections
    done: set[int] = {0, 1}
    busy: set[int] = set()
    operators: set[int] = set()  # finished operators of which every output bit depends on the same nets

    def is_sound(net: int) -> bool:
        if net in done:
            return True
        if net in busy:
            return False
        busy.add(net)
        for source in sources(net):
            if source not in done and not is_sound(source):
                return False
        busy.remove(net)
        done.add(net)
        return True

    def sources(net: int) -> Iterator[int]:
        if net < 0:
            yield connections[net]
            return
        index = net >> 16
        cell = cells[index]
        if not isinstance(cell, _nir.Operator) or cell.operator in _BITWISE:
            for source, _ in cell.comb_edges_to(net & 0xFFFF):
                yield source
        elif index not in operators:
            for value in cell.inputs:
                yield from value
            operators.add(index)

    outputs = (net for index, cell in enumerate(cells) for net in cell.output_nets(index))
    signals = (net for value in netlist.signals.values() for net in value)
    return all(map(is_sound, outputs)) and all(map(is_sound, signals))


def _sigspec(emitter: Any, *parts: Any) -> str:
    value: list[int] = []
    for part in parts:
        if isinstance(part, _nir.Net):
            value.append(part)
        else:
            value.extend(part)
    nets, chunks, begin, count = emitter.nets, [], 0, len(value)
    while begin < count:
        end = begin
        if 0 <= value[begin] < 2:
            while end < count and 0 <= value[end] < 2:
                end += 1
            bits = "".join(map("01".__getitem__, value[begin:end]))
            chunks.append(f"{end - begin}'{bits[::-1]}")
        else:
            wire, first = nets[value[begin]]
            bit = first
            while end < count and not 0 <= value[end] < 2 and nets[value[end]] == (wire, bit):
                end += 1
                bit += 1
            chunks.append(f"{wire.name} [{first}]" if end - begin == 1 else f"{wire.name} [{bit - 1}:{first}]")
        begin = end
    return chunks[0] if len(chunks) == 1 else "{ " + " ".join(reversed(chunks)) + " }"


_QUICKER: dict[tuple[type, str], Any] = {
    (_nir.Value, "__new__"): staticmethod(_new_value),
    (_nir.Net, "from_cell"): classmethod(_net_of_cell),
    (_nir.Netlist, "resolve_value"): _resolve_value,
    (_nir.Netlist, "check_comb_cycles"): _check_comb_cycles,
    (rtlil.ModuleEmitter, "sigspec"): _sigspec,
}
_OWN: dict[tuple[type, str], Any] = {(of, name): vars(of)[name] for of, name in _QUICKER}


@contextmanager
def _quicker() -> Iterator[None]:
    rows = _QUICKER if _text_of_own() == REPLACED_TEXT else {}
    for (of, name), function in rows.items():
        setattr(of, name, function)
    try:
        yield
    finally:
        for of, name in rows:
            setattr(of, name, _OWN[of, name])


@cache
def _text_of_own() -> str:
    """Return the SHA-256 of the source text of Amaranth's functions, or nothing if it has no source text."""
    functions: list[Callable[..., Any]] = [getattr(own, "__func__", own) for own in _OWN.values()]
    functions += [_nir.Operator.comb_edges_to, _nir.Netlist.resolve_net]
    try:
        return hashlib.sha256("".join(map(inspect.getsource, functions)).encode()).hexdigest()
    except OSError:
        return ""
