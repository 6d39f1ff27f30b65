"""Where no layout fits evenly split, one that does with another split is the answer, not a refusal."""

from itertools import product

import numpy as np
import pytest

from models.cost import candidate
from models.layout import LayoutChoice
from models.request import Constraints
from search import search
from search.case import Case
from search.check import broken_rules
from search.uneven import least_peak
from tests.search.questions import DENSE, Question, resolved

HEADY = DENSE.model_copy(update={"layers": 9, "hidden": 1024, "ffn": 4096, "vocabulary": 60_000})
"""Embedding and head as heavy as four layers: even stages are uneven in bytes."""
HELD = Constraints(tp=1, cp=1, pp=4, dp=1, zero=0, micro_batch=1, schedule="1f1b", recompute="full")
EVEN = (2, 2, 3, 2)


def asked(limit, **more):
    constraints = HELD.model_copy(update=more)
    return Question(HEADY, 4, 16, 4096, constraints=constraints, limit=limit)


def answered(question):
    return search(question.request(), resolved(question.setting()))


def peaks():
    """Peak of every split there is, whatever the limit."""
    (even,) = answered(asked(10**15, stage_layers=EVEN)).shortlist
    setting = asked(10**15).setting()
    cuts = product(range(HEADY.layers + 1), repeat=3)
    splits = (tuple(np.diff([0, *cut, HEADY.layers]).tolist()) for cut in cuts if list(cut) == sorted(cut))
    return {
        split: candidate(even.layout.model_copy(update={"stage_layers": split}), setting).memory.peak_bytes
        for split in splits
        if all(split[1:-1])
    }


@pytest.fixture(scope="module")
def every():
    return peaks()


def test_a_limit_only_an_uneven_split_keeps_is_answered_and_the_split_is_told(every):
    least = min(every.values())
    assert least < every[EVEN]
    told = answered(asked(least))
    assert told.outcome == "found"
    assert told.conflict is None
    (place,) = told.shortlist
    assert place.memory.peak_bytes == least
    assert every[place.layout.stage_layers] == least
    assert broken_rules(Case(place.layout, asked(least).setting())) == []
    assert told.space.enumerated == told.space.fit + sum(told.space.rejected.values())
    assert told.space.fit == 1
    (assumed,) = [one for one in told.assumptions if one.field == "/constraints/stage_layers"]
    assert tuple(assumed.value) == place.layout.stage_layers


def test_a_byte_less_than_any_split_needs_is_refused_with_the_split_that_misses_by_it(every):
    least = min(every.values())
    told = answered(asked(least - 1))
    assert told.outcome == "none_fit"
    assert told.conflict.closest.over_bytes == 1
    assert every[told.conflict.closest.layout.stage_layers] == least
    (limit,) = [
        one for one in told.conflict.relaxations if one.change[0].field == "/constraints/memory_limit_bytes"
    ]
    assert limit.change[0].to == least
    assert answered(asked(limit.change[0].to)).outcome == "found"


def test_a_limit_that_even_layers_keep_is_answered_as_it_always_was(every):
    told = answered(asked(every[EVEN]))
    assert told.outcome == "found"
    assert not [one for one in told.assumptions if one.field == "/constraints/stage_layers"]


def test_a_split_that_the_caller_states_or_forbids_stays_as_he_said(every):
    least = min(every.values())
    assert answered(asked(least, stage_layers=EVEN)).outcome == "none_fit"
    lightest = [split for split, peak in every.items() if peak == least]
    forbid = tuple(LayoutChoice(stage_layers=split) for split in lightest)
    assert answered(asked(least, forbid=forbid)).outcome == "none_fit"


def test_no_split_holds_less_than_what_is_taken_for_the_least(every):
    (even,) = answered(asked(10**15, stage_layers=EVEN)).shortlist
    assert least_peak(even.layout, asked(10**15).setting()) <= min(every.values())
