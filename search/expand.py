"""From cells to layouts: every chunk count, micro-batch and recompute of a cell, as columns."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from models.cost.table import IntVector, LayoutTable
from search.census import Cells, spread
from search.problem import Problem, cells_to_table

ROWS = 1 << 15
"""Layouts priced together: large enough for numpy, small enough for the cache."""


@dataclass(frozen=True)
class Rows:
    """Layouts of some cells in canonical order, their rank order still open."""

    cell: IntVector
    """Cell of each row."""
    table: LayoutTable


def expand(problem: Problem, cells: Cells, chosen: IntVector, rows: int = ROWS) -> Iterator[Rows]:
    """Yield the layouts of the chosen cells, about `rows` at a time; cells stay whole."""
    size = cells.count[chosen] * len(problem.domains.recompute)
    block = (np.cumsum(size) - size) // rows
    for part in np.split(chosen, np.flatnonzero(np.diff(block)) + 1):
        if len(part):
            yield _rows(problem, cells, part)


def _rows(problem: Problem, cells: Cells, part: IntVector) -> Rows:
    recompute = np.array(problem.domains.recompute, dtype=np.int64)
    cell = np.repeat(part, cells.count[part] * len(recompute))
    combo = np.repeat(cells.inner[spread(cells.start[part], cells.count[part])], len(recompute))
    table = cells_to_table(
        problem,
        cells.degrees.take(cells.row[cell]),
        cells.zero[cell],
        cells.schedule[cell],
        cells.combos.vpp[combo],
        cells.combos.micro_batch[combo],
        np.tile(recompute, len(combo) // max(1, len(recompute))),
    )
    return Rows(cell, table)


def without_experts(table: LayoutTable) -> LayoutTable:
    """Return the same layouts with whole experts on every rank."""
    one = np.ones_like(table.tp)
    return replace(table, ep=one, etp=one)
