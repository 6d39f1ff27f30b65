"""What the flags say of the question, and what they cannot say twice."""

import json

import pytest

from models.errors import InvalidField
from models.estimate import EvaluateAnswer, SearchAnswer
from service import flags
from service.openapi import VERSION
from tests.service.test_cli import SMALL, run

MORE = ["--precision", "fp16", "--optimizer", "sgd", "--gradient-dtype", "fp16"]
MORE += [
    "--gradient-reduce-dtype",
    "fp16",
    "--stack",
    "fused_loss=true",
    "--stack",
    "attention-kernel=flash3",
]


def faults_of(read, *arguments):
    with pytest.raises(InvalidField) as error:
        read(*arguments)
    return [(fault.field, fault.value) for fault in error.value.faults]


def test_the_version_is_told():
    ran = run("--version")
    assert (ran.returncode, ran.stdout) == (0, f"layout-search {VERSION}\n")


@pytest.mark.parametrize(
    ("command", "schema"),
    [(["search"], SearchAnswer), (["evaluate", "--layout", "tp=8"], EvaluateAnswer)],
)
def test_flags_say_more_of_the_workload_and_the_software(command, schema):
    ran = run(*command, *SMALL, *MORE, "--json")
    assert ran.returncode == 0, ran.stderr
    assumed = {assumption.field for assumption in schema.model_validate_json(ran.stdout).assumptions}
    said = {"precision", "optimizer", "gradient_dtype", "gradient_reduce_dtype"}
    assert not assumed & {f"/workload/{name}" for name in said}
    assert not assumed & {"/stack/fused_loss", "/stack/attention_kernel"}
    assert "/stack/dropout" in assumed


def test_flags_of_the_software_lie_over_the_request(tmp_path):
    path = tmp_path / "request.json"
    body = {"model": "llama-3-8b", "cluster": "dgx-h100", "gpus": 16, "stack": {"dropout": True, "no": 1}}
    path.write_text(json.dumps(body))
    ran = run(
        "search", "--request", str(path), *SMALL, "--stack", "dropout=false", "--stack", "mtp=2", "--json"
    )
    fields = {fault["field"]: fault["value"] for fault in json.loads(ran.stdout)["faults"]}
    assert fields == {"/stack/no": 1, "/stack/mtp": 2}


@pytest.mark.parametrize("texts", [["tp=8,tp=4"], ["tp=8", "tp=4"], ["micro-batch=1,micro_batch=1"]])
def test_a_knob_said_twice_in_a_layout_is_refused(texts):
    ((field, value),) = faults_of(flags.layout, texts)
    assert field == "--layout"
    assert value == texts[-1].split(",")[-1]


@pytest.mark.parametrize("texts", [["tp=8", "tp=8"], ["tp=8", "tp=..4"], ["zero=1", "tp=2", "zero=2"]])
def test_a_knob_set_twice_is_refused(texts):
    assert faults_of(flags.constraints, texts, None) == [("--set", texts[-1])]


def test_a_limit_set_by_two_flags_is_refused_and_by_either_kept():
    assert faults_of(flags.constraints, ["memory_limit_bytes=4"], 3) == [
        ("--memory-limit-bytes", "memory_limit_bytes=3")
    ]
    assert flags.constraints(["memory_limit_bytes=4"], None) == {"memory_limit_bytes": 4}
    assert flags.constraints([], 3) == {"memory_limit_bytes": 3}


def test_software_said_twice_is_refused():
    assert faults_of(flags.values, ["mtp=true", "mtp=false"], "--stack") == [("--stack", "mtp=false")]


def test_all_that_is_wrong_of_flags_is_told_at_once():
    wrong = ["tp", "=8", "pp=", "cp=..", "dp=1", "dp=2"]
    assert [value for _, value in faults_of(flags.constraints, wrong, None)] == [*wrong[:4], "dp=2"]


def test_a_range_with_its_ends_swapped_leaves_with_2():
    ran = run("search", *SMALL, "--set", "tp=8..1")
    assert ran.returncode == 2
    assert ran.stderr.startswith("/constraints/tp = {'min': 8, 'max': 1}: min 8 is above max 1.")


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("tp=2,stage_layers=7,8,8,pp=3", "Write --layout stage_layers=7-8-8."),
        ("rank_order=tp,cp,ep,dp,pp", "Write --layout rank_order=tp-cp-ep-dp-pp."),
        ("recompute_modules=mlp,act", "Write --layout recompute_modules=mlp-act."),
    ],
)
def test_a_list_with_commas_in_a_layout_is_told_how_it_is_written(text, fix):
    with pytest.raises(InvalidField) as error:
        flags.layout([text])
    assert [fault.fix for fault in error.value.faults] == [fix]


def test_a_list_with_commas_after_set_is_told_how_it_is_written_and_alternatives_are_kept():
    assert faults_of(flags.constraints, ["rank_order=tp,cp,ep,dp,pp"], None)[0][0] == "--set"
    told = flags.constraints(["rank_order=tp-cp-ep-dp-pp,tp-cp-ep-pp-dp", "recompute-modules=mlp,act"], None)
    assert told == {
        "rank_order": [["tp", "cp", "ep", "dp", "pp"], ["tp", "cp", "ep", "pp", "dp"]],
        "recompute_modules": ["mlp", "act"],
    }


def test_help_shows_how_a_list_is_written():
    assert "stage_layers=7-8-8" in run("evaluate", "--help", COLUMNS="200").stdout


def test_a_key_said_twice_in_a_request_file_is_refused_where_it_stands():
    ran = run("search", "--request", "-", stdin='{"gpus": 8, "workload": {"x": 1, "x": 2}, "gpus": 8}')
    assert ran.returncode == 2
    assert [line.split(": ")[1] for line in ran.stderr.splitlines()] == [
        "at /gpus, the key 'gpus' stands 2 times. Keep one.",
        "at /workload/x, the key 'x' stands 2 times. Keep one.",
    ]
