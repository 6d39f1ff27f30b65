"""The kernel time of a layer on one GPU, from its FLOPs and its bytes.

Symbols, one meaning in this file:
    s  tokens a sequence                  T  tokens of a micro-batch on one CP rank
    h  hidden   a heads   n_kv key-value heads   d head size   f feed-forward width
    t  TP degree, r = t with sequence parallelism else 1, e' TP degree inside an expert
A product of an (m, k) by a (k, n) matrix is 2 m n k FLOPs; a backward is two forwards.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost import activations
from models.cost.flops import attention_flops, model_flops_per_token
from models.cost.gemms import (
    Gemm,
    dense_layer_gemms,
    gemm_seconds,
    head_gemm,
    sparse_layer_gemms,
    total_seconds,
)
from models.cost.memory import layer_bytes
from models.cost.setting import Setting
from models.cost.table import FULL, SELECTIVE, LayoutTable
from models.cost.units import PerLayer
from models.hardware import Gpu
from models.workload import Precision

Array = NDArray[np.float64]


def peak_flops(gpu: Gpu, precision: Precision) -> float:
    """Dense peak of the matrix products of a precision. [FLOP/s].

    Raises
    ------
    ValueError
        When the GPU has no such unit; the request is refused before it gets here.
    """
    peak: float | None = getattr(gpu, f"peak_{precision}_flops")
    if peak is None:
        raise ValueError(f"{gpu.name} has no {precision} peak")
    return peak


def wide_precision(precision: Precision) -> Precision:
    """Precision of what FP8 training leaves in 16 bits: the attention core and the head."""
    return "bf16" if precision == "fp8" else precision


def matmul_rate(gpu: Gpu, precision: Precision) -> float:
    """Rate of large matrix products: the peak times the fraction they reach. [FLOP/s]."""
    fraction = gpu.matmul_fraction_fp8 if precision == "fp8" else gpu.matmul_fraction
    return peak_flops(gpu, precision) * fraction


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
    gpu, precision = setting.cluster.gpu, setting.workload.precision
    wide, heads = wide_precision(precision), 1 + setting.mtp_layers
    rate, loss = matmul_rate(gpu, precision), profile.matmul_shape_loss
    dense, sparse = dense_layer_gemms(architecture, part), sparse_layer_gemms(architecture, table, part)
    matmul = PerLayer(
        total_seconds(dense, rate, loss, len(table)),
        total_seconds(sparse, rate, loss, len(table)),
        last=heads * gemm_seconds(head_gemm(architecture, table, part), matmul_rate(gpu, wide), loss),
    )
    core = attention_flops(architecture, setting.workload.sequence_length) * part.tokens / part.tp
    attention = core / (peak_flops(gpu, wide) * profile.attention_fraction)
    layer = layer_bytes(table, setting, part)
    logits = activations.logits_bytes(architecture, table, part, setting.logits_copies)
    pace = streaming_pace(setting)
    streamed = PerLayer(layer.dense * pace, layer.sparse * pace, last=heads * logits * pace)
    again = PerLayer(
        _repeated(dense, attention, table, rate, loss), _repeated(sparse, attention, table, rate, loss)
    )
    return Forward(matmul, PerLayer(attention, attention), streamed, again)


def _repeated(gemms: list[Gemm], attention: Array, table: LayoutTable, rate: float, loss: float) -> Array:
    """What `selective` recompute runs again: its modules' products, the attention core, (N,). [s]."""
    modules = frozenset(table.recompute_modules)
    named = total_seconds([gemm for gemm in gemms if gemm.module in modules], rate, loss, len(table))
    if "every_second_product" in modules:
        named = np.maximum(named, 0.5 * total_seconds(gemms, rate, loss, len(table)))
    return np.asarray(named + attention * ("core_attn" in modules))


def streaming_pace(setting: Setting) -> float:
    """Forward time of streaming kernels for each activation byte they store. [s/B]."""
    profile = setting.profile
    rate = setting.cluster.gpu.memory_bandwidth_bytes_per_s * profile.memory_bandwidth_fraction
    return profile.elementwise_passes / 3 / rate


@dataclass(frozen=True)
class Compute:
    """Compute of a layer and micro-batch. [s]."""

    both: PerLayer
    """Forward and backward."""
    again: PerLayer
    """What recompute adds."""
    forward: PerLayer
    """The forward's part of `both`."""
    weight: PerLayer
    """The part that makes the weights' gradients: a third of the matrix products."""


def compute_seconds(table: LayoutTable, setting: Setting) -> Compute:
    """Compute of a layer and micro-batch, its parts, and what recompute adds. [s].

    `selective` runs its modules' products and attention again, `full` the whole forward.
    """
    if setting.profile.flat_compute_fraction is not None:
        layer, again = _flat_seconds(table, setting, setting.profile.flat_compute_fraction)
        third = PerLayer(layer.dense / 3, layer.sparse / 3)
        return Compute(layer, _partly_recomputed(again, table), third, third)
    run = forward_seconds(table, setting)
    backward = setting.profile.attention_backward_factor
    both = PerLayer(
        3 * run.matmul.dense + (1 + backward) * run.attention.dense + 3 * run.streamed.dense,
        3 * run.matmul.sparse + (1 + backward) * run.attention.sparse + 3 * run.streamed.sparse,
        last=3 * run.matmul.last + 3 * run.streamed.last,
    )
    full, selective = table.recompute == FULL, table.recompute == SELECTIVE
    matmul, attention, streamed, repeated = run.matmul, run.attention, run.streamed, run.repeated
    forward = PerLayer(
        matmul.dense + attention.dense + streamed.dense,
        matmul.sparse + attention.sparse + streamed.sparse,
        last=matmul.last + streamed.last,
    )
    again = PerLayer(
        full * forward.dense + selective * repeated.dense,
        full * forward.sparse + selective * repeated.sparse,
    )
    return Compute(both, _partly_recomputed(again, table), forward, matmul)


def _partly_recomputed(again: PerLayer, table: LayoutTable) -> PerLayer:
    """What recompute adds where full recompute may cover some layers of a stage only. [s]."""
    if table.recompute_layers is None:
        return again
    full = table.recompute == FULL
    spared = PerLayer(np.where(full, 0.0, again.dense), np.where(full, 0.0, again.sparse))
    return again.sparing(spared, table.recompute_layers)


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
