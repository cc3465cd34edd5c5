"""`dynagate.open` under the real pynq.remote, with the board's server as a model. Run by an environment's own Python.

Arguments: the board's name, a project's folder with bitstream and .hwh, its compiled accelerator, and an .npz with
inputs and the results they should have.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ADDRESS = "127.0.0.1"
os.environ["PYNQ_REMOTE_DEVICES"] = ADDRESS  # before pynq looks for devices

import dynagate  # noqa: E402
import numpy as np  # noqa: E402
import pynq  # noqa: E402
from dynagate.design.files import load  # noqa: E402
from dynagate.host.sim_links import SimShellLink  # noqa: E402

from tests.standins.board import Board  # noqa: E402
from tests.standins.pynq_remote import Server  # noqa: E402

PORT = 7967  # pynq's


def main(name: str, folder: str, library: str, states: str) -> None:
    data = dict(np.load(states))
    expected = data.pop("expected")
    board = Board(SimShellLink(Path(library), load(folder)))
    with (
        Server(name, board, f"{ADDRESS}:{PORT}") as server,
        dynagate.open(folder, device="board", link=f"pynq:{folder}/accelerator.bit") as accelerator,
    ):
        assert "/lib/firmware/accelerator.bin" in server.files
        for count in (1, 7, len(expected)):
            part = {name: value[:count] for name, value in data.items()}
            np.testing.assert_array_equal(accelerator(**part).qdd, expected[:count])
        with accelerator.stream() as stream:
            for results in stream([data] * 2):
                np.testing.assert_array_equal(results.qdd, expected)
    version = ".".join(map(str, sys.version_info[:2]))
    print("right", pynq.__version__, np.__version__, version)


if __name__ == "__main__":
    main(*sys.argv[1:])
