"""Each stage recomputes the fewest layers that fit: against trying every number, and in a search."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from models.cost import candidate
from models.cost.price import estimate
from models.cost.splits import balanced_split
from models.cost.table import LayoutTable
from models.layout import LayoutChoice, StatedLayout
from models.request import Constraints, EvaluateRequest
from search import evaluate, search
from search.case import Case
from search.check import broken_rules
from search.shortlist import TIE
from search.spared_rows import sparing_seconds, with_room
from search.stage_recompute import fewest_layers
from search.stage_recompute_split import split_sparing
from tests.builders import layout, setting, workload
from tests.search.questions import DENSE, MOE, Question, resolved

SEQUENCE = 8192
"""Tokens: activations outweigh what recompute makes again. [1]"""


def under(shape, gpus, batch, limit):
    return setting(
        shape, "calibrated", gpus=gpus, workload=workload(SEQUENCE, batch), memory_limit_bytes=limit
    )


def between(shape, batch, share, **knobs):
    """A layout of full recompute, and a limit that lies between its peak and that without recompute."""
    chosen = layout(shape, batch, recompute="full", **knobs)
    roomy = under(shape, chosen.gpus, batch, 10**15)
    peaks = [
        candidate(chosen.model_copy(update={"recompute": kind}), roomy).memory.peak_bytes
        for kind in ("full", "none")
    ]
    return chosen, replace(roomy, memory_limit_bytes=int(np.interp(share, (0, 1), peaks)))


SMALL = DENSE.model_copy(update={"layers": 8, "hidden": 1024, "ffn": 4096})
CASES = {
    "1f1b": (SMALL, {"pp": 4}),
    "gpipe": (SMALL, {"pp": 4, "schedule": "gpipe"}),
    "interleaved": (SMALL, {"pp": 2, "vpp": 2}),
    "dualpipe-v": (SMALL, {"pp": 2, "vpp": 2, "schedule": "dualpipe-v"}),
    "uneven": (SMALL, {"pp": 4, "stage_layers": (1, 2, 4, 1)}),
    "no pipeline": (SMALL, {"tp": 2}),
    "experts": (MOE, {"pp": 3, "dp": 2, "ep": 2}),
    "sharded": (SMALL, {"pp": 2, "dp": 4, "zero": 2, "gradient_reduce": "per_micro_batch"}),
}


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_other_numbers_of_layers_that_fit_make_a_shorter_step(case, share):
    """Every list there is, priced as its schedule runs: the chosen one fits, and none that fits is faster.

    To 0.1 % where ranks run several chunks."""
    shape, knobs = case
    chosen, question = between(shape, 8, share, **knobs)
    found = fewest_layers(chosen, question)
    told = {}
    for counts in product(*(range(layers + 1) for layers in chosen.stage_layers)):
        report = candidate(chosen.model_copy(update={"recompute_stage_layers": counts}), question)
        if report.memory.headroom_bytes >= 0:
            told[counts] = report.step_time_s
    shared = len(chosen.stage_layers) > chosen.pp  # which of a rank's chunks takes a layer is a guess
    assert told[found] <= min(told.values()) * (1 + (TIE if shared else 1e-9))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_layer_less_of_any_stage_does_not_fit(case):
    shape, knobs = case
    chosen, question = between(shape, 8, 0.4, **knobs)
    found = fewest_layers(chosen, question)
    assert any(found)
    for chunk, count in enumerate(found):
        if count:
            less = (*found[:chunk], count - 1, *found[chunk + 1 :])
            report = candidate(chosen.model_copy(update={"recompute_stage_layers": less}), question)
            assert report.memory.headroom_bytes < 0


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
@pytest.mark.parametrize(
    "knobs", [{"vpp": 2}, {"vpp": 2, "schedule": "dualpipe-v"}, {"vpp": 3}], ids=["two", "a V", "three"]
)
def test_chunks_of_both_kinds_of_layer_share_no_layer_too_many(knobs, share):
    """Of an expert layer and a dense one either may be the one to spare."""
    shape = MOE.model_copy(update={"layers": 12, "moe": MOE.moe.model_copy(update={"dense_first": 3})})
    chosen, question = between(shape, 8, share, pp=2, **knobs)
    found = fewest_layers(chosen, question)
    for chunk, count in enumerate(found):
        if count:
            less = (*found[:chunk], count - 1, *found[chunk + 1 :])
            report = candidate(chosen.model_copy(update={"recompute_stage_layers": less}), question)
            assert report.memory.headroom_bytes < 0


def test_a_layout_too_large_with_every_layer_recomputed_gets_no_numbers():
    chosen, question = between(SMALL, 8, 0.0, pp=4)
    assert fewest_layers(chosen, question) is not None
    assert (
        fewest_layers(chosen, replace(question, memory_limit_bytes=question.memory_limit_bytes - 1)) is None
    )


def splits(layers, chunks):
    """Every way to cut layers into chunks of which only the first and the last may be empty."""
    cuts = product(range(layers + 1), repeat=chunks - 1)
    found = (tuple(np.diff([0, *cut, layers]).tolist()) for cut in cuts if list(cut) == sorted(cut))
    return [split for split in found if all(split[1:-1])]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize(("shape", "pp"), [(SMALL, 3), (SMALL, 4), (MOE, 3)], ids=["3", "4", "experts"])
def test_layers_and_recompute_placed_together_are_as_fast_as_any_placing(shape, pp, share):
    """To 1 %: every split with the fewest layers recomputed under it, priced as it runs, 32 micro-batches.

    Where the even split is faster the search keeps that.
    """
    chosen, question = between(shape, 32, share, pp=pp)
    steps = {}
    for split in splits(shape.layers, pp):
        moved = chosen.model_copy(update={"stage_layers": split})
        counts = fewest_layers(moved, question)
        if counts is not None:
            made = moved.model_copy(update={"recompute_stage_layers": counts})
            steps[split] = candidate(made, question).step_time_s
    found = split_sparing(chosen, question)
    assert sum(found) == shape.layers
    assert steps[found] <= min(steps.values()) * 1.01


def test_ranks_of_several_chunks_are_placed_by_the_solver():
    for knobs in ({"pp": 2, "vpp": 2}, {"pp": 4, "schedule": "dualpipe"}, {"tp": 2}):
        assert split_sparing(*between(SMALL, 8, 0.5, **knobs)) is None


def test_what_formulas_say_of_spared_layers_lies_between_none_and_all_recomputed():
    """And every kind of stage fits with the layers it is said to spare."""
    for shape, knobs in CASES.values():
        chosen, question = between(shape, 8, 0.5, **knobs)
        table = LayoutTable.of([chosen])
        none, full = (
            float(
                estimate(
                    LayoutTable.of([chosen.model_copy(update={"recompute": kind})]), question
                ).step_time_s[0]
            )
            for kind in ("none", "full")
        )
        spared = float(sparing_seconds(table, question)[0])
        assert none < spared <= full
        stages = with_room(table, question)
        fewest = fewest_layers(chosen, question)
        most = float((stages.spared_dense + stages.spared_sparse).sum())
        assert 0 <= most <= shape.layers - min(fewest) * (len(set(fewest)) == 1)


TIGHT = Constraints(schedule=("none", "1f1b", "interleaved"), zero=1, micro_batch=1)


def even(place):
    return balanced_split(SMALL.layers, place.layout.pp * place.layout.vpp)


def answered(question, **more):
    return search(question.request(**more), resolved(question.setting()))


@pytest.fixture(scope="module")
def crowded():
    """So little memory that all that fits recomputes."""
    peaks = []
    for kind in ("none", "full"):
        held = Question(
            SMALL, 8, 32, SEQUENCE, constraints=TIGHT.model_copy(update={"recompute": kind}), limit=10**15
        )
        (least, *_) = answered(replace(held, objective="memory"), top_k=1).shortlist
        peaks.append(least.memory.peak_bytes)
    limit = peaks[1] + (peaks[0] - peaks[1]) * 9 // 10
    return Question(SMALL, 8, 32, SEQUENCE, constraints=TIGHT, limit=limit)


def test_where_nothing_fits_without_recompute_the_search_recomputes_less_than_everything(crowded):
    limit = crowded.limit
    whole = answered(replace(crowded, constraints=TIGHT.model_copy(update={"recompute": "full"})))
    none = answered(replace(crowded, constraints=TIGHT.model_copy(update={"recompute": "none"})))
    told = answered(crowded)
    assert none.outcome == "none_fit"
    assert told.shortlist[0].step_time_s < whole.shortlist[0].step_time_s * (1 - TIE)
    listed = [place for place in told.shortlist if place.layout.recompute_stage_layers]
    assert listed
    for place in told.shortlist:
        assert place.memory.peak_bytes <= limit
        assert place.layout.recompute == "full" or place.layout.stage_layers != even(place)
    (assumed,) = [a for a in told.assumptions if a.field == "/layout/recompute_stage_layers"]
    assert assumed.value == "fewest that fit"


def test_places_are_priced_by_the_evaluation_and_break_no_rule(crowded):
    told = answered(crowded)
    assert [place.step_time_s for place in told.shortlist] == sorted(p.step_time_s for p in told.shortlist)
    for place in told.shortlist:
        request = EvaluateRequest(
            model="small", cluster="small", gpus=8, layout=StatedLayout(**place.layout.model_dump()),
            workload={"sequence_length": SEQUENCE, "global_batch": 32},
        )  # fmt: skip
        again = evaluate(request, resolved(crowded.setting()))
        assert again.broken_rules == ()
        assert again.candidate.layout == place.layout
        assert again.candidate.step_time_s == place.step_time_s
        assert again.candidate.memory == place.memory
        assert broken_rules(Case(place.layout, crowded.setting())) == []


def test_the_same_question_gets_the_same_answer(crowded):
    one, other = (answered(crowded) for _ in range(2))
    assert one.shortlist == other.shortlist
    assert one.assumptions == other.assumptions


@pytest.mark.parametrize(
    "held",
    [{"recompute": "full"}, {"recompute": ("selective", "full")}, {"recompute_layers": 2}],
    ids=["full", "selective or full", "two layers"],
)
def test_recompute_that_the_caller_holds_is_left_alone(crowded, held):
    """Layers that are not recomputed keep everything: he must leave that open."""
    told = answered(replace(crowded, constraints=TIGHT.model_copy(update=held)))
    for place in told.shortlist:
        assert place.layout.recompute_stage_layers is None
        assert place.layout.recompute_layers == held.get("recompute_layers")
    assert not [a for a in told.assumptions if a.field == "/layout/recompute_stage_layers"]


@pytest.mark.parametrize("objective", ["memory", "traffic"])
def test_other_objectives_keep_whole_recompute(crowded, objective):
    for place in answered(replace(crowded, objective=objective)).shortlist:
        assert place.layout.recompute_stage_layers is None


def test_numbers_that_are_forbidden_are_not_offered(crowded):
    first = next(place for place in answered(crowded).shortlist if place.layout.recompute_stage_layers)
    counts = first.layout.recompute_stage_layers
    forbid = (LayoutChoice(recompute_stage_layers=counts),)
    for place in answered(
        replace(crowded, constraints=TIGHT.model_copy(update={"forbid": forbid}))
    ).shortlist:
        assert place.layout.recompute_stage_layers != counts


def test_a_place_is_never_slower_than_with_every_layer_recomputed(crowded):
    """And that layout fits: it is the one the space holds."""
    for place in answered(crowded, top_k=20).shortlist:
        told = {"recompute": "full", "recompute_stage_layers": None, "stage_layers": even(place)}
        whole = candidate(place.layout.model_copy(update=told), crowded.setting())
        assert whole.memory.headroom_bytes >= 0
        assert place.step_time_s <= whole.step_time_s


def test_a_layout_that_fits_without_recompute_is_not_told_twice():
    """Where every layout has its own place, full recompute of what fits without stays whole."""
    held = TIGHT.model_copy(update={"tp": 1, "cp": 1})
    roomy = Question(SMALL, 8, 32, SEQUENCE, constraints=held, limit=10**15)
    told = answered(roomy, distinct="layout", top_k=500)
    places = [place.layout for place in told.shortlist]
    assert len(set(places)) == len(places)
    assert {place.recompute for place in places} == {"none", "selective", "full"}
    assert not any(place.recompute_stage_layers for place in places)


def test_crowded_layouts_have_one_place_each(crowded):
    told = answered(crowded, distinct="layout", top_k=500)
    places = [place.layout for place in told.shortlist]
    assert len(set(places)) == len(places)
    assert any(place.recompute_stage_layers for place in places)
