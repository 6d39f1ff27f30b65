"""Clusters stated wrongly: every fault at its field, all at once, never an answer."""

import pytest

from tests.service.shapes import GOOD, check_problem

NVLINK = {"name": "nvlink", "gpus": 8, "bandwidth_bytes_per_s": 4.5e11}
SPINE = {"name": "spine", "bandwidth_bytes_per_s": 5e10}


def faults_of(client, tiers, **beside):
    cluster = {"gpu": "h100-sxm", "tiers": tiers} | beside
    answer = client.post("/v1/search", json=GOOD | {"cluster": cluster, "top_k": 1})
    return {fault["field"]: fault for fault in check_problem(answer, 422)["faults"]}


@pytest.mark.parametrize("tiers", [[], [NVLINK] * 100, None, "nvlink", {"0": NVLINK}])
def test_tiers_that_are_none_or_a_hundred_are_refused_as_a_whole(client, tiers):
    assert set(faults_of(client, tiers)) == {"/cluster/tiers"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("bandwidth_bytes_per_s", value) for value in (0, -1.0, 1e40, "5e10", None, True)),
        *(("latency_s", value) for value in (-1e-6, 1e9, "fast")),
        *(("oversubscription", value) for value in (0.5, 0, -4, 1e9)),
        *(("gpus", value) for value in (0, -8, 8.5, 10**12)),
        *(("rails", value) for value in (0, -8, 2.5, "8")),
        *(("collective", value) for value in ("", 7, "x" * 65)),
        *(("name", value) for value in ("", 7, None)),
    ],
)
def test_a_value_no_tier_can_have_is_told_at_its_field(client, field, value):
    found = faults_of(client, [NVLINK | {field: value}, SPINE])
    assert set(found) == {f"/cluster/tiers/0/{field}"}
    assert found[f"/cluster/tiers/0/{field}"]["fix"]


def test_bandwidth_that_is_not_a_number_is_no_json(client):
    text = '{"cluster": {"gpu": "h100-sxm", "tiers": [{"name": "n", "bandwidth_bytes_per_s": NaN}]}}'
    answer = client.post("/v1/search", content=text, headers={"content-type": "application/json"})
    check_problem(answer, 400)


def test_what_each_tier_has_wrong_is_told_at_once(client):
    tiers = [NVLINK | {"rails": 2}, SPINE | {"gpus": 12}, SPINE | {"collective": "rocce", "rails": 3}]
    found = faults_of(client, tiers)
    assert set(found) == {
        "/cluster/tiers/0/rails",
        "/cluster/tiers/1/gpus",
        "/cluster/tiers/2/collective",
        "/cluster/tiers/2/name",
        "/cluster/tiers/2/rails",
    }
    assert found["/cluster/tiers/2/collective"]["fix"] == "Try 'roce'."


def test_a_part_filled_server_is_told_by_search_and_evaluation(client):
    asked = GOOD | {"cluster": "dgx-h100", "gpus": 12}
    asked["workload"] = GOOD["workload"] | {"global_batch": 12}
    for path, more in (("/v1/search", {"top_k": 1}), ("/v1/evaluate", {"layout": {"tp": 4}})):
        warnings = client.post(path, json=asked | more).json()["warnings"]
        assert any("4 of 8" in text for text in warnings)
