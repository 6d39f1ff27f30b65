"""Ring attention: how long a block must be to hide its transfer, and what a host keeps.

Symbols, one meaning in this file: c tokens of a block, b sequences, h hidden, F compute rate of a
device [FLOP/s], B bandwidth to its neighbour [B/s].

References
----------
.. [1] H. Liu, M. Zaharia, P. Abbeel, "Ring attention with blockwise transformers for near-infinite
   context", ICLR 2024, arXiv:2310.01889, section 3 and tables 1 and 2.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

QUERY_BLOCKS, KEY_VALUE_BLOCKS, OUTPUT_BLOCKS = 1, 4, 1
"""Blocks a host keeps: one query, two keys and two values (at work and arriving), one output [1]. [1]"""

HELD_BLOCKS = QUERY_BLOCKS + KEY_VALUE_BLOCKS + OUTPUT_BLOCKS
"""Blocks of b c h elements a host keeps, whatever the sequence length [1]. [1]"""


def smallest_block(flops: ArrayLike, bandwidth: ArrayLike) -> Array:
    """Tokens of a block whose attention takes as long as sending its keys and values: F / B [1]. [tokens].

    Attention of a query block on a key block is 4 c^2 h FLOPs, keys and values are 4 c h bytes in
    16 bits: 4 c^2 h / F >= 4 c h / B. Neither heads nor hidden size matter.

    Limits
    ------
    Holds for a plain mask; a causal one halves the work of most blocks and doubles c. Grouped
    key-value heads send less and shorten it by their number over the heads'.

    Examples
    --------
    An A100 at 312 TFLOP/s over NVLink (300 GB/s) and InfiniBand (12.5 GB/s):

    >>> smallest_block(312e12, [300e9, 12.5e9])
    array([ 1040., 24960.])
    """
    return np.asarray(np.asarray(flops, dtype=np.float64) / np.asarray(bandwidth))


def smallest_sequence(flops: ArrayLike, bandwidth: ArrayLike) -> Array:
    """Tokens a device needs for its ring to hide: the six blocks it keeps, 6 F / B [1]. [tokens].

    >>> float(smallest_sequence(312e12, 300e9))
    6240.0
    """
    return HELD_BLOCKS * smallest_block(flops, bandwidth)


def held_elements(sequences: ArrayLike, block: ArrayLike, hidden: ArrayLike) -> Array:
    """Elements a host keeps: 6 b c h [1]. [1].

    >>> float(held_elements(1, 4096, 4096))
    100663296.0
    """
    one = np.asarray(sequences, dtype=np.float64) * np.asarray(block) * np.asarray(hidden)
    return np.asarray(HELD_BLOCKS * one)
