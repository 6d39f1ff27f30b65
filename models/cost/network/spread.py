"""A rank's bytes spread evenly, in whole bytes, over the other ranks of its group.

Of R bytes to n - 1 partners each gets R // (n - 1), and the R mod (n - 1) left over go a byte each to
the nearest ones in rank order, on both sides alike, the group taken for a circle. So each rank sends R
to the byte, receives as much where all send alike, and two ranks send each other the same, but for one
byte where n and the rest are both odd. What blocks of ranks send each other is counted in closed form:
no pair of ranks is ever listed.

Symbols: n ranks in a group, a and b places of a sender and a receiver in it (0 to n - 1, in rank order),
u ranks of a block, B blocks, g groups, U of them that differ, K runs of a group.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ranks = NDArray[np.int64]
Whole = NDArray[np.int64]
"""Bytes; of Python's integers (dtype object) where 64 bits would not hold a sum of them."""

CELLS_AT_ONCE = 1 << 19
"""Pairs of runs counted in one go, which bounds the memory. [1]"""


@dataclass(frozen=True)
class Spread:
    """Groups of n > 1 ranks that each spread bytes evenly over the others."""

    ranks: Ranks
    """Ranks of each group, ascending, (g, n)."""
    sent: Whole
    """What each of them sends, (g, n). [B]"""

    def add_between(self, total: Whole, unit: int) -> None:
        """Add what each block of `unit` ranks sends to each, itself included, (B, B). [B]."""
        for runs, alike in _runs(self, unit):
            bytes_ = runs.sent_to(runs.start[:, None, :], runs.stop[:, None, :])
            np.add.at(total, (runs.block[:, :, None], runs.block[:, None, :]), bytes_ * alike[:, None, None])

    def add_within(self, total: Whole, unit: int) -> None:
        """Add what stays inside each block of `unit` ranks, (B,). [B]."""
        for runs, alike in _runs(self, unit):
            bytes_ = runs.sent_to(runs.block_start[:, :, None], runs.block_stop[:, :, None])[:, :, 0]
            np.add.at(total, runs.block, bytes_ * alike[:, None])

    def partners(self) -> "Spread":
        """The same groups, a sender sending one byte to each partner: what is added up counts pairs."""
        each = self.ranks.shape[1] - 1
        return replace(self, sent=np.where(self.sent > 0, each, 0).astype(np.int64))


@dataclass(frozen=True)
class _Runs:
    """Neighbours in a group that share a block and send alike, (U, K); padded by empty runs in block 0."""

    size: int
    """n. [1]"""
    start: Ranks
    stop: Ranks
    """Places of a run, the end left out."""
    block: Ranks
    block_start: Ranks
    block_stop: Ranks
    """Places of all the group's ranks in the run's block, the end left out."""
    sent: Whole
    """What each rank of it sends. [B]"""

    def sent_to(self, start: Ranks, stop: Ranks) -> Whole:
        """Bytes from each run to the places from `start` up to `stop`, broadcastable to (U, K, ·). [B]."""
        sent, first, last = (value[:, :, None] for value in (self.sent, self.start, self.stop))
        even, left = sent // (self.size - 1), (sent % (self.size - 1)).astype(np.int64)
        itself = np.maximum(np.minimum(last, stop) - np.maximum(first, start), 0)
        pairs = (last - first) * (stop - start) - itself
        return np.asarray(even * pairs + _nearest(left, self.size, (first, last), (start, stop), itself))


def _nearest(
    left: Ranks, n: int, senders: tuple[Ranks, Ranks], receivers: tuple[Ranks, Ranks], itself: Ranks
) -> Ranks:
    """Pairs of senders and receivers among the `left` nearest of n on a circle, both sides alike.

    Half of them lie on either side, at b - a of 1 to h and -1 to -h, or n less of that; an odd one is
    the opposite rank of an even circle, and the next one up of an odd circle.
    """

    def upto(distance: Ranks) -> Ranks:
        return pairs_upto(distance, senders, receivers)

    half, odd = left // 2, left % 2
    near = upto(half) - upto(-half - 1) - itself
    every = (senders[1] - senders[0]) * (receivers[1] - receivers[0])
    around = every - upto(n - 1 - half) + upto(half - n)
    if not odd.any():
        return np.asarray(near + around)
    alone = np.full_like(half, n // 2) if n % 2 == 0 else half + 1
    opposite = upto(alone) - upto(alone - 1) + upto(alone - n) - upto(alone - n - 1)
    return np.asarray(near + around + odd * opposite)


def pairs_upto(
    distance: ArrayLike, senders: tuple[ArrayLike, ArrayLike], receivers: tuple[ArrayLike, ArrayLike]
) -> Ranks:
    """Pairs (a, b) of the places in two intervals, ends left out, with b - a of at most `distance`. [1].

    The sum over a of clip(a + d + 1 - b_0, 0, w), w = b_1 - b_0, by the sum of clip(t, 0, w) over
    t < m, which is m (m - 1) / 2 up to m = w + 1 and grows by w from there.

    >>> pairs_upto([-3, 0, 1, 9], (0, 3), (1, 3)).tolist()
    [0, 3, 5, 6]
    """
    first, last = (np.asarray(end) for end in senders)
    start, stop = (np.asarray(end) for end in receivers)
    width = stop - start

    def below(m: Ranks) -> Ranks:
        rising = np.clip(m, 0, width + 1)
        return np.asarray(rising * (rising - 1) // 2 + width * np.maximum(m - width - 1, 0))

    offset = np.asarray(distance) + 1 - start
    return np.asarray(below(last + offset) - below(first + offset))


def grouped(labels: Ranks, ranks: Ranks) -> list[Ranks]:
    """Ranks of equal labels, ascending: an array (g, n) for each size n > 1 there is.

    >>> [found.tolist() for found in grouped(np.array([7, 5, 7, 5, 5, 1]), np.arange(6))]
    [[[0, 2]], [[1, 3, 4]]]
    """
    order = np.lexsort((ranks, labels))
    ranks, labels = ranks[order], labels[order]
    starts = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))
    sizes = np.diff(np.append(starts, len(ranks)))
    return [ranks[starts[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes) if size > 1]


def _runs(spread: Spread, unit: int) -> Iterator[tuple[_Runs, Whole]]:
    """Runs of the groups that differ in blocks or bytes, and how many groups are alike, a part at a time."""
    block = spread.ranks // unit
    kinds, kind = np.unique(spread.sent, return_inverse=True)
    key = block * len(kinds) + kind.reshape(block.shape)
    rows = np.ascontiguousarray(key).view(np.dtype((np.void, key.shape[1] * key.itemsize))).reshape(-1)
    _, first, alike = np.unique(rows, return_index=True, return_counts=True)
    key = key[first]
    begins = np.concatenate([np.full((len(key), 1), True), key[:, 1:] != key[:, :-1]], axis=1)
    count = begins.sum(axis=1)
    longest_first = np.argsort(-count, kind="stable")
    while len(longest_first):
        most = int(count[longest_first[0]])
        part, longest_first = np.split(longest_first, [max(1, CELLS_AT_ONCE // most**2)])
        yield _padded(key[part] // len(kinds), kinds[key[part] % len(kinds)], begins[part]), alike[part]


def _padded(block: Ranks, sent: Whole, begins: NDArray[np.bool_]) -> _Runs:
    """Runs from the blocks and bytes of a group's places and the places where a run begins."""
    (groups, n), most = begins.shape, int(begins.sum(axis=1).max())
    group, place = begins.nonzero()
    nth = np.cumsum(begins, axis=1)[group, place] - 1
    start = np.full((groups, most + 1), n, dtype=np.int64)
    start[group, nth] = place
    row, inside = np.arange(groups)[:, None], np.minimum(start[:, :-1], n - 1)
    block_of_run, column = block[row, inside], np.arange(most)
    changes, edge = block_of_run[:, 1:] != block_of_run[:, :-1], np.full((groups, 1), True)
    opens, closes = np.append(edge, changes, axis=1), np.append(changes, edge, axis=1)
    since = np.maximum.accumulate(np.where(opens, column, 0), axis=1)
    until = np.minimum.accumulate(np.where(closes, column + 1, most)[:, ::-1], axis=1)[:, ::-1]
    return _Runs(
        size=n,
        start=start[:, :-1],
        stop=start[:, 1:],
        block=block_of_run,
        block_start=start[row, since],
        block_stop=start[row, until],
        sent=sent[row, inside],
    )
