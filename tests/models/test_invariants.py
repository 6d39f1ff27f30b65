"""What must hold of any layout: sharding never adds state, one rank costs nothing, parts add up."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.architecture import Architecture
from models.cost import candidate
from models.cost.memory.stage_bytes import PART_OF_LINE, memory_lines
from models.cost.stages import stage_kinds
from models.cost.table import LayoutTable
from models.layout import RECOMPUTES
from models.stack import Stack
from tests.builders import LLAMA_405B, layout, setting, workload

MOE = Architecture(
    name="moe", hidden=2048, layers=16, heads=32, kv_heads=8, head_size=64, ffn=8192, vocabulary=50257,
    tied_embeddings=True, moe={"experts": 32, "experts_per_token": 4, "expert_ffn": 1024, "dense_first": 1},
)  # fmt: skip
STATE = ("weights", "gradients", "optimizer")
degree = st.sampled_from([1, 2, 4])


def state_of(chosen, model) -> int:
    """Weights, gradients and optimizer state on the fullest rank. [B]."""
    question = setting(model, "calibrated", gpus=chosen.gpus, workload=workload(4096, 512))
    table = LayoutTable.of([chosen])
    lines = memory_lines(table, stage_kinds(table, question), question)
    return int(sum(value for name, value in lines.items() if PART_OF_LINE[name] in STATE).max())


@settings(max_examples=200, deadline=None)
@given(
    axis=st.sampled_from(("tp", "cp", "pp", "dp", "ep")), tp=degree, cp=degree, pp=degree, dp=degree,
    ep=degree, zero=st.integers(0, 3), schedule=st.sampled_from(["gpipe", "1f1b"]),
)  # fmt: skip
def test_doubling_a_degree_never_raises_what_a_rank_holds_of_the_model(
    axis, tp, cp, pp, dp, ep, zero, schedule
):
    degrees = {"tp": tp, "cp": cp, "pp": pp, "dp": dp, "ep": ep}
    doubled = degrees | {axis: 2 * degrees[axis]}
    for each in (degrees, doubled):
        if (each["tp"] * each["cp"] * each["dp"]) % each["ep"]:
            return
    layouts = [
        layout(MOE, 512, zero=zero, schedule=schedule if each["pp"] > 1 else "none", **each)
        for each in (degrees, doubled)
    ]
    less, more = (state_of(chosen, MOE) for chosen in reversed(layouts))
    assert less <= more


@pytest.mark.parametrize("dimension", ["tp", "cp", "ep", "pp", "dp"])
def test_a_dimension_of_one_rank_sends_nothing_and_waits_for_nothing(dimension):
    degrees = {"tp": 2, "cp": 2, "pp": 2, "dp": 2, "ep": 2} | {dimension: 1}
    if dimension == "dp":
        degrees["cp"] = 1
    chosen = layout(MOE, 512, **degrees)
    priced = candidate(chosen, setting(MOE, "calibrated", gpus=chosen.gpus, workload=workload(4096, 512)))
    sent = {entry.dimension for entry in priced.traffic if "norm" not in entry.operation}
    expected = {"tp", "cp", "ep", "pp", "dp"} - {dimension} - ({"cp"} if dimension == "dp" else set())
    assert sent == expected


@settings(max_examples=60, deadline=None)
@given(
    tp=degree, cp=degree, pp=degree, dp=degree, ep=degree, zero=st.integers(0, 3),
    recompute=st.sampled_from(RECOMPUTES), name=st.sampled_from(["textbook", "calibrated"]),
)  # fmt: skip
def test_parts_add_up_in_every_answer(tp, cp, pp, dp, ep, zero, recompute, name):
    if (tp * cp * dp) % ep:
        return
    chosen = layout(MOE, 512, tp=tp, cp=cp, pp=pp, dp=dp, ep=ep, zero=zero, recompute=recompute)
    priced = candidate(chosen, setting(MOE, name, gpus=chosen.gpus, workload=workload(4096, 512)))
    assert sum(value for _, value in priced.time) == pytest.approx(priced.step_time_s, rel=1e-9)
    for stage in priced.memory.stages:
        parts = [value for key, value in stage if key.endswith("_bytes") and key != "total_bytes"]
        assert sum(parts) == stage.total_bytes == sum(stage.details.values())
    for entry in priced.traffic:
        assert sum(tier.sent_bytes_per_gpu for tier in entry.tiers) == entry.sent_bytes_per_gpu


def test_the_upper_figure_is_never_below_the_point():
    memory = candidate(layout(tp=8, pp=16, dp=128), setting(name="calibrated")).memory
    assert memory.peak_upper_bytes >= memory.peak_bytes


def test_imbalance_costs_memory_time_and_bytes_and_token_drop_takes_it_back():
    chosen = layout(MOE, 512, dp=8, ep=8)
    stacks = [{}, {"imbalance": 1.5}, {"imbalance": 1.5, "token_drop": True}]
    even, skewed, dropped = (
        candidate(chosen, setting(MOE, "calibrated", gpus=8, workload=workload(4096, 512), stack=Stack(**s)))
        for s in stacks
    )
    assert skewed.memory.peak_bytes > even.memory.peak_bytes
    assert 1.4 < skewed.time.ep_exposed_s / even.time.ep_exposed_s < 1.5
    assert dropped.memory == even.memory


def test_node_limited_routing_sends_fewer_bytes_between_nodes():
    grouped = MOE.model_copy(
        update={"moe": MOE.moe.model_copy(update={"expert_groups": 8, "groups_per_token": 2})}
    )
    chosen = layout(grouped, 512, dp=64, ep=32)
    sent = []
    for model, dispatcher in ((grouped, "all_to_all"), (MOE, "deduplicating"), (grouped, "deduplicating")):
        question = setting(
            model, "calibrated", gpus=64, workload=workload(4096, 512), stack=Stack(dispatcher=dispatcher)
        )
        entry = next(e for e in candidate(chosen, question).traffic if e.dimension == "ep")
        sent.append(next(t.sent_bytes_per_gpu for t in entry.tiers if t.tier == "network"))
    assert sent[0] > sent[1] >= sent[2]


def test_unfused_attention_keeps_its_scores_and_selective_recompute_drops_them():
    stacks = [Stack(), Stack(attention_kernel="unfused")]
    chosen = layout(LLAMA_405B, 64, tp=8, pp=4, dp=2)
    fused, unfused = (
        candidate(chosen, setting(name="calibrated", gpus=64, workload=workload(8192, 64), stack=s)).memory
        for s in stacks
    )
    again = candidate(
        chosen.model_copy(update={"recompute": "selective"}),
        setting(name="calibrated", gpus=64, workload=workload(8192, 64), stack=stacks[1]),
    ).memory
    scores = 2 * 8192 * 8192 * 128 // 8
    more = unfused.stages[0].details["layer_activations"] - fused.stages[0].details["layer_activations"]
    layers, held = unfused.stages[0].layers, unfused.stages[0].in_flight
    statistics = 4 * 8192 * 128 // 8
    assert more == layers * held * (scores - statistics)
    assert again.stages[0].details["layer_activations"] == (
        fused.stages[0].details["layer_activations"] - layers * held * statistics
    )
