"""Faults that other tools really have; each is a test here, in the order users met them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import search
from models.catalogue import architecture, resolve
from models.catalogue.profiles import profile, profile_sources
from models.cost import candidate
from models.cost.memory.stage_bytes import memory_lines
from models.cost.shards import rank_parameters
from models.cost.stages import every_stage, stage_kinds
from models.cost.table import LayoutTable
from models.errors import InvalidField, UnknownEntry
from models.request import EvaluateRequest, SearchRequest
from tests.builders import GPT3, LLAMA_405B, layout, setting, workload

MIXTRAL = architecture("mixtral-8x7b")


def asks(**more) -> SearchRequest:
    known = {"model": "mixtral-8x7b", "cluster": "dgx-h100", "gpus": 64}
    return SearchRequest(**(known | {"workload": {"sequence_length": 4096, "global_batch": 1024}} | more))


def answers(**more):
    request = asks(**more)
    return search.search(request, resolve(request))


def lines_of(model, batch=1024, sequence=4096, **knobs):
    chosen = layout(model, batch, **knobs)
    question = setting(model, "calibrated", gpus=chosen.gpus, workload=workload(sequence, batch))
    table = LayoutTable.of([chosen])
    return memory_lines(table, every_stage(chosen.pp, chosen.vpp, question, chosen.stage_layers), question)


def test_routed_experts_are_divided_by_etp_times_ep_and_their_state_by_edp_and_norms_by_nothing():
    """NVIDIA-NeMo/Megatron-Bridge PR 3744, NVIDIA/Megatron-LM issue 4050, cli99/llm-analysis issue 27."""
    chosen = layout(MIXTRAL, 64, tp=4, dp=8, ep=4, etp=2)
    question = setting(MIXTRAL, "calibrated", gpus=32, workload=workload(4096, 64))
    table = LayoutTable.of([chosen])
    held = rank_parameters(table, stage_kinds(table, question), question)
    experts = 32 * 8 * 3 * 4096 * 14336
    assert held.routed[0, 0] == experts / (2 * 4)
    lines = lines_of(MIXTRAL, 64, tp=4, dp=8, ep=4, etp=2)
    assert lines["optimizer_routed"][0, 0] == 12 * experts // (2 * 4) // chosen.edp
    norms_and_router = 32 * (2 * 4096 + 8 * 4096)
    whole, quarter = (_shared(MIXTRAL, tp) for tp in (1, 4))
    padding = (32256 - 32000) * 4096 * 2  # of embedding and head, at tp = 4
    assert 4 * quarter - whole == 3 * (norms_and_router + 4096) + padding


def _shared(model, tp: int) -> float:
    """Dense parameters on a rank."""
    table = LayoutTable.of([layout(model, 64, tp=tp, dp=8)])
    question = setting(model, "calibrated", gpus=8 * tp, workload=workload(4096, 64))
    return float(rank_parameters(table, stage_kinds(table, question), question).shared[0, 0])


def test_expert_parallelism_does_not_shrink_the_activations_of_routed_tokens():
    """NVIDIA/Megatron-LM PR 6782: they scale with top-k tokens whatever the expert degree."""
    kept = [lines_of(MIXTRAL, dp=8, ep=ep)["layer_activations"][0, 0] for ep in (1, 2, 8)]
    assert len(set(kept)) == 1


def test_the_heaviest_stage_decides_with_embedding_head_and_uneven_layers_where_they_are():
    """NVIDIA-NeMo/Megatron-Bridge PR 5077: averaging stages hid 31.8 %."""
    chosen = layout(LLAMA_405B, 64, tp=8, pp=4, dp=2, stage_layers=(20, 30, 40, 36))
    memory = candidate(chosen, setting(name="calibrated", gpus=64, workload=workload(8192, 64))).memory
    totals = [stage.total_bytes for stage in memory.stages]
    assert memory.peak_bytes == max(totals) > 1.1 * sum(totals) / len(totals)
    assert [stage.layers for stage in memory.stages] == [20, 30, 40, 36]


def test_zero_and_tensor_parallelism_shard_the_same_parameter_once_each():
    """deepspeedai/DeepSpeed issue 6796: its tuner divided twice."""
    lines = lines_of(GPT3, 16, 2048, tp=8, dp=4, zero=1)
    assert lines["optimizer"][0, 0] == pytest.approx(6 * lines["weights"][0, 0] / 4, rel=1e-6)


@pytest.mark.parametrize("zero", [2, 3])
def test_zero_2_and_3_act_where_they_are_asked_for(zero):
    """MooreThreads/SimuMax accepts them and computes ZeRO-1."""
    reduce = {"gradient_reduce": "per_micro_batch"}
    lower, higher = (lines_of(GPT3, 64, 2048, tp=8, dp=8, zero=z, **reduce) for z in (zero - 1, zero))
    sharded = "gradients" if zero == 2 else "weights"
    assert higher[sharded][0, 0] == pytest.approx(lower[sharded][0, 0] / 8, rel=1e-6)


def test_the_tier_of_a_group_follows_from_where_it_is_placed_and_not_from_its_degree():
    """cli99/llm-analysis issue 27 takes any group of 8 for NVLink."""
    inner = layout(GPT3, 64, tp=1, dp=8, pp=8)
    outer = layout(GPT3, 64, tp=1, dp=8, pp=8, rank_order=("tp", "cp", "ep", "pp", "dp"))
    question = setting(GPT3, "calibrated", gpus=64, workload=workload(2048, 64))
    tiers = []
    for chosen in (inner, outer):
        first = next(entry for entry in candidate(chosen, question).traffic if entry.dimension == "dp")
        tiers += [tier.tier for tier in first.tiers]
    assert tiers == ["nvlink", "network"]


@pytest.mark.parametrize(("gpus", "node", "tp"), [(12, 4, 3), (24, 6, 6), (20, 4, 5)])
def test_degrees_that_are_no_powers_of_two_and_small_nodes_work(gpus, node, tp):
    """aliyun/SimAI issues 142 and 239."""
    tiers = [{"name": "node", "gpus": node, "bandwidth_bytes_per_s": 3e11},
             {"name": "net", "bandwidth_bytes_per_s": 2.5e10}]  # fmt: skip
    tiny = {
        "hidden_size": 1920,
        "num_hidden_layers": 12,
        "num_attention_heads": 30,
        "intermediate_size": 7680,
        "vocab_size": 32000,
    }
    found = answers(
        model=tiny, gpus=gpus, cluster={"gpu": "h100-sxm", "tiers": tiers, "gpus_per_node": node},
        workload={"sequence_length": 2880, "global_batch": 120}, constraints={"tp": tp},
    )  # fmt: skip
    assert found.outcome == "found"
    assert all(place.layout.tp == tp for place in found.shortlist)


def test_an_unknown_gpu_is_an_error_and_never_another_gpu():
    """ai-dynamo/aiconfigurator issue 1259 fell back to an H200."""
    tiers = [{"name": "all", "bandwidth_bytes_per_s": 1e11}]
    with pytest.raises(UnknownEntry, match="h100-smx"):
        resolve(asks(cluster={"gpu": "h100-smx", "tiers": tiers}))


def test_when_nothing_fits_the_answer_says_why_and_by_how_much():
    """ai-dynamo/aiconfigurator PRs 437, 461, 509: an IndexError, or 405B priced on one GPU."""
    found = answers(model="gpt3-175b", gpus=1)
    assert (found.outcome, found.shortlist) == ("none_fit", ())
    assert [rule.name for rule in found.conflict.rules] == ["memory"]
    assert found.conflict.closest.over_bytes > 1e12


def test_no_candidate_uses_another_number_of_gpus_than_given():
    """ai-dynamo/dynamo issue 8571 offered 64 of 32."""
    found = answers(top_k=1000, distinct="layout")
    assert {place.layout.gpus for place in found.shortlist} == {64}
    assert all(p.layout.tp * p.layout.cp * p.layout.pp * p.layout.dp == 64 for p in found.shortlist)


def test_fewer_micro_batches_than_stages_are_priced_with_their_bubble_and_told():
    chosen = layout(LLAMA_405B, 8, tp=8, pp=16, dp=2)
    priced = candidate(chosen, setting(name="calibrated", gpus=256, workload=workload(8192, 8)))
    assert chosen.micro_batches == 4
    assert priced.time.bubble_s > 3 * priced.time.compute_s
    assert any("mostly idle" in warning for warning in priced.warnings)


def test_a_batch_that_micro_batches_and_replicas_do_not_divide_is_refused_with_a_batch_that_would_do():
    request = EvaluateRequest(
        model="llama-3-8b", cluster="dgx-h100", gpus=8,
        workload={"sequence_length": 8192, "global_batch": 100}, layout={"dp": 8},
    )  # fmt: skip
    with pytest.raises(InvalidField, match="104"):
        search.evaluate(request, resolve(request))


def test_questions_asked_at_once_share_nothing():
    """ISEEKYAN/mbridge patches global state for each request."""
    questions = [{"gpus": gpus, "constraints": {"tp": tp}} for gpus in (16, 64) for tp in (1, 2, 4)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda question: answers(**question).shortlist, questions))
    assert together == [answers(**question).shortlist for question in questions]


def test_every_profile_s_numbers_have_a_source():
    """Hsword/Hetu issue 70: where do the magic constants come from?"""
    for name in ("textbook", "calibrated"):
        told = profile_sources(name)
        assert set(told) == set(type(profile(name)).model_fields) - {"name", "version"}
        assert all(len(source) > 7 for source in told.values())
