"""Decide: which layouts of a training run fit, which is best, what one layout costs and whom it joins."""

import threading

from models.architecture import Architecture
from models.catalogue import Resolved
from models.errors import Fault, InvalidField
from models.estimate import Conflict, SearchAnswer, Space
from models.layout import Layout
from models.request import Constraints, SearchRequest
from search.answer import assumptions, versions
from search.best import Wanted
from search.bounds import memory_bounds
from search.census import Census, take_census
from search.clock import Clock
from search.domains import order_faults
from search.evaluation import evaluate
from search.experts import expert_faults
from search.explain import conflict
from search.hurried import hurried
from search.problem import Problem, problem_of
from search.recompute import recompute_faults
from search.relax import relaxations
from search.rules import NAMES
from search.score import Score, price_layouts
from search.shortlist import shortlist, widened
from search.solve import Solution, enumerate_cells
from search.spared_rows import with_spared
from search.stated import split_faults
from search.timeline import Told, bare_timeline, layout_timeline, schedule_answer
from search.traffic import traffic
from search.uneven import closest, lightest, split_assumption, under_its_split

__all__ = [
    "Told",
    "bare_timeline",
    "constraint_faults",
    "evaluate",
    "layout_timeline",
    "schedule_answer",
    "search",
    "traffic",
]


def search(request: SearchRequest, resolved: Resolved, stop: threading.Event | None = None) -> SearchAnswer:
    """Find the layouts that fit and rank them.

    Parameters
    ----------
    request
        The question.
    resolved
        The same with its names looked up.
    stop
        Set by the caller to end the search early; the answer then holds what was found so far.

    Raises
    ------
    InvalidField
        When a rank order is no order of the five axes, or what is said of recompute contradicts itself,
        or something is said of experts where there are none.
    """
    if faults := constraint_faults(request.constraints, resolved.architecture):
        raise InvalidField(*faults)
    return _answer(request, resolved, Clock(request.time_limit_s, stop))


def _answer(request: SearchRequest, resolved: Resolved, clock: Clock) -> SearchAnswer:
    """Answer a question; under the split with the least peak where no layout fits evenly split."""
    problem = problem_of(request, resolved)
    wanted = Wanted(request.objective, request.distinct, request.top_k)
    census = take_census(problem, clock)
    bounds = memory_bounds(problem, census.cells, clock)
    solution = enumerate_cells(problem, census, bounds, clock)
    scored = price_layouts(problem, census, solution, widened(wanted), clock)
    rows, spared = with_spared(problem, census.cells, scored, widened(wanted), clock)
    found = shortlist(problem, rows, scored, wanted, clock)
    places, complete = found.places, solution.complete and scored.complete
    nothing = complete and not places
    near = lightest(problem, census, bounds) if nothing and bounds else None
    if near and near[0] <= problem.setting.memory_limit_bytes:
        told = _answer(under_its_split(request, near[1]), resolved, clock)
        return told.model_copy(update={"assumptions": (*told.assumptions, split_assumption(near[1]))})
    return SearchAnswer(
        outcome="stopped_early" if not complete else "found" if places else "none_fit",
        shortlist=places,
        space=_space(census, scored, solution, clock),
        conflict=_conflict(request, resolved, problem, census, near, clock) if nothing and bounds else None,
        assumptions=assumptions(request, resolved, problem, places),
        warnings=(*resolved.warnings, *hurried(found, request.time_limit_s, spared=spared)),
        version=versions(problem.setting),
    )


def constraint_faults(constraints: Constraints, architecture: Architecture | None) -> list[Fault]:
    """Return what is wrong with what a caller asks of layouts, whatever the cluster and the batch.

    Of an architecture that cannot be read only what holds for every one is told.
    """
    faults = order_faults(constraints)
    if architecture is not None:
        faults += recompute_faults(constraints, architecture)
        faults += expert_faults(constraints, architecture)
        faults += split_faults(constraints, architecture)
    return faults


def _conflict(
    request: SearchRequest,
    resolved: Resolved,
    problem: Problem,
    census: Census,
    near: tuple[int, Layout] | None,
    clock: Clock,
) -> Conflict:
    peak = None if near is None else near[0]
    return conflict(problem, census, closest(problem, near), relaxations(request, resolved, peak, clock))


def _space(census: Census, scored: Score, solution: Solution, clock: Clock) -> Space:
    rejected = {name: census.rejected[name] for name in NAMES if name in census.rejected}
    return Space(
        enumerated=scored.fit + sum(rejected.values()),
        fit=scored.fit,
        rejected=rejected,
        complete=solution.complete and scored.complete,
        solver_status=solution.status,
        wall_s=round(clock.elapsed_s, 3),
    )
