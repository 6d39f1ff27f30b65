"""What each dimension sends in a step, how often, over which tiers, and how long the wire is busy.

TP, CP and EP are told a layer and micro-batch (`PerLayer`); PP is in `models.cost.traffic.pipeline_traffic`.

Symbols: T tokens of a micro-batch on one CP rank, h hidden, a bytes of an activation,
t c e the degrees of TP, CP, EP, G micro-batches, v interleaved chunks. Bytes are sent bytes. [B]

References
----------
.. [1] M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3.
.. [2] V. Korthikanti et al., arXiv:2205.05198, section 4.2.2.
.. [3] H. Liu et al., "Ring attention", arXiv:2310.01889; S. Jacobs et al., "DeepSpeed Ulysses",
   arXiv:2309.14509; Llama 3, arXiv:2407.21783, section 3.3.2 (all-gather).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.architecture import Architecture
from models.cost.memory import activations
from models.cost.network.collective_time import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, SEND, all_to_all_crossing
from models.cost.network.collectives import partner_shares, reduce_scatter_sent
from models.cost.network.routes import Routes
from models.cost.setting import Setting
from models.cost.table import FULL, KEEP_ALL, RING, SELECTIVE, ULYSSES, LayoutTable
from models.cost.units import PerLayer
from models.layout import RecomputeModule

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Flow:
    """Bytes of one dimension in one kind of group."""

    sent: PerLayer
    """Bytes the rank sends in a layer and micro-batch. [B]"""
    shares: Array
    """Share of them on each tier, (N, K). [1]"""


@dataclass(frozen=True)
class LayerTraffic:
    """One dimension's traffic in a layer and micro-batch."""

    count: PerLayer
    """Collectives. [1]"""
    sent: PerLayer
    """Bytes the rank sends. [B]"""
    seconds: PerLayer
    """Time on the wire. [s]"""
    message: Array
    """Payload of one collective, (N,). [B]"""
    flows: tuple[Flow, ...]
    """The bytes by the groups they go over; they add up to `sent`."""
    algorithm: NDArray[np.int64]
    """Index into `collective_time.ALGORITHMS` of what runs the layers' collectives, (N,)."""


def partly_recomputed(
    dimension: Callable[[LayoutTable, Setting, Routes], LayerTraffic],
    table: LayoutTable,
    setting: Setting,
    placed: Routes,
) -> LayerTraffic:
    """A dimension's traffic where the layers of a stage that full recompute spares repeat nothing."""
    every = dimension(table, setting, placed)
    if not table.spares:
        return every
    keeping = replace(table, recompute=np.where(table.recompute == FULL, KEEP_ALL, table.recompute))
    spared = dimension(keeping, setting, placed)
    return LayerTraffic(
        every.count.sparing(spared.count),
        every.sent.sparing(spared.sent),
        every.seconds.sparing(spared.seconds),
        every.message,
        tuple(
            Flow(one.sent.sparing(other.sent), one.shares)
            for one, other in zip(every.flows, spared.flows, strict=True)
        ),
        every.algorithm,
    )


def runs_again(table: LayoutTable, setting: Setting, *modules: RecomputeModule) -> Array:
    """1 where the backward repeats the forward of a module, named or inside a named one, (N,). [1].

    Full recompute repeats all; selective recompute its modules, collectives within them included. The
    texts take selective for none.
    """
    named = not setting.profile.real_valued_stages and not set(modules).isdisjoint(table.recompute_modules)
    again = (table.recompute == FULL) | ((table.recompute == SELECTIVE) & named)
    return np.asarray(again, dtype=np.float64)


def tp_traffic(table: LayoutTable, setting: Setting, placed: Routes) -> LayerTraffic:
    """TP: an all-reduce of a T h after attention and after the feed-forward, each way [1].

    Four a layer and micro-batch; with sequence parallelism each is a reduce-scatter and an
    all-gather of the same bytes [2], and the backward gathers the two stored inputs again. Full
    recompute repeats the forward's two, selective recompute those inside its modules. A sparse
    layer has the attention's two, two more for a shared expert, and those of its experts' own TP
    group over the dispatched copies.
    """
    part = activations.split(table, setting)
    message = part.element * part.tokens * setting.architecture.hidden
    regather = 0.5 * (setting.profile.tp_regathers & (table.sequence_parallel == 1))
    attention = 2 + runs_again(table, setting)
    dense = attention + 2 + runs_again(table, setting, "mlp")
    sparse, blocks = dense, 2
    experts, exchanges = np.zeros_like(attention), np.zeros_like(attention)
    if setting.architecture.moe is not None and not setting.profile.real_valued_stages:
        sparse, blocks = attention, 1
        if setting.architecture.moe.shared_expert_ffn > 0:
            sparse, blocks = attention + 2 + runs_again(table, setting, "shared_experts", "moe"), 2
        copies = activations.dispatched_tokens(setting.architecture, part)
        experts = part.element * copies * setting.architecture.hidden
        exchanges = 2 + runs_again(table, setting, "moe")
    ends = {"first": np.ones(len(table)), "last": 1.0 + regather}
    pairs = PerLayer(dense + 2 * regather, sparse + blocks * regather, **ends)
    losses = cross_entropy_bytes(part.tokens)
    sent = _scaled(pairs, 2 * reduce_scatter_sent(message, table.tp))
    sent = replace(sent, last=sent.last + 3 * 2 * reduce_scatter_sent(losses, table.tp))
    inside = exchanges * 2 * reduce_scatter_sent(experts, table.etp)
    some = (table.tp > 1).astype(np.float64)
    seconds, algorithm = _tensor_time(table, placed, message, losses, pairs)
    expert = exchanges * _pair_time(table, placed, experts, "etp")[0]
    none = np.zeros_like(attention)
    return LayerTraffic(
        count=_scaled(pairs, some),
        sent=replace(sent, sparse=sent.sparse + inside),
        seconds=replace(seconds, sparse=seconds.sparse + expert),
        message=message,
        flows=(
            Flow(sent, placed.shares("tp", algorithm)),
            Flow(PerLayer(none, inside), placed.ring_shares("etp")),
        ),
        algorithm=algorithm,
    )


def _tensor_time(
    table: LayoutTable, placed: Routes, message: Array, losses: Array, pairs: PerLayer
) -> tuple[PerLayer, NDArray[np.int64]]:
    """Time of the TP group's collectives, and the algorithm of the layers'. [s]."""
    each, algorithm = _pair_time(table, placed, message, "tp")
    loss = 3 * placed.time(ALL_REDUCE, losses, "tp").seconds
    seconds = _scaled(pairs, each)
    return replace(seconds, last=seconds.last + loss), algorithm


def _pair_time(
    table: LayoutTable, placed: Routes, message: Array, group: str
) -> tuple[Array, NDArray[np.int64]]:
    """Time of an all-reduce, or of the two halves sequence parallelism makes of it, (N,). [s]."""
    split = table.sequence_parallel == 1
    timed = placed.time(np.where(split, ALL_GATHER, ALL_REDUCE), message, group)
    return np.where(split, 2.0, 1.0) * timed.seconds, timed.algorithm


def cross_entropy_bytes(tokens: Array) -> Array:
    """Payload of the vocabulary-parallel loss's all-reduces: one FP32 number a token, never one a logit. [B].

    The maximum, the sum of exponentials and the target's logit are reduced, b s numbers each [1].

    >>> cross_entropy_bytes(np.array([2048.0]))
    array([8192.])
    """
    return 4.0 * tokens


def _scaled(count: PerLayer, each: Array) -> PerLayer:
    return PerLayer(count.dense * each, count.sparse * each, first=count.first * each, last=count.last * each)


def tp_over_compute(tp: int, hidden: int, flops: float, bandwidth: float) -> float:
    """TP time over matrix-product time of a 12 h^2 layer, whatever the tokens: 2 (t-1) F / (9 h B). [1].

    Four all-reduces of b s h BF16 values send 16 (t-1)/t b s h bytes; forward and backward are
    72 b s h^2 / t FLOPs. F the compute rate [FLOP/s], B the link's bandwidth [B/s]. GPT-3 175B at
    t = 8 and 400 TFLOP/s: 11 % on 450 GB/s, 101 % on 50 GB/s.

    >>> round(tp_over_compute(8, 12288, 400e12, 450e9), 4)
    0.1125
    """
    return 2 * (tp - 1) * flops / (9 * hidden * bandwidth)


def key_value_bytes(architecture: Architecture, tokens: Array, tp: Array, element: float) -> Array:
    """Keys and values of a whole sequence's group on one TP rank: a T c (d_k + d_v) max(n_kv / t, 1).

    One key-value head of 128 at 131,072 tokens in BF16 is 67.1 MB.

    >>> shape = dict(hidden=8, layers=1, heads=8, kv_heads=8, head_size=128, ffn=8, vocabulary=8)
    >>> key_value_bytes(Architecture(name="t", **shape), np.array([131072.0]), np.array([8.0]), 2.0)
    array([67108864.])
    """
    mla = architecture.mla
    if mla is not None:
        width = mla.nope_head_size + mla.rope_head_size + mla.value_head_size
        return element * tokens * width * architecture.heads / tp
    heads = np.maximum(architecture.kv_heads / tp, 1.0)
    return element * tokens * 2 * architecture.head_size * heads


def query_output_bytes(architecture: Architecture, part: activations.Split) -> Array:
    """Queries and attention output of a CP rank's tokens on one TP rank: a T n (d_k + d_v) / t, (N,). [B].

    Under MLA a query is as wide as a key, rotary part included, and the output as wide as a value.
    """
    mla = architecture.mla
    width = 2 * architecture.head_size
    if mla is not None:
        width = mla.nope_head_size + mla.rope_head_size + mla.value_head_size
    return part.element * part.tokens * architecture.heads * width / part.tp


def cp_traffic(table: LayoutTable, setting: Setting, placed: Routes) -> LayerTraffic:
    """CP: keys and values over the group, three times a layer and micro-batch [3].

    all-gather forward, again backward, and a reduce-scatter of their gradients: (c-1)/c KV each.
    A ring passes the same bytes block by block. Ulysses sends queries, keys, values and output
    through all-to-alls instead, forward and backward. Recompute of the attention core repeats the forward.
    """
    architecture = setting.architecture
    part = activations.split(table, setting)
    cp = table.cp.astype(np.float64)
    keys = key_value_bytes(architecture, part.tokens * cp, part.tp, part.element)
    repeat = runs_again(table, setting, "core_attn")
    ulysses = table.cp_comm == ULYSSES
    message = np.where(ulysses, query_output_bytes(architecture, part) + keys / cp, keys)
    count = np.where(ulysses, 2.0, 3.0) + repeat
    sent = count * reduce_scatter_sent(message, table.cp)
    counted = count * (table.cp > 1)
    each, algorithm = _exchange_time(table, placed, message)
    seconds, shares = count * each, _exchange_shares(table, placed, algorithm)
    both = PerLayer(sent, sent)
    return LayerTraffic(
        count=PerLayer(counted, counted),
        sent=both,
        seconds=PerLayer(seconds, seconds),
        message=message,
        flows=(Flow(both, shares),),
        algorithm=algorithm,
    )


def _exchange_time(table: LayoutTable, placed: Routes, message: Array) -> tuple[Array, NDArray[np.int64]]:
    """Time of one exchange of a CP group, (N,): a gather, an all-to-all, or a ring of c - 1 messages. [s]."""
    operation = np.choose(table.cp_comm, (ALL_GATHER, SEND, ALL_TO_ALL))
    ring = table.cp_comm == RING
    crossing = None
    if ULYSSES in table.cp_comm:
        crossing = placed.exchanged(all_to_all_crossing(message, placed.members["cp"], placed.wire), "cp")
    timed = placed.time(operation, np.where(ring, message / table.cp, message), "cp", crossing)
    return np.where(ring, table.cp - 1, 1) * timed.seconds, timed.algorithm


def _exchange_shares(table: LayoutTable, placed: Routes, algorithm: NDArray[np.int64]) -> Array:
    """Share of a CP exchange's bytes on each tier, (N, K): an all-to-all's are spread over its partners."""
    spread = partner_shares(placed.members["cp"])
    return np.where((table.cp_comm == ULYSSES)[:, None], spread, placed.shares("cp", algorithm))


def ep_traffic(table: LayoutTable, setting: Setting, placed: Routes) -> LayerTraffic:
    """EP: dispatch and combine, forward and backward: four all-to-alls a sparse layer and micro-batch.

    Each spreads a k T/r h bytes, of which (e-1)/e leave the GPU. Full recompute repeats two, and so
    does selective recompute of the whole `moe` module. The busiest rank sends `imbalance` times that.
    """
    zero = np.zeros(len(table))
    moe = setting.architecture.moe
    if moe is None:
        none = PerLayer(zero, zero)
        return LayerTraffic(none, none, none, zero, (), np.zeros(len(table), dtype=np.int64))
    part = activations.split(table, setting)
    copy = part.element * part.tokens / part.residual * setting.architecture.hidden * part.imbalance
    count = (4.0 + 2.0 * runs_again(table, setting, "moe")) * (table.ep > 1)
    copies = copies_sent(placed.members["ep"], setting)
    message = copy * moe.experts_per_token
    crossing = copies * copy[:, None]
    if placed.wire.flat:
        crossing = np.where(crossing > 0, crossing.sum(axis=1, keepdims=True), 0.0)
    crossing = placed.exchanged(crossing, "ep")
    timed = placed.time(ALL_TO_ALL, message, "ep", crossing)
    each = timed.seconds / _exchange_rate(placed.members["ep"], setting)
    sent = PerLayer(zero, count * copy * copies.sum(axis=1))
    return LayerTraffic(
        count=PerLayer(zero, count),
        sent=sent,
        seconds=PerLayer(zero, count * each),
        message=message,
        flows=(Flow(sent, _copy_shares(copies)),),
        algorithm=timed.algorithm,
    )


def copies_sent(members: NDArray[np.int64], setting: Setting) -> Array:
    """Copies of a token that cross each tier in one dispatch, (N, K). [1].

    With a copy for each expert, k (m_k - m_{k-1}) / e over tier k. A deduplicating dispatcher sends
    one copy to each node that holds some of the token's experts and forwards inside: with M nodes in
    the group a token reaches n = M (1 - (1 - 1/M)^k) of them, at most as many as it has expert groups
    to choose from, and n (M - 1) / M copies leave the node, k (m_1 - 1) / m_1 move inside.

    DeepSeek-V3 (8 experts in at most 4 of 8 nodes) sends at most 4 copies over the network where a
    plain all-to-all sends 8 (arXiv:2412.19437, section 3.2.2).
    """
    moe = setting.architecture.moe
    assert moe is not None
    k, ranks = float(moe.experts_per_token), members[:, -1:].astype(np.float64)
    inner = np.concatenate([np.zeros((len(members), 1)), members[:, :-1]], axis=1)
    inner[:, 0] = 1.0
    plain = k * np.maximum(members - inner, 0.0) / ranks
    if setting.stack.dispatcher == "all_to_all":
        return np.asarray(plain)
    nodes = ranks / members[:, :1]
    reached = nodes * (1 - (1 - 1 / nodes) ** k)
    if moe.expert_groups > 1:
        reached = np.where(nodes >= moe.expert_groups, np.minimum(reached, moe.groups_per_token), reached)
    across = np.where(nodes > 1, reached / k, 1.0)
    copies = plain * across
    copies[:, 0] = k * (members[:, 0] - 1) / members[:, 0]
    return np.asarray(copies)


def _exchange_rate(members: NDArray[np.int64], setting: Setting) -> Array:
    """Rate of an all-to-all over the fabric class's: less where it leaves the first tier, (N,). [1]."""
    leaves = members[:, 0] < members[:, -1]
    return np.where(leaves, setting.profile.network_exchange, 1.0)


def _copy_shares(copies: Array) -> Array:
    """Share of the dispatched copies that crosses each tier, (N, K)."""
    return np.asarray(copies / np.maximum(copies.sum(axis=1, keepdims=True), 1e-300))
