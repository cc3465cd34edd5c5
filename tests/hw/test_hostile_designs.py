"""Designs, Verilog and boards of other people: files that do not fit, or that hide code, are refused by name."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Axi, Region, robots
from dynagate.design import files
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord
from dynagate.design.files import DesignError, load
from dynagate.design.program import PROGRAM, program_digest
from dynagate.host.links import DeviceError
from dynagate.host.words import StreamWords, pack_inputs, unpack_outputs
from dynagate.hw import boards
from dynagate.hw.boards import BoardError
from dynagate.hw.targets.project import ProjectError, write_project
from dynagate.sim.sources import SimulationError, read_sources

from tests.designs import functions_of, relisted, resealed
from tests.hostile.designs import KINDS, text_of
from tests.projects import designed

Content = dict[str, Any]


def change(*path: str | int, to: Any) -> Callable[[Content], None]:
    def changed(content: Content) -> None:
        for part in path[:-1]:
            content = content[part]  # type: ignore[index]
        content[path[-1]] = to  # type: ignore[index]

    return changed


def port(side: str, **fields: Any) -> Callable[[Content], None]:
    return lambda content: content["stream"][side]["ports"][0].update(fields)


def field(side: str, **fields: Any) -> Callable[[Content], None]:
    return lambda content: content["stream"][side]["fields"][1].update(fields)


INCONSISTENT: list[tuple[str, str, Callable[[Content], None], str]] = [
    ("negative field", "shell", port("input", fields=[-3, 1]), r"stream.input.ports, 'q': field -3; expected 0 to 5"),
    ("zero's field", "shell", port("input", fields=[-1, 1]), r"stream.input.ports, 'q': field -1; expected 0 to 5"),
    ("field beyond", "shell", port("output", fields=[0, 10**6]), r"'tau': field 1000000; expected -1 to 1"),
    ("field far beyond", "shell", port("output", fields=[0, 10**10]), r"'tau': field 10000000000; expected -1 to 1"),
    ("fewer entries", "shell", port("input", shape=[1]), r"'q': 2 fields for shape \(1,\)"),
    ("more entries", "shell", port("output", fields=[0, 1] * 5000), r"'tau': 10000 fields for shape \(2,\)"),
    ("no entries", "shell", port("output", fields=[], shape=[0]), r"'tau': 0 fields for shape \(0,\)"),
    ("negative shape", "shell", port("output", shape=[-1, -2]), r"'tau': 2 fields for shape \(-1, -2\)"),
    ("huge shape", "shell", port("output", shape=[2**40, 2**40]), r"'tau': 2 fields for shape"),
    ("the same name", "shell", port("input", name="qd"), "stream.input.ports hold one of them twice"),
    ("a field unused", "shell", port("input", fields=[0, 0]), "stream.input.ports have 5 fields; expected each of 6"),
    ("unit vector beyond", "shell", port("input", unit_vectors=[[0, 4]]), "unit vector from 0 to 4 of 2 entries"),
    ("unit vector back", "shell", port("input", unit_vectors=[[2, 0]]), "unit vector from 2 to 0 of 2 entries"),
    ("wide field", "shell", field("input", width=10**9), r"fields\[1\] has width 1000000000; expected 2 to 32"),
    ("no width", "shell", field("output", width=0), r"fields\[1\] has width 0; expected 2 to 32"),
    ("far point", "shell", field("output", frac=-(10**6)), r"fields\[1\] has frac -1000000; expected -1000 to 1000"),
    ("other place", "shell", field("input", lsb=4096), r"fields\[1\] has lsb 4096; expected 24"),
    ("negative place", "shell", field("output", lsb=-32), r"fields\[1\] has lsb -32; expected 24"),
    (
        "no interval",
        "shell",
        field("input", low=2.0, high=1.0),
        r"fields\[1\] is from 2.0 to 1.0; expected an interval",
    ),
    ("fewer bits", "shell", change("stream", "output", "bits", to=1), "stream.output has 1 bits, overflow 48; its"),
    ("more bits", "shell", change("stream", "input", "bits", to=2**40), "stream.input has 1099511627776 bits"),
    (
        "overflow beyond",
        "shell",
        change("stream", "output", "overflow", to=64),
        "stream.output has 50 bits, overflow 64",
    ),
    ("scopes beyond", "shell", change("stream", "output", "scopes", to=["a"] * 999), "stream.output has 50 bits"),
    ("no fields", "shell", change("stream", "output", "fields", to=[]), "stream.output is empty; expected a field"),
    ("no ports", "shell", change("stream", "input", "ports", to=[]), "stream.input is empty; expected a field"),
    ("no interval of cycles", "shell", change("ii", to=0), "ii is 0; expected 1 to 65536"),
    ("negative latency", "shell", change("latency", to=-1), "latency is -1; expected 1 to"),
    ("no name", "shell", change("robot", to={}), "robot.name is None; expected a text"),
    ("a wide node", "shell", change("nodes", 0, "width", to=2**40), r"nodes\[0\] has width 1099511627776"),
    ("words beyond", "shell", change("axi", "words", "input", to=10**6), "axi.words.input is 1000000; expected 6"),
    ("negative words", "shell", change("axi", "words", "output", to=-1), "axi.words.output is -1; expected 2"),
    ("beats beyond", "shell", change("axi", "beats", "output", to=2**40), "axi.beats.output is 1099511627776"),
    ("no beats", "shell", change("axi", "beats", "input", to=0), "axi.beats.input is 0; expected 7"),
    ("no lanes", "shell", change("axi", "width", to=0), "axi.width is 0; expected one of 32, 64"),
    ("narrow lanes", "shell", change("axi", "width", to=31), "axi.width is 31; expected one of 32, 64"),
    ("other words", "shell", change("axi", "word", to="int8"), "axi.word is 'int8'; expected one of float32"),
    ("other ends", "shell", change("axi", "last", to="never"), "axi.last is 'never'; expected one of sample, batch"),
    ("float16", "shell", change("axi", "word", to="float16"), "axi.word is 'float16'; expected one of float32, fixed"),
    ("unknown parameters", "shell", change("axi", "parameters", to=["mass"]), "axi.parameters are .*; expected inputs"),
    ("streamed parameters", "shell", change("axi", "parameters", to=["q"]), "have no 'q_0'; expected it for axi.param"),
    ("negative cycles", "shell", change("axi", "conversion", "input", to=-1), "axi.conversion is .*; expected cycles"),
    ("another address", "shell", change("axi", "registers", "ii", "address", to=3), "not each multiple of 4 below 80"),
    ("the same address", "shell", change("axi", "registers", "ii", "address", to=0), "not each multiple of 4 below 80"),
    (
        "another name",
        "shell",
        change("axi", "registers", "ii", "name", to="hash_low"),
        "axi.registers, 'ii': 'hash_low'",
    ),
    ("another access", "shell", change("axi", "registers", "ii", "access", to="rw"), "axi.registers, 'ii': 'ii' at 16"),
    ("too many bits", "shell", change("axi", "registers", "ii", "bits", to=list("abc" * 11)), "'ii': 33 bits"),
    ("no register", "links", lambda c: c["axi"]["registers"].pop("forearm_3"), "have no 'forearm_3'; expected it"),
    (
        "a function's fields",
        "functions",
        change("functions", 0, "fields", to=[99]),
        r"fields \(99,\); expected some of",
    ),
    ("no fields of a function", "functions", change("functions", 0, "fields", to=[]), r"fields \(\); expected some of"),
    ("fields twice", "functions", change("functions", 0, "fields", to=[0, 0]), "fields hold one of them twice"),
    ("an input that is none", "functions", change("functions", 0, "inputs", to=[["q", "p"]]), "no input 'p'"),
    ("an input twice", "functions", change("functions", 0, "inputs", to=[["q", "q"], ["q", "qd"]]), "inputs  hold one"),
    ("limits", "functions", change("functions", 0, "limits", to={"q": [[0, 1]] * 9}), "9 limits of 'q'"),
    ("an output that is none", "functions", change("functions", 0, "outputs", 0, "name", to="x"), "no output 'x' of"),
    (
        "an output's field",
        "functions",
        change("functions", 0, "outputs", 0, "fields", 0, to=77),
        "field 77; expected -1",
    ),
    ("the same function", "functions", change("functions", 0, "name", to="mass_matrix"), "functions hold one of them"),
    ("the same code", "functions", lambda c: [f.update(code=0) for f in c["functions"]], "codes of functions hold one"),
    ("a later function", "functions", change("functions", 0, "latency", to=10**6), "latency 1000000; expected 1 to"),
    ("one function", "functions", lambda c: c["functions"].pop(), "stream.output has .* bits, overflow"),
    ("bits of a choice", "functions", change("axi", "registers", "outputs", "bits", to=["x"]), "'outputs': bits"),
    ("no choice", "functions", lambda c: c["axi"]["registers"].pop("outputs"), "'outputs': bits"),
    ("no capacity", "ring", change("ring", "capacity", to=0), "ring.capacity is 0; expected 1 to"),
    ("other carry", "ring", change("ring", "carry", to=[["q_next", "qd"]]), "ring.carry is .*; expected q_next to q"),
    ("no torque", "ring", lambda c: c["stream"]["input"]["ports"][2].update(name="f"), "expected vectors of a state"),
    ("a state as matrix", "ring", port("input", shape=[2, 1]), "expected vectors of a state"),
    ("words of a step", "ring", change("axi", "words", "input", to=4), "axi.words.input is 4; expected 5"),
]


def written(folder: Path, content: Content) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "design.json").write_text(json.dumps(resealed(content)))
    return folder


@pytest.mark.parametrize(
    ("kind", "damage", "message"), [case[1:] for case in INCONSISTENT], ids=[c[0] for c in INCONSISTENT]
)
def test_what_does_not_fit_is_refused(
    kind: str, damage: Callable[[Content], object], message: str, tmp_path: Path
) -> None:
    content = json.loads(text_of(kind))
    load(written(tmp_path, content))
    damage(content)
    with pytest.raises(DesignError, match=rf"design.json is not a design: .*{message}.*; build the design again"):
        dynagate.open(written(tmp_path, content))


TYPES = {"a float": 1.0, "true": True, "a text": "1", "nothing": None, "a list": [1], "an object": {}, "huge": 2**63}


@pytest.mark.parametrize("case", list(TYPES))
@pytest.mark.parametrize("path", [("ii",), ("stream", "input", "bits"), ("axi", "width"), ("nodes", 0, "frac")])
def test_only_whole_numbers_are_taken_for_such(path: tuple[str | int, ...], case: str, tmp_path: Path) -> None:
    content = json.loads(text_of("shell"))
    change(*path, to=TYPES[case])(content)
    with pytest.raises(DesignError, match=r"is not a design: .*@ design.*; build the design again"):
        load(written(tmp_path, content))


VALUES = [-1, 0, 1, 3, 10**6, 2**62, 10**30, 1.5, 1e308, np.nan, np.inf, "x", "", None, [], [1], {}, True]


@pytest.mark.parametrize("kind", list(KINDS))
def test_any_change_is_refused_or_stays_within_arrays(kind: str, tmp_path: Path) -> None:
    random, refused = np.random.default_rng(7), 0
    places = [
        place for place in _places(json.loads(text_of(kind))) if place[:1] not in (("nodes",), ("files",), ("hash",))
    ]
    for place in random.choice(len(places), 120):
        content = json.loads(text_of(kind))
        change(*places[place], to=VALUES[random.integers(len(VALUES))])(content)
        try:
            design = load(written(tmp_path, content))
        except DesignError:
            refused += 1
            continue
        for own in [design.of_function(each) for each in design.functions] or [design]:
            converted(own)
    assert refused > 60


def _places(content: Any) -> Iterator[tuple[str | int, ...]]:
    """The paths to all that a content holds."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        yield (key,)
        if isinstance(value, dict | list):
            yield from ((key, *rest) for rest in _places(value))


def converted(design: DesignRecord[DatapathBody]) -> None:
    """Three samples to a design's words and any words back."""
    random = np.random.default_rng(1)
    arrays = {}
    for each in design.input.ports:
        ranges = [design.input.fields[k].range for k in each.fields]
        row = [np.clip(0.0, low, high) for low, high in ranges]
        arrays[each.name] = np.array([row] * 3).reshape(3, *each.shape)
    assert pack_inputs(design, arrays, 3).shape == (3, design.input.words)
    unpack_outputs(design, random.integers(0, 2**32, (3, design.output.words), dtype=np.uint32))
    axi = design.axi
    if axi is None:
        return
    words = StreamWords(design, axi, native=False)
    samples = np.zeros((3, axi.beats.input, axi.lanes), np.uint32)
    first = words.fill(arrays, samples)
    results = random.integers(0, 2**30, (3, axi.beats.output, axi.lanes), dtype=np.uint32)
    with pytest.raises(DeviceError):
        words.take("device", results, first)


ELSEWHERE: list[tuple[str, Callable[[Content], None]]] = [
    ("no robot", change("robot", to={"name": "two_joint_arm"})),
    ("links are a number", change("robot", "links", to=3)),
    ("a joint is a text", change("robot", "links", 0, "joint", to="x")),
    ("a parent that comes later", change("robot", "links", 0, "parent", to=1)),
    ("a parent beyond", change("robot", "links", 1, "parent", to=99)),
    ("no mass", change("robot", "links", 0, "mass", to=None)),
    ("a mass of text", change("robot", "links", 0, "mass", to="x")),
    ("an unknown joint", change("robot", "links", 0, "joint", "type", to="screw")),
    ("no gravity", change("robot", "gravity", to=[])),
    ("an unknown function", change("function", to="statics")),
    ("a function of code", change("function", to="__import__('os')")),
    ("an unknown option", change("options", to={"x": 1})),
    ("an option of another type", change("options", to={"forces": ["x"]})),
    ("an unknown rounding", change("arithmetic", "rounding", to="up")),
    ("a node's name", change("nodes", 0, "name", to="x")),
    ("no nodes", change("nodes", to=[])),
    ("a constant that does not fit", change("nodes", 3, "constant", to=[2**60, 2, 0])),
]


@pytest.mark.parametrize("device", ["fixed", "numpy"])
@pytest.mark.parametrize("damage", [case[1] for case in ELSEWHERE], ids=[case[0] for case in ELSEWHERE])
def test_what_is_computed_from_a_false_design_is_refused(
    damage: Callable[[Content], object], device: str, tmp_path: Path
) -> None:
    content = json.loads(text_of("shell"))
    damage(content)
    with pytest.raises(DesignError, match=r"is not a design|is not known"):
        dynagate.open(written(tmp_path, content), device=device)


# programs


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of programs of the two-joint arm."""
    folder, arm = tmp_path_factory.mktemp("programs"), robots.load("two_joint_arm")
    asked: dict[str, tuple[str, dict[str, Any]]] = {
        "one": ("inverse_dynamics", {}),
        "functions": ("mass_matrix,inverse_dynamics", {}),
        "steps": ("rollout", {"dt": 0.01}),
    }
    region = Region.of(arm, velocity=5.0)
    return {
        name: dynagate.build(arm, **functions_of(function), units=2, region=region, folder=folder, **options).folder
        for name, (function, options) in asked.items()
    }


def edited(folder: Path, place: Path, damage: Callable[[Content], object]) -> Path:
    """A copy of a program whose design.json was changed, with a right hash."""
    shutil.copytree(folder, place)
    content = json.loads((place / files.FILE).read_text())
    damage(content)
    (place / files.FILE).write_text(json.dumps(resealed(content)))
    return place


def both(**fields: Any) -> Callable[[Content], None]:
    """A change of the first field of the results."""
    return lambda content: content["stream"]["output"]["fields"][0].update(fields)


PROGRAMS: list[tuple[str, str, Callable[[Content], object], str]] = [
    ("a field twice", "one", port("output", fields=[0, 0]), "stream.output.ports have 1 fields; expected each of 2"),
    ("an input twice", "one", port("input", fields=[0, 0]), "stream.input.ports have 5 fields; expected each of 6"),
    (
        "two in a word",
        "one",
        lambda c: [f.update(lsb=0) for f in c["stream"]["output"]["fields"]],
        "stream.output, words of fields hold one of them twice",
    ),
    ("the same name", "one", port("input", name="qd"), "stream.input.ports hold one of them twice"),
    ("wide", "one", both(width=99), r"stream.output.fields\[0\] has width 99; expected 2 to 32"),
    ("a range", "one", field("input", low=2.0, high=1.0), r"fields\[1\] is from 2.0 to 1.0; expected an interval"),
    ("a finer point", "one", field("input", frac=23), r"fields\[1\] is from -.*, of which its format holds -1 to 1"),
    ("no cycles", "one", change("period", to=0), "program has period 0; expected 1 to"),
    ("another code", "functions", change("functions", 1, "code", to=77), "no field of its code 77 in the head"),
    ("the same code", "functions", lambda c: [f.update(code=0) for f in c["functions"]], "codes of functions hold one"),
    ("the same function", "functions", change("functions", 1, "name", to="inverse_dynamics"), "functions hold one of"),
    (
        "another stream",
        "functions",
        lambda c: c["stream"].update(c["functions"][1]["stream"]),
        "stream is not that of the first function",
    ),
    ("steps over each other", "steps", change("loop", "inputs", to=1), "loop has inputs beyond its stream, or two in"),
    ("results over each other", "steps", change("loop", "outputs", 0, to=0), "loop has results beyond its stream, or"),
]


@pytest.mark.parametrize(
    ("kind", "damage", "message"), [case[1:] for case in PROGRAMS], ids=[case[0] for case in PROGRAMS]
)
def test_a_program_that_does_not_fit_is_refused(
    kind: str, damage: Callable[[Content], object], message: str, programs: dict[str, Path], tmp_path: Path
) -> None:
    place = edited(programs[kind], tmp_path / "edited", damage)
    for device in ("sim", "fixed"):
        with pytest.raises(DesignError, match=rf"design.json is not a design: .*{message}"):
            dynagate.open(place, device=device)


@pytest.mark.parametrize("side", ["input", "output"])
def test_other_binary_points_of_a_program_are_refused(side: str, programs: dict[str, Path], tmp_path: Path) -> None:
    """They change what words mean, and fit each other."""

    def moved(content: Content) -> None:
        content["stream"][side]["fields"][0]["frac"] -= 1

    place = edited(programs["one"], tmp_path / "edited", moved)
    for device in ("sim", "fixed", "numpy"):
        with pytest.raises(DesignError, match=r"with the streams that design\.json describes"):
            dynagate.open(place, device=device)
    content = json.loads((place / files.FILE).read_text())
    design = files.load_program(place)
    content["program"] = program_digest((place / PROGRAM).read_bytes(), design)
    (place / files.FILE).write_text(json.dumps(resealed(content)))
    with pytest.raises(DesignError, match=r"is not the one of its robot and region; build the design again"):
        dynagate.open(place, device="fixed")


@pytest.mark.parametrize("name", ["accelerator.v", "formats.json", "files.f", "program.bin", "tests/bench.v"])
@pytest.mark.parametrize("device", ["sim", "fixed"])
def test_a_flipped_bit_in_a_program_s_folder_is_refused(
    name: str, device: str, programs: dict[str, Path], tmp_path: Path
) -> None:
    place = shutil.copytree(programs["one"], tmp_path / "edited")
    content = bytearray((place / name).read_bytes())
    content[len(content) // 2] ^= 1
    (place / name).write_bytes(content)
    with pytest.raises(DesignError, match=rf"{Path(name).name} was changed or damaged"):
        dynagate.open(place, device=device)


@pytest.mark.parametrize("field", ["format", "program"])
def test_a_field_that_is_listed_twice_is_refused(field: str, programs: dict[str, Path], tmp_path: Path) -> None:
    place = shutil.copytree(programs["one"], tmp_path / "edited")
    text = (place / files.FILE).read_text()
    assert f'"{field}": ' in text
    (place / files.FILE).write_text(text.replace(f'"{field}": ', f'"{field}": 1, "{field}": ', 1))
    for device in ("sim", "fixed"):
        with pytest.raises(DesignError, match=rf"is not a design file: field '{field}' is listed twice"):
            dynagate.open(place, device=device)


def test_an_empty_program_is_refused(programs: dict[str, Path], tmp_path: Path) -> None:
    for damage in (lambda content: None, lambda content: content.update(program=digest_of_nothing(content))):
        place = edited(programs["one"], tmp_path / damage.__name__ / str(id(damage)), damage)
        (place / PROGRAM).write_bytes(b"")
        for device in ("sim", "fixed"):
            with pytest.raises(DesignError, match=r"program\.bin was changed or damaged"):
                dynagate.open(place, device=device)


def digest_of_nothing(content: Content) -> str:
    return program_digest(b"", DesignRecord.from_json(content))


def test_a_host_with_a_board_needs_no_verilog(programs: dict[str, Path], tmp_path: Path) -> None:
    place = shutil.copytree(programs["one"], tmp_path / "few", ignore=lambda *_: {"tests", "accelerator.v", "files.f"})
    assert files.load_program(place).title == "two_joint_arm inverse_dynamics"


def test_a_core_that_is_none_is_refused(programs: dict[str, Path], tmp_path: Path) -> None:
    place = edited(programs["one"], tmp_path / "edited", lambda content: content["core"].update(speed=3))
    with pytest.raises(DesignError, match="is a program for no core"):
        dynagate.open(place)


def test_long_names_are_known_in_another_process(tmp_path: Path) -> None:
    """The name of three functions at one state is longer than a folder's name may be; design.json has it in full."""
    one, other = "a" * 70, "b" * 70
    arm = robots.load("two_joint_arm").with_frame(one, on="forearm").with_frame(other, on="forearm")
    name = [f"frame_pose_{one}", f"frame_pose_{other}", "mass_matrix"]
    folders = [dynagate.build(arm, name, folder=tmp_path, **each).folder for each in ({"ii": 16}, {"units": 2})]
    code = (
        "import dynagate, sys\n"
        "for folder in sys.argv[1:]:\n"
        "    for device in ('fixed', 'numpy'):\n"
        "        print(dynagate.open(folder, device=device)(q=[0.3, 0.2]).m.shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, folders)], capture_output=True, text=True, check=False)
    assert done.stdout == "(2, 2)\n" * 4, done.stderr


BLOCK = '(* ram_style = "block" *)'
HIDDEN = {
    "an attribute in an escaped name": (f"initial (* a \\{BLOCK}$system(x);", "\\(*"),
    "an attribute after an escaped name": (f"\\a {BLOCK}$system(x);", "\\a"),
    "an escaped name": ("wire \\table ;", "\\table"),
    "an attribute in a line comment": (f"// {BLOCK}\n$system(x);", "$system"),
    "a comment's end in an attribute": (f"/* {BLOCK} */ $system(x);", "$system"),
    "an attribute cut by a comment": ('(* ram_style = /* */ "block" *)', '"'),
    "a string of another attribute": ('(* keep = "touch CANARY" *)', '"'),
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
    "an escaped system task": ("\\$system (x); $system(x);", "\\$system"),
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


FOLDER = Path(boards.__file__).parent

CODE = {
    "command": "x[exec touch CANARY]",
    "command first": "[exec touch CANARY]",
    "variable": "x$::env(HOME)",
    "next command": "x; exec touch CANARY",
    "next line": "x\\nexec touch CANARY",
    "end of braces": "x} ; exec touch CANARY; set y {",
    "backslash": "x\\\\",
    "quote": 'x\\"',
    "shell": "x`touch CANARY`",
    "option": "-run",
    "option with a value": "85k --run=CANARY",
    "other letters": "xcvü9p",
    "nothing": "",
}
FIELDS = {
    "vcu118": ('title = "AMD VCU118"', 'part = "xcvu9p-flga2104-2L-e"', 'board_part = "xilinx.com:vcu118:part0:2.4"'),
    "kv260": ('connections = "som240_1_connector xilinx.com:kv260_carrier:som240_1_connector:1.3"',),
    "u250": ('memory_bank = "DDR[0]"', 'platform = "xilinx_u250_gen3x16_xdma_4_1_202210_1"'),
    "ulx3s": ('device = "85k"', 'package = "CABGA381"', 'clk_25mhz = "G2"'),
}
TEXTS = [(board, line, case) for board, lines in FIELDS.items() for line in lines for case in CODE]


@pytest.mark.parametrize(("board", "line", "case"), TEXTS)
def test_code_in_a_text_is_refused(board: str, line: str, case: str, tmp_path: Path) -> None:
    name = line.partition(" ")[0]
    with pytest.raises(BoardError, match=rf"theirs.toml: [a-z.]*{name} .*; expected letters, digits"):
        boards.read_board(_changed(tmp_path, board, line, f'{name} = "{CODE[case]}"'))


NUMBERS = [
    ("clock_mhz = 250", "clock_mhz = nan", "expected float @ board.clock_mhz"),
    ("clock_mhz = 250", "clock_mhz = inf", "expected float @ board"),
    ("gigatransfers = 8.0", "gigatransfers = inf", "expected float @ board"),
    ("lanes = 16", "lanes = 1e300", "expected int"),
    ("dsp = 6840", f"dsp = 1{'0' * 400}", "expected int @ board.resources.dsp"),
    ("share = 0.27", "share = nan", "expected float @ board.share"),
    ("share = 0.27", f"share = {'[' * 3000}{']' * 3000}", "is not a board's file: .*recursion.*; expected TOML"),
    ("share = 0.27", "share = [[[[0.27]]]]", "expected float @ board.share"),
    ('title = "AMD VCU118"', 'title = "x"\ntitle = "y"', "expected TOML"),
    ('title = "AMD VCU118"', f'title = "{"x" * 10**6}\n', "expected TOML"),
]


@pytest.mark.parametrize(("old", "new", "message"), NUMBERS, ids=[new[:30] for _, new, _ in NUMBERS])
def test_what_is_no_number_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=message):
        boards.read_board(_changed(tmp_path, "vcu118", old, new))


@pytest.mark.parametrize("field", ["title", "part", "board_part"])
def test_the_writer_of_scripts_refuses_code_of_boards_that_no_file_describes(
    field: str, designs: Path, tmp_path: Path
) -> None:
    board = boards.load("pynq-z2")
    built, choice = designed(board, designs)
    hostile = replace(choice, board=replace(board, **{field: "xc7z[exec touch CANARY]"}))
    with pytest.raises(ProjectError, match=r"'xc7z\[exec touch CANARY\]' in \w+\.\w+: '\[' could be code"):
        write_project(built, hostile, tmp_path / "projects")
    assert not list((tmp_path / "projects").iterdir())


def _changed(folder: Path, board: str, old: str, new: str) -> Path:
    text = (FOLDER / f"{board}.toml").read_text()
    assert old in text
    path = folder / "theirs.toml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path
