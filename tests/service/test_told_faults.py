"""A fault stands where the caller wrote, says one thing, and says it in a sentence."""

import pytest

from models.request import Constraints
from tests.service.shapes import GOOD, check_problem

TIERS = [
    {"name": "nvlink", "gpus": 8, "bandwidth_bytes_per_s": 4.5e11},
    {"name": "leaf", "gpus": 32, "bandwidth_bytes_per_s": 5e10},
]
JUNK = ("foo", "", 5.5, -1, True, [], ["foo"], [[]], {"a": 1}, {"min": "x"}, {"min": 9, "max": 2})
GPU = {
    "memory_bytes": 80_000_000_000,
    "memory_bandwidth_bytes_per_s": 3e12,
    "peak_bf16_flops": 1e15,
}


def search(client, **changes):
    return client.post("/v1/search", json=GOOD | changes)


def faults_of(answer):
    return {fault["field"]: fault for fault in check_problem(answer, 422)["faults"]}


@pytest.mark.parametrize("name", ["tp", "cp", "pp", "vpp", "dp", "ep", "etp", "micro_batch", "zero"])
def test_a_range_with_its_ends_swapped_is_refused(client, name):
    faults = faults_of(search(client, constraints={name: {"min": 3, "max": 1}}))
    fault = faults[f"/constraints/{name}"]
    assert fault["value"] == {"min": 3, "max": 1}
    assert fault["reason"] == "min 3 is above max 1"


@pytest.mark.parametrize(
    ("precision", "stack"),
    [("nvfp4", {}), ("fp8", {"fp8_recipe": "mx"}), ("bf16", {"attention_kernel": "flash3"})],
)
def test_a_cluster_that_cannot_be_read_says_nothing_of_what_its_gpus_run(client, precision, stack):
    """What stands in for it has H100s, and a B200 was told it has no FP4."""
    workload = GOOD["workload"] | {"precision": precision}
    faults = faults_of(search(client, cluster={"gpu": "b200"}, workload=workload, stack=stack))
    assert set(faults) == {"/cluster/tiers"}


def test_a_range_of_one_value_is_no_fault(client):
    assert search(client, constraints={"tp": {"min": 4, "max": 4}}, top_k=1).status_code == 200


def test_a_range_of_zero_stages_starts_at_zero_and_ends_at_three(client):
    rows = search(client, constraints={"zero": {"min": 0, "max": 0}}).json()["shortlist"]
    assert {row["layout"]["zero"] for row in rows} == {0}
    free, ranged = (search(client, constraints=held).json() for held in ({}, {"zero": {"min": 0}}))
    assert free["shortlist"] == ranged["shortlist"]
    assert "/constraints/zero/max" in faults_of(search(client, constraints={"zero": {"max": 4}}))
    assert "/constraints/tp/min" in faults_of(search(client, constraints={"tp": {"min": 0}}))


@pytest.mark.parametrize("name", Constraints.model_fields)
def test_no_value_of_a_constraint_is_told_the_shapes_of_its_union(client, name):
    for junk in JUNK:
        answer = search(client, constraints={name: junk}, no="such field")
        for fault in check_problem(answer, 422)["faults"]:
            assert ";" not in fault["reason"], fault
            assert fault["reason"].count("must be") + fault["reason"].count("not one of") <= 1, fault


def test_a_word_that_is_no_schedule_is_told_the_schedules(client):
    fault = faults_of(search(client, constraints={"schedule": "foo"}))["/constraints/schedule"]
    assert fault["reason"] == (
        "not one of 'none', 'gpipe', '1f1b', 'interleaved', 'zb-h1', 'zb-v', 'dualpipe-v' or 'dualpipe'"
    )


def test_a_schedule_that_is_no_word_is_told_so(client):
    fault = faults_of(search(client, constraints={"schedule": 5}))["/constraints/schedule"]
    assert fault["reason"] == "must be text or a list, not the number 5"
    assert "'interleaved'" in fault["fix"]


def test_a_limit_of_nothing_is_the_limits_fault(client):
    assert set(faults_of(search(client, constraints={"memory_limit_bytes": 0}))) == {
        "/constraints/memory_limit_bytes"
    }
    answer = client.post("/v1/evaluate", json=GOOD | {"layout": {}, "memory_limit_bytes": 0})
    assert set(faults_of(answer)) == {"/memory_limit_bytes"}


def test_a_gpu_without_memory_is_the_gpus_fault(client):
    cluster = {"gpu": GPU | {"memory_bytes": 0, "usable_memory_bytes": 0}, "tiers": TIERS}
    assert set(faults_of(search(client, cluster=cluster))) == {
        "/cluster/gpu/memory_bytes",
        "/cluster/gpu/usable_memory_bytes",
    }


def test_a_reserve_that_leaves_nothing_is_the_reserves_fault(client):
    held = {"memory_limit_bytes": 100, "memory_reserve_bytes": 100}
    assert set(faults_of(search(client, constraints=held))) == {"/constraints/memory_reserve_bytes"}


def test_software_of_experts_on_a_dense_model_is_refused(client):
    stack = {"token_drop": True, "imbalance": 2.0, "dispatcher": "deduplicating", "mtp": True}
    faults = faults_of(search(client, stack=stack))
    assert set(faults) == {f"/stack/{name}" for name in stack}
    assert search(client, stack={"token_drop": False, "imbalance": 1.0}, top_k=1).status_code == 200


def test_a_part_is_not_judged_by_what_stands_in_for_another_that_cannot_be_read(client):
    moe = {"token_drop": True, "mtp": True}
    assert set(faults_of(search(client, model=7, stack=moe))) == {"/model"}
    question = GOOD | {"cluster": 7, "layout": {}, "memory_reserve_bytes": 10**11}
    assert set(faults_of(client.post("/v1/evaluate", json=question))) == {"/cluster"}


@pytest.mark.parametrize(("gpus", "warned"), [(16, False), (32, False), (64, True)])
def test_a_last_tier_stretched_to_the_job_is_told(client, gpus, warned):
    cluster = {"gpu": "h100-sxm", "tiers": TIERS}
    for path, more in (("/v1/search", {"top_k": 1}), ("/v1/evaluate", {"layout": {"tp": 8}})):
        told = client.post(path, json=GOOD | {"cluster": cluster, "gpus": gpus} | more).json()
        said = [text for text in told["warnings"] if "leaf" in text]
        assert bool(said) is warned
        assert all("32" in text and "64" in text for text in said)


def test_warnings_about_the_question_stand_in_an_evaluation_too(client):
    question = GOOD | {"layout": {"tp": 8}, "memory_limit_bytes": 90_000_000_000}
    (warning,) = client.post("/v1/evaluate", json=question).json()["warnings"]
    assert "90000000000" in warning


def test_a_parameter_said_twice_is_refused(client):
    told = check_problem(client.get("/v1/models?sequence_length=1&sequence_length=2"), 422)
    assert told["faults"][0]["field"] == "sequence_length"
    assert told["faults"][0]["value"] == ["1", "2"]


SAME = ["tp"] * 5
WRONG_ORDER = {"rank_order": SAME, "ep": 2, "recompute_layers": 1, "recompute": "none"}
"""An order with an axis five times; experts a dense model has not; an extent of what is not tried."""
ASKED = {"/constraints/rank_order", "/constraints/ep", "/constraints/recompute_layers"}


@pytest.mark.parametrize(
    ("other", "field"),
    [({"gpus": 0}, "/gpus"), ({"cluster": "dgx-h1000"}, "/cluster"), ({"colour": 1}, "/colour")],
)
def test_what_is_asked_of_layouts_is_judged_beside_every_other_fault(client, other, field):
    assert set(faults_of(search(client, constraints=WRONG_ORDER, **other))) == ASKED | {field}


@pytest.mark.parametrize("model", [{"hidden_size": 0}, "llama-3-9b"])
def test_experts_are_not_judged_by_a_model_that_cannot_be_read(client, model):
    faults = faults_of(search(client, constraints=WRONG_ORDER, model=model))
    assert "/constraints/rank_order" in faults
    assert not {"/constraints/ep", "/constraints/recompute_layers"} & set(faults)
