"""A training framework's habits: what it keeps in memory beyond the arithmetic, and how it runs."""

from typing import Annotated

from pydantic import Field

from models.base import Bytes, Schema


class FrameworkTime(Schema):
    """How a framework runs a step; what each habit costs is the profile's."""

    fuses_elementwise: bool
    """A compiler joins norms, activations and casts into few kernels (torch.compile, OneFlow's graph)."""
    static_graph: bool
    """The step is one compiled graph: the host does not issue kernel by kernel."""
    copies_gathered_units: bool
    """ZeRO-3 gathers into a flat buffer and casts and copies in and out of it (FSDP), not in place."""
    overlaps_gradients: bool
    """Gradients are reduced while the backward runs, not after it."""
    all_reduces_gradients: bool
    """Whole gradients are all-reduced even where a sharded optimizer needs its shard alone."""
    engine_loop: bool
    """A pipeline engine of its own (DeepSpeed's) drives the micro-batches, in Python and in lockstep."""


class Framework(Schema):
    """A framework's habits; values and sources stand in `models/catalogue/frameworks/<name>.toml`."""

    name: str
    """E.g. "megatron"."""
    logits_fp32_copies: Annotated[int, Field(ge=0, le=4)]
    """FP32 copies of the logits that a loss which is not fused makes."""
    logits_outlive_loss: bool
    """The loss's tensors are still held while the layers' backward works."""
    merges_pipeline_logits: bool
    """The last stage keeps every micro-batch's logits until the step ends, then joins them."""
    keeps_stage_outputs: bool
    """A stage's output stays until its backward, beside the input of the stage after it."""
    keeps_gathered_inputs: bool
    """The layer at work keeps the gathered inputs of its two column-parallel products."""
    end_gradients: bool
    """Embedding and head make their whole gradient in the weight's type before it is added up."""
    gradient_copy_at_step: bool
    """16-bit gradients are copied to FP32, sharded as the optimizer is, while it steps."""
    gradient_beside_accumulator: bool
    """The backward's 16-bit gradient is kept beside the FP32 accumulator."""
    gradient_shard_beside_whole: bool
    """ZeRO-2 with one reduction holds the reduced shard beside the whole gradient."""
    weight_is_master: bool
    """Under ZeRO-3 the sharded weight is the FP32 master itself; the 16-bit one exists only gathered."""
    bucket_bytes: Bytes
    """Reduce and gather buckets of a fixed size. [B]"""
    reserved_over_allocated: Annotated[float, Field(ge=1, le=2, allow_inf_nan=False)]
    """Bytes the allocator holds from the driver over those it handed out at the peak. [1]"""
    time: FrameworkTime
    """How it runs a step."""
