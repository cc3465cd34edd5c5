"""What was compiled is loaded only if it is the user's own and complete; full disks and kills leave nothing behind."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO

import dynagate
import numpy as np
import pytest
from dynagate import build, robots
from dynagate.base.errors import Error
from dynagate.base.storage import DAY, MARK, mark, scratch, sweep
from dynagate.fixedpoint.models.evaluate import evaluate
from dynagate.hw.designs import Design
from dynagate.native import cache
from dynagate.native.cache import cache_folder, kept
from dynagate.native.compile import CompileError, compiler
from dynagate.sim import verilate
from dynagate.sim.verify import verify
from dynagate.sim.verilate import SimulationError, library

from tests.designs import relisted

FUNCTION = "mass_matrix"
SOMEBODY = 12345
PLANTED = '__attribute__((constructor)) static void run(void) {{ fopen("{canary}", "w"); }}'


class Failure(Error):
    pass


@pytest.fixture
def built(designs: Path) -> Design:
    return build(robots.load("two_joint_arm"), FUNCTION, ii=2, folder=designs)


def make(work: Path, made: Path) -> None:
    (work / "source").write_text("source")
    (made / "library").write_text("library")


def age(path: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(path, (then, then))


def cut_short(folder: Path) -> None:
    (folder / "library").write_text("lib")


def flip(folder: Path) -> None:
    (folder / "library").write_text("mibrary")


@pytest.mark.parametrize(
    "damage",
    [
        cut_short,
        flip,
        shutil.rmtree,
        lambda folder: (folder / "sha256").unlink(),
        lambda folder: (folder / "sha256").write_bytes(b"\xff\0"),
        lambda folder: (folder / "more").write_text("planted"),
        lambda folder: (shutil.rmtree(folder), folder.write_text("a file")),
    ],
    ids=["cut short", "flipped", "missing", "no checksum", "binary checksum", "one more file", "a file instead"],
)
def test_what_is_damaged_is_made_again(damage: Callable[[Path], object], tmp_path: Path) -> None:
    target = tmp_path / "cache" / "thing"
    assert kept(target, make, Failure) == target
    damage(target)
    assert kept(target, make, Failure) == target
    assert {path.name for path in target.iterdir()} == {"library", "sha256", MARK}
    assert (target / "library").read_text() == "library"
    assert [path.name for path in target.parent.iterdir()] == ["thing"]


def test_what_is_complete_is_not_made_again(tmp_path: Path) -> None:
    target = kept(tmp_path / "thing", make, Failure)
    assert kept(target, lambda work, made: pytest.fail("made again"), Failure) == target


@pytest.mark.parametrize("damage", [cut_short, flip, lambda folder: (folder / "more").write_text("planted")])
def test_a_folder_is_read_again_only_after_a_change(
    damage: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process reads each folder once, and once more after any change; new files may change unseen for a while."""
    reads, checksum = list[Path](), cache.checksum_of
    monkeypatch.setattr(cache, "checksum_of", lambda folder, name: (reads.append(folder), checksum(folder, name))[1])
    target = kept(tmp_path / "thing", make, Failure)
    reads.clear()
    for _ in range(2):
        kept(target, make, Failure)
    assert reads == [target, target]
    monkeypatch.setattr(cache, "SETTLED", 0)
    for _ in range(3):
        kept(target, make, Failure)
    assert reads == [target] * 3
    time.sleep(0.05)  # longer than the unit of the system's times of files
    damage(target)
    kept(target, make, Failure)
    assert len(reads) > 3
    assert (target / "library").read_text() == "library"
    assert not (target / "more").exists()


def test_who_needs_the_same_meanwhile_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that start together compile everything once."""
    target, made, pending = tmp_path / "thing", list[str](), list[Future[Path]]()
    waits, flock = threading.Event(), fcntl.flock

    def watched(file: IO[str], operation: int) -> None:
        if operation == fcntl.LOCK_SH:
            waits.set()
        flock(file, operation)

    def first(work: Path, product: Path) -> None:
        made.append("first")
        pending.append(others.submit(kept, target, second, Failure))
        assert waits.wait(600.0)
        make(work, product)

    def second(work: Path, product: Path) -> None:
        made.append("second")
        waits.set()
        make(work, product)

    monkeypatch.setattr(fcntl, "flock", watched)
    with ThreadPoolExecutor(1) as others:
        assert kept(target, first, Failure) == target
    assert pending[0].result() == target
    assert made == ["first"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fails(work: Path, made: Path) -> None:
        make(work, made)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path / "thing", fails, Failure)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_only_the_user_can_write_what_is_kept(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        target = kept(tmp_path / "cache" / "thing", make, Failure)
        kept(target, lambda work, made: pytest.fail("made again"), Failure)
    finally:
        os.umask(before)
    for path in (target.parent, target, *target.iterdir()):
        assert path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("place", ["cache", "cache/thing", "cache/thing/library"])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_what_others_can_write_is_refused_by_name(place: str, mode: int, tmp_path: Path) -> None:
    target = kept(tmp_path / "cache" / "thing", make, Failure)
    (tmp_path / place).chmod(mode)
    with pytest.raises(
        Failure, match=rf"{place} can be written by others \(mode {mode:o}\); .* set DYNAGATE_CACHE to a"
    ):
        kept(target, make, Failure)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
@pytest.mark.parametrize("place", ["cache", "cache/thing", "cache/thing/library"])
def test_what_belongs_to_somebody_else_is_refused_by_name(place: str, tmp_path: Path) -> None:
    target = kept(tmp_path / "cache" / "thing", make, Failure)
    os.chown(tmp_path / place, SOMEBODY, -1)
    with pytest.raises(
        Failure, match=rf"{place} belongs to user {SOMEBODY}; expected one that only you can write: remove"
    ):
        kept(target, make, Failure)


def test_a_cache_of_somebody_else_is_refused_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    monkeypatch.setenv("DYNAGATE_CACHE", str(tmp_path / "shared"))
    with pytest.raises(CompileError, match="shared can be written by others"):
        dynagate.compile(robots.load("two_joint_arm"), FUNCTION)
    assert list((tmp_path / "shared").iterdir()) == []


def test_a_cache_may_have_any_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (".", "My Cache"):
        monkeypatch.setenv("DYNAGATE_CACHE", path)
        assert cache_folder() == tmp_path / path
        with dynagate.compile(robots.load("two_joint_arm"), FUNCTION) as accelerator:
            assert np.isfinite(accelerator(q=np.zeros((1, 2))).m).all()
        assert len(list((tmp_path / path).glob("two_joint_arm_mass_matrix-f64-*"))) == 1


def left(folder: Path, days: float) -> Path:
    """A scratch folder of a process that was killed."""
    folder.mkdir(parents=True)
    (folder / "file").write_text("file")
    mark(folder)
    age(folder, days)
    return folder


def test_what_a_kill_left_is_removed_after_a_day(tmp_path: Path) -> None:
    for name, days in ((".building-a", 1.1), (".building-young", 0.9), ("else", 9.0)):
        left(tmp_path / name, days)
    (tmp_path / ".building-link").symlink_to(tmp_path / "else")
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".building-link", ".building-young", "else"]
    assert (tmp_path / "else" / "file").is_file()


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives folders away")
def test_what_somebody_else_left_is_not_removed(tmp_path: Path) -> None:
    folder = left(tmp_path / ".building-a", 2)
    os.chown(folder, SOMEBODY, -1)
    sweep(tmp_path)
    assert folder.is_dir()


def test_every_use_of_a_folder_sweeps_it(built: Design, tmp_path: Path) -> None:
    design, cache = shutil.copytree(built.folder, tmp_path / built.folder.name), tmp_path / "cache"
    folders = [left(place / ".building-left", 2) for place in (tmp_path, design, cache)]
    cache.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DYNAGATE_CACHE", str(cache))
        dynagate.compile(robots.load("two_joint_arm"), FUNCTION)
    library(design / "datapath.v")
    build(robots.load("two_joint_arm"), FUNCTION, ii=2, folder=tmp_path)
    assert not any(folder.exists() for folder in folders)


def test_what_is_not_used_for_long_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("old", "used"):
        kept(tmp_path / name, make, Failure)
        age(tmp_path / name, 61)
    (tmp_path / "photographs").mkdir()
    age(tmp_path / "photographs", 61)
    kept(tmp_path / "used", make, Failure)
    kept(tmp_path / "new", make, Failure)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "photographs", "used"]


def planted(folder: Path, target: Path) -> Path:
    """A library that says so when it is loaded; returns what it then writes."""
    source, canary = folder / "planted.c", folder / "CANARY"
    source.write_text("#include <stdio.h>\n" + PLANTED.format(canary=canary))
    subprocess.run([compiler(), "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
    return canary


def check(built: Design, folder: Path) -> None:
    inputs = built.region.sample(FUNCTION, 20, seed=3)
    with dynagate.open(folder) as accelerator:
        np.testing.assert_array_equal(accelerator(**inputs).m, evaluate(built.formatted, inputs).outputs["m"])


def test_no_library_of_a_design_folder_is_loaded(built: Design, tmp_path: Path) -> None:
    folder = shutil.copytree(built.folder, tmp_path / "from a colleague")
    own = library(folder / "datapath.v")
    for place in (folder, folder / own.parent.name, folder / own.parent.name.replace("datapath", "sim")):
        place.mkdir(exist_ok=True)
        canary = planted(tmp_path, place / own.name)
    check(built, folder)
    assert not canary.exists()


@pytest.fixture
def own_cache(built: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that a test may damage, with the design's model in it."""
    cache = tmp_path / "cache"
    model = verilate.VerilatorModel.of(
        "datapath", [built.module("datapath")], [("datapath", name) for name in verilate.PORTS]
    )
    for folder in (library(built.module("datapath")).parent, verilate.runtime().parent, model.compiled(None)):
        shutil.copytree(folder, cache / folder.name)
    cache.chmod(0o700)
    monkeypatch.setenv("DYNAGATE_CACHE", str(cache))
    return cache


@pytest.mark.parametrize("damage", [pytest.param("cut short", marks=pytest.mark.long), "flipped", "planted"])
def test_a_damaged_library_is_compiled_again(damage: str, built: Design, own_cache: Path, tmp_path: Path) -> None:
    path = library(built.module("datapath"))
    assert path.parent.parent == own_cache
    whole = path.read_bytes()
    if damage == "planted":
        canary = planted(tmp_path, path)
    else:
        half = len(whole) // 2
        path.write_bytes(whole[:half] if damage == "cut short" else whole[:half] + b"\xff\xff" + whole[half + 2 :])
    check(built, built.folder)
    assert not (tmp_path / "CANARY").exists()
    if damage == "planted":
        ctypes.CDLL(str(planted(tmp_path, tmp_path / "own.so").with_name("own.so")))
        assert canary.exists()  # what loading it would have done


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ('$system("touch {canary}")', r"'\$system'"),
        ('$c("fopen(\\"{canary}\\", \\"w\\");")', r"'\$c'"),
        ("$system(1)", r"'\$system'"),
        ("\\a $c(1)", r"'\\+a'"),
        ("/* // */ $c(1)", r"'\$c'"),
        ("1$c(1)", r"'\$c'"),
        ("`include /etc/passwd", "'`'"),
        ('import "DPI-C" function void f();', "'\"'"),
        ("// \u2028 $c(1)", "'\\\\u2028'"),
        ("// \r $c(1)", r"'\\r'"),
    ],
)
def test_verilog_that_would_run_on_the_host_is_refused(code: str, named: str, built: Design, tmp_path: Path) -> None:
    folder = shutil.copytree(built.folder, tmp_path / "from a colleague")
    head, _, _ = built.module("datapath").read_text().rpartition("endmodule")
    text = f"{head}initial begin\n{code.format(canary=tmp_path / 'CANARY')};\nend\nendmodule\n"
    (folder / "datapath.v").write_bytes(text.encode())
    relisted(folder, built.design)
    with pytest.raises(
        SimulationError, match=rf"datapath.v holds {named}; expected Verilog that dynagate wrote: build"
    ):
        dynagate.open(folder)
    assert not (tmp_path / "CANARY").exists()


@pytest.mark.long
def test_folders_with_blanks_can_simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "My Cache"
    for shared in (verilate.headers(), verilate.runtime().parent):  # which take long to compile
        shutil.copytree(shared, cache / shared.name)
    cache.chmod(0o700)
    monkeypatch.setenv("DYNAGATE_CACHE", str(cache))
    (tmp_path / "My Environment").mkdir()
    (tmp_path / "My Environment" / "verilator").symlink_to(verilate.verilator_root())
    monkeypatch.setattr(verilate, "verilator_root", lambda: tmp_path / "My Environment" / "verilator")
    place = tmp_path / "My 'Projects' $HOME; #1"
    design = build(robots.load("two_joint_arm"), FUNCTION, ii=2, folder=place)
    check(design, design.folder)
    assert verify(design.folder, ["verilator"]).passed
    assert {path.name.split("-")[0] for path in cache.iterdir()} == {
        "bench",
        "datapath",
        "cocotb",
        "model",
        "headers",
        "libverilated",
    }


def test_a_temporary_folder_with_a_blank_is_named(
    built: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "My Files").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "My Files"))
    monkeypatch.setenv("DYNAGATE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        SimulationError, match="make cannot build in '.*My Files'; set TMPDIR to a folder without blanks"
    ):
        dynagate.open(built)
    assert list((tmp_path / "cache").iterdir()) == []


def on_disk(options: str, folder: Path, program: str, **environment: str) -> str:
    """What a program prints that finds a small disk at `folder`; skips where none can be mounted."""
    mount = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    probe = subprocess.run([*mount, 'mount -t tmpfs none "$0"', str(folder)], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("no disk can be mounted here")
    done = subprocess.run(
        [*mount, f'mount -t tmpfs -o {options} none "$0" && exec "$1" -c "$2" "$0"', folder, sys.executable, program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAM = """
import os, sys
import dynagate
from dynagate import build, robots
try:
    {work}
except {error} as error:
    print(type(error).__name__, error)
print(sorted(os.listdir(sys.argv[1])))
"""
BUILD = "build(robots.load('two_joint_arm'), 'mass_matrix', folder=sys.argv[1] + '/designs')"
OPEN = "dynagate.compile(robots.load('two_joint_arm'), 'forward_dynamics_gradient')"


def test_a_disk_that_is_full_or_read_only_is_named_by_build(tmp_path: Path) -> None:
    program = PROGRAM.format(work=BUILD, error="dynagate.hw.build.BuildError")
    full = on_disk("size=16k", tmp_path, f"import dynagate.hw.build\n{program}")
    assert f"in {tmp_path}/designs (No space left on device); expected a folder that can be written" in full
    assert "['designs']" in full
    read_only = on_disk("ro", tmp_path, f"import dynagate.hw.build\n{program}")
    assert f"in {tmp_path}/designs (Read-only file system); expected a folder that can be written" in read_only


def test_a_disk_that_is_full_or_read_only_is_named_by_the_cache(tmp_path: Path) -> None:
    program = PROGRAM.format(work=OPEN, error="RuntimeError")
    full = on_disk("size=64k", tmp_path, program, DYNAGATE_CACHE=str(tmp_path / "cache"))
    assert "CompileError" in full
    assert "No space left on device" in full or f"the disk of {tmp_path}/cache" in full
    assert "['cache']" in full
    read_only = on_disk("ro", tmp_path, program, DYNAGATE_CACHE=str(tmp_path / "cache"))
    assert f"in {tmp_path}/cache (Read-only file system); set DYNAGATE_CACHE to a folder that can be" in read_only


def test_a_full_disk_is_named_by_the_simulator(built: Design, tmp_path: Path) -> None:
    disk, cache = tmp_path / "disk", tmp_path / "cache"
    disk.mkdir()
    program = PROGRAM.format(work=f"dynagate.open({str(built.folder)!r})", error="RuntimeError")
    said = on_disk("size=32k", disk, program, DYNAGATE_CACHE=str(cache), TMPDIR=str(disk))
    assert "SimulationError" in said
    assert f"in {disk} (No space left on device); set TMPDIR to a folder that can be written" in said
    assert said.splitlines()[-1] == "[]"
    assert list(cache.iterdir()) == []


def fails_in(folder: Path) -> None:
    with scratch(folder, Failure, "it") as place:
        (place / "file").write_text("file")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_scratch_folders_are_removed_and_errors_name_the_place(tmp_path: Path) -> None:
    message = rf"cannot keep it in {tmp_path} \(No space left on device\); expected a folder that can be written"
    with pytest.raises(Failure, match=message):
        fails_in(tmp_path)
    assert list(tmp_path.iterdir()) == []
