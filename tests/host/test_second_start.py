"""A second process opens a large function from the cache, without tracing it, and computes the same bits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Robot, robots
from dynagate.base import request_key as keys
from dynagate.base.request_key import request_key
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import trace
from dynagate.graph.kept_graph import KeptGraph
from dynagate.host.devices import functions
from dynagate.native.cache import CONTENT, keep, read_kept

FUNCTION = "forward_dynamics_gradient"
ROBOT = "iiwa14"
SECOND = f"""
import sys, numpy as np, dynagate
from dynagate.host.devices import functions
functions.trace = None  # a call of it fails
for pack in (False, True):
    with dynagate.compile("{ROBOT}", "{FUNCTION}", tier="interpreted", pack=pack) as f:
        rng = np.random.default_rng(7)
        results = f(*(rng.uniform(-1.0, 1.0, (3, *port.shape)) for port in f.device.inputs))
    np.save(sys.argv[1 + pack], np.concatenate([x.reshape(3, -1) for x in results.values()], axis=1))
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, which robots of any size use."""
    monkeypatch.setenv("DYNAGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(functions, "FEWEST_LINKS", 1)
    monkeypatch.setattr(functions, "FEWEST_NODES", 1)
    monkeypatch.setattr(keys, "STARTED", float("inf"))
    keys.source_key.cache_clear()
    return tmp_path / "cache"


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that are traced."""
    names: list[str] = []

    def counted(robot: Any, name: str, *rest: Any, **more: Any) -> Any:
        names.append(name)
        return trace(robot, name, *rest, **more)

    monkeypatch.setattr(functions, "trace", counted)
    return names


def result(tier: Any = "interpreted") -> Any:
    """Accelerations of the arm at a state."""
    with dynagate.compile("two_joint_arm", "forward_dynamics", tier=tier) as f:
        return f(np.array([0.3, -0.4]), np.array([0.5, 0.6]), np.array([0.7, 0.8])).qdd.copy()


def test_a_second_process_computes_the_same_bits_without_tracing(cache: Path, tmp_path: Path) -> None:
    files = [tmp_path / "full.npy", tmp_path / "packed.npy"]
    expected = []
    for pack in (False, True):
        with dynagate.compile(ROBOT, FUNCTION, tier="interpreted", pack=pack) as f:
            rng = np.random.default_rng(7)
            results = f(*(rng.uniform(-1.0, 1.0, (3, *port.shape)) for port in f.device.inputs))
            expected.append(np.concatenate([x.reshape(3, -1) for x in results.values()], axis=1))
    assert len([*cache.glob("instructions-*")]) == 2
    subprocess.run([sys.executable, "-c", SECOND, *map(str, files)], check=True)
    for file, numbers in zip(files, expected, strict=True):
        np.testing.assert_array_equal(np.load(file), numbers)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_what_needs_the_operations_traces_them(cache: Path, traces: list[str], tier: Any) -> None:
    expected = result(tier)
    assert traces == ["forward_dynamics"]
    np.testing.assert_array_equal(result(tier), expected)
    assert traces == ["forward_dynamics"]
    with dynagate.compile("two_joint_arm", "forward_dynamics", tier=tier) as f:
        device: Any = f.device
        graph = device.kernel.graph
        assert isinstance(graph, KeptGraph)
        assert graph.nodes == trace("two_joint_arm", "forward_dynamics").nodes
    assert traces == ["forward_dynamics"] * 2


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def foreign(path: Path) -> None:
    """Another entry in the place of this one."""
    keep("other", path.read_bytes())
    other = path.parent.parent / "other"
    for file in path.parent.iterdir():
        file.write_bytes((other / file.name).read_bytes())


@pytest.mark.parametrize("damage", [flipped, cut, foreign, Path.unlink])
def test_a_damaged_entry_is_made_again(cache: Path, traces: list[str], damage: Callable[[Path], None]) -> None:
    expected = result()
    for kind in ("graph-*", "instructions-*"):
        (entry,) = cache.glob(kind)
        content = read_kept(entry.name)
        damage(entry / CONTENT)
        assert read_kept(entry.name) is None
        np.testing.assert_array_equal(result(), expected)
        assert read_kept(entry.name) == content
    assert traces == ["forward_dynamics"] * 3


@pytest.mark.parametrize("kind", ["graph-*", "instructions-*"])
@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"PK\x03\x04"])
def test_an_entry_of_another_format_is_not_read(cache: Path, traces: list[str], kind: str, content: bytes) -> None:
    expected = result()
    (entry,) = cache.glob(kind)
    (entry / CONTENT).unlink()
    keep(entry.name, content)
    assert read_kept(entry.name) == content
    np.testing.assert_array_equal(result(), expected)


def test_a_changed_source_is_traced_anew(cache: Path, traces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    result()
    with monkeypatch.context() as patch:
        patch.setattr(keys, "source_key", lambda: "another source")
        result()
        assert len(traces) == 2
        patch.setattr(keys, "source_key", lambda: "")
        result()
        assert len(traces) == 3
    assert len([*cache.glob("graph-*")]) == 2
    monkeypatch.setattr(keys, "STARTED", 0.0)
    keys.source_key.cache_clear()
    assert keys.source_key() == ""
    keys.source_key.cache_clear()


def test_a_cache_that_cannot_be_written_changes_nothing(
    cache: Path, traces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = result()
    (cache / "file").write_text("")
    monkeypatch.setenv("DYNAGATE_CACHE", str(cache / "file"))
    np.testing.assert_array_equal(result(), expected)


def test_keys_differ_for_different_requests(cache: Path) -> None:
    robot = robots.load("two_joint_arm")
    link = robot.links[1]
    heavier = Robot(robot.name, (robot.links[0], link.joined(1e-9, (0.0, 0.0, 0.0), link.inertia)))
    requests: list[tuple[object, ...]] = [
        (robot, "forward_dynamics", AlgorithmOptions()),
        (heavier, "forward_dynamics", AlgorithmOptions()),
        (robot.with_friction(), "forward_dynamics", AlgorithmOptions()),
        (robot, "inverse_dynamics", AlgorithmOptions()),
        (robot, "forward_dynamics", AlgorithmOptions(form="aba")),
        (robot, "forward_dynamics", AlgorithmOptions(external_forces=True)),
        (1,),
        (1.0,),
        (True,),
        ("1",),
        ((1,),),
        ("a", "bc"),
        ("ab", "c"),
        (np.zeros(2),),
        (np.zeros((2, 1)),),
        (np.zeros(2, np.float32),),
    ]
    made = [request_key(*request) for request in requests]
    assert all(made)
    assert len(set(made)) == len(requests)
    assert made == [request_key(*request) for request in requests]
    assert request_key(object()) == ""
    assert request_key([object]) == ""
