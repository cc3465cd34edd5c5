"""The C that fills streams and numpy refuse the same inputs."""

from __future__ import annotations

from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import Region, robots
from dynagate.host.words import StreamWords
from dynagate.hw.rtl.axi import Axi

ARM = robots.load("two_joint_arm")


@pytest.mark.parametrize("native", [False, True])
def test_a_rounding_step_more_than_the_range(native: bool, tmp_path: Path) -> None:
    built = dynagate.build(ARM, "mass_matrix", ii=16, region=Region.of(ARM), axi=Axi(32), folder=tmp_path)
    assert built.design.axi is not None
    words = StreamWords(built.design, built.design.axi, native=native)
    assert (words.functions is not None) == native
    field = built.design.input.fields[1]
    samples = np.zeros((1, *(built.design.axi.beats.input, built.design.axi.lanes)), np.uint32)
    for bound, out in zip(field.range, (-1.0, 1.0), strict=True):
        words.fill({"q": np.array([[0.0, bound + out * field.format.step]])}, samples)
        for steps in (1.5, 3.5):
            with pytest.raises(ValueError, match=r"input 'q' is .* at \(0, 1\); the formats were chosen for"):
                words.fill({"q": np.array([[0.0, bound + steps * out * field.format.step]])}, samples)
