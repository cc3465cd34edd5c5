"""Verilog of somebody else: nothing that runs on the host reaches the simulator, however it is hidden."""

from __future__ import annotations

import shutil
from pathlib import Path

import dynagate
import pytest
from dynagate import Axi, robots
from dynagate.sim.sources import SimulationError, read_sources

from tests.designs import functions_of, relisted

BLOCK = '(* ram_style = "block" *)'
HIDDEN = {
    "an attribute in an escaped name": (f"initial (* a \\{BLOCK}$system(x);", "\\(*"),
    "an attribute after an escaped name": (f"\\a {BLOCK}$system(x);", "$system"),
    "an attribute in a line comment": (f"// {BLOCK}\n$system(x);", "$system"),
    "a comment's end in an attribute": (f"/* {BLOCK} */ $system(x);", "$system"),
    "an attribute cut by a comment": ('(* ram_style = /* */ "block" *)', '"'),
    "another string": ('(* ram_style = "touch CANARY" *)', '"'),
    "a comment's begin in an escaped name": ("\\a/* $system(x); /* */", "\\a/*"),
    "a line comment in an escaped name": ("\\a// $system(x);", "\\a//"),
    "a string in an escaped name": ('\\a" $system(x);', '\\a"'),
    "a directive in an escaped name": ("\\a`b $system(x);", "\\a`b"),
    "a comment in a comment": ("/* // /* */ $system(x);", "/*"),
    "a comment without an end": ("/* $system(x);", "/*"),
    "a line comment in a comment": ("/* // */ $system(x);", "$system"),
    "a comment that ends twice": ("/* */ */ $system(x);", "$system"),
    "a comment's begin and end in one": ("/*/ $system(x); /*/", "/*"),
    "a line comment that goes on": ("// \\\n$system(x);", "$system"),
    "a system task in a number": ("1$system(x);", "$system"),
    "a system task behind a signed number": ("$signed(1)$system(x);", "$system"),
    "a name that begins like signed": ("$signed_system(x);", "$signed_system"),
    "signed and more": ("$signed$system(x);", "$signed"),
    "C++": ("$c(x);", "$c"),
    "C++ of a number": ("$c32(x);", "$c32"),
    "a file that is read": ("$readmemh(x, y);", "$readmemh"),
    "a file that is written": ("$fopen(x);", "$fopen"),
    "arguments of the command line": ("$value$plusargs(x);", "$value"),
    "a dollar": ("a$b", "$b"),
    "a dollar alone": ("$ system(x);", "$"),
    "an escaped system task": ("\\$system (x); $system(x);", "$system"),
    "a directive": ("`include x", "`"),
    "a directive in a comment's place": ("/**/`systemc_header", "`"),
    "a function in C": ('import "DPI-C" function void f();', '"'),
    "a null byte": ("// \0\n", "\0"),
    "a form feed": ("// \f $system(x);", "\f"),
    "a vertical tab": ("\\a\v$system(x);", "\v"),
    "a blank that is none": ("\\a\u00a0$system(x);", "\xa0"),
    "a line's end that is none": ("// \u2028 $system(x);", "\u2028"),
    "another alphabet": ("wire \u0430;", "\u0430"),
    "an escape sequence": ("// \x1b[2J", "\x1b"),
}


@pytest.mark.parametrize("case", list(HIDDEN))
def test_what_could_run_is_refused(case: str, tmp_path: Path) -> None:
    text, shown = HIDDEN[case]
    path = tmp_path / "datapath.v"
    path.write_text(f"module datapath;\n{text}\nendmodule\n", encoding="utf-8")
    with pytest.raises(SimulationError, match=r"datapath.v holds '.*'; expected Verilog that dynagate wrote") as error:
        read_sources([path])
    assert f"holds {shown!r};" in str(error.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "datapath.v").write_bytes(b"\xff\xfe$system")
    with pytest.raises(SimulationError, match=r"cannot read .*datapath.v \('utf-8' codec"):
        read_sources([tmp_path / "datapath.v"])


@pytest.mark.parametrize(
    "name", ["datapath_../../planted.v", "/etc/passwd", "datapath_x.v.sh", "planted.v", "datapath_x.v x"]
)
def test_a_list_that_names_what_no_design_has_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "datapath.v").write_text("module datapath;\nendmodule\n")
    (tmp_path / "files.f").write_text(f"datapath.v\n{name}\n")
    with pytest.raises(SimulationError, match=r"files.f names '.*', which no design has; build the design again"):
        read_sources([tmp_path / "datapath.v"])


@pytest.mark.parametrize("function", ["mass_matrix", "rollout", "mass_matrix,inverse_dynamics"])
def test_what_dynagate_writes_is_read(function: str, designs: Path) -> None:
    algorithm = {"dt": 1e-3} if function == "rollout" else {}
    built = dynagate.build(
        robots.load("two_joint_arm"), **functions_of(function), axi=Axi(64), folder=designs, **algorithm
    )
    files = list(built.folder.glob("*.v"))
    assert read_sources(files) == {path.name: path.read_text() for path in files}


def test_modules_are_not_looked_for_in_the_folder_that_the_user_is_in(
    designs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = dynagate.build(robots.load("two_joint_arm"), "mass_matrix", folder=designs)
    theirs = shutil.copytree(built.folder, tmp_path / "theirs")
    head, _, _ = built.module("datapath").read_text().rpartition("endmodule")
    text = f"{head}helper_of_theirs it();\nendmodule\n"
    (theirs / "datapath.v").write_text(text)
    relisted(theirs, built.design)
    (theirs / "helper_of_theirs.v").write_text(
        f'module helper_of_theirs; initial $system("touch {tmp_path}/CANARY"); endmodule\n'
    )
    monkeypatch.chdir(theirs)
    with pytest.raises(SimulationError, match="helper_of_theirs"):
        dynagate.open("./")
    assert not (tmp_path / "CANARY").exists()
