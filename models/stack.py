"""Software knobs that move memory and time and are not searched."""

from typing import Annotated, Literal

from pydantic import Field

from models.base import Flag, Schema

AttentionKernel = Literal["unfused", "flash-triton", "flash2", "flash3", "cudnn"]


class Stack(Schema):
    """How the training framework runs a layer; every default is told under `assumptions`."""

    attention_kernel: AttentionKernel = "flash2"
    """`unfused` stores the attention scores; the others are fused and never do."""
    fused_loss: Flag = False
    """The loss is computed in place or in chunks: no FP32 copy of the logits."""
    mtp: Flag = False
    """Train the multi-token-prediction layers the architecture has."""
    dispatcher: Literal["all_to_all", "deduplicating"] = "all_to_all"
    """How tokens reach their experts: a copy for each expert, or one for each node that holds some of
    them and NVLink from there (DeepEP and kin)."""
    token_drop: Flag = False
    """Experts drop tokens beyond their capacity: no rank receives more than its even share."""
    imbalance: Annotated[float, Field(strict=True, ge=1, le=64, allow_inf_nan=False)] = 1.0
    """Tokens of the busiest expert-parallel rank over the mean; 1 when routing is forced even."""
    dropout: Flag = False
    """Dropout after attention and feed-forward, as GPT-3 era models train: its masks are kept."""
