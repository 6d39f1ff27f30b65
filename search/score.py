"""Judge, price and rank every layout of the cells the solver found.

Rows come in canonical order (tp, cp, pp, dp, ep, etp, zero, schedule, vpp, micro_batch, recompute,
order), so a stable sort by objective and peak breaks ties by it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from models.cost import estimate
from models.cost.memory import peak_bytes
from models.cost.table import IntVector, LayoutTable
from models.request import Distinct, Objective
from search.census import Cells, Census
from search.clock import Clock
from search.expand import ROWS, Rows, expand
from search.forbid import forbidden, pairs_of
from search.problem import Problem
from search.rules import forbid, memory
from search.solve import Solution

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Wanted:
    """What the shortlist is to hold."""

    objective: Objective
    distinct: Distinct
    top_k: int


@dataclass(frozen=True)
class Kept:
    """Layouts worth remembering, in canonical order, with what ranks them."""

    table: LayoutTable
    objective: Vector
    peak: IntVector
    shape: IntVector
    """Number of the layout's (tp, cp, pp, dp, ep)."""

    def take(self, rows: IntVector) -> "Kept":
        """Return the chosen rows."""
        return Kept(self.table.take(rows), self.objective[rows], self.peak[rows], self.shape[rows])


@dataclass
class Score:
    """What pricing found."""

    fit: int = 0
    complete: bool = True
    kept: list[Kept] = field(default_factory=list)
    fit_of_shape: IntVector = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Layouts that fit, by shape."""


def price_layouts(
    problem: Problem, census: Census, solution: Solution, wanted: Wanted, clock: Clock
) -> Score:
    """Judge every layout of the cells exactly, price those that fit, keep the best."""
    cells = census.cells
    shape = _shapes(cells)
    result = Score(fit_of_shape=np.zeros(int(shape.max(initial=-1)) + 1, dtype=np.int64))
    judged = solution.found
    if problem.forbidden and solution.complete:
        judged = np.ones_like(judged)
    if solution.complete:
        census.reject(memory.__name__, _beneath(problem, cells, np.flatnonzero(~judged)))
    first = True
    size = 2 * ROWS // max(2, int(cells.legal.max(initial=0)))
    for rows in expand(problem, cells, np.flatnonzero(judged), size):
        if clock.expired() and not first:
            result.complete = False
            break
        first = False
        for kept in _priced(problem, census, rows, solution.found, shape, wanted):
            result.fit += len(kept.shape)
            result.fit_of_shape += np.bincount(kept.shape, minlength=len(result.fit_of_shape))
            result.kept.append(kept.take(_best(kept, wanted)))
    return result


def ranked(scored: Score, wanted: Wanted) -> Kept | None:
    """Return the shortlist's rows, best first; nothing where no layout fits."""
    if not scored.kept:
        return None
    table = LayoutTable.joined([kept.table for kept in scored.kept])
    every = Kept(
        table,
        *(
            np.concatenate([getattr(kept, name) for kept in scored.kept])
            for name in ("objective", "peak", "shape")
        ),
    )
    order = np.lexsort((every.peak, every.objective))
    if wanted.distinct == "shape":
        _, first = np.unique(every.shape[order], return_index=True)
        order = order[np.sort(first)]
    return every.take(order[: wanted.top_k])


def _priced(
    problem: Problem,
    census: Census,
    rows: Rows,
    found: NDArray[np.bool_],
    shape: IntVector,
    wanted: Wanted,
) -> Iterator[Kept]:
    """Count what does not fit; yield what does, priced."""
    cells, limit = census.cells, problem.setting.memory_limit_bytes
    peak = np.full(len(rows.cell), limit + 1, dtype=np.int64)
    within = np.flatnonzero(found[rows.cell])
    peak[within] = peak_bytes(rows.table.take(within), problem.setting)
    fits = peak <= limit
    degrees = cells.row[rows.cell]
    if problem.forbidden:
        pairs = pairs_of(cells, degrees, np.arange(len(degrees)))
        left_out = forbidden(problem, rows.table, pairs)
        census.reject(forbid.__name__, int(np.count_nonzero(left_out)))
        census.reject(memory.__name__, int(np.count_nonzero(~left_out & ~fits[pairs.row])))
        pairs = pairs.take(np.flatnonzero(~left_out & fits[pairs.row]))
    else:
        census.reject(memory.__name__, int(cells.legal[degrees[~fits]].sum()))
        pairs = pairs_of(cells, degrees, np.flatnonzero(fits))
    for start in range(0, len(pairs.row), ROWS):
        part = pairs.take(np.arange(start, min(start + ROWS, len(pairs.row))))
        table = replace(rows.table.take(part.row), order=part.order)
        objective = _objective(problem, table, peak[part.row], wanted.objective)
        yield Kept(table, objective, peak[part.row], shape[degrees[part.row]])


def _objective(problem: Problem, table: LayoutTable, peak: IntVector, objective: Objective) -> Vector:
    if objective == "memory":
        return peak.astype(np.float64)
    estimates = estimate(table, problem.setting)
    return estimates.step_time_s if objective == "step_time" else estimates.sent_bytes_per_gpu


def _best(kept: Kept, wanted: Wanted) -> IntVector:
    """Return the rows that may reach the shortlist, in canonical order."""
    if wanted.distinct == "layout":
        return np.sort(np.lexsort((kept.peak, kept.objective))[: wanted.top_k])
    order = np.lexsort((kept.peak, kept.objective, kept.shape))
    return order[np.diff(kept.shape[order], prepend=-1) > 0]


def _beneath(problem: Problem, cells: Cells, chosen: IntVector) -> int:
    """Layouts of some cells, every inner choice and legal rank order."""
    inside = cells.count[chosen] * cells.legal[cells.row[chosen]]
    return int(inside.sum()) * len(problem.domains.recompute)


def _shapes(cells: Cells) -> IntVector:
    """Number of the (tp, cp, pp, dp, ep) of each tuple of degrees, ascending."""
    degrees = cells.degrees
    changes = np.zeros(len(degrees), dtype=np.int64)
    for column in (degrees.tp, degrees.cp, degrees.pp, degrees.ep):
        changes[1:] |= column[1:] != column[:-1]
    return np.cumsum(changes)
