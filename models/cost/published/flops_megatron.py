"""FLOPs Megatron-LM reports for a step, to the last one it counts.

What it prints as TFLOP/s a GPU is this over step time and GPUs: needed to compare with its logs.

References
----------
.. [1] NVIDIA/Megatron-LM @d98e8a64 megatron/training/training.py, `num_floating_point_operations`.
"""

from models.architecture import Architecture
from models.cost.flops import attention_flops, mlp_flops, projection_flops


def megatron_token_flops(architecture: Architecture, sequence: int, mtp_layers: int = 0) -> float:
    """FLOPs of a token in training as Megatron-LM counts them [1]. [FLOP].

    3 (layers + MTP + (1 + MTP layers) 2 h V): a backward is two forwards

    Attention is causal at half, whatever its window; each MTP layer is one more last layer, its
    projection of 2 h^2, three norms and a head of its own. The router and the embedding's look-up are
    not counted; of the norms, only those of MLA's latents and of MTP, two FLOPs a number.

    Parameters
    ----------
    architecture
        With the padded vocabulary, if the run pads it.
    sequence
        s. [tokens]
    mtp_layers
        Multi-token-prediction layers trained. [1]

    Examples
    --------
    Llama 3.1 8B at 8,192 tokens:

    >>> shape = dict(hidden=4096, layers=32, heads=32, kv_heads=8, head_size=128, ffn=14336)
    >>> megatron_token_flops(Architecture(name="llama-3.1-8b", vocabulary=128256, **shape), 8192)
    51470401536.0
    """
    sparse = architecture.sparse_layers()
    layers = (*sparse, *sparse[-1:] * mtp_layers)
    attention = projection_flops(architecture) + _latent_norms(architecture)
    attention += attention_flops(_without_window(architecture), sequence)
    forward = len(layers) * attention + sum(_feed_forward(architecture, moe) for moe in layers)
    h = architecture.hidden
    forward += mtp_layers * 2.0 * (2 * h * h + 3 * h)
    forward += (1 + mtp_layers) * 2.0 * h * architecture.vocabulary
    return 3.0 * forward


def prediction_flops(architecture: Architecture, sequence: int, mtp_layers: int) -> float:
    """FLOPs of a token in training that MTP layers add: each a layer, a projection, a head [1]. [FLOP].

    >>> shape = dict(hidden=8, layers=1, heads=2, kv_heads=2, head_size=4, ffn=32, vocabulary=16)
    >>> prediction_flops(Architecture(name="t", **shape), 100, 0)
    0.0
    """
    whole = megatron_token_flops(architecture, sequence, mtp_layers)
    return whole - megatron_token_flops(architecture, sequence)


def megatron_step_flops(architecture: Architecture, sequence: int, batch: int, mtp_layers: int = 0) -> float:
    """FLOPs of a step of `batch` sequences as Megatron-LM counts them [1]. [FLOP]."""
    return batch * sequence * megatron_token_flops(architecture, sequence, mtp_layers)


def _feed_forward(architecture: Architecture, sparse: bool) -> float:
    """Forward FLOPs of a token in a layer's feed-forward, the router left out."""
    h, gated, moe = architecture.hidden, architecture.gated_mlp, architecture.moe
    if moe is None or not sparse:
        return mlp_flops(h, architecture.ffn, gated)
    routed = moe.experts_per_token * mlp_flops(h, moe.expert_ffn, gated)
    return routed + mlp_flops(h, moe.shared_expert_ffn, gated)


def _latent_norms(architecture: Architecture) -> float:
    """Megatron counts the norms of MLA's latents as one multiply-add a number."""
    mla = architecture.mla
    return 2.0 * ((mla.query_lora_rank or 0) + mla.key_value_lora_rank) if mla else 0.0


def _without_window(architecture: Architecture) -> Architecture:
    """The architecture as if every layer saw every token before."""
    return architecture.model_copy(update={"sliding_window": None, "sliding_layers": 0})
