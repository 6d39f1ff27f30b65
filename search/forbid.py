"""Partial layouts the caller leaves out, judged on finished rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.splits import EMPTY_CHUNKS, balanced_split
from models.cost.table import CODES, SHARED, IntVector, LayoutTable
from models.layout import LayoutChoice
from search.census import Cells, spread
from search.domains import Order
from search.orders import FACTS, facts_of, groups_key
from search.problem import Problem

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Pairs:
    """Rows with one of their rank orders each."""

    row: IntVector
    order: IntVector
    """Index into the candidate orders."""
    pattern: IntVector
    """Pattern of the row's degrees."""

    def take(self, chosen: IntVector) -> "Pairs":
        """Return the chosen pairs."""
        return Pairs(self.row[chosen], self.order[chosen], self.pattern[chosen])


def pairs_of(cells: Cells, degrees: IntVector, rows: IntVector) -> Pairs:
    """Return the chosen rows with every legal rank order of theirs, row by row.

    Parameters
    ----------
    degrees
        Tuple of degrees of every row.
    rows
        The rows chosen.
    """
    pattern = cells.pattern[degrees[rows]]
    count = cells.lists.count[pattern]
    order = cells.lists.flat[spread(cells.lists.start[pattern], count)]
    return Pairs(np.repeat(rows, count), order, np.repeat(pattern, count))


def forbidden(problem: Problem, table: LayoutTable, pairs: Pairs) -> Mask:
    """Return whether each row with its order agrees with a partial layout in every stated knob."""
    left_out = np.zeros(len(pairs.row), dtype=np.bool_)
    for choice in problem.forbidden:
        rows = _agrees(choice, table, problem.setting.architecture.layers)
        agrees = rows[pairs.row]
        if choice.rank_order is not None and agrees.any():
            moe = problem.setting.architecture.moe is not None
            same = _same_groups(choice.rank_order, problem.domains.orders, np.unique(pairs.pattern), moe)
            agrees &= same[pairs.pattern, pairs.order]
        left_out |= agrees
    return left_out


def _agrees(choice: LayoutChoice, table: LayoutTable, layers: int) -> Mask:
    """Whether each row has the stated knobs, its rank order aside."""
    agrees = np.ones(len(table), dtype=np.bool_)
    for name, value in choice.model_dump(exclude_none=True, exclude={"rank_order", "stage_layers"}).items():
        if name in SHARED:
            agrees &= getattr(table, name) == value
            continue
        code = CODES[name].index(value) if name in CODES else int(value)
        agrees &= getattr(table, name) == code
    if choice.stage_layers is not None:
        chunks = len(choice.stage_layers)
        possible = 0 < chunks <= layers + EMPTY_CHUNKS
        split = table.stage_layers or (balanced_split(layers, chunks) if possible else ())
        agrees &= (split == choice.stage_layers) & (table.pp * table.vpp == chunks)
    return agrees


def _same_groups(order: Order, candidates: tuple[Order, ...], patterns: IntVector, moe: bool) -> Mask:
    """Whether a candidate makes the same groups as an order, (pattern, candidate)."""
    same = np.zeros((1 << len(FACTS), len(candidates)), dtype=np.bool_)
    for pattern in patterns.tolist():
        facts = facts_of(pattern)
        key = groups_key(order, facts, moe)
        same[pattern] = [groups_key(candidate, facts, moe) == key for candidate in candidates]
    return same
