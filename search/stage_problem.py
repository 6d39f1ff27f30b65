"""Layers to chunks of a pipeline: what is given, in plain arrays, and what a split makes of it.

The decoder's layers, in order, are cut into C contiguous chunks; a rank runs one or more of them.
The embedding, the final norm, head and loss, and multi-token prediction are costs on their chunks.

Symbols: L layers, K kinds of layer (dense, mixture-of-experts), C = p v chunks, p ranks.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from models.cost.pipeline.actions import round_robin

Integers = NDArray[np.int64]

TIME_STEPS = 2**24
"""Parts the whole model's time is counted in: equal times stay equal, others differ to 1e-7. [1]"""

Key = tuple[int, int, int, int]
"""What splits are compared by: longest chunk, longest rank, peak bytes, asymmetry; less is better."""


@dataclass(frozen=True)
class StageProblem:
    """Everything a split depends on."""

    kinds: tuple[int, ...]
    """Kind of each layer, (L,)."""
    time: tuple[float, ...]
    """A micro-batch through a layer of each kind, forward and backward, (K,). [s]"""
    state_bytes: tuple[int, ...]
    """What a layer of each kind keeps whatever is in flight, (K,). [B]"""
    activation_bytes: tuple[int, ...]
    """What a layer of each kind keeps of one micro-batch, (K,). [B]"""
    rank_of: tuple[int, ...]
    """Rank that runs each chunk, (C,)."""
    in_flight: tuple[float, ...]
    """Micro-batches whose activations a chunk's rank holds, (C,). [1]"""
    extra_time: tuple[float, ...]
    """What a chunk runs beside its layers, (C,). [s]"""
    extra_bytes: tuple[int, ...]
    """What a chunk keeps beside its layers, (C,). [B]"""
    limit_bytes: tuple[int, ...]
    """What each rank may hold, (p,). [B]"""
    least_layers: tuple[int, ...]
    """Fewest layers of each chunk, (C,): 0 where the embedding or the head may stand alone."""

    @classmethod
    def uniform(
        cls,
        layers: int,
        pp: int,
        vpp: int = 1,
        *,
        first_time: float = 0.0,
        last_time: float = 0.0,
        in_flight: tuple[float, ...] | None = None,
        empty_ends: bool = True,
    ) -> "StageProblem":
        """Return equal layers of time 1 and one byte a micro-batch, without a limit, 1F1B's in flight.

        >>> StageProblem.uniform(4, 2, last_time=0.5).extra_time
        (0.0, 0.5)
        """
        chunks = pp * vpp
        ends = [0.0] * chunks
        ends[0] += first_time
        ends[-1] += last_time
        held = in_flight or tuple(float(pp - rank) for rank in round_robin(pp, vpp))
        least = [1] * chunks
        if empty_ends and chunks > 1:
            least[0] = least[-1] = 0
        no_limit = (2**40,) * pp
        return cls(
            kinds=(0,) * layers,
            time=(1.0,),
            state_bytes=(0,),
            activation_bytes=(1,),
            rank_of=round_robin(pp, vpp),
            in_flight=held,
            extra_time=tuple(ends),
            extra_bytes=(0,) * chunks,
            limit_bytes=no_limit,
            least_layers=tuple(least),
        )

    @property
    def layers(self) -> int:
        """Decoder layers, L."""
        return len(self.kinds)

    @property
    def chunks(self) -> int:
        """Chunks, C."""
        return len(self.rank_of)

    @property
    def ranks(self) -> int:
        """Ranks of the pipeline, p."""
        return len(self.limit_bytes)

    @cached_property
    def one_each(self) -> bool:
        """Whether every rank runs one chunk: then a rank's cost is a chunk's."""
        return self.chunks == self.ranks

    @cached_property
    def time_steps(self) -> tuple[Integers, Integers]:
        """Time of a layer of each kind and of each chunk's extra, in whole steps, (K,) and (C,)."""
        layer, extra = np.asarray(self.time), np.asarray(self.extra_time)
        whole = float(layer[list(self.kinds)].sum() + extra.sum())
        step = whole / TIME_STEPS if whole > 0 else 1.0
        return np.rint(layer / step).astype(np.int64), np.rint(extra / step).astype(np.int64)

    @cached_property
    def layer_bytes(self) -> Integers:
        """Whole bytes a layer of kind k keeps on chunk c, (C, K)."""
        held = np.asarray(self.in_flight)[:, None] * np.asarray(self.activation_bytes)
        return np.asarray(np.ceil(held).astype(np.int64) + np.asarray(self.state_bytes, dtype=np.int64))

    @cached_property
    def counts(self) -> Integers:
        """Layers of each kind before each cut, (L + 1, K)."""
        one = np.eye(len(self.time), dtype=np.int64)[list(self.kinds)]
        return np.concatenate([np.zeros((1, len(self.time)), dtype=np.int64), np.cumsum(one, axis=0)])

    @cached_property
    def time_before(self) -> Integers:
        """Time of the layers before each cut, in whole steps, (L + 1,)."""
        return np.asarray(self.counts @ self.time_steps[0])


@dataclass(frozen=True)
class Cost:
    """What a split makes of its problem."""

    chunk_steps: Integers
    """Time of each chunk, (C,). [steps]"""
    rank_steps: Integers
    """Time of each rank, (p,). [steps]"""
    rank_bytes: Integers
    """What each rank holds, (p,). [B]"""
    asymmetry: int
    """Layers by which chunks differ from their mirror images."""
    fits: bool
    """Whether every rank keeps its limit and every chunk its fewest layers."""

    @property
    def key(self) -> Key:
        """What splits are compared by."""
        longest, chunk = int(self.rank_steps.max()), int(self.chunk_steps.max())
        return chunk, longest, int(self.rank_bytes.max()), self.asymmetry


def cost_of(problem: StageProblem, split: tuple[int, ...]) -> Cost:
    """Price a split.

    >>> cost_of(StageProblem.uniform(30, 4), (7, 8, 8, 7)).rank_bytes.tolist()
    [28, 24, 16, 7]
    """
    cuts = np.concatenate([[0], np.cumsum(split)])
    held = np.diff(problem.counts[cuts], axis=0)
    layer, extra = problem.time_steps
    steps = held @ layer + extra
    chunk_bytes = (held * problem.layer_bytes).sum(axis=1) + np.asarray(problem.extra_bytes, dtype=np.int64)
    rank_steps, rank_bytes = np.zeros((2, problem.ranks), dtype=np.int64)
    np.add.at(rank_steps, list(problem.rank_of), steps)
    np.add.at(rank_bytes, list(problem.rank_of), chunk_bytes)
    within = bool((rank_bytes <= np.asarray(problem.limit_bytes)).all())
    enough = all(have >= least for have, least in zip(split, problem.least_layers, strict=True))
    return Cost(steps, rank_steps, rank_bytes, asymmetry(split), within and enough)


def asymmetry(split: tuple[int, ...]) -> int:
    """Return by how many layers chunks differ from their mirror images.

    >>> asymmetry((7, 8, 8, 7)), asymmetry((8, 8, 7, 7))
    (0, 2)
    """
    half = len(split) // 2
    return sum(abs(a - b) for a, b in zip(split[:half], split[::-1][:half], strict=True))


def smallest_longest_chunk(problem: StageProblem) -> int:
    """Return the least time the longest chunk can take, memory aside, in steps.

    The least cap under which filling chunks one after the other uses up the layers.
    """
    _, extra = problem.time_steps
    low, high = int(extra.max()) - 1, int(problem.time_before[-1] + extra.max())
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if windows(problem, middle) is not None else (middle, high)
    return high


def least_longest_rank(problem: StageProblem) -> int:
    """Return a time no split's longest rank falls below, memory aside, in steps.

    The larger of the mean, and of the least time in which ranks of the shortest layers hold them all.

    >>> problem = StageProblem.uniform(126, 32, 3, last_time=0.66)
    >>> bool(least_longest_rank(problem) == 4 * problem.time_steps[0][0])
    True
    """
    layer, extra = problem.time_steps
    beside = np.zeros(problem.ranks, dtype=np.int64)
    np.add.at(beside, list(problem.rank_of), extra)
    whole = int(problem.time_before[-1] + extra.sum())
    mean, shortest = -(-whole // problem.ranks), int(layer.min())
    if shortest == 0:
        return max(mean, int(beside.max()))
    low, high = int(beside.max()) - 1, whole
    while high - low > 1:
        middle = (low + high) // 2
        enough = int(((middle - beside) // shortest).sum()) >= problem.layers
        low, high = (low, middle) if enough else (middle, high)
    return max(mean if len(layer) > 1 else 0, high)


def windows(problem: StageProblem, cap: int) -> list[tuple[int, int]] | None:
    """Return the range of every cut when no chunk takes longer than the cap; nothing where none can be.

    Cut c is the number of layers before chunk c, c = 0 … C.
    """
    _, extra = problem.time_steps
    before, least = problem.time_before, problem.least_layers
    ahead = np.cumsum([0, *least[::-1]])[::-1].tolist()
    furthest = [0]
    for chunk in range(problem.chunks):
        room = cap - extra[chunk] + before[furthest[-1]]
        cut = int(np.searchsorted(before, room, side="right")) - 1
        furthest.append(min(cut, problem.layers - ahead[chunk + 1]))
        if furthest[-1] < furthest[-2] + least[chunk]:
            return None
    return None if furthest[-1] < problem.layers else _from_the_end(problem, cap, furthest)


def _from_the_end(problem: StageProblem, cap: int, furthest: list[int]) -> list[tuple[int, int]] | None:
    """Put the nearest place of every cut beside the furthest: chunks as long as can be from the last on."""
    _, extra = problem.time_steps
    before, least = problem.time_before, problem.least_layers
    behind = np.cumsum([0, *least]).tolist()
    nearest = [problem.layers]
    for chunk in reversed(range(problem.chunks)):
        room = before[nearest[-1]] - cap + extra[chunk]
        cut = int(np.searchsorted(before, room, side="left"))
        nearest.append(max(cut, behind[chunk]))
    found = list(zip(nearest[::-1], furthest, strict=True))
    return found if all(low <= high for low, high in found) else None
