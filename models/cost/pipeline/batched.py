"""One schedule run with N sets of durations at once: exact times of the layouts on a shortlist.

The slots are sorted into levels, each needing only slots of earlier levels; a level is a few numpy
operations on (slots of the level, N). Times equal `simulate`'s to rounding.

Symbols: N layouts, S stages, K slots of all ranks.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.pipeline.actions import Action, Kind, Pair, Schedule, parts
from models.cost.pipeline.simulate import simulate

Array = NDArray[np.float64]
Index = NDArray[np.int64]

COLUMN = {Kind.FORWARD: 0, Kind.INPUT: 1, Kind.WEIGHT: 2, Kind.BACKWARD: 3}
"""Block of S rows of the durations each kind reads."""


@dataclass(frozen=True)
class Level:
    """Slots that can be timed together; absent needs point at row K, which stays 0."""

    slots: Index
    before: Index
    """The slot before on the same rank."""
    needs: Index
    """Slots whose outputs are needed, two a slot."""
    links: Index
    """Boundary each output crosses, S - 1 for none."""
    work: Index
    """Rows of the durations, two a slot."""
    paired: NDArray[np.bool_]
    """Whether the slot is an overlapped pair."""


@dataclass(frozen=True)
class Program:
    """A schedule ready to be timed many times."""

    stages: int
    slots: int
    levels: tuple[Level, ...]
    first: Index
    """First slot of each rank, (p,)."""
    last: Index
    """Last slot of each rank, (p,)."""


def compiled(schedule: Schedule) -> Program:
    """Sort a schedule's slots into levels."""
    ids = _numbers(schedule)
    stops = np.cumsum([len(order) for order in schedule.orders])
    made = _Outputs(schedule, ids)
    level_of: dict[int, int] = {}
    rows: dict[int, list[tuple[int, int, list[int], list[int], list[int], bool]]] = defaultdict(list)
    count = int(stops[-1])
    for rank, place in _by_time(schedule):
        slot = schedule.orders[rank][place]
        me = ids[rank][place]
        before = me - 1 if place else count
        needs, links = made.needed(slot if isinstance(slot, Action) else slot.forward)
        if isinstance(slot, Pair):
            more = made.needed(slot.backward)
            needs, links = needs + more[0], links + more[1]
        level_of[me] = 1 + max((level_of.get(other, -1) for other in (before, *needs)), default=-1)
        work = [COLUMN[part.kind] * schedule.stages + part.stage for part in parts(slot)]
        rows[level_of[me]].append((me, before, needs, links, work, isinstance(slot, Pair)))
    levels = tuple(_level(rows[key], count, schedule.stages) for key in sorted(rows))
    first = np.concatenate([[0], stops[:-1]]).astype(np.int64)
    return Program(schedule.stages, count, levels, first, stops.astype(np.int64) - 1)


@dataclass(frozen=True)
class Spans:
    """Times of N runs."""

    span: Array
    """First start to last end, (N,)."""
    own: Array
    """Each rank's first start to its own last end, (N, p)."""
    busy: Array
    """Time each rank computes, (N, p)."""

    @property
    def idle(self) -> Array:
        """Time each rank waits within the whole span, (N, p)."""
        return np.asarray(self.span[:, None] - self.busy)


def run(
    program: Program,
    forward: ArrayLike,
    input_gradient: ArrayLike,
    weight_gradient: ArrayLike,
    send: ArrayLike = 0.0,
    pair_share: ArrayLike = 1.0,
) -> Spans:
    """Time a schedule N times.

    Parameters
    ----------
    program
        The schedule.
    forward, input_gradient, weight_gradient
        Of each stage, (N, S). [s]
    send
        A message between neighbouring stages, (N, S - 1) or one for all. [s]
    pair_share
        An overlapped pair's time over its parts' sum, (N,) or one for all. [1]
    """
    durations = _durations(program, forward, input_gradient, weight_gradient)
    layouts = durations.shape[1]
    share = np.broadcast_to(np.asarray(pair_share, dtype=np.float64), (layouts,))
    links = np.zeros((program.stages, layouts))
    links[:-1] = np.broadcast_to(np.asarray(send, dtype=np.float64), (layouts, program.stages - 1)).T
    ends = np.zeros((program.slots + 1, layouts))
    took = np.zeros((program.slots, layouts))
    for level in program.levels:
        time = durations[level.work].sum(axis=1)
        time[level.paired] *= share
        arrived = (ends[level.needs] + links[level.links]).max(axis=1)
        took[level.slots] = time
        ends[level.slots] = np.maximum(ends[level.before], arrived) + time
    starts = ends[program.first] - took[program.first]
    last = ends[program.last]
    busy = np.add.reduceat(took, program.first, axis=0)
    return Spans(last.max(axis=0) - starts.min(axis=0), (last - starts).T, busy.T)


def _durations(program: Program, forward: ArrayLike, inputs: ArrayLike, weights: ArrayLike) -> Array:
    """Rows of forwards, input and weight gradients, full backwards, and a zero, (4 S + 1, N)."""
    times = [np.atleast_2d(np.asarray(value, dtype=np.float64)) for value in (forward, inputs, weights)]
    f, i, w = np.broadcast_arrays(*times)
    zero = np.zeros((len(f), 1))
    return np.concatenate([f, i, w, i + w, zero], axis=1).T


def _numbers(schedule: Schedule) -> list[range]:
    """Number every slot, rank after rank."""
    stops = np.cumsum([0, *(len(order) for order in schedule.orders)]).tolist()
    return [range(start, stop) for start, stop in pairwise(stops)]


def _by_time(schedule: Schedule) -> Iterator[tuple[int, int]]:
    """Every slot as (rank, place) in an order that respects all needs."""
    timeline = simulate(schedule)
    found = [(end, rank, place) for rank, ends in enumerate(timeline.ends) for place, end in enumerate(ends)]
    for _, rank, place in sorted(found):
        yield rank, place


class _Outputs:
    """Which slot makes what an action needs."""

    def __init__(self, schedule: Schedule, ids: list[range]) -> None:
        self._schedule, self._boundaries = schedule, schedule.boundaries
        self._made: dict[tuple[bool, int, int], int] = {}
        for numbers, order in zip(ids, schedule.orders, strict=True):
            for number, slot in zip(numbers, order, strict=True):
                for kind, stage, micro_batch in parts(slot):
                    if kind is not Kind.WEIGHT:
                        self._made[kind is Kind.FORWARD, stage, micro_batch] = number

    def needed(self, action: Action) -> tuple[list[int], list[int]]:
        """Slots that make an action's input, and the boundary it crosses."""
        kind, stage, micro_batch = action
        forward = kind is Kind.FORWARD
        other = stage - 1 if forward else stage + 1
        last = self._schedule.stages - 1
        if kind is Kind.WEIGHT or other < 0:
            return [], []
        if other > last:
            return [self._made[True, stage, micro_batch]], [last]
        place = self._schedule.rank_of
        apart = place(stage, micro_batch) != place(other, micro_batch)
        way = micro_batch * len(self._boundaries) // self._schedule.micro_batches
        boundary = self._boundaries[way][min(stage, other)]
        return [self._made[forward, other, micro_batch]], [boundary if apart else last]


def _level(
    rows: list[tuple[int, int, list[int], list[int], list[int], bool]], count: int, stages: int
) -> Level:
    def two(values: list[int], filler: int) -> list[int]:
        return [*values, filler, filler][:2]

    return Level(
        slots=np.array([row[0] for row in rows]),
        before=np.array([row[1] for row in rows]),
        needs=np.array([two(row[2], count) for row in rows]),
        links=np.array([two(row[3], stages - 1) for row in rows]),
        work=np.array([two(row[4], 4 * stages) for row in rows]),
        paired=np.array([row[5] for row in rows]),
    )
