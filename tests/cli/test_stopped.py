"""A command that is ended by a signal: no folder, no program and no warning stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from dynagate.base.errors import Error
from dynagate.base.process import completed, run
from dynagate.cli import main


def gone(pid: int) -> bool:
    """Whether a process has ended, or waits for its parent to look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in "ZX"
    except OSError:
        return True


HANG = 600
"""Seconds of the clock after which a test gives up: no verdict on a busy machine, only the end of a hang."""


def within(condition: Callable[[], object]) -> bool:
    """Wait for a condition. Return False if it hangs."""
    end = time.monotonic() + HANG
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def children(pid: int) -> set[int]:
    """Of a process and of its children, all of them."""
    own = {int(each) for path in Path(f"/proc/{pid}/task").glob("*/children") for each in path.read_text().split()}
    return own.union(*map(children, own))


def started(command: str, folder: Path) -> subprocess.Popen[str]:
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from dynagate.cli import main; "
    return subprocess.Popen(
        [sys.executable, "-c", f"{program} main({command.split()})"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(folder)},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_stopped_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """Stopped while Yosys runs in a process of its own, whose input lies in a temporary folder."""
    with started("synth two_joint_arm --function mass_matrix --folder designs", tmp_path) as process:
        assert within(lambda: children(process.pid))
        programs = children(process.pid)
        process.send_signal(number)
        _, messages = process.communicate(timeout=HANG)
    assert process.returncode == (1 if number == signal.SIGINT else 128 + number), messages
    assert "Traceback" not in messages
    assert {path.name for path in tmp_path.iterdir()} <= {"designs"}
    assert within(lambda: all(map(gone, programs)))


def test_what_a_program_has_started_ends_with_it(tmp_path: Path) -> None:
    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(KeyboardInterrupt):
            completed(["sh", "-c", "sleep 60 & echo $! > pid; wait"], cwd=tmp_path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert within(lambda: gone(int((tmp_path / "pid").read_text())))


def test_no_hardware_that_nobody_made_is_listed(tmp_path: Path) -> None:
    with started("run two_joint_arm --folder designs", tmp_path) as process:
        assert process.stderr is not None
        while "Amaranth: datapath" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=HANG)
    assert messages == "Error: interrupted\n"
    assert not list((tmp_path / "designs").glob("*"))


def test_a_program_says_how_it_ended(tmp_path: Path) -> None:
    done = completed(["sh", "-c", "echo out; echo err >&2; exit 3"], cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    with pytest.raises(Error, match=r"sh failed with status 3: \[DG-SYSTEM-006\]\nout"):
        run(["sh", "-c", "echo out; exit 3"], Error)


@pytest.mark.parametrize("status", [0, 3])
def test_bytes_that_are_no_text_are_kept(status: int, tmp_path: Path) -> None:
    """Verilator warns of a cell by a name with such a byte."""
    (tmp_path / "name.py").write_text(
        "import sys\n"
        "for stream in (sys.stdout, sys.stderr):\n"
        r"    stream.buffer.write(b'cell \x964 of \xc2\xb5\n')"
        f"\nsys.exit({status})"
    )
    done = completed([sys.executable, str(tmp_path / "name.py")])
    assert (done.returncode, done.stdout, done.stderr) == (status, "cell \\x964 of µ\n", "cell \\x964 of µ\n")
    if status:
        with pytest.raises(Error, match=r"cell \\x964 of µ"):
            run([sys.executable, str(tmp_path / "name.py")], Error)


def test_handlers_are_there_while_a_command_runs_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    CliRunner().invoke(main, ["info", "nope"])
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_program_that_does_not_start_is_named(tmp_path: Path) -> None:
    """As a script of an environment that has moved: it is there, and the Python of its first line is not."""
    script = tmp_path / "tool"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)
    with pytest.raises(Error, match=rf"{script} does not start \(No such file or directory\); expected a program that"):
        run([str(script)], Error)
