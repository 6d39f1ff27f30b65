"""Parameters of an architecture, exact to the digit, by part and by what tensor parallelism splits.

Symbols, one meaning in this file:
    h  width of the residual stream        V  vocabulary
    E  routed experts of a layer           k  experts a token visits
Every count is a whole number of parameters. [1]
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.architecture import Architecture
from models.cost.layer_parameters import (
    LayerParameters,
    buffer_numbers,
    idle_expert_parameters,
    layer_parameters,
    norm_parameters,
)

__all__ = ["LayerParameters", "ParameterCounts", "count_parameters", "head_parameters", "padded_vocabulary"]

MEGATRON_VOCABULARY_MULTIPLE = 128
"""Default of `--make-vocab-size-divisible-by`, NVIDIA/Megatron-LM megatron/training/arguments.py."""


@dataclass(frozen=True)
class ParameterCounts:
    """A whole architecture; `total` is the sum of all parts but `mtp`."""

    dense_layer: LayerParameters
    """A layer with a dense feed-forward."""
    sparse_layer: LayerParameters | None
    """A mixture-of-experts layer; null in a dense architecture."""
    dense_layers: int
    """How many layers are dense."""
    sparse_layers: int
    """How many layers are mixtures of experts."""
    embedding: int
    """Input embedding, V * h, unpadded."""
    embedding_norm: int
    """Norm right after the embedding; usually 0."""
    positions: int
    """Learned position embedding; 0 without one."""
    head: int
    """Output head; 0 where it reuses the input embedding."""
    final_norm: int
    """Norm before the head."""
    buffers: int
    """Numbers a checkpoint holds that no gradient trains (router score correction); part of `total`."""
    mtp: int
    """What the multi-token-prediction layers hold of their own; not part of `total`."""
    total: int
    """Every parameter, MTP layers aside."""
    active: int
    """Parameters one token meets: k experts of E, and all else."""
    active_without_embedding: int
    """`active` less the input embedding where that is a lookup only."""


@lru_cache(maxsize=1024)
def count_parameters(architecture: Architecture) -> ParameterCounts:
    """Count every parameter of an architecture.

    total  = V h + positions + sum over layers + final norm + head + buffers
    active = total - (sparse layers) (E - k) (parameters of one expert)

    Returns
    -------
    ParameterCounts
        Whole numbers. [1]

    References
    ----------
    .. [1] The shapes are those of the classes `*ForCausalLM` in huggingface/transformers
       (src/transformers/models/*/modeling_*.py).

    Examples
    --------
    Llama 3 8B:

    >>> llama = Architecture(
    ...     name="llama-3-8b", hidden=4096, layers=32, heads=32, kv_heads=8, head_size=128,
    ...     ffn=14336, vocabulary=128256,
    ... )
    >>> count_parameters(llama).total
    8030261248
    """
    sparse = sum(architecture.sparse_layers())
    dense = architecture.layers - sparse
    dense_layer = layer_parameters(architecture, sparse=False)
    sparse_layer = layer_parameters(architecture, sparse=True) if sparse else None
    layers = dense * dense_layer.total + (sparse * sparse_layer.total if sparse_layer else 0)
    embedding = architecture.vocabulary * architecture.hidden
    ends = {
        "embedding": embedding,
        "embedding_norm": norm_parameters(architecture) if architecture.embedding_norm else 0,
        "positions": architecture.learned_positions * architecture.hidden,
        "head": head_parameters(architecture),
        "final_norm": norm_parameters(architecture),
        "buffers": sparse * buffer_numbers(architecture),
    }
    total = layers + sum(ends.values())
    active = total - sparse * idle_expert_parameters(architecture)
    return ParameterCounts(
        dense_layer=dense_layer,
        sparse_layer=sparse_layer,
        dense_layers=dense,
        sparse_layers=sparse,
        **ends,
        mtp=architecture.mtp_layers * mtp_parameters(architecture),
        total=total,
        active=active,
        active_without_embedding=active - (0 if architecture.tied_embeddings else embedding),
    )


def padded_vocabulary(
    vocabulary: int, tp: NDArray[np.int64], divisible_by: int = MEGATRON_VOCABULARY_MULTIPLE
) -> NDArray[np.int64]:
    """Rows of the embedding after padding, so that every TP rank holds a whole multiple.

    V' = ceil(V / (m t)) m t

    Parameters
    ----------
    vocabulary
        V, unpadded. [tokens]
    tp : (N,)
        t. [1]
    divisible_by
        m.

    Returns
    -------
    (N,)
        V'. [tokens]

    References
    ----------
    .. [1] NVIDIA/Megatron-LM, megatron/training, `vocab_size_with_padding`.

    Examples
    --------
    >>> padded_vocabulary(128256, np.array([1, 2, 4, 8])).tolist()
    [128256, 128256, 128512, 129024]
    """
    multiple = divisible_by * np.asarray(tp, dtype=np.int64)
    return -(-vocabulary // multiple) * multiple


def head_parameters(architecture: Architecture) -> int:
    """Parameters of the output head beyond a tied embedding.

    V h (nothing where tied) + V with a bias

    Examples
    --------
    >>> tiny = dict(name="t", hidden=8, layers=1, heads=2, kv_heads=2, head_size=4, ffn=8, vocabulary=16)
    >>> head_parameters(Architecture(**tiny)), head_parameters(Architecture(tied_embeddings=True, **tiny))
    (128, 0)
    """
    weight = 0 if architecture.tied_embeddings else architecture.vocabulary * architecture.hidden
    return weight + (architecture.vocabulary if architecture.head_bias else 0)


def mtp_parameters(architecture: Architecture) -> int:
    """Parameters one multi-token-prediction layer adds; embedding and head are shared.

    2 h * h (projection) + 3 norms (embedding, hidden, output) + one last layer with its buffers

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report", arXiv:2412.19437, section 2.2.

    Examples
    --------
    >>> tiny = dict(name="t", hidden=8, layers=1, heads=2, kv_heads=2, head_size=4, ffn=8, vocabulary=16)
    >>> mtp_parameters(Architecture(**tiny))
    616
    """
    sparse = architecture.sparse_layers()[-1]
    layer = layer_parameters(architecture, sparse=sparse).total + (
        buffer_numbers(architecture) if sparse else 0
    )
    return 2 * architecture.hidden**2 + 3 * norm_parameters(architecture) + layer
