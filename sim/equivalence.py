"""Prove that a mutant computes the same as the design, so that no bench can notice it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from dynagate.base.process import completed, limited, python_environment
from dynagate.hw.export.yosys import yosys_command
from dynagate.sim.mutants import MEMORY, REGISTER, Mutant
from dynagate.sim.range_facts import RangeFacts

PROOF_SECONDS = 30
"""Processor time in s after which a tool counts as having found no proof."""
LEVELS = 2
"""Number of modules around a mutant's own in which a proof is tried."""
_MODULE = re.compile(r"^module (\S+)", flags=re.M)
_INSTANCE = re.compile(r"^  (\w+) \w+ \($", flags=re.M)
_PREPARING = ("proc", "memory_collect", "memory_map", "opt_expr", "opt_clean -purge")
"""Passes of Yosys on each of the two designs. The instances of other modules are cut off."""
_JOINING = (
    *("design -copy-from gold gold", "design -copy-from gate gate", "miter -equiv -flatten gold gate miter"),
    *("hierarchy -top miter", "opt -full", "techmap", "opt -fast", "async2sync", "dffunmap", "simplemap"),
    *("dfflegalize -cell $_DFF_P_ 01", "simplemap", "setundef -zero -init", "opt_clean", "aigmap"),
)
"""Passes that make one circuit of both, whose output is 1 while they differ."""


def equal_reason(texts: Mapping[str, str], mutant: Mutant, facts: RangeFacts | None = None) -> str:
    """Return how a mutant is proved to compute the same as the design; empty without a proof.

    The proof compares the module of the mutant, and then the modules around it, for all inputs and for all results of
    other modules, from the initial values on. Registers without one begin at zero. A bit that the mutant does not
    define may have any value.

    Args:
        texts: Verilog of the design by file name.
        mutant: The mutant.
        facts: Entries that no input reads.
    """
    module, is_undefined = module_of(texts[mutant.file], mutant.line), _reads_undefined(texts[mutant.file], mutant)
    if mutant.kind == "table":
        unread = facts is not None and facts.is_unread(module, mutant.old)
        return "no input reads the entry, which ranges of values show" if unread else ""
    if abc_program() is None:
        return ""
    changed = {**texts, mutant.file: mutant.applied(texts[mutant.file])}
    if proved := _proved_around(texts, changed, module, is_undefined):
        return f"Yosys and ABC prove that {proved} computes the same"
    return ""


def _reads_undefined(text: str, mutant: Mutant) -> bool:
    """Return whether a mutant may read a bit that it does not define."""
    if mutant.kind == "constant":
        return mutant.old.count("[") > 0
    if mutant.kind != "width":
        return False
    declaration = REGISTER.match(mutant.old)
    assert declaration is not None
    name = re.split(r"[ ,;]", mutant.old[declaration.end() :])[0]
    return MEMORY.match(mutant.old) is not None or re.search(rf"\b{name}\[{declaration[1]}[:\]]", text) is not None


def _proved_around(texts: Mapping[str, str], changed: Mapping[str, str], module: str, is_undefined: bool) -> str:
    """Return the module for which equality is proved: the one that is changed, or one around it; empty if none."""
    inner: list[str] = []
    instances = instances_of(texts)
    for _ in range(1 + LEVELS):
        if proved_equal(texts, changed, module, inner, is_undefined):
            return module
        parents = [name for name, own in instances.items() if module in own]
        if len(parents) != 1:
            break
        inner.append(module)
        module = parents[0]
    return ""


def abc_program() -> Path | None:
    """Return the program ABC that comes with Yosys; None if it is not installed."""
    spec = find_spec("pyosys")
    program = None if spec is None or spec.origin is None else Path(spec.origin).parent / "yosys-abc"
    return program if program is not None and program.is_file() else None


def module_of(text: str, line: int) -> str:
    """Return the module that a line belongs to, as Verilog spells its name."""
    above = text.split("\n")[: line - 1]
    return next(each.split()[1] for each in reversed(above) if each.startswith("module "))


def instances_of(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the modules that each module has instances of."""
    instances = {}
    for text in texts.values():
        for part in re.split(r"^(?=module )", text, flags=re.M):
            if match := _MODULE.match(part):
                instances[match[1]] = _INSTANCE.findall(part)
    return instances


def proved_equal(
    texts: Mapping[str, str],
    changed: Mapping[str, str],
    module: str,
    inner: Sequence[str] = (),
    is_undefined: bool = True,
) -> bool:
    """Return whether ABC proves that a module computes the same in two designs.

    Args:
        texts: Verilog of a design by file name.
        changed: Verilog of the other design, with the same modules.
        module: Module to compare.
        inner: Modules inside that belong to the comparison. The results of all others may be anything.
        is_undefined: Whether the other design may read bits that it does not define, which may have any value.
    """
    instances = instances_of(texts)
    others = sorted(set(instances) - {module, *inner})
    inside = [other for other in others if any(other in instances.get(each, ()) for each in (module, *inner))]
    passes = []
    with tempfile.TemporaryDirectory() as work:
        free = "-anyseq" if is_undefined else "-zero"
        for name, undefined, own in (("gold", "-zero", texts), ("gate", free, changed)):
            folder = Path(work) / name
            folder.mkdir()
            for file, text in own.items():
                (folder / file).write_text(text, encoding="utf-8")
            passes += [f"read_verilog -sv {folder / file}" for file in own]
            passes += [f"blackbox {other}" for other in others]
            passes += [f"hierarchy -top {module}", *_PREPARING, "flatten", "opt_clean", f"cd {module}"]
            passes += [f"expose -evert t:{other}" for other in inside]
            passes += ["cd", f"setundef {undefined}", f"rename {module} {name}", f"design -stash {name}"]
        circuit, rest = Path(work) / "circuit.aig", Path(work) / "rest.aig"
        command = yosys_command([*passes, *_JOINING, f"write_aiger -zinit {circuit}"])
        script = f"read {circuit}; scorr; write_aiger {rest}; pdr"
        try:
            done = completed(limited(command, PROOF_SECONDS), env=python_environment(), cwd=work)
            if done.returncode != 0:
                return False
            done = completed(limited([str(abc_program()), "-c", script], PROOF_SECONDS), cwd=work)
        except OSError:
            return False
        return "Property proved" in done.stdout or (rest.is_file() and _is_zero(rest.read_bytes()))


def _is_zero(circuit: bytes) -> bool:
    """Return whether a circuit in the format AIGER has one output, which is constantly 0."""
    head, output = circuit.split(b"\n")[:2]
    return head.split()[3:5] == [b"0", b"1"] and output == b"0"
