"""Parameters one rank of a stage works on: what TP divides, what it repeats, and the routed experts.

Everything has shape (N, S): N layouts, S stages each.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.architecture import Architecture
from models.cost.layer_parameters import LayerParameters
from models.cost.parameters import count_parameters, padded_vocabulary
from models.cost.stages import Stages
from models.cost.table import LayoutTable

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RankParameters:
    """Parameters on one rank of a stage."""

    shared: Array
    """Dense part: attention, dense feed-forward, norms, router, embedding, head; sharded over dp * cp."""
    routed: Array
    """Routed experts; sharded over edp."""
    layer_shared: Array
    """Dense part of the stage's largest layer: the unit ZeRO-3 gathers."""
    layer_routed: Array
    """Routed experts of one sparse layer, on one rank."""


def rank_parameters(
    table: LayoutTable, stages: Stages, architecture: Architecture, nominal: bool
) -> RankParameters:
    """Return the parameters of each stage's rank.

    A stage's dense part is its layers' sharded parameters over t plus their replicated ones, the
    padded embedding over t on the first stage (on the last too where it is tied and p > 1), the
    head over t and the final norm on the last. Routed experts go over etp * ep.

    With `nominal` (the textbook) each stage holds Psi / (t p), Psi the round figure of the name.
    """
    counts = count_parameters(architecture)
    tp = table.tp[:, None].astype(np.float64)
    slices = (table.etp * table.ep)[:, None].astype(np.float64)
    experts = float(counts.sparse_layer.experts) if counts.sparse_layer else 0.0
    dense_layer = _local(counts.dense_layer, tp)
    sparse_layer = _local(counts.sparse_layer, tp) if counts.sparse_layer else np.zeros_like(tp)
    largest = np.maximum(
        np.where(stages.dense > 0, dense_layer, 0.0), np.where(stages.sparse > 0, sparse_layer, 0.0)
    )
    if nominal:
        routed_total = experts * counts.sparse_layers
        psi = (architecture.nominal_parameters or counts.total) - routed_total
        shared = psi / (tp * table.pp[:, None]) + np.zeros_like(stages.dense)
    else:
        shared = (
            stages.dense * dense_layer + stages.sparse * sparse_layer + _ends(table, stages, architecture)
        )
    return RankParameters(
        shared=shared,
        routed=stages.sparse * experts / slices,
        layer_shared=largest,
        layer_routed=np.where(stages.sparse > 0, experts / slices, 0.0),
    )


def _local(layer: LayerParameters, tp: Array) -> Array:
    return layer.sharded / tp + layer.replicated


def _ends(table: LayoutTable, stages: Stages, architecture: Architecture) -> Array:
    """Embedding (with its norm and positions) on the first stage, final norm and head on the last."""
    counts = count_parameters(architecture)
    tp = table.tp[:, None].astype(np.float64)
    vocabulary = padded_vocabulary(architecture.vocabulary, table.tp)[:, None] / tp
    matrix = vocabulary * architecture.hidden
    first = matrix + counts.positions + counts.embedding_norm
    bias = vocabulary if architecture.head_bias else 0.0
    own_head = ~np.bool_(architecture.tied_embeddings) | (table.pp[:, None] > 1)
    last = counts.final_norm + bias + np.where(own_head, matrix, 0.0)
    return stages.first * first + stages.last * last
