"""A layout's traffic over HTTP: the evaluation's question and faults, matrices or pictures."""

import re

import pytest

from models.cost.traffic.matrix import MOST_CELLS
from models.traffic_matrix import TrafficAnswer
from service.heat_map import heat_map
from tests.service.shapes import check_problem

QUESTION = {
    "model": "llama-3-8b",
    "cluster": "dgx-h100",
    "gpus": 64,
    "workload": {"sequence_length": 8192, "global_batch": 64},
    "layout": {"tp": 8, "pp": 2, "dp": 4},
}
"""Three servers' worth of each dimension but CP and EP."""


def ask(client, path="/v1/traffic", accept=None, **changes):
    return client.post(path, json=QUESTION | changes, headers={"Accept": accept} if accept else {})


def test_a_dimension_s_busiest_row_is_what_an_evaluation_tells(client):
    told, priced = ask(client).json(), ask(client, "/v1/evaluate").json()["candidate"]
    rows = {(one["dimension"], one["operation"]): max(one["sent_bytes"]) for one in told["dimensions"]}
    sent = {(one["dimension"], one["operation"]): one["sent_bytes_per_gpu"] for one in priced["traffic"]}
    assert rows == sent
    assert told["layout"] == priced["layout"]


def test_cells_say_from_and_to_and_add_up(client):
    told = ask(client, level="node").json()
    assert told["unit"] == {"kind": "node", "count": 1, "gpus": 8}
    for one in (*told["dimensions"], told["sum"]):
        rows = [0] * len(told["units"])
        for cell in one["cells"]:
            assert set(cell) == {"from", "to", "bytes"}
            rows[cell["from"]] += cell["bytes"]
        assert rows == one["sent_bytes"]
    assert told["sum"]["nodes"]["equal_local_rank_pairs"] == 1.0


def test_the_level_left_out_is_gpu_and_told(client):
    told = ask(client).json()
    assert told["level"] == "gpu"
    assert {"field": "/level", "value": "gpu", "why": "default"} in told["assumptions"]
    stated = ask(client, level="gpu").json()
    assert all(one["field"] != "/level" for one in stated["assumptions"])
    assert stated["dimensions"] == told["dimensions"]


def test_how_bytes_are_spread_is_told(client):
    assert "evenly" in ask(client).json()["spread"]


def test_a_layout_that_breaks_a_rule_is_drawn_and_the_rule_told(client):
    told = ask(client, layout={"tp": 1, "pp": 2, "dp": 32, "zero": 3}).json()
    assert [rule["rule"] for rule in told["broken_rules"]] == ["pipeline_keeps_weights"]
    assert told["sum"]["cells"]


@pytest.mark.parametrize(
    "changes",
    [
        {"layout": {"tp": 8, "pp": 3, "dp": 4}},
        {"layout": {"tp": 5}},
        {"layout": {"ep": 2}},
        {"layout": {"tp": 8, "pp": 2, "dp": 4, "rank_order": ["tp", "tp", "cp", "ep", "dp"]}},
        {"model": "no-such", "gpus": 0},
        {"workload": {"sequence_length": 8192}},
        {"gpus": 1_048_577},
        {"framework": "megatron"},
        {"cluster": {"gpu": "h100-sxm", "tiers": []}},
    ],
    ids=str,
)
def test_what_an_evaluation_refuses_is_refused_with_the_same_faults(client, changes):
    told = check_problem(ask(client, **changes), 422)
    assert told == check_problem(ask(client, "/v1/evaluate", **changes), 422)


@pytest.mark.parametrize("level", ["rack", "", 1, None, ["gpu"], {"gpu": 1}, "GPU", "x" * 10_000])
def test_a_level_that_is_none_is_refused_where_it_stands(client, level):
    told = check_problem(ask(client, level=level), 422)
    assert [fault["field"] for fault in told["faults"]] == ["/level"]
    assert "'node'" in told["faults"][0]["fix"] + told["faults"][0]["reason"]


def test_a_bad_level_and_a_bad_model_are_told_at_once(client):
    told = check_problem(ask(client, level="rack", model="llama-3-8c"), 422)
    assert {fault["field"] for fault in told["faults"]} == {"/level", "/model"}


def test_constraints_of_a_search_are_refused_by_name(client):
    told = check_problem(ask(client, constraints={"tp": 8}), 422)
    assert [fault["field"] for fault in told["faults"]] == ["/constraints"]


@pytest.mark.parametrize(
    ("gpus", "layout"),
    [
        (1_048_576, {"tp": 8, "pp": 8, "dp": 16384}),
        (1_000_000, {"dp": 1_000_000, "zero": 3}),
        (100_000, {"tp": 5, "pp": 16, "cp": 2, "dp": 625, "rank_order": ["pp", "cp", "tp", "dp", "ep"]}),
    ],
)
def test_the_largest_jobs_are_answered_in_few_cells(client, gpus, layout):
    batch = layout["dp"]
    answer = ask(client, gpus=gpus, layout=layout, workload={"sequence_length": 128, "global_batch": batch})
    told = answer.raise_for_status().json()
    assert told["aggregated"]
    assert sum(len(one["cells"]) for one in (*told["dimensions"], told["sum"])) <= MOST_CELLS
    assert len(answer.content) < 5_000_000


@pytest.mark.parametrize(("node", "domain"), [(1, 8), (3, 3), (4, 8), (4, 72), (72, 72), (1000, 1000)])
def test_a_node_of_any_size_is_a_row(client, node, domain):
    tiers = [
        {"name": "nvlink", "gpus": domain, "bandwidth_bytes_per_s": 4e11},
        {"name": "network", "bandwidth_bytes_per_s": 5e10},
    ]
    cluster = {"gpu": "h100-sxm", "tiers": tiers, "gpus_per_node": node}
    told = ask(client, cluster=cluster, level="node").raise_for_status().json()
    assert told["unit"]["gpus"] == node
    assert len(told["units"]) == -(-64 // node)
    assert told["units"][-1]["last_rank"] == 63


def test_the_same_question_has_the_same_bytes_in_every_form(client):
    for accept in ("application/json", "image/svg+xml", "image/png"):
        first, second = ask(client, accept=accept), ask(client, accept=accept)
        assert first.headers["content-type"] == accept
        assert first.headers["vary"] == "Accept"
        assert first.content == second.content


def test_a_picture_shows_the_sum_and_each_dimension(client):
    drawn = ask(client, accept="image/svg+xml").text
    said = re.findall(r">([^<>]+)</text>", drawn)
    for title in ("all dimensions", "tp: reduce_scatter+all_gather", "pp: send_receive"):
        assert any(title in text for text in said)
    assert any("TP8 CP1 PP2 DP4" in text for text in said)
    assert ask(client, accept="image/png").content.startswith(b"\x89PNG")


@pytest.mark.parametrize("level", ["gpu", "node"])
def test_a_picture_ends_with_the_job_s_last_rank_not_with_its_last_server(client, level):
    """36 GPUs fill four servers of eight and half of a fifth."""
    part = {"gpus": 36, "layout": {"tp": 2, "pp": 2, "dp": 9}, "level": level}
    sized = {"workload": {"sequence_length": 8192, "global_batch": 72}}
    told = TrafficAnswer.model_validate(ask(client, **part, **sized).raise_for_status().json())
    panels = [axes for axes in heat_map(told).axes if axes.get_xlabel() == "receiving rank"]
    assert len(panels) == 1 + len(told.dimensions)
    for axes in panels:
        assert axes.get_xlim() == (0, 36)
        assert axes.get_ylim() == (36, 0)


def test_a_job_that_sends_nothing_is_drawn_too(client):
    one = {"gpus": 1, "layout": {}, "model": "llama-3.2-1b"}
    assert ask(client, accept="image/png", **one).raise_for_status().content.startswith(b"\x89PNG")
    assert ask(client, **one).json()["sum"]["cells"] == []


@pytest.mark.parametrize("accept", ["text/html", "image/gif", "application/json;q=0"])
def test_a_form_it_does_not_come_in_is_406(client, accept):
    told = check_problem(ask(client, accept=accept), 406)
    assert "image/svg+xml" in told["faults"][0]["fix"]
