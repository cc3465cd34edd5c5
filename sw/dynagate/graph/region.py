"""Operating regions: the states that a design is made for, and the seeded sampler of states that all layers use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import Accepted, check_count, is_whole, one_or_each, shown
from dynagate.base.arrays import Floats
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.nearest import nearest
from dynagate.base.upper_limits import LARGEST_LIMIT, MAX_STATES, SMALLEST_LIMIT
from dynagate.dynamics import EXTERNAL, ROLLOUT, FunctionPart, function
from dynagate.dynamics.configuration import normalized
from dynagate.dynamics.friction import FrictionModel
from dynagate.forces import Force
from dynagate.forces.listed import acting_friction, joint_friction
from dynagate.graph import Graph, trace
from dynagate.graph.constrained_states import carried, near, still
from dynagate.graph.derived import JVP
from dynagate.graph.evaluate import evaluate
from dynagate.graph.parameter_ranges import Range, bounds_of, check_ranges, drawn
from dynagate.graph.parts import kinds_of_samples, pooled, with_code
from dynagate.robot import Joint, Link, Robot, RobotError
from dynagate.robot.checked import RobotOrName, robot_of

DEFAULT_ACCELERATION = 10.0
"""Largest acceleration of a joint, in rad/s² or m/s². Unless effort limits bound torques, those that cause up to it are
sampled.
"""

SWING = 100.0
"""Largest acceleration of a leg's joints while its foot is in the air, in rad/s²: half a radian three times a
second.
"""

EXTERNAL_MOMENT = 5.0
EXTERNAL_FORCE = 50.0
"""Largest external force on each link, in N: about the push of a hand."""

POSITION = 1.0
"""Largest distance of a floating joint from the origin in each direction, in m. Only positions depend on it."""

REST = 0.05
"""Factor of the largest speed and acceleration for states near rest."""

SLOW = 3.0
"""Multiple of the speed of smoothed friction at which friction reaches 95 % of its full value."""

DIRECTIONS = ("lam_", "delta_")
"""Prefixes of inputs in which the results are linear. They are sampled from -1 to 1 in each entry."""

BY_ROWS = ("lam_force", "lam_impulse")
"""Inputs of DIRECTIONS that have an entry for each row of the constraints."""

Kind = Literal["uniform", "limits", "rest"]
KINDS: tuple[Kind, ...] = get_args(Kind)
UNITS = {"velocity": "rad/s", "effort": "N m"}
"""Units of the limits of rotary joints, by kind of limit."""

Limits = float | Sequence[float] | Mapping[str, float] | None


class LimitError(RobotError):
    """An error for joints without a limit that a region needs.

    Args:
        limit: "velocity" or "effort".
        joints: Names of all joints that lack it.
    """

    def __init__(self, limit: str, joints: Sequence[str]) -> None:
        self.limit, self.joints = limit, tuple(joints)
        unit = UNITS[limit]
        names = ", ".join(f"'{name}'" for name in joints)
        what, have, give = ("joint", "has", "one") if len(joints) == 1 else ("joints", "have", "them")
        super().__init__(
            f"{what} {names} {have} no {limit} limit; give {give} in the URDF or as {limit}= ({unit})",
            code="DG-REGION-007",
        )


@explained
@dataclass(frozen=True)
class Region:
    """Bounds of the states for which a design is made.

    Speeds are bounded, and either accelerations or torques; the other of the two follows from the dynamics. External
    forces, if a function takes them, are up to EXTERNAL_MOMENT N m and EXTERNAL_FORCE N in each direction.
    """

    robot: Robot
    """The robot."""
    lower: tuple[float, ...]
    """Lower bound of each number of the configuration, (nq,), in rad or m; -1 in a quaternion, which takes any
    direction.
    """
    upper: tuple[float, ...]
    """Upper bound of each number of the configuration, (nq,), in rad or m; 1 in a quaternion."""
    velocity: tuple[float, ...]
    """Largest |q̇| of each degree of freedom, (nv,), in rad/s or m/s."""
    acceleration: tuple[float, ...] | None
    """Largest |q̈| of each degree of freedom, (nv,), in rad/s² or m/s²; None if torques are bounded."""
    effort: tuple[float, ...] | None = None
    """Largest |τ| of each degree of freedom, (nv,), in N m or N; None if accelerations are bounded."""
    dt: float | None = None
    """Largest time step in s of a rollout that takes it as an input; None if the time step is a constant."""
    parameters: tuple[Range, ...] = ()
    """Ranges of variable parameters that differ from those of `parameter_ranges`."""

    @classmethod
    def of(
        cls,
        robot: RobotOrName,
        *,
        velocity: Limits = None,
        acceleration: Limits = None,
        effort: Limits | Literal["limits"] = None,
        parameters: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]] | None = None,
    ) -> Region:
        """Return the region inside the joint limits of a robot.

        A continuous joint has the range -π to π, and a floating joint POSITION m in each direction. Joints that carry a
        contact (`Robot.with_contact`) have SWING for DEFAULT_ACCELERATION.

        Args:
            robot: The robot, its name or its path.
            velocity: Limits in rad/s or m/s instead of those in the robot's file: one number, (nv,) numbers, or numbers
                by joint name.
            acceleration: Limits in rad/s² or m/s², in the same forms, instead of DEFAULT_ACCELERATION.
            effort: Limits in N m or N, in the same forms, instead of those in the file. "limits" means the latter.
                Accelerations have no limits then.
            parameters: (low, high) of variable parameters (`Robot.with_variable`) by their names or inputs. Each end is
                one number or an array of the input's shape. Other parameters vary around the robot's own numbers, as
                `graph.parameter_ranges` says.

        Returns:
            The region.

        Raises:
            TypeError: robot is not a robot.
            LimitError: Joints have no limit and none is given.
            RobotError: acceleration and effort are both given, a limit is not positive, or it names a joint that the
                robot does not have.
        """
        robot = robot_of(robot)
        if acceleration is not None and effort is not None:
            raise RobotError(
                "acceleration and effort are both given; expected one: the other follows from it", code="DG-REGION-008"
            )
        lower, upper = [], []
        for link in robot.links:
            joint = link.joint
            free = 1.0 if joint.has_quaternion else math.pi
            least, most = _positions(robot, joint, free)
            low, high = [least] * joint.nq, [most] * joint.nq
            if not joint.kind.limited:
                for k in joint.kind.lengths:
                    low[k], high[k] = -POSITION, POSITION
            lower += low
            upper += high
        accelerations = efforts = None
        if effort is not None:
            efforts = _of_joints(robot, "effort", None if isinstance(effort, str) and effort == "limits" else effort)
        else:
            usual = _usual_accelerations(robot)
            accelerations = _per_dof(robot, "acceleration", usual if acceleration is None else acceleration, usual)
        speeds = _of_joints(robot, "velocity", velocity)
        ranges = check_ranges(robot, parameters)
        return cls(robot, tuple(lower), tuple(upper), speeds, accelerations, efforts, parameters=ranges)

    def of_robot(self, robot: Robot) -> Region:
        """Return the region for a robot with other variable parameters than its own."""
        return self if self.robot.variable == robot.variable else replace(self, robot=robot)

    def text(self) -> str:
        """Describe the region in a few words, with numbers in rad, m, s and N."""

        def span(values: Sequence[float]) -> str:
            low, high = min(values), max(values)
            return f"{low:g}" if low == high else f"{low:g} to {high:g}"

        name, limits = ("torques", self.effort) if self.effort else ("accelerations", self.acceleration or ())
        speeds = f"speeds up to {span(self.velocity)}"
        return f"positions within limits, {speeds}, {name} up to {span(limits)} (rad, m, s, N)"

    def bounds(self, name: str) -> list[tuple[float, float]] | None:
        """Return (low, high) for each entry of an input, in rad, m, s and N.

        Args:
            name: Name of the input.

        Returns:
            A pair for each entry, or None for an input that follows from others (tau or qdd, minv).
        """
        if name == "q":
            return list(zip(self.lower, self.upper, strict=True))
        if name == "f_ext":
            limits = [EXTERNAL_MOMENT] * 3 + [EXTERNAL_FORCE] * 3
            return [(-x, x) for x in limits] * len(self.robot.links)
        for variable in self.robot.variables:
            if name == f"delta_{variable.input}":
                return [(-1.0, 1.0)] * math.prod(variable.shape)
        if name.startswith(DIRECTIONS):
            return [(-1.0, 1.0)] * (self.robot.constraint_rows if name in BY_ROWS else self.robot.nv)
        if name in ("active", "restitution"):
            return [(0.0, 1.0)] * len(self.robot.constraints)
        if name == "dt":
            return None if self.dt is None else [(0.0, self.dt)]
        for variable in self.robot.variables:
            if variable.input == name:
                return bounds_of(self.robot, variable, self.parameters)
        symmetric = {"qd": self.velocity, "qdd": self.acceleration, "tau": self.effort}.get(name)
        return None if symmetric is None else [(-x, x) for x in symmetric]

    def sample(
        self,
        name: str,
        count: int,
        seed: int,
        *,
        kind: Kind = "uniform",
        external_forces: bool = False,
        constrained: bool = False,
        forces: Sequence[Force | str] = (),
    ) -> dict[str, Floats]:
        """Draw inputs of a function.

        Either qdd or tau is drawn and the other follows from it in float64, as minv does from q. Entries of the weights
        λ and directions δ of derivatives are from -1 to 1. Each constraint is active or not at random. A function with
        the input `active` gets states that the constraints allow: loops are closed, frames of active constraints move
        with 0.05 of their velocities, forces are determined, and undriven joints have no torque if forces can carry the
        robot instead (`graph.constrained_states`). Several functions together alternate, sample by sample.

        Args:
            name: Name of the function.
            count: Number of samples.
            seed: Seed of the generator; equal seeds give equal samples.
            kind: "uniform": in the region. "limits": one third with every joint at a limit of its position, one
                third with speeds and accelerations at their limits, one third with one joint at its limits. "rest":
                speeds, accelerations and external forces up to REST of their limits; in a region with torques, torques
                that cause up to REST · DEFAULT_ACCELERATION.
            external_forces: Whether f_ext is an input.
            constrained: Whether the steps of a rollout have the input `active`.
            forces: Forces as in `AlgorithmOptions`. Torques overcome the friction among them, and every second
                state near rest has speeds of up to SLOW times the friction's speed.

        Returns:
            Input name -> array (count, *shape), in rad, m, s and N. Quaternions take all directions. Variable
            parameters of the robot are inputs too.

        Raises:
            ArgumentError: count is less than 1, seed is negative, or the kind or the function is unknown.
            RobotError: No state closes the robot's loops.
        """
        if not (is_whole(count) and 1 <= count <= MAX_STATES):
            raise ArgumentError(
                f"{shown(count)} states; expected 1 or more, at most {MAX_STATES}", code="DG-REGION-009"
            )
        check_count("seed", seed, math.inf, 0)
        rubs = joint_friction(self.robot, forces)
        own = acting_friction(self.robot, forces)
        if function(name).parts:
            samples = {
                part.name: self.sample(
                    part.name,
                    count,
                    seed,
                    kind=kind,
                    external_forces=external_forces and part.function.takes_external_forces,
                    forces=own,
                )
                for part in kinds_of_samples(name)
            }
            return pooled(name, samples, count)
        needed = [argument.name for argument in function(name).inputs_with(external_forces)]
        needed += ["active"] if constrained and "active" not in needed else []
        state = self._drawn(kind, count, seed, rubs, external_forces)
        held = self._stand(state, seed) if "active" in needed else {}
        loads = {
            variable.input: drawn(self.robot, variable, self.parameters, count, [seed, 3 + k], kind == "limits")
            for k, variable in enumerate(self.robot.variables)
        }
        self._follow(state, held, loads, needed, (external_forces, own))
        if name == ROLLOUT and self.dt is not None:
            needed.append("dt")
        moved = [variable for variable in self.robot.variables if name.endswith(JVP)]
        needed += [f"delta_{variable.input}" for variable in moved]
        state |= self._besides(needed, count, seed)
        for variable in moved:
            key = f"delta_{variable.input}"
            state[key] = state[key].reshape(count, *variable.shape)
        return {**{key: state[key] for key in needed}, **loads}

    def _besides(self, needed: Sequence[str], count: int, seed: int) -> dict[str, Floats]:
        """Draw the inputs that are not part of a state: directions, restitutions and time steps."""
        drawn = np.random.default_rng([seed, 2])
        besides = {
            key: drawn.uniform(-1.0, 1.0, (count, len(self.bounds(key) or ())))
            for key in needed
            if key.startswith(DIRECTIONS)
        }
        if "restitution" in needed:
            events = (count, len(self.robot.constraints))
            besides["restitution"] = np.random.default_rng([seed, 6]).uniform(0.0, 1.0, events)
        if "dt" in needed:
            besides["dt"] = np.random.default_rng([seed, 4]).uniform(0.0, self.dt or 0.0, count)
        return besides

    def _drawn(
        self, kind: Kind, count: int, seed: int, rubs: FrictionModel | None, external_forces: bool
    ) -> dict[str, Floats]:
        """Draw q, q̇, either τ or q̈, and f_ext if it is an input."""
        random = np.random.default_rng(seed)
        robot, nv = self.robot, self.robot.nv
        at_limits = _at_limits(robot, kind, count, seed)
        scale = REST if kind == "rest" else 1.0

        def symmetric(limits: npt.ArrayLike, joints: npt.NDArray[np.bool_]) -> Floats:
            """Up to ±limits, and there for the joints that are at their limits."""
            part = random.uniform(-1.0, 1.0, (count, *np.shape(limits)))
            return np.where(joints, np.sign(part), part) * (scale * np.asarray(limits, dtype=np.float64))

        q = random.uniform(self.lower, self.upper, (count, robot.nq))
        ends = np.where(2.0 * q < np.add(self.lower, self.upper), self.lower, self.upper)
        state = {"q": np.where(at_limits.positions, ends, q), "qd": symmetric(self.velocity, at_limits.speeds)}
        if rubs is not None and kind == "rest":
            state["qd"][::2] *= np.minimum(1.0, SLOW * rubs.speed / (REST * np.array(self.velocity)))
        if self.effort is not None and kind != "rest":
            state["tau"] = symmetric(self.effort, at_limits.speeds)
        else:
            state["qdd"] = symmetric(self.acceleration or [DEFAULT_ACCELERATION] * nv, at_limits.speeds)
        for part in robot.quaternions():
            state["q"][:, part] = random.normal(size=(count, 4))
        normalized(robot, state["q"])
        if external_forces:
            limits = np.tile(np.repeat([EXTERNAL_MOMENT, EXTERNAL_FORCE], 3), (len(robot.links), 1))
            state["f_ext"] = symmetric(limits, np.all(at_limits.speeds, axis=1).reshape(count, 1, 1))
        return state

    def _follow(
        self,
        state: dict[str, Floats],
        held: Mapping[str, Floats],
        loads: Mapping[str, Floats],
        needed: Sequence[str],
        common: tuple[bool, tuple[Force, ...]],
    ) -> None:
        """Add the inputs that follow from the drawn ones: τ or q̈, and M⁻¹. `common` has external forces and
        friction.
        """
        robot, (external_forces, forces) = self.robot, common
        effect, dynamics = ("qdd", "forward_dynamics") if "tau" in state else ("tau", "inverse_dynamics")
        if effect in needed:
            graph = trace(robot, dynamics, external_forces=external_forces, forces=forces)
            state[effect] = evaluate(graph, {**state, **loads})[effect]
        if effect == "tau" and {"tau", "active"} <= set(needed):
            state["tau"] = carried(self._constant, state["q"], state["tau"], held["active"])
        state |= held
        if "minv" in needed:
            graph = trace(robot, "mass_matrix_inverse")
            state["minv"] = evaluate(graph, {"q": state["q"], **loads})["minv"]

    @property
    def _constant(self) -> Robot:
        """The robot with its own numbers for its variable parameters."""
        return replace(self.robot, variable=()) if self.robot.variable else self.robot

    def _stand(self, state: dict[str, Floats], seed: int) -> dict[str, Floats]:
        """Draw which constraints are active, and move the states to ones that these allow (`graph.constrained_states`).

        Variable parameters have the robot's own numbers.
        """
        robot, count = self._constant, len(state["q"])
        random = np.random.default_rng([seed, 5])
        active = random.integers(0, 2, (count, len(robot.constraints))).astype(np.float64)
        ends = np.array(self.lower), np.array(self.upper)

        def drawn() -> Floats:
            q = random.uniform(*ends, (count, robot.nq))
            for part in robot.quaternions():
                q[:, part] = random.normal(size=(count, 4))
            return normalized(robot, q)

        state["q"] = near(robot, state["q"], active, drawn, ends)
        state["qd"] = still(robot, state["q"], state["qd"], active, np.array(self.velocity))
        return {"active": active}

    def states(self, graph: Graph, count: int, seed: int, kind: Kind = "uniform") -> dict[str, Floats]:
        """Draw the inputs that a graph has, as `sample` does.

        Args:
            graph: The graph.
            count: Number of samples.
            seed: Seed of the generator.
            kind: Kind of the states, as in `sample`.

        Returns:
            Input name -> array (count, *shape).

        Raises:
            ArgumentError: The region's robot has other variable parameters than the graph.
        """
        external_forces = any(port.name == EXTERNAL.name for port in graph.inputs)
        varied = [port.name for port in graph.inputs if port.parameter]
        own = [variable.input for variable in self.robot.variables]
        if varied and varied != own:
            raise ArgumentError(
                f"{graph.name} has the variable parameters {', '.join(varied)}, and the region's robot has "
                f"{', '.join(own) or 'none'}; expected the same: Region.of(robot.with_variable(...))",
                code="DG-REGION-010",
            )
        region = self if varied else self.of_robot(self._constant)
        optional = {
            "external_forces": external_forces,
            "constrained": any(port.name == "active" for port in graph.inputs),
        }
        return region.sample(graph.name, count, seed, kind=kind, forces=graph.forces, **optional)


def part_states(
    graph: Graph, part: FunctionPart, region: Region, count: int, seed: int, kind: Kind = "uniform"
) -> dict[str, Floats]:
    """Draw states of one of several functions, for the graph of its part.

    Args:
        graph: The graph of the part.
        part: The function.
        region: The operating region.
        count: Number of samples.
        seed: Seed of the generator.
        kind: Kind of the states, as in `Region.sample`.

    Returns:
        Input name -> array (count, *shape).
    """
    inputs = with_code(part, region.states(graph, count, seed, kind), count)
    return {port.name: inputs[port.name] for port in graph.inputs}


def limits_of(part: FunctionPart, region: Region) -> dict[str, list[tuple[float, float]]]:
    """Return (low, high) for each entry of the inputs that a function shares with others under another name."""
    limits = {own: region.bounds(own) for own, shared in part.inputs if own != shared}
    return {own: bounds for own, bounds in limits.items() if bounds is not None}


class _AtLimits(NamedTuple):
    """Which numbers of q (count, nq), and which speeds, accelerations and torques (count, nv), are at their limits."""

    positions: npt.NDArray[np.bool_]
    speeds: npt.NDArray[np.bool_]


def _at_limits(robot: Robot, kind: Kind, count: int, seed: int) -> _AtLimits:
    """Return which degrees of freedom of each sample are at a limit, for this kind of states."""
    if kind not in KINDS:
        raise ArgumentError(
            f"states of kind '{kind}'{nearest(kind, KINDS)}; expected one of {', '.join(KINDS)}", code="DG-REGION-011"
        )
    positions, speeds = np.zeros((count, robot.nq), dtype=bool), np.zeros((count, robot.nv), dtype=bool)
    if kind == "limits":
        positions[0::3], speeds[0::3], speeds[1::3] = True, True, True
        single = np.random.default_rng([seed, 1]).integers(len(robot.links), size=count)
        for k, (_, iq, iv) in enumerate(robot.slices()):
            rows = np.flatnonzero((np.arange(count) % 3 == 2) & (single == k))
            positions[rows, iq] = True
            speeds[rows, iv] = True
    return _AtLimits(positions, speeds)


def _positions(robot: Robot, joint: Joint, free: float) -> tuple[float, float]:
    """Return the limits of a joint's position, `free` where it has none. Raise RobotError if mimicking joints leave no
    range.
    """
    low, high = robot.reach(joint)
    least, most = -free if low is None else low, free if high is None else high
    if robot.followers and least >= most:
        names = ", ".join(f"'{link.joint.name}'" for link in robot.links if _follows(link, joint))
        raise RobotError(
            f"the limits of {names}, which mimic joint '{joint.name}', leave it no range; expected limits that meet, "
            "or lock= for them",
            code="DG-REGION-012",
        )
    return least, most


def _usual_accelerations(robot: Robot) -> list[float]:
    """Return the default bound of each velocity's acceleration (nv,).

    It is SWING for rotating joints between the base and a contact, else DEFAULT_ACCELERATION.
    """
    swinging = {i for own in robot.constraints if own.is_contact for i in robot.ancestors(robot.frame(own.frame).link)}
    legs = {i for i in swinging if robot.links[i].joint.kind.turning}
    return [
        SWING if i in legs else DEFAULT_ACCELERATION for i, link in enumerate(robot.links) for _ in range(link.joint.nv)
    ]


def _follows(link: Link, joint: Joint) -> bool:
    return link.joint.mimic is not None and link.joint.mimic.joint == joint.name


def _of_joints(robot: Robot, name: Literal["velocity", "effort"], overrides: Limits) -> tuple[float, ...]:
    """Return the limit of each degree of freedom: the override, or else the limit in the robot's file."""
    limits: list[float] = []
    missing: list[str] = []
    for link in robot.links:
        joint = link.joint
        limit = joint.velocity if name == "velocity" else joint.effort
        if (
            joint.nv
            and not limit
            and (overrides is None or (isinstance(overrides, Mapping) and joint.name not in overrides))
        ):
            missing.append(joint.name)
        limits += [limit or 0.0] * joint.nv
    if missing:
        raise LimitError(name, missing)
    return tuple(limits) if overrides is None else _per_dof(robot, name, overrides, limits)


def _per_dof(robot: Robot, name: str, values: Limits, default: Sequence[float]) -> tuple[float, ...]:
    """Return a limit for each degree of freedom from one number, several, or numbers by joint name."""
    if isinstance(values, Mapping):
        unknown = set(values) - {link.joint.name for link in robot.links if link.joint.nv}
        if unknown:
            near = nearest(min(unknown), [link.joint.name for link in robot.links if link.joint.nv])
            raise RobotError(
                f"{name} names joint '{min(unknown)}'{near}, which robot '{robot.name}' does not have",
                code="DG-REGION-013",
            )
        own_limits = list(default)
        for link, _, dofs in robot.slices():
            own_limits[dofs] = [values.get(link.joint.name, x) for x in own_limits[dofs]]
        limits: object = own_limits
    else:
        limits = values
    expected = f"positive numbers: one, or {robot.nv}, one per degree of freedom, or by joint name"
    own = one_or_each(f"{name}=", limits, Accepted(expected, "", SMALLEST_LIMIT, LARGEST_LIMIT), RobotError)
    if isinstance(own, tuple) and len(own) != robot.nv:
        raise RobotError(f"{name}={shown(values)}; expected {expected}", code="DG-REGION-014")
    return own if isinstance(own, tuple) else (own,) * robot.nv
