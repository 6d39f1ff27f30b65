"""Activations each rank holds while a schedule runs: at each moment, and at the most.

A forward's activations are held from its start until the end of the whole backward; with split
backwards a part may go at the end of the input half and the rest at the end of the weight half.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.pipeline.actions import Kind, Schedule, actions_of, parts
from models.cost.pipeline.simulate import Timeline

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Held:
    """What one rank holds from each moment on."""

    moments: Array
    """Times at which the amount changes, (M,)."""
    amounts: Array
    """Held from each of them on, (M,); in chunk activations unless stages were weighed."""

    @property
    def peak(self) -> float:
        """The most."""
        return float(self.amounts.max(initial=0.0))


def held_over_time(
    timeline: Timeline, weights: Sequence[float] | None = None, freed_at_input: float = 0.0
) -> tuple[Held, ...]:
    """Return what every rank holds over time.

    Parameters
    ----------
    timeline
        The schedule as it ran.
    weights
        What one micro-batch's activations weigh on each stage, (S,); 1 unless given.
    freed_at_input
        Part freed by the input half of a split backward: 0 keeps all until the weight half. [1]
    """
    return tuple(_of_rank(timeline, rank, weights, freed_at_input) for rank in range(timeline.schedule.ranks))


def peaks(schedule: Schedule, weights: Sequence[float] | None = None, freed_at_input: float = 0.0) -> Array:
    """Return the most each rank holds, (p,): its order alone decides, whatever actions take.

    >>> from models.cost.pipeline.looped import one_f_one_b
    >>> peaks(one_f_one_b(4, 8)).tolist()
    [4.0, 3.0, 2.0, 1.0]
    """
    found = []
    for order in schedule.orders:
        changes = [
            _change(action.kind, action.stage, weights, freed_at_input) for action in actions_of(order)
        ]
        found.append(np.cumsum(changes).max(initial=0.0))
    return np.array(found)


def _change(kind: Kind, stage: int, weights: Sequence[float] | None, freed_at_input: float) -> float:
    weight = 1.0 if weights is None else weights[stage]
    part = {
        Kind.FORWARD: 1.0,
        Kind.BACKWARD: -1.0,
        Kind.INPUT: -freed_at_input,
        Kind.WEIGHT: freed_at_input - 1,
    }
    return weight * part[kind]


def _of_rank(timeline: Timeline, rank: int, weights: Sequence[float] | None, freed_at_input: float) -> Held:
    events = []
    for place, (slot, start, end) in enumerate(timeline.slots(rank)):
        for action in parts(slot):
            change = _change(action.kind, action.stage, weights, freed_at_input)
            is_forward = action.kind is Kind.FORWARD
            events.append((start if is_forward else end, place, not is_forward, change))
    events.sort(key=lambda event: event[:3])
    moments = np.array([event[0] for event in events])
    return Held(moments, np.cumsum([event[3] for event in events]))
