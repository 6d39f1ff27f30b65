"""What is left unpriced: only what cannot reach the shortlist, so that the answer is the same without."""

from dataclasses import replace

import numpy as np
import pytest

from models.catalogue import resolve
from models.cost.price import price, sent_bytes
from models.cost.table import COLUMNS
from models.layout import LayoutChoice
from models.request import Constraints, Range, SearchRequest
from search.best import Wanted
from search.bounds import memory_bounds
from search.census import take_census
from search.clock import Clock
from search.expand import expand
from search.floors import floors
from search.forbid import pairs_of
from search.problem import problem_of
from search.score import price_layouts, ranked
from search.solve import enumerate_cells
from tests.search.questions import DENSE, LATENT, MOE, ROOMY, THREES, Question, resolved

held = Constraints
QUESTIONS = {
    "dense": Question(DENSE, 64, 64),
    "dense, textbook": Question(DENSE, 32, 64, profile="textbook"),
    "dense on an odd count": Question(THREES, 60, 60),
    "experts": Question(MOE, 24, 48),
    "experts, textbook, every order": Question(
        MOE, 24, 24, profile="textbook", constraints=held(rank_orders="all", micro_batch=1)
    ),
    "experts, every order": Question(
        MOE, 24, 24, constraints=held(rank_orders="all", micro_batch=(1, 2), recompute="none")
    ),
    "latent attention, every order": Question(
        LATENT, 32, 32, constraints=held(rank_orders="all", recompute="none", zero=(0, 1, 3))
    ),
    "rings": Question(DENSE, 32, 32, constraints=held(cp_comm="ring", cp=Range(min=2), rank_orders="all")),
    "ulysses": Question(DENSE, 32, 32, constraints=held(cp_comm="ulysses")),
    "chunked overlap": Question(DENSE, 16, 32, constraints=held(tp_overlap=True)),
    "a layer recomputed": Question(MOE, 16, 32, constraints=held(recompute_layers=1)),
    "sharded inside groups": Question(MOE, 16, 32, constraints=held(hsdp_shard=2, rank_orders="all")),
    "forbidden parts": Question(
        MOE, 16, 16,
        constraints=held(
            rank_orders="all", zero=1,
            forbid=(LayoutChoice(tp=2), LayoutChoice(rank_order=("dp", "tp", "cp", "ep", "pp"), pp=2)),
        ),
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=QUESTIONS.values(), ids=QUESTIONS.keys())
def asked(request):
    """A question with its cells enumerated; each scoring counts from a census of its own."""
    question = replace(request.param, limit=ROOMY)
    under = question.setting()

    problem = problem_of(question.request(), resolved(under))
    counted = take_census(problem, Clock(600))
    bounds = memory_bounds(problem, counted.cells, Clock(600))
    solution = enumerate_cells(problem, counted, bounds, Clock(600))

    def scored(wanted, **more):
        census = replace(counted, rejected=dict(counted.rejected))
        return price_layouts(problem, census, solution, wanted, Clock(600), **more), census.rejected

    return scored, problem


def rows_of(score):
    best = ranked(score)
    return [] if best is None else [getattr(best.table, name).tolist() for name in COLUMNS]


@pytest.mark.parametrize("objective", ["step_time", "memory", "traffic"])
@pytest.mark.parametrize("distinct", ["shape", "layout"])
@pytest.mark.parametrize("top_k", [1, 10, 1000])
def test_the_answer_is_the_same_as_with_everything_priced(asked, objective, distinct, top_k):
    scored, _ = asked
    wanted = Wanted(objective, distinct, top_k)
    pruned, rejected = scored(wanted)
    whole, also_rejected = scored(wanted, prune=False)
    assert rows_of(pruned) == rows_of(whole)
    assert (pruned.fit, rejected) == (whole.fit, also_rejected)
    assert (pruned.fit_of_shape == whole.fit_of_shape).all()
    assert pruned.priced <= pruned.fit


@pytest.mark.parametrize("objective", ["step_time", "traffic"])
def test_no_layout_is_worth_less_than_its_floor_in_any_rank_order(asked, objective):
    _, problem = asked
    census = take_census(problem, Clock(600))
    cells = census.cells
    least = floors(problem, cells, np.ones(len(cells), dtype=bool), objective, Clock(600))
    for rows in expand(problem, cells, np.arange(len(cells))):
        degrees = cells.row[rows.cell]
        pairs = pairs_of(cells, degrees, np.arange(len(degrees)))
        table = replace(rows.table.take(pairs.row), order=pairs.order)
        stages, traffic, time = price(table, problem.setting)
        sent = np.add.reduce(list(sent_bytes(table, stages, traffic, problem.setting).values()))
        worth = time.total if objective == "step_time" else sent
        floor = least.of(rows.table, degrees)[pairs.row]
        assert (floor >= 0).all()
        assert (floor <= worth * (1 + 1e-9)).all()


def test_few_layouts_of_a_large_search_are_priced():
    """405B on 16,384 GPUs, every rank order: of 570,000 layouts that fit, a twentieth decides."""
    request = SearchRequest(
        model="llama-3.1-405b",
        cluster="dgx-h100",
        gpus=16384,
        workload={"sequence_length": 8192, "global_batch": 2048},
        constraints={"rank_orders": "all"},
    )
    problem = problem_of(request, resolve(request))
    census = take_census(problem, Clock(60))
    solution = enumerate_cells(problem, census, memory_bounds(problem, census.cells, Clock(60)), Clock(60))
    score = price_layouts(problem, census, solution, Wanted("step_time", "shape", 10), Clock(60))
    assert score.fit > 500_000
    assert score.priced < score.fit / 10
