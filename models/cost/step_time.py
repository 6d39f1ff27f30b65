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
from models.cost.overlap import exposed, together
from models.cost.pace import pace
from models.cost.pipeline_time import Added, Work, added, ran, work
from models.cost.pipeline_traffic import PipelineTraffic, boundary_seconds, pp_traffic
from models.cost.routes import Routes, routes
from models.cost.schedule import splits_backward
from models.cost.setting import Setting
from models.cost.shards import RankParameters, held_shards, rank_parameters
from models.cost.stages import Stages
from models.cost.table import (
    DUALPIPE,
    DUALPIPE_V,
    FULL,
    KEEP_FOR_STEP,
    PER_MICRO_BATCH,
    RING,
    LayoutTable,
)
from models.cost.traffic import (
    LayerTraffic,
    cp_traffic,
    ep_traffic,
    partly_recomputed,
    tp_traffic,
)
from models.rates import Rates

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
    piped = added(table, stages, one, traffic.pp.hops, setting)
    if chunks is not None and profile.bubble:
        each = micro_batch_parts(table, compute, chunks, traffic, setting)
        apart = micro_batch_work(table, compute, each, chunks, setting)
        piped = ran(table, apart, one, boundary_seconds(table, traffic.pp, setting), piped, setting)
    parts["pp_exposed_s"] = np.where(profile.pp_hidden, 0.0, piped.waits)
    kernels = per_stage["compute_s"] + per_stage["recompute_s"]
    free = np.maximum(kernels - pp_hidden(table, traffic.pp, kernels, setting), 0.0)
    free = last_backward(table, compute, free, stages)
    waited = sharding_exposed(table, traffic.dp, free, setting)
    parts["dp_exposed_s"] = runs * waited.max(axis=1)
    parts["dp_exposed_s"] = parts["dp_exposed_s"] + closing_exposed(table, traffic.dp, free, waited, setting)
    if not profile.real_valued_stages:
        parts["pp_exposed_s"] = parts["pp_exposed_s"] + traffic.tied_embedding.seconds
        closing = traffic.gradient_norm.seconds + traffic.stage_copies.seconds
        parts["dp_exposed_s"] = parts["dp_exposed_s"] + closing
    if profile.bubble:
        parts["ep_exposed_s"] = np.maximum(parts["ep_exposed_s"] - piped.hidden, 0.0)
    parts["bubble_s"] = piped.idle * float(profile.bubble)
    parts["other_s"] = runs * (one.pace - worked)[rows, limiting]
    parts["other_s"] = parts["other_s"] + besides_seconds(table, parts, setting)
    parts["optimizer_s"] = optimizer_seconds(table, stages, setting)
    return StepTime(parts, limiting, piped)


def micro_batch_parts(
    table: LayoutTable, compute: Compute, stages: Stages, traffic: Traffic, setting: Setting
) -> dict[str, Array]:
    """What a micro-batch takes on each stage, by cause, (N, S). [s]."""
    both, again = compute.both.on(stages), compute.again.on(stages)
    return {
        "compute_s": both,
        "recompute_s": again,
        "tp_exposed_s": tp_exposed(table, traffic.tp, stages, setting),
        "cp_exposed_s": cp_exposed(table, traffic.cp, both, stages, setting),
        "ep_exposed_s": ep_exposed(traffic.ep, both + again, stages, setting),
    }


def micro_batch_work(
    table: LayoutTable, compute: Compute, parts: dict[str, Array], stages: Stages, setting: Setting
) -> Work:
    """A micro-batch's halves on each stage, with the host that launches them, (N, S). [s]."""
    worked = np.add.reduce(list(parts.values()))
    launched = launched_seconds(table, stages, worked, setting)
    whole = np.isin(table.schedule, (DUALPIPE_V, DUALPIPE)) & ~splits_backward(
        table.schedule, table.recompute
    )
    return work(compute, parts, worked, launched, stages, whole)


def last_backward(table: LayoutTable, compute: Compute, free: Array, stages: Stages) -> Array:
    """Compute DP may hide behind, (N, S): the last backward's, or its weight halves where it is split. [s].

    A split backward leaves the weight halves for the end: only they are left when gradients are whole.
    """
    halves = compute.both.on(stages) * FORWARD_SHARE + compute.weight.on(stages)
    return np.where(splits_backward(table.schedule, table.recompute)[:, None], np.minimum(free, halves), free)


def launched_seconds(table: LayoutTable, stages: Stages, worked: Array, setting: Setting) -> Array:
    """Time of a micro-batch on each stage with the host that launches its kernels, (N, S). [s].

    Where the GPUs need longer the host is ahead and costs little. ZeRO-3 also copies its gathered units, and
    an engine does its own for each layer while nothing else runs.
    """
    rates = setting.profile.rates
    if rates is None:
        return worked
    host = host_seconds(table, stages, setting, rates)
    alone = copy_seconds(table, stages, setting, rates)
    if setting.framework.time.engine_loop:
        alone = alone + (stages.dense + stages.sparse) * rates.engine_seconds_per_layer
    return together(worked, host, rates.host_norm) + alone


def host_seconds(table: LayoutTable, stages: Stages, setting: Setting, rates: Rates) -> Array:
    """Time the host needs to launch a micro-batch's kernels on each stage, (N, S). [s].

    So much a layer, and for each expert a rank holds. Full recompute launches a third more for the
    layers it covers.
    """
    own, moe = pace(setting, rates), setting.architecture.moe
    held = (moe.experts / table.ep if moe else np.zeros(len(table)))[:, None]
    layers = stages.dense * own.host_layer + stages.sparse * (own.host_layer + held * own.host_expert)
    share = 1.0 if table.recompute_layers is None else stages.recomputed(table.recompute_layers)
    return np.asarray(layers * (1.0 + (table.recompute == FULL)[:, None] * share / 3))


def copy_seconds(table: LayoutTable, stages: Stages, setting: Setting, rates: Rates) -> Array:
    """Casts and copies of ZeRO-3's gathered units in a micro-batch on each stage, (N, S). [s]."""
    parameters = rank_parameters(table, stages, setting)
    copied = setting.framework.time.copies_gathered_units
    moved = rates.unit_copy_bytes if copied else rates.unit_in_place_bytes
    sharded = ((table.zero == 3) & (held_shards(table)[0] > 1))[:, None]
    return np.asarray(sharded * (parameters.shared + parameters.routed) * moved * pace(setting, rates).byte)


def besides_seconds(table: LayoutTable, parts: dict[str, Array], setting: Setting) -> Array:
    """What a step takes besides its parts so far: what slows all of it, and its own fixed cost, (N,). [s]."""
    rates = setting.profile.rates
    if rates is None:
        return np.zeros(len(table))
    running = np.add.reduce(list(parts.values()))
    return np.asarray(running * (slowed(table, setting) - 1) + rates.step_seconds)


def slowed(table: LayoutTable, setting: Setting) -> Array:
    """Time of a step over that of its parts, (N,): stragglers, and an engine's loop. [1].

    The slowest of n equal GPUs sets the pace: a share for each doubling beyond one server's eight.
    """
    rates = setting.profile.rates
    if rates is None:
        return np.ones(len(table))
    slower = 1 + rates.straggling * np.log2(np.maximum(table.gpus / 8, 1.0))
    return np.asarray(slower * (1 + rates.engine_loop * setting.framework.time.engine_loop))


def tp_exposed(table: LayoutTable, traffic: LayerTraffic, stages: Stages, setting: Setting) -> Array:
    """TP of a micro-batch that compute waits for: all of it, or what chunked overlap leaves, (N, S)."""
    rates = setting.profile.rates
    left = np.where(table.tp_overlap == 1, rates.tp_overlap_exposed if rates else 1.0, 1.0)
    return traffic.seconds.on(stages) * left[:, None]


def ep_exposed(traffic: LayerTraffic, kernels: Array, stages: Stages, setting: Setting) -> Array:
    """EP of a micro-batch that compute waits for: all, or what another's compute does not hide, (N, S)."""
    seconds, rates = traffic.seconds.on(stages), setting.profile.rates
    if rates is None or not setting.stack.ep_overlap:
        return seconds
    return exposed(kernels, seconds, rates.expert_overlap_norm)


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
    """PP of a micro-batch that runs behind its compute: only interleaving sends behind compute, (N, S)."""
    if setting.profile.pp_hidden:
        return np.zeros_like(computing)
    sent = (2 * table.vpp * traffic.hops.mean)[:, None]
    return np.where((table.vpp > 1)[:, None], np.minimum(sent, computing), 0.0)


def sharding_exposed(table: LayoutTable, traffic: DataTraffic, free: Array, setting: Setting) -> Array:
    """DP traffic of each micro-batch that the step waits for, (N, S).

    Weights gathered and gradients reduced in every micro-batch, behind its own compute. Without overlap
    all of it is waited for.

    Parameters
    ----------
    free : (N, S)
        Compute of one micro-batch, recompute included, less what PP already hides behind. [s]
    """
    rates = setting.profile.rates
    if setting.profile.dp_hidden or rates is None:
        return np.zeros_like(free)
    steady, _ = _paced_traffic(table, traffic, setting)
    hidden = exposed(free, steady, rates.unit_norm)
    return np.where((table.dp_overlap == 1)[:, None], hidden, steady)


def closing_exposed(
    table: LayoutTable, traffic: DataTraffic, free: Array, waited: Array, setting: Setting
) -> Array:
    """DP traffic of the step's end that the step waits for on its slowest stage, (N,).

    Gradients reduced once, behind the last micro-batch's backward, and weights gathered once, behind the
    next step's forward: behind what of one micro-batch's compute hides nothing else.
    """
    rates = setting.profile.rates
    if setting.profile.dp_hidden or rates is None:
        return np.zeros(len(table))
    steady, closing = _paced_traffic(table, traffic, setting)
    left = np.maximum(free - (steady - waited), 0.0)
    overlapped = (table.dp_overlap == 1)[:, None] & setting.framework.time.overlaps_gradients
    seconds: Array = np.where(overlapped, exposed(left, closing, rates.gradient_norm), closing).max(axis=1)
    return seconds


def _paced_traffic(table: LayoutTable, traffic: DataTraffic, setting: Setting) -> tuple[Array, Array]:
    """Seconds of DP traffic in each micro-batch, and of what comes once a step, (N, S) each."""
    runs = table.micro_batches(setting.workload.global_batch)[:, None]
    reduces = ((table.zero >= 2) & (table.gradient_reduce == PER_MICRO_BATCH))[:, None]
    gathers = ((table.zero == 3) & (table.weight_gather != KEEP_FOR_STEP))[:, None]
    each = np.where(reduces, traffic.gradient_seconds, 0.0) + np.where(gathers, traffic.weight_seconds, 0.0)
    return each / runs, traffic.gradient_seconds + traffic.weight_seconds - each


def optimizer_seconds(table: LayoutTable, stages: Stages, setting: Setting) -> Array:
    """Time to stream the rank's optimizer state through HBM, on the fullest stage, (N,)."""
    rates = setting.profile.rates
    if rates is None:
        return np.zeros(len(table))
    parameters = rank_parameters(table, stages, setting)
    moved = rates.optimizer_passes * setting.workload.recipe.optimizer * _owned(table, parameters)
    fullest: Array = moved.max(axis=1) * pace(setting, rates).byte
    return fullest


def _owned(table: LayoutTable, parameters: RankParameters) -> Array:
    """Parameters whose optimizer state the rank keeps, (N, S)."""
    dense, routed = (state.optimizer_divisor(table.zero, d)[:, None] for d in held_shards(table))
    return np.asarray(parameters.shared / dense + parameters.routed / routed)
