"""Parameters of an architecture, exact to the digit, by part and by what tensor parallelism splits.

Symbols, one meaning in this file:
    h  width of the residual stream        a  query heads         g  key-value heads
    d  width of a head                     f  feed-forward width   V  vocabulary
    E  routed experts of a layer           k  experts a token visits
Every count is a whole number of parameters. [1]
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.architecture import Architecture, LatentAttention

MEGATRON_VOCABULARY_MULTIPLE = 128
"""Default of `--make-vocab-size-divisible-by`, NVIDIA/Megatron-LM megatron/training/arguments.py."""


@dataclass(frozen=True)
class LayerParameters:
    """One decoder layer; attention + mlp + router + norms + experts == sharded + replicated + experts."""

    sharded: int
    """Split over the TP group: projections by head, dense feed-forward, shared expert."""
    replicated: int
    """Whole on every TP rank: norms, router, MLA's down-projections, biases added after the reduction."""
    experts: int
    """Routed experts, split over etp * ep."""
    attention: int
    """Attention with its q/k and latent norms."""
    mlp: int
    """Dense feed-forward, or the shared expert and its gate."""
    router: int
    """Router weights and trainable biases."""
    norms: int
    """Norms over the residual stream."""

    @property
    def total(self) -> int:
        """Everything the layer holds."""
        return self.sharded + self.replicated + self.experts


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


@dataclass(frozen=True)
class _Block:
    """Parameters of one block by what tensor parallelism does with them."""

    sharded: int = 0
    replicated: int = 0

    def __add__(self, other: "_Block") -> "_Block":
        return _Block(self.sharded + other.sharded, self.replicated + other.replicated)

    @property
    def total(self) -> int:
        return self.sharded + self.replicated


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
    dense_layer = _layer(architecture, sparse=False)
    sparse_layer = _layer(architecture, sparse=True) if sparse else None
    layers = dense * dense_layer.total + (sparse * sparse_layer.total if sparse_layer else 0)
    embedding = architecture.vocabulary * architecture.hidden
    ends = {
        "embedding": embedding,
        "embedding_norm": _norm(architecture) if architecture.embedding_norm else 0,
        "positions": architecture.learned_positions * architecture.hidden,
        "head": head_parameters(architecture),
        "final_norm": _norm(architecture),
        "buffers": sparse * _buffers(architecture),
    }
    total = layers + sum(ends.values())
    active = total - sparse * _idle_experts(architecture)
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
    layer = _layer(architecture, sparse=sparse).total + (_buffers(architecture) if sparse else 0)
    return 2 * architecture.hidden**2 + 3 * _norm(architecture) + layer


def _layer(architecture: Architecture, *, sparse: bool) -> LayerParameters:
    attention = _latent_attention(architecture) if architecture.mla else _attention(architecture)
    mlp = (
        _shared_expert(architecture)
        if sparse
        else _mlp(architecture, architecture.ffn, architecture.mlp_bias)
    )
    router = _router(architecture) if sparse else 0
    norms = architecture.norms_per_layer * _norm(architecture)
    blocks = attention + mlp + _Block(replicated=router + norms)
    return LayerParameters(
        sharded=blocks.sharded,
        replicated=blocks.replicated,
        experts=_experts(architecture) if sparse else 0,
        attention=attention.total,
        mlp=mlp.total,
        router=router,
        norms=norms,
    )


def _attention(architecture: Architecture) -> _Block:
    """Grouped-query attention: h (a + 2 g) d for q, k, v and a d h for the output."""
    h, d = architecture.hidden, architecture.head_size
    queries, keys = architecture.heads * d, architecture.kv_heads * d
    sharded = h * (queries + 2 * keys) + queries * h
    replicated = 0
    if architecture.qkv_bias:
        sharded += queries + 2 * keys
    if architecture.attention_output_bias:
        replicated += h
    if architecture.attention_sinks:
        sharded += architecture.heads
    if architecture.qk_norm != "none":
        replicated += 2 * d if architecture.qk_norm == "per_head" else queries + keys
    return _Block(sharded, replicated)


def _latent_attention(architecture: Architecture) -> _Block:
    """Multi-head latent attention: down-projections and their norms whole, the rest split by head."""
    mla = architecture.mla
    assert mla is not None
    h, a = architecture.hidden, architecture.heads
    query = a * (mla.nope_head_size + mla.rope_head_size)
    key_value = a * (mla.nope_head_size + mla.value_head_size)
    sharded = mla.key_value_lora_rank * key_value + a * mla.value_head_size * h
    sharded += (mla.query_lora_rank or h) * query
    down = h * _latent_width(mla) + mla.key_value_lora_rank + (mla.query_lora_rank or 0)
    if architecture.qkv_bias:
        down += _latent_width(mla)
    if architecture.attention_output_bias:
        down += h
    return _Block(sharded, down)


def _latent_width(mla: LatentAttention) -> int:
    """Columns of the down-projections: query latent, key-value latent, shared rotary key."""
    return (mla.query_lora_rank or 0) + mla.key_value_lora_rank + mla.rope_head_size


def _mlp(architecture: Architecture, width: int, bias: bool) -> _Block:
    """Feed-forward of a given width: 3 h f gated, 2 h f plain; the down-projection's bias stays whole."""
    ups = 2 if architecture.gated_mlp else 1
    sharded = (ups + 1) * architecture.hidden * width
    return _Block(sharded + ups * width, architecture.hidden) if bias else _Block(sharded)


def _shared_expert(architecture: Architecture) -> _Block:
    moe = architecture.moe
    if moe is None or not moe.shared_expert_ffn:
        return _Block()
    gate = architecture.hidden if moe.shared_expert_gate else 0
    return _mlp(architecture, moe.shared_expert_ffn, moe.expert_bias) + _Block(replicated=gate)


def _one_expert(architecture: Architecture) -> int:
    moe = architecture.moe
    return _mlp(architecture, moe.expert_ffn, moe.expert_bias).total if moe else 0


def _experts(architecture: Architecture) -> int:
    return architecture.moe.experts * _one_expert(architecture) if architecture.moe else 0


def _idle_experts(architecture: Architecture) -> int:
    """Parameters of the experts of one layer that a token does not visit, (E - k) experts."""
    moe = architecture.moe
    return (moe.experts - moe.experts_per_token) * _one_expert(architecture) if moe else 0


def _router(architecture: Architecture) -> int:
    moe = architecture.moe
    return moe.experts * (architecture.hidden + int(moe.router_bias)) if moe else 0


def _buffers(architecture: Architecture) -> int:
    moe = architecture.moe
    return moe.experts if moe and moe.router_score_correction else 0


def _norm(architecture: Architecture) -> int:
    """One norm over the residual stream: h, twice that with a bias, nothing without affine weights."""
    if not architecture.norm_affine:
        return 0
    twice = architecture.norm == "layer" and architecture.norm_bias
    return architecture.hidden * (2 if twice else 1)
