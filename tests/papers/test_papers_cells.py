"""Each cell of the table in docs/papers.md: which step runs on which executor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Policy, Region, RigidContact, Robot, Rollout, robots
from dynagate.base.errors import Error
from dynagate.forces import Contact, Drag, Limits, Plane, Point
from dynagate.native.cuda_loop import emit_cuda_loop

PAGE = (Path(__file__).parents[2] / "docs" / "papers.md").read_text()
ARM = robots.load("two_joint_arm")
TIP = Point("forearm", (0.0, 0.0, 0.36))
LOW = Plane((0.0, 0.0, 1.0), 0.9)
DT, STEPS = 0.02, 5
RESISTING: dict[str, Any] = {"forces": [Drag((0.2, 0.1)), Limits(stiffness=20.0)]}

ROWS: dict[str, dict[str, Any]] = {
    "`rk4`": {"integrator": "rk4"},
    "`semi_implicit_euler`, implicit damping": {"implicit_damping": True},
    "`variational`": {"integrator": "variational"},
    "`variational`, drag and limits": {"integrator": "variational", **RESISTING},
    "`position_based`": {"integrator": "position_based"},
    "`position_based`, drag and limits": {"integrator": "position_based", **RESISTING},
    "`position_based`, contact": {"integrator": "position_based", "forces": [Contact([TIP], [LOW], 1e4, 1e3)]},
    "`position_based(order=3)`": {"integrator": "position_based(order=3)"},
    "constrained": {"constrained": True},
    "rigid contact": {"contacts": RigidContact([TIP], [LOW])},
}
"""Options of a rollout, by the row's name."""

GEARED = ARM.with_joint_equality("elbow", "shoulder", (-1.0, 1.0))
"""The arm whose elbow follows the shoulder, for constrained steps."""


def table() -> dict[tuple[str, str], bool]:
    """Return whether each cell says yes, by row and column."""
    lines = PAGE.split("| step |")[1].split("\n\n")[0].splitlines()
    columns = [name.strip() for name in lines[0].strip("| ").split("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {(row, column): cell == "yes" for row, *cells in rows for column, cell in zip(columns, cells, strict=True)}


def start() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.array([0.4, -0.6]), np.array([0.3, -0.2]), np.tile([2.0, 0.5], (STEPS, 1))


def on(device: str) -> Callable[[dict[str, Any], Path], np.ndarray]:
    def moved(options: dict[str, Any], folder: Path) -> np.ndarray:
        rollout = Rollout(robot_of(options), steps=STEPS, dt=DT, device=device, **options)
        return np.asarray(rollout(*start(), **active(options)).q)

    return moved


def robot_of(options: dict[str, Any]) -> Robot:
    return GEARED if options.get("constrained") else ARM


def active(options: dict[str, Any]) -> dict[str, Any]:
    return {"active": np.ones((STEPS, 1))} if options.get("constrained") else {}


def in_cuda(options: dict[str, Any], folder: Path) -> None:
    rollout = Rollout(robot_of(options), steps=STEPS, dt=DT, **options)
    assert "__global__" in emit_cuda_loop(rollout.loop, double=True)


def in_jax(options: dict[str, Any], folder: Path) -> np.ndarray:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    import dynagate.jax

    rolled = dynagate.jax.rollout(robot_of(options), STEPS, DT, **options)
    return np.asarray(rolled(*start(), *active(options).values()).q)


def in_a_program(options: dict[str, Any], folder: Path) -> np.ndarray:
    region = Region.of(robot_of(options), velocity=8.0, acceleration=80.0)
    built = dynagate.build(
        robot_of(options),
        "rollout",
        units=4,
        dt=DT,
        region=region,
        policy=Policy(samples=512),
        folder=folder,
        **options,
    )
    with dynagate.open(built, device="fixed") as chip:
        return np.asarray(chip(*start(), **active(options)).q)


COLUMNS = {"numpy": on("numpy"), "C": on("cpu"), "CUDA": in_cuda, "JAX": in_jax, "program": in_a_program}
SLOW = ("JAX", "program")
"""Columns that compile for seconds in each cell."""


def test_the_table_has_all_rows_and_columns() -> None:
    assert set(table()) == {(row, column) for row in ROWS for column in COLUMNS}
    assert np.mean(list(table().values())) >= 0.9


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("column", [pytest.param(c, marks=pytest.mark.long) if c in SLOW else c for c in COLUMNS])
def test_cell(row: str, column: str, tmp_path: Path) -> None:
    if not table()[row, column]:
        with pytest.raises(Error):
            COLUMNS[column](ROWS[row], tmp_path)
        return
    got = COLUMNS[column](ROWS[row], tmp_path)
    if got is not None:
        np.testing.assert_allclose(got, on("cpu")(ROWS[row], tmp_path), atol=3e-3 if column == "program" else 1e-9)
