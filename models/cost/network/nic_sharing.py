"""GPUs that share a network card, and what those that send get of it.

A tier's bandwidth is one GPU's share of its server's cards, which is all it gets while every GPU of the
server sends. In a job where every rank runs the same program that is the rule: each collective runs in
all its groups at once, and where groups nest with servers either every GPU of a server sends out of it
or none does. Two kinds of traffic leave cards half idle, and their senders get more, up to a card's rate:
messages between stages that share a server (only its outermost ranks send out), and groups that straddle
a server that others do not.

Symbols: M GPUs of a server, C its cards, q = M/C GPUs to a card, s GPUs that send over the busiest card,
sigma the stride of a group, b its block, N layouts.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.cost.network.placement import Group, distinct
from models.hardware import Cluster

Array = NDArray[np.float64]


def collective_gain(group: Group, cluster: Cluster, gpus: int) -> Array:
    """Factor on the network's bandwidth in a collective of a group, q/s, (N,). [1].

    1 where strides and blocks nest with servers; counted on the busiest card else.

    >>> from models.catalogue import loader
    >>> groups = Group((np.array([64, 16, 3]),), (np.array([1, 4, 1]),))
    >>> collective_gain(groups, loader.cluster("h100-pcie"), 192).tolist()
    [1.0, 1.0, 2.0]
    """
    return _gain(group, cluster, gpus, np.ones(len(group.sizes[0])), neighbours=False)


def neighbour_gain(group: Group, cluster: Cluster, gpus: int) -> Array:
    """Factor on the network's bandwidth in messages to the next and the last stage, q/s, (N,). [1].

    With sigma < M < b the first sigma ranks of a server send back and the last sigma ahead:
    s = min(sigma, q), or those of both ends where they hang on one card and a group has a server between.

    >>> from models.catalogue import loader
    >>> stages = Group((np.array([16, 16, 4]),), (np.array([1, 2, 8]),))
    >>> neighbour_gain(stages, loader.cluster("h100-pcie"), 64).tolist()
    [4.0, 2.0, 1.0]
    """
    server, cards = cluster.gpus_per_node, shared_cards(cluster)
    size, stride = group.sizes[0], group.strides[0]
    ends = np.where((cards == 1) & (size * stride > 2 * server), 2, 1)
    busiest = np.minimum(ends * stride, server // cards)
    leaves = (stride < server) & (size * stride > server)
    return _gain(group, cluster, gpus, np.where(leaves, server / cards / busiest, 1.0), neighbours=True)


def shared_cards(cluster: Cluster) -> int:
    """Cards that GPUs share: as many as GPUs where none is said."""
    return min(cluster.nics_per_node or cluster.gpus_per_node, cluster.gpus_per_node)


def _gain(group: Group, cluster: Cluster, gpus: int, nested: Array, neighbours: bool) -> Array:
    server, cards = cluster.gpus_per_node, shared_cards(cluster)
    found = nested.copy()
    if cards == server:
        return np.ones_like(found)
    odd = np.full(len(found), server % cards != 0)
    for size, stride in zip(group.sizes, group.strides, strict=True):
        for length in (stride, size * stride):
            odd |= (length % server != 0) & (server % length != 0)
        odd |= (stride % (server // cards) != 0) & ((server // cards) % stride != 0)
    shapes, place = distinct(group, odd)
    most = [busiest_card(*shape, server, cards, gpus, neighbours) for shape in shapes]
    found[odd] = np.array([server / cards / s if s else 1.0 for s in most])[place]
    return np.maximum(found, 1.0)


@lru_cache(maxsize=4096)
def busiest_card(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    server: int,
    cards: int,
    gpus: int,
    neighbours: bool,
) -> int:
    """GPUs that send out of their server over the busiest card of the job: s. [1].

    In a collective a rank sends out where its group has a rank in another server, of neighbours where the
    one before or after it along the first axis is in another.

    >>> busiest_card((4,), (1,), 6, 2, 12, neighbours=False)
    2
    """
    ranks = np.arange(gpus)
    home = ranks // server
    sends = np.zeros(gpus, dtype=bool)
    if neighbours:
        at = ranks // strides[0] % sizes[0]
        sends |= (at > 0) & ((ranks - strides[0]) // server != home)
        sends |= (at < sizes[0] - 1) & ((ranks + strides[0]) // server != home)
    else:
        first = ranks.copy()
        for size, stride in zip(sizes, strides, strict=True):
            first -= ranks // stride % size * stride
        last = first + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        sends = first // server != last // server
    card = home * cards + ranks % server * cards // server
    return int(np.bincount(card[sends], minlength=1).max())
