"""Interleaving run for many layouts at once takes what its simulation, slot by slot, takes."""

import numpy as np
import pytest

from models.catalogue.loader import architecture
from models.cost.pipeline.closed_forms import Shape, equal_span
from models.cost.pipeline.interleaved_waves import Turns, interleaved_spans, least_spans
from models.cost.pipeline.looped import group_allowed, interleaved
from models.cost.pipeline.pipeline_run import simulated
from models.cost.pipeline.simulate import Durations, simulate
from models.cost.price import price, price_one
from models.cost.splits import balanced_split
from models.cost.table import INTERLEAVED, LayoutTable
from tests.builders import layout, setting, workload

ALL = 10**6
"""No run has as many groups."""


def grid():
    """p <= 32, G <= 128, v <= 8, and groups of every size Megatron takes."""
    for p in (1, 2, 3, 4, 8, 16, 32):
        for g in sorted({p, p + 1, 2 * p - 1, 2 * p, 2 * p + 2, 3 * p, 5 * p, 128}):
            for v in (2, 3, 8) if p <= 8 else (2, 3):
                groups = sorted({p, p + 1, g, (3 * p + 1) // 2})
                yield from ((p, g, v, n) for n in groups if g <= 128 and group_allowed(p, g, n))


def turns_of(rows):
    p, g, v, n = (np.array(column) for column in zip(*rows, strict=True))
    return Turns(p, v, g, n)


def padded(rows):
    widest = max(len(row) for row in rows)
    return np.array([np.append(row, np.full(widest - len(row), np.nan)) for row in rows])


def unequal(rng, rows):
    """Forwards and backwards of chunks that have nothing in common, and messages that differ."""
    forward = [rng.uniform(0.2, 2, p * v) for p, _, v, _ in rows]
    backward = [f * rng.uniform(1, 3, len(f)) for f in forward]
    hops = [rng.uniform(0, 0.5, p) * (p > 1) for p, *_ in rows]
    return forward, backward, hops


def slot_by_slot(row, f, b, hops):
    p, g, v, n = row
    return simulate(interleaved(p, g, v, n), Durations.of(p * v, f, b, 0, np.resize(hops, p * v - 1))).span


def test_chunks_of_any_length_take_what_their_simulation_takes():
    rows = list(grid())
    forward, backward, hops = unequal(np.random.default_rng(6), rows)
    found = interleaved_spans(turns_of(rows), *map(padded, (forward, backward, hops)), groups=ALL)
    for row, f, b, c, span in zip(rows, forward, backward, hops, found, strict=True):
        assert span == pytest.approx(slot_by_slot(row, f, b, c), rel=1e-12), row


def test_layouts_run_together_take_what_each_takes_alone():
    rows = [(4, 16, 2, 4), (4, 9, 3, 5), (2, 40, 8, 2), (8, 8, 2, 8)]
    times = [padded(part) for part in unequal(np.random.default_rng(7), rows)]
    alone = [
        interleaved_spans(turns_of([row]), *(part[place : place + 1] for part in times))[0]
        for place, row in enumerate(rows)
    ]
    assert interleaved_spans(turns_of(rows), *times).tolist() == alone


def test_equal_chunks_take_what_the_formula_says_however_long_the_step():
    rows = [(p, g, v, p) for p in (2, 4, 16) for g in (p, 4 * p, 100 * p) for v in (2, 5)]
    ones = padded([np.ones(p * v) for p, _, v, _ in rows])
    turns = turns_of(rows)
    shape = Shape(INTERLEAVED, turns.pp, turns.micro_batches, turns.vpp, turns.group)
    assert interleaved_spans(turns, ones, 2 * ones) == pytest.approx(equal_span(shape, 1, 1, 1))


@pytest.mark.parametrize("layers", [61, 80, 94, 96, 126])
def test_chunks_of_one_layer_and_of_two_are_timed_to_two_thousandths_in_long_steps(layers):
    """Layers spread evenly, a head of up to a layer and a half, backwards of 1.6 to 3.2 forwards."""
    rng = np.random.default_rng(layers)
    rows = [
        (p, g, v, p) for p in (2, 4, 8, 16, 32) for v in range(2, 9) for g in (128, 20 * p) if p * v <= layers
    ]
    forward = [np.array(balanced_split(layers, p * v), dtype=float) for p, _, v, _ in rows]
    for f in forward:
        f[-1] += rng.uniform(0, 1.5)
    backward = [f * rng.uniform(1.6, 3.2) for f in forward]
    turns, f, b = turns_of(rows), padded(forward), padded(backward)
    off = interleaved_spans(turns, f, b) / interleaved_spans(turns, f, b, groups=ALL) - 1
    assert abs(off).max() < 2e-3


def test_chunks_that_differ_at_random_are_timed_to_a_fiftieth_in_long_steps():
    rng = np.random.default_rng(8)
    rows = [(p, 20 * p, v, p) for p in (2, 4, 8, 16, 32) for v in (2, 3, 5) for _ in range(10)]
    f = padded([rng.uniform(0.8, 1.2, p * v) for p, _, v, _ in rows])
    b = f * rng.uniform(1.5, 3, (len(rows), 1))
    off = interleaved_spans(turns_of(rows), f, b) / interleaved_spans(turns_of(rows), f, b, groups=ALL) - 1
    assert abs(off).max() < 2e-2


def test_no_step_is_shorter_than_the_way_to_a_rank_its_work_and_the_way_back():
    rows = list(grid())
    f, b, _ = map(padded, unequal(np.random.default_rng(9), rows))
    turns = turns_of(rows)
    assert (least_spans(turns, f + b) <= interleaved_spans(turns, f, b, groups=ALL) * (1 + 1e-12)).all()


def test_groups_are_allowed_that_megatron_allows():
    rows = [(p, g, 2, n) for p in range(1, 6) for g in range(1, 13) for n in range(1, 13)]
    assert turns_of(rows).allowed.tolist() == [group_allowed(p, g, n) for p, g, _, n in rows]


@pytest.mark.parametrize(
    ("shape", "pp", "vpp"),
    [
        ("qwen3-235b-a22b", 8, 4),
        ("qwen3-235b-a22b", 32, 2),
        ("llama-3.1-405b", 16, 5),
        ("deepseek-v3", 16, 2),
    ],
)
def test_a_search_prices_mixed_chunks_as_their_schedule_runs(shape, pp, vpp):
    """94 layers on 8 x 4 and 32 x 2, 126 on 16 x 5, 61 on 16 x 2: chunks of one layer more and one less."""
    model = architecture(shape)
    chosen = layout(model, 128, tp=8, pp=pp, vpp=vpp)
    assert len(set(chosen.stage_layers)) > 1
    question = setting(model, "calibrated", gpus=chosen.gpus, workload=workload(8192, 128))
    table = LayoutTable.of([chosen])
    told, run = (one(table, question)[2].total[0] for one in (price, price_one))
    assert told == pytest.approx(run, rel=4e-3)


def test_a_layout_whose_messages_differ_between_turns_is_run_slot_by_slot():
    one, key = np.ones(4), (INTERLEAVED, 2, 6, 2, 2)
    even, odd = (
        simulated(key, one, one, one, np.array(send), 1.0) for send in ((0.2, 0.3, 0.2), (0.2, 0.3, 0.4))
    )
    made = interleaved(2, 6, 2, 2)
    assert even.span == pytest.approx(simulate(made, Durations.of(4, send=(0.2, 0.3, 0.2))).span)
    assert odd.span == pytest.approx(simulate(made, Durations.of(4, send=(0.2, 0.3, 0.4))).span)
    assert even.busy.tolist() == odd.busy.tolist() == [36.0, 36.0]
