"""What a search answers besides the shortlist itself."""

from itertools import pairwise

import pytest

from models.cost import candidate
from models.errors import InvalidField
from models.layout import LAUNCHABLE_ORDERS, LayoutChoice
from models.request import Constraints, Range
from search import search
from tests.search.questions import DENSE, MOE, Question, resolved


def asked(question, **more):
    return search(question.request(**more), resolved(question.setting()))


def test_the_same_question_gives_the_same_bytes_wall_times_aside():
    question = Question(MOE, 24, 48, limit=2_550_000_000)
    first, second = (asked(question).model_dump_json() for _ in range(2))
    cut = [text[: text.index('"wall_s"')] + text[text.index('"conflict"') :] for text in (first, second)]
    assert cut[0] == cut[1]


def test_every_layout_may_have_a_place_of_its_own():
    told = asked(Question(DENSE, 8, 16), distinct="layout", top_k=50)
    shapes = {(p.layout.tp, p.layout.cp, p.layout.pp, p.layout.dp, p.layout.ep) for p in told.shortlist}
    assert len(told.shortlist) == 50
    assert len(shapes) < 50
    times = [place.step_time_s for place in told.shortlist]
    assert all(later >= earlier * (1 - 1e-12) for earlier, later in pairwise(times))


@pytest.mark.parametrize("objective", ["memory", "traffic"])
def test_the_shortlist_is_ranked_by_what_was_asked(objective):
    told = asked(Question(MOE, 8, 16, objective=objective), top_k=100)
    worth = [
        place.memory.peak_bytes if objective == "memory" else sum(d.sent_bytes_per_gpu for d in place.traffic)
        for place in told.shortlist
    ]
    assert len(worth) > 10
    assert all(later >= earlier * (1 - 1e-9) - 8 for earlier, later in pairwise(worth))


def test_a_derived_knob_is_told_unless_the_caller_fixed_it():
    fields = {a.field for a in asked(Question(DENSE, 8, 16)).assumptions}
    assert {"/layout/sequence_parallel", "/layout/gradient_reduce", "/layout/stage_layers"} <= fields
    pinned = asked(Question(DENSE, 8, 16, constraints=Constraints(sequence_parallel=True)))
    assert "/layout/sequence_parallel" not in {a.field for a in pinned.assumptions}


def test_a_cap_is_told_only_where_it_leaves_something_out():
    def told(gpus, **held):
        question = Question(DENSE, gpus, gpus, constraints=Constraints(**held), limit=10**12)
        return {a.field: a.value for a in asked(question).assumptions}

    assert told(128)["/constraints/tp"] == {"max": 64}
    assert "/constraints/tp" not in told(64)
    assert "/constraints/tp" not in told(128, tp=Range(max=128))


def test_an_order_no_launcher_starts_is_marked():
    odd = Constraints(rank_order=("dp", "tp", "cp", "ep", "pp"))
    told = asked(Question(DENSE, 8, 16, constraints=odd), top_k=1000)
    marked = [any("rank order" in w for w in place.warnings) for place in told.shortlist]
    for place, mark in zip(told.shortlist, marked, strict=True):
        assert mark is (place.layout.dp > 1 and place.layout.tp * place.layout.cp > 1)
        assert mark is (place.host_order is not None)
        assert not mark or place.host_order.note in place.warnings[-1]
    assert any(marked)


def test_outer_orders_that_tie_on_a_flat_fabric_are_told_as_ties():
    """With TP 8 filling the node every other group crosses the one network: dp and pp may change places."""
    told = asked(Question(DENSE, 64, 64, constraints=Constraints(tp=8)), top_k=1000)
    both = [place for place in told.shortlist if place.layout.dp > 1 and place.layout.pp > 1]
    assert len(both) > 1
    for place in told.shortlist:
        expected = (LAUNCHABLE_ORDERS[1],) if place in both else ()
        assert place.ties == expected
        assert place.layout.rank_order == LAUNCHABLE_ORDERS[0]
    (rule,) = (a for a in told.assumptions if a.field == "/layout/rank_order")
    assert "tie-break" in rule.why


def test_orders_that_take_another_time_are_no_ties():
    """With TP 2 in nodes of 8 the order decides what else is inside the node."""
    told = asked(Question(DENSE, 16, 16, constraints=Constraints(tp=2, pp=2, cp=1, zero=0)), top_k=1000)
    assert told.shortlist
    assert all(place.ties == () for place in told.shortlist)
    assert not [a for a in told.assumptions if a.field == "/layout/rank_order"]


def test_ties_are_priced_apart_and_agree_with_evaluate():
    question = Question(MOE, 16, 16, constraints=Constraints(rank_orders="all", zero=1, micro_batch=1))
    told = asked(question, top_k=20)
    setting = question.setting()
    assert any(place.ties for place in told.shortlist)
    for place in told.shortlist:
        for order in place.ties:
            other = candidate(place.layout.model_copy(update={"rank_order": order}), setting)
            assert other.step_time_s == pytest.approx(place.step_time_s, rel=1e-9)


def test_a_forbidden_order_is_no_tie():
    constraints = Constraints(tp=8, forbid=(LayoutChoice(rank_order=LAUNCHABLE_ORDERS[1], pp=2),))
    told = asked(Question(DENSE, 64, 64, constraints=constraints), top_k=1000)
    assert {place.layout.pp for place in told.shortlist if place.layout.dp > 1 and place.ties} >= {4}
    assert not [place for place in told.shortlist if place.layout.pp == 2 and place.ties]


def test_a_rank_order_that_leaves_out_an_axis_is_refused_wherever_it_stands():
    false = ("tp", "tp", "ep", "dp", "pp")
    constraints = Constraints(
        rank_order=(LAUNCHABLE_ORDERS[0], false), forbid=(LayoutChoice(rank_order=false),)
    )
    with pytest.raises(InvalidField) as error:
        asked(Question(DENSE, 8, 16, constraints=constraints, limit=1))
    assert [fault.field for fault in error.value.faults] == [
        "/constraints/rank_order/1",
        "/constraints/forbid/0/rank_order",
    ]


def test_nothing_fits_names_the_rules_that_rejected_most_first():
    told = asked(Question(MOE, 8, 16, limit=1))
    names = [rule.name for rule in told.conflict.rules]
    counts = [told.space.rejected[name] for name in names]
    assert counts == sorted(counts, reverse=True)
    assert "memory" in names
    assert told.conflict.closest.over_bytes == told.conflict.closest.memory.peak_bytes - 1


def test_constraints_that_leave_no_layout_are_an_answer():
    told = asked(Question(DENSE, 8, 16, constraints=Constraints(tp=3)))
    assert (told.outcome, told.space.enumerated, told.conflict.closest) == ("none_fit", 0, None)
    assert [rule.name for rule in told.conflict.rules] == ["degrees_multiply_to_gpus"]


@pytest.mark.parametrize(
    ("held", "rules"),
    [
        ({"ep": 5}, ["ep_has_a_value"]),
        ({"ep": 5, "tp": 3}, ["degrees_multiply_to_gpus", "ep_has_a_value"]),
        ({"etp": Range(min=9)}, ["etp_has_a_value"]),
        ({"micro_batch": Range(min=9, max=9)}, ["micro_batch_has_a_value"]),
        ({"vpp": Range(min=100)}, ["vpp_has_a_value"]),
        ({"schedule": "none", "pp": 2}, ["schedule_fits_stages"]),
        ({"schedule": "1f1b", "vpp": 4}, ["schedule_fits_stages"]),
    ],
)
def test_a_constraint_that_leaves_nothing_is_named(held, rules):
    told = asked(Question(MOE, 8, 16, constraints=Constraints(**held)))
    assert [rule.name for rule in told.conflict.rules] == rules


@pytest.mark.parametrize("choice", [2, (2, 4), Range(min=2)], ids=["a value", "values", "a range"])
def test_constraints_on_experts_are_refused_where_there_are_none(choice):
    with pytest.raises(InvalidField) as error:
        asked(Question(DENSE, 8, 16, constraints=Constraints(ep=choice, etp=choice), limit=1))
    assert [fault.field for fault in error.value.faults] == ["/constraints/ep", "/constraints/etp"]
    assert {fault.reason for fault in error.value.faults} == {"the architecture has no experts"}


@pytest.mark.parametrize("choice", [1, (1, 8), Range(max=8)], ids=["a value", "values", "a range"])
def test_constraints_on_experts_that_accept_one_are_kept_where_there_are_none(choice):
    held = Constraints(ep=choice, etp=choice)
    told, free = asked(Question(DENSE, 8, 16, constraints=held)), asked(Question(DENSE, 8, 16))
    assert (told.shortlist, told.space.rejected) == (free.shortlist, free.space.rejected)


@pytest.mark.parametrize(
    "held",
    [
        {"schedule": "none", "pp": 2},
        {"vpp": 4, "schedule": "1f1b"},
        {"ep": 5},
        {"ep": 3},
        {"tp": 4, "cp": 4},
        {"etp": 3},
        {"tp": 2, "etp": (16, 32)},
        {"micro_batch": Range(min=9, max=9)},
        {"dp": Range(min=9)},
    ],
)
def test_an_empty_domain_is_an_answer_too(held):
    told = asked(Question(MOE, 8, 16, constraints=Constraints(**held)))
    assert (told.outcome, told.shortlist, told.space.complete) == ("none_fit", (), True)
