"""Bytes of keys and values a token leaves behind when a trained model generates text."""

from models.architecture import Architecture


def key_value_cache_bytes(architecture: Architecture, element: float = 2.0) -> float:
    """Key-value cache of one token over all layers. [B].

    grouped queries   2 n_kv d L a
    latent attention  (key-value latent + rotary key) L a: neither is repeated for each head

    Parameters
    ----------
    element
        a, bytes of a stored number. [B]

    References
    ----------
    .. [1] C. Zhao et al., ISCA 2025, arXiv:2505.09343, table 1: 70,272 bytes for DeepSeek-V3,
       516,096 for Llama 3.1 405B.

    Examples
    --------
    >>> shape = dict(hidden=16384, layers=126, heads=128, kv_heads=8, head_size=128, ffn=53248)
    >>> key_value_cache_bytes(Architecture(name="405B", vocabulary=128256, **shape))
    516096.0
    """
    mla = architecture.mla
    if mla is not None:
        return element * architecture.layers * (mla.key_value_lora_rank + mla.rope_head_size)
    return element * architecture.layers * 2 * architecture.kv_heads * architecture.head_size
