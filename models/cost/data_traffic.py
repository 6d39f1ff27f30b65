"""What data parallelism sends in a step: gradients reduced, weights gathered, over which groups.

Each quantity is told a stage and step, (N, S): N layouts, S stages each. Bytes are sent bytes. [B]

References
----------
.. [1] S. Rajbhandari et al., "ZeRO", arXiv:1910.02054, section 7.
.. [2] Y. Zhao et al., "PyTorch FSDP", arXiv:2304.11277, section 3.2.2 (hybrid sharding).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost import state
from models.cost.collectives import all_reduce_sent, ring_seconds
from models.cost.setting import Setting
from models.cost.shards import RankParameters, state_shards
from models.cost.table import LayoutTable
from models.cost.traffic import Route, wire

Array = NDArray[np.float64]


REPLICA = {"dp": "replica", "edp": "expert_replica"}
"""The group that joins the same shard of every sharding group, under HSDP."""


@dataclass(frozen=True)
class DataTraffic:
    """DP traffic of each stage in a step; (N, S) unless said."""

    gradient_sent: Array
    weight_sent: Array
    gradient_seconds: Array
    weight_seconds: Array
    over: dict[str, Array]
    """Sent bytes by the group of `models.cost.placement.groups` they go over."""
    message: Array
    """Payload of one gradient reduction over the whole stage that sends the most, (N,). [B]"""
    passes: Array
    """Reductions and gathers of a step, (N,). [1]"""

    @property
    def sent(self) -> Array:
        """Gradients and weights, (N, S). [B]."""
        return self.gradient_sent + self.weight_sent


def dp_traffic(
    table: LayoutTable, parameters: RankParameters, layers: Array, setting: Setting, placed: dict[str, Route]
) -> DataTraffic:
    """DP: gradients reduced and weights gathered, dense over dp * cp, routed experts over edp.

    ZeRO-3 reduces and gathers layer by layer, the others once for the whole stage. With HSDP both
    stay inside the sharding group, and each reduced shard is all-reduced over the replicas.
    """
    runs = table.micro_batches(setting.workload.global_batch)
    reduced = state.reductions(table.zero, table.gradient_reduce, runs)
    gathered = state.gathers(table.zero, table.weight_gather, runs)
    units = np.where((table.zero == 3)[:, None], layers, 1.0)
    passes = (np.where(table.zero == 0, 2.0, reduced)[:, None] * units, gathered[:, None] * units)
    shards, expert_shards = state_shards(table)
    flows = _flows("dp", shards, parameters.shared, table, setting, placed)
    if setting.architecture.moe is not None:
        flows |= _flows("edp", expert_shards, parameters.routed, table, setting, placed)
    zero = np.zeros_like(parameters.shared)
    sent, seconds = [zero, zero], [zero, zero]
    over: dict[str, Array] = {}
    for (name, weights), bytes_ in flows.items():
        times = passes[weights] * (2 if name in REPLICA.values() else 1)
        sent[weights] = sent[weights] + bytes_
        seconds[weights] = seconds[weights] + _paced(bytes_, times, placed[name], setting)
        over[name] = over.get(name, zero) + bytes_
    busiest = (sent[0] + sent[1]).argmax(axis=1)
    return DataTraffic(
        gradient_sent=sent[0],
        weight_sent=sent[1],
        gradient_seconds=seconds[0],
        weight_seconds=seconds[1],
        over=over,
        message=_reduced(table, parameters)[np.arange(len(table)), busiest]
        * setting.workload.recipe.gradient_sent,
        passes=reduced + gathered,
    )


def _reduced(table: LayoutTable, parameters: RankParameters) -> Array:
    """Parameters whose gradients some other rank also holds, (N, S): the rest are never sent. [1]."""
    dense, routed = (table.dp * table.cp > 1)[:, None], (table.edp > 1)[:, None]
    return np.asarray(parameters.shared * dense + parameters.routed * routed)


def _flows(
    name: str,
    shards: NDArray[np.int64],
    count: Array,
    table: LayoutTable,
    setting: Setting,
    placed: dict[str, Route],
) -> dict[tuple[str, bool], Array]:
    """Bytes of one data-parallel group by the group they go over and whether they are weights, (N, S)."""
    recipe, runs = setting.workload.recipe, table.micro_batches(setting.workload.global_batch)
    gradient = state.gradient_traffic_bytes(table.zero, table.gradient_reduce, shards, runs, recipe)
    weight = state.weight_traffic_bytes(table.zero, table.weight_gather, shards, runs, recipe)
    flows = {(name, False): count * gradient[:, None], (name, True): count * weight[:, None]}
    replica = placed.get(REPLICA[name])
    if replica is not None:
        reduced = state.reductions(table.zero, table.gradient_reduce, runs)
        shard = count * (recipe.gradient_sent / shards * reduced)[:, None]
        flows[REPLICA[name], False] = all_reduce_sent(shard, replica.members[:, -1:])
    return flows


def _paced(sent: Array, passes: Array, route: Route, setting: Setting) -> Array:
    """Time of (N, S) bytes in one group's rings."""
    one, link = np.ones(len(sent)), wire(setting)
    pace = ring_seconds(one, route.shares, route.members, 0.0, link)[:, None]
    hops = ring_seconds(0 * one, route.shares, route.members, 1.0, link)[:, None]
    return np.asarray(sent * pace + passes * hops)
