"""Measured runs priced many times: the same seconds as one by one, whoever stands beside whom."""

from dataclasses import replace

import numpy as np
import pytest

from models.base import Schema
from models.catalogue.profiles import profile
from service.measured import read_runs, validate
from service.measured.cases import Reads, cases_of, predict
from tests.service.measured_rows import RUNS

CALIBRATED = profile("calibrated")
CASES = cases_of(read_runs(RUNS), CALIBRATED)


def test_every_run_costs_together_what_it_costs_alone():
    """To a digit; where a report runs the pipeline, within what formulas of it are told to be off."""
    alone = {run.id: run.predicted_step_s for run in validate(read_runs(RUNS), "calibrated").runs}
    together = predict(CASES, CALIBRATED)
    for case, seconds in zip(CASES, together, strict=True):
        piped = case.layout.pp > 1
        assert seconds == pytest.approx(alone[case.id], rel=0.12 if piped else 1e-12), case.id
    assert len(CASES) == sum(value is not None for value in alone.values())


def test_the_company_a_run_is_priced_in_changes_nothing():
    together = predict(CASES, CALIBRATED)
    chosen = np.random.default_rng(7).permutation(len(CASES))[:60]
    assert predict([CASES[i] for i in chosen], CALIBRATED) == pytest.approx(together[chosen], rel=1e-12)


def test_a_coefficient_moves_the_runs_it_touches_and_no_others():
    exposed = CALIBRATED.rates.model_copy(update={"tp_overlap_exposed": 1.0})
    slower = CALIBRATED.model_copy(update={"rates": exposed})
    before, after = predict(CASES, CALIBRATED), predict(CASES, slower)
    overlapped = np.array([bool(case.table.tp_overlap[0]) and case.table.tp[0] > 1 for case in CASES])
    assert np.array_equal(after[~overlapped], before[~overlapped])
    assert (after[overlapped] > before[overlapped]).all()


def test_a_coefficient_that_traffic_hangs_on_is_read_again():
    plain = predict(CASES, CALIBRATED)
    fewer = predict(CASES, CALIBRATED.model_copy(update={"tp_regathers": False}))
    regathered = np.array([bool(case.table.sequence_parallel[0]) and case.table.tp[0] > 1 for case in CASES])
    assert (fewer[regathered] <= plain[regathered]).all()
    assert (fewer < plain).any()
    assert np.array_equal(predict(CASES, CALIBRATED), plain)


class Inner(Schema):
    read: float = 1.0
    left: float = 2.0


class Outer(Schema):
    read: float = 3.0
    left: float = 4.0
    inner: Inner | None = Inner()


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"left": 0.0}, True),
        ({"read": 0.0}, False),
        ({"inner": Inner(left=0.0)}, True),
        ({"inner": Inner(read=0.0)}, False),
        ({"inner": None}, False),
    ],
)
def test_what_was_not_asked_for_may_change(changed, same):
    reads = Reads(Outer())
    assert reads.read + reads.inner.read == 4.0
    assert reads.same_for(Outer(**changed)) is same


def test_runs_that_ask_the_same_question_share_one_setting():
    run = CASES[0].run
    same = replace(run, id="other-1", model_name="renamed", measured_step_s=1.0)
    longer = replace(run, id="other-2", seq_len=run.seq_len * 2)
    first, second, third = cases_of([run, same, longer], CALIBRATED)
    assert first.setting is second.setting
    assert third.setting is not first.setting
    alone, again, doubled = predict([first, second, third], CALIBRATED)
    assert alone == again < doubled
