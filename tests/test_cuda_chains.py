"""Loops over chains in CUDA: their numbers on a host that plays the GPU, that nvcc takes the text, what is refused."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate.chains.batched import ALGORITHMS, ForwardDynamics
from dynagate.chains.gpu import GpuChain, gpu_source
from dynagate.chains.sample import random_chain
from dynagate.graph.truth import relative_errors
from dynagate.native.gpu import GpuError

from tests.test_gpu import ON_HOST, needs_nvcc
from tests.test_parallel import FLOAT32, bound, by_pinocchio, sample

LITTLE = ("-DWORK_BYTES=200000", "-DSAMPLE_BYTES=40000")
"""So little memory that some 70 samples of a few links take several turns, and those of many links a thread each."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpu_chains")


@pytest.fixture
def played(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ForwardDynamics]:
    """Chains on a GPU that the host plays."""
    toolchain = replace(ON_HOST, flags=(*ON_HOST.flags, *LITTLE))
    monkeypatch.setattr("dynagate.native.gpu.has_driver", lambda: True)

    def opened(*arguments: Any, **options: Any) -> GpuChain:
        return GpuChain(*arguments, **{**options, "toolchain": toolchain, "folder": cache})

    monkeypatch.setattr("dynagate.chains.batched.GpuChain", opened)
    return partial(ForwardDynamics, device="cuda")


def live(dynamics: ForwardDynamics) -> int:
    assert dynamics._card is not None
    return int(dynamics._card[1]._functions.cuda_on_host_live())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_card_agrees_with_pinocchio(algorithm: str, played: Callable[..., ForwardDynamics]) -> None:
    for count, batch in ((1, 3), (6, 150), (50, 9)):
        robot, state = random_chain(count, 2), sample(count, batch)
        dynamics = played(robot, algorithm)
        assert relative_errors(dynamics(*state), by_pinocchio(robot, *state)).max() <= bound(count), count
        dynamics.close()


@pytest.mark.parametrize(
    ("algorithm", "dtype", "most"),
    [("aba", np.float32, FLOAT32["aba"]), ("cfa", np.float64, 1e-9)],
)
def test_chains_of_512_links_that_slide_and_have_rotors(
    algorithm: str, dtype: type, most: float, played: Callable[..., ForwardDynamics]
) -> None:
    """As C computes them in float64."""
    robot, state = random_chain(512, 5, prismatic=0.4, armature=0.2), sample(512, 5)
    result = played(robot, algorithm, dtype=dtype)(*state)
    assert result.dtype == dtype
    assert relative_errors(result, ForwardDynamics(robot, algorithm)(*state)).max() <= most


def test_more_samples_than_there_was_room_for(played: Callable[..., ForwardDynamics]) -> None:
    robot, state = random_chain(6, 2), sample(6, 150)
    dynamics = played(robot)
    once = [dynamics(*(values[k : k + 1] for values in state))[0] for k in range(150)]
    np.testing.assert_array_equal(dynamics(*state), once)
    kept = live(dynamics)
    dynamics(*state)
    assert live(dynamics) == kept
    functions = dynamics._card[1]._functions
    dynamics.close()
    closed = functions.cuda_on_host_live()
    assert closed == kept - 7  # four constants, two arrays, a stream
    played(robot)
    assert functions.cuda_on_host_live() == closed  # also when nobody closes it


def test_what_is_not_finite_is_said(played: Callable[..., ForwardDynamics]) -> None:
    q, qd, tau = sample(6, 5)
    tau[2, 1] = np.nan
    with pytest.raises(ValueError, match="aba: an acceleration is not finite; an input is not"):
        played(random_chain(6, 2))(q, qd, tau)


@pytest.mark.parametrize("call", ["cudaMalloc:1", "cudaMalloc:5", "cudaMalloc:6", "cudaMemcpyAsync:2"])
def test_a_card_that_fails_keeps_nothing(
    call: str, played: Callable[..., ForwardDynamics], monkeypatch: pytest.MonkeyPatch
) -> None:
    robot = random_chain(6, 2)
    working = played(robot)
    functions = working._card[1]._functions
    working.close()
    before = functions.cuda_on_host_live()
    monkeypatch.setenv("CUDA_ON_HOST_FAIL", call)
    with pytest.raises(GpuError, match=f"^{call.split(':')[0]}: (out of memory|failed on request)"):
        played(robot)
    assert functions.cuda_on_host_live() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "gpu"}, "device 'gpu'; expected one of cpu, cuda"),
        (
            {"device": "cuda", "dense": "lapack", "algorithm": "jsiia"},
            "dense solver 'lapack' on device 'cuda'; expected 'ldl', which runs in the same loops",
        ),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ForwardDynamics(random_chain(2, 1), **options)


def test_a_machine_without_a_card(played: Callable[..., ForwardDynamics], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_ON_HOST_CARDS", "0")
    with pytest.raises(GpuError, match="cudaGetDeviceCount: no CUDA-capable device is detected"):
        played(random_chain(6, 2))
    monkeypatch.setattr("dynagate.native.gpu.has_driver", lambda: False)
    with pytest.raises(GpuError, match="device 'cuda' needs an NVIDIA GPU and its driver, .*; expected 'cpu'"):
        played(random_chain(6, 2))


@needs_nvcc
@pytest.mark.parametrize("algorithm", ["jsiia", *(pytest.param(a, marks=pytest.mark.long) for a in ("aba", "cfa"))])
def test_nvcc_takes_it(algorithm: str, tmp_path: Path) -> None:
    source = gpu_source(algorithm, False)
    for name, text in source.files.items():
        (tmp_path / name).write_text(text)
    command = [shutil.which("nvcc") or "nvcc", "-c", "-std=c++17", "-arch=sm_90", tmp_path / f"{source.name}.cu"]
    done = subprocess.run([*command, "-o", tmp_path / "chain.o"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
