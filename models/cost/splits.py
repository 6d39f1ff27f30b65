"""Layers of each chunk of a pipeline: the balanced split, and how many chunks layers fill.

Symbols: p pipeline stages, v chunks a stage, C = p v chunks, L layers.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.cost.table import IntVector

EMPTY_CHUNKS = 2
"""Chunks that may hold no layer: the first has the embedding, the last the head. [1]"""


def hold_layers(
    pp: IntVector | int, vpp: IntVector | int, interleaved: NDArray[np.bool_] | bool, layers: int
) -> NDArray[np.bool_]:
    """Whether every stage finds a layer, and every chunk but the first and the last of interleaved ones.

    126 layers on 16 stages of 8 chunks are one layer a chunk, the embedding and the head alone:

    >>> hold_layers(np.array([16, 16, 126, 127]), np.array([8, 9, 1, 1]), np.array(True), 126).tolist()
    [True, False, True, False]
    """
    ends = EMPTY_CHUNKS * (np.greater(vpp, 1) & interleaved)
    return np.asarray((pp <= layers) & (pp * vpp <= layers + ends))


@lru_cache(maxsize=4096)
def balanced_split(layers: int, chunks: int) -> tuple[int, ...]:
    """Return the layers of each chunk: equal within one, the ends lighter.

    With m = ceil(L / C) a chunk, the m C - L layers too many are taken one each from the last
    chunk (it has the head and the loss), the first (the embedding, the most in flight), then the
    second, third, …, since earlier stages hold more micro-batches in flight.

    >>> balanced_split(126, 16) == (7,) + (8,) * 14 + (7,)
    True
    >>> balanced_split(32, 3), balanced_split(46, 4), balanced_split(61, 16)[:3]
    ((11, 11, 10), (11, 12, 12, 11), (3, 3, 4))
    >>> balanced_split(126, 128) == (0,) + (1,) * 126 + (0,)
    True
    """
    most = -(-layers // chunks)
    split = [most] * chunks
    order = [chunks - 1, 0, *range(1, chunks - 1)]
    for chunk in order[: most * chunks - layers]:
        split[chunk] -= 1
    return tuple(split)


def weighed_split(layers: int, chunks: int, last: float) -> tuple[int, ...]:
    """Return the layers of each chunk where the last chunk's head and loss count as `last` layers.

    The split whose heaviest chunk is lightest: m layers a chunk, the last one filled up to m with what
    its own work leaves; too many are taken one each from the first chunk on.

    DeepSeek-V3's 61 layers, its MTP layer and two heads (3.6 layers together) on 16 chunks, as its
    published layout has them:

    >>> weighed_split(61, 16, 3.6)
    (4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1)
    """
    most = -(-layers // chunks)
    while (chunks - 1) * most + max(round(most - last), 0) < layers:
        most += 1
    split = [most] * (chunks - 1) + [max(round(most - last), 0)]
    for turn in range(sum(split) - layers):
        split[turn % max(chunks - 1, 1)] -= 1
    return tuple(split)
