"""A config.json becomes an architecture, told as the catalogue tells one; or every fault is told."""

import json
import tomllib

import pytest

from tests.service.conftest import ROOT
from tests.service.shapes import GOOD, check_problem

PATH = "/v1/models/import"
GOLDEN = tomllib.loads((ROOT / "tests" / "golden" / "parameter_totals.toml").read_text())["rows"]
PUBLISHED = {row["catalogue"]: row for row in GOLDEN if "catalogue" in row}
FAMILIES = {row["config"]["model_type"] for row in PUBLISHED.values()}
EXAMPLES = ROOT / "openapi" / "examples"
DEEPSEEK_V3 = json.loads((EXAMPLES / "import-deepseek-v3.json").read_text())["hf_config"]
SMALL = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
VISION = {
    "model_type": "internvl_chat",
    "vision_config": {"model_type": "intern_vit_6b", "hidden_size": 3200, "num_attention_heads": 25},
    "llm_config": SMALL | {"model_type": "internlm2", "num_attention_heads": 48, "hidden_size": 6144},
}
"""InternVL2-26B's heads: 25 in the tower, 48 in the decoder."""


def imported(client, config, **parameters):
    answer = client.post(PATH, json={"hf_config": config}, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client, body, status=422, **parameters):
    told = check_problem(client.post(PATH, json=body, params=parameters), status)
    return {fault["field"]: fault for fault in told["faults"]}


def test_more_than_eight_families_are_compared_with_the_catalogue():
    assert len(FAMILIES) > 8


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_imported_file_counts_what_the_catalogue_counts(client, name):
    told, known = imported(client, PUBLISHED[name]["config"]), client.get(f"/v1/models/{name}").json()
    assert told["parameters"] == known["parameters"]
    assert told["parameters"]["total"] == PUBLISHED[name]["total"]
    assert told["flops_per_token"] == known["flops_per_token"]


def test_an_import_is_told_as_the_catalogue_tells_an_entry_with_warnings_beside(client):
    told, known = imported(client, SMALL), client.get("/v1/models/llama-3-8b").json()
    assert set(told) == set(known) | {"warnings"}
    assert told["sources"] == {"all": "the hf_config of the request"}


def test_an_imported_file_finds_the_shortlist_of_the_name_it_is_known_by(client):
    question = json.loads((EXAMPLES / "deepseek-v3-2048-h800.json").read_text())
    inline = question | {"model": {"hf_config": DEEPSEEK_V3}}
    assert imported(client, DEEPSEEK_V3)["parameters"]["total"] == 671_026_419_200
    by_file, by_name = (
        client.post("/v1/search", json=q).raise_for_status().json() for q in (inline, question)
    )
    assert by_file["shortlist"]
    assert by_file["shortlist"] == by_name["shortlist"]


def test_a_file_sent_twice_is_answered_with_the_same_bytes(client):
    first, second = (client.post(PATH, json={"hf_config": DEEPSEEK_V3}).content for _ in range(2))
    assert first == second


def test_a_vision_tower_is_warned_of_with_the_tp_its_heads_would_allow(client):
    warnings = imported(client, VISION)["warnings"]
    assert any("vision_config is not modelled" in w and "divide by 1, 5, 25" in w for w in warnings)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("rope_scaling", {"type": "yarn", "factor": 40}, "rope_scaling (yarn)"),
        ("rope_scaling", {"rope_type": "llama3", "factor": 8.0}, "rope_scaling (llama3)"),
        ("rope_parameters", {"full_attention": {"rope_type": "linear"}}, "rope_parameters (linear)"),
        ("quantization_config", {"quant_method": "fp8"}, "quantization_config (fp8)"),
        ("quantization_config", "fp8", "quantization_config is not modelled"),
        ("num_nextn_predict_layers", 1, "Multi-token prediction"),
        ("attn_logit_softcapping", 50.0, "attn_logit_softcapping"),
        ("attention_dropout", 0.1, "attention_dropout"),
        ("mm_vision_tower", "openai/clip-vit-large-patch14-336", "mm_vision_tower"),
    ],
)
def test_what_is_not_modelled_is_warned_of(client, field, value, words):
    assert imported(client, SMALL)["warnings"] == []
    (warning,) = imported(client, SMALL | {field: value})["warnings"]
    assert words in warning


@pytest.mark.parametrize(
    "held", [{"rope_type": "default", "rope_theta": 1e4}, None, [], "yarn", {"type": []}]
)
def test_rotary_positions_that_are_not_scaled_are_not_warned_of(client, held):
    assert imported(client, SMALL | {"rope_scaling": held, "rope_parameters": held})["warnings"] == []


def test_what_is_not_modelled_is_warned_of_inside_a_nested_decoder(client):
    inner = VISION["llm_config"] | {"rope_scaling": {"type": "dynamic", "factor": 2.0}}
    warnings = imported(client, VISION | {"llm_config": inner})["warnings"]
    assert any("rope_scaling (dynamic)" in warning for warning in warnings)


def test_what_the_file_leaves_to_its_family_is_told(client):
    told = imported(client, SMALL)["assumptions"]
    assert {
        "field": "/hf_config/num_key_value_heads",
        "value": 4,
        "why": "as many as num_attention_heads",
    } in told
    assert {"field": "sequence_length", "value": 4096, "why": "default"} in told


def test_missing_key_value_heads_are_as_many_as_heads(client):
    stated = imported(client, SMALL | {"num_key_value_heads": 4})
    assert imported(client, SMALL)["parameters"] == stated["parameters"]


def test_a_stated_head_size_counts_where_it_is_not_the_width_over_the_heads(client):
    wide = SMALL | {"hidden_size": 6144, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128}
    told = imported(client, wide)
    assert told["architecture"]["head_size"] == 128
    assert told["parameters"]["dense_layer"]["attention"] == 6144 * (64 + 2 * 8) * 128 + 64 * 128 * 6144


def test_all_faults_of_a_file_of_what_stands_beside_it_and_of_the_parameters_are_told_at_once(client):
    config = SMALL | {
        "hidden_size": "64",
        "num_hidden_layers": None,
        "vocab_size": 1.5,
        "num_attention_heads": [],
    }
    faults = refused(client, {"hf_config": config, "model": "x"}, sequence_length="0")
    assert set(faults) == {
        "/hf_config/hidden_size",
        "/hf_config/num_hidden_layers",
        "/hf_config/vocab_size",
        "/hf_config/num_attention_heads",
        "/model",
        "sequence_length",
    }
    assert faults["/hf_config/hidden_size"]["fix"] == "Try 64."


def test_faults_of_a_nested_decoder_point_into_it(client):
    broken = VISION | {"llm_config": VISION["llm_config"] | {"vocab_size": 0}}
    assert set(refused(client, {"hf_config": broken})) == {"/hf_config/llm_config/vocab_size"}


@pytest.mark.parametrize("config", [None, [], "llama-3-8b", 1, True])
def test_a_file_that_is_no_object_is_refused(client, config):
    assert set(refused(client, {"hf_config": config})) == {"/hf_config"}


def test_a_misspelt_hf_config_is_told_with_the_name_that_was_meant(client):
    faults = refused(client, {"hf_confg": SMALL})
    assert "'hf_confg'" in faults["/hf_config"]["fix"]
    assert "'hf_config'" in faults["/hf_confg"]["fix"]


@pytest.mark.parametrize("kind", ["mamba", "bert", "lama", 5])
def test_a_family_whose_layers_we_do_not_know_is_refused_by_name(client, kind):
    assert "/hf_config/model_type" in refused(client, {"hf_config": SMALL | {"model_type": kind}})


@pytest.mark.parametrize("field", [key for key in SMALL if key != "model_type"])
@pytest.mark.parametrize("value", [None, "64", -1, 0, 1.5, 10**300, 1e300, True, [], {}, {"a": [[[]]]}])
def test_what_is_no_sane_number_is_refused_at_its_field(client, field, value):
    assert f"/hf_config/{field}" in refused(client, {"hf_config": SMALL | {field: value}})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_not_json(client, number):
    body = f'{{"hf_config": {{"hidden_size": {number}}}}}'
    answer = client.post(PATH, content=body, headers={"Content-Type": "application/json"})
    check_problem(answer, 400)


def test_a_file_of_five_megabytes_is_told_the_most_that_is_read(client):
    answer = client.post(PATH, json={"hf_config": SMALL | {"vocabulary": "x" * 5_000_000}})
    assert "larger than 4000000 bytes" in check_problem(answer, 413)["detail"]


def test_a_file_of_very_many_fields_is_refused_short_and_soon(client):
    for config in ({f"hidden_siz{i}": i for i in range(900)}, {f"k{i}": i for i in range(20_000)}):
        answer = client.post(PATH, json={"hf_config": config})
        check_problem(answer, 422)
        assert answer.elapsed.total_seconds() < 5


@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS"])
def test_another_method_is_405_and_tells_the_right_one(client, method):
    answer = client.request(method, PATH)
    assert answer.headers["allow"] == "POST"
    assert check_problem(answer, 405)["faults"][0]["fix"] == "Use POST."


def test_a_question_to_search_is_not_taken_for_an_import(client):
    assert set(refused(client, GOOD)) == {"/hf_config", *(f"/{field}" for field in GOOD)}


LADEN = SMALL | {
    "max_position_embeddings": 1024,
    "rope_scaling": {"rope_type": "yarn", "factor": 40},
    "quantization_config": {"quant_method": "fp8"},
    "num_nextn_predict_layers": 1,
    "attention_dropout": 0.1,
    "vision_config": VISION["vision_config"],
}
"""A file that says much of what is not modelled."""
ASKED = {"workload": {"sequence_length": 4096, "global_batch": 64}, "gpus": 8}
TWO_QUESTIONS = (("/v1/search", {"top_k": 1}), ("/v1/evaluate", {"layout": {}}))


@pytest.mark.parametrize(("path", "more"), TWO_QUESTIONS)
@pytest.mark.parametrize("config", [LADEN, VISION | {"llm_config": LADEN}])
def test_a_question_warns_once_of_all_that_an_import_of_its_file_warns_of(client, path, more, config):
    question = GOOD | ASKED | more | {"model": {"hf_config": config}}
    told = client.post(path, json=question).raise_for_status().json()["warnings"]
    known = imported(client, config)["warnings"]
    assert len(known) == 6
    assert set(known) <= set(told)
    assert len(told) == len(set(told))


def test_a_question_warns_of_a_model_stated_by_its_fields_too(client):
    question = GOOD | ASKED | {"model": LADEN, "top_k": 1}
    told = client.post("/v1/search", json=question).raise_for_status().json()["warnings"]
    assert set(imported(client, LADEN)["warnings"]) <= set(told)


@pytest.mark.parametrize("reckoned", [False, True])
def test_a_prediction_that_is_reckoned_with_is_not_said_to_be_left_out(client, reckoned):
    model = {"hf_config": SMALL | {"num_nextn_predict_layers": 1}}
    question = GOOD | ASKED | {"model": model, "layout": {}, "stack": {"mtp": reckoned}}
    warnings = client.post("/v1/evaluate", json=question).raise_for_status().json()["warnings"]
    assert any("Multi-token prediction" in warning for warning in warnings) is not reckoned


@pytest.mark.parametrize(("length", "warned"), [(None, True), (1025, True), (1024, False)])
def test_an_import_warns_of_a_sequence_longer_than_the_model_was_made_for(client, length, warned):
    parameters = {} if length is None else {"sequence_length": length}
    warnings = imported(client, SMALL | {"max_position_embeddings": 1024}, **parameters)["warnings"]
    said = [f"A sequence of {length or 4096} tokens is longer than the 1024 llama was made for."]
    assert warnings == (said if warned else [])
