"""Datapaths of forward dynamics for random chains with each algorithm: word length, latency and multipliers, as a
table.

    python examples/parallel_datapaths.py --links 2 4 8
    python examples/parallel_datapaths.py --links 4 8 16 32 --word 24

The example plans datapaths without writing Verilog. 16 links take a quarter of an hour. With --word nothing is
scheduled: the latency is a lower bound for any number of units, and 32 links take minutes. It needs the extra `hw`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from dynagate import Region, trace
from dynagate.fixedpoint.assign import LARGEST_WORD, Policy, assign
from dynagate.fixedpoint.wordlength.sweep import measure
from dynagate.graph import Graph
from dynagate.hw.plan.plan import demand, plan
from dynagate.robot.random_chain import random_chain

FORMS = ("mass_matrix_solve", "aba", "jsiia", "abia", "cfa")
SEED = 1
SHORTEST = 12
STATES = 1024


def word_length(graph: Graph, region: Region, error: float) -> tuple[int, float]:
    """Return the shortest common word length at which 99.9 % of states have a smaller error, and that error.

    If no word length suffices, the result is the longest one.
    """
    low, high = SHORTEST, LARGEST_WORD
    reached = measure(graph, region, "word", high, STATES).error
    if reached > error:
        return high, reached
    while low < high:
        middle = (low + high) // 2
        here = measure(graph, region, "word", middle, STATES).error
        if here <= error:
            high, reached = middle, here
        else:
            low = middle + 1
    return high, reached


def row(links: int, form: str, interval: int, error: float) -> str:
    robot = random_chain(links, SEED)
    region = Region.of(robot)
    graph = trace(robot, "forward_dynamics", form=form)
    word, reached = word_length(graph, region, error)
    planned = plan(assign(graph, region, Policy(word=word)), interval)
    counts, units = graph.counts(), planned.unit_counts()
    words = f"{word}" if reached <= error else f"> {word} ({reached:.0e})"
    return (
        f"| {links} | `{form}` | {counts.mul + counts.mul_const} | {counts.depth} | {words} | {planned.latency} | "
        f"{units['multiply']} | {planned.dsp_blocks()} |"
    )


def bounds(links: int, form: str, interval: int, word: int) -> str:
    """Return a row without a schedule: the smallest possible latency, and the units that the interval needs."""
    robot = random_chain(links, SEED)
    graph = trace(robot, "forward_dynamics", form=form)
    formatted = assign(graph, Region.of(robot), Policy(word=word))
    asked, counts = demand(formatted, interval), graph.counts()
    return (
        f"| {links} | `{form}` | {counts.mul + counts.mul_const} | {counts.depth} | {asked.problem.critical_path()} | "
        f"{asked.multipliers()} | {asked.dsp_blocks()} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--forms", nargs="+", default=FORMS, choices=FORMS)
    parser.add_argument("--ii", type=int, default=64, help="cycles from one sample to the next")
    parser.add_argument("--error", type=float, default=1e-3, help="of 99.9 %% of the states")
    parser.add_argument("--word", type=int, help="bits of all nodes: no search for them, and no schedule")
    options = parser.parse_args(arguments)
    found = "least latency" if options.word else "word | latency"
    head = f"| links | form | products | depth | {found} | multipliers | DSP blocks |"
    print(f"{head}\n{'|---' * (head.count('|') - 1)}|")
    for links in options.links:
        for form in options.forms:
            if options.word:
                line = bounds(links, form, options.ii, options.word)
            else:
                line = row(links, form, options.ii, options.error)
            print(line, flush=True)


if __name__ == "__main__":
    main()
