"""The command line as a shell sees it: what it prints where, and how it leaves."""

import json
import os
import subprocess
import sys

import pytest

from models.estimate import EvaluateAnswer, SearchAnswer
from tests.service.conftest import ROOT

EXAMPLES = ROOT / "openapi" / "examples"
SMALL = ["--model", "llama-3-8b", "--cluster", "dgx-h100", "--gpus", "16"]
SMALL += ["--sequence", "8192", "--global-batch", "64"]
BIG = [*SMALL[:5], "64", *SMALL[6:]]


def run(*arguments: str, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "service.cli", *arguments],
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
        check=False,
    )


def test_a_search_prints_a_table_and_leaves_with_0():
    ran = run("search", *SMALL, "--top", "3")
    assert ran.returncode == 0, ran.stderr
    assert "MFU" in ran.stdout
    assert "layouts enumerated" in ran.stdout
    assert "Assumed:" in ran.stdout
    assert "\x1b[" not in ran.stdout


def test_a_search_prints_how_busy_stages_keep_each_other_and_which_is_slowest():
    ran = run("search", *SMALL, "--set", "pp=1,4", "--top", "20", COLUMNS="400")
    heads, *_ = ran.stdout.splitlines()
    assert all(head in heads for head in ("fullest stage", "bubble", "imbalance", "slowest stage"))
    alone = run("search", *SMALL, "--set", "pp=1", COLUMNS="400")
    assert "bubble  " not in alone.stdout.splitlines()[0]


def test_an_evaluation_prints_which_stage_sets_the_pace_and_how_the_split_is_told():
    ran = run("evaluate", *SMALL, "--layout", "pp=4,stage_layers=9-8-8-7", COLUMNS="200")
    assert ran.returncode == 0, ran.stderr
    assert "sets the pace" in ran.stdout
    assert "layers of each chunk: 9-8-8-7:" in ran.stdout
    given = "--decoder-first-pipeline-num-layers 9 --decoder-last-pipeline-num-layers 7"
    assert f"megatron, ends given: {given}" in ran.stdout
    assert "megatron, layout: --pipeline-model-parallel-layout 'Et*9|(t*8|)*2t*7L'" in ran.stdout


def test_a_search_prints_the_same_json_as_the_api(client):
    ran = run("search", *SMALL, "--top", "3", "--json")
    assert ran.returncode == 0, ran.stderr
    body = {
        "model": "llama-3-8b",
        "cluster": "dgx-h100",
        "gpus": 16,
        "workload": {"sequence_length": 8192, "global_batch": 64},
        "top_k": 3,
    }
    printed, sent = json.loads(ran.stdout), client.post("/v1/search", json=body).raise_for_status().json()
    for told in (printed, sent):
        del told["space"]["wall_s"]
    assert printed == sent


def test_flags_hold_knobs():
    ran = run("search", *SMALL, "--set", "tp=2", "--set", "pp=1,2", "--set", "micro_batch=..2", "--json")
    assert ran.returncode == 0, ran.stderr
    answer = SearchAnswer.model_validate_json(ran.stdout)
    for row in answer.shortlist:
        assert row.layout.tp == 2
        assert row.layout.pp in (1, 2)
        assert row.layout.micro_batch <= 2


def test_a_search_that_nothing_fits_leaves_with_3_and_says_why():
    ran = run("search", "--request", str(EXAMPLES / "none-fits-405b-64-h100.json"))
    assert ran.returncode == 3, ran.stderr
    assert "No layout fits" in ran.stdout
    assert "Closest" in ran.stdout
    assert "bytes" in ran.stdout


def test_a_request_comes_from_stdin_and_flags_override_it():
    request = (EXAMPLES / "inline-model-and-cluster.json").read_text()
    ran = run("search", "--request", "-", "--gpus", "32", "--top", "1", "--json", stdin=request)
    assert ran.returncode == 0, ran.stderr
    answer = SearchAnswer.model_validate_json(ran.stdout)
    assert len(answer.shortlist) == 1
    assert answer.shortlist[0].layout.gpus == 32


def test_a_model_comes_from_a_config_json(tmp_path):
    request = json.loads((EXAMPLES / "inline-model-and-cluster.json").read_text())
    path = tmp_path / "config.json"
    path.write_text(json.dumps(request["model"]["hf_config"]))
    ran = run("search", "--model", str(path), *SMALL[2:], "--top", "1", "--json")
    assert ran.returncode == 0, ran.stderr
    assert SearchAnswer.model_validate_json(ran.stdout).outcome == "found"


def test_an_evaluation_prints_parts_stages_and_traffic():
    ran = run("evaluate", *SMALL, "--layout", "tp=2,pp=2,dp=4,rank_order=tp-cp-ep-dp-pp")
    assert ran.returncode == 0, ran.stderr
    for word in ("tp=2", "compute", "weights GB", "traffic", "fits"):
        assert word in ran.stdout


def test_an_evaluation_prints_what_crosses_each_tier_and_the_busiest_server():
    ran = run("evaluate", *BIG, "--layout", "tp=2,pp=2,dp=16")
    answer = EvaluateAnswer.model_validate_json(
        run("evaluate", *BIG, "--layout", "tp=2,pp=2,dp=16", "--json").stdout
    )
    cells = [line.split() for line in ran.stdout.splitlines()]
    assert ["tier", "sent", "GB/GPU", "utilisation", "waited", "s", "of", "the", "step"] in cells
    for tier in answer.candidate.tiers:
        (row,) = (row for row in cells if row[:1] == [tier.tier])
        assert row[1:3] == [f"{tier.sent_bytes_per_gpu / 1e9:.2f}", f"{tier.utilisation:.1%}"]
        assert row[3:] == [f"{tier.waiting_s:.4f}", f"{tier.waiting_share:.1%}"]
    sent = answer.candidate.busiest_node_sent_bytes / 1e9
    assert f"busiest server: {answer.candidate.busiest_node}, {sent:.1f} GB a step" in ran.stdout


def test_an_evaluation_inside_one_server_names_no_busiest_one():
    ran = run("evaluate", *SMALL[:5], "8", *SMALL[6:], "--layout", "tp=2,pp=2,dp=2")
    assert ran.returncode == 0, ran.stderr
    assert "busiest server" not in ran.stdout


def test_a_search_prints_how_close_the_other_rank_orders_of_the_first_place_come():
    asked = ["search", *BIG[:5], "256", *BIG[6:], "--set", "pp=4", "--set", "tp=2", "--top", "2"]
    ran, answer = run(*asked), SearchAnswer.model_validate_json(run(*asked, "--json").stdout)
    first = answer.shortlist[0]
    assert first.other_orders
    lines = ran.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("#1 under "))
    orders = [first.layout.rank_order, *(one.rank_order for one in first.other_orders)]
    steps = [first.step_time_s, *(one.step_time_s for one in first.other_orders)]
    tiers = [first.tiers, *(one.tiers for one in first.other_orders)]
    for line, order, step, loads in zip(lines[start:], orders, steps, tiers, strict=False):
        sent = ", ".join(f"{load.tier} {load.sent_bytes_per_gpu / 1e9:.1f}" for load in loads)
        assert line.strip().removeprefix("#1 ") == f"under {'-'.join(order)}: {step:.3f} s, GB/GPU {sent}"
    assert "#2 under" not in ran.stdout


def test_an_evaluation_of_an_order_no_launcher_starts_prints_the_hosts_that_do():
    order = "tp-dp-ep-cp-pp"
    ran = run("evaluate", *BIG, "--layout", f"tp=8,cp=2,pp=2,dp=2,rank_order={order}")
    assert ran.returncode == 0, ran.stderr
    words = " ".join(ran.stdout.split())
    assert f"No stock launcher starts the rank order {order} by itself." in words
    assert "Launch the stock rank order tp-cp-ep-dp-pp with hosts 0, 2, 1, 3, 4, 6, 5, 7" in words


def test_a_search_over_every_order_says_how_each_place_starts_and_what_ties():
    ran = run("search", *SMALL, "--set", "rank_order=dp-tp-cp-ep-pp", "--top", "50")
    assert ran.returncode == 0, ran.stderr
    assert "starts with" in ran.stdout
    assert "stock order" in ran.stdout
    assert "hosts and GPUs reordered" in ran.stdout
    plain = run("search", *BIG, "--set", "tp=8")
    assert "starts with" not in plain.stdout
    assert "the same time under tp-cp-ep-pp-dp" in " ".join(plain.stdout.split())


def test_an_evaluation_prints_json():
    ran = run("evaluate", *SMALL, "--layout", "tp=2,pp=2", "--json")
    assert ran.returncode == 0, ran.stderr
    assert EvaluateAnswer.model_validate_json(ran.stdout).candidate.layout.tp == 2


@pytest.mark.parametrize("what", ["models", "gpus", "clusters"])
def test_catalogues_are_listed(what):
    ran = run(what)
    assert ran.returncode == 0, ran.stderr
    listed = json.loads(run(what, "--json").stdout)[what]
    assert all(entry["name"] in ran.stdout for entry in listed)


def test_clusters_are_listed_with_what_shares_a_tier_and_how_many_rails_it_has():
    ran = run("clusters")
    assert "core all at 50/16" in ran.stdout
    assert "leaf 256 at 50 on 8 rails" in ran.stdout


def test_one_entry_is_listed_with_its_sources():
    ran = run("gpus", "h100-sxm")
    assert ran.returncode == 0, ran.stderr
    assert "memory_bytes" in ran.stdout or "all:" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["search", *SMALL, "--gpus", "0"], "/gpus = 0: "),
        (["search", *SMALL, "--model", "llama-3-8"], "/model = 'llama-3-8': "),
        (["search", *SMALL, "--set", "tpp=8"], "/constraints/tpp = 8: "),
        (["search", *SMALL, "--set", "tp"], "--set = 'tp': "),
        (["search", *SMALL, "--set", "tp=a..b"], "/constraints/tp/min = 'a': "),
        (["search", *SMALL, "--model", "no/such/config.json"], "--model = 'no/such/config.json': "),
        (["search", "--request", "/no/such.json"], "--request = '/no/such.json': "),
        (["search"], "/model: required"),
        (["evaluate", *SMALL, "--layout", "tp=0"], "/layout/tp = 0: "),
        (["evaluate", *SMALL, "--layout", "tpp=2"], "/layout/tpp = 2: "),
        (["models", "no-such-model"], "name = 'no-such-model': "),
    ],
)
def test_a_wrong_question_leaves_with_2_and_tells_each_fault_in_a_line(arguments, field):
    ran = run(*arguments)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert any(line.startswith(field) for line in ran.stderr.splitlines()), ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_wrong_question_in_json_prints_the_problem():
    ran = run("search", *SMALL, "--gpus", "0", "--json")
    assert ran.returncode == 2
    assert json.loads(ran.stdout)["faults"][0]["field"] == "/gpus"


@pytest.mark.parametrize(
    "arguments", [["search", "--no-such-flag"], ["no-such-command"], ["search", "--gpus", "x"]]
)
def test_a_wrong_flag_leaves_with_2(arguments):
    assert run(*arguments).returncode == 2


def test_the_description_is_written_where_asked(tmp_path):
    path = tmp_path / "openapi.json"
    assert run("openapi", "--output", str(path)).returncode == 0
    assert path.read_text() == run("openapi").stdout == (ROOT / "openapi" / "openapi.json").read_text()


@pytest.mark.parametrize("columns", ["40", "80", "300"])
def test_a_table_keeps_to_the_width_of_its_terminal(columns):
    ran = run("models", COLUMNS=columns)
    assert ran.returncode == 0, ran.stderr
    assert max(map(len, ran.stdout.splitlines())) <= int(columns)


def test_a_wrong_environment_leaves_with_2_and_names_the_variable():
    ran = run("serve", LAYOUT_SEARCH_PORT="99999", LAYOUT_SEARCH_LOG_LEVEL="loud")
    assert ran.returncode == 2
    assert "LAYOUT_SEARCH_PORT = '99999': above the most accepted, 65535" in ran.stderr
    assert "LAYOUT_SEARCH_LOG_LEVEL = 'loud': " in ran.stderr
