"""Messages that are not equally long, by formula and as a schedule runs."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cost.pipeline import batched
from models.cost.pipeline.closed_forms import Shape
from models.cost.pipeline.folded import dualpipe
from models.cost.pipeline.looped import one_f_one_b
from models.cost.pipeline.messages import Hops, message_wait
from models.cost.pipeline.simulate import Durations, simulate
from models.cost.table import DUALPIPE, DUALPIPE_V, GPIPE, INTERLEAVED, ONE_F_ONE_B, ZB_H1, ZB_V
from tests.models.pipeline.grid import MAKE

OFF = {
    GPIPE: (1e-9, 1e-9),
    INTERLEAVED: (1e-9, 1e-9),
    ONE_F_ONE_B: (0.05, 0.1),
    ZB_H1: (0.2, 1e-9),
    ZB_V: (0.18, 1e-9),
    DUALPIPE_V: (0.2, 0.51),
    DUALPIPE: (0.1, 1e-9),
}
"""By how much the wait by formula may fall short of the simulated one, and exceed it."""


def nested(p, leaf, near, far):
    """Messages of p ranks, `leaf` of them under a switch, and what the formulas are told of them."""
    send = [far if (s + 1) % leaf == 0 else near for s in range(p - 1)]
    slow = send.count(far)
    shares = np.array([[1 - slow / (p - 1), slow / (p - 1)]])
    return send, Hops(np.array([[near, far]]), shares, np.array([far if slow else near]))


@pytest.mark.parametrize("code", OFF)
def test_a_step_waits_for_unequal_messages_about_as_long_as_it_runs(code):
    short, long = OFF[code]
    for p, leaf in ((4, 2), (8, 2), (8, 4), (8, 8), (16, 2), (16, 4), (16, 8)):
        send, hops = nested(p, leaf, 0.02, 0.1)
        for g in (2 * p, 4 * p, 16 * p):
            v = 2 if code == INTERLEAVED else 1
            made = MAKE[code](p, g, v, p)
            path = send if made.stages == p else [*send, 0.0, *reversed(send)]
            if code == INTERLEAVED:
                path = [*send, float(hops.wrap[0]), *send]
            spans = [simulate(made, Durations.of(made.stages, send=each)).span for each in (path, 0)]
            told = float(message_wait(Shape(code, p, g, v, p), hops, 1, 2)[0])
            assert -short <= told / (spans[0] - spans[1]) - 1 <= long, (p, leaf, g)


def test_one_slow_hop_holds_1f1b_up_by_its_own_time_every_micro_batch():
    """Neighbours hand each other a forward and a backward every two micro-batches."""
    spans = []
    for runs in (64, 128):
        made = one_f_one_b(8, runs)
        spans.append(simulate(made, Durations.of(8, send=[0, 0, 0, 0.3, 0, 0, 0])).span)
    assert (spans[1] - spans[0]) / 64 == pytest.approx(3 + 0.3)
    hops = Hops(np.array([[0.0, 0.3]]), np.array([[6 / 7, 1 / 7]]), np.array([0.3]))
    waits = [float(message_wait(Shape(ONE_F_ONE_B, 8, runs), hops, 1, 2)[0]) for runs in (64, 128)]
    assert (waits[1] - waits[0]) / 64 == pytest.approx(0.3)


@given(
    code=st.sampled_from(tuple(OFF)),
    p=st.sampled_from([4, 8, 16, 32]),
    turns=st.integers(2, 9),
    far=st.floats(0.05, 0.3),
)
def test_no_step_waits_less_where_more_hops_are_slow(code, p, turns, far):
    shape = Shape(code, p, turns * p, 2 if code == INTERLEAVED else 1, p)
    leaves = [p // 2**k for k in range(p.bit_length())]
    waits = [float(message_wait(shape, nested(p, leaf, 0.05, far)[1], 1, 2)[0]) for leaf in leaves]
    assert all(more >= fewer - 1e-9 for fewer, more in pairwise(waits))


def test_messages_that_take_as_long_are_one_number():
    for code in OFF:
        shape = Shape(code, 8, 32, 2 if code == INTERLEAVED else 1, 8)
        even = Hops(np.array([[0.1, 0.1]]), np.array([[4 / 7, 3 / 7]]), np.array([0.1]))
        assert message_wait(shape, even, 1, 2) == pytest.approx(message_wait(shape, np.array([0.1]), 1, 2))


def test_both_directions_of_dualpipe_cross_the_same_slow_link():
    """The pipeline is its own mirror image: where the slow link lies, seen from either end, is one."""
    made = dualpipe(8, 16)
    send = [0.1, 0.3, 0.0, 0.2, 0.0, 0.0, 0.4]
    one, other = (simulate(made, Durations.of(8, send=each)).span for each in (send, send[::-1]))
    assert one == pytest.approx(other)
    assert made.boundaries == (tuple(range(7)), tuple(reversed(range(7))))
    spans = batched.run(batched.compiled(made), np.ones((2, 8)), 1.0, 1.0, [send, send[::-1]]).span
    assert spans == pytest.approx([one, other])
