"""Judge every layout of the cells the solver found, and price those that may reach the shortlist.

Memory does not depend on the rank order: a row (a layout whose order is open) is judged once, and all
its orders counted. Rows are then priced best floor first, until no floor left can beat what is known.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from models.cost.memory.stage_bytes import peak_bytes
from models.cost.price import all_sent, price
from models.cost.table import IntVector, LayoutTable
from search.best import ROOM, Best, Kept, Vector, Wanted, comparable
from search.census import Cells, Census
from search.clock import Clock
from search.expand import ROWS, Rows, expand, rows_at
from search.floors import Floors, floors
from search.forbid import forbidden, pairs_of
from search.problem import Problem
from search.rules import forbid, memory
from search.solve import Solution

Worth = Callable[[LayoutTable, IntVector], Vector]
"""What layouts are worth, given their peaks."""

FIRST = 1 << 11
"""Layouts priced before the first look at what may still enter."""


class FloorAbovePrice(RuntimeError):
    """A layout costs less than its floor: a bug of ours."""


@dataclass
class Score:
    """What judging and pricing found."""

    fit: int = 0
    complete: bool = True
    best: Kept | None = None
    """Layouts that may reach the shortlist."""
    fit_of_shape: IntVector = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Layouts that fit, by shape."""
    priced: int = 0
    """Layouts that were priced; the others cannot reach the shortlist."""
    judged: "Judged | None" = None
    """The rows that fit, priced or not."""


@dataclass(frozen=True)
class Waiting:
    """Rows that fit, by cell and place in it, with what they take at least."""

    cell: IntVector
    place: IntVector
    peak: IntVector
    floor: Vector

    def take(self, rows: NDArray[np.int64] | slice) -> "Waiting":
        """Return the chosen rows."""
        return Waiting(*(column[rows] for column in vars(self).values()))


@dataclass(frozen=True)
class Judged:
    """Rows that fit, and what is known of them."""

    rows: Waiting
    shape: IntVector
    """Shape of each tuple of degrees."""
    least: Floors | None


def price_layouts(
    problem: Problem, census: Census, solution: Solution, wanted: Wanted, clock: Clock, *, prune: bool = True
) -> Score:
    """Judge every layout of the cells exactly, and price those that may reach the shortlist.

    Parameters
    ----------
    problem, census, solution
        The question, its cells, and which of them the solver found.
    wanted
        What the shortlist is to hold.
    clock
        Ends both early; what was judged by then is counted, and the best of it priced.
    prune
        Whether to leave unpriced what cannot reach the shortlist; the answer is the same without.
    """
    shape = _shapes(census.cells)
    score = Score(fit_of_shape=np.zeros(int(shape.max(initial=-1)) + 1, dtype=np.int64))
    least = floors(problem, census.cells, solution.found, wanted.objective, clock) if prune else None
    waiting = _judged(problem, census, solution, least, shape, score, clock)
    best = Best(wanted, len(score.fit_of_shape))
    score.judged = Judged(waiting, shape, least)
    if wanted.objective == "memory":
        waiting = replace(waiting, floor=waiting.peak.astype(np.float64))
    worth = partial(_worth, problem, wanted)
    score.priced, whole = price_rows(problem, census.cells, waiting, worth, best, shape, clock)
    score.complete &= whole
    score.best = best.kept
    return score


def ranked(score: Score) -> Kept | None:
    """Return the shortlist's rows, best first; nothing where no layout fits."""
    return None if score.best is None else score.best.take(score.best.ranking())


def _judged(
    problem: Problem,
    census: Census,
    solution: Solution,
    least: Floors | None,
    shape: IntVector,
    score: Score,
    clock: Clock,
) -> Waiting:
    """Count what does not fit and what does; return the rows that do."""
    cells, judged = census.cells, solution.found
    if problem.forbidden and solution.complete:
        judged = np.ones_like(judged)
    if solution.complete:
        census.reject(memory.__name__, _beneath(cells, np.flatnonzero(~judged)))
    nothing = np.zeros(0, dtype=np.int64)
    found = [Waiting(nothing, nothing, nothing, nothing.astype(np.float64))]
    size = 2 * ROWS // max(2, int(cells.legal.max(initial=0))) if problem.forbidden else ROWS
    for rows in expand(problem, cells, np.flatnonzero(judged), size):
        if clock.expired() and len(found) > 1:
            score.complete = False
            break
        peak, orders = _fitting(problem, census, rows, solution.found)
        fits = np.flatnonzero(orders)
        degrees = cells.row[rows.cell[fits]]
        score.fit += int(orders.sum())
        np.add.at(score.fit_of_shape, shape[degrees], orders[fits])
        floor = np.zeros(len(fits)) if least is None else least.of(rows.table.take(fits), degrees)
        found.append(Waiting(rows.cell[fits], rows.place[fits], peak[fits], floor))
    return Waiting(
        *(np.concatenate(column) for column in zip(*(vars(w).values() for w in found), strict=True))
    )


def _fitting(
    problem: Problem, census: Census, rows: Rows, found: NDArray[np.bool_]
) -> tuple[IntVector, IntVector]:
    """Return each row's peak and how many of its rank orders fit; count the others."""
    cells, limit = census.cells, problem.setting.memory_limit_bytes
    peak = np.full(len(rows.cell), limit + 1, dtype=np.int64)
    within = np.flatnonzero(found[rows.cell])
    peak[within] = peak_bytes(rows.table.take(within), problem.setting)
    fits = peak <= limit
    degrees = cells.row[rows.cell]
    orders = np.where(fits, cells.legal[degrees], 0)
    if not problem.forbidden:
        census.reject(memory.__name__, int(cells.legal[degrees[~fits]].sum()))
        return peak, orders
    pairs = pairs_of(cells, degrees, np.arange(len(degrees)))
    left_out = forbidden(problem, rows.table, pairs)
    census.reject(forbid.__name__, int(np.count_nonzero(left_out)))
    census.reject(memory.__name__, int(np.count_nonzero(~left_out & ~fits[pairs.row])))
    return peak, np.bincount(pairs.row[~left_out & fits[pairs.row]], minlength=len(degrees))


def price_rows(
    problem: Problem,
    cells: Cells,
    waiting: Waiting,
    worth: Worth,
    best: Best,
    shape: IntVector,
    clock: Clock,
) -> tuple[int, bool]:
    """Show `best` every layout that may enter it, those with the lowest floors first.

    Returns
    -------
    tuple
        How many were priced, and whether all that may enter were.
    """
    waiting = waiting.take(np.argsort(waiting.floor, kind="stable"))
    size, done = FIRST, 0
    while len(waiting.cell):
        if clock.expired() and best.kept is not None:
            return done, False
        orders = np.cumsum(cells.legal[cells.row[waiting.cell]])
        count = max(1, int(np.searchsorted(orders, size)))
        for kept in _priced(problem, cells, waiting.take(slice(count)), shape, worth):
            best.add(kept)
            done += len(kept.shape)
        waiting = waiting.take(slice(count, None))
        open_ = best.may_enter(waiting.floor, shape[cells.row[waiting.cell]])
        waiting = waiting.take(np.flatnonzero(open_))
        size = min(2 * size, ROWS)
    return done, True


def _priced(
    problem: Problem, cells: Cells, chosen: Waiting, shape: IntVector, worth: Worth
) -> Iterator[Kept]:
    """Price some rows under every rank order of theirs."""
    rows = rows_at(problem, cells, chosen.cell, chosen.place)
    degrees = cells.row[rows.cell]
    pairs = pairs_of(cells, degrees, np.arange(len(degrees)))
    if problem.forbidden:
        pairs = pairs.take(np.flatnonzero(~forbidden(problem, rows.table, pairs)))
    for start in range(0, len(pairs.row), ROWS):
        part = pairs.take(np.arange(start, min(start + ROWS, len(pairs.row))))
        table = replace(rows.table.take(part.row), order=part.order)
        found, floor = worth(table, chosen.peak[part.row]), chosen.floor[part.row]
        if (found < floor * (1 - ROOM)).any():
            raise FloorAbovePrice(f"a layout is worth {found.min()}, less than its floor")
        of = (chosen.peak, shape[degrees], rows.cell, rows.place)
        yield Kept(table, comparable(found), *(column[part.row] for column in of))


def _worth(problem: Problem, wanted: Wanted, table: LayoutTable, peak: IntVector) -> Vector:
    """Return the objective of layouts."""
    if wanted.objective == "memory":
        return peak.astype(np.float64)
    stages, traffic, time = price(table, problem.setting)
    return (
        time.total if wanted.objective == "step_time" else all_sent(table, stages, traffic, problem.setting)
    )


def _beneath(cells: Cells, chosen: IntVector) -> int:
    """Layouts of some cells, every inner choice and legal rank order."""
    inside = cells.count[chosen] * cells.legal[cells.row[chosen]]
    return int(inside.sum())


def _shapes(cells: Cells) -> IntVector:
    """Number of the (tp, cp, pp, dp, ep) of each tuple of degrees, ascending."""
    degrees = cells.degrees
    changes = np.zeros(len(degrees), dtype=np.int64)
    for column in (degrees.tp, degrees.cp, degrees.pp, degrees.ep):
        changes[1:] |= column[1:] != column[:-1]
    return np.cumsum(changes)
