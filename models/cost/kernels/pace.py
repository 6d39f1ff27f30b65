"""The profile's rates as one question needs them: for its GPU, its precision, its software."""

from dataclasses import dataclass

from models.cost.setting import Setting
from models.hardware import Gpu
from models.rates import Rates
from models.workload import LOW_PRECISIONS, Precision


@dataclass(frozen=True)
class Pace:
    """What a unit of work costs; floats, one setting."""

    matmul: float
    """Rate of a layer's large products. [FLOP/s]"""
    grouped_matmul: float
    """Rate of the experts' grouped products. [FLOP/s]"""
    wide_matmul: float
    """Rate of large products in 16 bits (32 in FP32 training). [FLOP/s]"""
    attention: float
    """Rate of a fused attention kernel on causal FLOPs. [FLOP/s]"""
    byte: float
    """Time to move one byte over HBM. [s/B]"""
    elementwise: float
    """Time of what is not a product, forward and backward, for each activation byte. [s/B]"""
    cast: float
    """Time to cast one element of a product's input and output; 0 in 16 bits. [s]"""
    host_layer: float
    """Time the host needs for a layer, forward and backward. [s]"""
    host_expert: float
    """The same for each expert a rank holds. [s]"""
    routing: float
    """Streaming time of the experts over that with routing on the host. [1]"""


def pace(setting: Setting, rates: Rates) -> Pace:
    """Return the rates as a question needs them."""
    gpu, stack, habits = setting.cluster.gpu, setting.stack, setting.framework.time
    precision = setting.workload.precision
    layers = matmul_rate(gpu, precision, rates)
    byte = 1 / (gpu.memory_bandwidth_bytes_per_s * rates.memory_bandwidth_fraction)
    passes = rates.fused_elementwise_passes if habits.fuses_elementwise else rates.elementwise_passes
    cast = rates.cast_bytes * byte if precision in LOW_PRECISIONS else 0.0
    if stack.fp8_recipe == "rowwise":
        cast *= rates.rowwise_cast
    host = host_share(setting, rates)
    return Pace(
        matmul=layers,
        grouped_matmul=layers * rates.grouped_matmul,
        wide_matmul=matmul_rate(gpu, wide_precision(precision), rates),
        attention=attention_rate(setting, rates),
        byte=byte,
        elementwise=passes * byte,
        cast=cast,
        host_layer=rates.host_seconds_per_layer * host,
        host_expert=rates.host_seconds_per_expert * host,
        routing=rates.device_routing if stack.cuda_graph == "full" else 1.0,
    )


def host_share(setting: Setting, rates: Rates) -> float:
    """What is left of the host's launches: all, or what graphs do not capture. [1]."""
    if setting.framework.time.static_graph or setting.stack.cuda_graph == "full":
        return rates.full_graph
    return rates.partial_graph if setting.stack.cuda_graph == "partial" else 1.0


def attention_rate(setting: Setting, rates: Rates) -> float:
    """Rate of the fused attention kernel; of the products themselves where it is unfused. [FLOP/s]."""
    gpu, kernel = setting.cluster.gpu, setting.stack.attention_kernel
    wide = wide_precision(setting.workload.precision)
    if kernel == "unfused":
        return matmul_rate(gpu, wide, rates)
    return peak_flops(gpu, wide) * rates.attention.of(kernel).of(gpu.generation)


def matmul_rate(gpu: Gpu, precision: Precision, rates: Rates) -> float:
    """Rate of a step's large matrix products: peak x benchmarked fraction x training's scale. [FLOP/s].

    Never more than the peak, whatever fraction of it a caller states and own runs make of the scale.

    >>> from models.catalogue import gpu
    >>> from models.catalogue.profiles import profile
    >>> fitted = profile("calibrated").rates
    >>> a100 = matmul_rate(gpu("a100-80gb-sxm"), "bf16", fitted)
    >>> 0.8 < a100 / 312e12 < 0.95
    True
    """
    peak = peak_flops(gpu, precision)
    if precision == "fp8":
        return min(peak, peak * gpu.matmul_fraction_fp8 * rates.matmul_8.of(gpu.generation))
    if precision == "nvfp4":
        return min(peak, peak * gpu.matmul_fraction_fp4 * rates.matmul_4.of(gpu.generation))
    return min(peak, peak * gpu.matmul_fraction * rates.matmul_16.of(gpu.generation))


def peak_flops(gpu: Gpu, precision: Precision) -> float:
    """Dense peak of the matrix products of a precision. [FLOP/s].

    Raises
    ------
    ValueError
        When the GPU has no such unit; the request is refused before it gets here.
    """
    field = f"peak_{'fp4' if precision == 'nvfp4' else precision}_flops"
    peak: float | None = getattr(gpu, field)
    if peak is None:
        raise ValueError(f"{gpu.name} has no {precision} peak")
    return peak


def wide_precision(precision: Precision) -> Precision:
    """Precision of what low-precision training leaves in 16 bits: the attention core and the head."""
    return "bf16" if precision in LOW_PRECISIONS else precision
