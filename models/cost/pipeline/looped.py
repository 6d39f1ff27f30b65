"""Schedules whose stages go round the ranks: naive, GPipe, 1F1B, interleaved, breadth-first, zero-bubble.

Symbols: p ranks, r the rank from 0, G micro-batches, v chunks a rank, N the interleaving's group.

References
----------
.. [1] Y. Huang et al., "GPipe", NeurIPS 2019, arXiv:1811.06965.
.. [2] D. Narayanan et al., "Efficient large-scale language model training on GPU clusters using
   Megatron-LM", SC 2021, arXiv:2104.04473, section 2.2.
.. [3] J. Lamy-Poirier, "Breadth-first pipeline parallelism", MLSys 2023, arXiv:2211.05953.
.. [4] P. Qi et al., "Zero bubble pipeline parallelism", ICLR 2024, arXiv:2401.10241.
"""

from collections.abc import Callable, Iterable

from models.cost.pipeline.actions import Action, Kind, Schedule, Slot, round_robin
from models.cost.pipeline.orders import Pass, alternate


def naive(ranks: int, micro_batches: int) -> Schedule:
    """One micro-batch at a time: forward through every stage and back before the next begins."""

    def order(rank: int) -> Iterable[Slot]:
        for micro_batch in range(micro_batches):
            yield Action(Kind.FORWARD, rank, micro_batch)
            yield Action(Kind.BACKWARD, rank, micro_batch)

    return _schedule("naive", ranks, 1, micro_batches, order)


def gpipe(ranks: int, micro_batches: int) -> Schedule:
    """All forwards, then all backwards, both in the order of the micro-batches [1]."""

    def order(rank: int) -> Iterable[Slot]:
        passes = [(rank, m) for m in range(micro_batches)]
        return alternate(passes, passes, micro_batches)

    return _schedule("gpipe", ranks, 1, micro_batches, order)


def one_f_one_b(ranks: int, micro_batches: int) -> Schedule:
    """min(G, p - 1 - r) forwards, then one forward one backward (PipeDream-flush) [2]."""

    def order(rank: int) -> Iterable[Slot]:
        passes = [(rank, m) for m in range(micro_batches)]
        return alternate(passes, passes, min(micro_batches, ranks - 1 - rank))

    return _schedule("1f1b", ranks, 1, micro_batches, order)


def zb_h1(ranks: int, micro_batches: int) -> Schedule:
    """Split backwards under 1F1B's memory: rank r's weight gradients lag r input gradients [4].

    The same order as PyTorch's InterleavedZeroBubble with one chunk a rank, for any G.
    """

    def order(rank: int) -> Iterable[Slot]:
        passes = [(rank, m) for m in range(micro_batches)]
        return alternate(passes, passes, min(micro_batches, ranks - 1 - rank), rank)

    return _schedule("zb-h1", ranks, 1, micro_batches, order)


def zb_h2(ranks: int, micro_batches: int) -> Schedule:
    """ZB-H1 with twice the warm-up and lag, so about twice the memory and no idle inside [4]."""

    def order(rank: int) -> Iterable[Slot]:
        passes = [(rank, m) for m in range(micro_batches)]
        return alternate(passes, passes, min(micro_batches, 2 * (ranks - 1 - rank)), 2 * rank)

    return _schedule("zb-h2", ranks, 1, micro_batches, order)


def interleaved(ranks: int, micro_batches: int, chunks: int, group: int) -> Schedule:
    """Interleaved 1F1B in Megatron's order: N micro-batches through a chunk before the next chunk [2].

    Rank r warms up with min(2 (p - 1 - r) + (v - 1) N, v G) chunk forwards. Megatron's own
    conditions on N are `group_allowed`; PyTorch's choice of N is `round_size`.
    """

    def order(rank: int) -> Iterable[Slot]:
        forwards, backwards = _passes(rank, ranks, micro_batches, chunks, group)
        return alternate(forwards, backwards, warm_up_forwards(rank, ranks, micro_batches, chunks, group))

    return _schedule("interleaved", ranks, chunks, micro_batches, order)


def interleaved_zero_bubble(ranks: int, micro_batches: int, chunks: int) -> Schedule:
    """Interleaving with split backwards, PyTorch's ZB1P: half the warm-up, weights r input gradients late."""
    group = round_size(ranks, micro_batches)

    def order(rank: int) -> Iterable[Slot]:
        forwards, backwards = _passes(rank, ranks, micro_batches, chunks, group)
        warm_up = min(ranks - 1 - rank + (chunks - 1) * group, chunks * micro_batches)
        return alternate(forwards, backwards, warm_up, rank)

    return _schedule("zb1p", ranks, chunks, micro_batches, order)


def looped_breadth_first(ranks: int, micro_batches: int, chunks: int) -> Schedule:
    """Every micro-batch through a chunk before the next chunk; backwards in the opposite order [3]."""

    def order(rank: int) -> Iterable[Slot]:
        stages = range(rank, ranks * chunks, ranks)
        forwards = [(stage, m) for stage in stages for m in range(micro_batches)]
        return alternate(forwards, forwards[::-1], len(forwards))

    return _schedule("looped-bfs", ranks, chunks, micro_batches, order)


def group_allowed(ranks: int, micro_batches: int, group: int) -> bool:
    """Whether Megatron-LM interleaves G micro-batches in groups of N.

    It wants p <= N <= G, and a last group that is either whole or no shorter than p.

    >>> group_allowed(4, 6, 4), group_allowed(4, 6, 6), group_allowed(4, 10, 6)
    (False, True, True)
    """
    left = micro_batches % group
    return ranks <= group <= micro_batches and (left == 0 or left >= ranks)


def round_size(ranks: int, micro_batches: int) -> int:
    """Return the group PyTorch interleaves in: G over max(1, floor(G / p)) rounds.

    Raises
    ------
    ValueError
        The rounds do not divide G.

    Examples
    --------
    >>> round_size(4, 10), round_size(6, 3)
    (5, 3)
    """
    rounds = max(1, micro_batches // ranks)
    if micro_batches % rounds:
        raise ValueError(f"{micro_batches} micro-batches on {ranks} ranks: not a multiple of {rounds} rounds")
    return micro_batches // rounds


def warm_up_forwards(rank: int, ranks: int, micro_batches: int, chunks: int, group: int) -> int:
    """Return the chunk forwards of interleaved 1F1B before a rank's first backward pair.

    >>> warm_up_forwards(0, 4, 8, 2, 4)
    10
    """
    return min(2 * (ranks - 1 - rank) + (chunks - 1) * group, chunks * micro_batches)


def interleaving_table(micro_batches: int, chunks: int, group: int) -> list[Pass]:
    """Return (chunk, micro-batch) of every forward in order: N micro-batches a chunk, group after group.

    >>> interleaving_table(3, 2, 2)
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
    """
    starts = range(0, micro_batches, group)
    return [
        (chunk, micro_batch)
        for start in starts
        for chunk in range(chunks)
        for micro_batch in range(start, min(start + group, micro_batches))
    ]


def _passes(
    rank: int, ranks: int, micro_batches: int, chunks: int, group: int
) -> tuple[list[Pass], list[Pass]]:
    """Forward and backward passes of a rank; backwards take the chunks from the last."""
    table = interleaving_table(micro_batches, chunks, group)
    forwards = [(rank + chunk * ranks, m) for chunk, m in table]
    backwards = [(rank + (chunks - 1 - chunk) * ranks, m) for chunk, m in table]
    return forwards, backwards


def _schedule(
    name: str, ranks: int, chunks: int, micro_batches: int, order: Callable[[int], Iterable[Slot]]
) -> Schedule:
    orders = tuple(tuple(order(rank)) for rank in range(ranks))
    return Schedule(name, ranks * chunks, micro_batches, (round_robin(ranks, chunks),), orders)
