"""What a step takes or sends at least, from its layers alone: cheap to know of every layout of a search.

The stage with the most work does it once for every micro-batch. With n how many a stage holds of what
causes work (dense layers, sparse layers, the ends) and u what one of each takes or sends,

    step >= G max over stages of (n . u)

and u depends on neither pp, dp, ZeRO, schedule nor chunks: one reckoning serves many layouts.
Bytes are bounded alike, the sum over the dimensions.

Symbols: G micro-batches, N layouts, S kinds of stages, D quantities that are maximised apart: one for
seconds, TP, CP and EP for bytes; 4 causes (dense layer, sparse layer, first stage, last stage).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models.cost.compute import compute_seconds
from models.cost.routes import Routes
from models.cost.setting import Setting
from models.cost.stages import Stages, stage_kinds
from models.cost.step_time import tp_exposed
from models.cost.table import FULL, KEEP_ALL, RING, LayoutTable
from models.cost.traffic import cp_traffic, ep_traffic, tp_traffic

Array = NDArray[np.float64]

LAYERED = ("tp", "cp", "ep", "etp")
"""Groups whose placement decides what a layer sends and waits for."""
CAUSES = 4


def least_seconds(table: LayoutTable, setting: Setting, placed: Routes) -> Array:
    """Work of a micro-batch by cause, (N, 1, 4): compute and the exchanges it waits for. [s].

    A ring of CP counts as hidden whole, and full recompute of some layers as of none.
    """
    table = _least_recomputed(table)
    ones = _ones(len(table))
    compute, again = compute_seconds(table, setting)
    exchanges = tp_exposed(table, tp_traffic(table, setting, placed), ones, setting)
    exchanges = exchanges + ep_traffic(table, setting, placed).seconds.on(ones)
    waits = ~((table.cp_comm == RING) & setting.profile.cp_hides_behind_attention)
    exchanges = exchanges + waits[:, None] * cp_traffic(table, setting, placed).seconds.on(ones)
    return np.asarray(compute.on(ones) + again.on(ones) + exchanges)[:, None, :]


def least_bytes(table: LayoutTable, setting: Setting, placed: Routes) -> Array:
    """What TP, CP and EP send in a micro-batch by cause, (N, 3, 4). [B]."""
    table = _least_recomputed(table)
    ones = _ones(len(table))
    flows = (tp_traffic, cp_traffic, ep_traffic)
    return np.stack([flow(table, setting, placed).sent.on(ones) for flow in flows], axis=1)


def on_step(causes: Array, table: LayoutTable, setting: Setting) -> Array:
    """Floor of a step from what each cause takes or sends, (N, D, 4), for layouts of any stages, (N,)."""
    stages = stage_kinds(table, setting)
    held = (stages.dense, stages.sparse, stages.first, stages.last)
    floor = np.zeros(len(table))
    for quantity in range(causes.shape[1]):
        work = sum(count * causes[:, quantity, cause, None] for cause, count in enumerate(held))
        floor += np.asarray(work).max(axis=1)
    return floor * table.micro_batches(setting.workload.global_batch)


def _ones(layouts: int) -> Stages:
    """Four stages that hold one cause each."""
    shape = (layouts, CAUSES)
    dense, sparse, first, last = (np.broadcast_to(row, shape) for row in np.eye(CAUSES))
    return Stages(np.zeros(shape), dense, sparse, first, last, np.ones(shape))


def _least_recomputed(table: LayoutTable) -> LayoutTable:
    """Return the layouts with the least recompute any of their layers has."""
    if table.recompute_layers is None:
        return table
    return replace(table, recompute=np.where(table.recompute == FULL, KEEP_ALL, table.recompute))
