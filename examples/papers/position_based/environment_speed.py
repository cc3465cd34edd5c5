"""How fast one robot of an environment is beside Gymnasium's own of MuJoCo, in one run.

`python -m examples.papers.position_based.environment_speed` prints seconds of simulated time in a second of processor
time, by random actions, and the ratio. Both sides take turns; the fastest turn of each counts.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium

from examples.papers.position_based import environments

PEERS = {"Hopper": "Hopper-v5", "Walker": "Walker2d-v5", "Spider": "Ant-v5"}
"""Ours by name, and Gymnasium's nearest: a spider has 12 motors and 18 degrees of freedom, an ant 8 and 14."""
ACTIONS = 64


def seconds_of_an_action(environment: Any, count: int) -> float:
    """Processor time of a step, resets of episodes that end among them."""
    environment.reset(seed=0)
    environment.action_space.seed(0)
    actions = [0.3 * environment.action_space.sample() for _ in range(ACTIONS)]
    environment.step(actions[0])
    start = time.process_time()
    for k in range(count):
        _, _, fallen, over, _ = environment.step(actions[k % ACTIONS])
        if fallen or over:
            environment.reset()
    return (time.process_time() - start) / count


def compared(name: str, turns: int, count: int) -> tuple[float, float]:
    """Simulated seconds a second of processor time: ours, and Gymnasium's."""
    ours, theirs = gymnasium.make(f"dynagate/{name}-v0"), gymnasium.make(PEERS[name])
    held = {"ours": environments.CONTROL, "theirs": theirs.unwrapped.dt}  # type: ignore[attr-defined]
    times: dict[str, list[float]] = {side: [] for side in held}
    for _ in range(turns):
        times["ours"].append(seconds_of_an_action(ours, count))
        times["theirs"].append(seconds_of_an_action(theirs, count))
    return held["ours"] / min(times["ours"]), held["theirs"] / min(times["theirs"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="of each side")
    parser.add_argument("--actions", type=int, default=1000, help="of a turn")
    named = parser.parse_args()
    print("simulated seconds a second of processor time, one robot")
    for name, peer in PEERS.items():
        ours, theirs = compared(name, named.turns, named.actions)
        print(f"  {name:8}{ours:8.1f}   {peer:12}{theirs:8.1f}   ratio {ours / theirs:.2f}", flush=True)


if __name__ == "__main__":
    main()
