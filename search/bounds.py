"""A lower bound on the memory of a cell that is a sum over the solver's decisions.

For each kind k of stage, with pp, ZeRO and schedule given:

    peak >= rest_k(tp, cp) + routed_k(etp * ep)

where `rest` is what the stage holds besides its routed experts, at its least over every inner
choice (chunks, micro-batch, recompute) and with whole experts; and `routed` is the routed
experts' state at its least. Whole bytes throughout, so nothing is rounded.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.memory.stage_bytes import stage_parts
from models.cost.pipeline.schedule import chunks_fit
from models.cost.splits import hold_layers
from models.cost.table import INTERLEAVED, IntVector
from models.layout import SCHEDULES
from search.census import Cells
from search.clock import Clock
from search.expand import ROWS, expand, without_experts
from search.problem import Problem, cells_to_table
from search.rules import split_covers_the_chunks

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Bounds:
    """Least bytes of every cell, in the two parts the solver adds up."""

    rest_of: IntVector
    """Row of `rest` that belongs to each cell."""
    rest: IntArray
    """(groups of equal tp, cp, pp, zero, schedule; kinds of stage). [B]"""
    rest_cell: IntVector
    """A cell of each group."""
    routed_of: IntVector
    """Row of `routed` that belongs to each cell."""
    routed: IntArray
    """(groups of equal pp, zero, schedule, etp * ep; kinds of stage). [B]"""
    routed_cell: IntVector
    """A cell of each group."""

    @property
    def least_bytes(self) -> IntVector:
        """Bound of each cell, shape (M,). [B]."""
        least: IntVector = np.max(self.rest[self.rest_of] + self.routed[self.routed_of], axis=1, initial=0)
        return least


def memory_bounds(problem: Problem, cells: Cells, clock: Clock) -> Bounds | None:
    """Return the bound of every cell; nothing where time runs out."""
    rest_of, rest_cell = _groups(cells, expert=False)
    routed_of, routed_cell = _groups(cells, expert=True)
    if problem.setting.architecture.moe is None:
        rest = _least_rest(problem, cells, rest_cell, clock, heaviest=True)
        routed = np.zeros((len(routed_cell), rest.shape[1]), dtype=np.int64)
    else:
        rest = _least_rest(problem, cells, rest_cell, clock, heaviest=False)
        routed = _least_routed(problem, cells, routed_cell)
    if clock.expired():
        return None
    width = max(rest.shape[1], routed.shape[1])
    return Bounds(rest_of, _widened(rest, width), rest_cell, routed_of, _widened(routed, width), routed_cell)


def _groups(cells: Cells, *, expert: bool) -> tuple[IntVector, IntVector]:
    """Return the group of each cell and the first cell of each group."""
    degrees = cells.degrees.take(cells.row)
    keys = [degrees.etp * degrees.ep] if expert else [degrees.tp, degrees.cp]
    code = np.zeros(len(cells), dtype=np.int64)
    for key, size in (
        (cells.zero, 4),
        (cells.schedule, len(SCHEDULES)),
        *((key, 0) for key in (*keys, degrees.pp)),
    ):
        code = code * (size or int(key.max(initial=0)) + 1) + key
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return group, first


def _least_rest(
    problem: Problem, cells: Cells, chosen: IntVector, clock: Clock, *, heaviest: bool
) -> IntArray:
    """Return `rest` of each chosen cell at its least; of the heaviest kind of stage alone if so asked.

    Without routed experts the heaviest stage of each inner choice is known, and the bound is exact.
    """
    parts = []
    for rows in expand(problem, cells, chosen):
        if clock.expired():
            break
        rest, _ = stage_parts(without_experts(rows.table), problem.setting)
        kept = rest.max(axis=1, keepdims=True) if heaviest else rest
        first = np.flatnonzero(np.diff(rows.cell, prepend=-1))
        parts.append(np.minimum.reduceat(kept, first, axis=0))
    return _stacked(parts)


def _least_routed(problem: Problem, cells: Cells, chosen: IntVector) -> IntArray:
    """Return `routed` of each chosen cell at its least over the chunk counts its stages can hold."""
    degrees, schedule = cells.degrees.take(cells.row[chosen]), cells.schedule[chosen]
    vpp = np.unique(cells.combos.vpp)
    fits = chunks_fit(schedule[:, None], vpp[None, :])
    loops, layers = schedule[:, None] == INTERLEAVED, problem.setting.architecture.layers
    fits &= hold_layers(degrees.pp[:, None], vpp[None, :], loops, layers)
    fits &= split_covers_the_chunks(problem, degrees.pp[:, None], vpp[None, :])
    group, chunk = np.nonzero(fits)
    cell = chosen[group]
    parts = []
    for start in range(0, len(cell), ROWS):
        part = slice(start, start + ROWS)
        table = cells_to_table(
            problem,
            degrees.take(group[part]),
            cells.zero[cell[part]],
            cells.schedule[cell[part]],
            vpp[chunk[part]],
            cells.combos.micro_batch[cells.inner[cells.start[cell[part]]]],
            np.zeros_like(cell[part]),
        )
        parts.append(stage_parts(table, problem.setting)[1])
    return np.minimum.reduceat(_stacked(parts), np.flatnonzero(np.diff(group, prepend=-1)), axis=0)


def _stacked(parts: list[IntArray]) -> IntArray:
    """Return arrays of different widths as one; a missing kind of stage repeats the first kind."""
    width = max((part.shape[1] for part in parts), default=1)
    empty = np.zeros((0, width), dtype=np.int64)
    return np.concatenate([empty, *(_widened(part, width) for part in parts)])


def _widened(part: IntArray, width: int) -> IntArray:
    return np.concatenate([part, *([part[:, :1]] * (width - part.shape[1]))], axis=1)
