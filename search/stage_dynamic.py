"""Layers to pipeline stages by a dynamic program: the oracle of the solver's splits, and its fallback.

Exact where every rank runs one chunk: least longest stage, then least peak, then most symmetric,
each under what the one before it found. With several chunks a rank, each may hold a share of
what the rank may, equal or in whole layers: an answer where there is one, not a proof.
"""

import numpy as np
from numpy.typing import NDArray

from search.stage_problem import StageProblem, cost_of

Integers = NDArray[np.int64]

HUGE = np.int64(2**62)
"""No cost."""

Split = tuple[int, ...]

Ends = tuple[int, Split, Split]

WORST: Ends = (2**62, (), ())
"""No pair of ends costs more."""


def dynamic_split(problem: StageProblem) -> Split | None:
    """Return the best split found; nothing where none is."""
    tried = [_split(problem, share) for share in _shares(problem)]
    fitting = [split for split in tried if split is not None]
    return min(fitting, key=lambda split: cost_of(problem, split).key, default=None)


def _split(problem: StageProblem, share: Integers) -> Split | None:
    """Return the best split whose chunks hold no more than their shares, (C,)."""
    steps, held = _tables(problem, share)
    allowed = np.ones_like(steps, dtype=np.bool_)
    for costs in (steps, held):
        bound = _least_bound(np.where(allowed, costs, HUGE))
        if bound >= HUGE:
            return None
        allowed &= costs <= bound
    split = _most_symmetric(allowed)
    return split if cost_of(problem, split).fits else None


def _tables(problem: StageProblem, share: Integers) -> tuple[Integers, Integers]:
    """Time and bytes of chunk c with the layers from a to b, (C, L + 1, L + 1); HUGE where not allowed."""
    before = problem.time_before
    _, extra = problem.time_steps
    counts = problem.counts[None, :, :] - problem.counts[:, None, :]
    steps = (before[None, :] - before[:, None])[None] + extra[:, None, None]
    held = np.einsum("abk,ck->cab", counts, problem.layer_bytes)
    held = held + np.asarray(problem.extra_bytes, dtype=np.int64)[:, None, None]
    size = np.arange(problem.layers + 1)
    layers = (size[None, :] - size[:, None])[None]
    wrong = layers < np.asarray(problem.least_layers)[:, None, None]
    wrong = wrong | (held > share[:, None, None])
    return np.where(wrong, HUGE, steps), np.where(wrong, HUGE, held)


def _shares(problem: StageProblem) -> list[Integers]:
    """Ways to share what ranks may hold among their chunks, (C,) each; only one where they have one.

    Equal parts; and as many whole layers of average weight as fit, fewer for the earlier chunks.
    """
    extra, at = np.asarray(problem.extra_bytes, dtype=np.int64), np.asarray(problem.rank_of)
    left = np.asarray(problem.limit_bytes, dtype=np.int64).copy()
    np.subtract.at(left, at, extra)
    of_rank = np.bincount(at)
    equal = np.asarray(extra + left[at] // of_rank[at])
    if problem.one_each:
        return [equal]
    average = problem.layer_bytes @ problem.counts[-1] / max(problem.layers, 1)
    room = np.maximum(left[at] / np.maximum(average, 1.0), 0.0).astype(np.int64)
    turn = np.array([np.count_nonzero(at[:chunk] == rank) for chunk, rank in enumerate(at)])
    whole = (turn + 1) * room // of_rank[at] - turn * room // of_rank[at]
    return [equal, np.asarray(extra + np.where(room > 0, left[at] * whole // np.maximum(room, 1), 0))]


def _least_bound(costs: Integers) -> np.int64:
    """Least value the largest chunk's cost can have over all ways to cut."""
    best = costs[0, 0]
    for chunk in costs[1:]:
        best = np.maximum(best[:, None], chunk).min(axis=0)
    return np.int64(best[-1])


def _most_symmetric(allowed: NDArray[np.bool_]) -> Split:
    """Cut from both ends inwards, pair by pair, keeping for every pair of places the most symmetric cut."""
    chunks, places = allowed.shape[0], allowed.shape[1]
    reach = _reachable(allowed)
    best: dict[tuple[int, int], Ends] = {(0, places - 1): (0, (), ())}
    for pair in range(chunks // 2):
        left, right = allowed[pair], allowed[chunks - 1 - pair]
        grown: dict[tuple[int, int], Ends] = {}
        for (a, d), (cost, head, tail) in best.items():
            for b in np.nonzero(left[a] & reach[pair + 1])[0].tolist():
                for c in np.nonzero(right[:, d] & reach[chunks - 1 - pair])[0].tolist():
                    found = (cost + abs((b - a) - (d - c)), (*head, b - a), (d - c, *tail))
                    if c >= b and found < grown.get((b, c), WORST):
                        grown[b, c] = found
        best = grown
    middle = allowed[chunks // 2] if chunks % 2 else np.eye(places, dtype=np.bool_)
    whole = [
        (cost, (*head, c - b, *tail) if chunks % 2 else head + tail)
        for (b, c), (cost, head, tail) in best.items()
        if middle[b, c]
    ]
    return min(whole)[1]


def _reachable(allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether a cut before each chunk can lie at each place, from both sides, (C + 1, L + 1)."""
    chunks, places = allowed.shape[0], allowed.shape[1]
    forth = np.zeros((chunks + 1, places), dtype=np.bool_)
    back = np.zeros((chunks + 1, places), dtype=np.bool_)
    forth[0, 0] = back[chunks, places - 1] = True
    for chunk in range(chunks):
        forth[chunk + 1] = (forth[chunk][:, None] & allowed[chunk]).any(axis=0)
        mirror = chunks - 1 - chunk
        back[mirror] = (allowed[mirror] & back[mirror + 1][None, :]).any(axis=1)
    return np.asarray(forth & back)
