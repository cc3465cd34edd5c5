"""Drift of a fixed-point rollout from float64: the shortest word length that keeps 200 steps of 5 ms within 1e-3.

    python examples/drift.py [--robot two_joint_arm] [--trajectories 200] [--folder build/drift]

Trajectories are sinusoids within the robot's operating region, in open loop: nothing corrects the drift. The example
writes drift.png.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from dynagate import Region, robots
from dynagate.host.drift import shortest_word

DT, STEPS, ERROR = 5e-3, 200, 1e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="two_joint_arm")
    parser.add_argument("--trajectories", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path("build/drift"))
    options = parser.parse_args()
    region = Region.of(robots.load(options.robot))
    drifts = shortest_word(region, ERROR, steps=STEPS, dt=DT, count=options.trajectories)
    figure, axes = plt.subplots(figsize=(6, 4))
    for each in sorted(drifts, key=lambda each: each.word):
        print(f"{each.word} bits: median {each.end(0.5):.1e}, 99 % {each.end(0.99):.1e}, largest {each.end(1.0):.1e}")
        quantile = np.quantile(each.errors, 0.99, axis=0, method="higher")
        axes.semilogy(DT * np.arange(1, STEPS + 1), quantile[1:], label=f"{each.word} bits")
    axes.axhline(ERROR, color="black", linestyle=":")
    axes.set(xlabel="s", ylabel="error of 99 %, relative to the motion", title=f"Drift of {options.robot}")
    axes.legend()
    options.folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.folder / "drift.png", bbox_inches="tight")


if __name__ == "__main__":
    main()
