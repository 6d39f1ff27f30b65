"""From compute and traffic to the time of an optimizer step: what waits, what hides, the sum.

The limiting stage (the one whose micro-batch takes longest) sets the pace: it works G micro-batches
and has nothing to do while the pipeline fills and drains (`pipeline_time`).

    step = G t_max + idle + exposed PP + exposed DP + optimizer

Symbols: G micro-batches, t_i time of one micro-batch on stage i, v interleaved chunks,
N layouts, S kinds of stages. Everything is in seconds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost import state
from models.cost.closing_traffic import Closing, gradient_norm, tied_embedding
from models.cost.compute import Compute, compute_seconds
from models.cost.copies_traffic import stage_copies
from models.cost.data_traffic import DataTraffic, dp_traffic
from models.cost.pipeline_time import Added, Work, added, ran, work
from models.cost.routes import Routes, routes
from models.cost.schedule import splits_backward
from models.cost.setting import Setting
from models.cost.shards import RankParameters, held_shards, rank_parameters
from models.cost.stages import Stages
from models.cost.table import FULL, RING, LayoutTable
from models.cost.traffic import (
    LayerTraffic,
    PipelineTraffic,
    cp_traffic,
    ep_traffic,
    partly_recomputed,
    pp_traffic,
    tp_traffic,
)

Array = NDArray[np.float64]

FORWARD_SHARE = 1 / 3
"""Forward's part of a micro-batch: a backward is two forwards. [1]"""


@dataclass(frozen=True)
class Traffic:
    """What every dimension sends."""

    tp: LayerTraffic
    cp: LayerTraffic
    ep: LayerTraffic
    pp: PipelineTraffic
    dp: DataTraffic
    tied_embedding: Closing
    gradient_norm: Closing
    stage_copies: Closing
    routes: Routes


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step, (N,) each; `parts` adds up to `total`."""

    parts: dict[str, Array]
    limiting: NDArray[np.int64]
    """Column of the kind of stage that sets the pace, (N,)."""
    pipeline: Added
    """What the pipeline adds, whether or not the profile counts it."""

    @property
    def total(self) -> Array:
        """The step, (N,). [s]."""
        return np.asarray(np.add.reduce(list(self.parts.values())))


def all_traffic(table: LayoutTable, stages: Stages, setting: Setting) -> Traffic:
    """Place every group once and reckon every dimension."""
    placed = routes(table, setting)
    parameters = rank_parameters(table, stages, setting)
    return Traffic(
        tp=partly_recomputed(tp_traffic, table, setting, placed),
        cp=partly_recomputed(cp_traffic, table, setting, placed),
        ep=partly_recomputed(ep_traffic, table, setting, placed),
        pp=pp_traffic(table, setting, placed),
        dp=dp_traffic(table, parameters, stages.dense + stages.sparse, setting, placed),
        tied_embedding=tied_embedding(table, setting, placed),
        gradient_norm=gradient_norm(table, setting, placed),
        stage_copies=stage_copies(table, parameters, setting, placed),
        routes=placed,
    )


def step_time(
    table: LayoutTable, stages: Stages, traffic: Traffic, setting: Setting, chunks: Stages | None = None
) -> StepTime:
    """Time of a step in parts that add up.

    Parameters
    ----------
    chunks
        Of one layout, to run its schedule chunk by chunk; formulas stand for that where there are none.
    """
    profile = setting.profile
    compute = compute_seconds(table, setting)
    per_stage = micro_batch_parts(table, compute, stages, traffic, setting)
    worked = np.add.reduce(list(per_stage.values()))
    one = micro_batch_work(table, compute, per_stage, stages, setting)
    limiting = one.pace.argmax(axis=1)
    rows = np.arange(len(table))
    runs = table.passes(setting.workload.global_batch)
    parts = {name: runs * value[rows, limiting] for name, value in per_stage.items()}
    computing = (per_stage["compute_s"] + per_stage["recompute_s"])[rows, limiting]
    message = traffic.pp.message_seconds
    piped = added(table, stages, one, message, setting)
    if chunks is not None and profile.bubble:
        each = micro_batch_parts(table, compute, chunks, traffic, setting)
        piped = ran(
            table, micro_batch_work(table, compute, each, chunks, setting), one, message, piped, setting
        )
    parts["pp_exposed_s"] = np.where(profile.pp_hidden, 0.0, piped.waits)
    taken = pp_hidden(table, traffic.pp, computing, setting)[:, None]
    free = np.maximum(per_stage["compute_s"] + per_stage["recompute_s"] - taken, 0.0)
    free = last_backward(table, compute, free, stages)
    parts["dp_exposed_s"] = dp_exposed(
        table, traffic.dp, np.minimum(per_stage["compute_s"], free), free, setting
    )
    if not profile.real_valued_stages:
        parts["pp_exposed_s"] = parts["pp_exposed_s"] + traffic.tied_embedding.seconds
        closing = traffic.gradient_norm.seconds + traffic.stage_copies.seconds
        parts["dp_exposed_s"] = parts["dp_exposed_s"] + closing
    if profile.bubble:
        parts["ep_exposed_s"] = np.maximum(parts["ep_exposed_s"] - piped.hidden, 0.0)
    parts["bubble_s"] = piped.idle * float(profile.bubble)
    parts["optimizer_s"] = optimizer_seconds(table, stages, setting)
    launching = np.maximum(host_seconds(table, stages, setting) - worked, 0.0)
    parts["other_s"] = runs * launching[rows, limiting]
    return StepTime(parts, limiting, piped)


def micro_batch_parts(
    table: LayoutTable, compute: Compute, stages: Stages, traffic: Traffic, setting: Setting
) -> dict[str, Array]:
    """What a micro-batch takes on each stage, by cause, (N, S). [s]."""
    return {
        "compute_s": compute.both.on(stages),
        "recompute_s": compute.again.on(stages),
        "tp_exposed_s": tp_exposed(table, traffic.tp, stages, setting),
        "cp_exposed_s": cp_exposed(table, traffic.cp, compute.both.on(stages), stages, setting),
        "ep_exposed_s": traffic.ep.seconds.on(stages),
    }


def micro_batch_work(
    table: LayoutTable, compute: Compute, parts: dict[str, Array], stages: Stages, setting: Setting
) -> Work:
    """A micro-batch's halves on each stage, (N, S): no shorter than the host takes to launch them. [s]."""
    worked = np.add.reduce(list(parts.values()))
    paced = np.maximum(worked, host_seconds(table, stages, setting))
    halves = splits_backward(table.schedule, table.recompute)
    return work(compute, parts, worked, paced, stages, halves)


def last_backward(table: LayoutTable, compute: Compute, free: Array, stages: Stages) -> Array:
    """Compute DP may hide behind, (N, S): the last backward's, or its weight halves where it is split. [s].

    A split backward leaves the weight halves for the end: only they are left when gradients are whole.
    """
    halves = compute.both.on(stages) * FORWARD_SHARE + compute.weight.on(stages)
    return np.where(splits_backward(table.schedule, table.recompute)[:, None], np.minimum(free, halves), free)


def host_seconds(table: LayoutTable, stages: Stages, setting: Setting) -> Array:
    """Least time of a micro-batch on each stage: the host launches every layer's kernels, (N, S). [s].

    Full recompute launches a third more for the layers it covers. Where the GPUs need longer the host is
    ahead and costs nothing.
    """
    share = 1.0 if table.recompute_layers is None else stages.recomputed(table.recompute_layers)
    launches = 1.0 + (table.recompute == FULL)[:, None] * share / 3
    return np.asarray((stages.dense + stages.sparse) * launches * setting.profile.host_seconds_per_layer)


def tp_exposed(table: LayoutTable, traffic: LayerTraffic, stages: Stages, setting: Setting) -> Array:
    """TP of a micro-batch that compute waits for: all of it, or what chunked overlap leaves, (N, S)."""
    left = np.where(table.tp_overlap == 1, setting.profile.tp_overlap_exposed, 1.0)
    return traffic.seconds.on(stages) * left[:, None]


def cp_exposed(
    table: LayoutTable, traffic: LayerTraffic, compute: Array, stages: Stages, setting: Setting
) -> Array:
    """CP of a micro-batch that compute waits for: an exchange before the attention, or a ring behind it.

    A ring overlaps each block's transfer with the attention on the block before, so only what is
    longer than the stage's compute is exposed.
    """
    seconds = traffic.seconds.on(stages)
    if not setting.profile.cp_hides_behind_attention:
        return seconds
    ring = (table.cp_comm == RING)[:, None]
    return np.where(ring, np.maximum(seconds - compute, 0.0), seconds)


def pp_hidden(table: LayoutTable, traffic: PipelineTraffic, computing: Array, setting: Setting) -> Array:
    """PP of a micro-batch that runs behind its compute: only interleaving sends behind compute, (N,)."""
    if setting.profile.pp_hidden:
        return np.zeros(len(table))
    return np.where(table.vpp > 1, np.minimum(2 * table.vpp * traffic.message_seconds, computing), 0.0)


def dp_exposed(
    table: LayoutTable, traffic: DataTraffic, compute: Array, working: Array, setting: Setting
) -> Array:
    """DP traffic the step waits for on its slowest stage, (N,).

    Overlapped, traffic hides behind compute alone (what waits for TP, CP or EP has the wires busy), and
    behind compute that hides nothing else:
    a gather before a forward behind that forward, f; a gather before a backward and a reduction share
    one backward, b, recompute included. With R reductions of r seconds, W_f and W_b gathers of w,

        W_f max(0, w - f) + W_b max(0, w - b) + R max(0, r - max(0, b - w [W_b > 0]))

    is exposed. Without overlap all of it is.

    Parameters
    ----------
    compute, working : (N, S)
        Compute of one micro-batch without and with recompute, less what PP already hides behind. [s]
    """
    if setting.profile.dp_hidden:
        return np.zeros(len(table))
    runs = table.micro_batches(setting.workload.global_batch)
    reductions = state.reductions(table.zero, table.gradient_reduce, runs)[:, None]
    gathers = state.gathers(table.zero, table.weight_gather, runs)[:, None]
    backward_gathers = np.where(gathers > runs[:, None], gathers / 2, 0.0)
    forward_gathers = gathers - backward_gathers
    overlapped = (table.dp_overlap == 1)[:, None]
    forward = np.where(overlapped, compute * FORWARD_SHARE, 0.0)
    backward = np.where(overlapped, working - compute * FORWARD_SHARE, 0.0)
    gather = traffic.weight_seconds / np.maximum(gathers, 1.0)
    reduction = traffic.gradient_seconds / reductions
    left = np.maximum(backward - np.where(backward_gathers > 0, gather, 0.0), 0.0)
    exposed = forward_gathers * np.maximum(gather - forward, 0.0)
    exposed = exposed + backward_gathers * np.maximum(gather - backward, 0.0)
    exposed = exposed + reductions * np.maximum(reduction - left, 0.0)
    slowest: Array = exposed.max(axis=1)
    return slowest


def optimizer_seconds(table: LayoutTable, stages: Stages, setting: Setting) -> Array:
    """Time to stream the rank's optimizer state through HBM, on the fullest stage, (N,)."""
    parameters = rank_parameters(table, stages, setting)
    moved = setting.profile.optimizer_passes * setting.workload.recipe.optimizer * _owned(table, parameters)
    rate = setting.cluster.gpu.memory_bandwidth_bytes_per_s * setting.profile.memory_bandwidth_fraction
    fullest: Array = moved.max(axis=1) / rate
    return fullest


def _owned(table: LayoutTable, parameters: RankParameters) -> Array:
    """Parameters whose optimizer state the rank keeps, (N, S)."""
    dense, routed = (state.optimizer_divisor(table.zero, d)[:, None] for d in held_shards(table))
    return np.asarray(parameters.shared / dense + parameters.routed / routed)
