"""Causal attention work of each context-parallel rank.

A causal sequence cut in 2 c chunks: chunk j attends to itself (half a block) and to the j before.
In order, the last rank works most; a front chunk paired with a back one makes all ranks equal
(Llama 3, arXiv:2407.21783, section 3.3.2; Megatron-LM cuts the sequence in 2 c chunks the same way).
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def causal_blocks(cp: int, front_and_back: bool) -> Array:
    """Blocks of causal work of each rank, a block being one chunk of queries on one of keys, (c,). [1].

    >>> causal_blocks(4, front_and_back=False), causal_blocks(4, front_and_back=True)
    (array([ 2.,  6., 10., 14.]), array([8., 8., 8., 8.]))
    """
    work = np.arange(2 * cp) + 0.5
    if front_and_back:
        return np.asarray(work[:cp] + work[::-1][:cp])
    return np.asarray(work[0::2] + work[1::2])


def imbalance(cp: int, front_and_back: bool) -> float:
    """Slowest rank's causal work over the mean. [1].

    >>> imbalance(4, front_and_back=False), imbalance(4, front_and_back=True)
    (1.75, 1.0)
    """
    work = causal_blocks(cp, front_and_back)
    return float(work.max() / work.mean())
