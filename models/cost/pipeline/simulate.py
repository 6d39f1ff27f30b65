"""Event simulation of a schedule: when every action starts and ends, who waits, what is held.

A rank runs its slots in order; a slot starts when the rank is free and its inputs have arrived.
A forward needs the stage before, a backward the stage after, of the same micro-batch.

Limits
------
A message delays its receiver and occupies nobody: links are not shared, sends never block.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.pipeline.actions import Action, Kind, Schedule, Slot

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Durations:
    """How long each action takes; slots or seconds."""

    forward: tuple[float, ...]
    """Of each stage, (S,)."""
    input_gradient: tuple[float, ...]
    """Of each stage, (S,)."""
    weight_gradient: tuple[float, ...]
    """Of each stage, (S,); a full backward takes both gradients' time."""
    send: tuple[float, ...]
    """A message between stage s and s + 1 where they are on different ranks, either way, (S - 1,).

    Of the direction the first micro-batches take: between the same ranks others take as long."""
    pair_share: float = 1.0
    """An overlapped pair's time over its two parts' sum. [1]"""

    @classmethod
    def of(
        cls,
        stages: int,
        forward: ArrayLike = 1.0,
        input_gradient: ArrayLike = 1.0,
        weight_gradient: ArrayLike = 1.0,
        send: ArrayLike = 0.0,
        pair_share: float = 1.0,
    ) -> "Durations":
        """Spread one value over all stages, or take a value for each.

        >>> Durations.of(2, forward=[1, 2]).forward
        (1.0, 2.0)
        """
        f, i, w = (_spread(value, stages) for value in (forward, input_gradient, weight_gradient))
        return cls(f, i, w, _spread(send, max(stages - 1, 0)), pair_share)

    def of_action(self, action: Action) -> float:
        """Return the time of one computation."""
        if action.kind is Kind.FORWARD:
            return self.forward[action.stage]
        if action.kind is Kind.INPUT:
            return self.input_gradient[action.stage]
        if action.kind is Kind.WEIGHT:
            return self.weight_gradient[action.stage]
        return self.input_gradient[action.stage] + self.weight_gradient[action.stage]


def _spread(value: ArrayLike, length: int) -> tuple[float, ...]:
    return tuple(np.broadcast_to(np.asarray(value, dtype=np.float64), (length,)).tolist())


@dataclass(frozen=True)
class Timeline:
    """A schedule with times."""

    schedule: Schedule
    starts: tuple[Array, ...]
    """Start of each slot of each rank."""
    ends: tuple[Array, ...]
    """End of each slot of each rank."""

    @property
    def span(self) -> float:
        """First start to last end."""
        return float(max(ends[-1] for ends in self.ends) - min(starts[0] for starts in self.starts))

    @property
    def busy(self) -> Array:
        """Time each rank computes, (p,)."""
        pairs = zip(self.starts, self.ends, strict=True)
        return np.array([(ends - starts).sum() for starts, ends in pairs])

    @property
    def own_spans(self) -> Array:
        """Each rank's first start to its own last end, (p,)."""
        pairs = zip(self.starts, self.ends, strict=True)
        return np.array([ends[-1] - starts[0] for starts, ends in pairs])

    @property
    def idle(self) -> Array:
        """Time each rank waits within the whole span, (p,)."""
        return self.span - self.busy

    @property
    def idle_inside(self) -> Array:
        """Time each rank waits between its own first start and last end, (p,)."""
        return self.own_spans - self.busy

    @property
    def bubble_of_total(self) -> float:
        """Idle over all ranks' time. [1]."""
        return float(self.idle.sum() / (self.span * self.schedule.ranks))

    @property
    def bubble_of_compute(self) -> float:
        """Idle over busy time. [1]."""
        return float(self.idle.sum() / self.busy.sum())

    def slots(self, rank: int) -> Iterator[tuple[Slot, float, float]]:
        """Each slot of a rank with its start and end."""
        times = zip(self.starts[rank].tolist(), self.ends[rank].tolist(), strict=True)
        for slot, (start, end) in zip(self.schedule.orders[rank], times, strict=True):
            yield slot, start, end


def simulate(schedule: Schedule, durations: Durations | None = None) -> Timeline:
    """Run a schedule; forwards and both gradients take 1 unless told.

    Raises
    ------
    ValueError
        The orders wait for each other for ever.

    Examples
    --------
    >>> from models.cost.pipeline.looped import one_f_one_b
    >>> timeline = simulate(one_f_one_b(4, 8))
    >>> timeline.span, timeline.idle.tolist()
    (33.0, [9.0, 9.0, 9.0, 9.0])
    """
    run = _Run(schedule, durations or Durations.of(schedule.stages))
    pending = list(range(schedule.ranks))
    while pending:
        pending += run.advance(pending.pop())
    stuck = [
        order[len(ends)]
        for order, ends in zip(schedule.orders, run.ends, strict=True)
        if len(ends) < len(order)
    ]
    if stuck:
        raise ValueError(f"{schedule.name}: the ranks wait for each other, next are {stuck}")
    return Timeline(schedule, _arrays(run.starts), _arrays(run.ends))


def _arrays(lists: Sequence[Sequence[float]]) -> tuple[Array, ...]:
    return tuple(np.array(times, dtype=np.float64) for times in lists)


WAITING = -1.0
"""Not arrived yet."""


class _Run:
    """Every rank as far as its inputs let it run."""

    def __init__(self, schedule: Schedule, durations: Durations) -> None:
        self.schedule, self.durations = schedule, durations
        self.starts: list[list[float]] = [[] for _ in schedule.orders]
        self.ends: list[list[float]] = [[] for _ in schedule.orders]
        self._blocked = [False] * schedule.ranks
        runs, stages = schedule.micro_batches, schedule.stages
        self._arrived = {forward: [[WAITING] * runs for _ in range(stages)] for forward in (True, False)}
        self._arrived[True][0] = [0.0] * runs
        """When each stage has each micro-batch's input, forwards and backwards."""
        self._links = list(map(self._next, schedule.placements, schedule.boundaries))
        both = [a + b for a, b in zip(durations.input_gradient, durations.weight_gradient, strict=True)]
        self._times = {
            Kind.FORWARD: durations.forward,
            Kind.BACKWARD: tuple(both),
            Kind.INPUT: durations.input_gradient,
            Kind.WEIGHT: durations.weight_gradient,
        }

    def _next(
        self, place: tuple[int, ...], boundaries: tuple[int, ...]
    ) -> dict[bool, list[tuple[int, int, float] | None]]:
        """Where each stage's output goes (stage, rank) and how long it travels; nowhere from the first."""
        send, last = self.durations.send, len(place) - 1
        hops = [send[b] if place[s] != place[s + 1] else 0.0 for s, b in enumerate(boundaries)]
        forth = [(s + 1, place[s + 1], hops[s]) for s in range(last)]
        back = [(s - 1, place[s - 1], hops[s - 1]) for s in range(1, last + 1)]
        return {True: [*forth, (last, place[last], 0.0)], False: [None, *back]}

    def advance(self, rank: int) -> list[int]:
        """Run a rank until an input is missing; return the ranks its outputs set going."""
        order, starts, ends = self.schedule.orders[rank], self.starts[rank], self.ends[rank]
        now = ends[-1] if ends else 0.0
        woken: list[int] = []
        self._blocked[rank] = False
        for place in range(len(ends), len(order)):
            slot = order[place]
            work = (slot,) if isinstance(slot, Action) else (slot.forward, slot.backward)
            start, took = now, 0.0
            for kind, stage, micro_batch in work:
                took += self._times[kind][stage]
                if kind is not Kind.WEIGHT:
                    ready = self._arrived[kind is Kind.FORWARD][stage][micro_batch]
                    if ready == WAITING:
                        self._blocked[rank] = True
                        return woken
                    start = max(start, ready)
            now = start + (took if len(work) == 1 else took * self.durations.pair_share)
            starts.append(start)
            ends.append(now)
            for kind, stage, micro_batch in work:
                if kind is not Kind.WEIGHT:
                    self._deliver(kind is Kind.FORWARD, stage, micro_batch, now, woken)
        return woken

    def _deliver(self, forward: bool, stage: int, micro_batch: int, end: float, woken: list[int]) -> None:
        """Hand an output to the next stage, or the last forward to its own backward."""
        way = micro_batch * len(self._links) // self.schedule.micro_batches
        link = self._links[way][forward][stage]
        if link is None:
            return
        to, rank, travel = link
        self._arrived[forward and to != stage][to][micro_batch] = end + travel
        if self._blocked[rank]:
            self._blocked[rank] = False
            woken.append(rank)
