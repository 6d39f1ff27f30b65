"""Where no layout fits with its layers split evenly: the splits with which one does.

The space holds every layout evenly split, and only places on the shortlist have their layers placed. So
where nothing fits, the lightest layouts of each pipeline are placed for the least peak memory.
"""

from dataclasses import replace

import numpy as np

from models.cost.memory.stage_bytes import peak_bytes
from models.cost.report import memory_report
from models.cost.setting import Setting
from models.cost.table import IntVector, LayoutTable
from models.estimate import Assumption, Closest
from models.layout import SCHEDULES, Layout
from models.request import SearchRequest
from search import explain
from search.answer import layout_of
from search.bounds import Bounds
from search.census import Census
from search.check import agrees
from search.expand import expand
from search.forbid import forbidden, pairs_of
from search.placing import placed_layers
from search.problem import Problem

REACH = 1.5
"""Layouts whose peak is up to so many times the limit are placed: no split was seen to save more. [1]"""
CELLS = 4
"""Cells that are looked at of each number of stages and schedule, those of the least bounds. [1]"""
MOST = 8
"""Pipelines placed at most, a few milliseconds each. [1]"""


def lightest(problem: Problem, census: Census, bounds: Bounds) -> tuple[int, Layout] | None:
    """Return the layout with the lightest heaviest stage and its bytes; none where there is no layout.

    Where no even split fits, the lightest are placed for the least peak: the lightest of all, and of those
    near the limit the lightest of each pipeline.
    """
    limit, even = problem.setting.memory_limit_bytes, explain.lightest(problem, census, bounds)
    if even is None or even[0] <= limit:
        return even
    if "stage_layers" in problem.shared or problem.setting.profile.real_valued_stages:
        return even
    near = [
        (peak, layout)
        for peak, layout in _of_each_pipeline(problem, census, bounds)[:MOST]
        if peak <= REACH * limit and least_peak(layout, problem.setting) <= limit
    ]
    placed = (_lighter(peak, layout, problem) for peak, layout in (even, *near))
    return min([even, *placed], key=lambda found: found[0])


def least_peak(layout: Layout, setting: Setting) -> float:
    """Return what the heaviest stage holds at least, however layers that are alike are split. [B].

    All that stages hold, spread evenly, each layer's activations those of the stage that keeps the fewest.
    """
    stages = memory_report(layout, setting).stages
    kept = min(stage.activations_bytes / stage.layers for stage in stages if stage.layers)
    others = sum(stage.total_bytes - stage.activations_bytes for stage in stages)
    return (others + kept * sum(stage.layers for stage in stages)) / len(stages)


def _of_each_pipeline(problem: Problem, census: Census, bounds: Bounds) -> list[tuple[int, Layout]]:
    """Return evenly split layouts, lightest first: one of each number of stages, chunks and schedule."""
    best: list[tuple[int, LayoutTable]] = []
    for rows in expand(problem, census.cells, _lightest_cells(problem, census, bounds)):
        pairs = pairs_of(census.cells, census.cells.row[rows.cell], np.arange(len(rows.cell)))
        kept = pairs.take(np.flatnonzero(~forbidden(problem, rows.table, pairs)))
        peak = peak_bytes(rows.table, problem.setting)[kept.row]
        order = np.argsort(peak, kind="stable")
        pipeline = [getattr(rows.table, name)[kept.row][order] for name in ("pp", "vpp", "schedule")]
        for at in order[np.sort(np.unique(pipeline, axis=1, return_index=True)[1])].tolist():
            table = replace(rows.table.take(kept.row[at : at + 1]), order=kept.order[at : at + 1])
            best.append((int(peak[at]), table))
    best.sort(key=lambda found: found[0])
    return [(peak, layout_of(problem, table, 0)) for peak, table in best]


def _lightest_cells(problem: Problem, census: Census, bounds: Bounds) -> IntVector:
    """Return the cells of the least bounds of each number of stages and schedule, of those near the limit."""
    cells, least = census.cells, bounds.least_bytes
    stages = cells.degrees.pp[cells.row]
    near = np.flatnonzero((least <= REACH * problem.setting.memory_limit_bytes) & (stages > 1))
    near = near[np.lexsort((least[near], cells.schedule[near], stages[near]))]
    kind = stages[near] * len(SCHEDULES) + cells.schedule[near]
    _, first, of = np.unique(kind, return_index=True, return_inverse=True)
    return np.asarray(near[np.arange(len(near)) - first[of] < CELLS])


def _lighter(peak: int, layout: Layout, problem: Problem) -> tuple[int, Layout]:
    """Return a layout placed for the least peak, with its bytes; itself where that is left out."""
    open_ = replace(problem.setting, memory_limit_bytes=peak)
    placed = placed_layers(layout, open_, for_memory=True)
    if any(agrees(placed, choice, problem.setting) for choice in problem.forbidden):
        return peak, layout
    return int(peak_bytes(LayoutTable.of([placed]), problem.setting)[0]), placed


def closest(problem: Problem, near: tuple[int, Layout] | None) -> Closest | None:
    """Return the layout over the memory limit by least; none where no layout keeps the other rules."""
    if near is None:
        return None
    peak, layout = near
    over = peak - problem.setting.memory_limit_bytes
    return Closest(layout=layout, over_bytes=over, memory=memory_report(layout, problem.setting))


def under_its_split(request: SearchRequest, layout: Layout) -> SearchRequest:
    """Return the question with the split of a layout stated."""
    constraints = request.constraints.model_copy(update={"stage_layers": layout.stage_layers})
    return request.model_copy(update={"constraints": constraints})


def split_assumption(layout: Layout) -> Assumption:
    """Tell of a split that was stated for the caller."""
    why = "no layout fits with its layers split evenly; this split has the least peak memory of those tried"
    return Assumption(field="/constraints/stage_layers", value=list(layout.stage_layers), why=why)
