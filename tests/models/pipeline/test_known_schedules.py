"""Schedules by name: conditions are those of their orders, formulas and patterns say what timelines do."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cost.pipeline.actions import Action, faults
from models.cost.pipeline.conditions import Asked, condition_faults
from models.cost.pipeline.counted import totals_counted_on
from models.cost.pipeline.known import KNOWN, Size
from models.cost.pipeline.runs import pattern_text, repeats
from models.cost.pipeline.simulate import Durations, simulate
from models.cost.pipeline.totals import messages_sent, totals_by_formula, totals_of
from models.layout import SCHEDULES
from models.timeline import ScheduleName

ONE = Durations.of


def test_every_schedule_of_a_layout_and_of_the_simulator_has_its_name():
    assert tuple(KNOWN) == get_args(ScheduleName)
    assert set(SCHEDULES) <= set(KNOWN)


def sizes(name):
    known = KNOWN[name]
    chunks = (1, 2, 3) if known.most_chunks is None else (known.usual_chunks,)
    for p in (1, 2, 3, 4, 6):
        for g in (1, 2, 3, 4, 5, 6, 8, 9, 12, 13):
            yield from (Size(p, g, v, p) for v in chunks)


@pytest.mark.parametrize("name", KNOWN)
def test_a_schedule_runs_where_its_conditions_hold(name):
    known = KNOWN[name]
    kept = [s for s in sizes(name) if not condition_faults(Asked(name, s.pp, s.micro_batches, s.vpp))]
    assert len(kept) >= 7
    for size in kept:
        durations = ONE(known.stages(size))
        made = known.make(size, durations)
        assert faults(made) == []
        assert made.placements == known.placements(size)
        assert made.stages == known.stages(size)
        assert simulate(made, durations).span >= 3 * size.micro_batches


@pytest.mark.parametrize("name", ["dualpipe", "dualpipe-v", "interleaved-zb"])
def test_a_schedule_cannot_be_laid_out_where_its_conditions_do_not_hold(name):
    known = KNOWN[name]
    broken = [s for s in sizes(name) if condition_faults(Asked(name, s.pp, s.micro_batches, s.vpp))]
    assert broken
    for size in broken:
        with pytest.raises(ValueError, match="ranks"):
            known.make(size, ONE(known.stages(size)))


@pytest.mark.parametrize(("g", "n", "field"), [(6, None, "micro_batches"), (10, 4, "micro_batch_group")])
def test_the_groups_a_fix_names_are_accepted(g, n, field):
    (fault,) = condition_faults(Asked("interleaved", 4, g, 2, n))
    assert fault.field == field
    groups, counts = fault.fix.split(", or a multiple")
    for group in map(int, groups.removeprefix("Use micro_batch_group of ").split(", ")):
        assert condition_faults(Asked("interleaved", 4, g, 2, group)) == []
    count = int(counts.rsplit(" ", 1)[1].rstrip("."))
    assert condition_faults(Asked("interleaved", 4, count, 2)) == []


@pytest.mark.parametrize("name", SCHEDULES)
def test_formulas_say_what_the_timeline_adds_up_to(name):
    known = KNOWN[name]
    told = 0
    for size in sizes(name):
        if condition_faults(Asked(name, size.pp, size.micro_batches, size.vpp)):
            continue
        durations = ONE(known.stages(size), 2, 3, 1)
        said = totals_by_formula(name, size, durations)
        if said is None:
            continue
        found = totals_of(simulate(known.make(size, durations), durations))
        assert said.span == pytest.approx(found.span), size
        assert said.busy == pytest.approx(found.busy)
        assert said.held.tolist() == found.held.tolist()
        assert said.bubble_of_compute == pytest.approx(found.bubble_of_compute)
        told += 1
    assert told


@pytest.mark.parametrize(
    "durations",
    [ONE(4, [1, 1, 1, 2]), ONE(4, send=0.1), ONE(4, 1, [1, 2, 1, 1]), ONE(4, pair_share=0.9)],
)
def test_no_formula_is_asked_where_stages_differ_or_wait_for_messages(durations):
    assert totals_by_formula("1f1b", Size(4, 8), durations) is None
    assert totals_by_formula("zb-h2", Size(4, 8), ONE(4)) is None


UNEQUAL = {2: ([3, 4], [4, 3], [2, 5]), 4: ([3, 4, 3, 5], [4, 3, 3, 2], [2, 5, 3, 3])}
"""Times of forwards and both halves of backwards, a rank each."""


@pytest.mark.parametrize("name", [name for name in KNOWN if name != "none"])
@pytest.mark.parametrize("p", [2, 4])
def test_what_short_runs_grow_by_is_what_a_long_one_takes_more(name, p):
    """Of equal and unequal stages, with messages and pairs that hide: as if every slot had run."""
    known, told = KNOWN[name], 0
    v = 3 if known.most_chunks is None else known.usual_chunks
    counts = (2 * p * 97, 2 * p * 97 + 1, 2 * p * 97 + p)
    for g in (g for g in counts if not condition_faults(Asked(name, p, g, v))):
        size = Size(p, g, v, p)
        repeated = known.stages(size) // p
        for times in ((1, 1, 1), tuple(each * repeated for each in UNEQUAL[p])):
            durations = ONE(known.stages(size), *times, send=0.25, pair_share=0.9)
            counted = totals_counted_on(name, size, durations, aimed=200 * p)
            whole = totals_of(simulate(known.make(size, durations), durations))
            if counted is None:
                continue
            told += 1
            assert max(counted.runs) < g
            assert counted.totals.span == pytest.approx(whole.span, rel=1e-9)
            assert counted.totals.busy == pytest.approx(whole.busy)
            assert counted.totals.held.tolist() == whole.held.tolist()
    assert told or known.searched


def test_too_few_micro_batches_to_fill_the_pipeline_are_not_counted_on():
    assert totals_counted_on("1f1b", Size(64, 128), ONE(64)) is None


@pytest.mark.parametrize("name", KNOWN)
def test_messages_are_those_of_actions_whose_output_goes_to_another_rank(name):
    for size in sizes(name):
        known = KNOWN[name]
        if condition_faults(Asked(name, size.pp, size.micro_batches, size.vpp)):
            continue
        made = known.make(size, ONE(known.stages(size)))
        counted = np.zeros(size.pp, dtype=int)
        for rank, order in enumerate(made.orders):
            for slot in order:
                for kind, stage, m in [slot] if isinstance(slot, Action) else slot:
                    to = stage + 1 if kind == "F" else stage - 1
                    if kind != "W" and 0 <= to < made.stages:
                        counted[rank] += made.rank_of(to, m) != rank
        said = messages_sent(known.placements(size), size.pp, size.micro_batches)
        assert said.tolist() == counted.tolist()


@given(
    st.text("FBIW", max_size=60)
    | st.builds(lambda a, n, b: a * n + b, st.text("FB"), st.integers(1, 9), st.text("FB"))
)
def test_patterns_put_one_after_the_other_are_the_order(order):
    told = repeats(order, (20,))
    said = "".join(order[each.first : each.first + each.length] * each.times for each in told)
    assert said == order
    assert [each.first for each in told[1:]] == [each.last + 1 for each in told[:-1]]


def test_an_interleaved_order_is_a_few_patterns():
    size = Size(4, 64, 2, 4)
    made = KNOWN["interleaved"].make(size, ONE(8))
    tokens = [f"{slot.kind}{slot.stage // 4}" for slot in made.orders[0]]
    told = repeats(tokens, (16,))
    steady = max(told, key=lambda each: each.times * each.length)
    assert (steady.length, steady.times) == (16, 14)
    assert (
        pattern_text(tokens[steady.first : steady.first + steady.length]) == "B1 F0 3 (B1 F1) B0 F1 3 (B0 F0)"
    )
