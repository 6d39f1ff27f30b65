"""Rates and costs the time of a step hangs on: few, each with a unit; no model, run or layout is among them.

Values, ranges and sources stand in `models/catalogue/profiles/`. What is told by a GPU's generation has a
value for `other`: what a generation without measured runs takes.
"""

from typing import Annotated

from pydantic import Field

from models.base import Schema, Seconds
from models.hardware import Generation
from models.stack import AttentionKernel

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Scale = Annotated[float, Field(gt=0, le=3, allow_inf_nan=False)]
Passes = Annotated[float, Field(ge=0, le=200, allow_inf_nan=False)]
Norm = Annotated[float, Field(ge=1, le=20, allow_inf_nan=False)]
Moved = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False, json_schema_extra={"unit": "B"})]


class ByGeneration(Schema):
    """One number a generation of GPUs. [1]."""

    volta: Scale | None = None
    ampere: Scale | None = None
    ada: Scale | None = None
    hopper: Scale | None = None
    blackwell: Scale | None = None
    blackwell_ultra: Scale | None = None
    cdna: Scale | None = None
    other: Scale
    """What a generation takes that has no number of its own."""

    def of(self, generation: Generation) -> float:
        """Return the number of a generation.

        >>> table = ByGeneration(blackwell=0.8, other=0.9)
        >>> table.of("blackwell"), table.of("blackwell-ultra"), table.of("cdna")
        (0.8, 0.8, 0.9)
        """
        number: float = getattr(self, self.entry(generation))
        return number

    def entry(self, generation: Generation) -> str:
        """Return the name of the number a generation takes: its own, its elder sister's, or `other`.

        >>> ByGeneration(blackwell=0.8, other=0.9).entry("blackwell-ultra")
        'blackwell'
        """
        own = generation.replace("-", "_")
        names = (own, "blackwell") if own == "blackwell_ultra" else (own,)
        return next((name for name in names if getattr(self, name) is not None), "other")

    def knows(self, generation: Generation) -> bool:
        """Whether a generation has a number of its own, or its elder sister's.

        >>> ByGeneration(hopper=0.9, other=0.9).knows("hopper"), ByGeneration(other=0.9).knows("other")
        (True, False)
        """
        return self.entry(generation) != "other"


class ByKernel(Schema):
    """One table a fused attention kernel."""

    flash_triton: ByGeneration
    flash2: ByGeneration
    flash3: ByGeneration
    cudnn: ByGeneration

    def of(self, kernel: AttentionKernel) -> ByGeneration:
        """Return a kernel's table; an unfused attention is matrix products and has none."""
        table: ByGeneration = getattr(self, kernel.replace("-", "_"))
        return table


class Rates(Schema):
    """Every coefficient of the time of a step."""

    matmul_16: ByGeneration
    """Rate of a training step's large 16-bit matrix products over the catalogue's `matmul_fraction`. [1]"""
    matmul_8: ByGeneration
    """The same in FP8, over `matmul_fraction_fp8`. [1]"""
    matmul_4: ByGeneration
    """The same in FP4, over `matmul_fraction_fp4`. [1]"""
    matmul_shape_loss: Annotated[float, Field(ge=0, le=10_000)]
    """Length at which one dimension of a matrix product alone doubles its time. [1]"""
    wave_loss: Share
    """Part of the multiprocessors' idle time in a product's last wave of tiles that is lost. [1]"""
    grouped_matmul: Scale
    """Rate of the experts' grouped products over that of one large product. [1]"""

    attention: ByKernel
    """Fraction of the dense 16-bit peak that an attention kernel reaches on causal FLOPs. [1]"""
    attention_backward_factor: Annotated[float, Field(ge=1, le=5)]
    """Time of a fused attention's backward over its forward. [1]"""
    score_bytes: Moved
    """Bytes an unfused attention moves over HBM for each score, forward and backward. [B]"""

    memory_bandwidth_fraction: Share
    """Fraction of the HBM bandwidth that streaming kernels reach. [1]"""
    elementwise_passes: Passes
    """Times each stored activation byte crosses HBM outside matrix products, forward and backward. [1]"""
    fused_elementwise_passes: Passes
    """The same where a compiler fuses them. [1]"""
    cast_bytes: Moved
    """Bytes moved to cast an element of a low-precision product's input and output, both ways. [B]"""
    rowwise_cast: Scale
    """Cost of scaling by rows over that of one factor a tensor. [1]"""
    dispatch_passes: Passes
    """Times each dispatched copy of a token crosses HBM for permuting, forward and backward. [1]"""
    device_routing: Share
    """Streaming time of the experts where routing never leaves the device, over that where it does. [1]"""

    host_seconds_per_layer: Seconds
    """Time the host needs to launch a layer's kernels, forward and backward. [s]"""
    host_seconds_per_expert: Seconds
    """The same for each expert of a layer that a rank holds. [s]"""
    partial_graph: Share
    """What graphs of parts of a layer leave of the host's time. [1]"""
    full_graph: Share
    """What a graph of the whole step, or a compiled one, leaves of it. [1]"""
    host_norm: Norm
    """Exponent of the host's time beside the GPU's. [1]"""

    tp_overlap_exposed: Share
    """Part of the TP time left exposed when `tp_overlap` is on. [1]"""
    expert_overlap_norm: Norm
    """Exponent of an overlapped all-to-all beside the compute it runs behind. [1]"""
    unit_norm: Norm
    """Exponent of ZeRO-3's gathers and reductions beside the compute they run behind. [1]"""
    unit_copy_bytes: Moved
    """Bytes moved to cast and copy a parameter of a gathered unit, each micro-batch. [B]"""
    unit_in_place_bytes: Moved
    """The same where units are gathered in place. [B]"""
    gradient_norm: Norm
    """Exponent of the gradients' reduction beside the backward it runs behind. [1]"""

    straggling: Share
    """Part of the step lost for each doubling of the GPUs beyond eight. [1]"""
    step_seconds: Seconds
    """Time a step takes besides: data, clipping, logging. [s]"""
    engine_loop: Share
    """Part of the step that an engine's own loop adds. [1]"""
    engine_seconds_per_layer: Seconds
    """What the engine does for a layer and micro-batch while the GPU waits. [s]"""
    optimizer_passes: Annotated[float, Field(ge=0, le=10)]
    """Times the optimizer step moves each resident state byte over HBM. [1]"""
