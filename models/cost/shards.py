"""Parameters one rank of a stage works on: what TP divides, what it repeats, and the routed experts.

Everything has shape (N, S): N layouts, S stages each.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.architecture import Architecture
from models.cost.layer_parameters import LayerParameters
from models.cost.parameters import count_parameters, padded_vocabulary
from models.cost.pipeline.schedule import FOLDED
from models.cost.setting import Setting
from models.cost.stages import Stages
from models.cost.table import DUALPIPE, LayoutTable

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RankParameters:
    """Parameters on one rank of a stage."""

    shared: Array
    """Dense part: attention, dense feed-forward, norms, router, embedding, head; sharded over dp * cp."""
    ends: Array
    """Embedding, head and final norm among the dense part."""
    routed: Array
    """Routed experts; sharded over edp."""
    layer_shared: Array
    """Dense part of the stage's largest layer: the unit ZeRO-3 gathers."""
    layer_routed: Array
    """Routed experts of one sparse layer, on one rank."""


def state_shards(table: LayoutTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranks the dense state and the experts' state are sharded over, (N,) each. [1].

    dp * cp and edp; or what the group of `hsdp_shard` ranks has in common with them where ZeRO shards
    inside groups only
    (HSDP: Zhao et al., "PyTorch FSDP", arXiv:2304.11277, section 3.2.2).
    """
    dense, experts = table.dp * table.cp, table.edp
    if table.hsdp_shard is None:
        return dense, experts
    return np.gcd(dense, table.hsdp_shard), np.gcd(experts, table.hsdp_shard)


def held_shards(table: LayoutTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranks that share the optimizer's state of a stage, dense and experts', (N,) each. [1].

    `state_shards`, and under dualpipe twice as many: both ranks that hold a copy of a stage step half of it.
    """
    dense, experts = state_shards(table)
    copies = copies_of_stage(table)
    return dense * copies, experts * copies


def copies_of_stage(table: LayoutTable) -> NDArray[np.int64]:
    """Ranks of a pipeline that hold each stage, (N,): two under dualpipe. [1]."""
    return np.where(table.schedule == DUALPIPE, 2, 1)


def rank_parameters(table: LayoutTable, stages: Stages, setting: Setting) -> RankParameters:
    """Return the parameters of each stage's rank.

    A stage's dense part is its layers' sharded parameters over t plus their replicated ones, the
    padded embedding over t on the first stage (on the last too where `embedding_twice`), the head
    over t, the final norm and what MTP layers add on the last. Routed experts go over etp * ep.

    In real-valued stages (the textbook) each holds Psi / (t p), Psi the round figure of the name.
    """
    architecture = setting.architecture
    counts = count_parameters(architecture)
    tp = table.tp[:, None].astype(np.float64)
    slices = (table.etp * table.ep)[:, None].astype(np.float64)
    experts = float(counts.sparse_layer.experts) if counts.sparse_layer else 0.0
    dense_layer = _local(counts.dense_layer, tp)
    sparse_layer = _local(counts.sparse_layer, tp) if counts.sparse_layer else np.zeros_like(tp)
    held = np.where(stages.dense > 0, dense_layer, 0.0), np.where(stages.sparse > 0, sparse_layer, 0.0)
    if setting.profile.real_valued_stages:
        psi = (architecture.nominal_parameters or counts.total) - experts * counts.sparse_layers
        shared, ends = (
            copies_of_stage(table)[:, None] * psi / (tp * table.pp[:, None]) + np.zeros_like(stages.dense),
            np.zeros_like(stages.dense),
        )
    else:
        ends = _ends(table, stages, setting)
        shared = stages.dense * dense_layer + stages.sparse * sparse_layer + ends
    return RankParameters(
        shared=shared,
        ends=ends,
        routed=stages.sparse * experts / slices,
        layer_shared=np.maximum(*held),
        layer_routed=np.where(stages.sparse > 0, experts / slices, 0.0),
    )


def _local(layer: LayerParameters, tp: Array) -> Array:
    return layer.sharded / tp + layer.replicated


def embedding_matrix(table: LayoutTable, architecture: Architecture) -> Array:
    """Padded embedding or head of one TP rank, V_p h / t, (N,). [1]."""
    return padded_vocabulary(architecture.vocabulary, table.tp) / table.tp * float(architecture.hidden)


def embedding_twice(table: LayoutTable, setting: Setting) -> NDArray[np.bool_]:
    """Whether the last of several stages holds the input embedding too, (N,).

    Not where one rank runs the first and the last stage.

    As the head it is tied to, or to embed the tokens an MTP layer predicts from; one copy serves both
    (NVIDIA/Megatron-LM megatron/core/models/gpt/gpt_model.py, `pre_process or mtp_process`).
    """
    wanted = setting.architecture.tied_embeddings or setting.mtp_layers > 0
    apart = (table.pp > 1) & ~np.isin(table.schedule, (*FOLDED, DUALPIPE))
    return np.asarray(apart & wanted)


def _ends(table: LayoutTable, stages: Stages, setting: Setting) -> Array:
    """Embedding (with its norm and positions) on the first stage, final norm and head on the last.

    Each MTP layer's projection of 2 h^2 and its three norms stand on the last stage too, and one copy
    of the embedding for all of them (`embedding_twice`); the layer itself is among the stage's layers.
    """
    architecture = setting.architecture
    counts = count_parameters(architecture)
    tp = table.tp[:, None].astype(np.float64)
    vocabulary = padded_vocabulary(architecture.vocabulary, table.tp)[:, None] / tp
    matrix = embedding_matrix(table, architecture)[:, None]
    first = matrix + counts.positions + counts.embedding_norm
    bias = vocabulary if architecture.head_bias else 0.0
    matrices = float(not architecture.tied_embeddings) + embedding_twice(table, setting)[:, None]
    norms = 3 * counts.final_norm
    predicted = setting.mtp_layers * (2 * architecture.hidden**2 / tp + norms)
    last = counts.final_norm + bias + matrices * matrix + predicted
    return stages.first * first + stages.last * last
