"""Walking as Gymnasium environments: spider, hopper and walker, on position-based steps with friction (PBFD) or on
Newton-Euler steps with dry friction.

Importing this module registers `dynagate/Hopper-v0`, `dynagate/Walker-v0` and `dynagate/Spider-v0`.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError, MissingExtraError
from dynagate.integrators.complementarity import StewartTrinkle
from dynagate.integrators.contact import Contact, Plane
from dynagate.integrators.legged import LEGGED
from dynagate.integrators.position_based import PositionBased
from dynagate.integrators.position_based_inputs import PositionBasedWarning, check_positive, is_finite, shown
from dynagate.integrators.position_based_joints import Servo
from dynagate.integrators.position_based_kinematics import move, subtract
from dynagate.integrators.position_based_links import Floats

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise MissingExtraError("environments need Gymnasium: pip install 'dynagate[learn]'") from error

CONTROL = 0.05
"""s that an action holds."""

DEPTH, GRIP, MU = 0.01, 3.0, 0.8
"""Contact: how deep all feet rest, m, which gives C⊥; C∥ dt / C⊥ in s/m, so μ = 1 at 0.33 m/s; the coefficient of dry
friction. Twice the grip leaves some steps of the spider without a solution."""

STEPS = {"pbfd": 0.025, "newton-euler": 0.0025}
"""Simulator -> its time step in s."""

FORWARD = 5.0
"""Reward of 1 m/s beside that of standing. At 2.0 the walker learned to stand still."""

Observation = npt.NDArray[np.float32]


class Walking(gymnasium.Env[Observation, npt.NDArray[np.float32]]):
    """A legged robot that is to walk along x, at most `span` seconds.

    Action (motors,), -1 to 1: targets of the servos from the stance, times `Legged.swing`. It holds CONTROL seconds.
    Observation: q without the base's x (and y), then q̇ times 0.1, both as float32.
    Reward: FORWARD times the speed along x in m/s, 1 for each action that it stands, less 0.1 |action|² / motors.
    It has fallen, and the episode ends, where the base is below `Legged.least` or tilts beyond `Legged.tilt`, or where
    the simulator has lost it: `info["converged"]` says if all steps of the simulator had a solution.
    reset takes `options={"push": v}`: the base's speed along x in m/s, and `{"noise": r}`: the range of joint angles in
    rad and speeds in rad/s around the stance (0.02 by default).

    robot: "hopper", "walker" or "spider". simulator: "pbfd", or "newton-euler", semi-implicit with dry friction.
    dt: of the simulator, s; None for that of STEPS. Raises ValueError: an unknown name, a dt that CONTROL is no
    multiple of, an option of reset that is not there.
    """

    def __init__(
        self,
        robot: str = "hopper",
        *,
        simulator: Literal["pbfd", "newton-euler"] = "pbfd",
        dt: float | None = None,
        span: float = 10.0,
    ) -> None:
        if robot not in tuple(LEGGED):
            raise ArgumentError(f"robot '{robot}'; expected one of {', '.join(LEGGED)}")
        if simulator not in tuple(STEPS):
            raise ArgumentError(f"simulator '{simulator}'; expected one of {', '.join(STEPS)}")
        self.legged, self.simulator = LEGGED[robot](), simulator
        self.dt = STEPS[simulator] if dt is None else dt
        check_positive("dt", self.dt)
        self._hold = round(CONTROL / self.dt)
        if self._hold < 1 or abs(self._hold * self.dt - CONTROL) > 1e-9:
            raise ArgumentError(f"dt is {self.dt:g} s; expected {CONTROL} s over a whole number")
        if not (is_finite(span) and span >= CONTROL):
            raise ArgumentError(f"span is {shown(span)} s; expected a finite number, {CONTROL} or more")
        self._last = round(span / CONTROL)
        servo = Servo(self.legged.stiffness, self.legged.damping)
        own = self.legged.robot
        weight = float(np.linalg.norm(own.gravity)) * sum(link.mass for link in own.links)
        stiffness = weight / len(self.legged.feet) / DEPTH**2
        contact = Contact(self.legged.feet, (Plane(),), stiffness, stiffness * GRIP / self.dt)
        self._positions = PositionBased(own, self.dt, contact=contact, servo=servo, iterations=60, threads=1)
        self._newton = StewartTrinkle(own, self.dt, self.legged.feet, mu=MU, servo=servo)
        self._motors = self.legged.motors
        self.q, self.qd, self._count = self.legged.stance.copy(), np.zeros(own.nv), 0
        motors = own.nv - self._motors.start
        self.action_space = spaces.Box(-1.0, 1.0, (motors,), np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, (len(self._observation()),), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        chosen = {"push": 0.0, "noise": 0.02, **(options or {})}
        if unknown := sorted(chosen.keys() - {"push", "noise"}):
            raise ArgumentError(f"reset has no option {', '.join(unknown)}; expected push, noise")
        for name, value in chosen.items():
            if not is_finite(value) or (name == "noise" and value < 0.0):
                raise ArgumentError(f"reset has {name} {shown(value)}; expected a finite number, for noise 0 or more")
        motors, size = self._motors, self.action_space.shape
        offset = np.zeros(self.legged.robot.nv)
        offset[motors] = self.np_random.uniform(-chosen["noise"], chosen["noise"], size)
        self.q, self.qd, self._count = np.empty_like(self.legged.stance), np.zeros_like(offset), 0
        move(self._positions._links, self.legged.stance, offset, self.q)
        self.qd[motors] = self.np_random.uniform(-chosen["noise"], chosen["noise"], size)
        self.qd[0] = chosen["push"]
        return self._observation(), {"converged": True}

    def step(self, action: npt.NDArray[np.float32]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if np.shape(action) != self.action_space.shape or not np.isfinite(action).all():
            raise ArgumentError(f"action is {action!r:.60}; expected finite numbers of shape {self.action_space.shape}")
        target = np.zeros(self.legged.robot.nv)
        standing = self.legged.stance[-len(action) :]
        bounded = np.clip(np.asarray(action, float), -1.0, 1.0)
        target[self._motors] = standing + self.legged.swing * bounded
        begin = self.q[0]
        q, qd, converged = self._advance(target)
        self._count += 1
        sound = bool(np.isfinite(q).all() and np.isfinite(qd).all() and np.abs(qd).max() < 1e3)
        if sound:
            self.q, self.qd = q, qd
        fallen = not sound or self._has_fallen()
        speed = float(self.q[0] - begin) / CONTROL
        reward = FORWARD * speed + (0.0 if fallen else 1.0) - 0.1 * float(bounded @ bounded) / len(bounded)
        return self._observation(), reward, fallen, self._count >= self._last, {"converged": converged and sound}

    def _advance(self, target: Floats) -> tuple[Floats, Floats, bool]:
        """q and q̇ after CONTROL seconds, and whether all steps had a solution."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PositionBasedWarning)  # `converged` says it
            if self.simulator == "newton-euler":
                slide = self._newton.run(self.q, self.qd, self._hold, target=target)
                return slide.q[-1], slide.qd, bool(slide.solved.all())
            track = self._positions.run(self.q, self.qd, self._hold, target=target)
        qd = np.empty(self.legged.robot.nv)
        subtract(self._positions._links, track.q[-1], track.q[-2], qd)
        return track.q[-1], qd / self.dt, bool(track.converged.all())

    def _has_fallen(self) -> bool:
        tilt = abs(self.q[2])
        if self._motors.start == 6:  # the angle between the base's z and the world's
            x, y = self.q[3], self.q[4]
            tilt = np.arccos(np.clip(1.0 - 2.0 * (x * x + y * y), -1.0, 1.0))
        return bool(self.q[self.legged.height] < self.legged.least or tilt > self.legged.tilt)

    def _observation(self) -> Observation:
        place = self.q[self.legged.height :]
        return np.concatenate([place, 0.1 * self.qd]).astype(np.float32)


for _name in LEGGED:
    gymnasium.register(
        f"dynagate/{_name.capitalize()}-v0",
        entry_point="dynagate.integrators.environments:Walking",
        kwargs={"robot": _name},
    )
