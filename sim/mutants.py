"""Change the Verilog of a design in one place, to measure whether its benches notice.

The texts are those that dynagate writes, one statement per line. Initial values are not changed: every bench begins
with a reset, and a register without a reset is read only after a write. Ports, comments and clocks are not changed, and
neither are the nets at outputs of an instance, which would have two drivers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

KINDS = ("operator", "constant", "table", "enable", "width", "wire")
"""Kinds of mutants. Each kind is drawn equally often while a design has places for it."""
ENTRY = re.compile(r"^\s*(\w+)\[\d+\] = (\d+'h[0-9a-f]+);")
"""An entry of a table: its name, and its value."""
REGISTER = re.compile(r"^\s*reg (?:signed )?\[(\d+):0\] ")
"""The declaration of a register or a memory: its highest bit."""
MEMORY = re.compile(r"^\s*(?:\(\*.*?\*\) )?reg \[\d+:0\] (\w+) +\[0:(\d+)\];")
"""The declaration of a memory: its name, and its last entry."""
_MODULE = re.compile(r"^module (\S+)")
_INSTANCE = re.compile(r"^\s*(\w+) (?:#\(.*\) )?\w+ \($")
_OUTPUT = re.compile(r"^\s*output (?:wire|reg) (?:signed )?(?:\[\d+:0\] )?(\w+)")
_DECLARED = re.compile(r"^\s*(?:(input|output) )?(?:wire|reg) (?:signed )?(?:\[(\d+):0\] )?(\w+)(?= |,|;|$)(?! \[)")
_ASSIGNED = re.compile(r"^\s*(?:assign )?(?:if \(.*?\) )?(\w+)(?:\[[^]]*\])* (?:<=|=) (.*);$")
_CONDITION = re.compile(r"\b(?:if|case) \((.*?)\)(?: begin|$| \w+(?:\[[^]]*\])* <= .*)")
_PORT = re.compile(r"^\s*\.(\w+)\((.+)\),?$")
_LITERAL = re.compile(r"(\d+)'(s?)([hb])([0-9a-f]+)")
_INDEX = re.compile(r"\[(\d+)(?::(\d+))?\]")
_NAME = re.compile(r"(?<![\w'$.])[A-Za-z_]\w*(?![\w(.])")
_WORDS = {"begin", "end", "if", "else", "case", "endcase", "assign", "posedge", "always"}

OPERATORS: tuple[tuple[str, str], ...] = (
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r" \* ", " + "),
    (r" & ", " | "),
    (r" \| ", " & "),
    (r" \^ ", " | "),
    (r" == ", " != "),
    (r" != ", " == "),
    (r" < ", " >= "),
    (r" > ", " >= "),
    (r" >= ", " > "),
    (r" << ", " >> "),
    (r" >>> ", " >> "),
    (r" >> ", " << "),
    (r"(?<=[( {])!(?=[\w(&|])", ""),
    (r"(?<=[( {])~(?=[\w(])", ""),
    (r"(?<=[( {])&(?=\w)", "|"),
    (r"(?<=[( {])\|(?=\w)", "&"),
    (r"(?<=[( {])-(?=\$)", ""),
    (r"\$signed\(", "$unsigned("),
)
"""Changes of operators: pattern, replacement."""


@dataclass(frozen=True)
class Mutant:
    """A change of one line of a design's Verilog."""

    kind: str
    """One of `KINDS`."""
    file: str
    """Name of the file."""
    line: int
    """Number of the line, from 1 on."""
    old: str
    """The line in the design."""
    new: str
    """The line of the mutant."""

    def applied(self, text: str) -> str:
        """Return the text of the mutant's file, given the text of the design's."""
        lines = text.split("\n")
        assert lines[self.line - 1] == self.old
        lines[self.line - 1] = self.new
        return "\n".join(lines)


@dataclass(frozen=True)
class _Place:
    """A line of a module that may be changed."""

    file: str
    line: int
    text: str
    start: int
    """Column at which the expression of the line begins."""
    stop: int
    """Column at which the expression ends."""
    names: Mapping[str, int]
    """Widths of the module's signals in bits, by name."""
    target: str = ""
    """Signal that the line assigns."""

    def with_part(self, start: int, stop: int, new: str) -> str:
        """Return the line with another text between two columns."""
        return self.text[:start] + new + self.text[stop:]

    def found(self, pattern: re.Pattern[str] | str) -> Iterator[re.Match[str]]:
        """Yield the matches of a pattern in the expression."""
        return re.compile(pattern).finditer(self.text, self.start, self.stop)


def mutants_of(texts: Mapping[str, str], seed: int) -> Iterator[Mutant]:
    """Yield the mutants of a design in random order, each once.

    Args:
        texts: Verilog by file name.
        seed: Seed of the order; equal seeds yield equal mutants.
    """
    source = random.Random(seed)
    places = _places(texts)
    seen: set[tuple[str, int, str]] = set()
    kinds = list(KINDS)
    while kinds:
        for kind in source.sample(kinds, len(kinds)):
            mutant = _new(kind, places[kind], source, seen)
            if mutant is None:
                kinds.remove(kind)
            else:
                yield mutant


def _new(kind: str, places: list[_Place], source: random.Random, seen: set[tuple[str, int, str]]) -> Mutant | None:
    """Return a random mutant that is not among those seen, and add it to them; None if none is left."""
    for _ in range(MAX_DRAWS):
        mutant = _drawn(kind, places, source)
        if mutant is not None and (key := (mutant.file, mutant.line, mutant.new)) not in seen:
            seen.add(key)
            return mutant
    return None


MAX_DRAWS = 500
"""Number of draws without a new mutant after which a kind counts as exhausted."""


def _drawn(kind: str, places: list[_Place], source: random.Random) -> Mutant | None:
    """Return a random mutant of a kind, or None if the place that is drawn has none."""
    if not places:
        return None
    place = source.choice(places)
    lines = [line for line in _CHANGES[kind](place, source) if line != place.text]
    return Mutant(kind, place.file, place.line, place.text, source.choice(lines)) if lines else None


def _places(texts: Mapping[str, str]) -> dict[str, list[_Place]]:
    """Return the lines that mutants of each kind may change."""
    places: dict[str, list[_Place]] = {kind: [] for kind in KINDS}
    outputs = {name: ports for text in texts.values() for name, ports in _outputs_of(text).items()}
    for file, text in texts.items():
        lines = text.split("\n")
        names = names_of(lines)
        module, inner, is_initial = "", "", False
        for number, line in enumerate(lines, 1):
            if match := _MODULE.match(line):
                module = match[1]
            elif match := _INSTANCE.match(line):
                inner = match[1]
            if line == "  initial begin":
                is_initial = True
            elif line == "  end":
                is_initial = False
            if (port := _PORT.match(line)) and port[1] in outputs.get(inner, ()):
                continue
            for kind, place in _of_line(file, number, line, names.get(module, {}), is_initial):
                places[kind].append(place)
    return places


def _outputs_of(text: str) -> dict[str, set[str]]:
    """Return the output ports of modules, by module."""
    outputs: dict[str, set[str]] = {}
    module = ""
    for line in text.split("\n"):
        if match := _MODULE.match(line):
            module = match[1]
            outputs[module] = set()
        elif match := _OUTPUT.match(line):
            outputs[module].add(match[1])
    return outputs


def names_of(lines: list[str]) -> dict[str, dict[str, int]]:
    """Return the widths of signals, by module and name."""
    names: dict[str, dict[str, int]] = {}
    module = ""
    for line in lines:
        if match := _MODULE.match(line):
            module = match[1]
            names[module] = {}
        elif (match := _DECLARED.match(line)) and module and match[3] not in ("clk", "aclk", "dynagate_start"):
            names[module][match[3]] = int(match[2] or 0) + 1
    return names


def _of_line(
    file: str, number: int, line: str, names: Mapping[str, int], is_initial: bool
) -> Iterator[tuple[str, _Place]]:
    """Yield the kinds of mutants that a line may have."""

    def place(start: int, stop: int, target: str = "") -> _Place:
        return _Place(file, number, line, start, stop, names, target)

    if match := ENTRY.match(line):
        if int(match[2].partition("h")[2], 16) or "storage" not in match[1]:
            yield "table", place(*match.span(2))
        return
    if (
        is_initial
        or line.lstrip().startswith(("initial", "//", "module", "input", "integer"))
        or "dynagate_start" in line
    ):
        return
    if REGISTER.match(line):
        yield "width", place(0, len(line))
        return
    if match := _CONDITION.search(line):
        condition = place(*match.span(1))
        if "if (" in line:
            yield "enable", condition
        yield from ((kind, condition) for kind in ("operator", "constant", "wire"))
    if match := _ASSIGNED.match(line):
        whole = place(*match.span(2), match[1])
        yield from ((kind, whole) for kind in ("operator", "constant", "wire"))
        if " <= " in line:
            yield "enable", whole
    elif match := _PORT.match(line):
        yield from ((kind, place(*match.span(2))) for kind in ("operator", "constant", "wire"))


# changes of a line, by kind


def _operators(place: _Place, source: random.Random) -> Iterator[str]:
    """Yield the line with another operator, and with the choices of a condition exchanged."""
    for pattern, new in OPERATORS:
        for match in place.found(pattern):
            yield place.with_part(*match.span(), new)
    for match in place.found(r"(\w+(?:\[[\d:]+\])*) \? "):
        yield place.with_part(*match.span(1), f"(!{match[1]})")


def _flipped(literal: re.Match[str], source: random.Random) -> str:
    """Return a literal with one bit inverted."""
    width, sign, base, digits = int(literal[1]), literal[2], literal[3], literal[4]
    radix = 16 if base == "h" else 2
    value = int(digits, radix) ^ (1 << source.randrange(width))
    return f"{width}'{sign}{base}{value:0{len(digits)}{'x' if base == 'h' else 'b'}}"


def _literals(place: _Place, source: random.Random) -> Iterator[str]:
    """Yield the line with one bit of a literal inverted."""
    for match in place.found(_LITERAL):
        yield place.with_part(*match.span(), _flipped(match, source))


def _constants(place: _Place, source: random.Random) -> Iterator[str]:
    """Yield the line with one bit of a constant inverted, and with another place of bits."""
    yield from _literals(place, source)
    for match in place.found(_INDEX):
        high, low = int(match[1]), match[2]
        step = -1 if high > 0 and (low is None or int(low) > 0) else 1
        new = f"[{high + step}]" if low is None else f"[{high + step}:{int(low) + step}]"
        yield place.with_part(*match.span(), new)


def _enables(place: _Place, source: random.Random) -> Iterator[str]:
    """Yield the line with a condition that always or never holds or is inverted, or a register that keeps its value."""
    if place.target:
        if place.target in place.names:
            yield place.with_part(place.start, place.stop, _kept(place))
        return
    condition = place.text[place.start : place.stop]
    for new in ("1'b0", "1'b1", f"!({condition})"):
        yield place.with_part(place.start, place.stop, new)


def _kept(place: _Place) -> str:
    """Return the left side of an assignment, whose register then keeps its value."""
    left = place.text[: place.start].rpartition(" <= ")[0]
    return left[left.index(place.target) :]


def _widths(place: _Place, source: random.Random) -> Iterator[str]:
    """Yield the line with a register of one bit less, or with a memory of one entry less."""
    match = REGISTER.match(place.text)
    assert match is not None
    if memory := MEMORY.match(place.text):
        if int(memory[2]) > 0:
            yield place.with_part(*memory.span(2), str(int(memory[2]) - 1))
        return
    if int(match[1]) > 0:
        yield place.with_part(*match.span(1), str(int(match[1]) - 1))


def _wires(place: _Place, source: random.Random) -> Iterator[str]:
    """Yield the line with a signal replaced by another one of its module and width."""
    for match in place.found(_NAME):
        name = match[0]
        if name in _WORDS or name not in place.names:
            continue
        others = [
            other
            for other, width in place.names.items()
            if width == place.names[name] and other not in (name, place.target)
        ]
        if others:
            yield place.with_part(*match.span(), source.choice(others))


_CHANGES: dict[str, Callable[[_Place, random.Random], Iterator[str]]] = {
    "operator": _operators,
    "constant": _constants,
    "table": _literals,
    "enable": _enables,
    "width": _widths,
    "wire": _wires,
}
"""Function that yields the changed lines, by kind."""
