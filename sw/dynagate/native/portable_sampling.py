"""Portable C of sampled rollouts: one draw of torques about a mean, their costs and weighted mean, for one problem.

The random numbers are those of `base.philox`, so every compiler draws the same samples as Python does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dynagate.base.arrays import Array
from dynagate.graph import Port
from dynagate.graph.loop import Loop
from dynagate.native.noise import NoiseLines
from dynagate.native.portable import CALL, CArgument, c_names
from dynagate.native.portable_loop import TOO_SMALL, PortableLoop, literal
from dynagate.native.source import constants

TORQUES, COST, DRAW, MEAN = "tau", "cost", "draw", "tau_mean"
RESULTS = (COST, "least", "effective", "failed")
NO_DRAW = 1
"""Status of a call whose draw is not a number from 0 to 2^32 - 1."""

FUNCTION = """\
    if (!workspace || workspace_size < {workspace}) return {too_small};
    if (!({draw}[0] >= 0 && {draw}[0] < (real)4294967296.0)) return {no_draw};
    real *const costs = workspace, *const torques = costs + {samples}, *const memory = torques + {size};
    const uint32_t number = (uint32_t){draw}[0];
    real lowest = (real)INFINITY, total = 0, squares = 0, weighted = 0;
    for (long s = 0; s < {samples}; s++) {{
        sampled_torques(s, number, {tau}, torques);
        (void){loop}({passed}, memory, {loop_workspace});
        if (costs[s] > -(real)INFINITY && costs[s] < lowest) lowest = costs[s];
    }}
    for (long e = 0; e < {size}; e++) {mean}[e] = 0;
    for (long s = 0; s < {samples} && lowest < (real)INFINITY; s++) {{
        if (!(costs[s] > -(real)INFINITY && costs[s] < (real)INFINITY)) continue;
        const real weight = DYNAGATE_MATH(exp)((lowest - costs[s]) / (real){temperature});
        total += weight, squares += weight * weight, weighted += weight * costs[s];
        sampled_torques(s, number, {tau}, torques);
        for (long e = 0; e < {size}; e++) {mean}[e] += weight * torques[e];
    }}
    for (long e = 0; e < {size}; e++) {mean}[e] = within_bounds(total > 0 ? {mean}[e] / total : {tau}[e], e);
    {cost}[0] = total > 0 ? weighted / total : (real)NAN;
    {least}[0] = total > 0 ? lowest : (real)NAN;
    {effective}[0] = total > 0 ? total * total / squares : 0;
    {failed}[0] = total > 0 ? 0 : 1;
    return 0;
}}"""

DRAWN = """\
static real random_number(uint32_t index, uint32_t draw) {{
    uint64_t a = index, b = draw, key = {seed}u;
    DG_PHILOX(uint64_t, a, b, key)
    return (real)((int32_t)DG_HALVES(a, b) - DG_HALVES_MEAN);
}}

static real within_bounds(real x, long e) {{
    {within}
    return x;
}}

static void sampled_torques(long s, uint32_t draw, const real *mean, real *to) {{
    for (long e = 0; e < {size}; e++) {{
        const long k = e / {width}, first = s * {row} + e % {width};
        real x = mean[e];
        if (s > 0)
            x += noise_left[e] * random_number((uint32_t)(first + noise_here[k] * {width}), draw)
                + noise_right[e] * random_number((uint32_t)(first + noise_next[k] * {width}), draw);
        to[e] = within_bounds(x, e);
    }}
}}
"""


@dataclass(frozen=True)
class SampleOptions:
    """The samples of a draw. `bounds` are the lower and upper bounds of the torques (width,), or None."""

    lines: NoiseLines
    count: int
    seed: int
    temperature: float
    bounds: tuple[Array, Array] | None


class PortableSampling:
    """One draw of sampled rollouts as a C function.

    Args:
        loop: The loop from torques `tau` (knots, width) and other inputs to a cost ().
        name: Name of the function.
        fixed: Values of inputs that are constants of the function, (1, *shape) by name.
        same: Loop input -> loop input that has the same values.
        samples: The samples.
    """

    def __init__(
        self, loop: Loop, name: str, fixed: Mapping[str, Array], same: Mapping[str, str], samples: SampleOptions
    ) -> None:
        self.name, self.samples = name, samples
        self.loop = PortableLoop(loop, "rollout_cost", fixed, same, inner=True)
        self.size = samples.lines.knots * samples.lines.width
        inputs = [each for each in self.loop.arguments if not each.is_output]
        shapes = {MEAN: (samples.lines.knots, samples.lines.width), **dict.fromkeys(RESULTS, ())}
        names = c_names((DRAW, *shapes), [each.name for each in inputs])
        draw, *outputs = (
            CArgument(label, Port(port, shape, (0,) * int(np.prod(shape))), port != DRAW)
            for label, (port, shape) in zip(names, {DRAW: (), **shapes}.items(), strict=True)
        )
        self.arguments = [*inputs, draw, *outputs]
        self.workspace = samples.count + self.size + self.loop.workspace
        """Numbers of the workspace."""

    def body(self) -> Iterator[str]:
        """Yield the rollout of a sample, its torques, and the function for callers."""
        lines, bounds = self.samples.lines, self.samples.bounds
        yield from self.loop.body()
        for name, values in (("left", lines.left), ("right", lines.right)):
            yield from constants(f"static const real noise_{name}[]", [literal(float(x)) for x in values.ravel()])
        for name, nodes in (("here", lines.node), ("next", lines.after)):
            yield from constants(f"static const int32_t noise_{name}[]", [str(int(x)) for x in nodes])
        for name, ends in zip(("low", "high"), bounds or (), strict=False):
            whole = np.broadcast_to(ends, lines.left.shape)
            yield from constants(f"static const real torque_{name}[]", [literal(float(x)) for x in whole.ravel()])
        cut = "if (x < torque_low[e]) return torque_low[e];\n    if (x > torque_high[e]) return torque_high[e];"
        row, within = lines.nodes * lines.width, "(void)e;" if bounds is None else cut
        yield DRAWN.format(seed=self.samples.seed, within=within, size=self.size, width=lines.width, row=row)
        declared = [*(each.declared("real") for each in self.arguments), "real *workspace", "long workspace_size"]
        yield f"int {CALL}({self.name})({', '.join(declared)}) DYNAGATE_NOEXCEPT {{"
        yield self._function()

    def _function(self) -> str:
        names = {(each.port.name, each.is_output): each.name for each in self.arguments}
        passed = {TORQUES: "torques", COST: "costs + s"}
        return FUNCTION.format(
            workspace=self.workspace,
            too_small=TOO_SMALL,
            no_draw=NO_DRAW,
            samples=self.samples.count,
            size=self.size,
            draw=names[DRAW, False],
            tau=names[TORQUES, False],
            mean=names[MEAN, True],
            loop=self.loop.name,
            passed=", ".join(passed.get(each.port.name, each.name) for each in self.loop.arguments),
            loop_workspace=self.loop.workspace,
            temperature=literal(self.samples.temperature),
            **{name: names[name, True] for name in RESULTS},
        )
