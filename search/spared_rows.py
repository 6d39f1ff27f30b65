"""Layouts of full recompute, ranked by what they take where they spare the layers there is room for.

The ranking by formulas takes full recompute for all layers, and so puts a layout last whose first stage
alone is too full. Here such layouts are priced by the same formulas again, on every kind of stage as few
layers recomputed as its first stage must, which sets the pace. Those that come among the best join them.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models.cost.memory.spared_bytes import spared_layer_bytes
from models.cost.memory.stage_bytes import memory_lines, peak_bytes
from models.cost.price import price
from models.cost.setting import Setting
from models.cost.stages import Stages, stage_kinds
from models.cost.table import FULL, KEEP_ALL, IntVector, LayoutTable
from search.best import Best, Kept, Vector, Wanted
from search.census import Cells
from search.clock import Clock
from search.expand import ROWS, rows_at
from search.problem import Problem
from search.score import Judged, Score, Waiting, price_rows, ranked
from search.stage_recompute import may_spare

Array = NDArray[np.float64]

APART = 0.03
"""By how much formulas may miss what a schedule takes as it runs. [1]"""


def with_spared(
    problem: Problem, cells: Cells, score: Score, wanted: Wanted, clock: Clock
) -> tuple[Kept | None, bool]:
    """Return the ranked rows, best first, and among them those that get there by sparing layers.

    And whether all of those were tried: not where time was up.

    A row stays beside one of its own shape that passes it by formula, until both are priced as they run.
    """
    plain, judged = ranked(score), score.judged
    if plain is None or judged is None or wanted.objective != "step_time" or not may_spare(problem):
        return plain, True
    if judged.least is None or clock.expired():
        return plain, not clock.expired()
    best = Best(wanted, len(score.fit_of_shape))
    best.add(plain)
    waiting = _crowded(problem, cells, judged, best)

    def worth(table: LayoutTable, _: IntVector) -> Vector:
        return sparing_seconds(table, problem.setting)

    _, whole = price_rows(problem, cells, waiting, worth, best, judged.shape, clock)
    assert best.kept is not None
    found = best.kept.joined(_beside(plain, best.kept))
    rows = np.stack([found.cell, found.place, found.table.order])
    _, first = np.unique(rows, axis=1, return_index=True)
    return found.take(np.sort(first)), whole


def _beside(plain: Kept, chosen: Kept) -> Kept:
    """Return the rows that one of their own shape passes by less than formulas may err."""
    least = dict(zip(chosen.shape.tolist(), chosen.objective.tolist(), strict=True))
    bar = np.array([least.get(shape, 0.0) for shape in plain.shape.tolist()])
    return plain.take(np.flatnonzero(plain.objective <= bar * (1 + APART)))


def _crowded(problem: Problem, cells: Cells, judged: Judged, best: Best) -> Waiting:
    """Rows of full recompute that do not fit without, and may enter with what they must recompute."""
    rows, least = judged.rows, judged.least
    assert least is not None
    combo = cells.inner[cells.start[rows.cell] + rows.place]
    rows = rows.take(np.flatnonzero(cells.combos.recompute[combo] == FULL))
    kept: list[Waiting] = [rows.take(slice(0))]
    for start in range(0, len(rows.cell), ROWS):
        part = rows.take(slice(start, start + ROWS))
        table, degrees = rows_at(problem, cells, part.cell, part.place).table, cells.row[part.cell]
        none = replace(table, recompute=np.full_like(table.recompute, KEEP_ALL))
        open_ = np.flatnonzero(best.may_enter(least.of(none, degrees), judged.shape[degrees]))
        crowded = peak_bytes(none.take(open_), problem.setting) > problem.setting.memory_limit_bytes
        open_ = open_[crowded]
        table, degrees = table.take(open_), degrees[open_]
        floor = least.of_sparing(table, degrees, with_room(table, problem.setting))
        entering = best.may_enter(floor, judged.shape[degrees])
        kept.append(replace(part.take(open_), floor=floor).take(np.flatnonzero(entering)))
    return Waiting(*(np.concatenate(one) for one in zip(*(vars(w).values() for w in kept), strict=True)))


def sparing_seconds(table: LayoutTable, setting: Setting) -> Vector:
    """Step of layouts of full recompute that spare what there is room for, (N,). [s]."""
    return price(replace(table, sparing=True), setting, with_room(table, setting))[2].total


def with_room(table: LayoutTable, setting: Setting) -> Stages:
    """Return the kinds of stages with the layers each can spare: experts' first, which hold more."""
    stages = stage_kinds(table, setting)
    held = np.add.reduce(list(memory_lines(table, stages, setting).values()))
    room = setting.memory_limit_bytes - held
    dense, sparse = spared_layer_bytes(table, stages, setting)
    spared_sparse = _spared(room, sparse, stages.sparse)
    spared_dense = _spared(room - spared_sparse * sparse, dense, stages.dense)
    return replace(stages, spared_dense=spared_dense, spared_sparse=spared_sparse)


def _spared(room: Array, each: Array, layers: Array) -> Array:
    """Layers there is room for, (N, S)."""
    return np.clip(np.floor(room / np.maximum(each, 1.0)), 0.0, layers)
