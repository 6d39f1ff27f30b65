"""Bytes from each block of ranks to each: the traffic matrix, in blocks few enough to answer.

Symbols: u ranks of a block, B blocks. Bytes are those of a step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from models.cost.network.spread import Whole
from models.cost.traffic.placed_traffic import PlacedTraffic
from models.hardware import Cluster
from models.traffic_matrix import Level, Unit

MOST_UNITS = 512
"""Rows of a matrix at most: past it neither a reader nor a picture tells them apart. [1]"""
MOST_CELLS = 65_536
"""Cells that are not 0 at most, all matrices of an answer together: some 3 MB of JSON. [1]"""


@dataclass(frozen=True)
class Matrices:
    """Every dimension's matrix in blocks of one size."""

    unit: Unit
    count: int
    """B. [1]"""
    each: tuple[Whole, ...]
    """(B, B), in the order of the dimensions. [B]"""

    @property
    def sum(self) -> Whole:
        """All dimensions together, (B, B). [B]."""
        return added(self.each, (self.count, self.count))

    @property
    def cells(self) -> int:
        """Cells that are not 0, the sum's among them. [1]."""
        return sum(int(np.count_nonzero(one)) for one in (*self.each, self.sum))


def matrices(placed: Sequence[PlacedTraffic], level: Level, cluster: Cluster, gpus: int) -> Matrices:
    """Return the matrices in the finest blocks that keep to `MOST_UNITS` and `MOST_CELLS`."""
    finer = blocks(level, cluster)
    unit = next(block for block in finer if count_of(block, gpus) <= MOST_UNITS)
    found = Matrices(unit, count_of(unit, gpus), tuple(between(one, unit.gpus) for one in placed))
    while found.cells > MOST_CELLS:
        found = _coarser(found, next(finer))
    return found


def blocks(level: Level, cluster: Cluster) -> Iterator[Unit]:
    """Return blocks of ranks, each several whole ones of the one before: a GPU, a node, larger tiers' units.

    Between and beyond them a block is twice the one before. A tier whose unit is not made of whole blocks
    is passed over.

    >>> from models.hardware import Gpu, Tier
    >>> gpu = Gpu(name="", memory_bytes=1, usable_memory_bytes=1, memory_bandwidth_bytes_per_s=1.0)
    >>> named = {"nvlink": 8, "leaf": 24, "spine": None}
    >>> tiers = [Tier(name=name, gpus=n, bandwidth_bytes_per_s=1.0) for name, n in named.items()]
    >>> found = blocks("gpu", Cluster(gpu=gpu, tiers=tiers, gpus_per_node=8))
    >>> [(unit.count, unit.kind, unit.gpus) for unit, _ in zip(found, range(5))]
    [(1, 'gpu', 1), (1, 'node', 8), (1, 'leaf', 24), (2, 'leaf', 48), (4, 'leaf', 96)]
    """
    if level == "gpu":
        yield Unit(kind="gpu", count=1, gpus=1)
    unit = Unit(kind="node", count=1, gpus=cluster.gpus_per_node)
    while True:
        yield unit
        twice = Unit(kind=unit.kind, count=2 * unit.count, gpus=2 * unit.gpus)
        tier = next((t for t in cluster.tiers[:-1] if _holds(t.gpus, unit.gpus)), None)
        if tier is None or tier.gpus is None or _holds(tier.gpus, twice.gpus):
            unit = twice
        else:
            unit = Unit(kind=tier.name, count=1, gpus=tier.gpus)


def _holds(larger: int | None, smaller: int) -> bool:
    """Whether a block is several whole smaller ones."""
    return larger is not None and larger > smaller and larger % smaller == 0


def count_of(unit: Unit, gpus: int) -> int:
    """Blocks that hold the job, the last of them perhaps partly filled. [1]."""
    return -(-gpus // unit.gpus)


def added(parts: Sequence[Whole], shape: tuple[int, ...]) -> Whole:
    """Sum arrays of one shape; zeros where there are none."""
    return np.asarray(np.add.reduce([np.zeros(shape, dtype=np.int64), *parts]))


def between(placed: PlacedTraffic, unit: int) -> Whole:
    """Bytes from each block of `unit` ranks to each, itself included, (B, B). [B]."""
    count = -(-len(placed.sent) // unit)
    total = np.zeros((count, count), dtype=placed.sent.dtype)
    for flow in placed.flows:
        flow.add_between(total, unit)
    return total


def row_sums(placed: PlacedTraffic, unit: int) -> Whole:
    """Bytes each block of `unit` ranks sends, those that stay inside it included, (B,). [B]."""
    return np.asarray(np.add.reduceat(placed.sent, np.arange(0, len(placed.sent), unit)))


def _coarser(found: Matrices, unit: Unit) -> Matrices:
    """Join neighbouring blocks."""
    times = unit.gpus // found.unit.gpus

    def joined(one: Whole) -> Whole:
        starts = np.arange(0, len(one), times)
        return np.asarray(np.add.reduceat(np.add.reduceat(one, starts, axis=0), starts, axis=1))

    return Matrices(unit, -(-found.count // times), tuple(map(joined, found.each)))
