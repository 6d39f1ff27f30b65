"""Software knobs that move memory and time and are not searched."""

from typing import Annotated, Literal, Self

from pydantic import Field

from models.base import Flag, Schema
from models.hardware import Generation

AttentionKernel = Literal["unfused", "flash-triton", "flash2", "flash3", "cudnn"]
Fp8Recipe = Literal["tensorwise", "current-scaling", "rowwise", "mx", "nvfp4"]
CudaGraph = Literal["none", "partial", "full"]
Dispatcher = Literal["all_to_all", "deduplicating"]

RUNS_NOT_ON: dict[AttentionKernel, tuple[Generation, ...]] = {
    "unfused": (),
    "flash-triton": ("volta",),
    "flash2": ("volta",),
    "flash3": ("volta", "ampere", "ada", "blackwell", "blackwell-ultra", "cdna"),
    "cudnn": ("volta", "cdna"),
}
"""Generations of GPUs a kernel was not written for (Dao-AILab/flash-attention README.md, requirements; cuDNN
is NVIDIA's, and its fused attention begins with Ampere)."""

MX_NOT_ON: tuple[Generation, ...] = ("volta", "ampere", "ada", "hopper")
"""Generations whose products take no factor a block of 32: NVIDIA's do from compute capability 10.0 on
(NVIDIA/TransformerEngine transformer_engine/pytorch/fp8.py, check_mxfp8_support)."""


class StackRequest(Schema):
    """How the training framework runs a layer, as a caller says it; defaults are told under `assumptions`."""

    attention_kernel: AttentionKernel | None = None
    """`unfused` stores the attention scores; the others are fused and never do. Null: what Megatron-Core's
    attention takes on the GPU, cuDNN's on Hopper and Blackwell, none on Volta, FlashAttention-2 elsewhere."""
    fused_loss: Flag = False
    """The loss is computed in place or in chunks: no FP32 copy of the logits."""
    mtp: Flag = False
    """Train the multi-token-prediction layers the architecture has."""
    dispatcher: Dispatcher = "all_to_all"
    """How tokens reach their experts: a copy for each expert, or one for each node that holds some of
    them and NVLink from there (DeepEP and kin)."""
    token_drop: Flag = False
    """Experts drop tokens beyond their capacity: no rank receives more than its even share."""
    imbalance: Annotated[float, Field(strict=True, ge=1, le=64, allow_inf_nan=False)] = 1.0
    """Tokens of the busiest expert-parallel rank over the mean; 1 when routing is forced even."""
    dropout: Flag = False
    """Dropout after attention and feed-forward, as GPT-3 era models train: its masks are kept."""
    fp8_recipe: Fp8Recipe | None = None
    """How low-precision products are scaled: one factor a tensor (from past steps, or from this one:
    `current-scaling`), a row, or a block of 32 (`mx`) or 16 (`nvfp4`). Null: one factor a tensor."""
    cuda_graph: CudaGraph = "none"
    """Kernels the host launches as one: parts of a layer, or the whole iteration."""
    ep_overlap: Flag = False
    """Expert all-to-alls run behind the compute of another micro-batch."""
    activation_offload: Flag = False
    """Activations wait in the host's memory between forward and backward."""
    offload_share: Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)] = 1.0
    """Share of each stage's layers whose activations do; two layers stay on the GPU for the copies."""


class Stack(StackRequest):
    """Every software knob: a caller's, and those that only measured runs state.

    No request may state the latter, which names a container.
    """

    attention_kernel: AttentionKernel = "flash2"
    release: str | None = None
    """The release of the framework's container, as year and month: "25.09"; null where not said."""

    @classmethod
    def of(cls, stated: StackRequest, generation: Generation) -> Self:
        """Return what a caller says, the rest at its defaults for a generation of GPUs.

        >>> Stack.of(StackRequest(mtp=True), "hopper").attention_kernel
        'cudnn'
        """
        kernel = stated.attention_kernel or default_kernel(generation)
        return cls(**(stated.model_dump() | {"attention_kernel": kernel}))


def default_kernel(generation: Generation) -> AttentionKernel:
    """Attention kernel that NVIDIA/TransformerEngine prefers on a generation of GPUs.

    transformer_engine/pytorch/attention: cuDNN's from Hopper on, FlashAttention-2 before; where neither runs,
    no fused one.

    >>> default_kernel("ampere"), default_kernel("volta")
    ('flash2', 'unfused')
    """
    if generation in RUNS_NOT_ON["flash2"]:
        return "unfused"
    return "cudnn" if generation in ("hopper", "blackwell", "blackwell-ultra") else "flash2"
