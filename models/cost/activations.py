"""Bytes of activations one layer keeps for one micro-batch, and what the end stages add.

Symbols, one meaning in this file:
    T   tokens of a micro-batch on one CP rank, s b / c                                   [tokens]
    t   TP degree; r = t with sequence parallelism, else 1: what the residual stream is over
    e'  TP degree inside an expert (etp), k experts a token
    a   bytes of an activation (2 in BF16)                                                [B]

Attention is a fused kernel (it stores its output and the softmax statistics, never the scores),
and so is the gated activation (it stores the pair it multiplies and the product).

References
----------
.. [1] V. Korthikanti et al., "Reducing activation recomputation in large transformer models",
   MLSys 2023, arXiv:2205.05198, section 4.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.architecture import Architecture
from models.cost.parameters import padded_vocabulary
from models.cost.table import FULL, LayoutTable
from models.workload import BYTES, Workload

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """How one micro-batch's tokens and widths are divided, a column a layout; all (N,)."""

    tokens: Array
    """T. [tokens]"""
    tp: Array
    """t. [1]"""
    residual: Array
    """r. [1]"""
    etp: Array
    """e'. [1]"""
    element: float
    """a. [B]"""


def split(table: LayoutTable, workload: Workload) -> Split:
    """Return how each layout divides a micro-batch."""
    tp = table.tp.astype(np.float64)
    return Split(
        tokens=workload.sequence_length * table.micro_batch / table.cp,
        tp=tp,
        residual=np.where(table.sequence_parallel == 1, tp, 1.0),
        etp=table.etp.astype(np.float64),
        element=float(BYTES[workload.precision]),
    )


def flat_layer_bytes(tokens: ArrayLike, hidden: int, tp: ArrayLike, sequence_parallel: ArrayLike) -> Array:
    """Activations of one layer as the texts reckon them: 34 T h / t, or (10 + 24/t) T h without SP [1].

    The 5 a s^2 b of the attention scores is gone with a fused kernel. BF16, 4 h feed-forward.

    >>> float(flat_layer_bytes(8192, 16384, 8, True)) / 1e6
    570.425344
    """
    t = np.asarray(tp, dtype=np.float64)
    factor = np.where(np.asarray(sequence_parallel, dtype=bool), 34 / t, 10 + 24 / t)
    return np.asarray(factor * np.asarray(tokens, dtype=np.float64) * hidden)


def checkpoint_bytes(tokens: ArrayLike, hidden: int, residual: ArrayLike, element: float = 2.0) -> Array:
    """What full recompute keeps of a layer: its input, a T h / r [1].

    >>> float(checkpoint_bytes(8192, 16384, 1)) / 1e6
    268.435456
    """
    return np.asarray(element * np.asarray(tokens, dtype=np.float64) * hidden / np.asarray(residual))


def norm_bytes(architecture: Architecture, part: Split) -> Array:
    """Input and output of each norm of a layer: 2 a T h / r a norm. [B], (N,)."""
    return architecture.norms_per_layer * 2 * part.element * part.tokens * architecture.hidden / part.residual


def attention_bytes(architecture: Architecture, part: Split) -> Array:
    """Queries, keys, values and the attention's output of grouped-query attention. [B], (N,).

    a T (2 heads d / t + 2 max(kv / t, 1) d), plus 4 bytes of softmax statistics a head and token.
    Below one key-value head a rank, heads are replicated.
    """
    if architecture.mla is not None:
        return _latent_attention_bytes(architecture, part)
    query = architecture.heads * architecture.head_size / part.tp
    key = np.maximum(architecture.kv_heads / part.tp, 1.0) * architecture.head_size
    statistics = 4.0 * part.tokens * architecture.heads / part.tp
    return np.asarray(part.element * part.tokens * (2 * query + 2 * key) + statistics)


def _latent_attention_bytes(architecture: Architecture, part: Split) -> Array:
    """MLA: the compressed latents before and after their norm, then full-width q, k, v and output."""
    mla = architecture.mla
    assert mla is not None
    latent = 2.0 * (mla.query_lora_rank or 0) + 2.0 * mla.key_value_lora_rank + mla.rope_head_size
    key = mla.nope_head_size + mla.rope_head_size
    wide = architecture.heads * (2.0 * key + 2.0 * mla.value_head_size) / part.tp
    statistics = 4.0 * part.tokens * architecture.heads / part.tp
    return part.element * part.tokens * (latent / part.residual + wide) + statistics


def mlp_bytes(width: float, gated: bool, part: Split) -> Array:
    """A feed-forward of width f: its pre-activation (a pair when gated) and the product. [B], (N,).

    a T f / t times 3 gated, 2 not. SwiGLU at f = 3.25 h keeps 19.5 T h / t bytes.
    """
    return part.element * part.tokens * (3.0 if gated else 2.0) * width / part.tp


def dispatched_tokens(architecture: Architecture, part: Split) -> Array:
    """Token copies one rank's experts receive under balanced routing: k T e' / r. [tokens], (N,).

    Expert parallelism does not shrink it: each rank sends its k copies out and receives as many.
    """
    assert architecture.moe is not None
    return architecture.moe.experts_per_token * part.tokens * part.etp / part.residual


def expert_bytes(architecture: Architecture, part: Split) -> Array:
    """Router and routed experts of a sparse layer. [B], (N,).

    Router logits and probabilities in FP32 (8 T E / r); the dispatched copies (a U h) and each
    expert's pair and product (a U 3 f_e / e'), U the dispatched tokens. The expert's output is not
    kept: its routing weight is applied before the down projection.
    """
    moe = architecture.moe
    assert moe is not None
    copies = dispatched_tokens(architecture, part)
    width = (3.0 if architecture.gated_mlp else 2.0) * moe.expert_ffn / part.etp
    router = 8.0 * part.tokens * moe.experts / part.residual
    shared = mlp_bytes(moe.shared_expert_ffn, architecture.gated_mlp, part)
    return router + shared + part.element * copies * (architecture.hidden + width)


def dense_layer_bytes(architecture: Architecture, part: Split) -> Array:
    """All a dense layer keeps without recompute, term by term. [B], (N,).

    Llama 3.1 405B at 8,192 tokens and t = 8 keeps 0.533 GB a layer where 34 s b h / t says 0.570.
    """
    feed_forward = mlp_bytes(architecture.ffn, architecture.gated_mlp, part)
    return norm_bytes(architecture, part) + attention_bytes(architecture, part) + feed_forward


def sparse_layer_bytes(architecture: Architecture, part: Split) -> Array:
    """All a mixture-of-experts layer keeps without recompute, term by term. [B], (N,)."""
    if architecture.moe is None:
        return np.zeros_like(part.tokens)
    return (
        norm_bytes(architecture, part)
        + attention_bytes(architecture, part)
        + expert_bytes(architecture, part)
    )


def logits_bytes(architecture: Architecture, table: LayoutTable, part: Split) -> Array:
    """Logits of one micro-batch and their FP32 copy in the loss: (a + 4) T V_p / t. [B], (N,)."""
    vocabulary = padded_vocabulary(architecture.vocabulary, table.tp) / part.tp
    return (part.element + 4.0) * part.tokens * vocabulary


def kept_bytes(layer: Array, checkpoint: Array, recompute: ArrayLike) -> Array:
    """What a layer keeps until its backward: everything, or its input under full recompute. [B], (N,).

    `selective` recomputes the attention core, which a fused kernel has already made small: it keeps
    what `none` keeps.
    """
    return np.where(np.asarray(recompute) == FULL, checkpoint, layer)
