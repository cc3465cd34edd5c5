"""Functions as loops over the links of a robot: numpy, C and a GPU, for robots that are too large to unroll."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.dynamics import function
from dynagate.dynamics.options import AlgorithmOptions
from dynagate.graph.loop import Loop, evaluate_loop
from dynagate.graph.ops import TRIG
from dynagate.graph.scan import Scan
from dynagate.graph.scan_trace import SCANS, trace_scan
from dynagate.host.devices import CudaDevice, Device, Overflow, Step, on_card
from dynagate.host.inputs import TOO_LARGE, Arrays, check_angles, check_finite, check_results
from dynagate.native.gpu_loop import GpuLoop
from dynagate.native.loop import LoopKernel
from dynagate.robot import Robot

SCAN = "scan"
"""The form of functions that are computed by a loop over links."""

SCANNED_FROM = 48
"""Links from which on a function that has an algorithm over links takes it unless a form is asked for. Atlas' 30 links
are twice as fast unrolled, since right angles and zeros of its frames fold, and ready in 13 s instead of 4; 30 links in
general frames are as fast either way (docs/parallel.md)."""

DEVICES = ("numpy", "cpu", "cuda")
"""That run loops over links."""

OPTIONS = ("form", "external_forces", "friction", "friction_speed")
"""Of algorithms: those that a loop over links takes."""


def check_device(device: str, algorithm: AlgorithmOptions) -> None:
    """Raises ValueError: a loop over links on a device that has none."""
    if algorithm.form == SCAN and device not in DEVICES:
        raise ArgumentError(
            f"form '{SCAN}' on device '{device}'; expected one of {', '.join(DEVICES)}, or another form"
        )


def scanned(robot: Robot, name: str, algorithm: AlgorithmOptions, **others: bool) -> Loop | None:
    """The function as a loop over links where its form is SCAN, or where the robot is large and nothing is asked for
    that only a graph has; else None. others: whether options of the device are, that only a graph has. Raises
    ValueError naming an option that a loop over links does not take."""
    asked = [option for option in algorithm.as_dict() if option not in OPTIONS]
    asked += [option for option, differs in others.items() if differs]
    if algorithm.form != SCAN:
        large = len(robot.links) >= SCANNED_FROM and not robot.followers
        if algorithm.form is not None or asked or name not in SCANS or not large:
            return None
    if asked:
        raise ArgumentError(f"form '{SCAN}' takes no option '{asked[0]}'; expected another form, or none of it")
    options = {option: getattr(algorithm, option) for option in OPTIONS if option != "form"}
    return trace_scan(robot, name, **options)


class _ScanDevice(Device):
    """What numpy and C share."""

    def __init__(self, loop: Loop, external_forces: bool) -> None:
        self.loop = loop
        _described(self, loop, external_forces)


class NumpyScan(_ScanDevice):
    """The reference: bodies in float64, link by link."""

    text = "numpy, float64, a loop over links"

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        if batch:
            check_angles(arrays, self.angles, self.dtype)
            with np.errstate(all="ignore"):  # what becomes too large is looked for below
                results = evaluate_loop(self.loop, {name: array.astype(np.float64) for name, array in arrays.items()})
            check_results(results, self.dtype)
            for name, value in results.items():
                outputs[name][...] = value
        return np.zeros(batch, dtype=bool)


class CpuScan(_ScanDevice):
    """C compiled for this machine: each vector of samples goes over all links. dtype: float64 or float32."""

    checks_finite = True

    def __init__(self, loop: Loop, external_forces: bool, *, dtype: npt.DTypeLike, step: Step | None = None) -> None:
        super().__init__(loop, external_forces)
        self.dtype = np.dtype(dtype)
        if step:
            step("C compiler: loop over links")
        self.kernel = LoopKernel(loop, self.dtype)
        self.text = f"C, {self.dtype}, a loop over links"

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        if batch:
            self._checked(self.kernel.bound(arrays, outputs, batch, 1), arrays, outputs)
        return np.zeros(batch, dtype=bool)

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        in_place = all(array.dtype == self.dtype and array.flags.c_contiguous for array in arrays.values())
        if not batch or not in_place:
            return None
        call = self.kernel.bound(arrays, outputs, batch, 1)
        return lambda: self._checked(call, arrays, outputs)

    def _checked(self, call: Callable[[], bool], arrays: Arrays, outputs: Arrays) -> None:
        """Calls. Raises ValueError: an input is not finite, which every result shows, or is too large an angle; or
        values become too large."""
        right = call()
        with np.errstate(all="ignore"):
            finite = all(np.isfinite(output.sum()) for output in outputs.values())
        if right and finite:
            return
        check_finite(arrays, self.dtype)
        check_angles(arrays, self.angles, self.dtype)
        check_results(outputs, self.dtype)
        if not right:
            raise ArgumentError(TOO_LARGE.format(self.dtype))


class CudaScan(CudaDevice):
    """A GPU: a thread per sample goes over all links. dtype, number, stream: as of `CudaDevice`."""

    kernel: GpuLoop  # type: ignore[assignment]

    def __init__(
        self,
        loop: Loop,
        external_forces: bool,
        *,
        dtype: npt.DTypeLike,
        number: int = 0,
        stream: int = 0,
        step: Step | None = None,
    ) -> None:
        _described(self, loop, external_forces)
        self.dtype, self.stream, self._layout = np.dtype(dtype), stream, "rows"
        if step:
            step("nvcc: loop over links")
        with on_card(f"GPU {number}"):
            self.kernel = GpuLoop(loop, self.dtype, device=number)
        self.text = f"CUDA, {self.dtype}, card {number}, a loop over links"


def _described(device: Device, loop: Loop, external_forces: bool) -> None:
    """Says what a device computes: a loop of one turn, as `trace_scan` gives it."""
    device.robot, device.function = loop.robot, loop.name
    ports = {port.name: port for port in loop.inputs}
    names = [argument.name for argument in function(loop.name).inputs_with(external_forces)]
    device.inputs, device.outputs = [ports[name] for name in names], loop.outputs
    device.angles = _angles(loop)


def _angles(loop: Loop) -> dict[str, list[int]]:
    """By input the entries whose sine or cosine a body takes."""
    places: dict[str, set[int]] = {}
    inputs = {port.name for port in loop.inputs}
    for scan in (step for step in loop.steps if isinstance(step, Scan)):
        for i in scan.order:
            body = scan.body(i)
            angles = {a for node in body.nodes if node.op in TRIG for a in node.args}
            for port in body.inputs:
                if port.name in inputs:
                    start = scan.starts[port.name][i]
                    own = {start + k for k, node in enumerate(port.nodes) if node in angles}
                    places.setdefault(port.name, set()).update(own)
    return {name: sorted(entries) for name, entries in places.items() if entries}
