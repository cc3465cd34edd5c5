"""Names in generated Verilog: plain, no keyword of a hardware language, and each declared once."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import dynagate
import pytest
from dynagate import robots
from dynagate.base.ownership import OWNERSHIP, build_command, with_head
from dynagate.design.verilog_list import read_list
from dynagate.fixedpoint.assign import Policy
from dynagate.hw.export.identifiers import KEYWORDS, Names, instance_name, module_name, plain, with_stream_ports
from dynagate.hw.export.netlist import verilog_text
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.shell.core_shell import CoreShell
from dynagate.hw.rtl import uart
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.targets.ip import write_ip
from dynagate.sim.verilate import environment, tool

SEVERAL = ["inverse_dynamics", "mass_matrix"]
PIPELINES = {
    "pipeline": {"function": "forward_dynamics_gradient", "ii": 3},
    "pipeline of one cycle": {"function": "inverse_dynamics", "ii": 1},
    "several functions": {"function": SEVERAL, "ii": 4, "per_sample": True, "axi": Axi(64)},
    "ring": {"function": "rollout", "ii": 4, "dt": 0.02, "axi": Axi(128)},
    "axi of batches": {"function": "forward_dynamics", "ii": 4, "axi": Axi(64, "batch")},
    "axi of integers": {"function": "forward_dynamics", "ii": 8, "axi": Axi(32, words="fixed")},
    "axi with a choice": {"function": "forward_dynamics_gradient", "ii": 3, "axi": Axi(64, choice=True)},
}
"""Arguments of `dynagate.build` by kind of design."""


def pipeline(designs: Path, kind: str) -> str:
    built = dynagate.build(robots.load("two_joint_arm"), policy=Policy(word=18), folder=designs, **PIPELINES[kind])
    return "\n".join((built.folder / name).read_text() for name in read_list(built.folder))


def packaged(designs: Path, folder: Path) -> str:
    """The Verilog in a package of IP."""
    arm = robots.load("two_joint_arm")
    built = dynagate.build(arm, "forward_dynamics", ii=4, policy=Policy(word=18), axi=Axi(64), folder=designs)
    return "\n".join(path.read_text() for path in sorted(write_ip(built.folder, folder / "ip").rglob("*.v")))


def cores(units: int, **options: int) -> str:
    core = Core(units=units, word=24, **options)
    return verilog_text(CoreShell(core, Axi(32, words=core.stream_words), 1), "accelerator")


def serial() -> str:
    return verilog_text(uart.Serial(None, 30, 64), uart.TOP)


KINDS: dict[str, tuple[str, Callable[[Path, Path], str]]] = {
    **{kind: ("", lambda designs, folder, kind=kind: pipeline(designs, kind)) for kind in PIPELINES},  # type: ignore[misc]
    "ip": ("", packaged),
    "core of two units": ("accelerator", lambda designs, folder: cores(2)),
    "core of four units": ("accelerator", lambda designs, folder: cores(4, iteration_bits=6, saturates=1)),
    "uart": (uart.TOP, lambda designs, folder: serial() + cores(2)),
}
"""Top module, if it is in one file, and the function that writes the Verilog, by kind of design."""

DECLARED = re.compile(
    r"^ *(?:\(\*.*?\*\) *)?(?:(?:input|output) )?(?:wire|reg|integer) (?:\[\d+:0\] )?(\\\S+|[\w$]+)"
    r"|^  (?!wire |reg |assign |always |initial |end |input |output )(?:\\\S+ |[\w$]+) (?:#\(.*\) )?(\\\S+ |[\w$]+) \($"
    r"|^ *initial begin : (\S+)$",
    flags=re.M,
)
"""Pattern for a declaration in generated Verilog: of a port or a signal, an instance, or a block."""


def problems(text: str) -> Iterator[str]:
    """Yield what is wrong with the names in Verilog."""
    yield from (f"escaped: {name}" for name in re.findall(r"\\\S+", text))
    modules = re.findall(r"^module (\S+) \(\n(.*?)^endmodule", text, flags=re.M | re.S)
    yield from (
        f"declared twice: module {name}" for name, count in Counter(m.lower() for m, _ in modules).items() if count > 1
    )
    for module, body in modules:
        names = ["".join(found) for found in DECLARED.findall(body)]
        for name in (module, *names):
            if name.startswith("_"):
                yield f"leading underscore: {name} in {module}"
            if name.lower() in KEYWORDS:
                yield f"keyword: {name} in {module}"
            if not re.fullmatch(r"[A-Za-z]\w*", name):
                yield f"not plain: {name} in {module}"
        counts = Counter(name.lower() for name in names if name != "k")  # the counter of named blocks
        yield from (f"declared twice: {name} in {module}" for name, count in counts.items() if count > 1)


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_plain(kind: str, designs: Path, tmp_path: Path) -> None:
    top, written = KINDS[kind]
    text = written(designs, tmp_path)
    assert len(DECLARED.findall(text)) > 100
    assert list(problems(text)) == []
    assert not re.search(r"\b\w*turns?(?:_|\b)", re.sub(r"//.*", "", text))
    file = tmp_path / "design.v"
    file.write_text(text)
    command = [
        tool("verilator"),
        "--lint-only",
        "-Wno-fatal",
        *(["--top-module", top] if top else []),
        file,
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr


BROKEN = {
    "escaped": ("wire within_value;", "wire \\within ;"),
    "leading underscore": ("wire within_value;", "wire _within;"),
    "keyword": ("wire within_value;", "wire Signal;"),  # of VHDL, which ignores the case
    "declared twice": ("wire within_value;", "wire within_value;\n  wire Within_value;"),
    "not plain": ("wire within_value;", "wire a$b;"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_the_check_finds_other_names(what: str) -> None:
    text = "module top (\n  input wire clk\n);\n  wire within_value;\n  part u_part (\n    .clk(clk)\n  );\nendmodule\n"
    assert list(problems(text)) == []
    assert any(problem.startswith(what) for problem in problems(text.replace(*BROKEN[what])))
    assert any("part" in name for name in DECLARED.findall(text)[-1])


def test_identifiers() -> None:
    for name, identifier in {
        "\\table": "table_value",
        "i__payload": "i_payload",
        "$signature__addr": "signature_addr",
        "q_0": "q_0",
        "2nd": "n2nd",
        "$": "value",
        "Range": "Range_value",
    }.items():
        assert plain(name) == identifier
        assert plain(identifier) == identifier
    assert module_name("datapath.ltdl.link1") == "datapath__ltdl__link1"
    assert module_name("accelerator.input") == "accelerator__input"
    assert module_name("library") == "library_value"
    assert [instance_name(name) for name in ("input", "U$0", "link.1")] == ["u_input", "u_0", "u_link_1"]
    names = Names(["clk"])
    assert [names.unique(name, "v") for name in ("m", "M", "m", "CLK")] == ["m", "M_v2", "m_v3", "CLK_v2"]


def test_ports_of_streams_keep_apart_from_wires_with_their_names() -> None:
    text = """module \\top
  wire width 8 input 0 \\i__payload
  wire width 8 \\i_data
  cell \\part \\u_part
    connect \\i_data \\i__payload [0]
  end
  connect \\i_data \\i__payload
end
"""
    expected = text.replace("\\i_data", "\\i_data$wire").replace("\\i__payload", "\\i_data")
    expected = expected.replace("    connect \\i_data$wire", "    connect \\i_data")
    assert with_stream_ports(text) == expected
    assert with_stream_ports(expected) == expected


HEADED = (
    "datapath.v",
    "accelerator.v",
    "ooc.tcl",
    "ooc.xdc",
    "ooc.sdc",
    "tests/bench.v",
    "tests/rules.sv",
    "tests/verify.sh",
)
OWNED = "SPDX-License-Identifier: 0BSD"


def test_generated_files_name_their_licence_and_command(designs: Path, tmp_path: Path) -> None:
    arm = robots.load("two_joint_arm")
    built = dynagate.build(arm, "forward_dynamics", ii=4, policy=Policy(word=18), axi=Axi(64), folder=designs)
    written = "Written by: dynagate build two_joint_arm --function forward_dynamics --ii 4"
    for name in HEADED:
        head = "".join((built.folder / name).read_text().splitlines(keepends=True)[:5])
        assert OWNED in head, name
        assert OWNERSHIP[1] in head, name
        assert written in head, name
        assert str(designs) not in head
    for path in write_ip(built.folder, tmp_path / "ip").glob("*.*"):
        assert OWNED in path.read_text()[:400], path
        assert "Written by: dynagate package" in path.read_text(), path
    assert with_head("run.sh", "#!/bin/sh\ntrue\n") == f"#!/bin/sh\n# {OWNED}\n# {OWNERSHIP[1]}\ntrue\n"
    assert build_command("arm; reboot", "step") == ""
