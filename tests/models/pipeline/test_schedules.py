"""Schedules hold together: every stage runs every micro-batch once, in place, and can."""

import numpy as np
import pytest

from models.cost.pipeline import batched, closed_forms
from models.cost.pipeline.actions import Action, Kind, Schedule, faults
from models.cost.pipeline.controllable import v_half, v_min
from models.cost.pipeline.folded import dualpipe, dualpipe_v, zb_v
from models.cost.pipeline.held import held_over_time, peaks
from models.cost.pipeline.looped import (
    gpipe,
    group_allowed,
    interleaved,
    interleaved_zero_bubble,
    looped_breadth_first,
    naive,
    one_f_one_b,
    round_size,
    zb_h1,
    zb_h2,
)
from models.cost.pipeline.simulate import Durations, simulate
from models.cost.table import DUALPIPE, INTERLEAVED, ZB_V


@pytest.mark.parametrize(
    "made",
    [
        naive(4, 3),
        gpipe(4, 6),
        one_f_one_b(5, 3),
        interleaved(4, 10, 3, 6),
        interleaved_zero_bubble(4, 10, 3),
        looped_breadth_first(3, 5, 2),
        zb_h1(6, 9),
        zb_h2(6, 20),
        zb_v(5, 3),
        dualpipe_v(4, 9),
        dualpipe(6, 14),
        v_half(5, 7),
        v_min(6, 8),
    ],
    ids=lambda made: made.name,
)
def test_every_stage_runs_every_micro_batch_once_where_it_is_placed(made):
    assert faults(made) == []
    rng = np.random.default_rng(7)
    f, i, w = rng.uniform(0.5, 2, (3, made.stages))
    send = rng.uniform(0, 0.3, made.stages - 1)
    timeline = simulate(made, Durations.of(made.stages, f, i, w, send, 0.9))
    again = batched.run(batched.compiled(made), f, i, w, send, 0.9)
    assert again.span[0] == pytest.approx(timeline.span)
    assert again.own[0] == pytest.approx(timeline.own_spans)
    assert again.idle[0] == pytest.approx(timeline.idle)
    assert [held.peak for held in held_over_time(timeline)] == peaks(made).tolist()
    assert all(held.amounts[-1] == pytest.approx(0) for held in held_over_time(timeline))


def test_a_schedule_that_cannot_run_is_refused():
    forward, backward = Action(Kind.FORWARD, 0, 0), Action(Kind.BACKWARD, 0, 0)
    backwards_first = Schedule("broken", 1, 1, ((0,),), ((backward, forward),))
    assert faults(backwards_first) == []
    with pytest.raises(ValueError, match="wait for each other"):
        simulate(backwards_first)
    twice = Schedule("broken", 1, 1, ((0,),), ((forward, forward, backward),))
    assert faults(twice) == ["stage 0, micro-batch 0: F, B, I, W run [2, 1, 0, 0] times"]


@pytest.mark.parametrize(
    ("p", "g", "n", "allowed"), [(4, 6, 4, False), (4, 6, 6, True), (4, 10, 5, True), (4, 10, 4, False)]
)
def test_megatron_interleaves_whole_groups_or_a_last_one_as_long_as_the_pipeline(p, g, n, allowed):
    assert group_allowed(p, g, n) is allowed


def test_what_a_schedule_cannot_do_is_said():
    with pytest.raises(ValueError, match="2 rounds"):
        round_size(4, 9)
    with pytest.raises(ValueError, match="at least 8"):
        dualpipe_v(4, 7)
    with pytest.raises(ValueError, match="must be even"):
        dualpipe(4, 9)


def test_messages_delay_but_do_not_occupy():
    """Filling and draining wait for 2 (p - 1) messages; GPipe in between for none."""
    p, g, send = 4, 8, 0.25
    timeline = simulate(gpipe(p, g), Durations.of(p, send=send))
    assert timeline.span == 33 + 2 * (p - 1) * send
    assert timeline.busy.tolist() == [24] * 4


def test_stages_on_one_rank_send_nothing():
    made = zb_v(1, 4)
    assert simulate(made, Durations.of(2, send=5)).span == simulate(made).span


def test_the_v_schedules_hold_two_stages_a_rank():
    assert closed_forms.stages_a_rank([ZB_V, DUALPIPE, INTERLEAVED], [1, 1, 3]).tolist() == [2, 2, 3]
    assert zb_v(4, 8).stages_of(1) == (1, 6)
    assert dualpipe(4, 8).stages_of(0) == (0, 3)
