"""Map hierarchical names to plain identifiers, which need no escape in Verilog, SystemVerilog and VHDL tools.

| in the netlist | in a file | rule |
|---|---|---|
| module `datapath.ltdl.link1` | `datapath__ltdl__link1` | `__` separates the levels |
| instance `input` of a module | `u_input` | `u_` and the name |
| port `payload` of the stream `i` | `i_data` | one `_`, and the usual word |
| signal `table` | `table_value` | keywords get a suffix |

Names differ in more than the case of their letters, because VHDL ignores it. The same netlist gets the same names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LEVEL = "__"
"""Separator of the levels in the name of a module."""
INSTANCE = "u_"
"""Prefix of instances: an instance has never the name of a signal."""

_KEYWORD_LINES = """
always and assign automatic begin buf case casex casez cell config deassign default defparam design disable edge
else end endcase endconfig endfunction endgenerate endmodule endprimitive endspecify endtable endtask event for
force forever fork function generate genvar highz0 highz1 if ifnone incdir include initial inout input instance
integer join large liblist library localparam macromodule medium module nand negedge nmos nor noshowcancelled not
notif0 notif1 or output parameter pmos posedge primitive pull0 pull1 pulldown pullup pulsestyle_ondetect
pulsestyle_onevent rcmos real realtime reg release repeat rnmos rpmos rtran rtranif0 rtranif1 scalared showcancelled
signed small specify specparam strong0 strong1 supply0 supply1 table task time tran tranif0 tranif1 tri tri0 tri1
triand trior trireg unsigned use uwire vectored wait wand weak0 weak1 while wire wor xnor xor bufif0 bufif1 cmos
accept_on alias always_comb always_ff always_latch assert assume before bind bins binsof bit break byte chandle
checker class clocking const constraint context continue cover covergroup coverpoint cross dist do endchecker
endclass endclocking endgroup endinterface endpackage endprogram endproperty endsequence enum eventually expect
export extends extern final first_match foreach forkjoin global iff ignore_bins illegal_bins implements implies
import inside int interconnect interface intersect join_any join_none let local logic longint matches modport
nettype new nexttime null package packed priority program property protected pure rand randc randcase randsequence
ref reject_on restrict return s_always s_eventually s_nexttime s_until s_until_with sequence shortint shortreal
soft solve static string strong struct super sync_accept_on sync_reject_on tagged this throughout timeprecision
timeunit type typedef union unique unique0 until until_with untyped var virtual void wait_order weak wildcard with
within
abs access after all architecture array attribute block body buffer bus component configuration constant
disconnect downto element elsif entity exit fairness file generic group guarded impure in inertial is label linkage
literal loop map mod next of on open others out parameter port postponed procedure process protected range record
register reject rem report rol ror select severity shared signal sla sll sra srl subtype then to transport
units until variable vmode vprop vunit when
"""
KEYWORDS = frozenset(_KEYWORD_LINES.split())
"""Keywords of Verilog, SystemVerilog and VHDL."""
_STREAM = re.compile(r"([io])__(payload|valid|ready)")
_WIRE = re.compile(r"^ *wire .*\\(\S+)$", flags=re.M)
_NAME = re.compile(r"\\(\S+)")
_LINE = re.compile(r"^(    connect \S+|)(.*)$", flags=re.M)
"""Pattern of a line in RTLIL. In a cell, the name after `connect` is a port of another module."""
_MEMBERS = {"payload": "data"}
"""Usual word for a member of a stream, where Amaranth has another one."""
_ANONYMOUS = re.compile(r"^U\$(?=\d)")
"""Beginning of the names that Amaranth gives to instances without a name."""


def plain(name: str) -> str:
    """Return the identifier of a signal, a port or a memory: words of letters and digits, joined by single `_`.

    A name that is plain already is returned as it is.
    """
    words = _joined(name) or "value"
    if words[0].isdigit():
        words = f"n{words}"
    return f"{words}_value" if words.lower() in KEYWORDS else words


def module_name(path: str) -> str:
    """Return the identifier of a module from its path, whose levels are separated by dots."""
    levels = path.split(".")
    return plain(path) if len(levels) == 1 else LEVEL.join(map(_joined, levels))


def instance_name(name: str) -> str:
    """Return the identifier of an instance."""
    return INSTANCE + _joined(_ANONYMOUS.sub("", name))


def _joined(name: str) -> str:
    """Return the words of a name, joined by single `_`."""
    return "_".join(word for word in re.split(r"[^A-Za-z0-9]+", name) if word)


def with_stream_ports(module: str) -> str:
    """Return the RTLIL of a top module whose ports of streams are called `i_data`, `i_valid` and `i_ready`.

    An internal wire that has such a name gets another one.
    """
    wires = dict.fromkeys(_WIRE.findall(module))
    names: dict[str, str] = {}
    for wire in wires:
        if port := _STREAM.fullmatch(wire):
            new = f"{port[1]}_{_MEMBERS.get(port[2], port[2])}"
            names |= {new: f"{new}$wire", wire: new} if new in wires else {wire: new}
    if not names:
        return module

    def renamed(line: re.Match[str]) -> str:
        return line[1] + _NAME.sub(lambda name: f"\\{names.get(name[1], name[1])}", line[2])

    return _LINE.sub(renamed, module)


class Names:
    """Names of a module, or of the modules of a file, each of which is given once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in taken}

    def unique(self, proposal: str, mark: str = "") -> str:
        """Return an identifier, with a number if it is in use.

        Args:
            proposal: The identifier.
            mark: Letters before the number.
        """
        name, k = proposal, 1
        while name.lower() in self._taken:
            k += 1
            name = f"{proposal}_{mark}{k}"
        self._taken.add(name.lower())
        return name
