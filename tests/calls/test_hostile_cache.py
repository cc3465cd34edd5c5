"""A cache that names a folder with other things in it: they stay, whatever they are called and however old they are."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from dynagate.base.errors import Error
from dynagate.base.storage import DAY, MARK, MARK_TEXT, sweep
from dynagate.cli import main
from dynagate.native.cache import entries, kept


def with_file(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


FOREIGN: dict[str, tuple[str, Callable[[Path], object]]] = {
    "music": ("loops", with_file("drum.wav", "music")),
    "music by hash": ("loops-0123456789abcdef", with_file("drum.wav", "music")),
    "data with checksums": ("dataset", with_file("sha256", "abc  run1.csv")),
    "a right checksum": ("dataset", with_file("sha256", "0" * 64)),
    "a kernel's name": ("two_joint_arm_mass_matrix-f64-0123456789abcdef", with_file("sha256", "0" * 64)),
    "a model's name": ("model-0123456789abcdef", with_file("Vtop.h", "")),
    "a thesis": ("thesis", with_file("t.tex", "x")),
    "an empty folder": ("empty", lambda folder: None),
    "a scratch folder's name": (".building-x", with_file("notes", "x")),
    "an earlier scratch folder's name": (".compiling-x", with_file("notes", "x")),
    "a simulation's name": (".sim-x", with_file("notes", "x")),
    "an empty mark": ("marked", with_file(MARK, "")),
    "another mark": ("marked", with_file(MARK, "dynagate")),
    "a mark and more": ("marked", with_file(MARK, MARK_TEXT + "not this one")),
    "a mark that is no text": ("marked", lambda folder: (folder / MARK).write_bytes(b"\xff")),
    "a folder as mark": ("marked", lambda folder: (folder / MARK).mkdir()),
    "a mark below": ("marked", lambda folder: kept(folder / "ours", lambda work, product: None, Error)),
}


def aged(path: Path) -> Path:
    then = time.time() - 70 * DAY
    os.utime(path, (then, then))
    return path


def compile_something(cache: Path) -> None:
    kept(cache / "kernel", lambda work, product: None, Error)


def clean(cache: Path) -> None:
    result = CliRunner(env={"DYNAGATE_CACHE": str(cache)}).invoke(main, ["clean"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("remove", [compile_something, clean, sweep])
@pytest.mark.parametrize("case", list(FOREIGN))
def test_what_is_not_ours_stays(case: str, remove: Callable[[Path], None], tmp_path: Path) -> None:
    name, fill = FOREIGN[case]
    folder = tmp_path / name
    folder.mkdir(mode=0o700)
    fill(folder)
    before = sorted(folder.rglob("*"))
    aged(folder)
    remove(tmp_path)
    assert sorted(folder.rglob("*")) == before
    assert folder.is_dir()
    assert folder not in entries(tmp_path)


@pytest.mark.parametrize("remove", [compile_something, clean, sweep])
def test_links_and_files_stay(remove: Callable[[Path], None], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    ours = kept(tmp_path / "elsewhere" / "kernel", lambda work, product: None, Error)
    (cache / "link").symlink_to(ours)
    (cache / ".building-link").symlink_to(ours)
    aged(ours)
    (cache / MARK).write_text(MARK_TEXT)
    (cache / "file").write_text("mine")
    remove(cache)
    assert (ours / MARK).is_file()
    assert {path.name for path in cache.iterdir()} - {"kernel"} == {"link", ".building-link", MARK, "file"}


def test_what_is_ours_goes(tmp_path: Path) -> None:
    old = aged(kept(tmp_path / "old", lambda work, product: None, Error))
    compile_something(tmp_path)
    assert not old.exists()
    assert entries(tmp_path) == [tmp_path / "kernel"]
    clean(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_loops_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = pytest.importorskip("examples.papers.compiled")
    monkeypatch.setenv("DYNAGATE_CACHE", str(tmp_path))
    (folder,) = [Path(compiled._folder.__wrapped__())]
    assert entries(tmp_path) == [folder]
    aged(folder)
    assert compiled._folder.__wrapped__() == str(folder)
    compile_something(tmp_path)
    assert folder.is_dir()  # it was used
    clean(tmp_path)
    assert not folder.exists()
    folder.mkdir()
    folder.chmod(0o777)
    assert compiled._folder.__wrapped__() == ""
    shutil.rmtree(folder)
