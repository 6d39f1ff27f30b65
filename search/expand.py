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
    place: IntVector
    """Place of each row among the layouts of its cell."""
    table: LayoutTable


def expand(problem: Problem, cells: Cells, chosen: IntVector, rows: int = ROWS) -> Iterator[Rows]:
    """Yield the layouts of the chosen cells, about `rows` at a time; cells stay whole."""
    size = cells.count[chosen]
    block = (np.cumsum(size) - size) // rows
    for part in np.split(chosen, np.flatnonzero(np.diff(block)) + 1):
        if len(part):
            yield _rows(problem, cells, part)


def _rows(problem: Problem, cells: Cells, part: IntVector) -> Rows:
    size = cells.count[part]
    return rows_at(problem, cells, np.repeat(part, size), spread(np.zeros_like(size), size))


def rows_at(problem: Problem, cells: Cells, cell: IntVector, place: IntVector) -> Rows:
    """Return single layouts of cells by their place in it."""
    combo = cells.inner[cells.start[cell] + place]
    table = cells_to_table(
        problem,
        cells.degrees.take(cells.row[cell]),
        cells.zero[cell],
        cells.schedule[cell],
        cells.combos.vpp[combo],
        cells.combos.micro_batch[combo],
        cells.combos.recompute[combo],
    )
    return Rows(cell, place, table)


def without_experts(table: LayoutTable) -> LayoutTable:
    """Return the same layouts with whole experts on every rank."""
    one = np.ones_like(table.tp)
    return replace(table, ep=one, etp=one)
