"""Time of a collective over the tiers its group crosses: the fastest algorithm, and its name.

The algorithms and their equations are in `models.cost.network.collective_algorithms`, the constants in
`models/catalogue/collectives/`, how well they meet measured collectives in docs/accuracy.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.distinct import distinct
from models.cost.network import collective_algorithms as algorithms
from models.cost.network.collective_algorithms import Groups
from models.cost.network.collective_wire import Wire
from models.cost.network.collectives import partner_shares

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

Operation = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send"]
OPERATIONS: tuple[Operation, ...] = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send")
"""Operation of each code."""
ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, SEND = range(len(OPERATIONS))

ALGORITHMS = ("none", "ring", "tree", "hierarchical", "multicast", "pairwise", "direct")
"""Name of each algorithm's code; `none` where nothing is sent."""
NONE, RING, TREE, HIERARCHICAL, MULTICAST, PAIRWISE, DIRECT = range(len(ALGORITHMS))


@dataclass(frozen=True)
class Timed:
    """N collectives, timed."""

    seconds: Array
    """Time before any overlap with compute, (N,). [s]"""
    algorithm: Codes
    """Index into ALGORITHMS of what was fastest, (N,)."""

    def names(self) -> list[str]:
        """Name of each row's algorithm."""
        return [ALGORITHMS[code] for code in self.algorithm]


def collective_time(
    operation: ArrayLike,
    payload: ArrayLike,
    members: NDArray[np.int64],
    wire: Wire,
    crossing: Array | None = None,
    gain: Array | None = None,
) -> Timed:
    """Time of N collectives by the fastest algorithm a library has for each.

    An all-reduce is a ring, a tree over the units, a hierarchy (inside, across, inside) or, where the
    switch can, a multicast. Reduce-scatters and all-gathers are rings: NCCL and RCCL have no hierarchy
    for them. All-to-alls exchange in pairs; a message is sent directly.

    Parameters
    ----------
    operation : (N,) or one
        Index into OPERATIONS.
    payload : (N,) or one
        S: the whole buffer a rank reduces, gathers, scatters, exchanges or sends. [B]
    members : (N, K)
        m_k as `models.cost.network.placement.members` tells them; the last column is n. [1]
    wire
        The K tiers.
    crossing : (N, K), optional
        Bytes an all-to-all sends over each tier, where they are not spread evenly over the partners
        (node-limited routing, one copy a node). [B]
    gain : (N, K), optional
        Factor on each tier's bandwidth where not every GPU that shares a network card sends. [1]

    Returns
    -------
    Timed
        A group of one, and a payload of nothing, take no time.

    Examples
    --------
    A gibibyte all-reduced by 2 and 8 GPUs of an ideal 450 GB/s fabric, 2 (n-1)/n S / B:

    >>> from models.hardware import Tier
    >>> from models.link import LinkClass
    >>> ideal = Wire.of([Tier(name="nvlink", bandwidth_bytes_per_s=4.5e11)], [LinkClass()])
    >>> found = collective_time(ALL_REDUCE, 4.5e9, np.array([[2], [8]]), ideal)
    >>> found.seconds, found.names()
    (array([0.01  , 0.0175]), ['ring', 'ring'])
    """
    rows = len(members)
    codes = np.broadcast_to(np.asarray(operation, dtype=np.int64), (rows,))
    size = np.broadcast_to(np.asarray(payload, dtype=np.float64), (rows,))
    seconds, algorithm = np.zeros(rows), np.full(rows, NONE)
    for code in np.unique(codes):
        mine = np.flatnonzero((codes == code) & (members[:, -1] > 1) & (size > 0))
        if not len(mine):
            continue
        more = [column[mine].T for column in (crossing, gain) if column is not None]
        first, kind = distinct(size[mine], *members[mine].T, *(row for columns in more for row in columns))
        kinds = mine[first]
        groups = Groups.of(size[kinds], members[kinds], wire, None if gain is None else gain[kinds])
        part = None if crossing is None else crossing[kinds]
        time, name = _fastest(_candidates(int(code), groups, part))
        seconds[mine], algorithm[mine] = time[kind], name[kind]
    return Timed(seconds, algorithm)


def all_to_all_crossing(payload: ArrayLike, members: NDArray[np.int64], wire: Wire) -> Array:
    """Bytes an even all-to-all sends over each tier, (N, K): (m_k - m_{k-1})/n S. [B].

    By the texts' rule, (n-1)/n S over each tier crossed.
    """
    n = members[:, -1:]
    sent = np.asarray(payload, dtype=np.float64).reshape(-1, 1) * (n - 1) / n
    shares = partner_shares(members)
    return np.asarray(sent * ((shares > 0) if wire.flat else shares))


def _candidates(code: int, groups: Groups, crossing: Array | None) -> list[tuple[int, Array]]:
    """Algorithms for one operation and their times."""
    passes = np.full(len(groups.payload), 2.0 if code == ALL_REDUCE else 1.0)
    if code == ALL_TO_ALL:
        sent = crossing
        if sent is None:
            sent = all_to_all_crossing(groups.payload, groups.members.astype(np.int64), groups.wire)
        return [(PAIRWISE, algorithms.exchange_seconds(groups, sent))]
    if code == SEND:
        return [(DIRECT, algorithms.send_seconds(groups))]
    ring = [(RING, algorithms.ring_seconds(groups, passes))]
    if code != ALL_REDUCE or groups.wire.flat:
        return ring
    others: dict[int, Callable[[Groups], Array]] = {
        TREE: algorithms.tree_seconds,
        HIERARCHICAL: algorithms.hierarchical_seconds,
        MULTICAST: algorithms.multicast_seconds,
    }
    return ring + [(name, time(groups)) for name, time in others.items()]


def _fastest(candidates: list[tuple[int, Array]]) -> tuple[Array, Codes]:
    """Least time of each row, and whose it is; the first of equals."""
    times = np.stack([time for _, time in candidates])
    names = np.array([name for name, _ in candidates])
    best = times.argmin(axis=0)
    return np.take_along_axis(times, best[None], axis=0)[0], names[best]
