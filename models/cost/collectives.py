"""Bytes and time of collective operations under the latency-bandwidth model, tier by tier.

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

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.hardware import Cluster
from models.profile import Profile

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


@dataclass(frozen=True)
class Fabric:
    """What one GPU gets of each tier, as collectives see it; shape (K,)."""

    bandwidth: Array
    """One direction, after efficiency and oversubscription. [B/s]"""
    latency: Array
    """Start-up of one message. [s]"""
    hierarchical: bool
    """Rings inside first, then across; or all bytes at the slowest tier crossed."""


def fabric(cluster: Cluster, profile: Profile) -> Fabric:
    """Return a cluster's tiers under a profile's efficiencies."""
    reached = [profile.inner_bandwidth_fraction] + [profile.outer_bandwidth_fraction] * (
        len(cluster.tiers) - 1
    )
    tiers = cluster.tiers
    return Fabric(
        bandwidth=np.array(
            [t.bandwidth_bytes_per_s / t.oversubscription * f for t, f in zip(tiers, reached, strict=True)]
        ),
        latency=np.array([t.latency_s * profile.latency_factor for t in tiers]),
        hierarchical=profile.hierarchical_collectives,
    )


def slowest_seconds(sent: Array, shares: Array, wire: Fabric) -> Array:
    """Time when every byte goes at the pace of the slowest tier the group crosses, (N,). [s]."""
    pace = np.where(shares > 0, 1 / wire.bandwidth, 0.0).max(axis=1)
    return np.asarray(sent * pace)


def ring_seconds(
    sent: Array, shares: Array, members: NDArray[np.int64], passes: ArrayLike, wire: Fabric
) -> Array:
    """Time of ring collectives over the tiers they cross, (N,). [s].

    t = sum over tiers of bytes_k / B_k + passes (m_k/m_{k-1} - 1) a_k

    Parameters
    ----------
    sent : (N,)
        Bytes each rank sends, all passes together. [B]
    shares : (N, K)
        Share of them on each tier.
    members : (N, K)
        m_k.
    passes : (N,)
        Reduce-scatters and all-gathers done, an all-reduce being two. [1]
    wire
        Bandwidths and latencies.
    """
    if not wire.hierarchical:
        return slowest_seconds(sent, shares, wire)
    inner = np.concatenate([np.ones((len(members), 1)), members[:, :-1]], axis=1)
    hops = np.maximum(members / inner - 1, 0.0) @ wire.latency
    return np.asarray(sent * (shares @ (1 / wire.bandwidth)) + np.asarray(passes) * hops)


def all_to_all_seconds(sent: Array, shares: Array, times: ArrayLike, wire: Fabric) -> Array:
    """Time of all-to-alls: tiers work side by side, so the busiest decides, (N,). [s].

    t = max over tiers of bytes_k / B_k + times * (largest latency crossed)
    """
    if not wire.hierarchical:
        return slowest_seconds(sent, shares, wire)
    busiest = (shares / wire.bandwidth).max(axis=1)
    return np.asarray(sent * busiest + np.asarray(times) * crossed_latency(shares, wire))


def message_seconds(sent: Array, shares: Array, times: ArrayLike, wire: Fabric) -> Array:
    """Time of point-to-point messages over the outermost tier any of them crosses, (N,). [s]."""
    return slowest_seconds(sent, shares, wire) + np.asarray(times) * crossed_latency(shares, wire)


def crossed_latency(shares: Array, wire: Fabric) -> Array:
    """Largest latency among the tiers crossed, (N,). [s]."""
    latency: Array = np.where(shares > 0, wire.latency, 0.0).max(axis=1)
    return latency
