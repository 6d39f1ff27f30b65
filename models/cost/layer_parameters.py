"""Parameters of one decoder layer, by part and by what tensor parallelism does with them.

Symbols, one meaning in this file:
    h  width of the residual stream        a  query heads         g  key-value heads
    d  width of a head                     f  feed-forward width
    E  routed experts of a layer           k  experts a token visits
Every count is a whole number of parameters. [1]
"""

from dataclasses import dataclass

from models.architecture import Architecture, LatentAttention


@dataclass(frozen=True)
class LayerParameters:
    """One decoder layer; attention + mlp + router + norms + experts == sharded + replicated + experts."""

    sharded: int
    """Split over the TP group: projections by head, dense feed-forward, shared expert."""
    replicated: int
    """Whole on every TP rank: norms, router, MLA's down-projections, biases added after the reduction."""
    experts: int
    """Routed experts, split over etp * ep."""
    attention: int
    """Attention with its q/k and latent norms."""
    mlp: int
    """Dense feed-forward, or the shared expert and its gate."""
    router: int
    """Router weights and trainable biases."""
    norms: int
    """Norms over the residual stream."""

    @property
    def total(self) -> int:
        """Everything the layer holds."""
        return self.sharded + self.replicated + self.experts


@dataclass(frozen=True)
class _Block:
    """Parameters of one block by what tensor parallelism does with them."""

    sharded: int = 0
    replicated: int = 0

    def __add__(self, other: "_Block") -> "_Block":
        return _Block(self.sharded + other.sharded, self.replicated + other.replicated)

    @property
    def total(self) -> int:
        return self.sharded + self.replicated


def layer_parameters(architecture: Architecture, *, sparse: bool) -> LayerParameters:
    """Count one decoder layer, dense or a mixture of experts.

    h (a + 2 g) d + a d h + 3 h f + norms, with a plain feed-forward 2 h f; a sparse layer holds
    E experts of 3 h f_e, the shared expert and a router of E h instead of the feed-forward.

    Returns
    -------
    LayerParameters
        Whole numbers. [1]

    References
    ----------
    .. [1] What is split and what is whole: NVIDIA/Megatron-LM megatron/core/tensor_parallel/layers.py,
       and for MLA's down-projections megatron/core/transformer/multi_latent_attention.py.

    Examples
    --------
    One key-value head under two query heads, 8 wide: 8 * 4 * (2 + 2) + 8 * 8 = 192.

    >>> tiny = dict(name="t", layers=1, hidden=8, heads=2, kv_heads=1, head_size=4, ffn=16, vocabulary=16)
    >>> layer = layer_parameters(Architecture(**tiny), sparse=False)
    >>> layer.attention, layer.mlp, layer.norms, layer.replicated
    (192, 384, 16, 16)
    """
    attention = _latent_attention(architecture) if architecture.mla else _attention(architecture)
    dense = _mlp(architecture, architecture.ffn, architecture.mlp_bias)
    mlp = _shared_expert(architecture) if sparse else dense
    router = _router(architecture) if sparse else 0
    norms = architecture.norms_per_layer * norm_parameters(architecture)
    blocks = attention + mlp + _Block(replicated=router + norms)
    return LayerParameters(
        sharded=blocks.sharded,
        replicated=blocks.replicated,
        experts=_experts(architecture) if sparse else 0,
        attention=attention.total,
        mlp=mlp.total,
        router=router,
        norms=norms,
    )


def _attention(architecture: Architecture) -> _Block:
    """Grouped-query attention: h (a + 2 g) d for q, k, v and a d h for the output."""
    h, d = architecture.hidden, architecture.head_size
    queries, keys = architecture.heads * d, architecture.kv_heads * d
    sharded = h * (queries + 2 * keys) + queries * h
    replicated = 0
    if architecture.qkv_bias:
        sharded += queries + 2 * keys
    if architecture.attention_output_bias:
        replicated += h
    if architecture.attention_sinks:
        sharded += architecture.heads
    if architecture.qk_norm != "none":
        replicated += 2 * d if architecture.qk_norm == "per_head" else queries + keys
    return _Block(sharded, replicated)


def _latent_attention(architecture: Architecture) -> _Block:
    """Multi-head latent attention: down-projections and their norms whole, the rest split by head."""
    mla = architecture.mla
    assert mla is not None
    h, a = architecture.hidden, architecture.heads
    query = a * (mla.nope_head_size + mla.rope_head_size)
    key_value = a * (mla.nope_head_size + mla.value_head_size)
    sharded = mla.key_value_lora_rank * key_value + a * mla.value_head_size * h
    sharded += (mla.query_lora_rank or h) * query
    down = h * _latent_width(mla) + mla.key_value_lora_rank + (mla.query_lora_rank or 0)
    if architecture.qkv_bias:
        down += _latent_width(mla)
    if architecture.attention_output_bias:
        down += h
    return _Block(sharded, down)


def _latent_width(mla: LatentAttention) -> int:
    """Columns of the down-projections: query latent, key-value latent, shared rotary key."""
    return (mla.query_lora_rank or 0) + mla.key_value_lora_rank + mla.rope_head_size


def _mlp(architecture: Architecture, width: int, bias: bool) -> _Block:
    """Feed-forward of a given width: 3 h f gated, 2 h f plain; the down-projection's bias stays whole."""
    ups = 2 if architecture.gated_mlp else 1
    sharded = (ups + 1) * architecture.hidden * width
    return _Block(sharded + ups * width, architecture.hidden) if bias else _Block(sharded)


def _shared_expert(architecture: Architecture) -> _Block:
    moe = architecture.moe
    if moe is None or not moe.shared_expert_ffn:
        return _Block()
    gate = architecture.hidden if moe.shared_expert_gate else 0
    return _mlp(architecture, moe.shared_expert_ffn, moe.expert_bias) + _Block(replicated=gate)


def _one_expert(architecture: Architecture) -> int:
    moe = architecture.moe
    return _mlp(architecture, moe.expert_ffn, moe.expert_bias).total if moe else 0


def _experts(architecture: Architecture) -> int:
    return architecture.moe.experts * _one_expert(architecture) if architecture.moe else 0


def idle_expert_parameters(architecture: Architecture) -> int:
    """Parameters of the experts of one sparse layer that a token does not visit.

    (E - k) (parameters of one expert)

    Examples
    --------
    >>> from models.architecture import MixtureOfExperts
    >>> moe = MixtureOfExperts(experts=4, experts_per_token=1, expert_ffn=16)
    >>> tiny = dict(name="t", layers=1, hidden=8, heads=2, kv_heads=1, head_size=4, ffn=16, vocabulary=16)
    >>> idle_expert_parameters(Architecture(moe=moe, **tiny))
    1152
    """
    moe = architecture.moe
    return (moe.experts - moe.experts_per_token) * _one_expert(architecture) if moe else 0


def _router(architecture: Architecture) -> int:
    moe = architecture.moe
    return moe.experts * (architecture.hidden + int(moe.router_bias)) if moe else 0


def buffer_numbers(architecture: Architecture) -> int:
    """Numbers of a sparse layer that no gradient trains: DeepSeek-V3's score correction, E.

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report", arXiv:2412.19437, section 2.1.2.

    Examples
    --------
    >>> tiny = dict(name="t", layers=1, hidden=8, heads=2, kv_heads=1, head_size=4, ffn=16, vocabulary=16)
    >>> buffer_numbers(Architecture(**tiny))
    0
    """
    moe = architecture.moe
    return moe.experts if moe and moe.router_score_correction else 0


def norm_parameters(architecture: Architecture) -> int:
    """Parameters of one norm over the residual stream.

    h, twice that for a LayerNorm with a bias, nothing without affine weights

    Examples
    --------
    >>> tiny = dict(name="t", layers=1, hidden=8, heads=2, kv_heads=1, head_size=4, ffn=16, vocabulary=16)
    >>> norm_parameters(Architecture(**tiny)), norm_parameters(Architecture(norm="layer", **tiny))
    (8, 16)
    """
    if not architecture.norm_affine:
        return 0
    twice = architecture.norm == "layer" and architecture.norm_bias
    return architecture.hidden * (2 if twice else 1)
