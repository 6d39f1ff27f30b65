"""GPUs, network tiers and clusters."""

from typing import Annotated, Literal

from pydantic import Field

from models.base import Bytes, BytesPerSecond, Count, Flops, Schema, Seconds

Generation = Literal["volta", "ampere", "ada", "hopper", "blackwell", "blackwell-ultra", "cdna", "other"]
Fraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class Gpu(Schema):
    """One GPU. FLOP rates are dense (never sparse), with FP32 accumulation."""

    name: str
    """For people; the service never decides anything by it."""
    memory_bytes: Bytes
    """The label on the card in decimal bytes: the default memory limit."""
    usable_memory_bytes: Bytes
    """What a process can allocate, before its own CUDA context."""
    memory_bandwidth_bytes_per_s: BytesPerSecond
    """HBM bandwidth, read and write together."""
    peak_bf16_flops: Flops | None = None
    """Dense BF16 peak; null where the card has none (V100)."""
    peak_fp16_flops: Flops | None = None
    """Dense FP16 peak with FP32 accumulation."""
    peak_fp32_flops: Flops | None = None
    """FP32 peak, or TF32 where training in FP32 uses it."""
    peak_fp8_flops: Flops | None = None
    """Dense FP8 peak; null where the card has none."""
    peak_fp4_flops: Flops | None = None
    """Dense FP4 peak; null where the card has none."""
    context_bytes: Bytes | None = None
    """CUDA context of a process that has run one kernel; the profile's figure unless measured."""
    matmul_fraction: Fraction = 0.75
    """Fraction of the dense BF16 peak that large matrix products reach, median of large shapes."""
    matmul_fraction_fp8: Fraction = 0.55
    """The same of the FP8 peak."""
    matmul_fraction_fp4: Fraction = 0.36
    """The same of the FP4 peak."""
    host_bandwidth_bytes_per_s: BytesPerSecond | None = None
    """What copies to or from the host's memory reach while every GPU of the server copies; null where
    nobody says."""
    generation: Generation = "other"
    """Family of its multiprocessors: what fitted efficiencies are told by."""
    multiprocessors: Count | None = None
    """Streaming multiprocessors or compute units, which a matrix product's tiles are dealt to."""


class Tier(Schema):
    """One level of the fabric, innermost first."""

    name: str
    """E.g. "nvlink", "leaf", "spine"."""
    gpus: Count | None = None
    """GPUs this tier joins; the last tier joins all, whatever it says."""
    bandwidth_bytes_per_s: BytesPerSecond
    """One GPU's share in one direction, before oversubscription."""
    latency_s: Seconds | None = None
    """One step of a collective over this tier; what its class was fitted to where null."""
    oversubscription: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = 1.0
    """Divides the bandwidth when all cross this tier at once."""
    rails: Count | None = None
    """Planes this tier is cut into: a server's GPUs hang on them in turn, and planes meet further out."""
    collective: str | None = None
    """Fabric class of models/catalogue/collectives/; by bandwidth and place where null."""


class Cluster(Schema):
    """GPUs of one type on a tiered fabric."""

    name: str = "inline"
    """For people; the service never decides anything by it."""
    gpu: Gpu
    """Every GPU of the cluster."""
    tiers: Annotated[tuple[Tier, ...], Field(min_length=1, max_length=8)]
    """Fabric tiers, innermost (the NVLink domain) first."""
    gpus_per_node: Count
    """GPUs in one server; need not be the NVLink domain (4 in an NVL72 rack's tray)."""
    nics_per_node: Count | None = None
    """Network cards of one server."""
