"""Traffic of sequence, context and expert parallelism; ring attention; the key-value cache."""

import numpy as np

from models.architecture import Architecture, MixtureOfExperts
from models.catalogue.loader import architecture
from models.cost.network.routes import routes
from models.cost.parameters import count_parameters
from models.cost.published import context_balance, expert_exchange, ring_attention
from models.cost.published.kv_cache import key_value_cache_bytes
from models.cost.shards import rank_parameters
from models.cost.stages import every_stage
from models.cost.table import LayoutTable
from models.cost.traffic import layers as traffic
from models.stack import Stack
from tests.builders import layout, setting, workload
from tests.models.published.facts import Given, Ways, gpt

BF16, FP8 = 2, 1
TP_PASSES, RING_PASSES, ULYSSES_PASSES, EP_PASSES = 4, 3, 2, 4
"""Collectives of a layer, forward and backward: two all-reduces each way; keys and values forward, backward
and their gradients; the all-to-alls each way; dispatch and combine each way."""
NODES = 8
"""Nodes DeepSeek-V3 spreads the experts of a layer over, one expert group each."""


def placed(shape: Architecture, sequence: int, stack: Stack | None = None, **knobs: object) -> tuple:
    table = LayoutTable.of([layout(shape, 64, **knobs)])
    asked = setting(shape, workload=workload(sequence, 64), stack=stack or Stack())
    return table, asked, routes(table, asked)


def forward_tp(shape: Architecture, sequence: int, ranks: int) -> tuple[float, float]:
    """Elements an attention or feed-forward block sends forward, and those of one all-reduce's payload."""
    tp = traffic.tp_traffic(*placed(shape, sequence, tp=ranks))
    return float(tp.sent.dense[0] / TP_PASSES) / BF16, float(tp.message[0]) / BF16


def forward_ulysses(shape: Architecture, sequence: int, ranks: int) -> tuple[float, float]:
    """Elements a layer's all-to-alls send forward, and those they hold."""
    cp = traffic.cp_traffic(*placed(shape, sequence, cp=ranks, cp_comm="ulysses"))
    return float(cp.sent.dense[0] / ULYSSES_PASSES) / BF16, float(cp.message[0]) / BF16


def ulysses_volume(given: Given) -> dict[str, float]:
    shape = gpt(given["h"], given["h"] // 64)
    _, whole = forward_tp(shape, given["N"], given["P"])
    _, spread = forward_ulysses(shape, given["N"], given["P"])
    passes = 2 * 2  # a reduce-scatter and an all-gather for each of the layer's two blocks
    return {"ulysses": spread, "megatron_sp": passes * whole}


def megascale(given: Given) -> dict[str, float]:
    assert given["b"] == 1
    n, heads = given["n"], 32
    shape = gpt(given["h"], heads, kv_heads=heads // given["m"])
    moe = MixtureOfExperts(experts=8 * n, experts_per_token=given["k"], expert_ffn=given["h"])
    sparse = shape.model_copy(update={"moe": moe})
    ep = traffic.ep_traffic(*placed(sparse, given["s"], tp=n, ep=n, etp=1))
    one_way = float(ep.sent.sparse[0] / EP_PASSES) / BF16
    return {
        "tp": forward_tp(shape, given["s"], n)[0],
        "ep": 2 * one_way,
        "sp_direct_count": forward_ulysses(shape, given["s"], n)[0],
    }


def ring_forward(given: Given) -> float:
    shape = gpt(64 * given["d"], 64, kv_heads=given["n_kv"])
    knobs = {"cp": given["c"], "tp": given["t"], "cp_comm": "ring", "micro_batch": given["b"]}
    cp = traffic.cp_traffic(*placed(shape, given["s"], **knobs))
    return float(cp.sent.dense[0] / RING_PASSES)


def smallest_block(given: Given) -> dict[str, np.ndarray]:
    link = (given["flops"], given["bandwidth"])
    return {
        "block": ring_attention.smallest_block(*link),
        "sequence": ring_attention.smallest_sequence(*link),
    }


def ring_memory(given: Given) -> dict[str, float]:
    held = float(ring_attention.held_elements(given["b"], given["c"], given["h"]))
    return {"blocks": held / (given["b"] * given["c"] * given["h"]), "bch_units": held}


def balance(given: Given) -> dict[str, object]:
    """In half chunk squares, two to a block."""
    return {
        "in_order": 2 * context_balance.causal_blocks(given["c"], front_and_back=False),
        "zigzag": 2 * context_balance.causal_blocks(given["c"], front_and_back=True),
        "worst_over_mean_in_order": context_balance.imbalance(given["c"], front_and_back=False),
    }


def node_limit(given: Given) -> dict[str, np.ndarray]:
    pace = (given["nvlink"], given["ib"])
    return {
        "ratio": expert_exchange.experts_at_network_pace(1, *pace),
        "max_experts": expert_exchange.experts_at_network_pace(given["nodes"], *pace),
    }


def dispatch(given: Given) -> dict[str, float]:
    """At most: as if no node of a token were its own, so the own node's share is put back."""
    known = architecture("deepseek-v3")
    assert known.moe is not None
    limits = {
        "experts_per_token": given["k"],
        "expert_groups": NODES,
        "groups_per_token": given["max_nodes"],
    }
    shape = known.model_copy(update={"hidden": given["h"], "moe": known.moe.model_copy(update=limits)})
    elements = {
        name: given["tokens"] * given["h"] * network_copies(shape, Stack(dispatcher=name))
        for name in ("deduplicating", "all_to_all")
    }
    return {
        "dispatch_max": FP8 * elements["deduplicating"],
        "combine_max": BF16 * elements["deduplicating"],
        "dispatch_without_limit": FP8 * elements["all_to_all"],
    }


def network_copies(shape: Architecture, stack: Stack) -> float:
    """Copies of a token that cross the network in one dispatch over 8 nodes of 8, none of them its own."""
    _, asked, route = placed(shape, 4096, stack, dp=8 * NODES, ep=8 * NODES)
    inside, ranks = route.members["ep"][0, 0], route.members["ep"][0, -1]
    own = inside / ranks
    return float(traffic.copies_sent(route.members["ep"], asked)[0, 1:].sum() / (1 - own))


def decoding(given: Given) -> dict[str, float]:
    one = expert_exchange.exchange_seconds(
        given["tokens"], given["experts"], given["h"], given["bandwidth"], FP8, BF16
    )
    token = expert_exchange.decoding_seconds(one, given["L"])
    return {
        "one": float(one),
        "layer": float(expert_exchange.decoding_seconds(one, 1)),
        "tpot": float(token),
        "tokens_per_s": 1 / float(token),
    }


def cache(given: Given) -> float:
    name = given["model"].lower().rsplit(" ", 1)[0]
    return key_value_cache_bytes(architecture(name))


def deepseek_layout(given: Given) -> dict[str, float]:
    shape, sequence, batch = architecture("deepseek-v3"), 4096, 15360
    dp = given["gpus"] // (given["t"] * given["p"])
    chosen = layout(shape, batch, tp=given["t"], pp=given["p"], ep=given["e"], dp=dp)
    asked = setting(shape, gpus=given["gpus"], workload=workload(sequence, batch))
    table = LayoutTable.of([chosen])
    stages = every_stage(chosen.pp, 1, asked, chosen.stage_layers)
    layer, moe = count_parameters(shape).sparse_layer, shape.moe
    assert layer is not None
    assert moe is not None
    assert int(table.gpus[0]) == given["gpus"]
    held = rank_parameters(table, stages, asked).layer_routed[0, -1]
    tokens = asked.workload.tokens_per_step
    return {
        "D_dense": chosen.dp,
        "D_expert": int(table.edp[0]),
        "tokens_per_step": tokens,
        "tokens_per_gpu": tokens / given["gpus"],
        "experts_per_gpu": held / (layer.experts / moe.experts),
        "sequences_per_pipeline": chosen.micro_batches * chosen.micro_batch,
    }


WAYS: Ways = {
    "ulysses-volume-": ulysses_volume,
    "megascale-moe-volume-": megascale,
    "ring-kv-forward-": ring_forward,
    "ring-min-block-": smallest_block,
    "ring-memory": ring_memory,
    "cp-zigzag-": balance,
    "dsv3-node-limit": node_limit,
    "dsv3-dispatch-bytes-": dispatch,
    "isca25-ep-ib": decoding,
    "kv-bytes-": cache,
    "dsv3-layout": deepseek_layout,
}
