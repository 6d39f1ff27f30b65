"""Published analytic facts come out of the cost model's public functions, each from its inputs alone."""

import pytest

from models.cost.flops import token_flops
from models.cost.network.routes import routes
from models.cost.published import flops_published
from models.cost.published.volumes import hybrid_sharded_sent
from models.cost.shards import rank_parameters
from models.cost.stages import stage_kinds
from models.cost.table import LayoutTable
from models.cost.traffic.data_traffic import dp_traffic
from tests.builders import layout, setting, workload
from tests.models.pipeline import as_published, splits_as_published
from tests.models.published import (
    activation_memory,
    collectives,
    context_and_experts,
    flops,
    zero,
)
from tests.models.published.facts import ENTRIES, assert_met, gpt, of_area, way

AREAS = {
    "activation_memory": activation_memory.WAYS,
    "zero": zero.WAYS,
    "context_and_expert_traffic": context_and_experts.WAYS,
    "params_flops": flops.WAYS,
    "collectives": collectives.WAYS,
    "pipeline_schedule_run": as_published.RUNS,
    "pipeline_analytic": as_published.FORMULAS,
    "stage_split": splits_as_published.SPLITS,
}


@pytest.mark.parametrize(
    ("area", "entry"),
    [(area, entry) for area in AREAS for entry in of_area(area)],
    ids=lambda value: value["id"] if isinstance(value, dict) else None,
)
def test_a_published_fact_is_met(area, entry):
    ways = AREAS[area]
    assert_met(entry, ways[way(entry, ways)](entry["inputs"]))


def test_no_published_fact_is_left_out():
    assert {entry["area"] for entry in ENTRIES} == set(AREAS)
    assert len({entry["id"] for entry in ENTRIES}) == len(ENTRIES)
    for area, ways in AREAS.items():
        assert {way(entry, ways) for entry in of_area(area)} == set(ways)


@pytest.mark.parametrize("layers", [48, 96])
def test_papers_and_the_product_count_the_same_flops_of_a_gpt(layers):
    """Not causal, as the papers reckon; Narayanan et al. run the layers' forward twice."""
    batch, sequence, hidden, vocabulary = 64, 2048, 12288, 51200
    token = token_flops(gpt(hidden, 96, layers, vocabulary=vocabulary), sequence)
    tokens, head = batch * sequence, 2 * hidden * vocabulary
    shape = (batch, sequence, layers, hidden, vocabulary)
    model = float(flops_published.korthikanti_model_flops(*shape))
    assert token.training_whole * tokens == pytest.approx(model)
    layer = token.matmul_forward - head + token.attention_whole_forward
    with_recompute = float(flops_published.narayanan_step_flops(*shape))
    assert (4 * layer + 3 * head) * tokens == pytest.approx(with_recompute)


def test_selective_recompute_repeats_a_third_of_what_the_paper_adds():
    """The paper adds attention's forward and backward; only its forward is run again."""
    sequence, hidden, layers = 2048, 12288, 96
    shape = (1, sequence, layers, hidden, 51200)
    added = float(
        flops_published.korthikanti_hardware_flops(*shape) - flops_published.korthikanti_model_flops(*shape)
    )
    again = token_flops(gpt(hidden, 96, layers), sequence).attention_whole_forward * sequence
    assert again == pytest.approx(added / 3)


def test_hybrid_sharding_sends_the_exact_ring_between_hosts():
    entry = next(entry for entry in of_area("zero") if entry["id"].startswith("hsdp-volume-"))
    ranks, host, weights = (entry["inputs"][key] for key in ("W", "G", "M_bytes"))
    sent = replica_bytes(ranks, host) * weights
    assert sent == pytest.approx(entry["expected_exact_ring"], rel=entry["rtol"])
    published = float(hybrid_sharded_sent(weights, ranks, host))
    assert sent == pytest.approx(published * (ranks - host) / (ranks - 1))


def replica_bytes(ranks: int, shard: int) -> float:
    """Bytes a GPU sends between hosts for each byte of its gradient."""
    shape = gpt(1024)
    table = LayoutTable.of([layout(shape, ranks, dp=ranks, zero=3, hsdp_shard=shard)])
    asked = setting(shape, workload=workload(128, ranks, gradient_reduce_dtype="bf16"))
    stages = stage_kinds(table, asked)
    parameters = rank_parameters(table, stages, asked)
    sent = dp_traffic(table, parameters, stages.dense, asked, routes(table, asked))
    return float(sent.over["replica"][0, 0] / (parameters.shared[0, 0] * asked.workload.recipe.gradient_sent))
