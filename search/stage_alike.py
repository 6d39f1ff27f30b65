"""Layers to chunks where all but the first few layers are alike: only how many each chunk has matters.

The first few (dense layers before mixture-of-experts ones) are cut in every way there is; of the rest a
chunk holds a number between bounds, and a rank's time and bytes follow from its total. So the least longest
chunk, then the least longest rank, then the least peak are each the least number under which the ranks'
room adds up to the layers; the most symmetric split is found among what is left (`stage_symmetry`).
Exact, and a few milliseconds at a hundred chunks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from search.stage_problem import Integers, StageProblem, asymmetry
from search.stage_symmetry import Bounds, most_symmetric, swells

Reached = tuple[int, int, int]
"""Longest chunk and longest rank [steps], and peak [B]."""

MOST_NS = 50_000_000
"""Longest the search for the most symmetric split may take, about; the solver decides beyond. [ns]"""
MOST_CUTS = 64
"""Ways to cut the first layers that are tried at most. [1]"""


def alike_split(problem: StageProblem, *, memory_first: bool = False) -> tuple[bool, tuple[int, ...] | None]:
    """Return whether the problem is of this kind, and its best split; nothing where none fits.

    Parameters
    ----------
    problem
        Layers, what they cost, where chunks run.
    memory_first
        Whether the least peak comes before the least times.

    Examples
    --------
    >>> alike_split(StageProblem.uniform(30, 4, last_time=0.5))
    (True, (7, 8, 8, 7))
    """
    heads = _heads(problem)
    if heads is None or not problem.layers or not _by_rank(problem):
        return False, None
    order = (2, 0, 1) if memory_first else (0, 1, 2)
    found = [
        (reached, rest)
        for rest in (_Rest.of(problem, head) for head in heads)
        if (reached := rest.least(order))
    ]
    if not found:
        return True, None
    least = min((reached for reached, _ in found), key=lambda reached: [reached[goal] for goal in order])
    bounds = [rest.bounds(least) for reached, rest in found if reached == least]
    if sum(each.effort for each in bounds) > MOST_NS:
        return False, None
    tried = [_split(each) for each in bounds]
    return True, min(tried, key=lambda split: (asymmetry(split), not swells(split), split))


def _split(bounds: Bounds) -> tuple[int, ...]:
    """Return the most symmetric split, an even one unless only one that is not swells to the middle."""
    even = _sizes(bounds)
    piled = even if swells(even) else _sizes(replace(bounds, to_middle=True))
    return piled if swells(piled) else even


def _sizes(bounds: Bounds) -> tuple[int, ...]:
    return tuple((bounds.sizes + most_symmetric(bounds)).tolist())


def _by_rank(problem: StageProblem) -> bool:
    """Whether a layer takes time, weighs the same on all chunks of a rank, and mirror images pair ranks."""
    at = problem.rank_of
    if not problem.time_steps[0][problem.kinds[-1]]:
        return False
    last = problem.layer_bytes[:, problem.kinds[-1]].tolist()
    weights, mirrors = set(zip(at, last, strict=True)), set(zip(at, at[::-1], strict=True))
    return len(weights) == len(mirrors) == len(set(at))


def _heads(problem: StageProblem) -> list[tuple[int, ...]] | None:
    """Layers that each of the first chunks has of those before the last run of alike ones, every way.

    Only the last of these chunks may have others as well. Nothing where there are too many ways.
    """
    runs = [len(list(run)) for _, run in groupby(problem.kinds)]
    first, least = sum(runs[:-1]), problem.least_layers
    if first and (2**first > MOST_CUTS or not all(least[1:-1])):
        return None
    return list(_cuts(first, problem.chunks)) if first else [()]


def _cuts(layers: int, chunks: int, *, begin: bool = True) -> Iterator[tuple[int, ...]]:
    """Every way to cut layers into at most so many chunks; the first may have none."""
    if not layers:
        yield ()
    elif chunks:
        for size in range(0 if begin else 1, layers + 1):
            for more in _cuts(layers - size, chunks - 1, begin=False):
                yield (size, *more)


@dataclass(frozen=True)
class _Rest:
    """What is left to place once the first layers are."""

    problem: StageProblem
    sizes: Integers
    """First layers on each chunk, (C,)."""
    least_more: Integers
    """Fewest layers each chunk must have besides, (C,)."""
    closed: NDArray[np.bool_]
    """Whether a chunk can have no more, (C,)."""
    layers: int
    """Layers left."""
    steps: Integers
    """Time of each chunk so far, (C,). [steps]"""
    rank_bytes: Integers
    """Bytes of each rank so far, (p,). [B]"""
    step: int
    """Time of a layer more. [steps]"""
    weight: Integers
    """Bytes of a layer more on each rank, (p,). [B]"""

    @classmethod
    def of(cls, problem: StageProblem, head: tuple[int, ...]) -> "_Rest":
        """Place the first layers."""
        sizes = np.zeros(problem.chunks, dtype=np.int64)
        sizes[: len(head)] = head
        held = np.diff(problem.counts[np.concatenate([[0], np.cumsum(sizes)])], axis=0)
        layer, extra = problem.time_steps
        last = problem.kinds[-1]
        at = np.asarray(problem.rank_of)
        weight = np.zeros(problem.ranks, dtype=np.int64)
        weight[at] = problem.layer_bytes[:, last]
        chunk_bytes = (held * problem.layer_bytes).sum(axis=1) + np.asarray(problem.extra_bytes, np.int64)
        return cls(
            problem,
            sizes,
            np.maximum(np.asarray(problem.least_layers, dtype=np.int64) - sizes, 0),
            np.arange(problem.chunks) < len(head) - 1,
            problem.layers - sum(head),
            held @ layer + extra,
            _on_ranks(problem, chunk_bytes),
            int(layer[last]),
            weight,
        )

    def least(self, order: tuple[int, ...]) -> Reached | None:
        """Least longest chunk, longest rank and peak, found in some order; nothing where none fits."""
        long = int(self.steps.sum() + self.layers * self.step)
        lowest = (int(self.steps.max()), int(self.steps.max()), int(self.rank_bytes.max()))
        reached = [long, long, max(self.problem.limit_bytes)]
        if not self._fits(reached):
            return None
        for goal in order:
            low, high = lowest[goal], reached[goal]
            while low < high:
                reached[goal] = (low + high) // 2
                low, high = (low, reached[goal]) if self._fits(reached) else (reached[goal] + 1, high)
            reached[goal] = high
        return reached[0], reached[1], reached[2]

    def bounds(self, reached: Reached) -> Bounds:
        """What chunks and ranks may have under what was reached."""
        chunk, room = self._room(*reached)
        at, mirror = self.problem.rank_of, self.problem.rank_of[::-1]
        return Bounds(at, mirror, self.sizes, self.least_more, chunk, room, self.layers)

    def _room(self, chunk: int, rank: int, peak: int) -> tuple[Integers, Integers]:
        """Most layers more of each chunk, (C,), and of each rank, (p,); below zero where it has too many."""
        each = _whole(chunk - self.steps, self.step, self.layers)
        each = np.where(self.closed, np.minimum(each, 0), each)
        held = np.minimum(np.asarray(self.problem.limit_bytes, dtype=np.int64), peak) - self.rank_bytes
        room = np.minimum(
            _whole(rank - _on_ranks(self.problem, self.steps), self.step, self.layers),
            _whole(held, self.weight, self.layers),
        )
        return each, np.minimum(room, _on_ranks(self.problem, each))

    def _fits(self, reached: Sequence[int]) -> bool:
        """Whether the layers left find room."""
        each, room = self._room(*reached)
        least = _on_ranks(self.problem, self.least_more)
        enough = bool((each >= self.least_more).all() and (room >= least).all())
        return enough and int(least.sum()) <= self.layers <= int(room.sum())


def _on_ranks(problem: StageProblem, chunks: Integers) -> Integers:
    """Sum over each rank's chunks, (p,)."""
    found = np.zeros(problem.ranks, dtype=np.int64)
    np.add.at(found, list(problem.rank_of), chunks)
    return found


def _whole(room: Integers, size: Integers | int, most: int) -> Integers:
    """How many of a size fit, at most so many; -1 where what is there already does not."""
    fit = np.where(np.asarray(size) > 0, room // np.maximum(size, 1), most)
    return np.asarray(np.where(room < 0, -1, np.minimum(fit, most)))
