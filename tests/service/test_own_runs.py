"""Adapting to a cluster's own runs: many are followed, few are pulled to the profile, none change nothing."""

import math
import threading
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.catalogue.own_runs import BASE, moved_by, own_runs_rules
from models.catalogue.profiles import coefficients, profile, with_values
from models.errors import InvalidField
from service.measured import read_runs
from service.measured.calibrating import calibrate
from service.measured.cases import cases_of, predict
from service.measured.own_runs import adapt
from service.measured.run import MeasuredRun
from service.measured.solve import KNEE, Beliefs, search
from tests.service.measured_rows import RUNS

VALUES = {name: one.value for name, one in coefficients(BASE).items()}
RULES = own_runs_rules()


@cache
def runs_of(source: str, gpu: str, count: int = 99) -> tuple[MeasuredRun, ...]:
    """Rows of a source on one GPU, one of each configuration, with a step time."""
    found: dict[str, MeasuredRun] = {}
    for run in read_runs(RUNS):
        if run.family == source and run.gpu == gpu and run.measured_step_s and run.confidence != "low":
            found.setdefault(run.group or run.id, run)
    return tuple(found.values())[:count]


def as_if(runs: tuple[MeasuredRun, ...], **times: float) -> tuple[MeasuredRun, ...]:
    """The runs as a cluster would have measured them whose coefficients are some times the profile's."""
    changed = {name: VALUES[name] * by for term, by in times.items() for name in RULES_BY_TERM(runs)[term]}
    seconds = predict(cases_of(runs, profile(BASE)), with_values(BASE, changed)).tolist()
    return tuple(replace(run, measured_step_s=one) for run, one in zip(runs, seconds, strict=True))


def RULES_BY_TERM(runs: tuple[MeasuredRun, ...]) -> dict[str, tuple[str, ...]]:
    cases = cases_of(runs, profile(BASE))
    kernels = [case.setting.stack.attention_kernel for case in cases]
    terms = moved_by(cases[0].setting.cluster.gpu.generation, kernels)
    return {term.name: term.coefficients for term in terms}


def multipliers(runs: tuple[MeasuredRun, ...]) -> dict[str, float]:
    return {term.name: term.adapted for term in calibrate(runs, "/rows").terms}


def test_without_runs_every_multiplier_is_1_and_every_spread_the_believed_one():
    found = adapt((), np.zeros(0))
    assert (found.x == 0).all()
    assert found.spread.tolist() == [term.spread for term in RULES.terms.values()]
    assert found.values(VALUES) == {name: VALUES[name] for term in found.terms for name in term.coefficients}


def test_runs_the_profile_predicts_exactly_move_nothing():
    found = calibrate(as_if(runs_of("llmfoundry", "H100", 12)), "/rows")
    assert found.coefficients == ()
    assert {term.adapted for term in found.terms} == {1.0}
    assert found.errors.before.mean == found.errors.left_one_out.mean == 0


def test_many_runs_of_a_cluster_with_slower_products_tell_how_much_slower():
    """24 configurations on H100, as if its matrix products ran at 0.8 of the profile's rate."""
    found = multipliers(as_if(runs_of("llmfoundry", "H100", 24), matmul=0.8))
    assert found["matmul"] == pytest.approx(0.8, rel=0.02)
    assert found["attention"] == pytest.approx(1, abs=0.02)
    assert found["streaming"] == pytest.approx(1, abs=0.05)


def test_many_runs_tell_slow_attention_from_slow_products():
    found = multipliers(as_if(runs_of("llmfoundry", "H100", 24), attention=0.75, matmul=1.1))
    assert found["attention"] == pytest.approx(0.75, rel=0.02)
    assert found["matmul"] == pytest.approx(1.1, rel=0.02)


def test_few_runs_move_less_than_many():
    """The same cluster, told by one run, by three and by 24: each nearer to its 0.8."""
    every = as_if(runs_of("llmfoundry", "H100", 24), matmul=0.8)
    gaps = [abs(multipliers(every[:count])["matmul"] - 0.8) for count in (1, 3, 24)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert 0.8 < multipliers(every[:1])["matmul"] < 0.97


def test_one_coefficient_moves_by_the_closed_form():
    """x = -s r n / (n s^2 + c^2 / spread^2) for n equal configurations of slope s and log error r."""
    slope, scatter, spread, off = -0.7, 0.06, 0.1, 0.05
    belief = Beliefs(("one",), np.zeros(1), np.array([spread]), np.array([-1.0]), np.array([1.0]))
    for count in (1, 2, 5, 40):

        def residuals(x, rows, count=count):
            chosen = list(rows) or list(range(count))
            return np.full(len(chosen), off + slope * x[0])

        found = search(residuals, belief, np.ones(count), enough=1e-9)
        expected = -slope * off * count / (count * slope**2 + scatter**2 / spread**2)
        assert off / scatter < KNEE
        assert found.x[0] == pytest.approx(expected, rel=1e-4)


def test_a_run_goes_where_its_time_goes():
    """One run whose step is nearly all matrix products moves those, and the network hardly."""
    one = tuple(
        replace(run, measured_step_s=run.measured_step_s * 1.1) for run in runs_of("sc21", "A100-80GB", 1)
    )
    found = multipliers(one)
    assert abs(math.log(found["matmul"])) > 2 * abs(math.log(found["host"]))


def test_the_order_of_runs_changes_no_byte():
    runs = runs_of("nemo", "H100")
    first = calibrate(runs, "/rows").model_dump_json()
    for turned in (runs[::-1], runs[3:] + runs[:3]):
        assert calibrate(turned, "/rows").model_dump_json() == first


def test_repeats_of_one_configuration_count_as_one():
    """A run five times over says what it says once, as nobody may vote twice."""
    once = as_if(runs_of("sc21", "A100-80GB", 1), matmul=0.8)
    many = tuple(replace(once[0], id=f"again-{turn}") for turn in range(5))
    assert multipliers(many) == pytest.approx(multipliers(once), rel=1e-4)
    assert calibrate(many, "/rows").configurations == 1


@settings(max_examples=10, deadline=None)
@example([50.0])
@example([1e9])
@example([0.5])
@given(st.lists(st.floats(0.5, 50), min_size=1, max_size=4))
def test_whatever_was_measured_coefficients_stay_inside_what_physics_allows(factors):
    runs = runs_of("torchtitan", "H100-96GB-HBM2e")[: len(factors)]
    moved = tuple(
        replace(run, measured_step_s=run.measured_step_s * by) for run, by in zip(runs, factors, strict=True)
    )
    found = calibrate(moved, "/rows")
    known = coefficients(BASE)
    for one in found.coefficients:
        assert known[one.name].low <= one.adapted <= known[one.name].high, one.name
    for term in found.terms:
        assert term.adapted > 0
        assert 0 < term.posterior_spread <= term.prior_spread * (1 + 1e-6)
    for band in found.bands:
        assert band.adapted >= RULES.band.least or not band.configurations


def test_one_wild_run_among_many_hardly_matters():
    """Huber: a run measured at three times its step moves the products by less than 3 %."""
    runs = as_if(runs_of("llmfoundry", "H100", 16))
    wild = (replace(runs[0], measured_step_s=runs[0].measured_step_s * 3), *runs[1:])
    assert multipliers(wild)["matmul"] == pytest.approx(1, abs=0.03)


def test_the_error_of_each_by_the_others_is_that_of_a_fit_without_it():
    """The slopes give, to a tenth of a point of time, what fitting anew without each configuration gives."""
    cases = tuple(cases_of(runs_of("sc21", "A100-80GB"), profile(BASE)))
    measured = np.array([case.measured_step_s for case in cases])
    whole = adapt(cases, measured)
    for out in range(len(cases)):
        kept = [place for place in range(len(cases)) if place != out]
        fit = adapt([cases[place] for place in kept], measured[kept])
        values = with_values(BASE, VALUES | fit.values(VALUES))
        error = float(np.log(predict([cases[out]], values) / measured[out])[0])
        assert whole.left_one_out[out] == pytest.approx(error, abs=4e-3)


def test_left_one_out_is_no_better_than_the_fit_itself_on_published_runs():
    for source, gpu in (("llmfoundry", "A100-80GB"), ("megatronkw", "H800"), ("nemo", "H100")):
        errors = calibrate(runs_of(source, gpu), "/rows").errors
        assert errors.left_one_out.mean >= errors.after.mean


def test_bands_narrow_as_own_runs_agree_and_never_below_what_repeats_scatter_by():
    runs = as_if(runs_of("llmfoundry", "H100", 24), matmul=0.9)
    wide = [
        next(band for band in calibrate(runs[:count], "/rows").bands if band.kind == "dense").adapted
        for count in (1, 5, 24)
    ]
    assert profile(BASE).bands.dense > wide[0] > wide[1] > wide[2]
    assert wide[2] >= RULES.band.least


def test_a_band_stays_where_no_own_run_is_of_its_kind():
    found = {band.kind: band for band in calibrate(runs_of("sc21", "A100-80GB"), "/rows").bands}
    assert found["moe"].configurations == 0
    assert found["moe"].adapted == profile(BASE).bands.moe


def test_tokens_a_second_stand_for_a_step_time():
    stated = as_if(runs_of("sc21", "A100-80GB"), matmul=0.9)
    rates = tuple(
        replace(
            run,
            measured_step_s=None,
            measured_tokens_per_s_per_gpu=run.seq_len * run.global_batch / run.gpus / run.measured_step_s,
        )
        for run in stated
    )
    assert multipliers(rates) == pytest.approx(multipliers(stated), rel=1e-4)


def test_only_coefficients_that_a_run_hangs_on_are_moved():
    """Dense runs in BF16 by Megatron move no expert, no cast of FP8 and nothing of an engine."""
    moved = {one.name for one in calibrate(runs_of("sc21", "A100-80GB"), "/rows").coefficients}
    assert "matmul_16.ampere" in moved
    assert not moved & {"grouped_matmul", "cast_bytes", "dispatch_passes", "engine_seconds_per_layer"}
    assert not {name for name in moved if "hopper" in name or "blackwell" in name}


def test_runs_of_two_types_of_gpu_are_a_fault_that_counts_them():
    both = runs_of("megatronbr", "B200", 2) + runs_of("megatronbr", "H100", 1)
    with pytest.raises(InvalidField, match=r"b200 \(2\), h100-sxm \(1\)"):
        calibrate(both, "/rows")


def test_runs_of_which_none_can_be_used_are_a_fault_with_the_reasons():
    one = runs_of("sc21", "A100-80GB", 1)[0]
    useless = (
        replace(one, id="a", gpu="Z1"),
        replace(one, id="b", measured_step_s=None, measured_tokens_per_s_per_gpu=None),
        replace(one, id="c", confidence="low"),
        replace(one, id="d", oom=True),
    )
    with pytest.raises(InvalidField) as caught:
        calibrate(useless, "/rows")
    reason = caught.value.faults[0].reason
    for part in ("a: gpu 'Z1'", "b: neither measured_step_s", "c: confidence low", "d: ran out of memory"):
        assert part in reason


def test_runs_left_out_are_told_and_change_nothing():
    runs = runs_of("sc21", "A100-80GB")
    odd = replace(runs[0], id="odd", dp=7)
    found = calibrate((*runs, odd), "/rows")
    assert [one.id for one in found.left_out] == ["odd"]
    assert found.terms == calibrate(runs, "/rows").terms


def test_a_gpu_may_be_called_by_its_catalogue_name():
    by_label = runs_of("sc21", "A100-80GB", 3)
    by_name = tuple(replace(run, gpu="a100-80gb-sxm") for run in by_label)
    assert calibrate(by_name, "/rows") == calibrate(by_label, "/rows")


@pytest.mark.parametrize("term", RULES.terms)
def test_every_term_moves_coefficients_that_are_there_and_its_spread_is_small_enough_to_pull(term):
    rule = RULES.terms[term]
    named = {name.split(".")[0] for name in coefficients(BASE)}
    assert set(rule.moves) <= named
    assert 0.01 < rule.spread <= 0.6
    assert rule.meaning


def test_no_coefficient_is_moved_by_two_terms():
    every = [name for term in moved_by("hopper", ("cudnn", "flash2")) for name in term.coefficients]
    assert len(every) == len(set(every))


def test_adapting_ends_when_nobody_waits():
    stop = threading.Event()
    stop.set()
    with pytest.raises(InvalidField, match="stopped before the runs were adapted to"):
        calibrate(runs_of("sc21", "A100-80GB"), "/rows", stop)
