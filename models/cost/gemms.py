"""Matrix products of a layer by their shape, and the time they take.

A product of an (m, k) by a (k, n) matrix is 2 m n k FLOPs; a backward is two of the same size.

Symbols, one meaning in this file:
    T  tokens of a micro-batch on one CP rank    t  TP degree    e' TP degree inside an expert
    U  token copies one rank's experts receive   h  hidden   a heads   d head size   f width
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.architecture import Architecture
from models.cost import activations
from models.cost.activations import Split
from models.cost.parameters import padded_vocabulary
from models.cost.table import LayoutTable
from models.layout import RecomputeModule

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Gemm:
    """One kind of matrix product of a layer and micro-batch on one rank; each broadcastable to (N,)."""

    rows: Array | float
    """m: tokens it works on. [1]"""
    columns: Array | float
    """n: output width. [1]"""
    depth: Array | float
    """k: input width, what is summed over. [1]"""
    times: Array | float = 1.0
    """How many of this shape. [1]"""
    module: RecomputeModule | None = None
    """The module whose recompute repeats it; none for what only full recompute repeats."""

    @property
    def flops(self) -> Array:
        """FLOPs of all of them, 2 m n k each. [FLOP]."""
        return np.asarray(2.0 * self.rows * self.columns * self.depth * self.times)


def gemm_seconds(gemm: Gemm, rate: float, loss: float) -> Array:
    """Time of a matrix product whose efficiency falls with its smallest dimension. [s].

    t = 2 m n k / F (1 + l (1/m + 1/n + 1/k))

    F is the rate of large products [FLOP/s]; l the length [1] at which a dimension alone doubles the
    time: tiles are filled, drained and left part-empty, whose cost does not shrink with the matrix.

    >>> one = Gemm(rows=4096.0, columns=4096.0, depth=4096.0)
    >>> float(gemm_seconds(one, 1e12, 0.0)) == float(one.flops) / 1e12
    True
    """
    shape = 1 + loss * (1 / np.maximum(gemm.rows, 1) + 1 / gemm.columns + 1 / gemm.depth)
    return np.asarray(gemm.flops / rate * shape)


def attention_gemms(architecture: Architecture, part: Split) -> list[Gemm]:
    """Projections of the attention: q, k and v in one product, then the output; MLA's own five."""
    h, tokens = float(architecture.hidden), part.tokens
    mla = architecture.mla
    if mla is None:
        heads = architecture.heads + 2 * architecture.kv_heads
        width = architecture.heads * architecture.head_size / part.tp
        return [Gemm(tokens, heads * architecture.head_size / part.tp, h), Gemm(tokens, h, width)]
    key = architecture.heads * (mla.nope_head_size + mla.rope_head_size) / part.tp
    up = architecture.heads * (mla.nope_head_size + mla.value_head_size) / part.tp
    own = tokens / part.residual
    found = [
        Gemm(own, float(mla.key_value_lora_rank + mla.rope_head_size), h),
        Gemm(tokens, up, float(mla.key_value_lora_rank), module="mla_up_proj"),
        Gemm(tokens, h, architecture.heads * mla.value_head_size / part.tp),
    ]
    if mla.query_lora_rank is None:
        return [*found, Gemm(tokens, key, h, module="mla_up_proj")]
    rank = float(mla.query_lora_rank)
    return [*found, Gemm(own, rank, h), Gemm(tokens, key, rank, module="mla_up_proj")]


def mlp_gemms(
    hidden: int,
    width: Array | float,
    gated: bool,
    tokens: Array,
    times: Array | float = 1.0,
    module: RecomputeModule = "mlp",
) -> list[Gemm]:
    """A feed-forward's products: gate and up in one, then down."""
    wide = width * (2.0 if gated else 1.0)
    return [
        Gemm(tokens, wide, float(hidden), times, module),
        Gemm(tokens, float(hidden), width, times, module),
    ]


def dense_layer_gemms(architecture: Architecture, part: Split) -> list[Gemm]:
    """Every product of a dense layer's forward."""
    width = architecture.ffn / part.tp
    feed_forward = mlp_gemms(architecture.hidden, width, architecture.gated_mlp, part.tokens)
    return attention_gemms(architecture, part) + feed_forward


def sparse_layer_gemms(architecture: Architecture, table: LayoutTable, part: Split) -> list[Gemm]:
    """Every product of a mixture-of-experts layer's forward.

    The rank's E / ep experts share its U copies evenly, so each works on U ep / E rows: few rows an
    expert is what expert parallelism mends.
    """
    moe = architecture.moe
    if moe is None:
        return []
    held = moe.experts / table.ep
    copies = activations.dispatched_tokens(architecture, part)
    gated, hidden = architecture.gated_mlp, architecture.hidden
    found = attention_gemms(architecture, part)
    found += mlp_gemms(hidden, moe.expert_ffn / part.etp, gated, copies / held, held, "moe")
    found.append(Gemm(part.tokens / part.residual, float(moe.experts), float(hidden), module="moe"))
    if moe.shared_expert_ffn:
        shared = moe.shared_expert_ffn / part.tp
        found += mlp_gemms(hidden, shared, gated, part.tokens, module="shared_experts")
    return found


def head_gemm(architecture: Architecture, table: LayoutTable, part: Split) -> Gemm:
    """The output head over the padded vocabulary."""
    columns = padded_vocabulary(architecture.vocabulary, table.tp) / part.tp
    return Gemm(part.tokens, columns, float(architecture.hidden))


def total_seconds(gemms: list[Gemm], rate: float, loss: float, count: int) -> Array:
    """Time of several products, (count,). [s]."""
    total = np.zeros(count)
    for gemm in gemms:
        total = total + gemm_seconds(gemm, rate, loss)
    return total
