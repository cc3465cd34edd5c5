"""The GPU's host side: on a host that plays the GPU (cuda_on_host), by nvcc, and what it says where there is no card.

With a card, the tests that need one run too.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import RigidContact, evaluate, robots, trace
from dynagate.forces import Plane, Point
from dynagate.graph import Graph
from dynagate.graph.reference_gradient import relative_errors
from dynagate.host import DeviceError, Results
from dynagate.host.inputs import LARGEST_ANGLE
from dynagate.native.arrays import new_arrays
from dynagate.native.compile import CompileError
from dynagate.native.gpu import GpuError, GpuKernel
from dynagate.robot.random_chain import random_chain

from tests import tolerances
from tests.played_card import ON_HOST, OnGpu, live, needs_none, needs_nvcc, play_card
from tests.samples import inputs_of, states

ROBOT = "two_joint_arm"
NAME = "forward_dynamics_gradient"


@pytest.fixture
def opened(cache: Path) -> Callable[..., GpuKernel]:
    def make(graph: Graph, dtype: Any = np.float64, **options: Any) -> GpuKernel:
        return GpuKernel(graph, dtype, folder=cache, toolchain=ON_HOST, **options)

    return make


def arm(batch: int) -> tuple[Graph, dict[str, np.ndarray]]:
    robot = robots.load(ROBOT)
    return trace(robot, NAME), inputs_of(NAME, states(robot, batch, seed=3))


class Flagged(OnGpu):
    """An array whose interface has other entries."""

    def __init__(self, array: np.ndarray, **entries: Any) -> None:
        super().__init__(array)
        self.entries = entries

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**super().__cuda_array_interface__, **self.entries}


def test_masks_and_results_that_are_read_only_are_refused(opened: Callable[..., GpuKernel]) -> None:
    graph, inputs = arm(3)
    kernel = opened(graph)
    there: dict[str, Any] = {name: OnGpu(array) for name, array in inputs.items()}
    results = {port.name: np.full((3, *port.shape), np.nan) for port in graph.outputs}
    out = {name: OnGpu(array) for name, array in results.items()}
    read = {name: Flagged(x, data=(x.ctypes.data, True)) for name, x in inputs.items()}
    name, result = next(iter(results.items()))
    masked = {**there, "q": Flagged(inputs["q"], mask=OnGpu(inputs["q"] > 0.0))}
    with pytest.raises(ValueError, match="a Flagged on a GPU has a mask; expected an array without one"):
        kernel.launch(masked, out)
    with pytest.raises(ValueError, match=rf"out\.{name} is read-only; expected an array to write to"):
        kernel.launch(there, {**out, name: Flagged(result, data=(result.ctypes.data, True))})
    assert np.isnan(result).all()
    kernel.launch(read, out)
    kernel.close()


def test_a_launch_waits_for_the_streams_of_its_arrays(opened: Callable[..., GpuKernel]) -> None:
    """The numbers of q arrive when their stream is waited for; so does what another library writes to a result."""
    graph, inputs = arm(3)
    kernel = opened(graph)
    queued, destroy = kernel._functions.cuda_on_host_queued, kernel._functions.cuda_on_host_destroy
    queued.argtypes, queued.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_void_p
    destroy.argtypes, destroy.restype = [ctypes.c_void_p], None
    expected = evaluate(graph, inputs)
    late = np.full_like(inputs["q"], np.nan)
    results = {port.name: np.full((3, *port.shape), np.nan) for port in graph.outputs}
    name, old = next(iter(results.items()))
    stale = np.full_like(old, 7.0)
    streams = [queued(a.ctypes.data, b.ctypes.data, b.nbytes) for a, b in ((late, inputs["q"]), (old, stale))]
    there = {**{key: Flagged(x, stream=1) for key, x in inputs.items()}, "q": Flagged(late, stream=streams[0])}
    kernel.launch(there, {key: Flagged(x, stream=streams[1] if key == name else None) for key, x in results.items()})
    for each in streams:
        kernel._functions.dynagate_cuda_wait(kernel._context, each)
        destroy(each)
    for key, value in expected.items():
        np.testing.assert_allclose(results[key], value, rtol=1e-9, atol=1e-12)
    out = {key: OnGpu(x) for key, x in results.items()}
    for wrong in (-1, 2**64, 1.0, "1", np.zeros(2)):
        with pytest.raises(
            ValueError, match="a Flagged on a GPU has stream .*; expected None or a cudaStream_t's number"
        ):
            kernel.launch({**there, "q": Flagged(late, stream=wrong)}, out)
    kernel.close()
    assert live(kernel) == 0


@pytest.mark.parametrize("layout", ["rows", "planes"])
@pytest.mark.parametrize("batch", [1, 33, 16_384, 40_000])  # chunks are of 16,384 rows
def test_host_arrays_pass_in_chunks(batch: int, layout: str, opened: Callable[..., GpuKernel]) -> None:
    graph, inputs = arm(batch)
    kernel = opened(graph, layout=layout)
    shapes = {port.name: (*port.shape, batch) if layout == "planes" else (batch, *port.shape) for port in graph.outputs}
    outputs = {name: np.full(shape, np.nan) for name, shape in shapes.items()}
    if layout == "planes":
        outputs = {name: np.moveaxis(array, -1, 0) for name, array in outputs.items()}
    for _ in range(2):
        kernel(inputs, outputs)
        for name, value in evaluate(graph, inputs).items():
            np.testing.assert_allclose(outputs[name], value, rtol=1e-9, atol=1e-12)
    kernel.close()
    kernel.close()
    assert live(kernel) == 0
    with pytest.raises(GpuError, match=f"the kernel of {NAME} is closed"):
        kernel(inputs, outputs)


@pytest.mark.parametrize("layout", ["rows", "planes"])
def test_entries_that_are_always_zero_are_zero(layout: str, opened: Callable[..., GpuKernel]) -> None:
    """Whatever a chunk held before: the last one of a batch has fewer rows, and its planes lie elsewhere."""
    robot = robots.load("hyq")
    graph = trace(robot, "mass_matrix")
    kernel = opened(graph, layout=layout)
    for batch in (40_000, 40, 20_000):
        inputs = kernel.new_inputs(batch)
        inputs["q"][...] = inputs_of("mass_matrix", states(robot, batch, seed=4))["q"]
        outputs = new_arrays(graph.outputs, np.dtype(np.float64), layout, batch)
        outputs["m"].fill(np.nan)
        kernel(inputs, outputs)
        expected = evaluate(graph, inputs)["m"]
        assert np.array_equal(outputs["m"] == 0.0, expected == 0.0)
        np.testing.assert_allclose(outputs["m"], expected, rtol=1e-12)
    kernel.close()


def test_large_results_lie_in_memory_that_is_used_again(opened: Callable[..., GpuKernel]) -> None:
    graph, inputs = arm(40_000)
    kernel = opened(graph)
    given_out = live(kernel)
    expected = evaluate(graph, inputs)

    def computed() -> dict[str, np.ndarray]:
        outputs = kernel.new_outputs(40_000)
        kernel(inputs, outputs)
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], value, rtol=1e-9, atol=1e-12)
        return outputs

    first = computed()
    addresses = {array.ctypes.data for array in first.values()}
    assert live(kernel) == given_out + len(first)
    second = computed()
    assert addresses.isdisjoint(array.ctypes.data for array in second.values())
    part = first["qdd"][5:9]  # keeps its memory
    kept = part.copy()
    del first
    third = computed()
    assert len(addresses.intersection(array.ctypes.data for array in third.values())) == len(third) - 1
    assert np.array_equal(part, kept)
    assert live(kernel) == given_out + 2 * len(third) + 1
    kernel.close()
    del part, second, third
    assert live(kernel) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_device_refuses_what_it_cannot_compute(dtype: type, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_card(monkeypatch, cache)
    _, inputs = arm(50)
    largest, speed = LARGEST_ANGLE[np.dtype(dtype)], 1e160 if dtype is np.float64 else 1e20
    accelerator = dynagate.compile(robots.load(ROBOT), "forward_dynamics_gradient", device="cuda", dtype=dtype)
    expected = accelerator(**inputs).qdd
    for name, value, message in (
        ("qd", np.nan, r"input 'qd' is nan at \(7, 1\); expected finite numbers"),
        ("q", -largest, r"input 'q' is .* at \(7, 1\); expected angles below \d+ rad for float"),
        ("qd", speed, r"output 'qdd' is .* at \(7, 0\): values became too large for float"),
    ):
        bad = {**inputs, name: inputs[name].copy()}
        bad[name][7, 1] = value
        with pytest.raises(ValueError, match=message):
            accelerator(**bad)
    assert np.array_equal(accelerator(**inputs).qdd, expected)
    kernel = accelerator.device.kernel
    accelerator.close()
    assert live(kernel) == 0
    with pytest.raises(DeviceError, match="CUDA, .*, card 0> is closed; open it again"):
        accelerator(**inputs)


def test_an_empty_batch_is_no_work(opened: Callable[..., GpuKernel]) -> None:
    graph, inputs = arm(1)
    kernel = opened(graph)
    empty = {name: value[:0] for name, value in inputs.items()}
    outputs = {port.name: np.zeros((0, *port.shape)) for port in graph.outputs}
    kernel(empty, outputs)
    kernel.launch({name: OnGpu(value) for name, value in empty.items()}, {k: OnGpu(v) for k, v in outputs.items()})
    kernel.close()


@pytest.mark.parametrize("layout", ["rows", "planes"])
def test_arrays_on_the_gpu_stay_there(layout: str, opened: Callable[..., GpuKernel]) -> None:
    graph, inputs = arm(50)
    kernel = opened(graph, layout=layout)

    def there(array: np.ndarray) -> OnGpu:
        return OnGpu(array if layout == "rows" else np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, -1)), -1, 0))

    given = {name: there(value) for name, value in inputs.items()}
    out = {port.name: there(np.zeros((50, *port.shape))) for port in graph.outputs}
    assert kernel.launch(given, out) == out
    for name, value in evaluate(graph, inputs).items():
        assert relative_errors(out[name].array, value).max() <= tolerances.SAME_FORMULA
    wrong = np.zeros((50, 2), np.float32)
    with pytest.raises(ValueError, match=r"input 'qd' is float32 \(50, 2\); expected float64 \(50, 2\)"):
        kernel.launch({**given, "qd": there(wrong)}, out)
    with pytest.raises(ValueError, match=r"out.qdd is float64 \(50, 3\); expected float64 \(50, 2\)"):
        kernel.launch(given, {**out, "qdd": there(np.zeros((50, 3)))})
    with pytest.raises(ValueError, match=f"input 'tau' does not lie in {layout} without gaps"):
        kernel.launch({**given, "tau": OnGpu(np.zeros((50, 4))[:, ::2])}, out)
    with pytest.raises(TypeError, match="a ndarray among arrays on a GPU; expected all of them there"):
        kernel.launch({**given, "tau": inputs["tau"]}, out)
    kernel.close()


class LikeCupy(OnGpu):
    """An array as CuPy's is read."""

    __module__ = "cupy"

    @property
    def data(self) -> SimpleNamespace:
        return SimpleNamespace(ptr=self.array.ctypes.data)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.array.strides


@pytest.mark.parametrize("kind", [OnGpu, LikeCupy])
@pytest.mark.parametrize("layout", ["rows", "planes"])
@pytest.mark.parametrize("leading", [(), (30,), (2, 3, 5)])
def test_bound_launches_read_and_write_the_same_arrays(
    leading: tuple[int, ...], layout: str, kind: type[OnGpu], opened: Callable[..., GpuKernel]
) -> None:
    graph, inputs = arm(int(np.prod(leading)))
    kernel = opened(graph, layout=layout)

    def there(array: np.ndarray) -> OnGpu:
        """Rows as they are; of planes the leading axes are the inner ones."""
        array = array.reshape(*leading, *array.shape[1:])
        axes = len(leading)
        order = [*range(axes, array.ndim), *range(axes)]
        return kind(array.copy() if layout == "rows" else array.transpose(order).copy().transpose(np.argsort(order)))

    given = {name: there(value) for name, value in inputs.items()}
    out = {port.name: there(np.zeros((len(inputs["q"]), *port.shape))) for port in graph.outputs}
    results, launch = kernel.bound(given, out)
    assert results == out
    for _ in range(2):
        launch()
        expected = evaluate(graph, {name: value.array.reshape(-1, 2) for name, value in given.items()})
        for name, value in expected.items():
            assert out[name].array.shape == (*leading, *value.shape[1:])
            assert relative_errors(out[name].array.reshape(value.shape), value).max() <= tolerances.SAME_FORMULA
            out[name].array.fill(np.nan)
        given["q"].array += 0.5  # the same array with other numbers
    with pytest.raises(ValueError, match=r"input 'tau' is float64 \(7, 2\); expected float64 "):
        kernel.bound({**given, "tau": kind(np.zeros((7, 2)))}, out)
    kernel.close()
    for call in (launch, partial(kernel.launch, given, out)):
        with pytest.raises(GpuError, match=f"the kernel of {NAME} is closed"):
            call()


@pytest.mark.parametrize("leading", [(), (4,), (2, 3)])
def test_an_accelerator_binds_arrays_on_a_gpu(
    leading: tuple[int, ...], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_card(monkeypatch, cache)
    graph, inputs = arm(int(np.prod(leading)))
    given = {name: LikeCupy(value.reshape(*leading, 2)) for name, value in inputs.items()}
    arrays = {port.name: LikeCupy(np.zeros((*leading, *port.shape))) for port in graph.outputs}
    out = Results(**arrays)
    accelerator = dynagate.compile(robots.load(ROBOT), "forward_dynamics_gradient", device="cuda", dtype=np.float64)
    run = accelerator.bind(out=out, **given)
    assert run() is out
    for name, value in evaluate(graph, inputs).items():
        assert relative_errors(arrays[name].array.reshape(value.shape), value).max() <= tolerances.SAME_FORMULA
    assert re.fullmatch(r"<Results qdd \(.*\), .*; float64>", repr(out))
    with pytest.raises(AttributeError, match="no result 'overflow'"):
        out.overflow  # noqa: B018
    accelerator.close()
    with pytest.raises(DeviceError, match="is closed; open it again"):
        run()


@pytest.mark.parametrize(("given", "made"), [("torch", "torch"), ("cupy._core", "cupy"), ("jaxlib._jax", "cupy")])
def test_new_results_are_pytorchs_or_cupys(
    given: str, made: str, opened: Callable[..., GpuKernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    def empty(shape: Any, dtype: Any, device: str = "") -> OnGpu:
        assert device == ("cuda:1" if made == "torch" else "")
        return OnGpu(np.full(shape, np.nan, dtype))

    module = ModuleType(made)
    module.empty = empty  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, made, module)
    kind = type("Kind", (OnGpu,), {"__module__": given, "device": "cuda:1"})
    graph, inputs = arm(7)
    kernel = opened(graph)
    on_the_card = {name: kind(value) for name, value in inputs.items()}
    found = kernel.launch(on_the_card, None)
    for name, value in evaluate(graph, inputs).items():
        assert relative_errors(found[name].array, value).max() <= tolerances.SAME_FORMULA
    monkeypatch.setitem(sys.modules, "cupy", None)
    if made == "cupy":
        with pytest.raises(TypeError, match="new results for a Kind on a GPU are CuPy's, which is not installed"):
            kernel.launch(on_the_card, None)
    kernel.close()


CALLS = [
    ("cudaStreamCreateWithFlags", 2),
    ("cudaMalloc", 3),
    ("cudaMallocHost", 2),
]


@pytest.mark.parametrize(("call", "count"), CALLS)
def test_a_failed_opening_is_named_and_gives_everything_back(
    call: str, count: int, opened: Callable[..., GpuKernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, _ = arm(1)
    probe = opened(graph)
    probe.close()
    monkeypatch.setenv("CUDA_ON_HOST_FAIL", f"{call}:{count}")
    expected = "out of memory" if "Malloc" in call else "failed on request"
    with pytest.raises(GpuError, match=f"{call}: {expected}"):
        opened(graph)
    assert live(probe) == 0


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("cudaMemsetAsync", 1),
        ("cudaMemcpyAsync", 2),
        ("cudaMemcpyAsync", 5),
        ("cudaGetLastError", 2),
        ("cudaStreamSynchronize", 1),
    ],
)
def test_a_failed_call_is_named_and_the_next_one_is_right(
    call: str, count: int, opened: Callable[..., GpuKernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, inputs = arm(40_000)
    kernel = opened(graph)
    outputs = {port.name: np.zeros((40_000, *port.shape)) for port in graph.outputs}
    kernel(inputs, outputs)
    monkeypatch.setenv("CUDA_ON_HOST_FAIL", f"{call}:{count}")
    with pytest.raises(GpuError, match=f"{call}: failed on request"):
        kernel(inputs, outputs)
    monkeypatch.delenv("CUDA_ON_HOST_FAIL")
    whole = {name: np.full_like(array, 7.0) for name, array in outputs.items()}
    fewer = {name: value[:33] for name, value in inputs.items()}
    kernel(fewer, {name: array[:33] for name, array in whole.items()})
    kernel.close()
    for name, value in evaluate(graph, fewer).items():
        np.testing.assert_allclose(whole[name][:33], value, rtol=1e-9, atol=1e-12)
        assert np.all(whole[name][33:] == 7.0)  # nothing of the chunks that were under way


def test_missing_cards_are_named(opened: Callable[..., GpuKernel], monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = arm(1)
    with pytest.raises(GpuError, match="cudaSetDevice: invalid device ordinal"):
        opened(graph, device=3)
    monkeypatch.setenv("CUDA_ON_HOST_CARDS", "0")
    with pytest.raises(GpuError, match="cudaGetDeviceCount: no CUDA-capable device is detected"):
        opened(graph)
    with pytest.raises(ValueError, match="dtype int32; expected float32 or float64"):
        opened(graph, np.int32)


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC", "no-such-nvcc")
    with pytest.raises(CompileError, match="no CUDA compiler 'no-such-nvcc' on the path; expected nvcc"):
        dynagate.compile(robots.load(ROBOT), "forward_dynamics_gradient", device="cuda")


def test_other_devices_refuse_arrays_on_a_gpu() -> None:
    robot = robots.load(ROBOT)
    given = {name: OnGpu(value) for name, value in arm(3)[1].items()}
    with dynagate.compile(robot, "forward_dynamics_gradient", device="cpu") as accelerator:
        with pytest.raises(TypeError, match="C, float64, 1 thread takes arrays in host memory; expected numpy arrays"):
            accelerator(**given)
        with pytest.raises(ValueError, match="input 'tau' is missing"):
            accelerator(q=given["q"], qd=given["qd"])


@needs_nvcc
@needs_none
def test_a_machine_without_a_card_is_named() -> None:
    """By the real runtime: nvcc makes the library, and the driver or a card is what is missing."""
    with pytest.raises(DeviceError, match=r"GPU 0: cudaGetDeviceCount: .*CUDA"):
        dynagate.compile(robots.load(ROBOT), "forward_dynamics_gradient", device="cuda")


@needs_nvcc
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["rows", "planes"])
@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("robot", robots.names())
def test_a_card_equals_the_graph(robot: str, pack: bool, layout: str, dtype: type) -> None:
    loaded = robots.load(robot)
    inputs = inputs_of(NAME, states(loaded, 40_000, seed=5))
    expected = evaluate(trace(loaded, NAME), inputs)
    bound = tolerances.FLOAT32 if dtype is np.float32 else tolerances.SAME_FORMULA
    with dynagate.compile(
        loaded, "forward_dynamics_gradient", device="cuda", dtype=dtype, layout=layout, pack=pack
    ) as accelerator:
        results = accelerator(**inputs)
        results = accelerator.unpack(results) if pack else results
        for name, value in expected.items():
            assert relative_errors(getattr(results, name), value).max() <= bound, name


@needs_nvcc
@pytest.mark.gpu
def test_cupy_arrays_streams_and_graphs() -> None:
    cupy = pytest.importorskip("cupy")
    robot = robots.load("iiwa14")
    inputs = inputs_of(NAME, states(robot, 5000, seed=6))
    expected = evaluate(trace(robot, NAME), inputs)
    stream = cupy.cuda.Stream(non_blocking=True)
    with (
        stream,
        dynagate.compile(
            robot, "forward_dynamics_gradient", device="cuda", dtype=np.float64, stream=stream.ptr
        ) as accelerator,
    ):
        given = {name: cupy.asarray(value) for name, value in inputs.items()}
        results = accelerator(**given)
        for name, value in expected.items():
            assert relative_errors(cupy.asnumpy(getattr(results, name)), value).max() <= tolerances.SAME_FORMULA
        stream.begin_capture()
        accelerator(out=results, **given)
        graph = stream.end_capture()
        for name in expected:
            getattr(results, name)[...] = 0.0
        graph.launch(stream)
        stream.synchronize()
        for name, value in expected.items():
            assert relative_errors(cupy.asnumpy(getattr(results, name)), value).max() <= tolerances.SAME_FORMULA


class ByDlpackAlone:
    """An array that lies on a GPU and says so by DLPack, as those of libraries without the CUDA array interface do."""

    def __init__(self, array: Any) -> None:
        self.__dlpack__, self._array = array.__dlpack__, array

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


@needs_nvcc
@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["rows", "planes"])
def test_torch_tensors_and_dlpack_go_in_and_out_without_copies(layout: str) -> None:
    torch = pytest.importorskip("torch")
    robot = robots.load("iiwa14")
    inputs = inputs_of(NAME, states(robot, 3000, seed=7))
    expected = evaluate(trace(robot, NAME), inputs)

    def on_the_card(value: np.ndarray) -> Any:
        if layout == "rows":
            return torch.tensor(value, device="cuda")
        inner = torch.tensor(np.moveaxis(value, 0, -1).copy(), device="cuda")
        return torch.movedim(inner, -1, 0)

    def compare(results: Any) -> None:
        torch.cuda.synchronize()
        for name, value in expected.items():
            found = torch.as_tensor(getattr(results, name)).cpu().numpy()
            assert relative_errors(found, value).max() <= tolerances.SAME_FORMULA, name

    given = {name: on_the_card(value) for name, value in inputs.items()}
    with dynagate.compile(
        robot, "forward_dynamics_gradient", device="cuda", dtype=np.float64, layout=layout
    ) as accelerator:
        results = accelerator(**given)
        compare(results)
        seen = torch.as_tensor(results.dqdd_dq, device="cuda")
        assert seen.data_ptr() == results.dqdd_dq.__cuda_array_interface__["data"][0]
        own = {name: on_the_card(np.zeros_like(value)) for name, value in expected.items()}
        out = Results(**own)
        assert accelerator(out=out, **given) is out
        assert all(getattr(out, name) is tensor for name, tensor in own.items())
        compare(out)
        compare(accelerator(**{name: ByDlpackAlone(tensor) for name, tensor in given.items()}))
        single = {name: tensor.float() for name, tensor in given.items()}
        with pytest.raises(ValueError, match=r"input 'q' is float32 \(3000, 7\); expected float64"):
            accelerator(**single)


@needs_nvcc
@pytest.mark.gpu
def test_jax_arrays_give_cupys_results() -> None:
    jax, cupy = pytest.importorskip("jax"), pytest.importorskip("cupy")
    robot = robots.load("iiwa14")
    inputs = inputs_of(NAME, states(robot, 100, seed=8))
    given = {name: jax.block_until_ready(jax.numpy.asarray(value, "float32")) for name, value in inputs.items()}
    with dynagate.compile(robot, "forward_dynamics_gradient", device="cuda", dtype=np.float32) as accelerator:
        results = accelerator(**given)
        for name, value in evaluate(trace(robot, NAME), inputs).items():
            assert relative_errors(cupy.asnumpy(getattr(results, name)), value).max() <= tolerances.FLOAT32, name


@needs_nvcc
@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["rows", "planes"])
def test_packed_results_on_a_card_are_unpacked_there(layout: str) -> None:
    cupy = pytest.importorskip("cupy")
    robot = robots.load("hyq")
    inputs = inputs_of(NAME, states(robot, 500, seed=9))
    with dynagate.compile(robot, NAME, device="cuda", dtype=np.float64, layout=layout, pack=True) as accelerator:
        given = {name: cupy.asarray(value, order="F" if layout == "planes" else "C") for name, value in inputs.items()}
        full = accelerator.unpack(accelerator(**given))
        for name, value in evaluate(trace(robot, NAME), inputs).items():
            assert relative_errors(cupy.asnumpy(getattr(full, name)), value).max() <= tolerances.SAME_FORMULA, name


ROLLOUTS: list[dict[str, Any]] = [
    {},
    {"feedback": True},
    {"integrator": "variational"},
    {"contacts": RigidContact([Point("forearm", (0.0, 0.0, 0.3))], [Plane(offset=-0.4)], compliance=1e-2)},
]


@needs_nvcc
@pytest.mark.gpu
@pytest.mark.parametrize("options", ROLLOUTS, ids=lambda options: next(iter(options), "explicit"))
def test_operators_of_pytorch_on_a_card_are_those_of_the_cpu(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    from dynagate.torch import function, rollout

    random = np.random.default_rng(3)
    dynamics, run = function(ROBOT, "forward_dynamics"), rollout(ROBOT, 8, 0.01, dtype="float64", **options)
    state = [random.normal(size=(65, *port.shape)) for port in run.operator.arguments.inputs]

    def gradients(device: str) -> list[Any]:
        q, qd, tau, *others = inputs = [torch.tensor(x, device=device, requires_grad=True) for x in state]
        motion = run(q, qd, tau, *others)
        cost = (motion.q**2).sum() + (motion.qd**3).sum() + (dynamics(q, qd, tau[:, 0]).qdd ** 2).sum()
        cost.backward()
        assert motion.q.device.type == device
        return [x.detach().cpu().numpy() for x in (motion.q, motion.qd, *(x.grad for x in inputs))]

    for there, here in zip(gradients("cuda"), gradients("cpu"), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-6, atol=1e-6)


@needs_nvcc
@pytest.mark.gpu
@pytest.mark.parametrize("options", ROLLOUTS, ids=lambda options: next(iter(options), "explicit"))
def test_operators_of_jax_on_a_card_are_those_of_the_cpu(options: dict[str, Any]) -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        from dynagate.jax import function, rollout

        random = np.random.default_rng(3)
        dynamics, run = function(ROBOT, "forward_dynamics"), rollout(ROBOT, 8, 0.01, **options)
        state = [random.normal(size=(65, *port.shape)) for port in run.operator.arguments.inputs]

        def cost(q: Any, qd: Any, tau: Any, *others: Any) -> Any:
            motion = run(q, qd, tau, *others)
            return (motion.q**2).sum() + (motion.qd**3).sum() + (dynamics(q, qd, tau[:, 0]).qdd ** 2).sum()

        def gradients(device: str) -> list[Any]:
            place = jax.devices(device)[0]
            with jax.default_device(place):
                inputs = [jax.device_put(x, place) for x in state]
                results = [
                    *jax.jit(lambda *x: run(*x))(*inputs)[:2],
                    *jax.jit(jax.grad(cost, tuple(range(len(inputs)))))(*inputs),
                ]
                assert all(result.devices() == {place} for result in results)
                return [np.asarray(result) for result in results]

        for there, here in zip(gradients("gpu"), gradients("cpu"), strict=True):
            np.testing.assert_allclose(there, here, rtol=1e-6, atol=1e-6)


@needs_nvcc
@pytest.mark.gpu
@pytest.mark.parametrize("form", ["jsiia", "cfa_refined"])
@pytest.mark.parametrize("links", [7, 33])
def test_warps_equal_loops_over_links_on_a_card(links: int, form: str) -> None:
    """As host code and in any order of lanes: `test_parallel`."""
    from parallel.loops import ForwardDynamics

    robot = random_chain(links, 2, prismatic=0.3, armature=0.1)
    random = np.random.default_rng(9)
    state = [random.uniform(-1.0, 1.0, (2000, links)) for _ in range(3)]
    expected = ForwardDynamics(robot, "abia")(*state)
    options = {"device": "cuda", "dtype": "float64", "form": form, "warp": True}
    with dynagate.compile(robot, "forward_dynamics", **options) as warp:
        assert relative_errors(warp(*state).qdd, expected).max() <= 1e-9
