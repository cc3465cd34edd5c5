"""Model-predictive path integral control of a robot: noise, rollouts, costs and their weighted mean in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import AT_LEAST_ZERO, check_count, check_positive, one_or_several
from dynagate.base.arrays import Array
from dynagate.base.changed_options import changed_in_call, of_call
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.foreign_names import answering
from dynagate.base.philox import DEVIATION
from dynagate.control.cost import Cost
from dynagate.control.mppi import sampled_loop, weights
from dynagate.forces import Force
from dynagate.forces.force import check_forces
from dynagate.host.devices import DeviceOptions
from dynagate.host.problems import ProblemInput
from dynagate.host.solution import shifted_by
from dynagate.host.solver import Solver, check_counts, loop_input
from dynagate.integrators.feedback import Feedback
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.motion_options import MotionOptions
from dynagate.native import noise
from dynagate.native.package import sampling_package
from dynagate.native.package_content import STATES
from dynagate.native.package_files import write_package
from dynagate.native.portable_loop import same_inputs
from dynagate.native.portable_sampling import DRAW, MEAN, PortableSampling, SampleOptions
from dynagate.native.sampling import Sampling
from dynagate.native.source import kernel_name
from dynagate.robot.checked import RobotOrName

MPPI = "mppi"
WORDS = 2**32
"""Seeds, draws and numbers of a draw."""


@explained
@dataclass(frozen=True, slots=True)
class Sampled:
    """The mean torques of each problem. The leading axes are those of q0 without its last."""

    tau: Array
    """Weighted mean (..., knots, nv) of the sampled torques, N m or N."""
    cost: Array
    """Weighted mean (...) of the costs of the samples."""
    least: Array
    """Lowest cost (...) of a sample."""
    effective: Array
    """Effective number (...) of samples, 1 / Σ w² of their weights w."""
    failed: Array
    """Whether no sample had a finite cost, (...); tau is then the guess."""

    def shifted(self, knots: int = 1) -> Array:
        """Return the torques from a later knot on, as the guess of the next call. The last torques are repeated.

        Args:
            knots: Number of knots that have passed.

        Returns:
            Torques (..., knots, nv), N m or N.

        Raises:
            ArgumentError: The horizon has fewer knots.
        """
        return shifted_by(self.tau, knots, -2)

    def __repr__(self) -> str:
        shape = self.cost.shape
        return f"<Sampled of {shape or 'one'}, {self.tau.shape[-2]} knots, {int(self.failed.sum())} failed>"


answering(
    Sampled,
    {
        **dict.fromkeys(("u", "us", "control", "controls", "torque", "torques"), "sampled.tau"),
        **dict.fromkeys(("q", "qd", "x", "xs", "states"), "dynagate.Rollout(...)(q0, qd0, sampled.tau).q"),
    },
)


@explained
class Mppi(Solver):
    """Control a robot by sampled torques, weighted by the cost of their rollouts (MPPI, Williams et al. 2017).

    Call the controller with start states; use it as a context.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        knots: Number of torques of the horizon.
        dt: Seconds of each torque, or None if each call passes `dt`.
        cost: The cost of a motion, `dynagate.control.Cost`.
        temperature: A sample with this much more cost has 1/e of the weight, in the unit of the cost.
        spread: Standard deviation of the torques, N m or N, one or (nv,).
        samples: Rollouts of a problem. The first one is the guess itself.
        nodes: Points of the horizon at which torques are drawn, with straight lines between; as many as knots unless
            given.
        iterations: Draws of a call, each about the mean of the one before.
        seed: Seed of the noise, which is the same on every machine.
        bounds: Bounds of torques, as of `dynagate.ilqr`.
        joint_bounds: Bounds of positions and speeds, as of `dynagate.ilqr`. A sample costs a `temperature` more for
            each 1e-5 of a joint's range beyond them.
        integrator: An explicit integrator, as of `dynagate.Rollout`.
        form, forces, constrained, implicit_damping: Options of the steps, as of `dynagate.Rollout`.
        contacts: Rigid ground, as of `dynagate.Rollout`. A sample with a step that has not converged has no weight.
        feedback: The robot's own feedback law, as of `dynagate.Rollout`. The sampled torques are added to its torques.
            Costs and `bounds` are of the sampled torques.
        device: "cpu", C with samples in the lanes of vectors; "cuda"; or "numpy", the reference.
        dtype: "float64" or "float32" ("cpu", "cuda").
        threads: Threads that share the problems ("cpu").

    Raises:
        ArgumentError: An option is not right. Nothing is computed then.
        ArgumentTypeError: An option has another type.
        RobotError: There is no such robot, or an option does not fit its joints.
        CompileError: There is no compiler, or it fails.

    Example:
        >>> cost = dynagate.control.Cost.quadratic(q=1.0, qd=0.1, tau=0.01, final=10.0)
        >>> options = {"temperature": 1.0, "spread": [1.0, 0.5], "samples": 16, "device": "numpy"}
        >>> sampler = dynagate.mppi("two_joint_arm", knots=5, dt=0.02, cost=cost, **options)
        >>> sampler(np.zeros(2), np.zeros(2), goal=[0.1, 0.2]).tau.shape
        (5, 2)
    """

    results = Sampled

    def __init__(
        self,
        robot: RobotOrName,
        *,
        knots: int,
        dt: float | None,
        cost: Cost,
        temperature: float,
        spread: npt.ArrayLike,
        samples: int = 1024,
        nodes: int | None = None,
        iterations: int = 1,
        seed: int = 0,
        bounds: Any = None,
        joint_bounds: Any = None,
        integrator: str | None = None,
        form: str | None = None,
        forces: Sequence[Force] = (),
        constrained: bool = False,
        contacts: RigidContact | None = None,
        feedback: Feedback = False,
        implicit_damping: bool = False,
        device: Literal["cpu", "cuda", "numpy"] | DeviceOptions = "cpu",
        dtype: npt.DTypeLike | None = None,
        threads: int = 1,
    ) -> None:
        call = locals()
        self._keep_maker(type(self), (), call)
        nodes = knots if nodes is None else nodes
        check_counts(knots=knots, samples=samples, nodes=nodes, iterations=iterations)
        check_positive("temperature", temperature, "a cost of more than 0")
        _check_below("seed", seed)
        step = of_call(MotionOptions, call, forces=check_forces(forces))
        super().__init__(
            MPPI,
            robot,
            cost,
            device,
            changed_in_call(Mppi.__init__, call, ("dtype", "threads")),
            knots=knots,
            bounds=bounds,
            joint_bounds=joint_bounds,
            step=step,
        )
        self.samples, self.iterations, self.seed = int(samples), int(iterations), int(seed)
        self.temperature = float(temperature)
        self._lines = noise.NoiseLines(int(nodes), int(knots), spread_of(spread, self.robot.nv) / DEVIATION)
        self.draws = 0
        self.compile(lambda: sampled_loop(self.robot, cost, self.step, self.knots, self.joints, self.temperature))

    def __call__(
        self,
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike,
        tau: npt.ArrayLike | None = None,
        *,
        draw: int | None = None,
        **inputs: npt.ArrayLike,
    ) -> Sampled:
        """Return the mean torques of samples about a guess.

        A RobotWarning is issued once if a start violates joint limits.

        Args:
            q0: Start configurations (..., nq), rad, m and unit quaternions.
            qd0: Start velocities (..., nv), rad/s or m/s.
            tau: Guess (..., knots, nv), N m or N, or its last axes. Torques that hold the robot where it starts unless
                given.
            draw: Number of the draw of the seed; the one after the last call's unless given.
            inputs: Inputs of the cost, and inputs of forces and constraints at each knot. Leading axes may be left out.
                States of actuators before the first knot, by name, are 0 unless given.

        Returns:
            The torques. A problem of several whose start is not finite is flagged in `failed`.

        Raises:
            ValueError: An input is missing, unknown, of another shape or not finite.
            TypeError: An input is no array of real numbers.
        """
        self.check_open()
        _check_below("draw", self.draws if draw is None else draw)
        first = self.draws if draw is None else int(draw)
        with np.errstate(all="ignore"):
            problems = self.begun(q0, qd0, inputs)
            self.put(problems, {"tau": ("tau", self.guess(tau, problems)), **self.inputs_by_name(inputs)})
            self.draws = (first + self.iterations) % WORDS
            for k in range(self.iterations):
                problems.run((first + k) % WORDS, k > 0)
        sampled = Sampled(**{name: problems.output(name) for name in problems.outputs})
        self.keep(problems)
        return sampled

    def write_cmake(
        self,
        folder: str | os.PathLike[str],
        q0: npt.ArrayLike,
        qd0: npt.ArrayLike,
        tau: npt.ArrayLike | None = None,
        **inputs: npt.ArrayLike,
    ) -> list[Path]:
        """Write one draw as a CMake project of C and C++17, as `dynagate emit --cmake` does for functions.

        The C draws around the torques `tau` of one problem, in a workspace that the caller passes, with the numbers of
        the input `draw`. Its result `tau_mean` is the guess of the next call. The samples are those of the first
        problem of a call in Python with the same draw.

        Args:
            folder: Folder to write the files into. It is made if it is missing.
            q0: Start positions (..., nq) of problems for the test, rad, m and unit quaternions.
            qd0: Start velocities (..., nv), rad/s or m/s.
            tau: Guess of the torques (..., knots, nv), N m or N; None for those that hold the robot.
            inputs: Inputs of the cost and of forces, as in a call.

        Returns:
            The files.

        Raises:
            ArgumentError: An argument is not right, or the device is not "numpy", which computes the test's results.
        """
        self.check_open()
        if self.device != "numpy":
            raise ArgumentError(
                f"write_cmake of a controller on device={self.device!r}; expected device='numpy'", code="DG-SOLVER-064"
            )
        samples = SampleOptions(self._lines, self.samples, self.seed, self.temperature, self.bounds)
        same = same_inputs({name: each.parts for name, each in self.asked.items()})
        text = PortableSampling(self.loop, kernel_name(self.loop), self.fixed, same, samples)
        with np.errstate(all="ignore"):
            problems = self.begun(q0, qd0, inputs)
            self.put(problems, {"tau": ("tau", self.guess(tau, problems)), **self.inputs_by_name(inputs)})
            known = {name: x[np.arange(STATES) % len(x)] for name, x in problems.inputs.items()}
            results = [self.new_outputs(1) for _ in range(STATES)]
            for k, outputs in enumerate(results):
                self._once(known["tau"][k : k + 1], {name: x[k : k + 1] for name, x in known.items()}, outputs, k)
        self.keep(problems)
        expected = {name: np.concatenate([each[name] for each in results]).astype(float) for name in results[0]}
        expected[MEAN] = expected.pop("tau")
        own = {each.port.name for each in text.arguments if not each.is_output}
        tested = {name: x for name, x in known.items() if name in own} | {DRAW: np.arange(float(STATES))}
        return write_package(sampling_package(text, self.robot, tested, expected), folder)

    @property
    def own_asked(self) -> dict[str, ProblemInput]:
        return {"tau": loop_input("tau", (self.knots, self.robot.nv))}

    @property
    def fixed(self) -> dict[str, Array]:
        sums = ("total",) if self.joints is None else ("total", "most")
        return {**dict.fromkeys(sums, np.zeros(1, self.dtype)), **self.begun_knots}

    def new_outputs(self, batch: int) -> dict[str, Array]:
        numbers = {name: np.empty(batch) for name in ("cost", "least", "effective")}
        torques = np.empty((batch, self.knots, self.robot.nv), self.dtype)
        return {"tau": torques, **numbers, "failed": np.empty(batch, bool)}

    def bound(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], batch: int) -> Callable[..., Any]:
        """Return a function that draws samples around the last torques.

        Its arguments are the number of the draw, and whether it starts from the result of the previous draw.

        Args:
            inputs: Arrays (batch, *shape) by name.
            outputs: Arrays (batch, *shape) by name, which are overwritten.
            batch: Number of problems.

        Returns:
            The function.
        """
        kernel = self._compute.kernel
        if not batch:
            return lambda draw, again: None
        if kernel is None:
            return lambda draw, again: self._once(outputs["tau"] if again else inputs["tau"], inputs, outputs, draw)
        sampling = Sampling(kernel, self._lines, self.samples, self.seed, self.temperature, self.bounds)
        return sampling.bound(inputs, outputs, batch)

    def _once(self, mean: Array, inputs: Mapping[str, Array], outputs: Mapping[str, Array], draw: int) -> None:
        """Compute one draw around the mean torques (batch, knots, nv) step by step, as the reference."""
        batch = len(outputs["tau"])
        mean = np.broadcast_to(mean, outputs["tau"].shape)
        torques = self._bounded(self.torques(mean, draw))
        tau = torques.reshape(-1, *torques.shape[2:])
        each = {port.name: self._of_samples(inputs[port.name], batch) for port in self.loop.inputs}
        costs = np.empty(len(tau), self.dtype)
        self._compute({**each, "tau": tau}, {"cost": costs})
        cost = costs.reshape(batch, self.samples).astype(np.float64)
        share, least = weights(cost, self.temperature)
        failed = ~np.isfinite(least)
        weighted = np.matmul(share[:, None].astype(self.dtype), torques.reshape(batch, self.samples, -1))
        better = self._bounded(np.where(failed[:, None, None], mean, weighted.reshape(mean.shape)))
        average = (share * np.where(share > 0.0, cost, 0.0)).sum(axis=1)
        effective = np.where(failed, 0.0, 1.0 / np.where(failed, 1.0, (share * share).sum(axis=1)))
        values = {"tau": better, "cost": np.where(failed, np.nan, average), "least": np.where(failed, np.nan, least)}
        for name, value in {**values, "effective": effective, "failed": failed}.items():
            outputs[name][...] = value

    def _bounded(self, tau: Array) -> Array:
        return tau if self.bounds is None else np.clip(tau, *self.bounds, out=tau)

    def torques(self, mean: Array, draw: int) -> Array:
        """Return the torques of a draw. The first sample is the mean itself.

        Args:
            mean: Mean torques (batch, knots, nv), N m or N.
            draw: Number of the draw.

        Returns:
            Torques (batch, samples, knots, nv), N m or N.
        """
        n, batch, lines = self.robot.nv, len(mean), self._lines
        reference = self.device == "numpy"
        numbers = noise.integers if reference else noise.compiled
        drawn = numbers(batch * self.samples * lines.nodes * n, self.seed, draw)
        drawn = drawn.reshape(batch, self.samples, lines.nodes, n)
        drawn[:, 0] = 0
        return lines.about(mean, drawn) if reference else lines.compiled(mean, drawn)

    def _of_samples(self, array: Array, batch: int) -> Array:
        """An input for each sample of each problem."""
        return array if len(array) == 1 or batch == 1 else np.repeat(array, self.samples, axis=0)


def _check_below(name: str, value: object) -> None:
    check_count(name, value, WORDS - 1, 0)


def spread_of(value: npt.ArrayLike, n: int) -> Array:
    accepted = AT_LEAST_ZERO.called("one standard deviation of 0 or more, or one for each joint")
    return np.broadcast_to(one_or_several("spread=", value, (n,), accepted), (n,))
