"""Tiers of device "cpu": the same bits from the interpreter and from compiled C, and numpy without a compiler."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate.host.devices import tiers
from dynagate.native import interpreted, kernel
from dynagate.native.compile import CompileError, CompileWarning

STATES = np.random.default_rng(3).uniform(-1.0, 1.0, (3, 50, 2))


def opened(tier: str, **options: Any) -> Any:
    """Forward dynamics of the arm on a tier."""
    return dynagate.compile("two_joint_arm", "forward_dynamics", tier=tier, **options)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event before which the compiler does not begin."""
    event, compiled = threading.Event(), kernel.compiled_code

    def late(*args: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            event.wait(60)
        return compiled(*args)

    monkeypatch.setattr(
        kernel.Kernel.__init__, "__kwdefaults__", {**kernel.Kernel.__init__.__kwdefaults__, "code": late}
    )
    return event


@pytest.mark.parametrize("layout", ["rows", "planes"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tiers_have_the_same_bits(dtype: str, layout: str) -> None:
    states = [np.asarray(x, dtype) for x in STATES]
    with (
        opened("compiled", dtype=dtype, layout=layout) as expected,
        opened("interpreted", dtype=dtype, layout=layout) as f,
    ):
        assert (expected.device.tier, f.device.tier) == ("compiled", "interpreted")
        assert "interpreter, " in repr(f)
        np.testing.assert_array_equal(f(*states).qdd, expected(*states).qdd)
        np.testing.assert_array_equal(f(*(x[0] for x in states)).qdd, expected(*states).qdd[0])


def test_auto_answers_at_once_and_changes_between_calls(waiting: threading.Event) -> None:
    with opened("auto") as f:
        bound, first, single = f.bind(*STATES), f(*STATES).qdd.copy(), f(*STATES[:, 0]).qdd.copy()
        assert f.device.tier == "interpreted"
        np.testing.assert_array_equal(bound().qdd, first)
        waiting.set()
        end = time.monotonic() + 60
        while f.device.tier == "interpreted" and time.monotonic() < end:  # until a call makes the change
            np.testing.assert_array_equal(bound().qdd, first)
        assert f.device.tier == "compiled"
        assert "C, float64" in repr(f)
        for _ in range(2):
            np.testing.assert_array_equal(bound().qdd, first)
            np.testing.assert_array_equal(f(*STATES).qdd, first)
            np.testing.assert_array_equal(f(*STATES[:, 0]).qdd, single)


def test_a_function_closed_before_the_compiler_is_done(waiting: threading.Event) -> None:
    f = opened("auto", threads=2)
    f.close()
    waiting.set()
    f.device.wait()
    assert f.device.tier == "interpreted"


def test_a_compiler_that_fails_leaves_the_interpreter_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any) -> None:
        raise CompileError("cc: out of memory")

    monkeypatch.setattr(
        kernel.Kernel.__init__, "__kwdefaults__", {**kernel.Kernel.__init__.__kwdefaults__, "code": failing}
    )
    with opened("auto") as f:
        with pytest.warns(CompileWarning, match="the interpreter computes forward_dynamics: cc: out of memory"):
            f.device.wait()
        assert f.device.tier == "interpreted"
        assert np.isfinite(f(*STATES).qdd).all()


def test_wrong_numbers_are_refused_by_name() -> None:
    with opened("interpreted") as f:
        for value in (np.nan, np.inf):
            bad = STATES.copy()
            bad[2, 7, 1] = value
            with pytest.raises(ValueError, match=rf"input 'tau' is {value} at \(7, 1\)"):
                f(*bad)


@pytest.mark.parametrize("tier", ["interpreted", "auto"])
def test_pickles_and_copies_keep_the_tier(tier: str) -> None:
    with opened(tier) as f:
        for other in (pickle.loads(pickle.dumps(f)), copy.copy(f)):
            np.testing.assert_array_equal(other(*STATES).qdd, f(*STATES).qdd)
            assert isinstance(other.device, tiers.InterpretedDevice)
            other.close()


@pytest.mark.parametrize("options", [{}, {"dtype": "float32", "layout": "planes"}])
def test_numpy_computes_where_there_is_no_compiler(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened("compiled") as f:
        expected = f(*STATES).qdd
    monkeypatch.setenv("DYNAGATE_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", str(tmp_path / "no-cc"))
    monkeypatch.setattr(tiers, "loaded", interpreted.loaded.__wrapped__)
    with pytest.warns(
        CompileWarning, match="by numpy in float64, a hundred times as slow as compiled C: no C compiler"
    ):
        f = opened("auto", **options)
    assert f.device.tier == "numpy"
    states = [np.asarray(x, f.dtype) for x in STATES]
    results = f(*states).qdd
    assert results.dtype == f.dtype
    np.testing.assert_allclose(results, expected, rtol=2e-5 if options else 1e-12)
    out = f(*states)
    np.testing.assert_array_equal(f.bind(*states, out=out)().qdd, results)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tier": "fast"}, "tier='fast'.*; expected one of compiled, interpreted, auto"),
        ({"tier": "auto", "form": "scan"}, "form 'scan' takes no option 'tier'"),
        ({"tier": "auto", "device": "numpy"}, "device 'numpy' takes no option 'tier'"),
    ],
)
def test_other_tiers_are_refused_by_name(options: dict[str, Any], text: str) -> None:
    with pytest.raises(dynagate.Error, match=text):
        dynagate.compile("two_joint_arm", "forward_dynamics", **options)
