"""Every change that is told to help has been tried, helps, and is no larger than it must be."""

import copy

import pytest

import search
from models.catalogue import resolve
from models.request import SearchRequest
from search.relax import Question, ladders

CASES = {
    "a large model on one GPU": {
        "model": "gpt3-175b", "cluster": "dgx-a100", "gpus": 1,
        "workload": {"sequence_length": 2048, "global_batch": 1536},
    },
    "pins that hold each other": {
        "model": "llama-3-70b", "cluster": "dgx-h100", "gpus": 64,
        "workload": {"sequence_length": 8192, "global_batch": 128},
        "constraints": {"tp": 1, "pp": 1, "zero": 1},
    },
    "a batch the pinned replicas do not divide": {
        "model": "llama-3-8b", "cluster": "dgx-h100", "gpus": 8,
        "workload": {"sequence_length": 8192, "global_batch": 7}, "constraints": {"dp": 8},
    },
    "a reserve too large": {
        "model": "llama-3-8b", "cluster": "dgx-h100", "gpus": 8,
        "workload": {"sequence_length": 8192, "global_batch": 64},
        "constraints": {"memory_reserve_bytes": 79_000_000_000},
    },
    "no recompute at a long sequence": {
        "model": "llama-3-8b", "cluster": "dgx-h100", "gpus": 8,
        "workload": {"sequence_length": 131072, "global_batch": 8},
        "constraints": {"recompute": "none", "cp": 1},
    },
    "all forbidden": {
        "model": "llama-3-8b", "cluster": "dgx-h100", "gpus": 2,
        "workload": {"sequence_length": 8192, "global_batch": 8}, "constraints": {"forbid": [{}]},
    },
    "two pins at once": {
        "model": "gpt3-175b", "cluster": "dgx-a100", "gpus": 8,
        "workload": {"sequence_length": 2048, "global_batch": 64},
        "constraints": {"zero": 0, "tp": 1, "pp": 1},
    },
}  # fmt: skip


def ask(question: dict):
    request = SearchRequest(**question)
    return search.search(request, resolve(request))


def changed(question: dict, changes) -> dict:
    """The question as a caller would send it after the changes."""
    held = copy.deepcopy(question)
    for change in changes:
        *path, last = change.field.strip("/").split("/")
        place = held
        for key in path:
            place = place.setdefault(key, {})
        place[last] = change.to
        if change.to is None or change.to == ():
            del place[last]
    return held


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES.keys())
def refused(request):
    return request.param, ask(request.param)


def test_every_change_told_makes_a_layout_fit(refused):
    question, answer = refused
    assert answer.outcome == "none_fit"
    for relaxation in answer.conflict.relaxations:
        after = ask(changed(question, relaxation.change) | {"distinct": "layout", "top_k": 1000})
        assert after.outcome == "found"
        assert relaxation.then.gpus == changed(question, relaxation.change)["gpus"]


def test_the_first_rung_that_works_is_told_and_none_before_it_does(refused):
    question, answer = refused
    request = SearchRequest(**question)
    closest = answer.conflict.closest
    peak = closest.memory.peak_bytes if closest else None
    told = {relaxation.change for relaxation in answer.conflict.relaxations}
    for ladder in ladders(Question(request, resolve(request)), peak):
        for rung in ladder:
            if rung.changes in told:
                break
            assert ask(changed(question, rung.changes)).outcome == "none_fit"


def test_something_always_helps_here(refused):
    assert refused[1].conflict.relaxations


def test_changes_are_single_unless_no_single_one_helps(refused):
    _, answer = refused
    sizes = {len(relaxation.change) for relaxation in answer.conflict.relaxations}
    assert len(sizes) == 1


def test_the_same_question_is_told_the_same_changes(refused):
    question, answer = refused
    assert ask(question).conflict == answer.conflict
