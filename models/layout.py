"""One way to run the training job: the degrees and choices of a layout."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from models.base import Count, Flag, Schema

Schedule = Literal["none", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v", "dualpipe"]
Recompute = Literal["none", "selective", "full"]
ContextComm = Literal["all_gather", "ring", "ulysses"]
GradientReduce = Literal["once", "per_micro_batch"]
WeightGather = Literal["per_pass", "keep_to_backward", "keep_for_step"]
RecomputeModule = Literal[
    "core_attn",
    "layernorm",
    "act",
    "moe_act",
    "mla_up_proj",
    "mlp",
    "shared_experts",
    "moe",
    "every_second_product",
]
Axis = Literal["tp", "cp", "ep", "dp", "pp"]
Zero = Annotated[int, Field(strict=True, ge=0, le=3)]
LayerCount = Annotated[int, Field(strict=True, ge=0, le=10_000)]
RankOrder = Annotated[tuple[Axis, ...], Field(min_length=5, max_length=5)]

SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
RECOMPUTES: tuple[Recompute, ...] = ("none", "selective", "full")
CONTEXT_COMMS: tuple[ContextComm, ...] = ("all_gather", "ring", "ulysses")
GRADIENT_REDUCES: tuple[GradientReduce, ...] = ("once", "per_micro_batch")
WEIGHT_GATHERS: tuple[WeightGather, ...] = ("per_pass", "keep_to_backward", "keep_for_step")
LAUNCHABLE_ORDERS: tuple[tuple[Axis, ...], ...] = (
    ("tp", "cp", "ep", "dp", "pp"),
    ("tp", "cp", "ep", "pp", "dp"),
)
"""The two orders stock Megatron-LM starts, innermost first (docs/frameworks.md, rank order)."""


class LayoutChoice(Schema):
    """A layout as a caller states it: what is left out is derived, and told."""

    tp: Count | None = None
    """Tensor-parallel degree."""
    cp: Count | None = None
    """Context-parallel degree."""
    pp: Count | None = None
    """Pipeline stages."""
    vpp: Count | None = None
    """Chunks of layers on each pipeline stage: 2 or more interleaved, 2 under zb-v and dualpipe-v, else 1."""
    dp: Count | None = None
    """Data-parallel degree."""
    ep: Count | None = None
    """Expert-parallel degree."""
    etp: Count | None = None
    """Tensor-parallel degree inside an expert."""
    zero: Zero | None = None
    """ZeRO stage: 1 shards the optimizer state, 2 the gradients too, 3 the weights too."""
    schedule: Schedule | None = None
    """Pipeline schedule; `none` exactly when pp is 1."""
    micro_batch: Count | None = None
    """Sequences of one micro-batch, b."""
    micro_batch_group: Count | None = None
    """Interleaving's group of micro-batches, N; pp unless set."""
    recompute: Recompute | None = None
    """Activations recomputed in the backward: none, modules of each layer, or whole layers."""
    recompute_modules: tuple[RecomputeModule, ...] | None = None
    """What `selective` recomputes; the attention core unless set."""
    recompute_layers: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = None
    """Layers of each stage that `full` recomputes; all of them unless set."""
    recompute_stage_layers: tuple[Annotated[int, Field(strict=True, ge=0, le=10_000)], ...] | None = None
    """The first layers of each of the pp * vpp chunks that `full` recomputes, in execution order; all of
    them unless set. MTP layers count with the last chunk's, behind them."""
    hsdp_shard: Count | None = None
    """ZeRO inside groups of that many ranks, replicated across them; all of dp * cp unless set."""
    sequence_parallel: Flag | None = None
    """Megatron's sequence parallelism of norms and dropouts over the TP group."""
    cp_comm: ContextComm | None = None
    """How context-parallel ranks exchange keys and values."""
    gradient_reduce: GradientReduce | None = None
    """Gradients reduced once a step or after every micro-batch."""
    weight_gather: WeightGather | None = None
    """How long ZeRO-3 keeps a gathered weight."""
    tp_overlap: Flag | None = None
    """TP collectives overlapped with the matrix products in chunks."""
    dp_overlap: Flag | None = None
    """DP collectives overlapped with the backward and the next forward."""
    rank_order: RankOrder | None = None
    """The axes from fastest-varying (adjacent ranks) to slowest."""
    stage_layers: tuple[LayerCount, ...] | None = None
    """Layers of each of the pp * vpp chunks in execution order (each held twice under dualpipe)."""


class StatedLayout(LayoutChoice):
    """A layout to be priced; one that was answered may be sent as it stands, with what follows from it."""

    edp: Count | None = None
    """Data-parallel degree of the experts; must agree with the others: tp * cp * dp / (etp * ep)."""
    gpus: Count | None = None
    """GPUs of the layout; must agree with the job's."""
    micro_batches: Count | None = None
    """Micro-batches of a step on each replica; must agree: global_batch / (micro_batch * dp)."""


class Layout(Schema):
    """A layout with every choice made, and what follows from it."""

    tp: Count
    """Tensor-parallel degree."""
    cp: Count
    """Context-parallel degree."""
    pp: Count
    """Pipeline stages."""
    vpp: Count
    """Chunks of layers on each pipeline stage: 2 or more interleaved, 2 under zb-v and dualpipe-v, else 1."""
    dp: Count
    """Data-parallel degree."""
    ep: Count
    """Expert-parallel degree."""
    etp: Count
    """Tensor-parallel degree inside an expert."""
    edp: Count
    """Data-parallel degree of the experts: tp * cp * dp / (etp * ep)."""
    gpus: Count
    """tp * cp * pp * dp."""
    zero: Zero
    """ZeRO stage."""
    schedule: Schedule
    """Pipeline schedule."""
    micro_batch: Count
    """Sequences of one micro-batch, b."""
    micro_batches: Count
    """Micro-batches an optimizer step runs on each replica, G."""
    micro_batch_group: Count
    """Interleaving's group of micro-batches, N."""
    recompute: Recompute
    """Activations recomputed in the backward."""
    recompute_modules: tuple[RecomputeModule, ...] = ("core_attn",)
    """What `selective` recomputes."""
    recompute_layers: int | None = None
    """Layers of each stage that `full` recomputes; null for all of them."""
    recompute_stage_layers: tuple[int, ...] | None = None
    """The first layers of each of the pp * vpp chunks that `full` recomputes, in execution order; null where
    `recompute_layers` says how many of each stage."""
    hsdp_shard: Count | None = None
    """Ranks ZeRO shards over; null for all of dp * cp."""
    sequence_parallel: bool
    """Megatron's sequence parallelism over the TP group."""
    cp_comm: ContextComm
    """How context-parallel ranks exchange keys and values."""
    gradient_reduce: GradientReduce
    """Gradients reduced once a step or after every micro-batch."""
    weight_gather: WeightGather
    """How long ZeRO-3 keeps a gathered weight."""
    tp_overlap: bool
    """TP collectives overlapped with the matrix products in chunks."""
    dp_overlap: bool
    """DP collectives overlapped with the backward and the next forward."""
    rank_order: RankOrder
    """The axes from fastest-varying to slowest."""
    stage_layers: tuple[int, ...]
    """Layers of each of the pp * vpp chunks in execution order; sums to the architecture's layers."""
