"""Published schedules take the slots their papers and texts count, and hold what they say."""

import json
from pathlib import Path

import pytest

from models.cost.pipeline.folded import dualpipe
from models.cost.pipeline.held import peaks
from models.cost.pipeline.looped import gpipe, interleaved, naive, one_f_one_b, zb_h1, zb_h2
from models.cost.pipeline.published import dualpipe_table, zero_bubble_memory, zero_bubble_table
from models.cost.pipeline.simulate import Durations, simulate

WORKED = json.loads((Path(__file__).parents[2] / "golden" / "worked_numbers.json").read_text())["pipeline"]


def timed(row):
    p, g = row["p"], row.get("G", 1)
    make = {"gpipe": gpipe, "1f1b": one_f_one_b, "naive": naive}.get(row["schedule"])
    return simulate(make(p, g) if make else interleaved(p, g, row["v"], p))


@pytest.mark.parametrize("row", [row for row in WORKED if "G" in row and "schedule" in row])
def test_the_texts_count_these_slots(row):
    """33 slots and 9 idle at p = 4, G = 8; 47 % at p = G = 8."""
    timeline = timed(row)
    told = {
        "bubble_of_total": timeline.bubble_of_total,
        "bubble_of_compute": timeline.bubble_of_compute,
        "slots": timeline.span,
        "idle_slots_per_stage": timeline.idle[0],
    }
    known = set(row) & set(told)
    assert known
    assert all(told[name] == pytest.approx(row[name], abs=5e-5) for name in known)


@pytest.mark.parametrize("chunks", range(1, 9))
def test_sixteen_stages_wait_as_long_however_many_chunks_they_have(chunks):
    timeline = simulate(interleaved(16, 16, chunks, 16))
    assert timeline.span == 48 * chunks + 45
    assert timeline.idle.tolist() == [45] * 16
    assert timeline.bubble_of_compute == pytest.approx(15 / (16 * chunks))


@pytest.mark.parametrize(("p", "halves"), [(4, (1, 1, 1)), (8, (4, 6, 3)), (16, (2, 3, 2))])
def test_the_zero_bubble_papers_table_is_what_its_schedules_take(p, halves):
    table = zero_bubble_table(p, *halves)
    waits = (table.one_f_one_b, table.h1, table.h2)
    for make, wait, peak in zip((one_f_one_b, zb_h1, zb_h2), waits, table.peaks, strict=True):
        made = make(p, 4 * p)
        assert simulate(made, Durations.of(p, *halves)).idle_inside.max() == wait
        assert peaks(made).max() == peak


def test_what_zero_bubble_workers_hold_is_what_the_paper_says():
    for make, which in ((zb_h1, 0), (zb_h2, 1)):
        held = peaks(make(8, 32), freed_at_input=1 - 0.28)
        said = [zero_bubble_memory(8, worker, 0.28)[which] for worker in range(1, 9)]
        assert held == pytest.approx(said)


@pytest.mark.parametrize(("weight", "as_said"), [(1, True), (0.8, False)])
def test_dualpipes_formula_holds_where_both_halves_take_the_same(weight, as_said):
    durations = Durations.of(8, 1, 2 - weight, weight)
    most = simulate(dualpipe(8, 32), durations).idle.max()
    said = dualpipe_table(8, 1, 2, weight, 3).bubble[2]
    assert bool(most == pytest.approx(said)) is as_said
    assert most <= said + 1e-9
