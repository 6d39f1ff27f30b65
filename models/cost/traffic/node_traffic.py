"""What stays inside nodes, what leaves them, and whether it joins GPUs of equal place in their node.

On a rail-optimised fabric GPUs of equal place share a switch, and only other pairs cross the spine.
Whether a pair exchanges bytes at all does not hang on which partner gets a byte more: shares are of
bytes spread evenly as real numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.network.spread import Ranks, Spread, Whole, grouped
from models.cost.traffic.matrix import MOST_UNITS, added, row_sums
from models.cost.traffic.placed_traffic import Messages, PlacedTraffic
from models.cost.traffic.stage_sent import ALL
from models.traffic_matrix import NodeTraffic

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class _Joined:
    """Whom the bytes of one dimension join across nodes."""

    across: float
    """Bytes between nodes. [B]"""
    equal: float
    """Those of them between equal places. [B]"""
    pairs: Bools | None
    """Whether each node exchanges bytes with each, and whether it does so between unequal places,
    (2, nodes, nodes); None where there are too many nodes."""


def node_traffic(placed: Sequence[PlacedTraffic], gpus: int, gpus_per_node: int) -> list[NodeTraffic]:
    """Return what each dimension does to the nodes, then what all do together."""
    nodes = (-(-gpus // gpus_per_node),)
    sent = [row_sums(one, gpus_per_node) for one in placed]
    inside = [within(one, gpus_per_node) for one in placed]
    joined = [None if ALL in one.told.over else _joined(one, gpus_per_node) for one in placed]
    each = [
        _told(*one, [] if joins is None else [joins])
        for one, joins in zip(zip(sent, inside, strict=True), joined, strict=True)
    ]
    whole = _told(added(sent, nodes), added(inside, nodes), [one for one in joined if one])
    return [*each, whole]


def within(placed: PlacedTraffic, unit: int) -> Whole:
    """Bytes that stay inside each block of `unit` ranks, (B,). [B]."""
    total = np.zeros(-(-len(placed.sent) // unit), dtype=placed.sent.dtype)
    for flow in placed.flows:
        flow.add_within(total, unit)
    return total


def _told(sent: Whole, inside: Whole, joined: Sequence[_Joined]) -> NodeTraffic:
    out = sent - inside
    across, equal = sum(one.across for one in joined), sum(one.equal for one in joined)
    found = [one.pairs for one in joined if one.pairs is not None]
    some, mixed = np.logical_or.reduce(found) if found else (np.False_, np.False_)
    pairs = int(np.count_nonzero(some))
    return NodeTraffic(
        inside_bytes=sum(inside.tolist()),
        between_bytes=sum(out.tolist()),
        busiest_node=int(out.argmax()),
        busiest_node_out_bytes=int(out.max()),
        equal_local_rank_share=equal / across if across else None,
        equal_local_rank_pairs=(pairs - int(np.count_nonzero(mixed))) / pairs if pairs else None,
    )


def _joined(placed: PlacedTraffic, unit: int) -> _Joined:
    nodes = -(-len(placed.sent) // unit)
    bytes_ = [_bytes(flow, unit) for flow in placed.flows]
    across, equal = (sum(parts) for parts in zip((0.0, 0.0), *bytes_, strict=True))
    if nodes > MOST_UNITS:
        return _Joined(across, equal, None)
    pairs, same = np.zeros((2, nodes, nodes), dtype=np.int64)
    for flow in placed.flows:
        _count_pairs(flow, unit, pairs, same)
    np.fill_diagonal(pairs, 0)
    np.fill_diagonal(same, 0)
    return _Joined(across, equal, np.stack([pairs > 0, pairs > same]))


def _bytes(flow: Spread | Messages, unit: int) -> tuple[float, float]:
    """Bytes between nodes, and those of them between equal places. [B]."""
    if isinstance(flow, Messages):
        leaves = flow.source // unit != flow.target // unit
        equal = leaves & (flow.source % unit == flow.target % unit)
        return float(flow.sent[leaves].sum()), float(flow.sent[equal].sum())
    (groups, n), ranks = flow.ranks.shape, flow.ranks
    group = np.arange(groups)[:, None] * (ranks.max() + 1)
    each = flow.sent.astype(np.float64) / (n - 1)
    elsewhere, alike = n - _alike(group + ranks // unit), _alike(group + ranks % unit) - 1
    return float((each * elsewhere).sum()), float((each * alike).sum())


def _alike(labels: Ranks) -> Ranks:
    """How many places have each one's label."""
    _, which, count = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray(count[which.reshape(labels.shape)])


def _count_pairs(flow: Spread | Messages, unit: int, pairs: Ranks, same: Ranks) -> None:
    """Count pairs of ranks that exchange bytes by their nodes, and those of equal places."""
    if isinstance(flow, Messages):
        equal = flow.source % unit == flow.target % unit
        np.add.at(pairs, (flow.source // unit, flow.target // unit), 1)
        np.add.at(same, (flow.source[equal] // unit, flow.target[equal] // unit), 1)
        return
    flow.partners().add_between(pairs, unit)
    ranks = flow.ranks.reshape(-1)
    sends = np.zeros(int(ranks.max()) + 1, dtype=np.int64)
    sends[ranks] = flow.sent.reshape(-1) > 0
    label = np.repeat(np.arange(len(flow.ranks)), flow.ranks.shape[1]) * unit + ranks % unit
    for part in grouped(label, ranks):
        Spread(part, sends[part]).partners().add_between(same, unit)
