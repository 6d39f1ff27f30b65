"""The time half of `validate`: rates as their sources count them, the order of layouts, the reference."""

from collections import defaultdict
from dataclasses import replace
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.catalogue.profiles import profile
from service.measured import read_runs, validate
from service.measured.baseline import constant_rate_seconds
from service.measured.cases import Case, cases_of
from service.measured.errors import CLAIMED
from service.measured.order import Point, count_pairs, kendall, order
from service.measured.report import report
from service.measured.throughput import step_flops
from tests.service.measured_rows import RUNS, answer, one, rows, written

CALIBRATED = profile("calibrated")
CASES = cases_of(read_runs(RUNS), CALIBRATED)
TIMED = [case for case in CASES if case.confidence in CLAIMED and case.measured_step_s is not None]


def measured(cases: list[Case]) -> list[float]:
    return [case.measured_step_s or 0.0 for case in cases]


def test_the_flops_we_count_are_those_each_source_counts():
    """Rows that state a time and TFLOP/s: our FLOPs over that time are their TFLOP/s."""
    ratios = defaultdict(list)
    for run in answer().runs:
        if run.measured_step_s and run.measured_tflops_per_gpu and run.predicted_step_s:
            ours = run.predicted_tflops_per_gpu * run.predicted_step_s / run.measured_step_s
            ratios[run.family].append(ours / run.measured_tflops_per_gpu)
    assert len(ratios) == 7
    for source, found in ratios.items():
        assert median(found) == pytest.approx(1, abs=3e-3), source


def test_a_rate_is_compared_in_the_way_its_source_counts():
    counted = {run.id: run.flops_counted for run in answer().runs}
    assert counted["sc21-0001"] == "hardware"
    assert counted["llmfoundry-0001"] == "whole"
    assert counted["megatronbr-0019"] == "causal"
    assert counted["nemo-0019"] == "whole", "it does not say, and its source's other runs say whole"
    assert counted["llama3rep-0001"] == "causal", "neither it nor its source says"


def test_what_recompute_repeats_is_hardware_flops_alone():
    case = next(case for case in CASES if case.id == "sc21-0005")
    whole, hardware = (step_flops(case.setting, case.layout, way) for way in ("whole", "hardware"))
    nothing = case.layout.model_copy(update={"recompute": "none"})
    assert step_flops(case.setting, nothing, "hardware") == whole
    assert 1.25 * whole < hardware < 4 / 3 * whole, "four forwards for three, but for the head"


def test_rates_follow_from_the_step_time(tmp_path):
    told = report(one(tmp_path, "bigscience-0001"), CALIBRATED)
    row = rows()["bigscience-0001"]
    tokens = int(row["seq_len"]) * int(row["global_batch"]) / int(row["gpus"])
    assert told.predicted_tokens_per_s_per_gpu == pytest.approx(tokens / told.predicted_step_s)
    assert told.measured_tokens_per_s_per_gpu == pytest.approx(tokens / float(row["measured_step_s"]))
    assert told.tflops_error == pytest.approx(
        told.predicted_tflops_per_gpu / float(row["measured_tflops_per_gpu"]) - 1
    )


def test_a_row_without_a_time_is_compared_by_its_rate_and_told_apart():
    summary = answer().summary
    without = [run for run in answer().runs if run.measured_step_s is None and run.tflops_error is not None]
    told = summary.tflops_alone
    assert told.all is not None
    assert told.low_confidence is not None
    assert told.all.rows + told.low_confidence.rows == len(without) == 30
    assert not {run.id for run in without} & {worst.id for worst in summary.step_time.worst}


def test_every_timed_row_counts_once_in_the_headline():
    told = answer().summary.step_time.all
    assert told is not None
    errors = [run.step_error for run in answer().runs if run.confidence in CLAIMED and run.step_error]
    assert told.n == told.rows == len(TIMED) == len(errors) == 472
    assert told.mean == pytest.approx(np.abs(errors).mean())
    assert told.median == pytest.approx(np.median(np.abs(errors)))
    assert told.bias == pytest.approx(np.mean(errors))


def test_a_perfect_prediction_is_in_order_and_chooses_the_best():
    found = order(TIMED, measured(TIMED))
    assert found.pairs.right == found.pairs.pairs > 0
    assert found.far_pairs.right == found.far_pairs.pairs < found.pairs.pairs
    assert found.mean_cost == found.most_cost == 0


def test_the_opposite_prediction_is_never_in_order_and_chooses_the_worst():
    upside_down = [
        case.setting.workload.tokens_per_step**2 / t for case, t in zip(TIMED, measured(TIMED), strict=True)
    ]
    found = order(TIMED, upside_down)
    assert found.pairs.right == 0
    assert all(group.cost > 0.03 for group in found.groups if group.pairs.pairs)


def test_a_group_shares_all_but_the_layout():
    told = order(TIMED, measured(TIMED))
    by_id = {case.id: case.run for case in TIMED}
    for group in told.groups:
        chosen, best = by_id[group.predicted_best], by_id[group.measured_best]
        for run in (chosen, best):
            assert (run.family, run.heads, run.gpu, run.gpus) == (
                group.source, group.heads, group.gpu, group.gpus
            )  # fmt: skip
        assert group.layouts >= 3
        assert group.far_pairs.pairs <= group.pairs.pairs <= group.layouts * (group.layouts - 1) / 2
    assert told.pairs.pairs == sum(group.pairs.pairs for group in told.groups)
    assert told.pairs.right == sum(count.right for count in told.by_source.values())


def test_two_head_counts_of_one_name_are_two_models():
    """`bs-gpt-14336x72` stands for six head counts in the file."""
    names = [(group.model, group.heads) for group in order(TIMED, measured(TIMED)).groups]
    heads = {case.run.heads for case in TIMED if case.model == "bs-gpt-14336x72"}
    assert len(heads) > 1
    assert all(heads == 64 for name, heads in names if name == "bs-gpt-14336x72")


def test_layouts_of_different_batches_are_compared_by_the_token(tmp_path):
    fast = rows()["bigscience-0001"]
    others = [
        fast | {"id": f"bigscience-9{i}", "tp": tp, "dp": dp, "global_batch": "1024", "measured_step_s": s}
        for i, (tp, dp, s) in enumerate([("8", "4", "47"), ("2", "16", "60")])
    ]
    named = fast | {"id": "bigscience-99", "measured_step_s": "100", "global_batch": "2048"}
    cases = cases_of(read_runs(written(tmp_path, [named | {"tp": "4", "dp": "8"}, *others])), CALIBRATED)
    found = order(cases, [100.0, 47.0, 60.0])
    assert found.groups[0].measured_best == "bigscience-90", "94 s for as many tokens as another's 100"
    assert found.pairs.right == found.pairs.pairs == 3


def test_pairs_at_the_edge_of_a_gap():
    points = [Point("a", 1.0, 1.0), Point("b", 2.0, 1.03), Point("c", 3.0, 1.0301)]
    assert count_pairs(points, 0.03).pairs == 1
    tied = [Point("a", 1.0, 1.0), Point("b", 1.0, 2.0)]
    assert count_pairs(tied, 0.03).right == 0


@given(st.lists(st.integers(0, 5), min_size=2, max_size=7), st.randoms())
def test_kendall_is_one_with_itself_and_less_with_anything_else(values, random):
    other = random.sample(values, len(values))
    if len(set(values)) > 1:
        assert kendall(values, values) == pytest.approx(1)
        assert kendall(values, [-v for v in values]) == pytest.approx(-1)
        assert -1 - 1e-9 <= kendall(values, other) <= 1 + 1e-9
        assert kendall(values, other) == kendall(other, values)


def test_kendall_of_a_constant_is_zero():
    """A constant rate, which has the least error on the ten SC 2021 models, orders none of them."""
    rates = [float(row["measured_tflops_per_gpu"]) for name, row in rows().items() if name.startswith("sc21")]
    assert kendall([140.0] * 10, rates) == 0


def test_the_reference_takes_nothing_from_a_runs_own_source():
    before = constant_rate_seconds(TIMED)
    slower = [
        replace(case, run=replace(case.run, measured_step_s=case.measured_step_s * 2))
        if case.source == "bigscience"
        else case
        for case in TIMED
    ]
    after = constant_rate_seconds(slower)
    moved = {case.source for case, b, a in zip(TIMED, before, after, strict=True) if a != b}
    assert "bigscience" not in moved
    assert moved, "runs of other sources on the same GPU lean on them"


def test_the_reference_is_exact_where_every_run_has_one_rate():
    same = [
        replace(case, run=replace(case.run, measured_step_s=step_flops(case.setting, case.layout, "causal")))
        for case in TIMED
    ]
    per_gpu = [
        replace(case, run=replace(case.run, measured_step_s=case.measured_step_s / case.gpus / 1e14))
        for case in same
    ]
    for case, seconds in zip(per_gpu, constant_rate_seconds(per_gpu), strict=True):
        assert seconds is None or seconds == pytest.approx(case.measured_step_s)


def test_a_source_alone_on_its_gpu_has_no_reference():
    seconds = dict(zip([case.id for case in TIMED], constant_rate_seconds(TIMED), strict=True))
    assert seconds["dlperf-0002"] is None
    assert seconds["sc21-0001"] is not None


def test_one_row_alone_is_summed_up_too(tmp_path):
    told = validate(read_runs(written(tmp_path, [rows()["sc21-0001"]])), "calibrated").summary
    assert told.order.groups == ()
    assert told.order.mean_cost is None
    assert told.rank_correlation == {}
    assert told.constant_mfu.all is None
