"""Why no layout fits: the rules that rejected the most, and the lightest layout evenly split."""

from dataclasses import replace

import numpy as np

from models.cost.memory.stage_bytes import peak_bytes
from models.cost.table import IntVector, LayoutTable
from models.estimate import Closest, Conflict, Relaxation, RuleStatement
from models.layout import Layout
from search.answer import layout_of
from search.bounds import Bounds
from search.census import Census
from search.emptiness import no_layout
from search.expand import Rows, expand
from search.forbid import forbidden, pairs_of
from search.problem import Problem
from search.rules import NAMES, statement


def conflict(
    problem: Problem, census: Census, closest: Closest | None, relaxations: tuple[Relaxation, ...]
) -> Conflict:
    """Return why nothing fits, and what would."""
    rejected = sorted(census.rejected.items(), key=lambda item: (-item[1], NAMES.index(item[0])))
    rules = tuple(RuleStatement(name=name, statement=statement(name)) for name, _ in rejected)
    return Conflict(rules=rules or no_layout(problem), closest=closest, relaxations=relaxations)


def lightest(problem: Problem, census: Census, bounds: Bounds) -> tuple[int, Layout] | None:
    """Return the evenly split layout with the lightest heaviest stage and its bytes; none without layouts.

    Cells come by their bound, so the search ends where the next bound is above the best found.
    """
    least = bounds.least_bytes
    best: tuple[int, int, LayoutTable] | None = None
    for rows in expand(problem, census.cells, np.argsort(least, kind="stable"), rows=4096):
        if best is not None and least[rows.cell[0]] > best[0]:
            break
        found = _lightest(problem, census, rows)
        if found is not None and (best is None or found[:2] < best[:2]):
            best = found
    return None if best is None else (best[0], layout_of(problem, best[2], 0))


def _lightest(problem: Problem, census: Census, rows: Rows) -> tuple[int, int, LayoutTable] | None:
    """Return peak, cell and table of the lightest row that is not forbidden, in its first rank order."""
    pairs = pairs_of(census.cells, census.cells.row[rows.cell], np.arange(len(rows.cell)))
    kept = pairs.take(np.flatnonzero(~forbidden(problem, rows.table, pairs)))
    if not len(kept.row):
        return None
    peak: IntVector = peak_bytes(rows.table, problem.setting)[kept.row]
    first = int(np.lexsort((rows.cell[kept.row], peak))[0])
    row = kept.row[first : first + 1]
    table = replace(rows.table.take(row), order=kept.order[first : first + 1])
    return int(peak[first]), int(rows.cell[row[0]]), table
