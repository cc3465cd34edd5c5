"""What a terminal shows while something takes a while, and what a log says of it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from dynagate.base.progress import ProgressLine, quiet, showing
from dynagate.cli.progress import TerminalProgress as Lasting

COMPILE = "import dynagate; dynagate.compile('two_joint_arm', 'mass_matrix')"
ROLLOUT = "import dynagate; dynagate.Rollout('two_joint_arm', steps=2, dt=0.01)"
STEPS = """
import time
from dynagate.base.progress import ProgressLine
with ProgressLine() as progress:
    progress("quick")
    time.sleep(0.1)
    progress("slow")
    time.sleep(2.6)
"""


def on_a_terminal(code: str, **environment: str) -> str:
    """What Python code prints on stderr, which is a terminal."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with subprocess.Popen([sys.executable, "-c", code], stderr=end, env={**os.environ, **environment}) as process:
        os.close(end)
        parts = []
        while True:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # the other end has closed
                break
            if not part:
                break
            parts.append(part)
    os.close(terminal)
    assert process.returncode == 0
    return b"".join(parts).decode()


def slow_compiler(folder: Path) -> str:
    """A C compiler that takes its time."""
    path = folder / "cc"
    path.write_text('#!/bin/sh\ncase "$*" in *-shared*) sleep 2.6;; esac\nexec cc "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_a_terminal_shows_what_takes_longer_than_a_second() -> None:
    text = on_a_terminal(STEPS)
    assert "quick" not in text
    assert re.search(r"slow +00:0[12]", text)
    assert text.endswith("\r")  # nothing is left of the line
    assert not text.split("\r")[-2].strip()


@pytest.mark.parametrize(
    ("code", "text"), [(COMPILE, "C compiler: kernel"), (ROLLOUT, "compiling two_joint_arm rollout")]
)
def test_nothing_is_silent_for_long(code: str, text: str, tmp_path: Path) -> None:
    cache = {"CC": slow_compiler(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "DYNAGATE_CACHE": str(tmp_path / "cache")}
    assert text in on_a_terminal(code, **cache)


def test_a_log_is_left_alone_by_calls(capsys: pytest.CaptureFixture[str]) -> None:
    with showing() as progress:
        assert progress is quiet
    told: list[str] = []
    with showing(told.append) as progress:
        progress("here")
    with ProgressLine() as line:
        line("there")
    assert told == ["here"]
    assert capsys.readouterr().err == ""
    assert [text for text, _ in line.took] == ["there"]


def test_a_log_of_a_command_ends_with_the_seconds_of_each_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, 1.25, 1.25, 4.0])
    monkeypatch.setattr("dynagate.base.progress.time.monotonic", lambda: next(now))
    with Lasting() as progress:
        progress("tracing")
        progress("C++ compiler: model")
    assert (
        capsys.readouterr().err
        == "  tracing\n  C++ compiler: model\n  took: tracing 1.2 s, C++ compiler: model 2.8 s\n"
    )
    now = iter([0.0, *[k // 2 / 2 for k in range(2, 60)], 99.0])
    with Lasting() as progress:
        for step in range(30):
            progress(f"form {step}")
    names = ", ".join(f"form {step} 0.5 s" for step in range(22, 29))
    assert capsys.readouterr().err.splitlines()[-1] == f"  took: {names}, form 29 84.5 s, others 11.0 s"
