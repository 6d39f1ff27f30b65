"""What one tensor-parallel rank holds of a layer's matrices and heads."""

from dataclasses import dataclass

from models.architecture import Architecture


@dataclass(frozen=True)
class TensorSlices:
    """Shapes on one TP rank; a matrix is (rows, columns)."""

    query_heads: int
    kv_heads: int
    """At least one: below that, key-value heads are replicated."""
    ffn: int
    query: tuple[int, int]
    key: tuple[int, int]
    output: tuple[int, int]


def tensor_slices(architecture: Architecture, tp: int) -> TensorSlices:
    """Cut a layer over a TP group: columns of q, k, v and the feed-forward, rows of the output [1].

    References
    ----------
    .. [1] M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3.

    Examples
    --------
    >>> shape = dict(hidden=16384, layers=126, heads=128, kv_heads=8, head_size=128, ffn=53248)
    >>> cut = tensor_slices(Architecture(name="405B", vocabulary=128256, **shape), 8)
    >>> cut.query, cut.key, cut.ffn
    ((16384, 2048), (16384, 128), 6656)
    """
    heads = architecture.heads // tp
    kv_heads = max(architecture.kv_heads // tp, 1)
    wide = heads * architecture.head_size
    return TensorSlices(
        query_heads=heads,
        kv_heads=kv_heads,
        ffn=architecture.ffn // tp,
        query=(architecture.hidden, wide),
        key=(architecture.hidden, kv_heads * architecture.head_size),
        output=(wide, architecture.hidden),
    )
