"""Every error has one shape, whatever raised it."""

import asyncio

import httpx
import pytest

from service import unbuilt
from service.app import create_app
from service.settings import Settings
from tests.service.shapes import GOOD, check_problem


def search(client, **changes):
    return client.post("/v1/search", json=GOOD | changes)


def faults_at(told: dict) -> dict:
    return {fault["field"]: fault for fault in told["faults"]}


def test_an_unknown_path_is_404_and_names_the_nearest(client):
    told = check_problem(client.get("/v1/serch"), 404)
    assert "/v1/search" in told["faults"][0]["fix"]


def test_a_path_of_the_contract_that_is_not_built_says_so(client):
    told = check_problem(client.post("/v1/review", json={}), 404)
    assert "not built yet" in told["detail"]


def test_a_wrong_method_is_405_and_tells_the_right_one(client):
    answer = client.get("/v1/search")
    told = check_problem(answer, 405)
    assert answer.headers["allow"] == "POST"
    assert "POST" in told["faults"][0]["fix"]


@pytest.mark.parametrize("family", ["models", "gpus", "clusters"])
def test_an_unknown_name_in_a_path_is_404(client, family):
    check_problem(client.get(f"/v1/{family}/no-such-thing"), 404)


@pytest.mark.parametrize(
    "name", ["..%2f..%2fpyproject", "%00", "%ff", "a" * 4000, "'; drop table", "<script>"]
)
def test_a_strange_name_in_a_path_is_404(client, name):
    check_problem(client.get(f"/v1/models/{name}"), 404)


def test_an_unknown_name_in_a_path_suggests_the_nearest(client):
    told = check_problem(client.get("/v1/gpus/h100-sxn"), 404)
    assert "h100-sxm" in told["faults"][0]["fix"]


def test_an_unknown_name_in_a_body_is_422_and_suggests_the_nearest(client):
    told = check_problem(search(client, model="llama-3.1-405"), 422)
    fault = faults_at(told)["/model"]
    assert fault["value"] == "llama-3.1-405"
    assert "llama-3.1-405b" in fault["fix"]


def test_an_unknown_field_is_refused_by_name_with_the_nearest_known(client):
    told = check_problem(search(client, constraints={"mico_batch": 1}), 422)
    assert "'micro_batch'" in faults_at(told)["/constraints/mico_batch"]["fix"]


def test_shape_and_meaning_are_told_at_once(client):
    told = check_problem(search(client, model="no-such", gpus=0, workload={"sequence_length": 8192}), 422)
    assert set(faults_at(told)) == {"/model", "/gpus", "/workload/global_batch"}


def test_a_union_is_one_fault_without_the_names_of_its_shapes(client):
    constraints = {"tp": "x", "pp": {"min": "a"}, "dp": [1, 0], "zero": 9, "ep": True}
    told = check_problem(search(client, constraints=constraints), 422)
    assert [fault["field"] for fault in told["faults"]] == [
        "/constraints/tp",
        "/constraints/pp/min",
        "/constraints/dp/1",
        "/constraints/ep",
        "/constraints/zero",
    ]


@pytest.mark.parametrize(
    ("value", "fix"), [(2.5, "Write 2 or 3."), (8.0, "Write 8."), ("8", "Write 8 without quotes.")]
)
def test_a_number_of_the_wrong_kind_is_told_how_to_write_it(client, value, fix):
    told = check_problem(search(client, gpus=value), 422)
    assert faults_at(told)["/gpus"]["fix"] == fix


@pytest.mark.parametrize(("value", "number"), [(0, "1"), (2**20 + 1, "1048576")])
def test_a_number_out_of_range_is_told_the_range(client, value, number):
    told = check_problem(search(client, gpus=value), 422)
    assert number in faults_at(told)["/gpus"]["reason"]


@pytest.mark.parametrize(
    ("name", "value"), [(name, v) for name, values in unbuilt.VALUES.items() for v in values]
)
def test_a_value_that_is_not_built_yet_is_refused_by_name(client, name, value):
    part = {"framework": None}.get(name, "workload")
    held = {**GOOD.get(part, {}), name: value} if part else value
    told = check_problem(search(client, **{part or name: held}), 422)
    assert "not built yet" in faults_at(told)[f"/{part}/{name}" if part else f"/{name}"]["reason"]


def test_a_missing_field_says_what_it_is_and_which_slip_it_may_be(client):
    told = check_problem(search(client, workload={"sequence_lenght": 8192, "global_batch": 64}), 422)
    faults = faults_at(told)
    assert "Tokens of one sequence" in faults["/workload/sequence_length"]["fix"]
    assert "'sequence_lenght'" in faults["/workload/sequence_length"]["fix"]
    assert "'sequence_length'" in faults["/workload/sequence_lenght"]["fix"]


def test_a_pointer_escapes_slashes_and_tildes(client):
    told = check_problem(search(client, constraints={"a/b~c": 1}), 422)
    assert "/constraints/a~1b~0c" in faults_at(told)


def test_a_huge_value_is_echoed_short(client):
    answer = search(client, model=["x" * 10_000] * 100)
    check_problem(answer, 422)
    assert len(answer.content) < 10_000


def test_ten_thousand_unknown_fields_are_answered_short_and_soon(client):
    answer = search(client, constraints={f"knob{i}": i for i in range(10_000)})
    told = check_problem(answer, 422)
    assert len(told["faults"]) <= 101
    assert answer.elapsed.total_seconds() < 5


@pytest.mark.parametrize(
    "order", [["tp", "cp"], [["tp"]], [], "tp-cp-ep-dp-pp", ["tp", "cp", "ep", "dp", "xx"]]
)
def test_a_bad_rank_order_points_at_itself(client, order):
    told = check_problem(search(client, constraints={"rank_order": order}), 422)
    assert all(fault["field"].startswith("/constraints/rank_order") for fault in told["faults"])


@pytest.mark.parametrize("order", [["tp", "cp"], [], ["tp", "cp", "ep", "dp", "pp", "tp"]])
def test_a_rank_order_of_another_length_is_told_the_rule_as_one_with_an_axis_twice_is(client, order):
    twice = ["tp", "tp", "ep", "dp", "pp"]
    rules = {"constraints": {"rank_order": order}}, {"constraints": {"rank_order": twice}}
    reasons = [check_problem(search(client, **rule), 422)["faults"][0] for rule in rules]
    assert reasons[0]["reason"] == reasons[1]["reason"]
    assert "each of tp, cp, ep, dp and pp once" in reasons[0]["reason"]
    assert reasons[0]["fix"] == reasons[1]["fix"]
    listed = search(client, constraints={"rank_order": [["tp", "cp", "ep", "dp", "pp"], ["tp", "cp"]]})
    (fault,) = check_problem(listed, 422)["faults"]
    assert fault["field"] == "/constraints/rank_order/1"
    assert fault["reason"] == reasons[0]["reason"]


def test_more_rank_orders_than_there_are_is_a_matter_of_the_list_not_of_an_order(client):
    orders = [["tp", "cp", "ep", "dp", "pp"]] * 121
    (fault,) = check_problem(search(client, constraints={"rank_order": orders}), 422)["faults"]
    assert fault["reason"] == "121 items, and at most 120 are read"


@pytest.mark.parametrize(
    ("field", "name", "meant"),
    [
        ("gpu", "h101", "h100-sxm"),
        ("gpu", "H100", "h100-sxm"),
        ("gpu", "xh100-sxm", "h100-sxm"),
        ("cluster", "gb200", "gb200-nvl72"),
        ("cluster", "h100", "h100-pcie"),
        ("model", "LLAMA-3-70B", "llama-3-70b"),
        ("model", "llama-3.1-404b", "llama-3.1-405b"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_one_that_begins_alike(client, field, name, meant):
    inline = {"gpu": name, "tiers": [{"name": "nvlink", "bandwidth_bytes_per_s": 4.5e11}]}
    body = {"cluster": inline} if field == "gpu" else {field: name}
    (fault,) = check_problem(search(client, **body), 422)["faults"]
    assert fault["fix"] == f"Try {meant!r}."


def test_what_nobody_foresaw_is_500_and_tells_nothing_of_the_inside():
    app = create_app(Settings())

    @app.get("/boom")
    def boom() -> None:
        raise RuntimeError("a secret of the inside")

    async def ask() -> httpx.Response:
        wire = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=wire, base_url="http://here") as client:
            return await client.get("/boom")

    answer = asyncio.run(ask())
    check_problem(answer, 500)
    assert "secret" not in answer.text
