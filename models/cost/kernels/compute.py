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

from models.cost.flops import model_flops_per_token
from models.cost.kernels import streaming
from models.cost.kernels.attention_core import attention_seconds
from models.cost.kernels.gemms import (
    Gemm,
    ProductPace,
    dense_layer_gemms,
    head_gemm,
    product_seconds,
    sparse_layer_gemms,
    total_operands,
    total_seconds,
)
from models.cost.kernels.pace import Pace, pace, peak_flops
from models.cost.memory import activations
from models.cost.memory.activations import Split, Tensors
from models.cost.setting import Setting
from models.cost.table import FULL, SELECTIVE, LayoutTable
from models.cost.units import PerLayer
from models.hardware import Gpu
from models.layout import RecomputeModule
from models.rates import Rates
from models.workload import Precision

Array = NDArray[np.float64]


def model_flops_utilisation(flops_per_s: float, gpu: Gpu, precision: Precision) -> float:
    """MFU: a GPU's model FLOPs a second over its dense peak. [1].

    Chowdhery et al., arXiv:2204.02311, appendix B. 400 TFLOP/s on an H100 are 0.404.
    """
    return flops_per_s / peak_flops(gpu, precision)


@dataclass(frozen=True)
class LayerTime:
    """Kernel time of one layer and micro-batch; each (N,). [s]."""

    forward: Array
    backward: Array
    weight: Array
    """The backward's part that makes the weights' gradients."""
    repeated: Array
    """What `selective` recompute runs again in the backward."""


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
    """The part that makes the weights' gradients: one of a product's three."""


def compute_seconds(table: LayoutTable, setting: Setting) -> Compute:
    """Compute of a layer and micro-batch, its parts, and what recompute adds. [s].

    `selective` runs its modules' kernels again, `full` the whole forward.
    """
    rates = setting.profile.rates
    if rates is None:
        assert setting.profile.flat_compute_fraction is not None
        layer, again = _flat_seconds(table, setting, setting.profile.flat_compute_fraction)
        third = PerLayer(layer.dense / 3, layer.sparse / 3)
        return Compute(layer, _partly_recomputed(again, table), third, third)
    part, own = activations.split(table, setting), pace(setting, rates)
    dense = dense_layer(table, setting, part, own, rates)
    sparse = sparse_layer(table, setting, part, own, rates)
    head = head_time(table, setting, part, own, rates)
    full, selective = table.recompute == FULL, table.recompute == SELECTIVE
    again = PerLayer(
        np.where(full, dense.forward, selective * dense.repeated),
        np.where(full, sparse.forward, selective * sparse.repeated),
    )
    return Compute(
        both=PerLayer(
            dense.forward + dense.backward,
            sparse.forward + sparse.backward,
            last=head.forward + head.backward,
        ),
        again=_partly_recomputed(again, table),
        forward=PerLayer(dense.forward, sparse.forward, last=head.forward),
        weight=PerLayer(dense.weight, sparse.weight, last=head.weight),
    )


def dense_layer(table: LayoutTable, setting: Setting, part: Split, own: Pace, rates: Rates) -> LayerTime:
    """A layer with a feed-forward: its products, its attention, and what streams through memory."""
    gemms = dense_layer_gemms(setting.architecture, part)
    tensors = streaming.dense_tensors(setting.architecture, part)
    return _layer(gemms, tensors, np.zeros(len(table)), table, setting, part, own, rates)


def sparse_layer(table: LayoutTable, setting: Setting, part: Split, own: Pace, rates: Rates) -> LayerTime:
    """A layer with experts: the same, and the copies of tokens permuted for them."""
    gemms = sparse_layer_gemms(setting.architecture, table, part)
    tensors = streaming.sparse_tensors(setting.architecture, part)
    permuted = streaming.dispatch_seconds(setting.architecture, part, own, rates)
    return _layer(gemms, tensors, permuted, table, setting, part, own, rates)


def _layer(
    gemms: list[Gemm],
    tensors: Tensors,
    permuted: Array,
    table: LayoutTable,
    setting: Setting,
    part: Split,
    own: Pace,
    rates: Rates,
) -> LayerTime:
    count, products = len(table), product_pace(own.matmul, own.grouped_matmul, setting, rates)
    product = total_seconds(gemms, products, count)
    core, core_back = attention_seconds(setting, part, own, wide_products(own, setting, rates), rates)
    streamed = streaming.elementwise_seconds(tensors, own, part) + permuted
    if own.cast:
        streamed = streamed + _cast_seconds(gemms, own, count)
    modules = table.recompute_modules
    repeated = total_seconds(gemms, products, count, repeated_shares(modules, gemms)).forward
    repeated = repeated + streaming.repeated_seconds(tensors, modules, own, part)
    return LayerTime(
        forward=product.forward + core + streamed / 3,
        backward=product.backward + core_back + streamed * 2 / 3,
        weight=np.asarray(product.weight_gradient),
        repeated=np.asarray(repeated + core * ("core_attn" in modules)),
    )


def repeated_shares(modules: tuple[RecomputeModule, ...], gemms: list[Gemm]) -> dict[RecomputeModule, float]:
    """Share of each module's products that selective recompute runs again; named wholly, or every second.

    >>> repeated_shares(("mlp",), [])
    {'mlp': 1.0}
    """
    shares: dict[RecomputeModule, float] = dict.fromkeys(modules, 1.0)
    if "every_second_product" in modules:
        every = {gemm.module for gemm in gemms if gemm.module}
        shares = {name: 1.0 if name in modules else 0.5 for name in every}
    return shares


def _cast_seconds(gemms: list[Gemm], own: Pace, count: int) -> Array:
    """Cast every product's operands, the experts' in fused kernels where routing stays on the device. [s]."""
    grouped = total_operands([gemm for gemm in gemms if gemm.grouped], count)
    others = total_operands([gemm for gemm in gemms if not gemm.grouped], count)
    return np.asarray((others + grouped * own.routing) * own.cast)


def product_pace(rate: float, grouped: float, setting: Setting, rates: Rates) -> ProductPace:
    """Return how fast products of a rate run on a setting's GPU."""
    processors = setting.cluster.gpu.multiprocessors
    return ProductPace(rate, grouped, rates.matmul_shape_loss, rates.wave_loss, processors)


def wide_products(own: Pace, setting: Setting, rates: Rates) -> ProductPace:
    """Return how fast the products run that low precision leaves in 16 bits."""
    return product_pace(own.wide_matmul, own.wide_matmul, setting, rates)


def head_time(table: LayoutTable, setting: Setting, part: Split, own: Pace, rates: Rates) -> LayerTime:
    """The output head and the loss, once for each predicted token, (N,). [s]."""
    gemm = head_gemm(setting.architecture, table, part)
    product = product_seconds(gemm, wide_products(own, setting, rates))
    logits = activations.logits_bytes(setting.architecture, table, part, setting.logits_copies)
    streamed, times = logits * own.elementwise, 1 + setting.mtp_layers
    return LayerTime(
        forward=times * (product.forward + streamed / 3),
        backward=times * (product.backward + streamed * 2 / 3),
        weight=np.asarray(times * product.weight_gradient),
        repeated=np.zeros(len(table)),
    )


def _partly_recomputed(again: PerLayer, table: LayoutTable) -> PerLayer:
    """What recompute adds where full recompute may cover some layers of a stage only. [s]."""
    if not table.spares:
        return again
    full = table.recompute == FULL
    spared = PerLayer(np.where(full, 0.0, again.dense), np.where(full, 0.0, again.sparse))
    return again.sparing(spared)


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
