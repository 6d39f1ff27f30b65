"""From a measured collective to the bandwidth of its links: nccl-tests' algorithm and bus bandwidth.

Symbols: n ranks [1], S bytes of the whole array [B] (for a reduce-scatter the input, for an
all-gather the output), t time of the collective [s].

References
----------
.. [1] NVIDIA/nccl-tests doc/PERFORMANCE.md; the factors of all-to-all, gather, scatter and send-receive
   are those of src/alltoall.cu, gather.cu, scatter.cu and sendrecv.cu.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.network.collectives import all_reduce_sent, reduce_scatter_sent

Array = NDArray[np.float64]

Operation = Literal[
    "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "gather", "scatter",
    "broadcast", "reduce", "send_receive",
]  # fmt: skip

WHOLE: frozenset[Operation] = frozenset(("broadcast", "reduce", "send_receive"))
"""Operations that move the whole array over the slowest link once, however many ranks there are."""


def bus_factor(operation: Operation, ranks: ArrayLike) -> Array:
    """What algorithm bandwidth is multiplied by to tell the use of the links, whatever the ranks. [1].

    2 (n-1)/n for an all-reduce; (n-1)/n for a reduce-scatter, all-gather, all-to-all, gather and
    scatter; 1 for a broadcast, reduce and send-receive [1]. It is what a ring sends for each byte.

    >>> bus_factor("all_reduce", [2, 8]), bus_factor("broadcast", [2, 8])
    (array([1.  , 1.75]), array([1., 1.]))
    """
    if operation in WHOLE:
        return np.ones_like(np.asarray(ranks, dtype=np.float64))
    return all_reduce_sent(1.0, ranks) if operation == "all_reduce" else reduce_scatter_sent(1.0, ranks)


def algorithm_bandwidth(payload: ArrayLike, seconds: ArrayLike) -> Array:
    """Bytes of the array by the time it took: S / t [1]. [B/s]."""
    return np.asarray(np.asarray(payload, dtype=np.float64) / np.asarray(seconds))


def bus_bandwidth(operation: Operation, payload: ArrayLike, ranks: ArrayLike, seconds: ArrayLike) -> Array:
    """Bandwidth the busiest link ran at: S / t times `bus_factor` [1]. [B/s].

    4 GiB all-reduced by 16 GPUs in 18 ms:

    >>> float(bus_bandwidth("all_reduce", 2**32, 16, 0.018)) / 1e9
    447.39242666666667
    """
    return algorithm_bandwidth(payload, seconds) * bus_factor(operation, ranks)
