"""The shortlist: places priced as their schedules run, layers placed, sorted anew.

Every layout is ranked by formulas, its layers split evenly. The best of them are priced again by their
schedule as it runs, chunk by chunk, the first of those under a split found for them too; then they are
sorted by what they are told to take. So the ranking is of the figures the answer holds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.cost.table import IntVector
from models.estimate import Candidate, RankedCandidate
from models.layout import Layout
from models.request import Objective
from search.answer import PLACED, layout_of, node_facts, priced
from search.best import Kept, Wanted
from search.check import agrees
from search.clock import Clock
from search.other_orders import other_orders
from search.placing import placed_layers
from search.problem import Problem
from search.score import Score
from search.stage_problem import asymmetry
from search.stage_recompute import is_crowded, sparing
from search.stage_recompute_split import split_sparing
from search.ties import others

Place = tuple[int, Candidate, bool]
"""Row of the ranking, its report, and whether that is the formulas' for want of time."""

SPARE = 4
"""Places priced beyond those asked for: formulas may rank a neighbour too low. [1]"""
LATE = 0.7
"""Part of the time limit after which places are told as the formulas have them. [1]"""
TIE = 1e-3
"""Two splits whose steps differ by less are as fast: it is less than the model knows. [1]"""


@dataclass(frozen=True)
class Shortlist:
    """Places, and what of them there was no time for."""

    places: tuple[RankedCandidate, ...] = ()
    by_formula: tuple[int, ...] = ()
    """Ranks told as the formulas have them, layers split evenly, where there was no time to run them."""
    orders_left_out: tuple[int, ...] = ()
    """Ranks whose other rank orders were not priced."""


def widened(wanted: Wanted) -> Wanted:
    """Return what to rank before places are priced anew."""
    return replace(wanted, top_k=wanted.top_k + SPARE)


def shortlist(problem: Problem, best: Kept | None, scored: Score, wanted: Wanted, clock: Clock) -> Shortlist:
    """Return the places as full reports, best first; ties keep the order they were ranked in.

    When time is nearly up the places are those the formulas rank first, told without their other orders.
    """
    if best is None:
        return Shortlist()
    if clock.expired(LATE):
        best = best.take(np.arange(min(len(best.table), wanted.top_k)))
    other, found = others(problem, best.table), list(_reports(problem, best, wanted.objective, clock))
    found.sort(key=lambda place: (*_worth(place[1], wanted.objective), place[0]))
    if wanted.distinct == "shape":
        found = _first_of_each(found, best.shape)
    found, places = found[: wanted.top_k], []
    unpriced: list[int] = []
    for rank, (row, report, _) in enumerate(found, 1):
        ties, orders = other[row].ties, other[row].fastest
        if orders and clock.expired(LATE):
            orders = ()
            unpriced.append(rank)
        others_of = {"ties": ties, "other_orders": other_orders(report.layout, orders, problem.setting)}
        facts = dict(report) | node_facts(report.layout, problem.setting) | others_of
        variants = int(scored.fit_of_shape[best.shape[row]]) - 1
        places.append(RankedCandidate(**facts, rank=rank, variants=variants))
    late = tuple(rank for rank, (_, _, late) in enumerate(found, 1) if late)
    return Shortlist(tuple(places), late, tuple(unpriced))


def _first_of_each(places: Sequence[Place], shape: IntVector) -> list[Place]:
    """Return the first place of each shape."""
    first: dict[int, Place] = {}
    for place in places:
        first.setdefault(int(shape[place[0]]), place)
    return list(first.values())


def _reports(problem: Problem, best: Kept, objective: Objective, clock: Clock) -> Iterator[Place]:
    for row in range(len(best.table)):
        late = clock.expired(LATE)
        layout = layout_of(problem, best.table, row)
        crowded = objective == "step_time" and is_crowded(layout, problem)
        if crowded:
            layout = sparing(layout, problem) or layout
        even = priced(layout, problem.setting, run=not late)
        if row >= PLACED or objective == "traffic" or late:
            yield row, even, late and layout.pp > 1 and not problem.setting.profile.real_valued_stages
        else:
            yield row, _better_split(even, problem, objective, crowded=crowded), False


def _better_split(even: Candidate, problem: Problem, objective: Objective, *, crowded: bool) -> Candidate:
    """Return a place under the split found for it, where it is better and not left out."""
    setting = problem.setting
    if "stage_layers" in problem.shared:
        return even
    if crowded:
        layout = _placed_sparing(even.layout, problem)
    else:
        layout = placed_layers(even.layout, setting, for_memory=objective == "memory")
    if layout == even.layout or any(agrees(layout, choice, setting) for choice in problem.forbidden):
        return even
    found = priced(layout, setting)
    if found.memory.headroom_bytes < 0 or not _is_better(found, even, objective):
        return even
    return found


def _placed_sparing(even: Layout, problem: Problem) -> Layout:
    """Return a layout with its layers placed and as few of them recomputed as fit; itself where none do."""
    whole = even.model_copy(update={"recompute_stage_layers": None})
    split = split_sparing(whole, problem.setting)
    moved = (
        placed_layers(whole, problem.setting)
        if split is None
        else whole.model_copy(update={"stage_layers": split})
    )
    return sparing(moved, problem) or even


def _is_better(found: Candidate, even: Candidate, objective: Objective) -> bool:
    """Whether a split makes a shorter step; as short a one with less memory; or with a mirror image."""
    apart = found.step_time_s / even.step_time_s - 1
    if objective == "step_time" and abs(apart) > TIE:
        return apart < 0
    new, old = ((one.memory.peak_bytes, asymmetry(one.layout.stage_layers)) for one in (found, even))
    return new < old


def _worth(report: Candidate, objective: Objective) -> tuple[float, int]:
    """What a place is sorted by: less is better."""
    peak = report.memory.peak_bytes
    if objective == "memory":
        return float(peak), peak
    if objective == "traffic":
        return float(sum(entry.sent_bytes_per_gpu for entry in report.traffic)), peak
    return report.step_time_s, peak
