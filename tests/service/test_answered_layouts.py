"""A layout that was answered may be sent to be priced, as it stands."""

import pytest

from service.examples import examples
from tests.service.shapes import GOOD, check_problem

SEARCHES = [e for e in examples() if e.path == "/v1/search" and e.outcome in ("found", "none_fit")]
LAYOUT = {"tp": 2, "pp": 2, "micro_batch": 2}


def evaluate(client, layout, **changes):
    return client.post("/v1/evaluate", json=GOOD | {"layout": layout} | changes)


@pytest.mark.parametrize("example", SEARCHES, ids=lambda example: example.file)
def test_a_layout_of_an_answer_is_priced_as_the_answer_priced_it(client, example):
    found = client.post("/v1/search", json=example.request | {"top_k": 3}).json()
    conflict = found["conflict"] or {"closest": None}
    question = {key: example.request[key] for key in ("model", "cluster", "gpus", "workload")}
    question["memory_limit_bytes"] = example.request.get("constraints", {}).get("memory_limit_bytes")
    for row in found["shortlist"] or [conflict["closest"]]:
        told = client.post("/v1/evaluate", json=question | {"layout": row["layout"]}).json()
        assert told["candidate"]["layout"] == row["layout"]
        assert told["candidate"]["memory"] == row["memory"]
        assert told["candidate"]["step_time_s"] == row.get("step_time_s", told["candidate"]["step_time_s"])
        assert not [a for a in told["assumptions"] if a["field"].startswith("/layout")]


@pytest.mark.parametrize(
    ("name", "given", "right"), [("edp", 3, 32), ("gpus", 128, 64), ("micro_batches", 5, 2)]
)
def test_what_contradicts_the_degrees_is_refused_with_both_values(client, name, given, right):
    told = check_problem(evaluate(client, LAYOUT | {name: given}), 422)
    (fault,) = told["faults"]
    assert (fault["field"], fault["value"]) == (f"/layout/{name}", given)
    assert f"{given} is stated" in fault["reason"]
    assert str(right) in fault["reason"]
    assert str(right) in fault["fix"]
    assert evaluate(client, LAYOUT | {name: right}).status_code == 200


def test_what_is_forbidden_is_no_answered_layout(client):
    told = check_problem(
        client.post("/v1/search", json=GOOD | {"constraints": {"forbid": [{"edp": 1}]}}), 422
    )
    assert told["faults"][0]["field"] == "/constraints/forbid/0/edp"


def test_a_wrong_grid_is_one_fault(client):
    told = check_problem(evaluate(client, {"tp": 8, "dp": 48, "micro_batch": 5, "edp": 7}), 422)
    assert [fault["field"] for fault in told["faults"]] == ["/layout/dp"]
    assert "global batch" not in told["detail"]


def test_degrees_of_experts_on_a_dense_model_are_refused_everywhere(client):
    wrong = {"ep": 2, "etp": 2}
    for told, part in (
        (evaluate(client, wrong), "layout"),
        (client.post("/v1/search", json=GOOD | {"constraints": wrong}), "constraints"),
    ):
        faults = check_problem(told, 422)["faults"]
        assert [fault["field"] for fault in faults] == [f"/{part}/ep", f"/{part}/etp"]
        assert all("no experts" in fault["reason"] for fault in faults)
