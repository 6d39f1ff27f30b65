"""The most symmetric split under bounds: of those the most even one, of those the lightest at the ends.

Or, where layers go to the middle first, of the most symmetric the lightest at the ends.

A chunk and its mirror image cost |difference|; the ranks they are on form pairs (or a rank is its own),
and pairs of ranks only share the total. So the layers each chunk has less than it may are dealt out by a
dynamic program over a pair's chunks, and by another over the pairs.

Symbols: C chunks, p ranks.
"""

from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

NONE = np.int64(2**58)
"""Cost of what cannot be."""
WAY_NS = 5000
"""A way to deal layers out over two chunks, besides a nanosecond a cell of its table. [ns]"""
APART, FIRST = 2**40, 2**16
"""Weights of a layer of asymmetry, and of what comes next after it. [1]"""


@dataclass(frozen=True)
class Bounds:
    """How many layers chunks and ranks may have."""

    rank_of: tuple[int, ...]
    """Rank of each chunk, (C,)."""
    mirror_of: tuple[int, ...]
    """Rank of each chunk's mirror image, (C,)."""
    sizes: Integers
    """Layers each chunk has anyhow, (C,)."""
    least: Integers
    """Fewest layers more of each chunk, (C,)."""
    most: Integers
    """Most layers more of each chunk, (C,)."""
    room: Integers
    """Most layers more of each rank, (p,), no more than its chunks' together."""
    layers: int
    """Layers more in all."""
    to_middle: bool = False
    """Whether layers go to the middle first, even or not."""

    @property
    def effort(self) -> int:
        """What finding the most symmetric split takes, about. [ns]."""
        chunks, spare = len(self.most), int(self.room.sum()) - self.layers
        at, mirror = np.asarray(self.rank_of), np.asarray(self.mirror_of)
        full = np.zeros_like(self.room)
        np.add.at(full, at, self.most)
        width = full - self.room + spare + 1
        ways = np.minimum(self.most - self.least + 1, width[at])
        half = np.arange((chunks + 1) // 2)
        cells = width[at[half]] * np.where(at == mirror, 1, width[mirror])[half]
        return int((ways[half] * ways[::-1][half] * (WAY_NS + cells)).sum())


@dataclass(frozen=True)
class _Way:
    """How many layers less than they may two mirror images have, and what that costs."""

    less: tuple[int, int]
    """Of the chunk, and of its mirror image."""
    at: tuple[int, int]
    """The same on the pair's two ranks."""
    cost: int


@dataclass(frozen=True)
class _Table:
    """Least cost by layers less on the pair's two ranks, after each pair of chunks."""

    chunks: list[int]
    ways: list[list[_Way]]
    costs: list[Integers]
    """(X + 1, Y + 1) each."""

    def by_total(self, forced: tuple[int, int]) -> Integers:
        """Least cost by layers less on both, each at least as many as forced."""
        last = self.costs[-1]
        total = np.full(sum(last.shape) - 1, NONE)
        x, y = np.indices(last.shape)
        open_ = (x >= forced[0]) & (y >= forced[1])
        np.minimum.at(total, np.asarray(x + y)[open_], last[open_])
        return total

    def dealt(self, total: int, forced: tuple[int, int]) -> dict[int, tuple[int, int]]:
        """Layers less of each chunk and its mirror image in the cheapest way to a total."""
        last = self.costs[-1]
        x = min(
            (x for x in range(last.shape[0]) if forced[0] <= x and forced[1] <= total - x < last.shape[1]),
            key=lambda x: int(last[x, total - x]),
        )
        place, found = (x, total - x), {}
        for turn in reversed(range(len(self.chunks))):
            before = self.costs[turn]
            for way in self.ways[turn]:
                a, b = place[0] - way.at[0], place[1] - way.at[1]
                if a >= 0 and b >= 0 and before[a, b] + way.cost == self.costs[turn + 1][place]:
                    found[self.chunks[turn]], place = way.less, (a, b)
                    break
        return found


def swells(split: tuple[int, ...]) -> bool:
    """Whether chunks grow to the middle and shrink again.

    >>> swells((1, 2, 2, 1)), swells((2, 1, 1, 2))
    (True, False)
    """
    half = len(split) // 2
    grows = all(size <= after for size, after in pairwise(split[: half + len(split) % 2]))
    return grows and all(size >= after for size, after in pairwise(split[half:]))


def most_symmetric(bounds: Bounds) -> Integers:
    """Return how many layers more each chunk of the best split has, (C,).

    >>> four = np.full(4, 8)
    >>> bounds = Bounds((0, 1, 2, 3), (3, 2, 1, 0), four * 0, four * 0, four, four, 30)
    >>> most_symmetric(bounds).tolist()
    [7, 8, 8, 7]

    A chunk in the middle may have any number:

    >>> two = np.full(3, 2)
    >>> most_symmetric(Bounds((0, 1, 2), (2, 1, 0), two * 0, two * 0, two, two, 5)).tolist()
    [2, 1, 2]
    """
    chunks, spare = len(bounds.most), int(bounds.room.sum()) - bounds.layers
    at = np.asarray(bounds.rank_of)
    full = np.zeros(len(bounds.room), dtype=np.int64)
    np.add.at(full, at, bounds.most)
    pairs = list(dict.fromkeys(map(_pair, bounds.rank_of, bounds.mirror_of)))
    over = full - bounds.room
    forced = [(int(over[own]), int(over[other]) * (own != other)) for own, other in pairs]
    tables = [_table(bounds, pair, must, spare) for pair, must in zip(pairs, forced, strict=True)]
    totals = [table.by_total(must) for table, must in zip(tables, forced, strict=True)]
    less = int(full.sum()) - bounds.layers
    shares = _shared(totals, less)
    more = bounds.most.copy()
    for table, share, must in zip(tables, shares, forced, strict=True):
        for chunk, (own, other) in table.dealt(share, must).items():
            more[chunk] -= own
            if chunk != chunks - 1 - chunk:
                more[chunks - 1 - chunk] -= other
    return more


def _pair(rank: int, mirror: int) -> tuple[int, int]:
    return min(rank, mirror), max(rank, mirror)


def _table(bounds: Bounds, pair: tuple[int, int], must: tuple[int, int], spare: int) -> _Table:
    """Deal layers out over the chunks of a pair of ranks: as many less as each must, and up to the spare."""
    half = range((len(bounds.most) + 1) // 2)
    chunks = [c for c in half if _pair(bounds.rank_of[c], bounds.mirror_of[c]) == pair]
    width = (must[0] + spare + 1, must[1] + spare + 1 if pair[0] != pair[1] else 1)
    costs, every = [np.full(width, NONE)], []
    costs[0][0, 0] = 0
    for chunk in chunks:
        ways = _ways(bounds, chunk, pair, width)
        now = np.full(width, NONE)
        for way in ways:
            x, y = way.at
            into = now[x:, y:]
            np.minimum(into, costs[-1][: width[0] - x, : width[1] - y] + way.cost, out=into)
        every.append(ways)
        costs.append(now)
    return _Table(chunks, every, costs)


def _ways(bounds: Bounds, chunk: int, pair: tuple[int, int], width: tuple[int, int]) -> list[_Way]:
    """Every way to have less on a chunk and its mirror image."""
    mirror = len(bounds.most) - 1 - chunk
    own, other = (range(int(bounds.most[c] - bounds.least[c]) + 1) for c in (chunk, mirror))
    if chunk == mirror:
        other = range(1)
    found = []
    for less in product(own, other):
        at = _on_pair(less, bounds.rank_of[chunk], pair)
        if at[0] < width[0] and at[1] < width[1]:
            found.append(_Way(less, at, _cost(bounds, chunk, mirror, less)))
    return found


def _on_pair(less: tuple[int, int], rank: int, pair: tuple[int, int]) -> tuple[int, int]:
    if pair[0] == pair[1]:
        return sum(less), 0
    return less if rank == pair[0] else less[::-1]


def _cost(bounds: Bounds, chunk: int, mirror: int, less: tuple[int, int]) -> int:
    """What a way costs; the chunk in the middle is its own mirror image, and never apart from it."""
    a, b = (
        int(bounds.sizes[c] + bounds.most[c]) - fewer for c, fewer in zip((chunk, mirror), less, strict=True)
    )
    b = a if chunk == mirror else b
    uneven, out = a * a + b * b * (chunk != mirror), (a + b) * (len(bounds.most) // 2 - chunk)
    then = out * FIRST + uneven if bounds.to_middle else uneven * FIRST + out
    return abs(a - b) * APART + then


def _shared(totals: list[Integers], less: int) -> list[int]:
    """Share so many layers less among the pairs of ranks, as cheaply as can be."""
    best = [np.full(less + 1, NONE)]
    best[0][0] = 0
    for each in totals:
        now = np.full(less + 1, NONE)
        for share, cost in enumerate(each.tolist()[: less + 1]):
            np.minimum(now[share:], best[-1][: less + 1 - share] + cost, out=now[share:])
        best.append(np.minimum(now, NONE))
    left, shares = less, []
    for before, after, each in zip(best[-2::-1], best[:0:-1], totals[::-1], strict=True):
        choices = range(min(left, len(each) - 1) + 1)
        share = next(s for s in choices if before[left - s] + each[s] == after[left])
        shares.append(share)
        left -= share
    return shares[::-1]
