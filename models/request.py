"""What callers ask, field by field as docs/contract.md fixes it.

A reference (a name, an inline object) is resolved at the edge by `models.catalogue`: search sees objects.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from models.base import Bytes, BytesPerSecond, Count, Flag, Schema, Seconds, SomeBytes
from models.calibration import CalibrationRequest
from models.hardware import Generation
from models.layout import (
    ContextComm,
    GradientReduce,
    LayerCount,
    LayoutChoice,
    RankOrder,
    Recompute,
    RecomputeModule,
    Schedule,
    StatedLayout,
    WeightGather,
    Zero,
)
from models.stack import StackRequest
from models.traffic_matrix import Level
from models.workload import WorkloadRequest

Profile = Literal["calibrated", "textbook"]
Objective = Literal["step_time", "memory", "traffic"]
Distinct = Literal["shape", "layout"]
Framework = Literal["any"]
Gpus = Annotated[int, Field(strict=True, ge=1, le=1_048_576)]


class Range(Schema):
    """Both ends included; an end left out is open."""

    min: Count | None = None
    """Least value accepted."""
    max: Count | None = None
    """Greatest value accepted."""

    @model_validator(mode="after")
    def _ends_in_order(self) -> Self:
        """Refuse ends that leave no value between them."""
        if self.min is None or self.max is None or self.min <= self.max:
            return self
        ends = {"min": self.min, "max": self.max}
        raise PydanticCustomError("range_order", "min {min} is above max {max}", ends)


class ZeroRange(Range):
    """ZeRO stages, both ends included; an end left out is open."""

    min: Zero | None = None
    """Least stage accepted."""
    max: Zero | None = None
    """Greatest stage accepted."""


IntegerChoice = Count | Annotated[tuple[Count, ...], Field(min_length=1, max_length=1000)] | Range
Modules = Annotated[tuple[RecomputeModule, ...], Field(min_length=1, max_length=16)]
Orders = Annotated[tuple[RankOrder, ...], Field(min_length=1, max_length=120)]
ZeroChoice = Zero | Annotated[tuple[Zero, ...], Field(min_length=1, max_length=4)]


class Constraints(Schema):
    """Knobs held to a value, a list of values or a range; and layouts left out."""

    tp: IntegerChoice | None = None
    """Tensor-parallel degree."""
    cp: IntegerChoice | None = None
    """Context-parallel degree."""
    pp: IntegerChoice | None = None
    """Pipeline stages."""
    vpp: IntegerChoice | None = None
    """Interleaved chunks on each stage."""
    dp: IntegerChoice | None = None
    """Data-parallel degree."""
    ep: IntegerChoice | None = None
    """Expert-parallel degree."""
    etp: IntegerChoice | None = None
    """Tensor-parallel degree inside an expert."""
    zero: ZeroChoice | ZeroRange | None = None
    """ZeRO stage."""
    schedule: Schedule | Annotated[tuple[Schedule, ...], Field(min_length=1, max_length=8)] | None = None
    """Pipeline schedule."""
    micro_batch: IntegerChoice | None = None
    """Sequences of one micro-batch."""
    micro_batch_group: Count | None = None
    """Interleaving's group of micro-batches, N."""
    recompute: Recompute | Annotated[tuple[Recompute, ...], Field(min_length=1, max_length=8)] | None = None
    """Activation recompute."""
    recompute_modules: Modules | None = None
    """What `selective` recomputes; stating it searches `selective` alone."""
    recompute_layers: Count | None = None
    """Layers of each stage that `full` recomputes; stating it searches `full` alone."""
    hsdp_shard: Count | None = None
    """ZeRO inside groups of that many ranks, replicated across them."""
    sequence_parallel: Flag | None = None
    """Sequence parallelism over the TP group."""
    cp_comm: ContextComm | None = None
    """How context-parallel ranks exchange keys and values."""
    gradient_reduce: GradientReduce | None = None
    """Gradients reduced once a step or after every micro-batch."""
    weight_gather: WeightGather | None = None
    """How long ZeRO-3 keeps a gathered weight."""
    tp_overlap: Flag | None = None
    """TP collectives overlapped with matrix products."""
    dp_overlap: Flag | None = None
    """DP collectives overlapped with the backward."""
    stage_layers: Annotated[tuple[LayerCount, ...], Field(min_length=1, max_length=10_000)] | None = None
    """Layers of each chunk in execution order: only layouts of as many chunks, pp * vpp, are offered."""
    rank_order: RankOrder | Orders | None = None
    """One order, or the orders to choose among."""
    forbid: Annotated[tuple[LayoutChoice, ...], Field(max_length=1000)] = ()
    """Partial layouts to leave out: one that agrees in every stated knob is not offered."""
    memory_limit_bytes: SomeBytes | None = None
    """Bytes a GPU may use; the label on the card unless set."""
    memory_reserve_bytes: Bytes = 0
    """Bytes kept free below the limit."""
    rank_orders: Literal["launchable", "all"] = "launchable"
    """Orders a stock launcher starts, or every distinct one."""


class TierRequest(Schema):
    """One level of the fabric, innermost first."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    """E.g. "nvlink", "leaf", "spine"."""
    gpus: Count | None = None
    """GPUs this tier joins; may be left out on the last, which joins all."""
    bandwidth_bytes_per_s: BytesPerSecond
    """One GPU's share in one direction, before oversubscription."""
    latency_s: Seconds | None = None
    """One step of a collective over this tier; what its class was fitted to unless given."""
    oversubscription: Annotated[float, Field(strict=True, ge=1, le=1000, allow_inf_nan=False)] = 1.0
    """Divides the bandwidth when all cross."""
    rails: Count | None = None
    """Planes this tier is cut into: a server's GPUs hang on them in turn; one plane unless given."""
    collective: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Fabric class: how the tier carries collectives; by bandwidth and place unless given."""


class GpuRequest(Schema):
    """A GPU no catalogue holds, stated inline."""

    name: Annotated[str, Field(min_length=1, max_length=64)] = "inline"
    """For people."""
    memory_bytes: SomeBytes
    """The default memory limit."""
    usable_memory_bytes: SomeBytes | None = None
    """What a process can allocate; the memory itself unless given."""
    memory_bandwidth_bytes_per_s: BytesPerSecond
    """HBM bandwidth."""
    peak_bf16_flops: Annotated[float, Field(strict=True, ge=1, le=1e21, allow_inf_nan=False)] | None = None
    """Dense BF16 peak."""
    peak_fp16_flops: Annotated[float, Field(strict=True, ge=1, le=1e21, allow_inf_nan=False)] | None = None
    """Dense FP16 peak; the BF16 peak unless given."""
    peak_fp32_flops: Annotated[float, Field(strict=True, ge=1, le=1e21, allow_inf_nan=False)] | None = None
    """FP32 (or TF32) peak."""
    matmul_fraction: Annotated[float, Field(strict=True, ge=0.001, le=1, allow_inf_nan=False)] = 0.75
    """Fraction of the peak that large matrix products reach."""
    host_bandwidth_bytes_per_s: BytesPerSecond | None = None
    """What copies to or from the host's memory reach; activations are offloaded over it."""
    generation: Generation = "other"
    """Family of its multiprocessors, by which fitted efficiencies are told."""
    multiprocessors: Count | None = None
    """Streaming multiprocessors or compute units; no waves of tiles are reckoned unless given."""


class ClusterRequest(Schema):
    """A cluster stated inline."""

    gpu: str | GpuRequest
    """A catalogue name or a GPU stated inline."""
    tiers: Annotated[tuple[TierRequest, ...], Field(min_length=1, max_length=8)]
    """Fabric tiers, innermost (the NVLink domain) first."""
    gpus_per_node: Count | None = None
    """GPUs in one server; the first tier's unless given."""
    nics_per_node: Count | None = None
    """Network cards of one server."""


class SearchRequest(Schema):
    """A question: which layouts fit, and which of them is best."""

    model: str | dict[str, Any]
    """A catalogue name, an object with the field names of `config.json`, or {"hf_config": {…}}."""
    cluster: str | ClusterRequest
    """A catalogue name or a cluster stated inline."""
    gpus: Gpus
    """GPUs the job gets."""
    workload: WorkloadRequest
    """What is trained."""
    framework: Framework = "any"
    """Whose rules a layout must keep."""
    stack: StackRequest = StackRequest()
    """Software knobs that move memory and time and are not searched."""
    constraints: Constraints = Constraints()
    """Knobs held, layouts left out, the memory limit."""
    objective: Objective = "step_time"
    """What the shortlist is ranked by."""
    profile: Profile = "calibrated"
    """Coefficients of the cost model."""
    calibration: CalibrationRequest | None = None
    """The caller's own measured runs, or what `layout-search validate --fit` made of them."""
    distinct: Distinct = "shape"
    """One layout of each (tp, cp, pp, dp, ep), or every layout its own place."""
    top_k: Annotated[int, Field(strict=True, ge=1, le=1000)] = 10
    """Layouts on the shortlist."""
    time_limit_s: Annotated[float, Field(strict=True, gt=0, le=600, allow_inf_nan=False)] = 30.0
    """Wall time the search may take; past it the answer says it is not complete."""


class EvaluateRequest(Schema):
    """A question: what does this layout cost, and what does it break."""

    model: str | dict[str, Any]
    """A catalogue name, an object with the field names of `config.json`, or {"hf_config": {…}}."""
    cluster: str | ClusterRequest
    """A catalogue name or a cluster stated inline."""
    gpus: Gpus
    """GPUs the job gets."""
    workload: WorkloadRequest
    """What is trained."""
    framework: Framework = "any"
    """Whose rules the layout must keep."""
    stack: StackRequest = StackRequest()
    """Software knobs that move memory and time and are not searched."""
    layout: StatedLayout
    """The layout; what is left out takes its default and is told."""
    memory_limit_bytes: SomeBytes | None = None
    """Bytes a GPU may use; the label on the card unless set."""
    memory_reserve_bytes: Bytes = 0
    """Bytes kept free below the limit."""
    profile: Profile = "calibrated"
    """Coefficients of the cost model."""
    calibration: CalibrationRequest | None = None
    """The caller's own measured runs, or what `layout-search validate --fit` made of them."""


class TrafficRequest(EvaluateRequest):
    """A question: who sends how much to whom in a step of this layout."""

    level: Level = "gpu"
    """Between GPUs, or between nodes (servers)."""
