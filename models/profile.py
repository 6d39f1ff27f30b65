"""Coefficients of the cost model: a profile is data, not a branch in each function.

Every coefficient's unit stands under it; its value and source stand in
`models/catalogue/profiles/<name>.toml`, those fitted to measured runs in `<name>-rates.toml`.
"""

from typing import Annotated, Literal

from pydantic import Field

from models.bands import Bands
from models.base import Bytes, Schema
from models.rates import Rates, Scale

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Profile(Schema):
    """Every coefficient the physics reads."""

    name: Literal["textbook", "calibrated"]
    version: str
    """Changes whenever a coefficient or a formula does."""

    real_valued_stages: bool
    """Reckon with a middle stage of L/p real-valued layers and Psi/(t p) parameters, Psi nominal,
    as the source texts do, instead of the integer split with embedding and head where they are."""
    activation_terms: Literal["flat34", "by_term"]
    """34 s b h a layer, or term by term from the architecture with a fused attention kernel."""
    hierarchical_collectives: bool
    """The fastest algorithm a library has, by constants fitted to each fabric; or, as the texts reckon,
    every byte of an ideal ring at the slowest tier the group crosses."""
    tp_regathers: bool
    """The backward gathers the sequence-sharded inputs again (Megatron with sequence parallelism)."""
    model_flops: Literal["six_psi", "with_attention"]
    """FLOPs a token MFU counts: 6 Psi, or 6 (active - input embedding) plus causal attention."""
    gradient_dtype: Literal["bf16", "fp32"]
    """Type gradients are kept in under BF16 unless the workload says otherwise."""
    gradient_reduce_dtype: Literal["bf16", "fp32"]
    """Type gradients are sent in under BF16 unless the workload says otherwise."""

    flat_compute_fraction: Share | None = None
    """Fraction of the dense peak a whole run averages, bubble included; null: reckon by kernel. [1]"""
    rates: Rates | None = None
    """What kernels, launches, overlaps and the step itself cost; null with a flat rate."""
    network_exchange: Scale
    """Rate of experts' all-to-alls between nodes over the fabric class's. [1]"""
    network_collectives: Scale
    """Rate of everything sent between servers over the fabric class's. [1]"""
    bands: Bands | None = None
    """How far off a step time may be; null where nothing is claimed."""
    cp_hides_behind_attention: bool
    """Ring exchange of keys and values runs behind the attention of the block before."""
    dp_hidden: bool
    """DP traffic costs nothing (the texts); otherwise it hides only behind the compute it can."""
    pp_hidden: bool
    """Pipeline messages cost nothing (the texts); otherwise warm-up and drain wait for them."""
    bubble: bool
    """Add the pipeline bubble; false where the compute rate already contains it."""

    context_bytes: Bytes
    """CUDA context and loaded kernels. [B]"""
    communicator_bytes: Bytes
    """Buffers of one communicator. [B]"""
    working_buffers: bool
    """Count send, gather, dispatch and backward buffers."""
    fragmentation_upper: Share
    """Part of the stage's activations and buffers the allocator may lose; upper figure only. [1]"""
