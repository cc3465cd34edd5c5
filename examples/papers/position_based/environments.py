"""Walking as Gymnasium environments: spider, hopper and walker, on position-based steps with friction (PBFD) or on
Newton-Euler steps with dry friction.

Importing this module registers `dynagate/Hopper-v0`, `dynagate/Walker-v0` and `dynagate/Spider-v0`, for
`gymnasium.make` and `gymnasium.make_vec`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from dynagate.base.errors import ArgumentError, MissingExtraError
from dynagate.base.progress import showing

from examples.papers.position_based.inputs import check_whole
from examples.papers.position_based.legged import LEGGED
from examples.papers.position_based.walking import CONTROL as CONTROL  # of this module's users
from examples.papers.position_based.walking import Flags, Simulator, WalkingTask

if TYPE_CHECKING:
    from dynagate.views.scene.browser import View

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.utils import seeding
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise MissingExtraError("environments need Gymnasium: pip install 'dynagate[learn]'") from error

Numbers = npt.NDArray[np.float32]


def _spaces(task: WalkingTask) -> tuple[Any, Any]:
    """Of observations, and of actions."""
    return spaces.Box(-np.inf, np.inf, (task.size,), np.float32), spaces.Box(-1.0, 1.0, (task.motors,), np.float32)


_STEPPED: set[tuple[str, str, bool]] = set()


@contextmanager
def compiling(task: WalkingTask) -> Iterator[None]:
    """The first step of a simulator in this process, which compiles it where the cache has none: a terminal says so."""
    kind = (task.legged.robot.name, task.simulator, task.batch)
    if kind in _STEPPED:
        yield
        return
    with showing() as progress:
        if progress:
            progress(f"compiling {task.simulator} for {task.legged.robot.name}, once a machine")
        yield
    _STEPPED.add(kind)


class Walking(gymnasium.Env[Numbers, Numbers]):
    """A legged robot that is to walk along x, at most `span` seconds.

    Action (motors,), -1 to 1: targets of the servos from the stance, times `Legged.swing`. It holds CONTROL seconds.
    Observation: q without the base's x (and y), then q̇ times 0.1, both as float32.
    Reward: FORWARD times the speed along x in m/s, 1 for each action that it stands, less 0.1 |action|² / motors.
    It has fallen, and the episode ends, where the base is below `Legged.least` or tilts beyond `Legged.tilt`, or where
    the simulator has lost it: `info["converged"]` says if all steps of the simulator had a solution.
    reset takes `options={"push": v}`: the base's speed along x in m/s, and `{"noise": r}`: the range of joint angles in
    rad and speeds in rad/s around the stance (0.02 by default).

    robot: "hopper", "walker" or "spider". simulator: "pbfd", "newton-euler", semi-implicit with dry friction, or
    "contact", the same law by `dynagate.Rollout` on rigid ground, which is compiled and takes many robots at once.
    render_mode: "rgb_array", with which `render` gives a picture, or "human", which shows each step in the browser.
    dt: of the simulator, s; None for that of `walking.STEPS`. Raises ValueError: an unknown name, a dt that CONTROL is
    no multiple of, an option of reset that is not there.
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": round(1.0 / CONTROL)}  # noqa: RUF012  Gymnasium's

    def __init__(
        self,
        robot: str = "hopper",
        *,
        simulator: Simulator = "pbfd",
        dt: float | None = None,
        span: float = 10.0,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ArgumentError(f"render_mode={render_mode!r}; expected 'human', 'rgb_array' or None")
        self.render_mode = render_mode
        self._view: View | None = None
        self.task = WalkingTask(robot, simulator, dt, span)
        self.q, self.qd, self._count = self.task.legged.stance.copy(), np.zeros(self.task.legged.robot.nv), 0
        self.observation_space, self.action_space = _spaces(self.task)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Numbers, dict[str, Any]]:
        super().reset(seed=seed)
        self.q, self.qd = self.task.start(self.np_random, options)
        self._count = 0
        self._show()
        return self.task.observations(self.q, self.qd), {"converged": True}

    def step(self, action: Numbers) -> tuple[Numbers, float, bool, bool, dict[str, Any]]:
        with compiling(self.task):
            outcome = self.task.step(self.q[None], self.qd[None], self.task.bounded(action)[None])
        (self.q,), (self.qd,), (reward,), (fallen,), (converged,) = outcome
        self._count += 1
        over = self._count >= self.task.actions
        seen = self.task.observations(self.q, self.qd)
        self._show()
        return seen, float(reward), bool(fallen), over, {"converged": bool(converged)}

    def _show(self) -> None:
        """With render_mode "human": what `reset` and `step` have led to."""
        if self.render_mode != "human":
            return
        if self._view is None:
            from dynagate.views.scene.browser import view

            self._view = view(self.task.legged.robot, self.q)
        self._view.q = self.q

    def render(self) -> Any:
        """The robot as lines (480, 640, 3) uint8, with render_mode "rgb_array"; None without, for "human" shows it in
        `reset` and `step`. Raises MissingExtraError: Pillow is not installed."""
        if self.render_mode != "rgb_array":
            return None
        from dynagate.views.scene.pictures import pixels

        return pixels(self.task.legged.robot, self.q)

    def close(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None


class WalkingBatch(VectorEnv[Numbers, Numbers, npt.NDArray[Any]]):
    """Many of `Walking`, a step of all at once: `gymnasium.make_vec` makes it.

    Spaces have an axis (num_envs,) in front. Episodes that end begin anew in the same step, the last observation in
    `info["final_obs"]` with the mask `info["_final_obs"]`; `info["converged"]` is (num_envs,). A seed s is s + i for
    robot i. Robots of revolute and prismatic joints alone are a `dynagate.Rollout`.

    num_envs: robots. threads: None for one per processor. Others as `Walking` takes and raises.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  Gymnasium's

    def __init__(
        self,
        robot: str = "hopper",
        num_envs: int = 1,
        *,
        simulator: Simulator = "pbfd",
        dt: float | None = None,
        span: float = 10.0,
        threads: int | None = None,
    ) -> None:
        check_whole("num_envs", num_envs)
        self.task = WalkingTask(robot, simulator, dt, span, batch=True, threads=threads)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = _spaces(self.task)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._randoms = [seeding.np_random()[0] for _ in range(num_envs)]
        self._counts = np.zeros(num_envs, int)
        self.q = np.tile(self.task.legged.stance, (num_envs, 1))
        self.qd = np.zeros((num_envs, self.task.legged.robot.nv))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Numbers, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._randoms = [seeding.np_random(seed + i)[0] for i in range(self.num_envs)]
        self._start(np.ones(self.num_envs, bool), options)
        return self.task.observations(self.q, self.qd), {"converged": np.ones(self.num_envs, bool)}

    def _start(self, which: Flags, options: dict[str, Any] | None = None) -> None:
        for i in np.flatnonzero(which):
            self.q[i], self.qd[i] = self.task.start(self._randoms[i], options)
        self._counts[which] = 0

    def step(self, actions: Numbers) -> tuple[Numbers, npt.NDArray[Any], Flags, Flags, dict[str, Any]]:
        bounded = self.task.bounded(actions, self.num_envs)
        with compiling(self.task):
            self.q, self.qd, reward, fallen, converged = self.task.step(self.q, self.qd, bounded)
        self._counts += 1
        over = self._counts >= self.task.actions
        seen, info = self.task.observations(self.q, self.qd), {"converged": converged}
        if (ended := fallen | over).any():
            last = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(ended):
                last[i] = seen[i]
            info |= {"final_obs": last, "_final_obs": ended}
            self._start(ended)
            seen = self.task.observations(self.q, self.qd)
        return seen, reward, fallen, over, info


for _name in LEGGED:
    gymnasium.register(
        f"dynagate/{_name.capitalize()}-v0",
        entry_point="examples.papers.position_based.environments:Walking",
        vector_entry_point="examples.papers.position_based.environments:WalkingBatch",
        kwargs={"robot": _name},
    )
