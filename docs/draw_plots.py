"""Draw the plots of pages into docs/pictures: `python docs/draw_plots.py --date 2026-11-26`.

The data are computed here: plans of designs, errors of integers, and rollouts of the two-joint arm. The same date gives
the same bytes. docs/figures.py draws the bars of speed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
from dynagate import Rollout, evaluate, robots, trace
from dynagate.graph.region import Region
from dynagate.views.svg import BLUE, FAINT, GREEN, GRID, INK, ORANGE, PURPLE, RED, Canvas

FOLDER = Path(__file__).parent / "pictures"
COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE)
LEFT, RIGHT, TOP, BOTTOM, WIDTH, HEIGHT = 76, 160, 44, 66, 640, 360

Line = Sequence[tuple[float, float]]


def scale(values: Sequence[float], log: bool) -> tuple[Callable[[float], float], list[float]]:
    """Return a map of an axis to 0 ... 1, and its ticks."""
    if log:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        high = max(high, low + 1)
        return lambda x: (math.log10(x) - low) / (high - low), [10.0**k for k in range(low, high + 1)]
    low, high = min(values), max(values)
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= raw)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return lambda x: (x - first * step) / ((last - first) * step), [k * step for k in range(first, last + 1)]


def written(value: float) -> str:
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"1e{round(math.log10(abs(value)))}" if math.log10(abs(value)) % 1 < 1e-6 else f"{value:.0e}"
    return f"{value:g}"


def lines(
    title: str,
    series: Mapping[str, Line],
    axes: tuple[str, str],
    note: str,
    *,
    log: tuple[bool, bool] = (False, False),
    marks: bool = True,
) -> str:
    """Return a line chart as SVG. `log` sets whether x and y have logarithmic axes."""
    canvas = Canvas(WIDTH, HEIGHT, title)
    canvas.text(12, 24, title, bold=True, size=15)
    points = [point for line in series.values() for point in line]
    (of_x, ticks_x), (of_y, ticks_y) = (scale([point[i] for point in points], log[i]) for i in range(2))
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + wide * of_x(x), TOP + tall * (1.0 - of_y(y))

    for tick in ticks_y:
        y = TOP + tall * (1.0 - of_y(tick))
        canvas.line([(LEFT, y), (LEFT + wide, y)], color=GRID)
        canvas.text(LEFT - 8, y + 4, written(tick), size=11, color=FAINT, anchor="end")
    for tick in ticks_x:
        x = LEFT + wide * of_x(tick)
        canvas.line([(x, TOP + tall), (x, TOP + tall + 4)], color=FAINT)
        canvas.text(x, TOP + tall + 18, written(tick), size=11, color=FAINT, anchor="middle")
    canvas.text(LEFT + wide / 2, TOP + tall + 36, axes[0], size=12, anchor="middle")
    canvas.text(LEFT, TOP - 6, axes[1], size=12)
    ends: list[float] = []
    for (name, line), color in zip(series.items(), COLORS, strict=False):
        shown = [place(*point) for point in line]
        canvas.line(shown, color=color, width=2.5)
        if marks:
            for x, y in shown:
                canvas.rectangle(x - 3, y - 3, 6, 6, fill=color)
        y = shown[-1][1] + 4
        while any(abs(y - other) < 15 for other in ends):
            y += 15
        ends.append(y)
        canvas.text(shown[-1][0] + 10, y, name, size=12, color=color, bold=True)
    canvas.text(12, HEIGHT - 10, note, size=10, color=FAINT)
    return canvas.markup() + "\n"


def word_lengths(date: str) -> str:
    """Plot the error of the arm's forward dynamics in integers over a common word length."""
    from dynagate.fixedpoint.assign import Policy, assign
    from dynagate.fixedpoint.models.evaluate import evaluate as in_integers

    robot = robots.load("two_joint_arm")
    region = Region.of(robot)
    series: dict[str, list[tuple[float, float]]] = {}
    names = ("inverse_dynamics", "forward_dynamics", "forward_dynamics_gradient")
    for function, label in zip(names, ("inverse dynamics", "forward dynamics", "its gradient"), strict=True):
        graph = trace(robot, function)
        states = region.states(graph, 1000, 2)
        reference = evaluate(graph, states)
        for word in range(14, 31, 2):
            formatted = assign(graph, region, Policy(word=word))
            own = in_integers(formatted, states).outputs
            worst = max(float(np.abs(own[k] - reference[k]).max() / np.abs(reference[k]).max()) for k in reference)
            series.setdefault(label, []).append((word, worst))
    note = (
        f"Two-joint arm, 1000 uniform states in the operating region, largest error over largest value. Drawn {date}."
    )
    return lines("Error over word length", series, ("bits of each word", "relative error"), note, log=(False, True))


def intervals(date: str) -> str:
    """Plot DSP blocks and latency of the arm's gradient over the initiation interval, from plans."""
    robot = robots.load("two_joint_arm")
    blocks, latency = [], []
    import tempfile

    for ii in (1, 2, 4, 8, 16, 32):
        with tempfile.TemporaryDirectory() as folder:
            built = dynagate.build(robot, "forward_dynamics_gradient", ii=ii, folder=folder)
        blocks.append((float(ii), float(built.hardware.plan.dsp_blocks())))
        latency.append((float(ii), float(built.hardware.plan.latency)))
    note = f"Two-joint arm, gradient of forward dynamics, 24 bits, DSP48E2, datapath latency. Drawn {date}."
    series = {"DSP blocks": blocks, "latency, cycles": latency}
    return lines(
        "A smaller design takes more cycles between samples",
        series,
        ("initiation interval, cycles", ""),
        note,
        log=(True, False),
    )


def energy(date: str) -> str:
    """Plot the energy of a swinging arm without friction for each integrator with the same step."""
    robot = robots.load("two_joint_arm")
    graph = trace(robot, ["kinetic_energy", "potential_energy"])
    steps, dt = 1000, 0.01
    q0, qd0 = np.array([1.2, 0.6]), np.zeros(2)
    series: dict[str, list[tuple[float, float]]] = {}
    for method in ("semi_implicit_euler", "rk4", "variational"):
        run = Rollout(robot, steps=steps, dt=dt, integrator=method, device="numpy")(q0, qd0, np.zeros((steps, 2)))
        values: Any = evaluate(graph, {"q": run.q, "qd": run.qd})
        total = values["kinetic_energy"] + values["potential_energy"]
        series[method.replace("_", " ")] = [(dt * k, float(total[k] - total[0])) for k in range(0, steps + 1, 10)]
    note = f"Two-joint arm released at q = (1.2, 0.6), no friction, steps of 10 ms. Drawn {date}."
    return lines("Energy by integrator", series, ("time, s", "energy minus its start, J"), note, marks=False)


def axi(date: str) -> str:
    """Draw two samples on AXI4-Stream, with four beats in and two beats out."""
    title = "AXI4-Stream: a word moves in a cycle in which VALID and READY are high"
    canvas = Canvas(760, 300, title)
    canvas.text(12, 24, title, bold=True, size=14)
    cycles, left, step = 15, 110, 42
    for k in range(cycles + 1):
        canvas.line([(left + k * step, 40), (left + k * step, 262)], color=GRID)
    waves = {
        "ACLK": "clock",
        "S_TVALID": "011111110110000",
        "S_TREADY": "111101111111111",
        "S_TDATA": " 0123301 23    ",
        "S_TLAST": "000011000010000",
        "M_TVALID": "000000000001111",
        "M_TREADY": "111111111111101",
        "M_TLAST": "000000000000110",
    }
    for row, (name, wave) in enumerate(waves.items()):
        y, high = 62 + 27 * row, 16
        canvas.text(left - 10, y, name, anchor="end", size=12, bold=True)
        if name == "ACLK":
            points = [
                (left + (k + half / 2) * step, y - high * ((half + up) % 2))
                for k in range(cycles)
                for half in (0, 1)
                for up in (0, 1)
            ]
            canvas.line(points, color=INK, width=1.5)
        elif name == "S_TDATA":
            for k, word in enumerate(wave[:cycles]):
                if word != " ":
                    canvas.rectangle(left + k * step + 2, y - high, step - 4, high + 2, fill="#dcefe8", edge=GREEN)
                    canvas.text(left + (k + 0.5) * step, y - 3, f"beat {word}", size=9, anchor="middle")
        else:
            points = []
            for k in range(cycles):
                level = y - high * int(wave[k])
                points += [(left + k * step, level), (left + (k + 1) * step, level)]
            canvas.line(points, color=BLUE if name[0] == "S" else ORANGE, width=2)
    canvas.text(12, 290, f"S_TREADY falls in cycle 4: beat 3 waits for one cycle. Drawn {date}.", size=11, color=FAINT)
    return canvas.markup() + "\n"


def zynq(date: str) -> str:
    """Draw the parts of a design on a Zynq board."""
    title = "A design on a Zynq board"
    canvas = Canvas(760, 320, title)
    canvas.text(12, 26, title, bold=True, size=15)
    canvas.rectangle(16, 44, 210, 250, fill="#e4f1fa", edge=BLUE)
    canvas.text(121, 66, "processing system", anchor="middle", bold=True)
    canvas.rectangle(256, 44, 488, 250, fill="#dcefe8", edge=GREEN)
    canvas.text(500, 66, "programmable logic", anchor="middle", bold=True)

    def part(x: float, y: float, wide: float, tall: float, name: str, *small: str) -> None:
        canvas.rectangle(x, y, wide, tall, fill="#ffffff", edge=FAINT)
        canvas.text(x + wide / 2, y + 20, name, anchor="middle", bold=True)
        for k, text in enumerate(small):
            canvas.text(x + wide / 2, y + 36 + 14 * k, text, anchor="middle", size=10, color=FAINT)

    part(36, 84, 170, 56, "Python: dynagate.open", "the same call as on a CPU")
    part(36, 160, 170, 44, "Linux, PYNQ")
    part(36, 228, 170, 52, "DDR memory", "q, qd, tau in; gradient out")
    part(280, 190, 90, 90, "AXI DMA", "reads and", "writes memory")
    part(400, 190, 90, 90, "from words", "float to", "fixed point")
    part(520, 176, 84, 118 - 14, "core", "datapath or", "processor")
    part(634, 190, 90, 90, "to words", "fixed point", "to float")
    part(440, 88, 240, 56, "registers (AXI4-Lite)", "identity, status, counters, reset")
    for x0, x1 in ((206, 280), (370, 400), (490, 520), (604, 634)):
        canvas.arrow([(x0, 236), (x1, 236)], color=BLUE)
    canvas.arrow([(679, 280), (679, 288), (325, 288), (325, 280)], color=ORANGE)
    canvas.arrow([(280, 262), (206, 262)], color=ORANGE)
    canvas.arrow([(206, 112), (440, 112)], color=FAINT)
    canvas.arrow([(562, 144), (562, 176)], color=FAINT)
    canvas.text(12, 312, f"Blue: samples. Orange: results. Gray: control. Drawn {date}.", size=10, color=FAINT)
    return canvas.markup() + "\n"


def slot(date: str) -> str:
    """Draw one slot of the pipeline: a unit serves four operations, one in each cycle of the interval."""
    title = "One multiplier in a pipeline with an initiation interval of 4"
    canvas = Canvas(760, 260, title)
    canvas.text(12, 24, title, bold=True, size=15)
    left, step = 120, 40
    for k in range(16):
        canvas.text(left + (k + 0.5) * step, 52, str(k), size=10, color=FAINT, anchor="middle")
        canvas.line([(left + k * step, 58), (left + k * step, 200)], color=GRID)
    canvas.text(left - 10, 52, "cycle", anchor="end", size=11, color=FAINT)
    names = ("a·b", "c·d", "e·f", "g·h")
    for sample, color in enumerate(("#dcefe8", "#fbe8c2", "#e4f1fa")):
        y = 70 + 44 * sample
        canvas.text(left - 10, y + 18, f"sample {sample}", anchor="end", bold=True)
        for own, name in enumerate(names):
            k = 4 * sample + own
            canvas.rectangle(left + k * step + 1, y, step - 2, 28, fill=color, edge=FAINT)
            canvas.text(left + (k + 0.5) * step, y + 18, name, anchor="middle", size=11)
    canvas.text(
        left,
        222,
        "Each operation owns one slot: its start cycle modulo 4. A new sample enters every 4 cycles,",
        size=12,
    )
    canvas.text(left, 238, f"so the unit never gets two operations in one cycle. Drawn {date}.", size=12)
    return canvas.markup() + "\n"


PLOTS: dict[str, Callable[[str], str]] = {
    "axi.svg": axi,
    "zynq.svg": zynq,
    "slot.svg": slot,
    "energy.svg": energy,
    "intervals.svg": intervals,
    "word_lengths.svg": word_lengths,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", required=True, help="date to write into the plots, such as 2026-11-26")
    parser.add_argument("names", nargs="*", help="plots to draw; all by default")
    asked = parser.parse_args()
    for name in asked.names or PLOTS:
        (FOLDER / name).write_text(PLOTS[name](asked.date))
        print(FOLDER / name, flush=True)


if __name__ == "__main__":
    main()
