"""What formulas say a schedule takes and holds is what its simulation says."""

import numpy as np
import pytest

from models.cost.pipeline import batched, unequal
from models.cost.pipeline import schedule as product
from models.cost.pipeline.closed_forms import Shape, equal_span, estimated_span, in_flight_peak
from models.cost.pipeline.held import peaks
from models.cost.pipeline.looped import (
    gpipe,
    one_f_one_b,
)
from models.cost.pipeline.messages import message_wait
from models.cost.pipeline.simulate import Durations, simulate
from models.cost.table import DUALPIPE, DUALPIPE_V, GPIPE, INTERLEAVED, NONE, ONE_F_ONE_B, ZB_H1, ZB_V
from models.layout import SCHEDULES
from tests.models.pipeline.grid import MAKE, grid

HALVES = ((1, 1, 1), (2, 3, 1), (4, 6, 3), (2, 2, 3), (0.7, 1.9, 1.1), (1.9, 0.8, 0.6))


def exact(code, p, g):
    least = {ZB_H1: p, ZB_V: 2 * p - 1}
    return g >= least.get(code, 1)


@pytest.mark.parametrize("code", MAKE, ids=lambda code: SCHEDULES[code])
def test_equal_stages_take_and_hold_what_the_formulas_say(code):
    for _, p, g, v, n in (row for row in grid() if row[0] == code):
        made, shape = MAKE[code](p, g, v, n), Shape(code, p, g, v, n)
        for freed in (0, 0.3, 1):
            assert peaks(made, freed_at_input=freed).tolist() == pytest.approx(
                in_flight_peak(shape, np.arange(p), freed)
            ), (p, g, v, n)
        if not exact(code, p, g):
            continue
        f, i, w = np.array(HALVES).T
        share = np.array([1, 0.9, 0.8, 0.8, 0.95, 0.9])
        every = np.ones((1, made.stages))
        times = [half[:, None] * every for half in (f, i, w)]
        found = batched.run(batched.compiled(made), *times, pair_share=share).span
        said = equal_span(shape, f, i, w, share * (f + i + w))
        assert found == pytest.approx(said), (p, g, v, n)


def test_the_products_closed_forms_are_the_simulators():
    for code, p, g, v, n in grid():
        if code not in (GPIPE, ONE_F_ONE_B, INTERLEAVED):
            continue
        held = product.in_flight(code, np.arange(p), p, g, v, n)
        assert held.tolist() == pytest.approx(in_flight_peak(Shape(code, p, g, v, n), np.arange(p)) / v)
        slots = product.total_slots(p, g, v)
        assert float(slots) == float(equal_span(Shape(code, p, g, v, n), 1, 1, 1))


def test_one_stage_holds_one_micro_batch_and_never_waits():
    assert float(equal_span(Shape(NONE, 1, 8), 1, 1, 1)) == 24
    assert in_flight_peak(Shape(NONE, 1, 8), 0) == 1


def random_stages(rng, spread):
    p, g = int(rng.choice([2, 3, 4, 8, 16])), int(rng.integers(1, 48))
    f = rng.uniform(1, spread, p)
    return p, g, f, f * rng.uniform(1.7, 2.3, p)


@pytest.mark.parametrize(("spread", "short"), [(1.0, 1e-9), (2.0, 0.02), (5.0, 0.06)])
def test_unequal_stages_are_enclosed(spread, short):
    rng = np.random.default_rng(1)
    for _ in range(150):
        p, g, f, b = random_stages(rng, spread)
        found = simulate(one_f_one_b(p, g), Durations.of(p, f, b, 0)).span
        lower = unequal.one_f_one_b_span(f, b, g)[0]
        assert found * (1 - short) <= lower <= found * (1 + 1e-12)
        assert unequal.one_f_one_b_upper(f, b, g)[0] >= found * (1 - 1e-12)
        piped = simulate(gpipe(p, g), Durations.of(p, f, b, 0)).span
        assert unequal.gpipe_span(f, b, g)[0] == pytest.approx(piped)


def test_lighter_or_heavier_ends_are_timed_exactly():
    rng = np.random.default_rng(2)
    for _ in range(100):
        p, g = int(rng.choice([2, 4, 8, 16])), int(rng.integers(1, 64))
        f = np.full(p, 8.0)
        f[0] -= rng.integers(0, 3)
        f[-1] += rng.integers(-2, 4)
        found = simulate(one_f_one_b(p, g), Durations.of(p, f, f, f)).span
        assert unequal.one_f_one_b_span(f, 2 * f, g)[0] == pytest.approx(found)


def test_rows_of_shorter_pipelines_may_be_padded():
    f = np.array([[3.0, 2.0, 4.0, 0.0], [3.0, 2.0, 4.0, 1.0]])
    padded = unequal.one_f_one_b_span(f, 2 * f, [8, 8], [3, 4])
    alone = [unequal.one_f_one_b_span(stages, 2 * stages, 8)[0] for stages in (f[0, :3], f[1])]
    assert padded.tolist() == alone


def test_slower_actions_never_shorten_a_step():
    """So the slowest stage's time in every stage bounds any schedule from above."""
    rng = np.random.default_rng(4)
    for code, make in MAKE.items():
        made = make(4, 8, 2, 4)
        f, i, w = rng.uniform(1, 2, (3, made.stages))
        found = simulate(made, Durations.of(made.stages, f, i, w)).span
        most = equal_span(Shape(code, 4, 8, 2, 4), f.max(), i.max(), w.max())
        assert found <= float(most) + 1e-9


@pytest.mark.parametrize("send", [0.05, 0.5])
def test_a_step_waits_for_the_messages_the_formula_counts(send):
    for code, p, g, v, n in grid():
        if code in (GPIPE, ONE_F_ONE_B, ZB_H1, INTERLEAVED) and 1 < p <= 16:
            made = MAKE[code](p, g, v, n)
            waits = simulate(made, Durations.of(made.stages, send=send)).span - simulate(made).span
            assert waits == pytest.approx(message_wait(Shape(code, p, g, v, n), send, 1, 2)), (
                code,
                p,
                g,
                v,
                n,
            )


OFF = {
    ONE_F_ONE_B: (0, 0.11),
    INTERLEAVED: (-0.07, 0.07),
    ZB_H1: (0, 0.04),
    ZB_V: (-0.09, 0.06),
    DUALPIPE_V: (-0.02, 0.13),
    DUALPIPE: (-0.02, 0.13),
}


@pytest.mark.parametrize("code", OFF, ids=lambda code: SCHEDULES[code])
def test_unequal_stages_are_estimated_within_the_stated_limits(code):
    rng = np.random.default_rng(code)
    for p, g in [(4, 8), (4, 32), (8, 16), (8, 64), (16, 32)]:
        made = MAKE[code](p, g, 4, p)
        f = rng.uniform(0.8, 1.2, (40, made.stages))
        f[20:] = 1.0
        f[20:, 0] -= rng.uniform(0, 1 / 3, 20)
        f[20:, -1] += rng.uniform(-1 / 3, 1 / 2, 20)
        found = batched.run(batched.compiled(made), f, f, f)
        mean = f.mean(axis=1)
        said = estimated_span(Shape(code, p, g, 4, p), mean, mean, mean, found.busy.max(axis=1) / g)
        low, high = OFF[code]
        assert (said >= found.span * (1 + low - 1e-9)).all()
        assert (said <= found.span * (1 + high)).all()
