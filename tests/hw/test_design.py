"""Design folders: damage is refused by name, `build` mends it, and the generator's source is told apart by content."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Region, build, robots, trace
from dynagate.design import files
from dynagate.design.design import DesignRecord
from dynagate.design.files import bench_names, load, with_files
from dynagate.design.files import load as load_design
from dynagate.design.source import CORE, source_digest, source_files
from dynagate.design.verilog_list import read_list
from dynagate.fixedpoint.assign import assign
from dynagate.fixedpoint.format import Arithmetic
from dynagate.fixedpoint.models.files import write_formats
from dynagate.host import DesignError, DeviceError
from dynagate.hw.build import BuildError
from dynagate.hw.designs import Design
from dynagate.hw.rebuild import rebuild
from dynagate.hw.rtl.axi import Axi
from dynagate.sim.verilate import SimulationError

from tests.designs import plant, relisted, resealed
from tests.modules import PACKAGE, imports, modules

FUNCTION = "mass_matrix"


def arm(folder: Path) -> Design:
    return build(robots.load("two_joint_arm"), FUNCTION, ii=2, axi=Axi(64), folder=folder)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Design:
    return arm(tmp_path_factory.mktemp("designs"))


@pytest.fixture
def folder(sound: Design, tmp_path: Path) -> Path:
    """A copy of the design that a test may damage, where `arm(tmp_path)` looks for it."""
    return shutil.copytree(sound.folder, tmp_path / sound.folder.name)


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Damage to the content of design.json."""

    def damage(folder: Path) -> None:
        content = json.loads((folder / "design.json").read_text())
        change(content)
        (folder / "design.json").write_text(json.dumps(content))

    return damage


def exchange_fields(content: dict[str, Any]) -> None:
    fields = content["stream"]["output"]["ports"][0]["fields"]
    fields[0], fields[-1] = fields[-1], fields[0]


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def edit(file: str, old: str, new: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        plant(folder / file, re.escape(old), new, 1)

    return damage


CHANGED = r"design.json was changed or damaged: its content has hash \w{16}, not \w{16}; build the design again"
DAMAGE = {
    "binary point": (changed(lambda c: c["stream"]["output"]["fields"][0].update(frac=3)), CHANGED),
    "exchanged fields": (changed(exchange_fields), CHANGED),
    "no scopes": (changed(lambda c: c["stream"]["output"].update(scopes=[])), CHANGED),
    "other robot": (changed(lambda c: c["robot"].update(name="iiwa14")), CHANGED),
    "more than there is": (changed(lambda c: c.update(more=1)), CHANGED),
    "no hash": (changed(lambda c: c.pop("hash")), "its content has hash .*, not None; build the design again"),
    "format 99": (
        changed(lambda c: c.update(format=99)),
        "design.json has format 99; expected 12: build the design again",
    ),
    "no files": (changed(lambda c: c.pop("files")), "lacks the checksums of accelerator.v, datapath.v, files.f; build"),
    "binary": (lambda f: (f / "design.json").write_bytes(b"\xff\xfe\0"), "is not a design file: 'utf-8' codec"),
    "cut short": (lambda f: (f / "design.json").write_text('{"format"'), "is not a design file: Expecting"),
    "a list": (lambda f: (f / "design.json").write_text("[1]"), r"is not a design file: it holds \[1\]; expected"),
    "deep": (lambda f: (f / "design.json").write_text("[" * 10**5), "is not a design file: maximum recursion"),
    "a folder": (lambda f: as_folder(f / "design.json"), r"cannot read .*design.json \(Is a directory\)"),
    "no design.json": (lambda f: (f / "design.json").unlink(), "no design at .*design.json; expected the folder that"),
    "constant": (
        edit("datapath.v", "27'h28be60e", "27'h28be60f"),
        r"datapath\w*.v was changed or damaged: its sha256 is \w{16}, expected",
    ),
    "shell": (edit("accelerator.v", "32'", "31'"), r"accelerator\w*.v was changed or damaged: its sha256 is"),
    "empty": (lambda f: (f / "datapath.v").write_text(""), "datapath.v was changed or damaged"),
}


@pytest.mark.parametrize("case", list(DAMAGE))
def test_a_damaged_design_is_refused_by_name(case: str, folder: Path) -> None:
    damage, message = DAMAGE[case]
    damage(folder)
    with pytest.raises(DesignError, match=message) as error:
        dynagate.open(folder)
    assert str(folder) in str(error.value)


def test_a_design_without_its_verilog_is_refused_where_it_is_needed(folder: Path) -> None:
    (folder / "datapath.v").unlink()
    assert load_design(folder).function == FUNCTION  # all that a host with a device needs
    with pytest.raises(
        SimulationError, match=r"cannot read .*datapath.v .*; expected Verilog that dynagate wrote: build"
    ):
        dynagate.open(folder)


def test_widths_that_the_verilog_does_not_have_are_not_streamed(sound: Design, folder: Path) -> None:
    """A colleague's folder may be consistent and false: results must not be written past the end of their array."""
    content = json.loads((folder / "design.json").read_text())
    sink = content["stream"]["output"]
    for k, field in enumerate(sink["fields"]):
        field.update(lsb=8 * k, width=8)
    payload = 8 * len(sink["fields"])
    sink.update(bits=payload + len(sink["scopes"]), overflow=payload)
    false = DesignRecord.from_json(resealed(content))
    texts = {path.name: path.read_text().replace(content["hash"], false.hash) for path in folder.glob("*.v")}
    texts = {name: text.replace(content["hash"][:16], false.hash[:16]) for name, text in texts.items()}
    for name, text in texts.items():
        (folder / name).write_text(text)
    relisted(folder, false)
    inputs = sound.region.sample(FUNCTION, 2000, seed=1)
    message = r"results are \(2000, 1, 1\); libdatapath\.so expects \(samples, beats, 3\): build the design again"
    with dynagate.open(folder) as accelerator, pytest.raises(DeviceError, match=message):
        accelerator(**inputs)


def test_no_flipped_bit_passes(folder: Path) -> None:
    whole, expected = (folder / "design.json").read_bytes(), load(folder)
    random = np.random.default_rng(5)
    refused = 0
    for place, bit in zip(random.integers(0, len(whole), 400), random.integers(0, 8, 400), strict=True):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        (folder / "design.json").write_bytes(damaged)
        try:
            assert load(folder) == expected  # the flip made other white space, or 0.10 of 0.1
        except DesignError:
            refused += 1
    assert refused > 300


@pytest.mark.parametrize(
    "case", ["binary point", "format 99", "binary", "no design.json", "constant", "shell", "no Verilog", "no datasheet"]
)
def test_build_mends_a_damaged_design(case: str, sound: Design, folder: Path, tmp_path: Path) -> None:
    more = {f"no {name}": lambda f, file=file: (f / file).unlink() for name, file in MISSING.items()}
    damage = more[case] if case in more else DAMAGE[case][0]
    damage(folder)
    (folder / "notes.txt").write_text("the user's own")
    assert arm(tmp_path).folder == folder
    for path in (path for path in sound.folder.rglob("*") if path.is_file()):
        assert (folder / path.relative_to(sound.folder)).read_bytes() == path.read_bytes()
    assert (folder / "notes.txt").read_text() == "the user's own"
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


MISSING = {"Verilog": "datapath.v", "datasheet": "datasheet.md", "script": "ooc.tcl"}


def test_a_sound_design_is_kept(sound: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    from dynagate.hw.export import netlist

    monkeypatch.setattr(netlist, "verilog_files", None)
    assert arm(sound.folder.parent).folder == sound.folder


def test_the_hash_is_what_the_hardware_shows_and_leaves_the_files_out(sound: Design) -> None:
    content = load(sound.folder)
    assert set(content.files) == {"files.f", "formats.json", *read_list(sound.folder), *bench_names(content)}
    assert {"datapath.v", "datapath_units.v", "accelerator.v", "accelerator_input.v"} <= set(content.files)
    assert content == replace(sound.design, files=content.files)
    assert sound.design.hash[:16] in sound.module("datapath").read_text().split("\n", 1)[1]
    assert with_files(sound.design, {"datapath.v": "x"}).hash == content.hash


def test_designs_of_other_constants_or_arithmetic_are_others(tmp_path: Path) -> None:
    robot = robots.load("two_joint_arm")
    graph = trace(robot, FUNCTION)
    formatted = assign(graph, Region.of(robot))
    node, (value, fmt) = next(iter(formatted.constants.items()))
    hashes = set()
    for other in (
        formatted,
        replace(formatted, constants={**formatted.constants, node: (value - 1, fmt)}),
        replace(formatted, arithmetic=Arithmetic(rounding="floor")),
    ):
        write_formats(other, tmp_path / "formats.json")
        hashes.add(build(robot, FUNCTION, ii=2, formats=tmp_path / "formats.json", folder=tmp_path).design.hash)
    assert len(hashes) == 3


@pytest.mark.parametrize("place", ["file", "file/designs"])
def test_a_folder_that_cannot_be_is_named_before_any_work(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    steps: list[str] = []
    with pytest.raises(BuildError, match=r"cannot keep designs in .*: .*/file is not a folder; expected a folder that"):
        build(robots.load("two_joint_arm"), FUNCTION, folder=tmp_path / place, progress=steps.append)
    assert steps == []
    assert (tmp_path / "file").read_text() == "mine"


def test_a_file_in_the_place_of_a_design_is_named(sound: Design, tmp_path: Path) -> None:
    (tmp_path / sound.folder.name).write_text("mine")
    with pytest.raises(BuildError, match=rf"cannot keep {sound.folder.name} in {tmp_path} \(Not a directory\)"):
        arm(tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def layout(target: Path) -> None:
    """The package as a wheel installs it."""
    shutil.copytree(PACKAGE, target / "dynagate", ignore=shutil.ignore_patterns("__pycache__"))


def test_the_source_digest_is_that_of_the_content_wherever_it_lies(tmp_path: Path) -> None:
    site = tmp_path / "native" / "host"
    layout(site)
    program = "import dynagate; from dynagate.design.source import *; print(dynagate.__file__, source_digest())"

    def digest_there() -> str:
        done = subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=True
        )
        file, digest = done.stdout.split()
        assert file == str(site / "dynagate" / "__init__.py")
        return digest

    assert digest_there() == source_digest()
    for file, same in (
        ("cli/studies.py", True),
        ("hw/datasheet.py", True),
        ("host/links.py", True),
        ("hw/units/add.py", False),
        ("dynamics/tree.py", False),
    ):
        path = site / "dynagate" / file
        text = path.read_text()
        path.write_text(text + "\n# a remark\n")
        assert (digest_there() == source_digest()) == same, file
        path.write_text(text)


def reached(starts: Iterable[str], counted: set[str]) -> set[str]:
    """The modules that some import, directly or through modules that count."""
    known, seen, ahead = modules(), set[str](), list(starts)
    while ahead:
        module = ahead.pop()
        if module in known and module not in seen and module != "dynagate":
            seen.add(module)
            ahead += imports(known[module], set(known)) if module in counted else []
    return seen


def counted_modules(places: tuple[str, ...] = ("",)) -> set[str]:
    """The modules whose source is in a digest."""
    names = {".".join(["dynagate", *Path(name).with_suffix("").parts]) for name, _ in source_files(places)}
    return {name.removesuffix(".__init__") for name in names}


def test_every_module_that_makes_a_core_counts_or_is_known_not_to_decide() -> None:
    """A core that changed has another hash."""
    counted = counted_modules(CORE)
    seen = reached(["dynagate.hw.processor.shell.core_shell", "dynagate.hw.export.netlist"], counted)
    assert seen - counted == {
        "dynagate.base.arguments",  # what is refused, and words of errors
        "dynagate.base.errors",
        "dynagate.base.ownership",  # words in the heads of files
        "dynagate.base.explained",
        "dynagate.base.upper_limits",
        "dynagate.design.design",  # what a register is
        "dynagate.design.source",
        "dynagate.design.verilog_list",  # names of files
        "dynagate.design.words",  # names of stream formats
        "dynagate.fixedpoint.formatted",  # graphs, which a core does not depend on
        "dynagate.fixedpoint.fuse",  # four numbers, which the hash of a core holds by value
        "dynagate.graph.ops",  # goals for the errors of graphs
        "dynagate.graph.region",
        "dynagate.hw.rtl.axi",  # the widths of streams, which a shell shows in a register
    }
    assert {"dynagate.hw.processor.rtl.iteration_memory", "dynagate.hw.processor.shell.dispatch"} <= seen


def test_every_module_that_building_reads_counts_or_is_known_not_to_decide() -> None:
    counted = counted_modules()
    seen = reached(["dynagate.hw.build"], counted)
    assert seen - counted == {
        "dynagate.fixedpoint.models.files",  # what it reads is in design.json
        "dynagate.fixedpoint.wordlength.sampled_errors",  # numbers in a datasheet and in warnings
        "dynagate.integrators.feedback",  # options of rollouts, which the request holds
        "dynagate.integrators.motion_options",
        "dynagate.integrators.drive",  # actuators, which no chip has
        "dynagate.hw.format_warnings",
        "dynagate.base.changed_options",  # which options differ from their defaults
        "dynagate.base.foreign_names",  # words of errors
        "dynagate.base.explained",  # words of errors
        "dynagate.base.object_text",  # texts of forces and integrators, which design.json has
        "dynagate.base.option",  # options of commands
        "dynagate.base.notebook",  # tables in a notebook
        "dynagate.robot.file_formats",  # which parser reads a file
        "dynagate.base.warned",
        "dynagate.base.arguments",
        "dynagate.base.arrays",  # types
        "dynagate.base.nearest",
        "dynagate.base.progress",
        "dynagate.design.datapath",  # how a datapath is kept
        "dynagate.design.program",  # how a program is kept
        "dynagate.integrators.adjoint",  # gradients of rollouts, which no chip has
        "dynagate.integrators.step_vjp",
        "dynagate.robot.shapes",  # read from the file again
        "dynagate.robot.limits",
        "dynagate.hw.vectors",  # verifies what was built
        "dynagate.hw.vectors.calls",
        "dynagate.hw.vectors.programs",
        "dynagate.hw.vectors.subject",
        "dynagate.hw.vectors.unreached",  # lines of a datasheet
        "dynagate.hw.vectors.vectors",
        "dynagate.hw.processor.streams",  # around what was built
        "dynagate.hw.boards",  # the device and the clock of ooc.tcl
        "dynagate.hw.boards.scripts",
        "dynagate.hw.plan.cost",
        "dynagate.hw.datasheet",
        "dynagate.hw.bodies.pipeline_datasheet",
        "dynagate.hw.bodies.program_datasheet",
        "dynagate.base.errors",
        "dynagate.base.ownership",  # words in the heads of files
        "dynagate.base.caching",  # what is kept in memory
        "dynagate.base.upper_limits",  # what is refused
        "dynagate.design.design",
        "dynagate.design.files",
        "dynagate.design.rebuilt",  # reads a record
        "dynagate.design.source",
        "dynagate.base.storage",
        "dynagate.hw.vectors.drawn",  # states for benches
        "dynagate.graph.reference_gradient",  # relative errors alone
        "dynagate.base.untrusted",
        "dynagate.robot",  # the names of robot.model
        "dynagate.robot.checked",
        "dynagate.native.compile",  # computes what numpy does
        "dynagate.native.interpreter",
        "dynagate.robot.macros",  # the robot is in design.json
        "dynagate.robot.assembled",
        "dynagate.robot.errors",
        "dynagate.robot.mjcf",
        "dynagate.robot.options",  # how a file is read
        "dynagate.robot.joint_order",
        "dynagate.robot.urdf",
    }
    assert counted <= set(modules())


OLD = {"robot": {"name": "two_joint_arm"}, "function": "mass_matrix", "hash": ""}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "design.json",
            {**OLD, "format": 9, "ii": 2},
            r"design\.json has format 9; expected 12: build the design again, for example `dynagate build "
            r"two_joint_arm --function mass_matrix --ii 2` with its other options \[DG-",
        ),
        (
            "program.json",
            {**OLD, "format": 3, "core": {"units": 4}},
            r"program\.json was written by an earlier version of dynagate, which had no design\.json "
            r"for programs; build the design again, for example `dynagate build two_joint_arm --function mass_matrix "
            r"--units 4` with its other options \[DG-",
        ),
        ("program.json", {"robot": {"name": "a; rm -r b"}, "core": 3}, r"for programs; build the design again \[DG-"),
        (
            "design.json",
            resealed({**OLD, "format": 12, "body": "quantum"}),
            r"design\.json is not a design: body is 'quantum'; expected one of datapath, program; build the design",
        ),
        ("design.json", resealed({**OLD, "format": 12}), r"body is None; expected one of datapath, program"),
    ],
)
def test_records_of_other_forms_are_refused_with_what_to_do(
    name: str, content: dict[str, object], message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(json.dumps(content))
    for reads in (files.load, dynagate.open):
        with pytest.raises(DesignError, match=message):
            reads(tmp_path)


def test_a_record_of_the_other_body_is_refused_by_name(designs: Path) -> None:
    arm = robots.load("two_joint_arm")
    for options, reads, text in (
        ({"ii": 4}, files.load_program, "holds a datapath; expected a program"),
        ({"units": 2}, files.load_datapath, "holds a program; expected a datapath"),
    ):
        built = dynagate.build(arm, "mass_matrix", folder=designs, **options)
        assert files.load(built.folder).body.kind == ("program" if "units" in options else "datapath")
        with pytest.raises(DesignError, match=text):
            reads(built.folder)


@pytest.mark.parametrize("options", [{"ii": 8}, {"units": 2}], ids=str)
def test_a_design_is_made_again_from_its_folder_whatever_its_body(options: dict[str, int], tmp_path: Path) -> None:
    built = dynagate.build("two_joint_arm", "gravity_torque", **options, folder=tmp_path)
    again = rebuild(built.folder)
    assert again == built
    assert (again.latency, again.interval, again.resources) == (built.latency, built.interval, built.resources)
    assert [file.name for file in again.files] == [file.name for file in built.files]
    content = json.loads((built.folder / files.FILE).read_text())
    (built.folder / files.FILE).write_text(json.dumps(resealed({**content, "region": {}})))
    with pytest.raises(DesignError, match=r"^the design of two_joint_arm gravity_torque has no region: .*build the"):
        rebuild(built.folder)
