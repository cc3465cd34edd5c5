"""Inverse kinematics of a robot: a batch of problems in one call, each from several starts if it needs them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import (
    AT_LEAST_ZERO,
    check_count,
    check_positive,
    check_unit_vectors,
    common_axes,
    is_collection,
    is_number,
    of_type,
    one_or_several,
    real,
    shown,
)
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.base.nearest import nearest
from dynagate.control.ik import AT_LIMIT, IkOptions, begin, errors_graph, ik_loop
from dynagate.control.targets import CenterOfMass, FramePose, Target
from dynagate.control.training_problems import check_reached
from dynagate.dynamics.configuration import normalized
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import SATURATE, Arithmetic
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import jacobian
from dynagate.graph.evaluate import evaluate
from dynagate.graph.loop import ITERATIONS
from dynagate.host.compiling import check_robot
from dynagate.host.devices import DeviceOptions
from dynagate.host.devices.integer_loop import IntegerLoop
from dynagate.host.ilqr import LONGEST, SHORTEST
from dynagate.host.loop_solver import LoopSolver
from dynagate.integrators.limits import LimitWatch, ranges
from dynagate.native.package import loop_package
from dynagate.native.package_files import write_package
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of

FUNCTION = "inverse_kinematics"
MAX_ITERATIONS, MAX_STARTS, MAX_SEED = 10_000, 256, 2**32 - 1
TOLERANCES = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-4}
"""Largest error of a target, m or rad, if the caller sets none, by the type of the numbers."""
SINGULAR = 1e-8
"""Singular values of a Jacobian, as a part of the largest, below which a direction cannot be moved along."""
SAMPLES = 256
"""Random configurations that starts are chosen from."""
CHUNK = 2048
"""Problems for which starts are chosen together."""


@explained
@dataclass(frozen=True)
class IkSolution:
    """The best configuration of each problem. The leading axes are those of the targets and of the start."""

    q: Array
    """Configurations (..., nq), rad, m and unit quaternions, within the limits of the joints."""
    error: Array
    """Largest distance or angle (...) that remains to a target, m or rad."""
    errors: Array
    """Distance or angle (..., targets) that remains to each target, m or rad: the larger one for a pose."""
    converged: Array
    """Whether the error is within the tolerance, (...)."""
    iterations: Array
    """Iterations (...) from the start that led to q."""
    starts: Array
    """Number (...) of starts that were tried."""

    def __repr__(self) -> str:
        shape = self.error.shape
        largest = f", largest error {self.error.max():.2g}" if self.error.size else ""
        return f"<IkSolution of {shape or 'one'}, {int(self.converged.sum())} converged{largest}>"


class _Input(NamedTuple):
    """An input of a call."""

    name: str
    """Name of the input."""
    shape: tuple[int, ...]
    """Shape for one problem."""


@explained
class InverseKinematics(LoopSolver):
    """A solver of inverse kinematics. Call it with targets; use it as a context.

    It finds configurations within the joints' limits by Levenberg-Marquardt iterations. If a problem does not converge
    from its start, it is solved again from other configurations, those near the targets first.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        frames: Names of frames or links that should reach a pose, and targets: `dynagate.control.FramePose`,
            `FramePosition`, `FrameRotation` and `LookAt`.
        center_of_mass: Weight of the squared distance of the center of mass to a point, 1/m²; 0 for none.
        posture: Weight of the distance to a configuration, one or (nv,); 0 for none. Targets come first: the posture
            decides between configurations that reach them.
        iterations: Largest number of iterations from each start.
        tolerance: Largest error of a target that converged, m or rad; 1e-6 unless given, or 1e-4 with float32.
        starts: Largest number of starts of a problem, with that of the call.
        seed: Random seed of the other starts.
        device: "cpu", C compiled for this processor with problems in the lanes of vectors; "cuda"; or "numpy".
            `dynagate.host.devices.Cpu(dtype="float32", threads=2)` sets options.

    Attributes:
        overflows: Problems of the last call with a result that did not fit its format, by graph, of `on_integers`.

    Raises:
        ArgumentError: An option is not right, or there is no target. Nothing is computed then.
        ArgumentTypeError: An option has another type.
        RobotError: The robot has no such frame.
        CompileError: There is no compiler, or it fails.

    Example:
        >>> solver = dynagate.inverse_kinematics("iiwa14", ["link_7"], device="numpy")
        >>> pose = np.array([[1, 0, 0, 0.5], [0, -1, 0, 0.1], [0, 0, -1, 0.4], [0, 0, 0, 1]])
        >>> bool(solver(link_7=pose).converged)
        True
    """

    results = IkSolution

    def __init__(
        self,
        robot: RobotOrName,
        frames: Sequence[str | Target] = (),
        *,
        center_of_mass: float = 0.0,
        posture: npt.ArrayLike = 0.0,
        iterations: int = 60,
        tolerance: float | None = None,
        starts: int = 64,
        seed: int = 0,
        device: Literal["cpu", "cuda", "numpy"] | DeviceOptions = "cpu",
    ) -> None:
        self._keep_maker(type(self), (), locals())
        check_count("iterations", iterations, MAX_ITERATIONS)
        check_count("starts", starts, MAX_STARTS)
        check_count("seed", seed, MAX_SEED, 0)
        if tolerance is not None:
            check_positive("tolerance", tolerance, "an error in m and rad")
        targets = _targets(frames, center_of_mass)
        check_robot(robot)
        self.choose(FUNCTION, device, {})
        self.robot = robot_of(robot)
        for target in targets:
            if isinstance(frame := getattr(target, "frame", None), str):
                self.robot.frame(frame)
        weights = _posture(posture, self.robot)
        largest = TOLERANCES[self._chosen.loop_dtype] if tolerance is None else float(tolerance)
        self.options = IkOptions(targets, weights, int(iterations), largest)
        self.starts, self.seed = int(starts), int(seed)
        self.limits = LimitWatch(self.robot, (), kept=True)
        self.overflows: Mapping[str, int] = {}
        self.compile(lambda: ik_loop(self.robot, self.options))
        self._fixed = {k: np.asarray(x, self.dtype)[None] for k, x in begin(self.robot, self.options).items()}

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the targets that a call takes."""
        return tuple(target.input for target in self.options.targets)

    def __repr__(self) -> str:
        return f"<InverseKinematics {self.robot.name}, {', '.join(self.inputs)}, on {self.device}>"

    def __call__(
        self, q0: npt.ArrayLike | None = None, *, posture: npt.ArrayLike | None = None, **targets: npt.ArrayLike
    ) -> IkSolution:
        """Find configurations that reach the targets.

        Args:
            q0: Starts (..., nq), rad, m and unit quaternions; None for the middle of the joints' ranges.
            posture: Configurations (..., nq) that the option `posture` is about; the starts unless given.
            targets: Value of each target, by the names in `inputs`; all leading axes are broadcast.

        Returns:
            The best configuration of each problem. Problems that no start solves have `converged` False.

        Raises:
            ArgumentError: An input is missing, unknown, of another shape, not finite, or no rotation.
            ArgumentTypeError: An input does not hold real numbers.
            DeviceError: The solver is closed, or the device fails.

        Warns:
            RobotWarning: Once, if a start is beyond the limits of joints. It is moved to them.
        """
        self.check_open()
        problems, leading = self._problems(q0, posture, targets)
        with np.errstate(all="ignore"):
            results = self._search(problems)
        return IkSolution(**{name: x.reshape((*leading, *x.shape[1:])) for name, x in results.items()})

    def on_integers(
        self, q0: npt.ArrayLike | None = None, *, word: int = 27, guard_bits: float = 1.0, **targets: npt.ArrayLike
    ) -> InverseKinematics:
        """Return the same solver in fixed point, with ranges from solving these problems in float64.

        Results that do not fit their format saturate; `overflows` counts them by graph. Words of 27 bits reach errors
        of about 1e-3 m and rad, words of 32 bits 1e-4, so the solver needs such a tolerance.

        Args:
            q0: Starts (..., nq), rad, m and unit quaternions; None for the middle of the joints' ranges.
            word: Word length, 12 to 32 bits.
            guard_bits: Bits above the largest value that the problems meet.
            targets: Value of each target, by the names in `inputs`; all leading axes are broadcast.

        Returns:
            The solver in fixed point.

        Raises:
            ArgumentError: An argument is not right, fewer than half of the problems converge from their start in
                float64, or the solver has a posture, whose weights are too small for fixed point.
        """
        self.check_open()
        check_count("word", word, LONGEST, SHORTEST)
        if self.options.posture is not None:
            raise ArgumentError(
                "posture of a solver in fixed point; expected inverse_kinematics(...) without posture",
                code="DG-SOLVER-040",
            )
        policy = Policy(int(word), guard_bits, arithmetic=Arithmetic(overflow=SATURATE))
        problems, _ = self._problems(q0, None, targets)
        solved = self._solved(problems, problems["q0"])["converged"]
        check_reached(solved)
        inputs = self._loop_inputs({name: x[solved] for name, x in problems.items()}, problems["q0"][solved])
        count = int(solved.sum())
        whole = {name: np.repeat(x, count // len(x), axis=0).astype(np.float64) for name, x in inputs.items()}
        return self.in_fixed_point(IntegerLoop(self.loop, whole, policy))

    def write_cmake(
        self, folder: str | os.PathLike[str], q0: npt.ArrayLike | None = None, **targets: npt.ArrayLike
    ) -> list[Path]:
        """Write the search from one start as a CMake project of C and C++17, as `dynagate emit --cmake` does.

        The C solves one problem in a call, in a workspace that the caller passes. It does not restart from other
        positions.

        Args:
            folder: Folder to write the files into. It is made if it is missing.
            q0: Starts (..., nq) of problems for the test, rad, m and unit quaternions. None for the middle of the
                joints' ranges.
            targets: Value of each target in the test, by the names in `inputs`; all leading axes are broadcast.

        Returns:
            The files.

        Raises:
            ArgumentError: An argument is not right.
        """
        self.check_open()
        problems, _ = self._problems(q0, None, targets)
        inputs = self._loop_inputs(problems, problems["q0"])
        package = loop_package(self.loop, self.robot, inputs, fixed=self._fixed)
        return write_package(package, folder)

    def sensitivity(self, q: npt.ArrayLike, **targets: npt.ArrayLike) -> dict[str, Array]:
        """Return how a solution follows its targets: the smallest motion of the joints that keeps reaching them.

        Joints at a limit do not move. By the implicit function theorem, this is the derivative of a solution of an arm
        that is not redundant.

        Args:
            q: Solutions (..., nq), rad, m and unit quaternions.
            targets: Value of each target, by the names in `inputs`; all leading axes are broadcast.

        Returns:
            Derivatives (..., nv, *shape) by each target, by name: velocities (nv,), rad/s or m/s, per change of an
            entry of the target in 1/s.

        Raises:
            ArgumentError: An input is missing, unknown, of another shape, not finite, or no rotation.
            ArgumentTypeError: An input does not hold real numbers.
        """
        problems, leading = self._problems(q, None, targets)
        batch, kinds, n = len(problems["q0"]), self.options.targets, self.robot.nv
        inputs = {"q": problems["q0"], **self._parts(problems)}
        slopes = evaluate(self._slopes, inputs)
        rows = slopes["derrors_dq"].shape[1]
        inside = self._inside(problems["q0"])
        inverse = np.linalg.pinv(slopes["derrors_dq"] * inside[:, None], rcond=SINGULAR) * inside[:, :, None]
        results = {}
        for target in kinds:
            by_value = np.zeros((batch * rows, *target.shape))
            for name, part in target.parts.items():
                by_value[part.index] = slopes[f"derrors_d{name}"].reshape(batch * rows, *part.shape)
            moved = -(inverse @ by_value.reshape(batch, rows, -1))
            results[target.input] = moved.reshape(*leading, n, *target.shape)
        return results

    @cached_property
    def _slopes(self) -> Graph:
        return jacobian(errors_graph(self.robot, self.options.targets), robot=self.robot)

    def _inside(self, q: Array) -> Array:
        """Return 0 for each degree of freedom (batch, nv) at a limit, and 1 for others."""
        lower, upper = ranges(self.robot)
        inside = np.ones((len(q), self.robot.nv))
        for joint, iq, iv in self.robot.moving():
            if joint.kind.single:
                k = iq.start
                inside[:, iv.start] = (q[:, k] > lower[k] + AT_LIMIT) & (q[:, k] < upper[k] - AT_LIMIT)
        return inside

    def _loop_inputs(self, problems: Mapping[str, Array], starts: Array) -> dict[str, Array]:
        """Return the inputs of the loop by name, (batch, *shape), or (1, *shape) for all problems."""
        inputs = {**self._fixed, "trial": of_type(starts, self.dtype)}
        inputs |= {name: of_type(x, self.dtype) for name, x in self._parts(problems).items()}
        if self.options.posture is not None:
            inputs["rest"] = of_type(problems["posture"], self.dtype)
        return inputs

    def _parts(self, problems: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs of the loop that targets are split into, (batch, *shape) by name."""
        return {
            name: np.ascontiguousarray(problems[target.input][part.index])
            for target in self.options.targets
            for name, part in target.parts.items()
        }

    def _problems(
        self, q0: npt.ArrayLike | None, posture: npt.ArrayLike | None, targets: Mapping[str, npt.ArrayLike]
    ) -> tuple[dict[str, Array], tuple[int, ...]]:
        """Return the checked inputs of a call, (batch, *shape) by name, and the leading axes."""
        nq = self.robot.nq
        if posture is not None and self.options.posture is None:
            raise ArgumentError(
                "posture of a solver without weights of it; expected inverse_kinematics(..., posture=1)",
                code="DG-SOLVER-042",
            )
        for name in targets:
            if name not in self.inputs:
                raise ArgumentError(
                    f"{self.function} has no target '{name}'{nearest(name, self.inputs)}; expected "
                    f"{', '.join(self.inputs)}",
                    code="DG-SOLVER-043",
                )
        start = self.middle if q0 is None else q0
        values: dict[str, tuple[Any, tuple[int, ...]]] = {
            "q0": (start, (nq,)),
            "posture": (start if posture is None else posture, (nq,)),
        }
        for target in self.options.targets:
            if target.input not in targets:
                shape = ", ".join(map(str, target.shape))
                raise ArgumentError(
                    f"target '{target.input}' is missing; expected shape (..., {shape})", code="DG-SOLVER-044"
                )
            values[target.input] = targets[target.input], target.shape
        if self.options.posture is None:
            del values["posture"]
        ports = [_Input(name, shape) for name, (_, shape) in values.items()]
        arrays, leading = common_axes(ports, {k: real(k, x) for k, (x, _) in values.items()}, np.broadcast_to)
        flat = {k: arrays[k].reshape(-1, *shape).astype(np.float64) for k, (_, shape) in values.items()}
        for name, array in flat.items():
            if not np.isfinite(array).all():
                at = np.argwhere(~np.isfinite(array))[0].tolist()
                raise ArgumentError(
                    f"{name} is {array[tuple(at)]} in problem {at[0]}; expected finite numbers", code="DG-SOLVER-045"
                )
        for target in self.options.targets:
            target.check(flat[target.input])
        for name in flat.keys() & {"q0", "posture"}:
            check_unit_vectors(name, [(part.start, part.stop) for part in self.robot.quaternions()], flat[name])
        self.limits.look_at_starts(flat["q0"])
        flat["q0"] = np.clip(flat["q0"], *ranges(self.robot))
        return flat, leading

    def _search(self, problems: Mapping[str, Array]) -> dict[str, Array]:
        """Return the fields of the solution, (batch, ...): problems that have not converged go on with more starts."""
        batch = len(problems["q0"])
        best = self._solved(problems, problems["q0"])
        best["starts"] = np.ones(batch, int)
        left = np.flatnonzero(~best["converged"])
        order, tried = self._nearest({k: x[left] for k, x in problems.items()}), 0
        for count in _rounds(self.starts - 1):
            if not len(left):
                break
            again = np.repeat(left, count)
            starts = self._starts(problems["q0"][again], order[:, tried : tried + count].ravel())
            results = self._solved({k: x[again] for k, x in problems.items()}, starts)
            shape = (len(left), count)
            solved = results["converged"].reshape(shape)
            score = np.where(solved, -1.0, np.nan_to_num(results["error"].reshape(shape), nan=np.inf))
            chosen = np.argmin(score, axis=1) + np.arange(len(left)) * count
            better = results["error"][chosen] < np.nan_to_num(best["error"][left], nan=np.inf)
            for name, x in results.items():
                best[name][left[better]] = x[chosen[better]]
            tried += count
            best["starts"][left] = tried + 1
            open_ = ~best["converged"][left]
            left, order = left[open_], order[open_]
        return best

    def _solved(self, problems: Mapping[str, Array], starts: Array) -> dict[str, Array]:
        """Return the results of the loop from these starts (batch, nq)."""
        batch, options = len(starts), self.options
        inputs = self._loop_inputs(problems, starts)
        outputs = self.new_outputs(batch)
        self.bound(inputs, outputs, batch)()
        ends = np.cumsum([target.count for target in options.targets])[:-1]
        parts = zip(options.targets, np.split(outputs["errors_new"], ends, axis=1), strict=True)
        errors = np.stack([target.sizes(each) for target, each in parts], axis=1)
        return {
            "q": outputs["q_new"],
            "error": (error := errors.max(axis=1)),
            "errors": errors,
            "converged": error <= options.tolerance,
            "iterations": outputs[ITERATIONS].astype(int) - 1,
        }

    @cached_property
    def middle(self) -> Array:
        """The configuration (nq,) in the middle of the joints' ranges, rad or m; 0 for joints without limits."""
        lower, upper = ranges(self.robot)
        with np.errstate(invalid="ignore"):
            middle = np.where(np.isfinite(upper - lower), 0.5 * (lower + upper), np.clip(0.0, lower, upper))
        middle[[part.stop - 1 for part in self.robot.quaternions()]] = 1.0
        return middle

    @cached_property
    def _samples(self) -> Array:
        """Random configurations (SAMPLES, nq) within the limits. Floating joints are at the identity."""
        lower, upper = ranges(self.robot)
        low, high = np.full(self.robot.nq, -1.0), np.full(self.robot.nq, 1.0)
        for joint, iq, _ in self.robot.moving():
            if joint.kind.turning:
                low[iq], high[iq] = -math.pi, math.pi
        low = np.where(np.isfinite(lower), np.where(lower < high, np.maximum(low, lower), lower), low)
        high = np.where(np.isfinite(upper), np.where(upper > low, np.minimum(high, upper), upper), high)
        generator = np.random.default_rng(self.seed)
        q = generator.uniform(np.minimum(low, high), high, (SAMPLES, self.robot.nq))
        for part in self.robot.quaternions():
            q[:, part] = generator.normal(size=(SAMPLES, 4))
        return normalized(self.robot, q)

    @cached_property
    def _floating(self) -> list[slice]:
        return [iq for joint, iq, _ in self.robot.moving() if joint.kind.free]

    @cached_property
    def _at_samples(self) -> dict[str, Array]:
        names = list(dict.fromkeys(name for target in self.options.targets for name in target.functions))
        return evaluate(trace(self.robot, names), {"q": self._samples})

    def _nearest(self, problems: Mapping[str, Array]) -> npt.NDArray[np.intp]:
        """Return the samples (batch, starts - 1) to start from, those near the targets first."""
        count, batch = min(self.starts - 1, SAMPLES), len(problems["q0"])
        if self._floating or not count or not batch:  # the targets are relative to where the base is
            return np.tile(np.arange(count), (batch, 1))
        orders = []
        for begin_ in range(0, batch, CHUNK):
            values = [problems[target.input][begin_ : begin_ + CHUNK] for target in self.options.targets]
            pairs = zip(self.options.targets, values, strict=True)
            distances = sum(target.distances(self._at_samples, value) for target, value in pairs)
            near = np.argpartition(distances, count - 1, axis=1)[:, :count]
            ranks = np.argsort(np.take_along_axis(distances, near, axis=1), axis=1, kind="stable")
            orders.append(np.take_along_axis(near, ranks, axis=1))
        return np.concatenate(orders)

    def _starts(self, q0: Array, samples: npt.NDArray[np.intp]) -> Array:
        """Return starts (batch, nq) at samples, with floating joints as in q0."""
        starts = self._samples[samples]
        for part in self._floating:
            starts[:, part] = q0[:, part]
        return starts


def _rounds(starts: int) -> Iterator[int]:
    """Return numbers of starts that are tried together: 1, 1, 2, 4, ..., which sum to `starts`."""
    done = 0
    while done < starts:
        count = min(max(done, 1), starts - done)
        yield count
        done += count


def _targets(frames: Sequence[str | Target], center_of_mass: float) -> tuple[Target, ...]:
    """Return the targets. Raise ArgumentError or ArgumentTypeError if no target is given, or if two have the same
    input.
    """
    if isinstance(frames, str | Target) or not is_collection(frames):
        raise ArgumentTypeError(
            f"frames={shown(frames)}; expected a list of frames' names and targets", code="DG-SOLVER-046"
        )
    targets: list[Target] = []
    for each in frames:
        if not isinstance(each, str | Target):
            raise ArgumentTypeError(
                f"frames has {shown(each)}; expected the name of a frame, or a target", code="DG-SOLVER-047"
            )
        targets.append(FramePose(each) if isinstance(each, str) else each)
    if not is_number(center_of_mass) or center_of_mass != 0.0:
        targets.append(CenterOfMass(center_of_mass))
    if not targets:
        raise ArgumentError("no target; expected frames, such as ['tool0'], or center_of_mass=1", code="DG-SOLVER-048")
    taken: set[str] = set()
    for target in targets:
        names = {*target.parts, target.input}
        for name in sorted(names & taken):
            raise ArgumentError(
                f"two targets take '{name}'; expected one target for each place of a frame", code="DG-SOLVER-049"
            )
        taken |= names
    return tuple(targets)


def _posture(value: npt.ArrayLike, robot: Robot) -> tuple[float, ...] | None:
    """Return the weights (nv,) of the posture, or None if they are zero."""
    accepted = AT_LEAST_ZERO.called("a weight of 0 or more, or one for each degree of freedom")
    weights = np.broadcast_to(one_or_several("posture=", value, (robot.nv,), accepted), (robot.nv,))
    return tuple(weights.tolist()) if np.any(weights) else None
