"""The kinds of hostile cases: each draws, by a generator of random numbers, a description and what is to be run."""

from __future__ import annotations

import importlib.util
import io
import json
import math
import os
import random
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
from dynagate import Region, Robot, robots

Case = tuple[str, Callable[[], object]]
Draw = Callable[[random.Random, int], Case]


class Wrong(Exception):
    """A case that is taken though it is wrong; the text says what."""


TOKENS = (
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "-1e400",
    "1e300",
    "1e-320",
    "-1",
    "0",
    "-0",
    "9" * 40,
    "0x10",
    "1_000",
    "1,5",
    "٣",
    "true",
    "None",
    "\u00fc",
    "a b",
    "../../etc/passwd",
    "/dev/zero",
    "${1+1}",
    "$(env HOME)",
    "'; DROP",
    "x" * 5000,
    "1 2",
    "1 2 3 4",
    "1 nan 1",
    "%s%n",
    "&lt;",
    "\u202e",
    "base",
    "shoulder",
    "-",
    "+",
    ".",
    "e",
    "1e",
    "--help",
)
NUMBERS: tuple[Any, ...] = (
    None,
    True,
    False,
    -1,
    0,
    1,
    2**31,
    2**63,
    2**64,
    10**400,
    -(10**400),
    1.5,
    -0.0,
    1e300,
    1e-320,
    math.nan,
    math.inf,
    -math.inf,
    "",
    "x",
    "nan",
    "1",
    [],
    {},
    [1],
    [[1]],
    [None],
    {"q": 1},
    "x" * 5000,
)
"""What may stand in JSON, and more."""


def enter(folder: Path) -> None:
    """Change to a folder so deep that relative paths such as ../.. stay in the one that is passed."""
    deep = folder / "a" / "b" / "c"
    deep.mkdir(parents=True, exist_ok=True)
    os.chdir(deep)


def check_robot(robot: Robot) -> None:
    """A robot that was read has finite numbers, and its inverse dynamics are finite at rest."""
    if robot.nv > 60:
        return
    graph = dynagate.trace(robot, "inverse_dynamics")
    q = dynagate.neutral(robot)
    result = dynagate.evaluate(graph, {"q": q[None], "qd": np.zeros((1, robot.nv)), "qdd": np.zeros((1, robot.nv))})
    if not np.isfinite(result["tau"]).all():
        raise Wrong(f"torques at rest are {result['tau']}")


# Files


def spoilt(content: bytes, random: random.Random) -> tuple[str, bytes]:
    """Change bytes of a file: cut, flip, repeat, insert."""
    way = random.choice(("cut", "flip", "insert", "repeat", "swap", "nothing", "zeros"))
    a, b = sorted(random.randrange(len(content) + 1) for _ in range(2))
    if way == "cut":
        return f"cut {a}:{b}", content[:a] + content[b:]
    if way == "flip":
        flipped = bytearray(content)
        for _ in range(random.choice((1, 1, 3, 20))):
            flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
        return "flip", bytes(flipped)
    if way == "insert":
        token = random.choice(TOKENS).encode()
        return f"insert {token[:20]!r} at {a}", content[:a] + token + content[a:]
    if way == "repeat":
        return f"repeat {a}:{b}", content[:b] + content[a:b] * random.choice((1, 2, 50)) + content[b:]
    if way == "swap":
        return f"swap at {a}, {b}", content[b:] + content[a:b] + content[:a]
    return (way, b"") if way == "nothing" else (f"zeros {a}:{b}", content[:a] + bytes(b - a) + content[b:])


def spoilt_markup(text: str, random: random.Random) -> tuple[str, str]:
    """Change an element or an attribute of XML, or bytes of it."""
    way = random.choice(
        ("attribute", "attribute", "attribute", "attribute", "drop", "double", "nest", "rename", "bytes")
    )
    values = list(re.finditer(r'="([^"]*)"', text))
    elements = list(re.finditer(r"<(\w+)[^<>]*/>", text))
    if way == "attribute" and values:
        place, token = random.choice(values), random.choice(TOKENS)
        return f"{text[: place.start()][-12:]}={token[:30]!r}", f"{text[: place.start(1)]}{token}{text[place.end(1) :]}"
    if way in ("drop", "double", "nest") and elements:
        place = random.choice(elements)
        new = {"drop": "", "double": place[0] * 2, "nest": f"<{place[1]}>" * 300 + f"</{place[1]}>" * 300}[way]
        return f"{way} {place[0][:40]}", text[: place.start()] + new + text[place.end() :]
    if way == "rename":
        names = sorted(set(re.findall(r"<(\w+)", text)))
        old, new = random.choice(names), random.choice([*names, "x", "include", "xacro:if", "limit", "mimic"])
        return f"<{old}> to <{new}>", text.replace(f"<{old}", f"<{new}", 1)
    what, content = spoilt(text.encode(errors="surrogateescape"), random)
    return what, content.decode(errors="surrogateescape")


URDF = """<robot name="r"><link name="base"/>
<link name="a"><inertial><origin xyz="0 0 0.1" rpy="0 0.1 0"/><mass value="1"/>
<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
<link name="b"><inertial><mass value="2"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>
<visual><geometry><box size="1 1 1"/></geometry></visual></link>
<link name="c"><inertial><mass value="2"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>
<collision><geometry><cylinder radius="0.1" length="1"/></geometry></collision></link>
<joint name="j" type="revolute"><parent link="base"/><child link="a"/><origin xyz="0 0 1" rpy="0 0 0"/>
<axis xyz="0 1 0"/><limit lower="-1" upper="1" velocity="2" effort="3"/><dynamics damping="0.1" friction="0.2"/></joint>
<joint name="k" type="prismatic"><parent link="a"/><child link="b"/><axis xyz="1 0 0"/>
<limit lower="-1" upper="1" velocity="2" effort="3"/></joint>
<joint name="m" type="continuous"><parent link="b"/><child link="c"/><axis xyz="0 0 1"/>
<mimic joint="j" multiplier="2" offset="0.1"/></joint></robot>"""
XACRO = """<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:property name="m" value="2"/>
<xacro:macro name="body" params="name mass:=1"><link name="${name}"><inertial><mass value="${mass}"/>
<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link></xacro:macro>
<link name="base"/><xacro:body name="a" mass="${m * 2}"/><joint name="j" type="continuous"><parent link="base"/>
<child link="a"/><axis xyz="0 1 0"/></joint></robot>"""
MJCF = """<mujoco><compiler angle="radian"/><option gravity="0 0 -9.81"/><worldbody><body name="a" pos="0 0 1">
<joint name="j" type="hinge" axis="0 1 0" range="-1 1" damping="0.1" armature="0.1" frictionloss="0.1"/>
<geom type="box" size="0.1 0.1 0.1" mass="1"/><body name="b" pos="0 0 1"><joint name="k" type="slide" axis="1 0 0"/>
<inertial pos="0 0 0" mass="1" diaginertia="0.1 0.1 0.1"/><site name="s" pos="0 0 0.1"/></body></body>
<body name="c" pos="1 0 0"><joint name="l" type="ball"/><geom size="0.1"/></body></worldbody>
<equality><connect body1="b" body2="c" anchor="0 0 0.1"/><joint joint1="j" joint2="k" polycoef="0 1 0 0 0"/></equality>
<actuator><motor joint="j" gear="2"/></actuator></mujoco>"""


def urdfs(folder: Path) -> Draw:
    path = folder / "r.urdf"

    def draw(random: random.Random, k: int) -> Case:
        what, text = spoilt_markup(URDF, random)
        if random.random() < 0.3:
            more, text = spoilt_markup(text, random) if text else ("", text)
            what = f"{what}; {more}"
        options = {
            "lax": random.random() < 0.3,
            "allow_unphysical": random.random() < 0.3,
            "floating_base": random.random() < 0.3,
        }

        def run() -> None:
            path.write_bytes(text.encode(errors="surrogateescape"))
            check_robot(Robot.from_urdf(path, **options))  # type: ignore[arg-type]

        return f"{what} {[name for name in options if options[name]]}", run

    return draw


def others(folder: Path, text: str, read: Callable[[Path], Robot]) -> Draw:
    """Files that other programs read: their readers run in this process, which has the limits of theirs."""
    from dynagate.robot import macros, mjcf_model

    for module in (mjcf_model, macros):
        module.read_apart = lambda program, function, *arguments, **options: function(*arguments)  # type: ignore[attr-defined]
    path = folder / "r.xml"

    def draw(random: random.Random, k: int) -> Case:
        what, changed = spoilt_markup(text, random)

        def run() -> None:
            path.write_bytes(changed.encode(errors="surrogateescape"))
            check_robot(read(path))

        return what, run

    return draw


def formats_files(folder: Path) -> Draw:
    from dynagate.fixedpoint.assign import assign
    from dynagate.fixedpoint.models.evaluate import evaluate
    from dynagate.fixedpoint.models.files import read_formats, write_formats
    from dynagate.graph.critical_path import late_terms_last

    arm = robots.load("two_joint_arm")
    region, graph = Region.of(arm), late_terms_last(dynagate.trace(arm, "inverse_dynamics"))
    states = region.states(graph, 4, 1)
    write_formats(assign(graph, region), folder / "formats.json")
    content = json.loads((folder / "formats.json").read_text())

    def draw(random: random.Random, k: int) -> Case:
        what, changed = spoilt_json(content, random)

        def run() -> None:
            (folder / "theirs.json").write_bytes(changed)
            formatted = read_formats(graph, folder / "theirs.json")
            evaluate(formatted, states)

        return what, run

    return draw


def spoilt_json(content: Any, random: random.Random, seal: Callable[[Any], Any] = lambda c: c) -> tuple[str, bytes]:
    """Change a value of JSON somewhere, or bytes of it. seal: what is done to the changed content."""
    if random.random() < 0.15:
        what, changed = spoilt(json.dumps(content).encode(), random)
        return what, changed
    own = json.loads(json.dumps(content))
    place, path = own, []
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = random.choice(keys)
        path.append(key)
        deeper = place[key]
        if not isinstance(deeper, dict | list) or not deeper or random.random() < 0.15:
            break
        place = deeper
    way = random.choice(("value", "value", "value", "drop", "double", "rename"))
    if way == "value":
        value = random.choice(NUMBERS)
        if isinstance(place[key], int | float) and not isinstance(place[key], bool) and random.random() < 0.5:
            value = random.choice((place[key] + 1, -place[key], place[key] * 1000, place[key] / 3))
        place[key] = value
        return f"{path} = {value!r:.40}", json.dumps(seal(own)).encode()
    if way == "drop":
        del place[key]
    elif isinstance(place, dict):
        place[f"{key}x" if way == "rename" else f"{key}{random.randrange(3)}"] = (
            place.pop(key) if way == "rename" else place[key]
        )
    else:
        place.insert(key, place[key])
    return f"{way} {path}", json.dumps(seal(own)).encode()


def designs(folder: Path) -> Draw:
    from dynagate.design.files import load
    from dynagate.design.rebuilt import formatted_design
    from dynagate.host.words import pack_inputs, unpack_outputs

    from tests.designs import resealed
    from tests.hostile.designs import KINDS as DESIGNS
    from tests.hostile.designs import text_of

    contents = {kind: json.loads(text_of(kind)) for kind in DESIGNS}

    def draw(random: random.Random, k: int) -> Case:
        kind = random.choice(list(contents))
        what, changed = spoilt_json(contents[kind], random, resealed)

        def run() -> None:
            (folder / "design.json").write_bytes(changed)
            design = load(folder)
            ports = {port.name: np.zeros((2, *port.shape)) for port in design.input.ports}
            pack_inputs(design, ports, 2)
            unpack_outputs(design, np.zeros((2, design.output.words), np.uint32))
            if random.random() < 0.3:
                formatted_design(folder)

        return f"{kind}: {what}", run

    return draw


def programs(folder: Path) -> Draw:
    """Folders of programs whose description, program, formats or Verilog is not the one that was written."""
    from dynagate.design.files import FILE

    from tests.designs import functions_of, resealed

    arm = robots.load("two_joint_arm")
    asked: dict[str, dict[str, Any]] = {
        "one": functions_of("inverse_dynamics"),
        "functions": functions_of("mass_matrix,inverse_dynamics"),
        "steps": {**functions_of("rollout"), "dt": 0.01},
    }
    region = Region.of(arm, velocity=5.0)
    made = {
        name: dynagate.build(arm, units=2, region=region, folder=folder / name, **options).folder
        for name, options in asked.items()
    }
    contents = {name: json.loads((place / FILE).read_text()) for name, place in made.items()}
    files = {name: [path for path in sorted(place.rglob("*")) if path.is_file()] for name, place in made.items()}

    def results(name: str) -> list[bytes]:
        x = np.full((2, 2), 0.25)
        with dynagate.open(made[name], device="fixed") as opened:
            if name == "steps":
                moved = opened(x, x, np.full((2, 3, 2), 0.25))
                return [moved.q.tobytes(), moved.qd.tobytes()]
            if name == "one":
                return [opened(q=x, qd=x, qdd=x).tau.tobytes()]
            return [opened.mass_matrix(q=x).m.tobytes(), opened.inverse_dynamics(q=x, qd=x, qdd=x).tau.tobytes()]

    expected = {name: results(name) for name in made}

    def draw(random: random.Random, k: int) -> Case:
        kind = random.choice(list(made))
        if k == 0:
            path = made[kind] / FILE
            what, changed = "as it was written", path.read_bytes()
        elif random.random() < 0.7:
            what, changed = spoilt_json(contents[kind], random, resealed)
            path = made[kind] / FILE
        else:
            path = random.choice(files[kind])
            what, changed = spoilt(path.read_bytes(), random)

        def run() -> None:
            content = path.read_bytes()
            path.write_bytes(changed)
            try:
                got = results(kind)
            finally:
                path.write_bytes(content)
            if got != expected[kind]:
                raise Wrong("opened, and computes other results")

        return f"{kind}, {path.name}: {what}", run

    return draw


KEPT_TEXT = "a library"


def caches(folder: Path) -> Draw:
    """Folders of a cache that are damaged, of another version, links, or open to others, and several makers at once."""
    from concurrent.futures import ThreadPoolExecutor

    from dynagate.native.cache import kept
    from dynagate.native.compile import CompileError

    def make(work: Path, product: Path) -> None:
        (product / "library.so").write_text(KEPT_TEXT)

    def other(work: Path, product: Path) -> None:
        (product / "library.so").write_text("another library")

    def linked(path: Path, target: Path | str) -> None:
        if path.is_dir() and not path.is_symlink():
            path.rename(path.with_name(f"{path.name}-moved"))
        else:
            path.unlink()
        path.symlink_to(target)

    def pipe(path: Path) -> None:
        path.unlink()
        os.mkfifo(path)

    def moved(path: Path) -> None:
        path.rename(path.with_suffix(".other"))
        path.mkdir()

    def spoil(path: Path, random: random.Random) -> None:
        path.write_bytes(spoilt(path.read_bytes(), random)[1])

    own = folder / "own.so"
    own.write_text("my own file")
    files: dict[str, Callable[[Path, random.Random], object]] = {
        "spoilt": spoil,
        "empty": lambda path, random: path.write_bytes(b""),
        "missing": lambda path, random: path.unlink(),
        "link to another file": lambda path, random: linked(path, own),
        "link to a device": lambda path, random: linked(path, "/dev/zero"),
        "link to nothing": lambda path, random: linked(path, folder / "nothing"),
        "link to itself": lambda path, random: linked(path, path),
        "pipe": lambda path, random: pipe(path),
        "folder": lambda path, random: moved(path),
        "open to others": lambda path, random: path.chmod(random.choice((0o777, 0o722, 0o602, 0o620))),
        "unreadable": lambda path, random: path.chmod(0),
        "of another user": lambda path, random: os.chown(path, 12345, 12345) if os.geteuid() == 0 else None,
    }
    folders: dict[str, Callable[[Path, random.Random], object]] = {
        "another version": lambda path, random: kept(path.parent / "other", other, CompileError).rename(
            path.rename(path.with_name(f"{path.name}-earlier")).with_name(path.name)
        ),
        "another version's checksum": lambda path, random: (path / "sha256").write_bytes(
            (kept(path.parent / "other", other, CompileError) / "sha256").read_bytes()
        ),
        "more files": lambda path, random: (path / "more.so").write_text("more"),
        "link to another folder": lambda path, random: linked(path, kept(path.parent / "other", other, CompileError)),
        "link to itself": lambda path, random: linked(path, path),
        "file": lambda path, random: (path.rename(path.with_name(f"{path.name}-earlier")), path.write_text("a file")),
        "open to others": lambda path, random: path.chmod(0o777),
        "of another user": files["of another user"],
        "several makers": lambda path, random: path.rename(path.with_name(f"{path.name}-earlier")),
    }
    parents = {name: folders[name] for name in ("open to others", "of another user", "link to itself", "file")}
    places = {"file": files, "folder": folders, "cache": parents}

    def draw(random: random.Random, k: int) -> Case:
        place = random.choice(list(places))
        way = random.choice(list(places[place]))
        name = random.choice(("library.so", "sha256", "made-by-dynagate"))
        cache = folder / f"cache{k}"

        def run() -> None:
            target = kept(cache / "library", make, CompileError)
            path = {"file": target / name, "folder": target, "cache": cache}[place]
            places[place][way](path, random)
            with ThreadPoolExecutor(4) as pool:
                found = list(pool.map(lambda _: kept(cache / "library", make, CompileError), range(4)))
            for each in found:
                if (each / "library.so").read_bytes() != KEPT_TEXT.encode():
                    raise Wrong("a library that nobody made for this name")
                if any(
                    path.lstat().st_mode & 0o022 and not path.is_symlink() for path in (cache, each, *each.iterdir())
                ):
                    raise Wrong("a folder that others can write")

        return f"{place} {name if place == 'file' else ''}: {way}", run

    return draw


def boards_files(folder: Path) -> Draw:
    from dynagate.hw import boards

    texts = {path.stem: path.read_text() for path in sorted(Path(boards.__file__).parent.glob("*.toml"))}

    def draw(random: random.Random, k: int) -> Case:
        name = random.choice(list(texts))
        text = texts[name]
        lines = [i for i, line in enumerate(text.splitlines()) if "=" in line]
        if random.random() < 0.8:
            i, token = (
                random.choice(lines),
                random.choice((*TOKENS, '"' + random.choice(TOKENS) + '"', "[]", "{}", "[1]", "1979-05-27")),
            )
            rows = text.splitlines()
            rows[i] = f"{rows[i].split('=')[0]}= {token}"
            what, changed = f"{name}: {rows[i][:60]}", "\n".join(rows).encode()
        else:
            what, changed = spoilt(text.encode(), random)

        def run() -> None:
            (folder / "theirs.toml").write_bytes(changed)
            boards.read_board(folder / "theirs.toml")

        return what, run

    return draw


def arrays_files(folder: Path) -> Draw:
    """.npz files for `dynagate view`, and meshes."""
    import trimesh
    from dynagate.cli.view import read_trajectory
    from dynagate.robot import RobotError
    from dynagate.views.scene.meshes import mesh_arrays

    buffer = io.BytesIO()
    np.savez(buffer, q=np.zeros((5, 2)))
    box = trimesh.creation.box()
    meshes = {kind: box.export(file_type=kind) for kind in ("stl", "obj", "ply", "glb")}
    contents = {"npz": buffer.getvalue(), **{k: v.encode() if isinstance(v, str) else v for k, v in meshes.items()}}

    def draw(random: random.Random, k: int) -> Case:
        kind = random.choice(list(contents))
        what, changed = spoilt(contents[kind], random)
        if kind == "npz" and random.random() < 0.5:
            what, changed = "a large header", large_array(random)

        def run() -> None:
            if kind == "npz":
                import click

                (folder / "q.npz").write_bytes(changed)
                try:
                    values = read_trajectory(folder / "q.npz")
                except click.ClickException as error:
                    raise RobotError(error.message) from None
                if values.nbytes > 2**28:
                    raise Wrong(f"{values.nbytes} bytes are read")
                return
            try:
                mesh_arrays(changed, kind)
            except Exception as error:  # as `load_meshes`, which names each
                raise RobotError(str(error)) from None

        return f"{kind}: {what}", run

    return draw


def large_array(random: random.Random) -> bytes:
    """An .npz file whose array claims to be large."""
    import zipfile

    buffer = io.BytesIO()
    count = random.choice((10**9, 10**12, 2**62, -1, 10**30))
    order = random.choice(("<f8", "|O", "<c16", "|b1", "<U9", "|V8", "<f2"))
    head = f"{{'descr': '{order}', 'fortran_order': False, 'shape': ({count}, 2), }}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        data = bytes(random.choice((0, 16, 10**6)))
        file.writestr("q.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)
    return buffer.getvalue()


# Options and the environment


def options(folder: Path) -> Draw:
    """Every option of every command with what it cannot take."""
    import click
    from click.testing import CliRunner
    from dynagate.cli import main

    enter(folder)
    pairs: list[tuple[str, click.Option]] = []
    for name in main.list_commands(click.Context(main)):
        command = main.get_command(click.Context(main), name)
        if isinstance(command, click.Command) and not isinstance(command, click.Group):
            pairs += [(name, own) for own in command.params if isinstance(own, click.Option) and not own.is_flag]
    tokens = [token for token in TOKENS if token not in ("base", "shoulder", "0", "-0", "-", "--help", "1 2")]

    def draw(random: random.Random, k: int) -> Case:
        name, option = pairs[k % len(pairs)]
        token = random.choice(tokens)
        metavar = str(option.make_metavar(click.Context(main)))
        if isinstance(option.type, click.Path | click.File) or re.search("FILE|FOLDER|PATH", metavar):
            token = random.choice(("/proc/nowhere/x", "/dev/null/x", "x" * 5000))
        if option.name == "round_rotations" and token == "1e-320":
            token = "1e320"  # the other one is an angle above 0
        arguments = [name, "two_joint_arm", option.opts[0], token]

        def run() -> None:
            result = CliRunner().invoke(main, arguments)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            if result.exit_code == 0:
                raise Wrong(f"taken: {result.output[:80]!r}")
            if "Traceback" in result.output:
                raise Wrong(result.output[-200:])

        return " ".join(arguments)[:200], run

    return draw


def environments(folder: Path) -> Draw:
    """Variables of the environment that the package reads, in a call that compiles."""
    names = (
        "CC",
        "CXX",
        "DYNAGATE_CACHE",
        "XDG_CACHE_HOME",
        "HOME",
        "TMPDIR",
        "PATH",
        "NVCC",
        "XILINX_XRT",
        "PYTHONPATH",
    )
    values = (
        "",
        " ",
        "nowhere",
        "/proc/nowhere",
        "/dev/null",
        "/proc",
        "a b",
        "\udcff",
        "x" * 5000,
        "-x",
        "true",
        "false",
        "cat",
        "../..",
    )

    enter(folder)

    def draw(random: random.Random, k: int) -> Case:
        name, value = names[k % len(names)], random.choice(values)

        def run() -> None:
            before = dict(os.environ)
            try:
                os.environ.setdefault("DYNAGATE_CACHE", str(folder / "cache"))
                os.environ[name] = value
                opened = dynagate.compile("two_joint_arm", "inverse_dynamics", device="cpu")
                if not np.isfinite(opened(q=np.zeros(2), qd=np.zeros(2), qdd=np.zeros(2)).tau).all():
                    raise Wrong("not finite")
            finally:
                os.environ.clear()
                os.environ.update(before)

        return f"{name}={value[:20]!r}", run

    return draw


# Arguments of public entries

ARGUMENTS: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**12,
    10**400,
    1.5,
    math.nan,
    math.inf,
    1e300,
    -1e300,
    1 + 2j,
    "",
    "x",
    "nan",
    b"x",
    [],
    {},
    (),
    [None],
    object(),
    Robot,
    np.nan,
    np.array([]),
    np.array([True, False]),
    np.array(["a", "b"]),
    np.zeros((0, 2)),
    np.zeros((2, 2, 2, 2)),
    np.ma.array([1.0, 2.0], mask=[True, False]),
    np.array([1.0, np.nan]),
    np.array([np.inf, 1.0]),
    np.array([1 + 1j, 0]),
    np.array([object(), 1]),
    [1, [2]],
    "x" * 5000,
    "\udcff",
    "\0",
    {"a": 1},
    {1: 2},
    set(),
    range(3),
    lambda: 1,
    np.float64(2.0),
    np.int8(3),
    np.array(3),
    np.datetime64("2020-01-01"),
    float("1e-320"),
    [[]],
    ["q", "q"],
    Path("/proc/nowhere"),
    "../..",
    -0.0,
)
NEVER = (math.nan, math.inf, 1 + 2j, b"x")
"""What no numeric option may be."""


BUILD_OPTIONS = (
    "word",
    "error",
    "policy",
    "goal",
    "formats",
    "region",
    "axi",
    "budget",
    "stages",
    "units",
    "form",
    "frame",
    "mass",
    "words",
    "outputs",
    "dt",
    "integrator",
    "tolerance",
)
BUILD_FLAGS = (
    "per_sample",
    "certificate",
    "prefix",
    "external_forces",
    "variable_dt",
    "implicit_damping",
    "linearize",
)


def arguments(folder: Path) -> Draw:
    """One argument of a public entry is replaced."""
    enter(folder)
    calls = entries(folder)
    places = [(name, key) for name, (_, own) in calls.items() for key in own]

    def draw(random: random.Random, k: int) -> Case:
        name, key = places[k % len(places)]
        call, own = calls[name]
        value = random.choice(ARGUMENTS)

        def run() -> None:
            call(**{**own, key: value})
            is_number = isinstance(own[key], int | float) and not isinstance(own[key], bool)
            unlimited = name == "joint" and value == math.inf
            if is_number and not unlimited and any(value is x for x in NEVER):
                raise Wrong("taken")

        return f"{name}({key}={value!r:.60})", run

    return draw


def entries(folder: Path) -> dict[str, tuple[Callable[..., object], dict[str, Any]]]:
    """Public entries with arguments that they take."""
    from dynagate import Axi, Budget, Goal, Policy, Rollout, Stages
    from dynagate.control import Cost
    from dynagate.forces import CompliantContact, Contact, Drag, Friction, Limits, Plane, Point, Servo
    from dynagate.integrators.implicit.rigid_contact import RigidContact

    arm = robots.load("two_joint_arm")
    point = [Point(arm.links[-1].name, (0.0, 0.0, 0.1))]
    z, q, link = np.zeros(2), np.array([0.1, 0.2]), arm.links[0]
    opened = dynagate.compile(arm, "inverse_dynamics", device="numpy")
    rollout = Rollout(arm, steps=3, dt=0.01, device="numpy")
    cost = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=10.0)
    solver = dynagate.ilqr(arm, knots=3, dt=0.02, cost=cost, device="numpy", iterations=2)

    def traced(force: Callable[..., Any]) -> Callable[..., object]:
        return lambda **own: Rollout(arm, steps=2, dt=0.01, forces=[force(**own)], device="numpy")

    unset = dict.fromkeys(BUILD_OPTIONS)
    flags = dict.fromkeys(BUILD_FLAGS, False)
    jax = importlib.util.find_spec("jax") is not None
    return {
        **(jax_entries(arm) if jax else {}),
        "trace": (
            lambda **o: dynagate.trace(o.pop("robot"), o.pop("function"), **o),
            {"robot": arm, "function": "mass_matrix"},
        ),
        "open": (
            lambda **o: dynagate.compile(o.pop("robot"), o.pop("function"), **o),
            {"robot": arm, "function": "forward_dynamics", "device": "numpy"},
        ),
        "call": (lambda **o: opened(**o), {"q": q, "qd": z, "qdd": z}),
        "submit": (lambda **o: opened.submit(**o).result(), {"q": q, "qd": z, "qdd": z}),
        "neutral": (dynagate.neutral, {"robot": arm}),
        "integrate": (dynagate.integrate, {"robot": arm, "q": q, "v": z}),
        "difference": (lambda robot, q0, q1: dynagate.difference(robot, q0, q1), {"robot": arm, "q0": q, "q1": z}),
        "rollout": (
            lambda **o: Rollout(o.pop("robot"), **o),
            {
                "robot": arm,
                "steps": 3,
                "dt": 0.01,
                "every": 1,
                "device": "numpy",
                "integrator": "euler",
                "forces": (),
                "linearize": False,
                "implicit_damping": False,
                "form": None,
            },
        ),
        "rollout call": (lambda q, qd, tau: rollout(q, qd, tau), {"q": q, "qd": z, "tau": np.zeros((3, 2))}),
        "region": (lambda **o: Region.of(o.pop("robot"), **o), {"robot": arm, "velocity": 2.0, "acceleration": 3.0}),
        "states": (
            lambda count, seed: Region.of(arm).states(dynagate.trace(arm, "mass_matrix"), count, seed),
            {"count": 3, "seed": 1},
        ),
        "policy": (Policy, {"word": 24, "guard_bits": 1.0, "samples": 64, "seed": 1, "milliseconds": 10.0}),
        "goal": (
            lambda **o: Goal(**o),
            {
                "error": 1e-3,
                "quantile": 0.99,
                "confidence": 0.9,
                "floor": 1e-3,
                "spare": 0.1,
                "states": 64,
                "kinds": ("rest",),
            },
        ),
        "joint": (
            lambda **o: replace(arm, links=(replace(link, joint=replace(link.joint, **o)), *arm.links[1:])),
            {
                "damping": 0.1,
                "armature": 0.1,
                "friction": 0.1,
                "lower": -1.0,
                "upper": 1.0,
                "velocity": 2.0,
                "effort": 3.0,
            },
        ),
        "link": (
            lambda **o: replace(arm, links=(replace(link, **o), *arm.links[1:])),
            {"mass": 1.0, "com": (0.0, 0.0, 0.1), "inertia": np.eye(3).tolist()},
        ),
        "axi": (lambda **o: Axi(**o), {"width": 32, "last": "batch", "words": "fixed", "choice": False}),
        "budget": (lambda **o: Budget(**o), {"dsp": 220, "lut": 1000}),
        "stages": (lambda **o: Stages(**o), {"multiply": 3, "add": 1}),
        "cost": (lambda **o: Cost.quadratic(**o), {"q": 1.0, "qd": 0.1, "tau": 1e-2, "final": 10.0}),
        "solver": (lambda **o: solver(o.pop("q"), o.pop("qd"), **o), {"q": q, "qd": z, "goal": z}),
        "open ilqr": (
            lambda **o: dynagate.ilqr(arm, cost=cost, device="numpy", **o),
            {
                "knots": 3,
                "dt": 0.02,
                "iterations": 2,
                "tolerance": 1e-4,
                "regularization": (1e-9, 1e9),
                "bounds": None,
                "joint_bounds": None,
                "within": 1e-3,
                "integrator": "euler",
                "forces": (),
                "implicit_damping": False,
                "threads": 1,
            },
        ),
        "open mppi": (
            lambda **o: dynagate.mppi(arm, cost=cost, device="numpy", **o),
            {"knots": 3, "dt": 0.02, "samples": 4, "temperature": 1.0, "spread": 0.5, "nodes": 2, "iterations": 1},
        ),
        "frame": (
            lambda **o: arm.with_frame(**o),
            {"name": "tip", "on": arm.links[-1].name, "translation": (0.0, 0.0, 0.1)},
        ),
        "contact": (
            lambda **o: arm.with_contact(**o),
            {"frame": arm.links[-1].name, "kind": "point", "damping": 1.0, "compliance": 1e-3},
        ),
        "compliant": (
            traced(CompliantContact),
            {"points": point, "stiffness": 1e3, "exponent": 1.0, "friction": 0.5, "speed": 0.01},
        ),
        "law": (
            traced(Contact),
            {"points": point, "stiffness": 1e3, "friction": 1.0, "alpha": 2.0, "beta": 1.0, "gamma": 1.0},
        ),
        "rigid": (
            lambda **o: Rollout(arm, steps=2, dt=0.01, contacts=RigidContact(**o), device="numpy"),
            {"points": point, "friction": 0.5, "sweeps": 10, "tolerance": 1e-6},
        ),
        "plane": (Plane, {"normal": (0.0, 0.0, 1.0), "offset": 0.0}),
        "point": (Point, {"link": "forearm", "position": (0.0, 0.0, 0.1), "radius": 0.0}),
        "drag": (traced(Drag), {"viscosity": (3.0, 7.0), "density": 500.0, "direction": (1.0, 0.0, 0.0)}),
        "friction": (traced(Friction), {"force": 0.1, "speed": 0.01}),
        "limits": (traced(Limits), {"stiffness": 100.0}),
        "servo": (traced(Servo), {"stiffness": 10.0, "damping": 1.0}),
        "draw": (
            lambda **o: dynagate.draw(o.pop("robot"), o.pop("q"), o.pop("path"), **o),
            {"robot": arm, "q": q, "path": "x.svg"},
        ),
        "read": (
            lambda **o: Robot.from_urdf(o.pop("path"), **o),
            {
                "path": robots.path("two_joint_arm"),
                "gravity": (0.0, 0.0, -9.81),
                "lock": {},
                "lax": False,
                "floating_base": False,
                "round_rotations": 1e-9,
            },
        ),
        "load": (lambda **o: robots.load(o.pop("name"), **o), {"name": "two_joint_arm", "lock": {}}),
        "build": (
            lambda **o: dynagate.build(arm, o.pop("function"), folder=folder / "d", **o),
            {"function": "gravity_torque", "ii": 16},
        ),
        "build options": (
            lambda **o: dynagate.build(arm, "gravity_torque", folder=folder / "d", **o),
            {
                "ii": 16,
                "samples_per_run": 1,
                "forces": (),
                **unset,
                **flags,
            },
        ),
    }


def jax_entries(arm: Robot) -> dict[str, tuple[Callable[..., object], dict[str, Any]]]:
    """The operators for JAX with options that they take."""
    from dynagate.jax import function, rollout

    own = {"backend": "numpy", "form": None, "frame": None, "mass": None, "prefix": False, "outputs": None}
    others = {"dt": None, "integrator": None, "implicit_damping": False, "external_forces": False, "forces": ()}
    moves = {"steps": 2, "dt": 0.01, "backend": "numpy", "integrator": "euler", "forces": (), "linearize": False}
    return {
        "jax function": (lambda **o: function(arm, "forward_dynamics", **o), {**own, **others}),
        "jax rollout": (lambda **o: rollout(arm, **o), moves),
    }


KINDS: dict[str, Callable[[Path], Draw]] = {
    "urdf": urdfs,
    "xacro": lambda folder: others(folder, XACRO, Robot.from_xacro),
    "mjcf": lambda folder: others(folder, MJCF, Robot.from_mjcf),
    "formats": formats_files,
    "designs": designs,
    "programs": programs,
    "caches": caches,
    "boards": boards_files,
    "arrays": arrays_files,
    "options": options,
    "environment": environments,
    "arguments": arguments,
}
COUNTS = {
    "urdf": 200,
    "xacro": 60,
    "mjcf": 100,
    "formats": 120,
    "designs": 200,
    "programs": 120,
    "caches": 150,
    "boards": 120,
    "arrays": 100,
    "options": 200,
    "environment": 40,
    "arguments": 1500,
}
"""How many cases of a kind are kept."""
