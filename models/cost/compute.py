"""FLOPs of a layer, of a token, and the kernel time they take on one GPU.

Symbols, one meaning in this file:
    s  tokens a sequence                  T  tokens of a micro-batch on one CP rank
    h  hidden   a heads   n_kv key-value heads   d head size   f feed-forward width
    t  TP degree, r = t with sequence parallelism else 1, e' TP degree inside an expert
A product of an (m, k) by a (k, n) matrix is 2 m n k FLOPs; a backward is two forwards.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.architecture import Architecture
from models.cost import activations
from models.cost.gemms import (
    dense_layer_gemms,
    gemm_seconds,
    head_gemm,
    sparse_layer_gemms,
    total_seconds,
)
from models.cost.memory import layer_bytes
from models.cost.parameters import count_parameters
from models.cost.setting import Setting
from models.cost.table import FULL, SELECTIVE, LayoutTable
from models.cost.units import PerLayer
from models.hardware import Gpu
from models.workload import Precision

Array = NDArray[np.float64]


def projection_flops(architecture: Architecture) -> float:
    """Forward FLOPs of a token in the attention's projections: 2 (2 a d + 2 n_kv d) h, or MLA's own.

    >>> shape = dict(hidden=8, layers=1, heads=2, kv_heads=1, head_size=4, ffn=32, vocabulary=16)
    >>> tiny = Architecture(name="t", **shape)
    >>> projection_flops(tiny)
    384.0
    """
    mla = architecture.mla
    if mla is None:
        wide = (2 * architecture.heads + 2 * architecture.kv_heads) * architecture.head_size
        return 2.0 * wide * architecture.hidden
    query_width = architecture.heads * (mla.nope_head_size + mla.rope_head_size)
    rank = mla.query_lora_rank
    query = rank * (architecture.hidden + query_width) if rank else architecture.hidden * query_width
    down = architecture.hidden * (mla.key_value_lora_rank + mla.rope_head_size)
    up = mla.key_value_lora_rank * architecture.heads * (mla.nope_head_size + mla.value_head_size)
    return 2.0 * (query + down + up + architecture.heads * mla.value_head_size * architecture.hidden)


def attention_flops(architecture: Architecture, sequence: int, causal: bool = True) -> float:
    """Forward FLOPs of a token in the attention scores and their weighted sum.

    2 s a (d_qk + d_v), half of it when causal: a token sees s/2 others on average.

    >>> shape = dict(hidden=8, layers=1, heads=2, kv_heads=1, head_size=4, ffn=32, vocabulary=16)
    >>> tiny = Architecture(name="t", **shape)
    >>> attention_flops(tiny, 100)
    1600.0
    """
    mla = architecture.mla
    width = 2.0 * architecture.head_size
    if mla is not None:
        width = float(mla.nope_head_size + mla.rope_head_size + mla.value_head_size)
    return 2.0 * sequence * architecture.heads * width / (2.0 if causal else 1.0)


def mlp_flops(hidden: int, width: int, gated: bool) -> float:
    """Forward FLOPs of a token in a feed-forward: 6 h f gated, 4 h f not.

    >>> mlp_flops(8, 32, gated=True)
    1536.0
    """
    return (6.0 if gated else 4.0) * hidden * width


def model_flops_per_token(architecture: Architecture, sequence: int, convention: str) -> float:
    """FLOPs a token in training that MFU counts; recompute never does.

    six_psi          6 Psi, Psi the (nominal) active parameters
    with_attention   6 (active - input embedding) + 3 L (causal attention forward)

    The second reproduces 250 GFLOP for DeepSeek-V3 at 4,096 tokens (arXiv:2505.09343, table 2).
    """
    counts = count_parameters(architecture)
    if convention == "six_psi":
        nominal = architecture.nominal_active_parameters or (
            architecture.nominal_parameters if architecture.moe is None else None
        )
        return 6.0 * (nominal or counts.active)
    causal = attention_flops(architecture, sequence)
    return 6.0 * counts.active_without_embedding + 3.0 * architecture.layers * causal


def peak_flops(gpu: Gpu, precision: Precision) -> float:
    """Dense peak of the matrix products of a precision. [FLOP/s].

    Raises
    ------
    ValueError
        When the GPU has no such unit; the request is refused before it gets here.
    """
    peak = {"bf16": gpu.peak_bf16_flops, "fp16": gpu.peak_fp16_flops, "fp32": gpu.peak_fp32_flops}[precision]
    if peak is None:
        raise ValueError(f"{gpu.name} has no {precision} peak")
    return peak


def model_flops_utilisation(flops_per_s: float, gpu: Gpu, precision: Precision) -> float:
    """MFU: a GPU's model FLOPs a second over its dense peak. [1].

    Chowdhery et al., arXiv:2204.02311, appendix B. 400 TFLOP/s on an H100 are 0.404.
    """
    return flops_per_s / peak_flops(gpu, precision)


@dataclass(frozen=True)
class Forward:
    """Forward time of a layer and micro-batch by kind of kernel. [s]."""

    matmul: PerLayer
    """Matrix products, at `matmul_fraction` of the peak less what their shape costs."""
    attention: PerLayer
    """The attention core, at `attention_fraction` of the peak."""
    streamed: PerLayer
    """Norms, activations and the like: each stored byte crosses HBM `elementwise_passes` / 3 times."""
    repeated: PerLayer
    """What `selective` recompute runs again in the backward."""


def forward_seconds(table: LayoutTable, setting: Setting) -> Forward:
    """Forward time of a layer and micro-batch; the backward takes about twice as long."""
    architecture, profile = setting.architecture, setting.profile
    part = activations.split(table, setting)
    peak = peak_flops(setting.cluster.gpu, setting.workload.precision)
    rate, loss = peak * setting.cluster.gpu.matmul_fraction, profile.matmul_shape_loss
    dense, sparse = dense_layer_gemms(architecture, part), sparse_layer_gemms(architecture, table, part)
    matmul = PerLayer(
        total_seconds(dense, rate, loss, len(table)),
        total_seconds(sparse, rate, loss, len(table)),
        last=gemm_seconds(head_gemm(architecture, table, part), rate, loss),
    )
    core = attention_flops(architecture, setting.workload.sequence_length) * part.tokens / part.tp
    attention = core / (peak * profile.attention_fraction)
    layer = layer_bytes(table, setting, part)
    logits = activations.logits_bytes(architecture, table, part, setting.stack.fused_loss)
    pace = streaming_pace(setting)
    streamed = PerLayer(layer.dense * pace, layer.sparse * pace, last=logits * pace)
    modules = frozenset(table.recompute_modules)
    again = [
        total_seconds([g for g in gemms if g.module in modules], rate, loss, len(table))
        + attention * ("core_attn" in modules)
        for gemms in (dense, sparse)
    ]
    return Forward(matmul, PerLayer(attention, attention), streamed, PerLayer(*again))


def streaming_pace(setting: Setting) -> float:
    """Forward time of streaming kernels for each activation byte they store. [s/B]."""
    profile = setting.profile
    rate = setting.cluster.gpu.memory_bandwidth_bytes_per_s * profile.memory_bandwidth_fraction
    return profile.elementwise_passes / 3 / rate


def compute_seconds(table: LayoutTable, setting: Setting) -> tuple[PerLayer, PerLayer]:
    """Compute of a layer and micro-batch, forward and backward, and what recompute adds. [s].

    `selective` runs its modules' products and attention again, `full` the whole forward.
    """
    if setting.profile.flat_compute_fraction is not None:
        return _flat_seconds(table, setting, setting.profile.flat_compute_fraction)
    run = forward_seconds(table, setting)
    backward = setting.profile.attention_backward_factor
    both = PerLayer(
        3 * run.matmul.dense + (1 + backward) * run.attention.dense + 3 * run.streamed.dense,
        3 * run.matmul.sparse + (1 + backward) * run.attention.sparse + 3 * run.streamed.sparse,
        last=3 * run.matmul.last + 3 * run.streamed.last,
    )
    full, selective = table.recompute == FULL, table.recompute == SELECTIVE
    again = PerLayer(
        *(
            full * (matmul + attention + streamed) + selective * repeated
            for matmul, attention, streamed, repeated in (
                (run.matmul.dense, run.attention.dense, run.streamed.dense, run.repeated.dense),
                (run.matmul.sparse, run.attention.sparse, run.streamed.sparse, run.repeated.sparse),
            )
        )
    )
    return both, again


def _flat_seconds(table: LayoutTable, setting: Setting, fraction: float) -> tuple[PerLayer, PerLayer]:
    """The texts' compute: every layer an equal part of the model's FLOPs, all at one rate."""
    part = activations.split(table, setting)
    peak = peak_flops(setting.cluster.gpu, setting.workload.precision)
    token = model_flops_per_token(
        setting.architecture, setting.workload.sequence_length, setting.profile.model_flops
    )
    layer = token / setting.architecture.layers * part.tokens / part.tp / (peak * fraction)
    again = np.where(table.recompute == FULL, layer / 3, 0.0)
    return PerLayer(layer, layer), PerLayer(again, again)
