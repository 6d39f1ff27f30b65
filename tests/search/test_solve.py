"""The solver: every solution once, the census agreed with, bounds that bound, and a stop that is told."""

import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.catalogue import resolve
from models.catalogue.framework_memory import framework, framework_names
from models.cost.memory.stage_bytes import peak_bytes
from models.layout import LayoutChoice
from models.request import Constraints, Range, SearchRequest
from search import search, solve
from search.bounds import memory_bounds
from search.census import take_census
from search.clock import Clock
from search.expand import expand
from search.problem import problem_of
from tests.brute_force import try_everything
from tests.search.questions import DENSE, LATENT, MOE, THREES, Question, resolved, search_everything

TIGHT = 2_550_000_000
"""A limit that about half of the layouts on 24 GPUs keep. [B]"""
SMALL = [DENSE, THREES, MOE, LATENT]


def counted(question):
    under = question.setting()
    problem = problem_of(question.request(), resolved(under))
    census = take_census(problem, Clock(60))
    return problem, census, memory_bounds(problem, census.cells, Clock(600))


@pytest.mark.parametrize("habits", framework_names())
@pytest.mark.parametrize("profile", ["calibrated", "textbook"])
@pytest.mark.parametrize("architecture", SMALL, ids=lambda architecture: architecture.name)
def test_the_bound_of_a_cell_is_never_above_a_layout_in_it(architecture, profile, habits):
    for gpus in (8, 24, 128):
        problem, census, _ = counted(Question(architecture, gpus, 48, profile=profile, limit=1))
        problem = replace(problem, setting=replace(problem.setting, framework=framework(habits)))
        bounds = memory_bounds(problem, census.cells, Clock(600))
        least = np.full(len(census.cells), 2**62)
        for rows in expand(problem, census.cells, np.arange(len(census.cells))):
            np.minimum.at(least, rows.cell, peak_bytes(rows.table, problem.setting))
        assert (bounds.least_bytes <= least).all()
        if architecture.moe is None:
            assert (bounds.least_bytes == least).all()  # exact without routed experts


def test_one_program_for_each_pp_finds_the_same(monkeypatch):
    problem, census, bounds = counted(Question(MOE, 24, 48, limit=TIGHT))
    whole = solve.enumerate_cells(problem, census, bounds, Clock(60))
    monkeypatch.setattr(solve, "SLICED", 0)
    sliced = solve.enumerate_cells(problem, census, bounds, Clock(60))
    assert (whole.found == sliced.found).all()
    assert whole.status == sliced.status == "OPTIMAL"


def test_large_values_are_packed_by_place_and_found_all_the_same(monkeypatch):
    problem, census, bounds = counted(Question(MOE, 24, 48, limit=TIGHT))
    whole = solve.enumerate_cells(problem, census, bounds, Clock(60))
    monkeypatch.setattr("search.packing.LARGEST_VALUE", 1)
    placed = solve.enumerate_cells(problem, census, bounds, Clock(60))
    assert (whole.found == placed.found).all()


def test_a_solver_that_differs_from_the_census_is_an_error():
    _, census, bounds = counted(Question(MOE, 8, 16))
    other, _, _ = counted(Question(MOE, 8, 20))
    with pytest.raises(solve.SolverDisagreement, match="in common"):
        solve.enumerate_cells(other, census, bounds, Clock(60))


def test_a_search_stopped_by_its_caller_says_so_and_counts_what_it_saw():
    stop = threading.Event()
    stop.set()
    question = Question(MOE, 24, 48, limit=TIGHT)
    told = search(question.request(), resolved(question.setting()), stop)
    assert told.outcome == "stopped_early"
    assert not told.space.complete
    assert told.space.enumerated == told.space.fit + sum(told.space.rejected.values())
    assert told.conflict is None


def test_places_there_was_no_time_to_run_are_told_by_their_ranks(monkeypatch):
    """Formulas rank every place; the schedule of a place is run only while time is left."""
    question = Question(MOE, 24, 48, constraints=Constraints(pp=Range(min=2)))
    asked, known = question.request(top_k=5), resolved(question.setting())
    assert search(asked, known).warnings == ()
    monkeypatch.setattr(sys.modules["search.shortlist"], "LATE", 0.0)
    told = search(asked, known)
    assert told.outcome == "found"
    assert {place.pipeline.timed_by for place in told.shortlist} == {"formula"}
    assert told.warnings[0].startswith("Time was nearly up (70% of time_limit_s, 30): every place is told as")


def test_a_place_without_stages_is_the_same_however_late_it_is_told(monkeypatch):
    question = Question(DENSE, 8, 16, constraints=Constraints(pp=1))
    asked, known = question.request(), resolved(question.setting())
    monkeypatch.setattr(sys.modules["search.shortlist"], "LATE", 0.0)
    assert not any("formulas" in text for text in search(asked, known).warnings)


def test_rank_orders_there_was_no_time_for_are_told(monkeypatch):
    request = SearchRequest(
        model="llama-3-8b",
        cluster="dgx-h100",
        gpus=64,
        workload={"sequence_length": 4096, "global_batch": 64},
        constraints={"tp": 2, "pp": 2},
        top_k=2,
    )
    assert any(place.other_orders for place in search(request, resolve(request)).shortlist)
    monkeypatch.setattr(sys.modules["search.shortlist"], "LATE", 0.0)
    told = search(request, resolve(request))
    assert not any(place.other_orders for place in told.shortlist)
    assert any("without other rank orders" in text for text in told.warnings)


@pytest.mark.parametrize("limit", [1e-6, 0.01, 0.02, 0.03])
def test_a_search_out_of_time_tells_what_it_found(limit):
    question = Question(MOE, 64, 64, limit=2_600_000_000)
    told = search(question.request(time_limit_s=limit), resolved(question.setting()))
    assert told.space.enumerated == told.space.fit + sum(told.space.rejected.values())
    assert (told.outcome == "stopped_early") is not told.space.complete
    assert bool(told.shortlist) is (told.space.fit > 0)


LARGE = {
    "kimi-k2": {"gpus": 98_304, "global_batch": 393_216},
    "llama-3.1-405b": {"gpus": 110_880, "global_batch": 110_880},
}
"""Counts with many divisors; the first takes longer than any time given here."""
LATE_S = 10.0
"""CPU time past its limit that no search takes on a machine ten times as slow as ours. [s]"""


@pytest.mark.parametrize("orders", ["launchable", "all"])
@pytest.mark.parametrize("model", LARGE)
@pytest.mark.parametrize("limit", [0.05, 0.2, 1.0])
def test_a_large_search_ends_in_its_time_and_says_whether_it_is_complete(model, orders, limit):
    """What is told is true whatever the machine: complete, or stopped early, and it ends."""
    gpus, batch = LARGE[model]["gpus"], LARGE[model]["global_batch"]
    request = SearchRequest(
        model=model,
        cluster="dgx-h100",
        gpus=gpus,
        workload={"sequence_length": 4096, "global_batch": batch},
        constraints={"rank_orders": orders},
        time_limit_s=limit,
    )
    known = resolve(request)
    start = time.thread_time()
    told = search(request, known)
    assert time.thread_time() - start < limit + LATE_S
    assert (told.outcome == "stopped_early") is not told.space.complete
    if model == "kimi-k2" and limit <= 0.2:
        assert told.outcome == "stopped_early"
    assert told.space.enumerated == told.space.fit + sum(told.space.rejected.values())
    assert bool(told.shortlist) is (told.space.fit > 0)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("orders", ["launchable", "all"])
@pytest.mark.parametrize("gpus", [98_304, 100_000, 110_880])
def test_counts_with_many_divisors_are_searched_whole_in_the_usual_time(gpus, orders):
    request = SearchRequest(
        model="kimi-k2",
        cluster="dgx-h100",
        gpus=gpus,
        workload={"sequence_length": 4096, "global_batch": 4 * gpus},
        constraints={"rank_orders": orders},
    )
    start = time.process_time()
    told = search(request, resolve(request))
    assert time.process_time() - start < request.time_limit_s
    assert told.space.complete or told.space.wall_s >= 0.5 * request.time_limit_s
    assert told.shortlist


CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "tp": st.one_of(st.integers(1, 6), st.builds(Range, min=st.integers(1, 3), max=st.integers(3, 8))),
        "pp": st.builds(Range, max=st.integers(1, 8)),
        "ep": st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple),
        "zero": st.lists(st.integers(0, 3), min_size=1, max_size=2).map(tuple),
        "recompute": st.sampled_from(["none", "selective", "full"]),
        "micro_batch": st.integers(1, 4),
        "vpp": st.builds(Range, max=st.integers(1, 4)),
        "sequence_parallel": st.booleans(),
        "cp_comm": st.sampled_from(["ring", "ulysses"]),
        "gradient_reduce": st.sampled_from(["once", "per_micro_batch"]),
        "rank_orders": st.sampled_from(["launchable", "all"]),
        "forbid": st.lists(
            st.builds(
                LayoutChoice,
                tp=st.none() | st.integers(1, 4),
                pp=st.none() | st.integers(1, 4),
                micro_batch=st.none() | st.integers(1, 2),
                schedule=st.none() | st.sampled_from(["none", "1f1b"]),
            ),
            max_size=2,
        ).map(tuple),
    },
).map(lambda kept: Constraints(**kept))

QUESTIONS = st.builds(
    Question,
    architecture=st.sampled_from(SMALL),
    gpus=st.sampled_from([1, 2, 3, 4, 6, 8, 10, 12]),
    batch=st.sampled_from([1, 6, 8, 12, 30, 64]),
    sequence=st.sampled_from([96, 120, 256]),
    constraints=CHOICES,
    share=st.floats(0, 1),
    objective=st.sampled_from(["step_time", "memory", "traffic"]),
    profile=st.sampled_from(["calibrated", "textbook"]),
)


def agrees(question):
    under = question.setting()
    answer = try_everything(under, question.constraints, question.objective)
    found = search_everything(question, under)
    assert found.fit == answer.fit
    assert found.census.rejected == dict(answer.rejected)


@given(QUESTIONS)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_a_random_small_question_is_answered_as_by_trying_everything(question):
    agrees(question)


@pytest.mark.long
@pytest.mark.timeout(3000)
@given(QUESTIONS)
@settings(max_examples=400, deadline=None)
def test_many_random_small_questions_are_answered_as_by_trying_everything(question):
    agrees(question)
