"""Which layers full recompute covers where it covers some only: the first of every chunk.

As Megatron-LM's `--recompute-method block` does, which counts a virtual stage at a time
(NVIDIA/Megatron-LM megatron/core/transformer/transformer_block.py, `_checkpointed_forward`).
"""

from collections.abc import Sequence

Recomputed = int | tuple[int, ...] | None
"""Layers recomputed: so many of each stage, or of each chunk in execution order; nothing where it is all."""


def recomputed_of_chunks(recomputed: Recomputed, held: Sequence[int], of_rank: Sequence[int]) -> list[int]:
    """Return how many layers of each of a rank's chunks are recomputed.

    Parameters
    ----------
    recomputed
        What the layout says.
    held
        Layers of each of the rank's chunks.
    of_rank
        The rank's chunks, in execution order.

    Examples
    --------
    Five of a rank's layers, then those of each of four chunks, of which it has the first and the third:

    >>> recomputed_of_chunks(5, [4, 4], [0, 2]), recomputed_of_chunks((2, 4, 1, 4), [4, 4], [0, 2])
    ([3, 2], [2, 1])
    """
    if recomputed is None:
        return list(held)
    if isinstance(recomputed, int):
        return in_turn(recomputed, held)
    return [min(recomputed[chunk], layers) for chunk, layers in zip(of_rank, held, strict=True)]


def in_turn(layers: int, held: Sequence[int]) -> list[int]:
    """Take layers from chunks one after the other, the first first, as long as they have any.

    >>> in_turn(7, [1, 4, 3]), in_turn(9, [1, 4, 3])
    ([1, 3, 3], [1, 4, 3])
    """
    taken = [0] * len(held)
    while layers > 0 and taken != list(held):
        for chunk, most in enumerate(held):
            if layers > 0 and taken[chunk] < most:
                taken[chunk] += 1
                layers -= 1
    return taken
