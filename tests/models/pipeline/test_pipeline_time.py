"""What the search's path adds for the pipeline, against the schedule run action by action."""

from dataclasses import replace

import numpy as np
import pytest

from models.cost.kernels.compute import compute_seconds
from models.cost.pipeline.schedule import FOLDED
from models.cost.pipeline.simulate import Durations, simulate
from models.cost.pipeline.unequal import gpipe_runs, gpipe_span, one_f_one_b_runs, one_f_one_b_span
from models.cost.stages import every_chunk, every_stage, stage_kinds
from models.cost.step.pipeline_time import Work, added, pairs_a_rank, shapes
from models.cost.step.step_time import all_traffic, chunk_work, micro_batch_parts, micro_batch_work
from models.cost.table import CODES, DUALPIPE, DUALPIPE_V, GPIPE, ONE_F_ONE_B, LayoutTable
from models.layout import SCHEDULES
from tests.builders import layout, setting, workload
from tests.models.pipeline.grid import MAKE

OFF = {
    "gpipe": (1e-9, 1e-9),
    "1f1b": (1e-9, 1e-9),
    "interleaved": (0.001, 0.002),
    "zb-h1": (1e-9, 0.007),
    "zb-v": (1e-9, 0.003),
    "dualpipe-v": (1e-9, 0.007),
    "dualpipe": (1e-9, 0.007),
}
"""By how much the span on the search's path may fall short of the simulated one, and exceed it."""


def asked(name, pp, runs, vpp):
    vpp = 2 if CODES["schedule"].index(name) in FOLDED else vpp
    chosen = layout(tp=8, pp=pp, vpp=vpp, batch=runs, schedule=name)
    question = setting(name="calibrated", gpus=chosen.gpus, workload=workload(8192, runs))
    return chosen, LayoutTable.of([chosen]), question


def on(table, stages, question):
    """A micro-batch's work on some stages, and the time of a message."""
    traffic = all_traffic(table, stages, question)
    compute = compute_seconds(table, question)
    parts = micro_batch_parts(table, compute, stages, traffic, question)
    return micro_batch_work(table, compute, parts, stages, question), traffic.pp.hops


def cut(table, question):
    """What interleaved layouts run, and a micro-batch on each kind of it."""
    stages = stage_kinds(table, question)
    traffic = all_traffic(table, stages, question)
    return chunk_work(table, stages, compute_seconds(table, question), traffic, question)


def grid():
    for name in OFF:
        for pp in (2, 4, 8, 16, 32):
            for runs in (pp, 2 * pp, 4 * pp, 128):
                least = {"zb-v": 2 * pp - 1, "dualpipe": 2 * pp, "dualpipe-v": 2 * pp}.get(name, pp)
                chunks = (2, 3, 8) if name == "interleaved" else (1,)
                yield from ((name, pp, runs, v) for v in chunks if least <= runs <= 128 and pp * v <= 126)


@pytest.mark.parametrize("name", OFF)
def test_the_time_of_a_pipeline_is_near_its_simulation(name):
    """Llama 3.1 405B's 126 layers, embedding and head where they are: chunks that are not equal."""
    short, long = OFF[name]
    for _, pp, runs, vpp in (case for case in grid() if case[0] == name):
        chosen, table, question = asked(name, pp, runs, vpp)
        stages = stage_kinds(table, question)
        one, _ = on(table, stages, question)
        told = added(table, stages, one, np.zeros(1), question, cut(table, question))
        span = told.idle + table.passes(runs) * one.pace.max(axis=1) - told.hidden
        chunks, _ = on(table, every_chunk(chosen.pp, chosen.vpp, question, chosen.stage_layers), question)
        made = MAKE[int(table.schedule[0])](pp, runs, vpp, pp)
        times = Durations.of(
            made.stages, chunks.forward[0], chunks.input_gradient[0], chunks.weight_gradient[0]
        )
        simulated = simulate(made, times).span
        assert -short - 1e-6 <= float(span[0]) / simulated - 1 <= long + 1e-6, (name, pp, runs, vpp)


def test_runs_of_equal_stages_take_what_the_stages_take():
    rng = np.random.default_rng(3)
    for _ in range(300):
        count = rng.integers(1, 6, rng.integers(1, 6))
        f, b, runs = rng.uniform(1, 3, len(count)), rng.uniform(1, 6, len(count)), int(rng.integers(1, 40))
        whole = [np.repeat(half, count)[None] for half in (f, b)]
        padded = [np.append(half, half[0])[None] for half in (f, b)]
        counts = np.append(count, 0)[None]
        assert one_f_one_b_runs(*padded, counts, runs) == pytest.approx(one_f_one_b_span(*whole, runs))
        assert gpipe_runs(*padded, counts, runs) == pytest.approx(gpipe_span(*whole, runs))


def test_the_halves_of_a_backward_are_the_backward():
    _, table, question = asked("zb-h1", 8, 32, 1)
    one, _ = on(table, every_stage(8, 1, question, None), question)
    compute = compute_seconds(table, question)
    assert (one.weight_gradient < one.forward).all()
    assert (one.forward < one.input_gradient).all()
    third = compute.both.dense / 3
    assert compute.weight.dense < third < compute.forward.dense + compute.weight.dense


def test_full_recompute_leaves_dualpipes_backward_whole():
    _, table, question = asked("dualpipe-v", 8, 32, 2)
    full = replace(table, recompute=np.full_like(table.recompute, 2))
    whole, _ = on(full, stage_kinds(full, question), question)
    assert not whole.weight_gradient.any()
    split, _ = on(table, stage_kinds(table, question), question)
    assert (split.weight_gradient > 0).all()
    assert (whole.pace > split.pace).all()


def test_a_pair_hides_exchanges_behind_compute_and_never_costs_more_than_one_after_the_other():
    computed = np.array([[3.0, 3.0, 3.0]])
    exchanged = np.array([[0.0, 1.0, 9.0]])
    one = Work(computed / 3 + exchanged / 2, computed / 3 + exchanged / 2, computed / 3, exchanged)
    assert one.pair.tolist() == [[3.0, pytest.approx(3 / (1 - 20 / 132)), 9.0]]


def test_a_rank_runs_the_pairs_its_order_has():
    for name, code in (("dualpipe-v", DUALPIPE_V), ("dualpipe", DUALPIPE)):
        for pp, runs in ((4, 8), (4, 16), (8, 32)):
            _, table, _ = asked(name, pp, runs, 1)
            made = MAKE[code](pp, runs, 1, 1)
            fewest = min(sum(not hasattr(slot, "kind") for slot in order) for order in made.orders)
            assert pairs_a_rank(shapes(table, np.array([runs])))[0] == fewest


def test_an_exchange_behind_compute_shortens_the_step_by_what_is_hidden():
    _, table, question = asked("dualpipe-v", 4, 32, 2)
    stages = stage_kinds(table, question)
    one, _ = on(table, stages, question)
    exposed = replace(one, exchanged=0.3 * one.pace)
    plain, hidden = (added(table, stages, each, np.zeros(1), question) for each in (one, exposed))
    assert plain.hidden == 0
    assert 0 < hidden.hidden < 0.3 * float(one.pace.max()) * 32


def test_every_schedule_waits_for_its_messages_and_none_for_none():
    for name in SCHEDULES[1:]:
        _, table, question = asked(name, 4, 16, 2 if name == "interleaved" else 1)
        stages = stage_kinds(table, question)
        one, _ = on(table, stages, question)
        found = [float(added(table, stages, one, np.array([c]), question).waits[0]) for c in (0.0, 1e-3)]
        assert found[0] == 0 < found[1]


def test_gpipe_and_1f1b_differ_in_what_they_hold_and_not_in_their_bubble():
    spans = []
    for name in (GPIPE, ONE_F_ONE_B):
        _, table, question = asked(SCHEDULES[name], 6, 36, 1)
        stages = every_stage(6, 1, question, None)
        one, _ = on(table, stages, question)
        middle = replace(one, **{part: getattr(one, part) * 0 + 1.0 for part in vars(one)})
        spans.append(float(added(table, stages, middle, np.zeros(1), question).idle[0]))
    assert spans == [pytest.approx(5 * 3), pytest.approx(5 * 3)]
