"""What of each dimension's traffic a step waits for, and what runs behind compute.

Symbols: N layouts, S kinds of stages. Everything is in seconds.
"""

import numpy as np
from numpy.typing import NDArray

from models.cost.kernels.compute import Compute
from models.cost.pipeline.schedule import splits_backward
from models.cost.setting import Setting
from models.cost.stages import Stages
from models.cost.step.overlap import exposed
from models.cost.table import (
    KEEP_FOR_STEP,
    PER_MICRO_BATCH,
    RING,
    LayoutTable,
)
from models.cost.traffic.data_traffic import DataTraffic
from models.cost.traffic.layers import (
    LayerTraffic,
)
from models.cost.traffic.pipeline_traffic import PipelineTraffic

Array = NDArray[np.float64]

FORWARD_SHARE = 1 / 3
"""Forward's part of a micro-batch: a backward is two forwards. [1]"""


def last_backward(table: LayoutTable, compute: Compute, free: Array, stages: Stages) -> Array:
    """Compute DP may hide behind, (N, S): the last backward's, or its weight halves where it is split. [s].

    A split backward leaves the weight halves for the end: only they are left when gradients are whole.
    """
    halves = compute.both.on(stages) * FORWARD_SHARE + compute.weight.on(stages)
    return np.where(splits_backward(table.schedule, table.recompute)[:, None], np.minimum(free, halves), free)


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
