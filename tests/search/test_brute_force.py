"""The search against trying every layout: the same set, the same counts, the same order."""

import pytest

from models.cost import candidate
from models.cost.splits import balanced_split
from models.layout import LayoutChoice
from models.request import Constraints, Range
from search import search
from search.case import Case
from search.check import CHECKS, broken_rules
from search.problem import problem_of
from search.shortlist import TIE
from search.stage_recompute import may_spare
from tests.brute_force import Answer, candidate_orders, layout_of, try_everything
from tests.search.questions import DENSE, LATENT, MOE, THREES, Question, resolved, search_everything

SECOND = ("tp", "cp", "ep", "pp", "dp")
ODD = ("dp", "tp", "pp", "ep", "cp")

ODD_WIDTH = MOE.model_copy(update={"ffn": 770})
ODD_EXPERTS = MOE.model_copy(update={"moe": MOE.moe.model_copy(update={"expert_ffn": 386})})
held, part, asks = Constraints, LayoutChoice, Question
QUESTIONS = {
    "one gpu": asks(DENSE, 1, 4),
    "dense on 8": asks(DENSE, 8, 16),
    "dense on 8, textbook": asks(DENSE, 8, 16, profile="textbook"),
    "dense on 24, by memory": asks(THREES, 24, 48, objective="memory"),
    "dense on 6, odd batch": asks(THREES, 6, 30, share=0.3),
    "dense on a prime": asks(DENSE, 7, 21),
    "dense, sharded inside groups": asks(DENSE, 16, 32, constraints=held(hsdp_shard=4), share=0.4),
    "experts, sharded inside groups": asks(MOE, 16, 32, constraints=held(hsdp_shard=2), share=0.4),
    "experts, modules recomputed": asks(MOE, 8, 16, constraints=held(recompute_modules=("moe", "layernorm"))),
    "dense, one layer recomputed": asks(DENSE, 8, 16, constraints=held(recompute_layers=1), share=0.5),
    "dense on 120": asks(THREES, 120, 120, constraints=held(micro_batch=(1, 3), zero=(1, 3))),
    "dense on 512": asks(
        DENSE, 512, 512, constraints=held(tp=Range(min=2), pp=Range(max=8), recompute="full", micro_batch=1)
    ),
    "dense on 512, wide": asks(
        DENSE, 512, 64, constraints=held(cp=Range(min=8), zero=1, recompute="none", micro_batch=1)
    ),
    "moe on 8": asks(MOE, 8, 16),
    "moe on 8, textbook": asks(MOE, 8, 16, profile="textbook", share=0.2),
    "moe on 24, by traffic": asks(MOE, 24, 24, objective="traffic", constraints=held(zero=(0, 2))),
    "moe on 6": asks(MOE, 6, 12, share=0.1),
    "moe on 64": asks(MOE, 64, 64, constraints=held(micro_batch=1, recompute="none", zero=(1, 3))),
    "moe on 120": asks(
        MOE, 120, 120, constraints=held(micro_batch=2, recompute="full", zero=2, schedule="interleaved")
    ),
    "latent attention on 8": asks(LATENT, 8, 32, share=0.9),
    "moe, every order on 8": asks(
        MOE, 8, 8, constraints=held(rank_orders="all", micro_batch=1, recompute="none", zero=(1, 3))
    ),
    "moe, every order on 12": asks(
        MOE,
        12,
        12,
        constraints=held(
            rank_orders="all", micro_batch=1, recompute="none", zero=1, schedule=("none", "1f1b")
        ),
    ),
    "dense, every order on 16": asks(
        DENSE, 16, 16, constraints=held(rank_orders="all", micro_batch=1, recompute="none", zero=1)
    ),
    "latent, every order on 16": asks(
        LATENT, 16, 16, constraints=held(rank_orders="all", micro_batch=1, recompute="none", zero=1, vpp=1)
    ),
    "second order only": asks(MOE, 8, 16, constraints=held(rank_order=SECOND)),
    "three orders": asks(MOE, 12, 12, constraints=held(rank_order=(ODD, SECOND, ODD), zero=1)),
    "expert tensor degrees stated": asks(MOE, 16, 16, constraints=held(etp=(2, 4), zero=(0, 1))),
    "expert tensor degrees in a range": asks(MOE, 16, 16, constraints=held(etp=Range(min=2), zero=1)),
    "ranges of chunks and micro-batches": asks(
        DENSE, 8, 64, constraints=held(vpp=Range(min=2, max=12), micro_batch=Range(min=2, max=16))
    ),
    "chunks beyond the usual": asks(DENSE, 4, 16, constraints=held(vpp=Range(min=10))),
    "chunks stated": asks(DENSE, 4, 16, constraints=held(vpp=(1, 3, 11), micro_batch=(2, 5))),
    "no sequence parallelism": asks(MOE, 8, 16, constraints=held(sequence_parallel=False)),
    "dense without sequence parallelism": asks(
        DENSE, 8, 16, constraints=held(sequence_parallel=False, tp_overlap=True)
    ),
    "ulysses": asks(DENSE, 16, 16, constraints=held(cp_comm="ulysses", zero=1)),
    "ulysses with latent attention": asks(LATENT, 16, 16, constraints=held(cp_comm="ulysses", zero=1)),
    "a stated group": asks(DENSE, 8, 60, constraints=held(micro_batch_group=6, schedule="interleaved")),
    "gathered weights kept": asks(DENSE, 8, 16, constraints=held(weight_gather="keep_to_backward")),
    "gradients reduced once": asks(DENSE, 8, 16, constraints=held(gradient_reduce="once")),
    "odd sequence": asks(DENSE, 8, 16, sequence=514),
    "prime sequence": asks(DENSE, 8, 16, sequence=509),
    "more stages than layers": asks(LATENT, 16, 16, constraints=held(pp=Range(min=4), tp=1)),
    "nothing left": asks(DENSE, 8, 16, constraints=held(tp=3)),
    "nothing fits": asks(MOE, 8, 16, limit=1),
    "forbidden cells": asks(
        MOE,
        8,
        16,
        constraints=held(forbid=(part(tp=2, zero=1), part(schedule="gpipe"), part(ep=3))),
    ),
    "forbidden inside cells": asks(
        DENSE,
        8,
        16,
        constraints=held(
            forbid=(
                part(tp=2, recompute="full"),
                part(vpp=3),
                part(gradient_reduce="per_micro_batch", micro_batch=2),
                part(sequence_parallel=False, cp=2),
                part(stage_layers=(6, 6)),
                part(stage_layers=(1, 11)),
            )
        ),
    ),
    "layers of each chunk stated": asks(
        DENSE,
        8,
        16,
        constraints=held(
            stage_layers=(3, 4, 3, 2),
            zero=(0, 1),
            forbid=(part(stage_layers=(3, 4, 3, 2), tp=2, micro_batch=2),),
        ),
    ),
    "forbidden orders": asks(
        MOE,
        8,
        16,
        constraints=held(
            zero=1,
            forbid=(part(rank_order=("cp", "tp", "ep", "dp", "pp"), pp=2), part(rank_order=SECOND, dp=4)),
        ),
    ),
    "all forbidden": asks(DENSE, 4, 8, constraints=held(forbid=(part(),))),
    "a group smaller than the stages": asks(DENSE, 8, 60, constraints=held(micro_batch_group=2, zero=1)),
    "replicas that do not divide the batch": asks(DENSE, 16, 20, constraints=held(zero=(1, 3))),
    "a width that does not divide": asks(ODD_WIDTH, 16, 16, constraints=held(zero=(0, 3), micro_batch=1)),
    "experts that do not divide": asks(ODD_EXPERTS, 16, 16, constraints=held(zero=1, micro_batch=1)),
}


@pytest.fixture(scope="module", params=QUESTIONS.values(), ids=QUESTIONS.keys())
def asked(request):
    question = request.param
    under = question.setting()
    return question, under, try_everything(under, question.constraints, question.objective)


def test_the_search_finds_what_trying_everything_finds_in_the_same_order(asked):
    question, under, answer = asked
    found = search_everything(question, under)
    assert found.complete
    assert set(found.fit) == set(answer.fit)
    assert found.fit == answer.fit


def test_every_other_layout_is_counted_under_its_first_broken_rule(asked):
    question, under, answer = asked
    assert search_everything(question, under).census.rejected == dict(answer.rejected)


def test_the_shortlist_holds_the_best_of_each_shape(asked):
    question, under, answer = asked
    told = search(question.request(top_k=1000), resolved(under))
    best = best_of_each_shape(question, under, answer)
    assert len(best) < 1000
    assert {shape_of(place.layout) for place in told.shortlist} == {shape_of(layout) for layout in best}
    assert len(told.shortlist) == len(best)
    fits = [layout_of(knobs, under, question.constraints) for knobs in answer.fit]
    for place in told.shortlist:
        plain = next(layout for layout in best if shape_of(layout) == shape_of(place.layout))
        if as_ranked(place, question.constraints.stage_layers) != plain:
            assert may_spare(problem_of(question.request(), resolved(under)))
            assert whole(place, question.constraints.stage_layers) in fits
            assert place.step_time_s <= candidate(plain, under).step_time_s * (1 + TIE)
    assert told.shortlist == tuple(sorted(told.shortlist, key=lambda place: worth(place, question)))
    assert [place.rank for place in told.shortlist] == list(range(1, len(told.shortlist) + 1))
    assert all(place.variants == answer.variants[shape_of(place.layout)] - 1 for place in told.shortlist)
    assert told.space.enumerated == told.space.fit + sum(told.space.rejected.values())
    assert told.space.complete
    assert told.outcome == ("found" if answer.fit else "none_fit")


def test_the_closest_layout_misses_by_least(asked):
    question, under, answer = asked
    told = search(question.request(), resolved(under))
    if answer.fit:
        assert told.conflict is None
    elif answer.least_over is None:
        assert told.conflict.closest is None
    else:
        peak, knobs = answer.least_over
        assert told.conflict.closest.over_bytes == peak - under.memory_limit_bytes
        assert told.conflict.closest.layout == layout_of(knobs, under, question.constraints)


def test_the_checker_agrees_on_members_and_on_the_rules_others_break(asked):
    question, under, answer = asked
    caps = problem_of(question.request(), resolved(under)).caps
    forbidden = question.constraints.forbid
    for knobs in spread_over(answer.fit):
        case = Case(layout_of(knobs, under, question.constraints), under, caps, forbidden)
        assert broken_rules(case) == []
    for rule in answer.rejected:
        for knobs in spread_over([k for k, broken in answer.first_broken.items() if broken == rule], 20):
            case = Case(layout_of(knobs, under, question.constraints), under, caps, forbidden)
            assert first_broken(case) == rule


def first_broken(case):
    """Only as far as the first: what comes after may mean nothing once it is broken."""
    return next((check.__name__ for check in CHECKS if check(case) is not None), None)


def as_ranked(place, stated):
    """A place's layout with its layers where the search ranked them: as stated, or evenly."""
    chunks = place.layout.pp * place.layout.vpp
    split = stated or balanced_split(sum(place.layout.stage_layers), chunks)
    return place.layout.model_copy(update={"stage_layers": split})


def whole(place, stated):
    """The layout that recomputes every layer where a place recomputes some of them, or none any more."""
    told = {"recompute": "full", "recompute_stage_layers": None}
    return as_ranked(place, stated).model_copy(update=told)


def worth(place, question):
    return {
        "step_time": place.step_time_s,
        "memory": place.memory.peak_bytes,
        "traffic": sum(entry.sent_bytes_per_gpu for entry in place.traffic),
    }[question.objective]


def best_of_each_shape(question, under, answer: Answer):
    seen, best = set(), []
    for knobs in answer.fit:
        if knobs[:5] not in seen:
            seen.add(knobs[:5])
            best.append(layout_of(knobs, under, question.constraints))
    return best


def shape_of(layout):
    return (layout.tp, layout.cp, layout.pp, layout.dp, layout.ep)


def spread_over(things, most=100):
    return things[:: max(1, len(things) // most)]


def test_the_candidate_orders_are_those_of_the_search():
    constraints = Constraints(rank_orders="all")
    question = Question(MOE, 8, 8, constraints=constraints, limit=1)
    problem = problem_of(question.request(), resolved(question.setting()))
    assert problem.domains.orders == candidate_orders(constraints)
