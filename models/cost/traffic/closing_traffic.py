"""Collectives that close a step: the gradient of an embedding two stages hold, and the gradient norm.

They come after the last backward and before the optimizer, so the step waits for them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.network.collective_time import ALL_REDUCE, TREE, collective_time
from models.cost.network.collectives import all_reduce_sent, ring_shares
from models.cost.network.placement import Group, groups, members
from models.cost.network.routes import Routes
from models.cost.setting import Setting
from models.cost.shards import embedding_matrix, embedding_twice
from models.cost.table import LayoutTable

Array = NDArray[np.float64]

NORM_BYTES = 4.0
"""The squared norm, one FP32 number. [B]"""


@dataclass(frozen=True)
class Closing:
    """One all-reduce at the end of a step; each (N,)."""

    message: Array
    """Payload. [B]"""
    sent: Array
    """Bytes a rank sends. [B]"""
    seconds: Array
    """Time on the wire, all of it exposed. [s]"""
    shares: Array
    """Share of the bytes on each tier, (N, K). [1]"""
    algorithm: NDArray[np.int64]
    """Index into `collective_time.ALGORITHMS`, (N,)."""


def tied_embedding(table: LayoutTable, setting: Setting, placed: Routes) -> Closing:
    """Sum the gradients of an embedding's two copies, on the first and the last stage.

    There are two where it is the head too, or where an MTP layer embeds tokens.

    An all-reduce of V_p h / t gradients between two ranks sends the matrix once, over the tier the
    ends of the pipeline are apart (M. Shoeybi et al., arXiv:1909.08053; NVIDIA/Megatron-LM
    megatron/core/distributed/finalize_model_grads.py).
    """
    apart = embedding_twice(table, setting)
    whole = embedding_matrix(table, setting.architecture) * setting.workload.recipe.gradient_sent
    message = np.where(apart, whole, 0.0)
    sent = all_reduce_sent(message, 2)
    line = groups(table)["pp"]
    ends = Group((np.minimum(table.pp, 2),), (np.maximum(table.pp - 1, 1) * line.strides[0],))
    inside = members(ends, setting.cluster, setting.gpus)
    timed = collective_time(ALL_REDUCE, message, inside, placed.wire)
    return Closing(message, sent, timed.seconds, ring_shares(inside), timed.algorithm)


def gradient_norm(table: LayoutTable, setting: Setting, placed: Routes) -> Closing:
    """Add up the squared gradient norms of all ranks before clipping: one number, a tree's latency.

    2 ceil(log2 n) messages over the outermost tier the job needs; a job of one GPU needs none.
    """
    gpus = table.gpus.astype(np.float64)
    steps = 2.0 * np.ceil(np.log2(gpus))
    within = np.array([tier.gpus or np.inf for tier in setting.cluster.tiers])
    tier = np.minimum(np.searchsorted(within, gpus), len(within) - 1)
    sent = all_reduce_sent(np.full(len(table), NORM_BYTES), gpus)
    seconds = steps * placed.wire.step[tier]
    return Closing(
        np.full(len(table), NORM_BYTES), sent, seconds, np.eye(len(within))[tier], np.full(len(table), TREE)
    )
