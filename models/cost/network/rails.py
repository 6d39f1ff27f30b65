"""All-to-alls that change rails: which part of their bytes does, and what carries it.

On a rail-optimised fabric a leaf switch joins the GPUs of equal place in their servers. Rings and
whatever else joins equal places stay under their leaves at the full rate; an all-to-all does not. NCCL
since 2.12 hands such bytes to the GPU of the right rail in its own server first (PXN) [1]: the network
carries what it carried, the server's own fabric the forwarded bytes besides. Where the planes never meet
there is no other way.

Symbols: n ranks in a group, sigma its stride, b = n sigma its block, M GPUs of a server, R rails,
q = M/R GPUs of a server on one rail, r rails a group has ranks on, N layouts, K tiers.

References
----------
.. [1] NVIDIA, "Doubling all2all performance with NVIDIA Collective Communication Library 2.12",
   developer.nvidia.com/blog, 2022.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.cost.network.placement import Group, distinct
from models.hardware import Cluster, Tier

Array = NDArray[np.float64]


def spread_part(group: Group, cluster: Cluster, gpus: int) -> Array:
    """Part of the bytes on each tier that change rails when every partner gets as much, (N, K). [1].

    1 - 1/r where places and rails nest, counted over the job's groups else; 0 on a tier without rails.
    Without a meaning on a tier on which no two ranks of the group meet.

    >>> from models.catalogue import loader
    >>> experts = Group((np.array([16, 16]),), (np.array([1, 8]),))
    >>> spread_part(experts, loader.cluster("dgx-h100"), 128).tolist()
    [[0.0, 0.875, 0.0], [0.0, 0.0, 0.0]]
    """
    units = (*(tier.gpus for tier in cluster.tiers[:-1]), None)
    found = np.zeros((len(group.sizes[0]), len(units)))
    for rails in sorted({_rails(tier) for tier in cluster.tiers} - {1}):
        columns = np.array([_rails(tier) == rails for tier in cluster.tiers])
        nested = 1 - 1 / _rails_met(group, cluster.gpus_per_node, rails)
        part = np.repeat(nested[:, None], len(units), axis=1)
        odd = ~_nests(group, cluster.gpus_per_node, rails)
        shapes, place = distinct(group, odd)
        if shapes:
            each = [_count_spread(*shape, units, cluster.gpus_per_node, rails, gpus) for shape in shapes]
            part[odd] = np.stack(each)[place]
        found[:, columns] = part[:, columns]
    return found


def forwarded(crossing: Array, part: Array, server: int) -> Array:
    """Bytes a rank moves over each tier with what changes rails forwarded in its server first, (N, K). [B].

    They are more than it sends by what travels twice.

    Parameters
    ----------
    crossing : (N, K)
        What it sends over each tier. [B]
    part : (N, K)
        What changes rails of it. [1]
    server
        Index of the tier that joins a server.

    >>> forwarded(np.array([[4.0, 8.0, 0.0]]), np.array([[0, 0.875, 0]]), 0)
    array([[11.,  8.,  0.]])
    """
    found = crossing.copy()
    found[:, server] += (crossing * part).sum(axis=1)
    return found


def _rails(tier: Tier) -> int:
    return tier.rails or 1


def server_tier(cluster: Cluster) -> int:
    """Innermost tier that joins a whole server, and lies inside the rails."""
    railed = [k for k, tier in enumerate(cluster.tiers) if _rails(tier) > 1]
    whole = [k for k, tier in enumerate(cluster.tiers) if (tier.gpus or np.inf) >= cluster.gpus_per_node]
    return min(whole[0], max(min(railed, default=1) - 1, 0))


def _rails_met(group: Group, server: int, rails: int) -> Array:
    """Rails a group has ranks on, where its places nest with servers and rails, (N,). [1].

    r is the product over axes of min(b, M) / max(sigma, q), at least 1, of those with sigma < M.
    """
    wide = server // rails
    met = np.ones(len(group.sizes[0]))
    for size, stride in zip(group.sizes, group.strides, strict=True):
        apart = np.minimum(size * stride, server) / np.maximum(stride, wide)
        met *= np.where(stride < server, np.maximum(apart, 1.0), 1.0)
    return met


def _nests(group: Group, server: int, rails: int) -> NDArray[np.bool_]:
    """Whether strides and blocks divide, or are divided by, a server and its part of a rail, (N,)."""
    found = np.ones(len(group.sizes[0]), dtype=bool)
    for size, stride in zip(group.sizes, group.strides, strict=True):
        for length in (stride, size * stride):
            for unit in (server, server // rails):
                found &= (length % unit == 0) | (unit % length == 0)
    return found


@lru_cache(maxsize=4096)
def _count_spread(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    units: tuple[int | None, ...],
    server: int,
    rails: int,
    gpus: int,
) -> Array:
    """Part of the pairs of a group's ranks that meet on each tier on two rails, over every group, (K,).

    A unit with c ranks of a group, c_j of them on rail j, has c^2 pairs, sum c_j^2 of them on one rail.
    Groups whose first ranks stand at the same place of every unit are one kind, counted once.
    """
    period = math.lcm(server, *(unit for unit in units if unit))
    first = np.zeros(1, dtype=np.int64)
    inside = np.zeros(1, dtype=np.int64)
    outermost = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        first = (first[:, None] + np.arange(0, stride, outermost)).reshape(-1)
        inside = (inside + np.arange(size)[:, None] * stride).reshape(-1)
        outermost = stride * size
    first = (first[:, None] + np.arange(0, gpus, outermost)).reshape(-1)
    first, groups = np.unique(first % period, return_counts=True)
    ranks = first[:, None] + inside
    rail = ranks % server * rails // server
    kind = np.arange(len(first))[:, None] * (gpus + period)

    def pairs(unit: int | None) -> tuple[float, float]:
        place = kind + (ranks // unit if unit else 0 * ranks)
        return _squares(place, groups), _squares(place * rails + rail, groups)

    single = float(groups.sum() * len(inside))
    met = np.array([(single, single), *(pairs(unit) for unit in units)])
    whole, same = np.diff(met, axis=0).T
    return np.asarray(np.where(whole > 0, 1 - same / np.maximum(whole, 1.0), 0.0), dtype=np.float64)


def _squares(place: NDArray[np.int64], groups: NDArray[np.int64]) -> float:
    """Sum of the squares of how often each value occurs in a row, each row for so many groups."""
    place = np.sort(place, axis=1)
    new = np.diff(place, axis=1, prepend=place[:, :1] - 1) != 0
    starts = np.flatnonzero(new)
    count = np.diff(starts, append=place.size).astype(np.float64)
    return float(count * groups[starts // place.shape[1]] @ count)
