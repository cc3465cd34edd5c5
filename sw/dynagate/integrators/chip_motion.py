"""An integrator's steps for integers: a loop in blocks, which a program of the small processor computes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.dynamics import ROLLOUT
from dynagate.forces import CompliantContact, Contact, Force
from dynagate.forces.options import AlgorithmOptions, StepOptions
from dynagate.graph.blocks import Blocks, in_blocks
from dynagate.graph.loop import Until, evaluate_loop
from dynagate.graph.region import Kind, Region
from dynagate.integrators.implicit.contact_states import touching
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.methods import SOLVING, method_of
from dynagate.integrators.motion import Integrator, Motion
from dynagate.robot import Robot

STATE = ("q_next", "qd_next")
FAILURES = "failures"
"""How many steps have not converged."""
MOST_FAILURES = 1 << 16


def extra(name: str) -> str:
    """Return the name of the value of a step that becomes a field of `Trajectories`."""
    return f"{name}_of_step"


def solves(options: AlgorithmOptions) -> bool:
    """Return whether the integrator of a rollout solves equations, by loops that end by a tolerance.

    Raises:
        ArgumentError: There is no such integrator, or it takes no tolerance.
    """
    solving = not method_of(options.method).linearizes
    if options.tolerance is not None and not solving:
        raise ArgumentError(
            f"tolerance={options.tolerance:g} with integrator={options.integrator!r}; expected one that solves "
            f"equations: {' or '.join(SOLVING)}",
            code="DG-ROLLOUT-041",
        )
    return solving


@dataclass(frozen=True)
class ChipMotion:
    """The steps of a robot by an integrator, for numbers of a word length.

    Its loop in blocks takes tau (nv,) for each step. It keeps q_next, qd_next, FAILURES and the values that `extra`
    names.
    """

    robot: Robot
    motion: Motion
    dt: float
    method: Integrator
    forces: tuple[Force, ...] = ()

    @classmethod
    def of(
        cls, robot: Robot, options: AlgorithmOptions, word: int | None, tolerance: float | None = None
    ) -> ChipMotion:
        """Return the steps for a robot.

        Args:
            robot: The robot.
            options: Options with an integrator that solves equations.
            word: Word length in bits; None for floating point.
            tolerance: Tolerance of the equations; None for the integrator's own.

        Raises:
            ArgumentError: The integrator or a chip does not accept an option.
        """
        method = method_of(options.method)
        method = method.in_words(word)
        if tolerance is not None:
            method = method.with_tolerance(tolerance)
        if options.linearize:
            raise ArgumentError(
                f"integrator '{method.name}' takes no linearize; expected a method with derivatives, such as 'rk4'",
                code="DG-ROLLOUT-042",
            )
        if options.variable_dt:
            raise ArgumentError(
                f"integrator '{method.name}' takes no variable_dt; expected a constant time step", code="DG-ROLLOUT-043"
            )
        check_on_chip(options)
        step = options.step(integrator=None)
        assert step.dt is not None
        return cls(
            robot, _named(method.motion(robot, step, linearize=options.linearize)), step.dt, method, tuple(step.forces)
        )

    @cached_property
    def blocks(self) -> Blocks:
        """The loop in blocks."""
        constants = {**self.motion.constants, **dict.fromkeys(self.motion.zeros, 0.0)}
        if self.motion.failed is not None:
            constants["failed"] = 0.0
        blocks = in_blocks(self.motion.loop, constants)
        kept = dict(zip(self.motion.loop.kept, blocks.loop.kept, strict=True))  # blocks name counters after their loops
        names = {kept[value]: state for value, state in zip(self.motion.states, STATE, strict=True)}
        names |= {kept[value]: extra(name) for name, (value, _) in self.motion.extras.items()}
        names |= {} if self.motion.failed is None else {kept[self.motion.failed]: FAILURES}
        return Blocks(replace(blocks.loop.renamed(names), name=ROLLOUT), blocks.starts)

    def begun(self, q: Array, qd: Array) -> dict[str, Array]:
        """Return the inputs of the first step other than tau, from states (batch, ·)."""
        states = {"q": q, "qd": qd}
        begin = self.motion.begin
        inputs = dict(states)
        if begin is not None:
            taken = {port.name for port in begin.inputs}
            constants = {k: np.full(len(q), v) for k, v in self.motion.constants.items() if k in taken}
            inputs |= evaluate_loop(begin, {**states, **constants})
        loop, starts = self.blocks.loop, self.blocks.starts
        return {
            p.name: inputs[p.name] for p in loop.inputs if p.name not in starts and p.name not in loop.per_iteration
        }

    def exact(self, q: Array, qd: Array, tau: Array) -> dict[str, Array]:
        """Return trajectories in float64: q_next, qd_next (batch, steps, ·), for torques (batch, steps, nv)."""
        return {name: values for name, values in self._evaluated(q, qd, tau).items() if name in STATE}

    def solved(self, q: Array, qd: Array, tau: Array) -> Array:
        """Return the trajectories (batch,) whose equations float64 solves in every step. tau: (batch, steps, nv)."""
        return np.asarray(self._evaluated(q, qd, tau)[FAILURES][:, -1] == 0.0)

    def _evaluated(self, q: Array, qd: Array, tau: Array) -> dict[str, Array]:
        """Return q_next, qd_next and FAILURES of all steps in float64, (batch, steps, ...)."""
        loop = self.motion.loop
        zeros: dict[str, Array] = {name: np.zeros((len(q), size)) for name, size in self.motion.zeros.items()}
        zeros |= {"failed": np.zeros(len(q)), "tau": tau}
        constants = {name: np.full(len(q), value) for name, value in self.motion.constants.items()}
        inputs = {**self.begun(q, qd), **constants, **zeros}
        results = evaluate_loop(loop, {port.name: inputs[port.name] for port in loop.inputs})
        named = {**dict(zip(STATE, self.motion.states, strict=True)), FAILURES: self.motion.failed}
        return {own: results[name] for own, name in named.items() if name is not None}

    def starts(self, region: Region, count: int, seed: int, kind: Kind = "uniform") -> dict[str, Array]:
        """Draw q, qd and tau (count, ·) from which motions begin, as `Region.sample` does. No point of a contact is far
        below the ground.
        """
        sample = region.sample("forward_dynamics", count, seed, kind=kind)
        return {**sample, "q": self.feasible(sample["q"], region, seed)}

    def feasible(self, q: Array, region: Region, seed: int) -> Array:
        """Return configurations (batch, nq) near q from which motions can begin, with no contact far below ground."""
        ends = np.array(region.lower), np.array(region.upper)
        q = self.method.starts(self.robot, q, ends, seed)
        for force in self.forces:
            if isinstance(force, Contact | CompliantContact):
                q = touching(self.robot, RigidContact(force.points, force.planes), q, ends, seed)
        return q

    def reach(self) -> dict[str, float]:
        """Return values that may exceed those in sampled motions, such as counters, and their largest magnitude."""
        most = {**self.motion.reach, "failed": float(MOST_FAILURES)}
        for loop in self.blocks.loop.inner_loops():
            if isinstance(loop.stop, Until):
                counted = [name for value, name in loop.carry.items() if value == extra("iterations")]
                most |= dict.fromkeys(counted, float(loop.stop.at_most))
        return most


def _named(motion: Motion) -> Motion:
    """Return the motion with the state names of an explicit step."""
    names = {name: state for name, state in zip(motion.states, STATE, strict=True) if name != state}
    return replace(motion, loop=motion.loop.renamed(names), states=STATE)


def check_on_chip(options: StepOptions) -> None:
    """Raise ArgumentError if a force takes an input of each step."""
    for force in options.forces:
        if force.inputs:
            raise ArgumentError(
                f"force '{force.name}' takes the input '{force.inputs[0]}' of each step, for which a chip has no "
                f"place; expected {force.name}({force.inputs[0]}=...), which is constant",
                code="DG-ROLLOUT-044",
            )
