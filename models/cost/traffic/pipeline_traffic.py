"""What stages of a pipeline send each other in a step, over which tiers, and how long a message takes.

A pipeline's neighbouring ranks are not all equally far apart: some share a server or a leaf, others
talk across the spine. Every boundary between two chunks has its own message time.

Symbols: T tokens of a micro-batch on one CP rank, h hidden, a bytes of an activation, t the degree of
TP, p stages, G micro-batches, v interleaved chunks, C = p v chunks, sigma ranks from a stage to the next,
N layouts, K tiers.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.cost.memory import activations
from models.cost.network.placement import dense_strides, first_places
from models.cost.network.routes import Routes
from models.cost.pipeline.messages import Hops
from models.cost.pipeline.schedule import FOLDED
from models.cost.setting import Setting
from models.cost.stages import MIRROR, chunks_of, placement_of
from models.cost.table import LayoutTable

Array = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class PipelineTraffic:
    """PP messages of a middle stage; each (N,) unless said."""

    message: Array
    """One boundary message, a T h / t. [B]"""
    count: Array
    """Messages a step: 2 v G on a middle stage; where there are only ends (2 v - 1) G, 2 G folded. [1]"""
    sent: Array
    """Bytes a step. [B]"""
    hops: Hops
    """How long a message takes between the ranks of the worst-placed pipeline."""


def pp_traffic(table: LayoutTable, setting: Setting, placed: Routes) -> PipelineTraffic:
    """PP: each micro-batch crosses each chunk boundary both ways, but where a fold turns on a rank."""
    part = activations.split(table, setting)
    message = part.element * part.tokens * setting.architecture.hidden / part.tp
    micro_batches = table.micro_batches(setting.workload.global_batch)
    turns = np.isin(table.schedule, FOLDED)
    few = np.where(turns, 2, 2 * table.vpp - 1)
    middle = np.where(table.pp > 2, 2 * table.vpp, few) * micro_batches
    count = np.where(table.pp > 1, middle, 0).astype(np.float64)
    seconds = placed.met(message, "pp") * (table.pp > 1)[:, None]
    return PipelineTraffic(message, count, count * message, _hops(placed, seconds))


def _hops(placed: Routes, seconds: Array) -> Hops:
    """Hops of N pipelines; the ends of one meet on the outermost tier it crosses."""
    inside = placed.members["pp"]
    outermost = (inside == inside[:, -1:]).argmax(axis=1)
    return Hops(seconds, placed.neighbour_shares("pp"), seconds[np.arange(len(seconds)), outermost])


def boundary_seconds(table: LayoutTable, traffic: PipelineTraffic, setting: Setting) -> Array:
    """Time of a message over each boundary between chunks in execution order, (C - 1,), of one layout. [s].

    A boundary's two stages lie in every pipeline of the job, and the one in which a message takes longest
    counts. 0 where both chunks are on one stage.
    """
    longest = traffic.hops.seconds[0][tiers_ahead(table, setting)].max(axis=0)
    path = ways(table)[0]
    source, target = path[:-1], path[1:]
    onwards = target == (source + 1) % len(longest)
    return np.where(source == target, 0.0, longest[np.where(onwards, source, target)])


def busiest_messages(table: LayoutTable, setting: Setting) -> Array:
    """Messages over each tier in a step, (K,), of the GPU that sends the most, of one layout. [1].

    Among those that send as many it is the one that sends the most over the outermost tier, then over
    the next.
    """
    up, down = stage_messages(table, setting)
    ahead = tiers_ahead(table, setting)
    behind = np.roll(ahead, 1, axis=1)
    over = np.stack([up * (ahead == k) + down * (behind == k) for k in range(len(setting.cluster.tiers))], 2)
    each = over[:, up + down == (up + down).max()].reshape(-1, over.shape[2])
    return np.asarray(each[np.lexsort(each.T)[-1]])


def tiers_ahead(table: LayoutTable, setting: Setting) -> Whole:
    """Tier on which each stage's rank meets the next one's, the last stage's the first's, of one layout.

    (pipelines, p): every pipeline of the job whose first rank falls on another place of the fabric.
    """
    stride = int(dense_strides(table)["pp"][0])
    units = tuple(tier.gpus for tier in setting.cluster.tiers[:-1] if tier.gpus)
    return _tiers_ahead(int(table.pp[0]), stride, setting.gpus, units)


@lru_cache(maxsize=256)
def _tiers_ahead(pp: int, stride: int, gpus: int, units: tuple[int, ...]) -> Whole:
    first = first_places(pp * stride, stride, math.lcm(*units), gpus)
    ranks = first[:, None] + np.arange(pp) * stride
    other = np.roll(ranks, -1, axis=1)
    met = [ranks // unit == other // unit for unit in units]
    return np.asarray(np.stack([*met, np.ones_like(ranks, dtype=bool)]).argmax(axis=0))


def stage_messages(table: LayoutTable, setting: Setting) -> tuple[Array, Array]:
    """Messages of each stage in a step to the next one and to the one before, (p,) each, of one layout. [1].

    Each micro-batch crosses each boundary forward, and again backward. Chunks run through the stages in
    turn, so the last stage's next chunk is on the first again; in a V they come back the way they went, and
    under dualpipe half of the micro-batches go the other way.
    """
    pp = int(table.pp[0])
    up, down = np.zeros(pp), np.zeros(pp)
    paths = ways(table)
    for path in paths:
        crossed = path[:-1] != path[1:]
        source, target = path[:-1][crossed], path[1:][crossed]
        onwards = target == (source + 1) % pp
        for sent, forth, back in ((up, onwards, ~onwards), (down, ~onwards, onwards)):
            np.add.at(sent, source[forth], 1.0)
            np.add.at(sent, target[back], 1.0)
    each = float(table.micro_batches(setting.workload.global_batch)[0]) / len(paths)
    return up * each, down * each


def ways(table: LayoutTable) -> list[Whole]:
    """Stage of every chunk in execution order, once for each way micro-batches take, of one layout."""
    pp, vpp, placement = int(table.pp[0]), int(table.vpp[0]), int(placement_of(table.schedule)[0])
    if placement == MIRROR:
        return [np.arange(pp), np.arange(pp)[::-1]]
    path = np.zeros(pp * vpp, dtype=np.int64)
    for stage in range(pp):
        path[list(chunks_of(stage, pp, vpp, placement))] = stage
    return [path]
