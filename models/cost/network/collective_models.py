"""Time of collective operations under the latency-bandwidth model, one function an algorithm.

Every function prices N collectives at once over links of one kind, before any overlap, without the
time of the reduction itself. A group of one rank costs nothing. Arguments broadcast.

Symbols, one meaning in this file:
    p  ranks in the group                                                    [1]
    S  payload: the whole buffer a rank reduces, gathers or exchanges         [B]
    a  latency of one message, b bandwidth of a rank in one direction         [s], [B/s]
    q  largest power of two in p; lg is the logarithm to base 2

Which one wins: the logarithmic algorithms where latency decides (S well under a b), the ring and
Rabenseifner's where bandwidth does, Rabenseifner's over the ring for large p.

References
----------
.. [1] R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations
   in MPICH", Int. J. High Perform. Comput. Appl. 19(1), 2005, doi:10.1177/1094342005051521.
.. [2] P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
   workstations", J. Parallel Distrib. Comput. 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002.
.. [3] J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport
   message-passing systems", IEEE Trans. Parallel Distrib. Syst. 8(11), 1997, doi:10.1109/71.642949.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.network.collectives import (
    all_gather_sent,
    all_reduce_sent,
    all_to_all_sent,
    reduce_scatter_sent,
)

Array = NDArray[np.float64]


def send_seconds(payload: ArrayLike, latency: ArrayLike, bandwidth: ArrayLike) -> Array:
    """Time of one message: a + S / b. [s].

    >>> float(send_seconds(50e9, 1e-6, 50e9))
    1.000001
    """
    return np.asarray(np.asarray(latency) + np.asarray(payload, dtype=np.float64) / np.asarray(bandwidth))


def rounds(ranks: ArrayLike) -> Array:
    """Rounds of an algorithm that doubles what it knows in each: the ceiling of lg p. [1].

    >>> rounds([1, 2, 5, 8])
    array([0., 1., 3., 3.])
    """
    return np.ceil(np.log2(np.asarray(ranks, dtype=np.float64)))


def ring_reduce_scatter_seconds(
    payload: ArrayLike, ranks: ArrayLike, latency: ArrayLike, bandwidth: ArrayLike
) -> Array:
    """Time of a ring reduce-scatter: (p - 1) (a + S / (p b)) [2]. [s].

    >>> float(ring_reduce_scatter_seconds(8e9, 8, 0.0, 400e9))
    0.0175
    """
    hops = np.asarray(ranks, dtype=np.float64) - 1
    return np.asarray(
        hops * np.asarray(latency) + reduce_scatter_sent(payload, ranks) / np.asarray(bandwidth)
    )


def ring_all_gather_seconds(
    payload: ArrayLike, ranks: ArrayLike, latency: ArrayLike, bandwidth: ArrayLike
) -> Array:
    """Time of a ring all-gather to S bytes, the reduce-scatter's: (p - 1) (a + S / (p b)) [2]. [s]."""
    return ring_reduce_scatter_seconds(payload, ranks, latency, bandwidth)


def ring_all_reduce_seconds(
    payload: ArrayLike, ranks: ArrayLike, latency: ArrayLike, bandwidth: ArrayLike
) -> Array:
    """Time of a ring all-reduce, a reduce-scatter then an all-gather: 2 (p - 1) (a + S / (p b)) [2]. [s].

    Limits
    ------
    The bandwidth term stays under 2 S / b however many ranks there are; the latency term does not.

    Examples
    --------
    One rank, and eight with 1 MB at 5 us and 50 GB/s:

    >>> ring_all_reduce_seconds(1e6, [1, 8], 5e-6, 50e9)
    array([0.      , 0.000105])
    """
    return 2.0 * ring_reduce_scatter_seconds(payload, ranks, latency, bandwidth)


def hierarchical_all_reduce_seconds(
    payload: ArrayLike, ranks: ArrayLike, units: ArrayLike, inside: ArrayLike, across: ArrayLike
) -> Array:
    """Reduce-scatter inside each unit of g ranks, all-reduce across U units, all-gather inside. [s].

    t = 2 (g-1)/g S / B_inside + 2 (U-1)/U (S/g) / B_across

    >>> round(float(hierarchical_all_reduce_seconds(8e9, 8, 2, 400e9, 50e9)), 6)
    0.055
    """
    size, g, u = (np.asarray(value, dtype=np.float64) for value in (payload, ranks, units))
    rings = 2 * (g - 1) / g * size / np.asarray(inside)
    return np.asarray(rings + 2 * (u - 1) / u * size / g / np.asarray(across))


def recursive_doubling_all_reduce_seconds(
    payload: ArrayLike, ranks: ArrayLike, latency: ArrayLike, bandwidth: ArrayLike
) -> Array:
    """Time of an all-reduce by recursive doubling: lg q (a + S / b). [s].

    Each round exchanges the whole buffer with a partner twice as far. Where p is no power of two, the
    p - q ranks beyond it hand their buffer to a neighbour first and get the result back last: two
    messages more [1].

    >>> recursive_doubling_all_reduce_seconds(1e6, [1, 8, 9], 5e-6, 50e9) * 1e6
    array([  0.,  75., 125.])
    """
    exchanges = _whole_rounds(ranks) + 2.0 * _beyond_power(ranks)
    return np.asarray(exchanges * send_seconds(payload, latency, bandwidth))


def rabenseifner_all_reduce_seconds(
    payload: ArrayLike, ranks: ArrayLike, latency: ArrayLike, bandwidth: ArrayLike
) -> Array:
    """Time of Rabenseifner's all-reduce: 2 lg q a + 2 (q - 1)/q S / b. [s].

    A reduce-scatter by recursive halving, then an all-gather by recursive doubling [1]: the ring's
    bytes in a logarithm of its messages. NCCL has no such algorithm; its tree is the nearest.

    Two messages more where p is no power of two.

    >>> rabenseifner_all_reduce_seconds(1e6, [1, 8], 5e-6, 50e9) * 1e6
    array([ 0., 65.])
    """
    power = 2.0 ** _whole_rounds(ranks)
    core = 2 * _whole_rounds(ranks) * np.asarray(latency)
    moved = all_reduce_sent(payload, power) / np.asarray(bandwidth)
    folded = 2.0 * _beyond_power(ranks) * send_seconds(payload, latency, bandwidth)
    return np.asarray(core + moved + folded)


def recursive_doubling_all_gather_seconds(
    payload: ArrayLike, ranks: ArrayLike, latency: ArrayLike, bandwidth: ArrayLike
) -> Array:
    """Time of an all-gather to S bytes by recursive doubling: lg p a + (p - 1)/p S / b [1]. [s].

    Off a power of two it is reckoned as Bruck's, which takes the ceiling of lg p messages.

    >>> float(recursive_doubling_all_gather_seconds(8e6, 8, 5e-6, 50e9))
    0.000155
    """
    return np.asarray(
        rounds(ranks) * np.asarray(latency) + all_gather_sent(payload, ranks) / np.asarray(bandwidth)
    )


def binomial_broadcast_seconds(
    payload: ArrayLike, ranks: ArrayLike, latency: ArrayLike, bandwidth: ArrayLike
) -> Array:
    """Time of a broadcast (or a reduce) along a binomial tree, for short messages: lg p (a + S / b) [1]. [s].

    >>> float(binomial_broadcast_seconds(1e6, 64, 5e-6, 50e9) * 1e6)
    150.0
    """
    return np.asarray(rounds(ranks) * send_seconds(payload, latency, bandwidth))


def scatter_all_gather_broadcast_seconds(
    payload: ArrayLike, ranks: ArrayLike, latency: ArrayLike, bandwidth: ArrayLike
) -> Array:
    """Time of a long message's broadcast, scattered then gathered: 2 lg p a + 2 (p - 1)/p S / b [1]. [s].

    Beats the binomial tree as soon as lg p > 2 and bandwidth decides.

    >>> float(scatter_all_gather_broadcast_seconds(100e6, 64, 5e-6, 50e9))
    0.0039975
    """
    return 2.0 * recursive_doubling_all_gather_seconds(payload, ranks, latency, bandwidth)


def pairwise_all_to_all_seconds(
    payload: ArrayLike, ranks: ArrayLike, latency: ArrayLike, bandwidth: ArrayLike
) -> Array:
    """Time of an all-to-all that exchanges with each partner in turn: (p - 1) (a + S / (p b)) [1]. [s].

    S is what a rank holds for all ranks together, its own part among it.

    >>> float(pairwise_all_to_all_seconds(8e6, 8, 5e-6, 50e9) * 1e6)
    175.0
    """
    hops = np.asarray(ranks, dtype=np.float64) - 1
    return np.asarray(hops * np.asarray(latency) + all_to_all_sent(payload, ranks) / np.asarray(bandwidth))


def bruck_all_to_all_seconds(
    payload: ArrayLike, ranks: ArrayLike, latency: ArrayLike, bandwidth: ArrayLike
) -> Array:
    """Time of an all-to-all in a logarithm of messages, for short ones: lg p (a + S / (2 b)) [3]. [s].

    Each round forwards half of the buffer.

    >>> float(bruck_all_to_all_seconds(8e6, 4, 0.0, 50e9))
    0.00016
    """
    return np.asarray(rounds(ranks) * send_seconds(np.asarray(payload) / 2, latency, bandwidth))


def _whole_rounds(ranks: ArrayLike) -> Array:
    """Exponent of q."""
    return np.floor(np.log2(np.asarray(ranks, dtype=np.float64)))


def _beyond_power(ranks: ArrayLike) -> Array:
    """1 where some ranks stand beyond q."""
    return (2.0 ** _whole_rounds(ranks) < np.asarray(ranks)).astype(np.float64)
