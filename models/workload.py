"""What is trained: sequence, batch, precision, optimizer; and the bytes each parameter costs."""

from typing import Literal

from models.base import Count, Schema, SequenceLength, Tokens
from models.recipe import Recipe

Precision = Literal["bf16", "fp16", "fp32", "fp8", "nvfp4"]
LOW_PRECISIONS: frozenset[Precision] = frozenset({"fp8", "nvfp4"})
"""Precisions of the layers' matrix products alone: attention, head and the rest stay in 16 bits."""
GradientType = Literal["bf16", "fp16", "fp32"]
MasterType = Literal["fp32", "bf16"]
Optimizer = Literal["adam", "adamw", "adam_bf16_moments", "adam_8bit", "sgd", "lion", "adafactor", "muon"]

BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
"""Bytes of one element. [B]"""


class WorkloadRequest(Schema):
    """What the caller says of the training run; the rest takes the profile's defaults."""

    sequence_length: SequenceLength
    """Tokens of one sequence, s."""
    global_batch: Count | None = None
    """Sequences an optimizer step consumes over all GPUs."""
    global_batch_tokens: Tokens | None = None
    """The same in tokens; a multiple of the sequence length."""
    precision: Precision = "bf16"
    """Type of the weights and activations in the matrix products."""
    gradient_dtype: GradientType | None = None
    """Type the accumulated gradients are kept in."""
    gradient_reduce_dtype: GradientType | None = None
    """Type the gradients are sent in."""
    optimizer: Optimizer = "adam"
    """Which optimizer state is kept: Adam two FP32 moments, SGD (with momentum) and Lion one, …"""
    master_dtype: MasterType = "fp32"
    """Type of the master weights; FP32 training has none."""


class Workload(Schema):
    """A training run with every choice made."""

    sequence_length: SequenceLength
    """Tokens of one sequence, s."""
    global_batch: Count
    """Sequences an optimizer step consumes over all GPUs."""
    precision: Precision
    """Type of the weights and activations in the matrix products."""
    gradient_dtype: GradientType
    """Type the accumulated gradients are kept in."""
    gradient_reduce_dtype: GradientType
    """Type the gradients are sent in."""
    optimizer: Optimizer
    """Which optimizer state is kept."""
    recipe: Recipe
    """The bytes these choices cost."""

    @property
    def tokens_per_step(self) -> int:
        """Tokens one optimizer step consumes. [tokens]."""
        return self.sequence_length * self.global_batch
