"""Matrix products of a layer by their shape, and the time they take.

A product of an (m, k) by a (k, n) matrix is 2 m n k FLOPs; a backward is two of the same size.

Symbols, one meaning in this file:
    T  tokens of a micro-batch on one CP rank    t  TP degree    e' TP degree inside an expert
    U  token copies one rank's experts receive   h  hidden   a heads   d head size   f width
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.architecture import Architecture
from models.cost.memory import activations
from models.cost.memory.activations import Split
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
    grouped: bool = False
    """Whether the `times` products are one grouped launch, as the routed experts' are."""
    module: RecomputeModule | None = None
    """The module whose recompute repeats it; none for what only full recompute repeats."""

    @property
    def operands(self) -> Array:
        """Elements of its input and output, m k + m n of each: what a low-precision product casts. [1]."""
        return np.asarray(self.rows * (self.columns + self.depth) * self.times)

    @property
    def flops(self) -> Array:
        """FLOPs of all of them, 2 m n k each. [FLOP]."""
        return np.asarray(2.0 * self.rows * self.columns * self.depth * self.times)


TILES = ((256, 128, 1.0), (128, 256, 1.0), (128, 128, 1.06))
"""Rows and columns of the tiles a product's output is cut into, and the time a FLOP of each takes: a
smaller tile reads its operands more often. (NVIDIA, Matrix multiplication background user's guide) [1]"""

SHORTEST = min(height for height, _, _ in TILES)
"""Rows below which a tile is part-empty, however few they are: its time is in the shape's loss. [1]"""


def waves(rows: ArrayLike, columns: ArrayLike, processors: ArrayLike) -> Array:
    """Time of a product over the same with no multiprocessor ever idle: tiles go out in whole waves. [1].

    min over tiles of  ceil(ceil(m/a) ceil(n/b) / P) P a b / (m n)

    Parameters
    ----------
    rows, columns
        m, n of the output. [1]
    processors
        P, multiprocessors it has: a whole GPU's, or a share where several run at once. [1]

    Limits
    ------
    At least 1; near 1 for outputs of many waves.

    Examples
    --------
    2,048 x 5,376 on an A100: 8 x 42 tiles on 108 multiprocessors are 3.1 waves and would cost four, 1.29;
    16 x 42 smaller ones are 6.2 waves and cost seven:

    >>> float(waves(2048, 5376, 108).round(3))
    1.193
    """
    m, n, p = (np.asarray(value, dtype=np.float64) for value in (rows, columns, processors))
    best = np.asarray(np.inf)
    for height, width, slower in TILES:
        tiles = np.ceil(m / height) * np.ceil(n / width)
        best = np.minimum(best, np.ceil(tiles / p) * p * (height * width * slower) / (m * n))
    return np.asarray(np.maximum(best, 1.0))


@dataclass(frozen=True)
class ProductPace:
    """How fast matrix products run."""

    rate: float
    """F, rate of a large product. [FLOP/s]"""
    grouped_rate: float
    """The same for the experts' grouped products. [FLOP/s]"""
    shape_loss: float
    """l, length at which one dimension alone doubles the time. [1]"""
    wave_loss: float
    """w, part of the last wave's idle time that is lost. [1]"""
    processors: int | None
    """P of the GPU; None where not known: no waves are reckoned. [1]"""


@dataclass(frozen=True)
class ProductTime:
    """Time of products by pass; each (N,) or one. [s]."""

    forward: Array | float = 0.0
    input_gradient: Array | float = 0.0
    weight_gradient: Array | float = 0.0

    @property
    def backward(self) -> Array:
        """Both gradients. [s]."""
        return np.asarray(self.input_gradient + self.weight_gradient)

    def plus(self, other: "ProductTime", share: float = 1.0) -> "ProductTime":
        """Return the sum with a share of another."""
        return ProductTime(
            self.forward + share * other.forward,
            self.input_gradient + share * other.input_gradient,
            self.weight_gradient + share * other.weight_gradient,
        )


def product_seconds(gemm: Gemm, pace: ProductPace) -> ProductTime:
    """Time of a product forward, and of the two of its backward. [s].

    t = 2 m n k / F (1 + l (1/m + 1/n + 1/k)) (1 + w (waves - 1))

    The backward makes an (m, k) and a (k, n) of the same FLOPs. Tiles are filled, drained and left
    part-empty whatever the matrix: `l`, which alone tells of fewer rows than a tile has. A group's products
    share the multiprocessors.

    >>> square = Gemm(rows=4096.0, columns=4096.0, depth=4096.0)
    >>> found = product_seconds(square, ProductPace(1e12, 1e12, 0.0, 0.0, None))
    >>> float(found.forward) == float(square.flops) / 1e12 == float(found.backward) / 2
    True
    """
    shape = 1 + pace.shape_loss * (1 / np.maximum(gemm.rows, 1) + 1 / gemm.columns + 1 / gemm.depth)
    rate = pace.grouped_rate if gemm.grouped else pace.rate
    once = np.asarray(gemm.flops / rate * shape)
    if pace.processors is None or not pace.wave_loss:
        return ProductTime(once, once, once)
    share = pace.processors / np.maximum(gemm.times, 1.0) if gemm.grouped else float(pace.processors)
    rows = np.maximum(np.asarray(gemm.rows), SHORTEST)
    outputs = ((rows, gemm.columns), (rows, gemm.depth), (gemm.columns, gemm.depth))
    return ProductTime(*(once * (1 + pace.wave_loss * (waves(m, n, share) - 1)) for m, n in outputs))


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
    grouped: bool = False,
    module: RecomputeModule = "mlp",
) -> list[Gemm]:
    """A feed-forward's products: gate and up in one, then down."""
    wide = width * (2.0 if gated else 1.0)
    return [
        Gemm(tokens, wide, float(hidden), times, grouped, module),
        Gemm(tokens, float(hidden), width, times, grouped, module),
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
    found += mlp_gemms(hidden, moe.expert_ffn / part.etp, gated, copies / held, held, True, "moe")
    found.append(Gemm(part.tokens / part.residual, float(moe.experts), float(hidden), module="moe"))
    if moe.shared_expert_ffn:
        shared = moe.shared_expert_ffn / part.tp
        found += mlp_gemms(hidden, shared, gated, part.tokens, module="shared_experts")
    return found


def head_gemm(architecture: Architecture, table: LayoutTable, part: Split) -> Gemm:
    """The output head over the padded vocabulary."""
    columns = padded_vocabulary(architecture.vocabulary, table.tp) / part.tp
    return Gemm(part.tokens, columns, float(architecture.hidden))


def total_seconds(
    gemms: list[Gemm], pace: ProductPace, count: int, shares: dict[RecomputeModule, float] | None = None
) -> ProductTime:
    """Time of several products, (count,) a pass; of some modules' `shares` only. [s]."""
    total = ProductTime(*np.zeros((3, count)))
    for gemm in gemms:
        share = 1.0 if shares is None else shares.get(gemm.module, 0.0) if gemm.module else 0.0
        if share:
            total = total.plus(product_seconds(gemm, pace), share)
    return total


def total_operands(gemms: list[Gemm], count: int) -> Array:
    """Elements the inputs and outputs of several products have, (count,). [1]."""
    total = np.zeros(count)
    for gemm in gemms:
        total = total + gemm.operands
    return total
