"""From compute and traffic to the time of an optimizer step: what waits, what hides, the sum.

The limiting stage (the one whose micro-batch takes longest) sets the pace: it works G micro-batches
and has nothing to do while the pipeline fills and drains (`pipeline_time`).

    step = G t_max + idle + exposed PP + exposed DP + optimizer

Symbols: G micro-batches, t_i time of one micro-batch on stage i, v interleaved chunks,
N layouts, S kinds of stages. Everything is in seconds.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.cost.kernels.compute import Compute, compute_seconds
from models.cost.kernels.pace import pace
from models.cost.memory import state
from models.cost.memory.offload import copy_seconds, held_up
from models.cost.memory.stage_bytes import kept_bytes
from models.cost.network.routes import Routes, routes
from models.cost.pipeline.schedule import splits_backward
from models.cost.setting import Setting
from models.cost.shards import RankParameters, held_shards, rank_parameters
from models.cost.stages import Chunks, Stages, chunk_kinds, spared_alike
from models.cost.step.exposed import (
    closing_exposed,
    cp_exposed,
    ep_exposed,
    last_backward,
    pp_hidden,
    sharding_exposed,
    tp_exposed,
)
from models.cost.step.host import besides_seconds, launched_seconds
from models.cost.step.pipeline_time import Added, Work, added, ran, work
from models.cost.table import (
    DUALPIPE,
    DUALPIPE_V,
    INTERLEAVED,
    LayoutTable,
)
from models.cost.traffic.closing_traffic import Closing, gradient_norm, tied_embedding
from models.cost.traffic.copies_traffic import stage_copies
from models.cost.traffic.data_traffic import DataTraffic, dp_traffic
from models.cost.traffic.layers import (
    LayerTraffic,
    cp_traffic,
    ep_traffic,
    partly_recomputed,
    tp_traffic,
)
from models.cost.traffic.pipeline_traffic import PipelineTraffic, boundary_seconds, pp_traffic

Array = NDArray[np.float64]


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
    apart = None
    if chunks is None and not profile.real_valued_stages and (table.schedule == INTERLEAVED).any():
        apart = chunk_work(table, stages, compute, traffic, setting)
    piped = added(table, stages, one, traffic.pp.hops, setting, apart)
    if chunks is not None and profile.bubble:
        each = micro_batch_parts(table, compute, chunks, traffic, setting)
        run = micro_batch_work(table, compute, each, chunks, setting)
        piped = ran(table, run, one, boundary_seconds(table, traffic.pp, setting), piped, setting)
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
    """A micro-batch's halves on each stage, with the host that launches them and offloading, (N, S). [s]."""
    worked = np.add.reduce(list(parts.values()))
    launched = launched_seconds(table, stages, worked, setting)
    whole = np.isin(table.schedule, (DUALPIPE_V, DUALPIPE)) & ~splits_backward(
        table.schedule, table.recompute
    )
    one = work(compute, parts, worked, launched, stages, whole)
    if not setting.offloaded:
        return one
    return held_up(one, copy_seconds(kept_bytes(table, stages, setting), setting))


def chunk_work(
    table: LayoutTable, stages: Stages, compute: Compute, traffic: Traffic, setting: Setting
) -> tuple[Chunks, Work]:
    """What interleaved layouts run, and a micro-batch's halves on each kind of it."""
    chunks = chunk_kinds(table, setting)
    if table.sparing:
        chunks = replace(chunks, kinds=spared_alike(chunks.kinds, stages))
    parts = micro_batch_parts(table, compute, chunks.kinds, traffic, setting)
    return chunks, micro_batch_work(table, compute, parts, chunks.kinds, setting)


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
