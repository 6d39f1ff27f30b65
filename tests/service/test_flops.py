"""What a token costs, told with every architecture for the sequence length asked for."""

import pytest

from models import catalogue
from models.cost.flops import token_flops
from tests.service.shapes import check_problem

FIELDS = {
    "matmul_forward_flops": "matmul_forward",
    "attention_causal_forward_flops": "attention_causal_forward",
    "attention_whole_forward_flops": "attention_whole_forward",
    "training_causal_flops": "training_causal",
    "training_whole_flops": "training_whole",
}


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v3", "mistral-7b"])
@pytest.mark.parametrize("length", [1, 4096, 131_072])
def test_the_flops_are_those_of_the_cost_model(client, name, length):
    answer = client.get(f"/v1/models/{name}", params={"sequence_length": length})
    told, reckoned = (
        answer.raise_for_status().json()["flops_per_token"],
        token_flops(catalogue.architecture(name), length),
    )
    assert told == {"sequence_length": length} | {f: getattr(reckoned, ours) for f, ours in FIELDS.items()}


def test_deepseek_v3_takes_the_250_gflop_a_token_that_are_published(client):
    told = client.get("/v1/models/deepseek-v3").json()["flops_per_token"]
    assert told["training_causal_flops"] / 1e9 == pytest.approx(250, rel=0.005)


def test_a_length_that_is_not_stated_is_told_as_assumed(client):
    told = client.get("/v1/models/gpt2").json()
    assert told["assumptions"] == [{"field": "sequence_length", "value": 4096, "why": "default"}]
    assert client.get("/v1/models/gpt2?sequence_length=4096").json()["assumptions"] == []


def test_the_list_takes_a_length_too(client):
    listed = client.get("/v1/models?sequence_length=8192").raise_for_status().json()["models"]
    assert {entry["flops_per_token"]["sequence_length"] for entry in listed} == {8192}


def test_both_kinds_of_layer_of_a_mixture_of_experts_are_counted_by_part(client):
    counts = client.get("/v1/models/deepseek-v3").json()["parameters"]
    dense, sparse = counts["dense_layer"], counts["sparse_layer"]
    for layer in (dense, sparse):
        parts = sum(layer[part] for part in ("attention", "mlp", "router", "norms", "experts"))
        assert parts == layer["sharded"] + layer["replicated"] + layer["experts"]
    ends = ("embedding", "embedding_norm", "positions", "head", "final_norm", "buffers")
    layers = sum(
        n * sum(layer[part] for part in ("attention", "mlp", "router", "norms", "experts"))
        for n, layer in ((counts["dense_layers"], dense), (counts["sparse_layers"], sparse))
    )
    assert counts["total"] == layers + sum(counts[end] for end in ends)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/llama-3-8b"])
@pytest.mark.parametrize("length", ["0", "-1", "16777217", "9" * 500, "4k", "1.5", "", "NaN", "\u0664"])
def test_a_length_that_makes_no_sense_is_refused(client, path, length):
    told = check_problem(client.get(path, params={"sequence_length": length}), 422)
    assert [fault["field"] for fault in told["faults"]] == ["sequence_length"]


def test_a_misspelt_parameter_is_not_ignored(client):
    told = check_problem(client.get("/v1/models/llama-3-8b?sequence_lenght=8192"), 422)
    assert "'sequence_length'" in told["faults"][0]["fix"]
