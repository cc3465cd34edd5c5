"""The step of `riccati` for robots with many joints: matrix products are loops over blocks of rows.

As one graph, the matrix products would have as many operations as the cube of the state's size. A loop has the
operations of one block, so the same few instructions compute all blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynagate.base.arrays import Array
from dynagate.control.forward import recorded
from dynagate.control.riccati import Held, feedback
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop

Shapes = Mapping[str, tuple[int, ...]]

LARGEST_UNROLLED = 28
"""Largest size of a state for which a step is one graph."""
MOST_ROWS = 2
"""Largest number of rows in a block. A number of the other factor is read once for all rows of a block."""


@dataclass(frozen=True)
class Blocked:
    """The sizes of a step."""

    nx: int
    """Size of a state."""
    nu: int
    """Number of torques."""

    @property
    def state(self) -> tuple[int, int]:
        """Blocks of a state, and the rows of each."""
        return _blocks(self.nx)

    @property
    def torque(self) -> tuple[int, int]:
        """Number of blocks of the torques and rows of each."""
        return _blocks(self.nu)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the first step's inputs: the derivatives a and b, and those of the cost, with regularized
        `cost_xx`.
        """
        nx, nu, x, u = self.nx, self.nu, self.state, self.torque
        return {
            **{"a": (nx, nx), "a_rows": (*x, nx), "b": (nx, nu), "b_rows": (*u, nx)},
            **{"cost_x": x, "cost_u": u, "cost_xx": (*x, nx), "cost_ux": (*u, nx), "cost_uu": (*u, nu)},
        }

    def steps(self, robot: str, solve: Graph) -> tuple[Graph | Loop, ...]:
        """Return the steps from the derivatives, and `slope` and `curvature` of the next state in blocks of rows, to
        `slope_next` and `curvature_next`.

        Args:
            robot: Name of the robot.
            solve: The graph of `solve_graph`.
        """
        nx, nu, (x, row), (u, push) = self.nx, self.nu, self.state, self.torque
        ahead = _graph(
            "ahead",
            robot,
            {"curvature": (row, nx), "a": (nx, nx), "b": (nx, nu)},
            lambda v: {"ahead": v["curvature"] @ v["a"], "pushed": v["curvature"] @ v["b"]},
        )
        whole = {"ahead": (x, row, nx), "slope": (x, row)}
        by_state = _graph(
            "by_state",
            robot,
            {"a_rows": (row, nx), "cost_x": (row,), "cost_xx": (row, nx), **whole},
            lambda v: {
                "by_x": v["cost_x"] + v["a_rows"] @ v["slope"].ravel(),
                "by_xx": v["cost_xx"] + v["a_rows"] @ v["ahead"].reshape(nx, nx),
            },
        )
        costs = {"cost_u": (push,), "cost_ux": (push, nx), "cost_uu": (push, nu)}
        by_torque = _graph(
            "by_torque",
            robot,
            {"b_rows": (push, nx), **costs, **whole, "pushed": (x, row, nu)},
            lambda v: {
                "by_u": v["cost_u"] + v["b_rows"] @ v["slope"].ravel(),
                "by_ux": v["cost_ux"] + v["b_rows"] @ v["ahead"].reshape(nx, nx),
                "by_uu": v["cost_uu"] + v["b_rows"] @ v["pushed"].reshape(nx, nu),
            },
        )
        solved = {"half": (nu, nx), "half_u": (nu,)}
        after = _graph(
            "after",
            robot,
            {"by_x": (row,), "by_xx": (row, nx), "scaled": (row, nu), **solved},
            lambda v: {
                "slope_next": v["by_x"] - v["scaled"] @ v["half_u"],
                "curvature_next": v["by_xx"] - v["scaled"] @ v["half"],
            },
        )

        def over(body: Graph, count: int, per_iteration: Sequence[str]) -> Loop:
            kept = tuple(port.name for port in body.outputs)
            return Loop(f"{body.name}_rows", robot, (body,), {}, Count(count), tuple(per_iteration), kept)

        return (
            over(ahead, x, ("curvature",)),
            over(by_state, x, ("a_rows", "cost_x", "cost_xx")),
            over(by_torque, u, ("b_rows", *costs)),
            solve,
            over(after, x, ("by_x", "by_xx", "scaled")),
        )

    def solve_graph(
        self, robot: str, others: Shapes, held: Callable[[Mapping[str, Array]], Held | None], gains: Callable[..., Any]
    ) -> Graph:
        """Return the graph of a knot's gains, and of the values that the cost to go needs.

        Args:
            robot: Name of the robot.
            others: Shapes of further inputs.
            held: Returns the function of held torques, as in `riccati`, from the inputs.
            gains: Returns further outputs from the `Feedback` and the inputs.
        """
        nx, nu, (x, row), (u, push) = self.nx, self.nu, self.state, self.torque
        shapes = {"by_u": (u, push), "by_ux": (u, push, nx), "by_uu": (u, push, nu), "reg_now": ()}

        def record(v: Mapping[str, Array]) -> Mapping[str, Any]:
            by_u, by_ux, by_uu = v["by_u"].ravel(), v["by_ux"].reshape(nu, nx), v["by_uu"].reshape(nu, nu)
            back = feedback(by_u, by_ux, by_uu, v["reg_now"][()], held(v))
            scaled = back.scaled[:, :nx].T.reshape(x, row, nu)
            return {"half": back.half[:, :nx], "half_u": back.half[:, nx], "scaled": scaled, **gains(v, back.gains)}

        return _graph("solve", robot, {**shapes, **others}, record)

    def rows(self, matrix: Array) -> Array:
        """Reshape a matrix or vector with rows of the state's size into blocks."""
        return matrix.reshape(*self.state, *matrix.shape[1:])

    def pushes(self, matrix: Array) -> Array:
        """Reshape a matrix with rows of the torques' size into blocks."""
        return matrix.reshape(*self.torque, *matrix.shape[1:])


def _blocks(size: int) -> tuple[int, int]:
    rows = max(k for k in range(1, MOST_ROWS + 1) if size % k == 0)
    return size // rows, rows


def _graph(name: str, robot: str, shapes: Shapes, record: Callable[[Mapping[str, Array]], Mapping[str, Any]]) -> Graph:
    return recorded(name, robot, shapes, record, "riccati")
