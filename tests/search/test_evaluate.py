"""One layout priced, its broken rules with fixes, and what cannot be priced refused."""

import pytest

from models.architecture import Architecture
from models.errors import InvalidField
from models.layout import Layout, LayoutChoice, StatedLayout
from models.request import Constraints, EvaluateRequest
from search import evaluate, search
from tests.search.questions import DENSE, MOE, ROOMY, Question, resolved

LLAMA_30B = Architecture(
    name="llama-30b",
    hidden=6656,
    layers=60,
    heads=52,
    kv_heads=52,
    head_size=128,
    ffn=17920,
    vocabulary=32000,
)


def priced(architecture, gpus, batch, /, sequence=512, limit=ROOMY, **knobs):
    question = Question(architecture, gpus, batch, sequence=sequence, limit=limit)
    request = EvaluateRequest(
        model="small",
        cluster="small",
        gpus=gpus,
        workload={"sequence_length": sequence, "global_batch": batch},
        layout=StatedLayout(**knobs),
    )
    return evaluate(request, resolved(question.setting()))


def faults_of(*args, **knobs):
    with pytest.raises(InvalidField) as error:
        priced(*args, **knobs)
    return {fault.field: fault for fault in error.value.faults}


def test_what_is_left_out_takes_its_default_and_is_told():
    told = priced(DENSE, 8, 16, tp=2, pp=2)
    made = told.candidate.layout
    assert (made.cp, made.dp, made.ep, made.etp, made.zero, made.micro_batch) == (1, 2, 1, 1, 1, 1)
    assert (made.schedule, made.vpp, made.recompute, made.sequence_parallel) == ("1f1b", 1, "none", True)
    values = {assumption.field: assumption.value for assumption in told.assumptions}
    assert values["/layout/dp"] == 2
    assert values["/layout/stage_layers"] == (6, 6)
    assert "/layout/tp" not in values


@pytest.mark.parametrize(
    ("knobs", "schedule"), [({}, "none"), ({"pp": 2}, "1f1b"), ({"pp": 2, "vpp": 2}, "interleaved")]
)
def test_the_schedule_follows_the_stages(knobs, schedule):
    assert priced(DENSE, 8, 16, **knobs).candidate.layout.schedule == schedule


@pytest.mark.parametrize(
    ("schedule", "batch", "knobs", "broken"),
    [
        ("zb-h1", 2, {}, {"split_schedules_fill_stages"}),
        ("zb-h1", 4, {}, set()),
        ("zb-v", 6, {}, {"split_schedules_fill_stages"}),
        ("zb-v", 7, {}, set()),
        ("zb-v", 8, {"recompute": "full"}, {"weight_halves_keep_activations"}),
        ("zb-v", 8, {"vpp": 3}, {"schedule_fits_stages"}),
        ("dualpipe-v", 7, {}, {"split_schedules_fill_stages"}),
        ("dualpipe-v", 8, {"recompute": "full"}, set()),
        ("dualpipe-v", 9, {"vpp": 1}, {"schedule_fits_stages"}),
        ("dualpipe", 9, {}, {"dualpipe_meets_in_the_middle"}),
        ("dualpipe", 6, {"pp": 3, "dp": 1}, {"dualpipe_meets_in_the_middle"}),
        ("dualpipe", 8, {}, set()),
        ("1f1b", 1, {}, set()),
    ],
)
def test_each_schedule_has_rules_of_its_own_and_figures_whatever_it_breaks(schedule, batch, knobs, broken):
    degrees = {"pp": 4, "dp": 1} | knobs
    told = priced(DENSE, degrees["pp"], batch, schedule=schedule, **degrees)
    assert {rule.rule for rule in told.broken_rules} == broken
    assert told.candidate.step_time_s > 0
    assert sum(value for _, value in told.candidate.time) == pytest.approx(told.candidate.step_time_s)
    assert len(told.candidate.layout.stage_layers) == degrees["pp"] * told.candidate.layout.vpp


@pytest.mark.parametrize(
    ("schedule", "words"),
    [("zb-v", "torchtitan (ZBVZeroBubble)"), ("dualpipe", "deepseek-ai/DualPipe"), ("1f1b", None)],
)
def test_a_schedule_few_frameworks_run_says_who_does(schedule, words):
    warnings = priced(DENSE, 4, 8, pp=4, schedule=schedule).candidate.warnings
    told = [warning for warning in warnings if schedule in warning]
    assert (told == []) if words is None else (words in told[0])


def test_the_best_layout_of_a_search_breaks_no_rule_and_costs_the_same():
    question = Question(MOE, 8, 16)
    best = search(question.request(), resolved(question.setting())).shortlist[0]
    told = priced(MOE, 8, 16, **best.layout.model_dump())
    assert told.broken_rules == ()
    assert told.candidate.layout == best.layout
    assert told.candidate.step_time_s == best.step_time_s
    assert told.candidate.memory.peak_bytes == best.memory.peak_bytes


def test_an_answered_layout_tells_recomputed_modules_and_layers_only_where_they_mean_something():
    """A search over several kinds of recompute says of each layout what its own kind covers."""
    for kinds, extent in (
        (("selective", "full"), {"recompute_modules": ("mlp",)}),
        (("none", "full"), {"recompute_layers": 1}),
    ):
        question = Question(DENSE, 8, 16, constraints=Constraints(recompute=kinds, zero=1, **extent))
        found = search(question.request(), resolved(question.setting())).shortlist
        assert found
        for best in found:
            told = priced(DENSE, 8, 16, **best.layout.model_dump())
            assert told.broken_rules == ()
            assert told.candidate.step_time_s == best.step_time_s


def test_every_broken_rule_is_told_with_the_values_that_would_do():
    told = priced(LLAMA_30B, 16, 16, tp=8, pp=2, zero=3)
    broken = {rule.rule: rule for rule in told.broken_rules}
    assert set(broken) == {"heads_divide", "kv_heads_divide", "pipeline_keeps_weights"}
    assert broken["heads_divide"].fix == "Use tp of 1, 2, 4."
    assert told.candidate.step_time_s > 0


def test_a_layout_over_the_limit_is_priced_and_says_by_how_much():
    told = priced(DENSE, 8, 16, limit=1000)
    (broken,) = told.broken_rules
    assert broken.rule == "memory"
    assert f"{told.candidate.memory.peak_bytes - 1000} over the limit of 1000" in broken.fix


@pytest.mark.parametrize(
    ("knobs", "rule", "fix"),
    [
        (
            {"pp": 4, "vpp": 2, "dp": 2},
            "interleaving_fills_groups",
            "Use micro_batch_group of 6, or a multiple of 4 micro-batches",
        ),
        ({"pp": 4, "vpp": 2, "dp": 2, "micro_batch_group": 3}, "group_holds_the_stages", "of at least 4."),
        (
            {"pp": 2, "schedule": "none"},
            "schedule_fits_stages",
            "Use schedule of gpipe, 1f1b, interleaved, zb-h1, zb-v, dualpipe-v, dualpipe.",
        ),
        ({"schedule": "1f1b"}, "schedule_fits_stages", "Use schedule none."),
        ({"pp": 2, "vpp": 2, "schedule": "1f1b"}, "schedule_fits_stages", "Use vpp 1"),
        ({"weight_gather": "keep_for_step"}, "weight_gather_needs_zero_3", "Use weight_gather per_pass."),
        (
            {"zero": 1, "gradient_reduce": "per_micro_batch"},
            "gradient_reduce_needs_zero_2",
            "Use gradient_reduce once.",
        ),
        (
            {"recompute": "full", "recompute_modules": ("mlp",)},
            "recompute_covers_what_it_names",
            "Use recompute selective, or leave recompute_modules out.",
        ),
        (
            {"recompute_layers": 1, "recompute_modules": ("mlp",)},
            "recompute_covers_what_it_names",
            "Use recompute selective, or leave recompute_modules out.",
        ),
    ],
)
def test_a_fix_names_what_would_be_accepted(knobs, rule, fix):
    told = priced(DENSE, 8, 12 if knobs.get("pp") == 4 else 16, **knobs)
    assert fix in {broken.rule: broken.fix for broken in told.broken_rules}[rule]


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"recompute_stage_layers": (1, 2)}, "2 numbers for pp * vpp = 4 chunks"),
        ({"recompute_stage_layers": (0, 0, 4, 0)}, "chunk 2 is to recompute 4 layers, and has 3"),
        (
            {"recompute_stage_layers": (0, 0, 0, 1), "stage_layers": (5, 4, 3, 0)},
            "recompute 1 layers, and has 0",
        ),
        ({"recompute_stage_layers": (1, 1, 1, 1), "recompute_layers": 1}, "recompute_layers says already"),
    ],
)
def test_numbers_of_recomputed_layers_that_mean_nothing_are_refused(stated, reason):
    fault = faults_of(DENSE, 8, 16, pp=4, **stated)["/layout/recompute_stage_layers"]
    assert reason in fault.reason
    assert fault.value == list(stated["recompute_stage_layers"])


def test_recomputed_layers_of_each_chunk_are_priced_and_mean_full_recompute():
    told = priced(DENSE, 8, 16, pp=4, recompute_stage_layers=(3, 1, 0, 0))
    assert told.broken_rules == ()
    assert told.candidate.layout.recompute == "full"
    assert told.candidate.layout.recompute_stage_layers == (3, 1, 0, 0)
    none, whole = (priced(DENSE, 8, 16, pp=4, recompute=kind).candidate for kind in ("none", "full"))
    assert none.step_time_s < told.candidate.step_time_s <= whole.step_time_s
    (broken,) = priced(DENSE, 8, 16, pp=4, recompute="none", recompute_stage_layers=(3, 1, 0, 0)).broken_rules
    assert broken.fix == "Use recompute full, or leave recompute_stage_layers out."


def test_a_sequence_that_does_not_split_is_offered_its_padded_length():
    told = priced(DENSE, 8, 16, sequence=8423, cp=8)
    fixes = {broken.rule: broken.fix for broken in told.broken_rules}
    assert "Or pad the sequence to 8432 tokens." in fixes["sequence_splits_in_context"]


def test_all_that_leaves_the_figures_without_a_meaning_is_told_at_once():
    faults = faults_of(
        MOE,
        8,
        16,
        micro_batch=3,
        ep=5,
        stage_layers=(1, 2),
        rank_order=("tp", "tp", "ep", "dp", "pp"),
        edp=4,
        gpus=2,
    )
    assert set(faults) == {
        "/layout/micro_batch",
        "/layout/ep",
        "/layout/stage_layers",
        "/layout/rank_order",
        "/layout/gpus",
    }
    assert all(fault.fix for fault in faults.values())


def test_what_only_follows_from_a_wrong_grid_is_not_told_beside_it():
    faults = faults_of(MOE, 8, 16, tp=3, dp=5, ep=4, etp=2, micro_batch=3, edp=9, gpus=15, micro_batches=7)
    assert set(faults) == {"/layout/dp"}
    assert set(faults_of(MOE, 8, 16, tp=3, dp=5, ep=5, gpus=16)) == {
        "/layout/dp",
        "/layout/ep",
        "/layout/gpus",
    }


def test_degrees_that_miss_the_gpus_are_offered_the_dp_that_does():
    assert faults_of(DENSE, 8, 16, tp=2, dp=8)["/layout/dp"].fix == "Use dp 4."
    assert "divide 8" in faults_of(DENSE, 8, 16, tp=3, dp=1)["/layout/dp"].fix


@pytest.mark.parametrize(
    ("batch", "knobs", "field", "value"),
    [
        (16, {"tp": 3}, "/layout/tp", 3),
        (16, {"tp": 2, "pp": 5}, "/layout/pp", 5),
        (12, {"dp": 8}, "/layout/dp", 8),
        (12, {}, "/workload/global_batch", 12),
        (16, {"vpp": 13}, "/layout/vpp", 13),
        (16, {"micro_batch": 3}, "/layout/micro_batch", 3),
    ],
)
def test_a_fault_stands_at_a_knob_that_was_stated(batch, knobs, field, value):
    faults = faults_of(DENSE, 8, batch, **knobs)
    assert {name: fault.value for name, fault in faults.items()} == {field: value}


def test_more_chunks_than_layers_are_refused():
    assert "/layout/pp" in faults_of(DENSE, 8, 16, pp=8, vpp=2)


def test_experts_that_do_not_divide_are_refused_with_those_that_do():
    assert faults_of(MOE, 24, 24, ep=8)["/layout/ep"].fix == "Use ep of 1, 2, 3, 4, 6, 12."
    assert faults_of(MOE, 8, 16, ep=12)["/layout/ep"].fix == "Use ep of 1, 2, 4."
    faults = faults_of(MOE, 8, 16, etp=3, ep=5)
    assert "does not divide tp * cp * dp = 8" in faults["/layout/etp"].reason
    assert faults["/layout/ep"].fix == "Use ep of 1, 2, 3, 4, 6, 12."


def test_degrees_of_experts_are_refused_where_there_are_none():
    faults = faults_of(DENSE, 8, 16, ep=2, etp=4)
    assert set(faults) == {"/layout/ep", "/layout/etp"}
    assert all(fault.reason == "the architecture has no experts" for fault in faults.values())
    assert priced(DENSE, 8, 16, ep=1, etp=1).candidate.layout.etp == 1


def test_every_field_of_an_answered_layout_may_be_stated():
    assert set(StatedLayout.model_fields) == set(Layout.model_fields)
    assert set(LayoutChoice.model_fields) < set(Layout.model_fields)


@pytest.mark.parametrize(("name", "right"), [("edp", 2), ("gpus", 8), ("micro_batches", 2)])
def test_what_follows_from_the_knobs_is_accepted_where_it_agrees(name, right):
    knobs = {"tp": 2, "dp": 4, "ep": 4, "micro_batch": 2}
    assert getattr(priced(MOE, 8, 16, **knobs, **{name: right}).candidate.layout, name) == right
    fault = faults_of(MOE, 8, 16, **knobs, **{name: right + 1})[f"/layout/{name}"]
    assert fault.value == right + 1
    assert f"{right + 1} is stated" in fault.reason
    assert fault.reason.endswith(f" is {right}")
