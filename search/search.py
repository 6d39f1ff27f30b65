"""Search the space of layouts: count it, solve it, price what fits, tell the best."""

import threading

from models.catalogue import Resolved
from models.errors import InvalidField
from models.estimate import SearchAnswer, Space
from models.request import SearchRequest
from search.answer import assumptions, shortlist, versions
from search.bounds import memory_bounds
from search.census import take_census
from search.clock import Clock
from search.domains import is_order, order_fault
from search.explain import conflict
from search.problem import problem_of
from search.rules import NAMES
from search.score import Wanted, ranked, score
from search.solve import solve


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
        When a rank order is no order of the five axes.
    """
    refuse_false_orders(request)
    clock = Clock(request.time_limit_s, stop)
    problem = problem_of(request, resolved)
    wanted = Wanted(request.objective, request.distinct, request.top_k)
    census = take_census(problem, clock)
    bounds = memory_bounds(problem, census.cells)
    solution = solve(problem, census, bounds, clock)
    scored = score(problem, census, solution, wanted, clock)
    places = shortlist(problem, ranked(scored, wanted), scored)
    complete = solution.complete and scored.complete
    nothing = complete and not places
    rejected = {name: census.rejected[name] for name in NAMES if name in census.rejected}
    return SearchAnswer(
        outcome="stopped_early" if not complete else "found" if places else "none_fit",
        shortlist=places,
        space=Space(
            enumerated=scored.fit + sum(rejected.values()),
            fit=scored.fit,
            rejected=rejected,
            complete=complete,
            solver_status=solution.status,
            wall_s=round(clock.elapsed_s, 3),
        ),
        conflict=conflict(problem, census, bounds) if nothing else None,
        assumptions=assumptions(request, resolved, problem),
        warnings=resolved.warnings,
        version=versions(problem.setting),
    )


def refuse_false_orders(request: SearchRequest) -> None:
    """Refuse a rank order that leaves out an axis or has one twice."""
    stated = request.constraints.rank_order
    orders = (
        [("/constraints/rank_order", stated)]
        if stated and isinstance(stated[0], str)
        else [(f"/constraints/rank_order/{place}", order) for place, order in enumerate(stated or ())]
    )
    orders += [
        (f"/constraints/forbid/{place}/rank_order", choice.rank_order)
        for place, choice in enumerate(request.constraints.forbid)
        if choice.rank_order is not None
    ]
    faults = [order_fault(field, order) for field, order in orders if not is_order(order)]
    if faults:
        raise InvalidField(*faults)
