"""Forward dynamics of chains in float32 tells where it is too inexact."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from dynagate.chains.batched import ForwardDynamics, InexactWarning
from dynagate.chains.sample import random_chain


def test_float32_of_long_chains_is_warned_of() -> None:
    chain = random_chain(200, 11, prismatic=0.4, armature=0.2)
    with pytest.warns(
        InexactWarning, match=r"cfa in float32 errs by \d\S* of .* 200 links; expected at most 0.01: take"
    ):
        ForwardDynamics(chain, "cfa", dtype=np.float32)


def test_other_chains_and_types_are_not_warned_of() -> None:
    chain = random_chain(200, 11, prismatic=0.4, armature=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ForwardDynamics(chain, "aba", dtype=np.float32)
        ForwardDynamics(chain, "cfa")
        ForwardDynamics(random_chain(10, 11), "cfa", dtype=np.float32)
