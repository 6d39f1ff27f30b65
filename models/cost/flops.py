"""FLOPs of a token: what its matrix products and its attention take, forward and in training.

Symbols, one meaning in this file:
    s  tokens a sequence                  w  tokens of a sliding window
    h  hidden   a heads   n_kv key-value heads   d head size   f feed-forward width
    E  routed experts of a layer          k  experts a token visits
A product of an (m, k) by a (k, n) matrix is 2 m n k FLOPs; a backward is two forwards.
"""

from dataclasses import dataclass

from models.architecture import Architecture
from models.cost.parameters import count_parameters


@dataclass(frozen=True)
class TokenFlops:
    """FLOPs of one token; recompute, which trains nothing, is never among them. [FLOP]."""

    matmul_forward: float
    """Projections, feed-forward, router, the experts a token visits, and the output head."""
    attention_causal_forward: float
    """Scores and weighted sum over the tokens before, on average over the sequence."""
    attention_whole_forward: float
    """The same over the whole sequence or window, which some texts count."""
    training_causal: float
    """Forward and backward, attention causal."""
    training_whole: float
    """Forward and backward, attention whole."""


def token_flops(architecture: Architecture, sequence: int) -> TokenFlops:
    """FLOPs of one token of a sequence, forward and in training.

    training = 3 (matmul + L attention)

    Parameters
    ----------
    sequence
        s. [tokens]

    References
    ----------
    .. [1] A. Chowdhery et al., arXiv:2204.02311, appendix B.
    .. [2] C. Zhao et al., arXiv:2505.09343, table 2: 250 GFLOP for DeepSeek-V3 at 4,096 tokens.

    Examples
    --------
    One layer of 384 + 1,536 FLOPs in its products, a head of 2 * 8 * 16, and 1,600 of attention:

    >>> shape = dict(hidden=8, layers=1, heads=2, kv_heads=1, head_size=4, ffn=32, vocabulary=16)
    >>> tiny = Architecture(name="t", **shape)
    >>> token_flops(tiny, 100).matmul_forward, token_flops(tiny, 100).training_causal
    (2176.0, 11328.0)
    """
    matmul = matmul_flops(architecture)
    causal = architecture.layers * attention_flops(architecture, sequence)
    whole = architecture.layers * attention_flops(architecture, sequence, causal=False)
    return TokenFlops(
        matmul_forward=matmul,
        attention_causal_forward=causal,
        attention_whole_forward=whole,
        training_causal=3.0 * (matmul + causal),
        training_whole=3.0 * (matmul + whole),
    )


def matmul_flops(architecture: Architecture) -> float:
    """Forward FLOPs of a token in every matrix product of the architecture, the head's among them.

    L projections + (dense layers) mlp(f) + (sparse layers) (k mlp(f_e) + mlp(f_s) + 2 h E) + 2 h V

    >>> shape = dict(hidden=8, layers=1, heads=2, kv_heads=1, head_size=4, ffn=32, vocabulary=16)
    >>> matmul_flops(Architecture(name="t", **shape))
    2176.0
    """
    h, gated, moe = architecture.hidden, architecture.gated_mlp, architecture.moe
    sparse = sum(architecture.sparse_layers())
    layers = architecture.layers * projection_flops(architecture)
    layers += (architecture.layers - sparse) * mlp_flops(h, architecture.ffn, gated)
    if moe is not None:
        experts = moe.experts_per_token * mlp_flops(h, moe.expert_ffn, gated)
        gate = 2.0 * h if moe.shared_expert_gate and moe.shared_expert_ffn else 0.0
        shared = mlp_flops(h, moe.shared_expert_ffn, gated) + gate
        layers += sparse * (experts + shared + 2.0 * h * moe.experts)
    return layers + 2.0 * h * architecture.vocabulary


def projection_flops(architecture: Architecture) -> float:
    """Forward FLOPs of a token in the attention's projections: 2 (2 a d + 2 n_kv d) h, or MLA's own.

    >>> shape = dict(hidden=8, layers=1, heads=2, kv_heads=1, head_size=4, ffn=32, vocabulary=16)
    >>> tiny = Architecture(name="t", **shape)
    >>> projection_flops(tiny)
    384.0
    """
    mla = architecture.mla
    if mla is None:
        wide = (2 * architecture.heads + 2 * architecture.kv_heads) * architecture.head_size
        return 2.0 * wide * architecture.hidden
    query_width = architecture.heads * (mla.nope_head_size + mla.rope_head_size)
    rank = mla.query_lora_rank
    query = rank * (architecture.hidden + query_width) if rank else architecture.hidden * query_width
    down = architecture.hidden * (mla.key_value_lora_rank + mla.rope_head_size)
    up = mla.key_value_lora_rank * architecture.heads * (mla.nope_head_size + mla.value_head_size)
    return 2.0 * (query + down + up + architecture.heads * mla.value_head_size * architecture.hidden)


def attention_flops(architecture: Architecture, sequence: int, causal: bool = True) -> float:
    """Forward FLOPs of a token in the attention scores and their weighted sum, a layer on average.

    2 a (d_qk + d_v) (tokens it sees), whatever share of the layers slides

    >>> shape = dict(hidden=8, layers=1, heads=2, kv_heads=1, head_size=4, ffn=32, vocabulary=16)
    >>> tiny = Architecture(name="t", **shape)
    >>> attention_flops(tiny, 100)
    1600.0
    """
    mla = architecture.mla
    width = 2.0 * architecture.head_size
    if mla is not None:
        width = float(mla.nope_head_size + mla.rope_head_size + mla.value_head_size)
    return 2.0 * architecture.heads * width * attended_tokens(architecture, sequence, causal)


def attended_tokens(architecture: Architecture, sequence: int, causal: bool = True) -> float:
    """Tokens a token sees, on average over the sequence and over the layers. [tokens].

    full       s, causal s / 2
    sliding    w' = min(w, s), causal w' - w'^2 / (2 s)
    chunked    w', causal w' / 2 where chunks are whole

    Limits
    ------
    A window as long as the sequence is none: w = s gives s / 2.

    Examples
    --------
    One of two layers with a window of 20 in 100 tokens sees 20 - 400 / 200 = 18, the other 50:

    >>> shape = dict(hidden=8, layers=2, heads=2, kv_heads=1, head_size=4, ffn=32, vocabulary=16)
    >>> attended_tokens(Architecture(name="t", sliding_window=20, sliding_layers=1, **shape), 100)
    34.0
    """
    full = sequence / 2 if causal else float(sequence)
    window = min(architecture.sliding_window or sequence, sequence)
    if window == 0:
        return full
    whole_chunks, rest = divmod(sequence, window)
    if not causal:
        slides = float(window)
    elif architecture.chunked_window:
        slides = (whole_chunks * window**2 + rest**2) / (2 * sequence)
    else:
        slides = window - window**2 / (2 * sequence)
    share = architecture.sliding_layers / architecture.layers if architecture.sliding_window else 0.0
    return share * slides + (1 - share) * full


def mlp_flops(hidden: int, width: int, gated: bool) -> float:
    """Forward FLOPs of a token in a feed-forward: 6 h f gated, 4 h f not.

    >>> mlp_flops(8, 32, gated=True)
    1536.0
    """
    return (6.0 if gated else 4.0) * hidden * width


def model_flops_per_token(architecture: Architecture, sequence: int, convention: str) -> float:
    """FLOPs a token in training that MFU counts; recompute never does.

    six_psi          6 Psi, Psi the (nominal) active parameters
    with_attention   6 (active - input embedding) + 3 L (causal attention forward)

    The second reproduces 250 GFLOP for DeepSeek-V3 at 4,096 tokens (arXiv:2505.09343, table 2).
    """
    counts = count_parameters(architecture)
    if convention == "six_psi":
        nominal = architecture.nominal_active_parameters or (
            architecture.nominal_parameters if architecture.moe is None else None
        )
        return 6.0 * (nominal or counts.active)
    causal = attention_flops(architecture, sequence)
    return 6.0 * counts.active_without_embedding + 3.0 * architecture.layers * causal
