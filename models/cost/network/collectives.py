"""Bytes of collective operations, and how they fall on the tiers a group crosses.

Symbols, one meaning in this file:
    n   ranks in the group                                                     [1]
    S   payload: the whole buffer a rank reduces, gathers or exchanges          [B]
    m_k ranks of the group that share one unit of tier k; m_K = n               [1]
    N layouts, K tiers.

References
----------
.. [1] P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
   workstations", J. Parallel Distrib. Comput. 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002.
.. [2] R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations
   in MPICH", Int. J. High Perform. Comput. Appl. 19(1), 2005, doi:10.1177/1094342005051521.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def all_reduce_sent(payload: ArrayLike, ranks: ArrayLike) -> Array:
    """Bytes each rank sends in a ring all-reduce: 2 (n-1)/n S [1]. [B].

    >>> float(all_reduce_sent(8.0, 8))
    14.0
    """
    return np.asarray(2.0 * reduce_scatter_sent(payload, ranks))


def reduce_scatter_sent(payload: ArrayLike, ranks: ArrayLike) -> Array:
    """Bytes each rank sends in a ring reduce-scatter of S bytes: (n-1)/n S [1]. [B].

    >>> float(reduce_scatter_sent(8.0, 8))
    7.0
    """
    n = np.asarray(ranks, dtype=np.float64)
    return np.asarray((n - 1) / n * np.asarray(payload, dtype=np.float64))


def all_gather_sent(payload: ArrayLike, ranks: ArrayLike) -> Array:
    """Bytes each rank sends in a ring all-gather to S bytes: (n-1)/n S [1]. [B]."""
    return reduce_scatter_sent(payload, ranks)


def all_to_all_sent(payload: ArrayLike, ranks: ArrayLike) -> Array:
    """Bytes each rank sends when it spreads S bytes evenly over n ranks: (n-1)/n S [2]. [B]."""
    return reduce_scatter_sent(payload, ranks)


def partner_shares(members: NDArray[np.int64]) -> Array:
    """Share of a rank's bytes that crosses each tier when spread evenly over its partners, (N, K).

    (m_k - m_{k-1}) / (n - 1): what an all-to-all does, and what the traffic matrix counts.

    >>> partner_shares(np.array([[8, 16]]))
    array([[0.46666667, 0.53333333]])
    """
    inner = np.concatenate([np.ones((len(members), 1), dtype=np.int64), members[:, :-1]], axis=1)
    partners = np.maximum(members[:, -1:] - 1, 1)
    return np.asarray(np.maximum(members - inner, 0) / partners)


def hierarchical_shares(members: NDArray[np.int64]) -> Array:
    """Share of a rank's bytes on each tier when rings run inside a unit first, then across, (N, K).

    (1/m_{k-1} - 1/m_k) / (1 - 1/n): the total is the flat ring's, but only 1/m_{k-1} of the payload
    leaves a unit through each rank.

    >>> hierarchical_shares(np.array([[8, 16]])).round(4)
    array([[0.9333, 0.0667]])
    """
    inner = np.concatenate([np.ones((len(members), 1)), members[:, :-1]], axis=1)
    whole = np.where(members[:, -1:] > 1, 1 - 1 / members[:, -1:], 1.0)
    return np.asarray(np.maximum(1 / inner - 1 / members, 0.0) / whole)


def ring_shares(members: NDArray[np.int64]) -> Array:
    """Share of a rank's bytes on each tier when one ring runs through unit after unit, (N, K).

    1/m_{k-1} - 1/m_k, and 1/m_{k-1} on the outermost tier crossed: the ring enters each unit once,
    through the network cards of all its ranks in turn.

    >>> ring_shares(np.array([[8, 16]]))
    array([[0.875, 0.125]])
    """
    inner = np.concatenate([np.ones((len(members), 1)), members[:, :-1]], axis=1)
    closing = np.where((members == members[:, -1:]) & (inner < members), 1 / members, 0.0)
    return np.asarray(np.maximum(1 / inner - 1 / members, 0.0) + closing)


def neighbour_shares(members: NDArray[np.int64]) -> Array:
    """Share of point-to-point messages between neighbours of a group that crosses each tier, (N, K).

    Of the n - 1 neighbour pairs of a line, those inside units of m ranks are n/m (m - 1).

    >>> neighbour_shares(np.array([[2, 8]])).round(4)
    array([[0.5714, 0.4286]])
    """
    n = members[:, -1:].astype(np.float64)
    within = n / members * (members - 1)
    outer = np.concatenate([np.zeros((len(members), 1)), within[:, :-1]], axis=1)
    return np.asarray(np.maximum(within - outer, 0.0) / np.maximum(n - 1, 1))
