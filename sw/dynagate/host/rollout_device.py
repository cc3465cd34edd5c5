"""The user's class of a rollout design: start states and torques in, trajectories out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_count, check_flags, check_unit_vectors, of_shape, real, switches
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.warned import warn
from dynagate.host.bound import BoundCall, repeated
from dynagate.host.device import Device
from dynagate.host.devices.face import Executor
from dynagate.host.devices.stream_steps import EVERY, STEPS, empty_outputs, returned_steps
from dynagate.host.inputs import check_ranges
from dynagate.host.links import BatchTiming, OverflowWarning
from dynagate.host.region_exit import RegionExit
from dynagate.host.starts import broadcast_starts, flag_lost, without_lost
from dynagate.host.trajectories import OUTPUTS, Trajectories
from dynagate.integrators.limits import LimitWatch

ARRAYS = ("q0", "qd0", "tau")
"""Arguments of a rollout's call that `bind` reads in place."""
LAST = (1 << 32) - 1
"""In the register `every`: more steps than any trajectory has, so that only the last result comes out."""


@explained
class RolloutDevice(Device):
    """Computes trajectories of a robot from start states and torques, on a chip that keeps the states between steps.

    `dynagate.open` of a rollout design returns such a device. Call it, and use it as a context manager.

    Args:
        device: Executor of the steps.
        watch: Warns if a trajectory passes the robot's joint limits; None for no such warning.
        region_exit: Explains overflow in the first call that has some; None for no such warning.
    """

    function = "rollout"

    def __init__(
        self, device: Executor, watch: LimitWatch | None = None, region_exit: RegionExit | None = None
    ) -> None:
        self.device, self.dtype, self._watch, self._region_exit = device, device.dtype, watch, region_exit
        self.functions: dict[str, Any] = {}
        self._inputs = {each.name: each for each in device.inputs}
        self._closed = False

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the results."""
        return tuple(OUTPUTS[port.name] for port in self.device.outputs)

    def __call__(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike,
        tau: npt.ArrayLike,
        *,
        dt: npt.ArrayLike | None = None,
        active: npt.ArrayLike | None = None,
        steps: npt.ArrayLike | None = None,
        every: int = 1,
        last: bool = False,
    ) -> Trajectories:
        """Compute trajectories. Leading axes of q0, qd0 and tau broadcast as in numpy.

        Args:
            q0: First configurations (..., nq), rad, m and unit quaternions.
            qd0: First velocities (..., nv), rad/s or m/s.
            tau: Torques (..., steps, nv), N m or N.
            dt: Time step in s, one number or one for each trajectory (...), for a design with the time step as an
                input.
            active: Which constraints hold in each step of a constrained design, 0 or 1, (..., steps, constraints) or
                axes that broadcast to it; all of them unless given.
            steps: Number of steps of each trajectory (...); by default as many as tau has.
            every: Return the states after every this many steps, and the last one of each trajectory.
            last: Return only the last state of each trajectory.

        Returns:
            q and qd (..., states, ·), of which the first are q0 and qd0, and with `linearize` the matrices a and b
            (..., states - 1, ·, ·) of the steps that led to the others. The number of states is 1 + ⌈steps / every⌉ of
            the longest trajectory. States after the end of a shorter one are NaN, and so are all states after an
            overflow:
            `diverged` is the first returned step with an overflow, -1 for none, and 0 for a trajectory of a batch whose
            q0 or qd0 is not finite. Angles of joints without limits are from -π to π.

        Raises:
            ArgumentError: An input has another shape, is not finite, is outside the range that its format was chosen
                for, or is no unit quaternion; or `steps`, `every` or `last` is not possible.
            ArgumentTypeError: An input has another type.
            DeviceError: The device fails.
        """
        self.check_open()
        nq, nv = (self._inputs[name].shape[0] for name in ("q", "qd"))
        torques = real("tau", tau)
        shapes = {"q0": (nq,), "qd0": (nv,), "tau": (torques.shape[-2] if torques.ndim > 1 else 0, nv)}
        q0, qd0, tau = broadcast_starts(shapes, {"q0": q0, "qd0": qd0, "tau": torques})
        arrays, leading, lost = self._checked(q0, qd0, tau, dt, active)
        batch, longest = arrays["tau"].shape[:2]
        count = self._counts(steps, leading, longest)
        check_count("every", every, LAST - 1)
        check_flags(last=last)
        if last and every != 1:
            raise ArgumentError(f"every={every} and last=True; expected one of them", code="DG-ROLLOUT-005")
        every = LAST if last else int(every)
        comes = returned_steps(count, every, longest)
        outputs = empty_outputs(self.device, batch, longest)
        flagged = np.zeros(comes.shape, bool)
        if batch and (lost is None or not lost.all()):
            own = {**arrays, STEPS: count, EVERY: np.asarray(every)}
            flagged = self.device.run(own, outputs, batch) & comes
        if flagged.any():
            self._warn_of_overflow(arrays, outputs, flagged)
        moved = self._trajectories(arrays, outputs, comes, flagged, every, leading)
        if self._watch is not None:
            self._watch.look(moved.q, arrays["tau"])
        if lost is not None:
            flag_lost(moved, lost.reshape(leading))
        return moved

    def _warn_of_overflow(self, arrays: dict[str, Array], outputs: dict[str, Array], flagged: Array) -> None:
        """Warn once which trajectory overflowed first, and which quantity left the operating region.

        Args:
            arrays: Inputs: q and qd at the start, (batch, *shape), and the others of all steps, (batch, steps, *shape).
            outputs: Results of all steps, (batch, steps, *shape).
            flagged: Steps that overflowed, (batch, steps).
        """
        if self._region_exit is None:
            return
        region_exit, self._region_exit = self._region_exit, None
        first = np.where(flagged.any(axis=1), flagged.argmax(axis=1), flagged.shape[1])
        k = int(np.argmin(first))
        step = int(first[k])
        state = {name: array[k : k + 1, step] for name, array in arrays.items() if name not in ("q", "qd")}
        for name in ("q", "qd"):
            state[name] = arrays[name][k : k + 1] if step == 0 else outputs[f"{name}_next"][k : k + 1, step - 1]
        reason = region_exit.text(state) or "expected a region with larger velocity= or acceleration= limits"
        warn(
            f"{int(flagged.any(axis=1).sum())} of {len(flagged)} trajectories of {self.device.robot} overflowed, and "
            f"their results are NaN from then on (`diverged` has the step). Trajectory {k} overflowed first, in step "
            f"{step + 1}: {reason}",
            OverflowWarning,
            code="DG-ROLLOUT-006",
        )

    def _trajectories(
        self,
        arrays: dict[str, Array],
        values: dict[str, Array],
        comes: Array,
        flagged: Array,
        every: int,
        leading: tuple[int, ...],
    ) -> Trajectories:
        """Return the trajectories from the results that leave the device, each moved to the place of its step."""
        batch = len(comes)
        place = np.cumsum(comes, axis=1)[comes]
        states = int(place.max(initial=0 if batch else -(-comes.shape[1] // every))) + 1
        row = np.nonzero(comes)[0]
        dtype = self.device.dtype
        outputs: dict[str, Array] = {}
        for port in self.device.outputs:
            own = np.full((batch, states, *port.shape), np.nan, dtype)
            part = values[port.name][comes].astype(dtype)
            part[flagged[comes]] = np.nan
            own[row, place] = part
            outputs[port.name] = own
        outputs["q_next"][:, 0], outputs["qd_next"][:, 0] = arrays["q"], arrays["qd"]
        moved = {name: x if name.endswith("_next") else x[:, 1:] for name, x in outputs.items()}
        shaped = {name: x.reshape(*leading, *x.shape[1:]) for name, x in moved.items()}
        diverged = np.where(flagged.any(axis=1), np.argmax(flagged, axis=1) + 1, -1).reshape(leading)
        converged = None
        if "failures" in shaped:
            before = np.zeros_like(shaped["failures"][..., :1])
            converged = ~(np.diff(shaped["failures"], axis=-1, prepend=before) > 0.0)
        return Trajectories(
            shaped["q_next"],
            shaped["qd_next"],
            shaped.get("a"),
            shaped.get("b"),
            diverged,
            converged,
            iterations=shaped.get("iterations_of_step"),
            residual=shaped.get("residual_of_step"),
        )

    def _checked(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike,
        tau: npt.ArrayLike,
        dt: npt.ArrayLike | None,
        active: npt.ArrayLike | None,
    ) -> tuple[dict[str, Array], tuple[int, ...], Array | None]:
        nq, nv = (self._inputs[name].shape[0] for name in ("q", "qd"))
        leading = real("q0", q0).shape[:-1]
        torques = real("tau", tau)
        longest = torques.shape[-2] if torques.ndim == len(leading) + 2 else 0
        if not longest:
            text = ", ".join(map(str, (*leading, "steps", nv)))
            raise ArgumentError(
                f"tau has shape {torques.shape}; expected ({text}) with 1 step or more", code="DG-ROLLOUT-007"
            )
        arrays = {
            "q": of_shape("q0", q0, (*leading, nq), finite=False).reshape(-1, nq),
            "qd": of_shape("qd0", qd0, (*leading, nv), finite=False).reshape(-1, nv),
            "tau": of_shape("tau", torques, (*leading, longest, nv), finite=False).reshape(-1, longest, nv),
        }
        arrays, lost = without_lost(arrays, leading, self._inputs["q"].unit_vectors)
        if ("dt" in self._inputs) != (dt is not None):
            expected = "a time step, which is an input" if "dt" in self._inputs else "none: it is a constant"
            raise ArgumentError(f"dt={dt!r} for this design; expected {expected}", code="DG-ROLLOUT-008")
        if dt is not None:
            step = of_shape("dt", _spread("dt", dt, leading), leading).reshape(-1)
            if not (step > 0.0).all():
                raise ArgumentError(f"dt={dt!r}; expected time steps of more than 0 s", code="DG-ROLLOUT-009")
            arrays["dt"] = np.repeat(step[:, None], longest, axis=1)
        if "active" in self._inputs:
            arrays["active"] = switches("active", active, leading, (longest, *self._inputs["active"].shape))
        elif active is not None:
            raise ArgumentError(
                "active= of a design without constraints; expected it left out, or a design built with "
                "constrained=True",
                code="DG-ROLLOUT-074",
            )
        if lost is None or not lost.all():
            self._check_ranges(arrays)
        return arrays, leading, lost

    def _check_ranges(self, arrays: dict[str, Array]) -> None:
        """Raise ArgumentError if an input is outside the values that its format was chosen for, or is no unit
        vector.
        """
        for port in self.device.inputs:
            check_ranges((port,), self.device.ranges, arrays)
            if port.name in self.device.carry.values():
                rows = arrays[port.name].reshape(-1, math.prod(port.shape))
                check_unit_vectors(f"{port.name}0", port.unit_vectors, rows)

    @staticmethod
    def _counts(steps: npt.ArrayLike | None, leading: tuple[int, ...], longest: int) -> npt.NDArray[np.int64]:
        counts = _spread("steps", longest if steps is None else steps, leading)
        if not np.issubdtype(counts.dtype, np.integer) or not ((counts >= 1) & (counts <= longest)).all():
            raise ArgumentError(
                f"steps={steps!r}; expected whole numbers from 1 to {longest}, the steps of tau", code="DG-ROLLOUT-010"
            )
        return counts.reshape(-1).astype(np.int64)

    @property
    def transfer(self) -> BatchTiming:
        """Cycles of the last call."""
        return self.device.transfer

    def close(self) -> None:
        """Gives the device back. A call raises DeviceError afterwards."""
        self._closed = True
        self.device.close()

    def load(self, design: Any) -> None:
        """Refuse another program: the program of a rollout cannot be replaced.

        Args:
            design: The program.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError(
            f"{self!r} keeps the states of rollouts, and another program takes other arrays; close it, and open the "
            "other design",
            code="DG-ROLLOUT-011",
        )

    def bind(self, *args: Any, **options: Any) -> BoundCall:
        """Return a call on the same arrays for many repetitions, as `Opened.bind` does.

        Args:
            args: Inputs in their order, as of a call.
            options: Inputs by name and options, as of a call.

        Returns:
            The bound call.
        """
        return repeated(self, args, options, ARRAYS)

    def __repr__(self) -> str:
        return f"<Device {self.device.robot} rollout, {self.device.text}>"


def _spread(name: str, value: npt.ArrayLike, leading: tuple[int, ...]) -> Array:
    """One number for all trajectories, or one for each."""
    array = real(name, value)
    try:
        return np.broadcast_to(array, leading)
    except ValueError:
        raise ArgumentError(
            f"{name} has shape {array.shape}; expected {leading}, or one number", code="DG-ROLLOUT-012"
        ) from None
