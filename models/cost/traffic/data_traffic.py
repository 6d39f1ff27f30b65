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

from models.cost.distinct import distinct
from models.cost.memory import state
from models.cost.network.collective_time import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, collective_time
from models.cost.network.collectives import all_reduce_sent
from models.cost.network.routes import Routes
from models.cost.setting import Setting
from models.cost.shards import RankParameters, state_shards
from models.cost.table import LayoutTable

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
    """Sent bytes by the group of `models.cost.network.placement.groups` they go over."""
    algorithm: dict[str, NDArray[np.int64]]
    """What runs each group's gradients, (N, S): index into `collective_time.ALGORITHMS`."""
    message: Array
    """Payload of one gradient reduction over the whole stage that sends the most, (N,). [B]"""
    passes: Array
    """Reductions and gathers of a step, (N,). [1]"""

    @property
    def sent(self) -> Array:
        """Gradients and weights, (N, S). [B]."""
        return self.gradient_sent + self.weight_sent


def dp_traffic(
    table: LayoutTable, parameters: RankParameters, layers: Array, setting: Setting, placed: Routes
) -> DataTraffic:
    """DP: gradients reduced and weights gathered, dense over dp * cp, routed experts over edp.

    ZeRO-3 reduces and gathers layer by layer, the others once for the whole stage. With HSDP both
    stay inside the sharding group, and each reduced shard is all-reduced over the replicas.
    """
    runs = table.passes(setting.workload.global_batch)
    reduced = state.reductions(table.zero, table.gradient_reduce, runs)
    gathered = state.gathers(table.zero, table.weight_gather, runs)
    units = np.where((table.zero == 3)[:, None], np.maximum(layers, 1.0), 1.0)
    shards, expert_shards = state_shards(table)
    flows = _flows("dp", shards, parameters.shared, table, setting, placed)
    if setting.architecture.moe is not None:
        flows |= _flows("edp", expert_shards, parameters.routed, table, setting, placed)
    zero = np.zeros_like(parameters.shared)
    sent, seconds = [zero, zero], [zero, zero]
    over: dict[str, Array] = {}
    algorithm: dict[str, NDArray[np.int64]] = {}
    times = (reduced[:, None], gathered[:, None])
    for (name, weights), flow in flows.items():
        sent[weights] = sent[weights] + flow.sent
        each, how = flow.one_pass(units, name, placed)
        seconds[weights] = seconds[weights] + times[weights] * each
        algorithm.setdefault(name, how)
        over[name] = over.get(name, zero) + flow.sent
    busiest = (sent[0] + sent[1]).argmax(axis=1)
    return DataTraffic(
        gradient_sent=sent[0],
        weight_sent=sent[1],
        gradient_seconds=seconds[0],
        weight_seconds=seconds[1],
        over=over,
        algorithm=algorithm,
        message=_reduced(table, parameters)[np.arange(len(table)), busiest]
        * setting.workload.recipe.gradient_sent,
        passes=reduced + gathered,
    )


def _reduced(table: LayoutTable, parameters: RankParameters) -> Array:
    """Parameters whose gradients some other rank also holds, (N, S): the rest are never sent. [1]."""
    dense, routed = (table.dp * table.cp > 1)[:, None], (table.edp > 1)[:, None]
    return np.asarray(parameters.shared * dense + parameters.routed * routed)


@dataclass(frozen=True)
class _Flow:
    """Gradients or weights of one group of ranks."""

    sent: Array
    """Bytes a rank sends in a step, (N, S). [B]"""
    payload: Array
    """Buffer of one pass over the whole stage, (N, S). [B]"""
    operation: NDArray[np.int64]
    """Code of the collective, (N,)."""

    def one_pass(self, units: Array, name: str, placed: Routes) -> tuple[Array, NDArray[np.int64]]:
        """Time of one pass, each unit of a stage a collective of its own, and its algorithm, (N, S). [s]."""
        columns = [self.payload, units]
        first, kind = distinct(
            self.operation, *placed.members[name].T, *(part for column in columns for part in column.T)
        )
        stages = self.payload.shape[1]
        kinds = np.repeat(first, stages)
        each = (self.payload / units)[first].reshape(-1)
        timed = collective_time(self.operation[kinds], each, placed.members[name][kinds], placed.wire)
        seconds = timed.seconds.reshape(-1, stages)[kind] * units
        return seconds, timed.algorithm.reshape(-1, stages)[kind]


def _flows(
    name: str,
    shards: NDArray[np.int64],
    count: Array,
    table: LayoutTable,
    setting: Setting,
    placed: Routes,
) -> dict[tuple[str, bool], _Flow]:
    """What one data-parallel group sends by the group it goes over and whether it is weights."""
    recipe, runs = setting.workload.recipe, table.passes(setting.workload.global_batch)
    gradient = state.gradient_traffic_bytes(table.zero, table.gradient_reduce, shards, runs, recipe)
    weight = state.weight_traffic_bytes(table.zero, table.weight_gather, shards, runs, recipe)
    twice = (table.zero == 1) & setting.framework.time.all_reduces_gradients
    gradient = np.where(twice, 2.0, 1.0) * gradient
    whole = np.where((table.zero == 0) | twice, ALL_REDUCE, REDUCE_SCATTER)
    gather, reduce = np.full(len(table), ALL_GATHER), np.full(len(table), ALL_REDUCE)
    weighed = count * (recipe.weight_sent * (table.zero > 0))[:, None]
    flows = {
        (name, False): _Flow(count * gradient[:, None], count * recipe.gradient_sent, whole),
        (name, True): _Flow(count * weight[:, None], weighed, gather),
    }
    replica = placed.members.get(REPLICA[name])
    if replica is not None:
        reduced = state.reductions(table.zero, table.gradient_reduce, runs)[:, None]
        shard = count * (recipe.gradient_sent / shards)[:, None]
        flows[REPLICA[name], False] = _Flow(all_reduce_sent(shard * reduced, replica[:, -1:]), shard, reduce)
    return flows
