"""Run the cases of a kind in one process: `python -m tests.hostile.batch KIND SEED COUNT FOLDER`.

Each case prints two lines of JSON: its description before it runs, so that a crash has a name, and its ending after.
"""

from __future__ import annotations

import json
import random
import resource
import signal
import sys
import time
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

from tests.hostile.cases import KINDS, Wrong

CPU_SECONDS = 10
"""Processor time that a case may take."""
MEMORY = 6 * 2**30
"""Bytes of address space of the process."""


class TooLong(BaseException):
    """A case took more than CPU_SECONDS."""


def stop(number: int, frame: FrameType | None) -> None:
    raise TooLong


def ended(run: Any) -> tuple[str, str]:
    """Return how a case ends: "refused", "right", "wrong", "foreign" or "long", and the text of it."""
    from dynagate import Error

    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        run()
    except Error as error:
        return "refused", str(error)[:200]
    except Wrong as error:
        return "wrong", str(error)[:200]
    except TooLong:
        return "long", ""
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = "" if trace is None else f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        return "foreign", f"{type(error).__name__}: {error}"[:200] + place
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "right", ""


def main(kind: str, seed: int, count: int, folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, stop)
    warnings.simplefilter("ignore")
    draw = KINDS[kind](folder)
    for k in range(count):
        what, run = draw(random.Random(f"{kind} {seed} {k}"), k)
        print(json.dumps({"case": k, "what": what[:300]}), flush=True)
        began = time.process_time()
        ending, text = ended(run)
        seconds = time.process_time() - began
        print(json.dumps({"case": k, "ending": ending, "text": text, "seconds": round(seconds, 3)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
