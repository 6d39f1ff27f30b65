"""Bytes from GPU i to GPU j: each collective's bytes spread evenly over its partners.

Dense matrices, for layouts small enough to hold them; ranks are placed by the strides of
`models.cost.placement`.
"""

import numpy as np
from numpy.typing import NDArray

from models.cost.placement import Group, groups
from models.cost.table import LayoutTable

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]


def group_matrix(group: Group, gpus: int, sent: float) -> Array:
    """Bytes between every two ranks of a job when each rank sends `sent` within its group, (gpus, gpus). [B].

    Two ranks share a group when they differ along the group's axes only.
    """
    ranks = np.arange(gpus)
    identity = ranks.copy()
    for size, stride in zip(group.sizes, group.strides, strict=True):
        identity = identity - (ranks // stride[0]) % size[0] * stride[0]
    together = (identity[:, None] == identity[None, :]) & ~np.eye(gpus, dtype=bool)
    partners = together.sum(axis=1, keepdims=True)
    return np.where(together, sent / np.maximum(partners, 1), 0.0)


def traffic_matrix(table: LayoutTable, sent: dict[str, float]) -> Array:
    """Sum the matrices of the named groups of a one-layout table, (gpus, gpus). [B].

    Parameters
    ----------
    table
        One layout.
    sent
        Bytes each rank sends in each group of `models.cost.placement.groups`. [B]
    """
    placed, gpus = groups(table), int(table.gpus[0])
    return np.asarray(
        np.add.reduce([group_matrix(placed[name], gpus, count) for name, count in sent.items()])
    )


def equal_local_rank_share(matrix: Array, gpus_per_node: int) -> float:
    """Of the pairs on different nodes that exchange bytes, the share with equal local ranks. [1]."""
    ranks = np.arange(len(matrix))
    across = ranks[:, None] // gpus_per_node != ranks[None, :] // gpus_per_node
    joined: Bools = across & (matrix > 0)
    same = ranks[:, None] % gpus_per_node == ranks[None, :] % gpus_per_node
    return float((joined & same).sum() / max(joined.sum(), 1))
