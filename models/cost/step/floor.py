"""What a step takes or sends at least, from its layers alone: cheap to know of every layout of a search.

The stage with the most work does it once for every micro-batch. With n how many a stage holds of what
causes work (dense layers, sparse layers, the ends) and u what one of each takes or sends,

    step >= G max over stages of (n . u)

and u depends on neither pp, dp, ZeRO, schedule nor chunks: one reckoning serves many layouts.
Bytes are bounded alike, the sum over the dimensions.

Symbols: G micro-batches, N layouts, S kinds of stages, D quantities: work and expert exchanges for
seconds; TP, CP and EP, maximised apart, for bytes; 4 causes (dense layer, sparse layer, first stage,
last stage).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models.cost.kernels.compute import compute_seconds
from models.cost.network.routes import Routes
from models.cost.setting import Setting
from models.cost.stages import Stages, stage_kinds
from models.cost.step.exposed import tp_exposed
from models.cost.step.host import slowed
from models.cost.step.pipeline_time import overlapped_pair
from models.cost.table import DUALPIPE, DUALPIPE_V, FULL, KEEP_ALL, RING, LayoutTable
from models.cost.traffic.layers import cp_traffic, ep_traffic, tp_traffic

Array = NDArray[np.float64]

LAYERED = ("tp", "cp", "ep", "etp")
"""Groups whose placement decides what a layer sends and waits for."""
CAUSES = 4


def least_seconds(table: LayoutTable, setting: Setting, placed: Routes) -> Array:
    """Work of a micro-batch by cause, (N, 2, 4): compute with TP and CP, and expert exchanges. [s].

    A ring of CP and overlapped experts' exchanges count as hidden whole, and full recompute of some layers
    as of none.
    """
    table = _least_recomputed(table)
    ones = _ones(len(table))
    compute = compute_seconds(table, setting)
    waits = ~((table.cp_comm == RING) & setting.profile.cp_hides_behind_attention)
    worked = compute.both.on(ones) + compute.again.on(ones)
    worked = worked + tp_exposed(table, tp_traffic(table, setting, placed), ones, setting)
    worked = worked + waits[:, None] * cp_traffic(table, setting, placed).seconds.on(ones)
    exchanged = ep_traffic(table, setting, placed).seconds.on(ones) * float(not setting.stack.ep_overlap)
    return np.stack([worked, exchanged], axis=1) * slowed(table, setting)[:, None, None]


def least_bytes(table: LayoutTable, setting: Setting, placed: Routes) -> Array:
    """What TP, CP and EP send in a micro-batch by cause, (N, 3, 4). [B]."""
    table = _least_recomputed(table)
    ones = _ones(len(table))
    flows = (tp_traffic, cp_traffic, ep_traffic)
    return np.stack([flow(table, setting, placed).sent.on(ones) for flow in flows], axis=1)


def step_seconds(causes: Array, table: LayoutTable, setting: Setting) -> Array:
    """Floor of a step from what each cause takes, (N, 2, 4), for layouts of any stages, (N,). [s].

    Schedules that overlap forwards with backwards may hide the exchanges in every pair.
    """
    return _step(_on_stages(causes, stage_kinds(table, setting)), table, setting)


def sparing_step_seconds(
    causes: Array, kept: Array, table: LayoutTable, stages: Stages, setting: Setting
) -> Array:
    """Floor of a step of full recompute that spares layers, (N,): those take what they do without. [s].

    Parameters
    ----------
    causes, kept : (N, 2, 4)
        What each cause takes with full recompute, and without any. [s]
    stages : (N, S)
        With the layers each spares.
    """
    none = np.zeros_like(stages.dense)
    dense, sparse = none + stages.spared_dense, none + stages.spared_sparse
    again = replace(stages, dense=stages.dense - dense, sparse=stages.sparse - sparse)
    spared = replace(stages, dense=dense, sparse=sparse, first=none, last=none)
    both = zip(_on_stages(causes, again), _on_stages(kept, spared), strict=True)
    return _step([one + other for one, other in both], table, setting)


def _step(each: list[Array], table: LayoutTable, setting: Setting) -> Array:
    """Every micro-batch on the stage with the most work, (N,), from its work and its exchanges. [s]."""
    worked, exchanged = each
    whole = worked + exchanged
    overlapped = np.isin(table.schedule, (DUALPIPE_V, DUALPIPE))[:, None]
    least = np.where(overlapped, overlapped_pair(whole, exchanged), whole)
    return np.asarray(least.max(axis=1) * table.passes(setting.workload.global_batch))


def step_bytes(causes: Array, table: LayoutTable, setting: Setting) -> Array:
    """Floor of what a step sends from what each cause sends, (N, D, 4), (N,). [B]."""
    sent = sum(one.max(axis=1) for one in _on_stages(causes, stage_kinds(table, setting)))
    return np.asarray(sent * table.passes(setting.workload.global_batch))


def _on_stages(causes: Array, stages: Stages) -> list[Array]:
    """Each quantity on every kind of stage, D of (N, S)."""
    held = (stages.dense, stages.sparse, stages.first, stages.last)
    return [
        np.add.reduce([count * causes[:, quantity, cause, None] for cause, count in enumerate(held)])
        for quantity in range(causes.shape[1])
    ]


def _ones(layouts: int) -> Stages:
    """Four stages that hold one cause each."""
    shape = (layouts, CAUSES)
    dense, sparse, first, last = (np.broadcast_to(row, shape) for row in np.eye(CAUSES))
    return Stages(np.zeros(shape), dense, sparse, first, last, np.ones(shape))


def _least_recomputed(table: LayoutTable) -> LayoutTable:
    """Return the layouts with the least recompute any of their layers has."""
    if not table.spares:
        return table
    return replace(table, recompute=np.where(table.recompute == FULL, KEEP_ALL, table.recompute))
