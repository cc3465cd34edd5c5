"""Write all mutants of a design into one text, in which a number selects one of them at the start of a simulation.

A changed line becomes an `if` with the changed and the original statement, so that widths and signs of expressions stay
as they are in each. `+mutant=K` selects mutant K; without it, and for 0, the design computes its own results. A design
and all its mutants are thus compiled once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dynagate.sim.mutants import ENTRY, MEMORY, REGISTER, Mutant, names_of

SELECT = "mutant_select"
"""Variable in each changed module that holds the number of the mutant."""
_READ = f'if (!$value$plusargs("mutant=%d", {SELECT})) {SELECT} = 0;'
_MODULE = re.compile(r"^module (\S+)")
_ASSIGN = re.compile(r"^(\s*)assign (\w+)((?:\[[^]]*\])*) = (.*);$")
_STATEMENT = re.compile(r"^(\s*(?:always @\(posedge \w+\) )?)(\S.*;)$")
_HEAD = re.compile(r"^(\s*(?:end else )?(?:if|case) \()(.*)(\)(?: begin)?)$")
_PORT = re.compile(r"^(\s*\.\w+\()(.*)(\),?)$")
_PLAIN = re.compile(r"^[\w\[\]:{}, '!~|&()]+$")


@dataclass
class _Line:
    """Replacement of a line: a statement for each mutant, and declarations."""

    choices: dict[int, str] = field(default_factory=dict)
    """The changed line, by number of the mutant."""
    declared: dict[int, str] = field(default_factory=dict)
    """Declaration that a mutant's line needs."""


@dataclass(frozen=True)
class SelectedTexts:
    """Verilog with mutants."""

    texts: dict[str, str]
    """Verilog by file name."""
    owners: Mapping[tuple[str, int], int]
    """Number of the mutant that a line is written for, by file name and number of the line."""
    left: tuple[int, ...]
    """Numbers of mutants that cannot be selected, and are not in the texts."""


def selected(texts: Mapping[str, str], mutants: Mapping[int, Mutant]) -> SelectedTexts:
    """Return the Verilog of a design with mutants in it.

    Args:
        texts: Verilog by file name.
        mutants: Mutants by their numbers, which are larger than 0.
    """
    results, owners, left = dict(texts), {}, []
    for file in dict.fromkeys(mutant.file for mutant in mutants.values()):
        lines = texts[file].split("\n")
        changed: dict[int, _Line] = {}
        for number, mutant in mutants.items():
            if mutant.file != file:
                continue
            own = list(_changes(lines, mutant, number))
            if own and all(_is_selectable(lines[at - 1], line) for at, line, _ in own):
                for at, line, declared in own:
                    here = changed.setdefault(at, _Line())
                    here.choices[number] = line
                    if declared:
                        here.declared[number] = declared
            else:
                left.append(number)
        written = list(_written(lines, changed))
        results[file] = "\n".join(line for line, _ in written)
        owners.update({(file, at): owner for at, (_, owner) in enumerate(written, 1) if owner})
    return SelectedTexts(results, owners, tuple(left))


def _is_selectable(old: str, new: str) -> bool:
    """Return whether a line is of a kind whose change can be selected."""
    if _PORT.match(old):
        return all(_PLAIN.match(_parts(_PORT, line)[1]) for line in (old, new))
    return any(pattern.match(old) and pattern.match(new) for pattern in (_ASSIGN, _STATEMENT, _HEAD))


def _parts(pattern: re.Pattern[str], line: str) -> tuple[str, ...]:
    """Return the groups of a line that matches."""
    match = pattern.match(line)
    assert match is not None
    return match.groups()


def _module(lines: list[str], at: int) -> tuple[int, int]:
    """Return the first and the last index of the module that a line belongs to."""
    first = max(k for k in range(at) if lines[k].startswith("module "))
    return first, next(k for k in range(first, len(lines)) if lines[k] == "endmodule")


# the lines that a mutant changes


def _changes(lines: list[str], mutant: Mutant, number: int) -> Iterator[tuple[int, str, str]]:
    """Yield the number of each line that a mutant changes, the changed line, and a declaration that it needs."""
    if mutant.kind != "width":
        yield mutant.line, mutant.new, ""
        return
    first, last = _module(lines, mutant.line)
    if memory := MEMORY.match(mutant.old):
        yield from _without_entry(lines, first, last, memory[1], int(memory[2]))
    else:
        yield from _without_bit(lines, first, last, mutant, number)


def _without_entry(lines: list[str], first: int, last: int, name: str, top: int) -> Iterator[tuple[int, str, str]]:
    """Yield the changes for a memory without its last entry, which then is never written and reads as zero."""
    for at in range(first, last):
        line = lines[at]
        if (entry := ENTRY.match(line)) and entry[1] == name:
            if f"{name}[{top}] " in line:
                yield at + 1, line[: entry.start(2)] + re.sub(r"'h[0-9a-f]+", "'h0", entry[2]) + ";", ""
        elif re.search(rf"\b{name}\[.*\] <= ", line):
            start = line.index(f"{name}[") + len(name) + 1
            address = line[start : _closing(line, start)]
            prefix, statement = _parts(_STATEMENT, line)
            yield at + 1, f"{prefix}if (({address}) != {top}) begin {statement} end;", ""


def _closing(line: str, start: int) -> int:
    """Return the column of the bracket that closes an index."""
    depth = 1
    for column in range(start, len(line)):
        depth += (line[column] == "[") - (line[column] == "]")
        if depth == 0:
            return column
    return len(line)


def _without_bit(
    lines: list[str], first: int, last: int, mutant: Mutant, number: int
) -> Iterator[tuple[int, str, str]]:
    """Yield the changes for a register without its highest bit: a register of its own replaces it in each line."""
    declaration = REGISTER.match(mutant.old)
    assert declaration is not None
    sign = "signed " if "signed" in declaration[0] else ""
    name, _, value = mutant.old[declaration.end() :].rstrip(" ,;").partition(" = ")
    read = re.compile(rf"(?<![\w'$.]){name}\b")
    narrow, top = f"narrow_{number}", int(declaration[1])
    declared = f"reg {sign}[{top - 1}:0] {narrow}{f' = {value}' if value else ''};"
    for at in range(first, last):
        line = lines[at]
        if read.search(line) and not line.lstrip().startswith(("initial", "reg", "output", "input")):
            yield at + 1, _within(read.sub(narrow, line), narrow, top), declared


def _within(line: str, name: str, top: int) -> str:
    """Return a line that selects only bits below `top` of a register, because simulators differ outside of it.

    A write of the bit has no effect, and a read of it is 0.
    """
    if target := re.search(rf"\b{name}\[{top}(?::(\d+))?\] <?= ", line):
        if target[1] is None or int(target[1]) == top:
            return line[: target.start()] + "begin end;"
        part = line[target.start() : target.end()].replace(f"[{top}:", f"[{top - 1}:")
        return line[: target.start()] + part + _within(line[target.end() :], name, top)
    line = re.sub(rf"\b{name}\[{top}(?::{top})?\]", "1'b0", line)
    return re.sub(rf"\b{name}\[{top}:(\d+)\]", rf"{{1'b0, {name}[{top - 1}:\1]}}", line)


# the text with a choice


def _written(lines: list[str], changed: Mapping[int, _Line]) -> Iterator[tuple[str, int]]:
    """Yield the lines of a file with choices, each with the number of its mutant, 0 for the design's own lines."""
    names = names_of(lines)
    modules = {_module(lines, at)[0] for at in changed}
    module, inside = "", False
    is_head = False
    for at, line in enumerate(lines, 1):
        if match := _MODULE.match(line):
            module, inside, is_head = match[1], at - 1 in modules, True
        if at in changed:
            yield from _choice(line, changed[at], at, names[module])
        else:
            yield line, 0
        if inside and is_head and line == ");":
            is_head = False
            yield f"  integer {SELECT} = 0;", 0
            yield f"  initial {_READ}", 0
            yield from _declarations(lines, changed, at)
        if inside and line == "  initial begin":
            yield f"    {_READ}", 0


def _declarations(lines: list[str], changed: Mapping[int, _Line], start: int) -> Iterator[tuple[str, int]]:
    """Yield the declarations of a module's changes, each once."""
    last = _module(lines, start)[1]
    own = {number: text for at, each in changed.items() if start < at <= last for number, text in each.declared.items()}
    for number, text in own.items():
        yield f"  {text}", number


def _choice(old: str, line: _Line, at: int, widths: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the lines that choose between an original line and those of mutants."""
    if assign := _ASSIGN.match(old):
        yield from _assigned(assign, line, at, widths)
    elif port := _PORT.match(old):
        yield from _selected(port, line, _PORT, "")
    elif head := _HEAD.match(old):
        yield from _selected(head, line, _HEAD, "|" if "if (" in head[1] else "")
    else:
        prefix, statement = _parts(_STATEMENT, old)
        yield prefix, 0
        for number, new in line.choices.items():
            body = _parts(_STATEMENT, new)[1]
            yield f"if ({SELECT} == {number}) begin {body} end else", number
        yield f"begin {statement} end", 0


def _selected(old: re.Match[str], line: _Line, pattern: re.Pattern[str], reduced: str) -> Iterator[tuple[str, int]]:
    """Yield a line whose middle part is chosen. reduced: operator that makes a condition of each part."""
    yield old[1], 0
    for number, new in line.choices.items():
        yield f"{SELECT} == {number} ? {reduced}{{{_parts(pattern, new)[1]}}} :", number
    yield f"{reduced}{{{old[2]}}}{old[3]}", 0


def _assigned(old: re.Match[str], line: _Line, at: int, widths: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield a continuous assignment with a choice. Each value has a wire of its own, as wide as the target."""
    space, target, bits, value = old.groups()
    of = f"wire [{widths.get(target, 1) - 1}:0]"
    own = f"original_{at}"
    yield f"{space}{of} {own};", 0
    yield f"{space}assign {own}{bits} = {value};", 0
    chosen = f"{own}{bits}"
    for number, new in line.choices.items():
        yield f"{space}{of} value_{number}_{at};", number
        yield f"{space}assign value_{number}_{at}{bits} = {_parts(_ASSIGN, new)[3]};", number
        chosen = f"{SELECT} == {number} ? value_{number}_{at}{bits} : {chosen}"
    yield f"{space}assign {target}{bits} = {chosen};", 0
