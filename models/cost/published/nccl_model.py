"""NCCL's own model of its collectives: what the library reckons with when it picks an algorithm.

These are constants inside the library, not measurements: good for the order of magnitude of a
latency and for which algorithm NCCL starts at which size.

Symbols, one meaning in this file:
    n  ranks of the communicator            m  nodes, n / m ranks on each           [1]
    l  latency of a step inside a node      L  latency of a step between nodes      [s]

References
----------
.. [1] NVIDIA/nccl @5067397c src/graph/tuning.cc, `ncclTopoTuneModel` and `ncclTunerConstantsDefaults`.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.published.bus_bandwidth import Operation, bus_factor

Array = NDArray[np.float64]
Algorithm = Literal["ring", "tree"]
Protocol = Literal["LL", "LL128", "Simple"]
Link = Literal["nvlink", "pci", "net"]

PROTOCOLS: tuple[Protocol, ...] = ("LL", "LL128", "Simple")
"""Low latency (8 bytes, half of them flags), low latency of 128 bytes (8 of them flags), plain."""

MICROSECOND = 1e-6

BASE_LATENCY: dict[Algorithm, tuple[float, ...]] = {"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4)}
"""Start of a collective, by protocol [1]. [us]"""

STEP_LATENCY: dict[Link, dict[Algorithm, tuple[float, ...]]] = {
    "nvlink": {"tree": (0.6, 1.25, 4.0), "ring": (0.6, 1.9, 3.4)},
    "pci": {"tree": (1.0, 1.9, 4.0), "ring": (1.0, 2.5, 5.7)},
    "net": {"tree": (5.0, 8.5, 14.0), "ring": (2.7, 4.0, 14.0)},
}
"""One step over a link, by protocol [1]. [us]"""

POST_OVERHEAD = {"intel": 1.0, "amd": 2.0}
"""Posting one message to the network, by the host's processor; three of them under Simple [1]. [us]"""

TREE_BUS_FACTOR = 0.92
"""Part of the links' bandwidth a tree all-reduce uses [1]. [1]"""
LL128_RING_FACTOR = 0.92
"""Part of the links' bandwidth a ring uses under LL128: 120 of 128 bytes are payload [1]. [1]"""
NVLS_EFFICIENCY = {"hopper": 0.85, "blackwell": 0.74}
"""Part of NVLink's bandwidth that NVLink SHARP uses [1]. [1]"""


def ring_latency_seconds(
    operation: Operation,
    gpus_per_node: ArrayLike,
    nodes: ArrayLike,
    protocol: Protocol,
    inside: Link = "nvlink",
    host: Literal["intel", "amd"] = "intel",
) -> Array:
    """Latency NCCL gives a ring: base + (steps - steps between nodes) l + (steps between nodes) L [1]. [s].

    An all-reduce takes 2 (n - 1) steps, 2 (m - 1) of them between nodes; a reduce-scatter or
    all-gather half of that. Over nodes every step waits at least for a post to the network.

    Examples
    --------
    An all-reduce on one node of 8 and on 64 of them, in the low-latency protocol:

    >>> (ring_latency_seconds("all_reduce", 8, [1, 64], "LL") * 1e6).round(1)
    array([  15. , 1242.8])
    """
    column, m = PROTOCOLS.index(protocol), np.asarray(nodes, dtype=np.float64)
    passes = 2.0 if operation == "all_reduce" else 1.0
    steps = passes * (np.asarray(gpus_per_node) * m - 1)
    across = passes * (m - 1)
    post = POST_OVERHEAD[host] * (3 if protocol == "Simple" else 1)
    step = STEP_LATENCY[inside]["ring"][column]
    step_inside = np.where(m > 1, max(step, post), step)
    waits = (steps - across) * step_inside + across * STEP_LATENCY["net"]["ring"][column]
    return np.asarray((BASE_LATENCY["ring"][column] + waits) * MICROSECOND)


def tree_latency_seconds(
    gpus_per_node: ArrayLike, nodes: ArrayLike, protocol: Protocol, inside: Link = "nvlink"
) -> Array:
    """Latency NCCL gives a tree all-reduce: base + 2 ((n/m - 1) l + floor(lg m) L) [1]. [s].

    A chain inside each node, a double binary tree over the nodes, up and down.

    >>> (tree_latency_seconds(8, [1, 64], "Simple") * 1e6).round(1)
    array([ 64.4, 232.4])
    """
    column = PROTOCOLS.index(protocol)
    chain = (np.asarray(gpus_per_node, dtype=np.float64) - 1) * STEP_LATENCY[inside]["tree"][column]
    depth = np.floor(np.log2(np.asarray(nodes, dtype=np.float64)))
    climb = depth * STEP_LATENCY["net"]["tree"][column]
    return np.asarray((BASE_LATENCY["tree"][column] + 2 * (chain + climb)) * MICROSECOND)


def algorithm_share(algorithm: Algorithm, operation: Operation, ranks: ArrayLike) -> Array:
    """Algorithm bandwidth over bus bandwidth as NCCL reckons it. [1].

    ring  1 / `bus_factor`: n / (2 (n - 1)) for an all-reduce, n / (n - 1) for the halves of it
    tree  1/2: every byte goes up and down [1]

    >>> algorithm_share("ring", "all_reduce", [2, 64]).round(4), algorithm_share("tree", "all_reduce", [64])
    (array([1.    , 0.5079]), array([0.5]))
    """
    if algorithm == "tree":
        return np.full(np.shape(ranks), 0.5)
    return np.asarray(1.0 / bus_factor(operation, ranks))
