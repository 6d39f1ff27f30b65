"""What each layout takes at least, whatever its rank order: what cannot win need not be priced.

Layouts that differ in pp, dp, ZeRO, schedule or chunks share what a layer takes, and rank orders that
place a layer's groups alike share it too; of the placements a tuple of degrees has, the least counts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.cost.distinct import distinct
from models.cost.network.routes import Routes, routes
from models.cost.setting import Setting
from models.cost.stages import Stages
from models.cost.step.floor import (
    CAUSES,
    LAYERED,
    least_bytes,
    least_seconds,
    sparing_step_seconds,
    step_bytes,
    step_seconds,
)
from models.cost.table import FULL, KEEP_ALL, IntVector, LayoutTable
from models.request import Objective
from search.census import Cells
from search.clock import Clock
from search.expand import ROWS
from search.forbid import pairs_of
from search.problem import Degrees, Problem, cells_to_table

Array = NDArray[np.float64]
Least = Callable[[LayoutTable, Setting, Routes], Array]
OnStep = Callable[[Array, LayoutTable, Setting], Array]

LEAST: dict[Objective, tuple[Least, OnStep]] = {
    "step_time": (least_seconds, step_seconds),
    "traffic": (least_bytes, step_bytes),
}
"""What bounds each objective from below: of a micro-batch, of a step; memory is known without pricing."""
MOST = 1 << 22
"""Floors beyond which they would cost more than they save."""


@dataclass(frozen=True)
class Floors:
    """What each cause of work takes at least, by what moves it."""

    problem: Problem
    at: IntVector
    """Row of `causes` that belongs to each tuple of degrees."""
    causes: Array
    """(tuples of degrees, micro-batches, recomputes, D, 4); see `models.cost.step.floor`."""
    on_step: OnStep

    def of(self, table: LayoutTable, degrees: IntVector) -> Array:
        """Floor of the objective, (N,), for layouts and their tuples of degrees."""
        return self.on_step(self._causes(table, degrees, table.recompute), table, self.problem.setting)

    def of_sparing(self, table: LayoutTable, degrees: IntVector, stages: Stages) -> Array:
        """Floor of a step, (N,), for layouts of full recompute and the layers their stages spare."""
        again, kept = (
            self._causes(table, degrees, np.full_like(table.recompute, kind)) for kind in (FULL, KEEP_ALL)
        )
        return sparing_step_seconds(again, kept, table, stages, self.problem.setting)

    def _causes(self, table: LayoutTable, degrees: IntVector, recompute: IntVector) -> Array:
        """What each cause takes in each layout under some recompute, (N, D, 4)."""
        domains = self.problem.domains
        batch = np.searchsorted(np.array(domains.micro_batch), table.micro_batch)
        again = np.searchsorted(np.array(domains.recompute), recompute)
        return self.causes[self.at[degrees], batch, again]


def floors(
    problem: Problem, cells: Cells, found: NDArray[np.bool_], objective: Objective, clock: Clock
) -> Floors | None:
    """Return the floors of every tuple of degrees with a cell found.

    Nothing where they would not pay, or where time runs out.
    """
    used = np.unique(cells.row[found])
    inner = len(problem.domains.micro_batch) * len(problem.domains.recompute)
    if objective not in LEAST or not len(used) or len(used) * inner > MOST:
        return None
    pairs = pairs_of(cells, np.arange(len(cells.degrees)), used)
    placement, first = _placements(problem, cells.degrees, pairs.row, pairs.order, clock)
    if len(first) * inner > MOST or clock.expired():
        return None
    chosen, order = cells.degrees.take(pairs.row[first]), pairs.order[first]
    least, on_step = LEAST[objective]
    causes = _causes(problem, chosen, order, least, clock)
    if causes is None:
        return None
    both, _ = distinct(pairs.row, placement)
    both = both[np.argsort(pairs.row[both], kind="stable")]
    row, placement = pairs.row[both], placement[both]
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    at = np.full(len(cells.degrees), -1)
    at[row[starts]] = np.arange(len(starts))
    return Floors(problem, at, np.minimum.reduceat(causes[placement], starts, axis=0), on_step)


def _placements(
    problem: Problem, degrees: Degrees, row: IntVector, order: IntVector, clock: Clock
) -> tuple[IntVector, IntVector]:
    """Return the placement of a layer's groups for each pair of degrees and order, and a pair of each.

    As far as the time goes.
    """
    columns: list[list[NDArray[np.int64] | Array]] = []
    for start in range(0, len(row), ROWS):
        if columns and clock.expired():
            break
        part = slice(start, start + ROWS)
        table = _layouts(problem, degrees.take(row[part]), order[part], 0, 0)
        placed = routes(table, problem.setting)
        found: list[NDArray[np.int64] | Array] = [table.tp, table.cp, table.ep, table.etp]
        for by_group in _facts(placed).values():
            found += [column for name in LAYERED if name in by_group for column in by_group[name].T]
        columns.append(found)
    first, placement = distinct(*(np.concatenate(column) for column in zip(*columns, strict=True)))
    return placement, first


def _causes(problem: Problem, degrees: Degrees, order: IntVector, least: Least, clock: Clock) -> Array | None:
    """Reckon every micro-batch and recompute of some placements, (placements, …, D, 4)."""
    domains = problem.domains
    shape = (len(degrees), len(domains.micro_batch), len(domains.recompute))
    which, batch, again = (place.reshape(-1) for place in np.indices(shape))
    placed = routes(_layouts(problem, degrees, order, 0, 0), problem.setting)
    blocks = []
    for start in range(0, len(which), ROWS):
        if clock.expired():
            return None
        row = which[start : start + ROWS]
        sizes = np.array(domains.micro_batch, dtype=np.int64)[batch[start : start + ROWS]]
        kinds = np.array(domains.recompute, dtype=np.int64)[again[start : start + ROWS]]
        table = _layouts(problem, degrees.take(row), order[row], sizes, kinds)
        facts: dict[str, Any] = {
            fact: {name: value[row] for name, value in by_group.items()}
            for fact, by_group in _facts(placed).items()
        }
        blocks.append(least(table, problem.setting, replace(placed, **facts)))
    return np.concatenate(blocks).reshape(*shape, -1, CAUSES)


def _facts(placed: Routes) -> dict[str, dict[str, Array]]:
    """What routes hold of each layout: arrays by group, (N, K), of every kind of fact."""
    return {fact: by_group for fact, by_group in vars(placed).items() if isinstance(by_group, dict)}


def _layouts(
    problem: Problem,
    degrees: Degrees,
    order: IntVector,
    micro_batch: IntVector | int,
    recompute: IntVector | int,
) -> LayoutTable:
    """Return layouts of which only what moves a layer matters."""
    zero = np.zeros(len(degrees), dtype=np.int64)
    rest = cells_to_table(problem, degrees, zero, zero, zero + 1, zero + micro_batch, zero + recompute)
    return replace(rest, order=order)
