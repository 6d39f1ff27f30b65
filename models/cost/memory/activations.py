"""Bytes of activations one layer keeps for one micro-batch, tensor by tensor, and what the ends add.

Symbols, one meaning in this file:
    T   tokens of a micro-batch on one CP rank, s b / c                                   [tokens]
    t   TP degree; r = t with sequence parallelism, else 1: what the residual stream is over
    e'  TP degree inside an expert (etp), k experts a token
    U   token copies one rank's experts receive, `dispatched_tokens`                      [tokens]
    a   bytes of an activation (2 in BF16)                                                [B]

A fused attention kernel stores its output and softmax statistics, never the scores; a fused gated
activation stores the pair it multiplies and the product.

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
from models.cost.setting import Setting
from models.cost.table import FULL, SELECTIVE, LayoutTable
from models.layout import RecomputeModule

Array = NDArray[np.float64]
Tensors = dict[str, Array]

_EXPERTS = ("router", "dispatched", "expert_pair", "expert_product", "shared_pair", "shared_product")
_NORMS = ("attention_norm_output", "mlp_norm_output")

DROPPED_BY: dict[RecomputeModule, dict[str, float]] = {
    "core_attn": dict.fromkeys(("scores", "statistics"), 1.0),
    "layernorm": dict.fromkeys(_NORMS, 1.0),
    "act": dict.fromkeys(("mlp_product", "shared_product"), 1.0),
    "moe_act": {"expert_product": 1.0},
    "mla_up_proj": dict.fromkeys(("wide_query", "wide_key_value"), 1.0),
    "mlp": dict.fromkeys(("mlp_pair", "mlp_product"), 1.0),
    "shared_experts": dict.fromkeys(("shared_pair", "shared_product"), 1.0),
    "moe": dict.fromkeys(_EXPERTS, 1.0),
    "every_second_product": {
        **dict.fromkeys((*_NORMS, "mlp_product", "expert_product", "shared_product"), 1.0),
        **dict.fromkeys(("key_value", "mlp_pair", "expert_pair", "shared_pair"), 0.5),
    },
}
"""Share of each tensor a recomputed module no longer keeps; its input is kept by the module before it.
(NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py, `recompute_modules`; the last is
pytorch/torchtitan's operator-level checkpointing, which saves every operator's output but that of each
second matrix product: torchtitan/distributed/activation_checkpoint.py)"""


PRODUCT_INPUTS = frozenset(
    (
        "attention_norm_output",
        "attention_output",
        "mlp_norm_output",
        "mlp_product",
        "dispatched",
        "expert_product",
        "shared_product",
    )
)
"""Tensors a linear layer keeps as its input, in the type its product is done in."""


@dataclass(frozen=True)
class Split:
    """How one micro-batch's tokens and widths are divided, a column a layout; all (N,)."""

    tokens: Array
    """T. [tokens]"""
    sequence: float
    """s, what a query may attend to. [tokens]"""
    tp: Array
    """t. [1]"""
    residual: Array
    """r. [1]"""
    etp: Array
    """e'. [1]"""
    element: float
    """a. [B]"""
    product_input: float
    """Bytes of a stored input of a matrix product: a, or 1 in FP8. [B]"""
    imbalance: float
    """Copies the busiest rank's experts receive over the mean. [1]"""
    fused: bool
    """Whether attention is a fused kernel."""
    dropout: bool
    """Whether dropout masks (and the scores before dropout) are kept."""


def split(table: LayoutTable, setting: Setting) -> Split:
    """Return how each layout divides a micro-batch."""
    tp = table.tp.astype(np.float64)
    stack, workload = setting.stack, setting.workload
    return Split(
        tokens=workload.sequence_length * table.micro_batch / table.cp,
        sequence=float(workload.sequence_length),
        tp=tp,
        residual=np.where(table.sequence_parallel == 1, tp, 1.0),
        etp=table.etp.astype(np.float64),
        element=workload.recipe.activation,
        product_input=workload.recipe.product_input,
        imbalance=1.0 if stack.token_drop else stack.imbalance,
        fused=stack.attention_kernel != "unfused",
        dropout=stack.dropout,
    )


def flat_layer_bytes(
    tokens: ArrayLike, hidden: int, tp: ArrayLike, sequence_parallel: ArrayLike, scores: ArrayLike = 0.0
) -> Array:
    """Activations of one layer as the texts reckon them: 34 T h / t, or (10 + 24/t) T h without SP [1].

    `scores` are the 5 a s^2 b / t that a fused kernel does not keep. BF16, 4 h feed-forward, dropout.

    >>> float(flat_layer_bytes(8192, 16384, 8, True)) / 1e6
    570.425344
    """
    t = np.asarray(tp, dtype=np.float64)
    factor = np.where(np.asarray(sequence_parallel, dtype=bool), 34 / t, 10 + 24 / t)
    return np.asarray(factor * np.asarray(tokens, dtype=np.float64) * hidden + scores)


def flat_score_bytes(tokens: ArrayLike, sequence: float, heads: int, tp: ArrayLike) -> Array:
    """Attention scores an unfused kernel keeps in 16 bits with dropout: 5 a s T / t [1]. [B].

    Softmax output 2, dropout mask 1, dropout output 2 bytes a score.

    >>> float(flat_score_bytes(2048, 2048, 96, 1))
    2013265920.0
    """
    score = np.asarray(tokens, dtype=np.float64) * sequence * heads
    return np.asarray(5.0 * score / np.asarray(tp, dtype=np.float64))


def checkpoint_bytes(tokens: ArrayLike, hidden: int, residual: ArrayLike, element: float = 2.0) -> Array:
    """What full recompute keeps of a layer: its input, a T h / r [1].

    >>> float(checkpoint_bytes(8192, 16384, 1)) / 1e6
    268.435456
    """
    return np.asarray(element * np.asarray(tokens, dtype=np.float64) * hidden / np.asarray(residual))


def norm_tensors(architecture: Architecture, part: Split) -> Tensors:
    """Input and output of each norm, a T h / r each, and the two dropout masks of one byte. [B], (N,).

    With parallel attention one norm feeds both branches; a third and fourth norm (Gemma 2) sit
    behind attention and feed-forward and count with them.
    """
    stream = part.tokens * architecture.hidden / part.residual
    one = part.element * stream
    after = one * max(architecture.norms_per_layer - 2, 0)
    tensors = {"attention_norm_input": one, "attention_norm_output": one}
    if architecture.norms_per_layer > 1:
        tensors |= {"mlp_norm_input": one, "mlp_norm_output": one, "post_norms": 2 * after}
    if part.dropout:
        tensors["dropout_masks"] = 2.0 * stream
    return tensors


def attention_tensors(architecture: Architecture, part: Split) -> Tensors:
    """Queries, keys, values, scores or statistics, and the output of the attention. [B], (N,).

    Below one key-value head a rank, heads are replicated. Statistics are 4 bytes a head and token.
    """
    tensors = _projections(architecture, part)
    if part.fused:
        tensors["statistics"] = 4.0 * part.tokens * architecture.heads / part.tp
    else:
        score = part.tokens * part.sequence * architecture.heads / part.tp
        each = part.element + (part.element + 1.0) * part.dropout
        tensors["scores"] = each * score
    return tensors


def _projections(architecture: Architecture, part: Split) -> Tensors:
    """Grouped-query attention: a T (heads d, 2 max(kv, t) d, heads d) / t."""
    if architecture.mla is not None:
        return _latent_projections(architecture, part)
    query = part.element * part.tokens * architecture.heads * architecture.head_size / part.tp
    heads = np.maximum(architecture.kv_heads / part.tp, 1.0)
    key_value = part.element * part.tokens * 2 * heads * architecture.head_size
    return {"query": query, "key_value": key_value, "attention_output": query}


def _latent_projections(architecture: Architecture, part: Split) -> Tensors:
    """MLA: the latents before and after their norm, then full-width queries, keys, values, output."""
    mla = architecture.mla
    assert mla is not None
    latent = 2.0 * (mla.query_lora_rank or 0) + 2.0 * mla.key_value_lora_rank + mla.rope_head_size
    wide = part.element * part.tokens * architecture.heads / part.tp
    key = mla.nope_head_size + mla.rope_head_size
    return {
        "latents": part.element * part.tokens * latent / part.residual,
        "wide_query": wide * key,
        "wide_key_value": wide * (key + mla.value_head_size),
        "attention_output": wide * mla.value_head_size,
    }


def mlp_tensors(width: float, gated: bool, part: Split, name: str = "mlp") -> Tensors:
    """A feed-forward of width f: its pre-activation (a pair when gated) and the product. [B], (N,).

    a T f / t times 2 + 1 gated, 1 + 1 not. SwiGLU at f = 3.25 h keeps 19.5 T h / t bytes.
    """
    one = part.element * part.tokens * width / part.tp
    return {f"{name}_pair": one * (2.0 if gated else 1.0), f"{name}_product": one}


def dispatched_tokens(architecture: Architecture, part: Split) -> Array:
    """Token copies one rank's experts receive: k T e' / r, times the imbalance. [tokens], (N,).

    Expert parallelism does not shrink it: each rank sends its k copies out and receives as many.
    """
    assert architecture.moe is not None
    even = architecture.moe.experts_per_token * part.tokens * part.etp / part.residual
    return np.asarray(even * part.imbalance)


def expert_tensors(architecture: Architecture, part: Split) -> Tensors:
    """Router, routed and shared experts of a sparse layer. [B], (N,).

    Router logits and probabilities in FP32 (8 T E / r); the dispatched copies a U h; each expert's
    pair and product a U 3 f_e / e'. The expert's output is not kept: its routing weight is applied
    before the down projection.
    """
    moe = architecture.moe
    assert moe is not None
    copies = dispatched_tokens(architecture, part)
    one = part.element * copies * moe.expert_ffn / part.etp
    tensors = {
        "router": 8.0 * part.tokens * moe.experts / part.residual,
        "dispatched": part.element * copies * architecture.hidden,
        "expert_pair": one * (2.0 if architecture.gated_mlp else 1.0),
        "expert_product": one,
    }
    if moe.shared_expert_ffn:
        tensors |= mlp_tensors(moe.shared_expert_ffn, architecture.gated_mlp, part, "shared")
    return tensors


def dense_layer_tensors(architecture: Architecture, part: Split) -> Tensors:
    """All a dense layer keeps without recompute. [B], (N,).

    Llama 3.1 405B at 8,192 tokens and t = 8 keeps 0.533 GB a layer where 34 s b h / t says 0.570.
    With dropout, an unfused kernel and a plain 4 h feed-forward it is the 34 + 5 a s / h of [1].
    """
    feed_forward = mlp_tensors(architecture.ffn, architecture.gated_mlp, part)
    tensors = norm_tensors(architecture, part) | attention_tensors(architecture, part) | feed_forward
    return _stored(tensors, part)


def sparse_layer_tensors(architecture: Architecture, part: Split) -> Tensors:
    """All a mixture-of-experts layer keeps without recompute. [B], (N,)."""
    if architecture.moe is None:
        return {}
    experts = expert_tensors(architecture, part)
    tensors = norm_tensors(architecture, part) | attention_tensors(architecture, part) | experts
    return _stored(tensors, part)


def _stored(tensors: Tensors, part: Split) -> Tensors:
    """The same with the inputs of matrix products in the type they are kept in (FP8 under FP8)."""
    share = part.product_input / part.element
    if share == 1.0:
        return tensors
    return {name: value * share if name in PRODUCT_INPUTS else value for name, value in tensors.items()}


def layer_total(tensors: Tensors, part: Split) -> Array:
    """Sum of a layer's tensors. [B], (N,)."""
    return np.asarray(sum(tensors.values(), start=np.zeros_like(part.tokens)))


def kept_bytes(tensors: Tensors, checkpoint: Array, table: LayoutTable, part: Split) -> Array:
    """What a layer keeps until its backward under each row's recompute. [B], (N,).

    Everything; everything less the recomputed modules' tensors (selective); or its input (full).
    """
    whole = layer_total(tensors, part)
    gone = dropped_shares(table.recompute_modules)
    shares = ((value, gone.get(name, 0.0)) for name, value in tensors.items())
    dropped = sum((value * share for value, share in shares if share), start=np.zeros_like(whole))
    kept = np.where(table.recompute == SELECTIVE, whole - dropped, whole)
    return np.where(table.recompute == FULL, checkpoint, kept)


def dropped_shares(modules: tuple[RecomputeModule, ...]) -> dict[str, float]:
    """Return the share of each tensor that selectively recomputed modules do not keep.

    >>> dropped_shares(("core_attn",))
    {'scores': 1.0, 'statistics': 1.0}
    """
    found: dict[str, float] = {}
    for module in modules:
        for name, share in DROPPED_BY[module].items():
            found[name] = max(share, found.get(name, 0.0))
    return found


def logits_bytes(architecture: Architecture, table: LayoutTable, part: Split, copies: int) -> Array:
    """Logits of one micro-batch and their FP32 copies in the loss: (a + 4 copies) T V_p / t. [B], (N,).

    A fused loss turns the logits into their gradient in place and makes no copy; vocabulary-parallel
    cross-entropy makes one, a plain one three (values, log-softmax, gradient).
    """
    vocabulary = padded_vocabulary(architecture.vocabulary, table.tp) / part.tp
    return np.asarray((part.element + 4.0 * copies) * part.tokens * vocabulary)
